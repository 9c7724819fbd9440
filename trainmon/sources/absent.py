"""What does not answer is left out, and so are its neighbours, until they are known to answer.

One call that hangs may mean one bad file (a lost part of a striped file system, a lock) or a mount that is down. So
what lies beside it is tried aside, on a few threads that nobody waits for: what answers is taken back within moments;
what hangs, too, stays out with its thread.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterator

from trainmon.clock import Clock
from trainmon.model import SourceEvent
from trainmon.sources.roster import Roster, Subject, Wait, neighbours
from trainmon.sources.tail import Tail

MOST = 4
"""Threads that may hang in trials at once; when all do, the rest waits until one comes back."""
STRIKES, WITHIN_S, AGAIN_S = 3, 60.0, 30.0
"""After so many hangs of one place within so many seconds its neighbours are tried only after the last ones: what
answers a trial (out of a cache) and hangs at work would hold up everything time and again."""


class Absent:
    """See the module's docstring.

    Args:
        roster: Knows what there is, and says what hangs.
        clock: The reader's clock.
        hang_s: Seconds after which a call counts as hanging.
    """

    def __init__(self, roster: Roster, clock: Clock, hang_s: float) -> None:
        self._roster = roster
        self._clock = clock
        self._hang_s = hang_s
        self._lock = threading.Lock()
        self._todo: deque[tuple[float, Subject]] = deque()
        self._trying: dict[int, tuple[Subject, float]] = {}
        self._threads = 0
        self._answered: deque[Subject] = deque()
        self._hung: deque[tuple[float, Subject]] = deque(maxlen=64)

    def leave_out(self, subject: Subject, out: list[SourceEvent]) -> None:
        """A call about `subject` hangs. While this runs no other thread touches the roster."""
        now = self._clock.monotonic()
        self._hung.append((now, subject))
        strikes = sum(now - when < WITHIN_S and neighbours(other, subject) for when, other in self._hung)
        due = now if strikes < STRIKES else now + AGAIN_S
        beside = [
            o for o in self._roster.everything() if o is not subject and o.hangs is None and neighbours(o, subject)
        ]
        for other in (subject, *beside):
            other.hangs = subject
        self._roster.hangs(out, subject)
        if due > now:
            for other in beside:
                self._roster.hangs(out, other)
        with self._lock:
            self._todo.extend((due, other) for other in beside)

    def held_by(self, subject: Subject) -> list[Subject]:
        """Its call has returned: what was left out because of it, itself included."""
        return [other for other in self._roster.everything() if other.hangs is subject]

    def answering(self, out: list[SourceEvent]) -> Iterator[Subject]:
        """What has answered a trial since the last call. Says what hangs there, too, and goes on trying."""
        if not (self._todo or self._trying or self._answered):
            return
        while self._answered:
            subject = self._answered.popleft()
            if subject.hangs is not None and subject.hangs is not subject:
                yield subject
        now = self._clock.monotonic()
        with self._lock:
            stuck = [subject for subject, since in self._trying.values() if now - since > self._hang_s]
            waiting = [subject for _, subject in self._todo]
            begin = bool(waiting) and self._threads < MOST and self._todo[0][0] <= now
            if begin:
                self._threads += 1
        for subject in stuck + (waiting if len(stuck) >= MOST else []):
            if subject.hangs is not None:
                self._roster.hangs(out, subject)
        if begin:
            threading.Thread(target=self._try_all, name="trainmon-trial", daemon=True).start()

    def _try_all(self) -> None:
        me = threading.get_ident()
        while True:
            with self._lock:
                self._trying.pop(me, None)
                now = self._clock.monotonic()
                if not self._todo or self._todo[0][0] > now:
                    self._threads -= 1
                    return
                _, subject = self._todo.popleft()
                self._trying[me] = subject, now
            if subject.hangs is None:
                continue
            try:
                _touch(subject)
            except (OSError, ValueError):
                pass  # that is an answer, too
            self._answered.append(subject)


def _touch(subject: Subject) -> None:
    """Ask for something that has to come from where it lies."""
    if isinstance(subject, Tail):
        if subject.fd >= 0:
            os.pread(subject.fd, max(1, subject.probe_size), max(0, subject.probe_at))
        os.stat(subject.path)
    elif isinstance(subject, Wait):
        os.stat(subject.path)
    else:
        with os.scandir(subject.base) as entries:
            next(entries, None)
