"""The GPUs of one node, or one row a node where the logs carry one figure a node."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence

from trainmon import units
from trainmon.snapshot import GpuPanel, GpuRow
from trainmon.widgets.lists import ListInstrument, mark_selected
from trainmon.widgets.paint import HEALTH_GLYPHS, Pen, Row, Span, cut, width_of
from trainmon.widgets.parts import bar, heading

WARNING_SHARE, CRITICAL_SHARE = 0.90, 0.95
"""Shares of a card's memory from which the bar is coloured."""
_WIDE, _NARROW = 76, 46


def memory_share(row: GpuRow) -> float | None:
    """Memory in use as a share of the card's, 0 to 1; None when one of both is not known."""
    if row.memory_mb is None or not row.total_mb or row.total_mb <= 0 or not math.isfinite(row.memory_mb):
        return None
    share = row.memory_mb / row.total_mb
    return share if math.isfinite(share) else None


def memory_colour(row: GpuRow) -> str:
    """ "critical", "warning" or empty, by the level of the memory alone or by the row's own health."""
    share = memory_share(row)
    if share is not None and share >= CRITICAL_SHARE:
        return "critical"
    if share is not None and share >= WARNING_SHARE:
        return "warning"
    return ""


def _name(row: GpuRow, by_node: bool) -> str:
    if by_node or row.index is None:
        return row.node if row.index is None or not by_node else f"{row.node} gpu{row.index}"
    return str(row.index)


def _severity(row: GpuRow) -> str:
    if row.health in ("critical", "warning"):
        return row.health
    return memory_colour(row)


def worst(rows: Sequence[GpuRow], room: int) -> list[int]:
    """Indexes of the rows that are shown where not all fit: the worst, in their own order."""
    if len(rows) <= room:
        return list(range(len(rows)))
    rank = {"critical": 0, "warning": 1}

    def weight(index: int) -> tuple[int, float, int]:
        return rank.get(_severity(rows[index]), 2), -(memory_share(rows[index]) or 0.0), index

    return sorted(sorted(range(len(rows)), key=weight)[: max(0, room)])


