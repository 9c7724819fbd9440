"""The rarer fronts of a line: times in other spellings, host labels without brackets, ranks in words.

`prefix.peel` asks here where its own table knows nothing. A label without brackets is taken for a host's only where it
looks like one and no number follows it: `node001: `, `algo-1-x7f | `, not `fold-3: 0.91`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from trainmon.parsing import times

_LEVELS = "DEBUG|INFO|NOTICE|WARNING|WARN|ERROR|FATAL|CRITICAL|CRIT|SEVERE|TRACE|SUCCESS"
_MONTH = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_WEEK = "Mon|Tue|Wed|Thu|Fri|Sat|Sun"
_DAY = r"\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
_NO_HOSTS = (
    "step|epoch|ep|iter|iters|iteration|loss|layer|fold|gpu|cuda|rank|top|acc|stage|expert|batch|device|exp|run|trial|seed"
    "|phase|block|conv|task|group|param|class|val|valid|test|train|round|part|chunk|shard|case|example|sample|item|idx|head"
    "|level|line|col|row|page|chapter|figure|fig|table|eq|section|version|python|cpu|mem|port|http|utf|sha|md|mp|id|rev|gpt"
    "|llama|qwen|qwen2|resnet|bert|vit|yolo|yolov8|opt|lr|map|bleu|rouge|recall|precision|hit|hits|ndcg|update|episode|world"
    "|user|turn|message|question|answer|prompt|response|option|choice|note|fig|stage|expert|checkpoint|ckpt|dim|size|pass"
)
_HOST = (
    r"localhost|\d{1,3}(?:\.\d{1,3}){3}"
    rf"|(?!(?:{_NO_HOSTS}|[a-z])[-_.]?\d)"
    r"(?:(?:worker|node|host|machine|trainer|pod|server|compute|slave|ps)[-_.]?\d+|[a-z]{2,15}\d{2,5}(?:[-.][a-z0-9]+)*"
    r"|(?=[\w.-]*\d)[a-z][a-z0-9]*(?:-[a-z0-9]+)+(?:\.[a-z0-9.-]+)?)"
)
_NO_NUMBER = (
    r"(?!(?!\d{2,4}[-/]\d\d[-/]|\d\d:\d\d:|\d+ \| [a-z])"
    r"[-+]?[\d.,]+(?:[eE][-+]?\d+)?[%a-zA-Z]{0,3}(?:[\s,|;/)]|$)|(?:nan|inf)\b)"
)
_FRONT = re.compile(
    rf"""
      \[?(?P<us>\d\d/\d\d/\d{{4}})\s(?P<us_t>{_DAY})(?:\s(?P<us_h>[AP]M))?\]?
    | \[?(?P<yy>\d\d[/-]\d\d[/-]\d\d)[\s-](?P<yy_t>{_DAY})\]?
    | \[?(?P<ymd>20\d{{6}})[\sT_-](?P<ymd_t>\d\d:?\d\d:?\d\d)\]?(?!\d)
    | \[?(?P<zh>20\d\d年\d\d?月\d\d?日)\s?(?P<zh_t>\d\d?:\d\d:\d\d)\]?
    | \[?(?P<loose>20\d\d[-/.]\d\d?[-/.]\d\d?[T\s]\d\d?:\d\d(?::\d\d)?)\]?(?![\d:])
    | \[?(?P<bracket_md>(?<=\[)\d\d-\d\d)\s(?P<bracket_t>{_DAY})\]
    | \[?(?:{_WEEK}),?\s+(?P<c_m>{_MONTH})\s+(?P<c_d>\d\d?)\s(?P<c_t>{_DAY})
      (?:\s[A-Z]{{3,4}})?\s(?P<c_y>\d{{4}})\]?
    | \[?(?:(?:{_WEEK}),?\s+)?(?P<r_d>\d\d?)\s(?P<r_m>{_MONTH})\s(?P<r_y>\d{{4}})\s(?P<r_t>{_DAY})\]?
    | (?P<ts_m>{_MONTH})\s+(?P<ts_d>\d\d?)\s(?P<ts_t>{_DAY})(?=\s)
    | (?P<unix>1[5-9]\d{{8}}\.\d{{1,9}})(?=\s)
    | (?P<clock>{_DAY})(?=\s+(?:[|\[-]\s*)?(?:{_LEVELS})\b|\s+\[|\s+-\s|\s+[a-zA-Z]+\s?[:=\[]|\s+[a-zA-Z]+\s\d)
      (?!\s+(?:elapsed|remaining|left|eta|ago)\b)
    | \[(?P<module>[\w.]+)\](?=\s?\[\s*(?:{_LEVELS})\s*\])
    | [<(\[]?[Rr]ank[\s=:]?(?P<rank>\d{{1,9}})[>)\]]?(?::(?=\s)|(?=\s\|)|(?<=[>)\]])(?=\s))
    | \[(?:GPU|gpu|device|local_rank)[\s:_=]?(?P<local>\d{{1,4}})\]:?
    | (?P<stream>\[?std(?:out|err)\]?:?(?=\s))
    | (?P<zone>UTC|GMT|PST|PDT|MST|MDT|EST|EDT|CDT|CET|CEST|JST|KST)(?=\s)
    """,
    re.VERBOSE,
)
_ZONES = {"PST": 8, "PDT": 7, "MST": 7, "MDT": 6, "EST": 5, "EDT": 4, "CDT": 5}
_ZONES |= {"CET": -1, "CEST": -2, "JST": -9, "KST": -9}
"""Hours to add; abbreviations of several zones (CST, IST) are not known."""
_HEADS = frozenset("0123456789[<(")
_WORDS = frozenset([*_MONTH.split("|"), *_WEEK.split("|"), "ran", "Ran", "std", "UTC", "GMT", *(z[:3] for z in _ZONES)])
"""First characters, and first three letters, of such fronts."""
_LABEL = re.compile(rf"(?P<host>{_HOST})(?::\s+(?=\S){_NO_NUMBER}|\s{{0,20}}\|\s+(?=\S){_NO_NUMBER})")
_POD = re.compile(
    rf"(?P<pod>(?!(?:{_NO_HOSTS})[-_.]?\d)(?=[\w.-]*\d)[a-z][a-z0-9]*(?:-[a-z0-9]+)+)\s"
    r"(?:pytorch|tensorflow|main|trainer|worker|training|launcher|app|job|container|ray-\w+)\s(?=\S)|(?P<stern>[a-z][a-z0-9-]+)\s[a-z][a-z0-9-]*\s›\s"
)


@dataclass(slots=True)
class Front:
    """What such a front says; `end` is where it ends."""

    end: int
    time: float | None = None
    guessed: bool = False
    rank: int | None = None
    local_rank: int | None = None
    node: str | None = None
    module: str | None = None
    later: float = 0.0
    """Seconds that a zone behind a time adds to it."""


def front(text: str, at: int, mtime: float | None, *, timed: bool, inner: bool) -> Front | None:
    """The front at that place, if there is one.

    Args:
        mtime: The file's time, for times without year or date (Unix seconds).
        timed: A time stood before it, as a container runtime sets one before the program's own.
        inner: A level stood before it: what looks like a time is another thing then.
    """
    if text[at : at + 1] not in _HEADS and text[at : at + 3] not in _WORDS:
        return None
    match = _FRONT.match(text, at)
    if match is None:
        return None
    found, end = match.groupdict(), match.end()
    if found["rank"]:
        return Front(end, rank=int(found["rank"]))
    if found["local"]:
        return Front(end, local_rank=int(found["local"]))
    if found["module"]:
        return Front(end, module=found["module"][:100])
    if found["stream"]:
        return Front(end)
    if found["zone"]:
        return Front(end, later=_ZONES.get(found["zone"], 0) * 3600.0) if timed else None
    if timed and inner:
        return None
    when, guessed = _when(found, mtime)
    return Front(end, when, guessed) if when is not None or guessed else None


def label(text: str, at: int) -> Front | None:
    """A host's label at that place: `worker-1: `, `10.0.0.5: `, `algo-1-x7f | `, a pod and its container."""
    colon = text.find(":", at, at + 64)
    if (colon < 0 or " " in text[at:colon]) and "|" not in text[at : at + 64]:
        match = None
    else:
        match = _LABEL.match(text, at)
    if match is not None:
        return Front(match.end("host") + 1 if text[match.end("host")] == ":" else match.end(), node=match["host"])
    match = _POD.match(text, at) if "-" in text[at : at + 64] else None
    return Front(match.end(), node=match["pod"] or match["stern"]) if match is not None else None


def _when(found: dict[str, str | None], mtime: float | None) -> tuple[float | None, bool]:
    """The moment that a match tells, and whether year or day were guessed."""

    def of(name: str) -> str:
        return (found[name] or "").replace(",", ".")

    if found["us"]:
        one, two, year = of("us").split("/")
        month, day = (two, one) if int(one) > 12 else (one, two)
        when = times.iso(f"{year}-{month}-{day}T{of('us_t')}")
        hour = int(of("us_t")[:2])
        if when is not None and found["us_h"]:
            when += 43200.0 * ((found["us_h"] == "PM") - (hour >= 12))
        return when, False
    if found["yy"]:
        one, two, three = re.split("[/-]", of("yy"))
        date = f"20{three}-{one}-{two}" if int(one) <= 12 and int(three) > 12 else f"20{one}-{two}-{three}"
        return times.iso(f"{date}T{of('yy_t')}"), False
    if found["ymd"]:
        day, clock = of("ymd"), of("ymd_t").replace(":", "")
        return times.iso(f"{day[:4]}-{day[4:6]}-{day[6:]}T{clock[:2]}:{clock[2:4]}:{clock[4:]}"), False
    if found["zh"]:
        year, month, day = re.findall(r"\d+", of("zh"))
        return times.iso(f"{year}-{month}-{day} {of('zh_t')}"), False
    if found["loose"]:
        text = of("loose")
        return times.iso(text if text.count(":") > 1 else f"{text}:00"), False
    for name in ("c", "r"):
        if found[f"{name}_y"]:
            number = times.month(of(f"{name}_m")) or 0
            return times.iso(f"{of(f'{name}_y')}-{number:02d}-{int(of(f'{name}_d')):02d}T{of(f'{name}_t')}"), False
    if found["unix"]:
        return times.epoch(float(of("unix"))), False
    if found["clock"]:
        of_day = times.clock(of("clock"))
        return (None if of_day is None else times.without_date(of_day, mtime)), True
    name, number, day_ = ("ts_t", times.month(of("ts_m")) or 0, of("ts_d")) if found["ts_m"] else (
        "bracket_t", int(of("bracket_md")[:2]), of("bracket_md")[3:]
    )  # fmt: skip
    of_day = times.clock(of(name))
    return (None if of_day is None else times.without_year(number, int(day_), of_day, mtime)), True
