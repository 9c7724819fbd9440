"""Axes of a chart over time: round windows and ticks of the clock, a range of y that holds the limit. Pure.

As on the axis of steps the window is round and has room to grow, so that the picture moves seldom. Times are UTC.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from trainmon.snapshot import ChartView
from trainmon.widgets.scale import Scale, clamp, finite, fit_rows

_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86400.0
_SPANS = (
    *(_MINUTE * n for n in (1, 2, 3, 4, 5, 7, 10, 13, 17, 22, 30, 37, 45, 60, 75, 90)),
    *(_HOUR * n for n in (2, 2.5, 3, 4, 5, 6, 8, 10, 12, 16, 20)),
    *(_DAY * n for n in (1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 13, 17, 22, 30, 40, 60, 90, 120, 180, 365)),
)
"""Widths of the window, from three minutes on each up to two fifths above the one before."""
_TICKS = (
    5.0, 10.0, 15.0, 30.0, _MINUTE, 2 * _MINUTE, 5 * _MINUTE, 10 * _MINUTE, 15 * _MINUTE, 30 * _MINUTE, _HOUR,
    2 * _HOUR, 3 * _HOUR, 6 * _HOUR, 12 * _HOUR, _DAY, 2 * _DAY, 7 * _DAY, 14 * _DAY, 28 * _DAY, 91 * _DAY,
)  # fmt: skip
_PARTS = 12
"""The window begins at a multiple of this part of its width."""


def time_window(first: float, last: float) -> tuple[float, float]:
    """A round window of time that holds both and has room to grow; the same for all that is near."""
    if not (finite(first) and finite(last)):
        return 0.0, _MINUTE
    first, last = clamp(min(first, last)), clamp(max(first, last))
    for span in _SPANS:
        grain = span / _PARTS
        start = math.floor(first / grain) * grain
        if last <= start + span:
            return start, start + span
    width = (last - first) * 1.25
    return first, first + width


def time_ticks(x0: float, x1: float, columns: int) -> list[tuple[float, str]]:
    """(time, label) of round times, far enough apart for their labels."""
    span = x1 - x0
    if not finite(span) or span <= 0 or columns < 8:
        return []
    for step in _TICKS:
        form = "%H:%M:%S" if step < _MINUTE else "%H:%M" if step < _DAY else "%d %b"
        room = {"%H:%M:%S": 8, "%H:%M": 5, "%d %b": 6}[form] + 4
        if step / span * columns >= room:
            first = math.ceil(x0 / step - 1e-9)
            count = min(64, int((x1 + 1e-6) // step) - first + 1)
            return [((first + n) * step, _label((first + n) * step, form)) for n in range(count)]
    return []


def _label(at: float, form: str) -> str:
    try:
        return time.strftime(form, time.gmtime(round(at)))
    except (OverflowError, ValueError, OSError):
        return "–"


def fit_time(chart: ChartView, rows: int, previous: Scale | None = None) -> Scale | None:
    """The scale of a chart over time, the previous one as long as it holds; None without a finite value.

    The range of y holds the curve, the others and the limit; fixed ends are kept as long as nothing leaves them.
    """
    rows = max(1, rows)
    points = chart.points
    values = [clamp(v) for row in (points.lo, points.mid, points.hi, chart.others.mid) for v in row if finite(v)]
    xs = [x for x in points.x if finite(x)]
    if not xs or not any(finite(v) for v in points.mid):
        return None
    if chart.limit is not None and finite(chart.limit):
        values.append(clamp(chart.limit))
    low = min([*values, *_ends(chart.low)])
    high = max([*values, *_ends(chart.high)])
    first, last = chart.window if chart.window is not None else (min(xs), max(xs))
    window = time_window(first, last)
    if previous is not None and previous.rows == rows and (previous.x0, previous.x1) == window:
        if previous.floor <= low and high <= previous.top:
            return previous
        # Widen: what was on screen stays on screen.
        low = min(low, previous.bottom)
        high = max(high, previous.top - previous.row * 0.5)
    whole = chart.low is not None and chart.high is not None and (low, high) == (chart.low, chart.high)
    bottom, row, every = (_whole(low, high, rows) if whole else None) or fit_rows(low, high, rows)
    return Scale(*window, bottom, row, every, rows, last)


def _whole(low: float, high: float, rows: int) -> tuple[float, float, int] | None:
    """Ticks at quarters, halves or ends of a range that is fixed; None where there are too few rows."""
    for parts in (4, 2, 1):
        every = (rows - 1) // parts
        if every >= (2 if parts == 4 else 1) and rows - 1 - every * parts < min(2, every):
            return low, (high - low) / parts / every, every
    return None


def _ends(value: float | None) -> Sequence[float]:
    return () if value is None or not finite(value) else (value,)
