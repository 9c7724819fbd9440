"""Python tracebacks: many lines, often of several ranks interleaved, joined to one error each."""

from __future__ import annotations

import re
from dataclasses import dataclass

HEADS = ("Traceback (most recent call last)", "Exception Group Traceback (most recent call last)")
_LAST = re.compile(r"[A-Za-z_][\w.]*(?:\[[\w., ]+\])?(?::(?:\s|$)|$)")
_NAME = re.compile(
    r"(?:[A-Za-z_]\w*\.)*[A-Z_]\w*(?:Error|Exception|Interrupt|Exit|Warning|Failure|Timeout|Expired|Killed|Abort\w*|Iteration)\b"
)
_CHAIN = ("During handling of the above exception", "The above exception was the direct cause")
_FRAME = re.compile(r'\s*(?:>\s)?File "([^"]{1,300})", line (\d+)(?:, in (.{1,100}))?')
_MAX_LINES = 400
_MAX_STRAY = 40

Stream = tuple[int | None, int | None, str | None]
"""Whose lines belong together: rank, local rank, node or actor."""


@dataclass(slots=True)
class Block:
    """A traceback that has begun and not ended yet."""

    line: int
    offset: int
    lines: int = 1
    stray: int = 0
    indented: bool = False
    frame: str = ""
    last: str = ""
    told: bool = False


class Tracebacks:
    """Open tracebacks, one a stream."""

    def __init__(self) -> None:
        self.open: dict[Stream, Block] = {}

    def begin(self, stream: Stream, line: int, offset: int) -> Block | None:
        """A traceback begins; returns the one that it cuts off, if any."""
        cut = self.open.pop(stream, None)
        if len(self.open) >= 64:
            self.open.pop(next(iter(self.open)))
        self.open[stream] = Block(line, offset)
        return cut

    def feed(self, stream: Stream, body: str) -> tuple[str, Block | None]:
        """The next line of a stream.

        Args:
            body: The line without its launcher labels, indentation kept.

        Returns:
            "inside" when it belongs to the open traceback, "end" with the block when it is the exception that closes
            it, "outside" when it has nothing to do with it, "lost" with the block when its end will not come any more.
        """
        block = self.open.get(stream)
        if block is None:
            return "outside", None
        block.lines += 1
        if not body.strip():
            return "inside", None
        if body[0] in " \t" or body[0] in "|+>│└╭╰":
            block.indented = True
            block.last = body.strip()
            if frame := _FRAME.match(body):
                where = f"{frame[1]}:{frame[2]}"
                block.frame = f"{where} in {frame[3].strip()}" if frame[3] else where
            return self._long(stream, block)
        if body.startswith(_CHAIN):
            return "inside", None
        if block.indented and _LAST.match(body) and (block.stray == 0 or _NAME.match(body)):
            del self.open[stream]
            return "end", block
        if _NAME.match(body):
            del self.open[stream]
            return "end", block
        block.stray += 1
        if block.stray > _MAX_STRAY:
            del self.open[stream]
            return "lost", block
        return "outside", None

    def _long(self, stream: Stream, block: Block) -> tuple[str, Block | None]:
        if block.lines > _MAX_LINES:
            del self.open[stream]
            return "lost", block
        return "inside", None

    def untold(self) -> list[tuple[Stream, Block]]:
        """What is open when nothing more comes, each once; it stays open, since a writer may only have paused."""
        left = [(stream, block) for stream, block in self.open.items() if not block.told]
        for _, block in left:
            block.told = True
        return left


def last_line(text: str) -> str:
    """The line of a traceback in one string that names the exception."""
    lines = [line for line in text.strip().splitlines() if line.strip()]
    for line in reversed(lines):
        if line[0] not in " \t" and _LAST.match(line):
            return line.strip()
    return lines[-1].strip() if lines else ""
