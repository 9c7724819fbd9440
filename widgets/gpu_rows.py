"""Columns and rows of a table of GPUs. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from trainmon import units
from trainmon.machines import GpuPanel, GpuRow
from trainmon.widgets.cells import Pen, cut, width_of
from trainmon.widgets.palette import HEALTH_GLYPHS
from trainmon.widgets.parts import bar

WARNING_SHARE, CRITICAL_SHARE = 0.90, 0.95
"""Shares of a card's memory from which the bar of a log's figure is coloured; instruments' rows follow their alarms."""
WIDE, NARROW, LINKED = 76, 46, 96
"""Columns of a panel: from WIDE on watts and clocks, below NARROW the shortest form, from LINKED on NVLink."""
_RANKED = 126
_LOUD = {"critical": "critical+bold", "warning": "warning+bold", "silent": "muted", "expected": "muted"}


def memory_share(row: GpuRow) -> float | None:
    """Memory in use as a share of the card's, 0 to 1; None when one of both is not known."""
    if row.memory_mb is None or not row.total_mb or row.total_mb <= 0 or not math.isfinite(row.memory_mb):
        return None
    share = row.memory_mb / row.total_mb
    return share if math.isfinite(share) else None


def memory_colour(row: GpuRow) -> str:
    """ "critical", "warning" or empty, for the memory of a row.

    What instruments measure is coloured by its alarm: a training that takes a whole card on purpose is not ill.
    """
    if row.state:
        return row.health if row.health in ("critical", "warning") and row.word.endswith("%") else ""
    share = memory_share(row)
    if share is not None and share >= CRITICAL_SHARE:
        return "critical"
    if share is not None and share >= WARNING_SHARE:
        return "warning"
    return row.health if row.health == "critical" else ""


def heat_colour(row: GpuRow) -> str:
    """ "warning" from the card's own slow-down temperature on, and while heat slows it down; else empty."""
    if any(reason.startswith("thermal") for reason in row.throttle):
        return "warning"
    hot = row.temperature_c is not None and row.slowdown_c is not None and row.temperature_c >= row.slowdown_c
    return "warning" if hot else ""


def label_of(row: GpuRow) -> str:
    """What a GPU is called on its machine: "3", "0:5"."""
    return row.label or ("" if row.index is None else str(row.index))


def name_of(row: GpuRow, by_node: bool) -> str:
    """The name in the first column; with `by_node` its node goes before."""
    label = label_of(row)
    if not label:
        return row.node
    return f"{row.node} gpu{label}" if by_node else label


def severity(row: GpuRow) -> str:
    """ "critical", "warning" or empty: what colours the row's name."""
    if row.health in ("critical", "warning"):
        return row.health
    return memory_colour(row)


def several_nodes(rows: Sequence[GpuRow]) -> bool:
    """True where a row's name needs its node."""
    return any(row.index is None for row in rows) or len({row.node for row in rows}) > 1


