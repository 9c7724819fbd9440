"""Widgets: one region a changed row, no background, the selection only with the focus."""

from __future__ import annotations

import dataclasses
from itertools import pairwise
from types import ModuleType

from hypothesis import given
from hypothesis import strategies as st
from textual.app import App, ComposeResult
from textual.geometry import Region

from trainmon.widgets.alert_strip import AlertStrip
from trainmon.widgets.chart import Chart
from trainmon.widgets.error_list import ErrorList
from trainmon.widgets.last_record import LastRecord
from trainmon.widgets.log_pane import LogPane
from trainmon.widgets.node_table import NodeTable
from trainmon.widgets.paint import Instrument, changed_span, changed_spans, expand, palette, strip_of
from trainmon.widgets.palette import Palette
from trainmon.widgets.status import StatusRow


class Bench(App[None]):
    """Some instruments on a bare screen."""

    CSS = "Screen { background: ansi_default; } ErrorList, NodeTable { height: 9; } Chart { height: 10; }"

    def __init__(self, colours: Palette | None = None) -> None:
        super().__init__(ansi_color=True)
        if colours is not None:
            self.trainmon_palette = colours

    def compose(self) -> ComposeResult:
        yield StatusRow()
        yield AlertStrip()
        yield LastRecord()
        yield ErrorList()
        yield NodeTable()
        yield Chart()


def watch(widget: Instrument, calls: list[tuple[Region, ...]]) -> None:
    original = widget.refresh

    def refresh(*regions: Region, **keywords: bool) -> Instrument:
        calls.append(regions)
        return original(*regions, **keywords)

    widget.refresh = refresh  # type: ignore[method-assign]


async def test_one_changed_number_asks_for_one_region_of_its_cells(story: ModuleType) -> None:
    app = Bench()
    async with app.run_test(size=(160, 45)):
        status = app.query_one(StatusRow)
        snapshot = story.alert()
        status.show(snapshot.run, story.NOW["alert"])
        calls: list[tuple[Region, ...]] = []
        watch(status, calls)
        status.show(snapshot.run, story.NOW["alert"])
        assert calls == []
        status.show(dataclasses.replace(snapshot.run, step=1121), story.NOW["alert"])
        assert len(calls) == 1 and len(calls[0]) == 1
        region = calls[0][0]
        text = status.rows_text()[0]
        assert text[region.x : region.right] == "1" and region.height == 1
        assert text[region.x - 4 : region.right] == "1,121"


async def test_a_chart_that_grows_refreshes_a_few_cells(story: ModuleType) -> None:
    app = Bench()
    async with app.run_test(size=(160, 45)):
        chart = app.query_one(Chart)
        view = story.healthy().charts[0]
        chart.show(view, ())
        calls: list[tuple[Region, ...]] = []
        watch(chart, calls)
        more = dataclasses.replace(view.points, **{
            name: (*getattr(view.points, name), value) for name, value in (("x", 844.0), ("lo", 2.0), ("mid", 2.02), ("hi", 2.04))
        })  # fmt: skip
        chart.show(dataclasses.replace(view, points=more), ())
        cells = sum(region.area for regions in calls for region in regions)
        assert 0 < cells <= 8


async def test_no_background_is_written_for_ordinary_cells(story: ModuleType) -> None:
    app = Bench()
    async with app.run_test(size=(160, 45)):
        app.query_one(StatusRow).show(story.healthy().run, 0.0)
        app.query_one(NodeTable).show(story.healthy().nodes)
        for widget in app.query(Instrument):
            for strip in widget.render_lines(Region(0, 0, *widget.size)):
                assert strip.cell_length == widget.size.width
                assert all(segment.style is None or segment.style.bgcolor is None for segment in strip)


async def test_the_selection_is_shown_only_with_the_focus(story: ModuleType) -> None:
    app = Bench()
    async with app.run_test(size=(160, 45)) as pilot:
        errors = app.query_one(ErrorList)
        errors.show(story.failed().errors, story.failed().counts)
        assert not any("▌" in row for row in errors.rows_text())
        errors.focus()
        await pilot.pause()
        assert [row[0] for row in errors.rows_text()[2:5]] == ["▌"] * 3
        assert "━" in errors.rows_text()[0]
        errors.move(2)
        assert errors.current is not None and errors.current.code == "TORCHRUN_CHILD_FAILED"
        errors.move(99)
        assert errors.current is not None and errors.current.code == "GPU_THERMAL_SLOWDOWN"
        errors.home()
        assert errors.selected == 0


async def test_the_selection_stays_with_its_entry_when_the_order_changes(story: ModuleType) -> None:
    app = Bench()
    async with app.run_test(size=(160, 45)) as pilot:
        nodes = app.query_one(NodeTable)
        nodes.show(story.alert().nodes)
        nodes.focus()
        await pilot.pause()
        nodes.move(1)
        assert nodes.current is not None
        name = nodes.current.name
        nodes.show(tuple(reversed(story.alert().nodes)))
        assert nodes.current is not None and nodes.current.name == name


