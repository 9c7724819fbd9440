"""Reduction of a series to what can be drawn: per column or bucket the minimum, the mean and the maximum.

Every spike survives: it is the maximum (or minimum) of the column that it falls in.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from trainmon.snapshot import Points


class Column(NamedTuple):
    """What falls into one column of a chart: minimum, mean and maximum, and how many points."""

    lo: float
    mid: float
    hi: float
    points: int


def reduce_columns(points: Points, first: float, last: float, columns: int) -> list[Column | None]:
    """Spread points over equal columns of the x axis.

    Args:
        points: The series, oldest first.
        first, last: The x values at the left edge of the first and the right edge of the last column.
        columns: How many; None is given for a column without a point.
    """
    out: list[Column | None] = [None] * max(0, columns)
    if columns <= 0 or not last > first:
        return out
    x, lo, mid, hi = points.x, points.lo, points.mid, points.hi
    scale = columns / (last - first)
    start = bisect_left(x, first)
    column = -1
    low = high = total = 0.0
    count = 0
    for i in range(start, len(x)):
        if x[i] > last:
            break
        c = min(columns - 1, int((x[i] - first) * scale))
        if c != column:
            if count:
                out[column] = Column(low, total / count, high, count)
            column, low, high, total, count = c, lo[i], hi[i], 0.0, 0
        if lo[i] < low:
            low = lo[i]
        if hi[i] > high:
            high = hi[i]
        total += mid[i]
        count += 1
    if count:
        out[column] = Column(low, total / count, high, count)
    return out


def bucket(
    x: Sequence[float],
    lo: Sequence[float],
    mid: Sequence[float],
    hi: Sequence[float],
    weight: Sequence[float],
    begin: int,
    end: int,
) -> tuple[float, float, float, float]:
    """One point for those from `begin` to `end` (not included): first x, minimum, weighted mean, maximum."""
    if end - begin == 1:
        return x[begin], lo[begin], mid[begin], hi[begin]
    total = 0.0
    mean = 0.0
    for i in range(begin, end):
        w = weight[i]
        total += w
        mean = mean * (1.0 - w / total) + mid[i] * (w / total)  # a running mean: a sum of 1e308s would overflow
    low, high = min(lo[begin:end]), max(hi[begin:end])
    return x[begin], low, min(max(mean, low), high), high


def reduce_points(points: Points, max_n: int) -> Points:
    """At most `max_n` points (and not fewer than half of that, where there are as many), every spike kept."""
    n = len(points.x)
    if n <= max_n or max_n < 1:
        return points
    size = -(-n // max_n)
    ones = (1.0,) * n
    rows = [bucket(points.x, points.lo, points.mid, points.hi, ones, i, min(n, i + size)) for i in range(0, n, size)]
    x, lo, mid, hi = zip(*rows, strict=True)
    return Points(x, lo, mid, hi)


def thin(values: Sequence[float], width: int) -> tuple[float, ...]:
    """The last values of a sparkline, at most `width`; each is the mean of its share of the values."""
    n = len(values)
    if n <= width:
        return tuple(values)
    if width < 1:
        return ()
    out: list[float] = []
    for c in range(width):
        part = values[c * n // width : (c + 1) * n // width]
        out.append(sum(part) / len(part))
    return tuple(out)


def change(x: Sequence[float], mid: Sequence[float]) -> tuple[float, int] | None:
    """How the mean of the last window of steps differs from the one before; see `StepSeries.change`."""
    if len(x) < 4:
        return None
    span = x[-1] - x[0]
    width = 0
    for candidate in (5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000):
        if candidate * 8 <= span:
            width = candidate
    if not width:
        return None
    end = x[-1]
    a = bisect_right(x, end - 2 * width)
    b = bisect_right(x, end - width)
    if b == a or b == len(x):
        return None
    before, after = mid[a:b], mid[b:]
    by = sum(after) / len(after) - sum(before) / len(before)
    return (by, width) if by - by == 0.0 else None
