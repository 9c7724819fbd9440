"""The nodes, worst first: a strip with one cell a node, and a table; above 64 nodes a grid."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import lru_cache

from trainmon import units
from trainmon.snapshot import NodeView
from trainmon.widgets.gpu_table import heads_in_rule
from trainmon.widgets.lists import ListInstrument, mark_selected
from trainmon.widgets.paint import HEALTH_GLYPHS, HEALTH_TOKENS, Pen, Row, Span, cut, width_of
from trainmon.widgets.parts import heading, sparkline, strip

GRID_FROM = 64
"""More nodes than this are drawn as a grid."""
GRID_LIMIT = 1024
"""More nodes than this share cells: one cell is the worst of k."""
_GRID_ROW = 32
_WIDE, _NARROW = 76, 46
_HOT_C = 85.0
_WORD = 20
"""Cells that the state keeps in a wide table: words come and go, the columns behind them stay."""
_WEIGHT = {"critical": 0, "warning": 1, "silent": 2, "expected": 3, "ok": 4}


@lru_cache(maxsize=4096)
def natural(name: str) -> tuple[tuple[int, str], ...]:
    """Sort key by which `worker-10` follows `worker-9`."""
    parts = re.split(r"([0-9]{1,18})", name)
    # Every second part is a number.
    return tuple((int(part), "") if index % 2 else (0, part) for index, part in enumerate(parts))


def summary(nodes: Sequence[NodeView]) -> list[Span]:
    """`6 ok · 1 slow · 1 failing`."""
    counts: dict[str, int] = {}
    tokens: dict[str, str] = {}
    order: dict[str, int] = {}
    for node in nodes:
        word = node.word or node.health
        if node.health == "critical":
            name = "failed" if "_" in word or "fail" in word.lower() else "failing"
        elif node.health == "ok":
            name = "ok"
        elif node.health == "warning":
            name = word if word.islower() and len(word) <= 12 else "warned"
        else:
            name = re.sub(r"\s*[\d,.]+\s*\w*.*$", "", word) or node.health
        counts[name] = counts.get(name, 0) + 1
        tokens[name] = "text"
        order[name] = max(order.get(name, 0), _WEIGHT.get(node.health, 4))
    out: list[Span] = []
    # Healthy first, the worst last.
    for name in sorted(counts, key=lambda key: (-order[key], key)):
        out.append(((" · " if out else "") + f"{counts[name]:,} {name}", tokens[name]))
    return out


class _Columns:
    """Where the columns stand; a column without a single value is left out."""

    def __init__(self, nodes: Sequence[NodeView], width: int) -> None:
        self.wide, self.narrow = width >= _WIDE, width < _NARROW
        has = {name: any(getattr(node, name) is not None for node in nodes) for name in
               ("step", "own_s", "versus_percent", "wait_s", "memory_mb", "temperature_c", "loss")}  # fmt: skip
        longest = max((width_of(node.name) for node in nodes), default=4)
        self.name = min(longest, 24 if self.wide else 16 if not self.narrow else 12)
        gap = 3 if not self.narrow else 2
        self.state = 3 + self.name + gap
        words = max((width_of(node.word) for node in nodes), default=2)
        self._place(nodes, has, width, words, 0, 10)
        if self.wide:
            # Room beyond what a long state needs goes between the numbers and into the sparkline.
            slack = self.word - max(_WORD, words)
            numbers = sum(1 for end in (self.own, self.versus, self.wait, self.memory, self.heat) if end)
            more = max(0, min(3, slack // max(1, numbers + 2)))
            slack -= more * numbers
            cells = 10 if slack < 10 or not self.spark else 20
            self._place(nodes, has, width, words, more, cells)

    def _place(
        self, nodes: Sequence[NodeView], has: dict[str, bool], width: int, words: int, more: int, cells: int
    ) -> None:
        """Columns from the right end on, each `more` wider than it must be."""
        end = width - 2 if not self.narrow else width - 1
        self.heat = self.memory = self.wait = self.versus = self.own = self.step = 0
        self.spark = self.spark_cells = 0
        if has["temperature_c"]:
            self.heat, end = end, end - 5 - more
        if has["memory_mb"]:
            self.memory, end = end, end - 7 - more
        if has["wait_s"] and self.wide:
            self.wait, end = end, end - 7 - more
        if has["versus_percent"] and width >= 56:
            self.versus, end = end, end - 7 - more
        if self.wide and any(node.spark for node in nodes):
            # A blank column and a half before the next number.
            self.spark_cells = cells
            self.spark = end - cells - 1
            end = self.spark - 2
        if has["own_s"]:
            self.own, end = end, end - (7 + more if not self.narrow else 5)
        room = end - self.state - min(12, max(5, words)) - 1
        if has["step"] and not self.narrow and room >= 7:
            self.step, end = end, end - 8
        self.word = max(0, end - self.state - (0 if self.narrow else 1))


def _heads(columns: _Columns) -> list[tuple[int, str]]:
    out: list[tuple[int, str]] = []
    if not columns.narrow:
        out += [(3, "node"), (columns.state, "state")]
    for end, text in (
        (columns.step, "step"),
        (columns.own, "own s"),
        (columns.versus, "vs med"),
        (columns.wait, "wait s"),
        (columns.memory, "GiB"),
        (columns.heat, "°C"),
    ):
        if end:
            out.append((end - len(text), text))
    return out


def _spark(node: NodeView, cells: int, token: str, bad: str) -> list[Span]:
    """The node's recent step times; a column each, or two where there is room for that."""
    values, begun = node.spark, node.bad_from
    if values and len(values) * 2 <= cells:
        values = tuple(value for value in values for _ in (0, 1))
        begun = None if begun is None else 2 * begun
    return sparkline(values, cells, bad_from=begun, token=token, bad=bad)


