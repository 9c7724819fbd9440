"""What a chart must never hide: spikes, NaN, gaps, age; and what it must not do: move."""

from __future__ import annotations

import math
from itertools import pairwise
from types import ModuleType

from hypothesis import given, settings
from hypothesis import strategies as st

from trainmon.snapshot import ChartView, Points, Span
from trainmon.widgets.braille import draw_series
from trainmon.widgets.cells import Row, plain
from trainmon.widgets.chart import draw_chart, plot_height
from trainmon.widgets.scale import fit_scale


def series(values: list[float], step: float = 1.0) -> Points:
    x = tuple(index * step for index in range(len(values)))
    y = tuple(values)
    return Points(x, y, y, y)


def tokens_at(row: Row, column: int) -> str:
    at = 0
    for text, token in row:
        if at <= column < at + len(text):
            return token
        at += len(text)
    return ""


@settings(deadline=None, max_examples=60)
@given(st.integers(20, 899), st.floats(2.5, 40), st.integers(20, 100), st.integers(4, 20))
def test_every_spike_after_the_warm_up_is_visible(place: int, height: float, columns: int, rows: int) -> None:
    values = [2.0] * 900
    values[place] = height
    points = series(values)
    scale = fit_scale(points, rows)
    assert scale is not None
    canvas = draw_series(points, scale, columns)
    column = scale.column(float(place), columns)
    base = {at for at in range(len(canvas.dots)) if canvas.dots[at]}
    top = min(at // columns for at in base if at % columns in (column - 1, column, column + 1))
    if height > scale.top:
        # Before the end of the warm-up: cut off, and then said.
        assert place <= 180
        chart = ChartView("loss", "loss", 2.0, points)
        assert any("▲" in plain(row) for row in draw_chart(chart, (), columns + 10, rows + 3)[:2]) or columns < 60
    else:
        assert scale.top - (top + 1) * scale.row <= height
        assert top <= (scale.top - height) / scale.row


def test_nan_stands_on_the_axis_and_is_counted() -> None:
    values = [2.0] * 50 + [math.nan] + [2.0] * 49
    chart = ChartView("loss", "loss", math.nan, series(values), non_finite=(50.0,), non_finite_count=3)
    rows = draw_chart(chart, (), 80, 12)
    assert "NaN" in plain(rows[0]) and "× 3 NaN or inf" in plain(rows[0])
    assert "critical" in tokens_at(rows[0], plain(rows[0]).index("NaN"))
    axis = plain(rows[-2])
    assert axis.count("×") == 1 and tokens_at(rows[-2], axis.index("×")) == "critical+bold"


def test_a_gap_is_never_joined() -> None:
    points = Points(*((tuple(x), tuple(y), tuple(y), tuple(y))[i] for i, (x, y) in enumerate([
        ([*range(100), *range(800, 900)], [2.0] * 200)] * 4)))  # fmt: skip
    chart = ChartView("loss", "loss", 2.0, points, gaps=(99.0,))
    rows = draw_chart(chart, (), 100, 10)
    curve = max((plain(row) for row in rows[1:-2]), key=lambda text: sum("\u2800" < char <= "\u28ff" for char in text))
    dots = [at for at, char in enumerate(curve) if "\u2800" < char <= "\u28ff"]
    assert max(after - before for before, after in pairwise(dots)) > 40
    told = ChartView("loss", "loss", 2.0, points)
    untold = [plain(row) for row in draw_chart(told, (), 100, 10)]
    assert curve in untold, "missing steps are seen without being told of"


def test_points_with_few_steps_are_joined() -> None:
    chart = ChartView("loss", "loss", 2.0, series([2.0, 1.0, 3.0, 2.0], step=100))
    rows = [plain(row) for row in draw_chart(chart, (), 80, 12)]
    columns = {at for row in rows[1:-2] for at, char in enumerate(row) if "\u2800" < char <= "\u28ff"}
    assert columns == set(range(min(columns), max(columns) + 1))


def test_stale_charts_say_the_age_and_turn_muted(story: ModuleType) -> None:
    chart = ChartView("loss", "loss", 2.0, series([2.0] * 90), stale_s=60)
    rows = draw_chart(chart, (), 80, 10)
    assert "nothing new for 1 m" in plain(rows[0])
    assert {token for row in rows[1:-2] for text, token in row if any("\u2800" < c <= "\u28ff" for c in text)} == {
        "muted"
    }


def test_incidents_tint_their_columns_and_stand_on_the_axis(story: ModuleType) -> None:
    snapshot = story.alert()
    rows = draw_chart(snapshot.charts[0], snapshot.spans, 79, 15)
    axis = plain(rows[13])
    warning, critical = axis.index("▲"), axis.index("✗")
    assert tokens_at(rows[5], warning).endswith("+tint-warning")
    assert tokens_at(rows[5], critical).endswith("+tint-critical")
    assert "tint" not in tokens_at(rows[5], warning - 1)
    assert tokens_at(rows[13], critical + 1) == "critical" and axis[critical + 1] == "━"
    closed = draw_chart(snapshot.charts[0], (Span(100, 200, "warning"),), 79, 15)
    assert sum(text.count("━") for text, _ in closed[13]) <= 6


def test_one_new_step_changes_at_most_two_columns() -> None:
    values = [2.0 + 0.3 * math.sin(index / 7) for index in range(600)]
    scale = fit_scale(series(values), plot_height(15))
    before = [plain(row) for row in draw_chart(ChartView("loss", "loss", 2.0, series(values)), (), 79, 15, scale=scale)]
    values.append(2.05)
    scale = fit_scale(series(values), plot_height(15), scale)
    after = [plain(row) for row in draw_chart(ChartView("loss", "loss", 2.0, series(values)), (), 79, 15, scale=scale)]
    columns = {at for old, new in zip(before[1:], after[1:], strict=True) for at in range(79) if old[at] != new[at]}
    assert len(columns) <= 2


def test_without_a_value_it_says_what_will_come() -> None:
    rows = [plain(row).strip() for row in draw_chart(ChartView("loss", "loss"), (), 80, 10)]
    assert rows[1] == "drawn from the first value on"


def test_the_axis_goes_on_to_the_newest_nan() -> None:
    values = [9.0 - 0.02 * index for index in range(80)]
    chart = ChartView("loss", "loss", math.nan, series(values), non_finite=(80.0, 400.0), non_finite_count=320)
    rows = [plain(row) for row in draw_chart(chart, (Span(80, None, "critical"),), 79, 15)]
    assert "400" in rows[14] and "▼" not in rows[0]
    assert rows[13].count("━") > 40  # what began at the first NaN lasts
