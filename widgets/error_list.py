"""The errors: probable cause first with its raw line and what to do, consequences behind `↳`."""

from __future__ import annotations

from collections.abc import Sequence

from trainmon import units
from trainmon.snapshot import Counts, ErrorView
from trainmon.widgets.lists import ListInstrument, mark_selected
from trainmon.widgets.paint import Pen, Row, Span, cut, width_of
from trainmon.widgets.parts import heading, sentence, spans_width

ADVICE_FROM = 120
"""Below this width raw line and advice are behind Enter."""


def role_of(error: ErrorView) -> str:
    """ "cause", "consequence", "warning" or "own", by the words of the role."""
    role = error.role
    if "cause" in role:
        return "cause"
    if role.startswith("follows"):
        return "consequence"
    if role == "warning":
        return "warning"
    return "own"


def _plural(count: int, one: str, many: str) -> str:
    return f"{units.count(count)} {one if count == 1 else many}"


def error_heading(errors: Sequence[ErrorView], counts: Counts | None, width: int, *, focused: bool = False) -> Row:
    """`errors  1 probable cause · 3 consequences ──── 5 codes · 65 lines · 0 unread`."""
    if not errors:
        return heading(width, "errors", [[("none", "text")]], focused=focused)
    tally = {"cause": 0, "consequence": 0, "own": 0, "warning": 0}
    for error in errors:
        tally[role_of(error)] += 1
    parts: list[Span] = []
    for kind, one, many, token in (
        ("cause", "probable cause", "probable causes", "critical+bold"),
        ("consequence", "consequence", "consequences", "text"),
        ("own", "of its own", "of their own", "text"),
        ("warning", "warning", "warnings", "text"),
    ):
        if tally[kind]:
            if parts:
                parts.append((" · ", "text"))
            parts.append((_plural(tally[kind], one, many), token))
    exact = all(error.exact for error in errors)
    lines = ("" if exact else "≥ ") + _plural(sum(error.lines for error in errors), "line", "lines")
    meta = f"{_plural(len(errors), 'code', 'codes')} · {lines}"
    if counts is not None and width >= 100:
        meta += f" · {units.count(counts.quarantined)} unread"
    return heading(width, "errors", [parts], meta if width >= 80 else "", focused=focused)


