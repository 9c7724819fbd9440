"""One file at random, for the log view: lines around a place, line numbers, search over all of it, in flat memory.

Everything that touches the disk is awaited, so that a slow file system never stops the screen.
"""

from __future__ import annotations

import _thread
import asyncio
import errno
import os
import re
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from aiofiles.os import wrap

from trainmon.sources.files import MARK, open_regular
from trainmon.sources.lineindex import LineIndex
from trainmon.sources.seek import find_literal, find_pattern, line_start

SHOWN = 16 * 1024
"""Bytes of a line that are kept for display."""

_BLOCK = 256 * 1024
_LONGEST = 64 * 1024 * 1024
_PROGRESS_S = 0.05

Change = Literal["same", "grown", "truncated", "replaced", "gone"]

_pread = wrap(os.pread)


@dataclass(frozen=True, slots=True)
class RawLine:
    """A line as it stands in the file.

    Attributes:
        offset: Where it begins; end: where the next one begins.
        data: Its bytes without the line end, the first `SHOWN` of them when it is longer.
        length: Bytes without the line end, all of them.
        cut: True when `data` is not all of it.
        complete: False for the last line while it has no line end yet.
        number: 1-based, where the index has come that far.
    """

    offset: int
    end: int
    data: bytes
    length: int
    cut: bool
    complete: bool
    number: int | None = None


@dataclass(frozen=True, slots=True)
class Match:
    """A place that a search found. line: where its line begins; number: of that line, where it is known."""

    offset: int
    length: int
    line: int
    number: int | None = None


class _Handle:
    """A descriptor that lives as long as someone reads from it: a search may outlast the view."""

    def __init__(self, path: str) -> None:
        self.fd, seen = open_regular(path)
        self.key = (seen.st_dev, seen.st_ino)

    def __del__(self) -> None:
        if hasattr(self, "fd"):
            # Aside: some network file systems ask their server about a close, too. Not by `threading`, whose start
            # waits for the thread: at the interpreter's end, when this may be called, none begins any more.
            with suppress(RuntimeError):
                _thread.start_new_thread(os.close, (self.fd,))


