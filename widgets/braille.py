"""A canvas of braille dots: two columns and four rows of dots a cell, a line and its band. Pure.

Of the two, the line wins a cell's colour. Fed with reduced series, a draw costs below a millisecond.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import pairwise
from math import isfinite

from trainmon.snapshot import Points
from trainmon.widgets.scale import Scale, clamp

_BITS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))


def _stroke(dots: int) -> int:
    """The dots of a cell and those above and below each."""
    out = dots
    for bits in _BITS:
        for upper, lower in pairwise(bits):
            out |= (upper if dots & lower else 0) | (lower if dots & upper else 0)
    return out


STROKES = tuple(_stroke(dots) for dots in range(256))
"""By the line's dots in a cell: how far its band is drawn in the line's colour; beyond, the cell stays empty."""


class Canvas:
    """Dots of one chart.

    Attributes:
        dots: Braille bits a cell, row by row.
        line: True for cells that the line crosses; own: the line's dots alone.
    """

    __slots__ = ("columns", "dots", "line", "own", "rows")

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self.dots = [0] * (columns * rows)
        self.own = [0] * (columns * rows)
        self.line = [False] * (columns * rows)

    def column(self, x: int, top: int, bottom: int, *, line: bool) -> None:
        """Sets the dots of dot column `x` from dot row `top` to `bottom`, both included; clips."""
        if not 0 <= x < self.columns * 2:
            return
        top, bottom = max(0, top), min(self.rows * 4 - 1, bottom)
        bits = _BITS[x & 1]
        cell = x >> 1
        for y in range(top, bottom + 1):
            at = (y >> 2) * self.columns + cell
            self.dots[at] |= bits[y & 3]
            if line:
                self.line[at] = True
                self.own[at] |= bits[y & 3]


def reduce_columns(points: Points, scale: Scale, columns: int) -> list[tuple[int, float, float, float, float, float]]:
    """(dot column, min, mean, max, first x, last x) of each dot column that has a value, left to right."""
    width = columns * 2
    x0, factor = scale.x0, width / (scale.x1 - scale.x0)
    out: list[tuple[int, float, float, float, float, float]] = []
    at, low, high, total, count, first, last = -1, 0.0, 0.0, 0.0, 0, 0.0, 0.0
    for x, lo, mid, hi in zip(points.x, points.lo, points.mid, points.hi, strict=False):
        if not (isfinite(mid) and isfinite(lo) and isfinite(hi) and isfinite(x)):
            continue
        column = int((x - x0) * factor)
        if column == width and x <= scale.x1:
            column = width - 1
        if not 0 <= column < width:
            continue
        if column != at:
            if count:
                out.append((at, low, total / count, high, first, last))
            at, low, high, total, count, first = column, lo, hi, 0.0, 0, x
        low = lo if lo < low else low
        high = hi if hi > high else high
        total += clamp(mid)
        count += 1
        last = x
    if count:
        out.append((at, low, total / count, high, first, last))
    out.sort(key=lambda column: column[0])
    return out


def broken(columns: list[tuple[int, float, float, float, float, float]], gaps: Collection[float]) -> set[int]:
    """Indexes of columns that do not join the one before: a known gap lies between, or steps are missing.

    Missing means a distance of more than four times that of the neighbours on both sides.
    """
    out: set[int] = set()
    steps = [after[4] - before[5] for before, after in pairwise(columns)]
    for index in range(1, len(columns)):
        before, after = columns[index - 1][5], columns[index][4]
        if any(before <= gap < after for gap in gaps):
            out.add(index)
        elif 1 < index < len(columns) - 1 and columns[index][0] - columns[index - 1][0] > 2:
            around = max(steps[index - 2], steps[index])
            if around > 0 and steps[index - 1] > 4 * around:
                out.add(index)
    return out


def draw_series(points: Points, scale: Scale, columns: int, gaps: Collection[float] = ()) -> Canvas:
    """The band from min to max and the mean as a joined line."""
    rows = scale.rows
    canvas = Canvas(columns, rows)
    found = reduce_columns(points, scale, columns)
    cuts = broken(found, gaps) if found else set()
    top, unit, limit = scale.top, scale.row / 4, rows * 4

    def dot(value: float) -> int:
        place = (top - value) / unit
        return -1 if place < 0 else limit if place >= limit else int(place)

    last: tuple[int, float, float, float, float, float] | None = None
    last_dot = 0
    for index, column in enumerate(found):
        x, low, mean, high, _, _ = column
        y = dot(mean)
        if last is not None and index not in cuts:
            gap = x - last[0]
            # Between columns: the band and the line, interpolated.
            for step in range(1, gap):
                share = step / gap
                here_low, here_high = last[1] + (low - last[1]) * share, last[3] + (high - last[3]) * share
                here = dot(last[2] + (mean - last[2]) * share)
                if here_high > here_low:
                    canvas.column(last[0] + step, dot(here_high), dot(here_low), line=False)
                _join(canvas, last[0] + step, last_dot, here, limit)
                last_dot = here
        else:
            last_dot = y
        if high > low:
            canvas.column(x, dot(high), dot(low), line=False)
        _join(canvas, x, last_dot, y, limit)
        last, last_dot = column, y
    return canvas


def _join(canvas: Canvas, x: int, before: int, now: int, limit: int) -> None:
    """The line in one dot column: its own dot and those that lead to it from the one before."""
    if now > before:
        canvas.column(x, min(before + 1, now), now, line=True)
    elif now < before:
        canvas.column(x, now, max(before - 1, now), line=True)
    elif 0 <= now < limit:
        canvas.column(x, now, now, line=True)
