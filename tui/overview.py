"""The overview: the whole run on one screen, and its panels one at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from textual.timer import Timer
from textual.widget import Widget

from trainmon.snapshot import ChartView, MetricView, Snapshot
from trainmon.tui import keys
from trainmon.tui.layout import Facts, Plan, Rect, plan
from trainmon.tui.panels import Panels
from trainmon.tui.parts import TextBody
from trainmon.widgets.alert_strip import AlertStrip
from trainmon.widgets.cells import Pen, Row
from trainmon.widgets.chart import Chart
from trainmon.widgets.error_list import ErrorList
from trainmon.widgets.event_list import EventList
from trainmon.widgets.facts import Facts as FactsBody
from trainmon.widgets.gpu_table import GpuTable
from trainmon.widgets.host_panel import HostTable, LinkTable
from trainmon.widgets.last_record import LastRecord
from trainmon.widgets.log_tail import LogTail
from trainmon.widgets.metrics import MetricRow
from trainmon.widgets.node_table import NodeTable
from trainmon.widgets.parts import heading
from trainmon.widgets.source_list import SourceList
from trainmon.widgets.status import StatusRow

COUNT_S = 1.0
"""Seconds after which a new number of lines is shown, when nothing else changes beside it."""

METRICS_S = 0.5
"""Seconds between two pictures of the numbers, where many nodes write."""


class Overview(Panels):
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
        self.host = HostTable(id="host")
        self.network = LinkTable(id="network")
        self.errors = ErrorList(id="errors")
        self.events = EventList(id="events")
        self.tail = LogTail(id="log")
        self.last = LastRecord(id="last")
        self.body = FactsBody(id="facts")
        self.sources = SourceList(id="sources")
        self.words = TextBody(id="words")
        self._plan: tuple[tuple[int, int, Facts, str | None], Plan] | None = None
        self._found = ""
        self.all_nodes = True
        self._count: Timer | None = None
        self._metrics_wait: Timer | None = None
        self._metrics_at = -METRICS_S

    def parts(self) -> Iterator[Widget]:
        yield from (self.status, self.strip, *self.charts.values(), self.metrics, self.gpus, self.nodes)
        yield from (self.host, self.network)
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
        if self.zoom == "gpus":
            labels |= {"open": "GPU", "gpus": "" if self.all_nodes else "all nodes"}
        if self.facts.nodes < 2 or not self.facts.gpus:
            labels |= {"pick": ""} | ({} if self.facts.gpus else {"gpus": ""})
        if self.facts.empty:
            labels |= {
                "search": "",
                "charts": "",
                "gpus": labels.get("gpus", "GPUs" if self.facts.gpus else ""),
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
        rows = keys.footer(self.PAGE, **labels)
        if self.zoom == "gpus" and self.monitor.snapshot.gpus.everywhere:
            rows.insert(3, ("[ ]", "node"))
        return rows

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
        elif changed & {"run", "counts"} and snapshot.alerts:
            self.strip.show(snapshot.alerts, snapshot.calm, self.monitor.flash_on, now)  # its age goes on
        if changed & {"charts", "spans"}:
            charts = [*drawn(snapshot), *self.third(snapshot)]
            if self.facts.charts < 2:
                # The second place is not on screen.
                charts[1:1] = [ChartView("", "")]
            for widget, chart in zip(self.charts.values(), charts, strict=False):
                widget.show(chart, snapshot.spans)
        if changed & {"metrics", "charts", "run"}:
            self.metrics_soon(snapshot)
        if changed & {"gpus", "run"}:
            self.show_gpus(snapshot)
        if changed & {"host", "run"}:
            self.host.show(snapshot.host)
            self.network.show(snapshot.host)
        if changed & {"nodes", "run"}:
            self.nodes.show(snapshot.nodes, stale)
        if changed & {"events", "errors"}:
            self.show_lists(snapshot)
        elif "counts" in changed and self._count is None:
            self._count = self.set_timer(COUNT_S, self.show_count)
        several = snapshot.run.nodes > 1
        if changed & {"last", "run"}:
            self.last.show(snapshot.last, several)
        if changed & {"tail", "last", "run"}:
            self.show_tail(snapshot, several)
        if "sources" in changed:
            self.sources.show(snapshot.sources)
        if changed & {"run", "alerts", "charts", "metrics", "gpus", "nodes", "errors", "counts", "last"}:
            self.body.show(snapshot)
        if changed & {"gpus", "errors"}:
            listed = "gpus" in self.now_laid().places
            self.words.show(lambda width: words_rows(snapshot, width, listed))

    def show_gpus(self, snapshot: Snapshot) -> None:
        """One node's GPUs; full screen those of all nodes, unless one was chosen there."""
        stale = snapshot.run.state in ("stalled", "failed", "old", "finished") and snapshot.gpus.window_s is None
        self.gpus.show(snapshot.gpus, stale, everywhere=self.zoom == "gpus" and self.all_nodes)

    def node_chosen(self) -> None:
        if self.zoom == "gpus":
            self.all_nodes = False
            self.show_gpus(self.monitor.snapshot)
            self.lay_out(self.monitor.snapshot)
            self.show_footer()

    def lay_out(self, snapshot: Snapshot) -> None:
        """Look whether the run now needs other panels; only then anything moves."""
        empty = not snapshot.counts.lines and snapshot.run.state == "waiting"
        facts = Facts(
            gpus=len(snapshot.gpus.rows),
            nodes=len(snapshot.nodes),
            metrics=len(snapshot.metrics),
            errors=bool(snapshot.errors),
            empty=empty,
            sources=len(snapshot.sources) if empty else 0,
            third=bool(self.third(snapshot)),
            charts=sum(1 for chart in drawn(snapshot) if chart.points.x or chart.non_finite_count),
            incident=any(event.alert is not None for event in snapshot.events),
            quiet=not snapshot.events,
            host=len(snapshot.host.figures),
            links=len(snapshot.host.links),
            everywhere=len(snapshot.gpus.everywhere) if self.all_nodes else 0,
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

    def show_lists(self, snapshot: Snapshot) -> None:
        """Errors and events, with the totals in their headings."""
        self.errors.show(snapshot.errors, snapshot.counts)
        self.events.show(snapshot.events, snapshot.errors, snapshot.counts)

    def show_count(self) -> None:
        """The totals alone: not at every line."""
        self._count = None
        self.show_lists(self.monitor.snapshot)

    def show_tail(self, snapshot: Snapshot, several: bool) -> None:
        """The tail of the log; the row of the last record below it is its last line, which is not said twice."""
        tail, last = snapshot.tail, snapshot.last
        if "log" not in self.now_laid().places:
            tail = ()
        elif tail and last is not None and (tail[-1].source, tail[-1].text) == (last.source, last.text):
            tail = tail[:-1]
        self.tail.show(tail, snapshot.tail[-1].node if snapshot.tail else "", several)

    def third(self, snapshot: Snapshot) -> list[ChartView]:
        """The third chart of a wide screen: the step time, else the first other metric."""
        shown = drawn(snapshot)
        others = [chart for chart in snapshot.charts if chart not in shown and chart.points.x]
        wanted = [chart for chart in others if chart.key == "step_time_s"] or list(others)
        return list(wanted[:1])

    def metrics_soon(self, snapshot: Snapshot) -> None:
        """The numbers, of many nodes not at each one's line: half of a step is no better than the step before."""
        loop = asyncio.get_running_loop()
        wait = self._metrics_at + METRICS_S - loop.time()
        if snapshot.run.nodes < 2 or wait <= 0:
            self._metrics_at = loop.time()
            self.show_metrics(snapshot)
        elif self._metrics_wait is None:
            self._metrics_wait = self.set_timer(wait, self.metrics_now)

    def metrics_now(self) -> None:
        """What waited."""
        self._metrics_wait = None
        self._metrics_at = asyncio.get_running_loop().time()
        self.show_metrics(self.monitor.snapshot)

    def show_metrics(self, snapshot: Snapshot) -> None:
        """The numbers; the learning rate joins them where it has no chart."""
        metrics = snapshot.metrics
        chart = next((chart for chart in snapshot.charts if chart.key == "learning_rate"), None)
        if chart is not None and chart.value is not None and "lr" not in self.now_laid().places:
            rate = MetricView(chart.key, chart.title, "lr", chart.key, chart.value)
            metrics = (rate, *metrics)
        self.metrics.show(metrics, snapshot.run.state in ("stalled", "failed", "old", "finished"))

    def flash(self, on: bool) -> None:
        snapshot = self.monitor.snapshot
        self.strip.show(snapshot.alerts, snapshot.calm, on, self.monitor.now())

    def show_paused(self, waiting: int) -> None:
        self.status.show(self.monitor.snapshot.run, self.monitor.now(), waiting)

    # ------------------------------------------------------------ views

    def set_zoom(self, zoom: str | None) -> None:
        """Fill the body with one panel, or show all."""
        if zoom == self.zoom and (zoom != "gpus" or self.all_nodes):
            return
        self.zoom = zoom
        self.all_nodes = True
        self.show_gpus(self.monitor.snapshot)
        self.lay_out(self.monitor.snapshot)
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


def drawn(snapshot: Snapshot) -> list[ChartView]:
    """The charts of the overview: loss and learning rate, or what else the log has; a promise before the first."""
    found = [chart for chart in snapshot.charts[:2] if chart.points.x or chart.non_finite_count]
    if not found:
        found = [chart for chart in snapshot.charts if chart.points.x][:1]
    return found or [ChartView("loss", "loss, learning rate")]


def _gpus_told(snapshot: Snapshot) -> str:
    """What there is to say of GPUs before the first line of a log."""
    panel = snapshot.gpus
    if panel.rows:
        where = "this host" if panel.here else panel.subject
        return f"{len(panel.rows)} on {where}: 3 shows them"
    return panel.sentence or "figures that the logs carry are shown as they come"


def words_rows(snapshot: Snapshot, width: int, listed: bool = False) -> list[Row]:
    """What will be shown once lines come, in words; `listed`: GPUs are on screen already."""

    def line(text: str, token: str = "muted") -> Row:
        pen = Pen(width)
        pen.put(1, text, token, width - 1)
        return pen.row()

    rows = [heading(width, "loss, learning rate"), line("drawn from the first value on"), []]
    if not listed:
        rows += [heading(width, "GPUs"), line(_gpus_told(snapshot)), []]
    return [*rows, heading(width, "errors", [[("none", "text")]])]
