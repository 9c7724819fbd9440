"""Charts, incident spans and the metric row, out of the series of a run."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable

from trainmon.model import Incident, Severity
from trainmon.series.robust import median
from trainmon.series.timeseries import mean_of
from trainmon.session.cards import ROW
from trainmon.session.metrics import SHOWN, TITLES, MetricName, title_of
from trainmon.session.nodes import STEP
from trainmon.session.run import SLOW_RISES, RunState
from trainmon.session.warmup import schedule_note
from trainmon.session.wording import coarse
from trainmon.snapshot import ChartView, MetricView, Points, Span

MAX_POINTS = 512
SPARK = 24
"""Columns of a metric's past."""
SPARK_STEPS = 240
"""Steps that they show at least, where there are so many."""
METRICS = 8
_FIRST = ("loss", "learning_rate")
_OTHERS_EVERY_S = 1.0
_HEALTHY_MIN = 8

_COLOURS: dict[str, tuple[str, ...]] = {
    "straggler": ("step_time_s", "tokens_per_second", "samples_per_second", "mfu", "tflops_per_gpu"),
    "slowdown": ("step_time_s", "tokens_per_second", "samples_per_second", "mfu", "tflops_per_gpu"),
    "data_bottleneck": ("data_time_s", "step_time_s", "tokens_per_second", "samples_per_second"),
    "loss_nan": ("grad_norm", "loss"),
    "grad_spike": ("grad_norm",),
    "near_oom": ("gpu_memory_mb",),
    "memory_leak": ("gpu_memory_mb",),
    "memory_high": ("gpu_memory_mb",),
}
"""Which metrics an incident colours."""
_MEMORY = frozenset({"near_oom", "oom", "memory_high", "memory_leak"})
_MAX_MEMORY = 8
_ENDINGS = (
    ("loss", "loss"), ("_lr", "learning_rate"), ("per_second", "per_second"), ("memory_mb", "memory_mb"),
    ("_time_s", "seconds"), ("_percent", "percent"), ("utilization", "percent"),
)  # fmt: skip


