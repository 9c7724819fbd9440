"""The errors of a run, grouped: one entry a code (or a wording), its first place, a count, some occurrences."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from trainmon.model import Record
from trainmon.session.wording import masked, rank_words, span_words

UNKNOWN = ("UNKNOWN_ERROR", "GENERIC_TRACEBACK")
"""Codes that say nothing by themselves: their groups are told apart by the message's words."""

MAX_GROUPS = 300
MAX_PLACES = 50
_MAX_NAMES = 2048
_REST = "\0rest"


@dataclass(frozen=True, slots=True)
class Place:
    """Where an error stands. line 0: not known yet. at: the line's time, else the newest before it in the file."""

    source: int
    name: str
    line: int
    offset: int
    time: float | None
    node: str
    rank: int | None
    at: float | None


@dataclass(slots=True)
class ErrorGroup:
    """All lines of one kind of error.

    Attributes:
        first: The earliest place, by the logs' times where both have one, else by arrival.
        order: Running number of the group's first arrival.
        over: The run went on after all of its lines.
        again: The first place after the run had gone on, of an error that came back.
    """

    key: str
    code: str
    priority: int
    message: str
    raw: str
    first: Place
    order: int
    lines: int = 0
    last: float | None = None
    places: list[Place] = field(default_factory=list)
    nodes: set[str] = field(default_factory=set)
    ranks: set[int] = field(default_factory=set)
    over: bool = False
    again: Place | None = None

    @property
    def lead(self) -> Place:
        """Its first place in the failure that it belongs to now."""
        return self.again if self.again is not None else self.first

    @property
    def sort_key(self) -> tuple[float, int]:
        """Earliest first. What has no time at all stands before what has: it is the start of a log."""
        return (self.lead.at if self.lead.at is not None else -math.inf, self.order)

    @property
    def where(self) -> str:
        """Who says it: "worker-2 rank 19", "worker-2 ranks 16–23", "7 nodes"."""
        who = span_words(self.nodes, many=1)
        if len(self.nodes) == 1 and self.ranks:
            words = rank_words(self.ranks)
            return words if who == words else f"{who} {words}"
        return who


class ErrorBook:
    """Collects `error` records."""

    def __init__(self) -> None:
        self._groups: dict[str, ErrorGroup] = {}
        self.lines = 0
        self.revision = 0
        self.shape = 0
        """Rises when something changed on which roles depend: not with every line."""
        self.roles: dict[str, str] = {}
        """Role by key as of shape `roles_at` (see `trainmon.session.roles`)."""
        self.roles_at = -1

    def __len__(self) -> int:
        return len(self._groups)

    def __iter__(self) -> Iterator[ErrorGroup]:
        return iter(self._groups.values())

    def add(self, record: Record, source: int, node: str, newest: float | None = None) -> ErrorGroup:
        """Count one error record; returns its group.

        Args:
            newest: The newest time in its file, for lines that have none.
        """
        code = record.code or "UNKNOWN_ERROR"
        message = record.message or record.text or code
        key = f"{code}\0{masked(message)}" if code in UNKNOWN else code
        at = record.time if record.time is not None else newest
        place = Place(source, record.source, record.line, record.offset, record.time, node, record.rank, at)
        group = self._groups.get(key)
        if group is None:
            # What has a name, or is fatal, is never lost in a flood of other words.
            if len(self._groups) >= MAX_GROUPS * (2 if code not in UNKNOWN or record.priority == 1 else 1):
                key, code, message = _REST, "UNKNOWN_ERROR", f"further errors, beyond {MAX_GROUPS} different ones"
                group = self._groups.get(key)
            if group is None:
                group = ErrorGroup(
                    key=key,
                    code=code,
                    priority=max(2, record.priority or 3) if key == _REST else record.priority or 3,
                    message=message[:500],
                    raw=(record.text or message)[:2000],
                    first=place,
                    order=len(self._groups),
                )
                self._groups[key] = group
                self.shape += 1
        elif key != _REST and _before(place, group.first):
            group.first = place
            group.message = message[:500]
            group.raw = (record.text or message)[:2000]
            self.shape += 1
        if key != _REST and record.priority is not None and record.priority < group.priority:
            group.priority = record.priority
            self.shape += 1
        if group.over:
            group.over, group.again = False, place
            self.shape += 1
        elif group.again is not None and _before(place, group.again):
            group.again = place
            self.shape += 1
        group.lines += 1
        self.lines += 1
        self.revision += 1
        if record.time is not None and (group.last is None or record.time > group.last):
            group.last = record.time
        if len(group.places) < MAX_PLACES:
            group.places.append(place)
        if len(group.nodes) < _MAX_NAMES:
            group.nodes.add(node)
        if record.rank is not None and len(group.ranks) < _MAX_NAMES:
            group.ranks.add(record.rank)
        return group

    def went_on(self) -> None:
        """The run made steps after these errors: a failure from here on has another cause."""
        for group in self._groups.values():
            group.over = True
        self.revision += 1
        self.shape += 1


def _before(one: Place, other: Place) -> bool:
    if one.source == other.source:
        return False
    return one.at is not None and other.at is not None and one.at < other.at
