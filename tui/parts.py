"""Small instruments that only the app needs: breadcrumbs, scrolling text, the line to type in and the list above it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.cells import cell_len
from textual.events import Blur, Key, Paste

from trainmon.tui.keys import matching
from trainmon.widgets.cells import Pen, Row, fit
from trainmon.widgets.paint import Instrument

Trail = Sequence[str]


class Crumbs(Instrument):
    """Row 0 of a page behind the overview: where one is, and the state of the run at the right."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.trail: Trail = ()
        self.right: Row = []

    def show(self, trail: Trail, right: Row) -> None:
        """Parts from the outermost to this page, and spans for the right edge."""
        self.trail, self.right = tuple(trail), list(right)
        self.redraw()

    def draw(self, width: int, height: int) -> list[Row]:
        pen = Pen(width)
        right = sum(cell_len(text) for text, _ in self.right)
        trail = list(self.trail)
        x = 1
        if width >= 100:
            x = pen.put(x, "trainmon", "accent+bold") + 2
        # The last part says what one looks at: the others go first.
        while len(trail) > 1 and x + sum(map(cell_len, trail)) + 3 * len(trail) + right + 2 > width:
            trail.pop(0)
        room = width - 1 - (right + 2 if x + cell_len(trail[-1] if trail else "") + right + 3 <= width else 0)
        for part in trail[:-1]:
            x = pen.put(x, part, "muted", room)
            x = pen.put(x, " › ", "faint", room)
        if trail:
            x = pen.put(x, trail[-1], "strong", room)
        if self.right and x + right + 2 <= width:
            pen.spans(width - 1 - right, self.right)
        return [pen.row()]


