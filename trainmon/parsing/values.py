"""Numbers as logs write them: `1,234`, `12.3k`, `9.46GiB(64.99%)`, `tensor(2.1, ...)`, `[8e-06, 8e-06]`, `nan`."""

from __future__ import annotations

import re

_QUANTITY = re.compile(
    r"\s*(?:tensor\(|[\[({])?\s*"
    r"([-+]?(?:\d{1,3}(?:,\d{3})+(?:\.\d*)?|\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:nan|inf(?:inity)?)(?=ms\b|s\b|[^A-Za-z]|$))"
    r"\s*([A-Za-zµμ%][A-Za-z/%]*)?",
    re.IGNORECASE,
)
_HMS = re.compile(r"(?:(\d{1,9}) days?,? )?(\d{1,9}):(\d\d)(?::(\d\d(?:\.\d+)?))?$")
_WORDS = re.compile(r"(\d+(?:\.\d+)?)\s*(d|h|ms|m|s)(?![a-z])", re.IGNORECASE | re.ASCII)

_LONGEST = 200
"""Characters of a value that are looked at: JSON may hold a megabyte of blanks or digits in one."""

MISSING = frozenset({"", "-", "--", "n/a", "na", "none", "null", "???", "?", "no log"})

_MEMORY = {
    "b": 1 / 2**20, "bytes": 1 / 2**20, "k": 1 / 1024, "kb": 1 / 1024, "kib": 1 / 1024,
    "m": 1.0, "mb": 1.0, "mib": 1.0, "g": 1024.0, "gb": 1024.0, "gib": 1024.0,
    "t": 2.0**20, "tb": 2.0**20, "tib": 2.0**20,
}  # fmt: skip
_TIME = {
    "ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3,
    "s": 1.0, "sec": 1.0, "secs": 1.0, "second": 1.0, "seconds": 1.0,
    "m": 60.0, "min": 60.0, "mins": 60.0, "minutes": 60.0, "h": 3600.0, "hr": 3600.0, "hours": 3600.0,
}  # fmt: skip
_COUNT = {"k": 1e3, "m": 1e6, "g": 1e9, "b": 1e9, "t": 1e12}
UNITS: dict[str, dict[str, float]] = {
    "memory": _MEMORY,
    "time": _TIME,
    "count": _COUNT,
    "percent": {},
    "plain": {},
    "tflops": {},
}
"""Dimension -> unit (lower case) -> factor to the contract's unit (MiB, seconds, one)."""


def quantity(text: str) -> tuple[float, str] | None:
    """The first number of `text` and the unit that is glued to it or follows it; None when there is none."""
    match = _QUANTITY.match(text.strip()[:_LONGEST])
    if match is None:
        return None
    return float(match[1].replace(",", "")), match[2] or ""


def measure(text: str, dimension: str) -> float | None:
    """A number in the contract's unit of its dimension.

    Args:
        text: As it stands in the log, with or without a unit.
        dimension: A key of `UNITS`.
    """
    found = quantity(text)
    if found is None:
        return None
    number, unit = found
    if not unit:
        return number
    factor = UNITS[dimension].get(unit.lower())
    return number if factor is None else number * factor


def simple(text: str) -> float | int | None:
    """`text` as a whole or a floating number when it is nothing but one."""
    try:
        return int(text) if text.isdigit() and len(text) < 19 else float(text)
    except ValueError:
        return None


def seconds(text: str) -> float | None:
    """A duration in seconds: `1:02:03`, `2 days, 1:00:00`, `1h 2m 3s`, `473ms`, `12.5`."""
    text = text.strip()[:_LONGEST]
    if match := _HMS.match(text):
        days, first, second, third = match.groups()
        if third is None:
            return int(first) * 60.0 + int(second)
        return int(days or 0) * 86400.0 + int(first) * 3600.0 + int(second) * 60.0 + float(third)
    parts = _WORDS.findall(text)
    if parts:
        scale = {"d": 86400.0, **_TIME}
        return sum(float(number) * scale[unit.lower()] for number, unit in parts)
    found = simple(text)
    return None if found is None else float(found)
