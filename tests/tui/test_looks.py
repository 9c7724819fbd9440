"""What the overview looks like, compared with pictures that were looked at. `pytest --snapshot-update` makes new ones."""

from __future__ import annotations

import pytest

from trainmon.tui.app import TrainmonApp

SIZES = [(160, 45), (80, 24), (40, 12), (30, 8)]


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("phase", ["healthy", "alert", "failed", "empty"])
def test_overview(snap_compare, still, phase, size):
    assert snap_compare(TrainmonApp(still(phase)), terminal_size=size)


@pytest.mark.parametrize("palette", ["light", "ansi16", "mono"])
def test_other_colours(snap_compare, still, palette):
    assert snap_compare(TrainmonApp(still("failed"), palette=palette), terminal_size=(120, 35))


def test_ascii(snap_compare, still):
    assert snap_compare(TrainmonApp(still("alert"), palette="mono", ascii=True), terminal_size=(100, 30))


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("why", ["enter"]),
        ("error", ["5", "enter"]),
        ("help", ["question_mark"]),
        ("palette", ["colon", "m"]),
        ("errors-focused", ["j"]),
        ("sources", ["colon", "s", "o", "u", "enter"]),
    ],
)
def test_pages(snap_compare, still, name, keys):
    assert snap_compare(TrainmonApp(still("failed")), press=keys, terminal_size=(100, 32))


@pytest.mark.parametrize("size", [(160, 45), (80, 24), (40, 12)], ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize(
    ("name", "phase", "keys"),
    [("gpu", "alert", ["3", "enter"]), ("gpus", "alert", ["3"]), ("states", "gallery", ["3"])],
)
def test_gpus(snap_compare, still, name, phase, keys, size):
    assert snap_compare(TrainmonApp(still(phase)), press=keys, terminal_size=size)


@pytest.mark.parametrize("size", [(160, 45), (80, 24)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_one_node_with_its_host(snap_compare, still, size):
    assert snap_compare(TrainmonApp(still("solo")), terminal_size=size)


def test_a_wide_screen_with_host_and_network(snap_compare, still):
    assert snap_compare(TrainmonApp(still("alert")), terminal_size=(200, 60))


@pytest.mark.parametrize("palette", ["light", "ansi16", "mono"])
def test_the_gpu_page_in_other_colours(snap_compare, still, palette):
    assert snap_compare(TrainmonApp(still("alert"), palette=palette), press=["3", "enter"], terminal_size=(120, 35))


def test_the_gpu_page_in_ascii(snap_compare, still):
    app = TrainmonApp(still("alert"), palette="mono", ascii=True)
    assert snap_compare(app, press=["3", "enter"], terminal_size=(100, 32))
