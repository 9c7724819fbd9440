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
