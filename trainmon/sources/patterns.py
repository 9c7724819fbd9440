"""From what the user named to paths: files, globs, folders, and families of names that differ only in a number."""

from __future__ import annotations

import glob
import os
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

_DIGITS = re.compile(r"(\d+)")
_LOG_NAME = re.compile(
    r"(\.(log|out|err|jsonl|ndjson)(\.\d+)?|(^|[^a-z])(log|logs|train|stdout|stderr|output)[^a-z/]*\.(txt|json))$", re.I
)
_MAGIC = (
    b"\x7fELF", b"\x1f\x8b", b"PK\x03\x04", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ", b"BZh9", b"\x89PNG", b"\x89HDF",
    b"\xff\xd8\xff", b"%PDF-", b"SQLite format", b"PAR1", b"\x93NUMPY", b"GGUF",
)  # fmt: skip
_RESCAN_S = 10.0
_COARSE_S = 2.5


def natural(name: str) -> list[tuple[int, int, str]]:
    """Sort key that puts worker-2 before worker-10."""
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"([0-9]+)", name) if part]


def looks_like_log(name: str) -> bool:
    """Whether a file's name is one that training logs have."""
    return _LOG_NAME.search(name) is not None and not name.startswith(".")


def binary_kind(head: bytes) -> str | None:
    """Why these first bytes are no text, in a word or two; None when they may be a log's.

    NUL bytes prove nothing: a log that was truncated under a writer begins with a hole.
    """
    if head.startswith(_MAGIC):
        return "a binary or compressed file"
    control = len(head.translate(None, _TEXT))
    return "a binary file" if control > max(16, len(head) // 20) else None


_TEXT = bytes([0, 7, 8, 9, 10, 11, 12, 13, 27]) + bytes(range(32, 127)) + bytes(range(128, 256))


@dataclass(slots=True)
class Pattern:
    """Something that can match more files tomorrow: a glob, a folder, or a family of numbered names.

    Attributes:
        spec: How the user named it.
        kind: "glob", "folder" or "family".
        hangs: What it waits for, when a scan does not come back.
        met: True once it has matched anything.
        due: Monotonic time of the next scan.
        exact: For a family: what a match must be, besides matching the glob.
    """

    spec: str
    kind: str
    glob: str
    exact: re.Pattern[str] | None = None
    hangs: object | None = None
    met: bool = False
    due: float = 0.0
    _last: list[str] = field(default_factory=list)
    _stamp: int = -1
    _scanned: float = float("-inf")

    @property
    def base(self) -> str:
        """The deepest folder that every match lies in."""
        if self.kind == "folder":
            return self.spec
        folder = os.path.dirname(self.glob)
        while glob.has_magic(folder):
            folder = os.path.dirname(folder)
        return folder or "."

    def scan(self, wall: float, monotonic: float) -> list[str]:
        """The paths that match now, in natural order. Costs one stat while a flat folder is unchanged.

        Args:
            wall: Unix time; monotonic: seconds of the monotonic clock.
        """
        stamp = self._folder_stamp(wall)
        if stamp is not None and stamp == self._stamp and monotonic - self._scanned < _RESCAN_S:
            return self._last
        found = _folder(self.spec) if self.kind == "folder" else glob.glob(self.glob, recursive=True)
        if self.exact is not None:
            found = [path for path in found if self.exact.fullmatch(path)]
        self._last = sorted(found, key=natural)
        self._stamp, self._scanned = -1 if stamp is None else stamp, monotonic
        return self._last

    def _folder_stamp(self, wall: float) -> int | None:
        """The flat folder's change time, or None when that cannot tell whether names were added."""
        if self.kind == "folder" or glob.has_magic(os.path.dirname(self.glob)):
            return None
        try:
            seen = os.stat(self.base)
        except OSError:
            return None
        # A change within the clock's grain of the scan could hide behind the same stamp.
        return seen.st_mtime_ns if wall - seen.st_mtime > _COARSE_S else None


def _folder(path: str) -> list[str]:
    """The logs in a folder; when it has none, those one level below."""
    logs: list[str] = []
    below: list[str] = []
    with os.scandir(path) as entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if _is_folder(entry):
                below.append(entry.path)
            elif looks_like_log(entry.name):
                logs.append(entry.path)
    if not logs:
        for folder in below:
            try:
                with os.scandir(folder) as entries:
                    logs += [entry.path for entry in entries if looks_like_log(entry.name) and not _is_folder(entry)]
            except OSError:
                continue
    return logs


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself, or into a folder that is closed to us: opening it will say so
        return False


def families(paths: Iterable[str]) -> list[Pattern]:
    """Patterns for names that differ only in a number: worker-0.log and worker-3.log give worker-*.log.

    A number that all members share stays as it is; one that differs matches any digits. Two members make a family.
    """
    groups: dict[str, list[list[str]]] = defaultdict(list)
    for path in paths:
        parts = _DIGITS.split(path)
        if len(parts) > 1:
            groups["\0".join(parts[::2])].append(parts)
    found = []
    for members in groups.values():
        if len(members) < 2:
            continue
        words, wild, regex = members[0], "", ""
        for i, word in enumerate(words):
            if i % 2 and any(member[i] != word for member in members):
                wild, regex = wild + "[0-9]*", regex + r"\d+"
            else:
                wild, regex = wild + glob.escape(word), regex + re.escape(word)
        shown = re.sub(r"\[0-9\]\*", "*", wild).replace("[[]", "[")
        found.append(Pattern(shown, "family", wild, re.compile(regex)))
    return found
