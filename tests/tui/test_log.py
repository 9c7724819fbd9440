"""The log page and its window: whatever the moves, it shows neighbours of the file, and the search sees all of it."""

from __future__ import annotations

import asyncio
import bisect
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainmon.snapshot import SourceView
from trainmon.tui.app import TrainmonApp
from trainmon.tui.finding import ERRORS, compile_pattern, level_of, nearest
from trainmon.tui.log import LogPage
from trainmon.tui.logview import Line, Window
from trainmon.tui.rawlines import shown


class ListReader:
    """Lines of a list, as a file would give them."""

    def __init__(self, texts: list[str]) -> None:
        self.lines: list[Line] = []
        self.replaced = False
        for text in texts:
            self.add(text)

    def add(self, text: str) -> None:
        at = self.lines[-1].end if self.lines else 0
        self.lines.append(Line(at, at + len(text) + 1, text))

    def _index(self, offset: int) -> int:
        return bisect.bisect_right([line.offset for line in self.lines], offset) - 1

    async def refresh(self) -> bool:
        return self.replaced

    async def size(self) -> int:
        return self.lines[-1].end if self.lines else 0

    async def forward(self, offset: int, count: int) -> list[Line]:
        if not self.lines or offset >= self.lines[-1].end:
            return []
        at = self._index(offset)
        return self.lines[at : at + count]

    async def backward(self, offset: int, count: int) -> list[Line]:
        end = len(self.lines) if not self.lines or offset >= self.lines[-1].end else self._index(offset)
        return self.lines[max(0, end - count) : end]


moves = st.lists(
    st.one_of(
        st.tuples(st.just("move"), st.integers(-60, 60)),
        st.tuples(st.just("end"), st.just(0)),
        st.tuples(st.just("start"), st.just(0)),
        st.tuples(st.just("jump"), st.integers(0, 400)),
        st.tuples(st.just("grow"), st.integers(1, 5)),
        st.tuples(st.just("resize"), st.integers(1, 30)),
    ),
    max_size=12,
)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 80), st.integers(1, 20), moves)
def test_the_window_always_shows_neighbours_and_is_full_when_it_can_be(count, height, steps):
    async def walk() -> None:
        reader = ListReader([f"line {n}" for n in range(count)])
        window = Window(reader, height)
        await window.to_end()
        for what, number in steps:
            before = window.chosen
            if what == "move":
                await window.move(number)
                if before is not None and not window.follow:
                    old, new = reader.lines.index(before), reader.lines.index(window.chosen)
                    assert new == max(0, min(len(reader.lines) - 1, old + number))
            elif what == "end":
                await window.to_end()
                assert window.chosen == (reader.lines[-1] if reader.lines else None)
            elif what == "start":
                await window.to_start()
                assert window.chosen == (reader.lines[0] if reader.lines else None)
            elif what == "jump":
                window.follow = False
                await window.to_offset(number)
                if reader.lines and number < reader.lines[-1].end:
                    assert window.chosen.offset <= number < window.chosen.end
            elif what == "grow":
                for extra in range(number):
                    reader.add(f"more {extra}")
                await window.refresh()
                if window.follow:
                    assert window.chosen == reader.lines[-1]
            else:
                await window.resize(number)
            if not reader.lines:
                assert window.lines == []
                continue
            first = reader.lines.index(window.lines[0])
            assert window.lines == reader.lines[first : first + len(window.lines)]
            assert len(window.lines) == min(window.height, len(reader.lines)) or what == "grow"
            assert 0 <= window.at < len(window.lines)

    asyncio.run(walk())


@given(st.binary(max_size=200))
def test_no_escape_sequence_survives(data):
    assert "\x1b[" not in shown(data)
    assert "\r" not in shown(data)


def test_a_progress_bar_shows_the_state_it_ended_with():
    assert shown(b" 1%|#  |\r 2%|## |\r") == " 2%|## |"
    assert shown(b"\x1b[31mred\x1b[0m\x1b]0;title\x07 text") == "red text"


@pytest.mark.parametrize(
    ("typed", "text", "hit"),
    [
        ("loss", "LOSS = 1", True),
        ("Loss", "loss = 1", False),
        ("step=1[0-9]", "step=17", True),
        ("(unclosed", "an (unclosed bracket", True),
        ("a+b", "a+b", False),
    ],
)
def test_what_is_typed_is_a_pattern_where_it_is_one(typed, text, hit):
    assert bool(compile_pattern(typed, words=True).search(text)) is hit


@pytest.mark.parametrize(
    "line",
    [
        "2025-04-05 10:00:00 ERROR something broke",
        "[rank3]: Traceback (most recent call last):",
        "torch.OutOfMemoryError: CUDA out of memory. Tried",
        "GLM_CKPT_LOAD failed",
        "NCCL WARN Call to ibv_modify_qp failed",
    ],
)
def test_errors_are_stops(line):
    assert compile_pattern(ERRORS, words=False).search(line)


@pytest.mark.parametrize("line", ["step 12 loss 2.0", "INFO no errors so far", "eval_error_rate=0.1"])
def test_ordinary_lines_are_no_stops(line):
    assert not compile_pattern(ERRORS, words=False).search(line)


def test_level_and_nearest():
    assert level_of("12:00 WARNING hot") == "WARN" and level_of("ValueError: x") == "ERROR" and level_of("ok") is None
    chosen = Line(100, 110, "")
    assert nearest(150, [120, 90], chosen, 1) == 120
    assert nearest(40, [120, 90], chosen, -1) == 90
    assert nearest(None, [], chosen, 1) is None


