"""From names to files: globs, families, folders, links, newcomers."""

from __future__ import annotations

import os
from pathlib import Path

from trainmon.model import CaughtUp, Data, Opened, Replaced, SourceState


def test_glob_newcomers_join_in_natural_order(tmp_path: Path, follow) -> None:
    pattern = str(tmp_path / "w-*.log")
    _, sink = follow(pattern)
    sink.wait(lambda s: s.word(pattern) == "no file yet")
    for number in (10, 9, 2):
        (tmp_path / f"w-{number}.log").write_bytes(b"%d\n" % number)
    sink.wait(lambda s: len(s.of(CaughtUp)) == 3 and s.word(pattern) == "followed")
    assert sink.state(pattern).source is not None  # so that the session drops the sentence
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


def test_rotation_within_a_glob_is_followed_once(tmp_path: Path, follow) -> None:
    log, old = tmp_path / "a.log", tmp_path / "a.log.1"
    log.write_bytes(b"new 1\n")
    old.write_bytes(b"old 1\n")
    _, sink = follow(str(tmp_path / "a.log*"))
    sink.wait(lambda s: len(s.of(CaughtUp)) == 1 and b"new 1\n" in s.data())
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


def test_file_that_does_not_exist_yet(tmp_path: Path, follow) -> None:
    log = tmp_path / "later" / "a.log"
    _, sink = follow(log)
    sink.wait(lambda s: s.word(str(log)) == "no file yet")
    assert not sink.state(str(log)).bad
    log.parent.mkdir()
    log.write_bytes(b"here\n")
    sink.wait(lambda s: s.data() == b"here\n")
