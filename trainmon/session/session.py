"""The session: a pipeline in, an immutable snapshot out.

    session = Session(["worker-*.log"], settings)
    session.subscribe(wake)            # called from the engine thread after each new snapshot
    session.start()
    session.snapshot.run.step

Two threads of its own: the reader's, and the engine's, which parses and builds. All methods may be called from any
thread. Without `start`, `pump` does the same work on the calling thread (tests, replay).
"""

from __future__ import annotations

import math
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, BinaryIO, Protocol

from trainmon.catalogue import load
from trainmon.clock import Clock, SteadyClock, SystemClock
from trainmon.errors import SourceError
from trainmon.model import Opened, SourceEvent, Telemetry
from trainmon.samples import Sample
from trainmon.session.engine import Engine
from trainmon.session.inbox import LIMIT_BYTES, Inbox
from trainmon.session.incidents import IncidentDesk
from trainmon.session.publish import Publisher
from trainmon.settings import Settings
from trainmon.snapshot import Snapshot

if TYPE_CHECKING:
    from trainmon.sources.rawfile import RawLog
    from trainmon.sources.reader import Reader

PUBLISH_EVERY_S = 0.05
TICK_EVERY_S = 1.0
BATCH_S = 0.03
FIRST_S = 0.3
"""So long the past of long files, and the instruments, wait after the first picture."""
_JOIN_S = 0.3
_BLOCKED_S = 1.0
"""So long the past of other files waits for one of which nothing comes."""
_MAX_FAULTS = 20


class StationLike(Protocol):
    """This machine's instruments (`trainmon.telemetry`), as far as a session needs to know them."""

    def start(self) -> object:
        """Begin to measure; returns at once."""

    def stop(self) -> object:
        """End within a moment, whatever a driver does."""

    def release(self) -> object:
        """Let go of the GPUs, so that they can be reset."""

    def resume(self) -> object:
        """Take them again."""


StationFactory = Callable[[Callable[[list[Sample]], object]], StationLike]
"""Makes the instruments, given where their samples go (from any thread)."""


