"""The recording: always the same, in order, and only log lines."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from pathlib import Path

import pytest

from trainmon.clock import ManualClock
from trainmon.demo import story, writer
from trainmon.demo.story import FAILS_AT, PACE, WORKERS, moments
from trainmon.demo.writer import Writer


@pytest.fixture(scope="module")
def recording() -> list[story.Moment]:
    return list(moments())


def test_the_same_seed_gives_the_same_lines(recording: list[story.Moment]) -> None:
    assert recording == list(moments())


def test_each_worker_writes_in_order_of_time(recording: list[story.Moment]) -> None:
    for worker in range(WORKERS):
        times = [moment.at for moment in recording if moment.worker == worker]
        assert times == sorted(times)


def test_the_live_part_begins_with_the_first_live_step(recording: list[story.Moment]) -> None:
    first = next(moment for moment in recording if moment.at >= 0 and moment.text.startswith("step="))
    assert first.text.startswith(f"step={story.FIRST_LIVE_STEP} ")


def test_the_failure_comes_within_ninety_seconds_and_ends_it(recording: list[story.Moment]) -> None:
    failed = next(moment for moment in recording if "CUDA out of memory" in moment.text)
    assert 60 < failed.at / PACE < 85
    assert recording[-1].at / PACE < 90
    after = [moment for moment in recording if moment.at > failed.at + 1]
    assert {moment.worker for moment in after} == set(range(WORKERS)) - {story.LEAK}
    assert len(after) == 56


def test_every_step_of_every_worker_is_there_once(recording: list[story.Moment]) -> None:
    steps = Counter(
        (moment.worker, int(found[1]))
        for moment in recording
        if (found := re.match(r"step=(\d+) total_steps", moment.text))
    )
    assert set(steps.values()) == {1}
    assert len(steps) == WORKERS * (FAILS_AT - 1)


def test_nothing_in_it_knows_of_alerts() -> None:
    for module in (story, writer):
        imports = re.findall(r"^(?:from|import) (trainmon\S*)", inspect.getsource(module), re.M)
        assert set(imports) <= {"trainmon.clock", "trainmon.demo.story"}


def test_the_memory_never_says_more_than_the_card_has(recording: list[story.Moment]) -> None:
    for moment in recording:
        found = re.search(r"gpu_memory_mb=(\d+)", moment.text)
        assert not found or int(found[1]) < story.CARD_MB


def test_history_is_written_with_times_before_now(tmp_path: Path) -> None:
    clock = ManualClock(1_764_500_000.0)
    made = Writer(tmp_path, clock=clock)
    made.write_history()
    assert [path.name for path in made.paths] == [f"worker-{n}.log" for n in range(8)]
    for path in made.paths:
        lines = path.read_text().splitlines()
        assert f"step={story.FIRST_LIVE_STEP - 1} " in "\n".join(lines[-12:])
        assert all(line < "2025-11-30T10:53:20" for line in lines)


def test_played_fast_it_writes_all_of_it(tmp_path: Path, recording: list[story.Moment]) -> None:
    made = Writer(tmp_path, speed=1e6)
    made.write_history()
    made.start()
    made._thread.join(20)
    assert made.finished and not made.error
    assert sum(len(path.read_text().splitlines()) for path in made.paths) == len(recording)


def test_stopped_at_once_it_is_gone(tmp_path: Path) -> None:
    made = Writer(tmp_path)
    made.write_history()
    made.start()
    made.stop()
    assert made.finished


def test_a_folder_that_is_gone_is_no_crash(tmp_path: Path) -> None:
    made = Writer(tmp_path / "sub", speed=1e6)
    (tmp_path / "sub").mkdir()
    made.write_history()
    for path in made.paths:
        path.unlink()
        path.mkdir()
    made.start()
    made._thread.join(5)
    assert made.finished and made.error
