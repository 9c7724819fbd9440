"""`parse --follow`: the records of sources that grow, as `tail -F` follows lines, across rotation and truncation."""

from __future__ import annotations

import os
import queue
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO

from trainmon.clock import SystemClock
from trainmon.commands.parse_output import Output
from trainmon.commands.parse_source import Reading
from trainmon.commands.parse_time import LineClock, Neighbours, span_of
from trainmon.commands.parse_wanted import Wanted
from trainmon.commands.say import complain
from trainmon.errors import UsageError
from trainmon.model import Data, Opened, Record, Replaced, SourceEvent, SourceState
from trainmon.parsing.parser import FileParser
from trainmon.settings import Settings

_QUIET_S = 1.0
"""After so long without a word, a last line without its end, a progress bar or a traceback counts as complete."""
_NAP_S = 0.25
_WAITING = 32 << 20
_SLICE = 256 << 10


@dataclass
class _File:
    """One source that is followed.

    Attributes:
        start: Offset before which nothing is wanted of its first generation; lines_before: the lines counted there.
        shift: Seconds that its times are off, see `zone_shift`.
    """

    name: str
    parser: FileParser
    neighbours: Neighbours
    generation: int = 0
    fed: float = 0.0
    whole: bool = True
    pending: bool = False
    start: int = 0
    lines_before: int = 0
    shift: float = 0.0


def follow(specs: Sequence[str], settings: Settings, reading: Reading, wanted: Wanted, output: Output) -> int:
    """Write what the sources hold and then what they get, until nobody reads any more or all has ended.

    Returns:
        0. An interrupt is raised on, as everywhere.

    Raises:
        OSError: The output cannot be written.
    """
    from trainmon.commands.tail import nobody_reads
    from trainmon.sources.reader import Reader

    events: queue.SimpleQueue[list[SourceEvent]] = queue.SimpleQueue()
    follower = Follower(reading, wanted, output)
    taken = [0, 0]  # bytes that came, bytes that were parsed

    def sink(batch: list[SourceEvent]) -> bool:
        taken[0] += sum(len(event.data) for event in batch if isinstance(event, Data))
        if batch:
            events.put(batch)
        return taken[0] - taken[1] < _WAITING

    stdin: BinaryIO | None = None
    if "-" in specs:
        if sys.stdin is None:
            raise UsageError("standard input is closed: there is nothing to read for -")
        stdin = open(0, "rb", buffering=0, closefd=False)  # noqa: SIM115
    reader = Reader(specs, sink, clock=SystemClock(), exact=True, poll_s=settings.poll_s, stdin=stdin)
    reader.start()
    try:
        while True:
            try:
                batch = events.get(timeout=_NAP_S)
            except queue.Empty:
                follower.quiet(time.monotonic())
                if nobody_reads() or (reader.closed and events.empty()):
                    break
                continue
            for event in batch:
                follower.handle(event)
                if isinstance(event, Data):
                    taken[1] += len(event.data)
            follower.quiet(time.monotonic())
        follower.end()
    finally:
        reader.stop()
    return 0


class Follower:
    """Turns the reader's events into records that are written.

    Args:
        reading: How sources are read.
        wanted: What is written of them.
        output: Where it goes.
    """

    def __init__(self, reading: Reading, wanted: Wanted, output: Output) -> None:
        self._reading = reading
        self._wanted = wanted
        self._output = output
        self._files: dict[int, _File] = {}
        self._said: set[tuple[str, str]] = set()

    def handle(self, event: SourceEvent) -> None:
        """Take in one event. What a source holds comes as `Data`, each byte once; glimpses of it are not needed."""
        if isinstance(event, Data):
            self._data(event)
        elif isinstance(event, Opened):
            parser = self._reading.parser(event.name, event.mtime)
            file = self._files[event.source] = _File(event.name, parser, Neighbours(event.mtime))
            if self._wanted.since is not None and event.path != "-" and event.size:
                self._search(file, event)
        elif isinstance(event, Replaced):
            self._replaced(event)
        elif isinstance(event, SourceState) and event.bad and (event.spec, event.word) not in self._said:
            self._said.add((event.spec, event.word))
            self._output.flush()
            complain(f"{event.spec}: {event.word}; {event.sentence}")

    def _search(self, file: _File, event: Opened) -> None:
        """Where in a file that is there already the time begins that is asked for."""
        try:
            descriptor = os.open(event.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except (OSError, ValueError):
            return
        try:
            clock = LineClock(self._reading.formats, event.mtime)
            part, file.shift = span_of(descriptor, event.size, event.mtime, clock.time_of, self._wanted.since, None)
            file.start = part[0]
        except OSError:
            pass
        finally:
            os.close(descriptor)

    def _data(self, event: Data) -> None:
        file = self._files.get(event.source)
        if file is None:
            return
        file.parser.mtime = file.neighbours.fallback = event.mtime
        file.fed, file.pending = time.monotonic(), True
        file.whole = event.data.endswith(b"\n")
        data, offset = event.data, event.offset
        if event.generation == 0 and offset < file.start:
            skipped = data[: file.start - offset]
            file.lines_before += skipped.count(b"\n")
            data, offset = data[len(skipped) :], offset + len(skipped)
            file.parser.lines = file.lines_before
        for start in range(0, len(data), _SLICE):
            part = data[start : start + _SLICE]
            self._put(file, file.parser.feed(part, offset + start), file.parser.last_time)

    def _replaced(self, event: Replaced) -> None:
        file = self._files.get(event.source)
        if file is None:
            return
        self._put(file, file.parser.restart(event.generation), None)
        if event.lost:
            from trainmon.session.files import gap_record

            gap = gap_record(event, file.name, "", time.time())
            gap.node = file.parser.node
            if event.lost_bytes:
                gap.extra["bytes"] = event.lost_bytes
            self._put(file, [gap], None)

    def quiet(self, now: float) -> None:
        """Take as complete what files hold back that have been silent.

        Args:
            now: Monotonic seconds.
        """
        for file in self._files.values():
            if file.pending and now - file.fed >= _QUIET_S:
                file.pending = False
                # The rest of a half line may come minutes later; what else waits is complete.
                self._put(file, file.parser.finish() if file.whole else file.parser.settle(), None)
                self._write(file.neighbours.end(), file)

    def end(self) -> None:
        """Nothing comes any more."""
        for file in self._files.values():
            self._put(file, file.parser.finish(), None)
            self._write(file.neighbours.end(), file)

    def _put(self, file: _File, records: list[Record], newest: float | None) -> None:
        if not self._wanted.timed:
            self._output.write(self._wanted.of_kind(records))
        else:
            self._write(file.neighbours.take(records, newest), file)

    def _write(self, timed: list[tuple[float, Record]], file: _File) -> None:
        self._output.write([record for _, record in self._wanted.between(timed, file.shift)])
