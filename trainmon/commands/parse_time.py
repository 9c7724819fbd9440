"""Times for `parse`: `--since` and `--until` in words, the time of every record, and where in a file a time begins."""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta

from trainmon.model import Record
from trainmon.parsing import times
from trainmon.parsing.clean import shown
from trainmon.parsing.formats import Format
from trainmon.parsing.json_engine import JsonEngine
from trainmon.parsing.prefix import peel

Timed = tuple[float, Record]

SLACK_S = 120.0
"""Lines of several writers may stand in the wrong order by so much, in seconds."""
WORTH = 4 << 20
"""Files from this size on (bytes) are searched for the limit; smaller ones are read from their start."""
_PROBE = 128 << 10
_CONTEXT = 64 << 10
_PROBES = 9
_MOST_UNTIMED = 10_000
_DURATION = re.compile(r"\s*\d[\d.]*\s*(?:ms|s|m|h|d)", re.IGNORECASE)
_CLOCK = re.compile(r"(\d\d?):(\d\d)(?::(\d\d(?:\.\d+)?))?")
_DAY = re.compile(r"(\d{4})-(\d\d?)-(\d\d?)")
_ZONE = re.compile(rb"\d\d:\d\d(?::\d\d)?(?:[.,]\d+)?\s?(?:Z|UTC|[+-]\d\d:?\d\d)")
_EPOCH = re.compile(r"\d{9,19}(?:\.\d+)?")


