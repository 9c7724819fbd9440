"""Searching a raw file from its page: forward and backward over all of it, with progress, and it can be stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from trainmon.errors import TrainmonError
from trainmon.tui.finding import ERRORS, compile_pattern, nearest
from trainmon.tui.logview import Window
from trainmon.tui.page import Behind
from trainmon.tui.parts import Edges
from trainmon.tui.rawlines import RawReader, said
from trainmon.widgets.cells import Row


class Searching(Behind):
    """The half of the log page that searches."""

    source: int
    window: Window | None
    reader: RawReader | None
    head: Edges
    told: str
    pattern: str
    searching: float | None
    _search: asyncio.Task[None] | None

    def do(self, job: Callable[[], Awaitable[None]]) -> None:
        """Queue a move."""
        raise NotImplementedError

    def draw_lines(self) -> None:
        """Give the lines to the pane, and say where they are."""
        raise NotImplementedError

    def head_spans(self) -> tuple[Row, Row]:
        """What stands above the lines."""
        raise NotImplementedError

    # ------------------------------------------------------------ searching

    def action_search(self) -> None:
        def find(typed: str, _index: int | None) -> None:
            self.pattern = typed
            if typed:
                self.find(typed, 1)
            else:
                self.draw_lines()

        self.ask("/", "Enter searches the whole file · Esc", find, text=self.pattern)

    def action_next_match(self) -> None:
        self.find(self.pattern, 1) if self.pattern else self.action_search()

    def action_previous_match(self) -> None:
        self.find(self.pattern, -1) if self.pattern else self.action_search()

    def action_next_error(self) -> None:
        self.find(None, 1)

    def action_previous_error(self) -> None:
        self.find(None, -1)

    def find(self, pattern: str | None, step: int) -> None:
        """Search from the chosen line on, over the whole file; None finds errors."""
        self.cancel_search()
        self._search = asyncio.create_task(self.searched(pattern, step))

    def cancel_search(self) -> None:
        """Give up the search that runs."""
        if self._search is not None and not self._search.done():
            self._search.cancel()
        self._search = None
        self.searching = None

    async def searched(self, pattern: str | None, step: int) -> None:
        """The search itself, while keys go on working."""
        window, reader = self.window, self.reader
        chosen = window.chosen if window is not None else None
        if window is None or reader is None or chosen is None:
            return
        compiled = compile_pattern(ERRORS if pattern is None else pattern, words=pattern is not None)
        self.searching = 0.0
        self.told = ""

        def progress(share: float) -> None:
            if self.searching is not None:
                self.searching = share
                self.head.show(*self.head_spans())

        try:
            forward = step > 0
            found = await reader.find(compiled, chosen.end if forward else chosen.offset, forward, progress)
            if pattern is None:
                found = nearest(found, self.known_errors(), chosen, step)
            round_about = found is None
            if round_about:
                # Nothing on this side: on from the other end, the chosen line included.
                found = await reader.find(compiled, 0 if forward else await reader.size(), forward, progress)
            if found is None:
                self.told = "no error in this file" if pattern is None else f"{pattern!r} is not in this file"
            else:
                if round_about:
                    self.told = "from the top again" if forward else "from the end again"
                place = found
                window.follow = False
                # Behind the moves that are under way: two at once would mix their lines.
                self.do(lambda: window.to_offset(place))
        except (OSError, TrainmonError, ValueError) as error:
            self.told = said(error)
        finally:
            self.searching = None
        self.draw_lines()

    def known_errors(self) -> list[int]:
        """Offsets of errors in this file that the engine knows."""
        errors = self.monitor.snapshot.errors
        return [error.offset for error in errors if error.source == self.source and error.offset is not None]

    def action_leave(self) -> None:
        if self.searching is not None:
            self.cancel_search()
            self.told = "search stopped"
            self.draw_lines()
        elif self.pattern:
            self.pattern = ""
            self.draw_lines()
        else:
            super().action_leave()
