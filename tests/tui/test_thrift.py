"""A partial update writes what changed, where it changed, and nothing else: tried on a terminal in memory."""

from __future__ import annotations

import io

import pyte
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from rich.segment import Segment
from textual import _compositor
from textual.strip import Strip

from trainmon.tui.thrift import _render_segments, cut_updates_on_both_sides

WIDTH = 40
BORDER = 17
"""Where one widget ends and the next begins."""


def _terminal(rows: list[str]) -> tuple[pyte.Screen, pyte.Stream]:
    screen = pyte.Screen(WIDTH, len(rows))
    stream = pyte.Stream(screen)
    stream.feed("\r\n".join(rows))
    return screen, stream


def _update(rows: list[str], spans: list[tuple[int, int, int]]) -> _compositor.ChopsUpdate:
    chops = [{0: Strip([Segment(row[:BORDER])]), BORDER: Strip([Segment(row[BORDER:])])} for row in rows]
    return _compositor.ChopsUpdate(chops, spans, [[BORDER, WIDTH] for _ in rows])


@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_only_the_changed_cells_are_written_and_all_of_them(data: st.DataObject) -> None:
    text = st.text("abcdefgh ─●", min_size=WIDTH, max_size=WIDTH)
    before = data.draw(st.lists(text, min_size=1, max_size=4))
    spans, after = [], []
    for y, row in enumerate(before):
        first = data.draw(st.integers(0, WIDTH - 1))
        last = data.draw(st.integers(first + 1, WIDTH))
        spans.append((y, first, last))
        after.append(row[:first] + data.draw(text)[first:last] + row[last:])
    console = Console(file=io.StringIO(), force_terminal=True, width=WIDTH)
    written = _render_segments(_update(after, spans), console)
    screen, stream = _terminal(before)
    stream.feed(written)
    assert [row.rstrip() for row in screen.display] == [row.rstrip() for row in after]
    cells = sum(last - first for _, first, last in spans)
    assert sum(sign in "abcdefgh ─●" for sign in pyte_text(written)) <= cells


def pyte_text(written: str) -> str:
    """What is printed of a terminal sequence: all but the cursor movements."""
    import re

    return re.sub("\x1b\\[[0-9;]*[A-Za-z]", "", written)


def test_it_is_in_force_with_the_textual_that_is_installed() -> None:
    before = _compositor.ChopsUpdate.render_segments
    try:
        assert cut_updates_on_both_sides()
        assert _compositor.ChopsUpdate.render_segments is _render_segments
    finally:
        _compositor.ChopsUpdate.render_segments = before
