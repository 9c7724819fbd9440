"""What tools that print tables have in common: cells as numbers, whose line it is, the time that stands before."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache

from trainmon.parsing.prefix import Prefix, peel
from trainmon.parsing.times import month
from trainmon.parsing.tracebacks import Stream
from trainmon.samples import GpuSample, HostSample

MAX_LINE = 2000
"""Longest line of a tool's output, characters."""

PAST = 1024
"""Bytes before a line in which a tool's own time is looked for."""

_MAX_LEFT = 300
_NOTHING = Prefix()
_CELL = re.compile(r"([-+]?\d{1,15}(?:[.,]\d{1,9})?)\s?([A-Za-z%/]{0,8})$", re.ASCII)


@dataclass(slots=True)
class Scene:
    """Where a line stands, and what its file knows.

    Attributes:
        node: Machine that the file is of, "" when nobody says so.
        fallback: Time for readings without one, Unix seconds.
        outer: Time that the line's wrapping carries (Docker), Unix seconds.
        past: The bytes before the line, about a kilobyte.
    """

    line: int
    offset: int
    node: str
    fallback: float
    mtime: float | None
    outer: float | None = None
    past: bytes = b""


@dataclass(slots=True)
class Reading:
    """A sample that text gave.

    Attributes:
        dated: False when its time is that of its neighbours or of the file.
        note: Name of a remark for the record, "" for none.
    """

    sample: GpuSample | HostSample
    format: str
    line: int
    offset: int
    dated: bool
    prefix: Prefix
    note: str = ""


@lru_cache(maxsize=1024)
def front(left: str, mtime: float | None) -> Prefix | None:
    """What stands before a tool's own text, when that is nothing but labels, times and levels; None otherwise."""
    if not left or left.isspace():
        return _NOTHING
    if len(left) > _MAX_LEFT:
        return None
    text = left + ("x" if left[-1].isspace() else " x")
    prefix = peel(text, mtime)
    return prefix if text[prefix.end :] == "x" else None


def stream_of(prefix: Prefix) -> Stream:
    """Whose lines belong together."""
    return prefix.rank, prefix.local_rank, prefix.node


def number(cell: str) -> tuple[float, str] | None:
    """`61234 MiB`, `116W`, `0,39`, `31C` as number and unit; None for all else."""
    found = _CELL.match(cell.strip())
    return (float(found[1].replace(",", ".")), found[2]) if found else None


# ---------------------------------------------------------------- times of their own

_CTIME = re.compile(
    r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) (Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) {1,2}(\d\d?) "
    r"(\d\d):(\d\d):(\d\d) (\d{4})$"
)
_STAMP = re.compile(
    r"(\d\d)([/.])(\d\d)\2(\d\d(?:\d\d)?) (\d\d):(\d\d):(\d\d)(?: ([AP]M))?$"
    r"|(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)([+-]\d{4}|Z)?$"
)
_BACK = 12


def before(scene: Scene, prefix: Prefix, kind: str) -> float | None:
    """The time on one of the lines before, of the same writer.

    Args:
        kind: "ctime" as nvidia-smi prints it, "stamp" as iostat -t does.
    """
    lines = scene.past.split(b"\n")
    if len(scene.past) >= PAST:
        lines = lines[1:]  # half of one
    pattern, strangers = (_CTIME, 1) if kind == "ctime" else (_STAMP, 0)
    wanted = stream_of(prefix)
    for raw in reversed(lines[-_BACK:]):
        text = raw[:_MAX_LEFT].decode("utf-8", "replace").rstrip()
        found = pattern.search(text[-40:])
        left = front(text[: len(text) - len(found[0])], scene.mtime) if found is not None else None
        if found is not None and left is not None and stream_of(left) == wanted:
            return _ctime(found) if kind == "ctime" else _stamp(found, scene.mtime)
        if stream_of(peel(text, scene.mtime)) == wanted and front(text, scene.mtime) is None:
            strangers -= 1  # a line of the same writer that is no blank one: the table's upper edge, or the time is old
            if strangers < 0:
                return None
    return None


def _when(*parts: int) -> float | None:
    try:
        return datetime(*parts, tzinfo=UTC).timestamp()  # type: ignore[misc,arg-type]
    except ValueError:
        return None


def _ctime(found: re.Match[str]) -> float | None:
    return _when(int(found[6]), month(found[1]) or 0, *(int(found[i]) for i in (2, 3, 4, 5)))


def _stamp(found: re.Match[str], mtime: float | None) -> float | None:
    if found[9]:
        try:
            moment = datetime.fromisoformat(f"{found[9]}T{found[10]}{found[11] or ''}")
        except ValueError:
            return None
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    first, second, year = int(found[1]), int(found[3]), int(found[4])
    year += 2000 if year < 100 else 0
    hour = int(found[5])
    if found[8]:
        hour = hour % 12 + (12 if found[8] == "PM" else 0)
    rest = (hour, int(found[6]), int(found[7]))
    # Month first (C, US) or day first (dots, and most other countries): the file's own time decides where both can be.
    orders = [(second, first)] if found[2] == "." else [(first, second), (second, first)]
    times = [when for month_, day in orders if (when := _when(year, month_, day, *rest)) is not None]
    if not times:
        return None
    return times[0] if mtime is None else min(times, key=lambda when: abs(when - mtime))