class _Columns:
    """Where the columns stand in a panel of that width."""

    def __init__(self, rows: Sequence[GpuRow], width: int, by_node: bool) -> None:
        self.wide, self.narrow = width >= _WIDE, width < _NARROW

        def has(name: str) -> bool:
            return any(getattr(row, name) is not None for row in rows)

        name = max([len("gpu") if not by_node else 4, *(width_of(_name(row, by_node)) for row in rows)])
        self.name = min(name, max(3, width // 3)) if by_node else 3
        gap = 2 if not self.narrow else 1
        glyph = 2 if self.narrow or by_node else 0
        self.name_at = 1 + glyph
        self.name_end = self.name_at + (1 if self.narrow and not by_node else self.name)
        end = width - 1
        self.word = 0 if self.narrow else 8
        end -= self.word
        self.mhz = self.watts = self.heat = 0
        if self.wide and has("clock_mhz"):
            self.mhz, end = end, end - 7
        if self.wide and has("power_w"):
            self.watts, end = end, end - 6
        if has("temperature_c"):
            self.heat, end = end, end - (6 if not self.narrow else 4)
        self.memory = end
        bars = end - self.name_end - gap
        util = has("util_percent")
        # Besides the bars: the share's number, a gap, the memory's number.
        left = bars - ((11 if self.narrow else 12) if util else 5)
        self.util_bar = max(0, left // 2 if self.narrow else left * 15 // 33) if util else 0
        self.util_at = self.name_end + gap
        self.util = self.util_at + self.util_bar + 4 if util else 0
        self.memory_at = (self.util + (3 if not self.narrow else 2)) if util else self.name_end + gap
        self.memory_bar = max(0, self.memory - 5 - self.memory_at)
        if self.memory_bar < 3:
            self.memory_bar = 0
        if self.util_bar < 3:
            self.util_bar = 0


def _heads(panel: GpuPanel, columns: _Columns, by_node: bool) -> list[tuple[int, str]]:
    """(first column, text) of the column heads."""
    totals = {units.memory_total(row.total_mb) for row in panel.rows if row.total_mb}
    size = f"GiB of {totals.pop()}" if len(totals) == 1 else "GiB"
    out: list[tuple[int, str]] = []
    if not columns.narrow:
        out.append((1, "node" if by_node else "gpu"))
        if columns.util:
            out.append((columns.util_at, "util %"))
        out.append((columns.memory_at, f"memory {size}"))
    else:
        if columns.util:
            out.append((columns.util - 4, "util %"))
        out.append((columns.memory - len(size), size))
    if columns.heat:
        out.append((columns.heat - 2, "°C"))
    if columns.watts:
        out.append((columns.watts - 1, "W"))
    if columns.mhz:
        out.append((columns.mhz - 3, "MHz"))
    return out


def heads_in_rule(width: int, title: list[Span], heads: Sequence[tuple[int, str]], *, focused: bool) -> Row:
    """A heading in which the column heads stand in the rule."""
    pen = Pen(width)
    at = pen.spans(1, title)
    rule, token = ("━", "accent") if focused else ("─", "faint")
    for start, text in heads:
        if start < at + 1:
            continue
        if start - at >= 3:
            pen.fill(at + 1, start - 1, rule, token)
        at = pen.put(start, text, "muted")
    if width - 1 - at >= 3:
        pen.fill(at + 1, width - 1, rule, token)
    return pen.row()


def _draw_row(row: GpuRow, columns: _Columns, width: int, by_node: bool, stale: bool) -> Pen:
    pen = Pen(width)
    colour = _severity(row)
    level = memory_colour(row) or (colour if colour == "critical" else "")
    loud = colour + "+bold" if colour else "text"
    if columns.narrow or by_node:
        if colour:
            pen.put(1, HEALTH_GLYPHS[colour], loud)
        elif row.health in ("silent", "expected"):
            pen.put(1, HEALTH_GLYPHS[row.health], "muted")
    name = cut(_name(row, by_node), columns.name_end - columns.name_at)
    if by_node:
        pen.put(columns.name_at, name, loud)
    else:
        pen.right(min(columns.name_end, columns.name_at + 2), name, loud)
    quiet = "muted" if stale else "data"
    if columns.util:
        share = None if row.util_percent is None else row.util_percent / 100
        pen.spans(columns.util_at, bar(share, columns.util_bar, quiet))
        pen.right(columns.util, units.bare_percent(row.util_percent), "text")
    share = memory_share(row)
    if share is not None:
        pen.spans(columns.memory_at, bar(share, columns.memory_bar, level or quiet))
    pen.right(columns.memory, units.memory(row.memory_mb), level + "+bold" if level else "text")
    if columns.heat:
        pen.right(columns.heat, units.celsius(row.temperature_c), "text")
    if columns.watts:
        pen.right(columns.watts, units.watts(row.power_w), "text")
    if columns.mhz:
        pen.right(columns.mhz, units.mhz(row.clock_mhz), "text")
    if columns.word and colour:
        text = row.word or (units.percent(share * 100) if share is not None else "")
        label = f"{HEALTH_GLYPHS[colour]} {text}" if text and not by_node else text
        if text and width_of(label) <= columns.word - 2:
            pen.right(width - 1, label, loud)
    return pen


def draw_gpus(
    panel: GpuPanel,
    width: int,
    height: int,
    *,
    focused: bool = False,
    selected: int = 0,
    start: int = 0,
    stale: bool = False,
) -> list[Row]:
    """Heading, column heads and one row a GPU; below 46 columns the heads stand in the rule.

    Args:
        start: First row shown while the panel has the focus; without it the worst are shown where not all fit.
        stale: Nothing new arrives: bars turn grey.
    """
    if width < 1 or height < 1:
        return []
    age = f" · {units.age(panel.age_s)} ago" if panel.age_s is not None else ""
    by_node = any(row.index is None for row in panel.rows) or len({row.node for row in panel.rows}) > 1
    if not panel.rows:
        text = panel.sentence or "no GPU figures in the logs so far"
        fields: list[list[Span]] = [[(panel.subject, "text")]] if panel.subject else []
        if height == 1:
            fields.append([(text, "muted")])
        rows = [heading(width, "GPUs", fields, "", focused=focused)]
        for line in textwrap.wrap(text, max(8, width - 2)):
            pen = Pen(width)
            pen.put(1, line, "muted")
            rows.append(pen.row())
        return rows[:height]
    columns = _Columns(panel.rows, width, by_node)
    heads = _heads(panel, columns, by_node)
    if columns.narrow:
        title: list[Span] = [("GPUs", "accent+bold" if focused else "strong")]
        rows = [heads_in_rule(width, title, heads, focused=focused)]
        room = height - 1
    else:
        field: list[Span] = [(panel.subject, "text")]
        hidden = len(panel.rows) - (height - 2)
        if hidden > 0 and not focused:
            field.append((f", worst {max(0, height - 2)} of {max(panel.total, len(panel.rows))}", "muted"))
        rows = [heading(width, "GPUs", [field], panel.origin + age, focused=focused)]
        room = height - 2
        if room > 0:
            pen = Pen(width)
            for at, text in heads:
                pen.put(at, text, "muted")
            rows.append(pen.row())
    if room <= 0:
        return rows[:height]
    shown = list(range(start, min(start + room, len(panel.rows)))) if focused else worst(panel.rows, room)
    for index in shown:
        pen = _draw_row(panel.rows[index], columns, width, by_node, stale)
        if focused and index == selected:
            mark_selected([pen])
        rows.append(pen.row())
    return rows[:height]


class GpuTable(ListInstrument[GpuRow]):
    """Utilisation, memory and heat of GPUs."""

    DEFAULT_CSS = "GpuTable { height: 1fr; }"

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._panel = GpuPanel()
        self._stale = False

    def items(self) -> Sequence[GpuRow]:
        return self._panel.rows

    def show(self, panel: GpuPanel, stale: bool = False) -> None:
        """Shows the GPUs of a node; `stale` when nothing new arrives."""
        self._panel, self._stale = panel, stale
        self.selected = max(0, min(self.selected, len(panel.rows) - 1))
        self.redraw()

    def draw(self, width: int, height: int) -> list[Row]:
        room = height - (1 if width < _NARROW else 2)
        start, _ = self.windowed([1] * len(self._panel.rows), room)
        return draw_gpus(
            self._panel,
            width,
            height,
            focused=self.has_focus,
            selected=self.selected,
            start=start,
            stale=self._stale,
        )
