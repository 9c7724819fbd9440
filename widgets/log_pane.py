"""The log view's text: lines with number or time, search matches, the selected line, and a gutter that shows the place.

The screen that owns the pane decides which lines it holds; the pane draws them, wrapped, and knows how many fit.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice

from trainmon import units
from trainmon.widgets.logtext import LEVEL_GLYPHS, highlight, log_spans
from trainmon.widgets.paint import Instrument, Pen, Row, Span, clean, graphemes

_LEVEL = re.compile(r"\b(FATAL|CRITICAL|ERROR|WARNING|WARN|error|warning)\b")
_LEVELS = {"FATAL": "FATAL", "CRITICAL": "FATAL", "ERROR": "ERROR", "WARNING": "WARN", "WARN": "WARN"}
_LEVEL_WITHIN = 160
"""Characters from the start in which a level is looked for."""
_SEARCHED = 20_000
"""Characters of a line in which matches are marked."""

MAX_WRAP = 12
"""Rows that one line may take unless it is selected."""


@dataclass(frozen=True, slots=True)
class PaneLine:
    """One line of the pane.

    Attributes:
        text: The line, cut to what may be shown.
        number: Its 1-based number in the file; None while it is not known.
        level: Its level, for colour and glyph.
        time: Unix seconds, for merged views. node: who wrote it.
        matches: (start, end) in `text` of what the search found. current: which of them is the current one.
        note: A remark of the view ("24.8 s without a line"), drawn between rules instead of a line.
    """

    text: str
    number: int | None = None
    level: str | None = None
    time: float | None = None
    node: str = ""
    matches: tuple[tuple[int, int], ...] = ()
    current: int = -1
    note: bool = False


@dataclass(frozen=True, slots=True)
class Gutter:
    """Where the pane stands in the file.

    Attributes:
        start, end: The part of the file that is shown, 0 to 1.
        marks: (place from 0 to 1, "critical", "warning" or "accent").
    """

    start: float
    end: float
    marks: tuple[tuple[float, str], ...] = ()


@dataclass(frozen=True, slots=True)
class _Layout:
    number: int
    time: bool
    node: int
    text: int
    end: int


def _layout(lines: Sequence[PaneLine], width: int, gutter: bool) -> _Layout:
    number = max((len(units.count(line.number)) for line in lines if line.number is not None), default=0)
    time = any(line.time is not None for line in lines)
    node = min(20, max((len(line.node) for line in lines), default=0))
    end = width - (3 if gutter else 1)
    at = 1 + (number + 2 if number else 0) + (10 if time else 0) + (node + 2 if node else 0)
    if at > width // 2:
        number, time, node, at = 0, False, 0, 1
    return _Layout(number, time, node, at + 2, end)


def _wrapped(line: PaneLine, room: int, limit: int) -> list[list[Span]]:
    """The line's spans in pieces of `room` cells; what goes beyond `limit` pieces ends with `…`."""
    spans = highlight(log_spans(line.text, line.level), line.matches, current=line.current)
    rows: list[list[Span]] = [[]]
    used = 0
    for text, token in spans:
        piece: list[str] = []
        cells = graphemes(text)
        for index, char in enumerate(cells):
            size = 2 if index + 1 < len(cells) and cells[index + 1] == "" else 0 if char == "" else 1
            if used + size > room:
                if piece:
                    rows[-1].append(("".join(piece), token))
                    piece = []
                if len(rows) >= limit:
                    pen = Pen(room)
                    pen.spans(0, rows[-1])
                    pen.put(room - 1, "…", "muted")
                    rows[-1] = pen.row()
                    return rows
                rows.append([])
                used = 0
            piece.append(char)
            used += size
        if piece:
            rows[-1].append(("".join(piece), token))
    return rows


def line_height(
    line: PaneLine, lines: Sequence[PaneLine], width: int, *, gutter: bool = True, wrap: bool = True
) -> int:
    """Rows that a line takes in a pane of that width."""
    if line.note or not wrap:
        return 1
    layout = _layout(lines, width, gutter)
    room = max(1, layout.end - layout.text)
    return len(_wrapped(line, room, MAX_WRAP))


