"""The GPUs of one node, or one row a node where the logs carry one figure a node."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from trainmon import units
from trainmon.snapshot import GpuPanel, GpuRow
from trainmon.widgets.gpu_rows import (
    NARROW,
    Columns,
    draw_row,
    heads,
    memory_colour,
    memory_share,
    name_of,
    several_nodes,
    severity,
)
from trainmon.widgets.lists import ListInstrument, mark_selected
from trainmon.widgets.paint import Pen, Row, Span, cut
from trainmon.widgets.parts import heading, spans_width

__all__ = ["GpuTable", "draw_gpus", "heads_in_rule", "memory_colour", "memory_share", "name_of", "worst"]


def worst(rows: Sequence[GpuRow], room: int) -> list[int]:
    """Indexes of the rows that are shown where not all fit: the worst, in their own order."""
    if len(rows) <= room:
        return list(range(len(rows)))
    rank = {"critical": 0, "warning": 1}

    def weight(index: int) -> tuple[int, float, int]:
        return rank.get(severity(rows[index]), 2), -(memory_share(rows[index]) or 0.0), index

    return sorted(sorted(range(len(rows)), key=weight)[: max(0, room)])


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


def _title(panel: GpuPanel, rows: Sequence[GpuRow], everywhere: bool) -> list[Span]:
    """What stands behind "GPUs": the machine, or how many there are of how many nodes."""
    if everywhere:
        count = max(panel.counted, len(rows))
        nodes = len({row.node for row in rows})
        shown = f", worst {len(rows)} first" if len(rows) < count else ", worst first"
        of = f" of {nodes} nodes" if len(rows) >= count else ""
        return [(f"{count:,}{of}", "text"), (shown, "muted")]
    return [(panel.subject, "text")] + ([(", this host", "muted")] if panel.here and panel.subject else [])


def _sentence(panel: GpuPanel, width: int, rows: int) -> list[Row]:
    """What is the matter with the driver as a whole, in at most so many rows."""
    if not panel.sentence or rows < 1:
        return []
    token = "warning" if panel.bad else "muted"
    indent = 3 if panel.bad else 1
    lines = textwrap.wrap(panel.sentence, max(8, width - 1 - indent)) or [""]
    if len(lines) > rows:
        lines = [*lines[: rows - 1], cut(" ".join(lines[rows - 1 :]), max(1, width - 1 - indent))]
    out: list[Row] = []
    for number, line in enumerate(lines):
        pen = Pen(width)
        if panel.bad and not number:
            pen.put(1, "▲", "warning+bold")
        pen.put(indent, line, token, width - 1)
        out.append(pen.row())
    return out


def draw_gpus(
    panel: GpuPanel,
    width: int,
    height: int,
    *,
    focused: bool = False,
    selected: int = 0,
    start: int = 0,
    stale: bool = False,
    everywhere: bool = False,
) -> list[Row]:
    """Heading, column heads and one row a GPU; below 46 columns the heads stand in the rule.

    Args:
        start: First row shown while the panel has the focus; without it the worst are shown where not all fit.
        stale: Nothing new arrives: bars turn grey.
        everywhere: The GPUs of all nodes, worst first, instead of one node's.
    """
    if width < 1 or height < 1:
        return []
    everywhere = everywhere and bool(panel.everywhere)
    listed: Sequence[GpuRow] = panel.everywhere if everywhere else panel.rows
    live = " · live" if panel.window_s is not None and listed else ""
    age = f" · {units.age(panel.age_s)} ago" if panel.age_s is not None else live
    by_node = everywhere or several_nodes(listed)
    title = _title(panel, listed, everywhere)
    if not listed:
        text = panel.sentence or "no GPU figures in the logs so far"
        fields: list[list[Span]] = [title] if panel.subject else []
        if height == 1:
            # A field that does not fit is left out as a whole, and the heading would say nothing.
            said = cut(text, max(1, width - 16 - spans_width(title)))
            fields.append([(said, "warning" if panel.bad else "muted")])
        rows = [heading(width, "GPUs", fields, "", focused=focused)]
        return [*rows, *_sentence(panel if panel.sentence else GpuPanel(sentence=text), width, height - 1)][:height]
    columns = Columns(panel, listed, width, by_node)
    marks = heads(panel, listed, columns)
    room = height - (1 if columns.narrow else 2)
    # Of few rows the sentence takes none: the rows themselves say what is wrong.
    above = _sentence(panel, width, 0 if everywhere else 1 if room > 2 else 0)
    room -= len(above)
    if columns.narrow:
        head: list[Span] = [("GPUs", "accent+bold" if focused else "strong")]
        rows = [heads_in_rule(width, head, marks, focused=focused), *above]
    else:
        hidden = len(listed) - room
        if hidden > 0 and not focused and not everywhere:
            title.append((f", worst {max(0, room)} of {max(panel.total, len(listed))}", "muted"))
        meta = "" if everywhere else panel.origin + age
        rows = [heading(width, "GPUs", [title], meta, focused=focused), *above]
        if height - len(rows) > 0:
            pen = Pen(width)
            for at, text in marks:
                pen.put(at, text, "muted")
            rows.append(pen.row())
    if room <= 0:
        return rows[:height]
    first_ones = focused or everywhere
    shown = list(range(start, min(start + room, len(listed)))) if first_ones else worst(listed, room)
    for index in shown:
        pen = draw_row(listed[index], columns, width, stale)
        if focused and index == selected:
            mark_selected([pen])
        rows.append(pen.row())
    return rows[:height]


class GpuTable(ListInstrument[GpuRow]):
    """Utilisation, memory and heat of GPUs: of one node, or with `everywhere` of all of them, worst first."""

    DEFAULT_CSS = "GpuTable { height: 1fr; }"

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._panel = GpuPanel()
        self._stale = False
        self.everywhere = False

    def items(self) -> Sequence[GpuRow]:
        return self._panel.everywhere if self.everywhere and self._panel.everywhere else self._panel.rows

    def show(self, panel: GpuPanel, stale: bool = False, everywhere: bool = False) -> None:
        """Shows the GPUs of a node, or all; `stale` when nothing new arrives. The selection stays on its GPU."""
        before = self.current
        self._panel, self._stale, self.everywhere = panel, stale, everywhere
        self.follow(before if before is not None and before.key else None, "key")
        self.redraw()

    def draw(self, width: int, height: int) -> list[Row]:
        room = height - (1 if width < NARROW else 2)
        if self._panel.sentence and room > 2 and not (self.everywhere and self._panel.everywhere):
            room -= 1
        start, _ = self.windowed([1] * len(self.items()), room)
        return draw_gpus(
            self._panel,
            width,
            height,
            focused=self.has_focus,
            selected=self.selected,
            start=start,
            stale=self._stale,
            everywhere=self.everywhere,
        )
