"""The agent's file and lock: whole lines, rotation without loss, a full disk, one agent a node."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainmon.clock import SystemClock
from trainmon.errors import SourceError
from trainmon.model import Data
from trainmon.outputs import agentfile, agentlock
from trainmon.outputs.agentfile import AgentFile
from trainmon.outputs.agentlock import AgentLock, Holder
from trainmon.sources.files import FollowedFile


def test_lines_are_appended_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"half": ')  # an agent that was killed
    file = AgentFile(path, max_bytes=1 << 20, keep=2)
    file.write([b"one", b"two"])
    file.close()
    assert path.read_bytes() == b'{"half": \none\ntwo\n'


def test_old_files_are_kept_as_far_as_asked(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    file = AgentFile(path, max_bytes=10, keep=2)
    for number in range(5):
        file.write([b"line number %d" % number])
    names = {each.name: each.read_bytes() for each in tmp_path.iterdir()}
    assert names == {
        "a.jsonl": b"line number 4\n", "a.jsonl.1": b"line number 3\n", "a.jsonl.2": b"line number 2\n"
    }  # fmt: skip
    none = AgentFile(tmp_path / "b.jsonl", max_bytes=10, keep=0)
    for number in range(3):
        none.write([b"line number %d" % number])
    assert [each.name for each in tmp_path.glob("b*")] == ["b.jsonl"]


def test_a_pipe_is_never_put_aside(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    file = AgentFile(path, max_bytes=10, keep=2)
    for _ in range(3):
        file.write([b"longer than that"])
    assert os.read(reader, 1000) == b"longer than that\n" * 3 and list(tmp_path.iterdir()) == [path]
    file.close()
    os.close(reader)


def test_a_follower_loses_nothing_while_files_rotate(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    file = AgentFile(path, max_bytes=300, keep=3)
    file.write([b"0"])
    follower = FollowedFile(1, str(path), clock=SystemClock())
    follower.open()
    seen = bytearray()
    for number in range(1, 400):
        file.write([b"%d" % number])
        if number % 7 == 0:
            seen += b"".join(event.data for event in follower.look() if isinstance(event, Data))
    for _ in range(4):
        seen += b"".join(event.data for event in follower.look() if isinstance(event, Data))
    assert [int(line) for line in seen.split()] == list(range(400))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 60), st.booleans()), max_size=12))
def test_a_full_disk_costs_lines_and_never_the_form(
    tmp_path_factory: pytest.TempPathFactory, story: list[tuple[int, bool]]
) -> None:
    folder = tmp_path_factory.mktemp("full")
    path = folder / "a.jsonl"
    file = AgentFile(path, max_bytes=1 << 20, keep=1)
    real = os.write
    room = 10**9

    def write(fd: int, data: bytes) -> int:
        nonlocal room
        if room <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        done = real(fd, bytes(data)[:room])
        room -= done
        return done

    sent = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(agentfile.os, "write", write)
        for left, again in story:
            room = left
            file.write([b'{"number": %d}' % sent])
            assert (file.problem == "no space left on device") == (file.dropped > 0)
            sent += 1
            if again:
                room = 10**9
                file.write([b'{"number": %d}' % sent])
                assert file.problem == "" and file.dropped == 0
                sent += 1
    whole = []
    for line in path.read_bytes().split(b"\n")[:-1]:
        try:
            whole.append(json.loads(line)["number"])
        except ValueError:
            continue  # cut by the full disk, and ended before the next
    assert whole == sorted(set(whole))
    file.close()


def test_a_file_that_was_moved_away_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    file = AgentFile(path, max_bytes=1 << 20, keep=1)
    file.write([b"first"])
    path.rename(tmp_path / "gone")
    for _ in range(2):
        file.write([b"later"])
    assert b"later" in path.read_bytes()


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="cannot be written"):
        AgentFile(tmp_path, max_bytes=1 << 20, keep=1)
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SourceError):
        AgentFile(tmp_path / "link", max_bytes=1 << 20, keep=1)


def test_the_lock_is_held_by_one(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    one, other = AgentLock(path), AgentLock(path)
    assert one.take(1000.0) is None
    assert other.take(1001.0) == Holder(os.getpid(), 1000.0)
    one.free()
    assert other.take(1002.0) is None
    other.free()


def test_the_lock_dies_with_its_holder(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    code = f"""
import sys, time
from pathlib import Path
from trainmon.outputs.agentlock import AgentLock
print(AgentLock(Path({str(path)!r})).take(time.time()), flush=True)
time.sleep(600)
"""
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None and child.stdout.readline() == "None\n"
    lock = AgentLock(path)
    assert lock.take(time.time()) is not None
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert lock.take(time.time()) is None


def test_a_lock_whose_folder_was_made_anew_is_taken_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agentlock, "BEAT_S", 0.0)
    folder = tmp_path / "run"
    folder.mkdir()
    one, other = AgentLock(folder / ".lock"), AgentLock(folder / ".lock")
    assert one.take(1000.0) is None and one.beat() is None
    shutil.rmtree(folder)
    assert one.beat() is None  # nothing can be done, and nobody else can be there
    folder.mkdir()
    assert one.beat() is None
    held = other.take(1001.0)
    assert held is not None and held.pid == os.getpid()
    shutil.rmtree(folder)
    folder.mkdir()
    assert other.take(1002.0) is None
    assert one.beat() == Holder(os.getpid(), 1002.0)


def test_without_flock_the_age_of_the_file_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(fd: int, how: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(agentlock.fcntl, "flock", no_locks)
    path = tmp_path / ".lock"
    now = time.time()
    path.write_text('{"pid": 999999999, "since": 5}\n')
    os.utime(path, (now - 5, now - 5))
    assert AgentLock(path).take(now) == Holder(999999999, 5.0)
    os.utime(path, (now - 100, now - 100))
    lock = AgentLock(path)
    assert lock.take(now) is None
    os.utime(path, (now - 100, now - 100))
    lock.beat()
    assert abs(path.stat().st_mtime - time.time()) < 50
    path.write_bytes(b"\xff no JSON")
    assert AgentLock(path).take(now) is None