class Columns:
    """Where the columns stand in a panel of that width.

    Each of `heat`, `watts`, `mhz`, `link`, `util`, `memory` is the column behind its last cell; 0: it is left out.
    """

    def __init__(self, panel: GpuPanel, rows: Sequence[GpuRow], width: int, by_node: bool) -> None:
        self.wide, self.narrow = width >= WIDE, width < NARROW

        def has(name: str) -> bool:
            return any(getattr(row, name) is not None for row in rows)

        self.by_node = by_node
        self.others = any(row.mine for row in rows)
        longest = max((width_of(name_of(row, by_node)) for row in rows), default=1)
        if by_node:
            self.name = min(max(4, longest), max(3, width // 3))
        else:
            self.name = min(longest, 8) if self.narrow else min(max(3, longest), 8)
        gap = 2 if not self.narrow else 1
        self.name_at = 1 + (2 if self.narrow or by_node else 0)
        self.name_end = self.name_at + self.name
        profiles = max((width_of(row.profile) for row in rows), default=0)
        self.profile = self.name_end + 1 if profiles and not self.narrow else 0
        start = self.name_end + (1 + min(profiles, 12) if self.profile else 0)
        end = width - 1
        told = max((width_of(row.word) for row in rows), default=0)
        self.word = 0 if self.narrow else 11 if self.wide and (panel.window_s is not None or told > 5) else 8
        if width >= LINKED:
            self.word = max(self.word, 15)
        end -= self.word
        self.link = self.mhz = self.watts = self.heat = self.rank = 0
        if width >= LINKED and has("link_gb_s"):
            self.link, end = end, end - 13
        if self.wide and has("clock_mhz"):
            self.mhz, end = end, end - 7
        if self.wide and has("power_w"):
            self.watts, end = end, end - 6
        if has("temperature_c"):
            self.heat, end = end, end - (6 if not self.narrow else 4)
        if width >= _RANKED and has("rank"):
            self.rank = start + gap + 5
            start = self.rank
        self.memory = end
        bars = end - start - gap
        util = has("util_percent")
        # Besides the bars: the share's number, a gap, the memory's number.
        left = bars - ((11 if self.narrow else 12) if util else 5)
        self.util_bar = max(0, left // 2 if self.narrow else left * 15 // 33) if util else 0
        self.util_at = start + gap
        self.util = self.util_at + self.util_bar + 4 if util else 0
        self.memory_at = (self.util + (3 if not self.narrow else 2)) if util else start + gap
        digits = max((width_of(units.memory(row.memory_mb)) for row in rows), default=4)
        self.memory_bar = max(0, self.memory - max(5, digits + 1) - self.memory_at)
        if self.memory_bar < 3:
            self.memory_bar = 0
        if self.util_bar < 3:
            self.util_bar = 0


def heads(panel: GpuPanel, rows: Sequence[GpuRow], columns: Columns) -> list[tuple[int, str]]:
    """(first column, text) of the column heads."""
    totals = {units.memory_total(row.total_mb) for row in rows if row.total_mb}
    size = f"GiB of {totals.pop()}" if len(totals) == 1 else "GiB"
    notes = {row.memory_note for row in rows}
    if len(notes) == 1 and (note := notes.pop()) and not columns.narrow:
        size += f", {note}"
    out: list[tuple[int, str]] = []
    if not columns.narrow:
        out.append((1, "node" if columns.by_node else "gpu"))
        if columns.rank:
            out.append((columns.rank - 4, "rank"))
        if columns.util:
            window = f", {units.age(panel.window_s)}" if panel.window_s else ""
            text = f"util %{window}"
            # The head of the next column must not be touched.
            if columns.util_at + len(text) >= columns.memory_at:
                text = "util %"
            out.append((columns.util_at, text))
        # Nor may the next one be touched.
        behind = columns.heat - 2 if columns.heat else columns.memory
        first = size.partition(",")[0]
        told = (f"memory {size}", size, f"memory {first}", first, "GiB")
        out.append((columns.memory_at, next((t for t in told if columns.memory_at + len(t) < behind), "GiB")))
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
    if columns.link:
        out.append((columns.link - 11, "NVLink GB/s"))
    return out


def draw_row(row: GpuRow, columns: Columns, width: int, stale: bool) -> Pen:
    """One GPU: its figures, or the sentence that takes their place."""
    pen = Pen(width)
    colour = severity(row)
    quiet = stale or row.state == "stale" or (columns.others and not row.mine)
    text = "muted" if quiet and not stale else "text"
    loud = _LOUD.get(colour, text)
    _put_name(pen, row, columns, colour, loud)
    limit = _put_word(pen, row, columns, width, colour)
    if row.note:
        token = {"critical": "critical", "warning": "warning"}.get(row.health, "muted")
        pen.put(columns.util_at, cut(row.note, max(0, limit - columns.util_at)), token)
        return pen
    if columns.rank and row.rank is not None:
        pen.right(columns.rank, units.count(row.rank), "muted")
    line = "muted" if quiet else "data"
    if columns.util:
        share = None if row.util_percent is None else row.util_percent / 100
        why = next((why for metric, why in row.missing if metric == "gpu_utilization"), "") if share is None else ""
        if why and columns.util_bar >= 8:
            pen.put(columns.util_at, cut(why, columns.util_bar), "muted")
        else:
            pen.spans(columns.util_at, bar(share, columns.util_bar, line))
        pen.right(columns.util, units.bare_percent(row.util_percent), text)
    share, level = memory_share(row), memory_colour(row)
    if share is not None:
        pen.spans(columns.memory_at, bar(share, columns.memory_bar, level or line))
    pen.right(columns.memory, units.memory(row.memory_mb), level + "+bold" if level else text)
    if columns.heat:
        hot = heat_colour(row)
        pen.right(columns.heat, units.celsius(row.temperature_c), hot + "+bold" if hot else text)
    if columns.watts:
        pen.right(columns.watts, units.watts(row.power_w), text)
    if columns.mhz:
        pen.right(columns.mhz, units.mhz(row.clock_mhz), text)
    if columns.link:
        pen.right(columns.link, link_text(row.link_gb_s), text)
    return pen


def link_text(gb_s: float | None) -> str:
    """GB/s, whole from ten on: `148`, `9.5`, `0.02`, `0`."""
    if gb_s is None or not math.isfinite(gb_s) or gb_s < 0:
        return units.NONE
    if gb_s >= 9.95 or gb_s < 0.005:
        return f"{gb_s:,.0f}"
    return f"{gb_s:.1f}" if gb_s >= 0.095 else f"{gb_s:.2f}"


def _put_name(pen: Pen, row: GpuRow, columns: Columns, colour: str, loud: str) -> None:
    if columns.narrow or columns.by_node:
        if colour:
            pen.put(1, HEALTH_GLYPHS[colour], loud)
        elif row.health in ("silent", "expected"):
            pen.put(1, HEALTH_GLYPHS[row.health], "muted")
    room = columns.name_end - columns.name_at
    name = cut(name_of(row, columns.by_node), room)
    if columns.by_node:
        pen.put(columns.name_at, name, loud)
    else:
        pen.right(columns.name_end - (1 if room == 3 and len(name) < 3 else 0), name, loud)
    if columns.profile and row.profile:
        pen.put(columns.profile, cut(row.profile, 12), "muted")


def _put_word(pen: Pen, row: GpuRow, columns: Columns, width: int, colour: str) -> int:
    """The row's word at the right edge; returns the column before which all else ends."""
    share = memory_share(row)
    word = row.word or (units.percent(share * 100) if colour and share is not None else "")
    health = colour or (row.health if row.health in _LOUD else "")
    if not columns.word or not word:
        return width - 1
    glyph = HEALTH_GLYPHS.get(health, "")
    short = "stale" if word.startswith("stale") else ""
    forms = [word, short] if columns.by_node or not glyph else [f"{glyph} {word}", word, f"{glyph} {short}".rstrip()]
    if row.note:
        # The sentence says it already.
        forms = [form for form in forms if form != word]
    fitting = next((form for form in forms if form and width_of(form) <= columns.word - 2), "")
    if not fitting:
        return width - 1
    token = _LOUD.get(health, "muted")
    return pen.right(width - 1, fitting, token) - 2