def moment(text: str, now: float) -> float:
    """What `--since` and `--until` mean: a duration before now, a time, a day, a time of day, or `now`.

    Times without a zone are UTC, as they are in logs.

    Args:
        text: "1h", "90m", "2025-04-05T10:00:00Z", "2025-04-05 10:00", "2025-04-05", "10:30", Unix seconds.
        now: Unix seconds.

    Returns:
        Unix seconds.

    Raises:
        ValueError: It is none of these; the message says what one looks like.
    """
    from trainmon.settings.keys import seconds

    text = text.strip()
    word = text.lower().removesuffix(" ago").strip()
    today = datetime.fromtimestamp(now, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if word in ("now", "today", "yesterday"):
        return now if word == "now" else today.timestamp() - (86400.0 if word == "yesterday" else 0.0)
    if _DURATION.match(word):
        try:
            return now - seconds(word)
        except ValueError:
            pass
    if _EPOCH.fullmatch(word):
        found = times.epoch(float(word))
        if found is not None:
            return found
    try:
        if match := _CLOCK.fullmatch(word):
            of_day = timedelta(hours=int(match[1]), minutes=int(match[2]), seconds=float(match[3] or 0))
            if of_day < timedelta(days=1):
                when = (today + of_day).timestamp()
                return when if when <= now else when - 86400.0
        if match := _DAY.fullmatch(word):
            return datetime(int(match[1]), int(match[2]), int(match[3]), tzinfo=UTC).timestamp()
        found = times.iso(text) if len(text) >= 16 else None
    except ValueError:
        found = None
    if found is None:
        raise ValueError('should be a duration such as "1h", or a time such as "2025-04-05T10:00:00Z" or "10:30"')
    return found


class Neighbours:
    """Gives every record of one source a time: its own, else that of the line before it, else of the first after it.

    Args:
        fallback: For a source in which no line carries a time, Unix seconds: the file's own.
    """

    def __init__(self, fallback: float) -> None:
        self.now: float | None = None
        self.fallback = fallback
        self._waiting: list[Record] = []

    def take(self, records: Iterable[Record], newest: float | None = None) -> list[Timed]:
        """The next records of the source, with their times.

        Args:
            newest: Time of the newest line behind them, where one carries a time.
        """
        out: list[Timed] = []
        for record in records:
            when = record.time
            if when is not None:
                if self._waiting:
                    out += self._release(when)
                self.now = when
                out.append((when, record))
            elif self.now is not None:
                out.append((self.now, record))
            else:
                self._waiting.append(record)
        if newest is not None:
            self.now = newest
            out += self._release(newest)
        elif len(self._waiting) > _MOST_UNTIMED:
            out += self.end()
            self.now = self.fallback
        return out

    def end(self) -> list[Timed]:
        """Nothing follows: what waited for a time."""
        return self._release(self.fallback)

    def _release(self, when: float) -> list[Timed]:
        out = [(when, record) for record in self._waiting]
        self._waiting.clear()
        return out


class LineClock:
    """Reads the time that a raw line carries.

    Args:
        formats: The formats of JSON lines.
        mtime: The file's time, for times without year or date.
    """

    def __init__(self, formats: Sequence[Format], mtime: float | None) -> None:
        self._json = JsonEngine(formats)
        self._mtime = mtime

    def time_of(self, raw: bytes) -> float | None:
        """Unix seconds; None when the line carries none."""
        line = raw.strip()
        if line.startswith(b"{") and (found := self._json.decode(line)) is not None:
            record = Record("log", "")
            try:
                self._json.read(record, found)
            except (ValueError, TypeError, OverflowError):
                return None
            return record.time
        return peel(shown(line), self._mtime).time


def span_of(
    fd: int,
    size: int,
    mtime: float,
    time_of: Callable[[bytes], float | None],
    since: float | None,
    until: float | None,
) -> tuple[tuple[int, int], float]:
    """The part of a file that can hold lines of a span of time (see `part_between`), and its `zone_shift`.

    Args:
        size, mtime: Bytes that the file has, and when it was last written, Unix seconds.

    Raises:
        OSError: The file cannot be read.
    """
    end = os.pread(fd, _CONTEXT, max(0, size - _CONTEXT))
    lines = [line for line in end.splitlines() if line.strip()][-50:]
    found = next(((line, when) for line in reversed(lines) if (when := time_of(line)) is not None), None)
    shift = zone_shift(found[0], found[1], mtime) if found is not None else 0.0
    low = None if since is None else since - shift
    high = None if until is None else until - shift
    return part_between(fd, size, time_of, low, high), shift


def part_between(
    fd: int, size: int, time_of: Callable[[bytes], float | None], since: float | None, until: float | None
) -> tuple[int, int]:
    """The part of a file that can hold lines of a span of time, with some slack on both sides.

    Found by bisection where lines carry times that go forward; else it is the whole file.

    Args:
        size: Bytes that the file has.
        time_of: Reads the time of a raw line.
        since, until: Unix seconds; None: open.

    Returns:
        Where it begins (the start of a line) and where it ends.

    Raises:
        OSError: The file cannot be read.
    """
    if size < WORTH:
        return 0, size
    marks = [_first_time(fd, size * place // _PROBES, size, time_of) for place in range(_PROBES)]
    before = -math.inf
    for place, mark in enumerate(marks):
        if mark is None:
            if place == 0:  # what stands before the first step often has no time
                continue
            return 0, size
        if mark[0] < before - SLACK_S:
            return 0, size
        before = max(before, mark[0])
    start, end = 0, size
    if since is not None:
        found = _search(fd, size, time_of, since - SLACK_S)
        start = _line_start(fd, max(0, found - _CONTEXT))
    if until is not None:
        end = min(size, _search(fd, size, time_of, until + SLACK_S) + _PROBE)
        end = size if end >= size else _line_start(fd, end)
    return start, max(start, end)


def _search(fd: int, size: int, time_of: Callable[[bytes], float | None], limit: float) -> int:
    """An offset before which (about) every line is older than the limit."""
    low, high = 0, size
    while high - low > _PROBE:
        middle = (low + high) // 2
        mark = _first_time(fd, middle, size, time_of)
        if mark is not None and mark[0] < limit:
            low = max(middle, mark[1])
        else:
            high = middle
    return low


def _first_time(fd: int, offset: int, size: int, time_of: Callable[[bytes], float | None]) -> tuple[float, int] | None:
    """Time and offset of the first line with a time that begins behind an offset (or at 0), among the next bytes."""
    block = os.pread(fd, _PROBE, offset)
    at = 0 if offset == 0 else block.find(b"\n") + 1
    if offset and not at:
        return None
    for _ in range(400):
        stop = block.find(b"\n", at)
        if stop < 0:
            break
        if stop > at and (when := time_of(block[at:stop][:4096] if block[at] != 123 else block[at:stop])) is not None:
            return when, offset + at
        at = stop + 1
    return None


def _line_start(fd: int, offset: int) -> int:
    from trainmon.sources.seek import line_start

    return line_start(fd, offset) if offset else 0


def zone_shift(last_line: bytes, last_time: float | None, mtime: float) -> float:
    """Seconds by which a file's times without a zone lie before true ones, where the file's own time shows it.

    Many programs print local time and no zone; read as UTC it is off by the zone. It is told only when the newest line
    was written at the file's own time *in this machine's zone*, and 0 in all other cases.

    Args:
        last_line: The newest line, raw.
        last_time: Its time read as UTC, Unix seconds.
        mtime: When the file was last written.
    """
    if last_time is None or _ZONE.search(last_line) is not None or last_line.lstrip().startswith(b"{"):
        return 0.0
    offset = float(time.localtime(mtime).tm_gmtoff)
    return -offset if offset and abs(mtime - (last_time - offset)) < SLACK_S else 0.0
