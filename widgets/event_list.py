"""The events, newest first: alerts with their advice, checkpoints, evaluations, newcomers, gaps."""

from __future__ import annotations

from collections.abc import Sequence

from trainmon import units
from trainmon.snapshot import Counts, ErrorView, EventView
from trainmon.widgets.lists import ListInstrument, mark_selected
from trainmon.widgets.paint import HEALTH_GLYPHS, HEALTH_TOKENS, Pen, Row, Span, cut, width_of
from trainmon.widgets.parts import heading, sentence, spans_width

ADVICE_FROM = 120
"""Below this width the advice is behind Enter."""


def event_heading(
    events: Sequence[EventView],
    errors: Sequence[ErrorView],
    counts: Counts | None,
    width: int,
    *,
    focused: bool = False,
) -> Row:
    """`events  no errors · 1 critical · 1 warning ──── 9,134 lines · 0 unread`."""
    parts: list[Span] = [
        ("no errors", "text")
        if not errors
        else (f"{len(errors)} error{'s' if len(errors) > 1 else ''}", "critical+bold")
    ]
    for health, one, many in (("critical", "critical", "critical"), ("warning", "warning", "warnings")):
        found = sum(1 for event in events if event.health == health and event.alert is not None)
        if found:
            parts += [(" · ", "text"), (f"{found} {one if found == 1 else many}", health + "+bold")]
    meta = ""
    if counts is not None and width >= 100:
        sign = "" if counts.exact else "≥ "
        meta = f"{sign}{units.count(counts.lines)} lines · {sign}{units.count(counts.quarantined)} unread"
        if counts.gaps:
            meta += f" · {units.count(counts.gaps)} gap{'s' if counts.gaps > 1 else ''}"
    return heading(width, "events", [parts], meta, focused=focused)


def _columns(events: Sequence[EventView], width: int) -> tuple[int, int, int, int]:
    """First columns of glyph, name, who and text."""
    wide = width >= 100
    glyph = 11 if wide else 10
    names = min(max((width_of(event.name) for event in events), default=8), 24 if wide else 14)
    # The columns stay where they are unless a name needs more.
    who = max(glyph + (15 if wide else 13), glyph + 2 + names + 1)
    if not wide:
        return glyph, glyph + 2, who, who
    whos = max((width_of(event.who) for event in events), default=0)
    return glyph, glyph + 2, who, who + min(max(whos, 13), 28) + 3


def event_height(event: EventView, width: int) -> int:
    """Rows of an event: two where its advice is shown."""
    return 2 if event.advice and width >= ADVICE_FROM else 1


def _entry(event: EventView, places: tuple[int, int, int, int], width: int) -> list[Pen]:
    glyph_at, name_at, who_at, text_at = places
    loud = event.health in ("critical", "warning")
    token = HEALTH_TOKENS[event.health] if loud else "text"
    end = width - 1
    pen = Pen(width)
    pen.put(1, units.clock(event.time), "muted", end)
    mark = "muted" if event.planned else HEALTH_TOKENS.get(event.health, "muted")
    pen.put(glyph_at, HEALTH_GLYPHS.get(event.health, "●"), mark, end)
    wide = who_at != text_at
    pen.put(name_at, cut(event.name, max(0, min(who_at - 1, end) - name_at)), token)
    text_token = "muted" if event.planned else "text"
    at = text_at
    if wide:
        pen.put(who_at, cut(event.who, text_at - who_at - 2), "strong")
    elif event.who:
        at = pen.put(who_at, cut(event.who, max(0, end - who_at)), "strong") + 1
    if at < end:
        pen.put(at, cut(event.text, end - at), text_token)
    pens = [pen]
    if event_height(event, width) == 2:
        more = Pen(width)
        spans = sentence(event.advice, arrow=True)
        if spans_width(spans) > end - text_at:
            spans = sentence(cut(event.advice, max(1, end - text_at - 2)), arrow=True)
        more.spans(text_at, spans, end)
        pens.append(more)
    return pens


def draw_events(
    events: Sequence[EventView],
    errors: Sequence[ErrorView],
    counts: Counts | None,
    width: int,
    height: int,
    *,
    focused: bool = False,
    selected: int = 0,
    start: int = 0,
) -> list[Row]:
    """Heading and the events from `start` on; from 120 columns alerts carry their advice on a second row."""
    if width < 1 or height < 1:
        return []
    rows = [event_heading(events, errors, counts, width, focused=focused)]
    places = _columns(events, width)
    for index in range(max(0, start), len(events)):
        if len(rows) >= height:
            break
        pens = _entry(events[index], places, width)
        if focused and index == selected:
            mark_selected(pens)
        rows += [pen.row() for pen in pens]
    return rows[:height]


class EventList(ListInstrument[EventView]):
    """What happened, newest first."""

    DEFAULT_CSS = "EventList { height: 1fr; }"

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._events: Sequence[EventView] = ()
        self._errors: Sequence[ErrorView] = ()
        self._counts: Counts | None = None

    def items(self) -> Sequence[EventView]:
        return self._events

    def show(self, events: Sequence[EventView], errors: Sequence[ErrorView] = (), counts: Counts | None = None) -> None:
        """Shows the events; errors and totals are for the heading."""
        before = self.current
        self._events, self._errors, self._counts = events, errors, counts
        if self.has_focus and before is not None and before in events:
            self.selected = list(events).index(before)
        self.selected = max(0, min(self.selected, len(events) - 1))
        self.redraw()

    def draw(self, width: int, height: int) -> list[Row]:
        start, _ = self.windowed([event_height(event, width) for event in self._events], height - 1)
        return draw_events(
            self._events,
            self._errors,
            self._counts,
            width,
            height,
            focused=self.has_focus,
            selected=self.selected,
            start=start,
        )
