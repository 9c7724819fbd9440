"""StepSeries.extend: the same as add, value by value, in whatever portions."""

from __future__ import annotations

import math
import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainmon.series import stepseries
from trainmon.series.stepseries import StepSeries

numbers = st.one_of(
    st.floats(-1e6, 1e6), st.sampled_from([math.nan, math.inf, -math.inf, 5e-324, 1e308, -1e308]), st.floats()
)
told = st.tuples(st.integers(-1, 3), st.sampled_from("aab"), numbers)


def state_of(series: StepSeries) -> str:
    """All but the middles of merged points, which differ by the order in which they were added up."""
    columns = [list(c) for c in (series._x, series._lo, series._hi, series._n, series._w)]
    opened = {step: [v] if isinstance(v, float) else list(v) for step, v in sorted(series._open.items())}
    seats = {node: (seat.last, seat.segment) for node, seat in sorted(series._seats.items())}
    rest = (series._cuts, series._marks, float(series._floor), series.count, series.version, series.non_finite_count)
    groups = (series._coarse, series._each, series._even)
    return repr((columns, opened, series._open_values, sorted(series._stale), seats, rest, groups, series.first))


def same(fast: StepSeries, slow: StepSeries) -> None:
    assert state_of(fast) == state_of(slow)
    assert list(fast._mid) == pytest.approx(list(slow._mid), rel=1e-9, abs=1e-300)
    one, two = fast.points(9), slow.points(9)
    assert (one.x, one.lo, one.hi) == (two.x, two.lo, two.hi)
    assert fast.value == pytest.approx(slow.value, rel=1e-9)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(told, max_size=60), max_size=8), st.booleans())
def test_extend_is_add_for_each(portions: list[list[tuple[int, str, float]]], one_node: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stepseries, "OPEN_STEPS", 12)
        patch.setattr(stepseries, "BUDGET", 20)
        slow, fast = StepSeries(16), StepSeries(16)
        at = 0
        for portion in portions:
            steps = []
            for by, _, _ in portion:
                at += by if by >= 0 else -7
                steps.append(at)
            nodes = ["a"] * len(portion) if one_node else [node for _, node, _ in portion]
            values = [value for _, _, value in portion]
            for step, node, value in zip(steps, nodes, values, strict=True):
                slow.add(step, node, value)
            fast.extend(steps, nodes[:1] if one_node else nodes, values)
            same(fast, slow)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.integers(1, 400), min_size=1, max_size=8),
    st.lists(st.sampled_from(["more", "back", "other", "late"]), min_size=8, max_size=8),
    st.integers(0, 2**32),
)
def test_long_columns_leap_to_where_single_values_arrive(sizes: list[int], turns: list[str], seed: int) -> None:
    rng = random.Random(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stepseries, "OPEN_STEPS", 24)
        patch.setattr(stepseries, "BUDGET", 90)
        slow, fast = StepSeries(32), StepSeries(32)
        at = 0
        for size, turn in zip(sizes, turns, strict=False):
            if turn == "back":
                at = max(0, at - rng.randrange(1, 300))
            if turn in ("other", "late") and at:
                step = at if turn == "other" else rng.randrange(at)
                slow.add(step, "b", 3.0)
                fast.extend([step], ["b"], [3.0])
            steps = []
            for _ in range(size):
                at += rng.choice((1, 1, 1, 5))
                steps.append(at)
            values = [rng.gauss(0.0, 1.0) for _ in steps]
            for step, value in zip(steps, values, strict=True):
                slow.add(step, "a", value)
            fast.extend(steps, ["a"], values)
            same(fast, slow)


def test_a_long_rising_column_is_the_same_value_by_value() -> None:
    slow, fast = StepSeries(256), StepSeries(256)
    steps = list(range(0, 30_000, 3))
    values = [math.sin(step / 40.0) for step in steps]
    for step, value in zip(steps, values, strict=True):
        slow.add(step, "a", value)
    for i in range(0, len(steps), 777):
        fast.extend(steps[i : i + 777], ["a"], values[i : i + 777])
    same(fast, slow)


def test_the_whole_past_of_a_long_run_is_shown_evenly() -> None:
    series = StepSeries(256)
    for first in range(0, 200_000, 5000):
        series.extend(range(first, first + 5000), ["a"], [float(v % 7) for v in range(5000)])
    x = series.points(4096).x
    gaps = [b - a for a, b in pairwise(x)]
    assert max(gaps) <= 200_000 / (len(series) / 4)
    assert sum(g == 1.0 for g in gaps) >= 256 // 4 - 1
    assert len(series) <= 256
