"""The numbers of a run by step: one bounded series a metric, merged over the nodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from trainmon.model import Record
from trainmon.series.stepseries import POINTS, StepSeries

MAX_NAMES = 200
POINTS_OTHER = 1024
"""Points of a series that no overview draws large."""
_MAIN = frozenset({"loss", "learning_rate"})
_NO_METRIC = frozenset(
    {
        "step", "total_steps", "epoch_step", "steps_per_epoch", "total_epochs", "iter", "total_iters", "rank",
        "world_size", "local_rank", "pid", "gpu", "elapsed_s", "time_guess", "global_batch_size", "gpu_memory_total_mb",
        "eta_s", "remaining_s", "percent", "timestamp", "log_time", "line", "lineno",
    }
)  # fmt: skip


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


class MetricBook:
    """Every numeric metric of the run by step."""

    def __init__(self) -> None:
        self._series: dict[str, StepSeries] = {}
        self.left_out = 0

    def __contains__(self, key: str) -> bool:
        return key in self._series

    def __iter__(self) -> Iterator[str]:
        return iter(self._series)

    def get(self, key: str) -> StepSeries | None:
        """The series of that metric."""
        return self._series.get(key)

    def take(self, record: Record, step: int, member: str) -> None:
        """Feed the numbers of one record.

        Args:
            step: Where on the axis they belong.
            member: The node (and rank) that reports them.
        """
        for key, value in record.values.items():
            if key not in _NO_METRIC:
                self.add(key, step, member, value)
        if record.extra:
            for key, value in record.extra.items():
                if key not in _NO_METRIC:
                    self.add(key, step, member, value)

    def add(self, key: str, step: int, member: str, value: object) -> None:
        """Feed one number; texts are passed over."""
        kind = type(value)
        if kind is not float:
            if kind is not int:
                return
            value = float(value)  # type: ignore[arg-type]
        series = self._series.get(key)
        if series is None:
            if len(self._series) >= MAX_NAMES:
                self.left_out += 1
                return
            series = self._series[key] = StepSeries(POINTS if key in _MAIN else POINTS_OTHER)
        series.add(step, member, value)  # type: ignore[arg-type]

    def order(self) -> list[str]:
        """Names for the charts: loss, learning rate, then the others by name."""
        first = [key for key in ("loss", "learning_rate") if key in self._series]
        return first + sorted(key for key in self._series if key not in ("loss", "learning_rate"))
