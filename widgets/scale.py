"""Axes of a chart: round ranges that stay still. Pure.

The y range is fitted to the run after its warm-up, every row is the same step, tick values lie in the middle of
their rows. The x window is round and fixed; when it is full it grows by a quarter to a half. A `Scale` holds both: it
widens at once and narrows only for a new run, another height, or a new x window (the picture changes then anyway).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace

from trainmon.snapshot import Points

_HUGE = 1e150
"""Values beyond are drawn as this: differences must stay finite."""
_WARM_UP = 0.2
"""Share of the run whose high values may be cut off at the top."""
_X_ENDS = (1.0, 1.25, 1.75, 2.5, 3.5, 5.0, 7.0, 10.0)
"""Ends of the x window, times a power of ten: each a quarter to a half above the one before."""
_TICK_STEPS = (1.0, 2.0, 2.5, 4.0, 5.0, 10.0)


@dataclass(frozen=True, slots=True)
class Scale:
    """What the axes show.

    Attributes:
        x0, x1: Window of steps.
        bottom: Value in the middle of the lowest row; row: value of one row's height; every: rows between ticks.
        rows: Rows of the plot that this was fitted for.
        newest: Newest x that was seen, by which a new run is noticed.
    """

    x0: float
    x1: float
    bottom: float
    row: float
    every: int
    rows: int
    newest: float

    @property
    def top(self) -> float:
        """Upper edge of the highest row."""
        return self.bottom + (self.rows - 0.5) * self.row

    @property
    def floor(self) -> float:
        """Lower edge of the lowest row."""
        return self.bottom - 0.5 * self.row

    def column(self, x: float, columns: int) -> int:
        """The column of a step, clamped to the plot."""
        share = (x - self.x0) / (self.x1 - self.x0)
        return max(0, min(columns - 1, int(share * columns)))

    def ticks(self) -> list[tuple[int, float]]:
        """(row from the top, value) of each y tick."""
        out = []
        for step in range(0, self.rows, self.every):
            value = self.bottom + step * self.row
            out.append((self.rows - 1 - step, 0.0 if abs(value) < self.row * 1e-6 else value))
        return out


def finite(value: float) -> bool:
    """True for a value that can be drawn."""
    return math.isfinite(value)


def clamp(value: float) -> float:
    """The value within what differences can hold."""
    return max(-_HUGE, min(_HUGE, value))


def x_window(first: float, last: float) -> tuple[float, float]:
    """A round window that holds the steps from `first` to `last` with room to grow."""
    span = max(1.0, last)
    if first > 0.5 * last and last > 0:
        # A run that is seen from its middle on: the window begins near there.
        width = max(10.0, (last - first) * 1.25, last * 1e-9)
        power = 10.0 ** math.floor(math.log10(width))
        size = next(end * power for end in _X_ENDS if end * power >= width * (1 - 1e-12))
        grain = power / 2 if power >= 2 else 1.0
        start = math.floor(first / grain) * grain
        while start + size < last:
            size *= 1.25
        return start, start + size
    power = 10.0 ** math.floor(math.log10(span))
    for end in _X_ENDS:
        if end * power >= span * (1 - 1e-12):
            return min(0.0, first), max(10.0, end * power)
    return min(0.0, first), span


def x_ticks(x0: float, x1: float, columns: int) -> list[float]:
    """Round steps for the labels under the axis, far enough apart for their text."""
    span = x1 - x0
    if span <= 0 or columns < 8:
        return []
    room = len(f"{x1:,.0f}") + 4
    power = 10.0 ** math.floor(math.log10(max(1.0, span / columns)))
    for scale in range(12):
        for step in (1.0, 2.5, 5.0):
            size = step * power * 10.0**scale
            if size == 2.5:
                size = 2.0
            if size >= 1 and size / span * columns >= room:
                first = math.ceil(x0 / size - 1e-9)
                count = int((x1 + span * 1e-9) // size) - first
                return [(first + index) * size for index in range(min(count, 64) + 1)]
    return [x0]


def _fit_every(low: float, high: float, rows: int, span: float, every: int) -> tuple[float, float] | None:
    """Bottom and row value with a tick every so many rows: the finest that holds the range."""
    power = 10.0 ** math.floor(math.log10(span / rows))
    for scale in (power, power * 10, power * 100):
        for step in _TICK_STEPS:
            row = step * scale / every
            # The bottom is a multiple of the tick step, where that does not fit of the row.
            for grain in (row * every, row) if every == 2 else (row * every,):
                bottom = math.floor((low + row * 0.4999) / grain + 1e-9) * grain
                if bottom > low and rows > 3:
                    bottom = math.floor(low / grain + 1e-9) * grain
                if bottom + (rows - 0.5) * row >= high and bottom - 0.5 * row <= low:
                    return bottom, row
    return None


def fit_rows(low: float, high: float, rows: int) -> tuple[float, float, int]:
    """Bottom value, row value and rows between ticks: 2, or 3 for rows a quarter finer, or 1 in a low plot."""
    low, high = clamp(low), clamp(high)
    if high == low and low:
        # One value says nothing of its scale: half of it above and below gives ticks that differ.
        low, high = low - abs(low) / 2, high + abs(high) / 2
    span = max(high - low, abs(high) * 0.01, abs(low) * 0.01, 1e-300)
    if span <= 1e-300:
        span = 1.0
    if rows <= 3 and (fine := _fit_every(low, high, rows, span, 1)) is not None:
        return *fine, 1
    best = _fit_every(low, high, rows, span, 2)
    other = _fit_every(low, high, rows, span, 3) if rows >= 8 else None
    if other is not None and (best is None or other[1] <= best[1] * 0.75):
        return *other, 3
    if best is not None:
        return *best, 2
    return low, span / (rows - 0.5) * 1.000001, 2


def value_range(points: Points) -> tuple[float, float, float] | None:
    """Lowest value, highest after the warm-up and highest of all; None without a finite value."""
    count = min(len(points.x), len(points.lo), len(points.hi))
    # The line may leave the band where the band is of others.
    lows = [value for value in map(min, points.lo, points.mid) if finite(value)]
    highs = [value for value in map(max, points.hi, points.mid) if finite(value)]
    if not lows or not highs:
        return None
    low, high = min(lows), max(highs)
    settled = high
    if count >= 20:
        first, last = points.x[0], points.x[count - 1]
        start = bisect_left(points.x, first + (last - first) * _WARM_UP, 0, count)
        late = [v for v in map(max, points.hi[start:count], points.mid[start:count]) if finite(v)]
        if late:
            settled = max(late)
    return low, settled, high


def fit_scale(points: Points, rows: int, previous: Scale | None = None, reach: float | None = None) -> Scale | None:
    """The scale for these points, the previous one as long as it holds them; None without a finite value.

    Args:
        reach: Newest step with a value, a NaN too, when that lies behind the points.
    """
    found = value_range(points)
    rows = max(1, rows)
    if found is None:
        return None
    low, settled, high = found
    xs: Sequence[float] = [x for x in (points.x[0], points.x[-1], reach) if x is not None and finite(x)]
    if not xs:
        return None
    first, newest = clamp(min(xs)), clamp(max(xs))
    window: tuple[float, float] | None = None
    same_run = previous is not None and newest >= previous.newest * 0.5 and first >= previous.x0
    if previous is not None and same_run and newest <= previous.x1:
        window = (previous.x0, previous.x1)
        if previous.rows == rows:
            if previous.floor <= low and settled <= previous.top:
                return replace(previous, newest=max(newest, previous.newest))
            # Widen: what was on screen stays on screen.
            low = min(low, previous.bottom)
            settled = max(settled, previous.top - previous.row * 0.5)
    if window is None:
        window = x_window(first, newest)
    bottom, row, every = fit_rows(low, settled, rows)
    if high > settled:
        # Cutting the warm-up off has to pay: a finer row by at least a third.
        whole_bottom, whole_row, whole_every = fit_rows(low, high, rows)
        if whole_row <= row * 1.34:
            bottom, row, every = whole_bottom, whole_row, whole_every
    return Scale(*window, bottom, row, every, rows, newest)


def tick_labels(values: Sequence[float], *, rate: bool = False) -> list[str]:
    """Labels with the same number of decimals; exponents for tiny values, k and M for large ones."""
    biggest = max((abs(value) for value in values), default=0.0)
    if biggest == 0:
        return ["0" for _ in values]
    if biggest >= 1e15 or biggest < 0.01:
        for decimals in (0, 1, 2, 3):
            texts = [f"{value:.{decimals}e}" for value in values]
            if all(math.isclose(float(text), value, rel_tol=1e-9) for text, value in zip(texts, values, strict=True)):
                break
        return ["0" if value == 0 else text.replace("-", "−", 1) if value < 0 else text
                for value, text in zip(values, texts, strict=True)]  # fmt: skip
    suffix, divisor = "", 1.0
    if rate or biggest >= 10_000:
        for name, size in ((" T", 1e12), (" G", 1e9), (" M", 1e6), (" k", 1e3)):
            if biggest >= size:
                suffix, divisor = name, size
                break
    scaled = [value / divisor for value in values]
    for decimals in range(7):
        texts = [f"{abs(value):,.{decimals}f}" for value in scaled]
        if all(abs(abs(value) - float(text.replace(",", ""))) <= biggest / divisor * 1e-6
               for value, text in zip(scaled, texts, strict=True)):  # fmt: skip
            break
    return [
        "0" if value == 0 else ("−" if value < 0 else "") + text + suffix
        for value, text in zip(scaled, texts, strict=True)
    ]
