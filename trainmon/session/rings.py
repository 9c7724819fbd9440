"""The last numbers of something, and the means of its past, in a fixed piece of memory."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise

PAST = 40
"""Buckets of a node's own step times."""
PAST_STEPS = 4
"""Steps in a bucket at most, while no incident asks for a longer past."""


_ROUND = PAST // 10 * PAST_STEPS
"""Values after which as many buckets have come as have gone."""
_LASTING = (PAST + 2) * PAST_STEPS


class Ring:
    """The last few numbers, in a fixed piece of memory."""

    __slots__ = ("_at", "_full", "_size", "_values")

    def __init__(self, size: int, code: str = "f") -> None:
        self._values: array[float] = array(code, [0.0] * size)
        self._size = size
        self._at = 0
        self._full = False

    def __len__(self) -> int:
        return self._size if self._full else self._at

    def push(self, value: float) -> None:
        """Append; the oldest one goes when it is full."""
        self._values[self._at] = value
        self._at += 1
        if self._at == self._size:
            self._at = 0
            self._full = True

    def replace_last(self, value: float) -> None:
        """Set the newest one."""
        self._values[self._at - 1] = value

    def values(self) -> list[float]:
        """Oldest first."""
        if not self._full:
            return self._values[: self._at].tolist()
        return self._values[self._at :].tolist() + self._values[: self._at].tolist()

    def newest(self) -> float:
        """The last one; 0 while there is none."""
        return self._values[self._at - 1]

    def clear(self) -> None:
        """Forget all of them."""
        self._at = 0
        self._full = False


class Past:
    """The mean of some steps a bucket: of a young run all, of an older one the last steps.

    Buckets stand still: a new value changes the last one only.
    """

    __slots__ = ("_count", "_starts", "_values", "_whole", "each")

    def __init__(self, *, whole: bool = False) -> None:
        """`whole`: it never lets go of the beginning."""
        self._whole = whole
        self._values: array[float] = array("f")
        self._starts: array[float] = array("d")
        self._count = 0
        self.each = 1
        """Values in a bucket."""

    def push(self, step: float, value: float, reach: float | None = None) -> None:
        """Take the value of a new step.

        Args:
            reach: What lies before this step must stay in sight.
        """
        values, starts = self._values, self._starts
        if values and self._count < self.each:
            self._count += 1
            values[-1] += (value - values[-1]) / self._count
            return
        if len(values) >= PAST:
            early = self._whole or self.each < PAST_STEPS or (reach is not None and reach >= starts[0])
            if early:
                for i in range(PAST // 2):
                    values[i] = (values[2 * i] + values[2 * i + 1]) / 2.0
                    starts[i] = starts[2 * i]
                del values[PAST // 2 :], starts[PAST // 2 :]
                self.each *= 2
            else:
                del values[: PAST // 10], starts[: PAST // 10]
        values.append(value)
        starts.append(step)
        self._count = 1

    def push_many(self, steps: Sequence[float], values: Sequence[float], reach: float | None = None) -> None:
        """`push` each of them."""
        at, end = 0, len(values)
        while at < end:
            if self._values and self._count < self.each:
                stop = min(end, at + self.each - self._count)
                whole = self._values[-1] * self._count + sum(values[at:stop])
                self._count += stop - at
                self._values[-1] = whole / self._count
                at = stop
                continue
            if not self._whole and reach is None and self.each == PAST_STEPS and len(self._values) == PAST:
                # What comes and goes again within these values need not come: bucket ends stay where they are.
                at += max(0, end - at - _LASTING) // _ROUND * _ROUND
            self.push(steps[at], values[at], reach)
            at += 1

    def raise_last(self, old: float, value: float) -> None:
        """The newest value was `old` and is more."""
        self._values[-1] += (value - old) / self._count

    def cells(self, width: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """At most `width` means and the first step of each, oldest first."""
        values, starts = self._values, self._starts
        size = 1
        while -(-len(values) // size) > width:
            size *= 2
        parts = [values[i : i + size] for i in range(0, len(values), size)]
        means = tuple(sum(part) / len(part) for part in parts)
        return means, tuple(starts[::size])


def gaps_after(last: float | None, moments: Sequence[float]) -> list[float]:
    """Gaps between moments that do not fall, as far as they are later than `last`; none is zero."""
    if last is None:
        return [two - one for one, two in pairwise(moments) if two > one]
    late = moments[bisect_right(moments, last) :] if moments[0] <= last else moments
    return [two - one for one, two in pairwise((last, *late)) if two > one]
