"""What all pages share: absolute places, the footer, the line to type in, actions that mean the same on each."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, ClassVar, cast

from textual.geometry import NULL_OFFSET, NULL_SPACING, Region, Size
from textual.layout import Layout, WidgetPlacement
from textual.screen import Screen
from textual.timer import Timer
from textual.widget import Widget

from trainmon.snapshot import Snapshot
from trainmon.tui import keys
from trainmon.tui.layout import Rect
from trainmon.tui.parts import Choices, Crumbs, Prompt
from trainmon.widgets.alert_strip import AlertStrip
from trainmon.widgets.cells import Row
from trainmon.widgets.footer import Footer

if TYPE_CHECKING:
    from trainmon.tui.app import TrainmonApp

NOTICE_S = 5.0
"""Seconds that a notice stays over the footer."""
CHOICES_ROWS = 12
"""Rows of the list above the line to type in, at most."""


class Placed(Layout):
    """Puts each child where its page says, by name; children without a place are not shown."""

    name = "placed"

    def arrange(self, parent: Widget, children: list[Widget], size: Size, greedy: bool = True) -> list[WidgetPlacement]:
        places = cast("Page", parent).all_places(size.width, size.height)
        out = []
        for child in children:
            rect = places.get(child.id or "")
            if rect is not None:
                order = 1 if child.id in ("choices", "prompt") else 0
                out.append(WidgetPlacement(Region(*rect), NULL_OFFSET, NULL_SPACING, child, order))
        return out


class Page(Screen[None], inherit_bindings=False):
    """A full screen of instruments."""

    PAGE: ClassVar[str] = keys.OVERVIEW
    AUTO_FOCUS = ""
    ALLOW_SELECT = False

    def __init__(self) -> None:
        super().__init__()
        self._placed = Placed()
        self.footer = Footer(id="footer")
        self.prompt = Prompt(id="prompt")
        self.choices = Choices(id="choices")
        self._notice: Timer | None = None
        self._before_prompt: Widget | None = None

    # ------------------------------------------------------------ places

    @property
    def layout(self) -> Layout:
        """Absolute places, in cells."""
        return self._placed

    @property
    def monitor(self) -> TrainmonApp:
        """The app, by its type."""
        return cast("TrainmonApp", self.app)

    def places(self, width: int, height: int) -> dict[str, Rect]:
        """Where the page's own widgets lie."""
        raise NotImplementedError

    def all_places(self, width: int, height: int) -> dict[str, Rect]:
        """The page's places, and what lies over them while something is typed."""
        places = dict(self.places(width, height))
        if self.prompt.active:
            y = height - 1
            places.pop("footer", None)
            places["prompt"] = Rect(0, y, width, 1)
            rows = min(CHOICES_ROWS, len(self.prompt.fits) or 1) + 1
            if self.prompt.all and y >= 3:
                rows = min(rows, y - 1)
                places["choices"] = Rect(0, y - rows, width, rows)
        return places

    def arrange_anew(self) -> None:
        """Places have changed. A child has to ask: a screen that asks for itself is given its old arrangement."""
        self.footer.refresh(layout=True)

    def _extend_compose(self, widgets: list[Widget]) -> None:
        """Neither tooltips nor toasts: notices stand in the footer."""

    def parts(self) -> Iterator[Widget]:
        """The page's own widgets."""
        raise NotImplementedError

    def compose(self) -> Iterator[Widget]:
        yield from self.parts()
        yield self.footer
        yield self.prompt
        yield self.choices

    def on_mount(self) -> None:
        """The first picture."""
        self.show_footer()
        self.show_all()

    def on_screen_resume(self) -> None:
        """Another page lay over this one: show what came meanwhile."""
        self.show_all()

    # ------------------------------------------------------------ what is shown

    def show(self, snapshot: Snapshot, changed: frozenset[str]) -> None:
        """Show what changed."""

    def show_all(self) -> None:
        """Show everything as it is now."""
        from trainmon.snapshot import SECTIONS

        if self.is_mounted:
            self.show(self.monitor.snapshot, frozenset(SECTIONS))

    def flash(self, on: bool) -> None:
        """The phase of a fresh alert's label."""

    def show_paused(self, waiting: int) -> None:
        """The picture is held; so much waits."""

    def footer_keys(self) -> list[tuple[str, str]]:
        """Keys and words of the footer."""
        return keys.footer(self.PAGE)

    def hidden_count(self) -> int:
        """Panels that had no room."""
        return 0

    def show_footer(self) -> None:
        """Draw the footer's keys."""
        if self._notice is None:
            self.footer.show(self.footer_keys(), self.hidden_count())

    def notice(self, text: str) -> None:
        """Say something in the footer for a few seconds."""
        if self._notice is not None:
            self._notice.stop()
        self._notice = self.set_timer(NOTICE_S, self._notice_over)
        self.footer.show([("✓", text)], 0)

    def _notice_over(self) -> None:
        self._notice = None
        self.show_footer()

    # ------------------------------------------------------------ asking

    def ask(
        self,
        mark: str,
        hint: str,
        enter: Callable[[str, int | None], None],
        *,
        title: str = "",
        text: str = "",
        choices: list[tuple[str, str]] | None = None,
        change: Callable[[str], None] | None = None,
        cancel: Callable[[], None] | None = None,
    ) -> None:
        """Let the user type a line; see `Prompt.ask`."""

        def changed(typed: str) -> None:
            if choices is not None:
                rows = [choices[i] for i in self.prompt.fits]
                self.choices.show(title, rows, self.prompt.at)
                self.arrange_anew()
            if change is not None:
                change(typed)

        def end() -> None:
            before, self._before_prompt = self._before_prompt, None
            self.arrange_anew()
            if self.focused is self.prompt:
                self.set_focus(before if before is not None and before.is_attached else None)

        if not self.prompt.active:
            self._before_prompt = self.focused
        self.prompt.ask(mark, hint, enter, end, text=text, choices=choices, change=changed, cancel=cancel)
        self.set_focus(self.prompt)
        self.arrange_anew()

    def action_palette(self) -> None:
        """`:`: every action by name."""
        known = keys.commands(self.PAGE)

        def run(_typed: str, index: int | None) -> None:
            if index is not None:
                self.call_later(self.run_action, known[index][1])

        rows = [(name, what) for name, _, what in known]
        self.ask(":", "Enter runs it · Esc", run, title="actions", choices=rows)

    # ------------------------------------------------------------ actions of every page

    def action_help(self) -> None:
        self.monitor.open_help()

    def action_back(self) -> None:
        self.monitor.back()

    def action_leave(self) -> None:
        if self.monitor.depth > 1:
            self.monitor.back()

    def action_redraw(self) -> None:
        self.monitor.action_redraw()

    def action_mouse(self) -> None:
        self.notice("mouse on" if self.monitor.toggle_mouse() else "mouse off")

    def action_pause(self) -> None:
        self.monitor.toggle_pause()

    def action_quit_now(self) -> None:
        self.monitor.leave(130)

    def action_overview(self) -> None:
        self.monitor.go_overview(None)

    def action_charts(self) -> None:
        self.monitor.go_overview("charts")

    def action_gpus(self) -> None:
        self.monitor.go_overview("gpus")

    def action_nodes(self) -> None:
        self.monitor.go_overview("nodes")

    def action_errors(self) -> None:
        self.monitor.go_overview("errors")

    def action_log(self) -> None:
        self.monitor.open_log()

    def action_sources(self) -> None:
        self.monitor.open_list("sources")

    def action_quarantine(self) -> None:
        self.monitor.open_list("quarantine")

    def action_release_gpus(self) -> None:
        self.monitor.session.release_gpus()
        self.notice("NVML let go: GPU resets and MIG changes work now; :resume GPUs reads again")

    def action_resume_gpus(self) -> None:
        self.monitor.session.resume_gpus()
        self.notice("reading the GPUs again")

    def move(self, rows: int) -> None:
        """Move the selection or the text by so many rows."""

    def page_rows(self) -> int:
        """Rows of one page."""
        return max(1, self.size.height - 4)

    def action_up(self) -> None:
        self.move(-1)

    def action_down(self) -> None:
        self.move(1)

    def action_page_up(self) -> None:
        self.move(-self.page_rows())

    def action_page_down(self) -> None:
        self.move(self.page_rows())

    def action_half_up(self) -> None:
        self.move(-max(1, self.page_rows() // 2))

    def action_half_down(self) -> None:
        self.move(max(1, self.page_rows() // 2))

    def action_first(self) -> None:
        self.move(-(10**12))

    def action_last(self) -> None:
        self.move(10**12)

    def alert_id(self) -> str | None:
        """The alert that `a` and `M` mean."""
        return None

    def action_acknowledge(self) -> None:
        alert = self.alert_id()
        if alert is None:
            self.notice("no alert to acknowledge")
        else:
            self.monitor.session.acknowledge(alert)
            self.notice("acknowledged")

    def action_mute(self) -> None:
        alert = self.alert_id()
        if alert is None:
            self.notice("no alert to mute")
            return
        state = {view.id: view.state for view in self.monitor.snapshot.alerts}.get(alert)
        if state == "muted":
            self.monitor.session.unmute(alert)
            self.notice("unmuted")
        else:
            self.monitor.session.mute(alert)
            self.notice("muted until it resolves; M again unmutes")

    def copied(self) -> tuple[str, str]:
        """What `y` copies: a word for it, and the text."""
        return "", ""

    def action_copy(self) -> None:
        what, text = self.copied()
        if not text:
            self.notice("nothing selected to copy")
        else:
            self.notice(self.monitor.copy(what, text))


class Behind(Page):
    """A page behind the overview: breadcrumbs, alert strip, body, footer."""

    def __init__(self) -> None:
        super().__init__()
        self.crumbs = Crumbs(id="crumbs")
        self.strip = AlertStrip(id="alert")
        self.strip.can_focus = False
        self.strip.leads = False

    def trail(self) -> list[str]:
        """Breadcrumbs behind the run's name."""
        return []

    def body_places(self, width: int, top: int, height: int) -> dict[str, Rect]:
        """Where the body's widgets lie in rows `top` to `top + height`."""
        raise NotImplementedError

    def places(self, width: int, height: int) -> dict[str, Rect]:
        footer = 1 if height >= 4 else 0
        alert = 1 if height >= 6 else 0
        places = {"crumbs": Rect(0, 0, width, 1)}
        if alert:
            places["alert"] = Rect(0, 1, width, 1)
        if footer:
            places["footer"] = Rect(0, height - 1, width, 1)
        room = height - 1 - alert - footer
        if room > 0:
            places |= self.body_places(width, 1 + alert, room)
        return places

    def show(self, snapshot: Snapshot, changed: frozenset[str]) -> None:
        if changed & {"run", "counts"}:
            self.show_crumbs(snapshot)
        if "alerts" in changed:
            self.show_strip(snapshot)

    def show_crumbs(self, snapshot: Snapshot) -> None:
        """Row 0."""
        self.crumbs.show([snapshot.run.name or "run", *self.trail()], run_state(snapshot))

    def show_paused(self, waiting: int) -> None:
        word = f" · {waiting:,} waiting" if waiting else ""
        state = run_state(self.monitor.snapshot)
        right = [("paused", "warning+bold"), (word + "  ", "warning"), *state]
        self.crumbs.show([self.monitor.snapshot.run.name or "run", *self.trail()], right)

    def show_strip(self, snapshot: Snapshot) -> None:
        """Row 1."""
        self.strip.show(snapshot.alerts, snapshot.calm, self.monitor.flash_on, self.monitor.now())

    def flash(self, on: bool) -> None:
        self.show_strip(self.monitor.snapshot)

    def alert_id(self) -> str | None:
        alert = self.strip.current
        return alert.id if alert is not None else None


def run_state(snapshot: Snapshot) -> Row:
    """The state word and the time of the newest line, for the right edge of row 0."""
    from trainmon.widgets.status import STATE_GLYPHS

    run = snapshot.run
    glyph, token, word = STATE_GLYPHS.get(run.state, ("○", "muted", "text"))
    spans: Row = [(glyph, token), (" ", "text"), (run.state, word)]
    if run.newest is not None:
        spans.append(("  " + time.strftime("%H:%M:%S", time.gmtime(run.newest)) + " UTC", "muted"))
    return spans
