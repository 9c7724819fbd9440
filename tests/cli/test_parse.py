"""`trainmon parse`: what is chosen, in which order, in which form, and where it goes."""

from __future__ import annotations

import csv
import io
import json
import os
import random
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from trainmon.cli import main
from trainmon.commands import parse_source, parse_time
from trainmon.commands.parse_merge import in_order
from trainmon.commands.parse_time import LineClock, Neighbours, moment, part_between, zone_shift
from trainmon.commands.progress import Progress
from trainmon.model import Record
from trainmon.parsing.formats import builtin

NOW = 1_764_576_000.0  # 2025-12-01T08:00:00Z
Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setattr("trainmon.commands.parse.time.time", lambda: NOW)


def stamp(when: float) -> str:
    return datetime.fromtimestamp(when, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def log(path: str, *lines: tuple[float | None, str], age: float = 0.0) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{stamp(NOW + at)} {line}\n" if at is not None else line + "\n" for at, line in lines)
    Path(path).write_text(text)
    os.utime(path, (NOW - age, NOW - age))


def records(capsys: Capture, *arguments: str, code: int = 0) -> list[dict]:
    assert main(["parse", *arguments]) == code
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def messages(found: list[dict]) -> list[str]:
    return [each.get("message", "") for each in found]


# ---------------------------------------------------------------- choice


def test_the_last_hours_warnings_and_errors_of_a_tree(capsys: Capture) -> None:
    log("logs/a.log", (-7200, "ERROR long ago"), (-1800, "WARNING slow disk"), (-60, "INFO step 3 loss: 2.0 lr: 1e-4"))
    log("logs/deep/er/b.log", (-10, "ERROR burst"), (-5, "INFO fine"))
    log("logs/old.log", (-9000, "ERROR older"), age=9000)
    found = records(capsys, "logs/**/*.log", "--since", "1h", "--level", "WARN")
    assert [(each["source"], each["level"], each["message"]) for each in found] == [
        ("logs/a.log", "WARN", "slow disk"),
        ("logs/deep/er/b.log", "ERROR", "burst"),
    ]


def test_a_file_that_was_last_written_before_is_not_even_opened(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    log("old.log", (-9000, "ERROR older"), age=9000)
    monkeypatch.setattr(parse_source, "open_source", lambda name: pytest.fail("it was opened"))
    assert records(capsys, "old.log", "--since", "1h") == []


def test_a_line_without_a_time_takes_its_neighbours(capsys: Capture) -> None:
    log(
        "a.log",
        (None, "ERROR before any time"), (-7000, "INFO x"), (None, "ERROR old"), (-600, "INFO calm line"),
        (None, "ERROR new"),
    )  # fmt: skip
    assert messages(records(capsys, "a.log", "--since", "1h")) == ["new"]
    assert messages(records(capsys, "a.log", "--until", "1h")) == ["before any time", "old"]


def test_without_any_time_a_file_counts_as_its_own(capsys: Capture) -> None:
    log("a.log", (None, "ERROR one"), (None, "ERROR two"), age=600)
    assert messages(records(capsys, "a.log", "--since", "1h")) == ["one", "two"]
    assert records(capsys, "a.log", "--until", "1h") == []


def test_levels_measure_everything(capsys: Capture) -> None:
    log(
        "a.log",
        (-9, "INFO step 3 loss: 2.0 lr: 1e-4"),
        (-8, "DEBUG d"),
        (-7, "INFO i"),
        (-6, "WARNING w"),
        (-5, "ERROR e"),
    )
    kinds = {
        (): ["metrics", "error"],
        ("--all",): ["metrics", "log", "log", "log", "error"],
        ("--level", "debug"): ["metrics", "log", "log", "log", "error"],
        ("--level", "info"): ["metrics", "log", "log", "error"],
        ("--level", "WARN"): ["log", "error"],
        ("--level", "ERROR"): ["error"],
        ("--level", "FATAL"): [],
        ("--kind", "metrics,error"): ["metrics", "error"],
        ("--kind", "log"): ["log", "log", "log"],
        ("--kind", "log", "--level", "WARN"): ["log"],
    }
    for options, want in kinds.items():
        assert [each["kind"] for each in records(capsys, "a.log", *options)] == want, options


def test_lines_that_cannot_be_read_go_aside_with_their_reasons(capsys: Capture) -> None:
    bad = "iteration 20/ 1000 | elapsed time per iteration (ms): 12 | learning rate: x.y | lm loss: broken |"
    log("a.log", (None, "step 3 loss: 2.0 lr: 1e-4"), (None, bad))
    for options in ((), ("--level", "ERROR"), ("--kind", "eval")):
        assert records(capsys, "a.log", "--quarantine", "bad.jsonl", *options) == ([] if options else [
            {"kind": "metrics", "source": "a.log", "line": 1, "offset": 0, "format": "generic", "step": 3, "loss": 2.0,
             "learning_rate": 0.0001},
        ])  # fmt: skip
        (aside,) = map(json.loads, Path("bad.jsonl").read_text().splitlines())
        assert aside["reason"].startswith("no number for") and aside["line"] == 2 and "broken" in aside["message"]
    assert sorted(os.listdir()) == ["a.log", "bad.jsonl"]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("1h", NOW - 3600), ("90m", NOW - 5400), ("1h30m ago", NOW - 5400), ("2 d", NOW - 172800), ("now", NOW),
        ("2025-12-01T07:00:00Z", NOW - 3600), ("2025-12-01 07:00", NOW - 3600), ("2025-12-01T09:00:00+02:00", NOW - 3600),
        ("2025-12-01", NOW - 8 * 3600), ("today", NOW - 8 * 3600), ("07:30", NOW - 1800), ("09:00", NOW - 23 * 3600),
        ("1764572400", NOW - 3600), ("1764572400000", NOW - 3600),
    ],
)  # fmt: skip
def test_moments(text: str, want: float) -> None:
    assert moment(text, NOW) == want


