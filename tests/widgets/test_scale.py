"""Axes: round, still, and never hiding a spike."""

from __future__ import annotations

import itertools
import math

from hypothesis import given
from hypothesis import strategies as st

from trainmon.snapshot import Points
from trainmon.widgets.scale import fit_rows, fit_scale, tick_labels, x_ticks, x_window


def points(values: list[float], step: float = 10.0, first: float = 0.0) -> Points:
    x = tuple(first + step * index for index in range(len(values)))
    y = tuple(values)
    return Points(x, y, y, y)


@given(st.floats(-1e30, 1e30), st.floats(-1e30, 1e30), st.integers(1, 40))
def test_every_value_lies_between_the_edges(one: float, other: float, rows: int) -> None:
    low, high = min(one, other), max(one, other)
    bottom, row, every = fit_rows(low, high, rows)
    slack = max(abs(low), abs(high), row) * 1e-6
    assert row > 0 and every in ((1, 2, 3) if rows <= 3 else (2, 3))
    assert bottom - row / 2 <= low + slack
    assert bottom + (rows - 0.5) * row >= high - slack


def test_the_axes_of_the_design() -> None:
    loss = points([3.6 * math.exp(-step / 18) + 1.94 for step in range(113)])
    scale = fit_scale(loss, 12)
    assert scale is not None
    assert (scale.x0, scale.x1) == (0, 1250)
    rate = points([min(step, 10) * 5e-6 for step in range(113)])
    tall, low = fit_scale(rate, 12), fit_scale(rate, 5)
    assert tall is not None and low is not None
    assert tick_labels([value for _, value in tall.ticks()]) == ["0", "1e-05", "2e-05", "3e-05", "4e-05", "5e-05"]
    assert tick_labels([value for _, value in low.ticks()]) == ["0", "2.5e-05", "5.0e-05"]
    assert [row for row, _ in low.ticks()] == [4, 2, 0]


def test_the_warm_up_is_cut_off_where_that_pays_and_a_later_spike_is_not() -> None:
    values = [12.0 - step for step in range(10)] + [2.0] * 90
    scale = fit_scale(points(values), 10)
    assert scale is not None and scale.top < 4
    values[60] = 9.0
    spiked = fit_scale(points(values), 10)
    assert spiked is not None and spiked.top >= 9.0
    falling = fit_scale(points([5.0 - step * 0.04 for step in range(100)]), 10)
    assert falling is not None and falling.top >= 5.0


def test_the_range_widens_at_once_and_does_not_narrow() -> None:
    first = fit_scale(points([2.0, 2.5] * 20), 10)
    assert first is not None
    wider = fit_scale(points([2.0, 2.5] * 20 + [8.0]), 10, first)
    assert wider is not None and wider.top >= 8.0
    again = fit_scale(points([2.0, 2.5] * 20), 10, wider)
    assert again is not None and (again.bottom, again.row) == (wider.bottom, wider.row)


def test_a_new_run_is_fitted_anew() -> None:
    old = fit_scale(points([9.0, 1.0] * 100), 10)
    assert old is not None
    new = fit_scale(points([1.0, 1.2] * 10), 10, old)
    assert new is not None and new.x1 < old.x1 and new.top < 2


@given(st.integers(1, 5_000_000))
def test_the_window_grows_by_a_quarter_to_a_half(newest: int) -> None:
    start, end = x_window(0, float(newest))
    assert start == 0 and end >= newest
    after = x_window(0, end * 1.0001)[1]
    assert end < 10 or 1.2 <= after / end <= 1.5


def test_while_the_window_has_room_no_axis_moves() -> None:
    scale = fit_scale(points([2.0, 2.1] * 30), 8)
    moved = 0
    for count in range(61, 400):
        fresh = fit_scale(points([2.0, 2.1] * (count // 2) + [2.0]), 8, scale)
        assert fresh is not None and scale is not None
        moved += (fresh.x0, fresh.x1, fresh.bottom, fresh.row) != (scale.x0, scale.x1, scale.bottom, scale.row)
        scale = fresh
    assert moved <= 6


def test_a_run_seen_from_its_middle_starts_near_there() -> None:
    start, end = x_window(8000, 8340)
    assert 7500 <= start <= 8000 and 8340 <= end <= 9000


@given(st.floats(0, 1e9), st.floats(1, 1e9), st.integers(4, 200))
def test_ticks_are_round_apart_and_within(start: float, size: float, columns: int) -> None:
    ticks = x_ticks(start, start + size, columns)
    assert all(start - size * 1e-6 <= tick <= start + size * 1.000001 for tick in ticks)
    for before, after in itertools.pairwise(ticks):
        assert (after - before) / size * columns >= len(f"{after:,.0f}") + 1


@given(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=8), st.integers(1, 30))
def test_labels_are_never_missing(values: list[float], rows: int) -> None:
    labels = tick_labels(values)
    assert len(labels) == len(values) and all(labels)
    scale = fit_scale(points(values), rows)
    assert scale is not None and math.isfinite(scale.top) and math.isfinite(scale.floor)


def test_nothing_finite_has_no_axes() -> None:
    assert fit_scale(Points(), 10) is None
    assert fit_scale(points([math.nan, math.inf]), 10) is None
