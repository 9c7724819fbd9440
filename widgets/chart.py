"""A chart over steps or time: line, band, limit, incidents and what cannot be drawn (NaN, cut-off values)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from trainmon import units
from trainmon.snapshot import ChartView, Span
from trainmon.widgets.braille import STROKES, draw_series
from trainmon.widgets.paint import Instrument, Pen, Row, cut, width_of
from trainmon.widgets.paint import Span as Text
from trainmon.widgets.parts import heading, spans_width, trend
from trainmon.widgets.scale import Scale, fit_scale, tick_labels, x_ticks
from trainmon.widgets.time_axis import fit_time, time_ticks

_SHORT = {"learning rate": "lr"}
_WIDE = 70
"""From this width on headings carry note and meta."""
_SUFFIXES = {"watts": " W", "celsius": " °C", "mhz": " MHz"}
"""Units that a heading says and a column does not."""


def chart_value(key: str, value: float | None, unit: str = "") -> str:
    """The value of a chart's heading in the form of its unit, or of its metric where the unit is not known."""
    if key == "link_gb_s":
        return units.number(value) + " GB/s"
    if unit:
        return units.format_value(unit, value) + _SUFFIXES.get(unit, "")
    if key == "learning_rate" or key.endswith("_lr"):
        return units.learning_rate(value)
    if key == "loss" or key.endswith("loss"):
        return units.loss(value)
    if key.endswith("per_second"):
        return units.per_second(value)
    if key.endswith("_s"):
        return units.seconds(value)
    return units.number(value)


def chart_heading(chart: ChartView, width: int, *, focused: bool = False) -> Row:
    """Title, value, change, what could not be drawn, note and meta."""
    wide = width >= _WIDE
    title = chart.title if width >= 60 else _SHORT.get(chart.title, chart.title)
    fields: list[list[Text]] = []
    value = chart_value(chart.key, chart.value, chart.unit)
    odd = chart.value is not None and not math.isfinite(chart.value)
    number: list[Text] = [(value, "critical+bold" if odd else "strong")] if chart.value is not None else []
    change: list[Text] = []
    if chart.change is not None and math.isfinite(chart.change) and chart.key != "learning_rate":
        size = chart_value(chart.key, abs(chart.change), chart.unit)
        if size.strip("0. ") or chart.change:
            change = trend(chart.change, size, "muted")
            if wide and chart.change_steps:
                change.append((f" in {units.count(chart.change_steps)} steps", "muted"))
    if not wide and number and change:
        number += [(" ", "text"), *change]
        change = []
    fields.append(number)
    if chart.non_finite_count:
        fields.append([("×", "critical+bold"), (f" {units.count(chart.non_finite_count)} NaN or inf", "critical")])
    if chart.stale_s is not None:
        fields.append([(f"nothing new for {units.age(chart.stale_s)}", "muted")])
    fields.append(change)
    if wide and chart.note:
        fields.append([(chart.note, "muted")])
    meta = ""
    if wide and any(high > low for low, high in zip(chart.points.lo, chart.points.hi, strict=False)):
        meta = chart.band or "min–max and mean per column"
        used = width_of(title) + sum(2 + spans_width(field) for field in fields if field)
        if chart.note and used + 4 + width_of(meta) > width - 2:
            # What the run does comes before how it is drawn.
            meta = ""
    return heading(width, title, fields, meta, focused=focused)


def time_heading(chart: ChartView, width: int, *, focused: bool = False, loud: str = "") -> Row:
    """Title, value, what it is of, and at the right the limit, what the note says last, or who is drawn beside it."""
    fields: list[list[Text]] = []
    note = [part.strip() for part in chart.note.split(", ") if part.strip()]
    of = chart.limit_word if chart.limit_word.startswith("of ") else ""
    meta = "" if of else chart.limit_word
    if not of and note and not meta:
        of = note.pop(0)
    if chart.value is not None:
        field = [(chart_value(chart.key, chart.value, chart.unit), f"{loud}+bold" if loud else "strong")]
        fields.append([*field, (" " + of, "muted")] if of else field)
    if chart.stale_s is not None:
        fields.append([(f"nothing new for {units.age(chart.stale_s)}", "muted")])
    meta = meta or (note.pop(0) if note else "")
    if not meta and chart.band and chart.others.x:
        meta = f"faint: {chart.band}"
    return heading(width, chart.title, fields, meta, focused=focused)


