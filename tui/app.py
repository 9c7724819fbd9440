"""The app: pages on a stack, one feed, one flash, and the ways out."""

from __future__ import annotations

import signal
from typing import Any, ClassVar, Protocol

from textual.app import App
from textual.binding import Binding, BindingType
from textual.events import AppBlur, AppFocus, Event, Key
from textual.timer import Timer

from trainmon.clock import Clock, SystemClock
from trainmon.machines import GpuRow
from trainmon.snapshot import Snapshot
from trainmon.tui.feed import Feed, Publisher
from trainmon.tui.overview import Overview
from trainmon.tui.page import Page
from trainmon.tui.parts import Prompt
from trainmon.widgets.palette import palette as make_palette

FLASH_STEP_S = 0.5
FLASH_STEPS = 6


class SessionLike(Publisher, Protocol):
    """What the screen asks of a session."""

    def start(self) -> object: ...

    def stop(self) -> object: ...

    def acknowledge(self, id: str) -> object: ...

    def mute(self, id: str) -> object: ...

    def unmute(self, id: str) -> object: ...

    def select_node(self, name: str | None) -> object: ...

    def select_gpu(self, key: str | None) -> object: ...

    def release_gpus(self) -> object: ...

    def resume_gpus(self) -> object: ...

    def open_log(self, source_id: int) -> Any: ...


