"""The corner pane: one fact a row from 40×12 on, two facts a row at 30×8. Below that the most important rows stay."""

from __future__ import annotations

import math
from collections.abc import Sequence

from trainmon import units
from trainmon.snapshot import ChartView, ErrorView, MetricView, NodeView, Snapshot
from trainmon.widgets.alert_strip import ordered
from trainmon.widgets.chart import chart_value
from trainmon.widgets.gpu_rows import label_of, memory_colour, memory_share
from trainmon.widgets.metrics import metric_trend
from trainmon.widgets.node_table import natural
from trainmon.widgets.paint import HEALTH_GLYPHS, HEALTH_TOKENS, Instrument, Pen, Row, Span, cut, width_of
from trainmon.widgets.parts import bar, spans_width, sparkline, strip, trend
from trainmon.widgets.source_list import draw_sources

_LABEL = 8
"""Column in which the values begin."""
_SPEEDS = {"tokens_per_second": "tok/s", "samples_per_second": "smp/s", "step_time_s": "step"}
FLOOR_WIDTH, FLOOR_HEIGHT = 36, 6
"""Below either, two facts share a row."""


def _chart(snapshot: Snapshot, key: str) -> ChartView | None:
    return next((chart for chart in snapshot.charts if chart.key == key), None)


def _speed(metrics: Sequence[MetricView]) -> MetricView | None:
    for key in _SPEEDS:
        for metric in metrics:
            if metric.key == key:
                return metric
    return None


def _token(value: float | None) -> str:
    return "critical+bold" if value is not None and not math.isfinite(value) else "strong"


def _worst(nodes: Sequence[NodeView], alerted: str | None) -> NodeView | None:
    """The worst node that the alert row does not tell of already."""
    bad = [node for node in nodes if node.health in ("critical", "warning", "silent")]
    for node in bad:
        if node.name != alerted:
            return node
    return bad[0] if bad else None


def _says(node: NodeView) -> str:
    """`+14 %, 87 °C`, else the word of its state."""
    parts = []
    if node.versus_percent is not None and math.isfinite(node.versus_percent) and abs(node.versus_percent) >= 5:
        parts.append(units.change(node.versus_percent))
    if node.temperature_c is not None and node.temperature_c >= 85:
        parts.append(f"{units.celsius(node.temperature_c)} °C")
    return ", ".join(parts) if parts and node.health != "silent" else node.word


def _loss_spans(chart: ChartView | None) -> list[Span]:
    if chart is None:
        return [(units.NONE, "muted")]
    spans: list[Span] = [(chart_value(chart.key, chart.value), _token(chart.value))]
    if chart.change is not None and math.isfinite(chart.change):
        spans += [(" ", "text"), *trend(chart.change, chart_value(chart.key, abs(chart.change)), "muted")]
    return spans


def _error_spans(errors: Sequence[ErrorView], room: int) -> list[Span]:
    if not errors:
        return [("none", "text")]
    first = errors[0]
    token = "critical+bold" if first.severity == "critical" else "warning+bold"
    glyph = HEALTH_GLYPHS["critical" if first.severity == "critical" else "warning"]
    more = f" +{len(errors) - 1}" if len(errors) > 1 else ""
    return [(glyph + " " + cut(first.code, max(4, room - 2 - len(more))), token), (more, "muted")]


