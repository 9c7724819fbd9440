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
