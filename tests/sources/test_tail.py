"""One follower by hand, look by look: what the threads make hard to see."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from trainmon.clock import ManualClock, SystemClock
from trainmon.model import Ahead, CaughtUp, Data, Glimpse, Replaced
from trainmon.sources.files import BLOCK, MARK, FollowedFile
from trainmon.sources.patterns import binary_kind, families, looks_like_log, natural
from trainmon.sources.stdin import StdinPump
from trainmon.sources.tail import LONG, WIDEST_TAIL, Tail, take_glimpse


def opened(path: Path, clock: ManualClock | None = None) -> Tail:
    tail = Tail(3, str(path), clock=clock or ManualClock())
    tail.prepare(path.name, 0.0)
    tail.open()
    return tail


def append(path: Path, data: bytes) -> None:
    with open(path, "ab") as file:
        file.write(data)


def kinds(events: list) -> list[type]:
    return [type(event) for event in events]


def test_mark_is_whole_whatever_the_size_of_the_pieces(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.touch()
    tail = opened(path)
    for i in range(200):
        append(path, b"%d" % (i % 10))
        tail.look()
    assert tail.mark == path.read_bytes()[-MARK:]
    tail.close()


def test_suspicion_outlives_an_empty_file(tmp_path: Path) -> None:
    """A file appeared after a long pause; it stayed empty, and another one came: what stood before it is unknown."""
    path, clock = tmp_path / "a.log", ManualClock()
    path.write_bytes(b"1\n")
    follower = FollowedFile(0, str(path), clock=clock)
    follower.open()
    assert kinds(follower.look()) == [Data]
    path.unlink()
    path.touch()
    clock.advance(3600)
    assert follower.look() == []
    path.unlink()
    path.write_bytes(b"2\n")
    clock.advance(0.1)
    replaced = follower.look()[0]
    assert isinstance(replaced, Replaced) and replaced.lost and replaced.reason == "re-created"
    follower.close()


def test_nothing_comes_ahead_that_history_has_given(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"y" * (5 * BLOCK - 4))
    tail = opened(path)
    assert kinds(tail.begin()) == [Glimpse]
    append(path, b"new\n")  # the last block ends where the file does: the end is not met yet
    while tail.offset < path.stat().st_size:
        assert set(kinds(tail.read_history())) == {Data}
    assert tail.phase == "history"
    assert tail.poll(1000, False) == []
    append(path, b"newer\n")
    assert [event.data for event in tail.poll(1000, False)] == [b"newer\n"]
    assert kinds(tail.read_history()) == [Data, CaughtUp]
    tail.close()


def test_a_flood_ahead_is_shown_by_its_end(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes((b"y" * 99 + b"\n") * (LONG // 100 + 100))
    tail = opened(path)
    tail.begin()
    append(path, (b"z" * 99 + b"\n") * (WIDEST_TAIL // 100 + 1000))
    ahead = tail.poll(1000, False)
    assert kinds(ahead) == [Ahead] and len(ahead[0].data) < 300_000
    assert ahead[0].offset + len(ahead[0].data) == path.stat().st_size
    assert tail.poll(1000, False) == []
    tail.close()


def test_truncation_behind_and_before_the_place_of_history(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes((b"y" * 99 + b"\n") * 15_000)
    tail = opened(path)
    tail.begin()
    tail.read_history()
    os.truncate(path, 1_000_000)  # behind it: no news but the end
    tail.poll(1000, False)
    append(path, b"after\n")
    assert [event.data for event in tail.poll(1000, False)] == [b"after\n"]
    os.truncate(path, 50)
    events = tail.poll(1000, False) + tail.read_history()
    assert [type(event) for event in events if not isinstance(event, Ahead)] == [Replaced, Data, CaughtUp]
    tail.close()


def test_replaced_by_a_long_file_gives_a_new_glimpse(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"short\n")
    tail = opened(path)
    tail.begin()
    assert kinds(tail.read_history()) == [Data, CaughtUp]
    path.write_bytes((b"y" * 99 + b"\n") * 15_000)
    events = tail.poll(LONG, False)
    assert kinds(events) == [Replaced, Glimpse]
    assert events[1].generation == 1 and tail.phase == "history"
    tail.close()


def test_glimpse_cuts_at_lines_and_carriage_returns(tmp_path: Path) -> None:
    path = tmp_path / "a.log"

    def glimpse(content: bytes, head: int, tail: int) -> Glimpse:
        path.write_bytes(content)
        fd = os.open(path, os.O_RDONLY)
        try:
            return take_glimpse(fd, 0, 0, len(content), head, tail)
        finally:
            os.close(fd)

    seen = glimpse(b"one\ntwo\nthree\nfour\n", 6, 8)
    assert (seen.head, seen.tail, seen.tail_offset) == (b"one\n", b"four\n", 14)
    seen = glimpse(b"bar 1%\rbar 2%\rbar 3%\rbar", 10, 12)
    assert (seen.head, seen.tail) == (b"bar 1%\r", b"bar 3%\rbar")
    seen = glimpse(b"one\r\ntwo\r\nthree\r\n", 7, 11)
    assert (seen.head, seen.tail) == (b"one\r\n", b"three\r\n")
    # No line end among the last bytes: wider, until there is one.
    seen = glimpse(b"one\n" * 200 + b"x" * 500, 100, 20)
    assert seen.tail.startswith(b"one\n") and seen.tail.endswith(b"x" * 500) and seen.tail_offset % 4 == 0
    seen = glimpse(b"y" * 500, 100, 20)
    assert (seen.head, seen.tail, seen.tail_offset) == (b"y" * 100, b"y" * 500, 0)


def test_standard_input_waits_for_the_reader() -> None:
    read, write = os.pipe()
    os.set_blocking(write, False)
    with os.fdopen(read, "rb", buffering=0) as stream:
        woken = threading.Event()
        pump = StdinPump(0, stream, SystemClock(), woken.set)
        pump.start()
        sent, refused = 0, 0
        while refused < 50:  # until the pipe stays full: the pump has stopped to take
            try:
                sent += os.write(write, b"z" * 65536)
                refused = 0
            except BlockingIOError:
                refused += 1
                threading.Event().wait(0.005)
            assert sent < 64 << 20
        got = 0
        os.close(write)
        while not pump.ended:
            woken.clear()
            got += sum(len(event.data) for event in pump.take(8) if isinstance(event, Data))
        assert got == sent


def test_families_of_names() -> None:
    def family(*paths: str) -> list[tuple[str, str]]:
        return [(pattern.spec, pattern.exact.pattern) for pattern in families(paths) if pattern.exact]

    assert family("worker-0.log") == []
    assert family("a.log", "b.log") == []
    assert family("worker-0.log", "worker-12.log") == [("worker-*.log", r"worker\-\d+\.log")]
    assert family("v2/w-0.log", "v2/w-1.log") == [("v2/w-*.log", r"v2/w\-\d+\.log")]
    assert family("n0/g0.log", "n0/g1.log", "n1/g0.log")[0][0] == "n*/g*.log"
    assert len(family("a-0.log", "a-1.log", "b-0.log", "b-1.log", "c-0.log")) == 2


def test_names() -> None:
    assert sorted(["w-10", "w-9", "w-1a", "v"], key=natural) == ["v", "w-1a", "w-9", "w-10"]
    assert all(
        map(looks_like_log, ("a.log", "slurm-7.out", "x.jsonl", "a.log.1", "train_log.txt", "stderr.txt", "e.err"))
    )
    assert not any(map(looks_like_log, ("model.pt", "notes.md", "catalog.txt", ".a.log", "config.json", "login.py")))


def test_text_is_not_binary() -> None:
    for text in (
        b"",
        b"\0" * 4096,
        "步骤 100：损失 = 2.3\n".encode() * 50,
        b"\x1b[32mok\x1b[0m\r\n" * 50,
        b"\xff\xfe" * 99,
    ):
        assert binary_kind(text) is None
    assert binary_kind(b"\x1f\x8b\x08\x00rest") and binary_kind(bytes(range(256)) * 8)
