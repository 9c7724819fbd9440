"""The work of the engine thread, without the thread: events in, parsed, fed into the run, the snapshot built.

Long files are opened with a glimpse: a provisional run is fed with their heads and tails and then with what is
appended, while the same bytes are read once forward into the run that stays. When every file has been met at its
end, the forward run takes over in one go.
"""

from __future__ import annotations

from collections.abc import Callable

from trainmon.catalogue import Catalogue
from trainmon.clock import Clock
from trainmon.diagnosis.engine import Detectors
from trainmon.model import Ahead, CaughtUp, Data, Glimpse, Opened, Record, Replaced, SourceEvent, SourceState, Telemetry
from trainmon.session.files import (
    HISTORY_WORTH,
    MANY_FILES,
    SETTLED_WORDS,
    TAIL_BYTES,
    TAIL_BYTES_MANY,
    SourceFile,
    Speakers,
    file_of,
    gap_record,
    is_telemetry,
    missing_view,
    node_name,
)
from trainmon.session.history import read_columns
from trainmon.session.nodeview import bind_machines
from trainmon.session.parsers import Parsers
from trainmon.session.preview import Breath, Preview, ends_of
from trainmon.session.run import RunState
from trainmon.session.view import history_share
from trainmon.session.weave import Leap, Weaver
from trainmon.settings import Settings
from trainmon.snapshot import SECTIONS, SourceView

SLICE = 32 << 10  # bytes that are parsed at once
_MAX_MISSING, _MAX_GAPS = 4096, 512
FLUSH_AFTER_S = 0.5
"""A progress bar or traceback that nothing follows is taken as complete after this silence."""


