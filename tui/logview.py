"""The window on a raw file: which lines are in it, which one is chosen, and how it moves. No Textual here.

Only the lines in the window are kept, so that a file of many gigabytes costs no more than a small one.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol


class Line(NamedTuple):
    """One line: byte offsets of its start and of the next line, and its text."""

    offset: int
    end: int
    text: str


class Reader(Protocol):
    """Random access to the lines of one file."""

    async def refresh(self) -> bool:
        """Look at the file again; True when offsets from before mean nothing any more."""
        ...

    async def size(self) -> int:
        """Bytes of the file at the last look."""
        ...

    async def forward(self, offset: int, count: int) -> list[Line]:
        """Up to `count` lines from the line that holds `offset`."""
        ...

    async def backward(self, offset: int, count: int) -> list[Line]:
        """Up to `count` lines before the line that holds `offset`, in the file's order."""
        ...


class Window:
    """Lines on screen.

    Attributes:
        lines: What is shown, from the top; neighbours in the file.
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
        chosen = self.chosen
        if self.follow or chosen is None:
            await self.to_end()
        else:
            await self.to_offset(chosen.offset, above=min(self.at, self.height - 1))

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
        want = min(self.height - 1, self.height // 3 if above is None else above)
        below = await self.reader.forward(max(0, offset), self.height)
        if not below:
            await self.to_end()
            return
        # Near the end the window is filled from above.
        want = max(want, self.height - len(below))
        before = await self.reader.backward(below[0].offset, want)
        self.at = len(before)
        self.lines = (before + below)[: self.height]

    async def move(self, rows: int) -> None:
        """Move the chosen line; the window follows it."""
        if not self.lines:
            return
        if rows < 0:
            self.follow = False
        target = self.at + rows
        if target < 0:
            more = await self.reader.backward(self.lines[0].offset, -target)
            self.lines = (more + self.lines)[: self.height]
            self.at = max(0, target + len(more))
        elif target >= len(self.lines):
            more = await self.reader.forward(self.lines[-1].end, target - len(self.lines) + 1)
            self.lines += more
            self.at = min(target, len(self.lines) - 1)
            drop = max(0, len(self.lines) - self.height)
            self.lines, self.at = self.lines[drop:], self.at - drop
        else:
            self.at = target

    async def refresh(self) -> None:
        """Look at the file: follow its end, fill free rows, read an unfinished last line again."""
        known = await self.reader.size()
        if await self.reader.refresh() or self.follow:
            await self.to_end()
        elif len(self.lines) < self.height or self.lines[-1].end >= known:
            start = self.lines[0].offset if self.lines else 0
            self.lines = await self.reader.forward(start, self.height)
            self.at = min(self.at, max(0, len(self.lines) - 1))
