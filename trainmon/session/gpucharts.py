"""The charts of one GPU: all on one axis of time, each with the mean of the other GPUs and its limit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from trainmon import units
from trainmon.curves import ChartView
from trainmon.model import Severity
from trainmon.series.timeseries import mean_of
from trainmon.session.cards import LINK, ROW, Card
from trainmon.session.freshness import patience
from trainmon.session.gpurows import memory_of
from trainmon.session.nodes import STEP_TIME, NodeState
from trainmon.snapshot import Points


@dataclass(frozen=True, slots=True)
class _Plot:
    """How a quantity is drawn: its row, key, title and unit, the factor to that unit, the fixed range of y."""

    row: int
    key: str
    title: str
    unit: str
    factor: float = 1.0
    low: float | None = None
    high: float | None = None


_PLOTS = (
    _Plot(ROW["gpu_memory_mb"], "gpu_memory_mb", "memory", "memory_gib", 1.0 / 1024.0),
    _Plot(ROW["gpu_utilization"], "gpu_utilization", "utilisation", "percent", low=0.0, high=100.0),
    _Plot(ROW["gpu_power_w"], "gpu_power_w", "power", "watts", low=0.0),
    _Plot(ROW["gpu_temperature_c"], "gpu_temperature_c", "temperature", "celsius"),
    _Plot(ROW["sm_clock_mhz"], "sm_clock_mhz", "SM clock", "mhz", low=0.0),
    _Plot(LINK, "link_gb_s", "NVLink", "number", low=0.0),
)
_ACTIVITY = (
    _Plot(ROW["sm_active_percent"], "sm_active_percent", "SM activity", "percent", low=0.0, high=100.0),
    _Plot(ROW["tensor_active_percent"], "tensor_active_percent", "tensor activity", "percent", low=0.0, high=100.0),
)


def gpu_charts(
    card: Card, others: Sequence[Card], node: NodeState | None, stale: float | None
) -> tuple[ChartView, ...]:
    """All charts of a GPU on one window of time, as far as there are figures.

    Args:
        others: GPUs whose mean is drawn beside it.
        node: Of the run, for its step time.
        stale: Age in coarse seconds once its figures have stopped.
    """
    past = card.past
    start, end = past.start, past.end
    if start is None or end is None:
        return ()
    window = (start, max(end, start + 2.0 * past.width_s))
    quiet = patience(card.interval)
    out = [_chart(card, plot, others, window, quiet, stale) for plot in _PLOTS if past.has(plot.row)]
    if node is not None and node.times.has(STEP_TIME):
        points = node.times.points(STEP_TIME, start)
        points = _within(points, window)
        if points.x:
            out.append(
                ChartView("step_time_s", "step time", node.step_time or points.mid[-1], points, unit="seconds",
                          axis="time", window=window, low=0.0, note=f"of {node.name}")
            )  # fmt: skip
    out += [_chart(card, plot, others, window, quiet, stale) for plot in _ACTIVITY if past.has(plot.row)]
    return tuple(out)


def _chart(
    card: Card,
    plot: _Plot,
    others: Sequence[Card],
    window: tuple[float, float],
    quiet: float,
    stale: float | None,
) -> ChartView:
    points = _scaled(card.past.points(plot.row), plot.factor)
    value = _value(card, plot)
    rest = [one.past for one in others if one.past.has(plot.row)]
    band = _scaled(mean_of(rest, plot.row, card.past), plot.factor)
    limit, severity, word = _limit(card, plot)
    return ChartView(
        key=plot.key,
        title="PCIe" if plot.row == LINK and card.value("nvlinks") in (None, 0.0) else plot.title,
        value=value,
        points=points,
        note=_note(card, plot),
        gaps=card.past.gaps(plot.row, quiet),
        stale_s=stale,
        unit=plot.unit,
        band=_band(len(rest), "instance" if card.instance else "GPU"),
        axis="time",
        limit=limit,
        limit_severity=severity,
        limit_word=word,
        window=window,
        low=plot.low,
        high=plot.high,
        others=band,
    )


def _band(others: int, noun: str) -> str:
    return f"other {others} {noun}s" if others > 1 else f"the other {noun}" if others else ""


def _value(card: Card, plot: _Plot) -> float | None:
    if plot.row == LINK:
        found = card.link_gb_s()
    elif plot.key == "gpu_utilization":
        found = card.utilization()
    elif plot.key == "gpu_memory_mb":
        found = memory_of(card)
    else:
        found = card.value(plot.key)
    if found is None:
        return None
    return round(found * plot.factor, 1) if plot.factor != 1.0 or plot.row == LINK else float(round(found))


def _limit(card: Card, plot: _Plot) -> tuple[float | None, Severity, str]:
    """The line across a chart, its colour and what it is."""
    if plot.key == "gpu_memory_mb":
        total = card.value("gpu_memory_total_mb")
        return (None if total is None else total / 1024.0), "critical", f"of {units.memory_total(total)}"
    if plot.key == "gpu_power_w":
        cap = card.value("power_limit_w")
        return cap, "warning", "" if cap is None else f"cap {units.watts(cap)} W"
    if plot.key == "gpu_temperature_c":
        slow = card.value("slowdown_temperature_c")
        return slow, "warning", "" if slow is None else f"slows at {units.celsius(slow)}"
    return None, "warning", ""


def _note(card: Card, plot: _Plot) -> str:
    if plot.key == "gpu_memory_mb":
        return card.facts.get("memory", "")
    if plot.key == "sm_clock_mhz":
        top = card.value("sm_clock_max_mhz")
        words = [] if top is None else [f"of {units.mhz(top)}"]
        if card.throttle_time > -math.inf:
            lost = sum(card.throttled_s()[1:])  # a power cap under load is normal
            words.append(f"throttled {units.duration(tidy(lost))}" if lost >= 1.0 else "never throttled")
        return ", ".join(words)
    if plot.row == LINK:
        up, links = card.value("nvlinks_up"), card.value("nvlinks")
        if links:
            word = "in and out"
            if up is None:
                return word
            return f"{word}, {units.count(up)} links up" if up >= links else f"{word}, {up:.0f} of {links:.0f} links up"
        return "in and out"
    return ""


def _scaled(points: Points, factor: float) -> Points:
    if factor == 1.0 or not points.x:
        return points
    low, middle, high = (tuple(y * factor for y in row) for row in (points.lo, points.mid, points.hi))
    return Points(points.x, low, middle, high)


def _within(points: Points, window: tuple[float, float]) -> Points:
    keep = [i for i, x in enumerate(points.x) if window[0] <= x < window[1]]
    return Points(*(tuple(row[i] for i in keep) for row in (points.x, points.lo, points.mid, points.hi)))


def tidy(seconds: float) -> float:
    """Whole seconds, from a minute on steps of ten: a page need not change for less."""
    return float(int(seconds)) if seconds < 60.0 else float(int(seconds / 10.0) * 10)
