"""A run of records of one shape, column by column: what a long history is taken in as.

A record a line costs microseconds in each part of the engine. Where many lines of a file say the same things of the
same node, one after the other, their numbers are lists, and each part takes in a list at once. Whoever can't do that
with what it is given says so, and the lines are read one by one instead: both ways lead to the same state.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

from trainmon.model import Record, Value


class Unfit(Exception):
    """These rows have to be looked at one by one."""


@dataclass(eq=False)
class Columns:
    """Records of kind `metrics`, all with the same keys, of one node and rank, with a step each.

    Attributes:
        first: The record of the first row, complete; what is no column is the same in all rows.
        steps: Steps of the rows.
        times: Unix seconds of the rows; None when they carry none.
        values: The other numbers of `Record.values`, all floats. `total_steps` is no column: `first` has it.
        extra: The numbers of `Record.extra`, made when asked for.
        starts: Gives the file offset at which each row begins.
        end: The offset behind the last row.
    """

    first: Record
    steps: list[int]
    times: list[float] | None
    values: dict[str, list[float]]
    extra: dict[str, Callable[[], list[float]]]
    starts: Callable[[], list[int]]
    end: int

    def __len__(self) -> int:
        return len(self.steps)

    @cached_property
    def offsets(self) -> list[int]:
        """Where the rows begin in the file."""
        return self.starts()

    def record(self, row: int) -> Record:
        """One row as a record; of its extra fields only those of the first row that are no numbers are right."""
        values: dict[str, Value] = dict(self.first.values)
        values["step"] = self.steps[row]
        for name, column in self.values.items():
            values[name] = column[row]
        return replace(
            self.first,
            line=self.first.line + row if self.first.line else 0,
            offset=self.offsets[row],
            time=self.times[row] if self.times is not None else self.first.time,
            values=values,
            extra=dict(self.first.extra),
            labels=dict(self.first.labels),
        )

    def head(self, rows: int) -> Columns:
        """The first rows only."""
        return Columns(
            self.first,
            self.steps[:rows],
            self.times[:rows] if self.times is not None else None,
            {name: column[:rows] for name, column in self.values.items()},
            {name: _cut(column, rows) for name, column in self.extra.items()},
            lambda: self.offsets[:rows],
            self.offsets[rows] if rows < len(self) else self.end,
        )


def _cut(column: Callable[[], list[float]], rows: int) -> Callable[[], list[float]]:
    return lambda: column()[:rows]
