"""The footer: the keys that matter now."""

from __future__ import annotations

from collections.abc import Sequence

from trainmon.widgets.paint import Instrument, Pen, Row, cut, width_of

_LAST = ("?", "q")
"""Keys that are dropped last."""


def draw_footer(keys: Sequence[tuple[str, str]], width: int, height: int = 1, *, hidden: int = 0) -> list[Row]:
    """Keys and what they do, as many as fit; `?` and `q` stay to the end.

    Args:
        keys: (key, label) in the order shown.
        hidden: Panels that had no room; from 60 columns on the footer counts them.
    """
    if width < 1 or height < 1:
        return []
    gap = 3 if width >= 60 else 2
    note = f"+{hidden} hidden: " if hidden and width >= 60 else ""
    room = width - 2 - (width_of(note) + 1 + gap if note else 0)
    kept = list(keys)
    if len(kept) == 1:  # a notice: cut rather than left out
        kept = [(kept[0][0], cut(kept[0][1], max(0, room - width_of(kept[0][0]) - 1)))]

    def needs() -> int:
        return sum(width_of(key) + (1 + width_of(label) if label else 0) for key, label in kept) + gap * max(
            0, len(kept) - 1
        )

    while kept and needs() > room:
        droppable = [index for index, (key, _) in enumerate(kept) if key not in _LAST]
        kept.pop(droppable[-1] if droppable else -1)
    # Keys come by weight, so that the least is dropped first; digits are then read in their order.
    digits = [index for index, (key, _) in enumerate(kept) if key.isdigit()]
    if digits:
        views = sorted((kept[index] for index in digits), key=lambda one: one[0])
        others = [(index, one) for index, one in enumerate(kept) if not one[0].isdigit()]
        kept = [one for index, one in others if index < digits[0]] + views
        kept += [one for index, one in others if index > digits[0]]
    pen = Pen(width)
    at = 1
    for key, label in kept:
        at = pen.put(at, key, "accent+bold")
        if label:
            at = pen.put(at, " " + label, "muted")
        at += gap
    if note and at + width_of(note) + 1 <= width - 1:
        start = width - 2 - width_of(note)
        pen.put(start, note, "muted")
        pen.put(width - 2, "z", "accent+bold")
    return [pen.row()]


class Footer(Instrument):
    """The last row."""

    DEFAULT_CSS = "Footer { height: 1; }"

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._keys: Sequence[tuple[str, str]] = ()
        self._hidden = 0

    def show(self, keys: Sequence[tuple[str, str]], hidden: int = 0) -> None:
        """Shows keys with their labels, and how many panels had no room."""
        self._keys, self._hidden = keys, hidden
        self.redraw()

    def draw(self, width: int, height: int) -> list[Row]:
        keys = [(self.enter if key in ("⏎", "enter") else key, label) for key, label in self._keys]
        return draw_footer(keys, width, height, hidden=self._hidden)
