"""One GPU in full, drawn: facts, memory by what it does, processes, what follows, its neighbours. Pure."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence

from trainmon import units
from trainmon.machines import GpuDetail, GpuRow
from trainmon.samples import GpuProcess
from trainmon.widgets.cells import Pen, Row, Span, cut, width_of
from trainmon.widgets.gpu_rows import heat_colour, label_of, link_text, memory_colour, memory_share, severity
from trainmon.widgets.palette import HEALTH_GLYPHS, HEALTH_TOKENS
from trainmon.widgets.parts import heading, sentence, spans_width

_EIGHTHS = " ▏▎▍▌▋▊▉"
_NOT_HERE = "not in this namespace"


def freshness(detail: GpuDetail) -> str:
    """Where the figures are from and how old they are: "NVML · 20 s ago"."""
    return detail.origin + (f" · {units.age(detail.age_s)} ago" if detail.age_s is not None else "")


def _facts(detail: GpuDetail) -> list[list[Span]]:
    out: list[list[Span]] = []
    for label, value, level in detail.facts:
        token = f"{level}+bold" if level in ("critical", "warning") else "text"
        out.append([(label + " ", "muted"), (value, token)])
    return out


def draw_gpu_head(detail: GpuDetail, width: int, height: int) -> list[Row]:
    """The card's name, its facts in as many rows as there are, and how fresh the figures are."""
    if width < 1 or height < 1:
        return []
    pen = Pen(width)
    name = detail.row.name or f"GPU {label_of(detail.row)}"
    meta = freshness(detail)
    x = pen.put(1, cut(name, width - 2), "strong")
    end = width - 1
    if x + width_of(meta) + 3 < width:
        end = pen.right(width - 1, meta, "warning" if detail.age_s is not None else "muted") - 2
    rows = [pen]
    for fact in _facts(detail):
        size = spans_width(fact)
        gap = 3 if x > 1 else 0
        if x + gap + size > end:
            if len(rows) == height:
                continue
            pen, x, gap, end = Pen(width), 1, 0, width - 1
            rows.append(pen)
        x = pen.spans(x + gap, fact, end)
    return [pen.row() for pen in rows[:height]]


def _gauge(detail: GpuDetail, cells: int, level: str, shapes: bool) -> list[Span]:
    """Steady, grown and free memory as one bar, in eighths of a cell."""
    steady, grown, free = (max(0.0, value or 0.0) for value in (detail.steady_mb, detail.grown_mb, detail.free_mb))
    total = detail.row.total_mb or steady + grown + free
    if not math.isfinite(total) or total <= 0 or cells < 1:
        return [(" " * max(0, cells), "text+track")]
    used = min(1.0, (steady + grown) / total) * cells
    whole, part = int(used), int((used - int(used)) * 8)
    border = min(whole, round(min(1.0, steady / total) * cells)) if grown else whole
    grown_token = (level or "warning") + "+track"
    out: list[Span] = [("█" * border, "data+track")]
    if whole > border:
        out.append((("▒" if shapes else "█") * (whole - border), grown_token))
    if part and whole < cells and not shapes:
        out.append((_EIGHTHS[part], grown_token if grown else "data+track"))
        whole += 1
    # Without a background the free part would be nothing at all.
    out.append((("·" if shapes else " ") * (cells - whole), ("faint" if shapes else "text+track")))
    return [span for span in out if span[0]]


