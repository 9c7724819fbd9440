"""What cannot be read, does not answer, or is too much for the system."""

from __future__ import annotations

import os
import socket
import threading
import time
from pathlib import Path

import pytest

from trainmon.model import CaughtUp, Opened, Replaced
from trainmon.sources import files as files_module

DEADLINE_S = 20.0


def append(path: Path, data: bytes) -> None:
    with open(path, "ab") as file:
        file.write(data)


def test_a_link_to_itself_does_not_hide_the_folders_logs(tmp_path: Path, follow) -> None:
    (tmp_path / "loop.log").symlink_to("loop.log")
    (tmp_path / "a.log").write_bytes(b"1\n")
    _, sink = follow(tmp_path)
    sink.wait(lambda s: s.names() == [str(tmp_path / "a.log")])
    sink.wait(lambda s: s.word(str(tmp_path / "loop.log")))


def test_what_is_no_regular_file_is_left_alone(tmp_path: Path, follow) -> None:
    fifo, sock = tmp_path / "pipe.log", tmp_path / "s"
    os.mkfifo(fifo)
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(sock))
    (tmp_path / "folder.log").mkdir()
    (tmp_path / "a.log").write_bytes(b"1\n")
    _, sink = follow(fifo, sock, "/dev/null", tmp_path / "*.log")
    sink.wait(lambda s: s.of(CaughtUp) and s.word(str(tmp_path / "folder.log")))
    server.close()
    assert sink.names() == [str(tmp_path / "a.log")]
    assert sink.word(str(fifo)) == sink.word(str(sock)) == sink.word("/dev/null") == "not a file"
    assert "pipe" in sink.state(str(fifo)).sentence and sink.state(str(fifo)).bad
    assert sink.word(str(tmp_path / "folder.log")) == "folder"
    assert not sink.state(str(tmp_path / "folder.log")).bad


def test_binary_file_is_left_out(tmp_path: Path, follow) -> None:
    (tmp_path / "model.pt").write_bytes(b"PK\x03\x04" + bytes(range(256)) * 8)
    (tmp_path / "noise.log").write_bytes(bytes(range(256)) * 20)
    _, sink = follow(tmp_path / "model.pt", tmp_path / "noise.log")
    for name in ("model.pt", "noise.log"):
        sink.wait(lambda s, n=name: s.word(str(tmp_path / n)) == "not readable")
        assert "left out" in sink.state(str(tmp_path / name)).sentence
    assert not sink.of(Opened)


@pytest.mark.parametrize("spec", ["a\0b.log", "x" * 5000])
def test_impossible_names(spec: str, follow) -> None:
    _, sink = follow(spec)
    sink.wait(lambda s: s.word(spec) == "not readable")
    assert sink.state(spec).bad


def test_permission_denied_is_said_and_tried_again(tmp_path: Path, follow, monkeypatch) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(b"secret\n")
    denied = threading.Event()
    denied.set()
    real = os.open

    def guarded(path, *args, **kwargs):
        if path == str(log) and denied.is_set():
            raise PermissionError(13, "Permission denied", path)
        return real(path, *args, **kwargs)

    monkeypatch.setattr(files_module.os, "open", guarded)
    _, sink = follow(log)
    sink.wait(lambda s: s.word(str(log)) == "not readable")
    state = sink.state(str(log))
    assert state.bad and "permission denied" in state.sentence and "chmod" in state.sentence
    denied.clear()
    sink.wait(lambda s: s.data() == b"secret\n")


def test_permission_by_mode(tmp_path: Path, follow) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(b"secret\n")
    log.chmod(0)
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)  # root may read everything
    try:
        _, sink = follow(log)
        sink.wait(lambda s: s.word(str(log)) == "not readable")
    finally:
        os.seteuid(user)
    log.chmod(0o600)
    sink.wait(lambda s: s.data() == b"secret\n")


def test_disk_error_is_said_and_reading_goes_on(tmp_path: Path, follow, monkeypatch) -> None:
    log, other = tmp_path / "a.log", tmp_path / "b.log"
    log.write_bytes(b"1\n")
    other.write_bytes(b"1\n")
    _, sink = follow(log, other)
    sink.wait(lambda s: len(s.of(CaughtUp)) == 2)
    broken = threading.Event()
    broken.set()
    inode, real = os.stat(log).st_ino, os.pread

    def failing(fd, size, offset):
        if broken.is_set() and os.fstat(fd).st_ino == inode:
            raise OSError(5, "Input/output error")
        return real(fd, size, offset)

    monkeypatch.setattr(os, "pread", failing)
    append(log, b"2\n")
    sink.wait(lambda s: s.word(str(log)) == "not readable")
    assert "input/output error" in sink.state(str(log)).sentence
    append(other, b"2\n")
    sink.wait(lambda s: s.data(1) == b"1\n2\n")
    broken.clear()
    sink.wait(lambda s: s.data(0) == b"1\n2\n")
    sink.wait(lambda s: s.word(str(log)) == "followed")
    assert not sink.of(Replaced)


