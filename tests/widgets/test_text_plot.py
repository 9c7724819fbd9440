"""Plots as plain text: they fit, they hold the spike, and plotext is loaded only for them."""

from __future__ import annotations

import math
import subprocess
import sys
from types import ModuleType

import pytest

from trainmon.snapshot import ChartView, Points
from trainmon.widgets.text_plot import text_plot


@pytest.mark.parametrize(("width", "height"), [(78, 16), (40, 8), (24, 6), (200, 40)])
def test_a_plot_fits_and_is_plain(story: ModuleType, width: int, height: int) -> None:
    rows = text_plot(story.alert().charts[0], width, height)
    assert rows[0] == "loss  1.990"
    assert 3 < len(rows) <= height
    assert all(len(row) <= width and "\x1b" not in row for row in rows)
    assert any("\u2800" < char <= "\u28ff" for row in rows for char in row)


def test_a_single_spike_stays_in_ten_thousand_points() -> None:
    values = [2.0] * 10_000
    values[7_777] = 9.0
    x = tuple(float(step) for step in range(10_000))
    y = tuple(values)
    rows = text_plot(ChartView("loss", "loss", 2.0, Points(x, y, y, y)), 60, 12)
    assert any("\u2800" < char <= "\u28ff" for char in rows[3])


def test_nothing_to_plot_is_the_title_alone() -> None:
    assert text_plot(ChartView("loss", "loss")) == ["loss"]
    nan = (math.nan, math.inf, 1e300)
    assert text_plot(ChartView("loss", "loss", math.nan, Points((1.0, 2.0, 3.0), nan, nan, nan))) == ["loss  NaN"]
    assert text_plot(ChartView("loss", "lo\x1bss", 1.0), 10, 3)[0] == "lo·ss  1.…"


def test_plotext_is_not_loaded_with_the_screen() -> None:
    code = (
        "import sys, trainmon.widgets.chart, trainmon.widgets.facts, trainmon.widgets.text_plot;"
        "sys.exit('plotext' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
