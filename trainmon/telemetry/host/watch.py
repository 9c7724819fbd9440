"""Host telemetry on a thread of its own: every figure goes to a sink as a `HostSample`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from trainmon.clock import Clock
from trainmon.samples import Sample
from trainmon.telemetry.host.reader import HostReader

SLOW_S = 10.0
"""Seconds between looks at volumes, descriptors, limits and error counters."""
FIRST_S = 1.0
"""The second look comes early: rates need two."""
LONGEST_S = 60.0
"""A pause beyond this, and beyond three intervals, is no interval: the machine slept or the process was stopped."""
JOIN_S = 0.15
_T = TypeVar("_T")


def _nothing() -> tuple[()]:
    return ()


class HostWatch:
    """Watches this machine.

    Args:
        sink: Called from the watch's own thread with a list of one sample; what it raises is swallowed.
        node: The machine's name in the samples.
        clock: For the samples' time and for intervals.
        interval_s: Seconds between looks.
        folders: Names the folders whose file systems matter. Called every ten seconds.
        root: Where /proc and /sys are; "/" for this machine.
        pids: The training's processes on this machine: their control group, their open files, their /dev/shm.
    """

    def __init__(
        self,
        sink: Callable[[list[Sample]], object],
        *,
        node: str,
        clock: Clock,
        interval_s: float = 2.0,
        folders: Callable[[], Sequence[str]] = _nothing,
        root: str = "/",
        pids: Callable[[], Iterable[int]] = _nothing,
    ) -> None:
        self._sink = sink
        self._node = node
        self._clock = clock
        self._interval = interval_s
        self._folders = folders
        self._root = root
        self._pids = pids
        self._over: threading.Event | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin; does nothing when it runs already."""
        if self._over is not None:
            return
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(self._over,), name="trainmon-host", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End within 0.2 s, whatever the machine does: a thread that is stuck in a read is left behind, mute."""
        over, thread = self._over, self._thread
        self._over = self._thread = None
        if over is None or thread is None:
            return
        over.set()
        if thread is not threading.current_thread():
            thread.join(JOIN_S)

    def set_interval(self, interval_s: float) -> None:
        """Seconds between looks, from the next one on."""
        self._interval = interval_s

    def _run(self, over: threading.Event) -> None:
        reader = HostReader(self._node, self._clock, self._root)
        last = slow_at = None
        try:
            while not over.is_set():
                now = self._clock.monotonic()
                if last is not None and now - last > max(LONGEST_S, 3 * self._interval):
                    reader.forget()
                slow = slow_at is None or now - slow_at >= SLOW_S - self._interval / 2
                slow_at = now if slow else slow_at
                try:
                    sample = reader.look(
                        slow, _given(self._folders) if slow else (), _given(self._pids) if slow else ()
                    )
                    if not over.is_set():
                        self._sink([sample])
                except Exception:  # the sink's own affair; and one look that breaks is not the last
                    pass
                over.wait(min(FIRST_S, self._interval) if last is None else max(0.05, self._interval))
                last = now
        finally:
            reader.end()


def _given(ask: Callable[[], Iterable[_T]]) -> list[_T]:
    """What a caller's function names; one that breaks names nothing."""
    try:
        return list(ask())
    except Exception:
        return []
