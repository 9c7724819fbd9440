"""Lines of raw files for the pages, through the session's random access to them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from trainmon.errors import TrainmonError
from trainmon.tui.logview import Line

INDEXED_BYTES = 256 << 20
"""Files up to this size are numbered when they are opened; larger ones when a line number is asked for."""

_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[PX^_][^\x1b]*(?:\x1b\\)?|[ -/]*[0-~])"
)
_PLAIN = re.compile(r"[\w \-:=,;%\"'<>/@#&!~`]+\Z")


def shown(data: bytes) -> str:
    """A raw line as text: no escape sequences, and of a progress bar the state it ended with."""
    text = data.decode("utf-8", "replace")
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    if "\r" in text:
        parts = [part for part in text.split("\r") if part.strip()]
        text = parts[-1] if parts else ""
    return text.replace("\t", "    ")


def said(error: Exception) -> str:
    """An error as a short sentence."""
    if isinstance(error, OSError) and error.strerror:
        return f"this file cannot be read: {error.strerror.lower()}"
    return str(error) or type(error).__name__


class RawReader:
    """The window's view of one file.

    Args:
        log: The session's random access (`lines_at`, `lines_before`, `search`, `goto_line`, `refresh`, ...).
        told: Called with a sentence when something happened to the file, "" when it is as usual.
    """

    def __init__(self, log: Any, told: Callable[[str], None] = lambda text: None) -> None:
        self.log = log
        self._told = told
        self._numbers: tuple[int, int | None] = (-1, None)

    def close(self) -> None:
        """Let go of the file."""
        self.log.close()

    async def refresh(self) -> bool:
        """Look at the file again; True when what was read before means nothing any more."""
        change = await self.log.refresh()
        if change == "replaced":
            await self.log.reopen()
            self._told("the file was replaced: this is the new one")
        elif change == "truncated":
            self._told("the file was cut or written anew")
        elif change == "gone":
            self._told("the file is gone: this is what is still held of it")
            return False
        else:
            return False
        self._numbers = (-1, None)
        return True

    async def size(self) -> int:
        """Bytes at the last look; opens the file."""
        await self.log.open()
        return int(self.log.size)

    async def forward(self, offset: int, count: int) -> list[Line]:
        """Up to `count` lines from the one that holds `offset`."""
        return [Line(raw.offset, raw.end, shown(raw.data)) for raw in await self.log.lines_at(offset, count)]

    async def backward(self, offset: int, count: int) -> list[Line]:
        """Up to `count` lines before the one that holds `offset`."""
        if count <= 0:
            return []
        return [Line(raw.offset, raw.end, shown(raw.data)) for raw in await self.log.lines_before(offset, count)]

    async def learn_number(self, offset: int) -> None:
        """Find out the number of the line at an offset, as far as lines are counted."""
        known, number = self._numbers
        if known != offset or number is None:
            self._numbers = offset, await self.log.line_of(offset)

    def number_of(self, offset: int) -> int | None:
        """1-based number of the line at an offset, where it was learned; reads nothing."""
        known, number = self._numbers
        return number if known == offset else None

    def total(self) -> int | None:
        """How many lines there are; None until all are counted."""
        return int(self.log.lines) if self.log.indexed >= 1.0 else None

    async def number_lines(self, progress: Callable[[float], None]) -> None:
        """Number the lines of a file that is not too large, in the background."""
        await self.log.open()
        if self.log.size <= INDEXED_BYTES:
            await self.log.start_index(progress)

    async def offset_of(self, number: int, progress: Callable[[float], None]) -> tuple[int, bool]:
        """Where a line begins (of the last line when there are fewer), and whether it exists."""
        at = int(await self.log.goto_line(number, progress))
        found = await self.log.line_of(at)
        return at, found is None or found >= number

    async def find(
        self, pattern: re.Pattern[str], start: int, forward: bool, progress: Callable[[float], None]
    ) -> int | None:
        """Start of the next line that matches, searching the whole file in one direction."""
        fold = bool(pattern.flags & re.IGNORECASE)
        wanted: bytes | re.Pattern[bytes]
        if _PLAIN.match(pattern.pattern) and (not fold or pattern.pattern.isascii()):
            wanted = pattern.pattern.encode()
        else:
            wanted = _of_bytes(pattern)
            fold = False
        match = await self.log.search(wanted, start, forward, ignore_case=fold, progress=progress)
        return None if match is None else int(match.line)


def _of_bytes(pattern: re.Pattern[str]) -> re.Pattern[bytes]:
    """The pattern for raw bytes; what bytes know no escape for is taken literally."""
    flags = pattern.flags & re.IGNORECASE
    try:
        return re.compile(pattern.pattern.encode(), flags)
    except re.error:
        return re.compile(re.escape(pattern.pattern.encode()), flags)


async def around(
    session: Any, source: int, line: int | None, offset: int | None, count: int
) -> tuple[list[tuple[int | None, str]], str]:
    """Read `count` lines before and after a place.

    Args:
        line: Number of the line; offset: where it begins. One of them is enough.

    Returns:
        Pairs of line number (None when unknown) and text; and a sentence when they cannot be read.
    """
    try:
        reader = RawReader(session.open_log(source))
    except TrainmonError as error:
        return [], said(error)
    try:
        at = offset
        if at is None:
            at, there = await reader.offset_of(line or 1, lambda share: None)
            if not there:
                return [], "the file does not reach to this line any more"
        before = await reader.backward(at, count)
        after = await reader.forward(at, count + 1)
    except (OSError, TrainmonError) as error:
        return [], said(error)
    finally:
        reader.close()
    rows = before + after
    first = None if line is None else line - len(before)
    return [(None if first is None else first + index, row.text) for index, row in enumerate(rows)], ""