@pytest.fixture
def logged(still, tmp_path):
    """A session with one file of 3,000 lines, an error at line 1,500."""
    path = tmp_path / "worker-0.log"
    lines = [f"step={n} loss={4 - n / 1000:.3f}" for n in range(1, 3001)]
    lines[1499] = "RuntimeError: needle in the middle"
    path.write_text("\n".join(lines) + "\n")
    session = still("healthy", {0: path})
    view = SourceView(0, "worker-0.log", str(path), "followed", "", size=path.stat().st_size, lines=3000)
    session.snapshot = replace(session.snapshot, sources=(view,))
    return session, path


async def opened(app, pilot) -> LogPage:
    await pilot.press("6")
    page = app.screen
    assert isinstance(page, LogPage)
    await until(pilot, lambda: page.window is not None and page.window.lines)
    return page


async def until(pilot, true) -> None:
    for _ in range(200):
        if true():
            return
        await pilot.pause(0.02)
    raise AssertionError("it never came")


def on_pane(page: LogPage) -> str:
    return "\n".join(page.pane.rows_text())


async def test_it_opens_at_the_end_and_follows(logged):
    session, path = logged
    app = TrainmonApp(session)
    async with app.run_test(size=(100, 30)) as pilot:
        page = await opened(app, pilot)
        assert page.window.chosen.text.startswith("step=3000 ")
        with path.open("a") as file:
            file.write("step=3001 brand new\n")
        view = replace(session.snapshot.sources[0], size=path.stat().st_size, lines=3001)
        session.put(replace(session.snapshot, sources=(view,), last=replace(session.snapshot.last, text="x")))
        await until(pilot, lambda: "brand new" in on_pane(page))
        await pilot.press("k", "k")
        await until(pilot, lambda: not page.window.follow)
        await until(pilot, lambda: "follow off" in "\n".join(page.head.rows_text()))


async def test_keys_move_through_the_whole_file(logged):
    app = TrainmonApp(logged[0])
    async with app.run_test(size=(100, 30)) as pilot:
        page = await opened(app, pilot)
        await pilot.press("g")
        await until(pilot, lambda: page.window.chosen.text.startswith("step=1 "))
        await pilot.press("pagedown", "j")
        rows = page.page_rows()
        await until(pilot, lambda: page.window.chosen.text.startswith(f"step={rows + 2} "))
        await pilot.press("t", *"2000", "enter")
        await until(pilot, lambda: page.window.chosen.text.startswith("step=2000 "))
        await until(pilot, lambda: "2,000" in on_pane(page))
        await pilot.press("G")
        await until(pilot, lambda: page.window.chosen.text.startswith("step=3000 "))


async def test_search_sees_the_whole_file_and_goes_round(logged):
    app = TrainmonApp(logged[0])
    async with app.run_test(size=(100, 30)) as pilot:
        page = await opened(app, pilot)
        await pilot.press("slash", *"needle", "enter")
        await until(pilot, lambda: page.window.chosen.text.startswith("RuntimeError"))
        assert "needle" in on_pane(page)
        await pilot.press("g", "n")
        await until(pilot, lambda: page.window.chosen.text.startswith("RuntimeError"))
        await pilot.press("slash", "ctrl+u", *"nothing like it", "enter")
        await until(pilot, lambda: "is not in this file" in page.told)
        await pilot.press("g")
        await until(pilot, lambda: page.window.at == 0)
        await pilot.press("e")
        await until(pilot, lambda: page.window.chosen.text.startswith("RuntimeError"))


async def test_enter_on_an_error_leads_to_its_line(logged):
    session, path = logged
    data = path.read_bytes()
    at = data.index(b"RuntimeError")
    error = replace(failed_error(session), source=0, line=1500, offset=at, place="worker-0.log:1,500")
    session.snapshot = replace(session.snapshot, errors=(error,))
    app = TrainmonApp(session)
    async with app.run_test(size=(100, 40)) as pilot:
        await pilot.press("5", "enter")
        why = app.screen
        await until(pilot, lambda: why.lines)
        assert [number for number, _ in why.lines] == list(range(1494, 1507))
        await until(pilot, lambda: "step=1499 " in "\n".join(why.body.rows_text()))
        await pilot.press("enter")
        page = app.screen
        await until(pilot, lambda: page.window is not None and page.window.lines)
        assert page.window.chosen.text.startswith("RuntimeError")
        assert not page.window.follow


def failed_error(session):
    """Any error of the story."""
    from trainmon.snapshot import ErrorView

    return ErrorView("X", "x", "needle", "critical", 1, "probable cause", 1, "worker-0", None, "", 0, 1, 0)


async def test_a_file_that_is_gone_is_said(still):
    session = still("healthy", {})
    app = TrainmonApp(session)
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.press("6")
        page = app.screen
        await until(pilot, lambda: "there is no source" in "\n".join(page.head.rows_text()))
        await pilot.press("j", "slash", *"x", "enter", "e", "t", *"5", "enter", "f", "q")
        assert app.return_value is None


async def test_a_file_written_anew_is_shown_from_its_end(logged):
    session, path = logged
    app = TrainmonApp(session)
    async with app.run_test(size=(100, 30)) as pilot:
        page = await opened(app, pilot)
        path.write_text("all new\n")
        view = replace(session.snapshot.sources[0], size=8, lines=1)
        session.put(replace(session.snapshot, sources=(view,)))
        await until(pilot, lambda: "all new" in on_pane(page))
        assert "cut or written anew" in page.told
