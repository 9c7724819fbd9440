"""What passes between the readers of a file: one line with its front peeled off, and one measurement as pairs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from trainmon.model import RecordKind
from trainmon.parsing.names import Slot, resolve
from trainmon.parsing.prefix import Prefix

NO_PREFIX = Prefix()


@dataclass(slots=True)
class Line:
    """One line (or one redrawn state of it) without escape codes.

    Attributes:
        text: All of it, labels and time included.
        prefix: What its front says.
        number: 1-based line in the file.
        offset: Byte offset of that line.
    """

    text: str
    prefix: Prefix
    number: int
    offset: int

    @property
    def message(self) -> str:
        """The line behind its labels, time, level and logger."""
        return self.text[self.prefix.end :]

    @property
    def body(self) -> str:
        """The line behind its last label, with the indentation of the message."""
        return self.text[self.prefix.labels_end :]


@dataclass(slots=True)
class Row:
    """One measurement that a table, a bar or several lines make together.

    Attributes:
        pairs: Names and values as the log spells them; names and units are resolved as everywhere.
        format: Name of the format.
        line, offset: Where it stands (any of its lines).
        prefix: The front of that line.
        kind: Kind of the record; None lets the names say.
        resolve: Where the value of a key goes; a format of its own names gives `Format.resolve`.
        first_epoch: 0 or 1, when the format is known to count its epochs from there.
        extra: Values that are not looked at any more, for `Record.extra`.
    """

    pairs: Mapping[str, object]
    format: str
    line: int
    offset: int
    prefix: Prefix = field(default_factory=Prefix)
    kind: RecordKind | None = None
    resolve: Callable[[str], Slot] = resolve
    first_epoch: int | None = None
    extra: dict[str, float | int | str] = field(default_factory=dict)


class Group(Protocol):
    """Reads lines that mean something only together: a table, a headed block, a dictionary over several lines.

    One object a file. Lines of several writers (ranks) may come interleaved: `line.prefix` tells them apart.

    Attributes:
        openers: One of these texts stands on every line that can begin one; such lines are shown to `line`.
        open: True while lines without an opener may belong to it: then it is shown every line, blank ones too.
    """

    openers: tuple[str, ...]
    open: bool

    def line(self, line: Line) -> list[Row] | None:
        """The next line.

        Returns:
            None when the line is none of its; else what is complete now, which may be nothing yet.
        """

    def close(self) -> list[Row]:
        """Nothing comes for now: what is complete without more. What follows later may still belong to it."""

    def lost(self) -> None:
        """Bytes were skipped here: forget what was half read, keep what headers said."""
