"""Which files are followed: what was named, what patterns match, what is waited for, and what is known already."""

from __future__ import annotations

import errno
import glob
import os
from collections.abc import Sequence
from dataclasses import dataclass

from trainmon.clock import Clock
from trainmon.model import Opened, SourceEvent, SourceState
from trainmon.sources.files import Key, NotRegular, open_regular
from trainmon.sources.packed import packed_kind, rotated_from
from trainmon.sources.patterns import Pattern, binary_kind, families, natural
from trainmon.sources.tail import Tail

RETRY_S = 1.0
"""Seconds between two tries to open what is not there; a quarter of it while few are awaited."""

_LOOK_AGAIN_S = 10.0


@dataclass(slots=True)
class Wait:
    """A path that could not be opened yet.

    Attributes:
        spec: How the user named it, or the path that a pattern matched.
        found: True when a pattern matched it.
        joined: True when it appeared after the start.
        due: Monotonic time of the next try.
        calm: True when it is known already or left out on purpose; it is looked at rarely then.
    """

    spec: str
    path: str
    found: bool
    joined: bool
    due: float = 0.0
    calm: bool = False
    hangs: object | None = None


Subject = Tail | Wait | Pattern
"""What a call that may block is about."""


@dataclass(frozen=True, slots=True)
class Found:
    """A file that was opened and looks like text."""

    fd: int
    seen: os.stat_result
    binary: str | None
    packed: bool = False


def open_text(path: str) -> Found:
    """Open a regular file and look at its first bytes.

    Raises:
        OSError: See `open_regular`.
    """
    fd, seen = open_regular(path)
    try:
        head = os.pread(fd, 4096, 0)
        return Found(fd, seen, binary_kind(head), packed_kind(head) is not None)
    except OSError:
        os.close(fd)
        raise