class Choices(Instrument):
    """What fits the text that is being typed, best first, above the line that one types in."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.title = ""
        self.rows: list[tuple[str, str]] = []
        self.at = 0

    def show(self, title: str, rows: list[tuple[str, str]], at: int) -> None:
        """Names with what they do; `at` is the one that Enter takes."""
        self.title, self.rows, self.at = title, rows, at
        self.redraw()

    def draw(self, width: int, height: int) -> list[Row]:
        head = Pen(width)
        x = head.put(1, self.title, "accent+bold") + 1
        head.fill(x, width - 1, "━", "accent")
        out = [head.row()]
        first = max(0, min(self.at - (height - 2), len(self.rows) - (height - 1)))
        column = min(30, 3 + max((cell_len(name) for name, _ in self.rows), default=0))
        for index, (name, what) in enumerate(self.rows[first : first + height - 1], first):
            chosen = index == self.at
            more = "+selected" if chosen else ""
            pen = Pen(width, "selected" if chosen else "")
            if chosen:
                pen.put(0, "▌", "accent+selected")
            pen.put(1, name, ("strong" if chosen else "text") + more, column)
            pen.put(max(column, 1) + 1, what, "muted" + more, width - 1)
            out.append(pen.row())
        if not self.rows:
            pen = Pen(width)
            pen.put(1, "nothing fits", "muted")
            out.append(pen.row())
        return out


class Prompt(Instrument):
    """One line to type in, over the footer: search, a line number, a node, a command."""

    can_focus: ClassVar[bool] = True  # type: ignore[misc]

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.mark, self.hint, self.text, self.cursor = "", "", "", 0
        self.all: list[tuple[str, str]] = []
        self.fits: list[int] = []
        self.at = 0
        self.active = False
        self._enter: Callable[[str, int | None], None] = lambda text, index: None
        self._change: Callable[[str], None] | None = None
        self._cancel: Callable[[], None] | None = None
        self._end: Callable[[], None] = lambda: None

    def ask(
        self,
        mark: str,
        hint: str,
        enter: Callable[[str, int | None], None],
        end: Callable[[], None],
        *,
        text: str = "",
        choices: list[tuple[str, str]] | None = None,
        change: Callable[[str], None] | None = None,
        cancel: Callable[[], None] | None = None,
    ) -> None:
        """Begin to ask.

        Args:
            mark: Printed before the text ("/", ":", "line").
            hint: What Enter does, muted behind the text.
            enter: Called with the text and, with `choices`, the index of the chosen one.
            end: Called when it is over, either way, before `enter`.
            change, cancel: Called at every key, and on Esc.
        """
        self.mark, self.hint, self.text, self.cursor = mark, hint, text, len(text)
        self.all = choices or []
        self._enter, self._end, self._change, self._cancel = enter, end, change, cancel
        self.active = True
        self._changed()

    def _changed(self) -> None:
        self.fits = matching(self.text, [name for name, _ in self.all])
        self.at = 0
        if self._change is not None:
            self._change(self.text)
        self.redraw()

    def _over(self) -> None:
        self.active = False
        self._end()

    def on_blur(self, event: Blur | None = None) -> None:
        """Whoever leaves the line, leaves the question."""
        if self.active:
            self._over()

    def on_paste(self, event: Paste) -> None:
        """Paste joins the text, as one line."""
        event.stop()
        self._insert(" ".join(event.text.split("\n"))[:500])

    def _insert(self, text: str) -> None:
        clean = "".join(char for char in text if char.isprintable())
        self.text = self.text[: self.cursor] + clean + self.text[self.cursor :]
        self.cursor += len(clean)
        self._changed()

    async def on_key(self, event: Key) -> None:
        """Every key is text or edits it; Ctrl-C alone passes."""
        if not self.active or event.key == "ctrl+c":
            return
        event.stop()
        event.prevent_default()
        key, text, at = event.key, self.text, self.cursor
        if key == "enter":
            index = self.fits[self.at] if self.all and self.fits else None
            self._over()
            self._enter(text, index)
        elif key == "escape" or (key == "backspace" and not text):
            cancel = self._cancel
            self._over()
            if cancel is not None:
                cancel()
        elif key in ("up", "down", "tab", "shift+tab") and self.all:
            step = 1 if key in ("down", "tab") else -1
            self.at = max(0, min(len(self.fits) - 1, self.at + step))
            if self._change is not None:
                self._change(self.text)
            self.redraw()
        elif key == "backspace" and at:
            self.text, self.cursor = text[: at - 1] + text[at:], at - 1
            self._changed()
        elif key == "delete":
            self.text = text[:at] + text[at + 1 :]
            self._changed()
        elif key == "ctrl+u":
            self.text, self.cursor = text[at:], 0
            self._changed()
        elif key == "ctrl+w":
            kept = text[:at].rstrip()
            kept = kept[: kept.rfind(" ") + 1]
            self.text, self.cursor = kept + text[at:], len(kept)
            self._changed()
        elif key in ("left", "right", "home", "end"):
            self.cursor = {"left": max(0, at - 1), "right": min(len(text), at + 1), "home": 0, "end": len(text)}[key]
            self.redraw()
        elif event.character and event.character.isprintable():
            self._insert(event.character)

    def draw(self, width: int, height: int) -> list[Row]:
        pen = Pen(width)
        x = pen.put(1, self.mark, "accent+bold") + 1
        room = max(1, width - x - 2)
        start = max(0, self.cursor - room + 1)
        end = pen.put(x, self.text[start : start + room], "strong")
        at = x + cell_len(self.text[start : self.cursor])
        under = self.text[self.cursor] if self.cursor < len(self.text) else " "
        pen.put(at, under, "accent+reverse")
        pen.put(max(end, at + 1) + 2, self.hint, "muted", width - 1)
        return [pen.row()]


class TextBody(Instrument):
    """Rows of text that scroll, with a thin bar at the right when there is more than fits."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.make: Callable[[int], list[Row]] = lambda width: []
        self.rows: list[Row] = []
        self.top = 0
        self._made_for = -1

    def show(self, make: Callable[[int], list[Row]]) -> None:
        """Rows as a function of the width."""
        self.make = make
        self._made_for = -1
        self.redraw()

    def move(self, rows: int) -> None:
        """Scroll."""
        self.top += rows
        self.redraw()

    def draw(self, width: int, height: int) -> list[Row]:
        if self._made_for != width:
            self.rows = self.make(width)
            self._made_for = width
        over = max(0, len(self.rows) - height)
        self.top = max(0, min(self.top, over))
        shown = self.rows[self.top : self.top + height]
        if not over or width < 20:
            return shown
        size = max(1, height * height // len(self.rows))
        at = (height - size) * self.top // over
        out = []
        for y in range(height):
            row = fit(shown[y] if y < len(shown) else [], width - 1)
            out.append([*row, ("┃", "accent") if at <= y < at + size else ("│", "faint")])
        return out


class Edges(Instrument):
    """One row with something at its left and something at its right edge."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.left: Row = []
        self.right: Row = []

    def show(self, left: Row, right: Row) -> None:
        """Spans for the left and the right edge."""
        self.left, self.right = left, right
        self.redraw()

    def draw(self, width: int, height: int) -> list[Row]:
        pen = Pen(width)
        right = sum(cell_len(text) for text, _ in self.right)
        pen.spans(1, self.left, width - 1 - (right + 2 if right + 20 < width else 0))
        if right + 20 < width:
            pen.spans(width - 1 - right, self.right)
        return [pen.row()]


class Drawn(Instrument):
    """Whatever a function of width and height draws."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.make: Callable[[int, int], list[Row]] = lambda width, height: []

    def show(self, make: Callable[[int, int], list[Row]]) -> None:
        """Rows as a function of the size."""
        self.make = make
        self.redraw()

    def draw(self, width: int, height: int) -> list[Row]:
        return self.make(width, height)