def _draw_row(node: NodeView, columns: _Columns, width: int, *, stale: bool) -> Pen:
    pen = Pen(width)
    bad = node.health in ("critical", "warning")
    loud = HEALTH_TOKENS[node.health] if bad else "text"
    pen.put(1, HEALTH_GLYPHS.get(node.health, "○"), HEALTH_TOKENS.get(node.health, "muted"))
    pen.put(3, cut(node.name, columns.name), "strong" if bad else "text")
    quiet = node.health in ("silent", "expected") or (columns.narrow and not bad)
    if columns.word > 0:
        pen.put(columns.state, cut(node.word, columns.word), loud if bad else "muted" if quiet else "text")
    if columns.step:
        pen.right(columns.step, units.count(node.step), "text")
    versus = node.versus_percent
    slow = versus is not None and math.isfinite(versus) and versus >= 5 and (bad or node.bad_from is not None)
    slow_token = "critical+bold" if node.health == "critical" else "warning+bold"
    if columns.own:
        pen.right(columns.own, units.bare_seconds(node.own_s), slow_token if slow else "text")
    if columns.spark:
        token = "muted" if stale else "data"
        colour = slow_token.removesuffix("+bold")
        pen.spans(columns.spark, _spark(node, columns.spark_cells, token, colour))
    if columns.versus:
        pen.right(columns.versus, units.change(versus), slow_token if slow else "muted")
    if columns.wait:
        pen.right(columns.wait, units.bare_seconds(node.wait_s), "text")
    if columns.memory:
        full = node.health == "critical" and ("OOM" in node.word or "memory" in node.word.lower())
        pen.right(columns.memory, units.memory(node.memory_mb), "critical+bold" if full else "text")
    if columns.heat:
        heat = node.temperature_c
        hot = heat is not None and heat >= _HOT_C and (bad or slow)
        pen.right(columns.heat, units.celsius(heat), "warning+bold" if hot else "text")
    return pen


def merged(width: int, height: int) -> bool:
    """The column heads stand in the heading's rule: in narrow panels, and where a row is dear."""
    return width < _NARROW or height == 3