class Engine:
    """Turns events into run states. Used by one thread at a time.

    Args:
        settings: Thresholds and tags.
        clock: The one clock.
        catalogue: Knows the errors.
        separate: Each file is a run of its own.
    """

    def __init__(self, settings: Settings, clock: Clock, catalogue: Catalogue, *, separate: bool = False) -> None:
        self.settings = settings
        self.clock = clock
        self.catalogue = catalogue
        self.separate = separate
        self.files: dict[int, SourceFile] = {}
        self.missing: dict[str, SourceView] = {}
        self.forward = RunState(Detectors(settings.thresholds, lookup=catalogue.entry), separate=separate)
        self.front = self.forward
        self.gap_steps: set[int] = set()
        """The last steps behind which something was lost."""
        self.speakers = Speakers()
        self.breathe = Breath()
        self._unread: set[int] = set()  # files whose past is not read yet
        self._names: dict[str, str] = {}
        self._pending: set[int] = set()
        self._ages_at = 0.0
        self._past = Weaver(self._parse_past, self._give_past, self._mark, self._finish_past, self._leap_past)
        self.preview = Preview(self.breathe)
        self._parser = Parsers(settings, catalogue, clock, self._runs)

    # ------------------------------------------------------------ events

    def handle(self, event: SourceEvent) -> None:
        """Take in one event of the readers."""
        if isinstance(event, Data):
            self._data(event)
        elif isinstance(event, Ahead):
            self._ahead(event)
        elif isinstance(event, Opened):
            self._opened(event)
        elif isinstance(event, Glimpse):
            self._glimpse(event)
        elif isinstance(event, (CaughtUp, Replaced)):
            if event.source in self._past:
                self._past.add(event, self.clock.now())
            else:
                self._mark(event)
        elif isinstance(event, SourceState):
            self._state(event)
        elif isinstance(event, Telemetry):
            self._telemetry(event)

    def _telemetry(self, event: Telemetry) -> None:
        """This machine's instruments: no line of a log, and no speech of the run."""
        for run in self._runs():
            run.instruments(event.samples, self.clock.now())

    def work(self, over: Callable[[], bool], *, force: bool = False, past: bool = True) -> bool:
        """Go on with what waits, the ends of files before their pasts, until `over` says so.

        Args:
            force: Do not wait for files of which nothing has come yet.
            past: False: only the ends of files for now.

        Returns:
            True when there is more that can be done at once.
        """
        if self.preview.work(over) or over():
            return True
        return past and self._past.work(over, force=force)

    @property
    def waiting_bytes(self) -> int:
        """Bytes of text that were taken in and are not parsed yet."""
        return self._past.waiting_bytes

    def _runs(self) -> tuple[RunState, ...]:
        return (self.forward,) if self.preview.run is None else (self.forward, self.preview.run)

    def _past_runs(self, file: SourceFile) -> tuple[RunState, ...]:
        """The runs that the past of this file is fed to: the preview has the end of a long file already."""
        return (self.forward,) if file.glimpsed else self._runs()

    def _opened(self, event: Opened) -> None:
        now = self.clock.now()
        parser = self._parser(event.name, event.mtime)
        node = event.name if self.separate else parser.node or node_name(event, parser.rank, self._names)
        file = file_of(event, node, parser, now)
        self.files[event.source] = file
        if file.fresh or event.path == "-":
            file.live = True  # what it says is said while we look
        else:
            self._unread.add(file.id)
            self._past.open(file)
        self.missing.pop(event.name, None)
        self.missing.pop(event.path, None)
        if event.path == "-":
            self._introduce(file, b"")
        self._dirty("sources", "run", "nodes", "counts")

    def _introduce(self, file: SourceFile, head: bytes) -> None:
        """Its first bytes are there: unless instruments write it, the run has a file more."""
        if file.introduced:
            return
        file.introduced = True
        file.agent = is_telemetry(head)
        if not file.agent:
            for run in self._runs():
                run.opened(file)

    def _glimpse(self, event: Glimpse) -> None:
        file = self.files.get(event.source)
        if file is None or file.live:
            return
        self._introduce(file, event.head)
        if self.preview.run is None:
            self.front = self.preview.begin(self.forward, (self.catalogue, self.settings, self.settings.thresholds))
            self._dirty(*SECTIONS)
        parser = self._parser(file.name, file.mtime, numbered=False)
        tail = self.preview.glimpse(file, event, parser, file.heard or self.clock.now(), len(self.files))
        file.keep_tail(tail or event.tail, self._tail_limit())  # one line of megabytes has no end to begin at
        self._spoke(file, file.heard)

    def _ahead(self, event: Ahead) -> None:
        file = self.files.get(event.source)
        if file is None or file.live:
            return
        now = self.clock.now()
        self._introduce(file, event.data)
        file.keep_tail(event.data, self._tail_limit())
        self._spoke(file, now)
        self.preview.ahead(file, event, now)

    def _data(self, event: Data) -> None:
        file = self.files.get(event.source)
        if file is None:
            return
        now = self.clock.now()
        self._introduce(file, event.data)
        file.size = max(event.size, event.offset + len(event.data))
        if not file.glimpsed or file.live:
            file.keep_tail(event.data, self._tail_limit())
            self._spoke(file, now if file.live or file.fresh else min(event.mtime, now))
        if file.id in self._past:
            self._past.add(event, min(event.mtime, now))
            if (glimpse := ends_of(self._past, file, event, len(self.files))) is not None:
                self._glimpse(glimpse)
            return
        data = event.data
        self._heard(file, now, live=True, runs=self._runs())
        for start in range(0, len(data), SLICE):
            part = data[start : start + SLICE]
            records = file.parser.feed(part, event.offset + start)
            file.read = event.offset + start + len(part)
            self._feed(file, records, now, live=True, runs=self._runs())
            if len(data) > SLICE:
                self.breathe()
        self._pending.add(file.id)
        self._dirty("counts")

    def _parse_past(self, file: SourceFile, data: bytes, offset: int, size: int) -> list[Record]:
        self.breathe()
        self._heard(file, file.heard, live=False, runs=self._past_runs(file))
        records = file.parser.feed(data, offset)
        file.read = offset + len(data)
        file.size = max(file.size, size)
        self._dirty("counts", "sources", "run")
        return records

    def _give_past(self, file: SourceFile, records: list[Record], arrival: float) -> None:
        self._feed(file, records, arrival, live=False, runs=self._past_runs(file))
        self._pending.add(file.id)

    def _leap_past(self, file: SourceFile, piece: Data, at: int, arrival: float) -> Leap | None:
        """Take in by columns what comes next of a file; None: it has to be read record by record."""
        if not file.spoke or len(self._past_runs(file)) != 1:
            return None
        self.breathe()
        parser, offset = file.parser, piece.offset + at
        end = piece.data.find(b"\n", at) + 1 or len(piece.data)
        if (not parser.between_lines(offset) or piece.data[end - 1 : end] != b"\n") and end < at + SLICE:  # half a line
            self._give_past(file, self._parse_past(file, piece.data[at:end], offset, piece.size), arrival)
            return Leap(end - at)
        columns = read_columns(self.forward, file, piece, at, arrival)
        if columns is None:
            return None
        self._heard(file, file.heard, live=False, runs=(self.forward,))
        self._pending.add(file.id)
        self._dirty("counts", "sources", "run")
        return Leap(columns.end - offset, columns.steps[-1], columns.times[-1] if columns.times is not None else None)

    def _finish_past(self, file: SourceFile) -> list[Record]:
        """What the parser holds back at the end of the past: a traceback is whole, a half line is not."""
        return file.parser.finish() if file.tail[-1:] == b"\n" else file.parser.settle()

    def _mark(self, event: CaughtUp | Replaced) -> None:
        if isinstance(event, CaughtUp):
            self._caught_up(event)
        else:
            self._replaced(event)

    def _heard(self, file: SourceFile, arrival: float, *, live: bool, runs: tuple[RunState, ...]) -> None:
        if not file.chatter:
            for run in runs:
                run.heard(file.node, arrival, live=live)

    def _feed(
        self, file: SourceFile, records: list[Record], arrival: float, *, live: bool, runs: tuple[RunState, ...]
    ) -> None:
        if records:
            if not file.spoke:
                file.judge(records)
            file.records += len(records)
            for run in runs:
                run.feed(file, records, arrival, live=live)

    def _spoke(self, file: SourceFile, at: float) -> None:
        file.fed = self.clock.now()
        if file.chatter:
            file.heard = max(file.heard, at)
            return
        self.speakers.spoke(file, at)
        self._dirty("last", "tail", "run")

    def _caught_up(self, event: CaughtUp) -> None:
        file = self.files.get(event.source)
        if file is None or file.live:
            return
        file.live = True
        self._unread.discard(file.id)
        self._dirty("sources", "run", "counts")
        self._hand_over()
        if not self.in_history:
            self._dirty(*SECTIONS)

    def _hand_over(self) -> None:
        if self.preview.run is None or not all(f.live or f.settled or not f.glimpsed for f in self.files.values()):
            return
        glimpse = self.preview.end()
        if glimpse is None:
            return
        self.front = self.forward
        self.forward.adopt(glimpse)
        for file in self.files.values():
            file.ahead = None
        self._dirty(*SECTIONS)

    def _replaced(self, event: Replaced) -> None:
        file = self.files.get(event.source)
        if file is None:
            return
        now = self.clock.now()
        runs = self._runs() if file.live else self._past_runs(file)
        self._feed(file, file.parser.finish(), file.heard or now, live=file.live, runs=runs)
        file.bytes_before += file.read
        file.lines_before += file.parser.lines
        file.parser.restart(event.generation)
        file.generation = event.generation
        file.read = file.size = 0
        if file.ahead is not None and file.ahead_generation < event.generation:
            file.ahead = None
        file.gaps += event.lost
        if event.lost and not file.chatter:
            gap = gap_record(event, file.name, file.node, now)
            for run in self._runs():
                run.gap(gap, file.node, now)
            if (step := self.front.step) is not None:
                self.gap_steps = {*sorted(self.gap_steps)[1 - _MAX_GAPS :], step}
        self._dirty("sources", "counts", "events")

    def _state(self, event: SourceState) -> None:
        file = self.files.get(event.source) if event.source is not None else None
        if file is None:
            self.missing[event.spec] = missing_view(event)
            while len(self.missing) > _MAX_MISSING:
                del self.missing[next(iter(self.missing))]
        else:
            file.word, file.sentence, file.bad = event.word, event.sentence, event.bad
            self.missing.pop(event.spec, None)
            if event.word in SETTLED_WORDS:
                self._past.close(file.id)
                if file.id not in self._past:
                    self.flush(file, ended=True)
                file.settled = True
                self._unread.discard(file.id)
                self._hand_over()
            elif event.word == "followed":
                file.settled = False
                if not file.live:
                    self._unread.add(file.id)
        self._dirty("sources", "run")

    # ------------------------------------------------------------ time

    def flush_quiet(self, now: float) -> None:
        """Take last lines without a line end, and tracebacks that nothing follows, as complete once it is quiet."""
        self._pending |= self.preview.fed
        self.preview.fed.clear()
        for source in list(self._pending):
            file = self.files[source]
            if not 0.0 <= now - file.fed < FLUSH_AFTER_S:
                self._pending.discard(source)
                self.flush(file)

    def flush(self, file: SourceFile, *, ended: bool = False) -> None:
        """Take what the file's parsers still hold as complete.

        A half line stays (the rest of a writer's buffer may come minutes later) unless the file has ended.
        """
        whole = ended or file.tail[-1:] == b"\n"
        if file.ahead is not None and not file.live:
            self.preview.flush(file, whole=whole)
        elif file.live or file.settled or ended:
            records = file.parser.finish() if whole else file.parser.settle()
            self._feed(file, records, file.heard, live=file.live and not ended, runs=self._runs())

    def tick(self, now: float) -> None:
        """Let the detectors of the run on screen see that time passes."""
        self.flush_quiet(now)
        # While history is read without a glimpse there is no present yet that could be judged.
        if self.preview.run is not None or not self.in_history:
            self.front.tick(now, self.clock.monotonic())
        bind_machines(self.front, self.files, now)
        every = 1.0 if len(self.files) <= 256 else 2.0
        if self.speakers.heard is not None and now - self.speakers.heard >= 15.0:
            every = 5.0
        if abs(now - self._ages_at) >= every:
            self._ages_at = now
            self._dirty("run", "nodes", "gpus", "gpu", "host", "charts", "alerts")

    # ------------------------------------------------------------ what is asked

    @property
    def in_history(self) -> bool:
        """Whether some file's past is not read yet."""
        return bool(self._unread)

    @property
    def history(self) -> float | None:
        """Share of history that is read, by bytes; None when everything is (or almost nothing was left)."""
        if not self._unread and self.preview.run is None:
            return None
        read, size = history_share(self.files.values())
        if self.preview.run is None and size - read < HISTORY_WORTH:
            return None
        return read / size if size else None

    # ------------------------------------------------------------ small things

    def _tail_limit(self) -> int:
        return TAIL_BYTES if len(self.files) <= MANY_FILES else TAIL_BYTES_MANY

    def _dirty(self, *sections: str) -> None:
        self.front.dirty.update(sections)
