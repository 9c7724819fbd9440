"""History by columns is history record by record: the same run, whatever stands in the file."""

from __future__ import annotations

import json
import math
import random
from array import array
from collections.abc import Iterator
from types import FunctionType, MethodType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainmon.catalogue import load
from trainmon.clock import ManualClock
from trainmon.model import CaughtUp, Data, Opened
from trainmon.parsing import bulk
from trainmon.series.buckets import Buckets
from trainmon.session.engine import Engine
from trainmon.session.rings import Ring
from trainmon.settings import Settings

CATALOGUE = load()
T0 = 1_760_000_000.0
_PASSED = frozenset({
    "_typical", "dirty", "version", "_runs", "_run", "_portion", "_ahead", "_plans", "_dicts", "_newest", "_json",
    "_patterns", "_classify", "_lookup", "catalogue", "settings", "clock", "_literals", "_known", "_out", "_events_at",
    "revision", "_raw",
})  # fmt: skip


def read(data: bytes, *, leap: bool, piece: int = 1 << 16) -> tuple[Engine, int]:
    """The engine that has read a file to its end, and how many records went by columns."""
    engine = Engine(Settings(), ManualClock(T0 + 1e6), CATALOGUE)
    by_columns = 0
    if leap:
        inner = engine._past._leap
        assert inner is not None

        def counted(*args: Any) -> Any:
            nonlocal by_columns
            before = engine.forward.records
            found = inner(*args)
            if found is not None and found.step is not None:
                by_columns += engine.forward.records - before
            return found

        engine._past._leap = counted
    else:
        engine._past._leap = None
    engine.handle(Opened(0, "worker-0.log", "/x/worker-0.log", len(data), T0 + 9e5))
    for at in range(0, len(data), piece):
        engine.handle(Data(0, 0, at, data[at : at + piece], len(data), T0 + 9e5))
        engine.work(lambda: False, force=True)
    engine.handle(CaughtUp(0, 0))
    engine.work(lambda: False, force=True)
    assert engine.forward.faults == 0, engine.forward.last_fault
    return engine, by_columns


def differences(one: object, two: object, path: str, seen: set[int]) -> Iterator[str]:
    """Where two objects differ, attribute by attribute; numbers by more than the order of additions explains."""
    if isinstance(one, (bool, str, bytes, type(None), bytearray)) or isinstance(two, (str, bytes, type(None))):
        if one != two:
            yield f"{path}: {one!r} != {two!r}"
    elif isinstance(one, (int, float)) and isinstance(two, (int, float)):
        if not (one == two or math.isclose(one, two, rel_tol=2e-5, abs_tol=1e-9) or (one != one and two != two)):
            yield f"{path}: {one!r} != {two!r}"
    elif isinstance(one, Ring) and isinstance(two, Ring):
        yield from differences(one.values(), two.values(), path, seen)
    elif isinstance(one, (FunctionType, MethodType, Buckets, type)) or id(one) in seen:
        return
    elif type(one) is not type(two):
        yield f"{path}: {type(one)} != {type(two)}"
    elif isinstance(one, dict) and isinstance(two, dict):
        if list(one) != list(two):
            yield f"{path}: keys {list(one)[:9]} != {list(two)[:9]}"
        else:
            for key in one:
                yield from differences(one[key], two[key], f"{path}[{key!r}]", seen)
    elif isinstance(one, (set, frozenset)):
        if one != two:
            yield f"{path}: {one} != {two}"
    elif (hasattr(one, "__iter__") and hasattr(one, "__len__") and isinstance(one, (list, tuple, array))) or hasattr(
        one, "appendleft"
    ):
        a, b = list(one), list(two)  # type: ignore[call-overload]
        if len(a) != len(b):
            yield f"{path}: {len(a)} != {len(b)} items"
        for i, (x, y) in enumerate(zip(a, b, strict=False)):
            yield from differences(x, y, f"{path}[{i}]", seen)
    else:
        seen.add(id(one))
        names = set(getattr(one, "__dict__", ()))
        for kind in type(one).__mro__:
            names.update(getattr(kind, "__slots__", ()))
        for name in sorted(names - _PASSED):
            if name.startswith("__") or not hasattr(one, name):
                continue
            yield from differences(getattr(one, name), getattr(two, name, None), f"{path}.{name}", seen)