def draw_chart(
    chart: ChartView,
    spans: Sequence[Span],
    width: int,
    height: int,
    *,
    scale: Scale | None = None,
    focused: bool = False,
    loud: str = "",
) -> list[Row]:
    """Heading, plot, axis and labels in `height` rows.

    Args:
        scale: The axes to draw on; None fits them to the points alone.
        focused: Draws the heading of the focused panel.
        loud: Severity that colours the value of a chart over time; empty for none.
    """
    if width < 1 or height < 1:
        return []
    timed = chart.axis == "time"
    if timed:
        rows = [time_heading(chart, width, focused=focused, loud=loud)]
    else:
        rows = [chart_heading(chart, width, focused=focused)]
    plot_rows = plot_height(height)
    if plot_rows < 1 or width < 16:
        return rows
    if scale is None or scale.rows != plot_rows:
        scale = fit_time(chart, plot_rows) if timed else fit_scale(chart.points, plot_rows, reach=_reach(chart))
    if scale is None:
        pen = Pen(width)
        word = "no finite value yet" if chart.non_finite_count else "drawn from the first value on"
        pen.put(1, cut(word, width - 2), "muted")
        return [*rows, pen.row()]
    labels = tick_labels([value for _, value in scale.ticks()], rate=chart.key.endswith("per_second"))
    margin = max((len(label) for label in labels), default=1) + 2
    if width < 60:
        margin = max(4, margin - 2)
    left = margin + 2
    columns = width - 1 - left
    if columns < 4:
        return rows
    pens = [Pen(width) for _ in range(plot_rows)]
    _axes(pens, scale, labels, left, columns)
    _limit(pens, chart, scale, left, columns)
    _others(pens, chart, scale, left, columns)
    _curve(pens, chart, scale, left, columns)
    if not timed:
        _cut_off(pens[0], chart, scale, left, columns)
    newest = max(chart.points.x[-1], _reach(chart) or chart.points.x[-1])
    places = [place for place in (_place(span, scale, columns, newest) for span in spans) if place is not None]
    # Newest last; warnings under critical ones.
    places.sort(key=lambda place: (place[2] == "critical", place[0]))
    for first, last, severity in places:
        for pen in pens:
            _tint(pen, left + first, left + last + 1, f"tint-{severity}")
    rows += [pen.row() for pen in pens]
    if height >= plot_rows + 2:
        rows.append(_axis_row(chart, scale, places, width, left, columns))
    if height >= plot_rows + 3:
        rows.append(_label_row(chart, scale, width, left, columns))
    return rows


def _x_ticks(chart: ChartView, scale: Scale, columns: int) -> list[tuple[float, str]]:
    """(x, label) of the ticks under the axis."""
    if chart.axis == "time":
        return time_ticks(scale.x0, scale.x1, columns)
    return [(x, units.count(x)) for x in x_ticks(scale.x0, scale.x1, columns)]


def _reach(chart: ChartView) -> float | None:
    """The newest NaN or infinite step: the axis goes on to it, where the curve has ended."""
    return max((x for x in chart.non_finite if math.isfinite(x)), default=None)


def plot_height(height: int) -> int:
    """Rows of the plot in a chart of `height` rows: heading, axis and labels take three where there are more."""
    return height - 3 if height >= 5 else max(0, height - 2) if height == 4 else max(0, height - 1)


def _axes(pens: list[Pen], scale: Scale, labels: list[str], left: int, columns: int) -> None:
    ticks = {row: label for (row, _), label in zip(scale.ticks(), labels, strict=True)}
    for row, pen in enumerate(pens):
        label = ticks.get(row)
        pen.put(left - 1, "│" if label is None else "┤", "faint")
        if label is not None:
            pen.right(left - 1, label, "muted")
            pen.fill(left, left + columns, "┈", "faint")


def _limit(pens: list[Pen], chart: ChartView, scale: Scale, left: int, columns: int) -> None:
    """A line across the plot at the card's limit."""
    if chart.limit is None or not math.isfinite(chart.limit) or not scale.floor <= chart.limit <= scale.top:
        return
    row = min(scale.rows - 1, max(0, int((scale.top - chart.limit) / scale.row)))
    token = "critical" if chart.limit_severity == "critical" else "warning"
    pens[row].fill(left, left + columns, "╌", token)


