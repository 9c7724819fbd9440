"""`y` on a chart gives a plot that can be pasted into a chat: plain text, drawn by plotext."""

from __future__ import annotations

import dataclasses

from trainmon.snapshot import ChartView, Points
from trainmon.tui.copying import pasteable, text_of


def _chart(values: list[float]) -> ChartView:
    numbers = tuple(values)
    points = Points(tuple(float(i) for i in range(len(values))), numbers, numbers, numbers)
    return ChartView("loss", "loss", value=values[-1] if values else None, points=points)


def test_a_chart_is_copied_as_a_plot_without_escape_codes() -> None:
    what, text = text_of(_chart([3.0, 2.5, 2.2, 2.0, 1.9, 1.85]))
    assert what == "chart of loss"
    lines = text.splitlines()
    assert len(lines) > 8 and lines[0].startswith("loss  1.850")
    assert any("\u2801" <= sign <= "\u28ff" for sign in text), "no curve was drawn"
    assert pasteable(text) == text


def test_an_empty_chart_is_its_title() -> None:
    assert text_of(dataclasses.replace(_chart([]), value=None))[1].strip() == "loss"