def same(data: bytes, piece: int = 1 << 16) -> int:
    """Read both ways and compare; gives the records that went by columns."""
    slow, _ = read(data, leap=False, piece=piece)
    fast, by_columns = read(data, leap=True, piece=piece)
    slow.forward.metrics.order(), fast.forward.metrics.order()
    seen: set[int] = set()
    found = [*differences(slow.forward, fast.forward, "run", seen), *differences(slow.files, fast.files, "files", seen)]
    assert not found, "\n".join(found[:12])
    return by_columns


class Writer:
    """Writes the lines of a training that has a character."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.step, self.time = 0, T0
        self.every = self.rng.choice((0.05, 0.3, 1.0, 7.0, 40.0))
        self.whole_seconds = self.rng.random() < 0.3
        self.keys = self.rng.sample(
            ["learning_rate", "epoch", "gpu_memory_mb", "grad_norm", "step_time_s", "tokens_per_second", "foo", "note",
             "elapsed", "consumed_samples", "comm_time_s", "gpu_utilization", "ratio", "compute_time_s"],
            self.rng.randrange(1, 9),
        )  # fmt: skip
        self.stamp = self.rng.choice(("iso", "unix", "space", "none", "zone"))
        self.fixed: dict[str, Any] = {}
        if self.rng.random() < 0.4:
            self.fixed["level"] = "INFO"
        if self.rng.random() < 0.3:
            self.fixed |= {"rank": 3, "node": "gpu-07"}
        if self.rng.random() < 0.3:
            self.fixed["total_steps"] = 100_000
        if self.rng.random() < 0.2:
            self.fixed["type"] = "train"
        self.memory, self.leak = 40_000.0, self.rng.choice((0.0, 0.0, 3.0))
        if self.rng.random() < 0.3:
            self.fixed["gpu_memory_total_mb"] = 81920.0

    def record(self, by: int = 1) -> dict[str, Any]:
        rng = self.rng
        self.step += by
        self.time += self.every * rng.uniform(0.9, 1.1)
        self.memory += self.leak
        out: dict[str, Any] = {"step": self.step, "loss": round(2 + rng.gauss(0, 0.1), 4)}
        told = {
            "learning_rate": min(1e-4, self.step * 1e-6), "epoch": self.step / 500,
            "gpu_memory_mb": round(self.memory + rng.uniform(-200, 200), 1), "grad_norm": abs(rng.gauss(1, 0.2)),
            "step_time_s": self.every * rng.uniform(0.9, 1.1), "tokens_per_second": rng.randrange(9000, 9999),
            "foo": rng.randrange(50), "note": rng.choice(("a", "b")), "elapsed": f"{self.step // 60}m {self.step % 60}s",
            "consumed_samples": self.step * 64, "comm_time_s": self.every * 0.1, "gpu_utilization": rng.randrange(80, 101),
            "ratio": f"{rng.random():.3f}", "compute_time_s": self.every * 0.7,
        }  # fmt: skip
        out |= {key: told[key] for key in self.keys} | self.fixed
        when = math.floor(self.time) if self.whole_seconds else self.time
        if self.stamp == "unix":
            out["timestamp"] = when
        elif self.stamp != "none":
            from datetime import UTC, datetime

            moment = datetime.fromtimestamp(when, UTC)
            text = {"iso": "%Y-%m-%dT%H:%M:%S.%f", "space": "%Y-%m-%d %H:%M:%S", "zone": "%Y-%m-%dT%H:%M:%S.%f+00:00"}
            out["timestamp"] = moment.strftime(text[self.stamp])
        return out

    def lines(self, count: int) -> list[str]:
        return [json.dumps(self.record()) for _ in range(count)]


def _odd(kind: str, writer: Writer) -> list[str]:
    rng, record = writer.rng, writer.record()
    if kind == "nan":
        return [json.dumps(record | {"loss": math.nan}) for _ in range(rng.randrange(1, 4))]
    if kind == "text_nan":
        return [json.dumps(record | {"loss": "nan"})]
    if kind == "bad":
        return [json.dumps(record)[:-9], "garbage { here", ""]
    if kind == "missing":
        return [json.dumps({k: v for k, v in record.items() if k != "loss"} | {"accuracy": 0.5})]
    if kind == "order":
        return [json.dumps(dict(reversed(record.items())))]
    if kind == "huge":
        return [json.dumps(record | {"foo": 10**25, "consumed_samples": 2**60, "step": 2**70})]
    if kind == "string":
        return [json.dumps(record | {"loss": "1.25", "grad_norm": "n/a"})]
    if kind == "null":
        return [json.dumps(record | {"loss": None})]
    if kind == "eval":
        return [json.dumps({"step": writer.step, "eval_loss": 2.5, "eval_runtime": 3.0})]
    if kind == "error":
        return ["Traceback (most recent call last):", '  File "a.py", line 3, in f', "RuntimeError: CUDA out of memory"]
    if kind == "text":
        return ["2025-10-09 09:00:00 INFO saving checkpoint to /x/y", "[WARN] NCCL timeout soon"]
    if kind == "resume":
        writer.step = max(0, writer.step - rng.randrange(1, 400))
        return []
    if kind == "gap":
        writer.time += rng.choice((30.0, 900.0, 4000.0, 100_000.0))
        return []
    if kind == "back":
        writer.time -= rng.choice((0.5, 30.0, 4000.0))
        return []
    if kind == "leap":
        writer.step += rng.randrange(2, 2000)
        return []
    if kind == "ties":
        return [json.dumps(record) for _ in range(3)]
    if kind == "rank":
        return [json.dumps(record | {"rank": rng.randrange(4), "node": f"gpu-0{rng.randrange(3)}"})]
    if kind == "twice":
        return [json.dumps(record) + json.dumps(writer.record())]
    if kind == "level":
        return [json.dumps(record | {"level": "ERROR", "message": "CUDA error: an illegal memory access"})]
    if kind == "nested":
        return [json.dumps(record | {"metrics": {"loss": 1.0}})]
    if kind == "key":
        return [json.dumps(record | {"a b": 1, "ü\x1b[31m": "ü\x7f"})]
    if kind == "high":
        writer.memory = 79_000.0
        return []
    assert kind == "low"
    writer.memory = 40_000.0
    return []


ODD = [
    "nan",
    "text_nan",
    "bad",
    "missing",
    "order",
    "huge",
    "string",
    "null",
    "eval",
    "error",
    "text",
    "resume",
    "gap",
    "back",
    "leap",
    "ties",
    "rank",
    "twice",
    "level",
    "nested",
    "key",
    "high",
    "low",
]


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32),
    st.lists(st.tuples(st.integers(0, 700), st.sampled_from(ODD)), min_size=1, max_size=7),
    st.sampled_from(["\n", "\n", "\n", "\r\n"]),
    st.sampled_from([700, 1 << 14, 1 << 16, 1 << 20]),
)
def test_any_file_gives_the_same_run_both_ways(seed: int, parts: list[tuple[int, str]], end: str, piece: int) -> None:
    writer = Writer(seed)
    lines: list[str] = []
    for count, kind in parts:
        lines += writer.lines(count)
        lines += _odd(kind, writer)
    lines += writer.lines(60)
    same((end.join(lines) + end).encode(), piece)


@pytest.mark.parametrize("seed", range(6))
def test_a_plain_run_goes_by_columns_but_for_its_beginning(seed: int) -> None:
    writer = Writer(seed)
    writer.fixed.pop("type", None)
    data = ("\n".join(writer.lines(6000)) + "\n").encode()
    assert same(data, 1 << 17) > 4500


def test_a_line_in_each_hundred_that_does_not_fit_costs_only_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    writer = Writer(3)
    lines: list[str] = []
    for _ in range(40):
        lines += writer.lines(100) + _odd("eval", writer)
    assert same(("\n".join(lines) + "\n").encode()) > 1500
    assert bulk.LEAST_ROWS < 100


def test_a_leak_is_found_at_the_same_step() -> None:
    writer = Writer(1)
    writer.keys, writer.leak, writer.fixed = ["gpu_memory_mb"], 8.0, {"gpu_memory_total_mb": 81920.0}
    data = ("\n".join(writer.lines(6000)) + "\n").encode()
    fast, by_columns = read(data, leap=True)
    assert by_columns > 3000
    assert any(incident.kind == "near_oom" for incident, _ in fast.forward.found)
    same(data)
