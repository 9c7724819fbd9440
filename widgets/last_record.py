"""The last record: the newest line of all logs as it stands, so that one sees that the run is alive."""

from __future__ import annotations

from trainmon import units
from trainmon.snapshot import LogLine
from trainmon.widgets.logtext import LEVEL_GLYPHS, log_spans, without_prefix
from trainmon.widgets.paint import Instrument, Pen, Row, cut
from trainmon.widgets.parts import spans_width


def draw_last_record(last: LogLine | None, width: int, height: int = 1, *, several: bool = True) -> list[Row]:
    """One row: when it was written and who wrote it, and the line.

    Args:
        several: There is more than one who could have written it; else the name is left out.
    """
    if width < 1 or height < 1:
        return []
    pen = Pen(width)
    if last is None:
        pen.put(1, cut("no line yet", width - 2), "muted")
    else:
        draw_line(pen, last, several=several)
    return [pen.row()]


def draw_line(pen: Pen, line: LogLine, *, several: bool, timed: bool = False) -> None:
    """A line of a log: clock, name, glyph of a bad level, text. Rows below each other share their columns.

    Args:
        several: Say who wrote it.
        timed: Give the time at which it came to a line that says none itself.
    """
    end = pen.width - 1
    at = 1
    clock, level, text = without_prefix(line.text)
    level = line.level or level
    if not clock and timed and line.time is not None:
        clock = units.clock(line.time)
    if clock and pen.width >= 60:
        at = pen.put(at, clock, "muted", end) + 2
    if several and line.node:
        at = pen.put(at, cut(line.node, max(0, min(24, pen.width // 3))), "muted", end) + 2
    glyph = LEVEL_GLYPHS.get(level or "")
    if glyph is not None:
        at = pen.put(at, glyph[0], glyph[1], end) + 1
    if at >= end:
        return
    spans = log_spans(text, level)
    pen.spans(at, spans, end)
    if at + spans_width(spans) > end:
        pen.put(end - 1, "…", "muted")


class LastRecord(Instrument):
    """The newest line of the log, above the footer."""

    DEFAULT_CSS = "LastRecord { height: 1; }"

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._last: LogLine | None = None
        self._several = True

    def show(self, last: LogLine | None, several: bool = True) -> None:
        """Shows the newest line, with its writer where there are `several`."""
        self._last, self._several = last, several
        self.redraw()

    def draw(self, width: int, height: int) -> list[Row]:
        return draw_last_record(self._last, width, height, several=self._several)
