"""The log page: one raw file, whole, however large: follow, scroll, search, jump between errors."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

from textual.screen import Screen
from textual.widget import Widget

from trainmon import units
from trainmon.errors import TrainmonError
from trainmon.snapshot import NodeView, Snapshot, SourceView
from trainmon.tui import keys
from trainmon.tui.finding import compile_pattern, level_of
from trainmon.tui.layout import Rect
from trainmon.tui.logview import Line, Window
from trainmon.tui.parts import Edges
from trainmon.tui.rawlines import RawReader, said
from trainmon.tui.search import Searching
from trainmon.widgets.cells import Row, width_of
from trainmon.widgets.log_pane import Gutter, LogPane, PaneLine

SHOWN = 4096
"""Characters of a line that are looked at for drawing."""
SIDE_STEP = 20
"""Columns of one step to the side."""
HANG_S = 2.0
"""A move that takes longer than this (seconds) hangs."""
HANGS = "this file does not answer (a network file system that is down?); another one can be chosen"


def likely_source(snapshot: Snapshot, screen: Screen[object]) -> int | None:
    """The file that the user most probably means: of what is selected, else the one that spoke last."""
    chosen = screen.current() if hasattr(screen, "current") else None
    if isinstance(chosen, NodeView) and chosen.sources:
        return chosen.sources[0]
    source = getattr(chosen, "source", None)
    if isinstance(source, int):
        return source
    if snapshot.tail:
        return snapshot.tail[-1].source
    if snapshot.last is not None:
        return snapshot.last.source
    return next((view.id for view in snapshot.sources if view.id is not None), None)


class LogPage(Searching):
    """See the module.

    Args:
        source: Number of the file.
        line, offset: Where to begin; None begins at the end and follows it.
    """

    PAGE = keys.LOG
    BINDINGS = keys.bindings(keys.LOG)  # type: ignore[assignment]

    def __init__(self, source: int, line: int | None = None, offset: int | None = None) -> None:
        super().__init__()
        self.source = source
        self.begin = (line, offset)
        self.head = Edges(id="head")
        self.pane = LogPane(id="pane")
        self.reader: RawReader | None = None
        self.window: Window | None = None
        self.told = ""
        self.pattern = ""
        self.column = 0
        self.searching: float | None = None
        self._jobs: asyncio.Queue[Callable[[], Awaitable[None]]] = asyncio.Queue()
        self._search: asyncio.Task[None] | None = None
        self._job: asyncio.Future[None] | None = None
        self._given_up = False
        self._seen = -1

    def parts(self) -> Iterator[Widget]:
        yield from (self.crumbs, self.strip, self.head, self.pane)

    def trail(self) -> list[str]:
        view = self.view()
        return ["log", view.name if view is not None else "?"]

    def view(self) -> SourceView | None:
        """What the session knows of the file."""
        return next((view for view in self.monitor.snapshot.sources if view.id == self.source), None)

    def body_places(self, width: int, top: int, height: int) -> dict[str, Rect]:
        if height < 3:
            return {"pane": Rect(0, top, width, height)}
        gap = 1 if height > 30 else 0
        return {"head": Rect(0, top + gap, width, 1), "pane": Rect(0, top + gap + 1, width, height - gap - 1)}

    # ------------------------------------------------------------ life

    def on_mount(self) -> None:
        super().on_mount()
        self.run_worker(self.work(), exit_on_error=False)
        self.change_source(self.source, *self.begin)

    def on_unmount(self) -> None:
        """Let go of the file."""
        self.cancel_search()
        if self.reader is not None:
            self.reader.close()

    async def work(self) -> None:
        """Moves run one behind the other; a file that cannot be read is said, not raised."""
        loop = asyncio.get_running_loop()
        while True:
            job = await self._jobs.get()
            self._job = asyncio.ensure_future(self.count_after(job))
            slow = loop.call_later(HANG_S, self.hangs)
            try:
                await self._job
            except (OSError, TrainmonError, ValueError) as error:
                self.told = said(error)
            except asyncio.CancelledError:
                if not self._given_up:
                    raise
            finally:
                slow.cancel()
            self._given_up = False
            if self.told == HANGS:
                self.told = ""
            self.draw_lines()

    async def count_after(self, job: Callable[[], Awaitable[None]]) -> None:
        """Make a move, and learn the number of the line that is on top then."""
        await job()
        if self.reader is not None and self.window is not None and self.window.lines:
            await self.reader.learn_number(self.window.lines[0].offset)

    def hangs(self) -> None:
        """A move takes too long: the file system does not answer."""
        if not self.told and self.is_mounted:
            self.told = HANGS
            self.head.show(*self.head_spans())

    def give_up(self) -> None:
        """Forget the moves that wait for a file system; what hangs is left to itself."""
        while not self._jobs.empty():
            self._jobs.get_nowait()
        if self._job is not None and not self._job.done():
            self._given_up = True
            self._job.cancel()

    async def number(self, reader: RawReader) -> None:
        """Number the lines, and show the numbers once they are known."""
        try:
            await reader.number_lines(lambda share: None)
        except OSError as error:
            self.told = said(error)
        self.do(self.grow)

    def tell(self, text: str) -> None:
        """Say what happened to the file."""
        self.told = text

    def do(self, job: Callable[[], Awaitable[None]]) -> None:
        """Queue a move."""
        self._jobs.put_nowait(job)

    def change_source(self, source: int, line: int | None = None, offset: int | None = None) -> None:
        """Show another file, or another place of this one."""
        if source != self.source:
            self.give_up()

        async def begin() -> None:
            if self.reader is None or source != self.source or self.window is None:
                self.cancel_search()
                if self.reader is not None:
                    self.reader.close()
                self.source, self.told, self.reader, self.window = source, "", None, None
                self.reader = RawReader(self.monitor.session.open_log(source), self.tell)
                self.window = Window(self.reader, max(1, self.pane.size.height))
                self.run_worker(self.number(self.reader), exclusive=True, group="numbers", exit_on_error=False)
            if offset is None and line is None:
                await self.window.to_end()
            else:
                self.window.follow = False
                if offset is None:
                    await self.jump(line or 1)
                else:
                    await self.window.to_offset(offset)
            self.column = 0
            self.show_crumbs(self.monitor.snapshot)

        self.do(begin)

    def on_resize(self) -> None:
        """The window has other rows."""

        async def resize() -> None:
            if self.window is not None:
                await self.window.resize(max(1, self.pane.size.height))

        self.call_after_refresh(self.do, resize)

    # ------------------------------------------------------------ what is shown

    def show(self, snapshot: Snapshot, changed: frozenset[str]) -> None:
        super().show(snapshot, changed)
        view = self.view()
        size = view.size if view is not None else 0
        if self.window is not None and (size != self._seen or "last" in changed) and self._jobs.empty():
            self._seen = size
            self.do(self.grow)

    async def grow(self) -> None:
        """Look whether lines came."""
        if self.window is not None:
            await self.window.refresh()

    def draw_lines(self) -> None:
        """Give the lines to the pane, and say where they are."""
        window = self.window
        if not self.is_mounted:
            return
        lines = window.lines if window is not None else []
        at = window.at if window is not None else None
        self.pane.show(self.pane_lines(lines), at, column=self.column, gutter=self.place_marks())
        self.head.show(*self.head_spans())

    def pane_lines(self, lines: list[Line]) -> list[PaneLine]:
        """Lines as the pane wants them: numbered where that is known, with their level and what was searched marked."""
        pattern = compile_pattern(self.pattern, words=True) if self.pattern else None
        first = self.reader.number_of(lines[0].offset) if self.reader is not None and lines else None
        out = []
        for index, line in enumerate(lines):
            # A line of megabytes must not hold up the drawing of the others.
            text = line.text[: self.column + SHOWN]
            matches = tuple(m.span() for m in pattern.finditer(text) if m.end() > m.start()) if pattern else ()
            number = first + index if first is not None else None
            out.append(PaneLine(text, number, level_of(line.text), matches=matches))
        return out

    def place_marks(self) -> Gutter | None:
        """Where the window stands in the file, and where the errors are."""
        window, view = self.window, self.view()
        size = max(view.size if view is not None else 0, window.lines[-1].end if window and window.lines else 0)
        if window is None or not window.lines or size <= 0:
            return None
        marks = tuple((at / size, "critical") for at in self.known_errors())
        return Gutter(window.lines[0].offset / size, window.lines[-1].end / size, marks)

    def head_spans(self) -> tuple[Row, Row]:
        """Left: the file and the search; right: the place and whether the end is followed."""
        view, window = self.view(), self.window
        name = view.name if view is not None else ""
        # What has happened is said even where the path is long.
        left: Row = [(name.rsplit("/", 1)[-1] if self.told and len(name) > 30 else name, "strong")]
        if view is not None and view.node and view.node != view.name:
            left.append((f"  {view.node}", "muted"))
        if self.told:
            left.append((f"  {self.told}", "warning"))
        if self.pattern:
            left += [("   ", "text"), (f" / {self.pattern} ", "accent+selected")]
        if self.searching is not None:
            left.append((f"  searching {units.percent(self.searching * 100)} · Esc stops", "warning"))
        right: Row = []
        if window is not None and self.reader is not None and window.chosen is not None:
            first = self.reader.number_of(window.lines[0].offset)
            number = first + window.at if first is not None else None
            lines = self.reader.total() or (view.lines if view is not None and view.history is None else 0)
            total = f" of {units.count(lines)}" if lines else ""
            if number is not None:
                right += [("line ", "muted"), (units.count(number), "strong"), (total, "muted")]
            elif view is not None and view.size:
                share = min(1.0, window.chosen.end / view.size)
                right += [(units.percent(share * 100), "strong"), (f" of {units.file_size(view.size)}", "muted")]
            right.append(("   ", "text"))
        if window is not None:
            right.append(("following", "muted") if window.follow else ("follow off", "warning"))
        return left, right

    def footer_keys(self) -> list[tuple[str, str]]:
        return keys.footer(self.PAGE, charts="", gpus="", nodes="", errors="", log="", acknowledge="", mute="", back="")

    # ------------------------------------------------------------ moving

    def page_rows(self) -> int:
        return max(1, self.pane.size.height - 1)

    def move(self, rows: int) -> None:
        async def go() -> None:
            window = self.window
            if window is None:
                return
            if rows <= -(10**12):
                await window.to_start()
            elif rows >= 10**12:
                await window.to_end()
            else:
                await window.move(rows)

        self.do(go)

    def action_left(self) -> None:
        self.column = max(0, self.column - SIDE_STEP)
        self.draw_lines()

    def action_right(self) -> None:
        longest = max((width_of(line.text) for line in self.window.lines), default=0) if self.window else 0
        self.column = min(self.column + SIDE_STEP, max(0, longest - SIDE_STEP))
        self.draw_lines()

    def action_follow(self) -> None:
        async def toggle() -> None:
            if self.window is not None:
                self.window.follow = not self.window.follow
                if self.window.follow:
                    await self.window.to_end()

        self.do(toggle)

    def action_go_to(self) -> None:
        def go(typed: str, _index: int | None) -> None:
            digits = typed.replace(",", "").replace("_", "").strip()
            if not digits.isdigit():
                self.notice("a line number, please")
                return

            self.do(lambda: self.jump(int(digits)))

        self.ask("line", "Enter goes there · Esc", go)

    async def jump(self, number: int) -> None:
        """To a line by its number; the lines before it are counted first where they are not yet."""
        if self.window is None or self.reader is None:
            return

        def progress(share: float) -> None:
            self.told = f"counting lines {units.percent(share * 100)}"
            self.head.show(*self.head_spans())

        at, there = await self.reader.offset_of(number, progress)
        self.window.follow = False
        self.told = "" if there else f"there are fewer lines than {number:,}: this is the last"
        await self.window.to_offset(at)

    def step_file(self, step: int) -> None:
        """The next or previous file."""
        known = [view.id for view in self.monitor.snapshot.sources if view.id is not None]
        if len(known) < 2 or self.source not in known:
            self.notice("there is no other file")
            return
        self.change_source(known[(known.index(self.source) + step) % len(known)])

    def action_next_one(self) -> None:
        self.step_file(1)

    def action_previous_one(self) -> None:
        self.step_file(-1)

    def action_pick(self) -> None:
        files = [view for view in self.monitor.snapshot.sources if view.id is not None]

        def picked(_typed: str, index: int | None) -> None:
            found = files[index].id if index is not None else None
            if found is not None:
                self.change_source(found)

        self.ask(
            "file", "Enter opens · Esc", picked, title="files", choices=[(v.name, v.node or v.word) for v in files]
        )

    def copied(self) -> tuple[str, str]:
        chosen: Line | None = self.window.chosen if self.window is not None else None
        return ("line", chosen.text) if chosen is not None else ("", "")
