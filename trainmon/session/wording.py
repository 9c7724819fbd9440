"""Names, ages and short texts that the session puts into the snapshot. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from trainmon.units import AGES

_DIGITS = re.compile(r"(\d+)")
_HEX = re.compile(r"0x[0-9a-fA-F]+|\b(?=[0-9a-f]*\d)[0-9a-f]{8,}\b")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*(?:e[+-]?\d+)?")
_LOG_ENDINGS = (".jsonl", ".json", ".log", ".out", ".err", ".txt", ".csv")
_STREAM_ENDINGS = (".stdout", ".stderr", ".out", ".err")
_STEPS_S = (*AGES[1:], 3600, 7200, 10800, 14400, 21600, 43200)


@lru_cache(maxsize=16_384)
def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """A sort key under which worker-2 comes before worker-10."""
    return tuple((1, int(part[:18]), "") if part.isdecimal() else (0, 0, part) for part in _DIGITS.split(name) if part)


def coarse(age_s: float) -> float:
    """An age rounded down to the steps that are worth a change on screen: 0, 10 s, 30 s, 1 m, 2 m, 5 m, ...

    Args:
        age_s: Seconds; negative ones (a clock that was set) count as 0.
    """
    if age_s >= 86400.0:
        return float(age_s // 86400 * 86400)
    found = 0
    for step in _STEPS_S:
        if age_s < step:
            break
        found = step
    return float(found)


def age_words(age_s: float) -> str:
    """A coarse age as text: "30 s", "2 m", "3 h", "2 d"."""
    if age_s < 60:
        return f"{int(age_s)} s"
    if age_s < 3600:
        return f"{int(age_s // 60)} m"
    if age_s < 86400:
        return f"{int(age_s // 3600)} h"
    return f"{int(age_s // 86400)} d"


def masked(text: str) -> str:
    """The words of a message without what differs from line to line: numbers and addresses."""
    return _NUMBER.sub("#", _HEX.sub("#", text))[:200]


@lru_cache(maxsize=16_384)
def stem(name: str) -> str:
    """The file's name without folder and log ending: "logs/worker-0.log" gives "worker-0"."""
    base = name.rstrip("/").rsplit("/", 1)[-1]
    for endings in (_LOG_ENDINGS, _STREAM_ENDINGS):
        for ending in endings:
            if base.lower().endswith(ending) and len(base) > len(ending):
                base = base[: -len(ending)]
                break
    return base


def run_name(names: Sequence[str]) -> str:
    """What the names of the files have in common, else their folder; "" when nothing is worth showing.

    >>> run_name(["logs/worker-0.log", "logs/worker-1.log"])
    'worker'
    """
    if not names:
        return ""
    stems = [stem(name) for name in names]
    if len(stems) == 1:
        return stems[0] if stems[0] != "-" else "stdin"
    low, high = min(stems), max(stems)
    length = 0
    while length < min(len(low), len(high)) and low[length] == high[length]:
        length += 1
    common = low[:length].rstrip("-_. 0123456789")
    if len(common) >= 2:
        return common
    folders = {name.rsplit("/", 1)[0] if "/" in name else "" for name in names}
    if len(folders) == 1:
        return folders.pop().rsplit("/", 1)[-1]
    return ""


def span_words(names: Iterable[str], noun: str = "nodes", many: int = 2) -> str:
    """Some names as one short text: "worker-2", "worker-2, worker-5", "7 nodes"."""
    ordered = sorted(set(names), key=natural)
    if len(ordered) <= many:
        return ", ".join(ordered)
    return f"{len(ordered)} {noun}"


def rank_words(ranks: Iterable[int]) -> str:
    """Some ranks as one short text: "rank 19", "ranks 16–23", "ranks 1, 5", "12 ranks"."""
    ordered = sorted(set(ranks))
    if not ordered:
        return ""
    if len(ordered) == 1:
        return f"rank {ordered[0]}"
    if ordered[-1] - ordered[0] + 1 == len(ordered):
        return f"ranks {ordered[0]}–{ordered[-1]}"
    if len(ordered) <= 3:
        return "ranks " + ", ".join(str(rank) for rank in ordered)
    return f"{len(ordered)} ranks"


@lru_cache(maxsize=16_384)
def pattern_of(name: str) -> str:
    """A name with its numbers replaced: files of one set share it."""
    return _DIGITS.sub("#", stem(name))


def finite(value: object) -> float | None:
    """The value as a finite float, else None."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        number = float(value)
        if number - number == 0.0:
            return number
    return None


def number(value: object) -> float | None:
    """The value as a float (NaN and infinities too), None when it is no number."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    return None


CHECKPOINT_BEGINS = re.compile(
    r"(?<!finished )\b(?:saving|start(?:ing|ed)? (?:to )?sav|begin(?:ning)? (?:to )?sav)", re.IGNORECASE
)
"""A message about a checkpoint that is not there yet."""
_TOOK = re.compile(
    r"\b(?:in|took|after|time:?)\s+(\d+(?:\.\d+)?)\s?(ms|s|sec(?:onds?)?|min(?:utes?)?)\b", re.IGNORECASE
)
_CHECKPOINT_EPOCH = re.compile(r"epochs?[-_ =:]{0,2}(\d{1,9})\b|\b(\d{1,9}) epochs?\b", re.IGNORECASE)
_CHECKPOINT_STEP = re.compile(r"(?:step|iter|iteration|checkpoint)s?[-_ =:]{0,8}0*(\d{1,15})\b", re.IGNORECASE)


def duration_in(message: str) -> float | None:
    """Seconds that a message says something took ("in 14.0 s", "took 350 ms"), else None."""
    found = _TOOK.search(message)
    if found is None:
        return None
    unit = found[2].lower()
    return float(found[1]) / 1000.0 if unit == "ms" else float(found[1]) * (60.0 if unit.startswith("min") else 1.0)


def epoch_of_checkpoint(message: str) -> str:
    """ "epoch 13" where a message about a checkpoint names it, else ""."""
    found = _CHECKPOINT_EPOCH.search(message)
    return f"epoch {int(found[1] or found[2]):,}" if found else ""


def step_of_checkpoint(message: str) -> int | None:
    """The step that a checkpoint's name or message tells ("checkpoint-1000", "global_step1000"), else None."""
    found = _CHECKPOINT_STEP.search(message)
    return int(found[1]) if found else None


def shortened(text: str, most: int) -> str:
    """The text, or its beginning and an ellipsis: at most `most` characters."""
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"
