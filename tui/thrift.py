"""Fewer bytes over SSH: a partial update begins at its first changed cell.

Textual (8.2) cuts a changed row at its right end only: one changed cell at the end of a row sends the whole row from
the widget's left edge. Here the same update is cut on both sides, which takes a third to a half off what a dashboard
writes (`benchmarks/README.md`). The one private name that this needs is checked; where it is not as expected, Textual's
own way stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.control import Control

if TYPE_CHECKING:
    from rich.console import Console


def cut_updates_on_both_sides() -> bool:
    """Have partial updates begin at their first changed cell; False when this Textual is not the one we know."""
    try:
        from textual import _compositor
        from textual.strip import Strip

        update: Any = _compositor.ChopsUpdate
        if not (callable(update.render_segments) and callable(Strip.crop)):
            return False
    except (ImportError, AttributeError):
        return False
    update.render_segments = _render_segments
    return True


def _render_segments(self: Any, console: Console) -> str:
    """The update as terminal sequences: for each changed span, move there and write no more than it."""
    out: list[str] = []
    for y, first, last in self.spans:
        for end, (x, strip) in zip(self.chop_ends[y], self.chops[y].items(), strict=False):
            if strip is None or x >= last or end <= first:
                continue
            start = max(x, first)
            stop = min(end, last)
            if start > x or stop < end:
                strip = strip.crop(start - x, stop - x)
            out.append(Control.move_to(start, y).segment.text)
            out.append(strip.render(console))
    return "".join(out)
