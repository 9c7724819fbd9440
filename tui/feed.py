"""From the session to the screen: waits for an event, paints at most every 50 ms, slower for a slow terminal.

Nothing runs while nothing happens: there is no timer unless a snapshot waits to be painted.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from typing import Protocol

from trainmon.snapshot import SECTIONS, Snapshot

LEAST_S = 0.05
"""Seconds between two paints at least."""
MOST_S = 1.0
"""Seconds between two paints when the terminal is slow."""


class Publisher(Protocol):
    """What the feed needs of a session."""

    @property
    def snapshot(self) -> Snapshot: ...

    def subscribe(self, callback: Callable[[], None]) -> object: ...


class Feed:
    """Calls `show(snapshot, changed sections)` on the loop.

    Args:
        session: Where snapshots come from; it calls back from its own thread.
        show: Paints. Runs in the context in which the feed was made.
        slowness: Seconds that the terminal needed for the last write, or has been at this one.
    """

    def __init__(
        self,
        session: Publisher,
        show: Callable[[Snapshot, frozenset[str]], None],
        slowness: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._session = session
        self._show = show
        self._slowness = slowness
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()
        self._asked = False
        self._timer: asyncio.TimerHandle | None = None
        self._next = 0.0
        self._shown: dict[str, int] = {}
        self._closed = False
        self.paused: Snapshot | None = None
        """The snapshot that is held while the picture is paused."""
        self.paints = 0
        """Paints so far, for tests and measurements."""

    def start(self) -> None:
        """Begin to listen, and paint what is there."""
        self._session.subscribe(self._from_engine)
        self._wake()

    def close(self) -> None:
        """Paint no more."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _from_engine(self) -> None:
        """Any thread: one wake-up on the loop however many snapshots come before it runs."""
        if self._asked or self._closed:
            return
        self._asked = True
        try:
            self._loop.call_soon_threadsafe(self._wake, context=self._context)
        except RuntimeError:
            self._closed = True

    def _wake(self) -> None:
        self._asked = False
        if self._closed or self._timer is not None:
            return
        now = self._loop.time()
        if now >= self._next:
            self._paint()
        else:
            self._timer = self._loop.call_at(self._next, self._paint, context=self._context)

    def _paint(self) -> None:
        self._timer = None
        if self._closed:
            return
        now = self._loop.time()
        slow = self._slowness()
        if slow > 2 * MOST_S or (slow > LEAST_S and now < self._next + MOST_S):
            # The terminal is still busy with what it has: more would only queue up behind it.
            self._timer = self._loop.call_later(min(MOST_S, 2 * slow), self._paint, context=self._context)
            return
        self._next = now + min(MOST_S, max(LEAST_S, 4 * slow))
        self.paint_now()

    def paint_now(self) -> None:
        """Show the newest snapshot (or only what waits, while paused)."""
        snapshot = self._session.snapshot
        versions = snapshot.versions
        if versions:
            changed = frozenset(name for name in SECTIONS if versions.get(name) != self._shown.get(name))
        else:
            changed = frozenset(SECTIONS)
        if not changed:
            return
        if self.paused is None:
            self._shown = dict(versions)
        self.paints += 1
        self._show(snapshot, changed)

    def forget(self) -> None:
        """Treat every section as changed at the next paint."""
        self._shown = {}
