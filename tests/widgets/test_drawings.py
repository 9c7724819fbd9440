"""Every drawing, any view, any size: rows that fit, and never an exception."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from trainmon.snapshot import (
    AlertView,
    ChartView,
    Counts,
    ErrorView,
    EventView,
    GpuPanel,
    GpuRow,
    LogLine,
    MetricView,
    NodeView,
    Points,
    RunView,
    Snapshot,
    SourceView,
    Span,
)
from trainmon.widgets.alert_strip import draw_alert_strip
from trainmon.widgets.cells import Row, plain
from trainmon.widgets.chart import draw_chart
from trainmon.widgets.error_list import draw_errors
from trainmon.widgets.event_list import draw_events
from trainmon.widgets.facts import draw_facts
from trainmon.widgets.footer import draw_footer
from trainmon.widgets.gpu_table import draw_gpus
from trainmon.widgets.last_record import draw_last_record
from trainmon.widgets.log_pane import Gutter, draw_log_pane, pane_line
from trainmon.widgets.log_tail import draw_log_tail
from trainmon.widgets.metrics import draw_metrics
from trainmon.widgets.node_table import draw_nodes
from trainmon.widgets.paint import expand, strip_of
from trainmon.widgets.palette import palette
from trainmon.widgets.source_list import draw_sources
from trainmon.widgets.status import draw_status

WIDTHS = st.one_of(st.integers(1, 200), st.sampled_from([1, 2, 3, 30, 40, 60, 80, 100, 120, 160, 200]))
HEIGHTS = st.integers(1, 60)
SPECIAL = [0.0, -1.0, 1e-320, 1e308, -1e308, math.nan, math.inf, -math.inf, 1.984, 5000.0]
NUMBER = st.one_of(st.none(), st.sampled_from(SPECIAL), st.floats())
FLOAT = st.one_of(st.sampled_from(SPECIAL), st.floats())
WHOLE = st.one_of(st.none(), st.integers(-5, 10**12))
TEXT = st.text(st.one_of(st.characters(), st.sampled_from("漢字\x1b\x9b\u202e\u0301\t\n→≈;,· (")), max_size=30)
HEALTH = st.sampled_from(["ok", "warning", "critical", "silent", "expected"])
SEVERITY = st.sampled_from(["critical", "warning", "info"])
FLOATS = st.lists(FLOAT, max_size=30).map(tuple)
MAYBE_INDEX = st.one_of(st.none(), st.integers(-1, 40))


@st.composite
def points(draw: Callable) -> Points:
    count = draw(st.integers(0, 40))
    x = sorted(draw(st.lists(st.floats(-1e6, 1e9), min_size=count, max_size=count)))
    columns = [draw(st.lists(FLOAT, min_size=count, max_size=count)) for _ in range(3)]
    return Points(tuple(x), *(tuple(column) for column in columns))


RUN = st.builds(
    RunView, name=TEXT, note=TEXT, newest=NUMBER, step=WHOLE, total_steps=WHOLE, eta_s=NUMBER,
    state=st.sampled_from(["waiting", "starting", "running", "quiet", "stalled", "finished", "failed", "old"]),
    history=st.one_of(st.none(), FLOAT), nodes=st.integers(0, 3000), gpus=st.integers(0, 9000), demo=st.booleans(), hint=TEXT,
    started=NUMBER,
)  # fmt: skip
ALERT = st.builds(
    AlertView, id=TEXT, kind=TEXT, severity=SEVERITY, title=TEXT, who=TEXT, measured=TEXT, outlook=TEXT,
    state=st.sampled_from(["firing", "muted", "acknowledged", "resolved"]), since=FLOAT, resolved=NUMBER, resolution=TEXT,
    fresh=st.booleans(), node=st.one_of(st.none(), TEXT),
)  # fmt: skip
CHART = st.builds(
    ChartView, key=st.sampled_from(["loss", "learning_rate", "tokens_per_second", "step_time_s", "x"]), title=TEXT, value=NUMBER,
    points=points(), change=NUMBER, change_steps=st.integers(0, 1000), note=TEXT, gaps=FLOATS, non_finite=FLOATS,
    non_finite_count=st.integers(0, 10**6), stale_s=NUMBER, first_x=NUMBER, first_value=NUMBER,
)  # fmt: skip
SPAN = st.builds(Span, start=FLOAT, end=NUMBER, severity=SEVERITY)
METRIC = st.builds(
    MetricView, key=TEXT, title=TEXT, short=TEXT, unit=st.sampled_from(["loss", "mfu", "percent", "seconds", "nonsense"]),
    value=NUMBER, change_percent=NUMBER, severity=st.one_of(st.none(), SEVERITY), spark=FLOATS, bad_from=MAYBE_INDEX,
)  # fmt: skip
GPU = st.builds(
    GpuRow, node=TEXT, index=st.one_of(st.none(), st.integers(0, 9999)), util_percent=NUMBER, memory_mb=NUMBER, total_mb=NUMBER,
    temperature_c=NUMBER, power_w=NUMBER, clock_mhz=NUMBER, health=HEALTH, word=TEXT,
)  # fmt: skip
PANEL = st.builds(
    GpuPanel, subject=TEXT, origin=TEXT, rows=st.lists(GPU, max_size=12).map(tuple), sentence=TEXT, age_s=NUMBER
)
NODE = st.builds(
    NodeView, name=TEXT, health=HEALTH, word=TEXT, step=WHOLE, own_s=NUMBER, spark=FLOATS, bad_from=MAYBE_INDEX,
    versus_percent=NUMBER, wait_s=NUMBER, memory_mb=NUMBER, temperature_c=NUMBER, loss=NUMBER, silent_s=NUMBER,
)  # fmt: skip
ERROR = st.builds(
    ErrorView, code=TEXT, title=TEXT, message=TEXT, severity=SEVERITY, priority=st.integers(1, 3),
    role=st.sampled_from(["probable cause", "follows X", "its own", "warning", ""]), lines=st.integers(0, 10**9), where=TEXT,
    first=NUMBER, place=TEXT, source=WHOLE, line=WHOLE, offset=WHOLE, raw=TEXT, fixes=st.lists(TEXT, max_size=3).map(tuple),
    exact=st.booleans(),
)  # fmt: skip
EVENT = st.builds(
    EventView, time=NUMBER, health=HEALTH, name=TEXT, who=TEXT, text=TEXT, advice=TEXT, alert=st.one_of(st.none(), TEXT),
    planned=st.booleans(),
)  # fmt: skip
SOURCE = st.builds(
    SourceView, id=WHOLE, name=TEXT, path=TEXT, word=st.sampled_from(["followed", "empty", "no file yet", "gone", "x"]),
    sentence=TEXT, bad=st.booleans(), format=st.one_of(st.none(), TEXT), size=st.integers(0, 10**15), lines=st.integers(0, 10**9),
    quarantined=st.integers(0, 99), gaps=st.integers(0, 99), history=NUMBER,
)  # fmt: skip
LINE = st.builds(
    LogLine, source=st.integers(0, 9), node=TEXT, time=NUMBER, text=TEXT,
    level=st.sampled_from([None, "INFO", "WARN", "ERROR", "FATAL", "?"]),
)  # fmt: skip
COUNTS = st.builds(
    Counts, lines=st.integers(0, 10**12), quarantined=st.integers(0, 99), gaps=st.integers(0, 3), exact=st.booleans()
)


def many(strategy: st.SearchStrategy, most: int = 6) -> st.SearchStrategy:
    return st.lists(strategy, max_size=most).map(tuple)


FOCUS = st.fixed_dictionaries({"focused": st.booleans(), "selected": st.integers(-1, 8), "start": st.integers(0, 8)})

DRAWINGS: dict[str, st.SearchStrategy] = {
    "status": st.tuples(RUN, NUMBER, MAYBE_INDEX).map(lambda v: lambda w, h: draw_status(v[0], w, h, now=v[1], paused=v[2])),
    "alerts": st.tuples(many(ALERT), TEXT, st.booleans(), NUMBER, st.integers(-1, 9)).map(
        lambda v: lambda w, h: draw_alert_strip(v[0], v[1], w, h, flash_on=v[2], now=v[3], selected=v[4])
    ),
    "chart": st.tuples(CHART, many(SPAN), st.booleans()).map(lambda v: lambda w, h: draw_chart(v[0], v[1], w, h, focused=v[2])),
    "metrics": st.tuples(many(METRIC), st.booleans()).map(lambda v: lambda w, h: draw_metrics(v[0], w, h, stale=v[1])),
    "gpus": st.tuples(PANEL, FOCUS).map(lambda v: lambda w, h: draw_gpus(v[0], w, h, **v[1])),
    "nodes": st.tuples(many(NODE, 12), FOCUS).map(lambda v: lambda w, h: draw_nodes(v[0], w, h, **v[1])),
    "errors": st.tuples(many(ERROR), COUNTS, FOCUS).map(lambda v: lambda w, h: draw_errors(v[0], v[1], w, h, **v[2])),
    "events": st.tuples(many(EVENT), many(ERROR, 2), COUNTS, FOCUS).map(
        lambda v: lambda w, h: draw_events(v[0], v[1], v[2], w, h, **v[3])
    ),
    "sources": st.tuples(many(SOURCE), FOCUS).map(lambda v: lambda w, h: draw_sources(v[0], w, h, **v[1])),
    "last": LINE.map(lambda v: lambda w, h: draw_last_record(v, w, h)),
    "tail": many(LINE).map(lambda v: lambda w, h: draw_log_tail(v, w, h)),
    "footer": st.tuples(many(st.tuples(TEXT, TEXT)), st.integers(0, 9)).map(
        lambda v: lambda w, h: draw_footer(v[0], w, h, hidden=v[1])
    ),
    "facts": st.builds(
        Snapshot, run=RUN, alerts=many(ALERT, 2), charts=many(CHART, 2), metrics=many(METRIC, 3), gpus=PANEL, nodes=many(NODE, 5),
        errors=many(ERROR, 2), sources=many(SOURCE, 2),
    ).map(lambda v: lambda w, h: draw_facts(v, w, h)),
    "pane": st.tuples(many(TEXT), MAYBE_INDEX, TEXT, st.integers(0, 20), st.booleans(), FLOAT, FLOAT).map(
        lambda v: lambda w, h: draw_log_pane(
            [pane_line(text, v[2], v[3]) for text in v[0]], w, h, selected=v[1], wrap=v[4],
            gutter=Gutter(v[5], v[6], ((v[5], "critical"),)) if v[4] else None,
        )
    ),
}  # fmt: skip


def check(rows: list[Row], width: int, height: int) -> None:
    assert len(rows) <= height
    for row in rows:
        text = plain(row)
        assert sum(cell_len(char) for char in text) <= width, text
        assert not any(char < " " or "\x7f" <= char <= "\x9f" for char in text), repr(text)


@pytest.mark.parametrize("name", sorted(DRAWINGS))
@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), width=WIDTHS, height=HEIGHTS)
def test_any_view_at_any_size_gives_rows_that_fit(name: str, data: st.DataObject, width: int, height: int) -> None:
    draw = data.draw(DRAWINGS[name])
    rows = draw(width, height)
    check(rows, width, height)
    for row in rows[:2]:
        for colours in (palette("dark"), palette("mono", ascii_only=True)):
            strip = strip_of(expand(row, width), colours)
            assert strip.cell_length == width
            assert not colours.ascii or strip.text.isascii()


@pytest.mark.parametrize("scene", ["healthy", "alert", "failed", "empty"])
def test_the_story_fits_every_size(scene: str, story) -> None:
    snapshot = getattr(story, scene)()
    for width in (1, 2, 7, 16, 29, 40, 47, 60, 79, 80, 99, 120, 159, 160, 200):
        for height in (1, 2, 4, 5, 9, 24):
            charts = [draw_chart(chart, snapshot.spans, width, height) for chart in snapshot.charts]
            drawn = [
                draw_status(snapshot.run, width, height, now=story.NOW[scene]),
                draw_alert_strip(snapshot.alerts, snapshot.calm, width, height),
                draw_gpus(snapshot.gpus, width, height),
                draw_nodes(snapshot.nodes, width, height, focused=True),
                draw_errors(snapshot.errors, snapshot.counts, width, height, focused=True),
                draw_events(snapshot.events, snapshot.errors, snapshot.counts, width, height),
                draw_facts(snapshot, width, height),
                *charts,
            ]
            for rows in drawn:
                check(rows, width, height)


def test_a_thousand_nodes_share_cells_and_the_heading_says_so() -> None:
    def node(index: int) -> NodeView:
        health = "critical" if index == 2049 else "ok"
        return NodeView(f"worker-{index}", health, "NEAR OOM" if health == "critical" else "ok", 10, 2.6)

    nodes = sorted((node(index) for index in range(2050)), key=lambda one: one.health)
    rows = [plain(row) for row in draw_nodes(nodes, 100, 50)]
    assert "a cell is the worst of 3" in rows[0]
    assert sum(row.count("✗") for row in rows[1:23]) == 1
    few = [
        plain(row)
        for row in draw_nodes([dataclasses.replace(one, name=f"n{i}") for i, one in enumerate(nodes[:256])], 100, 30)
    ]
    assert few[1].split()[0] == "0–31" and few[8].split()[0] == "224–255"
