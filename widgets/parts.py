"""Small drawings that several instruments share: headings, bars, sparklines, node strips. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from trainmon.widgets.cells import Pen, Row, Span, cut, width_of
from trainmon.widgets.palette import HEALTH_GLYPHS, HEALTH_TOKENS

BLOCKS = "▁▂▃▄▅▆▇█"
STRIP_GROUP = 8


def spans_width(spans: Sequence[Span]) -> int:
    """Cells of several spans."""
    return sum(width_of(text) for text, _ in spans)


def heading(
    width: int,
    title: str,
    fields: Sequence[Sequence[Span]] = (),
    meta: str = "",
    *,
    focused: bool = False,
    rule: bool = True,
) -> Row:
    """`title  value  note ───── meta` between the margins; heavy and in accent when focused.

    Args:
        fields: Groups of spans behind the title, two columns apart; what does not fit is dropped whole, last first.
        meta: Source and age at the right end; dropped after the fields behind the first.
        rule: False leaves the rule out (column heads take its place).
    """
    pen = Pen(width)
    end = width - 1
    token = "accent+bold" if focused else "strong"
    title = cut(title, max(0, width - 2))
    at = pen.put(1, title, token)
    keep = [list(group) for group in fields if spans_width(group)]
    room = end - at

    def needs(groups: list[list[Span]], tail: str) -> int:
        return sum(2 + spans_width(group) for group in groups) + (width_of(tail) + 4 if tail else 0)

    while len(keep) > 1 and needs(keep, meta) > room:
        keep.pop()
    if needs(keep, meta) > room:
        meta = ""
    while keep and needs(keep, meta) > room:
        # `a · b · c` loses its last part first.
        parts = [index for index, (text, _) in enumerate(keep[-1]) if index and text.startswith(" · ")]
        if parts:
            del keep[-1][parts[-1] :]
        else:
            keep.pop()
    for group in keep:
        at = pen.spans(at + 2, group)
    stop = end
    if meta:
        stop = pen.right(end, meta, "muted") - 1
    if rule and stop - at - 1 > 0:
        pen.fill(at + 1, stop, "━" if focused else "─", "accent" if focused else "faint")
    return pen.row()


def bar(share: float | None, cells: int, token: str = "data") -> list[Span]:
    """A line bar in a table: `━` on a thin `─`, steps of half a cell; unknown shares leave the track."""
    if cells <= 0:
        return []
    if share is None or not math.isfinite(share):
        return [("─" * cells, "faint")]
    halves = max(1 if share > 0 else 0, round(max(0.0, min(1.0, share)) * cells * 2))
    full, half = divmod(halves, 2)
    out: list[Span] = []
    if full:
        out.append(("━" * full, token))
    if half:
        out.append(("╸", token))
    rest = cells - full - half
    if rest:
        out.append(("─" * rest, "faint"))
    return out


def spark_levels(values: Sequence[float]) -> list[int | None]:
    """Height 0 to 7 of each value; None where it is not finite.

    The scale is the window's, but at least ± 20 % of its median, so that noise looks flat.
    """
    finite = sorted(value for value in values if math.isfinite(value))
    if not finite:
        return [None] * len(values)
    middle = finite[len(finite) // 2]
    low = min(finite[0], middle - 0.2 * abs(middle))
    high = max(finite[-1], middle + 0.2 * abs(middle))
    span = high - low
    if not math.isfinite(span) or span <= 0:
        return [3 if math.isfinite(value) else None for value in values]
    # In steps from the median, so that noise around it never crosses a border.
    unit = span / 7
    level = int((middle - low) / unit)
    return [
        max(0, min(7, level + round((value - middle) / unit))) if math.isfinite(value) else None for value in values
    ]


def sparkline(
    values: Sequence[float], cells: int, *, bad_from: int | None = None, token: str = "data", bad: str = "warning"
) -> list[Span]:
    """`▁…█` with the newest value at the right end; the incident's part in its own colour, NaN as `×`.

    More values than cells are merged by their mean, fewer leave the left side blank.
    """
    if cells <= 0:
        return []
    count = len(values)
    if count > cells:
        merged: list[float] = []
        for index in range(cells):
            part = values[index * count // cells : max((index + 1) * count // cells, index * count // cells + 1)]
            finite = [value for value in part if math.isfinite(value)]
            merged.append(math.fsum(value / len(finite) for value in finite) if finite else math.nan)
        if bad_from is not None:
            bad_from = bad_from * cells // count
        values = merged
    blank = cells - len(values)
    out: list[Span] = [(" " * blank, token)] if blank else []
    text, current = "", token
    for index, level in enumerate(spark_levels(values)):
        colour = bad if bad_from is not None and index >= bad_from else token
        char = BLOCKS[level] if level is not None else "×"
        if level is None:
            colour = "critical"
        if colour != current:
            if text:
                out.append((text, current))
            text, current = "", colour
        text += char
    if text:
        out.append((text, current))
    return out


def strip(healths: Sequence[str], room: int) -> list[Span]:
    """One cell a node with a gap every 8, in the order given; empty when it does not fit."""
    count = len(healths)
    gaps = max(0, (count - 1) // STRIP_GROUP)
    if count + gaps > room:
        if count > room:
            return []
        gaps = 0
    out: list[Span] = []
    for index, health in enumerate(healths):
        if gaps and index and index % STRIP_GROUP == 0:
            out.append((" ", "text"))
        glyph = "■" if health == "ok" else HEALTH_GLYPHS.get(health, "○")
        out.append((glyph, HEALTH_TOKENS.get(health, "muted")))
    return out


def trend(change: float, text: str, token: str) -> list[Span]:
    """`▲ 13 %`: an arrow for the direction and the size without its sign."""
    return [("▲" if change > 0 else "▼", token + "+trend"), (" " + text, token)]


def sentence(text: str, token: str = "text", *, arrow: bool = False) -> list[Span]:
    """Advice or evidence as spans: a leading `→` in accent, names of checkpoints strong."""
    out: list[Span] = []
    if arrow:
        out.append(("→", "accent"))
        out.append((" ", token))
    for index, word in enumerate(text.split(" ")):
        if index:
            out.append((" ", token))
        bare = word.rstrip(".,;:)")
        if bare.startswith("checkpoint-") and len(bare) > 11:
            out.append((bare, "strong"))
            if word != bare:
                out.append((word[len(bare) :], token))
        else:
            out.append((word, token))
    joined: list[Span] = []
    for part, kind in out:
        if joined and joined[-1][1] == kind:
            joined[-1] = (joined[-1][0] + part, kind)
        else:
            joined.append((part, kind))
    return joined
