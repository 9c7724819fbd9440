"""Readers of lines that mean something only together; see `Group` in trainmon/parsing/line.py.

A new one is a file in this folder and a name in `MAKERS`.
"""

from __future__ import annotations

from collections.abc import Callable

from trainmon.parsing.groups.after import After
from trainmon.parsing.groups.boxes import Boxes
from trainmon.parsing.groups.headed import Headed
from trainmon.parsing.groups.keras import Keras
from trainmon.parsing.groups.tables import Tables
from trainmon.parsing.groups.yolo import Yolo
from trainmon.parsing.line import Group, Line, Row

MAKERS: tuple[Callable[[], Group], ...] = (Headed, After, Boxes, Keras, Yolo, Tables)
"""In the order in which they are asked."""

OPENERS: tuple[bytes, ...] = (
    b"--------",
    b"[batch=",
    b"average reward",
    b"|E2E latency",
    b"Learning iteration ",
    b"LOSS",
    b"Images ",
    b"= Step ",
    b" Train step ",
)
"""What begins one, for the test of a whole piece."""


class Groups:
    """All groups of one file."""

    def __init__(self) -> None:
        self._all = [make() for make in MAKERS]
        self.open = False

    def line(self, line: Line) -> list[Row] | None:
        """The next line; None when it belongs to none of them."""
        text, asked = line.text, False
        for group in self._all:
            if not group.open:
                for opener in group.openers:  # a loop and no generator: it costs where lines come by the million
                    if opener in text:
                        break
                else:
                    continue
            rows = group.line(line)
            if rows is not None:
                self._look()
                return rows
            asked = True
        if asked:
            self._look()
        return None

    def close(self) -> list[Row]:
        """Nothing comes for now: what is complete without more."""
        rows = [row for group in self._all for row in group.close()]
        self._look()
        return rows

    def lost(self) -> None:
        """Bytes were skipped here."""
        for group in self._all:
            group.lost()
        self._look()

    def _look(self) -> None:
        self.open = any(group.open for group in self._all)
