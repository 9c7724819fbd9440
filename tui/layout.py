"""Where each panel of the overview lies: pure arithmetic on the size of the terminal.

The order in which rows and columns are given back is fixed, so that the same size always gives the same picture, and
nothing moves when an alert comes or goes: of the run's data only counts that change rarely are asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

NARROW = 60
"""Below this many columns the body is a list of facts, one a line."""
SMALLEST = 40
"""Below this many columns two facts share a line, and the alert takes two rows."""
LOW = 13
"""Below this many rows the body is the list of facts at any width."""
HEADS_FROM = 92
"""From here on the column heads of side-by-side tables have a row of their own."""
SPARKS_FROM = 140
"""From here on the numbers have sparklines under them."""
CHART_MIN, CHART_FIRST, CHART_MAX, CHART_TALL = 5, 8, 15, 24
TAIL_MAX = 5
"""Rows of the tail of the log, its heading included: more would cost bytes and say little."""
WIDEST = 200
"""From this many columns on there is a third chart, and a table of the network's links."""
TALL = 50
"""From here on there is room for errors and events, and for more nodes."""
COUNTED = ("loss", "lr", "metrics", "gpus", "nodes", "errors", "events")
"""Panels that are named as hidden when they do not fit; the tail of the log only fills free rows."""
ZOOMS = ("charts", "loss", "lr", "gpus", "nodes", "errors", "events")
"""What can fill the whole body."""


class Rect(NamedTuple):
    """Cells of the terminal: left column, top row, columns, rows."""

    x: int
    y: int
    width: int
    height: int

    def overlaps(self, other: Rect) -> bool:
        """True when a cell lies in both."""
        return (
            self.x < other.x + other.width
            and other.x < self.x + self.width
            and self.y < other.y + other.height
            and other.y < self.y + self.height
        )


@dataclass(frozen=True, slots=True)
class Facts:
    """What the layout has to know of the run.

    Attributes:
        gpus, nodes: How many rows their tables could fill. Without GPUs theirs is one sentence.
        metrics: How many numbers there are beside loss and learning rate.
        errors: True once there is one: the last band lists errors instead of events.
        empty: True until the first line: only the sources are shown.
        third: Key of a third chart is known (for 200 columns and more).
        charts: How many of loss and learning rate can be drawn: 0 until the first step.
        incident: There has been an alert: events have more to say than the tail of the log.
        quiet: Nothing has happened yet.
        sources: Rows of the list of sources, while there is nothing else.
        host, links: Figures of the host and network links that are known.
        everywhere: GPUs of all nodes that are listed full screen; 0 with one node.
    """

    gpus: int = 8
    nodes: int = 8
    metrics: int = 5
    errors: bool = False
    empty: bool = False
    third: bool = False
    sources: int = 0
    charts: int = 2
    incident: bool = False
    quiet: bool = False
    host: int = 0
    links: int = 0
    everywhere: int = 0

    @property
    def solo(self) -> bool:
        """One node, and figures of its host to show in place of a table of nodes."""
        return self.nodes < 2 and self.host > 0


@dataclass(frozen=True, slots=True)
class Plan:
    """Rectangles by panel name, and the names of the panels that had to go."""

    places: dict[str, Rect] = field(default_factory=dict)
    hidden: tuple[str, ...] = ()


def plan(width: int, height: int, facts: Facts, zoom: str | None = None) -> Plan:
    """Lay out the overview.

    Args:
        width, height: Cells of the terminal; anything from 1 by 1 up.
        facts: See `Facts`.
        zoom: One of `ZOOMS` to fill the body with that panel alone.

    Returns:
        Rectangles that never overlap and never leave the screen. Side panels carry their margin of one column inside.
    """
    width, height = max(1, width), max(1, height)
    if zoom in ZOOMS:
        return _zoomed(width, height, facts, zoom)
    if facts.empty:
        return _empty(width, height, facts)
    if width < NARROW or height < LOW:
        return _facts(width, height, facts)
    return _Bands(width, height, facts).plan()


def _stack(width: int, rows: list[tuple[str, int]], top: int = 0) -> dict[str, Rect]:
    """Full-width panels from the top down; an empty name is a blank."""
    places = {}
    for name, height in rows:
        if name and height > 0:
            places[name] = Rect(0, top, width, height)
        top += height
    return places


