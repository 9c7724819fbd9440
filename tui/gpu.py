"""The page of one GPU: its figures on one axis of time, its memory, its processes, and what follows."""

from __future__ import annotations

from collections.abc import Iterator

from textual.widget import Widget

from trainmon.machines import GpuDetail, GpuRow
from trainmon.snapshot import Snapshot
from trainmon.tui import keys
from trainmon.tui.gpulayout import CHARTS, Content, GpuPlan, gpu_plan, small
from trainmon.tui.layout import Rect
from trainmon.tui.page import Behind
from trainmon.tui.parts import Drawn, TextBody
from trainmon.widgets.cells import Pen, Row
from trainmon.widgets.chart import Chart
from trainmon.widgets.gpu_detail import (
    detail_text,
    draw_gpu_head,
    draw_memory,
    draw_processes,
    draw_siblings,
    facts_rows,
    follows_rows,
)
from trainmon.widgets.gpu_rows import heat_colour, label_of, memory_colour

_PROCESSES = 12
"""Processes shown at most."""
_TEXT_ROWS = 9
"""Rows of what follows, at most, before the rest needs the small form."""


class GpuPage(Behind):
    """One GPU or MIG instance; `[` and `]` go to its neighbours.

    Args:
        row: The row that was opened.
    """

    PAGE = keys.GPU
    BINDINGS = keys.bindings(keys.GPU)  # type: ignore[assignment]

    def __init__(self, row: GpuRow) -> None:
        super().__init__()
        self.row = row
        self.detail: GpuDetail | None = None
        self.first = 0
        self.gone = False
        self.head = Drawn(id="head")
        self.charts = [Chart(id=f"chart{number}") for number in range(CHARTS)]
        self.memory = Drawn(id="memory")
        self.processes = Drawn(id="processes")
        self.follows = Drawn(id="follows")
        self.neighbours = Drawn(id="siblings")
        self.facts = TextBody(id="facts")
        for chart in self.charts:
            chart.can_focus = False

    def parts(self) -> Iterator[Widget]:
        yield from (self.crumbs, self.strip, self.head, *self.charts, self.memory, self.processes)
        yield from (self.follows, self.neighbours, self.facts)

    # ------------------------------------------------------------ places

    def trail(self) -> list[str]:
        return ["nodes", self.row.node, f"GPU {label_of(self.row)}".rstrip()]

    def content(self, width: int) -> Content:
        """How many rows each part fills at this width."""
        detail = self.detail
        if detail is None:
            return Content(charts=0, memory=0, processes=0, follows=0, siblings=False)
        told = min(_PROCESSES, len(detail.processes))
        return Content(
            charts=len(detail.charts),
            head=len(draw_gpu_head(detail, width, 3)),
            memory=5 if detail.grown_mb else 4 if detail.steady_mb is not None else 2,
            processes=max(5, told + 2 + bool(detail.throttle)) if width >= 120 else told + 2 + bool(detail.throttle),
            follows=min(_TEXT_ROWS, len(follows_rows(detail, width))),
            siblings=len(detail.siblings) > 1,
        )

    def body_places(self, width: int, top: int, height: int) -> dict[str, Rect]:
        return self.laid(width, top, height).places

    def laid(self, width: int, top: int, height: int) -> GpuPlan:
        """The layout of the body."""
        return gpu_plan(width, top, height, self.content(width), self.first)

    def now_laid(self) -> GpuPlan:
        """The layout on screen."""
        width, height = self.app.size
        return self.laid(width, 2, height - 3)

    def on_resize(self) -> None:
        """Another size may be the other form of the page."""
        self.first = 0
        self.show_footer()
        if self.detail is not None:
            self.show_detail(self.detail)

    # ------------------------------------------------------------ life

    def on_mount(self) -> None:
        self.select()
        super().on_mount()

    def on_unmount(self) -> None:
        """Nobody looks at a GPU any more."""
        self.monitor.session.select_gpu(None)

    def select(self) -> None:
        """Ask the session for this GPU."""
        self.monitor.session.select_gpu(self.row.key)

    # ------------------------------------------------------------ what is shown

    def show(self, snapshot: Snapshot, changed: frozenset[str]) -> None:
        if "gpu" in changed:
            self.take(snapshot.gpu)
        super().show(snapshot, changed)

    def take(self, detail: GpuDetail | None) -> None:
        """A new picture of the GPU; of another one, or of none, it changes nothing."""
        if detail is None or detail.row.key != self.row.key:
            if detail is None and self.detail is not None and self.detail.row.key == self.row.key and not self.gone:
                self.gone = True
                self.notice("this GPU is not known any more: these are its last figures")
            if self.detail is None:
                self.facts.show(_waiting)
                self.head.show(lambda width, height: _waiting(width)[:height])
            return
        self.gone = False
        before = self.content(self.app.size.width) if self.detail is not None else None
        first = self.detail is None
        self.detail, self.row = detail, detail.row
        if self.content(self.app.size.width) != before:
            self.arrange_anew()
        if first:
            self.show_footer()
            self.show_crumbs(self.monitor.snapshot)
        self.show_detail(detail)

    def show_detail(self, detail: GpuDetail) -> None:
        """Draw what is on screen of it."""
        if small(self.app.size.width, self.app.size.height - 3):
            self.facts.show(lambda width: facts_rows(detail, width))
            return
        shapes = self.monitor.trainmon_palette.name == "mono" or self.monitor.trainmon_palette.ascii
        self.head.show(lambda width, height: draw_gpu_head(detail, width, height))
        for widget, chart in zip(self.charts, detail.charts, strict=False):
            colours = {"gpu_memory_mb": memory_colour, "gpu_temperature_c": heat_colour}
            loud = colours[chart.key](detail.row) if chart.key in colours else ""
            widget.show(chart, detail.spans, loud)
        self.memory.show(lambda width, height: draw_memory(detail, width, height, shapes=shapes))
        self.processes.show(lambda width, height: draw_processes(detail, width, height))
        self.follows.show(lambda width, height: follows_rows(detail, width)[:height])
        self.neighbours.show(lambda width, height: [draw_siblings(detail, width)])

    # ------------------------------------------------------------ actions

    def footer_keys(self) -> list[tuple[str, str]]:
        labels = {"charts": "", "nodes": "", "errors": "", "log": "", "acknowledge": "", "mute": ""}
        detail = self.detail
        if detail is None or detail.log_source is None:
            labels["right"] = ""
        elif detail.row.rank is not None:
            labels["right"] = f"log of rank {detail.row.rank}"
        else:
            labels["right"] = "log"
        rows = [(key.replace("→ ", ""), label) for key, label in keys.footer(self.PAGE, **labels)]
        if detail is not None and len(detail.siblings) > 1:
            rows.insert(1, ("[ ]", "GPU"))
        plan = self.now_laid()
        if plan.more or plan.last:
            rows.insert(1, ("j k", "more"))
        return rows

    def move(self, rows: int) -> None:
        if small(self.app.size.width, self.app.size.height - 3):
            self.facts.move(rows)
            return
        last = self.now_laid().last
        before = self.first
        self.first = max(0, min(last, self.first + rows))
        if self.first != before:
            self.arrange_anew()
            if self.detail is not None:
                self.call_after_refresh(self.show_detail, self.detail)

    def page_rows(self) -> int:
        return 2 if not small(self.app.size.width, self.app.size.height - 3) else super().page_rows()

    def step(self, by: int) -> None:
        """The next or previous GPU of the machine."""
        rows = self.detail.siblings if self.detail is not None else ()
        known = [row.key for row in rows]
        if len(known) < 2 or self.row.key not in known:
            self.notice("this node has no other GPU")
            return
        self.row = rows[(known.index(self.row.key) + by) % len(known)]
        self.select()
        self.show_crumbs(self.monitor.snapshot)

    def action_next_one(self) -> None:
        self.step(1)

    def action_previous_one(self) -> None:
        self.step(-1)

    def action_right(self) -> None:
        """The log of the rank that runs on it."""
        source = self.detail.log_source if self.detail is not None else None
        if source is None:
            self.notice("no log is known of what runs on this GPU")
        else:
            self.monitor.open_log(source)

    def action_log(self) -> None:
        if self.detail is not None and self.detail.log_source is not None:
            self.action_right()
        else:
            super().action_log()

    def copied(self) -> tuple[str, str]:
        if self.detail is None:
            return "", ""
        return f"GPU {label_of(self.row)} of {self.row.node}", detail_text(self.detail)


def _waiting(width: int) -> list[Row]:
    pen = Pen(width)
    pen.put(1, "no figures of this GPU yet", "muted", width - 1)
    return [pen.row()]