class RawLog:
    """Random access to one log. The first call opens it; `close` or `async with` lets go of it.

    Args:
        path: Where it is.

    Attributes:
        size: Bytes at opening or at the last `refresh`; nothing behind it is shown or searched.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.size = 0
        self._handle: _Handle | None = None
        self._mark = b""
        self._index = LineIndex()
        self._indexing: asyncio.Task[None] | None = None
        self._opening = asyncio.Lock()
        self._extending = asyncio.Lock()
        self._closed = False

    async def __aenter__(self) -> RawLog:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    @property
    def indexed(self) -> float:
        """Share of the file in which lines are numbered, 0 to 1."""
        return 1.0 if self._index.covered >= self.size else self._index.covered / self.size

    @property
    def lines(self) -> int:
        """How many lines there are, the unfinished last one included, as far as `indexed` goes."""
        index = self._index
        return index.line_ends + (index.covered > 0 and not (index.covered >= self.size and self._mark[-1:] == b"\n"))

    # ------------------------------------------------------------------ opening, changes

    async def open(self) -> _Handle:
        """Open the file, unless it is open. Other calls do so by themselves.

        Raises:
            OSError: It cannot be opened (`NotRegular` when it is no file), or the log was closed.
        """
        async with self._opening:
            if self._closed:
                raise OSError(errno.EBADF, "the log is closed")
            if self._handle is None:
                handle = await wrap(_Handle)(self.path)
                self._handle = handle
                self._index = LineIndex()
                self.size = (await self._inspect(handle))[0]
                await self._remember(handle)
            return self._handle

    def close(self) -> None:
        """Let go of the file; calls that are under way end first, on their own."""
        self._closed = True
        self._stop_indexing()
        self._handle = None

    async def reopen(self) -> None:
        """Go to the file that the path names now, with a new index.

        Raises:
            OSError: It cannot be opened; the next call tries again.
        """
        self._stop_indexing()
        self._handle = None
        await self.open()

    async def refresh(self) -> Change:
        """Look whether the file has changed, and take in its new size.

        Returns:
            "same", "grown", "truncated" (cut or written anew: offsets held by the caller mean nothing now, the index
            starts over), "replaced" (the path names another file; this one stays open until `reopen`), or "gone".

        Raises:
            OSError: It cannot be looked at.
        """
        handle = await self.open()
        known = self.size
        size, there, mark = await self._inspect(handle)
        if size < known or mark != self._mark:
            self._stop_indexing()
            self._index = LineIndex()
            change: Change = "truncated"
        elif there is None:
            change = "gone"
        elif there != handle.key:
            change = "replaced"
        else:
            change = "grown" if size > known else "same"
        self.size = size
        if change == "truncated" or size > known:
            await self._remember(handle)
        return change

    async def _inspect(self, handle: _Handle) -> tuple[int, tuple[int, int] | None, bytes]:
        """Size of the held file, what the path names, and the bytes where the mark was taken."""
        mark, at = self._mark, self.size - len(self._mark)

        def look() -> tuple[int, tuple[int, int] | None, bytes]:
            found = os.pread(handle.fd, len(mark), at)
            size = os.fstat(handle.fd).st_size
            try:
                there = os.stat(self.path)
            except FileNotFoundError:
                return size, None, found
            return size, (there.st_dev, there.st_ino), found

        return await wrap(look)()

    async def _remember(self, handle: _Handle) -> None:
        start = max(0, self.size - MARK)
        self._mark = await _pread(handle.fd, self.size - start, start)

    # ------------------------------------------------------------------ lines

    async def lines_at(self, offset: int, count: int) -> list[RawLine]:
        """Up to `count` lines from the one that `offset` stands in.

        Raises:
            OSError: The file cannot be read.
        """
        handle = await self.open()
        return await wrap(self._forward)(handle, min(max(0, offset), self.size), count)

    async def lines_before(self, offset: int, count: int) -> list[RawLine]:
        """Up to `count` lines before the one that `offset` stands in, in file order; with `offset` at the file's end,
        its last lines, an unfinished one included.

        Raises:
            OSError: The file cannot be read.
        """
        handle = await self.open()
        return await wrap(self._backward)(handle, min(max(0, offset), self.size), count)

    def _forward(self, handle: _Handle, offset: int, count: int) -> list[RawLine]:
        size = self.size
        at = line_start(handle.fd, offset)
        if at >= size:
            return []
        number = self._index.number_at(handle.fd, at)
        return self._read(handle.fd, at, size, count, number)

    def _read(self, fd: int, at: int, size: int, count: int, number: int | None) -> list[RawLine]:
        """Lines from the line start `at` on, none of them beginning at or behind `size`."""
        lines: list[RawLine] = []
        block, base = b"", at
        while at < size and len(lines) < count:
            begin, kept, length = at, b"", 0
            while True:
                if not base <= at < base + len(block):
                    block, base = os.pread(fd, min(_BLOCK, size - at), at), at
                    if not block:
                        return lines
                end = block.find(b"\n", at - base)
                piece = block[at - base : end if end >= 0 else None]
                if len(kept) < SHOWN:
                    kept += piece[: SHOWN - len(kept)]
                length += len(piece)
                at += len(piece) + (end >= 0)
                if end >= 0 or at >= size or length >= _LONGEST:
                    break
            if end >= 0 and kept.endswith(b"\r") and length == len(kept):
                kept, length = kept[:-1], length - 1
            lines.append(RawLine(begin, at, kept, length, length > len(kept), end >= 0, number))
            number = number + 1 if number is not None else None
        return lines

    def _backward(self, handle: _Handle, offset: int, count: int) -> list[RawLine]:
        fd, size = handle.fd, self.size
        end = line_start(fd, offset) if offset < size else size
        at, wanted, step = end, count + 1, 16 * 1024
        # One more line end than lines are wanted: the first belongs to the line before them.
        if end == size and size and self._mark[-1:] != b"\n":
            wanted = count
        while at > 0 and wanted > 0 and end - at < _LONGEST:
            low = max(0, at - step)
            block = os.pread(fd, at - low, low)
            cut = len(block)
            while wanted > 0:
                cut = block.rfind(b"\n", 0, cut)
                if cut < 0:
                    break
                wanted -= 1
            if wanted == 0:
                at = low + cut + 1
                break
            at, step = low, min(step * 2, 1024 * 1024)
        return self._read(fd, at, end, count, self._index.number_at(fd, at))

    # ------------------------------------------------------------------ line numbers

    async def line_of(self, offset: int) -> int | None:
        """1-based number of the line that `offset` stands in; None where the index has not come yet, or on an error.

        Reads at most 64 KiB, of a place that was just read in most cases.
        """
        handle = self._handle
        try:
            return None if handle is None else await wrap(self._index.number_at)(handle.fd, offset)
        except OSError:
            return None

    async def goto_line(self, number: int, progress: Callable[[float], None] | None = None) -> int:
        """Offset of the 1-based line `number`, of the last line when there are fewer. Waits for the index.

        Args:
            progress: Called with the share that is indexed, while this waits.

        Raises:
            OSError: The file cannot be read.
        """
        while True:
            handle = await self.open()
            found = await wrap(self._index.start_of)(handle.fd, number)
            if found is not None and found < max(1, self.size):
                return found
            if self.indexed >= 1.0:
                last = await self.lines_before(self.size, 1)
                return last[-1].offset if last else 0
            await self._extend(handle)
            if progress is not None:
                progress(self.indexed)

    def start_index(self, progress: Callable[[float], None] | None = None) -> asyncio.Task[None]:
        """Number the lines in the background, in slices; returns the task. Again after the file has grown.

        Args:
            progress: Called on the loop with the share that is done.
        """
        if self._indexing is None or self._indexing.done():
            self._indexing = asyncio.create_task(self._index_all(progress))
        return self._indexing

    async def _index_all(self, progress: Callable[[float], None] | None) -> None:
        handle = await self.open()
        while self.indexed < 1.0 and not self._closed:
            await self._extend(handle)
            if progress is not None:
                progress(self.indexed)

    async def _extend(self, handle: _Handle) -> None:
        index, size = self._index, self.size
        async with self._extending:
            if await wrap(index.extend)(handle.fd, size) and index.covered < size:
                self.size = index.covered  # it was cut meanwhile; `refresh` will say so

    def _stop_indexing(self) -> None:
        if self._indexing is not None:
            self._indexing.cancel()
            self._indexing = None

    # ------------------------------------------------------------------ search

    async def search(
        self,
        pattern: bytes | re.Pattern[bytes],
        start: int,
        forward: bool = True,
        *,
        ignore_case: bool = False,
        progress: Callable[[float], None] | None = None,
        cancel: Callable[[], bool] | None = None,
    ) -> Match | None:
        """The next match in the whole file. Cancelling the task ends the search, too.

        Args:
            pattern: Literal bytes, or a compiled pattern of bytes that is applied line by line.
            start: Forward: the first offset at which a match may begin. Backward: it begins before this.
            ignore_case: For a literal: ASCII letters match both cases.
            progress: Called on the loop with the share (0 to 1) of what lies in that direction.
            cancel: Asked from the worker thread; True ends the search without a match.

        Raises:
            OSError: The file cannot be read.
        """
        handle, loop = await self.open(), asyncio.get_running_loop()
        size, stopped, told = self.size, threading.Event(), 0.0
        start = min(max(0, start), size)

        def keep(share: float) -> bool:
            nonlocal told
            now = time.monotonic()
            if progress is not None and now - told >= _PROGRESS_S and not stopped.is_set():
                told = now
                loop.call_soon_threadsafe(progress, min(1.0, share))
            return not (stopped.is_set() or (cancel is not None and cancel()))

        def work() -> Match | None:
            if isinstance(pattern, bytes):
                length = len(pattern)
                at = find_literal(handle.fd, pattern, start, size, forward, ignore_case, keep) if pattern else -1
            else:
                at, length = find_pattern(handle.fd, pattern, start, size, forward, keep)
            if at < 0:
                return None
            line = line_start(handle.fd, at)
            return Match(at, length, line, self._index.number_at(handle.fd, line))

        try:
            return await wrap(work)()
        except asyncio.CancelledError:
            stopped.set()
            raise