def _note(line: PaneLine, width: int) -> Row:
    pen = Pen(width)
    text = clean(line.text)
    side = 6
    start = max(1, (width - len(text)) // 2 - side - 1)
    pen.fill(start, start + side, "─", "faint")
    at = pen.put(start + side + 1, text, "muted", width - 1)
    pen.fill(at + 1, min(at + 1 + side, width - 1), "─", "faint")
    return pen.row()


def draw_log_pane(
    lines: Sequence[PaneLine],
    width: int,
    height: int,
    *,
    selected: int | None = None,
    gutter: Gutter | None = None,
    wrap: bool = True,
    focused: bool = True,
) -> list[Row]:
    """The lines from the top on, as many as fit.

    Args:
        selected: Index of the selected line; None for no selection.
        wrap: False cuts long lines with `…`.
    """
    if width < 1 or height < 1:
        return []
    layout = _layout(lines, width, gutter is not None)
    room = max(1, layout.end - layout.text)
    rows: list[Row] = []
    for index, line in enumerate(lines):
        left = height - len(rows)
        if left <= 0:
            break
        if line.note:
            rows.append(_note(line, width))
            continue
        chosen = selected == index and focused
        pieces = _wrapped(line, room, min(left, MAX_WRAP) if wrap else 1)
        background = ("tint-critical" if line.level in ("ERROR", "FATAL") else "selected") if chosen else ""
        for number, piece in enumerate(pieces):
            pen = Pen(width)
            if number == 0:
                _prefix(pen, line, layout)
            pen.spans(layout.text, piece, layout.end)
            if chosen:
                for at in range(min(layout.end + 1, width)):
                    pen.tokens[at] = (pen.tokens[at] or "text") + "+" + background
                pen.put(0, "▌", "accent+" + background)
            rows.append(pen.row())
    if gutter is not None:
        rows = _with_gutter(rows, width, height, gutter)
    return rows[:height]


def _prefix(pen: Pen, line: PaneLine, layout: _Layout) -> None:
    at = 1
    if layout.number:
        if line.number is not None:
            pen.right(at + layout.number, units.count(line.number), "muted")
        at += layout.number + 2
    if layout.time:
        if line.time is not None:
            pen.put(at, units.clock(line.time), "muted")
        at += 10
    if layout.node:
        pen.put(at, line.node[: layout.node], "muted")
        at += layout.node + 2
    glyph = LEVEL_GLYPHS.get(line.level or "")
    if glyph is not None:
        pen.put(layout.text - 2, glyph[0], glyph[1])


def _with_gutter(rows: list[Row], width: int, height: int, gutter: Gutter) -> list[Row]:
    def place(share: float) -> int:
        return max(0, min(height - 1, int(max(0.0, min(1.0, share if share == share else 0.0)) * height)))

    first, last = place(gutter.start), max(place(gutter.start), place(gutter.end - 1e-9))
    marks = {place(at): token for at, token in gutter.marks}
    out: list[Row] = []
    for y in range(height):
        pen = Pen(width)
        if y < len(rows):
            pen.spans(0, rows[y])
        inside = first <= y <= last
        pen.put(width - 2, "┃" if inside else "│", "accent" if inside else "faint")
        if y in marks:
            token = marks[y]
            glyph = {"critical": "✗", "warning": "▲"}.get(token, "◆")
            pen.put(width - 2, glyph, token + "+bold")
        out.append(pen.row())
    return out


def find_matches(text: str, pattern: str) -> tuple[tuple[int, int], ...]:
    """Where a search matches: a regular expression where it is one, else plain text; small letters match both cases."""
    if not pattern:
        return ()
    flags = re.IGNORECASE if pattern == pattern.lower() else 0
    try:
        compiled = re.compile(pattern, flags)
    except (re.error, OverflowError, RecursionError):
        compiled = re.compile(re.escape(pattern), flags)
    spans = (match.span() for match in compiled.finditer(text[:_SEARCHED]))
    return tuple(islice(((start, end) for start, end in spans if end > start), 100))


class LogPane(Instrument, can_focus=True):
    """Text of a log file. The log screen feeds it with the lines of its window."""

    DEFAULT_CSS = "LogPane { height: 1fr; }"

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._lines: Sequence[PaneLine] = ()
        self._selected: int | None = None
        self._gutter: Gutter | None = None
        self._wrap = False

    def show(
        self,
        lines: Sequence[str | PaneLine],
        selected: int | None = None,
        pattern: str = "",
        column: int = 0,
        *,
        gutter: Gutter | None = None,
        wrap: bool = False,
    ) -> None:
        """Shows lines from the top of the pane on.

        Args:
            lines: Plain texts, or lines with number, level and matches.
            selected: Index of the selected line.
            pattern: What is searched; its matches are marked in lines that carry none of their own.
            column: First character shown of each line, for lines longer than the pane.
            gutter: Where the pane stands in the file.
            wrap: Long lines take more rows instead of being cut.
        """
        self._lines = [pane_line(line, pattern, column) for line in lines]
        self._selected, self._gutter, self._wrap = selected, gutter, wrap
        self.redraw()

    def draw(self, width: int, height: int) -> list[Row]:
        return draw_log_pane(self._lines, width, height, selected=self._selected, gutter=self._gutter, wrap=self._wrap)


def pane_line(line: str | PaneLine, pattern: str = "", column: int = 0) -> PaneLine:
    """A plain text as a line of the pane: its level guessed from its words, matches marked, cut on the left."""
    if isinstance(line, str):
        found = _LEVEL.search(line[:_LEVEL_WITHIN])
        line = PaneLine(line, level=_LEVELS[found.group(1).upper()] if found else None)
    if pattern and not line.matches:
        line = replace(line, matches=find_matches(line.text, pattern))
    if column > 0:
        moved = tuple((start - column, end - column) for start, end in line.matches if end > column)
        line = replace(line, text=line.text[column:], matches=moved)
    return line
