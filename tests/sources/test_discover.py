"""What bare `trainmon` opens, and what it says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trainmon.sources.discover import discover

NOW = 1_764_500_000.0
STEPS = b'{"step": 100, "loss": 2.5}\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def put(path: Path, content: bytes = STEPS, age: float = 3600.0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    os.utime(path, (NOW - age, NOW - age))


def test_nothing_here_names_the_demo(folder: Path) -> None:
    found = discover(folder, NOW)
    assert found.specs == []
    assert "trainmon demo" in found.sentence


def test_newest_training_log_wins(folder: Path) -> None:
    put(folder / "old.log", age=9000)
    put(folder / "run" / "logging.jsonl", age=60)
    put(folder / "server.log", b"GET /index.html 200\n", age=5)
    found = discover(folder, NOW)
    assert found.specs == ["run/logging.jsonl"]
    assert "old.log" in found.sentence and "server.log" in found.sentence
    assert [log.path for log in found.candidates] == ["server.log", "run/logging.jsonl", "old.log"]


def test_names_that_differ_in_a_number_are_one_run(folder: Path) -> None:
    for number in (0, 1, 10, 2):
        put(folder / f"worker-{number}.log", b"[INFO] Step 100: loss = 2.345\n", age=60 + number)
    put(folder / "worker-99.log", age=90_000)  # left over from another day
    found = discover(folder, NOW)
    assert found.specs == ["worker-0.log", "worker-1.log", "worker-2.log", "worker-10.log"]
    assert "worker-*.log (4 files)" in found.sentence


def test_each_job_is_a_run_of_its_own(folder: Path) -> None:
    put(folder / "slurm-1001.out", age=700)
    put(folder / "slurm-1002.out", age=500)
    assert discover(folder, NOW).specs == ["slurm-1002.out"]
    put(folder / "slurm-1001.out", age=3)
    put(folder / "slurm-1002.out", age=1)
    assert discover(folder, NOW).specs == ["slurm-1001.out", "slurm-1002.out"]


def test_what_grows_is_taken_when_nothing_speaks_of_training(folder: Path) -> None:
    put(folder / "job.out", b"hello\n", age=5)
    put(folder / "idle.log", b"hello\n", age=500)
    found = discover(folder, NOW)
    assert found.specs == ["job.out"]
    assert "grows" in found.sentence


def test_logs_that_do_not_fit_are_named(folder: Path) -> None:
    put(folder / "idle.log", b"hello\n")
    found = discover(folder, NOW)
    assert found.specs == []
    assert "idle.log" in found.sentence and "trainmon demo" in found.sentence


def test_what_cannot_be_read_does_not_matter(folder: Path) -> None:
    os.mkfifo(folder / "pipe.log")
    (folder / "loop.log").symlink_to("loop.log")
    (folder / "folder.log").mkdir()
    put(folder / "weights.out", b"PK\x03\x04" + bytes(range(256)) * 20, age=1)
    put(folder / ".hidden.log", age=1)
    put(folder / "two" / "levels" / "down.log", age=1)
    put(folder / "empty.log", b"", age=1)
    put(folder / "a.log")
    (folder / "latest.log").symlink_to("a.log")
    assert discover(folder, NOW).specs == ["a.log"]


@pytest.mark.parametrize(
    "line",
    [
        b"{'loss': 1.2345, 'grad_norm': 0.5, 'learning_rate': 1e-05, 'epoch': 0.1}\n",
        b" iteration       10/     100 | consumed samples: 80 | lm loss: 1.043210E+01 |\n",
        b"step=1200 loss=1.984 lr=2e-5\n",
        b"Epoch 3: train_acc 0.5\n",
        b"W1130 torch.distributed.run: Setting OMP_NUM_THREADS\n",
    ],
)
def test_lines_that_speak_of_training(folder: Path, line: bytes) -> None:
    put(folder / "a.log", b"x\n" * 20_000 + line)
    assert discover(folder, NOW).candidates[0].training


def test_another_folder_gives_full_names(folder: Path) -> None:
    put(folder / "runs" / "a.log")
    assert discover(folder / "runs", NOW).specs == [str(folder / "runs" / "a.log")]


def test_agents_join_the_run_that_is_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for number in range(2):
        (tmp_path / f"worker-{number}.log").write_text('{"step": 1, "loss": 2.5}\n')
    for node in ("a", "b"):
        (tmp_path / f"trainmon-agent-{node}.jsonl").write_text('{"trainmon":"driver/1"}\n')
    found = discover()
    assert found.specs == ["worker-0.log", "worker-1.log", "trainmon-agent-*.jsonl"]
    assert found.sentence.endswith("; with the agents of 2 nodes") and "left out" not in found.sentence


def test_agents_alone_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trainmon-agent-a.jsonl").write_text('{"trainmon":"driver/1"}\n')
    found = discover()
    assert found.specs == ["trainmon-agent-*.jsonl"]
    assert "the agent of one node" in found.sentence
