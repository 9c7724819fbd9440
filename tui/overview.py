"""The overview: the whole run on one screen, and its panels one at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from textual.widget import Widget

from trainmon.snapshot import AlertView, ChartView, ErrorView, MetricView, NodeView, Snapshot
from trainmon.tui import keys
from trainmon.tui.layout import Facts, Plan, Rect, plan
from trainmon.tui.page import Page, TextBody
from trainmon.widgets.alert_strip import AlertStrip
from trainmon.widgets.cells import Pen, Row
from trainmon.widgets.chart import Chart
from trainmon.widgets.error_list import ErrorList
from trainmon.widgets.event_list import EventList
from trainmon.widgets.facts import Facts as FactsBody
from trainmon.widgets.gpu_table import GpuTable
from trainmon.widgets.last_record import LastRecord
from trainmon.widgets.log_tail import LogTail
from trainmon.widgets.metrics import MetricRow
from trainmon.widgets.node_table import NodeTable
from trainmon.widgets.parts import heading
from trainmon.widgets.source_list import SourceList
from trainmon.widgets.status import StatusRow

RING = ("loss", "lr", "third", "gpus", "nodes", "errors", "events", "log", "sources")
"""The order of Tab, after the alert strip."""
LISTS = ("errors", "events", "nodes", "gpus", "sources")
"""Panels with a selection, most wanted first: where the arrows go while nothing has the focus."""


class Overview(Page):
    """Pages behind it are drill-downs; `q` here quits."""

    PAGE = keys.OVERVIEW
    BINDINGS = keys.bindings(keys.OVERVIEW)  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__()
        self.zoom: str | None = None
        self.facts = Facts(empty=True)
        self.status = StatusRow(id="status")
        self.strip = AlertStrip(id="alert")
        self.charts = {name: Chart(id=name) for name in ("loss", "lr", "third")}
        self.metrics = MetricRow(id="metrics")
        self.gpus = GpuTable(id="gpus")
        self.nodes = NodeTable(id="nodes")
        self.errors = ErrorList(id="errors")
        self.events = EventList(id="events")
        self.tail = LogTail(id="log")
        self.last = LastRecord(id="last")
        self.body = FactsBody(id="facts")
        self.sources = SourceList(id="sources")
        self.words = TextBody(id="words")
        self._plan: tuple[tuple[int, int, Facts, str | None], Plan] | None = None
        self._found = ""

    def parts(self) -> Iterator[Widget]:
        yield from (self.status, self.strip, *self.charts.values(), self.metrics, self.gpus, self.nodes)
        yield from (self.errors, self.events, self.tail, self.last, self.body, self.sources, self.words)

    # ------------------------------------------------------------ places

    def laid(self, width: int, height: int) -> Plan:
        """The layout for a size, kept until something it depends on changes."""
        key = (width, height, self.facts, self.zoom)
        if self._plan is None or self._plan[0] != key:
            self._plan = key, plan(width, height, self.facts, self.zoom)
        return self._plan[1]

    def places(self, width: int, height: int) -> dict[str, Rect]:
        return self.laid(width, height).places

    def now_laid(self) -> Plan:
        """The layout on screen."""
        size = self.app.size
        return self.laid(size.width, size.height)

    def hidden_count(self) -> int:
        return 0 if self.zoom else len(self.now_laid().hidden)

    def on_resize(self) -> None:
        """Keys that fit, numbers that take the place of a chart: both depend on the width."""
        self.show_footer()
        self.show_metrics(self.monitor.snapshot)

    def footer_keys(self) -> list[tuple[str, str]]:
        labels = {"leave": "", "next_error": ""}
        if not self._found:
            labels["next_match"] = ""
        if self.focused is None or self.focused is self.strip:
            labels["open"] = "why" if self.monitor.snapshot.alerts else "open"
        if not self.monitor.snapshot.alerts:
            labels |= {"acknowledge": "", "mute": ""}
        if self.zoom:
            labels |= {"zoom": "back"}
        if self.facts.empty:
            labels |= {
                "search": "",
                "gpus": "",
                "nodes": "",
                "errors": "",
                "log": "",
                "pick": "",
                "pause": "",
                "zoom": "",
            }
            labels |= {"next_panel": ""}
        if self.app.size.width < 60:
            labels |= {"search": "", "next_panel": ""}
        return keys.footer(self.PAGE, **labels)

    # ------------------------------------------------------------ what is shown

    def show(self, snapshot: Snapshot, changed: frozenset[str]) -> None:
        self.lay_out(snapshot)
        stale = snapshot.run.state in ("stalled", "failed", "old", "finished")
        now = self.monitor.now()
        if changed & {"run", "counts"}:
            self.status.show(snapshot.run, now, None)
        if "alerts" in changed:
            self.strip.show(snapshot.alerts, snapshot.calm, self.monitor.flash_on, now)
            self.show_footer()
        if changed & {"charts", "spans"}:
            charts = [*snapshot.charts[:2], *self.third(snapshot)]
            for widget, chart in zip(self.charts.values(), charts, strict=False):
                widget.show(chart, snapshot.spans)
        if changed & {"metrics", "charts", "run"}:
            self.show_metrics(snapshot)
        if "gpus" in changed:
            self.gpus.show(snapshot.gpus)
        if changed & {"nodes", "run"}:
            self.nodes.show(snapshot.nodes, stale)
        if changed & {"errors", "counts"}:
            self.errors.show(snapshot.errors, snapshot.counts)
        if changed & {"events", "errors", "counts"}:
            self.events.show(snapshot.events, snapshot.errors, snapshot.counts)
        if "last" in changed:
            self.last.show(snapshot.last)
        if "tail" in changed:
            self.tail.show(snapshot.tail)
        if "sources" in changed:
            self.sources.show(snapshot.sources)
        if changed & {"run", "alerts", "charts", "metrics", "gpus", "nodes", "errors", "counts", "last"}:
            self.body.show(snapshot)
        if changed & {"gpus", "errors"}:
            self.words.show(lambda width: words_rows(snapshot, width))

    def lay_out(self, snapshot: Snapshot) -> None:
        """Look whether the run now needs other panels; only then anything moves."""
        facts = Facts(
            gpus=len(snapshot.gpus.rows),
            nodes=len(snapshot.nodes),
            metrics=len(snapshot.metrics),
            errors=bool(snapshot.errors),
            empty=not snapshot.counts.lines and snapshot.run.state == "waiting",
            third=len(snapshot.charts) > 2,
        )
        if facts != self.facts:
            before = self.now_laid()
            self.facts = facts
            if self.now_laid() != before:
                self.relaid()

    def relaid(self) -> None:
        """Panels came or went."""
        if self.focused is not None and self.focused.id not in self.now_laid().places and not self.prompt.active:
            self.set_focus(None)
        self.arrange_anew()
        self.show_footer()

    def third(self, snapshot: Snapshot) -> list[ChartView]:
        """The third chart of a wide screen: the step time, else the first other metric."""
        others = snapshot.charts[2:]
        wanted = [chart for chart in others if chart.key == "step_time_s"] or list(others)
        return list(wanted[:1])

    def show_metrics(self, snapshot: Snapshot) -> None:
        """The numbers; the learning rate joins them where it has no chart."""
        metrics = snapshot.metrics
        if "lr" not in self.now_laid().places and len(snapshot.charts) > 1:
            chart = snapshot.charts[1]
            rate = MetricView(chart.key, chart.title, "lr", chart.key, chart.value)
            metrics = (rate, *metrics)
        self.metrics.show(metrics, snapshot.run.state in ("stalled", "failed", "old", "finished"))

    def flash(self, on: bool) -> None:
        snapshot = self.monitor.snapshot
        self.strip.show(snapshot.alerts, snapshot.calm, on, self.monitor.now())

    def show_paused(self, waiting: int) -> None:
        self.status.show(self.monitor.snapshot.run, self.monitor.now(), waiting)

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
            if rows < 0:
                return
        panel.move(rows)

    def page_rows(self) -> int:
        panel = self.list_now()
        return max(1, panel.size.height - 2) if panel is not None else 1

    # ------------------------------------------------------------ views

    def set_zoom(self, zoom: str | None) -> None:
        """Fill the body with one panel, or show all."""
        if zoom == self.zoom:
            return
        self.zoom = zoom
        self.relaid()
        self.show_metrics(self.monitor.snapshot)
        target = {"charts": "loss"}.get(zoom or "", zoom)
        if target and target in self.now_laid().places:
            panel = self.query_one(f"#{target}")
            self.set_focus(panel if panel.can_focus else None)
        self.show_footer()

    def action_overview(self) -> None:
        self.set_zoom(None)

    def action_reset(self) -> None:
        self.set_zoom(None)
        self.set_focus(None)
        self.monitor.session.select_node(None)
        self.show_footer()

    def action_leave(self) -> None:
        if self.zoom is not None:
            self.set_zoom(None)
        elif self.focused is not None:
            self.set_focus(None)
            self.show_footer()

    def action_zoom(self) -> None:
        if self.zoom is not None:
            self.set_zoom(None)
            return
        name = (self.focused.id if self.focused is not None else None) or ""
        hidden = self.now_laid().hidden
        if name in ("loss", "lr", "gpus", "nodes", "errors", "events"):
            self.set_zoom(name)
        else:
            self.set_zoom("charts" if not hidden or hidden[0] in ("loss", "lr", "metrics") else hidden[0])

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
        else:
            self.notice("nothing to open here: Tab to a panel, or 6 for the log")

    def node_named(self, name: str) -> NodeView | None:
        """A node by its name."""
        return next((node for node in self.monitor.snapshot.nodes if node.name == name), None)

    def copied(self) -> tuple[str, str]:
        from trainmon.tui.copying import text_of

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
        names = sorted(node.name for node in self.monitor.snapshot.nodes)
        if not names:
            self.notice("no node is known yet")
            return
        subject = self.monitor.snapshot.gpus.subject
        at = names.index(subject) + step if subject in names else (0 if step > 0 else -1)
        name = names[at % len(names)]
        self.monitor.session.select_node(name)
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
        from trainmon.tui.copying import text_of

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


def words_rows(snapshot: Snapshot, width: int) -> list[Row]:
    """What will be shown once lines come, in words."""

    def line(text: str, token: str = "muted") -> Row:
        pen = Pen(width)
        pen.put(1, text, token, width - 1)
        return pen.row()

    gpus = snapshot.gpus.sentence or "figures that the logs carry are shown as they come"
    return [
        heading(width, "loss, learning rate"),
        line("drawn from the first step on"),
        [],
        heading(width, "GPUs"),
        line(gpus),
        [],
        heading(width, "errors", [[("none", "text")]]),
    ]