async def test_the_label_flashes_and_nothing_else(story: ModuleType) -> None:
    app = Bench()
    async with app.run_test(size=(160, 45)):
        strip = app.query_one(AlertStrip)
        alert = dataclasses.replace(story.alert().alerts[0], fresh=True)
        strip.show((alert,), "", False)
        calls: list[tuple[Region, ...]] = []
        watch(strip, calls)
        strip.show((alert,), "", True)
        assert [(region.x, region.width) for region in calls[0]] == [(0, 12)]


async def test_a_smaller_terminal_repaints_everything(story: ModuleType) -> None:
    app = Bench()
    async with app.run_test(size=(160, 45)) as pilot:
        status = app.query_one(StatusRow)
        status.show(story.alert().run, 0.0)
        await pilot.resize_terminal(40, 45)
        await pilot.pause()
        assert status.rows_text() == [" qwen-7b-lora        ● running 11:11:44 "]


async def test_ascii_terminals_get_ascii(story: ModuleType) -> None:
    app = Bench(palette("mono", ascii_only=True))
    async with app.run_test(size=(160, 45)):
        strip = app.query_one(AlertStrip)
        strip.show(story.alert().alerts, "")
        line = strip.render_line(0)
        assert line.text.isascii() and "x NEAR OOM" in line.text and "Enter why" in line.text


def test_changed_cells_never_split_a_wide_character() -> None:
    old, new = expand([("a漢b", "text")], 6), expand([("a字b", "text")], 6)
    assert changed_span(old, new) == (1, 3)
    assert changed_span(old, old) is None
    assert changed_span(expand([("abc", "text")], 4), expand([("漢c", "text")], 4)) == (0, 2)


def test_incidents_are_told_without_colours() -> None:
    mono, dark = palette("mono"), palette("dark")
    label = "critical+bold+tint-critical+label"
    assert mono.style(label).reverse and mono.style(label).bgcolor is None
    assert not dark.style(label).reverse and dark.style(label).bgcolor is not None
    assert dark.style("critical+bold+reverse").reverse
    for colours in (mono, palette("ansi16")):
        assert colours.style("text+selected").bgcolor is None
        assert colours.style("text").color is None
    assert mono.style("critical").color is None
    assert palette("ansi16").style("critical+bold").color is not None
    assert palette("no such").name == "dark"


def test_neighbours_of_one_style_share_an_escape_sequence() -> None:
    strip = strip_of(expand([("a", "muted"), (" ", "text"), ("b", "muted")], 3), palette("dark"))
    assert len(strip._segments) == 1


async def test_the_log_pane_marks_matches_and_levels() -> None:
    class Pane(App[None]):
        def compose(self) -> ComposeResult:
            yield LogPane()

    app = Pane(ansi_color=True)
    async with app.run_test(size=(60, 6)):
        pane = app.query_one(LogPane)
        pane.show(["step=1 loss=2.0", "ERROR: \x1b[31mout of memory", "漢" * 80], 1, "memory")
        text = pane.rows_text()
        assert "✗" in text[1] and "\x1b" not in "".join(text) and text[1].startswith("▌")
        assert text[2].rstrip().endswith("…")
        styles = {segment.text: segment.style for segment in pane.render_line(1)}
        assert styles["memory"] is not None and styles["memory"].reverse
        pane.show(["abcdef"], None, "(", 2)
        assert pane.rows_text()[0].strip() == "cdef"


@given(
    st.text("ab 漢é", max_size=30),
    st.text("ab 漢é", max_size=30),
    st.lists(st.tuples(st.integers(0, 59), st.sampled_from("xy漢 ")), max_size=4),
)
def test_what_lies_outside_the_changed_stretches_is_the_same(one, other, touched):
    old = expand([(one * 2, "text"), (other, "muted"), ("─" * 20, "faint")], 60)
    text = list("".join(char for char, _ in old))
    for at, char in touched:
        if at < len(text):
            text[at] = char
    new = expand([("".join(text), "text")], 60)
    spans = changed_spans(old, new)
    assert all(before[1] < after[0] for before, after in pairwise(spans))
    inside = {at for first, end in spans for at in range(first, end)}
    assert all(at in inside for at in range(60) if old[at] != new[at])
    for first, end in spans:
        # No stretch begins or ends in the middle of a wide character.
        assert not any(cells[at][0] == "" for cells in (old, new) for at in (first, end) if at < 60)


def test_two_numbers_far_apart_are_two_stretches():
    row = [("1", "text"), ("─" * 20, "faint"), ("7", "text"), (" " * 9, "text")]
    other = [("2", "text"), ("─" * 20, "faint"), ("8", "text"), (" " * 9, "text")]
    assert changed_spans(expand(row, 40), expand(other, 40)) == [(0, 1), (21, 22)]
    near = [("1 2", "text")], [("3 4", "text")]
    assert changed_spans(expand(near[0], 40), expand(near[1], 40)) == [(0, 3)]
