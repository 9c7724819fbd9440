"""StepSeries.extend: the same as add, value by value, in whatever portions."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainmon.series import stepseries
from trainmon.series.reduce import bucket, halve
from trainmon.series.stepseries import StepSeries

numbers = st.one_of(
    st.floats(-1e6, 1e6), st.sampled_from([math.nan, math.inf, -math.inf, 5e-324, 1e308, -1e308]), st.floats()
)
told = st.tuples(st.integers(-1, 3), st.sampled_from("aab"), numbers)


def state_of(series: StepSeries) -> str:
    columns = [list(c) for c in (series._x, series._lo, series._mid, series._hi, series._n, series._w)]
    opened = {step: [v] if isinstance(v, float) else list(v) for step, v in sorted(series._open.items())}
    seats = {node: (seat.last, seat.segment) for node, seat in sorted(series._seats.items())}
    rest = (series._cuts, series._marks, series._floor, series.count, series.version, series.non_finite_count)
    return repr((columns, opened, series._open_values, sorted(series._stale), seats, rest, series.first, series.value))


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
            assert state_of(fast) == state_of(slow)
            assert repr(fast.points(9)) == repr(slow.points(9))


def test_a_long_rising_column_is_the_same_value_by_value() -> None:
    slow, fast = StepSeries(256), StepSeries(256)
    steps = list(range(0, 30_000, 3))
    values = [math.sin(step / 40.0) for step in steps]
    for step, value in zip(steps, values, strict=True):
        slow.add(step, "a", value)
    for i in range(0, len(steps), 777):
        fast.extend(steps[i : i + 777], ["a"], values[i : i + 777])
    assert state_of(fast) == state_of(slow)


@given(st.lists(st.tuples(st.floats(-1e300, 1e300), st.integers(1, 9)), min_size=2, max_size=40))
def test_halve_keeps_what_bucket_keeps(points: list[tuple[float, int]]) -> None:
    end = len(points) & ~1
    a = stepseries.array
    y, w = a("d", [v for v, _ in points]), a("d", [float(w) for _, w in points])
    x = a("d", range(len(points)))
    got = halve(x, y, y, y, w, w, end)
    want = [bucket(x, y, y, y, w, i, i + 2) for i in range(0, end, 2)]
    assert [list(column) for column in got[:2]] == [[row[0] for row in want], [row[1] for row in want]]
    assert list(got[3]) == [row[3] for row in want]
    assert list(got[2]) == pytest.approx([row[2] for row in want])
    assert all(lo <= mid <= hi for lo, mid, hi in zip(got[1], got[2], got[3], strict=True))
    assert sum(got[5]) == sum(w[:end])
