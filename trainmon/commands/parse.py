"""`trainmon parse`: logs in, records out, one block at a time."""

from __future__ import annotations

import argparse
import os
import stat
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from trainmon.commands.parse_output import Output
from trainmon.commands.parse_wanted import Wanted
from trainmon.commands.progress import Progress
from trainmon.commands.say import complain
from trainmon.errors import SourceError, UsageError

if TYPE_CHECKING:
    from trainmon.commands.parse_source import Reading, Source
    from trainmon.model import Record
    from trainmon.settings import Settings

_MANY_OPEN = 64 << 20
"""Bytes that the blocks of all sources take together, where all of them are open."""


def run(options: argparse.Namespace) -> int:
    """Write the records of every source.

    Returns:
        0, or 3 when a source could not be read at all (the others are still written).

    Raises:
        UsageError: Options that do not go together, or a time that is none.
        SourceError: The output cannot be written where it shall.
    """
    from trainmon.commands.tail import signals_raise

    now = time.time()
    wanted = Wanted.of(options, now)
    _check(options)
    settings = settings_of(options)
    reading = reading_of(settings, wanted)
    with signals_raise(), ExitStack() as stack:
        output = stack.enter_context(Output(options))
        if options.follow:
            from trainmon.commands.parse_follow import follow

            code = follow(options.sources, settings, reading, wanted, output)
        else:
            code = _Job(options, reading, wanted, output, now).run()
        output.commit()
    return code


def _check(options: argparse.Namespace) -> None:
    """Refuse what does not go together.

    Raises:
        UsageError: With what to do instead.
    """
    for name in options.sources:
        if any(target and _same(name, target) for target in (options.out, options.quarantine)):
            raise UsageError(f"{name} is a source and what is written: its log would be lost; name another file")
    if options.follow:
        if options.out:
            raise UsageError("--out writes a whole file at the end, which --follow never reaches; use > FILE")
        if options.merge:
            raise UsageError("--merge needs the whole of every source, which --follow never has; give one of them")
        if options.to == "parquet":
            raise UsageError("a Parquet file is written at the end, which --follow never reaches; use --to jsonl")
    if options.to == "parquet":
        from trainmon.outputs.parquet import load

        load()
        if not options.out and sys.stdout.isatty():
            raise UsageError("a Parquet file is nothing for a terminal; give --out FILE")


def _same(source: str, target: str) -> bool:
    """Whether both are one file. What is no file, such as a terminal, has no log to lose."""
    try:
        return os.path.isfile(source) and os.path.samefile(source, target)
    except (OSError, ValueError):
        return False


def settings_of(options: argparse.Namespace) -> Settings:
    """The settings, with a word on files that do not answer.

    Raises:
        ConfigError: The configuration is wrong.
    """
    from trainmon.settings import load

    settings = load(Path(options.config) if options.config else None)
    for path in settings.unread:
        complain(f"{path} does not answer (a network file system that is down?): going on without it")
    return settings


def reading_of(settings: Settings, wanted: Wanted) -> Reading:
    """How the sources are read, as settings and options say."""
    from trainmon.catalogue import load as load_catalogue
    from trainmon.commands.parse_source import Reading
    from trainmon.settings.plugins import known_formats

    formats = known_formats(settings, complain)
    return Reading(settings.tags_for, formats, load_catalogue(), wanted.keep_log, wanted.timed)


