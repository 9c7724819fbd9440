"""What tools such as nvidia-smi and iostat print into a log, as records like those that instruments make."""

from __future__ import annotations

from typing import Any

from trainmon.model import record_of
from trainmon.parsing.blocks import Blocks
from trainmon.parsing.cells import MAX_LINE, Reading, Scene
from trainmon.parsing.clean import decode
from trainmon.parsing.lines import LineReader
from trainmon.parsing.prefix import Prefix


class ToolReader(LineReader):
    """A reader of lines that also knows the output of tools."""

    def _reset(self) -> None:
        super()._reset()
        self._blocks = Blocks()

    def _inner(self, data: bytes, past: bytes = b"") -> None:
        """A line that was not looked at yet: the last one of a file, and lines inside of lines."""
        if self._own.on and self._own.might(data) and self._own_line(data):
            return
        if not ((self._blocks.open or self._blocks.here(data)) and self._tool(data, past)):
            self._segment(data)

    def _said(self, text: str, message: str, prefix: Prefix) -> None:
        """A header may hold words that trainings use, too: a folder, a user's name."""
        raw = text.encode("utf-8", "replace")
        if not (self._blocks.here(raw) and self._tool(raw, b"")):
            super()._said(text, message, prefix)

    def _docker(self, found: dict[str, Any]) -> None:
        if self._blocks.open and not found["log"].strip():
            self._blank()
        super()._docker(found)

    def _row(self, line: bytes, piece: bytes) -> bool:
        """True when a line of a piece belongs to what is open (or begins something while that is)."""
        return self._blocks.might(line) and (self._begins(line, piece) or self._tool(line, b""))

    def _begins(self, line: bytes, piece: bytes) -> bool:
        """True when some tool's output begins at this line of a piece."""
        if not self._blocks.here(line):
            return False
        return self._tool(line, self._blocks.before(piece, self.lines))

    def _tool(self, data: bytes, past: bytes) -> bool:
        """True when the line is the output of some tool that measures machines.

        Args:
            past: The bytes before it.
        """
        if len(data) > 4 * MAX_LINE:
            return False
        latest = self._time if self._time is not None else self.mtime
        line = self.lines + 1 if self._numbered else 0
        scene = Scene(line, self._line_start, self.node or "", latest or 0.0, self.mtime, self._outer_time, past)
        readings = self._blocks.line(decode(data), scene)
        for reading in readings or ():
            self._reading(reading)
        return readings is not None

    def _blank(self) -> None:
        """An empty line."""
        for reading in self._blocks.blank():
            self._reading(reading)

    def _unheld(self) -> None:
        """Nothing more comes for now."""
        for reading in self._blocks.close():
            self._reading(reading)

    def _reading(self, reading: Reading) -> None:
        record = record_of(reading.sample, self.source, reading.line, reading.offset)
        record.format = reading.format
        record.rank, record.local_rank = reading.prefix.rank, reading.prefix.local_rank
        if record.rank is None:
            record.rank = record.local_rank
        if record.rank is None:
            record.rank, record.local_rank = self.rank, self.local_rank
        if self._labels:
            record.labels.update(self._labels)
        if reading.note:
            record.extra[reading.note] = 1
        before = self._time
        if not reading.dated:
            record.extra["time_guess"] = True
            record.time = record.time or None
        self._emit(record)
        if not reading.dated:
            self._time = before
        if self.format is None:
            self.format = reading.format
