"""A disk that is full: one clear sentence, no traceback, and no half file that looks like a whole one."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from trainmon.demo.writer import Writer
from trainmon.settings.state import write_whole

TRAINMON = [sys.executable, "-m", "trainmon"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB, where this user may mount one."""
    place = tmp_path / "disk"
    place.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip("no file system can be mounted here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def fill(place: Path) -> None:
    with (place / "ballast").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 512)
        except OSError:
            pass


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["--version"], ["explain", "CUDA_OOM"], ["completion", "bash"], ["parse", "--all", "LOG"],
     ["tail", "--plain", "LOG"], ["demo", "--plain"]],
)  # fmt: skip
def test_output_that_cannot_be_written(arguments: list[str], tmp_path: Path, env: Callable, logs: Callable) -> None:
    log = str(logs().path(0))
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*TRAINMON, *(log if a == "LOG" else a for a in arguments)], stdout=full, stderr=subprocess.PIPE,
            env=env(), cwd=tmp_path, timeout=120, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == b"trainmon: the output cannot be written (no space left on device)\n"
    assert not list((tmp_path / "home" / "tmp").iterdir())


def test_parse_into_a_disk_that_fills_up(small_disk: Path, tmp_path: Path, env: Callable, logs: Callable) -> None:
    log = logs(1, 2000).path(0)
    with (small_disk / "out.jsonl").open("wb") as out:
        done = subprocess.run(
            [*TRAINMON, "parse", str(log)], stdout=out, stderr=subprocess.PIPE, env=env(), timeout=120, check=False
        )
    assert (done.returncode, done.stderr.count(b"\n")) == (1, 1)
    assert b"cannot be written (no space left" in done.stderr


def test_the_limit_of_a_files_size(tmp_path: Path, env: Callable, logs: Callable) -> None:
    log = logs(1, 2000).path(0)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    with (tmp_path / "out.jsonl").open("wb") as out:
        done = subprocess.run(
            [*TRAINMON, "parse", str(log)],
            stdout=out,
            stderr=subprocess.PIPE,
            env=env(),
            preexec_fn=limit,
            timeout=120,
            check=False,
        )
    assert done.returncode == 1 and done.stderr.count(b"\n") == 1 and b"file too large" in done.stderr


def test_the_screen_with_a_full_state_folder(small_disk: Path, terminal: Callable, logs: Callable) -> None:
    run = logs()
    term = terminal("tail", str(run.folder), columns=160, XDG_STATE_HOME=str(small_disk), TMPDIR=str(small_disk))
    term.until(r"step 60\b")
    term.send(b"\ty")
    term.until("also in")
    whole = (small_disk / "trainmon" / "copied.txt").read_bytes()
    fill(small_disk)
    time.sleep(3.5)
    term.send(b"y")
    term.until("no file of it could be written")
    assert (small_disk / "trainmon" / "copied.txt").read_bytes() == whole
    assert [path.name for path in (small_disk / "trainmon").iterdir()] == ["copied.txt"]
    run.advance()
    term.until(r"step 61\b")
    assert term.leave() == 0
    term.is_restored()


CRASH = """
import sys
from trainmon.session.engine import Engine

def broken(self, event):
    raise ZeroDivisionError("on purpose")

Engine.tick = broken
from trainmon.cli import main
sys.exit(main(sys.argv[1:]))
"""


def test_a_fault_with_nowhere_to_write_it_down(small_disk: Path, tmp_path: Path, env: Callable, logs: Callable) -> None:
    log = logs().path(0)
    fill(small_disk)
    process = subprocess.Popen(
        [sys.executable, "-c", CRASH, "tail", "--plain", str(log)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=env(XDG_STATE_HOME=str(small_disk), TMPDIR=str(small_disk)), cwd=tmp_path,
    )  # fmt: skip
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(2.0)
    process.terminate()
    _, err = process.communicate(timeout=60)
    assert b"something went wrong in trainmon, not in your run: ZeroDivisionError: on purpose" in err
    assert err.count(b"\n") == 1 and b"Traceback" not in err
    assert not list(small_disk.rglob("*crash*"))


def test_a_demo_that_cannot_be_written(small_disk: Path, env: Callable) -> None:
    fill(small_disk)
    done = subprocess.run(
        [*TRAINMON, "demo", "--plain", "--keep", str(small_disk / "kept")], env=env(), capture_output=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert done.returncode == 3 and done.stderr.count(b"\n") == 1
    assert b"the demo cannot write its logs here (no space left on device)" in done.stderr
    left = [path for path in small_disk.rglob("*") if path.is_file() and path.name != "ballast"]
    assert not left


def test_a_demo_whose_disk_fills_up_later_says_so(small_disk: Path, tmp_path: Path, env: Callable) -> None:
    writer = Writer(tmp_path)
    writer.write_history()
    past = sum(-(-path.stat().st_size // 4096) * 4096 for path in writer.paths)
    subprocess.run(["mount", "-o", f"remount,size={past + 16_384}", str(small_disk)], check=True)
    process = subprocess.Popen(
        [*TRAINMON, "demo", "--plain", "--speed", "50", "--keep", str(small_disk / "kept")], env=env(),
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    _, err = process.communicate(timeout=120)
    assert process.returncode == 0 and err.count(b"\n") == 1
    assert b"the demo could not go on writing its logs (no space left on device)" in err


def test_a_piece_is_taken_back_and_the_old_file_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "copied.txt"
    write_whole(target, b"old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        write_whole(target, b"new")
    assert target.read_bytes() == b"old" and [path.name for path in tmp_path.iterdir()] == ["copied.txt"]


def test_pieces_of_the_killed_are_put_away_in_time(tmp_path: Path) -> None:
    old, young = tmp_path / ".copied.txt.1.part", tmp_path / ".copied.txt.2.part"
    for path in (old, young):
        path.write_bytes(b"half")
    os.utime(old, (1, 1))
    write_whole(tmp_path / "copied.txt", b"new")
    assert not old.exists() and young.exists()