class _Job:
    """One run over sources that end."""

    def __init__(
        self, options: argparse.Namespace, reading: Reading, wanted: Wanted, output: Output, now: float
    ) -> None:
        self._options = options
        self._reading = reading
        self._wanted = wanted
        self._output = output
        self._now = now
        self._code = 0
        self._progress = Progress(0)

    def run(self) -> int:
        from dataclasses import replace

        from trainmon.commands.parse_source import BLOCK, TIMED_BLOCK, expand

        names = [name for name in expand(self._options.sources) if not self._is_output(name)]
        self._progress = Progress(_bytes_of(names), quiet=self._output.on_terminal)
        block = TIMED_BLOCK if self._wanted.timed else BLOCK
        if self._options.merge:
            block = max(16 << 10, min(block, _MANY_OPEN // max(1, len(names))))
        self._reading = replace(self._reading, block=block, read=self._progress.add)
        try:
            if self._options.merge:
                self._merge(names)
            else:
                for name in names:
                    self._one(name)
        finally:
            self._progress.clear()
        return self._code

    def _is_output(self, name: str) -> bool:
        """Whether a pattern found the file that is being written, from the last time; it is left out."""
        if name == "-" or not self._output.is_same(name):
            return False
        complain(f"{name} is what --out or --quarantine writes: left out")
        return True

    def _one(self, name: str) -> None:
        try:
            source = self._open(name)
            if source is None:
                return
            try:
                for records in self._batches(source):
                    self._output.write(records)
            finally:
                source.close()
        except SourceError as error:
            self._failed(error)

    def _failed(self, error: SourceError) -> None:
        self._output.flush()
        self._progress.clear()
        complain(str(error))
        self._code = error.exit_code

    def _open(self, name: str) -> Source | None:
        """A source; None when it was last written before what is asked for."""
        from trainmon.commands.parse_source import Source

        since = self._wanted.since
        if since is not None and name != "-":
            try:
                found = os.stat(name)
            except (OSError, ValueError):
                found = None  # opening it says why
            if found is not None and stat.S_ISREG(found.st_mode) and found.st_mtime < since:
                self._progress.add(found.st_size, name)
                return None
        return Source(name, self._reading)

    def _batches(self, source: Source) -> Iterator[list[Record]]:
        """What was asked for of one source, in file order."""
        wanted = self._wanted
        if not wanted.timed:
            for records, _ in source.batches():
                yield wanted.of_kind(records)
            return
        for timed in self._timed(source):
            yield [record for _, record in timed]

    def _timed(self, source: Source) -> Iterator[list[tuple[float, Record]]]:
        """The same with the times that the records take from their neighbours."""
        from trainmon.commands.parse_time import Neighbours

        wanted = self._wanted
        part, shift = self._part(source)
        fallback = source.mtime if source.mtime is not None else self._now
        neighbours = Neighbours(fallback - shift)
        for records, newest in source.batches(part):
            yield wanted.between(neighbours.take(records, newest), shift)
        yield wanted.between(neighbours.end(), shift)

    def _part(self, source: Source) -> tuple[tuple[int, int] | None, float]:
        """The part of a source that can hold what is asked for, and how far its times are off (see `zone_shift`)."""
        from trainmon.commands.parse_time import LineClock, span_of

        wanted = self._wanted
        if (wanted.since is None and wanted.until is None) or source.mtime is None or not source.size:
            return None, 0.0
        clock = LineClock(self._reading.formats, source.mtime)
        try:
            part, shift = span_of(
                source.descriptor, source.size, source.mtime, clock.time_of, wanted.since, wanted.until
            )
        except OSError:  # reading it says why
            return None, 0.0
        return (None if part == (0, source.size) else part), shift

    def _merge(self, names: list[str]) -> None:
        from trainmon.commands.parse_merge import merged
        from trainmon.sources.limits import raise_limit

        raise_limit()
        for records in merged(names, self._open, self._timed, self._failed, self._start_of):
            self._output.write(records)

    def _start_of(self, name: str) -> float | None:
        """The first time that a file carries, as a cheap look at its head tells; None: it has to be read."""
        from trainmon.commands.parse_time import LineClock

        if name == "-":
            return None
        try:
            descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except (OSError, ValueError):
            return None
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                return None
            clock = LineClock(self._reading.formats, found.st_mtime)
            for line in os.pread(descriptor, 16 << 10, 0).split(b"\n")[:100]:
                if line.strip() and (when := clock.time_of(line)) is not None:
                    return when
        except OSError:
            return None
        finally:
            os.close(descriptor)
        return None


def _bytes_of(names: Iterable[str]) -> int:
    total = 0
    for name in names:
        try:
            found = os.stat(name) if name != "-" else os.fstat(0)
        except (OSError, ValueError):
            continue
        if stat.S_ISREG(found.st_mode):
            total += found.st_size
        else:
            return 0  # nobody knows
    return total
