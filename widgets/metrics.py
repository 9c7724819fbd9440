"""The metric row: a handful of numbers, each with its trend and, where there is room, its recent past."""

from __future__ import annotations

import math
from collections.abc import Sequence

from trainmon import units
from trainmon.snapshot import MetricView
from trainmon.widgets.paint import Instrument, Pen, Row, Span
from trainmon.widgets.parts import spans_width, sparkline, trend

_NARROW_ORDER = ("tokens_per_second", "samples_per_second", "step_time_s", "mfu", "grad_norm")
"""What comes first where not all have room."""
_ONWARD = ("epoch", "tokens_seen", "consumed_tokens", "consumed_samples")
"""What only ever grows has no trend."""
_PITCH = 32
_SPARK = 24
_CALM_CHANGE = 3.0
"""Percent below which a change that is no incident is not shown: it would only flicker."""


def metric_trend(metric: MetricView) -> list[Span]:
    """`▼ 11 %`, for shares `▼ 4.4 pt`; muted until it belongs to an incident, empty when nothing changed."""
    change = metric.change_percent
    if change is None or not math.isfinite(change):
        return []
    if metric.key in _ONWARD or round(change) == 0 or (metric.severity is None and abs(change) < _CALM_CHANGE):
        return []
    token = "critical" if metric.severity == "critical" else "warning" if metric.severity == "warning" else "muted"
    if metric.unit in ("mfu", "percent") and metric.value is not None and change > -99.9:
        before = metric.value / (1 + change / 100)
        return trend(change, units.points(metric.value - before), token)
    return trend(change, units.change(change).lstrip("+" + units.MINUS), token)


def metric_spans(metric: MetricView, *, short: bool = False, gap: int = 2, trend_gap: int = 2) -> list[Span]:
    """Title, value and trend."""
    value = units.format_value(metric.unit, metric.value)
    odd = metric.value is not None and not math.isfinite(metric.value)
    spans: list[Span] = [
        ((metric.short if short else metric.title) + " " * gap, "muted"),
        (value, "critical+bold" if odd else "strong"),
    ]
    change = metric_trend(metric)
    return [*spans, (" " * trend_gap, "text"), *change] if change else spans


def chosen(metrics: Sequence[MetricView], count: int) -> list[MetricView]:
    """As many metrics as have room, the ones that say most about speed first where some are left out."""
    if len(metrics) <= count:
        return list(metrics)
    rank = {key: index for index, key in enumerate(_NARROW_ORDER)}
    by_weight = sorted(range(len(metrics)), key=lambda index: (rank.get(metrics[index].key, len(rank)), index))
    return [metrics[index] for index in sorted(by_weight[:count])]


def draw_metrics(metrics: Sequence[MetricView], width: int, height: int, *, stale: bool = False) -> list[Row]:
    """One row of numbers; from two rows and 140 columns on with sparklines under them.

    Args:
        stale: Nothing new arrives: the sparklines turn grey.
    """
    if width < 1 or height < 1 or not metrics:
        return []
    if width <= 90:
        return [_flowing(metrics, width)]
    pitch = _PITCH if width >= 140 else 25 if width < 120 else max(24, min(_PITCH, (width - 2) // len(metrics)))
    count = max(1, (width - 2 + 3) // pitch)
    shown = chosen(metrics, min(count, 4) if width < 120 else count)
    if width >= 140 and count > 5:
        pitch = (width - 2) // count
    numbers, lines = Pen(width), Pen(width)
    # One form for the whole row: the first in which every metric has room.
    drawn: list[list[Span]] = []
    for short, gap, trend_gap in ((False, 2, 2), (False, 2, 1), (False, 1, 1), (True, 1, 1)):
        drawn = [metric_spans(metric, short=short, gap=gap, trend_gap=trend_gap) for metric in shown]
        if all(spans_width(spans) < pitch for spans in drawn):
            break
    for index, (metric, spans) in enumerate(zip(shown, drawn, strict=True)):
        at = 1 + index * pitch
        numbers.spans(at, spans if spans_width(spans) < pitch else spans[:2], min(at + pitch - 1, width - 1))
        # A young run's begins under its name and grows to the right.
        cells = min(_SPARK, pitch - 8, width - 1 - at, len(metric.spark))
        bad = "critical" if metric.severity == "critical" else "warning"
        token = "muted" if stale else "data"
        lines.spans(at, sparkline(metric.spark, cells, bad_from=metric.bad_from, token=token, bad=bad))
    rows = [numbers.row()]
    if height >= 2 and width >= 140:
        rows.append(lines.row())
    return rows


def _flowing(metrics: Sequence[MetricView], width: int) -> Row:
    """One behind the other, three columns apart; what has no room is left out whole."""
    pen = Pen(width)
    rank = {key: index for index, key in enumerate(_NARROW_ORDER)}
    ordered = sorted(metrics, key=lambda metric: rank.get(metric.key, len(rank)))
    drawn = [metric_spans(metric, short=True, gap=1, trend_gap=1) for metric in ordered[:4]]
    at = 1
    for index, spans in enumerate(drawn):
        # A trend gives way to the value of the metric behind it.
        behind = sum(3 + spans_width(later[:2]) for later in drawn[index + 1 :])
        if at + spans_width(spans) + behind > width - 1:
            spans = spans[:2]
        if at + spans_width(spans) > width - 1:
            continue
        at = pen.spans(at, spans) + 3
    return pen.row()


class MetricRow(Instrument):
    """Numbers of the newest step and how they went."""

    DEFAULT_CSS = "MetricRow { height: 2; }"

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._metrics: Sequence[MetricView] = ()
        self._stale = False

    def show(self, metrics: Sequence[MetricView], stale: bool = False) -> None:
        """Shows the metrics; `stale` when nothing new arrives."""
        self._metrics, self._stale = metrics, stale
        self.redraw()

    def draw(self, width: int, height: int) -> list[Row]:
        return draw_metrics(self._metrics, width, height, stale=self._stale)
