"""What stands in front of a message: launcher labels, time, level, rank, node, logger, file and line.

The front of a line is peeled token by token; everything after the last token is the message.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from trainmon.model import Level
from trainmon.parsing import times
from trainmon.parsing.clean import safe
from trainmon.parsing.fronts import Front, front, label
from trainmon.parsing.plan import LEVEL_NAMES

_LEVELS = "DEBUG|INFO|NOTICE|WARNING|WARN|ERROR|FATAL|CRITICAL|CRIT|SEVERE|TRACE|SUCCESS"
_ISO = r"\d{4}[-/.]\d\d[-/.]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d| UTC)?"
_NO_PROCESS = r"(?:epoch|step|iter\w*|loss|train\w*|valid\w*|val|test\w*|eval\w*|error|warning|info)\b"
_TOKEN = re.compile(
    rf"""
      \[(?P<env_t>{_ISO})\s(?P<env_l>(?-i:{_LEVELS}))\s+(?P<env_m>[\w:.]+)\]
    | (?P<iso>\[?{_ISO}(?:\]|:(?=\s))?)
    | (?P<rank>\[rank(?:[ :]?)(?P<rank_n>\d{{1,9}})\]:?)
    | (?P<local>\[default(?P<local_n>\d{{1,9}})\]:)
    | \[\s*(?P<level>{_LEVELS}|信息|警告|错误|严重)\s*(?::[\w.]+)?\]:?
    | <(?P<pri>\d{{1,3}})>(?:1\s(?=\d{{4}}-))?(?=[A-Z\d])
    | \d+\s---\s\[[^\]]{{0,80}}\]\s(?:\[[^\]]{{0,80}}\]\s)?(?P<spring>[\w.$\[\]/]+)\s*:
    | (?P<thread>\[(?!\d\d:\d\d|[Rr]ank)[^\[\]]{{1,60}}\])(?=\s+(?-i:{_LEVELS})\b)
    | (?P<access>[\da-fA-F.:]{{3,45}}\s\S{{1,80}}\s\S{{1,80}}\s
      \[\d\d/[A-Z][a-z]{{2}}/\d{{4}}:\d\d:\d\d:\d\d\s[+-]\d{{4}}\])(?=\s")
    | (?P<nginx>\d+\#\d+:(?:\s\*\d+)?(?=\s))
    | (?P<bare>{_LEVELS})(?=[\s:|\]\-—–]|$)(?::[\w.]+:(?=\S))?:?
    | \[NeMo\s(?P<nemo>[IWEDF])\s(?P<nemo_t>{_ISO})\s[^\]]*\]
    | \[(?P<hf>{_LEVELS})\|(?:(?P<hf_t>{_ISO})|[^\]\s]*)\](?:\s(?P<hf_f>[\w./]+:\d+))?(?:\s(?P<hf_t2>{_ISO}))?\s>>
    | \[?(?P<glog>[IWEFDC])(?P<glog_md>\d{{4}})\s(?P<glog_t>\d\d:\d\d:\d\d(?:\.\d+)?)\s+(?:\d+\s+)?
      (?P<glog_f>[\w./<>-]+:\d+)\]
    | \[?(?P<glog0>[IWEFDC])(?:\d{{4}}\s00:00:\d+\.\d+\s+\d+)?\s(?P<glog0_f>[\w./<>-]+\.(?:cc|cpp|cu|py|h):\d+)\]
    | (?P<nccl_h>[\w.-]+):\d+:\d+\s\[(?P<nccl_g>\d{{1,9}})\]\sNCCL\s(?P<nccl_l>INFO|WARN|ERROR)
    | \((?P<ray>\w+)\spid=\d+(?:,\sip=(?P<ray_ip>[\d.]+))?\)
    | \[pod/(?P<pod>[^/\]\s]+)/[^\]\s]+\]
    | (?P<cri>std(?:out|err)\s[FP](?=\s))
    | \[(?P<node>(?:worker|node|host|trainer|pod|master|ps)[\w.-]*?)(?::(?P<node_r>\d{{1,9}}))?\]:?
    | \[?(?P<md>\d\d/\d\d\s\d\d:\d\d:\d\d)(?:\s[\w.]+)?\]?:?
    | (?P<sys_m>Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\s+(?P<sys_d>\d\d?)\s(?P<sys_t>\d\d:\d\d:\d\d)\s
      (?P<sys_h>[A-Za-z][\w.-]*|[\d.]+|[\da-f]*:[\da-f:]+)\s(?!{_NO_PROCESS})(?P<sys_p>[A-Za-z/(][\w./()@-]*)(?:\[\d+\])?:
    | \[(?P<clock>\d\d:\d\d:\d\d(?:\.\d+)?)\]
    | \[(?P<mpi>\d+),(?P<mpi_r>\d{{1,9}})\]<std\w+>:
    | trace_id=(?P<trace>[\w.-]+)
    | (?P<file>\[[\w./<>-]+\.(?:py|cc|cpp|cu|c|go|rs):\d+[^\]]*\]:?|[\w./-]+\.(?:py|cc|cpp|cu):\d+:?(?=\s))
    | (?P<junk>\[(?:PID:\d+|Gloo|titan|[\w.-]+:\d+\]?|[a-z][\w]*(?:\.[\w:]+)+)\])
    """,
    re.VERBOSE | re.IGNORECASE,
)
# A level is shouted; "error" in the middle of a sentence is none.
_SHOUTED = re.compile(r"[A-Z]+$|[\u4e00-\u9fff]+$")
_SRUN = re.compile(r" {0,3}(\d{1,5}): {1,4}(?=\S)(?!-?(?:\d+\.\d+|nan), )")  # `100: 2.51, 2.73 avg` is Darknet's
_LOGFMT = re.compile(r"(?:^|\s)(?:level|lvl|severity)=\"?([A-Za-z]{1,9})\b")
_LOGFMT_TIME = re.compile(rf"(?:^|\s)(?:ts|time|timestamp|t)=\"?({_ISO})")
_STATUS = re.compile(r"\" (\d{3})(?: |$)")
_SYSLOG: tuple[Level, ...] = ("FATAL", "FATAL", "FATAL", "ERROR", "WARN", "INFO", "INFO", "DEBUG")
"""By the severity of a syslog priority (RFC 5424, table 2)."""
_SKIP = re.compile(r"[\s|>\-—–]*")
_LOGGER = re.compile(
    r"(?!(?i:epoch|step|iter\w*|train|training|valid\w*|eval\w*|test|global_step)\b"
    rf"(?!:[\w.<>]+:\d+ - | - (?-i:{_LEVELS})\b))"
    r"[A-Za-z_<][\w.<>]*(?::[\w.<>]+)*(?:\s\d+)?(?:\s\w+Thread)?(?=\s+(?:-|\|)\s)|[a-z_]+(?:\.\w+)+\s\d+\s\w+(?=: )"
)
_QUIET_ERROR = re.compile(r"(?:(?:[\w.-]+: )?(?:fatal )?error|Error|FATAL ERROR|fatal): ")


@dataclass(slots=True)
class Prefix:
    """What the front of one line says.

    Attributes:
        end: Where the message begins in the text.
        labels_end: Where the last token ends, before the spaces of an indented message.
        guessed: True when year or date were taken from the file's time.
        partial: For lines of a container runtime, whether the rest of it comes with the next one.
    """

    end: int = 0
    labels_end: int = 0
    time: float | None = None
    guessed: bool = False
    level: Level | None = None
    rank: int | None = None
    local_rank: int | None = None
    node: str | None = None
    gpu: int | None = None
    partial: bool | None = None
    labels: dict[str, str] = field(default_factory=dict)


def peel(text: str, mtime: float | None = None) -> Prefix:
    """Read the front of a line.

    Args:
        text: The line without escape codes.
        mtime: The file's time, for times without year or date (Unix seconds).
    """
    prefix = Prefix()
    at = 0
    if match := _SRUN.match(text):
        prefix.rank = int(match[1])
        at = match.end()
    for _ in range(12):
        skipped = _SKIP.match(text, at)
        start = skipped.end() if skipped else at
        token = _TOKEN.match(text, start)
        if token is not None:
            if not _take(prefix, token, mtime):
                break
            at = token.end()
        elif (prefix.time is not None or prefix.level is not None) and (logger := _LOGGER.match(text, start)):
            if len(text) > logger.end():
                prefix.labels.setdefault("module", logger[0][:100])
                at = logger.end()
            else:
                break
        else:
            more = front(text, start, mtime, timed=prefix.time is not None, inner=prefix.level is not None)
            if more is None and prefix.level is None:
                if at and prefix.rank is None and (match := _SRUN.match(text, start)):
                    prefix.rank = int(match[1])
                    at = match.end()
                    continue
                if prefix.node is None:
                    more = label(text, start)
            if more is None:
                break
            _add(prefix, more)
            at = more.end
    prefix.end = prefix.labels_end = at
    if at:
        rest = _MESSAGE.match(text, at)
        prefix.end = rest.end() if rest else at
    if prefix.level is None and "l=" in text[:200] and (found := _LOGFMT.search(text, 0, 200)):
        prefix.level = LEVEL_NAMES.get(found[1].upper())
        if prefix.time is None and (when := _LOGFMT_TIME.search(text, 0, 200)):
            prefix.time = times.iso(when[1])
    if prefix.level is None and _QUIET_ERROR.match(text, prefix.end):
        prefix.level = "ERROR"
    return prefix


_MESSAGE = re.compile(r"[:\]]?[\s|>\-—–]*(?<![\d\s]-)")


def _take(prefix: Prefix, token: re.Match[str], mtime: float | None) -> bool:
    kind = token.lastgroup or ""
    group = token.group
    if group("iso"):
        when = times.iso(group("iso").strip("[]:"))
        if prefix.time is None or when is not None:
            prefix.time = when
    elif found := group("env_t"):
        prefix.time, prefix.level = times.iso(found), LEVEL_NAMES.get(group("env_l"))
        prefix.labels["module"] = group("env_m")[:100]
    elif found := (group("level") or group("bare")):
        # behind a time, structlog and nginx say it quietly: `[error    ]`
        if not _SHOUTED.match(found) and (prefix.time is None or not group("level")):
            return False
        prefix.level = LEVEL_NAMES.get(found.upper(), "INFO")
    elif found := group("pri"):
        prefix.level = _SYSLOG[int(found) & 7]
    elif found := group("access"):
        prefix.time = times.access(found[found.index("[") + 1 : -1])
        status = _STATUS.search(token.string, token.end())
        prefix.level = "WARN" if status and status[1][0] == "5" else "INFO"
    elif found := group("spring"):
        prefix.labels["module"] = found
    elif group("rank_n"):
        prefix.rank = int(group("rank_n"))
    elif group("local_n"):
        prefix.local_rank = int(group("local_n"))
    elif found := (group("glog") or group("glog0")):
        if not found.isupper():
            return False
        prefix.level = LEVEL_NAMES.get(found, "INFO")
        if of_day := group("glog_t"):
            digits = group("glog_md")
            _without_year(prefix, int(digits[:2]), int(digits[2:]), of_day, mtime)
        prefix.labels["module"] = group("glog_f") or group("glog0_f")
    elif found := group("hf"):
        prefix.level = LEVEL_NAMES.get(found.upper(), "INFO")
        stamp = group("hf_t") or group("hf_t2")
        if stamp:
            prefix.time = times.iso(stamp)
    elif found := group("nemo"):
        prefix.level, prefix.time = LEVEL_NAMES.get(found.upper(), "INFO"), times.iso(group("nemo_t"))
    elif found := group("cri"):
        prefix.partial = found[-1] in "Pp"
    elif found := group("nccl_h"):
        prefix.node, prefix.gpu = found, int(group("nccl_g"))
        prefix.level = LEVEL_NAMES.get(group("nccl_l").upper(), "INFO")
    elif group("ray"):
        prefix.labels["module"] = group("ray")
        prefix.node = group("ray_ip") or prefix.node
    elif found := group("pod"):
        prefix.node = safe(found)[:253]  # the longest name that Kubernetes allows
    elif found := group("node"):
        prefix.node = found
        if group("node_r"):
            prefix.rank = int(group("node_r"))
    elif found := group("md"):
        _without_year(prefix, int(found[0:2]), int(found[3:5]), found[6:14], mtime)
    elif found := group("sys_m"):
        number = times.month(found)
        if number:
            _without_year(prefix, number, int(group("sys_d")), group("sys_t"), mtime)
        prefix.node = group("sys_h")
        prefix.labels["module"] = group("sys_p")
    elif found := group("clock"):
        of_day_s = times.clock(found)
        if of_day_s is not None and prefix.time is None:
            prefix.time, prefix.guessed = times.without_date(of_day_s, mtime), True
    elif group("mpi_r"):
        prefix.rank = int(group("mpi_r"))
    elif found := group("trace"):
        prefix.labels["trace_id"] = found
    elif kind == "file":
        prefix.labels.setdefault("module", safe(token[0].strip("[]: ")[:100]))
    return True


def _add(prefix: Prefix, more: Front) -> None:
    if more.time is not None and (prefix.time is None or not more.guessed):
        prefix.time, prefix.guessed = more.time, more.guessed
    elif more.later and prefix.time is not None:
        prefix.time += more.later
    prefix.node = more.node or prefix.node
    if more.rank is not None:
        prefix.rank = more.rank
    if more.local_rank is not None:
        prefix.local_rank = more.local_rank
    if more.module:
        prefix.labels.setdefault("module", more.module)


def _without_year(prefix: Prefix, month: int, day: int, of_day: str, mtime: float | None) -> None:
    seconds = times.clock(of_day)
    if seconds is not None:
        prefix.time, prefix.guessed = times.without_year(month, day, seconds, mtime), True


# ---------------------------------------------------------------- the file's name

_NODE_NAME = re.compile(
    r"(?:^|[^A-Za-z])((?:worker|node|host|machine|trainer|pod|server)[-_.]?\d+)(?![\d.]*[A-Za-z]*\d*py)", re.IGNORECASE
)
_RANK_NAME = re.compile(r"(?:^|[^A-Za-z])rank[-_.:]?(\d{1,9})", re.IGNORECASE)
_LOCAL_NAME = re.compile(r"local[-_]?rank[-_.:]?(\d{1,9})", re.IGNORECASE)
_TORCHRUN = re.compile(r"attempt_\d+/(\d{1,9})/(?:stdout|stderr)\.log$")
_SLURM = re.compile(r"slurm[-_](\d+)(?:_\d+)?(?:[-_.](\d+))?\.(?:out|err)$")


@dataclass(frozen=True, slots=True)
class Place:
    """Who writes a file, as its name says."""

    node: str | None = None
    rank: int | None = None
    local_rank: int | None = None
    job_id: str | None = None


def place_of(source: str) -> Place:
    """Node and rank from a file's name, else from the folder it lies in.

    `worker-3.log` -> node worker-3 · `node-1/rank3.log` -> node node-1, rank 3 · `slurm-7421.out` -> job 7421.
    """
    parts = PurePosixPath(source.replace("\\", "/")).parts[-3:]
    node = rank = local = None
    for part in reversed(parts):
        if node is None and (match := _NODE_NAME.search(part)):
            node = match[1]
        if local is None and (match := _LOCAL_NAME.search(part)):
            local = int(match[1])
        elif rank is None and (match := _RANK_NAME.search(part)):
            rank = int(match[1])
    if match := _TORCHRUN.search(source):
        local = int(match[1])
    slurm = _SLURM.search(source)
    return Place(node, rank, local, slurm[1] if slurm else None)
