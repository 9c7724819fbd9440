"""What one can do with the overview's panels: go from one to the next, choose an entry, open it, search it."""

from __future__ import annotations

from typing import Any

from textual.widget import Widget

from trainmon.snapshot import AlertView, ErrorView, GpuRow, NodeView
from trainmon.tui.copying import text_of
from trainmon.tui.layout import Facts, Plan, plan
from trainmon.tui.page import Page
from trainmon.widgets.alert_strip import AlertStrip
from trainmon.widgets.error_list import ErrorList
from trainmon.widgets.log_tail import LogTail

RING = ("loss", "lr", "third", "gpus", "nodes", "errors", "events", "log", "sources")
"""The order of Tab, after the alert strip."""
LISTS = ("errors", "events", "nodes", "gpus", "sources")
"""Panels with a selection, most wanted first: where the arrows go while nothing has the focus."""


class Panels(Page):
    """The half of the overview that answers keys; the other half lays out and shows."""

    zoom: str | None
    facts: Facts
    strip: AlertStrip
    errors: ErrorList
    tail: LogTail
    _found: str

    def now_laid(self) -> Plan:
        """The layout on screen."""
        raise NotImplementedError

    def node_chosen(self) -> None:
        """A node's GPUs were asked for."""

    def set_zoom(self, zoom: str | None) -> None:
        """Fill the body with one panel, or show all."""
        raise NotImplementedError

    # ------------------------------------------------------------ focus

    def ring(self) -> list[Widget]:
        """What Tab goes through: the alert strip, then the panels that are on screen."""
        places = self.now_laid().places
        named = [self.query_one(f"#{name}") for name in RING if name in places]
        return [self.strip, *(widget for widget in named if widget.can_focus)]

    def step_focus(self, step: int) -> None:
        """Next or previous panel; full screen goes to the neighbour's full screen."""
        if self.zoom is not None:
            base = plan(self.app.size.width, self.app.size.height, self.facts)
            names = [n for n in ("charts", "gpus", "nodes", "errors") if n == "charts" or base.places or base.hidden]
            at = names.index(self.zoom) if self.zoom in names else 0
            self.set_zoom(names[(at + step) % len(names)])
            return
        ring = self.ring()
        at = ring.index(self.focused) if self.focused in ring else 0
        self.set_focus(ring[(at + step) % len(ring)])
        self.show_footer()

    def action_next_panel(self) -> None:
        self.step_focus(1)

    def action_previous_panel(self) -> None:
        self.step_focus(-1)

    def list_now(self) -> Any | None:
        """The panel whose selection the arrows move; focused if nothing was."""
        places = self.now_laid().places
        focused: Any = self.focused
        if focused is not None and focused is not self.strip:
            return focused if hasattr(focused, "move") else None
        for name in LISTS:
            if name in places:
                panel = self.query_one(f"#{name}")
                if hasattr(panel, "move") and panel.can_focus:
                    return panel
        return None

    def move(self, rows: int) -> None:
        panel: Any = self.list_now()
        if panel is None:
            return
        if self.focused is None or self.focused is self.strip:
            self.set_focus(panel)
            self.show_footer()
            return
        panel.move(rows)

    def page_rows(self) -> int:
        panel = self.list_now()
        return max(1, panel.size.height - 2) if panel is not None else 1

    # ------------------------------------------------------------ opening

    def current(self) -> Any:
        """What Enter, `y`, `a` and `M` mean: the selected entry, else the alert in the strip."""
        if self.focused is None or self.focused is self.strip:
            return self.strip.current
        return getattr(self.focused, "current", None)

    def alert_id(self) -> str | None:
        chosen = self.current()
        if isinstance(chosen, AlertView):
            return chosen.id
        linked = getattr(chosen, "alert", None)
        if isinstance(linked, str):
            return linked
        if isinstance(chosen, ErrorView):
            for alert in self.monitor.snapshot.alerts:
                if alert.code == chosen.code:
                    return alert.id
        alert_shown = self.strip.current
        return alert_shown.id if alert_shown is not None else None

    def action_open(self) -> None:
        chosen = self.current()
        snapshot = self.monitor.snapshot
        if self.focused is not None and self.focused.id in ("loss", "lr", "third"):
            self.set_zoom("charts" if self.zoom is None else None)
        elif isinstance(chosen, AlertView):
            self.monitor.open_why("alert", chosen.id)
        elif isinstance(chosen, ErrorView):
            self.monitor.open_why("error", chosen.code + "\0" + chosen.message)
        elif isinstance(chosen, NodeView):
            self.monitor.open_log(chosen.sources[0] if chosen.sources else None)
        elif isinstance(chosen, GpuRow) and chosen.key:
            self.monitor.open_gpu(chosen)
        elif self.focused is self.tail and snapshot.tail:
            self.monitor.open_log(snapshot.tail[-1].source)
        elif getattr(chosen, "alert", None):
            self.monitor.open_why("alert", chosen.alert)
        elif hasattr(chosen, "node") and (node := self.node_named(chosen.node)) is not None and node.sources:
            self.monitor.open_log(node.sources[0])
        elif isinstance(getattr(chosen, "id", None), int):
            self.monitor.open_log(chosen.id)
        elif (self.focused is None or self.focused is self.strip) and snapshot.errors:
            first = snapshot.errors[0]
            self.monitor.open_why("error", first.code + "\0" + first.message)
        elif self.strip.leads and (alert := self.strip.current) is not None:
            self.monitor.open_why("alert", alert.id)  # the strip says that Enter leads there
        else:
            self.notice("nothing to open here: Tab to a panel, or 6 for the log")

    def node_named(self, name: str) -> NodeView | None:
        """A node by its name."""
        return next((node for node in self.monitor.snapshot.nodes if node.name == name), None)

    def copied(self) -> tuple[str, str]:
        chosen = self.current()
        if chosen is not None:
            return text_of(chosen)
        panel = self.focused
        if panel is not None and hasattr(panel, "rows_text"):
            return (panel.id or "panel"), "\n".join(row.rstrip() for row in panel.rows_text())
        last = self.monitor.snapshot.last
        return ("last line", last.text) if last is not None else ("", "")

    # ------------------------------------------------------------ nodes, errors, search

    def step_node(self, step: int) -> None:
        """Show the GPUs of the next or previous node."""
        snapshot = self.monitor.snapshot
        names = sorted({node.name for node in snapshot.nodes} | {row.node for row in snapshot.gpus.everywhere})
        if not names:
            self.notice("no node is known yet")
            return
        subject = self.monitor.snapshot.gpus.subject
        at = names.index(subject) + step if subject in names else (0 if step > 0 else -1)
        name = names[at % len(names)]
        self.monitor.session.select_node(name)
        self.node_chosen()
        self.notice(f"GPUs of {name}; 0 resets")

    def action_next_one(self) -> None:
        if self.focused is self.strip or (self.focused is None and len(self.monitor.snapshot.alerts) > 1):
            self.strip.move(1)
        else:
            self.step_node(1)

    def action_previous_one(self) -> None:
        if self.focused is self.strip or (self.focused is None and len(self.monitor.snapshot.alerts) > 1):
            self.strip.move(-1)
        else:
            self.step_node(-1)

    def action_pick(self) -> None:
        nodes = sorted(self.monitor.snapshot.nodes, key=lambda node: node.name)

        def picked(_typed: str, index: int | None) -> None:
            if index is not None:
                self.monitor.session.select_node(nodes[index].name)
                self.node_chosen()
                self.notice(f"GPUs of {nodes[index].name}; 0 resets")

        self.ask("node", "Enter picks · Esc", picked, title="nodes", choices=[(n.name, n.word) for n in nodes])

    def step_error(self, step: int) -> None:
        """Select the next or previous error."""
        if not self.monitor.snapshot.errors:
            self.notice("no errors")
            return
        if "errors" not in self.now_laid().places:
            self.set_zoom("errors")
        if self.focused is self.errors:
            self.errors.move(step)
        else:
            self.set_focus(self.errors)
            self.show_footer()

    def action_next_error(self) -> None:
        self.step_error(1)

    def action_previous_error(self) -> None:
        self.step_error(-1)

    def action_search(self) -> None:
        panel = self.list_now()
        if panel is None or not hasattr(panel, "current"):
            self.notice("nothing to search in this panel; 6 opens the log")
            return

        def find(typed: str, _index: int | None) -> None:
            self._found = typed
            self.set_focus(panel)
            self.step_match(1, stay=True)

        self.ask("/", "Enter finds · Esc", find, text=self._found)

    def step_match(self, step: int, stay: bool = False) -> None:
        """Select the next entry that holds what was searched, going round once."""
        panel = self.list_now()
        wanted = self._found.lower()
        if panel is None or not wanted or not hasattr(panel, "selected"):
            self.notice("nothing searched yet: / searches this panel")
            return
        begin, seen = panel.selected, -1
        if not stay:
            self.turn(panel, step)
        while seen != begin:
            entry = panel.current
            if entry is not None and wanted in text_of(entry)[1].lower():
                return
            self.turn(panel, step)
            if seen == panel.selected:
                break
            seen = panel.selected
        self.notice(f"{self._found!r} is not in this panel")

    @staticmethod
    def turn(panel: Any, step: int) -> None:
        """Move the selection, over the end to the other end."""
        before = panel.selected
        panel.move(step)
        if panel.selected == before:
            panel.move(-(10**9) * step)

    def action_next_match(self) -> None:
        self.step_match(1)

    def action_previous_match(self) -> None:
        self.step_match(-1)
