"""Text that is no UTF-8: UTF-16 as PowerShell's `>` writes it, with a byte order mark or without."""

from __future__ import annotations

import codecs

BOM = b"\xef\xbb\xbf"
_LOOK = 2048
_LEAST = 16
_SURE = 0.8
"""Share of every second byte that is NUL in UTF-16 of mostly Latin text."""


def wide_of(data: bytes, offset: int) -> str | None:
    """The name of the encoding when these bytes of a file are UTF-16; None for all else.

    Args:
        offset: Where they stand in the file.
    """
    if offset == 0 and data[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return "utf-16-le" if data[:2] == codecs.BOM_UTF16_LE else "utf-16-be"
    if b"\0" not in data[:_LOOK]:
        return None
    part = data[offset % 2 : _LOOK]
    even, odd = part[::2], part[1::2]
    if len(odd) < _LEAST:
        return None
    if odd.count(0) >= _SURE * len(odd) and even.count(0) <= 0.1 * len(even):
        return "utf-16-le"
    if even.count(0) >= _SURE * len(even) and odd.count(0) <= 0.1 * len(odd):
        return "utf-16-be"
    return None


class Wide:
    """Turns the bytes of a UTF-16 file to UTF-8, and knows where in the file they stood.

    Attributes:
        at: File offset of the first byte that was not given to `passed` yet.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.at = 0
        self._decoder = codecs.getincrementaldecoder(name)("replace")

    def jump(self, offset: int) -> None:
        """What comes next begins there; `at` goes with it."""
        self._decoder.reset()
        self.at = offset + offset % 2

    def feed(self, data: bytes, offset: int) -> bytes:
        """The next bytes as UTF-8.

        Args:
            offset: Where they begin in the file.
        """
        if offset == self.at and offset % 2 == 0 and data[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            data = data[2:]
            self.at += 2
        elif offset < self.at:
            data = data[self.at - offset :]  # half a unit, behind a jump to an odd place
        return self._decoder.decode(data).encode("utf-8", "replace")

    def size(self, text: bytes) -> int:
        """How many bytes of the file such a piece was."""
        return len(text) * 2 if text.isascii() else len(text.decode("utf-8", "replace").encode(self.name))
