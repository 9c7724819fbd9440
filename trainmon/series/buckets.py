"""Equal buckets of a growing series, kept as long as what they were made of stands."""

from __future__ import annotations

from array import array

from trainmon.series.reduce import bucket
from trainmon.snapshot import Points

_KEPT = 4
"""Different numbers of points that are kept."""


class Buckets:
    """The points of one series, reduced.

    Buckets stand still while the series grows, so that a new value changes the last point only.
    """

    __slots__ = ("_cache", "_dirty")

    def __init__(self) -> None:
        self._cache: dict[int, tuple[int, int, list[tuple[float, float, float, float]]]] = {}
        self._dirty = 0

    def touch(self, i: int) -> None:
        """The series has changed from its point `i` on."""
        if i < self._dirty:
            self._dirty = i

    def clear(self) -> None:
        """All of it has changed."""
        if self._cache:
            self._cache.clear()
        self._dirty = 0

    def points(
        self,
        max_n: int,
        x: array[float],
        lo: array[float],
        mid: array[float],
        hi: array[float],
        w: array[float],
    ) -> Points:
        """At most `max_n` points, x rising, every spike kept in lo and hi."""
        n = len(x)
        if n <= max_n:
            return Points(tuple(x), tuple(lo), tuple(mid), tuple(hi))
        size = 2
        while -(-n // size) > max_n:
            size *= 2
        if self._dirty < n:  # whatever is cached from the first touched point on is void
            for key, (width, upto, rows) in list(self._cache.items()):
                keep = min(upto, self._dirty // width)
                del rows[keep:]
                self._cache[key] = (width, keep, rows)
        cached = self._cache.get(max_n)
        done: list[tuple[float, float, float, float]] = cached[2] if cached and cached[0] == size else []
        for i in range(len(done) * size, n, size):
            done.append(bucket(x, lo, mid, hi, w, i, min(n, i + size)))
        if len(self._cache) > _KEPT:
            self._cache.clear()
        self._cache[max_n] = (size, len(done), done)
        # A last bucket that is not full yet must be made again.
        self._dirty = n - n % size
        a, b, c, d = zip(*done, strict=True)
        return Points(a, b, c, d)
