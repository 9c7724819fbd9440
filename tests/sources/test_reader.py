"""The reader on real files and real threads. Nothing sleeps for luck: each test waits for what it expects."""

from __future__ import annotations

import io
import os
import socket
import threading
import time
from pathlib import Path

import pytest

from trainmon.clock import SystemClock
from trainmon.model import Ahead, CaughtUp, Data, Glimpse, Opened, Replaced, SourceState
from trainmon.sources import files as files_module
from trainmon.sources import reader as reader_module
from trainmon.sources.reader import Reader

DEADLINE_S = 20.0


class Sink:
    """Collects events; `wait` returns once a condition holds, or fails."""

    def __init__(self) -> None:
        self.events: list = []
        self.changed = threading.Condition()
        self.accept = True

    def __call__(self, batch: list) -> bool:
        with self.changed:
            self.events += batch
            self.changed.notify_all()
            return self.accept

    def wait(self, condition, what: str = "") -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: condition(self), DEADLINE_S), (what, self.short())

    def short(self) -> list[str]:
        return [f"{type(event).__name__}: {str(event)[:150]}" for event in self.events[-30:]]

    def of(self, kind: type) -> list:
        return [event for event in self.events if isinstance(event, kind)]

    def names(self) -> list[str]:
        return [event.name for event in self.of(Opened)]

    def number(self, name: str) -> int:
        return next(event.source for event in self.of(Opened) if event.name == name)

    def data(self, source: int = 0, generation: int | None = None) -> bytes:
        """The bytes of a source; its newest generation unless told otherwise. Offsets must join."""
        out, current = b"", 0
        for event in self.events:
            if isinstance(event, Replaced) and event.source == source:
                current = event.generation
                if generation is None or current <= generation:
                    out = b""
            elif isinstance(event, Data) and event.source == source and generation in (None, event.generation):
                assert event.generation == current
                assert event.offset == len(out)
                out += event.data
        return out

    def word(self, spec: str) -> str | None:
        said = [state for state in self.of(SourceState) if state.spec == spec]
        return said[-1].word if said else None

    def state(self, spec: str) -> SourceState:
        return [state for state in self.of(SourceState) if state.spec == spec][-1]


@pytest.fixture
def follow(monkeypatch):
    """Start a reader on specs; it is stopped at the end and must not hold the test up."""
    readers: list[Reader] = []
    monkeypatch.setattr(reader_module, "SCAN_S", 0.1)

    def start(*specs: object, **options: object) -> tuple[Reader, Sink]:
        sink = options.pop("sink", None) or Sink()
        reader = Reader([str(spec) for spec in specs], sink, clock=SystemClock(), poll_s=0.01, **options)
        readers.append(reader)
        reader.start()
        return reader, sink

    yield start
    for reader in readers:
        reader.stop()


