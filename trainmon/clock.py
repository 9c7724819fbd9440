"""One clock. Whatever asks for the time takes a Clock, so that tests, replay and live are the same code."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """A source of time."""

    def now(self) -> float:
        """Unix time in seconds, UTC. May jump when the host's clock is set."""
        ...

    def monotonic(self) -> float:
        """Seconds from an arbitrary start that never go back: for ages and time-outs."""
        ...


class SystemClock:
    """The host's clocks."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()


class ManualClock:
    """A clock that stands still until it is told to move.

    Args:
        start: Unix time in seconds that `now()` returns at first.
    """

    def __init__(self, start: float = 1_764_500_000.0) -> None:
        self._now = start
        self._monotonic = 0.0

    def now(self) -> float:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass on both clocks."""
        self._now += seconds
        self._monotonic += seconds

    def jump(self, seconds: float) -> None:
        """Set the wall clock by `seconds` (either way); no time passes."""
        self._now += seconds


class SteadyClock:
    """A clock whose `now()` goes on evenly when the host's clock is set: what ages and silences are measured with.

    Small corrections are followed; a step of more than `JUMP_S` either way (a clock that is set, a machine that slept)
    is taken out, as if no time had passed. Safe to call from any thread.

    Args:
        clock: The clock that may jump.

    Attributes:
        shift: Seconds that the host's clock is ahead of `now()`.
    """

    JUMP_S = 1.0
    _QUICK_S = 0.1

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.shift = 0.0
        self._origin = 0.0
        wall, mono = self._both()
        self._origin = wall - mono

    def _both(self) -> tuple[float, float]:
        """Both clocks at one moment: a thread that was held up between the two looks saw no jump."""
        for _ in range(8):
            before, wall = self._clock.monotonic(), self._clock.now()
            if self._clock.monotonic() - before < self._QUICK_S:
                break
        return wall, before

    def now(self) -> float:
        wall, mono = self._both()
        ahead = wall - mono - self._origin
        if abs(ahead - self.shift) > self.JUMP_S:
            self.shift = ahead
        return wall - self.shift

    def monotonic(self) -> float:
        return self._clock.monotonic()
