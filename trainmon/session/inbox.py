"""The queue between the reader thread and the engine thread: bounded by bytes, with a fast lane."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence

from trainmon.model import Ahead, CaughtUp, Data, Glimpse, Replaced, SourceEvent

LIMIT_BYTES = 8 << 20
"""Bytes of waiting history above which the reader is asked to wait."""

_ORDERED = (Data, CaughtUp, Replaced)


class Inbox:
    """Takes batches of events from any thread, gives them to one.

    What shows the present (openings, glimpses, lines appended while history is read) overtakes waiting history;
    within each of the two lanes the order stays.

    Args:
        limit: Waiting bytes from which `put` says that history should wait.
    """

    def __init__(self, limit: int = LIMIT_BYTES) -> None:
        self._limit = limit
        self._fast: deque[SourceEvent] = deque()
        self._slow: deque[SourceEvent] = deque()
        self._put = 0  # bytes that came, counted under the lock
        self._taken = 0  # bytes that went, counted by the one thread that takes
        self._ready = threading.Condition()
        self._closed = False
        self._woken = False
        self.held = 0
        """Bytes that were taken and still wait behind the queue; they count as waiting."""

    @property
    def waiting_bytes(self) -> int:
        """Bytes of log text that wait."""
        return max(0, self._put - self._taken)

    @property
    def saturated(self) -> bool:
        """Whether history is asked to wait."""
        return self.waiting_bytes + self.held >= self._limit

    def put(self, events: Sequence[SourceEvent]) -> bool:
        """Take a batch (always). False: saturated, history should wait until a later call says True."""
        with self._ready:
            if not self._closed:
                for event in events:
                    if isinstance(event, _ORDERED):
                        self._slow.append(event)
                    else:
                        self._fast.append(event)
                    self._put += _weight(event)
                if events:
                    self._ready.notify()
        return not self.saturated

    def take(self, timeout: float) -> SourceEvent | None:
        """The next event, or None when none came within `timeout` seconds (or `wake` was called)."""
        if not self._fast and not self._slow and timeout > 0:
            with self._ready:
                if not self._fast and not self._slow and not self._closed and not self._woken:
                    self._ready.wait(timeout)
                self._woken = False
        # Only this thread takes, and a deque needs no lock for that: a thousand small events a second come by here.
        lane = self._fast or self._slow
        try:
            event = lane.popleft()
        except IndexError:
            return None
        self._taken += _weight(event)
        return event

    def wake(self) -> None:
        """Let the `take` that waits, or the next one, return at once."""
        with self._ready:
            self._woken = True
            self._ready.notify_all()

    def close(self) -> None:
        """Drop what waits; `take` returns at once from now on."""
        with self._ready:
            self._closed = True
            self._fast.clear()
            self._slow.clear()
            self._taken = self._put
            self._ready.notify_all()


def _weight(event: SourceEvent) -> int:
    if isinstance(event, (Data, Ahead)):
        return len(event.data)
    if isinstance(event, Glimpse):
        return len(event.head) + len(event.tail)
    return 0
