"""What of the records `parse` writes: by kind, by level, by time."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from trainmon.errors import UsageError
from trainmon.model import LEVELS, Level, Record, RecordKind

KINDS: tuple[str, ...] = get_args(RecordKind)
_OF_PRIORITY: dict[int | None, Level] = {1: "FATAL", 2: "ERROR", 3: "WARN"}
_WARN = LEVELS.index("WARN")


@dataclass(frozen=True, slots=True)
class Wanted:
    """The records that were asked for.

    Attributes:
        kinds: Only these; None: all, `log` as `everything` and `lowest` say.
        lowest: Index in `LEVELS` from which on records are written; None: not asked for. Measurements count as INFO.
        everything: Also lines that carry only a message, whatever their level.
        since, until: Unix seconds; None: open.
        merge: All sources are wanted in one order of time.
        aside: Lines that could not be read are put aside, so all of them are wanted.
    """

    kinds: frozenset[str] | None = None
    lowest: int | None = None
    everything: bool = False
    since: float | None = None
    until: float | None = None
    merge: bool = False
    aside: bool = False

    @classmethod
    def of(cls, options: argparse.Namespace, now: float) -> Wanted:
        """What the options say.

        Args:
            now: Unix seconds, from which durations are counted back.

        Raises:
            UsageError: A kind is none, or a time.
        """
        from trainmon.commands.parse_time import moment

        limits: dict[str, float | None] = {}
        for name in ("since", "until"):
            text = getattr(options, name)
            try:
                limits[name] = None if text is None else moment(text, now)
            except ValueError as error:
                raise UsageError(f"--{name} {text}: {error}") from None
        since, until = limits["since"], limits["until"]
        if since is not None and until is not None and until < since:
            raise UsageError(f"--until {options.until} lies before --since {options.since}")
        return cls(
            kinds=_kinds(options.kind) if options.kind is not None else None,
            lowest=LEVELS.index(options.level) if options.level else None,
            everything=options.all,
            since=since,
            until=until,
            merge=options.merge,
            aside=bool(options.quarantine),
        )

    @property
    def timed(self) -> bool:
        """Whether each record needs a time, its own or its neighbours'."""
        return self.merge or self.since is not None or self.until is not None

    @property
    def keep_log(self) -> bool:
        """Whether the parsers have to give messages below WARN, too."""
        if self.kinds is not None and "log" not in self.kinds:
            return False
        return self.lowest < _WARN if self.lowest is not None else self.everything or self.kinds is not None

    def of_kind(self, records: Sequence[Record]) -> list[Record]:
        """Those of the kinds and levels that were asked for."""
        if self.kinds is None and self.lowest is None:  # the usual case, by the million
            return list(records) if self.everything else [record for record in records if record.kind != "log"]
        return [record for record in records if self._takes(record)]

    def between(self, timed: Sequence[tuple[float, Record]], shift: float = 0.0) -> list[tuple[float, Record]]:
        """The same of records with their times, of those that lie between the limits.

        Args:
            shift: Seconds that a time has to be moved by before it is compared.
        """
        since = float("-inf") if self.since is None else self.since - shift
        until = float("inf") if self.until is None else self.until - shift
        return [item for item in timed if since <= item[0] <= until and self._takes(item[1])]

    def _takes(self, record: Record) -> bool:
        kind = record.kind
        if self.aside and kind == "quarantine":
            return True
        if self.kinds is not None and kind not in self.kinds:
            return False
        if self.lowest is not None:
            return level_of(record) >= self.lowest
        return kind != "log" or self.everything or (self.kinds is not None and "log" in self.kinds)


def level_of(record: Record) -> int:
    """Index in `LEVELS` of what a record says; a message without a level is below all.

    Measurements and lines that could not be read count as INFO, what was lost unseen as a warning, an error as what it
    does to the run where its line names no level.
    """
    level = -1 if record.level is None else LEVELS.index(record.level)
    if record.kind == "log":
        return level
    if record.kind == "error":
        return max(level, LEVELS.index(_OF_PRIORITY.get(record.priority, "ERROR")))
    if record.kind == "gap":
        return _WARN
    return max(level, LEVELS.index("INFO"))


def _kinds(text: str) -> frozenset[str]:
    from difflib import get_close_matches

    found = set()
    for word in text.replace(" ", ",").split(","):
        name = word.strip().lower()
        if not name:
            continue
        if name not in KINDS:
            near = get_close_matches(name, KINDS, n=1)
            hint = f'did you mean "{near[0]}"?' if near else "a kind is one of " + ", ".join(KINDS)
            raise UsageError(f'--kind {text}: no kind "{word.strip()}"; {hint}')
        found.add(name)
    if not found:
        raise UsageError("--kind names no kind; one or more of " + ", ".join(KINDS))
    return frozenset(found)
