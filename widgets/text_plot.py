"""A metric as a plot of plain text, for places without a screen: pipes, reports, copying a chart.

Drawn by plotext, which is imported only here and only when a plot is asked for: it takes about a tenth of a second.
"""

from __future__ import annotations

import math

from trainmon.snapshot import ChartView, Points
from trainmon.widgets.cells import clean, cut
from trainmon.widgets.chart import chart_value

SMALLEST = (24, 6)
"""Columns and rows below which there is no plot."""


def _reduced(points: Points, columns: int) -> tuple[list[float], list[float]]:
    """The lowest and the highest mean of each column, in the order of their steps: no spike is lost."""
    known = [
        (x, y)
        for x, y in zip(points.x, points.mid, strict=False)
        if math.isfinite(x) and math.isfinite(y) and abs(y) < 1e150
    ]
    if len(known) > columns * 2:
        kept = []
        for index in range(columns):
            part = known[index * len(known) // columns : (index + 1) * len(known) // columns]
            low, high = min(part, key=lambda point: point[1]), max(part, key=lambda point: point[1])
            kept += sorted({low, high})
        known = kept
    return [x for x, _ in known], [y for _, y in known]


def text_plot(chart: ChartView, width: int = 78, height: int = 16) -> list[str]:
    """The chart as lines of text without colours; only its title and value where there is nothing to plot.

    Args:
        width, height: Columns and rows of the whole plot.
    """
    value = "" if chart.value is None else f"  {chart_value(chart.key, chart.value)}"
    title = cut(clean(chart.title) + value, max(1, width))
    xs, ys = _reduced(chart.points, max(1, width))
    if len(xs) < 2 or width < SMALLEST[0] or height < SMALLEST[1]:
        return [title]
    import plotext

    figure = plotext.figure
    figure.clear()
    figure.plot_size(width, height - 1)
    figure.canvas("default")
    signal = figure.signal(xs, ys, marker="braille")
    signal.lines()
    figure.draw(signal)
    text: str = plotext.uncolorize(figure.build().string())
    figure.clear()
    return [title, *(line.rstrip() for line in text.splitlines() if line.strip())]