class ChartBuilder:
    """Builds the views of one run and keeps those whose series did not change."""

    def __init__(self) -> None:
        self._views: dict[str, tuple[tuple[object, ...], ChartView]] = {}
        self._others_at = -math.inf
        self._memory: list[ChartView] = []
        self._memory_of: set[tuple[str, int]] = set()
        self._memory_at = -1
        self._memory_stale: float | None = None
        self.behind = False
        """Some chart that no overview shows is older than its series."""

    def charts(
        self, run: RunState, now: float, gaps: tuple[float, ...], alerts: Iterable[Incident] = ()
    ) -> tuple[ChartView, ...]:
        """All charts, loss and learning rate first.

        Args:
            now: Unix seconds; the charts that no overview shows are made anew once a second at most.
            gaps: Steps after which values are missing.
            alerts: What is open: a GPU that fills up gets a chart of its own, against the others.
        """
        stale = self._stale(run, now)
        others = not 0.0 <= now - self._others_at < _OTHERS_EVERY_S
        if others:
            self._others_at = now
        self.behind = False
        views = []
        for key in run.metrics.order():
            cached = self._views.get(key)
            series = run.metrics.get(key)
            if series is None:
                continue
            if cached is not None and cached[0][0] is series and not others and key not in _FIRST:
                self.behind = self.behind or cached[0][1] != series.version
                views.append(cached[1])
                continue
            state = (series, series.version, gaps, stale)
            if cached is None or cached[0] != state:
                cached = self._views[key] = (state, self._chart(key, run, gaps, stale))
            views.append(cached[1])
        wanted = {(i.node, i.gpu) for i in alerts if i.kind in _MEMORY and i.node and i.gpu is not None}
        told = run.gpus.revision + run.machines.cards.revision
        at = told if others or wanted != self._memory_of else self._memory_at
        if wanted != self._memory_of or (wanted and (at, stale) != (self._memory_at, self._memory_stale)):
            self._memory = [memory_chart(run, *which, stale) for which in sorted(wanted)[:_MAX_MEMORY]]
        self._memory_of, self._memory_at, self._memory_stale = wanted, at, stale
        self.behind = self.behind or (bool(wanted) and at != told)
        return (*views, *self._memory)

    def points(self, key: str) -> Points:
        """The points of a chart that was built before."""
        cached = self._views.get(key)
        return cached[1].points if cached is not None else Points()

    def _stale(self, run: RunState, now: float) -> float | None:
        if run.loss_heard is None:
            return None
        age = now - run.loss_heard
        if age <= max(10.0, 3.0 * (run.loss_interval or 0.0)):
            return None
        return coarse(age) or None

    def _chart(self, key: str, run: RunState, gaps: tuple[float, ...], stale: float | None) -> ChartView:
        series = run.metrics.get(key)
        assert series is not None
        points = series.points(MAX_POINTS)
        value = series.value
        unit = unit_of(key)
        if unit == "memory_mb":
            # Round figures on the axis are GiB.
            unit, value = "memory_gib", None if value is None else value / 1024.0
            points = Points(points.x, *(tuple(y / 1024.0 for y in row) for row in (points.lo, points.mid, points.hi)))
        marks = series.non_finite
        if marks and (series.newest is None or marks[-1] > series.newest):
            value = math.nan
        change = series.change() if key == "loss" and value is not None and math.isfinite(value) else None
        note = ""
        if key == "learning_rate":
            note = schedule_note(run.warmup, points.x, points.mid, run.total_steps, run.scheduler)
        return ChartView(
            key=key,
            title=title_of(key),
            value=value,
            points=points,
            change=change[0] if change else None,
            change_steps=change[1] if change else 0,
            note=note,
            gaps=gaps,
            non_finite=marks,
            non_finite_count=series.non_finite_count,
            stale_s=stale,
            first_x=series.first[0] if series.first else None,
            first_value=series.first[1] / (1024.0 if unit == "memory_gib" else 1.0) if series.first else None,
            unit=unit,
        )

    def metrics(self, run: RunState) -> tuple[MetricView, ...]:
        """The metric row."""
        views = []
        for group in SHOWN:
            name = next((name for name in group if name.key in run.metrics), None)
            if name is not None:
                views.append(self._metric(name, run))
            if len(views) >= METRICS:
                break
        return tuple(views)

    def _metric(self, name: MetricName, run: RunState) -> MetricView:
        series = run.metrics.get(name.key)
        assert series is not None
        points = series.points(MAX_POINTS)
        start, severity = bad_start(run.open.values(), name.key)
        spark, bad_from = recent(points, start)
        healthy = [y for x, y in zip(points.x, points.mid, strict=True) if start is None or x < start]
        change = None
        # Old values are what the newest one is held against: the very last ones are left out.
        healthy = healthy[: max(0, len(healthy) - 2)] if start is None else healthy
        value = series.value
        if len(healthy) >= _HEALTHY_MIN and value is not None and math.isfinite(value):
            middle = median(healthy[-256:])
            if middle:
                change = (value - middle) / abs(middle) * 100.0
        return MetricView(
            key=name.key,
            title=name.title,
            short=name.short,
            unit=name.unit,
            value=value,
            change_percent=None if change is None or not math.isfinite(change) else float(round(change)),
            severity=severity,
            spark=spark,
            bad_from=bad_from,
        )


def memory_chart(run: RunState, node: str, index: int, stale: float | None) -> ChartView:
    """The memory of one GPU as a line, and of all others as a band, in GiB."""
    points, others = run.gpus.memory_of(node, index)
    if not points.x:
        points, others = _memory_by_step(run, node, index)
    known = bool(points.x)
    return ChartView(
        key=f"gpu_memory_mb:{node}:{index}",
        title=f"memory of {node} gpu{index}",
        value=points.mid[-1] if known else None,
        points=points,
        stale_s=stale,
        first_x=points.x[0] if known else None,
        first_value=points.mid[0] if known else None,
        unit="memory_gib",
        band=f"the other {others:,} GPUs: min–max" if others > 1 else "and the other GPU" if others else "",
    )