class Session:
    """Follows sources and keeps a picture of the run.

    Args:
        specs: What the user named: files, patterns, folders, "-".
        settings: Thresholds, tags, poll interval.
        clock: The one clock; a manual one in tests.
        exact: Follow only what was named, no later files of the same pattern.
        separate: Each file is a run of its own.
        demo: Say DEMO on screen.
        stdin: Where "-" is read from.
        station: Makes this machine's instruments; None: there are none. They start after the first picture.
    """

    def __init__(
        self,
        specs: Sequence[str],
        settings: Settings | None = None,
        *,
        clock: Clock | None = None,
        exact: bool = False,
        separate: bool = False,
        demo: bool = False,
        stdin: BinaryIO | None = None,
        station: StationFactory | None = None,
    ) -> None:
        self.specs = list(specs)
        self.settings = settings if settings is not None else Settings()
        self._host_clock = clock if clock is not None else SystemClock()
        self.clock = SteadyClock(self._host_clock)
        """The host's clock without its jumps, on which all times of arrival are."""
        self.fault: str | None = None
        """The newest internal fault with its traceback, for the crash report; None when there was none."""
        self.faults = 0
        self._exact = exact
        self._stdin = stdin
        self._make_station = station
        self._station: StationLike | None = None
        self._inbox = Inbox()
        self._engine = Engine(self.settings, self.clock, load(), separate=separate)
        self._desk = IncidentDesk()
        self._publisher = Publisher(self._engine, self._desk, demo=demo)
        self._callbacks: list[Callable[[], None]] = []
        self._commands: deque[Callable[[], None]] = deque()
        self._reader: Reader | None = None
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._starting = threading.Lock()
        self._last_tick = -TICK_EVERY_S
        self._last_publish = -PUBLISH_EVERY_S
        self._run_faults = 0
        self._busy = False
        self._shown = False
        self._past_from = 0.0
        self._blocked_at = 0.0
        self._station_from = math.inf

    # ------------------------------------------------------------ for the screen

    @property
    def snapshot(self) -> Snapshot:
        """The newest picture; never changes once it is given."""
        return self._publisher.snapshot

    def subscribe(self, callback: Callable[[], None]) -> None:
        """Have `callback` called after each new snapshot, from the engine thread; it must return at once."""
        self._callbacks.append(callback)

    def start(self) -> None:
        """Start reading. Returns at once."""
        from trainmon.sources.reader import Reader

        if self._thread is not None:
            return
        self._reader = Reader(
            self.specs,
            self._inbox.put,
            clock=self._host_clock,  # compared with the times of files
            exact=self._exact,
            poll_s=self.settings.poll_s,
            stdin=self._stdin,
        )
        self._thread = threading.Thread(target=self._work, name="trainmon-engine", daemon=True)
        self._thread.start()
        self._reader.start()

    def stop(self) -> None:
        """Stop both threads; returns within half a second whatever a file system does."""
        self._stopping = True
        with self._starting:  # instruments that are just being switched on are first on, then off
            station = self._station
        if station is not None:
            self._guard(station.stop)
        if self._reader is not None:
            self._reader.stop()
        self._inbox.close()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(_JOIN_S)

    def acknowledge(self, alert: str) -> None:
        """Take note of an alert: it stays, quietly."""
        self._command(lambda: self._desk.book.acknowledge(alert))

    def mute(self, alert: str) -> None:
        """Silence an alert until it resolves."""
        self._command(lambda: self._desk.book.mute(alert))

    def unmute(self, alert: str) -> None:
        """Undo `mute`."""
        self._command(lambda: self._desk.book.unmute(alert))

    def select_node(self, name: str | None) -> None:
        """Show this node's GPUs and log; None: let the session choose."""

        def select() -> None:
            self._publisher.selected = name
            self._publisher.ask("gpus", "host", "tail")

        self._command(select)

    def select_gpu(self, key: str | None) -> None:
        """Have `Snapshot.gpu` tell all of one GPU.

        Args:
            key: `GpuRow.key`; None: of none any more.
        """

        def select() -> None:
            self._publisher.selected_gpu = key
            self._publisher.ask("gpu")

        self._command(select)

    def release_gpus(self) -> None:
        """Let this machine's GPUs go, so that they can be reset or split; nothing is known of them until then."""
        self._instruct(lambda station: station.release())

    def resume_gpus(self) -> None:
        """Undo `release_gpus`."""
        self._instruct(lambda station: station.resume())

    def _instruct(self, what: Callable[[StationLike], object]) -> None:
        station = self._station
        if station is not None:
            self._guard(lambda: what(station))

    def open_log(self, source: int) -> RawLog:
        """Random access to the bytes of a followed file.

        Raises:
            SourceError: There is no such file (standard input cannot be read twice).
        """
        from trainmon.sources.rawfile import RawLog

        file = self._engine.files.get(source)
        if file is None:
            raise SourceError(f"there is no source {source}")
        if file.path == "-":
            raise SourceError("standard input is not kept: its lines cannot be shown again")
        return RawLog(file.path)

    def quarantine(self) -> tuple[tuple[str, int, str, str], ...]:
        """The last lines that could not be read: (source, line, reason, text), oldest first."""
        return self.snapshot.quarantine

    # ------------------------------------------------------------ the work

    def pump(self, events: Iterable[SourceEvent] = ()) -> Snapshot:
        """Handle events on this thread, let time pass, and give the snapshot. Not while the threads run."""
        for event in events:
            self._handle(event)
        self._guard(lambda: self._engine.work(lambda: False, force=True))
        self._run_commands()
        self._tick(self.clock.monotonic())
        self._publish(self.clock.monotonic(), at_once=True)
        return self.snapshot

    def step(self, timeout: float = 0.0) -> None:
        """One turn of the engine: take what waits (for at most some 30 ms), then publish when it is due."""
        event = self._inbox.take(timeout)
        started = self.clock.monotonic()
        while event is not None and not self._stopping:
            self._handle(event)
            now = self.clock.monotonic()
            if now - started >= BATCH_S:
                break
            event = self._inbox.take(0.0)
        self._guard(lambda: self._work_on(started))
        self._run_commands()
        now = self.clock.monotonic()
        if now - self._last_tick >= TICK_EVERY_S:
            self._tick(now)
        if self._engine.front.dirty and now - self._last_publish >= PUBLISH_EVERY_S:
            self._publish(now)
        if self._make_station is not None and now >= self._station_from:
            self._guard(self._begin_station)

    def _work_on(self, started: float) -> None:
        """Go on with the past, for at least half of the turn."""
        end = max(started + BATCH_S, self.clock.monotonic() + BATCH_S / 2)
        engine = self._engine
        saturated = self._inbox.saturated or engine.waiting_bytes >= LIMIT_BYTES // 2
        blocked_for = self.clock.monotonic() - self._blocked_at
        force = saturated or blocked_for > _BLOCKED_S
        # The screen is being built beside us when the first picture is there: it goes before the past.
        past = engine.preview.run is None or (self._shown and self.clock.monotonic() >= self._past_from)
        self._busy = engine.work(lambda: self._stopping or self.clock.monotonic() >= end, force=force, past=past)
        if self._busy or not engine.waiting_bytes:
            self._blocked_at = self.clock.monotonic()
        self._inbox.held = engine.waiting_bytes

    def _work(self) -> None:
        while not self._stopping:
            now = self.clock.monotonic()
            timeout = 0.0 if self._busy else max(0.0, self._last_tick + TICK_EVERY_S - now)
            if now < self._past_from:
                timeout = min(timeout, self._past_from - now)
            if self._engine.front.dirty and timeout:
                due = max(self._last_publish + PUBLISH_EVERY_S, self._publisher.earliest())
                timeout = min(timeout, max(0.0, due - now))
            self.step(timeout)

    def _tick(self, now: float) -> None:
        self._last_tick = now
        self._guard(lambda: self._engine.tick(self.clock.now()))

    def _begin_station(self) -> None:
        """The first picture is there: now the instruments may cost something."""
        make, self._make_station = self._make_station, None
        if make is None or self._stopping:
            return
        station = make(lambda samples: self._inbox.put((Telemetry(tuple(samples)),)))
        with self._starting:
            if not self._stopping:
                self._station = station
                station.start()

    def _publish(self, now: float, *, at_once: bool = False) -> None:
        self._last_publish = now
        self._station_from = min(self._station_from, now + FIRST_S)
        if not self._shown and self._engine.preview.run is not None:
            self._shown = True
            self._past_from = now + FIRST_S
        self._guard(self._settle)
        self._build(at_once)
        if self._publisher.more:
            self._build(at_once)

    def _build(self, at_once: bool) -> None:
        fresh = False

        def build() -> None:
            nonlocal fresh
            fresh = self._publisher.build(at_once=at_once)

        self._guard(build)
        while self._publisher.faults:
            self._note_fault(self._publisher.faults.pop())
        if fresh:
            for callback in self._callbacks:
                self._guard(callback)

    def _settle(self) -> None:
        self._desk.settle(self._engine)
        faults = sum(run.faults for run in (self._engine.forward, self._engine.front))
        if faults != self._run_faults:
            self._run_faults = faults
            fault = self._engine.front.last_fault or self._engine.forward.last_fault
            if fault is not None:
                self._note_fault(fault)

    def _command(self, command: Callable[[], object]) -> None:
        def run() -> None:
            command()
            self._engine.front.dirty.add("alerts")

        self._commands.append(run)
        self._inbox.wake()

    def _run_commands(self) -> None:
        while self._commands:
            self._guard(self._commands.popleft())

    def _handle(self, event: SourceEvent) -> None:
        try:
            if isinstance(event, Opened) and event.joined and self.clock.shift:
                event = replace(event, mtime=event.mtime - self.clock.shift)
            self._engine.handle(event)
        except Exception as fault:
            self._note_fault(fault)

    def _guard(self, work: Callable[[], object]) -> None:
        try:
            work()
        except Exception as fault:
            # The screen must go on, and say that something is wrong with us.
            self._note_fault(fault)

    def _note_fault(self, fault: Exception) -> None:
        self.faults += 1
        if self.faults <= _MAX_FAULTS:
            self.fault = "".join(traceback.format_exception(fault))
        self._publisher.hint = f"internal fault ({type(fault).__name__}): what is shown may be incomplete"
        self._engine.front.dirty.add("run")