class _Sheet:
    """Rows of label and value."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.rows: list[Row] = []

    def add(self, label: str, spans: Sequence[Span], right: Sequence[Span] = (), middle: Sequence[Span] = ()) -> None:
        """Label, value, and what stands at the right end where it fits."""
        pen = Pen(self.width)
        end = self.width - 1
        pen.put(1, label, "muted", end)
        at = pen.spans(_LABEL, spans, end)
        if right:
            start = end - spans_width(right)
            if start > at:
                pen.spans(start, right)
                end = start - 1
        if middle:
            start = end - spans_width(middle)
            if start > at:
                pen.spans(start, middle)
        self.rows.append(pen.row())


def _gpu_fact(snapshot: Snapshot, room: int) -> tuple[list[Span], list[Span]]:
    """The worst GPU with what is wrong with it, else the fullest and its share; a driver with a fault before both."""
    panel = snapshot.gpus
    if panel.bad and panel.sentence:
        return [("▲ ", "warning+bold"), (cut(panel.sentence, room - 2), "warning")], []
    for health in ("critical", "warning"):
        for ill in panel.rows:
            # An alarm about memory is told by the figures themselves.
            if ill.state and ill.health == health and ill.word and not memory_colour(ill):
                name = f"{HEALTH_GLYPHS[health]} gpu{label_of(ill)} "
                return [(name, health + "+bold"), (ill.word, health + "+bold")], []
    known = [row for row in panel.rows if row.memory_mb is not None]
    if not known:
        told = panel.sentence if not panel.rows else ""
        return [(cut(told, room) if told else units.NONE, "muted")], []
    row = max(known, key=lambda one: (memory_share(one) or 0.0, one.memory_mb or 0.0))
    share, colour = memory_share(row), memory_colour(row)
    name = f"gpu{row.index}" if row.index is not None else row.node
    spans: list[Span] = []
    if colour:
        spans.append((f"{HEALTH_GLYPHS[colour]} {name} ", colour + "+bold"))
    else:
        spans.append((f"{name} ", "text"))
    spans.append((units.memory(row.memory_mb), "strong"))
    if row.total_mb:
        spans.append((f" of {units.memory_total(row.total_mb)} GiB", "muted"))
    right = [(units.percent(share * 100), colour + "+bold" if colour else "strong")] if share is not None else []
    return spans, right


def _node_fact(nodes: Sequence[NodeView], room: int) -> tuple[list[Span], list[Span]]:
    """The strip and the counts by glyph."""
    counts: dict[str, int] = {}
    for node in nodes:
        counts[node.health] = counts.get(node.health, 0) + 1
    right: list[Span] = []
    for health in ("ok", "expected", "silent", "warning", "critical"):
        if counts.get(health):
            if right:
                right.append(("   ", "text"))
            right += [(HEALTH_GLYPHS[health], HEALTH_TOKENS[health]), (f" {counts[health]:,}", "text")]
    healths = [node.health for node in sorted(nodes, key=lambda node: natural(node.name))]
    cells = strip(healths, room - spans_width(right) - 2)
    return cells or [(f"{len(nodes):,}", "text")], right


def _column(snapshot: Snapshot, width: int) -> list[Row]:
    """One fact a row, as the 40×12 screen shows them."""
    run = snapshot.run
    sheet = _Sheet(width)
    spark = min(11, max(0, width - 29))
    quiet = run.state in ("failed", "stalled", "old")
    step: list[Span] = [(units.count(run.step), "strong")]
    right: list[Span] = []
    progress: list[Span] = []
    if run.step is not None and run.total_steps:
        share = run.step / run.total_steps
        step.append(("/" + units.count(run.total_steps), "muted"))
        right = [(f"{units.percent(min(1.0, share) * 100):>5}", "strong")]
        progress = bar(share, spark + 1, "muted" if quiet else "accent")
    sheet.add("step", step, right, progress)
    eta = units.NONE if quiet else units.duration(run.eta_s)
    sheet.add("ETA", [(eta, "strong")])
    token = "muted" if quiet else "data"
    loss = _chart(snapshot, "loss") or (snapshot.charts[0] if snapshot.charts else None)
    sheet.add("loss", _loss_spans(loss), sparkline(loss.points.mid, spark, token=token) if loss and spark else ())
    rate = _chart(snapshot, "learning_rate")
    sheet.add("lr", [(units.learning_rate(rate.value) if rate else units.NONE, _token(rate.value if rate else None))])
    speed = _speed(snapshot.metrics)
    if speed is not None:
        spans: list[Span] = [(units.format_value(speed.unit, speed.value), _token(speed.value))]
        spans.append((" " + _SPEEDS[speed.key], "muted"))
        change = metric_trend(speed)
        if change:
            spans += [(" ", "text"), *change]
        bad = "critical" if speed.severity == "critical" else "warning"
        line = sparkline(speed.spark, spark, bad_from=speed.bad_from, token=token, bad=bad) if spark else []
        sheet.add("speed", spans, line)
    else:
        sheet.add("speed", [(units.NONE, "muted")])
    sheet.add("GPU", *_gpu_fact(snapshot, sheet.width - _LABEL - 1))
    sheet.add("nodes", *_node_fact(snapshot.nodes, width - 1 - _LABEL))
    firing = [alert for alert in ordered(snapshot.alerts) if alert.state == "firing"]
    worst = _worst(snapshot.nodes, firing[0].node if firing else None)
    if worst is not None:
        glyph = HEALTH_GLYPHS[worst.health]
        name = cut(worst.name, max(4, width - _LABEL - 14))
        bad_token = HEALTH_TOKENS[worst.health] if worst.health != "silent" else "text"
        sheet.add("worst", [(f"{glyph} {name}", bad_token), (" " + _says(worst), "text")])
    else:
        sheet.add("worst", [("none", "text")])
    sheet.add("error", _error_spans(snapshot.errors, width - 1 - _LABEL))
    return sheet.rows


def _pair(width: int, left: Sequence[Span], right: Sequence[Span]) -> Row:
    pen = Pen(width)
    at = pen.spans(1, left, width - 1)
    start = width - 1 - spans_width(right)
    if start > at:
        pen.spans(start, right)
    return pen.row()


def _floor(snapshot: Snapshot, width: int) -> list[Row]:
    """Two facts a row, as the 30×8 screen shows them."""
    run = snapshot.run
    rows: list[Row] = []
    firing = [alert for alert in ordered(snapshot.alerts) if alert.state == "firing"]
    quiet = run.state in ("failed", "stalled", "old")
    pen = Pen(width)
    if run.step is not None and run.total_steps:
        share = run.step / run.total_steps
        text = units.percent(min(1.0, share) * 100)
        pen.right(width - 1, text, "strong")
        pen.spans(1, bar(share, width - 2 - width_of(text) - 1, "muted" if quiet else "accent"))
    rows.append(pen.row())
    eta = units.NONE if quiet else units.duration(run.eta_s)
    rows.append(
        _pair(width, [("step ", "muted"), (units.count(run.step), "strong")], [("ETA ", "muted"), (eta, "strong")])
    )
    loss = _chart(snapshot, "loss") or (snapshot.charts[0] if snapshot.charts else None)
    rate = _chart(snapshot, "learning_rate")
    value = loss.value if loss else None
    rows.append(
        _pair(
            width,
            [("loss ", "muted"), (chart_value(loss.key if loss else "loss", value), _token(value))],
            [("lr ", "muted"), (units.learning_rate(rate.value) if rate else units.NONE, "strong")],
        )
    )
    speed = _speed(snapshot.metrics)
    left: list[Span] = [("speed " + units.NONE, "muted")]
    if speed is not None:
        left = [(_SPEEDS[speed.key] + " ", "muted"), (units.format_value(speed.unit, speed.value), _token(speed.value))]
        change = metric_trend(speed)
        if change:
            left += [(" ", "text"), *change]
    count = len(snapshot.errors)
    errors: list[Span] = [("no errors", "muted")]
    if count:
        errors = [(f"{count} error{'s' if count > 1 else ''}", "critical+bold")]
    rows.append(_pair(width, left, errors))
    worst = _worst(snapshot.nodes, firing[0].node if firing else None)
    help_key: list[Span] = [("?", "accent+bold"), (" help", "muted")]
    line: list[Span] = []
    if worst is not None:
        token = HEALTH_TOKENS[worst.health] if worst.health != "silent" else "muted"
        says = " ".join(dict.fromkeys(part for part in (worst.word, _says(worst).split(",")[0]) if part))
        line = [(HEALTH_GLYPHS[worst.health], token), (" " + worst.name, "strong"), (" " + says, "text")]
    elif snapshot.nodes:
        line = [("●", "ok"), (f" {len(snapshot.nodes):,} ok", "text")]
    room = width - 2 - spans_width(help_key) - 1
    while line and spans_width(line) > room:
        line.pop()
    rows.append(_pair(width, line, help_key))
    return rows


def draw_facts(snapshot: Snapshot, width: int, height: int) -> list[Row]:
    """The facts in `height` rows; what has no room goes by whole rows, the least important first."""
    if width < 1 or height < 1:
        return []
    if snapshot.run.step is None and not snapshot.nodes and snapshot.sources:
        # Nothing to tell yet: what became of each source instead.
        return draw_sources(snapshot.sources, width, height)
    if width < FLOOR_WIDTH or height < FLOOR_HEIGHT:
        body = _floor(snapshot, width)
        # Step and loss stay to the end.
        keep = [1, 2, 0, 3, 4]
    else:
        body = _column(snapshot, width)
        keep = [0, 2, 4, 7, 8, 3, 1, 5, 6]
    return [body[index] for index in sorted(keep[:height])]


class Facts(Instrument):
    """The body of small screens, between the alert strip and the last rows."""

    DEFAULT_CSS = "Facts { height: 1fr; }"

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._snapshot = Snapshot()

    def show(self, snapshot: Snapshot) -> None:
        """Shows the picture."""
        self._snapshot = snapshot
        self.redraw()

    def draw(self, width: int, height: int) -> list[Row]:
        return draw_facts(self._snapshot, width, height)
