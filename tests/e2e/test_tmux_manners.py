"""Manners in a terminal: every way out, every odd way in."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable

import pytest

pytestmark = pytest.mark.needs_tmux


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)],
    ids=lambda value: str(value),
)
def test_a_signal_restores_the_terminal(number: signal.Signals, code: int, training, open_pane: Callable) -> None:
    pane = open_pane()
    pane.trainmon("tail", "worker-*.log")
    pane.wait(r"\b60\b")
    os.kill(pane.process(), number)
    pane.wait(rf"exit={code}\b")
    pane.is_clean()


def test_ctrl_c_ends_with_130(training, open_pane: Callable) -> None:
    pane = open_pane()
    pane.trainmon("tail", "worker-*.log")
    pane.wait(r"\b60\b")
    pane.keys("C-c")
    pane.wait("exit=130")
    pane.is_clean()


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGTSTP], ids=str)
def test_stopped_and_brought_back(number: signal.Signals, training, open_pane: Callable) -> None:
    pane = open_pane(100, 30)
    pane.trainmon("tail", "worker-*.log", then="echo stopped-$?")
    pane.wait(r"\b60\b")
    os.kill(pane.process(), number)
    pane.wait(r"stopped-1\d\d")
    training.advance()
    pane.type("clear; fg; echo exit=$?")
    pane.wait(r"\b61\b")
    pane.wait(re.escape(f"{training.loss:.3f}"))
    pane.keys("q")
    pane.wait("exit=0")
    pane.is_clean()


def test_resized_to_nothing_and_back(training, open_pane: Callable) -> None:
    pane = open_pane()
    pane.trainmon("tail", "worker-*.log")
    pane.wait(r"\b60\b")
    for columns, rows in ((2, 1), (160, 45), (1, 1), (40, 12), (200, 3), (80, 24)):
        pane.resize(columns, rows)
    training.advance()
    pane.wait(r"\b61\b")
    pane.keys("q")
    pane.wait("exit=0")
    pane.is_clean()


def test_standard_error_redirected_still_shows_the_screen(training, open_pane: Callable, tmp_path) -> None:
    pane = open_pane()
    pane.trainmon("tail", "worker-*.log", "2>errors.txt")
    pane.wait(r"\b60\b")
    pane.keys("q")
    pane.wait("exit=0")
    pane.is_clean()
    assert (tmp_path / "errors.txt").read_text() == ""


def test_standard_input_as_a_source_leaves_the_keys_alive(training, open_pane: Callable) -> None:
    pane = open_pane()
    pane.type("(cat worker-0.log; while sleep 0.2; do echo; done) | trainmon tail -; echo exit=$?")
    pane.wait(r"\b60\b")
    pane.keys("?")
    pane.wait("(?i)this page")
    pane.keys("q")
    pane.wait(r"\b60\b")
    pane.keys("q")
    pane.wait("exit=0")
    pane.is_clean()


@pytest.mark.parametrize("term", ["dumb", "unknown-terminal-of-nobody"])
def test_a_terminal_that_can_draw_nothing_or_is_not_known(term: str, training, open_pane: Callable) -> None:
    pane = open_pane(term=term)
    pane.trainmon("tail", "worker-*.log")
    if term == "dumb":
        text = pane.wait(r"step 60/5,000")
        assert "TERM=dumb" in text and "Traceback" not in text
        pane.keys("C-c")
        pane.wait("exit=130")
    else:
        pane.wait(r"\b60\b")
        pane.keys("q")
        pane.wait("exit=0")


def test_an_exported_size_that_is_wrong_is_not_believed(training, open_pane: Callable) -> None:
    pane = open_pane()
    pane.type("COLUMNS=99999999 LINES=1 trainmon tail 'worker-*.log'; echo exit=$?")
    pane.wait(r"\b60\b")
    pane.keys("q")
    pane.wait("exit=0")
    pane.is_clean()


def test_a_megabyte_of_keys_holds_nobody_up(training, open_pane: Callable, tmp_path) -> None:
    (tmp_path / "paste").write_text("jk/?[x]:2 4z\n6" * 80_000)
    pane = open_pane()
    pane.trainmon("tail", "worker-*.log")
    pane.wait(r"\b60\b")
    pane.tmux("load-buffer", "-b", "big", str(tmp_path / "paste"))
    pane.tmux("paste-buffer", "-b", "big", "-t", pane.name)
    pane.keys("C-c")
    pane.wait("exit=130")
    pane.is_clean()


def test_no_utf8_gives_ascii(training, open_pane: Callable) -> None:
    pane = open_pane()
    pane.type("LC_ALL=C LANG=C trainmon tail 'worker-*.log'; echo exit=$?")
    text = pane.wait(r"\b60\b")
    assert text.isascii(), [sign for sign in text if not sign.isascii()]
    pane.keys("q")
    pane.wait("exit=0")


def test_what_a_log_says_never_reaches_the_terminal(training, open_pane: Callable) -> None:
    pane = open_pane()
    pane.trainmon("tail", "worker-*.log")
    pane.wait(r"\b60\b")
    title = pane.tmux("display-message", "-p", "-t", pane.name, "#{pane_title}")
    for evil in ("\x1b]0;owned\x07", "\x1b[2J\x1b[H", "\x1b[?1049l", "\x9b31m", "\x1bP+q\x1b\\", "\x07\x08\r\x7f"):
        training.say(1, f"2026-01-01T00:00:00Z ERROR before {evil} RuntimeError: after")
    training.say(1, "2026-01-01T00:00:00Z ERROR the last one of them")
    pane.wait("the last one")
    assert pane.tmux("display-message", "-p", "-t", pane.name, "#{pane_title}") == title
    assert pane.modes()["alternate_on"] == "1"
    pane.keys("q")
    pane.wait("exit=0")
    pane.is_clean()


def test_sources_that_are_not_there_yet_or_never_will_be(training, open_pane: Callable, tmp_path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "empty.log").write_text("")
    (tmp_path / "folder").mkdir()
    pane = open_pane(100, 30)
    pane.trainmon("tail", "later.log", "pipe", "empty.log", "folder", "none-*.log")
    text = pane.wait("later.log")
    assert "Traceback" not in text
    (tmp_path / "later.log").write_text('{"step": 77, "loss": 1.25, "learning_rate": 0.001}\n' * 3)
    pane.wait(r"\b77\b")
    pane.keys("q")
    pane.wait("exit=0")
    pane.is_clean()


def test_bare_trainmon_finds_the_logs_of_this_folder(training, open_pane: Callable) -> None:
    pane = open_pane()
    pane.trainmon()
    pane.wait(r"\b60\b")
    pane.keys("q")
    pane.wait("exit=0")


def test_leaving_takes_no_time(training, open_pane: Callable) -> None:
    pane = open_pane()
    pane.trainmon("tail", "worker-*.log")
    pane.wait(r"\b60\b")
    process = pane.process()
    pane.keys("q")
    end = time.monotonic() + 30
    while os.path.exists(f"/proc/{process}") and time.monotonic() < end:
        time.sleep(0.02)
    assert not os.path.exists(f"/proc/{process}")


def test_the_demo_puts_its_logs_away_when_it_is_ended(open_pane: Callable, tmp_path) -> None:
    pane = open_pane(100, 30)
    pane.trainmon("demo")
    pane.wait("DEMO")
    pane.wait(r"\b8\d\d/5,000")
    assert list(tmp_path.glob("trainmon-demo-*/worker-7.log"))
    os.kill(pane.process(), signal.SIGTERM)
    pane.wait("exit=143")
    pane.is_clean()
    assert not list(tmp_path.glob("trainmon-demo-*"))
