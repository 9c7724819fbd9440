"""Bytes -> blocks of whole lines. Half lines wait for their end; nothing that waits grows beyond a megabyte."""

from __future__ import annotations

LIMIT = 1 << 20
"""Longest piece of a line that is parsed; the rest of it is skipped and counted."""


class Splitter:
    """Cuts a stream of chunks at its last line break or carriage return.

    Attributes:
        rest: What waits for its end (at most `LIMIT` bytes).
        skipping: True inside of a piece that was cut at `LIMIT`.
        cut: Pieces that were longer than `LIMIT`.
        holes: NUL bytes taken out (a hole that a crashed machine or a truncated file left).
    """

    __slots__ = ("cut", "holes", "rest", "skipping")

    def __init__(self) -> None:
        self.rest = b""
        self.skipping = False
        self.cut = 0
        self.holes = 0

    def feed(self, data: bytes) -> tuple[bytes, int]:
        """The next chunk.

        Returns:
            What can be parsed now, ending in `\\n` or `\\r` (empty when nothing ended), and how many bytes of `data`
            come after it.
        """
        if self.skipping:
            end = _first_break(data)
            if end < 0:
                return b"", 0
            data, self.skipping = data[end:], False
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if end == 0:
            self._keep(data)
            return b"", len(data)
        head = data[:end]
        block = self.rest + head if self.rest else head
        self.rest = b""
        if end < len(data):
            self._keep(data[end:])
        return block, len(data) - end

    def _keep(self, data: bytes) -> None:
        if b"\0" in data:
            self.holes += data.count(b"\0")
            data = data.replace(b"\0", b"")
        self.rest = self.rest + data if self.rest else data
        if len(self.rest) > LIMIT:
            self.rest = self.rest[:LIMIT]
            self.skipping = True
            self.cut += 1

    def without_holes(self, block: bytes) -> bytes:
        """`block` without NUL bytes, counted."""
        self.holes += block.count(b"\0")
        return block.replace(b"\0", b"")

    def take(self) -> bytes:
        """The last piece, that no line break ended."""
        rest, self.rest, self.skipping = self.rest, b"", False
        return rest


def _first_break(data: bytes) -> int:
    places = [at for at in (data.find(b"\n"), data.find(b"\r")) if at >= 0]
    return min(places) if places else -1
