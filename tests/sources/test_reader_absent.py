"""Neighbours of what hangs: taken back when they answer, told of when they hang, too."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from trainmon.model import CaughtUp
from trainmon.sources import absent


class Mount:
    """Calls about some files block while it is down."""

    def __init__(self) -> None:
        self.bad: Callable[[str], bool] = lambda _path: False
        self.up = threading.Event()
        self.up.set()

    def wait(self, path: object) -> None:
        if not self.up.is_set() and self.bad(str(path)):
            self.up.wait()


@pytest.fixture
def mount(monkeypatch: pytest.MonkeyPatch) -> Iterator[Mount]:
    made = Mount()
    stat, pread = os.stat, os.pread

    def statting(path, *args, **kwargs):
        made.wait(path)
        return stat(path, *args, **kwargs)

    def reading(fd, size, offset):
        if not made.up.is_set():
            made.wait(os.readlink(f"/proc/self/fd/{fd}"))
        return pread(fd, size, offset)

    monkeypatch.setattr(os, "stat", statting)
    monkeypatch.setattr(os, "pread", reading)
    yield made
    made.up.set()


def files(folder: Path, count: int) -> list[Path]:
    paths = [folder / f"w-{i:02}.log" for i in range(count)]
    for path in paths:
        path.write_bytes(b"first line of %s\n" % path.name.encode())
    return paths


def place(subject: object) -> bool:
    return "far" in str(getattr(subject, "path", getattr(subject, "base", "")))


def append(path: Path, data: bytes) -> None:
    with open(path, "ab") as file:
        file.write(data)


def test_thirty_nine_go_on_beside_one_that_hangs(tmp_path: Path, follow, mount: Mount) -> None:
    paths = files(tmp_path, 40)
    _, sink = follow(*paths, hang_s=0.2)
    sink.wait(lambda s: len(s.of(CaughtUp)) == 40)
    mount.bad = lambda path: path.endswith("w-07.log")
    mount.up.clear()
    sink.wait(lambda s: s.word(str(paths[7])) == "hangs")
    for path in paths:
        append(path, b"more\n")
    sink.wait(lambda s: all(s.data(i).endswith(b"more\n") for i in range(40) if i != 7))
    assert not [i for i in range(40) if i != 7 and sink.word(str(paths[i])) == "hangs"]
    mount.up.set()
    sink.wait(lambda s: s.data(7).endswith(b"more\n") and s.word(str(paths[7])) == "followed")


def test_a_mount_that_is_down_costs_few_threads_and_all_is_told(tmp_path: Path, follow, mount: Mount) -> None:
    paths = files(tmp_path, 40)
    _, sink = follow(*paths, hang_s=0.2)
    sink.wait(lambda s: len(s.of(CaughtUp)) == 40)
    mount.bad = lambda path: "w-" in path
    mount.up.clear()
    sink.wait(lambda s: all(s.word(str(path)) == "hangs" for path in paths))
    names = [thread.name for thread in threading.enumerate()]
    assert names.count("trainmon-trial") <= absent.MOST and names.count("trainmon-reader") <= 2
    for path in paths:
        append(path, b"more\n")
    mount.up.set()
    sink.wait(lambda s: all(s.data(i).endswith(b"more\n") for i in range(40)))
    sink.wait(lambda s: all(s.word(str(path)) == "followed" for path in paths))
    sink.until(lambda: not [t for t in threading.enumerate() if t.name == "trainmon-trial"])


def test_what_answers_trials_and_hangs_at_work_does_not_stop_the_rest_for_ever(
    tmp_path: Path, follow, mount: Mount, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cache answers the trials; each file hangs once it is really read."""
    near, far = tmp_path / "near", tmp_path / "far"
    near.mkdir()
    far.mkdir()
    monkeypatch.setattr(absent, "neighbours", lambda one, other: place(one) == place(other))
    (near / "a.log").write_bytes(b"1\n")
    paths = files(far, 12)
    _, sink = follow(near / "a.log", *paths, hang_s=0.2)
    sink.wait(lambda s: len(s.of(CaughtUp)) == 13)
    mount.bad = lambda path: "far" in path and threading.current_thread().name == "trainmon-reader"
    mount.up.clear()
    began, number = time.monotonic(), sink.number(str(near / "a.log"))
    sink.wait(lambda s: sum(s.word(str(path)) == "hangs" for path in paths) >= absent.STRIKES)
    for i in range(20):
        append(near / "a.log", b"%d\n" % i)
        sink.wait(lambda s, i=i: s.data(number).endswith(b"\n%d\n" % i))
    assert time.monotonic() - began < 20
    mount.up.set()
    sink.wait(lambda s: all(s.word(str(path)) == "followed" for path in paths))
