"""What all lists share: a selection that moves, entries of one or more rows, and the window that shows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from trainmon.widgets.paint import Instrument, Pen, Row

Item = TypeVar("Item")


def window(heights: Sequence[int], room: int, selected: int, start: int) -> tuple[int, int]:
    """First entry and the one behind the last that are shown in `room` rows.

    The window moves no further than it must for the selected entry to be seen whole.
    """
    count = len(heights)
    if count == 0 or room <= 0:
        return 0, 0
    selected = max(0, min(selected, count - 1))
    start = max(0, min(start, selected))
    while start < selected and sum(heights[start : selected + 1]) > room:
        start += 1
    used, end = 0, start
    while end < count and (used + heights[end] <= room or end == start):
        used += heights[end]
        end += 1
    # No empty rows at the end while something stands above.
    while start > 0 and used + heights[start - 1] <= room and end == count:
        start -= 1
        used += heights[start]
    return start, end


def mark_selected(pens: Sequence[Pen]) -> None:
    """Draws the selection over the whole entry: `▌` in the margin and the background behind it."""
    for pen in pens:
        for at, token in enumerate(pen.tokens):
            pen.tokens[at] = (token.split("+tint")[0] or "text") + "+selected"
        pen.put(0, "▌", "accent+selected")


class ListInstrument(Instrument, Generic[Item], can_focus=True):
    """An instrument with entries, one of which is selected; the selection is drawn only with the focus."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.selected = 0
        self._start = 0
        self._page = 1

    def items(self) -> Sequence[Item]:
        """The entries in the order shown."""
        return ()

    @property
    def current(self) -> Item | None:
        """The selected entry; None when there is none."""
        items = self.items()
        return items[max(0, min(self.selected, len(items) - 1))] if items else None

    @property
    def page(self) -> int:
        """Entries that a page holds."""
        return max(1, self._page)

    def move(self, delta: int) -> None:
        """Moves the selection by entries, within the list."""
        self.select(self.selected + delta)

    def select(self, index: int) -> None:
        """Selects one entry by its place, clamped to the list."""
        items = self.items()
        self.selected = max(0, min(index, len(items) - 1)) if items else 0
        self.redraw()

    def home(self) -> None:
        """Selects the first entry."""
        self.select(0)

    def end(self) -> None:
        """Selects the last entry."""
        self.select(len(self.items()) - 1)

    def follow(self, before: Item | None, same: str) -> None:
        """Keeps the selection on the same entry after new items came, by its attribute `same`."""
        items = self.items()
        if not items:
            self.selected = self._start = 0
            return
        wanted = getattr(before, same, None) if before is not None else None
        if wanted is not None and self.has_focus:
            for index, item in enumerate(items):
                if getattr(item, same, None) == wanted:
                    self.selected = index
                    return
        self.selected = max(0, min(self.selected, len(items) - 1))

    def windowed(self, heights: Sequence[int], room: int) -> tuple[int, int]:
        """The entries to draw now; remembers where the window stands."""
        start, end = window(heights, room, self.selected if self.has_focus else 0, self._start if self.has_focus else 0)
        self._start, self._page = start, max(1, end - start)
        return start, end


def pad(rows: list[Row], height: int) -> list[Row]:
    """At most `height` rows."""
    return rows[: max(0, height)]