def _empty(width: int, height: int, facts: Facts) -> Plan:
    footer, alert = int(height >= 4), int(height >= 3)
    body = height - 1 - alert - footer
    # What will stand there once there is something, in words, where there is room for it.
    words = 7 if body >= 12 and width >= SMALLEST else 0
    gap = 1 if words else 0
    room = body - words - 3 * gap
    listed = min(room, max(4, facts.sources + 1)) if words else room
    # This machine's GPUs need no log.
    gpus = min(room - listed - gap, facts.gpus + 3) if facts.gpus and room - listed >= 5 else 0
    rows = [("status", 1), ("alert", alert), ("", gap), ("sources", listed), ("", 2 * gap), ("words", words)]
    rows += [("", gap if gpus else 0), ("gpus", gpus), ("", room - listed - gpus - (gap if gpus else 0))]
    return Plan(_stack(width, [*rows, ("footer", footer)]))


def _facts(width: int, height: int, facts: Facts) -> Plan:
    """One fact a line, or two; what is free below goes to errors, then the log."""
    small = width < SMALLEST
    alert = 0 if height < 2 else 2 if small and height >= 8 else 1
    footer = 1 if not small and height >= 6 else 0
    last = 1 if not small and height >= 12 else 0
    free = height - 1 - alert - footer - last
    body = min(free, 5 if small else 9)
    free -= body
    band, tail, gap = 0, 0, 0
    if free >= 4:
        gap = 1 if free >= 6 else 0
        band = min(free - gap, 8)
        tail = free - gap - band
        if tail < 3:
            band, tail = band + tail, 0
    else:
        body += free
    rows = [("status", 1), ("alert", alert), ("facts", body), ("", gap)]
    rows += [("errors" if facts.errors else "events", band), ("log", tail), ("last", last), ("footer", footer)]
    places = _stack(width, rows)
    hidden: tuple[str, ...] = ()
    if width >= NARROW:
        hidden = tuple(n for n in COUNTED if n not in places and n != ("events" if facts.errors else "errors"))
    return Plan(places, hidden)


