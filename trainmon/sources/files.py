"""One followed file: what stands in it at a look is given exactly once and in order.

The follower holds the file's descriptor and remembers up to 64 bytes that precede its offset, its mark. Each look
reads mark and news in one call, so that a file that was truncated or written anew betrays itself by the mark alone: no
inotify, no trust in sizes or inode numbers, which network file systems reuse. When the path names another file, the
held descriptor is drained before the switch, and every file seen at the path in between is held until its turn.

What no follower by looks can see:

- a rewrite in place that repeats the same bytes before the offset (appending and cutting back to where the last look
  ended is one, too);
- a file that was created, written and removed between two looks less than `UNSEEN_S` apart. When the looks lie farther
  apart, every replacement is marked as possibly lossy.

A file cut to a length above zero begins a new generation like any other truncated file, and what is left of it is given
again, as that generation's.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from trainmon.clock import Clock
from trainmon.model import Data, Replaced, SourceEvent

MARK = 64
"""Bytes before the offset that are kept to recognise the file."""

BLOCK = 256 * 1024
"""Largest piece that one `Data` carries, in bytes."""

UNSEEN_S = 1.5
"""Between two looks at a path closer than this (seconds), no file is taken to have come, been written and gone."""

_LITTLE = 16 * 1024
"""What is asked for first: room for a block is dear when a few lines come."""
_COMPARE = 64 * 1024
_MAX_PENDING = 16

Key = tuple[int, int]
"""Device and inode."""


class NotRegular(OSError):
    """The path names something that is not opened: a folder, pipe, socket or device. `args[0]` says which."""


@dataclass(slots=True)
class _Next:
    """A file seen at the path that waits for the held one to be drained."""

    fd: int
    key: Key
    late: bool
    size: int


def kind_of(mode: int) -> str:
    """What a file mode names, in a word: "file", "folder", "pipe", "socket", "device"."""
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    if stat.S_ISFIFO(mode):
        return "pipe"
    if stat.S_ISSOCK(mode):
        return "socket"
    return "device"


def open_regular(path: str) -> tuple[int, os.stat_result]:
    """Open `path` for reading without ever waiting for a writer.

    Raises:
        NotRegular: It is no regular file; nothing was opened then.
        OSError: It cannot be opened.
    """
    seen = os.stat(path)
    if not stat.S_ISREG(seen.st_mode):
        raise NotRegular(kind_of(seen.st_mode))
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        seen = os.fstat(fd)
        if not stat.S_ISREG(seen.st_mode):
            raise NotRegular(kind_of(seen.st_mode))
    except OSError:
        os.close(fd)
        raise
    return fd, seen


class FollowedFile:
    """A file by its path, through truncation, rotation, deletion and re-creation.

    Args:
        source: Number that its events carry.
        path: Where it is.
        clock: Tells how far two looks lie apart.

    Attributes:
        fd: The held descriptor, -1 when none is.
        key: Device and inode of the held (or last held) file.
        generation: Counts replacements; `offset` is relative to it.
        offset: Bytes of this generation that were given.
        mark: Up to 64 bytes that precede `offset`.
        size: Bytes of the held file at the last look that found something; mtime: its last change, Unix seconds.
        at_end: True when the last reading met the end of the held file.
        checked: Monotonic time of the last look at the path.
        missing: True when the last look at the path found nothing there.
        retired: (key, mark, offset) of the files that the path named before, newest last, at most 8.
    """

    __slots__ = (
        "_claimed", "_clock", "_pending",
        "at_end",
        "checked", "fd", "generation", "key", "mark", "missing", "mtime", "offset", "path", "retired", "size", "source",
    )  # fmt: skip

    def __init__(self, source: int, path: str, *, clock: Clock) -> None:
        self.source = source
        self.path = path
        self.fd = -1
        self.key: Key = (-1, -1)
        self.generation = 0
        self.offset = 0
        self.mark = b""
        self.size = 0
        self.mtime = 0.0
        self.at_end = False
        self.missing = False
        self.retired: deque[tuple[Key, bytes, int]] = deque(maxlen=8)
        self._clock = clock
        self._claimed: Callable[[Key, int], bool] = lambda _key, _fd: False
        self.checked = clock.monotonic()
        self._pending: deque[_Next] = deque()

    # ------------------------------------------------------------------ opening and closing

    def open(self) -> None:
        """Open the path for the first time.

        Raises:
            NotRegular: It is a folder, pipe, socket or device.
            OSError: It is not there or cannot be opened.
        """
        fd, seen = open_regular(self.path)
        self.fd, self.key = fd, (seen.st_dev, seen.st_ino)
        self.size, self.mtime = seen.st_size, seen.st_mtime
        self.checked = self._clock.monotonic()

    def adopt(self, fd: int, seen: os.stat_result) -> None:
        """Take over a descriptor that the caller has opened."""
        self.fd, self.key = fd, (seen.st_dev, seen.st_ino)
        self.size, self.mtime = seen.st_size, seen.st_mtime
        self.checked = self._clock.monotonic()

    def claim(self, claimed: Callable[[Key, int], bool]) -> None:
        """Set which files (device and inode, open descriptor) belong to other followers and are not switched to."""
        self._claimed = claimed

    def close(self) -> None:
        """Close every held descriptor. The follower can be looked at again: it then reopens its path."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
        while self._pending:
            os.close(self._pending.popleft().fd)

    @property
    def waits_to_switch(self) -> bool:
        """True when the path already names another file, which has not been begun yet."""
        return bool(self._pending)

    # ------------------------------------------------------------------ looking

    def look(self, limit: int | None = None, *, check: bool = True) -> list[SourceEvent]:
        """Read what is new, and follow the path to another file once the held one is drained.

        Args:
            limit: Bytes to read at most; then it also returns right after a replacement. None: read to the end.
            check: Whether to look at the path, too. Reading alone finds news and changes in place.

        Returns:
            Data and Replaced events in order; empty when nothing is new.

        Raises:
            OSError: The file cannot be read; the next look tries again from the same place.
        """
        events: list[SourceEvent] = []
        if self.fd < 0:
            self._reopen(events)
            if limit is not None and events:
                return events
        if check:
            # Before draining: what was written before the path changed hands is then certainly drained.
            self.notice()
        while self._drain(events, limit) and self._advance(events):
            self.at_end = False
            if limit is not None:
                break
        return events

    def _drain(self, events: list[SourceEvent], limit: int | None) -> bool:
        """Read on; True at the end of the file, False when the limit was reached first or it was replaced."""
        room = BLOCK if limit is None else limit
        want = _LITTLE if limit != BLOCK else BLOCK
        self.at_end = False
        while room > 0:
            mark = self.mark
            want = len(mark) + min(room, want)
            try:
                got = os.pread(self.fd, want, self.offset - len(mark))
            except OSError:
                # A stale handle of a network file system: the path may have a good one.
                self._forget_descriptor()
                raise
            if not got.startswith(mark):
                seen = os.fstat(self.fd)
                reason = "truncated" if seen.st_size < self.offset else "rewritten"
                self._begin(events, seen, reason, lost=True)
                if limit is not None:
                    return False
                continue
            size = len(got) - len(mark)
            if size == 0:
                self.at_end = True
                return True
            seen = os.fstat(self.fd)
            data = got[len(mark) :] if mark else got
            self.mtime = seen.st_mtime
            self.size = max(seen.st_size, self.offset + size)
            events.append(Data(self.source, self.generation, self.offset, data, self.size, self.mtime))
            self.offset += size
            self.mark = got[-MARK:]
            if len(got) < want and seen.st_size <= self.offset:
                self.at_end = True
                return True
            want = BLOCK
            if limit is not None:
                room -= size
        return False

    def _begin(self, events: list[SourceEvent], seen: os.stat_result, reason: str, *, lost: bool) -> None:
        """Start a new generation at offset 0 of the file that is held now."""
        self.generation += 1
        self.offset = 0
        self.mark = b""
        self.size, self.mtime = seen.st_size, seen.st_mtime
        events.append(Replaced(self.source, self.generation, reason, lost))

    # ------------------------------------------------------------------ the path

    def notice(self) -> None:
        """Look at the path only; open and keep for later what newly stands there.

        Raises:
            OSError: The path cannot be looked at, or what stands there cannot be opened.
        """
        now = self._clock.monotonic()
        window, self.checked = now - self.checked, now
        try:
            seen = os.stat(self.path)
        except (FileNotFoundError, NotADirectoryError):
            self.missing = True
            return
        self.missing = False
        key = (seen.st_dev, seen.st_ino)
        newest = self._pending[-1].key if self._pending else self.key
        if key == newest or not stat.S_ISREG(seen.st_mode):
            if self._pending and key == newest:
                last = self._pending[-1]
                last.late = last.late or seen.st_size < last.size
                last.size = seen.st_size
            return
        try:
            fd, seen = open_regular(self.path)
        except FileNotFoundError:
            self.missing = True
            return
        if self._claimed((seen.st_dev, seen.st_ino), fd):
            os.close(fd)
            return
        late = window > UNSEEN_S
        if len(self._pending) >= _MAX_PENDING:
            os.close(self._pending.pop().fd)
            late = True
        self._pending.append(_Next(fd, (seen.st_dev, seen.st_ino), late, seen.st_size))

    def still_there(self, now: float) -> bool:
        """A cheap look at the path: True when it names the held file, as it did before."""
        try:
            seen = os.stat(self.path)
        except OSError:
            return False
        if self.missing or self._pending or self.key != (seen.st_dev, seen.st_ino):
            return False
        self.checked = now
        return True

    def _advance(self, events: list[SourceEvent]) -> bool:
        """Switch to the next file; False when there is none, or its writer has not moved to it yet."""
        late = False
        while self._pending:
            following = self._pending[0]
            seen = os.fstat(following.fd)
            if seen.st_size > 0:
                break
            if len(self._pending) == 1:
                following.late = following.late or late
                return False
            late = late or following.late
            os.close(self._pending.popleft().fd)
        else:
            return False
        self._pending.popleft()
        late = late or following.late or seen.st_size < following.size
        held = os.fstat(self.fd)
        same = held.st_nlink == 0 and seen.st_size >= self.offset >= MARK and self._is_copy(following.fd)
        self.retired.append((self.key, self.mark, self.offset))
        os.close(self.fd)
        self.fd, self.key = following.fd, following.key
        if not same:
            reason = "rotated" if held.st_nlink else "re-created"
            self._begin(events, seen, reason, lost=late)
        return True

    def _is_copy(self, fd: int) -> bool:
        """Whether another file begins with all that was given, as after `rsync`, which puts a longer copy in place."""
        for start in (0, max(0, self.offset - _COMPARE)):
            size = min(_COMPARE, self.offset)
            if os.pread(fd, size, start) != os.pread(self.fd, size, start):
                return False
        return True

    def _forget_descriptor(self) -> None:
        fd, self.fd = self.fd, -1
        try:
            os.close(fd)
        except OSError:
            pass

    def _reopen(self, events: list[SourceEvent]) -> None:
        """Open the path again, without having held it: the mark decides whether it is the same file."""
        if self._pending:
            following = self._pending.popleft()
            fd, seen = following.fd, os.fstat(following.fd)
        else:
            try:
                fd, seen = open_regular(self.path)
            except FileNotFoundError:
                self.missing = True
                raise
        self.missing = False
        old, self.key = self.key, (seen.st_dev, seen.st_ino)
        self.fd = fd
        found = os.pread(fd, len(self.mark), self.offset - len(self.mark))
        certain = old == self.key or len(self.mark) == MARK
        if certain and found == self.mark and seen.st_size >= self.offset:
            self.checked = self._clock.monotonic() if old == self.key else self.checked
            return
        if old == self.key:
            reason = "truncated" if seen.st_size < self.offset else "rewritten"
        else:
            reason = "re-created"
        self._begin(events, seen, reason, lost=True)
