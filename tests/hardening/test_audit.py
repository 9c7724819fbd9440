"""What `tail` does to the world: it opens no connection, starts nothing but its GPU worker, writes its own state only.

An audit hook (`sys.addaudithook`) in every process of it tells of each event that could be something else.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

HOOK = r"""
import json, os, sys

_FD = os.open(os.environ["AUDIT_LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
_ALWAYS = ("socket.", "subprocess.", "shutil.", "tempfile.", "urllib.", "http.", "ftplib.", "smtplib.", "ctypes.dlopen",
           "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod",
           "os.chown", "os.chflags", "os.utime", "os.setxattr", "os.removexattr", "os.exec", "os.fork", "os.forkpty",
           "os.posix_spawn", "os.spawn", "os.system", "os.kill", "pty.spawn", "sqlite3.", "syslog.")


def _hook(event, args):
    if event == "open":
        if not (isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND)):
            return
    elif not event.startswith(_ALWAYS):
        return
    frame, who = sys._getframe(1), ""
    while frame is not None and not who:
        name = frame.f_code.co_filename
        who = name if not name.startswith("<") and not name.endswith(("/socket.py", "/sitecustomize.py")) else ""
        frame = frame.f_back
    line = json.dumps({"pid": os.getpid(), "argv": sys.orig_argv, "event": event, "who": who, "args": [str(a) for a in args]})
    os.write(_FD, line.encode() + b"\n")


sys.addaudithook(_hook)
"""
WORKER = ["-m", "trainmon.telemetry.gpu.worker"]


def told(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


def _is_terminal(path: str) -> bool:
    return path == "/dev/tty" or path.startswith("/dev/pts/")


def check(events: list[dict[str, Any]], state: Path, *, screen: bool) -> None:
    """Every event has to be one of the few that are meant."""
    for each in events:
        event, args = each["event"], each["args"]
        worker = WORKER[1] in each["argv"]
        if event == "open" or event in ("os.mkdir", "os.remove", "os.rename"):
            paths = args[:2] if event == "os.rename" else args[:1]
            for path in paths:
                mine = Path(path) == state or state in Path(path).parents
                mine = mine or (event == "os.mkdir" and Path(path) in state.parents)
                plumbing = event == "open" and (path == os.devnull or path.isdigit() or (screen and _is_terminal(path)))
                assert plumbing or (mine and not worker), each
        elif event == "subprocess.Popen":
            assert not worker, each
            assert str(WORKER)[1:-1] in args[1], each
        elif event == "socket.__new__":
            # The pair of pipes by which asyncio wakes itself: no name, no other end.
            assert screen and each["who"].endswith("/asyncio/selector_events.py"), each
            assert args[1] in ("1", "AddressFamily.AF_UNIX"), each
        elif event == "ctypes.dlopen":
            # A chart that is copied is drawn by plotext, which brings a kernel of its own.
            assert worker or args[0] in ("None", "") or args[0].endswith("/plotext/_kernel/cpp/kernel.so"), each
        elif event == "os.kill":
            assert screen, each  # a stop, and the size anew after it: to ourselves
        elif event == "os.truncate":
            assert args[0].isdigit(), each  # the memory that is shared with the worker
        else:
            raise AssertionError(each)


@pytest.fixture
def hooked(tmp_path: Path) -> dict[str, str]:
    """Variables that put the hook into every Python that is started with them."""
    place = tmp_path / "hook"
    place.mkdir()
    (place / "sitecustomize.py").write_text(HOOK)
    path = os.pathsep.join(filter(None, (str(place), os.environ.get("PYTHONPATH", ""))))
    return {"PYTHONPATH": path, "AUDIT_LOG": str(tmp_path / "audit.jsonl"), "PYTHONDONTWRITEBYTECODE": "1"}


def test_the_hook_sees_what_it_is_to_see(
    tmp_path: Path, hooked: dict[str, str], env: Callable[..., dict[str, str]]
) -> None:
    code = f"""
import socket, os, subprocess, sys
socket.socket().connect_ex(("127.0.0.1", 9))
open({str(tmp_path / "elsewhere")!r}, "w").close()
os.rename({str(tmp_path / "elsewhere")!r}, {str(tmp_path / "other")!r})
subprocess.run([sys.executable, "-c", "import os; os.mkdir({str(tmp_path / "made")!r})"])
"""
    subprocess.run([sys.executable, "-c", code], env=env(**hooked), check=True, timeout=60)
    events = told(tmp_path / "audit.jsonl")
    kinds = {each["event"] for each in events}
    assert {"socket.__new__", "socket.connect", "open", "os.rename", "subprocess.Popen", "os.mkdir"} <= kinds
    for kind in ("socket.__new__", "socket.connect", "open", "os.rename", "subprocess.Popen", "os.mkdir"):
        with pytest.raises(AssertionError):
            check([each for each in events if each["event"] == kind], tmp_path / "state", screen=True)


def test_the_screen_opens_no_socket_and_writes_its_own_state_only(
    tmp_path: Path, home: Path, hooked: dict[str, str], terminal: Callable, logs: Callable
) -> None:
    run = logs()
    term = terminal("tail", str(run.folder), **hooked)
    term.until(r"\b60\b")
    run.advance(5)
    term.until(r"\b65\b")
    for keys in (
        b"?",
        b"\x1b",
        b"y",
        b"l",
        b"/",
        b"loss\r",
        b"n",
        b"y",
        b"\x1b",
        b"\x1b",
        b"\t",
        b"y",
        b"\r",
        b"\x1b",
        b"!",
        b"g",
        b"\x1b",
    ):
        term.send(keys)
        time.sleep(0.3)
    # Let the instruments have started, too.
    time.sleep(2.0)
    assert term.leave(b"\x03") == 130
    events = told(tmp_path / "audit.jsonl")
    check(events, home / "state" / "trainmon", screen=True)
    assert any(_is_terminal(each["args"][0]) for each in events)


def test_plain_lines_open_no_socket_at_all(
    tmp_path: Path, home: Path, hooked: dict[str, str], env: Callable[..., dict[str, str]], logs: Callable
) -> None:
    run = logs()
    process = subprocess.Popen(
        [sys.executable, "-m", "trainmon", "tail", "--plain", str(run.folder)], cwd=tmp_path, env=env(**hooked),
        stdout=subprocess.PIPE, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert process.stdout is not None
    process.stdout.readline()
    run.advance(5)
    time.sleep(2.0)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 143
    events = told(tmp_path / "audit.jsonl")
    check(events, home / "state" / "trainmon", screen=False)
    assert not [each for each in events if each["event"].startswith("socket.")]


def test_other_commands_neither(
    tmp_path: Path, home: Path, hooked: dict[str, str], env: Callable, logs: Callable
) -> None:
    run = logs()
    for arguments in (["parse", str(run.path(0))], ["explain", "CUDA_OOM"], ["completion", "bash"], ["--help"]):
        subprocess.run([sys.executable, "-m", "trainmon", *arguments], cwd=tmp_path, env=env(**hooked), check=True,
                       stdout=subprocess.DEVNULL, timeout=60)  # fmt: skip
    check(told(tmp_path / "audit.jsonl"), home / "state" / "trainmon", screen=False)
