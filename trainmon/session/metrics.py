"""The numbers of a run by step: one bounded series a metric, merged over the nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from trainmon.model import Record, Value
from trainmon.series.stepseries import POINTS, StepSeries

MAX_NAMES = 200
POINTS_OTHER = 1024
"""Points of a series that no overview draws large."""
_ROWS = 1024
"""Records that wait to be given to the series together, at most."""
_MAIN = frozenset({"loss", "learning_rate"})
_FLOATS, _NUMBERS = {float}, {float, int}
_NOTHING: dict[str, Value] = {}
_Row = tuple[dict[str, Value], dict[str, Value], int, str]
NO_METRIC = frozenset(
    {
        "step", "total_steps", "epoch_step", "steps_per_epoch", "total_epochs", "iter", "total_iters", "rank",
        "world_size", "local_rank", "pid", "gpu", "elapsed_s", "time_guess", "global_batch_size", "gpu_memory_total_mb",
        "eta_s", "remaining_s", "percent", "timestamp", "log_time", "line", "lineno",
    }
)  # fmt: skip
"""Numbers that are no metric."""


@dataclass(frozen=True, slots=True)
class MetricName:
    """How a metric is called on screen.

    Attributes:
        unit: A key of `trainmon.units.FORMATS`.
        worse: +1 where more is worse, -1 where less is, 0 where neither.
    """

    key: str
    title: str
    short: str
    unit: str
    worse: int = 0


SHOWN: tuple[tuple[MetricName, ...], ...] = (
    (MetricName("grad_norm", "grad norm", "grad", "number", 1),),
    (
        MetricName("tokens_per_second", "tokens/s", "tok/s", "per_second", -1),
        MetricName("samples_per_second", "samples/s", "smp/s", "per_second", -1),
    ),
    (MetricName("step_time_s", "step time", "step", "seconds", 1),),
    (
        MetricName("mfu", "MFU", "MFU", "mfu", -1),
        MetricName("tflops_per_gpu", "TFLOP/s", "TFLOP", "number", -1),
    ),
    (MetricName("data_time_s", "data wait", "data", "wait_seconds", 1),),
    (MetricName("accuracy", "accuracy", "acc", "number", -1),),
    (MetricName("reward", "reward", "reward", "number", 0),),
    (MetricName("kl", "KL", "KL", "number", 0),),
    (MetricName("loss_scale", "loss scale", "scale", "number", 0),),
    (MetricName("gpu_memory_mb", "GPU memory", "mem", "memory_mb", 1),),
    (MetricName("gpu_utilization", "GPU util", "util", "percent", -1),),
    (MetricName("perplexity", "perplexity", "ppl", "number", 1),),
    (MetricName("epoch", "epoch", "epoch", "number", 0),),
)
"""The metric row, most wanted first; of each group the first one that exists."""

TITLES = {name.key: name for group in SHOWN for name in group}
TITLES["loss"] = MetricName("loss", "loss", "loss", "loss", 1)
TITLES["learning_rate"] = MetricName("learning_rate", "learning rate", "lr", "learning_rate", 0)


def title_of(key: str) -> str:
    """What a metric is called."""
    known = TITLES.get(key)
    return known.title if known is not None else key.replace("_", " ")


class _Part:
    """Rows that have some keys in common, with the columns that all their series share."""

    __slots__ = ("members", "rows", "steps")

    def __init__(self, rows: list[_Row]) -> None:
        self.rows = rows
        self.steps = [row[2] for row in rows]
        self.members = [row[3] for row in rows]
        if len(set(self.members)) == 1:
            del self.members[1:]  # one stands for all


class MetricBook:
    """Every numeric metric of the run by step."""

    def __init__(self) -> None:
        self._series: dict[str, StepSeries] = {}
        self._rows: list[_Row] = []
        self.left_out = 0

    def __contains__(self, key: str) -> bool:
        self._settle()
        return key in self._series

    def __iter__(self) -> Iterator[str]:
        self._settle()
        return iter(self._series)

    def get(self, key: str) -> StepSeries | None:
        """The series of that metric, as of now: ask again after more was taken."""
        self._settle()
        return self._series.get(key)

    def take(self, record: Record, step: int, member: str) -> None:
        """Feed the numbers of one record. It must not be changed afterwards: its numbers are taken up by the column.

        Args:
            step: Where on the axis they belong.
            member: The node (and rank) that reports them.
        """
        self._rows.append((record.values, record.extra, step, member))
        if len(self._rows) >= _ROWS:
            self._settle()

    def add(self, key: str, step: int, member: str, value: float) -> None:
        """Feed one number."""
        self._rows.append(({key: value}, _NOTHING, step, member))
        if len(self._rows) >= 2 * _ROWS:
            self._settle()

    def take_columns(self, columns: Mapping[str, Sequence[float]], steps: Sequence[int], member: str) -> None:
        """Feed the numbers of many records of one node (and rank) at once."""
        self._settle()
        for key, column in columns.items():
            if key not in NO_METRIC:
                self._extend(key, steps, [member], column)

    def _settle(self) -> None:
        """Give the rows that wait to their series, column by column, each series its values in the order they came."""
        if not self._rows:
            return
        rows, self._rows = self._rows, []
        shapes: dict[tuple[str | None, ...], list[int]] = {}
        for i, row in enumerate(rows):
            shape = (*row[0], None, *row[1])
            at = shapes.get(shape)
            if at is None:
                at = shapes[shape] = []
            at.append(i)
        owners: dict[str, list[tuple[str | None, ...]]] = {}
        for shape in shapes:
            for key in shape:
                if key is not None and key not in NO_METRIC:
                    owners.setdefault(key, []).append(shape)
        parts: dict[tuple[tuple[str | None, ...], ...], _Part] = {}
        for key, own in owners.items():
            name = tuple(dict.fromkeys(own))
            part = parts.get(name)
            if part is None:
                indices = shapes[name[0]] if len(name) == 1 else sorted(i for shape in name for i in shapes[shape])
                part = parts[name] = _Part([rows[i] for i in indices])
            self._give(key, part, len(name) == 1 and key in name[0][: name[0].index(None)])

    def _give(self, key: str, part: _Part, inner: bool) -> None:
        """Args: inner: the key stands among the values of all rows, not among their extra fields."""
        if inner:
            column = [row[0][key] for row in part.rows]
        else:
            column = [row[0][key] if key in row[0] else row[1][key] for row in part.rows]
        steps, members = part.steps, part.members
        kinds = set(map(type, column))
        if kinds == _FLOATS:
            self._extend(key, steps, members, column)  # type: ignore[arg-type]
        elif kinds <= _NUMBERS:
            self._extend(key, steps, members, list(map(float, column)))
        else:  # texts are passed over
            for j, value in enumerate(column):
                if type(value) is float or type(value) is int:
                    self._extend(key, steps[j : j + 1], [members[j % len(members)]], [float(value)])

    def _extend(self, key: str, steps: Sequence[int], members: list[str], values: Sequence[float]) -> None:
        series = self._series.get(key)
        if series is None:
            if len(self._series) >= MAX_NAMES:
                self.left_out += len(values)
                return
            series = self._series[key] = StepSeries(POINTS if key in _MAIN else POINTS_OTHER)
        series.extend(steps, members, values)

    def order(self) -> list[str]:
        """Names for the charts: loss, learning rate, then the others by name."""
        self._settle()
        first = [key for key in ("loss", "learning_rate") if key in self._series]
        return first + sorted(key for key in self._series if key not in ("loss", "learning_rate"))
