"""The help page: the table of keys, and what the signs mean. Searchable."""

from __future__ import annotations

from collections.abc import Iterator

from textual.widget import Widget

from trainmon import __version__
from trainmon.snapshot import Snapshot
from trainmon.tui import keys
from trainmon.tui.layout import Rect
from trainmon.tui.page import Behind
from trainmon.tui.parts import TextBody
from trainmon.widgets.cells import Pen, Row, fit
from trainmon.widgets.parts import heading

SIGNS: tuple[tuple[str, str, str], ...] = (
    ("●", "ok", "ok, planned event"),
    ("▲", "warning", "warning: slower, near a limit"),
    ("✗", "critical", "critical, failed"),
    ("○", "muted", "silent, stale or waiting"),
    ("◌", "muted", "expected, not there yet"),
    ("■", "ok", "a healthy node in the strip"),
    ("↳", "muted", "consequence of the error above"),
    ("→", "accent", "what to do; what it leads to"),
    ("×", "critical", "NaN or infinity, on an axis"),
    ("≥", "text", "at least: still being read"),
    ("–", "muted", "no value"),
)
"""Sign, its token, what it means."""

Entry = tuple[str, str, str]


def sections(enter: str = "⏎") -> list[tuple[str, list[Entry]]]:
    """Headings with their rows: (keys as printed, token, what they do)."""
    out: list[tuple[str, list[Entry]]] = []
    for group in keys.GROUPS:
        rows: list[Entry] = []
        for key in keys.KEYS:
            if key.group == group and key.help:
                rows.append((key.shown.replace("⏎", enter), "accent+bold", key.help))
            elif key.group == group:
                rows[-1] = (f"{rows[-1][0]} {key.shown}", *rows[-1][1:])
        out.append((group, rows))
    out.append(("by name, behind :", [(name, "accent+bold", what) for name, _, what in keys.COMMANDS]))
    out.append(("signs", list(SIGNS)))
    return out


def _block(title: str, entries: list[Entry], width: int) -> list[Row]:
    rows = [heading(width, title)]
    column = 16 if width >= 44 else 11
    for shown, token, what in entries:
        pen = Pen(width)
        end = pen.put(1, shown, token)
        pen.put(max(column, end + 1), what, "text", width - 1)
        rows.append(pen.row())
    return rows


def help_rows(width: int, wanted: str = "", enter: str = "⏎") -> list[Row]:
    """The page for a width; with `wanted` only the rows that hold it."""
    chosen = []
    for title, entries in sections(enter):
        kept = [row for row in entries if wanted.lower() in f"{row[0]} {row[2]} {title}".lower()]
        if kept:
            chosen.append((title, kept))
    if not chosen:
        pen = Pen(width)
        pen.put(1, f"nothing here says {wanted!r}", "muted")
        return [pen.row()]
    if width < 90:
        rows: list[Row] = []
        for title, entries in chosen:
            rows += [*_block(title, entries, width), []]
        return rows[:-1]
    half = width // 2
    # Two columns, in the order of reading, as even as whole sections allow.
    heights = [len(entries) + 2 for _, entries in chosen]
    cut = min(range(len(chosen) + 1), key=lambda n: max(sum(heights[:n]), sum(heights[n:])))
    left = [row for title, entries in chosen[:cut] for row in [*_block(title, entries, half), []]]
    right = [row for title, entries in chosen[cut:] for row in [*_block(title, entries, width - half), []]]
    rows = []
    for y in range(max(len(left), len(right)) - 1):
        first = fit(left[y] if y < len(left) else [], half)
        rows.append([*first, *(right[y] if y < len(right) else [])])
    return rows


class HelpPage(Behind):
    """`?`: one page, from the same table as the bindings."""

    PAGE = keys.HELP
    BINDINGS = keys.bindings(keys.HELP)  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__()
        self.body = TextBody(id="body")
        self.wanted = ""

    def parts(self) -> Iterator[Widget]:
        yield from (self.crumbs, self.strip, self.body)

    def trail(self) -> list[str]:
        return ["help"]

    def body_places(self, width: int, top: int, height: int) -> dict[str, Rect]:
        return {"body": Rect(0, top, width, height)}

    def footer_keys(self) -> list[tuple[str, str]]:
        if self.wanted:
            return [("Esc", "all of it"), ("/", "search"), ("q", "back")]
        return [("/", "search this page"), ("Esc", "back"), (":", "every action by name"), ("q", "back")]

    def show(self, snapshot: Snapshot, changed: frozenset[str]) -> None:
        if changed & {"run", "counts"}:
            self.crumbs.show([snapshot.run.name or "run", "help"], [(f"version {__version__}", "muted")])
        if "alerts" in changed:
            self.show_strip(snapshot)
        if not self.body.rows:
            self.search("")

    def search(self, wanted: str) -> None:
        """Show only what holds the text."""
        self.wanted = wanted
        self.body.top = 0
        self.body.show(lambda width: help_rows(width, wanted, self.body.enter))
        self.show_footer()

    def move(self, rows: int) -> None:
        self.body.move(rows)

    def action_search(self) -> None:
        self.ask(
            "/", "Enter keeps · Esc", lambda text, _: self.search(text), change=self.search,
            cancel=lambda: self.search(""),
        )  # fmt: skip

    def action_next_match(self) -> None:
        self.move(1)

    def action_previous_match(self) -> None:
        self.move(-1)

    def action_leave(self) -> None:
        if self.wanted:
            self.search("")
        else:
            super().action_leave()
