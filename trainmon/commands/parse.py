"""`trainmon parse`: logs in, records out, one block at a time."""

from __future__ import annotations

import argparse
import errno
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from trainmon.commands.say import complain
from trainmon.errors import SourceError
from trainmon.model import LEVELS, Record

if TYPE_CHECKING:
    from trainmon.parsing.parser import Classifier, FileParser

_BLOCK = 1 << 20


def run(options: argparse.Namespace) -> int:
    """Write the records of every source to standard output.

    Returns:
        0, or 3 when a source could not be read at all (the others are still written).
    """
    from trainmon.catalogue import load as load_catalogue
    from trainmon.settings import load as load_settings

    settings = load_settings(Path(options.config) if options.config else None)
    catalogue = load_catalogue()
    lowest = 0 if options.all else LEVELS.index(options.level) if options.level else None
    out = sys.stdout.buffer
    code = 0
    for name in _expand(options.sources):
        try:
            with _open(name) as file:
                parser = _parser(name, file, settings.tags_for(name), catalogue, lowest is not None)
                for records in _records(parser, file):
                    out.write(b"".join(_lines(records, lowest)))
                    out.flush()
        except SourceError as error:
            out.flush()
            complain(str(error))
            code = error.exit_code
    out.flush()
    return code


def _expand(specs: list[str]) -> Iterator[str]:
    """Patterns and folders become the files in them, in the order of their numbers."""
    from glob import glob

    from trainmon.sources.patterns import natural

    for spec in specs:
        if spec != "-" and not os.path.lexists(spec) and any(sign in spec for sign in "*?["):
            found = [path for path in glob(spec, recursive=True) if not os.path.isdir(path)]
            yield from sorted(found, key=natural) if found else [spec]
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


def _open(name: str) -> BinaryIO:
    """Open a source for reading.

    Raises:
        SourceError: It cannot be read; the message says why and what to do.
    """
    if name == "-":
        if sys.stdin is None:
            raise SourceError("standard input is closed: there is nothing to read for -")
        return open(0, "rb", buffering=0, closefd=False)
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise SourceError(_why(name, error)) from None
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode) or stat.S_ISFIFO(mode):
        return open(descriptor, "rb", buffering=0)
    os.close(descriptor)
    what = "a folder without a log in it" if stat.S_ISDIR(mode) else "a device, not a log"
    raise SourceError(f"{name}: {what}; name the files to read")


def _why(name: str, error: OSError) -> str:
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        if any(sign in name for sign in "*?["):
            return f"{name}: no file matches this pattern"
        return f"{name}: no such file"
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"{name}: no permission to read it"
    if error.errno == errno.ENXIO:
        return f"{name}: a socket or a device, not a log"
    return f"{name}: cannot be read ({(error.strerror or 'unknown reason').lower()})"


def _parser(name: str, file: BinaryIO, tags: dict[str, str], catalogue: Classifier, keep_log: bool) -> FileParser:
    from trainmon.parsing.parser import FileParser

    found = os.fstat(file.fileno())
    mtime = found.st_mtime if stat.S_ISREG(found.st_mode) else None
    return FileParser(name, tags=tags, classify=catalogue, mtime=mtime, keep_log=keep_log)


def _records(parser: FileParser, file: BinaryIO) -> Iterator[list[Record]]:
    """The records block by block; of a pipe, whatever is there at once.

    Raises:
        SourceError: It is no text, or reading broke off; what was read before is given first.
    """
    from trainmon.sources.patterns import binary_kind

    offset = 0
    while True:
        try:
            block = file.read(_BLOCK)
        except OSError as error:  # a network file system that went away half-way
            yield parser.finish()
            reason = (error.strerror or "unknown reason").lower()
            raise SourceError(f"{parser.source}: reading stopped at byte {offset:,} ({reason})") from None
        if not block:
            break
        kind = binary_kind(block[:4096]) if offset == 0 else None
        if kind:
            raise SourceError(f"{parser.source}: {kind}, not a log; unpack it first and give it as - if it is one")
        yield parser.feed(block, offset)
        offset += len(block)
    yield parser.finish()


def _lines(records: list[Record], lowest: int | None) -> Iterator[bytes]:
    """The lines of the records that were asked for.

    Args:
        lowest: Index in `LEVELS` from which on messages are written, 0 also those without a level; None: none.
    """
    from trainmon.outputs.jsonl import to_json

    for record in records:
        if record.kind == "log":
            if lowest is None:
                continue
            if lowest and (record.level is None or LEVELS.index(record.level) < lowest):
                continue
        line = to_json(record)
        yield line if line.endswith(b"\n") else line + b"\n"
