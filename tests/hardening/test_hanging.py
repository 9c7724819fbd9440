"""A mount that does not answer: the others go on, the screen says who, and the way out is never barred.

The hang is a fault in the calls: whatever touches a path with HANG in it blocks while a certain file is there.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from trainmon.patience import LoosePool, within

FAULT = r"""
import builtins, os, time

_SWITCH = os.environ["HANG_SWITCH"]
_access = os.access


def _faulty(name):
    real = getattr(os, name)

    def call(first, *args, **kwargs):
        path = first
        if isinstance(first, int):
            try:
                path = _readlink(f"/proc/self/fd/{first}")
            except OSError:
                path = ""
        while "HANG" in str(path) and _access(_SWITCH, os.F_OK):
            time.sleep(0.02)
        return real(first, *args, **kwargs)

    setattr(os, name, call)


_readlink = os.readlink
for _name in ("stat", "lstat", "open", "pread", "fstat", "scandir", "listdir", "mkdir", "unlink", "replace"):
    _faulty(_name)
"""


@pytest.fixture
def fault(tmp_path: Path) -> tuple[dict[str, str], Path]:
    """Variables for a process that hangs on such paths, and the file that makes it hang."""
    place = tmp_path / "fault"
    place.mkdir()
    (place / "sitecustomize.py").write_text(FAULT)
    path = os.pathsep.join(filter(None, (str(place), os.environ.get("PYTHONPATH", ""))))
    return {"PYTHONPATH": path, "HANG_SWITCH": str(tmp_path / "switch")}, tmp_path / "switch"


def follow(terminal: Callable, run: object, fault: tuple[dict[str, str], Path], hung: Path, *more: str) -> object:
    """Eight files, the last of which will hang."""
    files = [str(run.path(worker)) for worker in range(7)]  # type: ignore[attr-defined]
    return terminal("tail", *files, str(hung), *more, columns=200, **fault[0])


def hung_file(tmp_path: Path, run: object) -> Path:
    hung = tmp_path / "HANG" / "worker-7.log"
    hung.parent.mkdir()
    hung.write_bytes(run.path(0).read_bytes())  # type: ignore[attr-defined]
    return hung


def test_one_of_eight_hangs_and_comes_back(tmp_path: Path, terminal: Callable, logs: Callable, fault: tuple) -> None:
    run = logs(7)
    hung = hung_file(tmp_path, run)
    term = follow(terminal, run, fault, hung)
    term.until(r"8 nodes[^\n]*step 60\b")
    fault[1].touch()
    run.advance()
    term.until("worker-7.log does not answer")
    run.advance()
    term.until(r"worker-\d +\{[^\n]*\"step\": 62\b")
    fault[1].unlink()
    with hung.open("ab") as file:
        file.write(run.path(0).read_bytes().splitlines(keepends=True)[-1].replace(b'"step": 62', b'"step": 63'))
    term.until(r"worker-7 +\{[^\n]*\"step\": 63\b")
    term.until(r"(?s)\A(?!.*does not answer).*healthy")
    assert term.leave() == 0
    term.is_restored()


@pytest.mark.parametrize("keys", [b"q", b"\x03"])
def test_the_way_out_while_it_hangs(
    tmp_path: Path, terminal: Callable, logs: Callable, fault: tuple, keys: bytes
) -> None:
    run = logs(7)
    fault[1].touch()
    term = follow(terminal, run, fault, hung_file(tmp_path, run))
    term.until("worker-7.log does not answer")
    assert term.leave(keys) == (0 if keys == b"q" else 130)
    term.is_restored()


def test_a_folder_that_does_not_answer(tmp_path: Path, terminal: Callable, logs: Callable, fault: tuple) -> None:
    run = logs(2)
    (tmp_path / "HANG").mkdir()
    fault[1].touch()
    term = terminal("tail", str(run.path(0)), str(run.path(1)), str(tmp_path / "HANG"), **fault[0])
    term.until(r"step 60\b")
    term.until("HANG does not answer")
    fault[1].unlink()
    (tmp_path / "HANG" / "worker-5.log").write_bytes(run.path(0).read_bytes())
    term.until("3 nodes")
    assert term.leave() == 0


def test_the_log_page_of_a_file_that_hangs(tmp_path: Path, terminal: Callable, logs: Callable, fault: tuple) -> None:
    run = logs(7)
    term = follow(terminal, run, fault, hung_file(tmp_path, run), "--exact")
    term.until(r"8 nodes[^\n]*step 60\b")
    term.send(b"6")
    term.until(r"line 60 of 60")
    for _ in range(8):
        if "HANG" in term.text():
            break
        term.send(b"]")
        time.sleep(0.5)
    term.until(r"HANG[^\n]*line 60 of 60")
    fault[1].touch()
    term.send(b"\x1b[A" * 50 + b"g" + b"/3.99\r")
    term.until("this file does not answer|searching")
    run.advance()
    term.send(b"]")
    term.until(r"logs/worker-\d.log[^\n]*line \d+ of 61")
    term.send(b"[")
    term.until("HANG")
    assert term.leave(b"\x03") == 130
    term.is_restored()


def test_a_state_folder_that_hangs(
    tmp_path: Path, home: Path, terminal: Callable, logs: Callable, fault: tuple
) -> None:
    run = logs(2)
    fault[1].touch()
    term = terminal("tail", str(run.folder), XDG_STATE_HOME=str(tmp_path / "HANG"), **fault[0])
    term.until(r"step 60\b")
    term.send(b"\t")
    term.send(b"y")
    term.until("copied|nothing to copy")
    run.advance()
    term.until(r"step 61\b")
    assert term.leave() == 0


def test_a_configuration_that_hangs(tmp_path: Path, terminal: Callable, logs: Callable, fault: tuple) -> None:
    run = logs(2)
    fault[1].touch()
    term = terminal("tail", str(run.folder), XDG_CONFIG_HOME=str(tmp_path / "HANG"), **fault[0])
    term.until(r"step 60\b")
    assert b"does not answer" in term.raw  # said before the screen
    assert term.leave() == 0
    term = terminal("tail", "--config", str(tmp_path / "HANG" / "c.toml"), str(run.folder), **fault[0])
    assert term.process.wait(60) == 2
    term.until("trainmon: ")
    assert b"does not answer" in term.raw


def test_plain_lines_say_who_hangs(tmp_path: Path, env: Callable, logs: Callable, fault: tuple) -> None:
    run = logs(1)
    hung = hung_file(tmp_path, run)
    fault[1].touch()
    process = subprocess.Popen(
        [sys.executable, "-m", "trainmon", "tail", "--plain", str(run.path(0)), str(hung)],
        env=env(**fault[0]), stdout=subprocess.PIPE, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert process.stdout is not None
    for line in process.stdout:
        if "does not answer" in line:
            break
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode == 143


# ---------------------------------------------------------------- patience


def test_within_gives_what_came_in_time() -> None:
    assert within(60.0, lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        within(60.0, lambda: 1 // 0)
    with pytest.raises(TimeoutError):
        within(0.05, lambda: time.sleep(5))


LOOSE = """
import asyncio, os, sys, threading
from trainmon.patience import LoosePool, within

