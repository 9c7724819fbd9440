"""A run that a test tells, line by line, on a clock that it moves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from trainmon.clock import ManualClock
from trainmon.diagnosis.engine import Detectors
from trainmon.diagnosis.fatal import Lookup
from trainmon.diagnosis.thresholds import Thresholds
from trainmon.model import Incident, Record, Value, record_of
from trainmon.samples import GPU_METRICS, GpuProcess, GpuSample, HostSample, Sample


class Run:
    """A run that is watched: lines arrive, time passes, incidents are kept."""

    def __init__(
        self, thresholds: Thresholds | None = None, total: int | None = None, lookup: Lookup | None = None
    ) -> None:
        self.clock = ManualClock()
        self.watch = Detectors(thresholds, lookup=lookup)
        self.total = total
        self.found: list[Incident] = []
        self.past: list[Incident] = []
        self.now_step = 0

    def open(self, node: str = "run", age: float = 0.0) -> None:
        self.watch.opened(node, self.clock.now() - age, self.clock.now())

    def line(self, kind: str, node: str = "run", live: bool = True, time: float | None = None, **more: object) -> None:
        record = Record(kind, node, time=self.clock.now() if time is None else time, **more)  # type: ignore[arg-type]
        got = self.watch.observe(record, node, self.clock.now(), live)
        (self.found if live else self.past).extend(got)

    def step(
        self, step: int | None = None, node: str = "run", live: bool = True, time: float | None = None, **values: float
    ) -> None:
        self.now_step = self.now_step + 1 if step is None else step
        if self.total:
            values["total_steps"] = self.total
        self.line("metrics", node, live, time, values={"step": self.now_step, **values})

    def event(self, name: str, live: bool = True) -> None:
        self.line("log", live=live, level="INFO", extra={"event": name})

    def fatal(self, code: str = "CUDA_OOM", node: str = "run", live: bool = True, **more: object) -> None:
        self.line("error", node, live, level="ERROR", priority=1, code=code, message=f"{code} happened", **more)

    def wait(self, seconds: float, every: float = 1.0) -> None:
        end = self.clock.now() + seconds
        while self.clock.now() < end - 1e-9:
            self.clock.advance(min(every, end - self.clock.now()))
            self.found.extend(self.watch.tick(self.clock.now(), self.clock.monotonic()))

    def train(self, steps: int, pace: float = 1.0, nodes: tuple[str, ...] = ("run",), **values: float) -> None:
        for _ in range(steps):
            self.wait(pace)
            self.now_step += 1
            for node in nodes:
                self.step(self.now_step, node, **values)

    @property
    def state(self) -> str:
        return self.watch.look(self.clock.now())[0]

    @property
    def note(self) -> str:
        return self.watch.look(self.clock.now())[1]

    def kinds(self) -> list[str]:
        """Kinds of the incidents that began, each told once."""
        open_: set[str] = set()
        out = []
        for i in self.found:
            if i.end is not None:
                open_.discard(i.key)
            elif i.key not in open_:
                open_.add(i.key)
                out.append(i.kind)
        return out

    def history(self, steps: int, age: float, pace: float = 1.0, start: int = 0) -> None:
        """A log of so many steps that ended `age` seconds before now."""
        self.open(age=age)
        begin = self.clock.now() - age - steps * pace
        for s in range(1, steps + 1):
            self.step(start + s, live=False, time=begin + s * pace)


@pytest.fixture
def new_run() -> Callable[..., Run]:
    """Makes runs: `new_run(thresholds, total, lookup)`."""
    return Run


GIB = 1024.0
H100: dict[str, float] = {
    "gpu_utilization": 97.0, "memory_utilization": 61.0, "gpu_temperature_c": 66.0, "gpu_power_w": 642.0,
    "power_limit_w": 700.0, "sm_clock_mhz": 1755.0, "gpu_memory_mb": 68.5 * GIB, "gpu_memory_total_mb": 81559.0,
    "memory_free_mb": 81559.0 - 559.0 - 68.5 * GIB,
}  # fmt: skip
RARE: dict[str, float] = {
    "sm_clock_max_mhz": 1980.0, "slowdown_temperature_c": 87.0, "pcie_gen": 5.0, "pcie_gen_max": 5.0,
    "pcie_width": 16.0, "pcie_width_max": 16.0, "nvlinks": 18.0, "nvlinks_up": 18.0, "nvlink_errors": 0.0,
    "ecc_uncorrected": 0.0, "ecc_uncorrected_total": 3.0, "remap_pending": 0.0, "remap_failed": 0.0,
    "fabric_ok": 1.0, "recovery_action": 0.0,
}  # fmt: skip
HOST: dict[str, float] = {
    "cpu_percent": 35.0, "cpus": 64.0, "memory_used_mb": 400 * GIB, "memory_total_mb": 1000 * GIB,
    "memory_available_mb": 600 * GIB, "oom_kills": 0.0, "shm_used_mb": 1000.0, "shm_total_mb": 64 * GIB,
    "memory_pressure_percent": 0.0, "open_files": 900.0, "open_files_limit": 65536.0,
}  # fmt: skip
Scene = Callable[[float, int], dict[str, Any]]
"""(seconds, GPU) -> what differs from a healthy H100: metrics, or the fields `throttle`, `state`, `events`, ..."""


class Bench(Run):
    """A run whose machines tell of themselves each second: eight healthy H100 unless a scene says otherwise."""

    def __init__(self, thresholds: Thresholds | None = None, gpus: int = 8, node: str = "worker-2") -> None:
        super().__init__(thresholds)
        self.gpus, self.node = gpus, node
        self.t = 0.0
        self.name = "NVIDIA H100 80GB HBM3"

    def sample(self, sample: Sample, node: str | None = None, live: bool = True, **extra: Value) -> list[Incident]:
        record = record_of(sample, "NVML")
        record.extra.update(extra)
        found = self.watch.observe(record, node or sample.node, self.clock.now(), live)
        (self.found if live else self.past).extend(found)
        return found

    def board(self, index: int, node: str | None = None, rare: bool = False, **what: Any) -> GpuSample:
        values = {**H100, **(RARE if rare else {})}
        fields: dict[str, Any] = {
            "throttle": ("power cap",),
            "processes": (GpuProcess(4000 + index, 68000.0, rank=index),),
        }
        for name, value in what.items():
            if name in GPU_METRICS:
                values[name] = value
            else:
                fields[name] = value
        if what.get("state", "ok") != "ok":
            values, fields["throttle"], fields["processes"] = {}, None, None
        values = {name: value for name, value in values.items() if value is not None}
        where = node or self.node
        return GpuSample(
            where, index, f"GPU-{where}-{index}", self.clock.now(), name=self.name, values=values, **fields
        )

    def play(
        self, seconds: int, scene: Scene | None = None, steps: float | None = 1.0, nodes: tuple[str, ...] = ()
    ) -> None:
        """So many seconds, one reading and (for `steps` seconds a step) one step each."""
        for _ in range(seconds):
            self.wait(1.0)
            if steps and self.t % steps == 0.0:
                self.now_step += 1
                for node in nodes or (self.node,):
                    self.step(self.now_step, node)
            for node in nodes or (self.node,):
                for index in range(self.gpus):
                    what = scene(self.t, index) if scene is not None else {}
                    if what.pop("absent", False):
                        continue
                    self.sample(self.board(index, node, rare=self.t % 60 == 0, **what))
            self.t += 1.0

    def host(self, seconds: int, every: float = 2.0, steps: float | None = 1.0, **what: Any) -> None:
        """So many seconds of the machine's own figures."""
        parts = {n: v for n, v in what.items() if n in ("disks", "volumes", "links", "scope")}
        changed = {n: v for n, v in what.items() if n not in parts}
        for _ in range(round(seconds / every)):
            self.wait(every)
            if steps:
                self.now_step += 1
                self.step(self.now_step, self.node)
            values = {n: v(self.t) if callable(v) else v for n, v in {**HOST, **changed}.items()}
            now = {n: v(self.t) if callable(v) else v for n, v in parts.items()}
            self.sample(HostSample(self.node, self.clock.now(), values=values, **now))
            self.t += every

    def began(self) -> list[tuple[str, str, str]]:
        """(kind, title, who) of the incidents that began, each told once, as they were told first."""
        seen: set[str] = set()
        out = []
        for i in self.found:
            if i.end is not None:
                seen.discard(i.key)
            elif i.key not in seen:
                seen.add(i.key)
                out.append((i.kind, i.title, i.who))
        return out


@pytest.fixture
def new_bench() -> Callable[..., Bench]:
    """Makes runs with machines: `new_bench(thresholds, gpus, node)`."""
    return Bench
