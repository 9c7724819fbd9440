"""This machine's instruments in a session: started after the first picture, stopped with it, let go and taken again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from trainmon.clock import ManualClock
from trainmon.model import Telemetry
from trainmon.samples import GpuSample, HostSample, Sample
from trainmon.session.session import Session
from trainmon.settings import Settings
from trainmon.snapshot import Snapshot

PATIENCE_S = 20.0
Sink = Callable[[list[Sample]], object]


class Bench:
    """Instruments that tell of two GPUs each few milliseconds, and of what they were told to do."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self.told: list[str] = []
        self.seen: Snapshot | None = None
        self.session: Session | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def _work(self) -> None:
        heat = 0
        while not self._over.wait(0.01):
            now, heat = time.time(), (heat + 1) % 90
            self.sink([GpuSample("box", i, f"U{i}", now, values={"gpu_temperature_c": float(heat)}) for i in range(2)])

    def start(self) -> None:
        self.told.append("start")
        if self.session is not None:
            self.seen = self.session.snapshot
        self._thread.start()

    def stop(self) -> None:
        self.told.append("stop")
        self._over.set()

    def release(self) -> None:
        self.told.append("release")

    def resume(self) -> None:
        self.told.append("resume")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "train.log"
    path.write_text('{"step": 1, "loss": 2.0}\n{"step": 2, "loss": 1.9}\n')
    return path


def wait(until: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not until():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def test_instruments_live_with_the_session(log: Path) -> None:
    made: list[Bench] = []

    def factory(sink: Sink) -> Bench:
        made.append(Bench(sink))
        made[0].session = session
        return made[0]

    session = Session([str(log)], Settings(), station=factory)
    assert made == []
    session.release_gpus()  # there is nothing to let go yet
    session.start()
    try:
        wait(lambda: len(session.snapshot.gpus.rows) == 2)
        bench = made[0]
        assert bench.seen is not None and bench.seen.version > 0, "they start after the first picture"
        assert session.snapshot.gpus.here and session.snapshot.gpus.origin == "NVML"
        session.release_gpus()
        session.resume_gpus()
    finally:
        started = time.monotonic()
        session.stop()
        took = time.monotonic() - started
    assert bench.told == ["start", "release", "resume", "stop"] and len(made) == 1
    assert took < 5.0 and not session.fault


def test_instruments_that_cannot_be_made_leave_the_rest(log: Path) -> None:
    def broken(sink: Sink) -> Bench:
        raise OSError("no such thing")

    session = Session([str(log)], Settings(), station=broken)
    session.start()
    try:
        wait(lambda: session.faults > 0)
        wait(lambda: session.snapshot.run.step == 2)
        assert session.snapshot.gpus.rows == ()
    finally:
        session.stop()


def test_gpus_that_move_make_a_picture_each_two_seconds(log: Path) -> None:
    session = Session([str(log)], Settings(), station=Bench)
    versions: set[int] = set()
    session.subscribe(lambda: versions.add(session.snapshot.versions["gpus"]))
    session.start()
    try:
        wait(lambda: len(session.snapshot.gpus.rows) == 2)
        first, started = len(versions), time.monotonic()
        wait(lambda: len(versions) >= first + 3)
        lasted = time.monotonic() - started
    finally:
        session.stop()
    # They rest for two seconds after each: three of them cannot come sooner, however fast the machine is.
    assert lasted > 3.0


def test_what_rests_wakes_nobody(log: Path) -> None:
    clock = ManualClock()
    session = Session([str(log)], Settings(), clock=clock)
    for _ in range(3):  # the first moments let nothing rest
        clock.advance(1.0)
        session.pump([Telemetry((HostSample("here", clock.now(), values={"cpu_percent": 10.0}),))])
        session._build(False)
    publisher, run = session._publisher, session._engine.front
    run.dirty.clear()
    assert publisher.earliest() == float("inf")
    run.dirty.add("host")
    publisher.build()
    run.dirty.add("host")
    assert publisher.earliest() > clock.monotonic() + 4.0
    run.dirty.add("last")
    assert publisher.earliest() <= clock.monotonic() + 0.1