def until(condition) -> None:
    """For what no event tells."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        threading.Event().wait(0.005)


def append(path: Path, data: bytes) -> None:
    with open(path, "ab") as file:
        file.write(data)


def test_short_file_is_opened_given_and_caught_up(tmp_path: Path, follow) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(b"one\ntwo\nhalf")
    _, sink = follow(log)
    sink.wait(lambda s: s.of(CaughtUp))
    kinds = [type(event) for event in sink.events if not isinstance(event, SourceState)]
    assert kinds == [Opened, Data, CaughtUp]
    opened = sink.of(Opened)[0]
    assert (opened.name, opened.path, opened.size, opened.joined) == (str(log), str(log), 12, False)
    append(log, b" line\nnext\n")
    sink.wait(lambda s: s.data() == b"one\ntwo\nhalf line\nnext\n")
    assert len(sink.of(CaughtUp)) == 1
    assert sink.word(str(log)) == "followed"


def test_bytes_pass_untouched(tmp_path: Path, follow) -> None:
    log = tmp_path / "odd.log"
    odd = b"a\r\nbar 1%\rbar 2%\r\n\xff\xfe invalid \xc3( utf-8\n\x1b[31mred\x1b[0m\n\x00\x00\x00\nend"
    log.write_bytes(odd)
    _, sink = follow(log)
    sink.wait(lambda s: s.data() == odd)


def test_hole_of_nul_bytes(tmp_path: Path, follow) -> None:
    """A log that was truncated under a writer that does not append: it begins with a hole."""
    log = tmp_path / "hole.log"
    with open(log, "wb") as file:
        file.seek(700_000)
        file.write(b"step 1\n")
    _, sink = follow(log)
    sink.wait(lambda s: s.of(CaughtUp))
    assert sink.data() == b"\0" * 700_000 + b"step 1\n"


def test_long_file_glimpse_history_ahead_and_meeting(tmp_path: Path, follow) -> None:
    log = tmp_path / "long.log"
    lines = b"".join(b"step %07d loss 1.25\n" % i for i in range(150_000))
    log.write_bytes(lines)
    sink = Sink()
    sink.accept = False  # history has to wait
    _, sink = follow(log, sink=sink)
    sink.wait(lambda s: s.of(Glimpse))
    glimpse = sink.of(Glimpse)[0]
    assert lines.startswith(glimpse.head) and glimpse.head.endswith(b"\n") and len(glimpse.head) > 60_000
    assert lines.endswith(glimpse.tail) and glimpse.tail.startswith(b"step ") and len(glimpse.tail) > 250_000
    assert lines[glimpse.tail_offset :] == glimpse.tail and glimpse.size == len(lines)
    append(log, b"while history waits\n")
    sink.wait(lambda s: s.of(Ahead))
    ahead = sink.of(Ahead)[0]
    assert (ahead.offset, ahead.data) == (len(lines), b"while history waits\n")
    assert not sink.of(CaughtUp)
    assert len(sink.data()) <= 256 * 1024  # one block before the first refusal
    sink.accept = True
    sink.wait(lambda s: s.of(CaughtUp))
    assert sink.data() == lines + b"while history waits\n"
    assert max(len(event.data) for event in sink.of(Data)) <= 256 * 1024
    append(log, b"live\n")
    sink.wait(lambda s: s.data().endswith(b"live\n"))
    assert len(sink.of(Ahead)) == 1
    first = [type(event) for event in sink.events].index(Data)
    assert [type(event) for event in sink.events].index(Glimpse) < first


def test_glimpses_come_before_any_history_and_histories_take_turns(tmp_path: Path, follow) -> None:
    for name in "ab":
        (tmp_path / f"{name}.log").write_bytes(b"x" * 99 + b"\n" + (b"y" * 99 + b"\n") * 15_000)
    _, sink = follow(tmp_path / "a.log", tmp_path / "b.log")
    sink.wait(lambda s: len(s.of(CaughtUp)) == 2)
    kinds = [type(event) for event in sink.events]
    assert max(i for i, kind in enumerate(kinds) if kind is Glimpse) < kinds.index(Data)
    turns = [event.source for event in sink.of(Data)]
    assert turns[:4] == [0, 1, 0, 1]


def test_truncation_and_rewriting_in_place(tmp_path: Path, follow) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(b"first run, step 1\n")
    _, sink = follow(log)
    sink.wait(lambda s: s.of(CaughtUp))
    os.truncate(log, 0)
    sink.wait(lambda s: s.of(Replaced))
    append(log, b"second\n")
    sink.wait(lambda s: s.data() == b"second\n")
    assert (sink.of(Replaced)[0].reason, sink.of(Replaced)[0].lost) == ("truncated", True)
    with open(log, "r+b") as file:
        file.write(b"another text that is longer\n")
    sink.wait(lambda s: s.data() == b"another text that is longer\n")
    assert sink.of(Replaced)[1].reason == "rewritten"
    assert len(sink.of(CaughtUp)) == 3


def test_clean_rotation_loses_nothing(tmp_path: Path, follow) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(b"1\n")
    _, sink = follow(log)
    sink.wait(lambda s: s.of(CaughtUp))
    with open(log, "ab", buffering=0) as writer:
        writer.write(b"2\n")
        os.rename(log, tmp_path / "a.log.1")
        writer.write(b"3, after the rename\n")
        sink.wait(lambda s: s.data() == b"1\n2\n3, after the rename\n")
    log.write_bytes(b"4\n")
    sink.wait(lambda s: s.data() == b"4\n")
    assert [(event.reason, event.lost) for event in sink.of(Replaced)] == [("rotated", False)]


def test_rotation_within_a_glob_is_followed_once(tmp_path: Path, follow) -> None:
    log, old = tmp_path / "a.log", tmp_path / "a.log.1"
    log.write_bytes(b"new 1\n")
    old.write_bytes(b"old 1\n")
    _, sink = follow(str(tmp_path / "a.log*"))
    sink.wait(lambda s: len(s.of(CaughtUp)) == 2)
    os.rename(old, tmp_path / "a.log.2")
    os.rename(log, old)
    log.write_bytes(b"newest\n")
    sink.wait(lambda s: s.data(s.number(str(log))) == b"newest\n")
    log.write_bytes(b"newest of all\n")
    (tmp_path / "a.log.joins").write_bytes(b"to wait for a scan\n")
    sink.wait(lambda s: str(tmp_path / "a.log.joins") in s.names())
    given = b"".join(event.data for event in sink.of(Data))
    assert given.count(b"new 1\n") == 1 and given.count(b"old 1\n") == 1
    assert str(tmp_path / "a.log.2") not in sink.names()


def test_deleted_and_created_again(tmp_path: Path, follow) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(b"1\n")
    _, sink = follow(log)
    sink.wait(lambda s: s.of(CaughtUp))
    log.unlink()
    sink.wait(lambda s: s.word(str(log)) == "gone")
    assert not sink.state(str(log)).bad
    log.write_bytes(b"2\n")
    sink.wait(lambda s: s.data() == b"2\n")
    sink.wait(lambda s: s.word(str(log)) == "followed")
    assert sink.of(Replaced)[0].reason == "re-created"


def test_longer_copy_put_in_place_goes_on(tmp_path: Path, follow) -> None:
    """rsync replaces a growing log by a longer copy: nothing is given twice."""
    log, copy = tmp_path / "a.log", tmp_path / ".a.log.tmp"
    text = b"".join(b"step %d\n" % i for i in range(50))
    log.write_bytes(text)
    _, sink = follow(log)
    sink.wait(lambda s: s.of(CaughtUp))
    copy.write_bytes(text + b"step 50\n")
    os.replace(copy, log)
    sink.wait(lambda s: s.data() == text + b"step 50\n")
    assert not sink.of(Replaced)


def test_file_that_does_not_exist_yet(tmp_path: Path, follow) -> None:
    log = tmp_path / "later" / "a.log"
    _, sink = follow(log)
    sink.wait(lambda s: s.word(str(log)) == "no file yet")
    assert not sink.state(str(log)).bad
    log.parent.mkdir()
    log.write_bytes(b"here\n")
    sink.wait(lambda s: s.data() == b"here\n")


def test_empty_file_says_so_until_its_first_line(tmp_path: Path, follow) -> None:
    log = tmp_path / "a.log"
    log.touch()
    _, sink = follow(log)
    sink.wait(lambda s: s.word(str(log)) == "empty" and s.of(CaughtUp))
    append(log, b"1\n")
    sink.wait(lambda s: s.word(str(log)) == "followed" and s.data() == b"1\n")


def test_glob_newcomers_join_in_natural_order(tmp_path: Path, follow) -> None:
    pattern = str(tmp_path / "w-*.log")
    _, sink = follow(pattern)
    sink.wait(lambda s: s.word(pattern) == "no file yet")
    for number in (10, 9, 2):
        (tmp_path / f"w-{number}.log").write_bytes(b"%d\n" % number)
    sink.wait(lambda s: len(s.of(CaughtUp)) == 3)
    assert all(event.joined for event in sink.of(Opened))
    (tmp_path / "w-11.log").write_bytes(b"11\n")
    sink.wait(lambda s: len(s.of(CaughtUp)) == 4)
    assert sink.of(Opened)[-1].name == str(tmp_path / "w-11.log")


def test_matches_at_the_start_come_in_natural_order(tmp_path: Path, follow) -> None:
    for number in (10, 9, 2):
        (tmp_path / f"w-{number}.log").write_bytes(b"%d\n" % number)
    _, sink = follow(tmp_path / "w-*.log")
    sink.wait(lambda s: len(s.of(CaughtUp)) == 3)
    assert [Path(name).name for name in sink.names()] == ["w-2.log", "w-9.log", "w-10.log"]
    assert not any(event.joined for event in sink.of(Opened))


def test_recursive_glob(tmp_path: Path, follow) -> None:
    _, sink = follow(tmp_path / "**" / "*.log")
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    (deep / "x.log").write_bytes(b"1\n")
    sink.wait(lambda s: s.names() == [str(deep / "x.log")])


def test_expanded_pattern_is_watched_for_later_members(tmp_path: Path, follow) -> None:
    """The shell gave 0 and 3; 1 lay there and was not meant; 4 comes later and joins."""
    for number in (0, 1, 3):
        (tmp_path / f"worker-{number}.log").write_bytes(b"x\n")
    _, sink = follow(tmp_path / "worker-0.log", tmp_path / "worker-3.log")
    sink.wait(lambda s: len(s.of(CaughtUp)) == 2)
    (tmp_path / "worker-x.log").write_bytes(b"no number\n")
    (tmp_path / "worker-4.log").write_bytes(b"y\n")
    sink.wait(lambda s: len(s.of(CaughtUp)) == 3)
    assert [Path(name).name for name in sink.names()] == ["worker-0.log", "worker-3.log", "worker-4.log"]
    assert [event.joined for event in sink.of(Opened)] == [False, False, True]


def test_exact_watches_no_family(tmp_path: Path, follow) -> None:
    for number in (0, 1):
        (tmp_path / f"worker-{number}.log").write_bytes(b"x\n")
    _, sink = follow(tmp_path / "worker-0.log", tmp_path / "worker-1.log", tmp_path / "z*.log", exact=True)
    sink.wait(lambda s: len(s.of(CaughtUp)) == 2)
    (tmp_path / "worker-2.log").write_bytes(b"y\n")
    (tmp_path / "z.log").write_bytes(b"a later scan has happened\n")
    sink.wait(lambda s: len(s.of(CaughtUp)) == 3)
    assert [Path(name).name for name in sink.names()] == ["worker-0.log", "worker-1.log", "z.log"]


def test_folder_gives_its_logs(tmp_path: Path, follow) -> None:
    for name in ("train.log", "model.bin", "out.jsonl", "notes.md", "train_log.txt", ".hidden.log"):
        (tmp_path / name).write_bytes(b"x\n")
    _, sink = follow(tmp_path)
    sink.wait(lambda s: len(s.of(CaughtUp)) == 3)
    assert [Path(name).name for name in sink.names()] == ["out.jsonl", "train.log", "train_log.txt"]
    (tmp_path / "slurm-77.out").write_bytes(b"x\n")
    sink.wait(lambda s: len(s.of(CaughtUp)) == 4)
    assert sink.of(Opened)[-1].joined


def test_folder_without_logs_gives_those_one_level_below(tmp_path: Path, follow) -> None:
    (tmp_path / "run1" / "deeper").mkdir(parents=True)
    (tmp_path / "run1" / "train.log").write_bytes(b"x\n")
    (tmp_path / "run1" / "deeper" / "no.log").write_bytes(b"x\n")
    _, sink = follow(tmp_path)
    sink.wait(lambda s: s.of(CaughtUp))
    assert sink.names() == [str(tmp_path / "run1" / "train.log")]


def test_same_file_twice_is_followed_once(tmp_path: Path, follow) -> None:
    log, link = tmp_path / "a.log", tmp_path / "latest.log"
    log.write_bytes(b"x\n")
    link.symlink_to(log)
    _, sink = follow(log, tmp_path / "." / "a.log", link, f"{tmp_path}/../{tmp_path.name}/a.log", tmp_path / "*.log")
    sink.wait(lambda s: s.of(CaughtUp) and s.word(str(link)) is not None)
    assert sink.names() == [str(log)]
    assert "same file" in sink.state(str(link)).sentence


def test_symlink_that_moves_to_another_run(tmp_path: Path, follow) -> None:
    (tmp_path / "run1.txt").write_bytes(b"1\n")
    (tmp_path / "run2.txt").write_bytes(b"2\n")
    link = tmp_path / "latest"
    link.symlink_to(tmp_path / "run1.txt")
    _, sink = follow(link)
    sink.wait(lambda s: s.data() == b"1\n")
    new = tmp_path / "new"
    new.symlink_to(tmp_path / "run2.txt")
    os.replace(new, link)
    sink.wait(lambda s: s.data() == b"2\n")
    assert sink.of(Replaced)[0].reason == "rotated"


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
    until(lambda: sum(thread.name == "trainmon-reader" for thread in threading.enumerate()) == 1)
    answers.clear()
    started = time.monotonic()
    reader.stop()
    assert time.monotonic() - started < 5  # it gives up after 0.2 s; the bound is for a busy machine
    answers.set()


def test_thousand_files_and_a_line_in_each(tmp_path: Path, follow) -> None:
    paths = [tmp_path / f"w-{i:04}.log" for i in range(1024)]
    for path in paths:
        path.write_bytes(b"1\n")
    _, sink = follow(tmp_path / "w-*.log")
    sink.wait(lambda s: len(s.of(CaughtUp)) == 1024)
    for path in paths:
        append(path, b"2\n")
    sink.wait(lambda s: sum(len(event.data) for event in s.of(Data)) == 4 * 1024)
    assert all(sink.data(source) == b"1\n2\n" for source in (0, 511, 1023))


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


def test_numbered_folders_are_no_family(tmp_path: Path, follow) -> None:
    for name in ("run1", "run2", "run3"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "train.log").write_bytes(b"x\n")
    _, sink = follow(tmp_path / "run1", tmp_path / "run2")
    sink.wait(lambda s: len(s.of(CaughtUp)) == 2)
    (tmp_path / "run4").mkdir()
    (tmp_path / "run1" / "other.log").write_bytes(b"a later scan has happened\n")
    sink.wait(lambda s: len(s.of(CaughtUp)) == 3)
    assert {Path(state.spec).name for state in sink.of(SourceState)} == {"train.log", "other.log"}


def test_standard_input(follow) -> None:
    read, write = os.pipe()
    stream = os.fdopen(read, "rb")
    reader, sink = follow("-", stdin=stream)
    os.write(write, b"one\nha")
    sink.wait(lambda s: s.data() == b"one\nha" and s.of(CaughtUp))
    os.write(write, b"lf\n")
    sink.wait(lambda s: s.data() == b"one\nhalf\n")
    assert sink.word("-") == "followed" and not reader.closed
    os.close(write)
    sink.wait(lambda s: s.word("-") == "ended")
    until(lambda: reader.closed)
    stream.close()


def test_standard_input_that_is_no_descriptor_and_larger_than_the_buffer(follow) -> None:
    text = b"".join(b"line %d\n" % i for i in range(1_000_000))
    _, sink = follow("-", stdin=io.BytesIO(text))
    sink.wait(lambda s: s.word("-") == "ended")
    assert sink.data() == text


def test_stop_closes_descriptors_and_sends_nothing_more(tmp_path: Path, follow) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(b"1\n")
    reader, sink = follow(log)
    sink.wait(lambda s: s.of(CaughtUp))
    reader.stop()
    assert reader.closed
    count = len(sink.events)
    append(log, b"2\n")
    assert len(sink.events) == count
