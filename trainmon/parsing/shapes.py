"""The fallback: an unknown program's lines, understood by a shape that recurs.

Lines that no format reads are shown to it. A shape is the text of a line without its numbers. One that comes back with
other numbers is learned, by what its words say (a counter and something that trainings measure, `words.py`), or, where
the words say nothing, by how its numbers behave: a counter that goes up by the same amount, beside numbers that vary.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from trainmon.parsing.line import Line, Row
from trainmon.parsing.shape_words import Slots, cut, foreign, told

FORMAT = "learned"
"""Name of the format of what is read this way."""

_MAX_TEXT = 1000
_MAX_SHAPES = 64
_MAX_NUMBERS = 40
_NAMED = 3
"""Lines of a shape whose words tell what it is, before it is believed."""
_UNNAMED = 8
"""And of one that only behaves like a training."""
_DENSE = 0.3
"""Share of the unknown lines that a shape without telling words must have while it is being learned."""
_EAGER = 4_000
"""Lines without any success after which only every eighth is looked at."""
_PATIENT = 100_000
_MAX_BORING = 2048
_MAX_SIGNS = 32
_STRANGERS = 40
"""Records of known formats after which nothing new is learned: the file is understood."""


@dataclass(slots=True)
class _Seen:
    """One shape, while it is being learned and after."""

    slots: Slots
    lines: list[tuple[Line, list[str]]] = field(default_factory=list)
    since: int = 0
    hopeless: bool = False


class Shapes:
    """What is learned of the shapes of one file.

    Attributes:
        probing: True while lines of unknown shape are to be shown to it.
    """

    def __init__(self) -> None:
        self.probing = True
        self._learning = True
        self._seen: dict[tuple[str, ...], _Seen] = {}
        self._learned: dict[tuple[str, ...], Slots] = {}
        self._signs: tuple[bytes, ...] = ()
        self._looked = 0
        self._key = b""
        self._boring: set[bytes] = set()
        """Lines without their digits whose like was looked at in vain."""
        self._others = 0

    def might(self, line: bytes) -> bool:
        """Whether a line without any known literal should be shown: it is of a learned shape, or may teach one."""
        self._key = b""
        for sign in self._signs:
            if sign in line:
                return True
        if not self._learning or len(line) > 4 * _MAX_TEXT:
            return False
        self._key = line.translate(None, _DIGIT_BYTES)
        if self._key in self._boring:
            return False
        self._looked += 1
        if self._looked > _EAGER and (self._looked & 7 or self._looked > _PATIENT):
            if self._looked > _PATIENT:
                self._end()
            return False
        return any(digit in line for digit in _DIGITS)

    def known(self, message: str) -> None:
        """A format read a record of this file.

        Args:
            message: What the line says, when no literal of the formats stands on it: its words become a sign. Else "".
        """
        if message and len(self._signs) < _MAX_SIGNS and not any(sign in message.encode() for sign in self._signs):
            words = (part.strip() for piece in cut(message)[0] for part in _NO_WORDS.split(piece))
            sign = max(words, key=len, default="").encode()
            if len(sign) >= 2:
                self._signs = (*self._signs, sign)
        if self._learning:
            self._others += 1
            if self._others >= _STRANGERS:
                self._end()

    def line(self, line: Line) -> list[Row] | None:
        """A line that no format read.

        Returns:
            None when it is of no learned shape; else its measurement, with those that came before it was learned.
        """
        text = line.message
        if not 3 <= len(text) <= _MAX_TEXT:
            self._in_vain()
            return None
        shape, values = cut(text)
        if not 2 <= len(values) <= _MAX_NUMBERS:
            self._in_vain()
            return None
        slots = self._learned.get(shape)
        if slots is not None:
            return [_row(slots, line, values)]
        return self._study(shape, values, line) if self._learning else None

    def _in_vain(self) -> None:
        """Lines like the one that `might` let through need not be looked at again."""
        if len(self._boring) >= _MAX_BORING:
            self._boring.clear()
        if self._key:
            self._boring.add(self._key)
            self._key = b""

    def _study(self, shape: tuple[str, ...], values: list[str], line: Line) -> list[Row] | None:
        seen = self._seen.get(shape)
        if seen is None:
            if len(self._seen) >= _MAX_SHAPES:
                self._seen.pop(next(iter(self._seen)))
            seen = self._seen[shape] = _Seen(told(shape), since=line.number)
            seen.hopeless = not seen.slots.measures and foreign(shape)
        if seen.hopeless:
            self._in_vain()
            return None
        seen.lines.append((line, values))
        count = len(seen.lines)
        readings = [values for _, values in seen.lines]
        if seen.slots.measures:
            if count < (2 if self._learned else _NAMED) or not seen.slots.counts(readings):
                seen.hopeless = count > 4 * _NAMED
                return None
        elif count < _UNNAMED:
            return None
        else:
            dense = count >= _DENSE * (line.number - seen.since)
            if not dense or not seen.slots.behaves(readings):
                seen.hopeless = True
                seen.lines.clear()
                return None
        del self._seen[shape]
        self._learned[shape] = seen.slots
        sign = max(shape, key=len).strip().encode()
        if len(sign) >= 2:
            self._signs = (*self._signs, sign)[-_MAX_SIGNS:]
        return [_row(seen.slots, earlier, values) for earlier, values in seen.lines]

    def _end(self) -> None:
        self._learning = False
        self._seen.clear()
        self.probing = bool(self._learned or self._signs)

    @property
    def found(self) -> list[tuple[tuple[str, ...], Slots]]:
        """The learned shapes with what is read from each: what `formats test` shows."""
        return list(self._learned.items())


_NO_WORDS = re.compile(r"[\d\0]+[a-zA-Z]?")
_DIGIT_BYTES = b"0123456789"
_DIGITS = tuple(bytes([digit]) for digit in b"1234567890")


def _row(slots: Slots, line: Line, values: list[str]) -> Row:
    pairs = {name: value for name, value in zip(slots.names, values, strict=True) if name}
    return Row(pairs, FORMAT, line.number, line.offset, line.prefix, slots.kind)
