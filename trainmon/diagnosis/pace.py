"""How often something comes: the usual gap between two steps (or lines), and the longest that ended by itself."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from trainmon.series.robust import median

GAPS = 24
"""Gaps from which the usual one is taken."""
LEARN_AT_MOST_S = 3600.0
"""Longer pauses are never taken for usual: an hour's silence that ended is still an incident."""
HOUR = 3600.0
JUMP_S = HOUR / 2
"""A clock that is changed moves by more."""


class Pace:
    """Gaps between distinct moments. What arrives in one lump is one moment.

    Silence is measured against `last`, which is arrival time; the pace may also be learned from the log's own times
    (`learn`), which say nothing about now.
    """

    __slots__ = ("_gaps", "_next", "_size", "_suspect", "_typical", "count", "last", "longest")

    def __init__(self, size: int = GAPS) -> None:
        self._gaps: list[float] = []
        self._size = size
        self._next = 0
        self._typical: float | None = None
        self._suspect = 0.0
        self.last: float | None = None
        self.count = 0
        """Gaps learned."""
        self.longest = 0.0
        """The longest gap that ended by itself, seconds."""

    def mark(self, now: float, limit: float = LEARN_AT_MOST_S, learn: bool = True) -> float:
        """Something came at `now`.

        Args:
            now: Seconds, any zero.
            limit: A gap beyond this is not learned as usual, unless one of its size has come before.
            learn: False to keep the gap out of what is usual (a planned pause, a resume).

        Returns:
            The gap since the last one in seconds; 0 for the first and for what goes back.
        """
        last = self.last
        self.last = now
        if last is None:
            return 0.0
        gap = now - last
        if gap <= 0.0:
            if gap < 0.0:
                self.last = last
            return 0.0
        if learn:
            self.learn(gap, limit)
        return gap

    def learn(self, gap: float, limit: float = LEARN_AT_MOST_S) -> None:
        """Take a gap in seconds into what is usual."""
        if gap > LEARN_AT_MOST_S:
            return
        if gap > limit and not self._suspect * 0.5 <= gap <= self._suspect * 2.0:
            self._suspect = gap  # an incident, or a pause that this run is going to make again
            return
        if gap > self.longest:
            self.longest = gap
        if len(self._gaps) < self._size:
            self._gaps.append(gap)
        else:
            self._gaps[self._next] = gap
            self._next = (self._next + 1) % self._size
        self.count += 1
        if self.count < 8 or self.count % 8 == 0:
            self._typical = None

    def skip(self, times: Sequence[float]) -> None:
        """`mark` each of these moments, cheaply: none falls, none is before `last`, no gap is beyond the limit."""
        before = times[0] if self.last is None else self.last
        gaps = [two - one for one, two in pairwise((before, *times)) if two > one]
        self.last = times[-1]
        if len(gaps) < 16:
            for gap in gaps:
                self.learn(gap)
            return
        self.longest = max(self.longest, max(gaps))
        self.count += len(gaps)
        self._typical = None
        room = self._size - len(self._gaps)
        self._gaps += gaps[:room]
        late = gaps[room:]
        self._next = (self._next + max(0, len(late) - self._size)) % self._size
        for gap in late[-self._size :]:
            self._gaps[self._next] = gap
            self._next = (self._next + 1) % self._size

    @property
    def typical(self) -> float | None:
        """The usual gap in seconds (the median of the last ones); None before the first."""
        if self._typical is None and self._gaps:
            self._typical = median(self._gaps)
        return self._typical


def clock_jump(gap: float, typical: float | None) -> bool:
    """Whether a gap in the log's own times is a change of its clock (summer time, a zone) and no pause."""
    if gap < JUMP_S:
        return False
    off = abs(gap - HOUR * round(gap / HOUR))
    return off <= max(5.0, 3.0 * (typical or 1.0)) and gap <= 14 * HOUR