def gridded(nodes: int, width: int) -> bool:
    """The strip of that many nodes would not fit into the heading."""
    return nodes > GRID_FROM or (width >= _WIDE and not strip(["ok"] * nodes, width // 3))


def grid_rows(nodes: Sequence[NodeView], width: int, room: int, marked: str | None = None) -> list[Row]:
    """One cell a node in rows of 32 with their index ranges; above 1,024 nodes a cell is the worst of k.

    Args:
        marked: Name of the node whose cell stands in brackets.
    """
    ordered = sorted(nodes, key=lambda node: natural(node.name))
    each = max(1, math.ceil(len(ordered) / GRID_LIMIT))
    groups = [ordered[index : index + each] for index in range(0, len(ordered), each)]
    label = len(f"{len(ordered):,}–{len(ordered):,}") + 2
    pitch = 2 if width - 2 - label - 1 >= _GRID_ROW * 2 + 3 else 1
    rows: list[Row] = []
    for first in range(0, len(groups), _GRID_ROW):
        if len(rows) >= room:
            break
        line = groups[first : first + _GRID_ROW]
        pen = Pen(width)
        last = min((first + len(line)) * each, len(ordered)) - 1
        pen.right(1 + label, f"{first * each:,}–{last:,}", "muted")
        at = label + 3
        for index, group in enumerate(line):
            if index and index % 8 == 0:
                at += pitch
            node = min(group, key=lambda one: _WEIGHT.get(one.health, 4))
            glyph = "■" if node.health == "ok" else HEALTH_GLYPHS.get(node.health, "○")
            pen.put(at, glyph, HEALTH_TOKENS.get(node.health, "muted"), width - 1)
            if marked is not None and pitch == 2 and any(one.name == marked for one in group):
                pen.put(at - 1, "[", "accent+bold", width - 1)
                pen.put(at + 1, "]", "accent+bold", width - 1)
            at += pitch
        rows.append(pen.row())
    return rows


def draw_nodes(
    nodes: Sequence[NodeView],
    width: int,
    height: int,
    *,
    focused: bool = False,
    selected: int = 0,
    start: int = 0,
    stale: bool = False,
    meta: str = "worst first",
) -> list[Row]:
    """Heading with the strip, column heads and one row a node; below 46 columns the heads stand in the rule.

    Args:
        start: First row shown.
        stale: Nothing new arrives: sparklines turn grey.
    """
    if width < 1 or height < 1:
        return []
    if not nodes:
        pen = Pen(width)
        pen.put(1, cut("one row a node, from the first line on", width - 2), "muted")
        return [heading(width, "nodes", focused=focused), pen.row()][:height]
    columns = _Columns(nodes, width)
    in_order = [node.health for node in sorted(nodes, key=lambda node: natural(node.name))]
    cells = [] if gridded(len(nodes), width) else strip(in_order, width // 3)
    token = "accent+bold" if focused else "strong"
    rows: list[Row] = []
    grid: list[Row] = []
    if merged(width, height):
        head: list[Span] = [("nodes", token)]
        if len(nodes) > 1:
            room = (columns.own or columns.memory or columns.heat or width) - 8 - 7
            short = strip(in_order, room) or [(" " + f"{len(nodes):,}", "text")]
            head += [(" ", "text"), *short]
        rows.append(heads_in_rule(width, head, _heads(columns), focused=focused))
    else:
        fields: list[list[Span]] = [cells] if cells and len(nodes) > 1 else []
        counted = summary(nodes) if width >= _WIDE or gridded(len(nodes), width) else []
        each = math.ceil(len(nodes) / GRID_LIMIT)
        if each > 1:
            counted = [*counted, (f" · a cell is the worst of {each}", "muted")]
        if counted:
            fields.append(counted)
        note = f"{meta} · {units.count(len(nodes))} nodes" if len(nodes) > height - 2 else meta
        rows.append(heading(width, "nodes", fields, note if width >= 56 else "", focused=focused))
        if gridded(len(nodes), width) and height >= 8:
            current = nodes[max(0, min(selected, len(nodes) - 1))]
            grid = grid_rows(nodes, width, height - 6, current.name if focused else None)
            rows += grid
        if height - len(rows) >= 2:
            pen = Pen(width)
            for at, text in _heads(columns):
                pen.put(at, text, "muted")
            rows.append(pen.row())
    room = height - len(rows)
    for index in range(start, min(start + max(0, room), len(nodes))):
        pen = _draw_row(nodes[index], columns, width, stale=stale)
        if focused and index == selected:
            mark_selected([pen])
        rows.append(pen.row())
    return rows[:height]


def rows_for_nodes(nodes: int, width: int, height: int) -> int:
    """Rows that are left for single nodes in a panel of that size."""
    if merged(width, height):
        return max(0, height - 1)
    used = 1
    if gridded(nodes, width) and height >= 8:
        cells = min(nodes, math.ceil(nodes / max(1, math.ceil(nodes / GRID_LIMIT))))
        used += min(height - 6, math.ceil(cells / _GRID_ROW))
    return max(0, height - used - (1 if height - used >= 2 else 0))


class NodeTable(ListInstrument[NodeView]):
    """The nodes of the run, worst first."""

    DEFAULT_CSS = "NodeTable { height: 1fr; }"

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._views: Sequence[NodeView] = ()
        self._stale = False

    def items(self) -> Sequence[NodeView]:
        return self._views

    def show(self, nodes: Sequence[NodeView], stale: bool = False) -> None:
        """Shows the nodes; `stale` when nothing new arrives."""
        before = self.current
        self._views, self._stale = nodes, stale
        self.follow(before, "name")
        self.redraw()

    def draw(self, width: int, height: int) -> list[Row]:
        room = rows_for_nodes(len(self._views), width, height)
        start, _ = self.windowed([1] * len(self._views), room)
        return draw_nodes(
            self._views,
            width,
            height,
            focused=self.has_focus,
            selected=self.selected,
            start=start,
            stale=self._stale,
        )