def draw_memory(detail: GpuDetail, width: int, height: int, *, shapes: bool = False) -> list[Row]:
    """Heading, gauge and the three parts, one a row.

    Args:
        shapes: The parts must differ without colour.
    """
    if width < 1 or height < 1:
        return []
    row = detail.row
    level = memory_colour(row)
    value: list[Span] = []
    if row.memory_mb is not None:
        value.append((units.memory(row.memory_mb), (level + "+bold") if level else "strong"))
        value.append((f" of {units.memory_total(row.total_mb)} GiB" if row.total_mb else " GiB", "muted"))
    rows = [heading(width, "memory by owner", [value], detail.outlook)]
    if detail.steady_mb is None:
        why = dict(row.missing).get("gpu_memory_mb", "")
        return [*rows, _line(width, [("no figures" + (f": {why}" if why else ""), "muted")])][:height]
    gauge = Pen(width)
    gauge.spans(1, _gauge(detail, width - 2, level, shapes))
    rows.append(gauge.row())
    since = f"steady since step {units.count(detail.steady_since)}" if detail.steady_since is not None else "steady"
    parts: list[tuple[str, float | None, str, str]] = [(since, detail.steady_mb, "text", "")]
    if detail.grown_mb:
        word = f"grown since step {units.count(detail.grown_since)}" if detail.grown_since is not None else "grown"
        parts.append((word, detail.grown_mb, (level or "warning") + "+bold", ""))
    parts.append(("free", detail.free_mb, "text", ""))
    column = min(34, max(24, *(width_of(label) + 8 for label, *_ in parts)))
    for label, size, token, _ in parts:
        pen = Pen(width)
        pen.put(1, label, token, width - 1)
        if column + 4 < width:
            pen.right(column, units.memory(size), token if token != "text" else "strong")
            pen.put(column + 1, "GiB", "muted")
        rows.append(pen.row())
    return rows[:height]


def _line(width: int, spans: Sequence[Span]) -> Row:
    pen = Pen(width)
    pen.spans(1, spans, width - 1)
    return pen.row()


def throttle_spans(detail: GpuDetail) -> list[list[Span]]:
    """`throttle reasons`, what is in force now, and the seconds of each so far; empty when that is not told."""
    if not detail.throttle:
        return []
    now = [reason for reason, active, _ in detail.throttle if active]
    # A power cap under load is the rule, not a fault.
    bad = [reason for reason in now if reason != "power cap"]
    if bad:
        state: list[Span] = [("▲ ", "warning+bold"), (", ".join(now) + " now", "warning+bold")]
    elif now:
        state = [("● ", "ok"), (", ".join(now) + " now", "text")]
    else:
        state = [("● ", "ok"), ("none now", "text")]
    out: list[list[Span]] = [[("throttle reasons", "muted")], state]
    for reason, _, seconds in detail.throttle:
        loud = seconds >= 1 and reason != "power cap"
        out.append([(reason + " ", "muted"), (units.duration(seconds), "warning" if loud else "muted")])
    return out


def draw_throttle(detail: GpuDetail, width: int) -> Row:
    """One row: what holds the clocks back."""
    pen = Pen(width)
    groups = throttle_spans(detail)
    x = 1
    for group in groups:
        if x > 1 and x + 3 + spans_width(group) > width - 1:
            break
        x = pen.spans(x + (3 if x > 1 else 0), group, width - 1)
    return pen.row()


