"""A followed file as the reader treats it: a glimpse of both ends, its history in blocks, then its news."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Literal

from trainmon.model import Ahead, CaughtUp, Glimpse, Replaced, SourceEvent
from trainmon.sources.files import BLOCK, MARK, FollowedFile
from trainmon.sources.packed import older_events, rotations

LONG = 1024 * 1024
"""Files above this many bytes are shown by their ends before they are read."""

HEAD = 64 * 1024
TAIL = 256 * 1024
WIDEST_TAIL = 4 * 1024 * 1024

Phase = Literal["new", "history", "live"]


def take_glimpse(fd: int, source: int, generation: int, size: int, head: int = HEAD, tail: int = TAIL) -> Glimpse:
    """Read both ends of a file.

    Args:
        fd: Descriptor of the file, whose position is not moved.
        size: Where its end is taken to be.
        head: Bytes of the beginning; cut after the last line end among them.
        tail: Bytes of the end; begins after the first line end (or carriage return) among them. Doubled up
            to 4 MiB until there is one.

    Raises:
        OSError: It cannot be read.
    """
    first = os.pread(fd, min(head, size), 0)
    cut = first.rfind(b"\n") + 1 or first.rfind(b"\r") + 1
    width = min(tail, size)
    while True:
        start = size - width
        last = os.pread(fd, width, start)
        begin = 0 if start == 0 else _line_start(last)
        if begin >= 0 or width >= min(WIDEST_TAIL, size):
            break
        width = min(width * 2, WIDEST_TAIL, size)
    begin = max(begin, 0)
    return Glimpse(source, generation, first[: cut or None], last[begin:], start + begin, size)


def _line_start(data: bytes) -> int:
    """Where the first line that begins inside `data` starts; -1 when none does."""
    feed, back = data.find(b"\n"), data.find(b"\r")
    if back >= 0 and (feed < 0 or back < feed - 1):
        feed = back
    return feed + 1 if 0 <= feed < len(data) - 1 else -1


class Tail(FollowedFile):
    """A `FollowedFile` with what the reader keeps beside it.

    Attributes:
        name: How the user knows it.
        phase: "new" until it was begun, "history" until everything was given once, then "live".
        probe_mark, probe_at, probe_size: What a read of `probe_size` bytes at `probe_at` returns while nothing is new;
            `probe_size` is 0 when there is nothing to ask.
        due: Monotonic time of the next look at the path; active: of the last news.
        failures: Errors in a row. queued: It waits for its history to be read.
        parked: The descriptor was closed since there are too few.
        hangs: What this file waits for, when a read of it does not come back.
    """

    __slots__ = (
        "_ahead", "_ahead_mark", "_done", "_older", "_stamp",
        "active", "due", "failures", "hangs", "name", "parked", "phase",
        "probe_at", "probe_mark", "probe_size", "queued",
    )  # fmt: skip

    name: str
    phase: Phase
    probe_mark: bytes
    hangs: object | None

    def prepare(self, name: str, now: float) -> None:
        """Set the reader's fields; `now` is monotonic."""
        self.name = name
        self.phase = "new"
        self.probe_mark, self.probe_at, self.probe_size = b"", 0, 0
        self.due = self.active = now
        self.failures = 0
        self.hangs = None
        self.parked = self.queued = False
        self._stamp = (0, 0, 0.0)
        self._ahead = -1
        self._ahead_mark = b""
        self._done = -1
        self._older: Iterator[list[SourceEvent]] | None = None

    def begin(self, long: int = LONG, head: int = HEAD, tail: int = TAIL) -> list[SourceEvent]:
        """Start a generation: a glimpse when it is longer than `long` bytes; its history comes later."""
        if self.generation == 0 and self.offset == 0:
            self._look_back()
        self.phase = "history"
        self._ahead = -1
        self.aim()
        if self.size <= long:
            return []
        glimpse = take_glimpse(self.fd, self.source, self.generation, self.size, head, tail)
        self._set_ahead(glimpse.size, (glimpse.tail or glimpse.head)[-MARK:])
        return [glimpse]

    def _look_back(self) -> None:
        """What was rotated away before we came are this file's first generations."""
        try:
            older = rotations(self.path)
        except OSError:
            return
        if older:
            self.generation = len(older)
            self._older = older_events(self.source, older, self.size)

    def _set_ahead(self, offset: int, mark: bytes) -> None:
        self._ahead, self._ahead_mark = offset, mark
        self.aim()

    def aim(self) -> None:
        """Decide what the next sweep asks of this file."""
        if self.phase == "live":
            self.probe_mark, end = self.mark, self.offset
        elif self._ahead >= 0:
            self.probe_mark, end = self._ahead_mark, self._ahead
        else:
            self.probe_size = 0
            return
        self.probe_at = end - len(self.probe_mark)
        self.probe_size = len(self.probe_mark) + 1

    def poll(self, limit: int, check: bool) -> list[SourceEvent]:
        """What a sweep does when the probe says that something changed, or the path is due.

        Raises:
            OSError: See `FollowedFile.look`.
        """
        if self.phase == "live":
            if self.parked and self._unchanged():
                return []
            self.parked = False
            return self._settle(self.look(limit, check=check))
        if self.fd < 0:
            return []  # reading on in its history opens it
        if check:
            self.notice()
        self.aim()
        return self._look_ahead() if self._ahead >= 0 else []

    def read_history(self, limit: int = BLOCK) -> list[SourceEvent]:
        """The next block of history; `phase` becomes "live" once the end is met.

        Raises:
            OSError: See `FollowedFile.look`.
        """
        self.parked = False
        if self._older is not None:
            events = next(self._older, None)
            if events is not None:
                return events
            self._older = None
        return self._settle(self.look(limit, check=False))

    def _settle(self, events: list[SourceEvent]) -> list[SourceEvent]:
        """Add what follows from the events of a look: a new glimpse, or that the end is met."""
        if any(type(event) is Replaced for event in events):
            events += self.begin()
        elif self.at_end and self._done != self.generation:
            self._done = self.generation
            self.phase = "live"
            events.append(CaughtUp(self.source, self.generation))
        if self.phase == "history" and 0 <= self._ahead < self.offset:
            self._ahead, self._ahead_mark = self.offset, self.mark
        self.aim()
        return events

    def _look_ahead(self) -> list[SourceEvent]:
        """What was appended behind the glimpse while history is being read."""
        mark = self._ahead_mark
        got = os.pread(self.fd, len(mark) + BLOCK, self._ahead - len(mark))
        if not got.startswith(mark):
            # Cut or written anew behind the place that history has reached, or before it.
            events = self._settle(self.look(BLOCK, check=False))
            if self.phase == "history" and self._ahead >= 0 and not any(type(e) is Glimpse for e in events):
                end = os.fstat(self.fd).st_size
                start = max(0, end - MARK)
                self._set_ahead(end, os.pread(self.fd, end - start, start))
            return events
        if len(got) == len(mark):
            return []
        seen = os.fstat(self.fd)
        if seen.st_size - self._ahead > WIDEST_TAIL:
            # Too much at once to be shown twice: go on at the end.
            glimpse = take_glimpse(self.fd, self.source, self.generation, seen.st_size, MARK)
            self._set_ahead(seen.st_size, glimpse.tail[-MARK:])
            offset, data = glimpse.tail_offset, glimpse.tail
        else:
            offset, data = self._ahead, got[len(mark) :]
            self._set_ahead(offset + len(data), got[-MARK:])
        return [Ahead(self.source, self.generation, offset, data, seen.st_mtime)]

    # ------------------------------------------------------------------ closed for want of descriptors

    def park(self) -> None:
        """Close the descriptor; the file is watched by its size and time until it changes."""
        seen = os.fstat(self.fd)
        self.close()
        self.parked = True
        self.probe_size = 0
        # Not what stands there now: bytes that came since the last read count as a change.
        self._stamp = (seen.st_ino, max(self.offset, 0), seen.st_mtime)

    def _unchanged(self) -> bool:
        seen = os.stat(self.path)
        return (seen.st_ino, seen.st_size, seen.st_mtime) == self._stamp
