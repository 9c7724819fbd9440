"""The work of the engine thread, without the thread: events in, parsed, fed into the run, the snapshot built.

Long files are opened with a glimpse: a provisional run is fed with their heads and tails and then with what is
appended, while the same bytes are read once forward into the run that stays. When every file has been met at its
end, the forward run takes over in one go.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable

from trainmon.catalogue import Catalogue
from trainmon.clock import Clock
from trainmon.diagnosis.engine import Detectors
from trainmon.model import (
    Ahead,
    CaughtUp,
    Data,
    Glimpse,
    Opened,
    Record,
    Replaced,
    SourceEvent,
    SourceState,
)
from trainmon.parsing.parser import FileParser
from trainmon.session.files import MANY_FILES, SETTLED_WORDS, TAIL_BYTES, TAIL_BYTES_MANY, SourceFile, node_name
from trainmon.session.run import RunState
from trainmon.settings import Settings
from trainmon.snapshot import SourceView

SLICE = 32 << 10
"""Bytes that are parsed before other threads are let in."""
JOINED_FRESH_S = 60.0
"""A file that joins later and changed this recently speaks of the present."""
HISTORY_WORTH = 1 << 20
"""Unread bytes from which the share of history is shown."""
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
        self.glimpse: RunState | None = None
        self.front = self.forward
        self.gap_steps: set[int] = set()
        self.speaker: SourceFile | None = None
        self.spoke_at = 0.0
        self.newest: SourceFile | None = None
        self.newest_heard: float | None = None
        self.handovers = 0
        self.breathe: Callable[[], None] = lambda: time.sleep(0)
        self._names: dict[str, str] = {}
        self._pending: set[int] = set()
        self._ages_at = 0.0

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
        elif isinstance(event, CaughtUp):
            self._caught_up(event.source)
        elif isinstance(event, Replaced):
            self._replaced(event)
        elif isinstance(event, SourceState):
            self._state(event)

    def _runs(self) -> tuple[RunState, ...]:
        return (self.forward,) if self.glimpse is None else (self.forward, self.glimpse)

    def _parser(self, name: str, mtime: float, *, numbered: bool = True) -> FileParser:
        tags = self.settings.tags_for(name)
        return FileParser(name, tags=tags, classify=self.catalogue, mtime=mtime, numbered=numbered)

    def _opened(self, event: Opened) -> None:
        now = self.clock.now()
        parser = self._parser(event.name, event.mtime)
        node = event.name if self.separate else parser.node or node_name(event, self._names)
        file = SourceFile(
            id=event.source,
            name=event.name,
            path=event.path,
            node=node,
            parser=parser,
            size=event.size,
            opened_size=event.size,
            mtime=event.mtime,
            joined=event.joined,
            heard=min(event.mtime, now) if event.size else 0.0,
        )
        self.files[event.source] = file
        self.missing.pop(event.name, None)
        self.missing.pop(event.path, None)
        for run in self._runs():
            run.watch.opened(node, event.mtime if event.size else now, now)
            if event.joined:
                run.events.add("joined", "followed from now on", time=now, now=now, who=node, planned=True)
                run.dirty.add("events")
        self._dirty("sources", "run", "nodes", "counts")

    def _glimpse(self, event: Glimpse) -> None:
        file = self.files.get(event.source)
        if file is None or file.live:
            return
        if self.glimpse is None:
            self.glimpse = self._copy(self.forward)
            self.front = self.glimpse
            self._dirty_all()
        file.glimpsed = True
        file.size = event.size
        parser = file.ahead = self._parser(file.name, file.mtime, numbered=False)
        run, when = self.glimpse, file.heard or self.clock.now()
        head = parser.feed(event.head, 0)
        run.feed(file, head, when, live=False, detect=False)
        steps = [record.values["step"] for record in head if isinstance(record.values.get("step"), int)]
        if steps:
            self.gap_steps.add(int(max(steps)))
        file.ahead_end = event.tail_offset + len(event.tail)
        file.last_step = None
        for start in range(0, len(event.tail), SLICE):
            run.feed(file, parser.feed(event.tail[start : start + SLICE], event.tail_offset + start), when, live=False)
            self.breathe()
        file.last_step = None
        file.keep_tail(event.tail, self._tail_limit())
        self._spoke(file, file.heard)

    def _ahead(self, event: Ahead) -> None:
        file = self.files.get(event.source)
        if file is None or file.ahead is None or self.glimpse is None or file.live:
            return
        now = self.clock.now()
        file.ahead_end = event.offset + len(event.data)
        file.keep_tail(event.data, self._tail_limit())
        step, file.last_step = file.last_step, None
        self.glimpse.heard(file.node, now, live=True)
        self.glimpse.feed(file, file.ahead.feed(event.data, event.offset), now, live=True)
        file.last_step = step
        self._pending.add(file.id)
        self._spoke(file, now)

    def _data(self, event: Data) -> None:
        file = self.files.get(event.source)
        if file is None:
            return
        now = self.clock.now()
        file.size = max(event.size, event.offset + len(event.data))
        fresh = file.joined and now - event.mtime < JOINED_FRESH_S
        live = file.live or fresh or event.offset >= file.opened_size
        # What stood there at opening is as old as the file; the newest line of it at least.
        arrival = now if live else min(event.mtime, now)
        shown = self._runs() if not file.glimpsed or file.live else (self.forward,)
        for run in shown:
            run.heard(file.node, arrival, live=live)
        data = event.data
        for start in range(0, len(data), SLICE):
            part = data[start : start + SLICE]
            self._feed(file, file.parser.feed(part, event.offset + start), arrival, live, shown)
            file.read = event.offset + start + len(part)
            if len(data) > SLICE:
                self.breathe()
        if len(shown) == 2 or self.glimpse is None:
            file.keep_tail(data, self._tail_limit())
            self._spoke(file, arrival)
        self._pending.add(file.id)
        self._dirty("counts", "sources" if not file.live else "counts")
        if not file.live:
            self._dirty("run")

    def _feed(
        self, file: SourceFile, records: list[Record], arrival: float, live: bool, runs: tuple[RunState, ...]
    ) -> None:
        if not records:
            return
        file.records += len(records)
        step = file.last_step
        for run in runs:
            file.last_step = step
            run.feed(file, records, arrival, live=live)

    def _spoke(self, file: SourceFile, at: float) -> None:
        file.fed = self.clock.now()
        file.heard = max(file.heard, at)
        if self.newest_heard is None or at >= self.newest_heard:
            self.newest_heard = at
            self.newest = file
            # The tail stays with its file while that one speaks: eight workers in turn are no picture.
            if self.speaker is None or self.speaker is file or at - self.spoke_at > 10.0:
                self.speaker = file
        if self.speaker is file:
            self.spoke_at = max(self.spoke_at, at)
        self._dirty("last", "tail", "run")

    def _caught_up(self, source: int) -> None:
        file = self.files.get(source)
        if file is None or file.live:
            return
        file.live = True
        if file.ahead is None and not file.read:
            file.read = file.size
        self._dirty("sources", "run", "counts")
        self._hand_over()

    def _hand_over(self) -> None:
        if self.glimpse is None:
            return
        if not all(file.live or file.settled or not file.glimpsed for file in self.files.values()):
            return
        glimpse, self.glimpse = self.glimpse, None
        self.front = self.forward
        self.gap_steps.clear()
        self.handovers += 1
        self.forward.adopt(glimpse, self.clock.now())
        for file in self.files.values():
            file.ahead = None
        self._dirty_all()

    def _replaced(self, event: Replaced) -> None:
        file = self.files.get(event.source)
        if file is None:
            return
        now = self.clock.now()
        left = file.parser.finish()
        self._feed(file, left, file.heard or now, file.live, self._runs() if file.live else (self.forward,))
        file.bytes_before += file.read
        file.lines_before += file.parser.lines
        file.parser.restart(event.generation)
        file.ahead = None
        file.live = False
        file.glimpsed = False
        file.generation = event.generation
        file.read = file.size = file.opened_size = 0
        file.joined = True  # what comes now was written while we looked
        file.last_step = None
        if event.lost:
            file.gaps += 1
            gap = Record(kind="gap", source=file.name, time=now, node=file.node, reason=_gap_reason(event))
            for run in self._runs():
                run.gap(gap, file.node, now)
            step = self.front.step
            if step is not None:
                self.gap_steps.add(step)
        self._dirty("sources", "counts", "events")

    def _state(self, event: SourceState) -> None:
        file = self.files.get(event.source) if event.source is not None else None
        if file is None:
            view = SourceView(
                id=event.source,
                name=event.spec,
                path=event.spec,
                word=event.word,
                sentence=event.sentence,
                bad=event.bad,
            )
            self.missing[event.spec] = view
            while len(self.missing) > 4096:
                del self.missing[next(iter(self.missing))]
        else:
            file.word, file.sentence, file.bad, file.spec = event.word, event.sentence, event.bad, event.spec
            self.missing.pop(event.spec, None)
            if event.word in SETTLED_WORDS:
                self.flush(file, ended=True)
                file.settled = True
                self._hand_over()
            elif event.word == "followed":
                file.settled = False
        self._dirty("sources", "run")

    # ------------------------------------------------------------ time

    def flush_quiet(self, now: float) -> None:
        """Take last lines without a line end, and tracebacks that nothing follows, as complete once it is quiet."""
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
        if file.ahead is not None and self.glimpse is not None and not file.live:
            records = file.ahead.finish() if whole else file.ahead.settle()
            self.glimpse.feed(file, records, file.heard, live=False)
        elif file.live or file.settled or ended:
            records = file.parser.finish() if whole else file.parser.settle()
            self._feed(file, records, file.heard, file.live and not ended, self._runs())

    def tick(self, now: float) -> None:
        """Let the detectors of the run on screen see that time passes."""
        self.flush_quiet(now)
        # While history is read without a glimpse there is no present yet that could be judged.
        if self.glimpse is not None or not self.in_history:
            self.front.tick(now, self.clock.monotonic())
        if now - self._ages_at >= (1.0 if self.newest_heard is None or now - self.newest_heard < 15.0 else 5.0):
            self._ages_at = now
            self._dirty("run", "nodes", "gpus", "charts", "alerts")

    # ------------------------------------------------------------ what is asked

    @property
    def in_history(self) -> bool:
        """Whether some file's past is not read yet."""
        return any(not (file.live or file.settled) for file in self.files.values())

    @property
    def history(self) -> float | None:
        """Share of history that is read, by bytes; None when everything is (or almost nothing was left)."""
        read = size = 0
        for file in self.files.values():
            if file.live or file.settled:
                read += file.size
            else:
                read += min(file.read, file.size)
            size += file.size
        if self.glimpse is None and (not self.in_history or size - read < HISTORY_WORTH):
            return None
        return read / size if size else None

    # ------------------------------------------------------------ small things

    def _copy(self, run: RunState) -> RunState:
        memo: dict[int, object] = {id(self.catalogue): self.catalogue, id(self.settings): self.settings}
        memo[id(self.settings.thresholds)] = self.settings.thresholds
        return copy.deepcopy(run, memo)

    def _tail_limit(self) -> int:
        return TAIL_BYTES if len(self.files) <= MANY_FILES else TAIL_BYTES_MANY

    def _dirty(self, *sections: str) -> None:
        self.front.dirty.update(sections)

    def _dirty_all(self) -> None:
        from trainmon.snapshot import SECTIONS

        self.front.dirty.update(SECTIONS)


def _gap_reason(event: Replaced) -> str:
    many = f", {event.lost_bytes:,} bytes" if event.lost_bytes else ""
    return f"{event.reason} between two looks: something may have stood there unseen{many}"
