"""The fallback: an unknown program's lines, understood by a shape that recurs.

Lines that no format reads are shown to it. A shape (the text without its numbers) that comes back with other numbers is
learned; from then on its lines are records.
"""

from __future__ import annotations

from trainmon.parsing.line import Line, Row


class Shapes:
    """What is learned of the shapes of one file.

    Attributes:
        probing: True while lines of unknown shape are to be shown to it.
    """

    def __init__(self) -> None:
        self.probing = False

    def might(self, line: bytes) -> bool:
        """Whether a line without any known literal should be shown: it is of a learned shape, or may teach one."""
        return False

    def known(self, format_name: str) -> None:
        """A format read a record of this file: probing may become rarer."""

    def line(self, line: Line) -> list[Row] | None:
        """A line that no format read.

        Returns:
            None when it is of no learned shape; else its measurement, with those that came before it was learned.
        """
        return None