async def main():
    loop = asyncio.get_running_loop()
    loop.set_default_executor(LoosePool())
    for _ in range(3):
        loop.run_in_executor(None, os.open, sys.argv[1], os.O_RDONLY)
    print(await loop.run_in_executor(None, lambda: "answer"), flush=True)

asyncio.run(main())
try:
    within(0.1, lambda: os.open(sys.argv[1], os.O_RDONLY))
except TimeoutError:
    print("late", flush=True)
"""


def test_nobody_waits_for_a_thread_that_is_blocked_not_even_at_exit(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")  # opened for reading it blocks until a writer comes: never
    done = subprocess.run(
        [sys.executable, "-c", LOOSE, str(tmp_path / "pipe")], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "answer\nlate\n", "")


async def test_the_pool_makes_every_call_and_keeps_few_threads() -> None:
    import threading

    pool, loop, seen = LoosePool(4), asyncio.get_running_loop(), set()

    def call(i: int) -> int:
        seen.add(threading.get_ident())
        if i == 7:
            raise ValueError(i)
        return i * i

    found = await asyncio.gather(*(loop.run_in_executor(pool, call, i) for i in range(200)), return_exceptions=True)
    assert [x for x in found if not isinstance(x, ValueError)] == [i * i for i in range(200) if i != 7]
    assert len(seen) <= 4
    pool.shutdown()
    assert [await loop.run_in_executor(pool, call, 3)] == [9]  # and it goes on after a shutdown: nothing was joined