def test_stale_handle_is_opened_again(tmp_path: Path, follow, monkeypatch) -> None:
    """A network file system gave the file a new handle; its mark says that it is the same."""
    log = tmp_path / "a.log"
    log.write_bytes(b"1\n")
    _, sink = follow(log)
    sink.wait(lambda s: s.of(CaughtUp))
    stale, real = [], os.pread

    def failing(fd, size, offset):
        if not stale or stale == [fd]:
            stale[:] = [fd]
            if threading.current_thread().name == "trainmon-reader":
                raise OSError(116, "Stale file handle")
        return real(fd, size, offset)

    append(log, b"2\n")
    sink.wait(lambda s: s.data() == b"1\n2\n")
    # The descriptor number may be given again, so the failure ends with the first reopening.
    opened, real_open = threading.Event(), os.open

    def opening(*args, **kwargs):
        fd = real_open(*args, **kwargs)
        stale[:] = [-1]
        opened.set()
        return fd

    monkeypatch.setattr(os, "pread", failing)
    monkeypatch.setattr(os, "open", opening)
    assert opened.wait(DEADLINE_S)
    append(log, b"3\n")
    sink.wait(lambda s: s.data() == b"1\n2\n3\n")
    assert not sink.of(Replaced)


def test_path_that_hangs_does_not_hold_up_the_others(tmp_path: Path, follow, monkeypatch) -> None:
    far, near = tmp_path / "far", tmp_path / "near"
    far.mkdir()
    near.mkdir()
    (far / "a.log").write_bytes(b"far\n")
    (near / "b.log").write_bytes(b"near\n")
    answers, real = threading.Event(), os.stat

    def hanging(path, *args, **kwargs):
        if str(path).startswith(str(far)) and threading.current_thread().name == "trainmon-reader":
            answers.wait()
        return real(path, *args, **kwargs)

    monkeypatch.setattr(files_module.os, "stat", hanging)
    spec = str(far / "a.log")
    _, sink = follow(str(near / "b.log"), str(far / "a*.log"), hang_s=0.2)
    far_pattern = str(far / "a*.log")
    sink.wait(lambda s: s.word(far_pattern) == "hangs" or s.word(spec) == "hangs")
    append(near / "b.log", b"goes on\n")
    sink.wait(lambda s: s.data(s.number(str(near / "b.log"))) == b"near\ngoes on\n")
    answers.set()
    sink.wait(lambda s: spec in s.names() and s.data(s.number(spec)) == b"far\n")
    sink.wait(lambda s: s.word(far_pattern) == "followed")


def test_hanging_read_loses_nothing_and_stop_does_not_wait(tmp_path: Path, follow, monkeypatch) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(b"1\n")
    reader, sink = follow(log, hang_s=0.2)
    sink.wait(lambda s: s.of(CaughtUp))
    answers, real = threading.Event(), os.pread
    hang = threading.Event()

    def hanging(fd, size, offset):
        if hang.is_set() and not answers.is_set():
            answers.wait()
        return real(fd, size, offset)

    monkeypatch.setattr(os, "pread", hanging)
    hang.set()
    sink.wait(lambda s: s.word(str(log)) == "hangs")
    assert sink.state(str(log)).bad
    append(log, b"2\n")
    answers.set()
    sink.wait(lambda s: s.data() == b"1\n2\n" and s.word(str(log)) == "followed")
    sink.until(lambda: sum(thread.name == "trainmon-reader" for thread in threading.enumerate()) == 1)
    answers.clear()
    started = time.monotonic()
    reader.stop()
    assert time.monotonic() - started < 5  # it gives up after 0.2 s; the bound is for a busy machine
    answers.set()


def test_few_descriptors_still_follow_all(tmp_path: Path, follow) -> None:
    paths = [tmp_path / f"w-{i:02}.log" for i in range(40)]
    for path in paths:
        path.write_bytes(b"first line of %s\n" % path.name.encode())
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    _, sink = follow(tmp_path / "w-*.log", max_open=10)
    sink.wait(lambda s: len(s.of(CaughtUp)) == 40)
    if before:
        assert len(os.listdir("/proc/self/fd")) - before <= 14
    for path in paths:
        append(path, b"more\n")
    sink.wait(lambda s: all(s.data(i).endswith(b"more\n") for i in range(40)))
    os.replace(tmp_path / "w-05.log", tmp_path / "gone")
    (tmp_path / "w-05.log").write_bytes(b"another file\n")
    sink.wait(lambda s: s.data(5) == b"another file\n")
    assert not [event for event in sink.of(Replaced) if event.source != 5]
    (tmp_path / "w-06.log").unlink()
    sink.wait(lambda s: s.word(str(tmp_path / "w-06.log")) == "gone")
    (tmp_path / "w-06.log").write_bytes(b"back\n")
    sink.wait(lambda s: s.data(6) == b"back\n" and s.word(str(tmp_path / "w-06.log")) == "followed")


def test_system_that_gives_no_more_descriptors(tmp_path: Path, follow, monkeypatch) -> None:
    """The limit that the system named was too high: others hold some. Files are closed and opened in turn."""
    for i in range(40):
        (tmp_path / f"w-{i:02}.log").write_bytes(b"first line of %d\n" % i)
    real, base = os.open, len(os.listdir("/proc/self/fd"))

    def scarce(path, *args, **kwargs):
        if len(os.listdir("/proc/self/fd")) - base > 25 and str(path).endswith(".log"):
            raise OSError(24, "Too many open files")
        return real(path, *args, **kwargs)

    monkeypatch.setattr(files_module.os, "open", scarce)
    _, sink = follow(tmp_path / "w-*.log")
    sink.wait(lambda s: len(s.of(CaughtUp)) == 40)
    for i in range(40):
        append(tmp_path / f"w-{i:02}.log", b"more\n")
    sink.wait(lambda s: all(s.data(i).endswith(b"more\n") for i in range(40)))