class _Columns:
    """Where the columns stand; 0 for one that is not shown."""

    def __init__(self, errors: Sequence[ErrorView], width: int) -> None:
        longest = max((width_of(error.code) for error in errors), default=8)
        self.says = 3 + min(max(21, longest), 32) + 3 if width >= 100 else 3 + min(longest, width // 3) + 2
        self.lines = self.where = self.first = self.role = 0
        if width >= 150:
            self.role = width - 35
            self.first, self.where, self.lines = self.role - 13, self.role - 37, self.role - 41
        elif width >= 120:
            self.role = width - 18
            self.first, self.where, self.lines = self.role - 11, self.role - 33, self.role - 35
        elif width >= 100:
            self.first = width - 10
            self.where, self.lines = self.first - 22, self.first - 24
        elif width >= 72:
            self.where = width - 18
            self.lines = self.where - 2
        elif width >= 36:
            self.lines = width - 1
        self.says_end = (self.lines - 7) if self.lines else width - 1
        if self.says_end - self.says < 8:
            self.says = self.says_end


def _head_row(columns: _Columns, width: int) -> Row:
    pen = Pen(width)
    pen.put(3, "code", "muted")
    if columns.says < columns.says_end:
        pen.put(columns.says, "what the log says", "muted", columns.says_end)
    if columns.lines:
        pen.right(columns.lines, "lines", "muted")
    for at, text in ((columns.where, "where"), (columns.first, "first UTC"), (columns.role, "role")):
        if at:
            pen.put(at, text, "muted")
    return pen.row()


def _glyph(error: ErrorView) -> Span:
    kind = role_of(error)
    if kind == "consequence":
        return "↳", "muted"
    if error.severity == "critical":
        return "✗", "critical+bold"
    return "▲", "warning+bold"


def _entry(error: ErrorView, columns: _Columns, width: int, *, expanded: bool, room: int) -> list[Pen]:
    pen = Pen(width)
    kind = role_of(error)
    glyph, token = _glyph(error)
    cause = kind == "cause" or (error.severity == "critical" and kind == "own")
    pen.put(1, glyph, token)
    stop = max(4, min(columns.says, columns.says_end) - 1)
    pen.put(3, cut(error.code, stop - 3), "critical+bold" if cause else "text")
    if columns.says < columns.says_end:
        text = error.message or error.title
        pen.put(columns.says, cut(text, columns.says_end - columns.says), "text" if cause else "muted")
    if columns.lines:
        lines = ("×" if error.exact else "≥ ") + units.count(error.lines)
        pen.right(columns.lines, lines, "text")
    if columns.where:
        end = columns.first or columns.role or width - 1
        pen.put(columns.where, cut(error.where, end - columns.where - (2 if end < width - 1 else 0)), "text")
    if columns.first:
        pen.put(columns.first, units.clock(error.first), "text")
    if columns.role:
        pen.put(
            columns.role, cut(error.role, width - 1 - columns.role), "critical+bold" if kind == "cause" else "muted"
        )
    pens = [pen]
    if expanded:
        advice = _advice(error.fixes, width - 6)
        # What to do says more than the raw line, where only one of both has room.
        if room >= 3 or not advice:
            raw = Pen(width)
            at = raw.put(3, cut(error.place, max(0, width - 5)), "muted")
            raw.put(at + (2 if error.place else 0), cut(error.raw or error.message, max(0, width - 3 - at)), "text")
            pens.append(raw)
        if advice:
            fix = Pen(width)
            fix.spans(3, advice, width - 1)
            pens.append(fix)
    return pens


def _advice(fixes: Sequence[str], room: int) -> list[Span]:
    """`→ fix; fix`: as many as fit, the first cut if it must be."""
    if not fixes:
        return []
    text = fixes[0]
    for more in fixes[1:]:
        if width_of(f"{text}; {more}") > room - 2:
            break
        text = f"{text}; {more}"
    spans = sentence(text, arrow=True)
    if spans_width(spans) > room:
        return sentence(cut(text, max(1, room - 2)), arrow=True)
    return spans


def expanded_index(errors: Sequence[ErrorView], width: int, *, focused: bool, selected: int) -> int | None:
    """The entry that shows its raw line and advice: the selected one, else the first critical one."""
    if width < ADVICE_FROM or not errors:
        return None
    if focused:
        return max(0, min(selected, len(errors) - 1))
    for index, error in enumerate(errors):
        if error.severity == "critical":
            return index
    return 0


def entry_heights(errors: Sequence[ErrorView], expanded: int | None) -> list[int]:
    """Rows of each entry."""
    return [(3 if error.fixes else 2) if index == expanded else 1 for index, error in enumerate(errors)]


def draw_errors(
    errors: Sequence[ErrorView],
    counts: Counts | None,
    width: int,
    height: int,
    *,
    focused: bool = False,
    selected: int = 0,
    start: int = 0,
) -> list[Row]:
    """Heading, column heads (from 60 columns and five rows on) and the entries from `start` on."""
    if width < 1 or height < 1:
        return []
    rows = [error_heading(errors, counts, width, focused=focused)]
    if not errors:
        return rows
    columns = _Columns(errors, width)
    if has_heads(width, height):
        rows.append(_head_row(columns, width))
    expanded = expanded_index(errors, width, focused=focused, selected=selected)
    for index in range(max(0, start), len(errors)):
        if len(rows) >= height:
            break
        pens = _entry(errors[index], columns, width, expanded=index == expanded, room=height - len(rows))
        if focused and index == selected:
            mark_selected(pens)
        rows += [pen.row() for pen in pens]
    return rows[:height]


def has_heads(width: int, height: int) -> bool:
    """Whether the list shows its column heads."""
    return width >= 60 and height >= 5


class ErrorList(ListInstrument[ErrorView]):
    """Every error code that was seen, with its role."""

    DEFAULT_CSS = "ErrorList { height: 1fr; }"

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._errors: Sequence[ErrorView] = ()
        self._counts: Counts | None = None

    def items(self) -> Sequence[ErrorView]:
        return self._errors

    def show(self, errors: Sequence[ErrorView], counts: Counts | None = None) -> None:
        """Shows the errors and, in the heading, the totals."""
        before = self.current
        self._errors, self._counts = errors, counts
        self.follow(before, "code")
        self.redraw()

    def draw(self, width: int, height: int) -> list[Row]:
        focused = self.has_focus
        expanded = expanded_index(self._errors, width, focused=focused, selected=self.selected)
        room = height - (2 if has_heads(width, height) else 1)
        start, _ = self.windowed(entry_heights(self._errors, expanded), room)
        return draw_errors(
            self._errors, self._counts, width, height, focused=focused, selected=self.selected, start=start
        )
