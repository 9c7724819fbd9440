"""Where the parts of a GPU's page lie: pure arithmetic on the size of the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from trainmon.tui.layout import Rect, side_by_side

SMALL_WIDTH, SMALL_HEIGHT = 60, 13
"""Below either the page is a list of facts."""
WIDE, DOUBLE = 120, 76
"""From WIDE on three charts stand beside each other, and memory beside processes; from DOUBLE on two charts."""
CHARTS = 9
"""Charts at most."""
_CHART_MIN, _CHART_GOOD, _CHART_MAX = 6, 8, 15
_LEAD = {3: 2, 2: 3, 1: 3}
"""Rows of charts above the text, by charts in a row: six charts or so; the others lie below the text."""


@dataclass(frozen=True, slots=True)
class Content:
    """What the page has to show.

    Attributes:
        charts: How many. head, memory, processes, follows: rows that each would fill; 0: it is left out.
        siblings: There are other GPUs.
    """

    charts: int = 6
    head: int = 1
    memory: int = 5
    processes: int = 5
    follows: int = 3
    siblings: bool = True


@dataclass(frozen=True, slots=True)
class GpuPlan:
    """Rectangles by name ("head", "chart0", "memory", "processes", "follows", "siblings", "facts").

    Attributes:
        more: Something lies below the edge.
        last: The furthest band to which one can scroll.
    """

    places: dict[str, Rect] = field(default_factory=dict)
    more: bool = False
    last: int = 0


@dataclass(frozen=True, slots=True)
class _Band:
    names: tuple[str, ...]
    height: int
    least: int


def small(width: int, height: int) -> bool:
    """True where the page is a list of facts."""
    return width < SMALL_WIDTH or height < SMALL_HEIGHT


def gpu_plan(width: int, top: int, height: int, content: Content, first: int = 0) -> GpuPlan:
    """Lay out the page's body.

    Args:
        top, height: Rows of the terminal that are the body's.
        first: Bands under the heading that are scrolled away.
    """
    width, height = max(1, width), max(0, height)
    if not height:
        return GpuPlan()
    if small(width, height):
        return GpuPlan({"facts": Rect(0, top, width, height)})
    gap = 1 if height >= 30 else 0
    head = min(content.head, 3)
    room = height - head - 2 * gap
    bands = list(_bands(width, room, content, gap))
    last = _furthest(bands, room, gap)
    first = max(0, min(first, last))
    places: dict[str, Rect] = {"head": Rect(0, top + gap, width, head)}
    y, end = top + gap + head + gap, top + height
    more = False
    for band in bands[first:]:
        rows = min(band.height, end - y)
        if rows < min(band.least, band.height):
            more = True
            break
        more = more or rows < band.height
        for name, (x, w) in zip(band.names, side_by_side(width, _parts(band, width)), strict=False):
            places[name] = Rect(x, y, w, rows)
        y += rows + gap
    return GpuPlan(places, more, last)


def _parts(band: _Band, width: int) -> int:
    """How many panels a band is divided into; charts keep their width in a row that is not full."""
    if band.names[0].startswith("chart"):
        return 3 if width >= WIDE else 2 if width >= DOUBLE else 1
    return len(band.names)


def _bands(width: int, room: int, content: Content, gap: int) -> Iterator[_Band]:
    across = 3 if width >= WIDE else 2 if width >= DOUBLE else 1
    charts = min(CHARTS, content.charts)
    groups = [tuple(f"chart{n}" for n in range(at, min(at + across, charts))) for at in range(0, charts, across)]
    text: list[_Band] = []
    beside = width >= WIDE and content.memory > 0 and content.processes > 0
    if beside:
        text.append(_Band(("memory", "processes"), max(content.memory, content.processes), 3))
    else:
        told = (("memory", content.memory), ("follows", content.follows), ("processes", content.processes))
        text += [_Band((name,), rows, 2) for name, rows in told if rows]
    if content.follows and beside:
        text.append(_Band(("follows",), content.follows, 2))
    if content.siblings:
        text.append(_Band(("siblings",), 1, 1))
    below = sum(band.height + gap for band in text)
    lead = min(_LEAD[across], len(groups))
    # On a small screen the text gives way before the last charts do.
    while lead > 1 and room - below < lead * (_CHART_GOOD + gap):
        lead -= 1
    if len(groups) > lead and room - below >= len(groups) * (_CHART_GOOD + 2 + gap):
        lead = len(groups)
    free = room - below - lead * gap
    rows = max(_CHART_MIN + 1, min(_CHART_MAX, free // lead)) if lead else 0
    for names in groups[:lead]:
        yield _Band(names, min(rows, room), _CHART_MIN)
    yield from text
    for names in groups[lead:]:
        yield _Band(names, min(rows, room), _CHART_MIN)


def _furthest(bands: list[_Band], room: int, gap: int) -> int:
    """The first band from which all that follow fit."""
    used = 0
    for index in range(len(bands) - 1, -1, -1):
        used += bands[index].height + gap
        if used - gap > room:
            return min(index + 1, len(bands) - 1)
    return 0
