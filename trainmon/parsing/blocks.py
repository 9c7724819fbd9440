"""Output of tools inside a log: which lines are some tool's, and whose. Cheap for lines that are not.

A tool is noticed by a literal of its header, looked for once in a piece of a few kilobytes; from then on its rows are
looked for, writer by writer (rank, node), since many print at once. Rows may be interleaved with anything.
"""

from __future__ import annotations

from trainmon.parsing import iostat, nvidia_columns, nvidia_smi
from trainmon.parsing.cells import MAX_LINE, PAST, Reading, Scene, front, stream_of
from trainmon.parsing.nvidia_columns import Grid, Layout
from trainmon.parsing.nvidia_smi import Table
from trainmon.parsing.prefix import Prefix
from trainmon.parsing.tracebacks import Stream

OPENERS: tuple[tuple[bytes, tuple[bytes, ...]], ...] = (
    (b"", (b"_read/s",)),
    (b"|", (b"NVIDIA-SMI",)),
    (b"%", (b" [%]", b"%util", b"avg-cpu")),
    (b"=", (b"--query-gpu=",)),
    (b"[", (b" [MiB]", b" [W]")),
    (b"#", (b" gpu ", b"#gpu,")),
    (b"\t", (b" CPU)",)),
    (b"'", (b"'C, ",)),
)
"""One of these stands on every line that begins a tool's output (or is one of gpustat's rows). A byte alone is found
ten times as fast as a word, so the rarer ones of them come first."""

_MAX_STREAMS = 256
_MAX_LAYOUTS = 8
_IDLE_TABLE = 400
_IDLE_REPORT = 60


