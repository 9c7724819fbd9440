"""The followed files: what is read of each, and the last lines as they stand."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from trainmon.diagnosis.pulse import CHATTER
from trainmon.model import Opened, Record, Replaced, SourceState
from trainmon.parsing.clean import shown
from trainmon.parsing.parser import FileParser
from trainmon.session.wording import stem
from trainmon.snapshot import SourceView

TAIL_BYTES = 8192
TAIL_BYTES_MANY = 2048
MANY_FILES = 64
TAIL_LINES = 40
MAX_LINE = 1000
_STEADY_S = 10.0
JOINED_FRESH_S = 60.0
"""A file that joins later and changed this recently speaks of the present."""
HISTORY_WORTH = 1 << 20
"""Unread bytes from which the share of history is shown."""
_NO_SPEECH = frozenset(("quarantine", "gap"))
_TELEMETRY = re.compile(rb'\s*(?:\{"trainmon": ?"(?:gpu|host|driver|agent)/|# ?gpu\b[^\n]{0,200}\n?# ?Idx\b)')
"""How files of instruments begin: an agent's lines, and `nvidia-smi dmon`."""

SETTLED_WORDS = frozenset({"hangs", "gone", "not readable", "folder", "not a file", "ended"})
"""Words of a source that will bring no more history."""


@dataclass(slots=True)
class SourceFile:
    """One file of the session.

    Attributes:
        id: Its number. name: as the user knows it. node: the node that its name stands for.
        parser: Reads the file forward, once.
        ahead: Reads head and tail while history is read, then None.
        read: Bytes given to `parser`; size: bytes of the file at the last look.
        live: Everything that stood there has been read.
        fresh: It joined while we looked, and what it says is news.
        settled: Nothing more of its past will come.
        heard: Arrival of its newest bytes, Unix seconds (file time for what was there at opening).
        fed: When its parser was fed last, Unix seconds.
        tail: Its last bytes.
        joined: It appeared after the start. opened: when we met it, Unix seconds; introduced: the run knows of it.
        agent: Another machine's agent writes it. machines: whose telemetry stands in it, three names at most.
        sampled: It has told of a machine; spoke: it has told of the training.
    """

    id: int
    name: str
    path: str
    node: str
    parser: FileParser
    size: int = 0
    mtime: float = 0.0
    fresh: bool = False
    generation: int = 0
    ahead: FileParser | None = None
    ahead_generation: int = 0
    read: int = 0
    live: bool = False
    settled: bool = False
    glimpsed: bool = False
    heard: float = 0.0
    fed: float = 0.0
    gaps: int = 0
    records: int = 0
    bytes_before: int = 0
    lines_before: int = 0
    word: str = "followed"
    sentence: str = ""
    bad: bool = False
    tail: bytearray = field(default_factory=bytearray)
    joined: bool = False
    opened: float = 0.0
    introduced: bool = False
    agent: bool = False
    machines: tuple[str, ...] = ()
    sampled: bool = False
    spoke: bool = False

    @property
    def chatter(self) -> bool:
        """Whether it tells of machines only: it goes on while a training hangs, and is no node of the run."""
        return self.agent or (self.sampled and not self.spoke)

    def judge(self, records: Iterable[Record]) -> None:
        """Learn from what it says whose speech that is."""
        for record in records:
            if record.sample is not None or record.kind in CHATTER:
                self.sampled = True
                if record.sample is not None and len(self.machines) < 3 and record.sample.node not in self.machines:
                    self.machines += (record.sample.node,)
            elif record.kind not in _NO_SPEECH:
                self.spoke = True
                self.agent = False

    @property
    def history(self) -> float | None:
        """Share that is read, None once all of it is."""
        if self.live or self.settled:
            return None
        return min(1.0, self.read / self.size) if self.size > 0 else 1.0

    @property
    def format(self) -> str | None:
        """Name of the format that reads it, once that is known; of telemetry whose it is."""
        if self.chatter and self.machines and self.machines != ("",):
            return f"telemetry of {self.machines[0] if len(self.machines) == 1 else 'several machines'}"
        return self.parser.format or (self.ahead.format if self.ahead is not None else None)

    @property
    def lines(self) -> int:
        """Lines read so far, of all generations."""
        return self.lines_before + self.parser.lines

    def keep_tail(self, data: bytes, limit: int) -> None:
        """Remember the end of the newest bytes."""
        if len(data) >= limit:
            self.tail[:] = data[-limit:]
        else:
            self.tail += data
            if len(self.tail) > 2 * limit:
                del self.tail[:-limit]

    def last_line(self) -> str:
        """The newest line that is not blank, whole or not; safe text."""
        end = len(self.tail)
        while end > 0:
            start = self.tail.rfind(b"\n", 0, end) + 1
            text = shown(bytes(self.tail[start:end]).replace(b"\0", b""), MAX_LINE)
            if text.strip():
                return text
            end = start - 1
        return ""

    def last_lines(self, count: int = TAIL_LINES) -> list[str]:
        """The last lines as safe text, newest last; of a progress bar its newest state."""
        text = bytes(self.tail)
        lines = text.split(b"\n")
        if len(text) >= TAIL_BYTES_MANY and len(lines) > 1:
            lines = lines[1:]  # the first one is cut
        found = [shown(line.replace(b"\0", b""), MAX_LINE) for line in lines if line.strip(b" \t\r\0")]
        return [line for line in found if line][-count:]


