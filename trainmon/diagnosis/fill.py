"""When something that fills up will be full: host memory, a file system. Robust against noise, stairs and sawteeth."""

from __future__ import annotations

from array import array
from itertools import pairwise

from trainmon.series.robust import mann_kendall, theil_sen

TAU = 0.7
LATE = 0.4
STAIRS = 0.4
NEW = 0.002


class Fill:
    """Maxima of time bins, and the time until full at their slope.

    Args:
        bin_s: Seconds of a bin.
        bins: How many are looked at; none speaks before they are full.
        grown: Share of the capacity that it must have grown by, meanwhile.
    """

    __slots__ = ("_bins", "_end", "_grown", "_high", "_size", "_t", "_top", "_y", "last")

    def __init__(self, bin_s: float, bins: int, grown: float) -> None:
        self._size, self._bins, self._grown = bin_s, bins, grown
        self._t = array("d")
        self._y = array("d")
        self._top = 0.0
        self._high = 0.0  # the most that it held before the bins that are looked at
        self._end = float("-inf")
        self.last: tuple[float, float] | None = None
        """Units a second and seconds until full, as of the last bin; None: it does not fill up."""

    def take(self, used: float, capacity: float, time: float) -> bool:
        """A reading. True when a bin has ended with it, and `last` is new."""
        if self._end == float("-inf") or not -5.0 < time - self._end < 20.0 * self._size:
            if self._end != float("-inf") and not self._end - 2.0 * self._size < time < self._end + 20.0 * self._size:
                self.clear()  # a hole, or the clock was set
            if self._end == float("-inf"):
                self._end = time + self._size
        self._top = max(self._top, used)
        if time < self._end:
            return False
        self._t.append(time)
        self._y.append(self._top)
        self._top, self._end = 0.0, time + self._size
        if len(self._y) > self._bins:
            self._high = max(self._high, self._y[-self._bins - 1])
        if len(self._y) > 2 * self._bins:
            del self._t[: self._bins], self._y[: self._bins]
        self.last = self._judge(used, capacity)
        return True

    def clear(self) -> None:
        """What was learned does not go on."""
        del self._t[:], self._y[:]
        self._top, self._high, self._end, self.last = 0.0, 0.0, float("-inf"), None

    def _judge(self, used: float, capacity: float) -> tuple[float, float] | None:
        if len(self._y) < self._bins:
            return None
        ys, ts = self._y[-self._bins :], self._t[-self._bins :]
        grown = ys[-1] - ys[0]
        if used < self._high + NEW * capacity:
            return None  # it has held that much before: caches and work areas come and go
        if grown < self._grown * capacity or mann_kendall(ys, tie=0.0005 * capacity) < TAU:
            return None
        jumps = sorted((b - a for a, b in pairwise(ys)), reverse=True)
        if grown - sum(jumps[:2]) < STAIRS * grown:
            return None  # one file that was written, one array that was loaded
        third = self._bins // 3
        slope, late = theil_sen(ts, ys), theil_sen(ts[-third:], ys[-third:])
        if slope <= 0.0 or late < LATE * slope:
            return None
        return slope, max(0.0, capacity - used) / slope
