"""The sources: what the user named or a pattern matched, what became of each, and what happens next."""

from __future__ import annotations

from collections.abc import Sequence

from trainmon import units
from trainmon.snapshot import SourceView
from trainmon.widgets.lists import ListInstrument, mark_selected
from trainmon.widgets.paint import Pen, Row, cut, width_of
from trainmon.widgets.parts import heading

_EXPECTED = ("no file yet",)
_QUIET = ("empty", "ended")


def _look(source: SourceView) -> tuple[str, str, str]:
    """Glyph, its token and the token of the word."""
    if source.bad:
        return "✗", "critical+bold", "critical"
    if source.word in _EXPECTED:
        return "◌", "muted", "strong"
    if source.word in _QUIET:
        return "○", "muted", "strong"
    if source.word == "followed":
        return "●", "ok", "text"
    return "○", "muted", "text"


def _detail(source: SourceView) -> str:
    if source.sentence and source.word != "followed":
        return source.sentence
    parts = [source.format or "", f"{units.count(source.lines)} lines" if source.lines else ""]
    if source.size:
        parts.append(units.file_size(source.size))
    if source.history is not None:
        parts.append(f"history {units.percent(source.history * 100)}")
    if source.quarantined:
        parts.append(f"{units.count(source.quarantined)} unread")
    if source.gaps:
        parts.append(f"{units.count(source.gaps)} gap{'s' if source.gaps > 1 else ''}")
    return " · ".join(part for part in parts if part) or source.sentence


def draw_sources(
    sources: Sequence[SourceView],
    width: int,
    height: int,
    *,
    focused: bool = False,
    selected: int = 0,
    start: int = 0,
    meta: str = "",
) -> list[Row]:
    """Heading and one row a source from `start` on: glyph, name, word, sentence."""
    if width < 1 or height < 1:
        return []
    hidden = len(sources) - (height - 1)
    count = [(f"{units.count(len(sources))}", "text")] if hidden > 0 else []
    rows = [heading(width, "sources", [count], meta if width >= 60 else "", focused=focused)]
    names = max((width_of(source.name) for source in sources), default=4)
    words = max((width_of(source.word) for source in sources), default=4)
    name_end = 3 + max(4, min(max(names + 4, 19), width // 2))
    word_end = name_end + min(words, 14) + 3
    for index in range(max(0, start), len(sources)):
        if len(rows) >= height:
            break
        source = sources[index]
        glyph, token, word_token = _look(source)
        pen = Pen(width)
        end = width - 1
        pen.put(1, glyph, token, end)
        pen.put(3, cut(source.name, max(0, min(name_end - 2, end) - 3)), "text")
        pen.put(name_end, cut(source.word, max(0, end - name_end)), word_token)
        if word_end < end:
            pen.put(word_end, cut(_detail(source), end - word_end), "muted")
        if focused and index == selected:
            mark_selected([pen])
        rows.append(pen.row())
    return rows[:height]


class SourceList(ListInstrument[SourceView]):
    """Files and patterns, each with its own sentence."""

    DEFAULT_CSS = "SourceList { height: auto; }"

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._sources: Sequence[SourceView] = ()
        self._meta = ""

    def items(self) -> Sequence[SourceView]:
        return self._sources

    def show(self, sources: Sequence[SourceView], meta: str = "") -> None:
        """Shows the sources; `meta` stands at the heading's right end ("looks again every 1 s")."""
        before = self.current
        self._sources, self._meta = sources, meta
        self.follow(before, "name")
        self.redraw()

    def draw(self, width: int, height: int) -> list[Row]:
        start, _ = self.windowed([1] * len(self._sources), height - 1)
        return draw_sources(
            self._sources,
            width,
            height,
            focused=self.has_focus,
            selected=self.selected,
            start=start,
            meta=self._meta,
        )