class Speakers:
    """Which file spoke last.

    Attributes:
        newest: The file with the newest line; heard: when that came, Unix seconds.
        steady: The file whose last lines are shown. It stays while it speaks: eight workers in turn are no picture.
    """

    def __init__(self) -> None:
        self.newest: SourceFile | None = None
        self.heard: float | None = None
        self.steady: SourceFile | None = None
        self._steady_at = 0.0

    def spoke(self, file: SourceFile, at: float) -> None:
        """A file has a new line as of `at`."""
        file.heard = max(file.heard, at)
        if self.heard is None or at >= self.heard:
            self.heard = at
            self.newest = file
            if self.steady is None or self.steady is file or at - self._steady_at > _STEADY_S:
                self.steady = file
        if self.steady is file:
            self._steady_at = max(self._steady_at, at)


def is_telemetry(head: bytes) -> bool:
    """Whether a file that begins so is written by instruments and not by a training."""
    return _TELEMETRY.match(head) is not None


def file_of(event: Opened, node: str, parser: FileParser, now: float) -> SourceFile:
    """What is known of a file at its opening."""
    return SourceFile(
        id=event.source,
        name=event.name,
        path=event.path,
        node=node,
        parser=parser,
        size=event.size,
        mtime=event.mtime,
        fresh=event.joined and now - event.mtime < JOINED_FRESH_S and event.size < HISTORY_WORTH,
        heard=min(event.mtime, now) if event.size else 0.0,
        joined=event.joined,
        opened=now,
    )


def missing_view(event: SourceState) -> SourceView:
    """How something without a file (yet) is shown."""
    return SourceView(
        id=event.source, name=event.spec, path=event.spec, word=event.word, sentence=event.sentence, bad=event.bad
    )


def gap_record(event: Replaced, source: str, node: str, now: float) -> Record:
    """The record that says what was replaced unseen."""
    many = f", {event.lost_bytes:,} bytes" if event.lost_bytes else ""
    reason = f"{event.reason} between two looks: something may have stood there unseen{many}"
    return Record(kind="gap", source=source, time=now, node=node, reason=reason)


def node_name(opened: Opened, rank: int | None, taken: dict[str, str]) -> str:
    """The node that a file's name stands for.

    Two files of one stem in one folder (worker-0.log, worker-0.err) are one node; the same stem in another folder
    gets the folder in front.

    Args:
        rank: The rank that the name tells ("rank2.stderr.log"), if any.
        taken: Name -> folder and stem that has it; the new one is entered.
    """
    if rank is not None:
        return f"rank {rank}"
    if opened.path == "-":
        return taken.setdefault("stdin", "-") and "stdin"
    folder = opened.path.rsplit("/", 1)[0] if "/" in opened.path else ""
    short = stem(opened.path)
    identity = f"{folder}/{short}"
    parts = [part for part in folder.split("/") if part]
    name = short
    while taken.setdefault(name, identity) != identity:
        if not parts:
            return name
        name = f"{parts.pop()}/{name}"
    return name
