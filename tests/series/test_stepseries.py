"""StepSeries: medians over nodes, bounded memory, resumes, every spike kept."""

from __future__ import annotations

import math
import random
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainmon.series.reduce import reduce_columns, reduce_points, thin
from trainmon.series.stepseries import BUDGET, StepSeries
from trainmon.snapshot import Points


def well_formed(points: Points) -> None:
    assert len(points.x) == len(points.lo) == len(points.mid) == len(points.hi)
    assert all(a < b for a, b in zip(points.x, points.x[1:], strict=False))
    assert all(lo <= mid <= hi for lo, mid, hi in zip(points.lo, points.mid, points.hi, strict=True))


def test_median_and_envelope_over_nodes() -> None:
    series = StepSeries()
    for node, value in (("a", 1.0), ("b", 9.0), ("c", 2.0)):
        series.add(10, node, value)
    assert series.points() == Points((10.0,), (1.0,), (2.0,), (9.0,))
    assert series.value == 2.0
    series.add(11, "a", 5.0)
    assert series.value == 5.0, "only the nodes that report at the newest step count"


def test_files_read_one_after_the_other_give_the_same_as_read_together() -> None:
    nodes = [f"n{i}" for i in range(8)]
    told = {(s, n): s + i * 0.1 + (s % 7) for s in range(1000) for i, n in enumerate(nodes)}
    together, apart = StepSeries(), StepSeries()
    for s in range(1000):
        for n in nodes:
            together.add(s, n, told[s, n])
    for n in nodes:
        for s in range(1000):
            apart.add(s, n, told[s, n])
    assert together.points(2000) == apart.points(2000)


def test_late_values_of_a_frozen_step_still_widen_it() -> None:
    series = StepSeries()
    for s in range(3000):
        series.add(s, "a", 1.0)
    series.add(5, "b", 3.0)
    points = series.points(5000)
    assert (points.lo[5], points.mid[5], points.hi[5]) == (1.0, 2.0, 3.0)


def test_memory_is_bounded_and_every_spike_survives() -> None:
    series = StepSeries(points=256)
    rng = random.Random(1)
    spikes = {rng.randrange(100_000) for _ in range(50)}
    for s in range(100_000):
        series.add(s, "a", 100.0 + s if s in spikes else 1.0)
    assert len(series) <= 257
    assert len(series._open) <= 256
    points = series.points(64)
    well_formed(points)
    assert 20 <= len(points.x) <= 64
    assert points.x[0] == 0.0
    edges = [*points.x, math.inf]
    for spike in spikes:
        i = next(j for j in range(len(points.x)) if edges[j] <= spike < edges[j + 1])
        assert points.hi[i] >= 100.0 + spike
    assert series.points(4096).x[-100:] == tuple(float(s) for s in range(99_900, 100_000))


def test_many_nodes_do_not_blow_the_budget() -> None:
    series = StepSeries()
    for s in range(40):
        for n in range(1000):
            series.add(s, f"n{n}", float(n))
    assert series._open_values <= BUDGET
    assert sum(1 if isinstance(v, float) else len(v) for v in series._open.values()) == series._open_values
    assert series.value == 499.5
    assert series.points().mid[0] == pytest.approx(499.5)


def test_a_resume_replaces_what_came_after_it() -> None:
    series = StepSeries()
    for s in range(100):
        series.add(s, "a", 1.0)
    for s in range(60, 80):
        series.add(s, "a", 2.0)
    points = series.points()
    well_formed(points)
    assert points.x == tuple(float(s) for s in range(80))
    assert points.mid[59:61] == (1.0, 2.0)
    assert series.value == 2.0


def test_every_node_resumes_but_the_run_is_cut_once() -> None:
    nodes = ["a", "b", "c"]
    series = StepSeries()
    for s in range(100):
        for n in nodes:
            series.add(s, n, 1.0)
    for i, n in enumerate(nodes):  # each goes back at a different moment
        for s in range(60, 90):
            series.add(s, n, 2.0 + i)
    points = series.points()
    assert points.x[-1] == 89.0
    assert (points.lo[70], points.mid[70], points.hi[70]) == (2.0, 3.0, 4.0)
    assert points.mid[59] == 1.0


def test_the_replaced_segment_of_a_file_that_is_read_later_stays_out() -> None:
    series = StepSeries()
    for n in ("a", "b"):  # each file holds both segments
        for s in range(100):
            series.add(s, n, 1.0)
        for s in range(60, 140):
            series.add(s, n, 2.0)
    points = series.points()
    assert set(points.hi[60:]) == {2.0}
    assert set(points.lo[:60]) == {1.0}
    assert points.x[-1] == 139.0


