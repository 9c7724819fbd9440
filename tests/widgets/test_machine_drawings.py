"""GPUs, hosts and charts over time: what stands where, that anything fits, and that a picture moves seldom."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from types import ModuleType

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from trainmon.samples import GpuProcess
from trainmon.snapshot import ChartView, GpuDetail, GpuPanel, GpuRow, HostFigure, HostPanel, LinkRow, Points, Span
from trainmon.widgets.cells import Row, plain
from trainmon.widgets.chart import draw_chart
from trainmon.widgets.facts import draw_facts
from trainmon.widgets.gpu_detail import (
    detail_text,
    draw_gpu_head,
    draw_memory,
    draw_processes,
    draw_siblings,
    facts_rows,
    follows_rows,
)
from trainmon.widgets.gpu_rows import Columns, heads, heat_colour, link_text, memory_colour
from trainmon.widgets.gpu_table import draw_gpus
from trainmon.widgets.host_panel import draw_host, draw_links
from trainmon.widgets.time_axis import fit_time, time_ticks, time_window

NUMBER = st.one_of(st.none(), st.sampled_from([0.0, -1.0, float("nan"), float("inf"), 1e300]), st.floats())
FLOAT = st.floats()
TEXT = st.text(st.one_of(st.characters(), st.sampled_from("漢字\x1b\u202e\u0301\t\n→≈;,· (%")), max_size=24)
HEALTH = st.sampled_from(["ok", "warning", "critical", "silent", "expected"])
ROW = st.builds(
    GpuRow, node=TEXT, index=st.one_of(st.none(), st.integers(0, 999)), util_percent=NUMBER, memory_mb=NUMBER, total_mb=NUMBER,
    temperature_c=NUMBER, power_w=NUMBER, clock_mhz=NUMBER, health=HEALTH, word=TEXT, key=TEXT, label=TEXT, name=TEXT,
    state=st.sampled_from(["", "ok", "lost", "stale"]), note=st.one_of(st.just(""), TEXT), rank=st.one_of(st.none(), st.integers(0)),
    profile=TEXT, power_limit_w=NUMBER, slowdown_c=NUMBER, clock_max_mhz=NUMBER, link_gb_s=NUMBER,
    throttle=st.lists(TEXT, max_size=2).map(tuple), mine=st.booleans(), missing=st.lists(st.tuples(TEXT, TEXT), max_size=2).map(tuple),
)  # fmt: skip
ROWS = st.lists(ROW, max_size=6).map(tuple)
PANEL = st.builds(
    GpuPanel, subject=TEXT, origin=TEXT, rows=ROWS, sentence=TEXT, age_s=NUMBER, here=st.booleans(), window_s=NUMBER,
    everywhere=ROWS, counted=st.integers(0, 9999), bad=st.booleans(),
)  # fmt: skip
FLOATS = st.lists(FLOAT, max_size=8)
POINTS = FLOATS.map(lambda v: Points(tuple(float(i) for i in range(len(v))), tuple(v), tuple(v), tuple(v)))
CHART = st.builds(
    ChartView, key=st.sampled_from(["gpu_memory_mb", "link_gb_s", "x"]), title=TEXT, value=NUMBER, points=POINTS, note=TEXT,
    unit=st.sampled_from(["", "watts", "percent", "celsius"]), band=TEXT, axis=st.just("time"), limit=NUMBER, limit_word=TEXT,
    window=st.one_of(st.none(), st.tuples(FLOAT, FLOAT)), low=NUMBER, high=NUMBER, others=POINTS, stale_s=NUMBER,
)  # fmt: skip
PROCESS = st.builds(
    GpuProcess, pid=st.integers(0, 2**40), memory_mb=NUMBER, sm_percent=NUMBER, user=TEXT, command=TEXT,
    rank=st.one_of(st.none(), st.integers(0, 9999)), here=st.booleans(),
)  # fmt: skip
DETAIL = st.builds(
    GpuDetail, row=ROW, origin=TEXT, age_s=NUMBER, facts=st.lists(st.tuples(TEXT, TEXT, st.sampled_from([None, "critical", "warning"])), max_size=6).map(tuple),
    steady_mb=NUMBER, grown_mb=NUMBER, free_mb=NUMBER, steady_since=st.one_of(st.none(), st.integers(0)), outlook=TEXT,
    processes=st.lists(PROCESS, max_size=5).map(tuple), process_sentence=TEXT,
    throttle=st.lists(st.tuples(TEXT, st.booleans(), FLOAT), max_size=3).map(tuple), follows=st.lists(TEXT, max_size=3).map(tuple),
    siblings=ROWS,
)  # fmt: skip
HOST = st.builds(
    HostPanel, subject=TEXT, here=st.booleans(), origin=TEXT, age_s=NUMBER, sentence=TEXT,
    figures=st.lists(st.builds(HostFigure, title=TEXT, text=TEXT, health=HEALTH, share=NUMBER, spark=FLOATS.map(tuple), note=TEXT), max_size=6).map(tuple),
    links=st.lists(st.builds(LinkRow, name=TEXT, state=TEXT, health=HEALTH, gb_s=NUMBER, rate_gb_s=NUMBER, errors_per_min=NUMBER,
                             flaps=st.integers(0, 999), last_flap=NUMBER), max_size=6).map(tuple),
)  # fmt: skip


def fits(rows: list[Row], width: int, height: int) -> None:
    assert len(rows) <= height
    for row in rows:
        text = plain(row)
        assert sum(cell_len(char) for char in text) <= width, text
        assert not any(char < " " or "\x7f" <= char <= "\x9f" for char in text), repr(text)


DRAWINGS = {
    "gpus": st.tuples(PANEL, st.booleans(), st.booleans(), st.integers(0, 6)).map(
        lambda v: lambda w, h: draw_gpus(v[0], w, h, focused=v[1], everywhere=v[2], start=v[3], selected=v[3])
    ),
    "time chart": st.tuples(CHART, st.lists(st.builds(Span, FLOAT, NUMBER, st.just("critical")), max_size=2)).map(
        lambda v: lambda w, h: draw_chart(v[0], v[1], w, h)
    ),
    "head": DETAIL.map(lambda v: lambda w, h: draw_gpu_head(v, w, h)),
    "memory": st.tuples(DETAIL, st.booleans()).map(lambda v: lambda w, h: draw_memory(v[0], w, h, shapes=v[1])),
    "processes": DETAIL.map(lambda v: lambda w, h: draw_processes(v, w, h)),
    "follows": DETAIL.map(lambda v: lambda w, h: follows_rows(v, w)[:h]),
    "siblings": DETAIL.map(lambda v: lambda w, h: [draw_siblings(v, w)]),
    "facts": DETAIL.map(lambda v: lambda w, h: facts_rows(v, w)[:h]),
    "host": HOST.map(lambda v: lambda w, h: draw_host(v, w, h)),
    "network": HOST.map(lambda v: lambda w, h: draw_links(v, w, h)),
}


@pytest.mark.parametrize("name", sorted(DRAWINGS))
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), width=st.integers(1, 170), height=st.integers(1, 30))
def test_anything_fits_any_size(name: str, data: st.DataObject, width: int, height: int) -> None:
    fits(data.draw(DRAWINGS[name])(width, height), width, height)


@settings(max_examples=60, deadline=None)
@given(DETAIL)
def test_any_gpu_can_be_copied(detail: GpuDetail) -> None:
    assert detail_text(detail)


def lines(rows: list[Row]) -> list[str]:
    return [plain(row).rstrip() for row in rows]


def token_at(row: Row, text: str) -> str:
    return next(token for part, token in row if text in part)


# ---------------------------------------------------------------- the table


def test_every_state_of_a_gpu_says_what_it_is(story: ModuleType) -> None:
    panel = story.machines.states()
    rows = draw_gpus(panel, 110, 20)
    told = lines(rows)
    assert told[1].startswith(" ▲ the NVIDIA driver was updated under the running one")
    assert told[2].split() == ["gpu", "util", "%,", "10", "s", "memory", "GiB", "°C", "W", "MHz", "NVLink", "GB/s"]
    by_gpu = {row.split()[0]: row for row in told[3:]}
    assert by_gpu["1"].endswith("✗ 96 %") and by_gpu["2"].endswith("▲ thermal") and by_gpu["3"].endswith("✗ Xid 79")
    assert "GPU 3 is lost (Xid 79): it fell off the bus; drain the node" in by_gpu["3"] and "…" in by_gpu["3"]
    assert by_gpu["4"].split(maxsplit=1)[1].startswith("GPU 4 has not answered for 12 s; the others go on")
    assert by_gpu["6"].endswith("stale 30 s") and by_gpu["8"].endswith("▲ idle")
    assert by_gpu["9"].split().count("–") == 2
    assert by_gpu["9:5"].split()[:2] == ["9:5", "2g.20gb"]


def test_heat_is_coloured_at_the_cards_own_limit_and_others_gpus_are_dim(story: ModuleType) -> None:
    panel = story.machines.states()
    rows = draw_gpus(panel, 110, 20)[3:]
    assert token_at(rows[2], "87") == "warning+bold"
    assert token_at(rows[3], "GPU 3 is lost") == "critical"
    assert {token for part, token in rows[7] if part.strip()} <= {"muted", "faint"}
    cool = replace(panel.rows[0], temperature_c=84.0)
    assert heat_colour(cool) == "" and heat_colour(replace(cool, temperature_c=85.0)) == "warning"
    assert heat_colour(replace(cool, temperature_c=95.0, slowdown_c=None)) == ""


def test_a_full_card_alone_is_no_alarm(story: ModuleType) -> None:
    full = replace(story.machines.states().rows[0], memory_mb=79.0 * 1024, word="99 %")
    assert memory_colour(full) == ""
    assert memory_colour(replace(full, health="critical")) == "critical"
    assert memory_colour(replace(full, health="critical", word="Xid 79")) == ""
    assert memory_colour(replace(full, state="")) == "critical", "a log's figures have their level alone"


def test_all_nodes_are_listed_worst_first_with_their_node(story: ModuleType) -> None:
    rows = lines(draw_gpus(story.machines.everywhere(), 160, 12, everywhere=True))
    assert rows[0].startswith(" GPUs  64 of 8 nodes, worst first ─")
    assert rows[2].startswith(" ✗ worker-2 gpu3") and rows[3].startswith(" ▲ worker-5 gpu6")
    assert "rank" in rows[1] and "NVLink GB/s" in rows[1]


def test_figures_of_logs_have_no_window_and_no_live(story: ModuleType) -> None:
    rows = lines(draw_gpus(story.machines.logged_gpus(), 79, 10))
    assert rows[0].endswith("from the log") and "live" not in rows[0]
    assert rows[1].startswith(" gpu  util %   ")


def test_ten_and_more_gpus_keep_their_numbers_where_it_is_narrow(story: ModuleType) -> None:
    row = story.machines.states().rows[0]
    panel = GpuPanel("n", "NVML", tuple(replace(row, index=n, label=str(n)) for n in range(16)))
    assert [text.split()[0] for text in lines(draw_gpus(panel, 40, 20))[1:]] == [str(n) for n in range(16)]


@pytest.mark.parametrize(("gb_s", "text"), [(None, "–"), (0.0, "0"), (0.02, "0.02"), (9.5, "9.5"), (148.4, "148")])
def test_link_speeds_are_short(gb_s: float | None, text: str) -> None:
    assert link_text(gb_s) == text


# ---------------------------------------------------------------- one GPU


def test_the_page_of_a_gpu_at_160(story: ModuleType) -> None:
    detail = story.machines.gpu_detail()
    assert lines(draw_gpu_head(detail, 160, 2)) == [
        " NVIDIA A100-SXM4-80GB   rank 19   PCI 0000:87:00.0   driver 550.90.07   ECC on, 0 uncorrected   Xid none"
        "   retired pages 0" + " " * 32 + "NVML"
    ]
    memory = lines(draw_memory(detail, 79, 5))
    assert memory[0].startswith(" memory by owner  76.8 of 80 GiB ─") and memory[0].endswith("─ full in ≈ 4 min")
    assert memory[2:] == [
        " steady since step 40   67.2 GiB",
        " grown since step 880    9.6 GiB",
        " free                    3.2 GiB",
    ]
    gauge = draw_memory(detail, 79, 5)[1]
    assert sum(len(part) for part, token in gauge if token.startswith("data")) == round(77 * 67.2 / 80)
    processes = lines(draw_processes(detail, 80, 5))
    assert processes[2].split() == ["41,207", "76.5", "97", "maria", "rank", "19", "·", "python", "train/sft.py"]
    assert processes[4] == " throttle reasons   ● none now   power cap 0 s   thermal 0 s   hardware 0 s"
    assert "  ▌✗ 3 76.8    ● 4 66.3" in plain(draw_siblings(detail, 160))


def test_a_process_of_another_namespace_says_so(story: ModuleType) -> None:
    away = GpuProcess(977, 1024.0, None, here=False)
    rows = lines(draw_processes(replace(story.machines.gpu_detail(), processes=(away,)), 80, 4))
    assert rows[2].endswith("not in this namespace") and rows[2].split()[:3] == ["977", "1.0", "–"]


def test_throttling_by_heat_is_told_and_a_power_cap_is_no_alarm(story: ModuleType) -> None:
    detail = story.machines.gpu_detail()
    hot = replace(detail, throttle=(("power cap", True, 40.0), ("thermal", True, 12.0), ("hardware", False, 0.0)))
    assert "▲ power cap, thermal now" in plain(draw_processes(hot, 90, 5)[4])
    capped = replace(detail, throttle=(("power cap", True, 40.0), ("thermal", False, 0.0)))
    assert "● power cap now" in plain(draw_processes(capped, 90, 5)[4])


def test_parts_of_memory_differ_without_colour(story: ModuleType) -> None:
    text = plain(draw_memory(story.machines.gpu_detail(), 40, 5, shapes=True)[1])
    assert "█" in text and "▒" in text and "·" in text


# ---------------------------------------------------------------- charts over time


def test_a_chart_over_time_has_clock_ticks_and_its_limit(story: ModuleType) -> None:
    detail = story.machines.gpu_detail()
    rows = draw_chart(detail.charts[0], detail.spans, 53, 12, loud="critical")
    told = lines(rows)
    assert told[0].startswith(" memory  76.8 GiB of 80 ─") and told[0].endswith("faint: other 7 GPUs")
    assert token_at(rows[0], "76.8 GiB") == "critical+bold"
    assert told[1].count("╌") > 40 and token_at(rows[1], "╌╌").split("+")[0] == "critical"
    assert told[-1].split() == ["10:40", "10:50", "11:00", "11:10"]
    heat = lines(draw_chart(detail.charts[3], (), 53, 12))
    assert heat[0].startswith(" temperature  72 °C ─") and heat[0].endswith("─ slows at 85")
    clock = lines(draw_chart(detail.charts[4], (), 53, 12))
    assert clock[0].startswith(" SM clock  1,410 MHz of 1,410 ─") and clock[0].endswith("─ never throttled")
    util = lines(draw_chart(detail.charts[1], (), 53, 12))
    assert [row.split("┤")[0].strip() for row in util if "┤" in row] == ["100", "75", "50", "25", "0"]


@settings(max_examples=200, deadline=None)
@given(st.floats(0, 4e9), st.floats(0, 4e7))
def test_the_window_holds_both_ends_and_its_ticks_lie_in_it(first: float, span: float) -> None:
    x0, x1 = time_window(first, first + span)
    assert x0 <= first and first + span <= x1 + 1e-3
    ticks = time_ticks(x0, x1, 60)
    assert all(x0 - 1e-3 <= at <= x1 + 1e-3 for at, _ in ticks) and len(ticks) <= 16


def test_the_axis_stands_still_while_time_goes_on() -> None:
    windows = [time_window(1_700_000_000.0, 1_700_000_000.0 + second) for second in range(3600)]
    assert len(set(windows)) <= 15


def test_a_fixed_range_is_kept_and_what_leaves_it_widens_it() -> None:
    points = Points((0.0, 10.0), (5.0, 5.0), (5.0, 5.0), (5.0, 5.0))
    chart = ChartView("u", "u", points=points, axis="time", low=0.0, high=100.0)
    scale = fit_time(chart, 9)
    assert scale is not None and [value for _, value in scale.ticks()] == [0.0, 25.0, 50.0, 75.0, 100.0]
    wild = replace(chart, points=Points((0.0, 10.0), (5.0, 180.0), (5.0, 180.0), (5.0, 180.0)))
    wider = fit_time(wild, 9, scale)
    assert wider is not None and wider.top >= 180.0 and fit_time(chart, 9, wider) == wider


# ---------------------------------------------------------------- the host


def test_the_host_in_a_fixed_order_and_what_is_wrong_stays_longest(story: ModuleType) -> None:
    host = story.machines.host()
    rows = lines(draw_host(host, 99, 9))
    assert [row[3:14].split("  ")[0].strip() for row in rows[1:]] == [
        "CPU", "memory", "/dev/shm", "/runs", "/mnt/data", "disk nvme0n", "network", "open files"
    ]  # fmt: skip
    assert "▲ /runs" in rows[4] and "✗ /mnt/data" in rows[5] and "does not answer  no answer for 40 s" in rows[5]
    few = lines(draw_host(host, 99, 4))
    assert [row[1] for row in few[1:]] == ["▲", "▲", "✗"] and "3 of 8" in few[0]


def test_an_unknown_host_says_how_to_know_it() -> None:
    rows = lines(
        draw_host(
            HostPanel("n1", sentence="nothing is known of the machine of n1: `trainmon agent` there would tell"), 60, 4
        )
    )
    assert rows[0].startswith(" host  n1 ─") and "trainmon agent" in " ".join(rows)


def test_links_have_their_errors_and_flaps(story: ModuleType) -> None:
    rows = lines(draw_links(story.machines.host(), 99, 9))
    assert rows[1].split() == ["port", "state", "GB/s", "errors/min", "flaps", "last", "flap"]
    assert rows[2].split() == ["✗", "mlx5_4", "active", "12", "of", "50", "1,840", "3", "11:08:52"]
    assert rows[7].split() == ["○", "eth1", "down", "–", "–", "0", "–"]
    assert "errors/min" not in lines(draw_links(story.machines.host(), 40, 9))[1]


def test_the_smallest_screen_names_the_gpu_that_is_ill(story: ModuleType) -> None:
    def fact(panel: GpuPanel) -> str:
        snapshot = replace(story.alert(), gpus=panel)
        return next(row for row in lines(draw_facts(snapshot, 40, 9)) if row.startswith(" GPU"))

    states = story.machines.states()
    assert fact(states) == " GPU    ▲ the NVIDIA driver was update…"
    assert fact(replace(states, bad=False, sentence="")) == " GPU    ✗ gpu3 Xid 79"
    assert fact(replace(states, bad=False, rows=states.rows[:3])) == " GPU    ▲ gpu2 thermal"
    assert fact(replace(states, bad=False, rows=states.rows[:2])).endswith("96 %")
    assert fact(GpuPanel(sentence="no NVIDIA driver here")) == " GPU    no NVIDIA driver here"


@pytest.mark.parametrize("note", ["", "unified"])
@pytest.mark.parametrize("width", range(46, 160))
def test_no_head_of_a_column_touches_the_next(width: int, note: str) -> None:
    row = GpuRow("node-a", 0, 97.0, 68.5 * 1024, 79.6 * 1024, 66.0, 642.0, 1755.0, memory_note=note, key="k", label="0")
    panel = GpuPanel("node-a", "NVML", (row,), here=True, window_s=10.0)
    found = heads(panel, panel.rows, Columns(panel, panel.rows, width, False))
    for (at, text), (behind, _) in pairwise(found):
        assert at + cell_len(text) < behind, (width, found)


@pytest.mark.parametrize("width", [46, 80, 100, 160])
def test_a_panel_of_one_row_says_why_it_is_empty(width: int) -> None:
    sentence = "no NVIDIA driver library in this container (libnvidia-ml.so.1): start it with `--gpus all` if it is to have GPUs"
    panel = GpuPanel("node-a", "NVML", (), sentence, here=True)
    assert "no NVIDIA" in plain(draw_gpus(panel, width, 1)[0])
