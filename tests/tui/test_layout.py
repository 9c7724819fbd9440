"""The layout is arithmetic: whatever the size, panels lie apart, inside, and are counted when they go."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainmon.tui.layout import COUNTED, ZOOMS, Facts, plan

facts = st.builds(
    Facts,
    gpus=st.integers(0, 64),
    nodes=st.integers(0, 1024),
    metrics=st.integers(0, 20),
    errors=st.booleans(),
    empty=st.booleans(),
    third=st.booleans(),
    sources=st.integers(0, 50),
    charts=st.integers(0, 2),
    incident=st.booleans(),
    quiet=st.booleans(),
    host=st.integers(0, 12),
    links=st.integers(0, 12),
    everywhere=st.integers(0, 256),
)


@given(st.integers(1, 260), st.integers(1, 90), facts, st.sampled_from([None, *ZOOMS]))
def test_panels_never_overlap_and_never_leave_the_screen(width, height, what, zoom):
    placed = list(plan(width, height, what, zoom).places.items())
    assert placed
    for i, (name, rect) in enumerate(placed):
        assert rect.width > 0 and rect.height > 0, name
        assert rect.x >= 0 and rect.x + rect.width <= width, name
        assert rect.y >= 0 and rect.y + rect.height <= height, name
        for other, second in placed[i + 1 :]:
            assert not rect.overlaps(second), (name, other)


@given(st.integers(60, 260), st.integers(13, 90), facts)
def test_every_panel_is_shown_or_counted(width, height, what):
    if what.empty:
        return
    laid = plan(width, height, what)
    band = "errors" if what.errors else "events"
    assert band in laid.places
    for name in COUNTED:
        if name in ("errors", "events") and name != band:
            continue
        if (name == "lr" and (width < 80 or what.charts < 2)) or (name == "nodes" and not what.gpus and what.nodes < 2):
            continue
        if name == "nodes" and "host" in laid.places and what.solo:
            continue
        if name == "metrics" and not what.metrics:
            continue
        assert (name in laid.places) != (name in laid.hidden), name


@given(st.integers(1, 260), st.integers(1, 90), facts)
def test_status_and_alert_stay_on_top(width, height, what):
    places = plan(width, height, what).places
    assert places["status"].y == 0
    if height >= 3:
        assert places["alert"].y == 1 and places["alert"].width == width
    if width >= 60 and height >= 13:
        assert places["footer"].y == height - 1
        if not what.empty:
            assert places["last"].y == height - 2


@given(st.integers(1, 260), st.integers(1, 90), facts)
def test_an_error_changes_only_the_last_band(width, height, what):
    def top(errors: bool) -> dict:
        now = Facts(what.gpus, what.nodes, what.metrics, errors, what.empty, what.third)
        keep = ("status", "alert", "loss", "lr", "metrics", "gpus", "nodes", "facts", "last", "footer")
        return {k: v for k, v in plan(width, height, now).places.items() if k in keep}

    before, after = top(False), top(True)
    if height < 50:
        assert before == after


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ((160, 45), {"loss", "lr", "metrics", "gpus", "nodes", "events", "log"}),
        ((120, 35), {"loss", "lr", "metrics", "gpus", "nodes", "events"}),
        ((100, 30), {"loss", "lr", "metrics", "gpus", "nodes", "events"}),
        ((80, 24), {"loss", "lr", "metrics", "gpus", "nodes", "events"}),
        ((60, 20), {"loss", "metrics", "gpus", "nodes", "events"}),
        ((40, 12), {"facts"}),
        ((30, 8), {"facts"}),
    ],
)
def test_named_sizes(size, expected):
    laid = plan(*size, Facts())
    assert set(laid.places) - {"status", "alert", "last", "footer"} >= expected
    assert not laid.hidden


def test_the_classic_terminal_keeps_eight_nodes():
    places = plan(80, 24, Facts()).places
    assert places["nodes"].height == 9
    assert places["loss"].height == 8
    assert places["events"].height == 2


def test_what_does_not_fit_is_named():
    assert plan(80, 13, Facts()).hidden == ("metrics",)
    assert set(plan(100, 8, Facts()).hidden) == {"loss", "lr", "metrics", "gpus", "nodes", "events"}
    assert plan(40, 12, Facts()).hidden == ()


def test_of_one_node_the_host_stands_beside_the_gpus():
    places = plan(160, 45, Facts(nodes=1, host=8)).places
    assert places["host"].y == places["gpus"].y and "nodes" not in places
    assert "nodes" in plan(160, 45, Facts(nodes=2, host=8)).places
    assert "nodes" in plan(160, 45, Facts(nodes=1)).places, "nothing is known of the host yet"
    assert plan(120, 40, Facts(gpus=0, nodes=1, host=8)).places["host"].height >= 3, "a machine without GPUs"


def test_full_screen_gpus_leave_room_for_their_host():
    places = plan(160, 45, Facts(host=8, links=6), "gpus").places
    assert places["gpus"].height == 11 and places["host"].height == 9
    assert places["network"].y == places["host"].y
    many = plan(160, 45, Facts(host=8, everywhere=256), "gpus").places
    assert many["gpus"].height > 2 * many["host"].height
    assert set(plan(40, 12, Facts(host=8), "gpus").places) & {"host", "network"} == set()


def test_a_wide_screen_has_the_network_below_the_gpus():
    places = plan(200, 60, Facts(host=8, links=6)).places
    assert places["network"].x == places["gpus"].x and places["network"].y >= places["gpus"].y + places["gpus"].height
    assert places["host"].x == places["nodes"].x and places["host"].y == places["network"].y
    many = plan(200, 60, Facts(nodes=256, host=8, links=6)).places
    assert many["network"].y + many["network"].height == many["nodes"].y + many["nodes"].height
    assert "network" not in plan(199, 60, Facts(host=8, links=6)).places