def _others(pens: list[Pen], chart: ChartView, scale: Scale, left: int, columns: int) -> None:
    """The mean of the others, faint, under the curve."""
    if not chart.others.x:
        return
    canvas = draw_series(chart.others, scale, columns)
    for at, dots in enumerate(canvas.own):
        if dots:
            pen, column = pens[at // columns], left + at % columns
            pen.chars[column], pen.tokens[column] = chr(0x2800 + dots), "muted"


def _curve(pens: list[Pen], chart: ChartView, scale: Scale, left: int, columns: int) -> None:
    canvas = draw_series(chart.points, scale, columns, chart.gaps)
    stale = chart.stale_s is not None
    line, band = ("muted", "faint") if stale else ("accent", "envelope")
    at = 0
    for pen in pens:
        chars, tokens = pen.chars, pen.tokens
        for column in range(left, left + columns):
            dots = canvas.dots[at]
            if dots:
                # Beside the line its band gives way, or both would be one broad stroke.
                chars[column] = chr(0x2800 + (dots & STROKES[canvas.own[at]] if canvas.line[at] else dots))
                tokens[column] = line if canvas.line[at] else band
            at += 1


def _cut_off(pen: Pen, chart: ChartView, scale: Scale, left: int, columns: int) -> None:
    """Says what lies above the top edge, right of where the curve leaves it."""
    top = scale.top
    best: tuple[float, float] | None = None
    for x, high in zip(chart.points.x, chart.points.hi, strict=False):
        if math.isfinite(high) and high > top and (best is None or high > best[0]):
            best = (high, x)
    if best is None:
        return
    first_x, first_value = chart.first_x, chart.first_value
    known = first_x is not None and first_value is not None and math.isfinite(first_x)
    if (
        known
        and first_x is not None
        and first_value is not None
        and math.isfinite(first_value)
        and first_value >= best[0]
    ):
        best = (first_value, first_x)
    value, step = best
    text = f"{_short_value(chart, value)} at step {units.count(step)}"
    size = len(text) + 2
    start = left + scale.column(step, columns)
    busy = [index for index in range(start, left + columns) if "\u2800" < pen.chars[index] <= "\u28ff"]
    at = start + 2
    for index in busy:
        # The first stretch of curve from there on; a spike further right does not matter.
        if index < at + size:
            at = index + 4
    if at > start + columns // 3:
        return
    if at + size > left + columns:
        at = max(left, start - size - 3)
        if any("\u2800" < char <= "\u28ff" for char in pen.chars[at : at + size]):
            return
    if at + size <= left + columns:
        pen.put(at, "▲", "muted+trend")
        pen.put(at + 1, " " + text, "muted")


def _short_value(chart: ChartView, value: float) -> str:
    if chart.key.endswith("loss") and abs(value) < 100:
        return f"{value:.2f}"
    return chart_value(chart.key, value, chart.unit)


def _place(span: Span, scale: Scale, columns: int, newest: float) -> tuple[int, int, str] | None:
    """First and last column of an incident and the colour of its severity; None when it lies outside."""
    end = newest if span.end is None else span.end
    if not (math.isfinite(span.start) and math.isfinite(end)) or end < scale.x0 or span.start > scale.x1:
        return None
    first = scale.column(max(span.start, scale.x0), columns)
    last = max(first, scale.column(min(end, scale.x1), columns))
    return first, last, "critical" if span.severity == "critical" else "warning"


def _tint(pen: Pen, start: int, end: int, tint: str) -> None:
    for at in range(max(0, start), min(end, pen.width)):
        pen.tokens[at] = (pen.tokens[at].split("+")[0] or "text") + "+" + tint


def _axis_row(
    chart: ChartView, scale: Scale, places: list[tuple[int, int, str]], width: int, left: int, columns: int
) -> Row:
    pen = Pen(width)
    pen.put(left - 1, "└", "faint")
    pen.fill(left, left + columns, "─", "faint")
    for x, _ in _x_ticks(chart, scale, columns):
        pen.put(left + scale.column(x, columns), "┬", "faint")
    for first, last, severity in places:
        pen.fill(left + first, left + last + 1, "━", severity)
    for first, _, severity in places:
        pen.put(left + first, "✗" if severity == "critical" else "▲", severity + "+bold")
    for x in chart.non_finite:
        if math.isfinite(x) and scale.x0 <= x <= scale.x1:
            pen.put(left + scale.column(x, columns), "×", "critical+bold")
    return pen.row()


def _label_row(chart: ChartView, scale: Scale, width: int, left: int, columns: int) -> Row:
    pen = Pen(width)
    end, free = left + columns, 0
    for x, text in _x_ticks(chart, scale, columns):
        at = left + scale.column(x, columns) - len(text) // 2
        at = min(max(at, left), end - len(text))
        if at >= free:
            free = pen.put(at, text, "muted") + 1
    return pen.row()


class Chart(Instrument, can_focus=True):
    """One metric over the steps. Keeps its axes, so that they move seldom."""

    DEFAULT_CSS = "Chart { height: 1fr; }"

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._chart = ChartView("", "")
        self._spans: Sequence[Span] = ()
        self._scale: Scale | None = None
        self._loud = ""

    @property
    def current(self) -> ChartView:
        """What is drawn, for copying."""
        return self._chart

    def show(self, chart: ChartView, spans: Sequence[Span] = (), loud: str = "") -> None:
        """Shows a metric and the incidents on its axis; `loud` is the severity that colours a value over time."""
        if chart.key != self._chart.key or chart.axis != self._chart.axis:
            self._scale = None
        self._chart, self._spans, self._loud = chart, spans, loud
        self.redraw()

    def reset(self) -> None:
        """Forgets the axes: the next drawing fits them anew."""
        self._scale = None
        self.redraw()

    def draw(self, width: int, height: int) -> list[Row]:
        chart, rows = self._chart, plot_height(height)
        if chart.axis == "time":
            found = fit_time(chart, rows, self._scale)
        else:
            found = fit_scale(chart.points, rows, self._scale, _reach(chart))
        self._scale = found or self._scale
        return draw_chart(chart, self._spans, width, height, scale=self._scale, focused=self.has_focus, loud=self._loud)