class Roster:
    """The files that one reader follows. Used by one thread at a time.

    Attributes:
        tails: Followed files in the order of their numbers.
        waits: Paths that are not open, by path.
        patterns: What is scanned for newcomers.
        wants_stdin: Whether "-" was named.
        started: True once everything named was tried; what appears later has joined.
    """

    def __init__(self, specs: Sequence[str], clock: Clock, *, exact: bool) -> None:
        self._clock = clock
        self._said: dict[str, SourceState] = {}
        self._paths: set[str] = set()
        self._keys: dict[Key, Tail] = {}
        self._old: dict[Key, tuple[bytes, int]] = {}
        self.tails: list[Tail] = []
        self.waits: dict[str, Wait] = {}
        self.patterns: list[Pattern] = []
        self.wants_stdin = "-" in specs
        self.started = False
        self._next = 0
        self._name(specs, exact)

    def _name(self, specs: Sequence[str], exact: bool) -> None:
        """Take in what was named. What it is shows when it is opened: that may block, this does not."""
        plain = []
        for spec in dict.fromkeys(specs):
            if rotated_from(spec) in specs:
                continue  # the past of a log that is named, too: it is read with it
            if spec != "-":
                path = os.path.expanduser(spec)
                self._paths.add(path)
                self.waits[path] = Wait(spec, path, found=False, joined=False)
                if not glob.has_magic(spec):
                    plain.append(path)
        if not exact:
            self.patterns += families(plain)

    def _becomes_pattern(self, wait: Wait, kind: str) -> None:
        self.waits.pop(wait.path, None)
        self.patterns.append(Pattern(wait.spec, kind, wait.path))
        if kind == "folder":
            # Numbered folders are no family of logs.
            self.patterns = [p for p in self.patterns if p.exact is None or not p.exact.fullmatch(wait.path)]

    def number(self) -> int:
        """The next free source number."""
        self._next += 1
        return self._next - 1

    # ------------------------------------------------------------------ what scans and tries find

    def matched(self, pattern: Pattern, paths: list[str], first: bool) -> list[SourceEvent]:
        """Take in the paths that a pattern matches now; new ones are waited for."""
        out: list[SourceEvent] = []
        present = set(paths)
        new = [path for path in paths if path not in self._paths and rotated_from(path) not in present]
        for path in new:
            self._paths.add(path)
            # Other members of a family lay there already when the user picked some of them.
            if not (first and pattern.kind == "family"):
                self.waits[path] = Wait(path, path, found=True, joined=self.started)
        if len(self._paths) > 64 + len(self.waits) + len(self.tails):
            self._forget_gone(paths)
        if paths:
            pattern.met = True
            self._clear(out, pattern, paths)
        elif pattern.met or pattern.kind == "family":
            pass  # what it matched is gone, and each says so
        elif pattern.kind == "folder":
            sentence = f"No log in {pattern.spec} yet; one that appears is opened."
            self.say(out, pattern.spec, None, "no file yet", sentence)
        else:
            sentence = f"No file matches {pattern.spec} yet; one that appears is opened."
            self.say(out, pattern.spec, None, "no file yet", sentence)
        return out

    def _clear(self, out: list[SourceEvent], pattern: Pattern, paths: list[str]) -> None:
        """Take back what was said of a pattern, once a file that it matches is followed."""
        if pattern.spec in self._said:
            present = set(paths)
            tail = next((tail for tail in self.tails if tail.path in present), None)
            if tail is not None:
                del self._said[pattern.spec]
                out.append(SourceState(pattern.spec, tail.source, "followed", ""))
                self._said.pop(tail.name, None)
                self.follows(out, tail)

    def _forget_gone(self, present: list[str]) -> None:
        """Family members that were left out and are gone may be created anew one day."""
        keep = {tail.path for tail in self.tails} | self.waits.keys() | set(present)
        self._paths &= keep

    def scan_failed(self, pattern: Pattern, error: OSError | ValueError) -> list[SourceEvent]:
        """Say that a folder cannot be listed."""
        out: list[SourceEvent] = []
        self._trouble(out, pattern.spec, None, error)
        return out

    def opened(self, wait: Wait, found: Found) -> tuple[Tail | None, list[SourceEvent]]:
        """Follow an opened file, unless it is followed already or no text."""
        out: list[SourceEvent] = []
        key = (found.seen.st_dev, found.seen.st_ino)
        other = self._belongs_to(key, found.fd)
        if found.binary is not None or other is not None or self._is_old(key, found.fd):
            os.close(found.fd)
            wait.calm = True
            wait.due = self._clock.monotonic() + _LOOK_AGAIN_S
            if found.binary is not None:
                sentence = f"{wait.spec} is {found.binary}, no log; it is left out."
                if found.packed:
                    sentence = f"{wait.spec} is packed: it is read with its log, or by trainmon parse {wait.spec}."
                self.say(out, wait.spec, None, "not readable", sentence, bad=not wait.found)
            elif other is not None and not wait.found:
                sentence = f"{wait.spec} is the same file as {other.name}; it is followed once."
                self.say(out, wait.spec, other.source, "followed", sentence)
            return None, out
        tail = Tail(self.number(), wait.path, clock=self._clock)
        tail.prepare(wait.spec, self._clock.monotonic())
        tail.claim(lambda key, fd: self._belongs_to(key, fd) not in (None, tail) or self._is_old(key, fd))
        tail.adopt(found.fd, found.seen)
        self._keys[key] = tail
        self.tails.append(tail)
        self.waits.pop(wait.path, None)
        out.append(Opened(tail.source, wait.spec, wait.path, tail.size, tail.mtime, wait.joined))
        self.follows(out, tail)
        return tail, out

    def _belongs_to(self, key: Key, fd: int) -> Tail | None:
        """Who follows this file. An inode that is not held may have been given to another file since."""
        other = self._keys.get(key)
        if other is None or other.fd >= 0 or _has(fd, other.mark, other.offset):
            return other
        return None

    def _is_old(self, key: Key, fd: int) -> bool:
        """Whether this is what a followed path named before it was rotated: its bytes were given."""
        mark, offset = self._old.get(key, (b"", 0))
        return offset > 0 and _has(fd, mark, offset)

    def open_failed(self, wait: Wait, error: OSError | ValueError) -> list[SourceEvent]:
        """Say why a path cannot be opened; it is tried again."""
        out: list[SourceEvent] = []
        wait.due = self._clock.monotonic() + (RETRY_S if len(self.waits) > 64 else RETRY_S / 4)
        missing = isinstance(error, (FileNotFoundError, NotADirectoryError))
        if not wait.found and isinstance(error, NotRegular) and error.args[0] == "folder":
            self._becomes_pattern(wait, "folder")
        elif not wait.found and missing and glob.has_magic(wait.spec):
            self._becomes_pattern(wait, "glob")
        elif missing:
            if wait.found:
                # It went again before it was opened; a later scan may find it anew.
                self.waits.pop(wait.path, None)
                self._paths.discard(wait.path)
                self._said.pop(wait.spec, None)
            else:
                sentence = f"{wait.spec} is not there yet; it is opened as soon as it appears."
                self.say(out, wait.spec, None, "no file yet", sentence)
        elif isinstance(error, NotRegular):
            kind = str(error.args[0])
            word = "folder" if kind == "folder" else "not a file"
            hint = "name it by itself to open the logs in it" if kind == "folder" else "only regular files are opened"
            if kind == "pipe":
                hint = f"it is left alone; read it with: trainmon tail - < {wait.spec}"
            self.say(out, wait.spec, None, word, f"{wait.spec} is a {kind}; {hint}.", bad=not wait.found)
            wait.calm = True
            wait.due += _LOOK_AGAIN_S
        else:
            self._trouble(out, wait.spec, None, error)
        return out

    # ------------------------------------------------------------------ what becomes of followed files

    def moved_on(self, tail: Tail) -> None:
        """Keep in mind what the path named before, so that it is not taken for a newcomer under its new name."""
        key = tail.key
        for old, mark, offset in tail.retired:
            if old != key and self._keys.get(old) is tail:
                del self._keys[old]
                self._old[old] = (mark, offset)
        self._old.pop(key, None)
        self._keys[key] = tail
        while len(self._old) > 4096:
            del self._old[next(iter(self._old))]

    def follows(self, out: list[SourceEvent], tail: Tail) -> None:
        """Say how a readable file stands: followed, empty, or gone from its path."""
        name = tail.name
        if tail.missing:
            sentence = f"{name} was removed or renamed; what was read stays, and a new file of that name is picked up."
            self.say(out, name, tail.source, "gone", sentence)
        elif tail.size == 0 and tail.offset == 0:
            self.say(out, name, tail.source, "empty", f"{name} is empty; its first line will be shown when it comes.")
        else:
            self.say(out, name, tail.source, "followed", "")

    def hangs(self, out: list[SourceEvent], subject: Subject) -> None:
        """Say that a read of something does not come back."""
        name = subject.name if isinstance(subject, Tail) else subject.spec
        source = subject.source if isinstance(subject, Tail) else None
        sentence = f"{name} does not answer (a network file system that is down?); the others go on, and so will it."
        self.say(out, name, source, "hangs", sentence, bad=True)

    def failed(self, out: list[SourceEvent], tail: Tail, error: OSError | ValueError) -> None:
        """Say that a followed file cannot be read now."""
        if isinstance(error, (FileNotFoundError, NotADirectoryError)):
            tail.missing = True
            self.follows(out, tail)
        else:
            self._trouble(out, tail.name, tail.source, error)

    def _trouble(self, out: list[SourceEvent], name: str, source: int | None, error: OSError | ValueError) -> None:
        reason = (getattr(error, "strerror", None) or str(error) or "unknown error").lower()
        if getattr(error, "errno", None) in (errno.EACCES, errno.EPERM):
            advice = "make it readable (chmod +r), and it will be opened"
        else:
            advice = "it is tried again"
        self.say(out, name, source, "not readable", f"{name} cannot be read: {reason}; {advice}.", bad=True)

    def say(
        self, out: list[SourceEvent], name: str, source: int | None, word: str, sentence: str, *, bad: bool = False
    ) -> None:
        """Add a SourceState, unless it was the last one said of that name."""
        state = SourceState(name, source, word, sentence, bad)
        if self._said.get(name) != state:
            self._said[name] = state
            out.append(state)

    def ready(self, now: float) -> list[Wait]:
        """What is to be tried now: as named, then matches in natural order."""
        if not self.waits:
            return []
        waits = [wait for wait in self.waits.values() if wait.due <= now and wait.hangs is None]
        named = [wait for wait in waits if not wait.found]
        return named + sorted((wait for wait in waits if wait.found), key=lambda wait: natural(wait.path))

    def everything(self) -> list[Subject]:
        """All that a call can be about."""
        return [*self.tails, *self.waits.values(), *self.patterns]


def _has(fd: int, mark: bytes, offset: int) -> bool:
    """Whether an open file has these bytes before that offset."""
    try:
        return os.pread(fd, len(mark), offset - len(mark)) == mark
    except OSError:
        return False


def neighbours(one: Subject, other: Subject) -> bool:
    """Whether two things lie on the same device, or in the same folder as far as that is known."""
    if isinstance(one, Tail) and isinstance(other, Tail):
        return one.key[0] == other.key[0]
    return _folder(one) == _folder(other)


def _folder(subject: Subject) -> str:
    return os.path.abspath(subject.base if isinstance(subject, Pattern) else os.path.dirname(subject.path))
