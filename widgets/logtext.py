"""Log lines as spans: keys muted and values bright, severity by colour, matches swapped. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from trainmon.widgets.cells import Span, clean
from trainmon.widgets.palette import HEALTH_GLYPHS

_PAIR = re.compile(r"([A-Za-z_][\w./()%-]*\s?[=:]\s?)(-?[^\s,;|{}\[\]]+)")
_PREFIX = re.compile(
    r"[\[(]?(?:\d{4}[-/.]\d\d[-/.]\d\d[T ]|\d\d[-/]\d\d[ T])?(?P<clock>\d\d:\d\d:\d\d)"
    r"(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?[\])]?[ ,|:-]{0,3}"
    r"(?:[\[(]?(?P<level>TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|FATAL|CRITICAL)[\])]?(?![A-Za-z0-9_])[ |:-]{0,3})?"
)
_LEVELS = {"WARNING": "WARN", "CRITICAL": "FATAL"}
_NUMBER = re.compile(r"-?\d|nan|inf|none|true|false", re.IGNORECASE)

LEVEL_TOKENS = {"FATAL": "critical+bold", "ERROR": "critical", "WARN": "warning", "DEBUG": "muted"}
LEVEL_GLYPHS = {
    "FATAL": (HEALTH_GLYPHS["critical"], "critical+bold"),
    "ERROR": (HEALTH_GLYPHS["critical"], "critical+bold"),
    "WARN": (HEALTH_GLYPHS["warning"], "warning+bold"),
}
_LIMIT = 4000
"""Characters that are looked at; more never fit on a screen."""


def without_prefix(text: str) -> tuple[str, str | None, str]:
    """(clock, level, rest) of a line that begins with its time: "11:15:47", "INFO", "step=1150 …".

    Date, fraction and level word say little beside the line itself; clock and rest are as they stand. A line that
    begins otherwise comes back whole, with an empty clock.
    """
    match = _PREFIX.match(text)
    if match is None or match.end() >= len(text):
        return "", None, text
    level = match["level"]
    return match["clock"], _LEVELS.get(level, level) if level else None, text[match.end() :]


def log_spans(text: str, level: str | None = None) -> list[Span]:
    """`key=value` with the key muted; other text plain, all of it in the colour of a bad level."""
    text = clean(text[:_LIMIT])
    token = LEVEL_TOKENS.get(level or "")
    if token is not None:
        return [(text, token)]
    out: list[Span] = []
    at = 0
    prefix = _PREFIX.match(text)
    if prefix is not None:
        # Of a line's time and level nothing but their place is looked for.
        at = prefix.end()
        out.append((text[:at], "muted"))
    told = len(out)
    for match in _PAIR.finditer(text, at):
        if not (match.group(1).rstrip().endswith("=") or _NUMBER.match(match.group(2))):
            continue
        if match.start() > at:
            out.append((text[at : match.start()], "muted" if len(out) > told else "text"))
        out.append((match.group(1), "muted"))
        out.append((match.group(2), "text"))
        at = match.end()
    if at < len(text):
        rest = text[at:]
        out.append((rest, "muted" if len(out) > told and not any(char.isalnum() for char in rest) else "text"))
    return out


def highlight(spans: Sequence[Span], matches: Sequence[tuple[int, int]], *, current: int = -1) -> list[Span]:
    """Marks stretches (start, end) of the joined text as search matches; the current one in accent."""
    if not matches:
        return list(spans)
    marks = sorted((max(0, start), end, index == current) for index, (start, end) in enumerate(matches) if end > start)
    out: list[Span] = []
    offset = 0
    for text, token in spans:
        end = offset + len(text)
        at = offset
        for first, last, now in marks:
            if last <= at or first >= end:
                continue
            if first > at:
                out.append((text[at - offset : first - offset], token))
            stop = min(last, end)
            out.append(
                (text[max(first, at) - offset : stop - offset], "accent+bold+match" if now else "warning+bold+match")
            )
            at = stop
        if at < end:
            out.append((text[at - offset :], token))
        offset = end
    return out
