"""Choices that depend on the terminal, and a terminal that takes nothing or is gone."""

from __future__ import annotations

import os
import pty
import time

import pytest

from trainmon.errors import TerminalError
from trainmon.tui.terminal import LEAVE, TtyFile, check_terminal, choose_palette, wants_ascii


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"TERM": "xterm-256color"}, "dark"),
        ({"TERM": "tmux-256color", "NO_COLOR": "1"}, "mono"),
        ({"TERM": "xterm-256color", "NO_COLOR": ""}, "dark"),
        ({"TERM": "xterm", "COLORTERM": "truecolor"}, "dark"),
        ({"TERM": "screen"}, "ansi16"),
        ({"TERM": "linux"}, "ansi16"),
        ({"TERM": "vt100"}, "mono"),
    ],
)
def test_the_palette_follows_the_terminal(environ, expected):
    assert choose_palette("auto", environ) == expected
    assert choose_palette("light", environ) == "light"


@pytest.mark.parametrize(
    ("environ", "ascii"),
    [
        ({"LANG": "C.UTF-8"}, False),
        ({"LANG": "en_US.utf8"}, False),
        ({"LANG": "C"}, True),
        ({"LC_ALL": "POSIX", "LANG": "C.UTF-8"}, True),
        ({"LANG": "de_DE.ISO-8859-1"}, True),
        ({"LC_CTYPE": "en_US.UTF-8@euro"}, False),
    ],
)
def test_ascii_follows_the_locale(environ, ascii):
    assert wants_ascii(environ) is ascii


@pytest.mark.parametrize("term", ["dumb", "", "unknown"])
def test_a_dumb_terminal_is_refused_with_a_sentence(term):
    with pytest.raises(TerminalError, match="set TERM"):
        check_terminal({"TERM": term})


def test_a_terminal_that_takes_nothing_does_not_hang_us():
    master, slave = pty.openpty()
    file = TtyFile(slave)
    file.deadline = time.monotonic() + 0.2
    file.write("x" * 10_000_000)
    assert file.dead
    file.write("more")
    os.close(master)
    os.close(slave)


def test_a_terminal_that_is_gone_is_no_error():
    master, slave = pty.openpty()
    file = TtyFile(slave)
    os.close(master)
    file.write("x" * 100)
    file.flush()
    assert file.dead
    os.close(slave)


def test_writing_does_not_change_the_shells_descriptor():
    master, slave = pty.openpty()
    file = TtyFile(slave)
    file.write("héllo")
    assert os.read(master, 100) == "héllo".encode()
    assert os.get_blocking(slave)
    os.close(master)
    os.close(slave)


def test_what_is_left_is_everything():
    for mode in (b"?1049l", b"?1000l", b"?1003l", b"?2004l", b"?1004l", b"?25h", b"<u", b"?7h"):
        assert b"\x1b[" + mode in LEAVE