def draw_processes(detail: GpuDetail, width: int, height: int) -> list[Row]:
    """Heading, column heads, processes, and in the last row what throttles the GPU."""
    if width < 1 or height < 1:
        return []
    tail = 1 if detail.throttle and height >= 3 else 0
    room = height - 1 - tail
    total = len(detail.processes)
    if not total:
        rows = [heading(width, "processes")]
        if room > 0:
            rows.append(_line(width, [(detail.process_sentence or "none", "muted")]))
        rows += [[] for _ in range(height - tail - len(rows))]
        return [*rows, draw_throttle(detail, width)][:height] if tail else rows[:height]
    shown = max(1, room - 1)
    meta = f"{min(shown, total)} of {total}"
    rows = [heading(width, "processes", [], meta)]
    wide = width >= 60
    pid_end = 3 + max(6, *(len(units.count(one.pid)) for one in detail.processes))
    gib_end = pid_end + (13 if wide else 8)
    sm_end = gib_end + (8 if wide else 7)
    users = max(4, min(12, max(width_of(one.user) for one in detail.processes)))
    user_end = sm_end + 3 + users
    if room > 1:
        head = Pen(width)
        for end, text in ((pid_end, "pid"), (gib_end, "GiB"), (sm_end, "SM %"), (user_end, "user")):
            head.right(end, text, "muted")
        head.put(user_end + 3, "command", "muted", width - 1)
        rows.append(head.row())
    for one in detail.processes[:shown]:
        pen = Pen(width)
        pen.right(pid_end, units.count(one.pid), "text")
        pen.right(gib_end, units.memory(one.memory_mb), "text")
        pen.right(sm_end, units.bare_percent(one.sm_percent), "text")
        pen.right(user_end, cut(one.user, users) or units.NONE, "text" if one.user else "muted")
        token, words = ("text", command_of(one)) if one.here or one.command else ("muted", _NOT_HERE)
        pen.put(user_end + 3, cut(words, max(0, width - 4 - user_end)), token)
        rows.append(pen.row())
    rows += [[] for _ in range(height - tail - len(rows))]
    return [*rows[: height - tail], draw_throttle(detail, width)] if tail else rows[:height]


def command_of(process: GpuProcess) -> str:
    """The command with the rank before it, where that is known."""
    command = process.command or ("–" if process.here else _NOT_HERE)
    return f"rank {process.rank:,} · {command}" if process.rank is not None else command


def follows_rows(detail: GpuDetail, width: int) -> list[Row]:
    """What it means and what to do, numbered."""
    rows = [heading(width, "what follows")]
    if not detail.follows:
        return [*rows, _line(width, [("nothing to do: no alert is about this GPU", "muted")])]
    for number, text in enumerate(detail.follows, 1):
        for index, line in enumerate(textwrap.wrap(text, max(10, width - 5)) or [""]):
            pen = Pen(width)
            if not index:
                pen.put(1, str(number), "accent")
            pen.spans(3, sentence(line), width - 1)
            rows.append(pen.row())
    return rows


def draw_siblings(detail: GpuDetail, width: int) -> Row:
    """The GPUs of the machine with their memory, this one marked; fewer words where they do not fit."""
    pen = Pen(width)
    rows = list(detail.siblings)
    x = pen.put(1, "this node", "muted") + 2
    for forms in (2, 1, 0):
        cells = [_sibling(row, forms) for row in rows]
        gap = 4 if forms == 2 else 2
        if sum(spans_width(one) + gap for one in cells) <= width - 1 - x:
            break
    else:
        return pen.row()
    for row, spans in zip(rows, cells, strict=True):
        here = row.key == detail.row.key
        end = pen.spans(x, spans, width - 1)
        if here:
            pen.shade(x - 1, min(width, end + 1), "selected")
            pen.put(x - 1, "▌", "accent+selected")
        x = end + gap
    return pen.row()


def _sibling(row: GpuRow, forms: int) -> list[Span]:
    colour = severity(row)
    glyph = HEALTH_GLYPHS.get(colour or row.health, "●")
    spans: list[Span] = [(glyph, HEALTH_TOKENS.get(colour or row.health, "muted"))]
    if forms:
        spans.append((" " + label_of(row), f"{colour}+bold" if colour else "text"))
    if forms > 1 and row.memory_mb is not None:
        spans.append((" " + units.memory(row.memory_mb), "muted"))
    return spans


