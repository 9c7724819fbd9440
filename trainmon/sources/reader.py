"""The reader: one thread that sweeps all files.

A sweep asks each file with one short read: its mark again means that nothing is new. Paths are looked at once a second,
and right after a file stops growing. History is read in blocks, file by file in turn, between two sweeps. What blocks
(a network file system that is down) is left to the thread that it blocks, while another goes on: see `lanes`.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import BinaryIO

from trainmon.clock import Clock
from trainmon.model import Ahead, Data, Glimpse, SourceEvent
from trainmon.sources.absent import Absent
from trainmon.sources.files import BLOCK
from trainmon.sources.lanes import Lanes, Turn
from trainmon.sources.limits import raise_limit
from trainmon.sources.roster import Found, Roster, Subject, Wait, open_text
from trainmon.sources.stdin import StdinPump
from trainmon.sources.tail import HEAD, LONG, TAIL, Tail

CHECK_S = 1.0
"""How often each path is looked at, in seconds."""
SCAN_S = 1.0
"""How often patterns are matched again, in seconds, as far as that is cheap."""
HANG_S = 1.5
"""A call that takes longer than this (seconds) hangs."""
BATCH = 1024 * 1024
"""Bytes that one call of the sink carries, about."""
_LIVE_LIMIT = 1024 * 1024
_SATURATED_LIMIT = 64 * 1024
_SOME = 12
_MANY = 256
_STALE_S = 5.0
_TURNS = 3
_GLIMPSES = 8 * 1024 * 1024


class Reader:
    """Follows everything that the user named.

    Args:
        specs: Files, globs, folders, "-" for standard input.
        sink: Takes a batch of events, on the reader's thread; returns False while the consumer is saturated: then
            history waits, live tails go on. Meanwhile it is called with empty batches, to ask.
        clock: The session's clock. Sleeping is real time.
        exact: Do not let later members of a family of names join.
        poll_s: Seconds between sweeps while nothing happens.
        stdin: Where "-" is read from.
        max_open: Descriptors that may be held; None raises the soft limit and asks the system.
        hang_s: Seconds after which a call counts as hanging.
    """

    def __init__(
        self,
        specs: Sequence[str],
        sink: Callable[[list[SourceEvent]], bool],
        *,
        clock: Clock,
        exact: bool = False,
        poll_s: float = 0.1,
        stdin: BinaryIO | None = None,
        max_open: int | None = None,
        hang_s: float = HANG_S,
    ) -> None:
        self._sink = sink
        self._clock = clock
        self._poll_s = poll_s
        self._stdin = stdin
        self._max_open = max_open if max_open is not None else raise_limit()
        self._roster = Roster(specs, clock, exact=exact)
        self._absent = Absent(self._roster, clock, hang_s)
        self._lanes: Lanes[Subject] = Lanes(self._run, self._on_hang, hang_s)
        self._pump: StdinPump | None = None
        self._swept: list[Tail] = []
        self._history: deque[Tail] = deque()
        self._out: list[SourceEvent] = []
        self._bytes = self._lap = self._spoke = 0
        self._fresh: list[Tail] = []
        self._stale: list[list[Tail]] = []  # in as many parts as there are turns
        self._sorted_due = 0.0
        self._accepted = True
        self._begun = False

    def start(self) -> None:
        """Begin to follow, on daemon threads."""
        self._lanes.start()

    def stop(self) -> None:
        """End within 0.2 s, whatever a file system does; a thread that is blocked in a call is left to itself."""
        self._lanes.stop.set()
        self._lanes.wake.set()
        if self._pump is not None:
            self._pump.stop()
        thread = self._lanes.turn.thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(0.2)

    @property
    def closed(self) -> bool:
        """True once no event will come any more: stopped, or standard input was all and has ended."""
        thread = self._lanes.turn.thread
        return self._lanes.stop.is_set() or (thread is not None and not thread.is_alive())

    # ------------------------------------------------------------------ one cycle

    def _run(self, turn: Turn[Subject]) -> None:
        while not self._lanes.stop.is_set() and not self._nothing_left():
            self._cycle(turn)
        for tail in self._roster.tails:
            if tail.hangs is None:
                tail.close()

    def _nothing_left(self) -> bool:
        roster, pump = self._roster, self._pump
        return pump is not None and pump.ended and not (roster.tails or roster.waits or roster.patterns)

    def _cycle(self, turn: Turn[Subject]) -> None:
        started, spent = time.monotonic(), time.thread_time()
        turn.beat += 1
        self._take_back(turn)
        if not self._begun:
            self._begin()
        self._open_waits(turn)
        if self._scan(turn):
            self._open_waits(turn)
        self._roster.started = True
        news = self._sweep(turn)
        if self._pump is not None and not self._pump.ended:
            events = self._pump.take(64 if self._accepted else 1)
            self._add(events)
            news = news or bool(events)
        if self._out or self._history or not self._accepted:
            self._emit()
        busy = self._read_history(turn, started)
        if not self._lanes.stop.is_set():
            self._rest(busy, news, time.thread_time() - spent)

    def _begin(self) -> None:
        self._begun = True
        if self._roster.wants_stdin and self._stdin is not None:
            self._pump = StdinPump(self._roster.number(), self._stdin, self._clock, self._lanes.wake.set)
            self._out += self._pump.start()

    def _rest(self, busy: bool, news: bool, cost: float) -> None:
        """Sleep: not at all while history waits to be read, long while nothing happens, never spinning on news."""
        if busy and self._accepted:
            return
        if busy or not self._accepted:
            pause = 0.02
        elif news:
            # Where many files speak, each look brings a line or two of each: looked at less often they cost less.
            pause = min(max(self._poll_s * (0.5 if self._spoke < _SOME else 0.8), 15 * cost), 1.5 * self._poll_s)
        else:
            pause = self._poll_s
        if self._pump is not None and not self._pump.ended:
            self._lanes.stop.wait(0.02)  # a pipe that trickles must not make us run a sweep for each line
        self._lanes.wake.wait(pause)
        self._lanes.wake.clear()

    def _add(self, events: list[SourceEvent]) -> None:
        self._out += events
        for event in events:
            if isinstance(event, (Data, Ahead)):
                self._bytes += len(event.data)
            elif isinstance(event, Glimpse):
                self._bytes += len(event.head) + len(event.tail)
        if self._bytes >= BATCH:
            self._emit()

    def _emit(self) -> None:
        batch, self._out, self._bytes = self._out, [], 0
        if not self._lanes.stop.is_set():
            self._accepted = self._sink(batch)

    # ------------------------------------------------------------------ finding and opening

    def _scan(self, turn: Turn[Subject]) -> bool:
        """Match patterns again where that is due; True when any was."""
        scanned = False
        now, roster = self._clock.monotonic(), self._roster
        for pattern in list(roster.patterns):
            if pattern.hangs is not None or pattern.due > now:
                continue
            begun, scanned = time.monotonic(), True
            try:
                paths = self._lanes.do(turn, pattern, lambda p=pattern: p.scan(self._clock.now(), now))  # type: ignore[misc]
            except (OSError, ValueError) as error:
                self._out += roster.scan_failed(pattern, error)
                pattern.due = now + 5 * SCAN_S
                continue
            # A tree that is dear to walk is walked less often: half a per cent of the time at most.
            pattern.due = now + max(SCAN_S, 200 * (time.monotonic() - begun))
            self._out += roster.matched(pattern, paths, not roster.started)
        return scanned

    def _open_waits(self, turn: Turn[Subject]) -> None:
        roster, now = self._roster, self._clock.monotonic()
        ready = roster.ready(now)
        # The first screen waits for this: among many files each shows less of itself.
        share = _GLIMPSES // max(1, len(ready))
        long = LONG if len(ready) <= 16 else min(LONG, max(4 * share, 32 * 1024))
        head, end = min(HEAD, max(share // 4, 4096)), min(TAIL, max(share, 16 * 1024))
        for wait in ready:
            found = self._open(turn, wait)
            if found is None:
                continue
            tail, events = roster.opened(wait, found)
            self._out += events
            if tail is not None:
                tail.phase = "history"
                tail.due = now + CHECK_S * (1 + tail.source % 16 / 16)
                self._swept.append(tail)
                self._queue(tail)
                self._add(self._try(turn, tail, lambda t=tail: t.begin(long, head, end)))  # type: ignore[misc]

    def _open(self, turn: Turn[Subject], wait: Wait) -> Found | None:
        self._make_room()
        for last in (False, True):
            try:
                return self._lanes.do(turn, wait, lambda: open_text(wait.path))
            except (OSError, ValueError) as error:
                if not last and getattr(error, "errno", None) in (errno.EMFILE, errno.ENFILE):
                    self._max_open = max(16, sum(tail.fd >= 0 for tail in self._swept) - 8)
                    self._make_room()
                    continue
                self._out += self._roster.open_failed(wait, error)
                return None
        return None

    def _make_room(self) -> None:
        """Close the files that have been silent longest, where descriptors are short; their times are watched."""
        if len(self._swept) < self._max_open:
            return
        held = [tail for tail in self._swept if tail.fd >= 0]
        idle = [tail for tail in held if not tail.waits_to_switch]
        idle.sort(key=lambda tail: (tail.phase == "history", tail.active))
        for tail in idle[: max(0, len(held) + 1 - self._max_open)]:
            tail.park()

    # ------------------------------------------------------------------ reading

    def _sweep(self, turn: Turn[Subject]) -> bool:
        """Ask every file; True when any had news."""
        self._spoke = 0
        slot, now, pread = turn.slot, self._clock.monotonic(), os.pread
        enter, leave = slot.append, slot.pop
        for tail in self._portion(now):
            if tail.probe_size:
                # `Lanes.do`, written out: with a thousand files this loop is all that trainmon does when idle.
                enter(tail)
                try:
                    same = pread(tail.fd, tail.probe_size, tail.probe_at) == tail.probe_mark
                except OSError:
                    same = False
                try:
                    leave()
                except IndexError:
                    self._lanes.leave(turn, tail, [])
                if same:
                    if tail.due > now:
                        continue
                    if self._lanes.do(turn, tail, lambda t=tail: t.still_there(now)):  # type: ignore[misc]
                        tail.due = now + CHECK_S
                        continue
            elif tail.due > now:
                continue
            if self._look(turn, tail, now):
                self._spoke += 1
        return self._spoke > 0

    def _portion(self, now: float) -> list[Tail]:
        """The files to ask now: all; of very many, those that have been silent for long are asked in turn."""
        if len(self._swept) <= _MANY:
            return self._swept
        if now >= self._sorted_due or len(self._swept) != len(self._fresh) + sum(map(len, self._stale)):
            self._sorted_due = now + _STALE_S / 4
            self._fresh = [tail for tail in self._swept if now - tail.active < _STALE_S or not tail.probe_size]
            fresh = set(self._fresh)
            stale = [tail for tail in self._swept if tail not in fresh]
            self._stale = [[tail for tail in stale if tail.source % _TURNS == i] for i in range(_TURNS)]
        self._lap = (self._lap + 1) % _TURNS
        return self._fresh + self._stale[self._lap]

    def _look(self, turn: Turn[Subject], tail: Tail, now: float) -> bool:
        """Read a file's news, and look at its path when that is due; True when it had any."""
        check = tail.due <= now
        if check:
            tail.due = now + CHECK_S
        limit = _LIVE_LIMIT if self._accepted else _SATURATED_LIMIT
        if tail.parked and tail.phase == "live":
            self._make_room()
        events = self._try(turn, tail, lambda: tail.poll(limit, check))
        self._add(events)
        return self._after(tail, events)

    def _after(self, tail: Tail, events: list[SourceEvent]) -> bool:
        """Keep the books after a look; True when there was something."""
        roster = self._roster
        if tail.retired and tail.retired[-1][0] != tail.key:
            roster.moved_on(tail)
        if not tail.failures:
            roster.follows(self._out, tail)
        if tail.missing and tail.fd >= 0:
            tail.due = min(tail.due, tail.checked + 2 * self._poll_s)
        if events:
            if (now := self._clock.monotonic()) - tail.active > _STALE_S:
                self._sorted_due = now  # from now on it is asked as often as the others
            tail.active = now
            # Once it stops growing its path is looked at; a file that never stops, every other second.
            tail.due = min(tail.active + 1.5 * self._poll_s, tail.checked + 2 * CHECK_S)
            self._queue(tail)
        return bool(events)

    def _try(self, turn: Turn[Subject], tail: Tail, work: Callable[[], list[SourceEvent]]) -> list[SourceEvent]:
        """Do something with a file; an error is said once and tried again with growing pauses."""
        try:
            events = self._lanes.do(turn, tail, work)
        except (OSError, ValueError) as error:
            self._failed(tail, error)
            return []
        tail.failures = 0
        return events

    def _failed(self, tail: Tail, error: OSError | ValueError) -> None:
        tail.failures += 1
        tail.probe_size = 0
        pause = 0.25 if isinstance(error, FileNotFoundError) else min(30.0, 0.25 * 2 ** min(tail.failures, 8))
        tail.due = self._clock.monotonic() + pause
        self._roster.failed(self._out, tail, error)

    def _queue(self, tail: Tail) -> None:
        """Put a file behind the others whose history is read in turn, unless it stands there."""
        if tail.phase == "history" and not tail.queued:
            tail.queued = True
            self._history.append(tail)

    def _read_history(self, turn: Turn[Subject], started: float) -> bool:
        """Read blocks of history in turn, for as long as a sweep may wait; True when some could be read at once."""
        history = self._history
        failing = 0
        while history and failing < len(history) and self._accepted and not self._lanes.stop.is_set():
            tail = history.popleft()
            tail.queued = False
            if tail.failures and tail.due > self._clock.monotonic():
                self._queue(tail)
                failing += 1
                continue
            if tail.fd < 0:
                self._make_room()
            events = self._try(turn, tail, lambda t=tail: t.read_history(BLOCK))  # type: ignore[misc]
            self._queue(tail)
            self._add(events)
            self._after(tail, events)
            if time.monotonic() - started > self._poll_s / 2:
                break
        if self._out:
            self._emit()
        return len(history) > failing

    # ------------------------------------------------------------------ what does not answer

    def _on_hang(self, subject: Subject) -> None:
        """Leave out the subject and what lies beside it. The next turn goes on."""
        self._absent.leave_out(subject, self._out)
        self._swept = [tail for tail in self._swept if tail.hangs is None]
        self._fresh, self._stale = [], []
        self._history = deque(tail for tail in self._history if tail.hangs is None)

    def _take_back(self, turn: Turn[Subject]) -> None:
        """Go on with what hung, now that the call has returned, and with what has answered a trial."""
        for other in self._absent.answering(self._out):
            self._resume(other)
        while self._lanes.returned:
            subject, result = self._lanes.returned.popleft()
            if isinstance(result, Found):
                os.close(result.fd)
            for other in self._absent.held_by(subject):
                self._resume(other, said=other is subject)
            if isinstance(subject, Tail) and isinstance(result, (OSError, ValueError)):
                self._failed(subject, result)
            elif isinstance(subject, Tail) and isinstance(result, list):
                self._add(result)
                self._after(subject, result)

    def _resume(self, subject: Subject, *, said: bool = False) -> None:
        subject.hangs, subject.due = None, self._clock.monotonic()
        if isinstance(subject, Tail):
            self._swept.append(subject)
            subject.queued = False
            self._queue(subject)
            if not said:
                self._roster.follows(self._out, subject)
