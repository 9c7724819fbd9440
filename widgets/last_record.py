"""The last record: the newest line of all logs as it stands, so that one sees that the run is alive."""

from __future__ import annotations

from trainmon.snapshot import LogLine
from trainmon.widgets.logtext import LEVEL_GLYPHS, log_spans
from trainmon.widgets.paint import Instrument, Pen, Row, cut
from trainmon.widgets.parts import spans_width


def draw_last_record(last: LogLine | None, width: int, height: int = 1) -> list[Row]:
    """One row: who wrote it, and the line."""
    if width < 1 or height < 1:
        return []
    pen = Pen(width)
    end = width - 1
    if last is None:
        pen.put(1, cut("no line yet", width - 2), "muted")
        return [pen.row()]
    at = 1
    glyph = LEVEL_GLYPHS.get(last.level or "")
    if glyph is not None:
        at = pen.put(at, glyph[0], glyph[1], end) + 1
    if last.node:
        at = pen.put(at, cut(last.node, max(0, min(24, width // 3))), "muted", end) + 2
    if at >= end:
        return [pen.row()]
    spans = log_spans(last.text, last.level)
    pen.spans(at, spans, end)
    if at + spans_width(spans) > end:
        pen.put(end - 1, "…", "muted")
    return [pen.row()]


class LastRecord(Instrument):
    """The newest line of the log, above the footer."""

    DEFAULT_CSS = "LastRecord { height: 1; }"

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._last: LogLine | None = None

    def show(self, last: LogLine | None) -> None:
        """Shows the newest line."""
        self._last = last
        self.redraw()

    def draw(self, width: int, height: int) -> list[Row]:
        return draw_last_record(self._last, width, height)
