"""One metric over the steps of a run, merged over its nodes, in bounded memory.

The newest points keep full resolution, older ones are merged into groups (minimum, mean, maximum) of one size, which
doubles as the run grows: the whole past is shown evenly, no spike is lost (see `coarse.py`).

The files of a run are often read one after the other, so the same step can be told again much later. The values of
recent steps are kept one by one for an exact median, as far as a budget allows; a step that is older than that is
frozen: later values still widen its minimum and maximum, and move its middle as in a mean.

A node whose step goes back has been resumed from a checkpoint: from that step on the later segment replaces the
earlier one, so that x always rises.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from operator import lt

from trainmon.series.buckets import Buckets
from trainmon.series.coarse import COARSE, FINE, append_groups, foresee, regroup
from trainmon.series.reduce import change
from trainmon.series.resumes import Resumes
from trainmon.series.robust import median
from trainmon.snapshot import Points

POINTS = 4096
"""Points a series keeps before older ones are merged."""
BUDGET = 12_288
"""Single values kept for exact medians, over all open steps (96 KB)."""
OPEN_STEPS = 1_024
"""Steps that are open at most."""
MARKS = 256
"""Positions of non-finite values kept, the newest ones."""
CUTS = 64
"""Resumes that are remembered."""
BIGGEST = 2**53
"""Steps beyond this are nonsense, and a float does not hold them."""


class StepSeries(Resumes):
    """Median and minimum to maximum of a metric over nodes, by step.

    Args:
        points: How many points are kept at most (at least 16).
    """

    def __init__(self, points: int = POINTS) -> None:
        super().__init__()
        self._limit = max(16, points)
        self._x = array("d")
        self._lo = array("d")
        self._mid = array("d")
        self._hi = array("d")
        self._n = array("d")  # values in a point
        self._w = array("d")  # steps in a point: 1 is fine, more is merged
        self._coarse = 0  # points that are groups, all in front
        self._each = 1  # steps in a group, the last one may hold less
        self._even = True  # every group but the last holds as many
        self._open: dict[int, float | array[float]] = {}  # the values of recent steps; most have one
        self._open_values = 0
        self._stale: set[int] = set()  # open steps whose median is to be computed again
        self._floor = float("-inf")  # steps below this are frozen
        self._marks: list[float] = []
        self._buckets = Buckets()
        self.version = 0
        """Rises with every value that changed something."""
        self.count = 0
        """Finite values taken in."""
        self.non_finite_count = 0
        """NaN and infinite values, all of them."""
        self.first: tuple[float, float] | None = None
        """The first step and value that was seen."""

    def __len__(self) -> int:
        return len(self._x)

    # ------------------------------------------------------------ taking in

    def add(self, step: int, node: str, value: float) -> None:
        """Take in what `node` reports at `step`. NaN and infinity are marked, not drawn."""
        if not -BIGGEST < step < BIGGEST or not self._admit(step, node):
            return
        self.version += 1
        if value - value != 0.0:
            self.non_finite_count += 1
            if not self._marks or self._marks[-1] < step:
                self._marks.append(float(step))
            elif step not in self._marks:
                self._marks.insert(bisect_left(self._marks, step), float(step))
            if len(self._marks) > MARKS:
                del self._marks[0]
            return
        self.count += 1
        if self.first is None or step < self.first[0]:
            self.first = (float(step), value)
        x = self._x
        n = len(x)
        if not n or step > x[-1]:
            self._append(n, step, value)
            return
        if step == x[-1]:
            i = n - 1
        else:
            i = bisect_right(x, step) - 1
            if i < 0 or (x[i] != step and self._w[i] == 1.0):
                self._insert(i + 1, step, value)
                return
        self._merge_into(i, step, value)

    def extend(self, steps: Sequence[int], nodes: Sequence[str], values: Sequence[float]) -> None:
        """Take in many values in their order: the same as `add` for each of them, and much cheaper.

        Args:
            steps, nodes, values: Columns of one length; one node for all of them may be given alone.
        """
        if len(nodes) == 1 and len(steps) > 1:
            if self._column(steps, nodes[0], values):
                return
            nodes = [nodes[0]] * len(steps)
        x, seats, opened, stale = self._x, self._seats, self._open, self._stale
        for step, node, value in zip(steps, nodes, values, strict=True):
            # The usual case, many nodes at the newest step, is `add` written out.
            seat = seats.get(node)
            if seat is None or seat.last > step or seat.segment != len(self._cuts) or not x or step != x[-1]:
                self.add(step, node, value)
                x = self._x
                continue
            held = opened.get(step)
            if held is None or value - value != 0.0 or self._w[-1] != 1.0:
                self.add(step, node, value)
                x = self._x
                continue
            seat.last = step
            self.version += 1
            self.count += 1
            if value < self._lo[-1]:
                self._lo[-1] = value
            if value > self._hi[-1]:
                self._hi[-1] = value
            self._n[-1] += 1.0
            self._buckets.touch(len(x) - 1)
            if isinstance(held, array):
                held.append(value)
            else:
                opened[step] = array("d", (held, value))
            stale.add(step)
            self._open_values += 1
            if self._open_values > BUDGET:
                self._freeze()

    def _column(self, steps: Sequence[int], node: str, values: Sequence[float]) -> bool:
        """One node, finite values, steps that rise: whole columns at once. False when they are not like that."""
        total = sum(values)
        if total - total != 0.0 or not all(map(lt, steps, steps[1:])) or not steps[-1] < BIGGEST:
            return False
        self.add(steps[0], node, values[0])
        seat = self._seats.get(node)
        x = self._x
        if seat is None or seat.segment != len(self._cuts) or not x or x[-1] != steps[0] or self._floor > steps[1]:
            for step, value in zip(steps[1:], values[1:], strict=True):
                self.add(step, node, value)
            return True
        seat.last = steps[-1]
        self.version += len(steps) - 1
        self.count += len(steps) - 1
        if len(steps) > 1 and not self._leap(steps[1:], values[1:]):
            self._in_portions(steps[1:], values[1:])
        return True

    def _in_portions(self, steps: Sequence[int], values: Sequence[float]) -> None:
        """Append: as far as nothing has to be frozen or merged, and one more, which sets that off as in `_append`."""
        i, end = 0, len(steps)
        while i < end:
            n = len(self._x)
            room = min(self._limit - n, OPEN_STEPS - len(self._open), BUDGET - self._open_values) + 1
            j = min(end, i + max(1, room))
            self._fine(steps[i:j], values[i:j])
            self._buckets.touch(n)
            self._open.update(zip(steps[i:j], values[i:j], strict=True))
            self._open_values += j - i
            if self._open_values > BUDGET or len(self._open) > OPEN_STEPS:
                self._freeze()
            if len(self._x) > self._limit:
                self._compact()
            i = j

    def _fine(self, steps: Sequence[int], values: Sequence[float]) -> None:
        part, ones = array("d", values), array("d", (1.0,)) * len(steps)
        self._x.extend(array("d", steps))
        for column in (self._lo, self._mid, self._hi):
            column.extend(part)
        self._n.extend(ones)
        self._w.extend(ones)

    def _leap(self, steps: Sequence[int], values: Sequence[float]) -> bool:
        """Append many values: what `_in_portions` leaves in the end, without its stations. False when it can't tell.

        Only how many points there are decides when something is merged or frozen, so that can be counted through first.
        """
        size, count, opened = len(self._x), len(steps), len(self._open)
        if size + count <= self._limit or not self._even or self._stale or self._open_values != opened:
            return False
        if size - bisect_left(self._x, self._floor) != opened or opened > OPEN_STEPS or BUDGET < OPEN_STEPS:
            return False
        before = int(sum(self._w))  # steps that stand here already
        far = foresee(size, before, count, opened, OPEN_STEPS, self._limit, self._each)
        if far is None:
            return False
        old, each, opened, frozen = far
        known = len(self._x)
        kept = max(0, before - old)  # of the points that stand here stay fine
        new = max(0, old - before)  # of the new values belong to groups

        def step_at(place: int) -> float:
            return self._x[known - (before - place)] if place < before else float(steps[place - before])

        floor = max(self._floor, step_at(old), step_at(frozen - 1) + 1 if frozen else self._floor)
        columns = (self._x, self._lo, self._mid, self._hi, self._n, self._w)
        first = max(0, self._coarse - 1) if each == self._each else 0
        columns, self._coarse = regroup(columns, first, known - kept, each)
        if new:
            append_groups(columns, steps[:new], values[:new], each)
            self._coarse = len(columns[0])
        self._x, self._lo, self._mid, self._hi, self._n, self._w = columns
        self._each, self._floor = each, floor
        self._fine(steps[new:], values[new:])
        if opened < count:
            self._open = dict(zip(steps[count - opened :], values[count - opened :], strict=True))
        else:
            self._open = {step: value for step, value in self._open.items() if step >= self._x[-opened]}
            self._open.update(zip(steps, values, strict=True))
        self._open_values = opened
        self._buckets.clear()
        return True

    def _append(self, n: int, step: int, value: float) -> None:
        """The usual case of `_insert`: a step that is new."""
        self._x.append(float(step))
        self._lo.append(value)
        self._mid.append(value)
        self._hi.append(value)
        self._n.append(1.0)
        self._w.append(1.0)
        self._buckets.touch(n)
        if step >= self._floor:
            self._open[step] = value
            self._open_values += 1
            if self._open_values > BUDGET or len(self._open) > OPEN_STEPS:
                self._freeze()
        if n >= self._limit:
            self._compact()

    def _insert(self, i: int, step: int, value: float) -> None:
        if i < self._coarse:
            self._coarse += 1
            self._even = False
        for column, item in ((self._x, float(step)), (self._lo, value), (self._mid, value), (self._hi, value)):
            column.insert(i, item)
        self._n.insert(i, 1.0)
        self._w.insert(i, 1.0)
        self._buckets.touch(i)
        if step >= self._floor:
            self._open[step] = value
            self._open_values += 1
            if self._open_values > BUDGET or len(self._open) > OPEN_STEPS:
                self._freeze()
        if len(self._x) > self._limit:
            self._compact()

    def _merge_into(self, i: int, step: int, value: float) -> None:
        if value < self._lo[i]:
            self._lo[i] = value
        if value > self._hi[i]:
            self._hi[i] = value
        self._n[i] += 1.0
        self._buckets.touch(i)
        values = self._open.get(step) if self._w[i] == 1.0 else None
        if values is None:
            share = 1.0 / self._n[i]
            self._mid[i] = self._mid[i] * (1.0 - share) + value * share
            return
        if isinstance(values, array):
            values.append(value)
        else:
            self._open[step] = array("d", (values, value))
        self._open_values += 1
        self._stale.add(step)
        if self._open_values > BUDGET:
            self._freeze()

    def _freeze(self) -> None:
        """Close the oldest open steps, a quarter of them at once."""
        self._settle()
        steps = sorted(self._open)[: min(max(1, len(self._open) // 4), len(self._open) - 1)]
        if steps:
            self._shut(steps)
            self._floor = max(self._floor, steps[-1] + 1)

    def _shut(self, steps: Iterable[int]) -> None:
        """Their values are no longer kept one by one."""
        pop = self._open.pop
        held = [pop(step) for step in steps]
        self._open_values -= sum([len(values) if isinstance(values, array) else 1 for values in held])

    def _settle(self) -> None:
        """Bring the medians of open steps up to date."""
        for step in self._stale:
            values = self._open.get(step)
            i = bisect_left(self._x, step)
            if isinstance(values, array) and i < len(self._x) and self._x[i] == step:
                self._mid[i] = median(values)
        self._stale.clear()

    def _compact(self) -> None:
        """Merge what is not among the newest any more."""
        self._settle()
        x, limit = self._x, self._limit
        edge, each = len(x) - limit // FINE, self._each
        old = sum(self._w[:edge])
        while -(-old // each) > limit // COARSE:
            each *= 2
        first = max(0, self._coarse - 1) if each == self._each and self._even else 0
        fresh, self._coarse = regroup((x, self._lo, self._mid, self._hi, self._n, self._w), first, edge, each)
        while self._coarse > limit - limit // FINE - 2 and not self._even:
            each *= 2
            fresh, self._coarse = regroup(fresh, 0, self._coarse, each)
        self._x, self._lo, self._mid, self._hi, self._n, self._w = fresh
        self._each = each
        start = x[edge]
        self._shut([step for step in self._open if step < start])
        self._floor = max(self._floor, start)
        self._buckets.clear()

    # ------------------------------------------------------------ resumes

    def _cut(self, step: int) -> None:
        """A resume: forget everything from `step` on."""
        if self._x and self._x[-1] >= step:
            top = int(self._x[-1])
        else:
            top = step
        self._cuts.append((step, top))
        if len(self._cuts) > CUTS:
            del self._cuts[0]
            for seat in self._seats.values():
                seat.segment = max(0, seat.segment - 1)
        i = bisect_left(self._x, step)
        for column in (self._x, self._lo, self._mid, self._hi, self._n, self._w):
            del column[i:]
        self._coarse = min(self._coarse, i)
        later = [s for s in self._open if s >= step]
        self._shut(later)
        self._stale.difference_update(later)
        del self._marks[bisect_left(self._marks, step) :]
        # What was frozen beyond the cut may be told anew; where points are merged it stays frozen.
        edge = next((self._x[j] + 1 for j in range(i - 1, -1, -1) if self._w[j] > 1.0), float("-inf"))
        self._floor = min(self._floor, max(edge, float(step)))
        self._buckets.clear()
        self.version += 1

    # ------------------------------------------------------------ giving out

    @property
    def newest(self) -> float | None:
        """The newest step that has a finite value."""
        return self._x[-1] if self._x else None

    @property
    def value(self) -> float | None:
        """The median over the nodes that report at the newest step."""
        if not self._x:
            return None
        values = self._open.get(int(self._x[-1]))
        if values is None:
            return self._mid[-1]
        return median(values) if isinstance(values, array) else values

    @property
    def non_finite(self) -> tuple[float, ...]:
        """Steps with a NaN or infinite value, oldest first; the newest of them when there are many."""
        return tuple(self._marks)

    def points(self, max_n: int = 512) -> Points:
        """The series in at most `max_n` points, x rising, every spike kept in lo and hi.

        Buckets stand still while the series grows, so that a new value changes the last point only.
        """
        self._settle()
        return self._buckets.points(max_n, self._x, self._lo, self._mid, self._hi, self._w)

    def change(self) -> tuple[float, int] | None:
        """How the mean of the last window differs from the window before, and the window's width in steps.

        The width is a round number, about an eighth of the run. None while the run is too short to say.
        """
        self._settle()
        return change(self._x, self._mid)
