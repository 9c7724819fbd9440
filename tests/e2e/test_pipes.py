"""Without a terminal: plain lines, records, closed pipes and exit codes. No tmux is needed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

TRAINMON = [sys.executable, "-m", "trainmon"]
LINE = '{"step": %d, "total_steps": 500, "loss": %.3f, "learning_rate": 0.0001}\n'


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    names = ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "HOME")
    return {**os.environ, **{name: str(tmp_path / "home") for name in names}, "PYTHONPATH": ""}


def write(path: Path, first: int, last: int) -> None:
    with path.open("a") as file:
        for step in range(first, last + 1):
            file.write(LINE % (step, 4 - step / 1000))


def run(*arguments: str, cwd: Path, env: dict[str, str], data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*TRAINMON, *arguments], input=data, capture_output=True, cwd=cwd, env=env, timeout=60)


class Background:
    """A command that goes on; its lines are read one by one."""

    def __init__(self, *arguments: str, cwd: Path, env: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [*TRAINMON, *arguments], cwd=cwd, env=env, text=True, encoding="utf-8",
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            # Tests in the background of a shell ignore Ctrl-C, and what they start would too.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )  # fmt: skip

    def line_with(self, words: str) -> str:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if words in line:
                return line
        raise AssertionError(f"it ended without {words!r}: {self.process.stderr and self.process.stderr.read()}")

    def end(self, number: int) -> tuple[int, str]:
        self.process.send_signal(number)
        _, err = self.process.communicate(timeout=30)
        return self.process.returncode, err


@pytest.fixture
def background(tmp_path: Path, environment: dict[str, str]) -> Iterator:
    made: list[Background] = []

    def start(*arguments: str) -> Background:
        made.append(Background(*arguments, cwd=tmp_path, env=environment))
        return made[-1]

    yield start
    for each in made:
        each.process.kill()
        each.process.communicate()


def test_plain_lines_follow_a_growing_file(tmp_path: Path, background) -> None:
    write(tmp_path / "a.log", 1, 40)
    tail = background("tail", "a.log")
    assert "loss 3.960  lr 1.00e-04" in tail.line_with("step 40/500")
    write(tmp_path / "a.log", 41, 45)
    assert "running" in tail.line_with("step 45/500")
    with (tmp_path / "a.log").open("a") as file:
        file.write("ERROR torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.50 GiB\n")
    assert "a.log:46" in tail.line_with("CUDA_OOM")
    assert tail.end(signal.SIGINT) == (130, "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=str)
def test_plain_lines_end_with_the_signals_number(number: int, tmp_path: Path, background) -> None:
    write(tmp_path / "a.log", 1, 5)
    tail = background("tail", "a.log")
    tail.line_with("step 5")
    assert tail.end(number) == (128 + number, "")


def test_standard_input_to_its_end(tmp_path: Path, environment: dict[str, str]) -> None:
    done = run("tail", "-", cwd=tmp_path, env=environment, data=(LINE % (9, 2.5)).encode() * 3)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"step 9/500  loss 2.500" in done.stdout


def test_whoever_reads_no_more_ends_it_quietly(tmp_path: Path, background) -> None:
    write(tmp_path / "a.log", 1, 5)
    tail = background("tail", "a.log")
    tail.line_with("step 5")
    tail.process.stdout.close()
    assert tail.process.wait(timeout=30) == 0
    assert tail.process.stderr.read() == ""


def test_parse_gives_records_in_order(tmp_path: Path, environment: dict[str, str]) -> None:
    write(tmp_path / "worker-10.log", 3, 4)
    write(tmp_path / "worker-2.log", 1, 2)
    done = run("parse", "worker-*.log", cwd=tmp_path, env=environment)
    assert (done.returncode, done.stderr) == (0, b"")
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(record["source"], record["step"], record["line"]) for record in records] == [
        ("worker-2.log", 1, 1), ("worker-2.log", 2, 2), ("worker-10.log", 3, 1), ("worker-10.log", 4, 2),
    ]  # fmt: skip
    assert records[1]["offset"] == len(LINE % (1, 3.999)) and records[0]["kind"] == "metrics"


def test_parse_of_a_pipe_a_folder_and_standard_input(tmp_path: Path, environment: dict[str, str]) -> None:
    (tmp_path / "logs").mkdir()
    write(tmp_path / "logs" / "a.log", 1, 3)
    assert run("parse", "logs", cwd=tmp_path, env=environment).stdout.count(b"\n") == 3
    data = (tmp_path / "logs" / "a.log").read_bytes()
    assert run("parse", "-", cwd=tmp_path, env=environment, data=data).stdout.count(b"\n") == 3
    command = ["bash", "-c", f"{' '.join(TRAINMON)} parse <(cat logs/a.log)"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, timeout=60, check=True)
    assert done.stdout.count(b"\n") == 3


def test_parse_writes_each_record_as_it_comes(tmp_path: Path, environment: dict[str, str]) -> None:
    process = subprocess.Popen(
        [*TRAINMON, "parse", "-"], cwd=tmp_path, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin and process.stdout
    for step in range(1, 40):
        process.stdin.write((LINE % (step, 2.0)).encode())
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["step"] == 1
    process.stdin.close()
    assert process.stdout.read().count(b"\n") == 38
    assert process.wait(timeout=30) == 0


def test_parse_and_head(tmp_path: Path, environment: dict[str, str]) -> None:
    write(tmp_path / "a.log", 1, 60_000)
    script = f"set -o pipefail; {' '.join(TRAINMON)} parse a.log | head -n 2"
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.count(b"\n") == 2


def test_a_full_disk_is_one_line(tmp_path: Path, environment: dict[str, str]) -> None:
    write(tmp_path / "a.log", 1, 3)
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*TRAINMON, "parse", "a.log"],
            cwd=tmp_path,
            env=environment,
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=60,
        )
    assert (done.returncode, done.stderr) == (1, b"trainmon: the output cannot be written (no space left on device)\n")


def test_what_cannot_be_read_is_exit_code_3_and_the_rest_is_written(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    write(tmp_path / "a.log", 1, 3)
    (tmp_path / "void").mkdir()
    done = run("parse", "none.log", "a.log", "void", "no-*.log", cwd=tmp_path, env=environment)
    assert done.returncode == 3
    assert done.stdout.count(b"\n") == 3
    assert done.stderr.decode().splitlines() == [
        "trainmon: none.log: no such file",
        "trainmon: void: a folder without a log in it; name the files to read",
        "trainmon: no-*.log: no file matches this pattern",
    ]


def test_no_permission_is_a_sentence(tmp_path: Path, environment: dict[str, str]) -> None:
    write(tmp_path / "a.log", 1, 3)
    (tmp_path / "a.log").chmod(0)
    tmp_path.chmod(0o755)
    # As root every file can be read: then it has to be somebody else who asks.
    script = (
        "import os\nfrom trainmon.commands.parse_source import open_source\n"
        "if os.getuid() == 0: os.setgid(65534); os.setuid(65534)\n"
        "try: open_source('a.log')\nexcept Exception as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout == "a.log: no permission to read it\n", done.stderr


def test_level_and_all_choose_the_messages(tmp_path: Path, environment: dict[str, str]) -> None:
    lines = [f"2025-04-05 10:00:0{n} {level} — message {n}" for n, level in enumerate(("INFO", "WARNING", "ERROR"))]
    (tmp_path / "a.log").write_text("\n".join([*lines, '{"step": 1, "loss": 2.0}']) + "\n")

    def levels(*options: str) -> list[str]:
        out = run("parse", "a.log", *options, cwd=tmp_path, env=environment).stdout
        return [record.get("level", "") for record in map(json.loads, out.splitlines()) if record["kind"] != "metrics"]

    assert levels() == ["ERROR"]
    assert levels("--level", "warning") == ["WARN", "ERROR"]
    assert levels("--all") == ["INFO", "WARN", "ERROR"]


def test_the_demo_without_a_terminal_fails_by_itself_and_leaves_nothing(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    (tmp_path / "temporary").mkdir()
    environment["TMPDIR"] = str(tmp_path / "temporary")
    started = time.monotonic()
    done = run("demo", "--speed", "12", "--plain", cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    out = done.stdout.decode()
    for words in ("ALERT", "worker-2", "CUDA_OOM", "NCCL"):
        assert words in out, out[-3000:]
    assert not list((tmp_path / "temporary").iterdir())
    assert time.monotonic() - started < 60


def test_the_demo_keeps_its_logs_where_it_is_told_and_goes_at_once(tmp_path: Path, background) -> None:
    demo = background("demo", "--keep", "kept", "--plain")
    demo.line_with("step ")
    assert demo.end(signal.SIGTERM) == (143, "")
    assert len(list((tmp_path / "kept").glob("worker-*.log"))) == 8


def test_bare_trainmon_says_what_it_chose_or_that_there_is_nothing(
    tmp_path: Path, environment: dict[str, str], background
) -> None:
    done = run(cwd=tmp_path, env=environment)
    assert (done.returncode, done.stdout) == (3, b"")
    assert b"trainmon demo" in done.stderr and done.stderr.count(b"\n") == 1
    write(tmp_path / "worker-0.log", 1, 9)
    bare = background()
    bare.line_with("step 9/500")
    code, err = bare.end(signal.SIGINT)
    assert code == 130 and "worker-0.log" in err and err.count("\n") == 1
