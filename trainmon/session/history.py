"""Records of history taken in by columns: the same as `RunState.feed` of each, and some thirty times cheaper.

Only what is calm goes this way: one node's finite numbers with rising steps. Whatever would need a look at a single
record makes the rows `Unfit`, before anything was changed; they are then read one by one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from operator import le, lt

from trainmon.columns import Columns, Unfit
from trainmon.model import Data
from trainmon.session.files import SourceFile
from trainmon.session.happenings import SLACK_STEPS
from trainmon.session.metrics import NO_METRIC
from trainmon.session.nodes import MAX_NODES, NodeState
from trainmon.session.rings import gaps_after
from trainmon.session.run import RunState

_FORGOTTEN = 400
"""What came so many records ago does not show in a smoothed interval."""
_SINGLY = frozenset({"pid", "event", "foreign", "mig_instance"})


def read_columns(run: RunState, file: SourceFile, piece: Data, at: int, arrival: float) -> Columns | None:
    """Take in what comes next of a file's past; gives what was taken, None when it has to be read line by line.

    Args:
        at: Where in the piece that begins.
        arrival: The file's time, Unix seconds.
    """
    parser = file.parser
    columns = parser.columns(piece.data, at, piece.offset + at)
    taken = 0 if columns is None else take_columns(run, columns, file, arrival)
    if columns is None or not taken:
        parser.refused()
        return None
    columns = columns if taken == len(columns) else columns.head(taken)
    parser.took(columns)
    file.read, file.size = columns.end, max(file.size, piece.size)
    file.records += taken
    return columns


def take_columns(run: RunState, columns: Columns, file: SourceFile, arrival: float) -> int:
    """Take in rows of a file's history.

    Args:
        arrival: The file's time, Unix seconds.

    Returns:
        How many were taken in, from the first on; 0: they have to be read one by one.
    """
    columns = _calm(run, columns)
    if len(columns) < 2 or not _SINGLY.isdisjoint(columns.first.extra):
        return 0
    try:
        return _take(run, columns, file, arrival)
    except Unfit:
        return 0


def _calm(run: RunState, columns: Columns) -> Columns:
    """As many of the rows as have rising steps and times that do not fall."""
    steps, times = columns.steps, columns.times
    rows = len(steps)
    if not all(map(lt, steps, steps[1:])):
        rows = next(i for i, (one, two) in enumerate(pairwise(steps), 1) if two <= one)
    if times is not None and not all(map(le, times, times[1:])):
        rows = min(rows, next(i for i, (one, two) in enumerate(pairwise(times), 1) if two < one))
    front = run.watch.pulse.step
    if front is not None and steps[0] <= front < steps[rows - 1]:
        rows = min(rows, bisect_right(steps, front, 0, rows))
    return columns if rows == len(steps) else columns.head(rows)


def _take(run: RunState, columns: Columns, file: SourceFile, arrival: float) -> int:
    first, steps, times, values = columns.first, columns.steps, columns.times, columns.values
    for column in values.values():
        total = sum(column)
        if total - total != 0.0:
            raise Unfit
    name, declared = run._named(first, file)
    node = run.nodes.get(name)
    last = run.told.last_step(file.id)
    if node is None or node.step is None or steps[0] < 0 or (last is not None and steps[0] < last - SLACK_STEPS):
        raise Unfit
    if times is not None and (run.first_time is None or run.newest_time is None or times[0] < run.first_time):
        raise Unfit
    if not run.gpus.fits(columns, name) or not run.watch.fits(columns, name):
        raise Unfit
    extra = {key: column() for key, column in columns.extra.items() if key not in NO_METRIC}
    if any(sum(column) - sum(column) != 0.0 for column in extra.values()):
        raise Unfit
    own = node.take_columns(columns, arrival)  # the last that may be unfit
    _origin(run, columns, file, name, declared)
    whens = times if times is not None else [arrival] * len(columns)
    if run.gpus.take_columns(columns, name, whens):
        run.dirty.add("gpus")
    run.told.leapt(steps[-1], file.id)
    _series(run, columns, {**values, **extra}, own, node, whens, arrival)
    if run.events.revision != run._events_at:
        run._events_at = run.events.revision
        run.dirty.add("events")
    for row, incident in run.watch.observe_columns(columns, name, arrival):
        run._note(incident, False, steps[row] if run.slowest is node else None)
    return len(columns)


def _origin(run: RunState, columns: Columns, file: SourceFile, name: str, declared: bool) -> None:
    """Whose rows these are, and when they were written."""
    first, times = columns.first, columns.times
    run.records += len(columns)
    run.told.live = False
    run.nodes.need(name, declared, file.id)
    if first.rank is not None:
        run.machines.seats.take(name, file.id, first.rank, first.local_rank, first.gpu, None)
    if first.labels:
        run._labels(first.labels)
    if times is not None:
        run._file_times[file.id] = times[-1]
        if run.newest_time is None or times[-1] > run.newest_time:
            run.newest_time, run._newest_file, run.newest_heard = times[-1], file.id, None
    run.dirty.update(("nodes", "run"))


def _series(
    run: RunState,
    columns: Columns,
    numbers: dict[str, list[float]],
    own: list[float] | None,
    node: NodeState,
    whens: list[float],
    arrival: float,
) -> None:
    first, steps = columns.first, columns.steps
    member = node.name if first.rank is None else f"{node.name}#{first.rank}"
    if member not in run._members:
        if len(run._members) >= MAX_NODES:
            member = node.name
        run._members.add(member)
    if own is not None and "step_time_s" not in numbers:
        numbers["step_time_s"] = own
    run.metrics.take_columns(numbers, steps, member)
    if "loss" in columns.values:
        run.loss_heard = arrival if run.loss_heard is None else max(arrival, run.loss_heard)
        _loss_interval(run, whens)
    rates = columns.values.get("learning_rate")
    if rates is not None:
        for row, (step, rate) in enumerate(zip(steps, rates, strict=True)):
            if run.warmup.over:
                break
            if run.warmup.take(step, rate):
                time = columns.times[row] if columns.times is not None else None
                run.told.warm(run.warmup.steps, run.warmup.peak, time, whens[row])
    run.dirty.update(("charts", "metrics"))


def _loss_interval(run: RunState, whens: Sequence[float]) -> None:
    last = run.last_loss_at
    gaps = gaps_after(last, whens)
    if len(gaps) > _FORGOTTEN and max(gaps) <= 10 * min(gaps) + 10:
        gaps = gaps[-_FORGOTTEN:]
    usual = run.loss_interval
    for gap in gaps:
        usual = gap if usual is None else usual * 0.8 + min(gap, 10 * usual + 10) * 0.2
    run.loss_interval = usual
    run.last_loss_at = whens[-1] if last is None else max(last, whens[-1])
