"""Reduction of a series to what can be drawn: per column or bucket the minimum, the mean and the maximum.

Every spike survives: it is the maximum (or minimum) of the column that it falls in.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
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


def halve(
    x: array[float],
    lo: array[float],
    mid: array[float],
    hi: array[float],
    n: array[float],
    weight: array[float],
    end: int,
) -> list[array[float]]:
    """Neighbours among the first `end` (even) points merged in pairs, as `bucket` does: the same six columns."""
    # Written out: `map(min, ...)` takes three times as long, and all of a long history comes by here.
    low = [b if b < a else a for a, b in _pairs(lo, end)]
    high = [b if b > a else a for a, b in _pairs(hi, end)]
    first, second = weight[0:end:2].tolist(), weight[1:end:2].tolist()
    if first == second:
        middle = [a * 0.5 + b * 0.5 for a, b in _pairs(mid, end)]
    else:
        middle = [
            a * 0.5 + b * 0.5 if u == v else a * (1.0 - v / (u + v)) + b * (v / (u + v))
            for (a, b), u, v in zip(_pairs(mid, end), first, second, strict=True)
        ]
    middle = [m if a <= m <= b else min(max(m, a), b) for a, m, b in zip(low, middle, high, strict=True)]
    counts, totals = [a + b for a, b in _pairs(n, end)], [u + v for u, v in zip(first, second, strict=True)]
    return [x[0:end:2], *(array("d", column) for column in (low, middle, high, counts, totals))]


def _pairs(column: array[float], end: int) -> Iterator[tuple[float, float]]:
    values = column[:end].tolist()
    return zip(values[::2], values[1::2], strict=True)


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
