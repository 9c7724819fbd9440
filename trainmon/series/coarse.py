"""The older part of a step series: points of one weight, however long the run.

The newest quarter of the points a series may keep (`FINE`) has full resolution. What is older is merged into groups of
the same number of steps, a power of two that doubles whenever more than half of the points would be such groups: a run
of a million steps shows its whole past evenly, and no spike is lost.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

FINE, COARSE = 4, 2
"""At least one in four points is fine, at most one in two is a group."""

Six = tuple["array[float]", "array[float]", "array[float]", "array[float]", "array[float]", "array[float]"]
"""x, minimum, middle, maximum, values in a point, steps in a point."""


def regroup(columns: Six, first: int, edge: int, each: int) -> tuple[Six, int]:
    """Merge neighbours between the points `first` and `edge` into groups of at most `each` steps.

    Returns:
        The columns, and how many points those before `edge` have become.
    """
    x, lo, mid, hi, n, w = columns
    starts: list[int] = []
    weight = each + 1.0
    for i in range(first, edge):
        weight += w[i]
        if weight > each:
            starts.append(i)
            weight = w[i]
    out = [column[:first] for column in columns]
    ends = [*starts[1:], edge]
    for a, b in zip(starts, ends, strict=True):
        if b - a == 1:
            for to, column in zip(out, columns, strict=True):
                to.append(column[a])
            continue
        steps, low, high = sum(w[a:b]), min(lo[a:b]), max(hi[a:b])
        mean = 0.0
        for i in range(a, b):
            mean += mid[i] * (w[i] / steps)  # shares first: a sum of 1e308s would overflow
        out[0].append(x[a])
        out[1].append(low)
        out[2].append(min(max(mean, low), high))
        out[3].append(high)
        out[4].append(sum(n[a:b]))
        out[5].append(steps)
    size = len(out[0])
    for to, column in zip(out, columns, strict=True):
        to.extend(column[edge:])
    return (out[0], out[1], out[2], out[3], out[4], out[5]), size


def append_groups(columns: Six, steps: Sequence[int], values: Sequence[float], each: int) -> None:
    """Add values that came one a step behind the groups: the last one is filled up first, then new ones begin."""
    x, lo, mid, hi, n, w = columns
    at, end = 0, len(values)
    if len(w) and w[-1] < each:
        at = min(end, each - int(w[-1]))
        part = values[:at]
        low, high = min(lo[-1], min(part)), max(hi[-1], max(part))
        weight = w[-1] + at
        mean = mid[-1] * (w[-1] / weight) + sum(part) / weight
        lo[-1], hi[-1], mid[-1], w[-1] = low, high, min(max(mean, low), high), weight
        n[-1] += at
    if at == end:
        return
    parts = [values[a : a + each] for a in range(at, end, each)]
    lows, highs = array("d", map(min, parts)), array("d", map(max, parts))
    x.extend(array("d", steps[at:end:each]))
    lo.extend(lows)
    hi.extend(highs)
    mid.extend([min(max(sum(p) / len(p), a), b) for p, a, b in zip(parts, lows, highs, strict=True)])
    sizes = array("d", map(len, parts))
    n.extend(sizes)
    w.extend(sizes)


def foresee(
    size: int, before: int, count: int, opened: int, most_open: int, limit: int, each: int
) -> tuple[int, int, int, int] | None:
    """What comes of a series when `count` steps are appended one by one: merging and freezing depend on numbers only.

    Args:
        size: Points that it has; before: steps in them.
        opened: Of its newest points so many are open, at most `most_open`.
        limit: Points at most; each: steps in a group.

    Returns:
        Steps that belong to groups in the end, steps in a group, points that are open, and the place (counted in steps)
        of the first open one when some were frozen last; None when nothing is merged.
    """
    fine, most = limit // FINE, limit // COARSE
    done = old = frozen = 0
    while done < count:
        more = min(count - done, most_open + 1 - opened, limit + 1 - size)
        done, opened, size = done + more, opened + more, size + more
        if opened > most_open:
            opened -= max(1, opened // 4)
            frozen = before + done - opened
        if size > limit:
            old = before + done - fine
            while -(-old // each) > most:
                each *= 2
            size = -(-old // each) + fine
            opened = min(opened, fine)
    return (old, each, opened, frozen) if old else None
