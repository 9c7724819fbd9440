"""Rows of styled text on the terminal's cell grid: measuring, cutting, placing. Pure; no Textual.

A row is a list of spans (text, token). Tokens are names of the style guide with modifiers behind `+`
("critical+bold+tint-critical"); `trainmon.widgets.palette` turns them into colours.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

from rich.cells import get_character_cell_size

Span = tuple[str, str]
Row = list[Span]

ELLIPSIS = "…"

# Text that needs no look: one cell a character, nothing that could move the cursor.
_PLAIN = re.compile(r"[\x20-\x7e\u00a1-\u00ac\u00ae-\u02ff\u0370-\u0377\u0391-\u03ff\u2010-\u2027\u2030-\u205e"
                    r"\u2190-\u21ff\u2200-\u22ff\u23ce\u2500-\u25ff\u2713\u2717\u2800-\u28ff]*\Z")  # fmt: skip

_DROPPED = {"Cf", "Cs", "Co", "Cn"}
"""Categories without a reliable width: format marks (bidi, joiners), surrogates, private use, unassigned."""


def clean(text: str) -> str:
    """The text without anything that a terminal would obey or measure differently than we do.

    Control characters become `·`, tabs a space; joiners, direction marks, variation selectors and skin tones go.
    """
    if _PLAIN.match(text):
        return text
    out: list[str] = []
    for char in text:
        if " " <= char <= "~":
            out.append(char)
            continue
        category = unicodedata.category(char)
        if char in "\t\n\r":
            out.append(" ")
        elif category == "Cc":
            out.append("·")
        elif category in _DROPPED or "\ufe00" <= char <= "\ufe0f" or "\U0001f3fb" <= char <= "\U0001f3ff":
            continue
        elif category in ("Zs", "Zl", "Zp"):
            out.append(" " * max(1, get_character_cell_size(char)))
        else:
            out.append(char)
    return "".join(out)


def graphemes(text: str) -> list[str]:
    """One entry a cell: a character with its combining marks; the second cell of a wide one is an empty string."""
    if _PLAIN.match(text):
        return list(text)
    out: list[str] = []
    last = -1
    for char in clean(text):
        size = 1 if char <= "~" else get_character_cell_size(char)
        if size == 0:
            if last >= 0 and len(out[last]) < 8:
                out[last] += char
            continue
        last = len(out)
        out.append(char)
        if size == 2:
            out.append("")
    return out


def width_of(text: str) -> int:
    """Cells that the text takes once it is cleaned."""
    return len(text) if _PLAIN.match(text) else len(graphemes(text))


def cut(text: str, width: int, *, ellipsis: bool = True) -> str:
    """The text in at most `width` cells; what is cut ends with `…`. A wide character is never split."""
    if width <= 0:
        return ""
    cells = graphemes(text)
    if len(cells) <= width:
        return "".join(cells)
    kept = cells[: width - 1] if ellipsis else cells[:width]
    end = len(kept)
    # A wide head whose second half would be cut off goes as a whole.
    if end < len(cells) and cells[end] == "" and kept:
        kept.pop()
    return "".join(kept) + (ELLIPSIS if ellipsis else "")


class Pen:
    """One row of cells to write on. Whatever falls outside is clipped; nothing raises.

    Args:
        width: Cells of the row.
        background: Modifier for every cell, such as "selected" or "tint-critical"; empty for none.
    """

    __slots__ = ("chars", "tokens", "width")

    def __init__(self, width: int, background: str = "") -> None:
        self.width = max(0, width)
        self.chars = [" "] * self.width
        self.tokens = ["text+" + background if background else ""] * self.width

    def put(self, x: int, text: str, token: str = "text", limit: int | None = None) -> int:
        """Writes from column `x` on and returns the column behind the text; nothing at or behind `limit`."""
        stop = self.width if limit is None else min(limit, self.width)
        chars, tokens = self.chars, self.tokens
        cells = graphemes(text)
        written = -1
        for index, char in enumerate(cells):
            at = x + index
            if at >= stop:
                break
            if at < 0:
                continue
            if char == "":
                # The second half of a wide character whose first half was clipped.
                char = "" if written == at - 1 and written >= 0 else " "
            elif index + 1 < len(cells) and cells[index + 1] == "" and at + 1 >= stop:
                char = " "
            if written < 0 and chars[at] == "" and at > 0:
                chars[at - 1] = " "
            chars[at] = char
            tokens[at] = token
            written = at
        if 0 <= written < self.width - 1 and chars[written + 1] == "":
            chars[written + 1] = " "
        return x + len(cells)

    def right(self, end: int, text: str, token: str = "text") -> int:
        """Writes so that the text ends before column `end`; returns its first column."""
        start = end - width_of(text)
        self.put(start, text, token)
        return start

    def spans(self, x: int, spans: Iterable[Span], limit: int | None = None) -> int:
        """Writes several spans one behind the other."""
        for text, token in spans:
            x = self.put(x, text, token, limit)
        return x

    def fill(self, start: int, end: int, char: str, token: str) -> None:
        """Fills the columns from `start` up to `end` with one character."""
        if end > start:
            self.put(start, char * (min(end, self.width) - start), token)

    def shade(self, start: int, end: int, modifier: str) -> None:
        """Adds a modifier (a tint) to the tokens of a stretch of cells."""
        for at in range(max(0, start), min(end, self.width)):
            token = self.tokens[at] or "text"
            if modifier not in token:
                self.tokens[at] = f"{token}+{modifier}"

    def row(self) -> Row:
        """The cells as spans, neighbours of one token joined."""
        out: Row = []
        chars, tokens = self.chars, self.tokens
        start = 0
        width = self.width
        while start < width:
            token = tokens[start]
            end = start + 1
            while end < width and tokens[end] == token:
                end += 1
            out.append(("".join(chars[start:end]), token))
            start = end
        return out


def plain(row: Sequence[Span]) -> str:
    """The row's text without tokens."""
    return "".join(text for text, _ in row)


def fit(row: Sequence[Span], width: int) -> Row:
    """The row in exactly `width` cells: clipped, or filled with blanks."""
    pen = Pen(width)
    pen.spans(0, row)
    return pen.row()


def expand(row: Sequence[Span], width: int) -> list[tuple[str, str]]:
    """One (character, token) a cell, exactly `width` of them: what the terminal will show."""
    cells: list[tuple[str, str]] = []
    for text, token in row:
        if not text:
            continue
        cells.extend((char, token) for char in graphemes(text))
        if len(cells) >= width:
            break
    if len(cells) > width:
        del cells[width:]
        if cells and width_of(cells[-1][0]) == 2:
            cells[-1] = (" ", cells[-1][1])
    elif len(cells) < width:
        cells.extend([(" ", "")] * (width - len(cells)))
    return cells
