"""A run that a test tells, line by line, on a clock that it moves."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from trainmon.clock import ManualClock
from trainmon.diagnosis.engine import Detectors
from trainmon.diagnosis.fatal import Lookup
from trainmon.diagnosis.thresholds import Thresholds
from trainmon.model import Incident, Record


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