def _zoomed(width: int, height: int, facts: Facts, zoom: str) -> Plan:
    footer, alert = int(height >= 4), int(height >= 3)
    last = 1 if height >= 8 and width >= SMALLEST else 0
    gap = 1 if height >= 30 else 0
    body = height - 1 - alert - footer - last - 2 * gap
    places = _stack(width, [("status", 1), ("alert", alert), ("", body + 2 * gap), ("last", last), ("footer", footer)])
    top = 1 + alert + gap
    if zoom == "charts":
        if body >= 2 * CHART_MIN:
            upper = (body + 1) // 2
            places["loss"] = Rect(0, top, width, upper)
            places["lr"] = Rect(0, top + upper + gap, width, body - upper - gap)
        elif body > 0:
            places["loss"] = Rect(0, top, width, body)
    elif zoom == "errors" and body >= 8:
        upper = body - max(3, body // 3)
        places["errors"] = Rect(0, top, width, upper)
        places["events"] = Rect(0, top + upper + gap, width, body - upper - gap)
    elif zoom == "gpus":
        places |= _all_gpus(width, top, body, facts, gap)
    elif body > 0:
        places[zoom] = Rect(0, top, width, body)
    return Plan(places)


def _all_gpus(width: int, top: int, body: int, facts: Facts, gap: int) -> dict[str, Rect]:
    """GPUs full screen, and below them their machine where there is room."""
    wanted = (facts.everywhere or facts.gpus) + 3
    host = 1 + facts.host if facts.host else 0
    # What GPUs need goes before, but a long list of them leaves a third.
    rows = max(min(host, body - wanted - gap), min(host, body // 3))
    if rows < 4 or body < 12 or width < SMALLEST:
        return {"gpus": Rect(0, top, width, body)} if body > 0 else {}
    above = min(wanted, body - rows - gap)
    names = ("host", "network") if facts.links and width >= 120 else ("host",)
    below = zip(names, side_by_side(width, len(names)), strict=True)
    places = {name: Rect(x, top + above + gap, w, rows) for name, (x, w) in below}
    return places | {"gpus": Rect(0, top, width, above)}


def side_by_side(width: int, parts: int) -> Iterator[tuple[int, int]]:
    """Left edge and width of `parts` panels side by side; each includes one column of margin left and right."""
    gap = 3 if width > 80 else 2
    inner = width - 2 - gap * (parts - 1)
    x = 0
    for i in range(parts):
        w = inner * (i + 1) // parts - inner * i // parts
        yield x, w + 2
        x += w + gap


class _Bands:
    """The overview from 60 columns and 13 rows up: bands from the top, each with its height, cut until they fit."""

    def __init__(self, width: int, height: int, facts: Facts) -> None:
        self.width, self.height, self.facts = width, height, facts
        self.double = width >= 80
        self.band_name = "errors" if facts.errors else "events"
        self.bare = facts.gpus == 0
        self.heads = 1 if self.double and width < HEADS_FROM and not self.bare else 2
        # Of one node the host stands beside the GPUs; it has no row of column heads.
        self.beside, self.listed = ("host", facts.host - 1) if facts.solo else ("nodes", facts.nodes)
        wanted = max(facts.gpus, self.listed, 2)
        self.sentence = 1 if self.bare else 0
        if self.bare:
            self.rows, self.node_rows = 0, min(8, self.listed) if self.listed > 1 else 0
        else:
            self.rows = min(8, wanted) if self.double else min(4, max(facts.gpus, 1))
            self.node_rows = self.rows if self.double else min(4, max(self.listed, 1))
        self.chart = 2 if not facts.charts else CHART_FIRST if self.double else CHART_MIN + 1
        self.metrics = 0 if facts.metrics == 0 and self.double else 2 if width >= SPARKS_FROM else 1
        self.gaps = (3 + (self.metrics > 0) + (self.bare and self.node_rows > 0)) if height >= 30 else 0
        self.band = 1 if facts.quiet and not facts.errors else 3
        self.second = self.machine = self.tail = 0
        self.footer = self.last = 1

    def tables(self) -> int:
        if self.double and not self.bare:
            return self.heads + max(self.rows, self.node_rows) if self.rows else 0
        nodes = self.heads + self.node_rows if self.node_rows else 0
        return nodes + (self.sentence if self.bare else self.heads + self.rows if self.rows else 0)

    def total(self) -> int:
        bands = self.chart + self.metrics + self.tables() + self.band + self.second + self.machine + self.tail
        return 2 + bands + self.gaps + self.last + self.footer

    def free(self) -> int:
        return self.height - self.total()

    def cut(self) -> None:
        """Give rows back in the fixed order until everything fits."""

        def over() -> int:
            return -self.free()

        def lower(name: str, least: int) -> None:
            value: int = getattr(self, name)
            while over() > 0 and value > least:
                value -= 1
                setattr(self, name, value)

        lower("gaps", 0)
        lower("band", 2)
        for least in (4, 1):
            while over() > 0 and max(self.rows, self.node_rows) > least:
                self.rows = min(self.rows, max(self.rows, self.node_rows) - 1)
                self.node_rows = min(self.node_rows, max(self.rows, self.node_rows, least + 1) - 1)
        if self.metrics == 2 and over() > 0:
            self.metrics = 1
        lower("chart", min(self.chart, CHART_MIN))
        if over() > 0:
            self.metrics = 0
        if over() > 0:
            self.rows = self.sentence = 0
            if self.double or self.bare:
                self.node_rows = 0
        if over() > 0:
            self.chart = 0

    def grow(self) -> None:
        """Free rows go to the charts, then errors, then tables with more to show, then the tail of the log."""
        facts, tall = self.facts, self.height >= TALL
        gap = 1 if self.gaps else 0

        def grow(name: str, most: int, spare: int = 0) -> None:
            value: int = getattr(self, name)
            setattr(self, name, value + max(0, min(self.free() - spare, most - value)))

        drawn = bool(self.chart and facts.charts)
        if drawn:
            grow("chart", CHART_MAX + 1 if tall else CHART_MAX)
            if self.bare:
                # Of the rows that tables would have had.
                grow("chart", CHART_TALL, spare=12)
        if not facts.quiet or facts.errors:
            grow("band", 12 if facts.errors else 9 if facts.incident else 6)
        wanted = max(facts.gpus, self.listed) - max(self.rows, self.node_rows)
        if self.double and tall and wanted > 0 and self.tables() > self.sentence:
            more = min(max(0, self.free() - 6), wanted, 8)
            self.rows += more if self.rows else 0
            self.node_rows += more
        told = max(facts.links + 2 if facts.links else 0, facts.host + 1 if facts.host and not facts.solo else 0)
        wide = tall and self.width >= WIDEST and self.double and self.listed <= facts.gpus + 5
        if wide and told and self.free() >= min(told, 6) + gap:
            self.gaps += gap
            grow("machine", min(told, 10))
        if tall and facts.errors and self.free() >= 5 + gap:
            self.gaps += gap
            grow("second", 7)
        if not drawn and self.free() >= 3 + gap:
            # Before the first step the log is all that there is.
            self.gaps += gap
            self.tail = self.free()
        elif self.free() >= 3 + gap:
            self.gaps += gap
            grow("tail", TAIL_MAX)
        if tall:
            grow("band", 12)
        if drawn and tall:
            grow("chart", CHART_TALL)
        self.band += self.free()
        if gap and not self.tail and self.band > 4:
            # A blank row, or the last record would read as one of the band's.
            self.band -= 1

    def share_with_network(self, places: dict[str, Rect]) -> None:
        """On a wide screen the links stand below the GPUs, in rows that are left over."""
        facts, gpus = self.facts, places.get("gpus")
        if gpus is None or self.width < WIDEST or not facts.links or self.machine:
            return
        own = self.heads + min(facts.gpus, gpus.height)
        rows = min(gpus.height - own - (gap := 1 if self.gaps else 0), 2 + facts.links)
        if rows >= 4:
            places["gpus"] = gpus._replace(height=gpus.height - rows - gap)
            places["network"] = Rect(gpus.x, gpus.y + gpus.height - rows, gpus.width, rows)

    def plan(self) -> Plan:
        self.cut()
        self.grow()
        places = _stack(self.width, [("status", 1), ("alert", 1)])
        y = 2
        gaps = self.gaps

        def across(names: tuple[str, ...], height: int) -> None:
            nonlocal y, gaps
            if height <= 0:
                return
            if gaps > 0:
                y, gaps = y + 1, gaps - 1
            for name, (x, w) in zip(names, side_by_side(self.width, len(names)), strict=True):
                places[name] = Rect(x, y, w, height)
            y += height

        facts = self.facts
        charts: tuple[str, ...] = ("loss", "lr") if self.double and facts.charts > 1 else ("loss",)
        if self.width >= WIDEST and facts.third:
            charts += ("third",)
        across(charts, self.chart)
        across(("metrics",), self.metrics)
        nodes = self.heads + self.node_rows if self.node_rows else 0
        if self.bare:
            across((self.beside,), nodes)
            across(("gpus",), self.sentence)
        elif self.double:
            across(("gpus", self.beside), self.tables())
            self.share_with_network(places)
        else:
            across(("gpus",), self.heads + self.rows if self.rows else 0)
            across((self.beside,), nodes)
        if self.machine:
            y, gaps = y + (gaps > 0), gaps - (gaps > 0)
            for name, (x, w) in zip(("network", "host"), side_by_side(self.width, 2), strict=True):
                if name not in places and (facts.host if name == "host" else facts.links):
                    places[name] = Rect(x, y, w, self.machine)
            y += self.machine
        across((self.band_name,), self.band)
        across(("events",), self.second)
        across(("log",), self.tail)
        bottom = self.height - self.last - self.footer
        places |= _stack(self.width, [("last", self.last), ("footer", self.footer)], bottom)
        spared = {"events" if facts.errors else "errors"}
        if not self.double or facts.charts < 2:
            spared.add("lr")
        if facts.metrics == 0:
            spared.add("metrics")
        if (self.bare and facts.nodes < 2) or "host" in places:
            spared.add("nodes")
        return Plan(places, tuple(n for n in COUNTED if n not in places and n not in spared))