class Blocks:
    """What is open of the tools' output in one file.

    Attributes:
        open: True while rows may come that no literal tells.
        tools: Whether some tool's output may begin in the piece that is being read; None: not looked at yet.
        past: The end of the whole lines that were read. half: the beginning of a line whose end is not there yet.
    """

    def __init__(self) -> None:
        self.open = False
        self.tools: bool | None = None
        self.past = self.half = b""
        self._first = 0
        self._tables: dict[Stream, Table] = {}
        self._grids: dict[Layout, dict[Stream, Grid]] = {}
        self._reports: dict[Stream, iostat.Report] = {}
        self._hosts: dict[Stream, tuple[str, int]] = {}
        self._fresh: set[Stream] = set()
        self._idle = 0

    def passed(self, clean: bytes, lines: int) -> None:
        """Remember the end of what was read: a tool's own time may stand before its first line.

        Whole lines and the beginning of one stay apart, so that it is the same in whatever chunks the bytes came.

        Args:
            clean: The piece that was read.
            lines: Lines that ended so far.
        """
        self._first, self.tools = lines, None
        cut = clean.rfind(b"\n") + 1
        if cut == len(clean) and not self.half:
            self.past = clean[-PAST:] if cut >= PAST else (self.past + clean)[-PAST:]
        elif cut:
            self.past = (self.past + self.half + clean[max(0, cut - PAST) : cut])[-PAST:]
            self.half = clean[cut:][-PAST:]
        else:
            self.half = (self.half + clean)[-PAST:]

    def before(self, piece: bytes, lines: int) -> bytes:
        """The end of the whole lines before the one that comes after so many, in the piece that is being read."""
        at = 0
        for _ in range(lines - self._first):
            at = piece.find(b"\n", at) + 1
        if at == 0:
            return self.past
        return (piece[:at] if at >= PAST else self.past + self.half + piece[:at])[-PAST:]

    @staticmethod
    def here(piece: bytes) -> bool:
        """Whether some tool's output may begin in these bytes."""
        for sign, literals in OPENERS:
            if sign in piece:
                for literal in literals:
                    if literal in piece:
                        return True
        return False

    def might(self, line: bytes) -> bool:
        """Whether a line can be a row of what is open."""
        if self._reports:
            return True
        if self._tables:
            self._idle += 1
            if b"|" in line or b"+--" in line or self._idle > _IDLE_TABLE:
                return True
        for layout in self._grids:
            if layout.tool == "csv":
                if line.count(b",") >= len(layout.columns) - 1:
                    return True
            elif layout.tool == "pmon" or line.rstrip()[-1:] in _ROW_ENDS:
                return True
        return False

    def line(self, text: str, scene: Scene) -> list[Reading] | None:
        """A line as readings.

        Returns:
            None when it is no tool's; else what is complete now, which may be nothing yet.
        """
        if len(text) > MAX_LINE:
            return None
        text = text.rstrip()
        opened = self._begins(text, scene)
        if opened is not None:
            self.open = True
            return opened
        if not self.open:
            return None
        out = self._row(text, scene)
        if out is not None:
            self._idle = 0
            return out
        self._idle += 1
        if self._idle > _IDLE_TABLE or (self._reports and self._idle > _IDLE_REPORT):
            told = self.close()
            self._tables.clear()
            self._reports.clear()
            self._tidy()
            return told or None
        return None

    def blank(self) -> list[Reading]:
        """An empty line: it ends a report of the writer without labels."""
        return self._ended(_NOBODY)

    def close(self) -> list[Reading]:
        """What is held back, since nothing more comes for now."""
        out: list[Reading] = []
        for table in self._tables.values():
            out += table.close()
        for report in self._reports.values():
            out += report.close()
        for grids in self._grids.values():
            for grid in grids.values():
                out += grid.close()
        return out

    # ------------------------------------------------------------ what begins

    def _begins(self, text: str, scene: Scene) -> list[Reading] | None:
        if "NVIDIA-SMI" in text and (began := nvidia_smi.head(text, scene)) is not None:
            prefix, table = began
            stream = stream_of(prefix)
            old = self._tables.pop(stream, None)
            _make_room(self._tables)
            self._tables[stream] = table
            self._idle = 0
            return old.close() if old is not None else []
        if "'C, " in text and (row := nvidia_smi.gpustat(text, scene)) is not None:
            return [row]
        if "gpu" in text:
            for begin in (nvidia_columns.dmon_head, nvidia_columns.csv_head):
                if (found := begin(text, scene)) is not None:
                    return self._grid(*found)
        elif " [" in text and (found := nvidia_columns.csv_head(text, scene)) is not None:
            return self._grid(*found)
        return self._iostat(text, scene)

    def _grid(self, prefix: Prefix, layout: Layout) -> list[Reading]:
        grids = self._grids.get(layout)
        if grids is None:
            _make_room(self._grids, _MAX_LAYOUTS)
            grids = self._grids[layout] = {}
        stream = stream_of(prefix)
        if stream not in grids:
            _make_room(grids)
            grids[stream] = Grid(layout)
        return []

    def _iostat(self, text: str, scene: Scene) -> list[Reading] | None:
        if " CPU)" in text and (found := iostat.banner(text)) is not None:
            host, cpus, at = found
            prefix = front(text[:at], scene.mtime)
            if prefix is None:
                return None
            stream = stream_of(prefix)
            out = self._ended(stream, whole=True)
            _make_room(self._hosts)
            self._hosts[stream] = host, cpus
            self._fresh.add(stream)
            return out
        if "avg-cpu" in text and (at := iostat.cpu_head(text)) >= 0:
            prefix = front(text[:at], scene.mtime)
            if prefix is None:
                return None
            stream = stream_of(prefix)
            out = self._ended(stream, whole=True)
            self._report(stream, prefix, scene).at_cpu = True
            return out
        if ("%util" in text or "_read/s" in text) and (head := iostat.disk_head(text)) is not None:
            columns, at = head
            prefix = front(text[:at], scene.mtime)
            if prefix is None:
                return None
            stream = stream_of(prefix)
            report = self._reports.get(stream)
            out = []
            if report is None or report.full:
                out = self._ended(stream, whole=True)
                report = self._report(stream, prefix, scene)
            report.at_cpu = False
            report.columns = columns
            return out
        return None

    def _report(self, stream: Stream, prefix: Prefix, scene: Scene) -> iostat.Report:
        first = stream in self._fresh
        self._fresh.discard(stream)
        _make_room(self._reports)
        report = self._reports[stream] = iostat.begun(scene, prefix, self._hosts.get(stream), first)
        self._idle = 0
        return report

    # ------------------------------------------------------------ rows

    def _row(self, text: str, scene: Scene) -> list[Reading] | None:
        if self._tables and (found := self._table_row(text, scene)) is not None:
            return found
        for layout, grids in self._grids.items():
            cut = layout.cut(text)
            if cut is None:
                continue
            prefix = front(cut[0], scene.mtime)
            if prefix is not None and (grid := grids.get(stream_of(prefix))) is not None:
                return grid.take(cut[1], scene, prefix)
        if self._grids and "Idx" in text and text.find("#") >= 0:
            return []  # the units below a header of dmon
        if self._reports:
            return self._report_row(text, scene)
        return None

    def _table_row(self, text: str, scene: Scene) -> list[Reading] | None:
        at = text.find("|")
        rule = at < 0 or text.startswith("+", 0, at)
        if rule:
            at = text.find("+--")
            if at < 0:
                return None
        prefix = front(text[:at], scene.mtime)
        stream = stream_of(prefix) if prefix is not None else None
        table = self._tables.get(stream) if stream is not None else None
        if table is None or prefix is None or stream is None:
            return None
        if not rule:
            return table.take(text[at:].split("|", 12), scene, prefix)
        if table.at_processes:
            del self._tables[stream]
            self._tidy()
            return table.close()
        return []

    def _report_row(self, text: str, scene: Scene) -> list[Reading] | None:
        for width in {report.width for report in self._reports.values()} - {0}:
            parts = text.rsplit(None, width)
            if len(parts) not in (width, width + 1):
                continue
            left = parts.pop(0) if len(parts) > width else ""
            prefix = front(left, scene.mtime)
            report = self._reports.get(stream_of(prefix)) if prefix is not None else None
            if prefix is not None and report is not None and report.width == width and report.row(parts, scene, prefix):
                return []
        if len(text) < 200 and (prefix := front(text, scene.mtime)) is not None:  # nothing but a label
            return self._ended(stream_of(prefix))
        return None

    def _ended(self, stream: Stream, whole: bool = False) -> list[Reading]:
        """A report may end here: at a blank line when it has its disks, or at the next one's beginning."""
        report = self._reports.get(stream)
        if report is None or not (whole or report.full):
            return []
        del self._reports[stream]
        self._tidy()
        return report.close()

    def _tidy(self) -> None:
        self.open = bool(self._tables or self._grids or self._reports)


_NOBODY: Stream = (None, None, None)
_ROW_ENDS = frozenset(bytes([sign]) for sign in b"0123456789-")


def _make_room(held: dict[object, object] | dict, most: int = _MAX_STREAMS) -> None:  # type: ignore[type-arg]
    while len(held) >= most:
        held.pop(next(iter(held)))
