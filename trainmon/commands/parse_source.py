"""The sources of `parse`: what is meant by the names, opened, and read as records block by block."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from trainmon.errors import SourceError
from trainmon.model import Record
from trainmon.parsing.formats import Format
from trainmon.parsing.parser import Classifier, FileParser
from trainmon.sources.packed import broken, in_order, packed_kind, unpack

BLOCK = 1 << 20
TIMED_BLOCK = 64 << 10
"""Where a record's neighbours matter for its time, less is read at once."""
_HEAD = 64 << 10
CLOSELY = 32 << 20
"""Of sources up to this size (bytes) every line's time is read, where times matter; of longer ones, some."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How every source is read.

    Attributes:
        tags: Labels of a source by its name.
        formats: All formats, one's own first.
        catalogue: Knows the errors.
        keep_log: Also give `log` records of INFO and DEBUG lines.
        times: Each record's time matters, also that of one that takes its neighbours': of what is not too long, all
            lines are read for theirs.
        block: Bytes that are read at once.
        read: Told of every block: its size and the source.
    """

    tags: Callable[[str], dict[str, str]]
    formats: Sequence[Format]
    catalogue: Classifier
    keep_log: bool
    times: bool = False
    block: int = BLOCK
    read: Callable[[int, str], None] = lambda _count, _name: None

    def parser(self, name: str, mtime: float | None, size: int = 0) -> FileParser:
        """A parser for a source of which so many bytes are to be read (0: nobody knows)."""
        return FileParser(
            name,
            formats=self.formats,
            tags=self.tags(name),
            classify=self.catalogue,
            mtime=mtime,
            keep_log=self.keep_log or (self.times and size <= CLOSELY),
        )


Batch = tuple[list[Record], float | None]
"""Records, and the time of the newest line behind them."""


class Source:
    """One source that is open.

    Args:
        name: As given.
        reading: How it is read.

    Attributes:
        mtime: Time of its last change, Unix seconds; None for a pipe.
        size: Its bytes; 0 for a pipe.

    Raises:
        SourceError: It cannot be read at all.
    """

    def __init__(self, name: str, reading: Reading) -> None:
        self.name = name
        self._reading = reading
        self._file = open_source(name)
        self._packed: BinaryIO | None = None
        found = os.fstat(self._file.fileno())
        self.regular = stat.S_ISREG(found.st_mode)
        self.mtime = found.st_mtime if self.regular else None
        if self.regular and (kind := packed_kind(os.pread(self._file.fileno(), 8, 0))) is not None:
            self._unpack(kind)
        self.size = found.st_size if self.regular else 0

    def _unpack(self, kind: str) -> None:
        """Read what is packed in it: front to back, as of a pipe."""
        self._packed, self.regular = self._file, False
        try:
            self._file = unpack(self._packed, kind)
        except OSError as error:
            raise SourceError(f"{self.name}: {error}") from None

    def close(self) -> None:
        """Let it go."""
        self._file.close()
        if self._packed is not None:
            self._packed.close()

    @property
    def descriptor(self) -> int:
        """Its number, for `os.pread`."""
        return self._file.fileno() if self._packed is None else self._packed.fileno()

    def batches(self, part: tuple[int, int] | None = None) -> Iterator[Batch]:
        """Its records block by block; of a pipe, whatever is there at once.

        Args:
            part: Only what stands between these offsets; what the first lines say of the whole is read before.

        Raises:
            SourceError: It is no text, or reading broke off; what was read before is given first.
        """
        from trainmon.sources.patterns import binary_kind

        start, end = part if part is not None else (0, -1)
        parser = self._reading.parser(self.name, self.mtime, (self.size if end < 0 else end) - start)
        numbers = None
        if start > 0:
            parser.feed(os.pread(self.descriptor, min(_HEAD, start), 0), 0)
            parser.lines = 0
            numbers = _Numbers(self.descriptor, start)
            self._file.seek(start)
            self._reading.read(start, self.name)
        offset = start
        errors = broken() if self._packed is not None else (OSError,)
        while end < 0 or offset < end:
            try:
                block = self._file.read(self._reading.block if end < 0 else min(self._reading.block, end - offset))
            except errors as error:
                # a network file system that went away half-way, a packed file that is cut short
                yield parser.finish(), parser.last_time
                reason = (getattr(error, "strerror", None) or str(error) or "unknown reason").lower()
                raise SourceError(f"{self.name}: reading stopped at byte {offset:,} ({reason})") from None
            if not block:
                break
            kind = binary_kind(block[:4096]) if offset == 0 else None
            if kind:
                raise SourceError(f"{self.name}: {kind}, not a log; unpack it first and give it as - if it is one")
            records = parser.feed(block, offset)
            yield numbers.put_right(records) if numbers is not None else records, parser.last_time
            offset += len(block)
            self._reading.read(len(block), self.name)
        records = parser.finish()
        yield numbers.put_right(records) if numbers is not None else records, None
        if self.regular and 0 <= end < self.size:
            self._reading.read(self.size - end, self.name)


