"""The page of a GPU and the GPUs full screen, driven by their keys; and where their parts lie."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainmon.tui.app import TrainmonApp
from trainmon.tui.gpu import GpuPage
from trainmon.tui.gpulayout import Content, gpu_plan
from trainmon.tui.log import LogPage
from trainmon.tui.overview import Overview

OPEN = ["3", "enter"]


def shown_on(app: TrainmonApp) -> str:
    """What the page on top shows, row by row, of the widgets that are placed."""
    rows = []
    for widget in app.screen.query("*"):
        if widget.size and widget.region.area and hasattr(widget, "rows_text"):
            rows += [row.rstrip() for row in widget.rows_text()]
    return "\n".join(rows)


def detail_of(snapshot, number: int):
    """The page of another GPU of the story."""
    row = snapshot.gpu.siblings[number]
    return replace(snapshot.gpu, row=row, facts=(("rank", str(row.rank), None),))


async def test_enter_on_a_row_opens_its_gpu_and_q_comes_back(still):
    session = still("alert")
    app = TrainmonApp(session)
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.press(*OPEN)
        await pilot.pause()
        assert isinstance(app.screen, GpuPage)
        assert ("gpu", "GPU-2-3") in session.said
        text = shown_on(app)
        for word in ("worker-2", "GPU 3", "NVIDIA A100-SXM4-80GB", "memory  76.8 GiB of 80", "slows at 85", "11:10",
                     "grown since step 880", "python train/sft.py", "what follows", "this node"):  # fmt: skip
            assert word in text, word
        await pilot.press("q")
        await pilot.pause()
        assert isinstance(app.screen, Overview)
        assert session.said[-1] == ("gpu", None)


async def test_brackets_go_to_the_neighbours_and_round(still):
    session = still("alert")
    app = TrainmonApp(session)
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.press(*OPEN)
        await pilot.pause()
        await pilot.press("right_square_bracket")
        assert session.said[-1] == ("gpu", "GPU-2-4")
        session.put(replace(session.snapshot, gpu=detail_of(session.snapshot, 4)))
        await pilot.pause(0.3)
        text = shown_on(app)
        assert "GPU 4" in text and "rank 20" in text
        for _ in range(5):
            await pilot.press("left_square_bracket")
        assert session.said[-1] == ("gpu", "GPU-2-7")


async def test_what_belongs_to_another_gpu_is_not_shown_as_this_one(still):
    session = still("alert")
    app = TrainmonApp(session)
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.press("3", "j", "enter")
        await pilot.pause()
        text = shown_on(app)
        assert "no figures of this GPU yet" in text and "grown since step" not in text


async def test_l_opens_the_log_of_the_rank(still, tmp_path):
    log = tmp_path / "worker-2.log"
    log.write_text("step=1 loss=2.0\n" * 40)
    app = TrainmonApp(still("alert", {2: log}))
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.press(*OPEN)
        await pilot.pause()
        assert ("l", "log of rank 19") in app.screen.footer_keys()
        await pilot.press("l")
        await pilot.pause()
        assert isinstance(app.screen, LogPage)
        assert app.screen.source == 2


async def test_without_a_log_l_says_so(still):
    session = still("alert")
    session.snapshot = replace(session.snapshot, gpu=replace(session.snapshot.gpu, log_source=None))
    app = TrainmonApp(session)
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.press(*OPEN)
        await pilot.pause()
        await pilot.press("l")
        await pilot.pause()
        assert "no log is known" in shown_on(app)


async def test_y_copies_the_page_as_text(still, tmp_path):
    app = TrainmonApp(still("alert"))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press(*OPEN)
        await pilot.pause()
        what, text = app.screen.copied()
    assert what == "GPU 3 of worker-2"
    assert "memory: 76.8 of 80 GiB, 96 %" in text and "pid 41207" in text and "1. memory grew on this GPU only" in text


async def test_what_does_not_fit_is_reached_by_scrolling(still):
    app = TrainmonApp(still("alert"))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press(*OPEN)
        await pilot.pause()
        page = app.screen
        assert isinstance(page, GpuPage) and page.now_laid().more
        assert "chart0" in page.now_laid().places and "chart6" not in page.now_laid().places
        await pilot.press("G")
        await pilot.pause(0.2)
        assert "chart6" in page.now_laid().places
        assert "step time  3.41 s" in shown_on(app)
        await pilot.press("g")
        await pilot.pause(0.2)
        assert page.first == 0 and "memory  76.8 GiB" in shown_on(app)


@pytest.mark.parametrize("size", [(40, 12), (30, 8)])
async def test_on_a_small_screen_the_page_is_facts(still, size):
    app = TrainmonApp(still("alert"))
    async with app.run_test(size=size) as pilot:
        row = app.snapshot.gpus.rows[3]
        app.open_gpu(row)
        await pilot.pause(0.2)
        text = shown_on(app)
        assert "76.8 of 80 GiB, 96 %" in text and "72 °C" in text
        await pilot.press("G")
        await pilot.pause(0.2)
        assert "checkpoint-1000" in shown_on(app) or "loses 120" in shown_on(app)


async def test_a_terminal_that_grows_and_shrinks_changes_the_form_of_the_page(still):
    app = TrainmonApp(still("alert"))
    async with app.run_test(size=(40, 12)) as pilot:
        app.open_gpu(app.snapshot.gpus.rows[3])
        await pilot.pause(0.2)
        assert "slows at 85" in shown_on(app) and "memory by owner" not in shown_on(app)
        await pilot.resize_terminal(160, 45)
        await pilot.pause(0.3)
        text = shown_on(app)
        assert "memory by owner" in text and "11:10" in text and "SM clock  1,410 MHz" in text
        await pilot.resize_terminal(30, 8)
        await pilot.pause(0.3)
        assert "memory by owner" not in shown_on(app) and "97 %" in shown_on(app)


async def test_a_lost_gpu_says_what_to_do_in_place_of_figures(still):
    session = still("gallery")
    lost = session.snapshot.gpus.rows[3]
    session.snapshot = replace(
        session.snapshot, gpu=replace(session.snapshot.gpu, row=lost, follows=(lost.note,), processes=(), charts=())
    )
    app = TrainmonApp(session)
    async with app.run_test(size=(40, 12)) as pilot:
        app.open_gpu(lost)
        await pilot.pause(0.2)
        assert "drain the node" in " ".join(shown_on(app).split())


async def test_a_gpu_that_goes_keeps_its_last_figures_and_says_so(still):
    session = still("alert")
    app = TrainmonApp(session)
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.press(*OPEN)
        await pilot.pause()
        session.put(replace(session.snapshot, gpu=None))
        await pilot.pause(0.3)
        text = shown_on(app)
        assert "not known any more" in text and "grown since step 880" in text


async def test_all_gpus_then_one_node_then_all_again(still):
    session = still("alert")
    app = TrainmonApp(session)
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.press("3")
        await pilot.pause()
        assert "64 of 8 nodes, worst first" in shown_on(app) and "/mnt/data" in shown_on(app)
        await pilot.press("right_square_bracket")
        await pilot.pause()
        assert session.said[-1] == ("node", "worker-3")
        assert "64 of 8 nodes" not in shown_on(app)
        await pilot.press("3")
        await pilot.pause()
        assert "64 of 8 nodes, worst first" in shown_on(app)


async def test_the_selection_stays_on_its_gpu_when_the_order_changes(still):
    session = still("alert")
    app = TrainmonApp(session)
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.press("3", "j")
        await pilot.pause()
        table = app.screen.gpus
        assert table.current.key == "GPU-5-6"
        panel = session.snapshot.gpus
        session.put(replace(session.snapshot, gpus=replace(panel, everywhere=panel.everywhere[::-1])))
        await pilot.pause(0.3)
        assert table.current.key == "GPU-5-6"


async def test_one_nodes_host_stands_beside_its_gpus(still):
    app = TrainmonApp(still("solo"))
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.pause()
        places = app.screen.now_laid().places
        assert "host" in places and "nodes" not in places and "nodes" not in app.screen.now_laid().hidden
        assert places["host"].y == places["gpus"].y
        assert "472.0 of 504 GiB" in shown_on(app)


@pytest.mark.parametrize(
    ("typed", "said", "words"), [("release", "release", "NVML let go"), ("resume", "resume", "again")]
)
async def test_the_palette_lets_the_gpus_go_and_takes_them_back(still, typed, said, words):
    session = still("alert")
    app = TrainmonApp(session)
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.press("colon", *typed, "enter")
        await pilot.pause(0.2)
        assert (said, None) in session.said
        assert words in shown_on(app)


content = st.builds(
    Content, charts=st.integers(0, 9), head=st.integers(1, 3), memory=st.integers(0, 5), processes=st.integers(0, 15),
    follows=st.integers(0, 9), siblings=st.booleans(),
)  # fmt: skip


@given(st.integers(1, 260), st.integers(1, 90), content, st.integers(0, 9))
def test_parts_of_the_page_lie_apart_and_inside(width, height, what, first):
    laid = gpu_plan(width, 2, height, what, first)
    placed = list(laid.places.items())
    for i, (name, rect) in enumerate(placed):
        assert rect.width > 0 and rect.height > 0, name
        assert rect.x >= 0 and rect.x + rect.width <= width, name
        assert rect.y >= 2 and rect.y + rect.height <= 2 + height, name
        for other, second in placed[i + 1 :]:
            assert not rect.overlaps(second), (name, other)


@given(st.integers(60, 260), st.integers(13, 90), content)
def test_every_part_is_reached_by_scrolling(width, height, what):
    last = gpu_plan(width, 2, height, what).last
    seen = set()
    for first in range(last + 1):
        seen |= set(gpu_plan(width, 2, height, what, first).places)
    wanted = {f"chart{n}" for n in range(what.charts)}
    wanted |= {name for name in ("memory", "processes", "follows") if getattr(what, name)}
    assert wanted <= seen


def test_six_charts_and_all_text_at_160_by_45():
    laid = gpu_plan(160, 2, 42, Content(charts=6))
    assert {f"chart{n}" for n in range(6)} | {"head", "memory", "processes", "follows", "siblings"} == set(laid.places)
    assert laid.places["chart0"].height == 12 and not laid.more and not laid.last


async def test_before_the_first_line_the_machines_gpus_are_there(still):
    session = still("empty")
    session.snapshot = replace(session.snapshot, gpus=still("solo").snapshot.gpus)
    app = TrainmonApp(session)
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.pause(0.2)
        text = shown_on(app)
        assert "sources" in text and "76.8" in text and "worker-2, this host" in text
        await pilot.resize_terminal(80, 12)
        await pilot.pause(0.2)
        assert "76.8" not in shown_on(app) and "no file yet" in shown_on(app)
