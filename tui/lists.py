"""Two plain lists, reached by name: every source and what became of it, and the lines that could not be read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from textual.widget import Widget

from trainmon.snapshot import Snapshot
from trainmon.tui import keys
from trainmon.tui.copying import text_of
from trainmon.tui.layout import Rect
from trainmon.tui.page import Behind
from trainmon.tui.parts import TextBody
from trainmon.widgets.cells import Pen, Row, cut
from trainmon.widgets.parts import heading
from trainmon.widgets.source_list import SourceList

Unread = tuple[str, int, str, str]


def unread_rows(lines: tuple[Unread, ...], total: int, exact: bool, width: int) -> list[Row]:
    """The lines that could not be read, newest first: place, reason, text."""
    count = f"{'' if exact else '≥ '}{total:,} in all"
    rows: list[Row] = [heading(width, "lines that could not be read", [[(count, "text")]], "the newest are kept")]
    if not lines:
        pen = Pen(width)
        pen.put(1, "none: every line that looks like a record was read", "muted")
        return [*rows, pen.row()]
    for source, line, reason, text in reversed(lines):
        pen = Pen(width)
        x = pen.put(1, f"{source}:{line:,}", "strong", width - 1)
        pen.put(x + 2, reason, "warning", width - 1)
        under = Pen(width)
        under.put(3, cut(text, max(1, width - 4)), "text")
        rows += [pen.row(), under.row()]
    return rows


class ListPage(Behind):
    """`:sources` and `:quarantine`."""

    PAGE = keys.LIST
    BINDINGS = keys.bindings(keys.LIST)  # type: ignore[assignment]

    def __init__(self, what: str) -> None:
        super().__init__()
        self.what = what
        self.sources = SourceList(id="sources")
        self.body = TextBody(id="body")

    def parts(self) -> Iterator[Widget]:
        yield from (self.crumbs, self.strip, self.sources if self.what == "sources" else self.body)

    def trail(self) -> list[str]:
        return [self.what]

    def body_places(self, width: int, top: int, height: int) -> dict[str, Rect]:
        return {"sources" if self.what == "sources" else "body": Rect(0, top, width, height)}

    def on_mount(self) -> None:
        super().on_mount()
        if self.what == "sources" and self.sources.can_focus:
            self.set_focus(self.sources)

    def footer_keys(self) -> list[tuple[str, str]]:
        labels = {"charts": "", "gpus": "", "nodes": "", "errors": "", "log": ""}
        if self.what == "quarantine":
            labels |= {"open": ""}
        return keys.footer(self.PAGE, **labels, back="")

    def show(self, snapshot: Snapshot, changed: frozenset[str]) -> None:
        super().show(snapshot, changed)
        if self.what == "sources":
            if "sources" in changed:
                self.sources.show(snapshot.sources)
        elif changed & {"quarantine", "counts"}:
            counts = snapshot.counts
            self.body.show(lambda width: unread_rows(snapshot.quarantine, counts.quarantined, counts.exact, width))

    def panel(self) -> Any:
        """What moves."""
        return self.sources if self.what == "sources" else self.body

    def move(self, rows: int) -> None:
        if hasattr(self.panel(), "move"):
            self.panel().move(rows)

    def action_open(self) -> None:
        chosen = getattr(self.sources, "current", None) if self.what == "sources" else None
        source = getattr(chosen, "id", None)
        if isinstance(source, int):
            self.monitor.open_log(source)
        else:
            self.notice("there is no file to open yet" if self.what == "sources" else "6 opens the log")

    def copied(self) -> tuple[str, str]:
        if self.what == "sources":
            chosen = getattr(self.sources, "current", None)
            return text_of(chosen) if chosen is not None else ("", "")
        lines = self.monitor.snapshot.quarantine
        return f"{len(lines)} lines", "\n".join(
            f"{source}:{line}: {reason}: {text}" for source, line, reason, text in lines
        )
