"""What stands beside a log from earlier: rotated files, packed or not, oldest first.

`train.log.2.gz`, `train.log.1` and `train.log` are one log. `train.log-20250101.gz` is logrotate's other way.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from trainmon.model import Data, Replaced, SourceEvent

_ROTATED = re.compile(
    r"(?P<base>.*?\.(?:log|out|err|txt|jsonl|ndjson))"
    r"(?:\.(?P<number>\d{1,4})|[-.](?P<date>20\d{6}(?:[-T]?\d{2,6})?))(?:\.(?:gz|zst|bz2|xz))?"
)
"""The log itself has one of the usual endings: `model.1` and `run-20250101` are no past of anything."""
_KINDS = ((b"\x1f\x8b", "gz"), (b"\x28\xb5\x2f\xfd", "zst"), (b"BZh", "bz2"), (b"\xfd7zXZ\x00", "xz"))
_MOST = 64
"""Rotated files of one log that are read."""
BLOCK = 256 * 1024


def packed_kind(head: bytes) -> str | None:
    """How these first bytes of a file are packed: "gz", "zst", "bz2", "xz"; None when they are not."""
    return next((kind for magic, kind in _KINDS if head.startswith(magic)), None)


def unpack(file: BinaryIO, kind: str) -> BinaryIO:
    """A stream of what is packed in a file, which is read front to back.

    Raises:
        OSError: What unpacks it is not installed; the message says what is.
    """
    if kind == "gz":
        import gzip

        return gzip.GzipFile(fileobj=file)  # type: ignore[return-value]
    if kind == "bz2":
        import bz2

        return bz2.BZ2File(file)  # type: ignore[return-value]
    if kind == "xz":
        import lzma

        return lzma.LZMAFile(file)  # type: ignore[return-value]
    try:
        import zstandard
    except ImportError:
        raise OSError("packed with zstd; to read it: pip install 'trainmon[zstd]'") from None
    reader = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
    return io.BufferedReader(reader)


def broken() -> tuple[type[Exception], ...]:
    """What reading a stream of `unpack` raises when the packed file is cut short or damaged."""
    import lzma
    import zlib

    kinds: list[type[Exception]] = [OSError, EOFError, zlib.error, lzma.LZMAError, ValueError]
    try:
        import zstandard

        kinds.append(zstandard.ZstdError)
    except ImportError:
        pass
    return tuple(kinds)


def rotated_from(path: str) -> str | None:
    """Of which log a file is the past, by its name; None when the name says nothing of the kind."""
    folder, name = os.path.split(path)
    match = _ROTATED.fullmatch(name)
    return os.path.join(folder, match["base"]) if match else None


def _age(path: str) -> tuple[int, int, str]:
    """Sort key: the oldest first. Numbers grow with the age, dates do not; a log without either is the newest."""
    match = _ROTATED.fullmatch(os.path.basename(path))
    if match is None:
        return (2, 0, "")
    return (1, -int(match["number"]), "") if match["number"] else (0, 0, match["date"])


def in_order(paths: Iterable[str]) -> list[str]:
    """Paths as they come, but each log's past right before it, oldest first."""
    given = list(dict.fromkeys(paths))
    known = set(given)
    past: dict[str, list[str]] = {}
    for path in given:
        base = rotated_from(path)
        if base in known:
            past.setdefault(base, []).append(path)
    taken = {path for paths_ in past.values() for path in paths_}
    return [one for path in given if path not in taken for one in (*sorted(past.get(path, ()), key=_age), path)]


def rotations(path: str) -> list[str]:
    """The rotated files of a log that lie beside it, oldest first.

    Raises:
        OSError: Its folder can't be listed.
    """
    folder, name = os.path.split(path)
    begin = name + "."
    other = name + "-"
    found = [
        os.path.join(folder, entry)
        for entry in os.listdir(folder or ".")
        if entry.startswith((begin, other)) and rotated_from(entry) == name
    ]
    return sorted((one for one in found if os.path.isfile(one)), key=_age)[-_MOST:]


def older_events(source: int, paths: list[str], size: int) -> Iterator[list[SourceEvent]]:
    """What rotated files say, block by block, as the first generations of the file that came after them.

    What cannot be read (damaged, no permission, gone by now) ends its generation, marked as lossy.

    Args:
        source: The number of the file that they belong to.
        paths: Oldest first.
        size: Bytes of the file itself, for the share of history that is read.
    """
    errors = broken()
    for generation, path in enumerate(paths):
        lost = False
        try:
            with open(path, "rb") as file:
                mtime = os.fstat(file.fileno()).st_mtime
                kind = packed_kind(file.peek(8)[:8])
                stream = unpack(file, kind) if kind else file
                offset = 0
                while block := stream.read(BLOCK):
                    yield [Data(source, generation, offset, block, max(size, offset + len(block)), mtime)]
                    offset += len(block)
        except errors:
            lost = True
        yield [Replaced(source, generation + 1, "rotated", lost)]
