"""`trainmon parse --follow`: every record once, across rotation, in pipes that close and with signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from trainmon.model import CaughtUp, Data, Opened, Record, Replaced, SourceState

LINE = "2025-04-05 10:00:%02d INFO step %d loss: 2.5 lr: 1e-4\n"


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    names = ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "HOME")
    env = {**os.environ, **{name: str(tmp_path / "home") for name in names}, "PYTHONPATH": ""}
    made: list[subprocess.Popen[str]] = []

    def begin(*arguments: str, **more: object) -> subprocess.Popen[str]:
        made.append(subprocess.Popen(
            [sys.executable, "-m", "trainmon", "parse", "--follow", *arguments],
            cwd=tmp_path, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler), **more,  # type: ignore[call-overload]
        ))  # fmt: skip
        return made[-1]

    yield begin
    for each in made:
        each.kill()
        each.communicate()


def following(process: subprocess.Popen[str]) -> dict:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.stderr and process.stderr.read()
    return json.loads(line)


def write(path: Path, step: int) -> None:
    with path.open("a") as file:
        file.write(LINE % (step, step))


def test_what_is_there_and_what_comes_across_a_rotation(tmp_path: Path, start) -> None:
    path = tmp_path / "a.log"
    write(path, 1)
    process = start("a.log", "later.log")
    assert following(process)["step"] == 1
    write(path, 2)
    found = following(process)
    assert (found["step"], found["line"], found["offset"]) == (2, 2, len(LINE % (1, 1)))
    path.rename(tmp_path / "a.log.1")
    write(tmp_path / "a.log.1", 3)
    write(path, 4)
    assert [(each["step"], each["line"]) for each in (following(process), following(process))] == [(3, 3), (4, 1)]
    write(tmp_path / "later.log", 5)
    found = following(process)
    assert (found["source"], found["step"]) == ("later.log", 5)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=20)[1] == "" and process.returncode == 130


def test_whoever_reads_no_more_ends_it_while_nothing_comes(tmp_path: Path, start) -> None:
    write(tmp_path / "a.log", 1)
    process = start("a.log")
    following(process)
    process.stdout.close()
    assert process.wait(timeout=20) == 0 and process.stderr.read() == ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=str)
def test_signals_end_it_with_their_number(number: int, tmp_path: Path, start) -> None:
    write(tmp_path / "a.log", 1)
    process = start("a.log", "--to", "csv", "--quarantine", "bad")
    assert process.stdout.readline().startswith("kind,source,line") and process.stdout.readline().startswith("metrics")
    process.send_signal(number)
    assert process.wait(timeout=20) == 128 + number
    assert sorted(os.listdir(tmp_path)) == ["a.log", "bad"]


def test_standard_input_to_its_end(start) -> None:
    process = start("-", stdin=subprocess.PIPE)
    process.stdin.write(LINE % (1, 1))
    process.stdin.flush()
    assert following(process)["step"] == 1
    out, err = process.communicate(LINE % (2, 2) + "ERROR without an end", timeout=20)
    assert [json.loads(line)["kind"] for line in out.splitlines()] == ["metrics", "error"]
    assert (process.returncode, err) == (0, "")


class Kept:
    """An output that keeps what it is given."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def write(self, records: list[Record]) -> None:
        self.records += records

    def flush(self) -> None:
        pass


def test_a_silent_file_gives_what_it_holds_back_and_gaps_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    from trainmon.catalogue import load
    from trainmon.commands.parse_follow import Follower
    from trainmon.commands.parse_source import Reading
    from trainmon.commands.parse_wanted import Wanted
    from trainmon.parsing.formats import builtin

    kept = Kept()
    reading = Reading(lambda name: {"job_id": name}, builtin(), load(), keep_log=False)
    follower = Follower(reading, Wanted(), kept)  # type: ignore[arg-type]
    follower.handle(Opened(1, "a.log", "a.log", 10, 5.0))
    text = b'Traceback (most recent call last):\n  File "a.py", line 3, in f\nValueError: no'
    follower.handle(Data(1, 0, 0, text, len(text), 5.0))
    follower.handle(CaughtUp(1, 0))
    follower.quiet(1e12)
    assert kept.records == []  # half a line may go on
    follower.handle(Data(1, 0, len(text), b"pe\n", len(text) + 3, 5.0))
    follower.quiet(1e12)
    (error,) = kept.records
    assert (error.message, error.labels) == ("ValueError: nope", {"job_id": "a.log"})
    follower.handle(Replaced(1, 1, "truncated", True, 120))
    assert (kept.records[1].kind, kept.records[1].extra) == ("gap", {"bytes": 120})
    for _ in range(2):
        follower.handle(SourceState("b.log", None, "not readable", "no permission", bad=True))
    assert capsys.readouterr().err == "trainmon: b.log: not readable; no permission\n"


def test_a_long_past_before_the_limit_is_counted_and_not_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trainmon.catalogue import load
    from trainmon.commands.parse_follow import Follower
    from trainmon.commands.parse_source import Reading
    from trainmon.commands.parse_wanted import Wanted
    from trainmon.parsing.formats import builtin
    from trainmon.parsing.parser import FileParser

    text = "".join(
        f"2025-04-{1 + n // 86400:02d} {n // 3600 % 24:02d}:{n // 60 % 60:02d}:{n % 60:02d} WARNING w {n} {'x' * 40}\n"
        for n in range(0, 600_000, 10)
    ).encode()
    path = tmp_path / "a.log"
    path.write_bytes(text)
    fed: list[int] = []
    feed = FileParser.feed
    monkeypatch.setattr(
        FileParser, "feed", lambda self, data, offset: fed.append(len(data)) or feed(self, data, offset)
    )
    kept = Kept()
    since = 1743465600.0 + 599_000  # 2025-04-01 and most of a week
    reading = Reading(lambda _name: {}, builtin(), load(), keep_log=False, times=True)
    follower = Follower(reading, Wanted(since=since, lowest=2), kept)  # type: ignore[arg-type]
    follower.handle(Opened(1, "a.log", str(path), len(text), since + 1000))
    for start in range(0, len(text), 1 << 20):
        part = text[start : start + (1 << 20)]
        follower.handle(Data(1, 0, start, part, len(text), since + 1000))
    assert [(record.message or "").split()[1] for record in kept.records] == [
        str(n) for n in range(599_000, 600_000, 10)
    ]
    assert [record.line for record in kept.records] == list(range(59_901, 60_001))
    assert sum(fed) < 400_000 < len(text)