@pytest.mark.parametrize("text", ["", "soon", "25:00", "2025-13-01", "3", "1x", "-1h", "2025-12-01T99:00:00"])
def test_what_is_no_moment(text: str) -> None:
    with pytest.raises(ValueError, match="should be a duration"):
        moment(text, NOW)


# ---------------------------------------------------------------- order


def test_merge_puts_all_sources_in_one_order_of_time(capsys: Capture) -> None:
    log("a.log", (-50, "ERROR a1"), (None, "ERROR a1b"), (-30, "ERROR a3"), (-10, "ERROR a5"))
    log("b.log", (-40, "ERROR b2"), (-20, "ERROR b4"), (-25, "ERROR b3b"))
    log("c.log", (None, "ERROR none"), age=5)
    found = messages(records(capsys, "a.log", "b.log", "c.log", "--merge"))
    assert found == ["a1", "a1b", "b2", "a3", "b3b", "b4", "a5", "none"]


def test_merge_goes_on_when_a_source_cannot_be_read(capsys: Capture) -> None:
    log("a.log", (-50, "ERROR a1"))
    assert main(["parse", "a.log", "gone.log", "--merge"]) == 3
    out = capsys.readouterr()
    assert json.loads(out.out)["message"] == "a1" and out.err == "trainmon: gone.log: no such file\n"


def test_a_buffer_puts_right_what_stands_a_little_wrong() -> None:
    dice = random.Random(7)
    items = [(float(n), Record("log", "x", n)) for n in range(2000)]
    shuffled = sorted(items, key=lambda item: item[0] + dice.uniform(0, 50))
    batches = [shuffled[i : i + 37] for i in range(0, 2000, 37)]
    assert list(in_order(batches, 64)) == items


def test_neighbours_wait_for_the_first_time_and_no_longer_than_bounded() -> None:
    neighbours = Neighbours(99.0)
    first = [Record("error", "x") for _ in range(3)]
    assert neighbours.take(first) == []
    assert neighbours.take([Record("error", "x", time=5.0)])[0] == (5.0, first[0])
    assert neighbours.take([first[1]]) == [(5.0, first[1])]
    assert neighbours.take([], 7.0) == [] and neighbours.take([first[2]]) == [(7.0, first[2])]
    patient = Neighbours(99.0)
    many = [Record("error", "x") for _ in range(30_000)]
    assert [when for when, _ in patient.take(many)] == [99.0] * 30_000


# ---------------------------------------------------------------- bisection