def test_a_node_that_never_went_back_rejoins_once_it_is_past_the_old_end() -> None:
    series = StepSeries()
    for s in range(100):
        series.add(s, "a", 1.0)
    for s in range(60, 140):
        series.add(s, "a", 2.0)
    for s in range(50, 140, 10):
        series.add(s, "late", 8.0)
    assert series.points().hi[50] == 8.0
    assert series.points().hi[70] == 2.0
    assert series.points().hi[110] == 8.0


def test_a_line_that_is_a_little_late_is_no_resume() -> None:
    series = StepSeries()
    for s in (1, 2, 3, 4, 5):
        series.add(s, "a", float(s))
    series.add(3, "a", 9.0)
    assert series.newest == 5.0
    assert series.points().hi[2] == 9.0


def test_non_finite_is_marked_and_never_drawn() -> None:
    series = StepSeries()
    series.add(1, "a", 1.0)
    series.add(2, "a", math.nan)
    series.add(2, "b", math.inf)
    series.add(3, "a", 1.0)
    assert series.non_finite == (2.0,)
    assert series.non_finite_count == 2
    assert series.points().x == (1.0, 3.0)
    for s in range(4, 4000):
        series.add(s, "a", math.nan)
    assert len(series.non_finite) <= 256
    assert series.non_finite[-1] == 3999.0


def test_absurd_steps_and_values_do_no_harm() -> None:
    series = StepSeries()
    series.add(10**400, "a", 1.0)
    for s in range(100):
        series.add(s, "a", 1e308 if s % 2 else -1e308)
    for s in range(100):
        series.add(s, "b", 1e308)
    well_formed(series.points(8))
    assert all(math.isfinite(v) for v in series.points(8).mid)
    series.change()


def test_change_is_of_a_window_of_round_width() -> None:
    series = StepSeries()
    for s in range(843):
        series.add(s, "a", 3.0 - s * 0.001)
    change, width = series.change()
    assert width == 100
    assert change == pytest.approx(-0.1)
    assert StepSeries().change() is None


def test_an_unchanged_series_gives_an_equal_picture_and_growth_moves_only_its_end() -> None:
    series = StepSeries()
    for s in range(2000):
        series.add(s, "a", float(s % 13))
    before = series.points(300)
    assert series.points(300) == before
    series.add(2000, "a", 1.0)
    after = series.points(300)
    assert after.x[: len(before.x) - 1] == before.x[:-1]
    assert after.hi[: len(before.x) - 1] == before.hi[:-1]


steps_and_values = st.lists(
    st.tuples(
        st.integers(0, 400),
        st.sampled_from(["a", "b", "c"]),
        st.floats(-1e6, 1e6) | st.just(math.nan),
    ),
    max_size=300,
)


@settings(max_examples=150, deadline=None)
@given(steps_and_values, st.integers(1, 40))
def test_any_order_of_lines_leaves_the_series_well_formed(told: list[tuple[int, str, float]], width: int) -> None:
    series = StepSeries(points=32)
    for i, (step, node, value) in enumerate(told):
        series.add(step, node, value)
        if i % 29 == 0:
            series.points(width)
    points = series.points(width)
    well_formed(points)
    assert len(points.x) <= max(width, 1)
    assert len(series) <= 33
    assert sum(1 if isinstance(v, float) else len(v) for v in series._open.values()) == series._open_values
    fresh = series.points(10_000)
    assert reduce_extremes(points) == reduce_extremes(fresh), "reduction loses no extreme, cached or not"


def reduce_extremes(points: Points) -> tuple[float, float] | None:
    return (min(points.lo), max(points.hi)) if points.x else None


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=200))
def test_rising_steps_keep_exact_medians(values: list[float]) -> None:
    series = StepSeries()
    for i, value in enumerate(values):
        series.add(i // 3, f"n{i % 3}", value)
    points = series.points(1000)
    for s, mid in zip(points.x, points.mid, strict=False):
        assert mid == pytest.approx(median(values[int(s) * 3 : int(s) * 3 + 3]), rel=1e-9, abs=1e-9)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=300), st.integers(1, 50))
def test_reductions_keep_the_extremes(values: list[float], width: int) -> None:
    line = tuple(values)
    points = Points(tuple(float(i) for i in range(len(line))), line, line, line)
    reduced = reduce_points(points, width)
    assert len(reduced.x) <= width
    assert reduce_extremes(reduced) == reduce_extremes(points)
    columns = [c for c in reduce_columns(points, 0.0, float(len(line)), width) if c]
    assert min(c.lo for c in columns) == min(line)
    assert max(c.hi for c in columns) == max(line)
    assert sum(c.points for c in columns) == len(line)
    assert len(thin(line, width)) <= width


def test_columns_without_points_are_gaps() -> None:
    points = Points((0.0, 9.0), (1.0, 2.0), (1.0, 2.0), (1.0, 2.0))
    columns = reduce_columns(points, 0.0, 10.0, 10)
    assert [c is not None for c in columns] == [True] + [False] * 8 + [True]
    assert reduce_columns(points, 5.0, 5.0, 3) == [None] * 3
