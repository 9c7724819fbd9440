"""Robust statistics and the sparkline ring."""

from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainmon.series.nodeseries import NodeSeries
from trainmon.series.robust import mad, mann_kendall, median, quantile, theil_sen


@given(st.lists(st.floats(-1e12, 1e12), min_size=1))
def test_median_is_the_median(values: list[float]) -> None:
    assert median(values) == pytest.approx(statistics.median(values), rel=1e-12, abs=1e-9)


def test_one_wild_value_moves_nothing() -> None:
    xs = [float(i) for i in range(20)]
    ys = [2.0 * x for x in xs]
    ys[7] = 1e9
    assert theil_sen(xs, ys) == pytest.approx(2.0)
    assert mad([1.0, 2.0, 3.0, 4.0, 1e9]) == pytest.approx(1.4826)
    assert mann_kendall(ys) > 0.85


def test_trends() -> None:
    assert mann_kendall([1, 2, 3, 4]) == 1.0
    assert mann_kendall([4, 3, 2, 1]) == -1.0
    assert mann_kendall([1, 1.001, 1.002], tie=0.01) == 0.0
    assert mann_kendall([1]) == 0.0
    assert theil_sen([1, 1], [2, 3]) == 0.0
    assert quantile([3, 1, 2], 1.0) == 3
    with pytest.raises(ValueError, match="nothing"):
        median([])


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False)), st.integers(1, 9))
def test_ring_keeps_the_last_in_order(values: list[float], size: int) -> None:
    ring = NodeSeries(size)
    for v in values:
        ring.add(v)
    assert ring.values() == tuple(values[-size:])
    assert ring.values(2) == tuple(values[-min(2, size) :])
    assert ring.last == (values[-1] if values else None)


def test_ring_leaves_out_what_cannot_be_drawn() -> None:
    ring = NodeSeries()
    for v in (1.0, math.nan, math.inf, 2.0):
        ring.add(v)
    assert ring.values() == (1.0, 2.0)
