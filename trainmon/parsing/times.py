"""Times as logs write them -> Unix seconds. Without a zone it is UTC; year or date may come from the file's time."""

from __future__ import annotations

import calendar
import re
from datetime import UTC, datetime

_ISO = re.compile(
    r"(\d{4})[-/.](\d\d?)[-/.](\d\d?)[T ](\d\d?):(\d\d):(\d\d)(?:[.,](\d+))?\s*(Z|UTC|[+-]\d\d:?\d\d)?", re.IGNORECASE
)
_UTC = UTC
_START = datetime(1970, 1, 1)
_CALENDAR_END = 253_370_764_800.0  # the year 9999; file systems hold times beyond it, and before 1970
_MONTHS = {name.lower(): i for i, name in enumerate(calendar.month_abbr) if name}


def iso(text: str) -> float | None:
    """`2025-04-05T10:00:00.5+02:00` in its common spellings; None when it is no such time."""
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        return _loose(text)
    if len(text) < 16 or text[4] != "-":
        return None
    return (when - _START).total_seconds() if when.tzinfo is None else when.timestamp()


def column(texts: list[str]) -> list[float | None]:
    """`iso` of each."""
    try:
        found = list(map(datetime.fromisoformat, texts))
        if min(map(len, texts)) >= 16 and all(text[4] == "-" for text in texts):
            return [(when - _START).total_seconds() for when in found]
    except (ValueError, TypeError):  # another spelling, or one with a zone
        pass
    return list(map(iso, texts))


def _loose(text: str) -> float | None:
    match = _ISO.match(text)
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    try:
        when = datetime(
            int(year), int(month), int(day), int(hour), int(minute), int(second) % 60, tzinfo=_UTC
        ).timestamp()
    except ValueError:
        return None
    if fraction:
        when += float("0." + fraction)
    if zone and zone[0] in "+-":
        offset = int(zone[1:3]) * 3600 + int(zone[-2:]) * 60
        when += offset if zone[0] == "-" else -offset
    return when


def access(text: str) -> float | None:
    """`10/Oct/2000:13:55:36 -0700`, as web servers write it; None when it is no such time."""
    number = month(text[3:6])
    if not number:
        return None
    return iso(f"{text[7:11]}-{number:02d}-{text[:2]}T{text[12:20]}{text[21:]}")


def epoch(number: float) -> float | None:
    """A Unix time in seconds, milliseconds, microseconds or nanoseconds; None when it can't be one."""
    for limit, scale in ((1e8, 1.0), (1e11, 1e-3), (1e14, 1e-6), (1e17, 1e-9)):
        if limit <= number < limit * 1e2:
            return number * scale
    return None


def clock(text: str) -> float | None:
    """`10:00:00.5` as seconds since midnight."""
    try:
        return int(text[0:2]) * 3600 + int(text[3:5]) * 60 + float(text[6:].replace(",", "."))
    except ValueError:
        return None


def month(name: str) -> int | None:
    """Number of the month with that short English name."""
    return _MONTHS.get(name[:3].lower())


def without_year(month_: int, day: int, of_day: float, mtime: float | None) -> float | None:
    """The latest such day that is not after the file's time (a day of slack for zones); None without a file time."""
    if mtime is None or not 0.0 <= mtime < _CALENDAR_END:
        return None
    for year in (datetime.fromtimestamp(mtime, _UTC).year + 1 - back for back in range(4)):
        try:
            when = datetime(year, month_, day, tzinfo=_UTC).timestamp() + of_day
        except ValueError:
            continue
        if when <= mtime + 86400:
            return when
    return None


def without_date(of_day: float, mtime: float | None) -> float | None:
    """The latest moment with that time of day that is not after the file's time (a minute of slack)."""
    if mtime is None or not 0.0 <= mtime < _CALENDAR_END:
        return None
    when = mtime - mtime % 86400 + of_day
    return when if when <= mtime + 60 else when - 86400
