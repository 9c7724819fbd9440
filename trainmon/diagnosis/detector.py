"""What a detector is.

A detector is one file and one class. It is fed one record at a time, keeps bounded state, looks at no file and no
clock, and gives incidents: one with the key of an earlier one is its update, one with `end` set resolves it. To add
one: write the class, name it in `engine.DETECTORS`, and test that it fires in time, stays quiet on healthy runs and
resolves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from trainmon.model import Incident, Record, Value


class Detector(Protocol):
    """See the module's docstring."""

    kinds: frozenset[str]
    """Kinds of records that it wants to see."""

    def observe(self, record: Record, node: str, at: float | None) -> Iterable[Incident]:
        """Take in a record.

        Args:
            record: The record.
            node: Whose it is.
            at: Seconds: its arrival while live, the log's own time in history (None when it has none). Only
                differences mean anything.
        """
        ...

    def tick(self, now: float) -> Iterable[Incident]:
        """Time has passed; called about once a second while live.

        Args:
            now: Seconds on the scale of live arrivals.
        """
        ...


def moment(record: Record, at: float | None) -> float:
    """Unix time of a record: its own, else its arrival; 0 when neither is known."""
    if record.time is not None:
        return record.time
    return at if at is not None else 0.0


def step_of_record(record: Record) -> int | None:
    """The record's step, where it has one that can be counted with."""
    step = record.values.get("step")
    if type(step) is int and -1 < step < 9007199254740992:  # 2^53; the usual case
        return step
    if isinstance(step, bool) or not isinstance(step, (int, float)):
        return None
    if step != step or not -1 < step < 2**53:
        return None
    return int(step)


def place_without_step(values: Mapping[str, Value], last: int) -> int:
    """Where a record without a step belongs: its epoch where epochs count it, else after the record before it.

    Args:
        last: Where that one was put.
    """
    epoch = values.get("epoch")
    if isinstance(epoch, (int, float)) and (epoch == last + 1 or epoch == last == 0):
        return int(epoch)
    return last + 1
