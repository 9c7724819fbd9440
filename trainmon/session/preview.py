"""The provisional run: heads and tails of long files, and what is appended while their pasts are read."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterable

from trainmon.model import Ahead, CaughtUp, Data, Glimpse, Record, Replaced
from trainmon.parsing.parser import FileParser
from trainmon.session.files import SourceFile
from trainmon.session.run import RunState
from trainmon.session.weave import Weaver

_TAILS = 2 << 20
_TAIL_MIN = 16 << 10
"""Bytes of all tails, and at least of each, that make the first picture."""
_BREATHE_S = 0.004


_ENDS_WORTH = 128 << 10
_HEAD = 16 << 10
_ENDS_FILES = 16
"""From this size on, and with so few files, a file that is no long one is shown by its ends, too."""


def ends_of(past: Weaver, file: SourceFile, event: Data, files: int) -> Glimpse | None:
    """The ends of a file of middle size that waits as a whole, to be shown before it is parsed; None: not so one.

    Args:
        past: Where it waits.
        event: Its newest piece.
        files: How many files there are.
    """
    whole = event.offset + len(event.data) >= event.size
    if not whole or file.glimpsed or event.size < _ENDS_WORTH or files > _ENDS_FILES:
        return None
    ends = past.ends(file.id, _HEAD, _ENDS_WORTH // 2)
    return Glimpse(file.id, event.generation, *ends, event.size) if ends and ends[2] > len(ends[0]) else None


class Breath:
    """Lets other threads in, once in some milliseconds, when it is called in the midst of long work."""

    def __init__(self) -> None:
        self._at = 0.0

    def __call__(self) -> None:
        if time.monotonic() - self._at > _BREATHE_S:
            time.sleep(0)
            self._at = time.monotonic()


class Preview:
    """See the module's docstring.

    Args:
        breathe: Called between slices, so that other threads come to their turn.

    Attributes:
        run: The provisional run; None while there is none.
        gap_steps: Newest steps of the heads: what follows them is not known yet.
    """

    def __init__(self, breathe: Callable[[], None]) -> None:
        self.run: RunState | None = None
        self.gap_steps: set[int] = set()
        self.fed: set[int] = set()
        """Files whose parsers may hold something back."""
        self._breathe = breathe
        self._ends = self._new_weaver()

    def begin(self, forward: RunState, shared: Iterable[object]) -> RunState:
        """Go on from what the forward run knows, in a copy of it; gives that run.

        Args:
            shared: What is not copied.
        """
        self.run = copy.deepcopy(forward, {id(one): one for one in shared})
        return self.run

    def glimpse(self, file: SourceFile, event: Glimpse, parser: FileParser, when: float, files: int) -> bytes:
        """Take in both ends of a file; only what is cheap is done at once, the tail waits for `work`.

        Args:
            parser: A new one for this file, without line numbers.
            when: What stands for the arrival of its lines.
            files: How many files share the first picture.

        Returns:
            The part of the tail that is going to be read.
        """
        assert self.run is not None
        file.glimpsed = True
        file.size = event.size
        file.ahead = parser
        file.ahead_generation = event.generation
        head = parser.feed(event.head, 0)
        if not file.records:  # else the run that this one was copied from has them
            self.run.feed(file, head, when, live=False, detect=False)
        self.run.leap(file)
        steps = [step for record in head if isinstance(step := record.values.get("step"), int)]
        if steps:
            self.gap_steps.add(max(steps))
        # With many files a part of each tail has to do.
        most = max(_TAIL_MIN, _TAILS // max(1, files))
        tail, offset = event.tail, event.tail_offset
        if len(tail) > most:
            cut = tail.find(b"\n", len(tail) - most) + 1
            tail, offset = tail[cut:], offset + cut
        if file.id not in self._ends:
            self._ends.open(file)
        self._ends.add(Data(file.id, event.generation, offset, tail, event.size, file.mtime), when)
        self._ends.close(file.id)
        return tail

    def ahead(self, file: SourceFile, event: Ahead, now: float) -> None:
        """Take in what was appended behind the tail."""
        if self.run is None or file.ahead is None:
            return
        if not file.chatter:
            self.run.heard(file.node, now, live=True)
        if file.id in self._ends:
            end = event.offset + len(event.data)
            self._ends.add(Data(file.id, event.generation, event.offset, event.data, end, event.mtime), now)
        else:
            self.run.feed(file, file.ahead.feed(event.data, event.offset), now, live=True)
            self.fed.add(file.id)

    def work(self, over: Callable[[], bool]) -> bool:
        """Read on in the tails until `over` says so; True when there is more."""
        return self._ends.work(over, force=True)

    def flush(self, file: SourceFile, *, whole: bool) -> None:
        """Take what the file's parser holds back as complete; whole: the last line, too."""
        if self.run is not None and file.ahead is not None:
            records = file.ahead.finish() if whole else file.ahead.settle()
            self.run.feed(file, records, file.heard, live=False)

    def end(self) -> RunState | None:
        """It is no longer needed; returns the provisional run."""
        run, self.run = self.run, None
        self.gap_steps.clear()
        self.fed.clear()
        self._ends = self._new_weaver()
        return run

    def _new_weaver(self) -> Weaver:
        return Weaver(self._parse, self._give, self._mark)

    def _parse(self, file: SourceFile, data: bytes, offset: int, size: int) -> list[Record]:
        self._breathe()
        if self.run is not None and data and not file.chatter:
            self.run.heard(file.node, file.heard, live=False)
        return file.ahead.feed(data, offset) if file.ahead is not None else []

    def _give(self, file: SourceFile, records: list[Record], arrival: float) -> None:
        if self.run is not None:
            self.run.feed(file, records, arrival, live=False)
            self.fed.add(file.id)

    def _mark(self, event: CaughtUp | Replaced) -> None:
        """Tails hold text only."""
