"""A machine: processors, memory, disks, network as lines with bars, and its links as a table. Pure, and two panels."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence

from trainmon import units
from trainmon.machines import HostFigure, HostPanel, LinkRow
from trainmon.widgets.cells import Pen, Row, Span, cut, width_of
from trainmon.widgets.gpu_rows import link_text
from trainmon.widgets.paint import Instrument
from trainmon.widgets.palette import HEALTH_GLYPHS
from trainmon.widgets.parts import bar, heading, sparkline

_SPARK_FROM, _BAR_FROM = 72, 56
"""Columns of the panel from which a figure has its past, and a bar."""
_SPARK = 16
_LOUD = {"critical": "critical", "warning": "warning"}


def _shown(healths: Sequence[str], room: int) -> list[int]:
    """Indexes of what is shown where not all fits: what is not well goes before, all in their own order."""
    if len(healths) <= room:
        return list(range(len(healths)))
    rank = {"critical": 0, "warning": 1, "silent": 2}
    order = sorted(range(len(healths)), key=lambda index: (rank.get(healths[index], 3), index))
    return sorted(order[: max(0, room)])


def draw_host(panel: HostPanel, width: int, height: int, *, stale: bool = False) -> list[Row]:
    """Heading and one row a figure; what is not well stays longest.

    Args:
        stale: Nothing new arrives: bars turn grey.
    """
    if width < 1 or height < 1:
        return []
    name: list[Span] = [(panel.subject, "text")] if panel.subject else []
    if panel.here and panel.subject and width >= 50:
        name.append((", this host", "muted"))
    shown = _shown([one.health for one in panel.figures], height - 1)
    if len(shown) < len(panel.figures):
        name.append((f", {len(shown)} of {len(panel.figures)}", "muted"))
    meta = f"{units.age(panel.age_s)} ago" if panel.age_s is not None else panel.origin if not panel.here else ""
    rows = [heading(width, "host", [name], meta)]
    if not panel.figures:
        for line in textwrap.wrap(panel.sentence or "nothing is known of this machine yet", max(8, width - 2)):
            pen = Pen(width)
            pen.put(1, line, "muted")
            rows.append(pen.row())
        return rows[:height]
    quiet = stale or panel.age_s is not None
    longest = max(width_of(one.title) for one in panel.figures)
    title = min(longest, max(12, width // 5))
    cells = min(16, max(6, (width - 30) // 5)) if width >= _BAR_FROM else 0
    for index in shown:
        rows.append(_figure(panel.figures[index], width, title, cells, quiet))
    return rows


def _figure(figure: HostFigure, width: int, title: int, cells: int, quiet: bool) -> Row:
    pen = Pen(width)
    loud = _LOUD.get(figure.health, "")
    if loud:
        pen.put(1, HEALTH_GLYPHS[figure.health], loud + "+bold")
    pen.put(3, _tail(figure.title, title), loud + "+bold" if loud else "muted")
    x = 3 + title + 2
    end = width - 1
    if cells:
        if figure.share is not None:
            pen.spans(x, bar(figure.share, cells, loud or ("muted" if quiet else "data")))
        x += cells + 2
    told = width_of(figure.text) + (2 + width_of(figure.note) if figure.note else 0)
    # What it says goes before its past.
    if figure.spark and width >= _SPARK_FROM and x + told + 2 <= end - _SPARK:
        end -= _SPARK
        pen.spans(end, sparkline(figure.spark, _SPARK, token="muted" if quiet else "data"))
        end -= 2
    token = loud + "+bold" if loud else "text"
    x = pen.put(x, cut(figure.text, max(0, end - x)), token)
    if figure.note and x + 6 < end:
        pen.put(x + 2, cut(figure.note, end - x - 2), "muted")
    return pen.row()


def _tail(text: str, width: int) -> str:
    """A path shows its end when it has to be cut."""
    if width_of(text) <= width or not text.startswith("/"):
        return cut(text, width)
    return "…" + text[-(width - 1) :]


def draw_links(panel: HostPanel, width: int, height: int) -> list[Row]:
    """Heading, column heads and one row a port; what is not well first stays."""
    if width < 1 or height < 1:
        return []
    shown = _shown([link.health for link in panel.links], height - 2)
    name: list[Span] = [(panel.subject, "text")] if panel.subject else []
    if len(shown) < len(panel.links):
        name.append((f", {len(shown)} of {len(panel.links)}", "muted"))
    meta = f"{units.age(panel.age_s)} ago" if panel.age_s is not None else ""
    rows = [heading(width, "network", [name], meta)]
    if not panel.links:
        pen = Pen(width)
        pen.put(1, "no link is known", "muted", width - 1)
        return [*rows, pen.row()][:height]
    if height < 2:
        return rows
    ports = min(max(4, *(width_of(link.name) for link in panel.links)), max(4, width // 4))
    ends: list[tuple[str, int]] = []
    end = width - 1
    for text, size, least in (("last flap", 12, 66), ("flaps", 9, 56), ("errors/min", 14, 46), ("GB/s", 14, 30)):
        if width >= least:
            ends.append((text, end))
            end -= size
    pen = Pen(width)
    pen.put(3, "port", "muted")
    pen.put(3 + ports + 2, "state", "muted")
    for text, at in ends:
        pen.right(at, text, "muted")
    rows.append(pen.row())
    columns = dict(ends)
    for index in shown:
        rows.append(_link(panel.links[index], width, ports, columns, end))
    return rows


def _link(link: LinkRow, width: int, ports: int, columns: dict[str, int], end: int) -> Row:
    pen = Pen(width)
    loud = _LOUD.get(link.health, "")
    glyph = HEALTH_GLYPHS.get(link.health, "●")
    pen.put(1, glyph, loud + "+bold" if loud else "ok" if link.health == "ok" else "muted")
    pen.put(3, cut(link.name, ports), loud + "+bold" if loud else "text")
    at = 3 + ports + 2
    pen.put(at, cut(link.state, max(0, end - at)), loud or "muted")
    if "GB/s" in columns:
        rate = link_text(link.gb_s)
        if link.rate_gb_s:
            of = f" of {link_text(link.rate_gb_s)}"
            start = pen.right(columns["GB/s"], of, "muted")
            pen.right(start, rate, loud + "+bold" if loud else "text")
        else:
            pen.right(columns["GB/s"], rate, "text")
    if "errors/min" in columns:
        errors = link.errors_per_min
        known = errors is not None and math.isfinite(errors)
        pen.right(columns["errors/min"], units.count(errors) if known else units.NONE,
                  (loud or "warning") + "+bold" if errors else "muted")  # fmt: skip
    if "flaps" in columns:
        pen.right(columns["flaps"], units.count(link.flaps), (loud or "warning") + "+bold" if link.flaps else "muted")
    if "last flap" in columns:
        pen.right(columns["last flap"], units.clock(link.last_flap), "text" if link.last_flap else "muted")
    return pen.row()


class HostTable(Instrument):
    """The machine's figures."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._panel, self._stale = HostPanel(), False

    def show(self, panel: HostPanel, stale: bool = False) -> None:
        """Shows a machine; `stale` when nothing new arrives."""
        self._panel, self._stale = panel, stale
        self.redraw()

    def draw(self, width: int, height: int) -> list[Row]:
        return draw_host(self._panel, width, height, stale=self._stale)


class LinkTable(Instrument):
    """The machine's network links."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._panel = HostPanel()

    def show(self, panel: HostPanel) -> None:
        """Shows the links of a machine."""
        self._panel = panel
        self.redraw()

    def draw(self, width: int, height: int) -> list[Row]:
        return draw_links(self._panel, width, height)
