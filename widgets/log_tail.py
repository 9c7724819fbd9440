"""The log tail: the last lines of the file that spoke last, where rows are left over."""

from __future__ import annotations

from collections.abc import Sequence

from trainmon.snapshot import LogLine
from trainmon.widgets.last_record import draw_line
from trainmon.widgets.paint import Instrument, Pen, Row
from trainmon.widgets.parts import heading


def draw_log_tail(
    tail: Sequence[LogLine], width: int, height: int, *, focused: bool = False, name: str = "", several: bool = False
) -> list[Row]:
    """Heading and as many of the last lines as fit, newest last.

    Args:
        name: The file's name; without it the node of the newest line is said.
        several: Says the writer in each row, as the row of the last record below does.
    """
    if width < 1 or height < 1:
        return []
    who = name or (tail[-1].node if tail else "")
    note = f"last lines of {who}" if who else ""
    rows = [heading(width, "log", [[(note, "muted")]], "following" if width >= 60 else "", focused=focused)]
    for line in tail[len(tail) - min(len(tail), height - 1) :] if height > 1 else ():
        pen = Pen(width)
        draw_line(pen, line, several=several, timed=True)
        rows.append(pen.row())
    # It ends at the bottom: the row of the last record goes on from there.
    return [Pen(width).row() for _ in range(height - len(rows))] + rows[:height]


class LogTail(Instrument, can_focus=True):
    """The last lines of one file."""

    DEFAULT_CSS = "LogTail { height: 1fr; }"

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._tail: Sequence[LogLine] = ()
        self._file = ""
        self._several = False

    @property
    def current(self) -> LogLine | None:
        """The newest line."""
        return self._tail[-1] if self._tail else None

    def show(self, tail: Sequence[LogLine], name: str = "", several: bool = False) -> None:
        """Shows the last lines, newest last."""
        self._tail, self._file, self._several = tail, name, several
        self.redraw()

    def draw(self, width: int, height: int) -> list[Row]:
        return draw_log_tail(self._tail, width, height, focused=self.has_focus, name=self._file, several=self._several)