def figures(detail: GpuDetail) -> list[tuple[str, str, str]]:
    """(label, value, token) of everything measured, for the shortest form of the page and for copying."""
    row = detail.row
    why = dict(row.missing)
    level, hot = memory_colour(row), heat_colour(row)
    share = memory_share(row)
    memory = units.memory(row.memory_mb)
    if row.memory_mb is not None and row.total_mb:
        memory += f" of {units.memory_total(row.total_mb)} GiB" + (
            f", {share * 100:.0f} %" if share is not None else ""
        )

    def told(value: float | None, text: str, unit: str, metric: str, limit: str = "") -> str:
        if value is None:
            return why.get(metric, units.NONE)
        return f"{text} {unit}{limit}"

    heat = units.celsius(row.temperature_c)
    cap = f" of {units.watts(row.power_limit_w)}" if row.power_limit_w else ""
    top = f" of {units.mhz(row.clock_max_mhz)}" if row.clock_max_mhz else ""
    slow = f", slows at {units.celsius(row.slowdown_c)}" if row.slowdown_c else ""
    out = [
        ("util", told(row.util_percent, units.bare_percent(row.util_percent), "%", "gpu_utilization"), "text"),
        ("memory", memory if row.memory_mb is not None else why.get("gpu_memory_mb", units.NONE), level or "text"),
        ("heat", told(row.temperature_c, heat, "°C", "gpu_temperature_c", slow), hot or "text"),
        ("power", told(row.power_w, units.watts(row.power_w), "W", "gpu_power_w", cap), "text"),
        ("clock", told(row.clock_mhz, units.mhz(row.clock_mhz), "MHz", "sm_clock_mhz", top), "text"),
    ]  # fmt: skip
    if row.link_gb_s is not None:
        out.append(("NVLink", f"{link_text(row.link_gb_s)} GB/s", "text"))
    return [
        (label, value, token + "+bold" if token in ("critical", "warning") else token) for label, value, token in out
    ]


def facts_rows(detail: GpuDetail, width: int) -> list[Row]:
    """The whole page as one fact a row, for small terminals."""
    rows: list[Row] = []
    name = detail.row.name or f"GPU {label_of(detail.row)}"
    note = detail.row.note
    if note:
        for line in textwrap.wrap(note, max(8, width - 2)):
            rows.append(_line(width, [(line, "critical" if detail.row.health == "critical" else "warning")]))
    for label, value, token in figures(detail) if not note else []:
        rows.append(_pair(label, value, token, width))
    if detail.outlook:
        rows.append(_pair("outlook", detail.outlook, "warning+bold", width))
    for label, value, level in detail.facts:
        rows.append(_pair(label, value, f"{level}+bold" if level in ("critical", "warning") else "text", width))
    rows.append(_pair("card", name, "text", width))
    rows.append(_pair("from", freshness(detail), "muted", width))
    if detail.throttle:
        rows.append(draw_throttle(detail, width))
    for one in detail.processes:
        rows.append(_pair("pid", f"{one.pid:,}  {units.memory(one.memory_mb)} GiB  {command_of(one)}", "text", width))
    return [*rows, *follows_rows(detail, width)]


def _pair(label: str, value: str, token: str, width: int) -> Row:
    pen = Pen(width)
    column = 9
    if width_of(label) >= column - 1:
        column = 2 + width_of(label)
    pen.put(1, label, "muted", width - 1)
    pen.put(column, cut(value, max(0, width - 1 - column)), token)
    return pen.row()


def detail_text(detail: GpuDetail) -> str:
    """The page as plain text."""
    row = detail.row
    lines = [f"{row.node} GPU {label_of(row)}  {row.name}  {freshness(detail)}".rstrip()]
    if row.note:
        lines.append(row.note)
    lines += [f"{label}: {value}" for label, value, _ in figures(detail)]
    lines += [f"{label}: {value}" for label, value, _ in detail.facts]
    if detail.outlook:
        lines.append(f"outlook: {detail.outlook}")
    for one in detail.processes:
        lines.append(f"pid {one.pid}  {units.memory(one.memory_mb)} GiB  {one.user}  {command_of(one)}")
    lines += [f"throttled, {reason}: {units.duration(seconds)}" for reason, _, seconds in detail.throttle]
    lines += [f"{number}. {text}" for number, text in enumerate(detail.follows, 1)]
    return "\n".join(lines)