class TrainmonApp(App[int], inherit_bindings=False):
    """The live monitor.

    Args:
        session: Gives snapshots and takes the few commands.
        palette: "dark", "light", "ansi16" or "mono" (see `terminal.choose_palette`).
        ascii: Draw the ASCII forms of the signs.
        flash: Let the label of a fresh critical alert flash for three seconds.
        bell: Ring the terminal's bell once for each of them.
        separate: Each file is a run of its own.
        clock: For ages on screen.
    """

    ENABLE_COMMAND_PALETTE = False
    TITLE = "trainmon"
    CSS = """
    Screen { background: ansi_default; color: ansi_default; overflow: hidden; }
    Instrument { width: 100%; height: 100%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+c", "quit_now", "quit at once", show=False, priority=True)]

    def __init__(
        self,
        session: SessionLike,
        *,
        palette: str = "dark",
        ascii: bool = False,
        flash: bool = True,
        bell: bool = True,
        separate: bool = False,
        clock: Clock | None = None,
        driver_class: Any = None,
    ) -> None:
        # Native colours: the default background stays the terminal's own and is never painted.
        super().__init__(driver_class=driver_class, ansi_color=True)
        self.session = session
        self.trainmon_palette = make_palette(palette, ascii_only=ascii)
        self.flashes = flash
        self.rings = bell
        self.separate = separate
        self.clock: Clock = clock or getattr(session, "clock", None) or SystemClock()
        self.flash_on = False
        self.has_terminal_focus = True
        self.mouse_on = False
        self.exit_code = 0
        self.feed: Feed | None = None
        self._rung: set[str] = set()
        self._flash_left = 0
        self._flash_timer: Timer | None = None

    # ------------------------------------------------------------ start and end

    def get_default_screen(self) -> Overview:
        """The overview lies under every other page."""
        return Overview()

    def on_mount(self) -> None:
        """Begin to listen to the session."""
        self.feed = Feed(self.session, self.show, self.slowness)
        self.feed.start()

    async def on_event(self, event: Event) -> None:
        """Keys act one after the other: of several that come at once the first may decide whose the next ones are.

        Textual gives each to the widget that has the focus now, and acts when it comes back unused, behind the others.
        """
        if isinstance(event, Key) and not event.is_forwarded and self.screen_stack:
            typing = isinstance(self.focused, Prompt) and self.focused.active
            if not typing and (
                await self._check_bindings(event.key, priority=True) or await self._check_bindings(event.key)
            ):
                return
        await super().on_event(event)

    def on_unmount(self) -> None:
        """Nothing is painted any more."""
        if self.feed is not None:
            self.feed.close()

    def leave(self, code: int) -> None:
        """End with an exit code; the first one counts."""
        if not self._exit:
            self.exit_code = code
            if self.feed is not None:
                self.feed.close()
            self.exit(code)

    def hang_up(self) -> None:
        """The terminal is gone."""
        self.leave(128 + signal.SIGHUP)

    def action_quit_now(self) -> None:
        """Ctrl-C."""
        self.leave(130)

    # ------------------------------------------------------------ snapshots

    def now(self) -> float:
        """Unix time in seconds."""
        return self.clock.now()

    @property
    def snapshot(self) -> Snapshot:
        """What is on screen: the newest, or the one that is held."""
        held = self.feed.paused if self.feed is not None else None
        return held if held is not None else self.session.snapshot

    def slowness(self) -> float:
        """Seconds that the terminal took for the last write, or has been at this one."""
        tty = getattr(self._driver, "tty", None)
        if tty is None:
            return 0.0
        import time

        since = tty.since
        return time.monotonic() - since if since is not None else float(tty.took)

    @property
    def page(self) -> Page | None:
        """The page on top."""
        screen = self.screen
        return screen if isinstance(screen, Page) else None

    @property
    def depth(self) -> int:
        """Pages on the stack."""
        return len(self.screen_stack)

    def show(self, snapshot: Snapshot, changed: frozenset[str]) -> None:
        """The feed's picture goes to the page on top."""
        page = self.page
        if page is None or not page.is_mounted:
            return
        if "alerts" in changed:
            self.ring(snapshot)
        held = self.feed.paused if self.feed is not None else None
        if held is not None:
            page.show_paused(max(0, snapshot.counts.lines - held.counts.lines))
            return
        page.show(snapshot, changed)

    def toggle_pause(self) -> None:
        """Hold the picture, or go on with the newest."""
        feed = self.feed
        if feed is None:
            return
        if feed.paused is None:
            feed.paused = self.session.snapshot
            if self.page is not None:
                self.page.show_paused(0)
                self.page.notice("paused: reading goes on; p shows what came")
        else:
            feed.paused = None
            feed.forget()
            if self.page is not None:
                self.page.notice("live again")
            feed.paint_now()

    # ------------------------------------------------------------ alerts

    def ring(self, snapshot: Snapshot) -> None:
        """One bell for each fresh critical alert, and a flash of its label."""
        fresh = {alert.id for alert in snapshot.alerts if alert.fresh and alert.severity == "critical"}
        new = fresh - self._rung
        self._rung = (self._rung | fresh) & {alert.id for alert in snapshot.alerts}
        if not new:
            return
        if self.rings:
            self.bell()
        if self.flashes and self.has_terminal_focus:
            self._flash_left = FLASH_STEPS
            self.flash_on = True
            if self._flash_timer is not None:
                self._flash_timer.stop()
            self._flash_timer = self.set_interval(FLASH_STEP_S, self._flash)

    def _flash(self) -> None:
        self._flash_left -= 1
        self.flash_on = self._flash_left > 0 and not self.flash_on
        if self._flash_left <= 0 and self._flash_timer is not None:
            self._flash_timer.stop()
            self._flash_timer = None
        if self.page is not None:
            self.page.flash(self.flash_on)

    def on_app_focus(self, event: AppFocus) -> None:
        """The terminal's pane has the focus; panels keep theirs."""
        event.prevent_default()
        self.has_terminal_focus = True

    def on_app_blur(self, event: AppBlur) -> None:
        """The terminal's pane lost the focus; panels keep theirs."""
        event.prevent_default()
        self.has_terminal_focus = False

    # ------------------------------------------------------------ pages

    def back(self) -> None:
        """One page back; on the overview, quit."""
        if self.depth > 1:
            self.pop_screen()
        else:
            self.leave(0)

    def go_overview(self, zoom: str | None) -> None:
        """The overview, or one of its panels full screen, from any page."""
        while self.depth > 1 and isinstance(self.screen_stack[-1], Page):
            self.pop_screen()
        base = self.screen_stack[0]
        if isinstance(base, Overview):
            base.set_zoom(zoom)

    def open_help(self) -> None:
        """The help page, once."""
        from trainmon.tui.help import HelpPage

        if not isinstance(self.screen, HelpPage):
            self.push_screen(HelpPage())

    def open_why(self, kind: str, key: str) -> None:
        """Details of an alert or an error."""
        from trainmon.tui.why import WhyPage

        self.push_screen(WhyPage(kind, key))

    def open_gpu(self, row: GpuRow) -> None:
        """One GPU in full."""
        from trainmon.tui.gpu import GpuPage

        self.push_screen(GpuPage(row))

    def open_list(self, what: str) -> None:
        """The sources, or the lines that could not be read."""
        from trainmon.tui.lists import ListPage

        if not (isinstance(self.screen, ListPage) and self.screen.what == what):
            self.push_screen(ListPage(what))

    def open_log(self, source: int | None = None, line: int | None = None, offset: int | None = None) -> None:
        """The raw file of a source; without one, of the selected node or the file that spoke last."""
        from trainmon.tui.log import LogPage, likely_source

        chosen = likely_source(self.snapshot, self.screen) if source is None else source
        if chosen is None:
            if self.page is not None:
                self.page.notice("no file to show yet")
            return
        if isinstance(self.screen, LogPage):
            self.screen.change_source(chosen, line, offset)
        else:
            self.push_screen(LogPage(chosen, line, offset))

    # ------------------------------------------------------------ terminal

    def action_redraw(self) -> None:
        """Ctrl-L, and after a stop: everything anew."""
        clear = getattr(self._driver, "clear", None)
        if clear is not None:
            clear()
        self.screen.refresh(layout=True)
        self.screen.refresh()

    def toggle_mouse(self) -> bool:
        """Mouse on or off; returns what it is now."""
        self.mouse_on = not self.mouse_on
        setter = getattr(self._driver, "set_mouse", None)
        if setter is not None:
            setter(self.mouse_on)
        return self.mouse_on

    def copy(self, what: str, text: str) -> str:
        """To the terminal's clipboard (OSC 52) and a file; returns what to say."""
        from trainmon.tui.copying import pasteable, write_copy

        text = pasteable(text)
        self.copy_to_clipboard(text[:60_000])  # terminals refuse long sequences; the file has all of it
        path = write_copy(text + "\n")
        return f"{what} copied" + (f"; also in {path}" if path else "; no file of it could be written")