def long_log(path: Path, lines: int, step_s: float, *, jump: bool = False) -> list[float]:
    times = []
    with path.open("w") as file:
        file.write("banner without a time\n")
        for n in range(lines):
            when = NOW - (lines - n) * step_s - (5e6 if jump and n > lines // 2 else 0)
            times.append(when)
            level = "WARNING" if n % 50 == 0 else "INFO"
            file.write(f"{stamp(when)} {level} message {n} {'x' * 60}\n")
    os.utime(path, (NOW, NOW))
    return times


def test_a_long_file_is_searched_for_the_limit_and_says_the_same(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = long_log(tmp_path / "a.log", 60_000, 10.0)
    assert (tmp_path / "a.log").stat().st_size > parse_time.WORTH
    options = ("a.log", "--since", "2h", "--until", "1h", "--level", "WARN")
    begun: list[int] = []
    seek = parse_source.Source.batches
    monkeypatch.setattr(
        parse_source.Source, "batches", lambda self, part=None: begun.append(part[0] if part else 0) or seek(self, part)
    )
    quick = records(capsys, *options)
    assert begun[0] > 5_000_000
    monkeypatch.setattr(parse_time, "WORTH", 1 << 40)
    assert records(capsys, *options) == quick and begun[1] == 0
    assert len(quick) == sum(NOW - 7200 <= when <= NOW - 3600 for when in times[::50])
    assert all(each["line"] == int(each["message"].split()[1]) + 2 for each in quick)


def test_a_file_whose_times_go_back_is_read_from_its_start(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    long_log(path, 60_000, 10.0, jump=True)
    clock = LineClock(builtin(), NOW)
    with path.open("rb") as file:
        size = path.stat().st_size
        assert part_between(file.fileno(), size, clock.time_of, NOW - 3600, None) == (0, size)
        assert part_between(file.fileno(), size, lambda _line: None, NOW - 3600, None) == (0, size)


def test_the_clock_of_lines() -> None:
    clock = LineClock(builtin(), NOW)
    assert clock.time_of(b"2025-12-01 07:00:00,250 - INFO - x") == NOW - 3599.75
    assert clock.time_of(b'{"step": 3, "loss": 2, "timestamp": "2025-12-01T07:00:00Z"}') == NOW - 3600
    assert clock.time_of(b"no time here") is None and clock.time_of(b'{"a": ') is None


def test_local_time_without_a_zone_is_known_by_the_files_own(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    for zone, shift in (("UTC", 0.0), ("XXX-05:30", -19800.0), ("XXX+08", 28800.0)):
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        try:
            line = b"2025-12-01 13:29:55 INFO x"
            assert zone_shift(line, NOW - 5 - shift, NOW) == shift
            assert zone_shift(line, NOW - 5 - shift - 1800, NOW) == 0.0
            assert zone_shift(b"2025-12-01T13:29:55+05:30 x", NOW - 5 - shift, NOW) == 0.0
        finally:
            monkeypatch.delenv("TZ")
            time.tzset()


# ---------------------------------------------------------------- forms


def table(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_csv_has_the_contracts_columns_first_and_then_what_was_found(capsys: Capture) -> None:
    Path("a.jsonl").write_text(
        '{"step": 1, "loss": NaN, "zeta": 1, "timestamp": "2025-12-01T07:00:00Z"}\n'
        '{"step": 2, "loss": 1.5, "alpha": "a, \\"b\\"", "eval_f1": 0.5}\n'
    )
    assert main(["parse", "a.jsonl", "--to", "csv"]) == 0
    out = capsys.readouterr().out
    header = out.splitlines()[0].split(",")
    assert header[:5] == ["kind", "source", "line", "offset", "time"]
    assert header[-6:] == ["code", "priority", "message", "reason", "extra.alpha", "extra.zeta"]
    assert header.index("eval_f1") == header.index("eval_loss") + 1
    first, second = table(out)
    assert (first["time"], first["loss"], first["extra.zeta"]) == ("2025-12-01T07:00:00.000Z", "nan", "1")
    assert (second["step"], second["extra.alpha"], second["extra.zeta"]) == ("2", 'a, "b"', "")
    log("b.log", (-1, "ERROR e"))
    assert main(["parse", "b.log", "--to", "csv"]) == 0
    assert capsys.readouterr().out.splitlines()[0].split(",") == header[:-7] + header[-6:-2]


def test_parquet_has_types(capsys: Capture) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    Path("a.jsonl").write_text(
        '{"step": 1, "loss": NaN, "zeta": 1, "flag": true, "timestamp": "2025-12-01T07:00:00Z"}\n'
        '{"step": 2, "loss": 1.5, "zeta": 1.5, "word": "w", "mixed": "x"}\n'
        '{"step": 3, "loss": 1.25, "mixed": 3}\n'
    )
    assert main(["parse", "a.jsonl", "--to", "parquet", "--out", "a.parquet"]) == 0
    found = parquet.read_table("a.parquet")
    assert found.schema.names[:5] == ["kind", "source", "line", "offset", "time"]
    assert str(found.schema.field("time").type) == "timestamp[ms, tz=UTC]"
    assert [str(found.schema.field(f"extra.{name}").type) for name in ("flag", "mixed", "word", "zeta")] == [
        "bool", "string", "string", "double",
    ]  # fmt: skip
    rows = found.to_pylist()
    assert rows[0]["loss"] != rows[0]["loss"] and rows[0]["time"].timestamp() == NOW - 3600
    assert [row["extra.mixed"] for row in rows] == [None, "x", "3"] and [row["step"] for row in rows] == [1, 2, 3]


def test_parquet_without_its_library_says_what_to_do(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    log("a.log", (-1, "ERROR e"))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert main(["parse", "a.log", "--to", "parquet", "--out", "a.parquet"]) == 2
    assert "pip install 'trainmon[parquet]'" in capsys.readouterr().err
    assert os.listdir() == ["a.log"]


# ---------------------------------------------------------------- places


def test_out_is_whole_or_not_there(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    log("a.log", (-1, "ERROR e"))
    Path("out.jsonl").write_text("before")
    os.chmod("out.jsonl", 0o640)
    assert main(["parse", "a.log", "--out", "out.jsonl"]) == 0
    assert json.loads(Path("out.jsonl").read_text())["message"] == "e"
    assert os.stat("out.jsonl").st_mode & 0o777 == 0o640
    assert capsys.readouterr().out == ""

    def broken(*_: object) -> None:
        raise KeyboardInterrupt

    for form in ("jsonl", "csv"):
        monkeypatch.setattr(parse_source.Source, "batches", broken)
        assert main(["parse", "a.log", "--to", form, "--out", "out.jsonl", "--quarantine", "q"]) == 130
    assert json.loads(Path("out.jsonl").read_text())["message"] == "e"
    assert sorted(os.listdir()) == ["a.log", "out.jsonl"]


def test_out_never_reads_itself(capsys: Capture) -> None:
    log("a.log", (-1, "ERROR e"))
    for _ in range(2):
        assert main(["parse", "*.log", "--out", "all.log"]) == 0
    assert len(Path("all.log").read_text().splitlines()) == 1
    assert "all.log is what --out or --quarantine writes: left out" in capsys.readouterr().err
    before = Path("a.log").read_text()
    for options in (("--out", "a.log"), ("--out", "b", "--quarantine", "./a.log")):
        assert main(["parse", "a.log", *options]) == 2
        assert "its log would be lost" in capsys.readouterr().err
    assert Path("a.log").read_text() == before and sorted(os.listdir()) == ["a.log", "all.log"]


def test_out_to_what_is_no_file(capsys: Capture) -> None:
    log("a.log", (-1, "ERROR e"))
    assert main(["parse", "a.log", "--out", "/dev/null"]) == 0
    assert main(["parse", "a.log", "--out", "no/such/folder/x"]) == 3
    assert capsys.readouterr().err == "trainmon: no/such/folder/x cannot be written (no such file or directory)\n"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--since", "soon"], "--since soon: should be a duration"),
        (["--since", "1h", "--until", "2h"], "--until 2h lies before --since 1h"),
        (["--kind", "metrisc"], 'did you mean "metrics"?'),
        (["--kind", ","], "names no kind"),
        (["--follow", "--out", "x"], "use > FILE"),
        (["--follow", "--merge"], "give one of them"),
        (["--follow", "--to", "parquet"], "use --to jsonl"),
    ],
)
def test_what_does_not_go_together(options: list[str], words: str, capsys: Capture) -> None:
    assert main(["parse", "x.log", *options]) == 2
    err = capsys.readouterr().err
    assert words in err and err.count("\n") == 1


# ---------------------------------------------------------------- progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_bar_only_for_work_that_takes_a_while_and_only_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("trainmon.commands.progress.time.monotonic", lambda: clock[0])
    monkeypatch.setenv("TERM", "xterm")
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    bar = Progress(100_000_000)
    for _ in range(9):
        clock[0] += 0.1
        bar.add(1_000_000, "a.log")
    bar.clear()
    assert screen.getvalue() == ""
    for _ in range(30):
        clock[0] += 0.05
        bar.add(1_000_000, "evil\x1b[2J.log")
    drawn = screen.getvalue()
    assert 3 <= drawn.count("\r") <= 9 and "[2J" not in drawn.replace("?[2J", "")
    assert " of 100 MB" in drawn and "s left" in drawn
    bar.clear()
    assert screen.getvalue().endswith("\r\x1b[K")
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    silent = Progress(10)
    clock[0] += 100
    silent.add(5)
    assert sys.stderr.getvalue() == ""  # type: ignore[attr-defined]