def _memory_by_step(run: RunState, node: str, index: int) -> tuple[Points, int]:
    """What telemetry tells of a GPU's memory, by the steps of its node, and the others of its machine around it."""
    cards = [card for card in run.machines.of(node) if not card.instance]
    mine = next((card for card in cards if card.index == index), None)
    state = run.nodes.get(node)
    if mine is None or state is None:
        return Points(), 0
    row = ROW["gpu_memory_mb"]
    rest = [card.past for card in cards if card is not mine]
    band = mean_of(rest, row, mine.past)
    around = dict(zip(band.x, zip(band.lo, band.hi, strict=True), strict=True))
    own = mine.past.points(row)
    found: dict[float, tuple[float, float, float]] = {}
    for x, y in zip(own.x, own.mid, strict=True):
        step = state.times.at(STEP, x + mine.past.width_s)
        if step is not None and step >= max(found, default=step):
            low, high = around.get(x, (y, y))
            found[float(int(step))] = low / 1024.0, y / 1024.0, high / 1024.0
    if not found:
        return Points(), 0
    lows, middle, highs = zip(*found.values(), strict=True)
    return Points(tuple(found), lows, middle, highs), len(rest)


def unit_of(key: str) -> str:
    """The unit of a metric, a key of `units.FORMATS`: as it is shown, else by the ending of its name."""
    known = TITLES.get(key)
    if known is not None:
        return known.unit
    return next((unit for ending, unit in _ENDINGS if key.endswith(ending)), "")


def recent(points: Points, start: float | None) -> tuple[tuple[float, ...], int | None]:
    """The last steps in `SPARK` columns at most, and the column in which an incident that began at `start` begins.

    Columns are aligned to round steps, so that a new step changes the last one only. The longer an incident lasts
    the further back they reach: what was before it stays in sight.
    """
    x, y = points.x, points.mid
    if not x:
        return (), None
    newest = x[-1]
    window = max(float(SPARK_STEPS), (newest - start) * 1.5 if start is not None else 0.0)
    each = _round_up(min(window, newest - x[0] + 1) / SPARK)  # steps a column
    first = (math.floor(newest / each) - SPARK + 1) * each
    values: list[float] = []
    edges: list[float] = []
    at, total, count = -1.0, 0.0, 0
    for i in range(bisect_left(x, first), len(x)):
        column = x[i] // each
        if column != at:
            if count:
                values.append(total / count)
            edges.append(column * each)
            at, total, count = column, 0.0, 0
        total += y[i]
        count += 1
    values.append(total / count)
    bad = None if start is None else next((i for i, e in enumerate(edges) if e + each / 2 >= start), len(edges) - 1)
    return tuple(values), bad


def _round_up(steps: float) -> float:
    """The next of 1, 2, 5, 10, 20, 50, ..."""
    power = 10.0 ** math.floor(math.log10(max(1.0, steps)))
    return next(size * power for size in (1.0, 2.0, 5.0, 10.0) if size * power >= steps * (1 - 1e-9))


def bad_start(incidents: Iterable[Incident], key: str) -> tuple[int | None, Severity | None]:
    """Step from which an open incident colours a metric, and how severe the worst one is."""
    start: int | None = None
    severity: Severity | None = None
    for incident in incidents:
        if incident.start_step is None or key not in _COLOURS.get(incident.kind, ()):
            continue
        start = incident.start_step if start is None else min(start, incident.start_step)
        severity = "critical" if "critical" in (incident.severity, severity) else incident.severity
    return start, severity


def spans(run: RunState) -> tuple[Span, ...]:
    """Incidents on the step axis, the most severe and newest last, so that they are drawn on top.

    What rises slowly is shaded from the step at which it was told of: the rise itself stands in its own chart.
    """
    found = []
    for incident in (*run.past, *run.open.values()):
        if incident.start_step is None or incident.severity == "info":
            continue
        start = incident.start_step
        if incident.kind in SLOW_RISES:
            start = max(start, run.noticed.get(incident.key, start))
        end = None if incident.end_step is None else float(incident.end_step)
        found.append(Span(float(start), end, incident.severity))
    return tuple(sorted(found, key=lambda span: (span.severity == "critical", span.start)))
