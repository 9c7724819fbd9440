"""What the log page stops at and marks: levels, errors, and what is typed as a pattern. Pure."""

from __future__ import annotations

import re

from trainmon.tui.logview import Line

ERRORS = (
    r"(?:^|[^\w.])(?:ERROR|FATAL|CRITICAL|Error|E\d{4})(?:[^\w]|$)|\bTraceback \(most recent call last\)"
    r"|\b[A-Za-z.]*(?:Error|Exception|Interrupt): |\bCUDA error\b|\bNCCL (?:WARN|error)|\bXid\b"
    r"|\b(?:E_COMM|GLM)_[A-Z_]+|out of memory|[Ss]egmentation fault|\bSIG(?:TERM|KILL|ABRT|SEGV)\b"
)
"""What `e` and `E` stop at, beside the places that the engine knows: levels, tracebacks, exceptions, faults."""
LEVEL = re.compile(
    r"\b(?:ERROR|FATAL|CRITICAL|WARN(?:ING)?)\b|\bTraceback \(most recent|\b[A-Z][A-Za-z.]*(?:Error|Exception): "
)


def level_of(text: str) -> str | None:
    """The level that a line shows, for its colour."""
    found = LEVEL.search(text[:300])
    if found is None:
        return None
    return "WARN" if found[0].upper().startswith("WARN") else "ERROR"


def compile_pattern(text: str, *, words: bool) -> re.Pattern[str]:
    """What is typed as a pattern: a regular expression where it is one, else the plain text; small letters match both.

    Args:
        words: The text was typed: letters match whatever their case unless one of them is a capital.
    """
    flags = re.IGNORECASE if words and text == text.lower() else 0
    try:
        return re.compile(text, flags)
    except (re.error, OverflowError, RecursionError):
        return re.compile(re.escape(text), flags)


def nearest(found: int | None, known: list[int], chosen: Line, step: int) -> int | None:
    """The nearer of what the search found and what is known, in the direction of the search."""
    ahead = [at for at in known if (at >= chosen.end if step > 0 else at < chosen.offset)]
    if found is not None:
        ahead.append(found)
    if not ahead:
        return None
    return min(ahead) if step > 0 else max(ahead)
