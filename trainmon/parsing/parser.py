"""One log file -> records: splitting, and the cheap tests that decide which lines are looked at.

The same bytes give the same records in whatever chunks they come.
"""

from __future__ import annotations

from trainmon.model import Level, Record
from trainmon.parsing import detect
from trainmon.parsing.bulk import BulkReader
from trainmon.parsing.classifier import Classifier, Hit
from trainmon.parsing.clean import shown, strip_codes
from trainmon.parsing.encodings import BOM, Wide, wide_of
from trainmon.parsing.line import NO_PREFIX, Line
from trainmon.parsing.prefix import Prefix, peel
from trainmon.parsing.splitter import LIMIT, Splitter

__all__ = ["Classifier", "FileParser", "Hit"]

_PIECE = 4096
OURS = "a fault of trainmon"
"""Reason of a quarantined line that nothing is wrong with."""


class FileParser(BulkReader):
    """Parses one file (or stream) as it grows.

    Args:
        source: Name of the source, as records carry it; node and rank are read from it.
        formats: Formats to use instead of the built-in ones.
        tags: Labels for every record (`job_id`, `model_name`, ...).
        classify: Knows error codes; without it every error is UNKNOWN_ERROR or GENERIC_TRACEBACK.
        mtime: The file's time, Unix seconds, for times without year or date.
        node: Node of the file, when the caller knows it.
        keep_log: Also give `log` records of INFO and DEBUG lines.
        numbered: False for a part of a file whose line numbers are not known: `line` is 0 then.

    Attributes:
        format: Name of the format that read the newest record.
        lines: Lines that ended so far.
        quarantined: Lines that looked like a record and could not be read.
        total_steps: Length of the training, when a banner or a record said it.
        mtime: May be set anew at any time.
    """

    def _reset(self) -> None:
        super()._reset()
        self._splitter = Splitter()
        self._wide: Wide | None = None
        self._looked = False
        self._expected = 0
        self._raw = b""
        self._newest: Prefix | None = None
        self._known: bool | None = None
        self._literals: list[bytes] | None = None
        self._signs = detect.signs(tuple(rule.needs for known in self._patterns.formats for rule in known.lines))

    # ------------------------------------------------------------ the interface

    def feed(self, data: bytes, offset: int) -> list[Record]:
        """Parse the next bytes.

        Args:
            data: As read from the file.
            offset: Where they begin in this generation. A jump drops the half line before it.

        Returns:
            The records that are complete now, in file order.
        """
        self._out = []
        if offset != self._expected:
            self._splitter.take()
            self._groups.lost()
            self._joiner.lost()
            self._blocks.half = b""
            self._line_start = offset
            if self._wide is not None:
                self._wide.jump(offset)
        self._expected = offset + len(data)
        if not self._looked and data:
            self._looked = True
            if (name := wide_of(data, offset)) is not None:
                self._wide = Wide(name)
                self._wide.jump(offset)
        if self._wide is not None:
            data = self._wide.feed(data, offset)
        block, after = self._splitter.feed(data)
        if block:
            end = self._expected - after
            self._block(block, end)
        rest = self._splitter.rest
        if rest:
            whole = b"%|" in rest and rest.rstrip().endswith(b"]") and b"[default" not in rest[1:]
            if self._bars.held and whole and self._bars.resolve(rest):
                self._out += self._finish_held(self._bars.take())
            if rest.strip():
                self._note(rest)
        return self._out

    def finish(self) -> list[Record]:
        """Nothing follows: parse the last line even without its end, and give what was held back.

        When something follows after all, a traceback that was open goes on, and is told again with its end.
        """
        self._out = []
        rest = self._splitter.take()
        if rest:
            clean = strip_codes(rest)
            self._inner(clean, self._blocks.past)
            self.lines += 1
            self._line_start = self._expected
            self._blocks.passed(clean + b"\n", self.lines)
        self._out += self.settle()
        for stream, block in self._tracebacks.untold():
            self._traceback(stream, block, None, "")
        return self._out

    def settle(self) -> list[Record]:
        """Give what waits for a progress bar, with the step that can be told without one.

        For a source that fell silent: a caller that follows it live may ask after a second without bytes.
        """
        out = self._finish_held(self._bars.release())
        waits = self._groups.open or self._joiner.open or self._java.open or self._bar or self._aside
        if self._blocks.open or waits:
            before, self._out = self._out, []
            self._java_ended()
            if self._joiner.open:
                self._read_joined()
            self._unheld()
            self._bar_told()
            self._alone()
            self._rows(self._groups.close())
            out, self._out = out + self._out, before
        return out

    def restart(self, generation: int) -> list[Record]:
        """A new generation of the file begins at offset 0.

        Returns:
            What was held back of the old one.
        """
        left = self.finish()
        self._reset()
        return left

    @property
    def last_line(self) -> str:
        """Newest line, complete or not, safe to show."""
        return shown(self._raw)

    @property
    def progress(self) -> tuple[int, int] | None:
        """Steps done and steps in all, from the training's own progress bar; None without one."""
        return self._bars.progress(self._raw)

    @property
    def last_level(self) -> Level | None:
        """Level of the newest line, None when it names none."""
        return self._peeled().level

    @property
    def last_time(self) -> float | None:
        """Newest time that a line carried, Unix seconds."""
        newest = self._peeled().time
        return newest if newest is not None else self._time

    @property
    def nul_bytes(self) -> int:
        """NUL bytes that were skipped."""
        return self._splitter.holes

    @property
    def long_lines(self) -> int:
        """Lines of which only the first megabyte was parsed."""
        return self._splitter.cut

    def _peeled(self) -> Prefix:
        if self._newest is None:
            self._newest = (
                peel(shown(self._raw), self.mtime) if not self._raw.lstrip().startswith(b"{") else self._json_peeled()
            )
        return self._newest

    def _json_peeled(self) -> Prefix:
        found = self._json.decode(self._raw.strip())
        prefix = Prefix()
        if found is not None:
            record = Record("log", self.source)
            self._json.read(record, found)
            prefix.time, prefix.level = record.time, record.level
        return prefix

    # ------------------------------------------------------------ blocks and lines

    def _note(self, raw: bytes) -> None:
        self._raw = raw
        self._newest = None

    def _block(self, block: bytes, end: int) -> None:
        """Whole segments that end at file offset `end`."""
        start, size = 0, len(block)
        begin = end - size if self._wide is None else self._wide.at  # where the first line goes on, if it began before
        while start < size:
            stop = size if size - start <= _PIECE else (block.find(b"\n", start + _PIECE) + 1 or size)
            piece = block if start == 0 and stop == size else block[start:stop]
            self._piece(piece, begin)
            begin += self._size(piece)
            start = stop
        if self._wide is not None:
            self._wide.at = begin
        stop = len(block[-4096:].rstrip()) + max(0, size - 4096)
        if stop > max(0, size - 4096):
            begin = max(block.rfind(b"\n", 0, stop), block.rfind(b"\r", max(0, stop - 4096), stop)) + 1
            line = block[begin:stop][:LIMIT]
            self._note(line if b"\0" not in line else line.replace(b"\0", b""))

    def _size(self, piece: bytes) -> int:
        """How many bytes of the file a piece is."""
        return len(piece) if self._wide is None else self._wide.size(piece)

    def _piece(self, piece: bytes, begin: int) -> None:
        clean = piece
        if b"\0" in piece:
            clean = self._splitter.without_holes(clean)
        if begin == 0 and clean.startswith(BOM):
            clean = clean[len(BOM) :]
        if b"\x1b" in clean or b"\x08" in clean:
            clean = strip_codes(clean)
        self._literals = self._known = None
        raw_lines = piece.split(b"\n")
        last = len(raw_lines) - 1
        at = begin
        for i, line in enumerate(raw_lines if clean is piece else clean.split(b"\n")):
            if line:
                try:
                    if b"\r" in line:
                        for segment in line.split(b"\r"):
                            if segment:
                                self._consider(segment, clean)
                    else:
                        self._consider(line, clean)
                except Exception as error:  # a fault of ours costs one line, never the rest of the file
                    self._quarantine(shown(line), f"{OURS} ({type(error).__name__})", Prefix())
            elif i < last and not (i == 0 and self._blocks.half):
                if self._blocks.open:
                    self._blank()
                if self._joiner.open:
                    self._read_joined()
                if self._java.open:
                    self._java_ended()
                if self._groups.open:
                    self._rows(self._groups.line(Line("", NO_PREFIX, self.lines + 1, self._line_start)) or ())
            if i < last:
                at += self._size(raw_lines[i]) + (1 if self._wide is None else 2)
                self._line_start = at
                self.lines += 1
        self._blocks.passed(clean, self.lines)

    def _might(self, data: bytes) -> bool:
        return self._classify is not None and self._classify.might_match(data)

    def _consider(self, line: bytes, piece: bytes) -> None:
        """One segment of a piece: parse it only when it can matter."""
        if len(line) > LIMIT:
            line = line[:LIMIT]
            self._splitter.cut += 1
        if self._own.on and self._own.might(line) and self._own_line(line):
            return
        if line[0] == 123:  # {
            self._object(line)
            return
        blocks = self._blocks
        if blocks.open and self._row(line, piece):
            return
        if self._groups.open or self._joiner.open:
            if blocks.tools is None:
                blocks.tools = blocks.here(piece)
            if not (blocks.tools and self._begins(line, piece)):
                self._segment(line)
            return
        literals = self._literals
        if literals is None:
            literals = self._literals = [literal for literal in self._signs if literal in piece]
        for literal in literals:
            if literal in line:
                self._segment(line)
                return
        if blocks.tools is not False:
            if blocks.tools is None:  # asked once for the piece, as below
                blocks.tools = blocks.here(piece)
            if blocks.tools and self._begins(line, piece):
                return
        if (
            (line[0] in detect.HEADS and detect.glog_line(line))
            or self._tracebacks.open
            or self._java.open
            or self.keep_log
        ):
            self._segment(line)
            return
        if self._shapes.probing and self._shapes.might(line):
            self._unsigned = True
            self._segment(line)
            self._unsigned = False
            return
        if self._known is None:  # only when a line in it gave no other reason
            self._known = self._might(piece)
        if self._known and self._might(line):
            self._segment(line)
