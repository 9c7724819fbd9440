"""Records that a terminal or a pretty printer spread over several lines: which lines belong together.

Copies of a terminal break a line at its width, in the middle of words (`aux_loss_` / `0: 0.31`); dictionaries and JSON
objects are printed over many lines. The first line waits for the others. When they turn out to be something else, all
are read one by one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from trainmon.parsing.prefix import Prefix

_MAX_LINES = 200
_MAX_TEXT = 1 << 16
_NARROW = 40
"""Columns of the narrowest terminal whose broken lines are joined."""
_RAGGED = 6
"""Columns that may be missing at the end of a full line: blanks that a copy left out, wide characters."""
_PAIR = re.compile(r"[A-Za-z_)][\w/.]{0,40}\s?[:=]\s{0,3}[-+]?\d")
_CUT = re.compile(r"[\w)%][\s|,]{1,3}[A-Za-z_][\w./-]{0,40}[:=]?$|[:=]$")
"""The end of a line that was cut within a name, or between a name and its number."""
_UNIT = re.compile(
    r"\d\s?(?:[kmgt]?i?b|[mun]?s|secs?|seconds?|min|minutes?|h|hours?|\w{1,12}/s(?:ec)?|steps?|samples?|tokens?|epochs?|t?flops?)$",
    re.IGNORECASE,
)
_REST = re.compile(r"[\d.]{1,16}(?:[eE][-+]?\d+)?[A-Za-z%]{0,4}[\s,|]{1,3}[A-Za-z_][\w/.]{0,40}\s?[:=]")
"""The begin of a line behind one that was cut within a number."""
_SURE = 2
"""Lines cut within a number until the width is believed: the first ones of a file are read as they stand."""
_INSIDE = frozenset("'\"{}[]-+.()")
"""Beside letters and figures, what a line of a printed object begins with."""


@dataclass(frozen=True, slots=True)
class Held:
    """A line that waits.

    Attributes:
        text: All of it.
        prefix: What its front says.
        number: 1-based line in the file.
        offset: Byte offset of that line.
    """

    text: str
    prefix: Prefix
    number: int
    offset: int


class Joiner:
    """Which lines of one file belong together.

    Attributes:
        open: True while a line waits for what follows it.
    """

    __slots__ = ("_before", "_cuts", "_kind", "_lines", "_size", "_width", "open")

    def __init__(self) -> None:
        self.open = False
        self._lines: list[Held] = []
        self._kind = ""
        self._size = 0
        self._width = 0
        self._before = self._cuts = 0

    def begins(self, text: str, prefix: Prefix, number: int, offset: int) -> bool:
        """Whether a line is the first part of something; then it is kept. See `Held` for the arguments."""
        start = prefix.end
        if len(text) > _MAX_TEXT:
            return False
        if prefix.partial:
            self._kind = "partial"
        elif _opened(text, start):
            self._kind = "braces"
        elif self._wrapped(text, start):
            self._kind = "wrapped"
        else:
            return False
        self._lines, self._size, self.open = [Held(text, prefix, number, offset)], len(text), True
        return True

    def _wrapped(self, text: str, start: int) -> bool:
        size, before, self._before = len(text), self._before, 0
        if before and not start and size <= before and _REST.match(text):
            self._cuts += 1
            if self._cuts >= _SURE:
                self._width = before
        if size < _NARROW:
            return False
        end = text.rstrip()[-60:]
        last = end[-1:]
        if not 0 <= self._width - size <= _RAGGED:
            if last.isdigit() or last == ".":
                self._before = size
            if not (last.isalpha() or last in "_:=") or not _CUT.search(end) or _UNIT.search(end):
                return False
        return sum(1 for _ in _PAIR.finditer(text, start)) >= 2

    def goes_on(self, held: Held) -> bool:
        """Whether a line is the next part; then it is kept."""
        text, first, last = held.text, self._lines[0], self._lines[-1]
        self._size += len(text)
        if len(self._lines) >= _MAX_LINES or self._size > _MAX_TEXT:
            return False
        if self._kind == "partial":
            fits = last.prefix.partial is True and held.prefix.partial is not None
        elif self._kind == "braces":
            begin = text[held.prefix.labels_end :].lstrip()[:1]
            fits = held.prefix.level is None and (begin.isalnum() or begin in _INSIDE)
        else:
            alike = text[:4].strip() == first.text[:4].strip()
            fits = not (held.prefix.end or alike) and len(last.text) + _RAGGED >= len(first.text)
        if fits:
            self._lines.append(held)
        return fits

    @property
    def complete(self) -> bool:
        """Whether the part that came last is the end."""
        last = self._lines[-1]
        if self._kind == "partial":
            return not last.prefix.partial
        if self._kind == "wrapped":
            return len(last.text) + _RAGGED < len(self._lines[0].text)
        return last.text.rstrip().endswith("}") and sum(h.text.count("{") - h.text.count("}") for h in self._lines) <= 0

    def take(self) -> tuple[list[Held], str | None]:
        """What waits, and all of it as one line; None when the parts are not one."""
        lines, self._lines, self.open = self._lines, [], False
        if len(lines) == 1:
            return lines, None
        first, others = lines[0].text, lines[1:]
        if self._kind == "partial":
            return lines, first + "".join(held.text[held.prefix.labels_end + 1 :] for held in others)
        if self._kind == "braces":
            whole = " ".join([first.rstrip(), *(held.text[held.prefix.labels_end :].strip() for held in others)])
            return lines, whole if whole.endswith("}") else None
        whole = first + "".join(held.text for held in others)
        if not _PAIR.search(whole, max(0, len(first) - _NARROW)):
            return lines, None
        self._width = max(len(held.text) for held in lines)
        return lines, whole

    def lost(self) -> None:
        """Bytes were skipped here."""
        self._lines, self.open = [], False


def _opened(text: str, start: int) -> bool:
    """Whether an object begins on this line and does not end there."""
    at = text.find("{", start)
    if at < 0 or "}" in text[at:]:
        return False
    rest = text[at + 1 :].strip()
    return not rest or (rest[0] in "'\"" and (rest[-1] in ",:{[" or len(rest) > _NARROW))
