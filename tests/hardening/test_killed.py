"""`kill -9` at any moment: what was written before is whole, nothing is in the way of the next start, nothing runs on."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

MOMENTS = int(os.environ.get("TRAINMON_TEST_MOMENTS", "6"))
"""Random moments a test tries; more by hand."""

WRITER = """
import sys
from pathlib import Path
from trainmon.commands.crash import keep
from trainmon.tui.copying import write_copy

print("begun", flush=True)
number = 0
while True:
    number += 1
    write_copy(f"{number:09}\\n" * 20_000)
    keep(f"{number:09}\\n" * 20_000)
"""


def whole(path: Path) -> bool:
    """Whether a file is one that was written to its end: the same number from the first line to the last."""
    lines = [line for line in path.read_text().splitlines() if line.isdigit()]
    return len(lines) == 20_000 and len(set(lines)) == 1


@pytest.mark.parametrize("moment", range(MOMENTS))
def test_state_files_are_whole(moment: int, tmp_path: Path, env: Callable[..., dict[str, str]]) -> None:
    process = subprocess.Popen([sys.executable, "-c", WRITER], env=env(), stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline() == b"begun\n"
    time.sleep(random.Random(moment).uniform(0.0, 0.3))
    process.kill()
    process.wait()
    state = tmp_path / "home" / "state" / "trainmon"
    kept = [path for path in state.iterdir() if not path.name.endswith(".part")] if state.exists() else []
    assert all(whole(path) for path in kept), kept
    assert len(kept) <= 22
    done = subprocess.run(
        [sys.executable, "-c", "from trainmon.tui.copying import write_copy; print(write_copy('next'))"],
        env=env(), capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert Path(done.stdout.strip()).read_text() == "next"


@pytest.mark.parametrize("moment", range(MOMENTS))
def test_the_screen_is_killed_and_started_again(
    moment: int, tmp_path: Path, terminal: Callable, logs: Callable
) -> None:
    run, chance = logs(), random.Random(100 + moment)
    term = terminal("tail", str(run.folder))
    if moment % 3:
        term.until(r"step 60\b")
        for _ in range(chance.randrange(20)):
            term.send(chance.choice([b"\ty", b"y", b"6", b"\x1b", b"3", b"5", b"?"]))
            time.sleep(0.02)
    time.sleep(chance.uniform(0.0, 0.6))
    children = psutil.Process(term.process.pid).children(recursive=True)
    term.process.kill()
    term.process.wait()
    gone, alive = psutil.wait_procs(children, timeout=30)
    assert not alive, [child.cmdline() for child in alive]
    run.advance()
    again = terminal("tail", str(run.folder))
    again.until(r"step 61\b")
    again.send(b"\ty")
    again.until("copied")
    assert again.leave() == 0
    again.is_restored()


@pytest.mark.parametrize("moment", range(MOMENTS))
def test_an_agent_is_killed_and_started_again(moment: int, tmp_path: Path, env: Callable[..., dict[str, str]]) -> None:
    out = tmp_path / "agent.jsonl"
    command = [sys.executable, "-m", "trainmon", "agent", "--out", str(out)]
    process = subprocess.Popen(command, env=env(), stderr=subprocess.PIPE, cwd=tmp_path)
    end = time.monotonic() + 60
    while moment % 3 and not (out.exists() and out.stat().st_size) and time.monotonic() < end:
        time.sleep(0.05)
    time.sleep(random.Random(moment).uniform(0.0, 1.0))
    children = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not psutil.wait_procs(children, timeout=30)[1]
    before = out.read_bytes() if out.exists() else b""
    again = subprocess.Popen(command, env=env(), stderr=subprocess.PIPE, cwd=tmp_path)
    while not (out.exists() and out.stat().st_size > len(before)):
        assert time.monotonic() < end + 60 and again.poll() is None, again.stderr and again.stderr.read()
        time.sleep(0.05)
    again.terminate()
    again.communicate(timeout=60)
    lines = out.read_bytes().splitlines()
    broken = [line for line in lines if line and not _is_object(line)]
    assert len(broken) <= 1  # the one that the kill cut off


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False
