"""The base of all instruments: it draws rows of cells and repaints only what changed.

An instrument's `draw(width, height)` gives rows; `paint` compares them with those on screen and asks for one region a
changed row, from its first to its last changed cell. Column 0 of every instrument is the margin in which the
mark of the selected entry stands, the last column is the margin on the right. The background is never painted.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from trainmon.widgets.cells import Pen, Row, Span, clean, cut, expand, fit, graphemes, plain, width_of
from trainmon.widgets.palette import DARK, HEALTH_GLYPHS, HEALTH_TOKENS, Palette, palette, to_ascii

__all__ = [
    "DARK",
    "HEALTH_GLYPHS",
    "HEALTH_TOKENS",
    "Instrument",
    "Palette",
    "Pen",
    "Row",
    "Span",
    "changed_span",
    "clean",
    "cut",
    "expand",
    "fit",
    "graphemes",
    "palette",
    "plain",
    "strip_of",
    "to_ascii",
    "width_of",
]

Cell = tuple[str, str]
_BLANK: Cell = (" ", "")


def changed_span(old: Sequence[Cell], new: Sequence[Cell]) -> tuple[int, int] | None:
    """First changed column and the one behind the last, whole wide characters; None when nothing changed."""
    length = len(new)
    if len(old) != length:
        return (0, length) if length else None
    first = 0
    while first < length and old[first] == new[first]:
        first += 1
    if first == length:
        return None
    last = length - 1
    while old[last] == new[last]:
        last -= 1
    while first > 0 and (new[first][0] == "" or old[first][0] == ""):
        first -= 1
    while last + 1 < length and (new[last + 1][0] == "" or old[last + 1][0] == ""):
        last += 1
    return first, last + 1


_MOVE = 36
"""Bytes that a second stretch of a row costs about: going there, colour on, colour off."""
_COLOUR = 24
"""Bytes of a change of colour."""


def changed_spans(old: Sequence[Cell], new: Sequence[Cell]) -> list[tuple[int, int]]:
    """The changed stretches of a row, left to right: two where what lies between costs more than a second start."""
    whole = changed_span(old, new)
    if whole is None or len(old) != len(new):
        return [] if whole is None else [whole]
    out: list[tuple[int, int]] = []
    begun, end = whole[0], whole[0] + 1
    cost, token = 0, new[whole[0]][1]
    for at in range(whole[0] + 1, whole[1]):
        char, wanted = new[at]
        if wanted != token and char != " ":
            cost += _COLOUR
            token = wanted
        if old[at] == new[at]:
            cost += 1 if char <= "~" else 3
            continue
        start = at
        while start > end and (new[start][0] == "" or old[start][0] == ""):
            start -= 1
        if start > end and cost > _MOVE:
            out.append((begun, end))
            begun = start
        end, cost = at + 1, 0
        while end < whole[1] and (new[end][0] == "" or old[end][0] == ""):
            end += 1
    return [*out, (begun, whole[1])]


def strip_of(cells: Sequence[Cell], colours: Palette) -> Strip:
    """The cells as a strip, neighbours of one style joined."""
    segments: list[Segment] = []
    style_of = colours.style
    text: list[str] = []
    style: Style | None = None
    seen: str | None = None
    for index, (char, token) in enumerate(cells):
        if colours.ascii:
            # The second half of a wide character is a cell of its own here.
            char = to_ascii(char, token) if char else "?"
        elif char == "" and index == 0:
            char = " "
        if token != seen:
            wanted = style_of(token)
            if char == " " and style is not None and _bare(wanted) and _bare(style):
                # A blank has no colour: it goes with its neighbour, which saves an escape sequence.
                text.append(char)
                continue
            seen = token
            if wanted != style:
                if text:
                    segments.append(Segment("".join(text), style))
                    text = []
                style = wanted
        text.append(char)
    if text:
        segments.append(Segment("".join(text), style))
    return Strip(segments, len(cells))


def _bare(style: Style) -> bool:
    """True where a blank in this style looks like any other blank."""
    return style.bgcolor is None and not style.reverse


class Instrument(Widget):
    """A widget that draws rows of cells. Subclasses keep what they show and implement `draw`.

    The app may carry `palette: Palette` as the attribute `trainmon_palette`; without it the dark one is used.
    """

    DEFAULT_CSS = """
    Instrument { background: transparent; padding: 0; margin: 0; border: none; overflow: hidden; }
    """
    ALLOW_SELECT = False

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._cells: list[list[Cell]] = []
        self._rows: list[Row] = []
        self._strips: list[Strip | None] = []
        self._width = 0
        self._palette: Palette | None = None

    @property
    def palette(self) -> Palette:
        """The colours in force."""
        found = getattr(self.app, "trainmon_palette", None) if self.is_attached else None
        return found if isinstance(found, Palette) else DARK

    @property
    def enter(self) -> str:
        """How the Enter key is written here."""
        return "Enter" if self.palette.ascii else "⏎"

    def draw(self, width: int, height: int) -> list[Row]:
        """The rows of the present state; at most `height`, each at most `width` cells."""
        return []

    def redraw(self) -> None:
        """Draws the present state and repaints what differs from the screen."""
        width, height = self.size
        if width > 0 and height > 0:
            self.paint(self.draw(width, height))

    def paint(self, rows: Sequence[Row]) -> None:
        """Puts rows on screen: one region a changed stretch of a row."""
        width, height = self.size
        colours = self.palette
        if width != self._width or height != len(self._cells) or colours is not self._palette:
            self._width, self._palette = width, colours
            self._rows = [[] for _ in range(height)]
            self._cells = [[_BLANK] * width for _ in range(height)]
            self._strips = [None] * height
            whole = True
        else:
            whole = False
        regions: list[Region] = []
        for y in range(height):
            row = rows[y] if y < len(rows) else []
            if row == self._rows[y]:
                continue
            self._rows[y] = row
            # Blanks without a background are all the same cell, whatever their token.
            cells = [cell if cell[0] != " " or "+" in cell[1] else _BLANK for cell in expand(row, width)]
            spans = changed_spans(self._cells[y], cells)
            if not spans:
                continue
            self._cells[y] = cells
            self._strips[y] = None
            regions += (Region(first, y, end - first, 1) for first, end in spans)
        if whole:
            self.refresh()
        elif regions:
            self.refresh(*regions)

    def render_line(self, y: int) -> Strip:
        """The strip of one row, made once and kept until the row changes."""
        if not 0 <= y < len(self._strips):
            return Strip.blank(self.size.width)
        strip = self._strips[y]
        if strip is None:
            strip = self._strips[y] = strip_of(self._cells[y], self._palette or DARK)
        return strip

    def render_lines(self, crop: Region) -> list[Strip]:
        # Past Textual's style cache: it would write a background colour (49) into every segment.
        x, y, width, height = crop
        whole = x == 0 and width == self._width
        out: list[Strip] = []
        for line in range(y, y + height):
            strip = self.render_line(line)
            out.append(strip if whole else strip.crop(x, x + width))
        return out

    def rows_text(self) -> list[str]:
        """What is on screen as plain text, for tests and for copying."""
        return ["".join(char for char, _ in cells) for cells in self._cells]

    def on_resize(self) -> None:
        self.redraw()

    def watch_has_focus(self, has_focus: bool) -> None:
        super().watch_has_focus(has_focus)
        self.redraw()
