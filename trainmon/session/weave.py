"""Reads the pasts of many files side by side, so that the records of one moment come together.

The detectors compare nodes at the same step and look for the first error; files that are read one after the other
would hide both. Each file's bytes wait in its lane, are parsed in slices when its turn comes, and its records are
given in the order of steps (a node's clock may be off); files without steps follow by their times.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from trainmon.model import CaughtUp, Data, Record, Replaced
from trainmon.session.files import SourceFile

Piece = Data | CaughtUp | Replaced


@dataclass(frozen=True, slots=True)
class Leap:
    """What was taken in by columns: how many bytes, the last step and time of them (None: of none)."""

    size: int
    step: int | None = None
    time: float | None = None


SLICE_MAX = 32 << 10
SLICE_MIN = 2 << 10
_SLICES = 256 << 10
_FIRST = float("-inf")


@dataclass(slots=True)
class Lane:
    """One file's past.

    Attributes:
        pieces: What waits to be parsed; at: bytes of the first piece that are parsed.
        records: Parsed, not yet given.
        progress: Steps gone forward so far; unlike the step it never goes back at a resume. None before the first.
        time: The newest time given.
        slice: Bytes that are read record by record before columns are tried again.
    """

    file: SourceFile
    pieces: deque[Piece] = field(default_factory=deque)
    at: int = 0
    records: deque[Record] = field(default_factory=deque)
    arrival: float = 0.0
    progress: float | None = None
    step: int | None = None
    time: float = _FIRST
    slice: int = SLICE_MIN
    done: bool = False
    queued: bool = False


class Weaver:
    """Holds the lanes and gives their records in order.

    Args:
        parse: Turns a file's next bytes into records: (file, bytes, offset, size of the file).
        give: Takes one or several records of one file, with the arrival that stands for them.
        mark: Takes what is no text (the end is met, a new generation), when everything before it was given.
        finish: Gives what the file's parser holds back at the end of its past.
        leap: Takes in what comes next of the only file by columns, if that can be: (file, piece, where in it, arrival).
    """

    def __init__(
        self,
        parse: Callable[[SourceFile, bytes, int, int], list[Record]],
        give: Callable[[SourceFile, list[Record], float], None],
        mark: Callable[[CaughtUp | Replaced], None],
        finish: Callable[[SourceFile], list[Record]] | None = None,
        leap: Callable[[SourceFile, Data, int, float], Leap | None] | None = None,
    ) -> None:
        self._parse = parse
        self._give = give
        self._mark = mark
        self._finish = finish
        self._leap = leap
        self._lanes: dict[int, Lane] = {}
        self._steps: list[tuple[float, int]] = []  # heads of lanes that have steps, by progress
        self._times: list[tuple[float, int]] = []  # heads of the others, by time
        self._dry: set[int] = set()
        self.waiting_bytes = 0
        """Bytes of text that wait."""

    def __contains__(self, source: int) -> bool:
        return source in self._lanes

    def __len__(self) -> int:
        return len(self._lanes)

    def open(self, file: SourceFile) -> None:
        """A file whose past is going to come."""
        self._lanes[file.id] = Lane(file)
        self._dry.add(file.id)

    def add(self, piece: Piece, arrival: float) -> None:
        """The next piece of an opened file's past."""
        lane = self._lanes[piece.source]
        lane.pieces.append(piece)
        if isinstance(piece, Data):
            lane.arrival = arrival
            self.waiting_bytes += len(piece.data)
        if not lane.queued:
            self._dry.discard(piece.source)
            if self._leap is not None and len(self._lanes) == 1 and lane.file.spoke and isinstance(piece, Data):
                self._leapt(lane, Leap(0))  # its turn comes with `work`
            else:
                self._fill(lane)

    def ends(self, source: int, head: int, tail: int) -> tuple[bytes, bytes, int] | None:
        """Whole lines of both ends of what waits of a file, and the offset of the second; None when its start is gone.

        Args:
            head, tail: How many bytes of each, at most.
        """
        pieces = [piece for piece in self._lanes[source].pieces if isinstance(piece, Data)]
        if not pieces or pieces[0].offset:
            return None
        first = pieces[0].data[:head]
        last = b""
        for piece in reversed(pieces):
            last = piece.data + last
            if len(last) >= tail:
                break
        end = pieces[-1].offset + len(pieces[-1].data)
        last = last[-tail:]
        last = last[last.find(b"\n") + 1 :]
        return first[: first.rfind(b"\n") + 1], last, end - len(last)

    def close(self, source: int) -> None:
        """No more will come of this file's past."""
        lane = self._lanes.get(source)
        if lane is not None:
            lane.done = True
            self._dry.discard(source)
            if not lane.queued and not lane.pieces:
                del self._lanes[source]

    def work(self, over: Callable[[], bool], *, force: bool = False) -> bool:
        """Give records until `over` says so.

        Args:
            force: Do not wait for lanes of which nothing has come yet.

        Returns:
            True when more can be given at once.
        """
        count = 0
        while self._steps or self._times:
            if self._dry and not force:
                return False
            leapt = self._next()
            count += 1
            if (leapt or count % 16 == 0) and over():
                return True
        return False

    def _next(self) -> bool:
        """Give the earliest record; True when many were taken in at once."""
        by_step = not self._times
        if self._times and self._steps:
            first = self._lanes[self._steps[0][1]]
            time = first.records[0].time if first.records else first.time
            by_step = self._times[0][0] > (time if time is not None else _FIRST)
        _, source = heapq.heappop(self._steps if by_step else self._times)
        lane = self._lanes[source]
        lane.queued = False
        if len(self._lanes) == 1 or not lane.records:
            records = list(lane.records)
            lane.records.clear()
        else:
            records = [lane.records.popleft()]
        for record in records:
            if record.time is not None and record.time > lane.time:
                lane.time = record.time
        if records:
            self._give(lane.file, records, lane.arrival)
        return self._fill(lane, leap=True)

    def _fill(self, lane: Lane, *, leap: bool = False) -> bool:
        """Parse on until the lane has a record to give, and queue it; True when records were taken in on the way."""
        source = lane.file.id
        size = min(SLICE_MAX, max(SLICE_MIN, _SLICES // len(self._lanes)))
        while not lane.records and lane.pieces:
            piece = lane.pieces[0]
            if not isinstance(piece, Data):
                if isinstance(piece, CaughtUp) and not lane.done:
                    lane.done = True
                    if self._finish is not None:
                        lane.records.extend(self._finish(lane.file))
                        continue
                lane.pieces.popleft()
                self._mark(piece)
                continue
            if leap and self._leap is not None and len(self._lanes) == 1:
                leapt = self._leap(lane.file, piece, lane.at, lane.arrival)
                if leapt is not None:
                    self._passed(lane, piece, leapt.size)
                    self._leapt(lane, leapt)
                    return True
                size, lane.slice = lane.slice, min(2 * lane.slice, SLICE_MAX)
            part = piece.data[lane.at : lane.at + size] if lane.at or len(piece.data) > size else piece.data
            offset = piece.offset + lane.at
            self._passed(lane, piece, len(part))
            lane.records.extend(self._parse(lane.file, part, offset, piece.size))
        if lane.records:
            lane.queued = True
            self._queue(lane, lane.records[0])
        elif lane.done and not lane.pieces:
            self._lanes.pop(source, None)
        elif source in self._lanes:
            self._dry.add(source)
        return False

    def _passed(self, lane: Lane, piece: Data, size: int) -> None:
        lane.at += size
        self.waiting_bytes -= size
        if lane.at >= len(piece.data):
            lane.pieces.popleft()
            lane.at = 0

    def _leapt(self, lane: Lane, leap: Leap) -> None:
        """Queue a lane that has no record at hand."""
        if leap.step is not None:
            lane.slice = SLICE_MIN
            lane.progress = float(leap.step) if lane.progress is None else lane.progress + leap.step - (lane.step or 0)
            lane.step = leap.step
        if leap.time is not None:
            lane.time = max(lane.time, leap.time)
        lane.queued = True
        if lane.progress is not None:
            heapq.heappush(self._steps, (lane.progress, lane.file.id))
        else:
            heapq.heappush(self._times, (lane.time, lane.file.id))

    def _queue(self, lane: Lane, record: Record) -> None:
        step = record.values.get("step")
        if isinstance(step, int) and record.kind == "metrics":
            if lane.progress is None:
                lane.progress = float(step)
            elif lane.step is not None and step != lane.step:
                lane.progress += step - lane.step if step > lane.step else 1
            lane.step = step
        if lane.progress is not None:
            heapq.heappush(self._steps, (lane.progress, lane.file.id))
        else:
            time = record.time if record.time is not None else lane.time
            if time == _FIRST and _is_end(lane):
                time = -_FIRST
            heapq.heappush(self._times, (max(time, lane.time), lane.file.id))


def _is_end(lane: Lane) -> bool:
    """Whether a lane has neither steps nor times nor anything more to come: the last words of a rank's stderr."""
    if any(isinstance(piece, Data) for piece in lane.pieces):
        return False
    return all(record.time is None and "step" not in record.values for record in lane.records)
