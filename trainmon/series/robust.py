"""Statistics that one wild value cannot move. Pure functions on short sequences, standard library only."""

from __future__ import annotations

from collections.abc import Sequence

MAD_TO_SIGMA = 1.4826
"""The MAD of a normal distribution times this is its standard deviation."""


def median(values: Sequence[float]) -> float:
    """The middle value, or the mean of the two middle ones.

    Raises:
        ValueError: When there are no values.
    """
    n = len(values)
    if n == 0:
        raise ValueError("median of nothing")
    if n == 1:
        return values[0]
    ordered = sorted(values)
    half = n // 2
    if n % 2:
        return ordered[half]
    return ordered[half - 1] / 2.0 + ordered[half] / 2.0  # halves first: the sum of two huge values overflows


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which `share` (0 to 1) of the values lie, by nearest rank.

    Raises:
        ValueError: When there are no values.
    """
    if not values:
        raise ValueError("quantile of nothing")
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, round(share * (len(ordered) - 1))))]


def mad(values: Sequence[float], centre: float | None = None) -> float:
    """Median absolute deviation from `centre` (default: the median), scaled to a standard deviation.

    Raises:
        ValueError: When there are no values.
    """
    middle = median(values) if centre is None else centre
    return MAD_TO_SIGMA * median([abs(v - middle) for v in values])


def theil_sen(xs: Sequence[float], ys: Sequence[float]) -> float:
    """Slope of `ys` over `xs`: the median of the slopes of all pairs; 0 when no two `xs` differ.

    Costs O(n²): meant for at most some fifty points.
    """
    slopes: list[float] = []
    for i in range(len(xs) - 1):
        x, y = xs[i], ys[i]
        slopes.extend((ys[j] - y) / (xs[j] - x) for j in range(i + 1, len(xs)) if xs[j] != x)
    return median(slopes) if slopes else 0.0


def mann_kendall(ys: Sequence[float], tie: float = 0.0) -> float:
    """Kendall's tau of `ys` against their order: 1 always rising, −1 always falling, 0 no trend.

    Args:
        ys: Values in order of time.
        tie: Differences up to this size count as no change.
    """
    n = len(ys)
    if n < 2:
        return 0.0
    score = 0
    for i in range(n - 1):
        y = ys[i]
        for j in range(i + 1, n):
            d = ys[j] - y
            if d > tie:
                score += 1
            elif d < -tie:
                score -= 1
    return score / (n * (n - 1) / 2)
