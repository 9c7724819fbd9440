"""The screen driven by its keys, over a session that stands still."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trainmon.snapshot import Snapshot
from trainmon.tui.app import TrainmonApp
from trainmon.tui.help import HelpPage
from trainmon.tui.lists import ListPage
from trainmon.tui.overview import Overview
from trainmon.tui.why import WhyPage


def text_of(app: TrainmonApp) -> str:
    """What the page on top shows, row by row, of the widgets that are placed."""
    rows = []
    for widget in app.screen.query("*"):
        if widget.size and hasattr(widget, "rows_text"):
            rows += [row.rstrip() for row in widget.rows_text()]
    return "\n".join(rows)


async def test_q_on_the_overview_quits_with_zero(still):
    app = TrainmonApp(still("healthy"))
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.press("q")
    assert app.exit_code == 0
    assert app.return_value == 0


async def test_ctrl_c_quits_at_once_with_130_even_while_typing(still):
    app = TrainmonApp(still("healthy"))
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.press("colon", "m", "ctrl+c")
    assert app.return_value == 130


async def test_escape_never_quits(still):
    app = TrainmonApp(still("alert"))
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.press("2", "escape", "escape", "tab", "escape", "escape")
        assert app.return_value is None
        assert isinstance(app.screen, Overview)
        assert app.screen.zoom is None


async def test_enter_on_the_strip_opens_why_and_q_comes_back(still):
    app = TrainmonApp(still("alert"))
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.press("enter")
        assert isinstance(app.screen, WhyPage)
        shown = text_of(app)
        assert "NEAR OOM" in shown and "worker-2 gpu3" in shown and "fix" in shown
        await pilot.press("right_square_bracket")
        await pilot.pause()
        assert "worker-5" in text_of(app)
        await pilot.press("q")
        assert isinstance(app.screen, Overview)


async def test_an_error_tells_its_fix_its_cause_and_its_place(still):
    app = TrainmonApp(still("failed"))
    async with app.run_test(size=(100, 40)) as pilot:
        await pilot.press("5", "enter")
        await pilot.pause()
        shown = text_of(app)
    error = app.snapshot.errors[0]
    assert error.code in shown and error.place in shown
    assert error.fixes[0].split(";")[0] in shown
    assert error.raw[:40] in shown


async def test_digits_lead_to_the_views_from_anywhere(still):
    app = TrainmonApp(still("failed"))
    async with app.run_test(size=(100, 30)) as pilot:
        for key, zoom in (("2", "charts"), ("3", "gpus"), ("4", "nodes"), ("5", "errors"), ("1", None)):
            await pilot.press("question_mark")
            assert isinstance(app.screen, HelpPage)
            await pilot.press(key)
            await pilot.pause()
            assert isinstance(app.screen, Overview)
            assert app.screen.zoom == zoom


async def test_tab_goes_round_the_panels_and_back(still):
    app = TrainmonApp(still("failed"))
    async with app.run_test(size=(160, 45)) as pilot:
        seen = []
        ring = app.screen.ring()
        for _ in ring:
            await pilot.press("tab")
            seen.append(app.focused)
        assert seen == [*ring[1:], ring[0]]
        await pilot.press("shift+tab")
        assert app.focused is ring[-1]


async def test_arrows_choose_the_errors_first_and_enter_opens_the_chosen(still):
    app = TrainmonApp(still("failed"))
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.press("j", "j")
        assert app.focused is app.screen.errors
        chosen = app.screen.errors.current
        await pilot.press("enter")
        assert app.screen.subject == chosen
        await pilot.press("escape", "e")
        assert app.screen.errors.current != chosen


async def test_alerts_are_acknowledged_and_muted(still):
    session = still("alert")
    app = TrainmonApp(session)
    first = session.snapshot.alerts[0].id
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.press("a", "M")
        assert session.said == [("acknowledge", first), ("mute", first)]
        muted = tuple(replace(a, state="muted") if a.id == first else a for a in session.snapshot.alerts)
        session.put(replace(session.snapshot, alerts=muted))
        await pilot.pause()
        while app.screen.strip.current.id != first:
            await pilot.press("right_square_bracket")
        await pilot.press("M")
        assert session.said[-1] == ("unmute", first)


async def test_without_alerts_a_and_m_say_so(still):
    session = still("healthy")
    app = TrainmonApp(session)
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.press("a")
        assert "no alert" in text_of(app)
        assert not session.said


async def test_the_age_of_an_alert_goes_on(still):
    session = still("alert")
    app = TrainmonApp(session)
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.pause()
        session.clock.advance(21 * 60.0)
        snapshot = session.snapshot
        session.put(replace(snapshot, run=replace(snapshot.run, step=(snapshot.run.step or 0) + 1)))
        await pilot.pause(0.3)
        assert " 20 m " in app.screen.strip.rows_text()[0]


async def test_enter_where_nothing_is_opens_what_the_strip_tells(still):
    app = TrainmonApp(still("alert"))
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.press("5")
        await pilot.pause()
        assert not app.snapshot.errors
        await pilot.press("enter")
        await pilot.pause()
        assert isinstance(app.screen, WhyPage)


async def test_nothing_moves_when_an_alert_comes_or_goes(still, story):
    session = still("healthy")
    app = TrainmonApp(session)
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.pause()
        # The events alone make room for what to do: with the first alert of a run they take the rows of the log's tail.
        before = {w.id: w.region for w in app.screen.query("*") if w.size and w.id not in ("events", "log")}
        session.put(story.alert())
        await pilot.pause(0.1)
        assert "NEAR OOM" in text_of(app)
        after = {w.id: w.region for w in app.screen.query("*") if w.size}
        assert before == {name: region for name, region in after.items() if name not in ("events", "log")}
        session.put(story.healthy())
        await pilot.pause(0.1)
        assert before.items() <= {w.id: w.region for w in app.screen.query("*") if w.size}.items()


async def test_a_fresh_critical_alert_rings_once_and_takes_no_focus(still, story):
    session = still("healthy")
    app = TrainmonApp(session)
    rung = []
    app.bell = lambda: rung.append(1)
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.press("tab", "tab")
        focused = app.focused
        loud = story.alert()
        fresh = tuple(replace(a, fresh=a.severity == "critical") for a in loud.alerts)
        session.put(replace(loud, alerts=fresh))
        await pilot.pause(0.1)
        assert app.flash_on
        session.put(replace(session.snapshot, alerts=tuple(replace(a, count=2) for a in fresh)))
        await pilot.pause(0.1)
        assert len(rung) == 1
        assert app.focused is focused


@pytest.mark.parametrize("how", ["no flash", "blurred"])
async def test_it_does_not_flash_when_told_or_out_of_sight(still, story, how):
    session = still("healthy")
    app = TrainmonApp(session, flash=how != "no flash")
    async with app.run_test(size=(100, 30)) as pilot:
        app.has_terminal_focus = how != "blurred"
        loud = story.alert()
        session.put(replace(loud, alerts=tuple(replace(a, fresh=True) for a in loud.alerts)))
        await pilot.pause(0.1)
        assert not app.flash_on


async def test_pause_holds_the_picture_and_counts_what_waits(still, story):
    session = still("healthy")
    app = TrainmonApp(session)
    async with app.run_test(size=(120, 35)) as pilot:
        await pilot.press("p")
        session.put(story.alert())
        await pilot.pause(0.1)
        shown = text_of(app)
        assert "842" in shown and "1,120" not in shown
        assert "2,254 waiting" in shown
        await pilot.press("p")
        await pilot.pause(0.1)
        assert "1,120" in text_of(app)


async def test_the_palette_runs_an_action_by_name(still):
    app = TrainmonApp(still("healthy"))
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.press("colon", *"quar")
        await pilot.pause()
        assert "quarantine" in app.screen.choices.rows_text()[1]
        await pilot.press("enter")
        await pilot.pause()
        assert isinstance(app.screen, ListPage)
        assert "none: every line" in text_of(app)
        await pilot.press("escape")
        assert isinstance(app.screen, Overview)


async def test_unreadable_lines_are_listed_with_their_reason(still):
    session = still("healthy")
    lines = (("worker-1.log", 17, "cut in the middle", '{"step": 12, "lo'),)
    session.put(replace(session.snapshot, quarantine=lines, counts=replace(session.snapshot.counts, quarantined=1)))
    app = TrainmonApp(session)
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.press("colon", *"quar", "enter")
        await pilot.pause()
        shown = text_of(app)
    assert "worker-1.log:17" in shown and "cut in the middle" in shown and '"step": 12' in shown


async def test_a_node_is_picked_by_typing(still):
    session = still("healthy")
    app = TrainmonApp(session)
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.press("r", *"ker-5", "enter")
        assert session.said == [("node", "worker-5")]
        await pilot.press("right_square_bracket")
        assert session.said[-1][0] == "node"
        await pilot.press("0")
        assert session.said[-1] == ("node", None)


async def test_search_in_a_panel_chooses_the_entry(still):
    app = TrainmonApp(still("healthy"))
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.press("tab", "tab", "tab", "tab", "slash", *"worker-6", "enter")
        await pilot.pause()
        assert app.focused is app.screen.nodes
        assert app.screen.nodes.current.name == "worker-6"
        await pilot.press("slash", "ctrl+u", *"nowhere", "enter")
        await pilot.pause()
        assert "not in this panel" in text_of(app)


async def test_help_is_searchable(still):
    app = TrainmonApp(still("healthy"))
    async with app.run_test(size=(100, 32)) as pilot:
        await pilot.press("question_mark", "slash", *"mute")
        await pilot.pause()
        shown = "\n".join(app.screen.body.rows_text())
        assert "mute until" in shown and "half a page" not in shown
        await pilot.press("escape")
        await pilot.pause()
        assert "half a page" in "\n".join(app.screen.body.rows_text())
        await pilot.press("question_mark", "q")
        assert isinstance(app.screen, Overview)


async def test_copy_goes_to_the_clipboard_and_a_file(still, tmp_path):
    app = TrainmonApp(still("failed"))
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.press("5", "y")
        await pilot.pause()
        assert "CUDA_OOM" in app.clipboard
    assert "CUDA_OOM" in (tmp_path / "state" / "trainmon" / "copied.txt").read_text()


@pytest.mark.parametrize(
    ("phase", "palette"), [("healthy", "dark"), ("alert", "light"), ("failed", "ansi16"), ("empty", "mono")]
)
async def test_every_size_shows_something_and_survives_keys(still, phase, palette):
    app = TrainmonApp(still(phase), palette=palette)
    async with app.run_test(size=(200, 60)) as pilot:
        for size in ((80, 24), (60, 20), (30, 8), (1, 1), (120, 35)):
            await pilot.resize_terminal(*size)
            await pilot.press("j", "z", "z", "question_mark", "q", "colon", "escape", "enter", "escape")
        await pilot.pause()
        assert text_of(app).strip()


async def test_ascii_means_ascii(still):
    app = TrainmonApp(still("failed"), palette="mono", ascii=True)
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.pause()
        strips = [
            strip
            for widget in app.screen.query("*")
            if widget.size
            for strip in widget.render_lines(widget.size.region)
        ]
        assert "".join(strip.text for strip in strips).isascii()


async def test_hidden_panels_are_counted_in_the_footer(still):
    app = TrainmonApp(still("healthy"))
    async with app.run_test(size=(100, 11)) as pilot:
        await pilot.pause()
        assert "hidden: z" in text_of(app)


async def test_an_empty_session_says_what_is_missing(still):
    app = TrainmonApp(still("empty"))
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.pause()
        shown = text_of(app)
        for source in app.snapshot.sources:
            assert source.name in shown and source.sentence in shown
        assert "drawn from the first value on" in shown


async def test_only_what_changed_is_shown_again(still):
    session = still("healthy")
    app = TrainmonApp(session)
    seen: list[frozenset[str]] = []
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.pause()
        show = app.screen.show
        app.screen.show = lambda snapshot, changed: (seen.append(changed), show(snapshot, changed))
        session.put(session.snapshot)
        await pilot.pause(0.1)
        assert seen == []
        session.put(replace(session.snapshot, last=replace(session.snapshot.last, text="step=843")))
        await pilot.pause(0.1)
        assert seen == [frozenset({"last"})]


def test_a_snapshot_is_all_that_the_overview_needs():
    assert Overview().facts.empty
    assert Snapshot().versions == {}


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("level mb", "74,599.0", ("level", "72.9 GiB")),
        ("slope mb per 100 steps", "4,105.8", ("slope", "4.0 GiB per 100 steps")),
        ("slope mb per min", "653", ("slope", "653 MiB a min")),
        ("level percent", "91.1", ("level", "91.1 %")),
        ("full in s", "597", ("full in", "9 m 57 s")),
        ("rule", "rising", ("rule", "rising")),
        ("trend tau", "1", ("trend tau", "1")),
        ("recovery action", "4", ("recovery action", "drain and reset")),
    ],
)
def test_numbers_of_a_rule_are_said_with_their_units(name, value, said):
    from trainmon.tui.why import worded

    assert worded(name, value) == said
