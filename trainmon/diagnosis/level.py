"""A reading that stays beyond a mark: how often and for how long until it is news, and when it is over.

Times are those of the readings themselves, so that a rule that counts readings means the same at every interval:
readings that follow each other faster than `apart` count once, and a hole in them begins anew. Spells that ended by
themselves are learned: a length that has come twice is usual, and only one that is half as long again is news.
"""

from __future__ import annotations

GAP_S = 150.0
"""Readings that are further apart say nothing about the time between them."""
BACK_S = 5.0
"""A clock that goes back by more was set; by less, the reading came late and is passed over."""
LEARN_S = 120.0
"""Longer spells are never usual (as a pause in `pace.py`, that would hide an incident)."""
SPELLS = 8
NEWS = 1.5


class Level:
    """See the module's docstring.

    Args:
        on: From here on (down to here, when `falling`) it counts.
        off: Below this (above, when `falling`) an open one is over.
        readings: How many readings it takes.
        apart: Seconds between two readings that count.
        hold: Seconds for which it has to last, besides.
        clear: Seconds for which it has to be over.
        falling: Low values are the bad ones.
        learns: Whether short spells that come again are taken for usual.
    """

    __slots__ = (
        "_apart", "_clear", "_clear_since", "_counted", "_falling", "_hold", "_learns", "_off", "_on", "_readings",
        "_spells", "count", "last", "open", "since", "value",
    )  # fmt: skip

    def __init__(
        self,
        on: float,
        off: float,
        *,
        readings: int = 1,
        apart: float = 1.0,
        hold: float = 0.0,
        clear: float = 3.0,
        falling: bool = False,
        learns: bool = True,
    ) -> None:
        self._on, self._off = on, off
        self._readings, self._apart, self._hold, self._clear = readings, apart, hold, clear
        self._falling, self._learns = falling, learns
        self._spells: list[float] = []
        self._clear_since: float | None = None
        self._counted = 0.0
        self.open = False
        self.since: float | None = None
        """When the spell began."""
        self.count = 0
        self.last = float("-inf")
        self.value = 0.0

    def take(self, value: float, time: float, *, allowed: bool = True, hold: float = 0.0) -> bool:
        """A reading.

        Args:
            value: The reading.
            time: When it was read, Unix seconds of the machine that read it.
            allowed: False: nothing begins now (a pause that is known).
            hold: Seconds for which it has to last, where that is more than usual.

        Returns:
            Whether `open` has changed.
        """
        if time <= self.last:
            if time >= self.last - BACK_S:
                return False
            self.since = self._clear_since = None
        gap = time - self.last
        self.last, self.value = time, value
        beyond = value <= self._on if self._falling else value >= self._on
        if self.open:
            return self._look_again(value, time)
        if not allowed or gap > GAP_S:
            self.since = None
            if not allowed:
                return False
        if not beyond:
            if self.since is not None:
                self._learn(time - self.since)
                self.since = None
            return False
        if self.since is None:
            self.since = self._counted = time
            self.count = 1
        elif time - self._counted >= 0.9 * self._apart:
            self._counted = time
            self.count += 1
        if self.count >= self._readings and time - self.since >= max(self._hold, hold, NEWS * self.usual):
            self.open = True
            self._clear_since = None
            return True
        return False

    def _look_again(self, value: float, time: float) -> bool:
        over = value > self._off if self._falling else value < self._off
        if not over:
            self._clear_since = None
            return False
        if self._clear_since is None:
            self._clear_since = time
        if time - self._clear_since < self._clear:
            return False
        self._learn(self._clear_since - (self.since if self.since is not None else self._clear_since))
        self.reset()
        return True

    @property
    def is_beyond(self) -> bool:
        """Whether the newest reading is."""
        return self.value <= self._on if self._falling else self.value >= self._on

    def reset(self) -> None:
        """It is over, whatever the readings say."""
        self.open = False
        self.since = self._clear_since = None
        self.count = 0

    def _learn(self, lasted: float) -> None:
        if self._learns and 0.0 < lasted <= LEARN_S:
            self._spells.append(lasted)
            del self._spells[:-SPELLS]

    @property
    def usual(self) -> float:
        """Seconds of the longest spell of a length that has come twice; 0 before."""
        return sorted(self._spells)[-2] if len(self._spells) > 1 else 0.0
