"""Words, names, numbers and files that never repeat: nothing that is kept grows with them.

Each kind of line brings something new every time. Afterwards every container that the session can reach is counted.
"""

from __future__ import annotations

import gc
import json
import types
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from trainmon.clock import ManualClock
from trainmon.diagnosis import fleet
from trainmon.model import CaughtUp, Data, Opened, Replaced, SourceState, Telemetry
from trainmon.samples import DiskSample, GpuEvent, GpuProcess, GpuSample, HostSample, LinkSample, VolumeSample
from trainmon.session import binding, cards, hosts, nodes, run
from trainmon.session.session import Session
from trainmon.settings import Settings

START = 1_764_500_000.0
ROUNDS = 6000
MOST = 4200
"""Entries that any container may have after so many rounds; what has a limit of its own is far below it."""


def word(i: int) -> str:
    """A word of letters only: digits are masked where wordings are compared."""
    return "".join(chr(97 + i // 26**k % 26) for k in range(5))


def metrics(i: int, **more: Any) -> str:
    return json.dumps({"step": i + 1, "loss": 2 + (i % 7) / 10, **more})


LINES: dict[str, Callable[[int], str]] = {
    "steps": metrics,
    "names of metrics": lambda i: metrics(i, **{f"metric_{word(i)}": 1.0}),
    "nested names": lambda i: metrics(i, a={f"k{word(i)}": {"b": 1.0}}),
    "texts": lambda i: metrics(i, **{word(i): word(i)}),
    "nodes": lambda i: metrics(i, hostname=f"host-{i}"),
    "ranks": lambda i: metrics(i, rank=i),
    "process numbers": lambda i: metrics(i, rank=i % 8, pid=i + 1),
    "jobs": lambda i: metrics(i, job_id=f"job-{i}", model_name=word(i)),
    "wordings of errors": lambda i: f"2025-11-30 10:00:00 - ERROR - the {word(i)} failed badly",
    "ranks of errors": lambda i: (
        f"[rank{i}]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {i}.00 GiB."
    ),
    "exceptions": lambda i: (
        f'Traceback (most recent call last):\n  File "a{i}.py", line {i}, in f\n    x\n{word(i)}Error: {i}'
    ),
    "checkpoints": lambda i: (
        metrics(i) + f"\n2025-11-30 10:00:00 - INFO - Saving model checkpoint to /ckpt/checkpoint-{i}"
    ),
    "evaluations": lambda i: metrics(i) + "\n" + json.dumps({"step": i, f"eval_{word(i)}_loss": 1.0}),
    "progress bars": lambda i: f"\r{word(i)}:  50%|#####     | {i}/5000 [00:01<00:01, 2.0it/s]",
    "broken lines": lambda i: f'{{"step": {i}, "loss": ',
    "key=value": lambda i: f"step={i} loss=2.0 {word(i)}=3",
    "resumes": lambda i: metrics(i % 50),
    "spikes and NaN": lambda i: f'{{"step": {i}, "loss": {("2.0", "2.1", "2.0", "90.0", "NaN")[i % 5]}}}',
    "steps far apart": lambda i: metrics(i * 10**9),
}


def gpu(i: int, **more: Any) -> GpuSample:
    return GpuSample("here", 0, "GPU-0", START + i, values={"gpu_utilization": 90.0, "gpu_memory_mb": 9.0}, **more)


def host(i: int, **more: Any) -> HostSample:
    return HostSample("here", START + i, values={"cpu_percent": 90.0}, **more)


SAMPLES: dict[str, Callable[[int], Any]] = {
    "GPUs": lambda i: GpuSample("here", i, f"GPU-{i}", START + i, values={"gpu_utilization": 90.0}),
    "machines": lambda i: HostSample(f"host-{i}", START + i, values={"cpu_percent": 90.0}),
    "GPUs of machines": lambda i: GpuSample(f"host-{i}", 0, f"GPU-{i}", START + i, values={"gpu_utilization": 90.0}),
    "processes": lambda i: gpu(i, processes=(GpuProcess(i + 1, 9.0, rank=i),)),
    "Xids": lambda i: gpu(i, events=(GpuEvent(i, START + i),)),
    "metrics": lambda i: gpu(i, missing={word(i): "no"}, facts={word(i): "x"}),
    "disks": lambda i: host(i, disks=(DiskSample(word(i), 99.0, queue=20.0),)),
    "volumes": lambda i: host(i, volumes=(VolumeSample("/" + word(i), used_mb=99.0, total_mb=100.0),)),
    "links": lambda i: host(i, links=(LinkSample(word(i), rate_mb_s=1.0, rx_mb_s=1.0),)),
}


class Drive:
    """A session on a clock that stands still until it is told to move, with one open log."""

    def __init__(self) -> None:
        self.clock = ManualClock(START)
        self.session = Session(["a.log"], Settings(), clock=self.clock)
        self.session.pump([Opened(0, "a.log", "/logs/a.log", 0, START), CaughtUp(0, 0)])
        self._offset = 0

    def say(self, text: str) -> None:
        data = text.encode() + b"\n"
        end = self._offset + len(data)
        self.session._inbox.put([Data(0, 0, self._offset, data, end, self.clock.now())])
        self._offset = end

    def rest(self, i: int) -> None:
        if i % 50 == 49:
            self.clock.advance(5.0)
            self.session.step()


def containers(root: object) -> Iterator[tuple[int, str]]:
    """Every container that an object can reach, by its size, with what holds it."""
    seen = {id(root)}
    todo: deque[tuple[object, str]] = deque([(root, type(root).__name__)])
    left_out = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.FrameType, types.CodeType)
    while todo:
        thing, path = todo.popleft()
        if isinstance(thing, (dict, set, list, deque, frozenset, tuple)):
            yield len(thing), path
        here = path if isinstance(thing, (dict, list, tuple)) else f"{path}.{type(thing).__name__}"
        for other in gc.get_referents(thing):
            if (
                id(other) not in seen
                and not isinstance(other, left_out)
                and (gc.is_tracked(other) or type(other) in (dict, tuple))
            ):
                seen.add(id(other))
                todo.append((other, here))


def check(session: Session) -> None:
    assert not session.faults, session.fault
    large = sorted((found for found in containers(session) if found[0] > MOST), reverse=True)
    assert not large, large[:5]


@pytest.fixture(autouse=True)
def _low_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (nodes, run):
        monkeypatch.setattr(module, "MAX_NODES", 500)
    monkeypatch.setattr(binding, "MAX_SEATS", 500)


@pytest.mark.parametrize("kind", LINES)
def test_no_line_makes_anything_grow(kind: str) -> None:
    drive, make = Drive(), LINES[kind]
    for i in range(ROUNDS):
        drive.say(make(i))
        drive.rest(i)
    drive.session.pump()
    check(drive.session)


def test_the_count_finds_what_grows() -> None:
    drive = Drive()
    drive.session.grown = {word(i) for i in range(ROUNDS)}  # type: ignore[attr-defined]
    with pytest.raises(AssertionError, match=str(ROUNDS)):
        check(drive.session)


@pytest.mark.parametrize("kind", SAMPLES)
def test_no_sample_makes_anything_grow(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in ((fleet, "MOST_GPUS"), (fleet, "MOST_NODES"), (hosts, "MAX_HOSTS"), (cards, "MAX_CARDS")):
        monkeypatch.setattr(module, name, 500)
    drive, make = Drive(), SAMPLES[kind]
    for i in range(ROUNDS):
        drive.session._inbox.put([Telemetry((make(i),))])
        if i % 10 == 0:
            drive.say(metrics(i // 10))
        drive.rest(i)
    drive.session.pump()
    check(drive.session)


def test_rotations_and_news_of_files_make_nothing_grow() -> None:
    drive = Drive()
    for i in range(1, ROUNDS):
        drive.session._inbox.put([
            Replaced(0, i, "rotated", lost=True),
            Data(0, i, 0, (metrics(i) + "\n").encode(), 99, drive.clock.now()),
            SourceState(f"gone-{i % 2}-{i}", None, "no file yet", "not there"),
        ])  # fmt: skip
        drive.rest(i)
    drive.session.pump()
    check(drive.session)
