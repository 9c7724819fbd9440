"""Rotated and packed logs: which files are whose past, in which order, and what a follower makes of them."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from trainmon.clock import SystemClock
from trainmon.model import CaughtUp, Data, Opened, Replaced, SourceEvent, SourceState
from trainmon.sources.packed import in_order, packed_kind, rotated_from, rotations
from trainmon.sources.reader import Reader

PACK: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstandard.ZstdCompressor().compress,
}


def lines(first: int, last: int) -> bytes:
    return "".join(json.dumps({"step": i, "loss": 2.5}) + "\n" for i in range(first, last)).encode()


def follow(specs: list[str], until: Callable[[list[SourceEvent]], bool]) -> list[SourceEvent]:
    events: list[SourceEvent] = []

    def sink(batch: list[SourceEvent]) -> bool:
        events.extend(batch)
        return True

    reader = Reader(specs, sink, clock=SystemClock(), poll_s=0.02)
    reader.start()
    try:
        end = time.monotonic() + 20
        while not until(events) and time.monotonic() < end:
            time.sleep(0.01)
    finally:
        reader.stop()
    return events


def caught_up(events: list[SourceEvent]) -> bool:
    return any(isinstance(event, CaughtUp) for event in events)


def text(events: list[SourceEvent]) -> bytes:
    return b"".join(event.data for event in events if isinstance(event, Data))


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("worker-0.log.1", "worker-0.log"),
        ("worker-0.log.12.gz", "worker-0.log"),
        ("train.out-20250101.zst", "train.out"),
        ("train.out-20250101-0300.xz", "train.out"),
        ("a/b.jsonl.2", "a/b.jsonl"),
        ("worker-0.log", None),
        ("worker-0.log.gz", None),
        ("run-20250101.log", None),
        ("model.1", None),
        ("worker.log.old", None),
    ],
)
def test_whose_past(name: str, base: str | None) -> None:
    assert rotated_from(name) == base


def test_the_oldest_comes_first() -> None:
    names = ["a.log", "a.log.1", "a.log.10.gz", "a.log.2", "a.log-20250101.gz", "b.log", "c.log.1"]
    assert in_order(names) == [
        "a.log-20250101.gz", "a.log.10.gz", "a.log.2", "a.log.1", "a.log", "b.log", "c.log.1",
    ]  # fmt: skip


def test_what_lies_beside_a_log(tmp_path: Path) -> None:
    for name in ("a.log", "a.log.1", "a.log.2.gz", "a.log.old", "a.logs.1", "ba.log.1", "a.log.3.zst"):
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "a.log.4").mkdir()
    assert [os.path.basename(path) for path in rotations(str(tmp_path / "a.log"))] == [
        "a.log.3.zst", "a.log.2.gz", "a.log.1",
    ]  # fmt: skip


@pytest.mark.parametrize("kind", PACK)
def test_the_past_is_read_before_the_present(tmp_path: Path, kind: str) -> None:
    assert packed_kind(PACK[kind](b"x")[:8]) == kind
    (tmp_path / f"a.log.2.{kind}").write_bytes(PACK[kind](lines(0, 5000)))
    (tmp_path / "a.log.1").write_bytes(lines(5000, 5100))
    (tmp_path / "a.log").write_bytes(lines(5100, 5200))
    events = follow([str(tmp_path / "a.log")], caught_up)
    assert text(events) == lines(0, 5200)
    assert [(e.generation, e.lost) for e in events if isinstance(e, Replaced)] == [(1, False), (2, False)]
    assert [e.generation for e in events if isinstance(e, CaughtUp)] == [2]
    assert all(e.offset == 0 for e in events if isinstance(e, Data) and e.generation == 1)


@pytest.mark.parametrize("how", ["glob", "named"])
def test_a_past_is_no_file_of_its_own(tmp_path: Path, how: str) -> None:
    (tmp_path / "a.log.2.gz").write_bytes(gzip.compress(lines(0, 10)))
    (tmp_path / "a.log.1").write_bytes(lines(10, 20))
    (tmp_path / "a.log").write_bytes(lines(20, 30))
    specs = [str(tmp_path / "a.log*")] if how == "glob" else sorted(str(path) for path in tmp_path.iterdir())
    events = follow(specs, caught_up)
    assert [os.path.basename(e.name) for e in events if isinstance(e, Opened)] == ["a.log"]
    assert text(events) == lines(0, 30)


@pytest.mark.parametrize("damage", ["cut", "empty", "garbage"])
def test_a_damaged_past_is_said_to_be_lossy(tmp_path: Path, damage: str) -> None:
    whole = gzip.compress(os.urandom(1 << 16).hex().encode())
    bad = {"cut": whole[: len(whole) // 2], "empty": b"", "garbage": whole[:64] + os.urandom(500)}[damage]
    (tmp_path / "a.log.2.gz").write_bytes(bad)
    (tmp_path / "a.log.1").write_bytes(lines(10, 20))
    (tmp_path / "a.log").write_bytes(lines(20, 30))
    events = follow([str(tmp_path / "a.log")], caught_up)
    assert text(events).endswith(lines(10, 30))
    assert [e.lost for e in events if isinstance(e, Replaced)] == [damage != "empty", False]


def test_what_is_written_meanwhile_follows(tmp_path: Path) -> None:
    (tmp_path / "a.log.1").write_bytes(lines(0, 50))
    path = tmp_path / "a.log"
    path.write_bytes(lines(50, 60))
    written = False

    def until(events: list[SourceEvent]) -> bool:
        nonlocal written
        if caught_up(events) and not written:
            written = True
            with path.open("ab") as file:
                file.write(lines(60, 70))
        return text(events) == lines(0, 70)

    assert text(follow([str(path)], until)) == lines(0, 70)


def test_a_packed_log_alone_says_how_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.log.1.gz"
    path.write_bytes(gzip.compress(lines(0, 10)))
    events = follow([str(path)], lambda events: any(isinstance(e, SourceState) for e in events))
    (state,) = [event for event in events if isinstance(event, SourceState)]
    assert state.sentence.endswith(f"is packed: it is read with its log, or by trainmon parse {path}.")
