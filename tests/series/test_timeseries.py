"""Pasts on an axis of time: bounded, in any order, and not to be broken by clocks."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainmon.series.timeseries import Room, TimeSeries, mean_of

T0 = 1_764_500_000.0


def test_a_short_past_keeps_every_value() -> None:
    past = TimeSeries(2, Room((1, 480)))
    for i in range(100):
        assert past.add(0, T0 + i, float(i))
    points = past.points(0)
    assert points.x == tuple(T0 + i for i in range(100)) and points.mid == tuple(float(i) for i in range(100))
    assert past.points(1).x == () and not past.has(1)
    assert (past.start, past.end) == (T0, T0 + 100)


def test_a_long_past_stays_small_and_keeps_mean_and_spikes() -> None:
    past = TimeSeries(1, Room((1, 480)))
    for i in range(100_000):
        past.add(0, T0 + i, 1000.0 if i == 54_321 else float(i % 10))
    assert 240 <= len(past) <= 480
    points = past.points(0)
    assert max(points.hi) == 1000.0 and min(points.lo) == 0.0
    inner = [mid for mid, hi in zip(points.mid, points.hi, strict=True) if hi < 1000.0][1:-1]
    assert all(mid == pytest.approx(4.5, abs=0.1) for mid in inner)
    assert past.nbytes() < 480 * 12


def test_a_quantity_that_comes_late_stands_at_its_own_times() -> None:
    past = TimeSeries(2, Room((1, 480)))
    for i in range(50):
        past.add(0, T0 + i, 1.0)
    past.add(1, T0 + 40, 7.0)
    past.add(0, T0 + 50, 1.0)
    past.add(1, T0 + 50, 8.0)
    assert past.points(1).x == (T0 + 40, T0 + 50) and past.points(1).mid == (7.0, 8.0)
    assert past.gaps(1, 5.0) == (T0 + 40,) and past.gaps(1, 30.0) == ()


def test_older_values_make_room_in_front() -> None:
    past = TimeSeries(1, Room((1, 64)))
    past.add(0, T0, 5.0)
    for i in range(1000):
        past.add(0, T0 - 1000 + i, 3.0)
    assert len(past) <= 64 and past.start is not None and past.start <= T0 - 1000
    assert past.points(0).mid[0] == 3.0 and past.at(0, T0 + 99) is not None
    assert past.at(0, T0 - 5000) is None


def test_the_same_past_read_twice_changes_nothing() -> None:
    one, two = (TimeSeries(1, Room((1, 32))) for _ in range(2))
    values = [(T0 + i, float(i * 7 % 13)) for i in range(500)]
    for time, value in values:
        one.add(0, time, value)
        two.add(0, time, value)
    for time, value in values[:300]:
        two.add(0, time, value)
    assert one.points(0).lo == two.points(0).lo and one.points(0).hi == two.points(0).hi


@pytest.mark.parametrize("jump", [3600.0, -3600.0, 30 * 86400.0, -30 * 86400.0])
def test_a_clock_that_jumps_breaks_nothing(jump: float) -> None:
    past = TimeSeries(1, Room((1, 480)))
    for i in range(300):
        past.add(0, T0 + i, 1.0)
    for i in range(300):
        past.add(0, T0 + jump + i, 2.0)
    assert len(past) <= 480
    x = past.points(0).x
    assert list(x) == sorted(set(x)) and {1.0, 2.0} <= {round(v) for v in past.points(0).mid} | {1.0, 2.0}


def test_what_is_not_finite_or_of_no_time_is_refused() -> None:
    past = TimeSeries(1, Room((1, 480)))
    past.add(0, T0, 1.0)
    for time, value in (
        (T0, math.nan),
        (T0, math.inf),
        (math.nan, 1.0),
        (-5.0, 1.0),
        (1e300, 1.0),
        (0.0, 1.0),
        (T0, 1e39),
    ):
        assert not past.add(0, time, value)
    assert past.points(0).mid == (1.0,)


def test_a_room_that_shrinks_is_obeyed_at_the_next_value() -> None:
    room = Room((2, 480), (10, 24))
    past = TimeSeries(1, room)
    for i in range(400):
        past.add(0, T0 + i, float(i))
    room.fit(11)
    past.add(0, T0 + 400, 400.0)
    assert len(past) <= 24 and past.points(0).hi[-1] == 400.0 and past.points(0).lo[0] == 0.0


def test_the_mean_of_others_stands_on_ones_own_cells() -> None:
    room = Room((1, 480))
    mine, fine, wide = (TimeSeries(1, room) for _ in range(3))
    for i in range(100):
        mine.add(0, T0 + i, 0.0)
        fine.add(0, T0 + i, 10.0)
        wide.add(0, T0 + i, 20.0)
    wide.add(0, T0 + 5000, 20.0)  # its cells are wider now
    points = mean_of([fine, wide], 0, mine)
    assert points.x[0] >= T0 and points.x[-1] < T0 + 100
    assert set(points.lo) == {10.0} and set(points.hi) == {20.0} and set(points.mid) == {15.0}
    assert mean_of([], 0, mine).x == ()
    early, late = TimeSeries(1, room), TimeSeries(1, room)
    for i in range(20):
        early.add(0, T0 - 10 + i, 1.0)
        late.add(0, T0 + 90 + i, 3.0)
    points = mean_of([early, late], 0, mine)
    assert points.x == tuple(T0 + i for i in (*range(10), *range(90, 100))) and points.mid == (1.0,) * 10 + (3.0,) * 10


@given(st.lists(st.tuples(st.floats(-1e9, 2e10), st.floats(allow_nan=True, allow_infinity=True)), max_size=200))
def test_it_is_bounded_and_ordered_whatever_comes(found: list[tuple[float, float]]) -> None:
    past = TimeSeries(2, Room((1, 16)))
    for i, (time, value) in enumerate(found):
        past.add(i % 2, time, value)
        assert len(past) <= 16
    for row in (0, 1):
        points = past.points(row)
        assert list(points.x) == sorted(set(points.x))
        assert all((lo <= hi and lo - abs(lo) * 1e-6 <= mid <= hi + abs(hi) * 1e-6) or lo == hi
                   for lo, mid, hi in zip(points.lo, points.mid, points.hi, strict=True))  # fmt: skip
