"""The window on a raw file: which lines are in it, which one is chosen, and how it moves. No Textual here.

Only the lines in the window are kept, so that a file of many gigabytes costs no more than a small one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol


class Line(NamedTuple):
    """One line: byte offsets of its start and of the next line, and its text, safe to show."""

    offset: int
    end: int
    text: str


class Reader(Protocol):
    """Random access to the lines of one file."""

    async def forward(self, offset: int, count: int) -> list[Line]:
        """Up to `count` lines from the line that holds `offset`."""
        ...

    async def backward(self, offset: int, count: int) -> list[Line]:
        """Up to `count` lines that end at or before `offset`, in the file's order."""
        ...

    async def size(self) -> int:
        """Bytes of the file now."""
        ...


class Window:
    """Lines on screen.

    Attributes:
        lines: What is shown, from the top.
        at: Index of the chosen line.
        follow: Stay at the end as the file grows.
        height: Rows that there are.
    """

    def __init__(self, reader: Reader, height: int = 1) -> None:
        self.reader = reader
        self.lines: list[Line] = []
        self.at = 0
        self.follow = True
        self.height = max(1, height)

    @property
    def chosen(self) -> Line | None:
        """The chosen line."""
        return self.lines[self.at] if 0 <= self.at < len(self.lines) else None

    async def resize(self, height: int) -> None:
        """Another number of rows."""
        self.height = max(1, height)
        if self.follow or not self.lines:
            await self.to_end()
            return
        chosen = self.chosen
        await self.to_offset(chosen.offset if chosen is not None else 0, above=min(self.at, self.height - 1))

    async def to_end(self) -> None:
        """The last lines, the newest chosen."""
        self.lines = await self.reader.backward(await self.reader.size(), self.height)
        self.at = max(0, len(self.lines) - 1)

    async def to_start(self) -> None:
        """The first lines, the first chosen."""
        self.follow = False
        self.lines = await self.reader.forward(0, self.height)
        self.at = 0

    async def to_offset(self, offset: int, above: int | None = None) -> None:
        """Choose the line at an offset, with some lines above it (a third of the window unless told)."""
        want = self.height // 3 if above is None else above
        below = await self.reader.forward(max(0, offset), self.height)
        if not below:
            await self.to_end()
            return
        before = await self.reader.backward(below[0].offset, max(want, self.height - len(below)))
        keep = max(want, self.height - len(below))
        before = before[len(before) - keep :] if keep < len(before) else before
        self.at = len(before)
        self.lines = (before + below)[: max(self.height, self.at + 1)]

    async def move(self, rows: int) -> None:
        """Move the chosen line; the window follows it."""
        if not self.lines:
            return
        if rows < 0:
            self.follow = False
        target = self.at + rows
        if target < 0:
            more = await self.reader.backward(self.lines[0].offset, min(-target, 4 * self.height))
            self.lines = (more + self.lines)[: self.height]
            self.at = max(0, target + len(more))
        elif target >= len(self.lines):
            need = target - len(self.lines) + 1
            more = await self.reader.forward(self.lines[-1].end, min(need, 4 * self.height))
            self.lines = self.lines + more
            self.at = min(target, len(self.lines) - 1)
            drop = max(0, len(self.lines) - self.height)
            self.lines, self.at = self.lines[drop:], self.at - drop
        else:
            self.at = target

    async def refresh(self) -> bool:
        """The file may have grown: follow it, fill free rows, or read the last line again. True when rows changed."""
        before = list(self.lines)
        if self.follow:
            await self.to_end()
        elif len(self.lines) < self.height or (self.lines and self.lines[-1].end >= await self.reader.size()):
            start = self.lines[0].offset if self.lines else 0
            self.lines = await self.reader.forward(start, self.height)
            self.at = min(self.at, max(0, len(self.lines) - 1))
        return self.lines != before


Progress = Callable[[float], None]
"""Told the share of the file that has been searched, 0 to 1."""
