"""The log tail: the last lines of the file that spoke last, where rows are left over."""

from __future__ import annotations

from collections.abc import Sequence

from trainmon import units
from trainmon.snapshot import LogLine
from trainmon.widgets.logtext import LEVEL_GLYPHS, log_spans
from trainmon.widgets.paint import Instrument, Pen, Row
from trainmon.widgets.parts import heading, spans_width


def draw_log_tail(
    tail: Sequence[LogLine], width: int, height: int, *, focused: bool = False, name: str = ""
) -> list[Row]:
    """Heading and as many of the last lines as fit, newest last.

    Args:
        name: The file's name; without it the node of the newest line is said.
    """
    if width < 1 or height < 1:
        return []
    who = name or (tail[-1].node if tail else "")
    note = f"last lines of {who}" if who else ""
    rows = [heading(width, "log", [[(note, "muted")]], "following" if width >= 60 else "", focused=focused)]
    end = width - 1
    shown = tail[len(tail) - min(len(tail), height - 1) :] if height > 1 else ()
    timed = any(line.time is not None for line in shown)
    for line in shown:
        pen = Pen(width)
        at = 1
        if timed:
            pen.put(1, units.clock(line.time), "muted", end)
            at = 11
        glyph = LEVEL_GLYPHS.get(line.level or "")
        if glyph is not None:
            at = pen.put(at, glyph[0], glyph[1], end) + 1
        spans = log_spans(line.text, line.level)
        pen.spans(at, spans, end)
        if at + spans_width(spans) > end and end > at:
            pen.put(end - 1, "…", "muted")
        rows.append(pen.row())
    return rows[:height]


class LogTail(Instrument, can_focus=True):
    """The last lines of one file."""

    DEFAULT_CSS = "LogTail { height: 1fr; }"

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._tail: Sequence[LogLine] = ()
        self._file = ""

    @property
    def current(self) -> LogLine | None:
        """The newest line."""
        return self._tail[-1] if self._tail else None

    def show(self, tail: Sequence[LogLine], name: str = "") -> None:
        """Shows the last lines, newest last."""
        self._tail, self._file = tail, name
        self.redraw()

    def draw(self, width: int, height: int) -> list[Row]:
        return draw_log_tail(self._tail, width, height, focused=self.has_focus, name=self._file)