class _Numbers:
    """Line numbers of a part of a file. The lines before it are counted only when a record asks."""

    def __init__(self, descriptor: int, start: int) -> None:
        self._descriptor = descriptor
        self._start = start
        self._before: int | None = None

    def put_right(self, records: list[Record]) -> list[Record]:
        """The records with their lines counted from the start of the file."""
        for record in records:
            if self._before is None:
                self._before = self._count()
            if record.offset >= self._start and record.line:
                record.line += self._before
        return [record for record in records if record.offset >= self._start]

    def _count(self) -> int:
        found = at = 0
        while at < self._start:
            block = os.pread(self._descriptor, min(BLOCK, self._start - at), at)
            if not block:
                break
            found += block.count(b"\n")
            at += len(block)
        return found


def expand(specs: list[str]) -> Iterator[str]:
    """Patterns and folders become the files in them, in the order of their numbers."""
    from glob import glob

    from trainmon.sources.patterns import natural

    for spec in specs:
        if spec != "-" and not os.path.lexists(spec) and any(sign in spec for sign in "*?["):
            found = [path for path in glob(spec, recursive=True) if not os.path.isdir(path)]
            yield from in_order(sorted(found, key=natural)) if found else [spec]
        elif spec != "-" and os.path.isdir(spec):
            yield from _in_folder(spec)
        else:
            yield spec


def _in_folder(folder: str) -> list[str]:
    from trainmon.sources.patterns import looks_like_log, natural

    try:
        names = sorted(filter(looks_like_log, os.listdir(folder)), key=natural)
    except OSError:
        return [folder]
    files = [path for path in (os.path.join(folder, name) for name in names) if os.path.isfile(path)]
    return files or [folder]


def open_source(name: str) -> BinaryIO:
    """Open a source for reading.

    Raises:
        SourceError: It cannot be read; the message says why and what to do.
    """
    import sys

    if name == "-":
        if sys.stdin is None:
            raise SourceError("standard input is closed: there is nothing to read for -")
        return open(0, "rb", buffering=0, closefd=False)
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        raise SourceError(_why(name, error)) from None
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode) or stat.S_ISFIFO(mode):
        return open(descriptor, "rb", buffering=0)
    os.close(descriptor)
    what = "a folder without a log in it" if stat.S_ISDIR(mode) else "a device, not a log"
    raise SourceError(f"{name}: {what}; name the files to read")


def _why(name: str, error: OSError | ValueError) -> str:
    if isinstance(error, ValueError):
        return f"{name}: no name that a file can have"
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        if any(sign in name for sign in "*?["):
            return f"{name}: no file matches this pattern"
        return f"{name}: no such file"
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"{name}: no permission to read it"
    if error.errno == errno.ENXIO:
        return f"{name}: a socket or a device, not a log"
    return f"{name}: cannot be read ({(error.strerror or 'unknown reason').lower()})"
