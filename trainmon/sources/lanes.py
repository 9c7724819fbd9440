"""A thread whose calls may block for ever, and the next one that goes on without what blocked.

Whatever may block is done with its subject in the turn's slot. When one subject stays there too long, the watcher takes
it out: the blocked thread finds the slot empty when its call returns at last, hands over what it has and ends, while a
new thread has gone on with everything else since. List append and pop are atomic, so that one side gets the subject.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

S = TypeVar("S")
T = TypeVar("T")


class Superseded(BaseException):
    """This thread's call took too long: another one has taken over, and this one has to end."""


class Turn(Generic[S]):
    """The working thread of the moment.

    Attributes:
        slot: Holds the subject of the call that is being made, or nothing.
        beat: Grows with every call, so that the watcher can tell a slow thread from a blocked one.
    """

    def __init__(self) -> None:
        self.slot: list[S] = []
        self.beat = 0
        self.thread: threading.Thread | None = None


class Lanes(Generic[S]):
    """Runs one turn at a time, and replaces it when its call does not come back.

    Args:
        run: What a turn does until it is to end.
        on_hang: Called on the watcher's thread with the subject that blocks, before the next turn begins; no other
            thread touches the owner's state then.
        hang_s: Seconds after which a call counts as hanging.
    """

    def __init__(self, run: Callable[[Turn[S]], None], on_hang: Callable[[S], None], hang_s: float) -> None:
        self._run = run
        self._on_hang = on_hang
        self._hang_s = hang_s
        self.stop = threading.Event()
        self.wake = threading.Event()
        self.returned: deque[tuple[S, object]] = deque()
        """What late calls gave: (subject, result or exception)."""
        self.turn: Turn[S] = Turn()

    def start(self) -> None:
        """Begin the first turn and the watcher."""
        self._spawn(self.turn)
        threading.Thread(target=self._watch, name="trainmon-reader-watch", daemon=True).start()

    def _spawn(self, turn: Turn[S]) -> None:
        self.turn = turn
        turn.thread = threading.Thread(target=self._main, args=(turn,), name="trainmon-reader", daemon=True)
        turn.thread.start()

    def _main(self, turn: Turn[S]) -> None:
        try:
            self._run(turn)
        except Superseded:
            pass

    def do(self, turn: Turn[S], subject: S, work: Callable[[], T]) -> T:
        """Do what may block.

        Raises:
            Superseded: It blocked for too long; the result was handed over.
            OSError, ValueError: As `work` raises them.
        """
        turn.beat += 1
        turn.slot.append(subject)
        try:
            result = work()
        except (OSError, ValueError) as error:
            self.leave(turn, subject, error)
            raise
        self.leave(turn, subject, result)
        return result

    def leave(self, turn: Turn[S], subject: S, result: object) -> None:
        """Take the subject out of the slot after the call.

        Raises:
            Superseded: The watcher was faster.
        """
        try:
            turn.slot.pop()
        except IndexError:
            self.returned.append((subject, result))
            self.wake.set()
            raise Superseded from None

    def _watch(self) -> None:
        """Look for a call that does not come back. Counts its own ticks: a process that was stopped finds nothing."""
        seen: tuple[Turn[S], int, S] | None = None
        ticks = 0
        while not self.stop.wait(self._hang_s / 4):
            turn = self.turn
            try:
                now = (turn, turn.beat, turn.slot[-1])
            except IndexError:
                seen = None
                continue
            if seen is None or now[0] is not seen[0] or now[1] != seen[1] or now[2] is not seen[2]:
                seen, ticks = now, 0
                continue
            ticks += 1
            if ticks < 4:
                continue
            seen = None
            try:
                subject = turn.slot.pop()
            except IndexError:
                continue
            self._on_hang(subject)
            self._spawn(Turn())
