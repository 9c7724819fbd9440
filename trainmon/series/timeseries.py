"""Several quantities of one thing over the whole run, on one axis of time, in a fixed number of cells.

Cells lie on a grid of absolute time whose width doubles when the room is used up, so that a new value changes the
last cell only and a restart of the program gives the same cells. Values may come in any order: what is older than the
first cell makes room in front, what falls into an older cell widens its range.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from trainmon.curves import Points

MAX_SPAN_S = 400.0 * 86400.0
"""A value that lies further than this from all others has a wrong time: it is refused."""
_MAX_FLOAT = 3.0e38
_FIRST_WIDTH_S = 1.0
_NAN, _INF = math.nan, math.inf


class Room:
    """How many cells each of many series may use; shared by all of them, less while they grow in number.

    Args:
        steps: (series at most, cells of each), rising; beyond the last it holds.
    """

    __slots__ = ("_steps", "cells")

    def __init__(self, *steps: tuple[int, int]) -> None:
        self._steps = steps or ((1, 480),)
        self.cells = self._steps[0][1]

    def fit(self, series: int) -> None:
        """There are so many series now."""
        self.cells = next((cells for most, cells in self._steps if series <= most), self._steps[-1][1])


class TimeSeries:
    """See the module's docstring.

    Args:
        rows: How many quantities.
        room: Its `cells` bound every row; at least half of them are in use once the series is long.
    """

    __slots__ = ("_base", "_cells", "_cursor", "_room", "_rows", "_sums", "width_s")

    def __init__(self, rows: int, room: Room) -> None:
        self._room = room
        self._rows: list[array[float] | None] = [None] * rows
        self._cursor = array("q", [-1, 0] * rows)
        """By row: the cell that was written last, as its number on the grid, and how many values are in it."""
        self._sums = array("d", [0.0] * rows)
        """By row: their sum; a running mean of floats of four bytes would come to a standstill."""
        self._base = 0
        self._cells = 0
        self.width_s = _FIRST_WIDTH_S

    def __len__(self) -> int:
        """Cells in use."""
        return self._cells

    def add(self, row: int, time: float, value: float) -> bool:
        """Take a value.

        Args:
            row: Which quantity.
            time: Unix seconds.
            value: The value; what is not finite is refused.

        Returns:
            False when it was refused.
        """
        if not (-_MAX_FLOAT < value < _MAX_FLOAT) or not (0.0 <= time < 1e12):
            return False
        cell = int(time // self.width_s)
        if not self._cells:
            self._base, self._cells = cell, 1
        elif not self._reach(cell):
            return False
        cell = int(time // self.width_s)
        cells = self._rows[row]
        if cells is None:
            cells = self._rows[row] = array("f", (_INF, _NAN, -_INF)) * self._cells
        elif len(cells) < 3 * self._cells:
            cells.extend((_INF, _NAN, -_INF) * (self._cells - len(cells) // 3))
        at = 3 * (cell - self._base)
        low, mean, high = cells[at], cells[at + 1], cells[at + 2]
        if mean != mean:
            cells[at] = cells[at + 1] = cells[at + 2] = value
            self._cursor[2 * row], self._cursor[2 * row + 1] = cell, 1
            self._sums[row] = value
            return True
        if value < low:
            cells[at] = value
        if value > high:
            cells[at + 2] = value
        if self._cursor[2 * row] == cell:  # elsewhere the same past is read a second time
            self._cursor[2 * row + 1] += 1
            self._sums[row] += value
            cells[at + 1] = self._sums[row] / self._cursor[2 * row + 1]
        return True

    def add_columns(self, times: Sequence[float], columns: Mapping[int, Sequence[float]]) -> None:
        """Take in many values of some quantities: the same as `add` moment by moment, and much cheaper.

        Args:
            times: Unix seconds that do not fall.
            columns: For each row its finite values, one a time.
        """
        begin, end = 0, len(times)
        while begin < end:
            time = times[begin]
            if not 0.0 <= time < 1e12:
                begin += 1
                continue
            cell = int(time // self.width_s)
            if not self._cells:
                self._base, self._cells = cell, 1
            elif not self._reach(cell):
                begin += 1
                continue
            cell = int(time // self.width_s)
            stop = bisect_left(times, (cell + 1) * self.width_s, begin + 1)
            for row, values in columns.items():
                self._merge(row, cell, values[begin:stop])
            begin = stop

    def _merge(self, row: int, cell: int, part: Sequence[float]) -> None:
        """Values that fall into one cell."""
        if not (min(part) > -_MAX_FLOAT and max(part) < _MAX_FLOAT):
            part = [value for value in part if -_MAX_FLOAT < value < _MAX_FLOAT]
            if not part:
                return
        cells = self._rows[row]
        if cells is None:
            cells = self._rows[row] = array("f", (_INF, _NAN, -_INF)) * self._cells
        elif len(cells) < 3 * self._cells:
            cells.extend((_INF, _NAN, -_INF) * (self._cells - len(cells) // 3))
        at = 3 * (cell - self._base)
        if cells[at + 1] != cells[at + 1]:
            self._cursor[2 * row], self._cursor[2 * row + 1], self._sums[row] = cell, 0, 0.0
        cells[at] = min(cells[at], min(part))
        cells[at + 2] = max(cells[at + 2], max(part))
        if self._cursor[2 * row] == cell:
            self._cursor[2 * row + 1] += len(part)
            self._sums[row] = sum(part, self._sums[row])
            cells[at + 1] = self._sums[row] / self._cursor[2 * row + 1]

    def _reach(self, cell: int) -> bool:
        """Make the grid long enough for a cell of the present width; False when that makes no sense."""
        first, last = min(self._base, cell), max(self._base + self._cells - 1, cell)
        if (last - first) * self.width_s > MAX_SPAN_S:
            return False
        limit = max(4, self._room.cells)
        while last - first >= limit:
            self._double()
            cell >>= 1
            first, last = min(self._base, cell), max(self._base + self._cells - 1, cell)
        if first < self._base:
            front = array("f", (_INF, _NAN, -_INF)) * (self._base - first)
            self._rows = [None if cells is None else front + cells for cells in self._rows]
            self._base = first
        self._cells = last - first + 1
        return True

    def _double(self) -> None:
        base = self._base >> 1
        for row, cells in enumerate(self._rows):
            if cells is None:
                continue
            if self._base & 1:
                cells = array("f", (_INF, _NAN, -_INF)) + cells
            if len(cells) % 6:
                cells.extend((_INF, _NAN, -_INF))
            half = array("f", bytes(2 * len(cells)))
            half[0::3] = array("f", map(min, cells[0::6], cells[3::6]))
            half[1::3] = array("f", map(_middle, cells[1::6], cells[4::6]))
            half[2::3] = array("f", map(max, cells[2::6], cells[5::6]))
            self._rows[row] = half
            self._cursor[2 * row] >>= 1
            at = 3 * (self._cursor[2 * row] - base) + 1
            self._sums[row] = half[at] * self._cursor[2 * row + 1] if 0 <= at < len(half) else 0.0
        self._cells = ((self._base + self._cells - 1) >> 1) - base + 1
        self._base = base
        self.width_s *= 2.0

    # ------------------------------------------------------------ giving out

    @property
    def start(self) -> float | None:
        """Unix time at which the first cell begins; None while there is none."""
        return self._base * self.width_s if self._cells else None

    @property
    def end(self) -> float | None:
        """Unix time at which the last cell ends; None while there is none."""
        return (self._base + self._cells) * self.width_s if self._cells else None

    def has(self, row: int) -> bool:
        """Whether there is any value of that quantity."""
        return self._rows[row] is not None

    def points(self, row: int, since: float = -_INF) -> Points:
        """What is known of a quantity: x is the time at which a cell begins; cells without a value are left out.

        Args:
            since: Leave out cells that end before.
        """
        cells = self._rows[row]
        if cells is None:
            return Points()
        width, base = self.width_s, self._base
        found = [
            ((base + i) * width, cells[3 * i], cells[3 * i + 1], cells[3 * i + 2])
            for i in range(len(cells) // 3)
            if cells[3 * i + 1] == cells[3 * i + 1] and (base + i + 1) * width > since
        ]
        if not found:
            return Points()
        x, low, middle, high = zip(*found, strict=True)
        return Points(x, low, middle, high)

    def gaps(self, row: int, longer_s: float) -> tuple[float, ...]:
        """Times of cells after which nothing came for longer than `longer_s` (and than two cells)."""
        x = self.points(row).x
        least = max(longer_s, 2.0 * self.width_s)
        return tuple(one for one, two in pairwise(x) if two - one - self.width_s > least)

    def at(self, row: int, time: float) -> float | None:
        """The mean of the newest cell with a value that begins at or before `time`; None when there is none."""
        cells = self._rows[row]
        if cells is None or not math.isfinite(time):
            return None
        last = min(int(time // self.width_s) - self._base, len(cells) // 3 - 1)
        for i in range(last, -1, -1):
            if cells[3 * i + 1] == cells[3 * i + 1]:
                return cells[3 * i + 1]
        return None

    def first_at_least(self, row: int, value: float) -> float | None:
        """Time of the first cell whose mean is `value` or more; None when there is none."""
        cells = self._rows[row]
        for i in range(0 if cells is None else len(cells) // 3):
            if cells is not None and cells[3 * i + 1] >= value:
                return (self._base + i) * self.width_s
        return None

    def means_on(self, row: int, other: TimeSeries, sums: dict[int, list[float]]) -> None:
        """Add this series' means to `sums` by the cells of `other`: cell number -> [sum, count, lowest, highest]."""
        cells = self._rows[row]
        if cells is None:
            return
        width, wider = self.width_s, other.width_s
        for i in range(len(cells) // 3):
            mean = cells[3 * i + 1]
            if mean != mean:
                continue
            first = int((self._base + i) * width // wider)
            for cell in range(first, max(first + 1, int((self._base + i + 1) * width // wider))):
                found = sums.get(cell)
                if found is None:
                    sums[cell] = [mean, 1.0, mean, mean]
                else:
                    found[0] += mean
                    found[1] += 1.0
                    found[2] = min(found[2], mean)
                    found[3] = max(found[3], mean)

    def means(self, row: int, like: TimeSeries) -> list[float]:
        """The means at the cells of another series of the same width; NaN where there is none."""
        cells = self._rows[row]
        known = [] if cells is None else cells[1::3].tolist()
        skip = like._base - self._base
        known = known[skip:] if skip >= 0 else [_NAN] * min(-skip, like._cells) + known
        return (known + [_NAN] * like._cells)[: like._cells]

    def nbytes(self) -> int:
        """Bytes of the cells."""
        return sum(len(cells) * cells.itemsize for cells in self._rows if cells is not None)


def mean_of(series: Iterable[TimeSeries], row: int, like: TimeSeries) -> Points:
    """Mean, lowest and highest of a quantity over several series, by the cells of `like`, within its time."""
    sums: dict[int, list[float]] = {}
    same = []
    for one in series:
        if one.width_s == like.width_s:
            same.append(one)
        else:
            one.means_on(row, like, sums)
    _add_same(same, row, like, sums)
    start, end = like.start, like.end
    if start is None or end is None:
        return Points()
    first, last = round(start / like.width_s), round(end / like.width_s)
    found = [(c * like.width_s, s[2], s[0] / s[1], s[3]) for c, s in sorted(sums.items()) if first <= c < last]
    if not found:
        return Points()
    x, low, middle, high = zip(*found, strict=True)
    return Points(x, low, middle, high)


def _add_same(series: list[TimeSeries], row: int, like: TimeSeries, sums: dict[int, list[float]]) -> None:
    """The usual case, for which `means_on` would take long: cells of one width."""
    columns = [one.means(row, like) for one in series]
    if not columns or like.start is None:
        return
    first = round(like.start / like.width_s)
    for cell, column in enumerate(zip(*columns, strict=True), first):
        found = [mean for mean in column if mean == mean]
        if not found:
            continue
        before = sums.get(cell)
        total, low, high = sum(found), min(found), max(found)
        if before is None:
            sums[cell] = [total, float(len(found)), low, high]
        else:
            sums[cell] = [before[0] + total, before[1] + len(found), min(before[2], low), max(before[3], high)]


def _middle(one: float, two: float) -> float:
    if one != one:
        return two
    return one if two != two else (one + two) / 2.0
