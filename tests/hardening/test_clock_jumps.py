"""Clocks that are set by an hour, ours and those of the machines that write: no alarm, no lost alert, sane ages."""

from __future__ import annotations

import json
import random
import threading
import time

import pytest

from trainmon.clock import ManualClock, SteadyClock
from trainmon.model import CaughtUp, Data, Opened
from trainmon.samples import GpuSample, HostSample
from trainmon.session.session import Session
from trainmon.settings import Settings
from trainmon.snapshot import Snapshot
from trainmon.widgets.status import draw_status

START = 1_764_500_000.0
HOUR = 3600.0


class Live:
    """Four workers that step every two seconds, and instruments, watched live."""

    def __init__(self) -> None:
        self.clock = ManualClock(START)
        self.session = Session(["worker-*.log"], Settings(), clock=self.clock)
        self.skew = dict.fromkeys(range(4), 0.0)
        self.step = 0
        self._offsets = dict.fromkeys(range(4), 0)
        for worker in range(4):
            name = f"worker-{worker}.log"
            self.session.pump([Opened(worker, name, f"/logs/{name}", 0, START), CaughtUp(worker, 0)])

    def lines(self, skip: tuple[int, ...] = (), text: str = "") -> None:
        self.step += 1
        for worker in range(4):
            if worker not in skip:
                now = self.clock.now() + self.skew[worker]
                stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1e6):06}Z"
                line = text or json.dumps(
                    {"timestamp": stamp, "step": self.step, "total_steps": 100_000, "loss": 4 - self.step / 1e4}
                )
                data = line.encode() + b"\n"
                at = self._offsets[worker]
                self._offsets[worker] += len(data)
                self.session.pump([Data(worker, 0, at, data, at + len(data), self.clock.now())])

    def instruments(self) -> None:
        now = self.clock.now()
        for index in range(2):
            values = {"gpu_utilization": 95.0, "gpu_memory_mb": 40_000.0, "gpu_memory_total_mb": 81_559.0,
                      "gpu_power_w": 600.0, "power_limit_w": 700.0, "gpu_temperature_c": 60.0, "sm_clock_mhz": 1980.0}  # fmt: skip
            self.session._engine.front.instruments(
                [GpuSample("w", index, f"GPU-{index}", now, values=values)], self.session.clock.now()
            )
        self.session._engine.front.instruments(
            [HostSample("w", now, values={"cpu_percent": 20.0, "memory_used_mb": 9.0, "memory_total_mb": 99.0})],
            self.session.clock.now(),
        )

    def run(self, seconds: float, *, lines: bool = True) -> list[Snapshot]:
        """Let time pass, two seconds at a time; all pictures on the way."""
        seen = []
        for _ in range(int(seconds / 2)):
            self.clock.advance(2.0)
            self.instruments()
            if lines:
                self.lines()
            seen.append(self.session.pump())
        return seen

    @property
    def now(self) -> float:
        return self.session.clock.now()


def calm(live: Live, pictures: list[Snapshot]) -> None:
    """A healthy run looks healthy in all of them."""
    for picture in pictures:
        assert not picture.alerts, [(alert.title, alert.measured) for alert in picture.alerts]
        assert picture.run.state == "running", (picture.run.state, picture.run.note)
        assert all(node.health == "ok" for node in picture.nodes), [node.word for node in picture.nodes]
        assert not [chart.title for chart in picture.charts if chart.stale_s]
        assert picture.gpus.rows and {row.state for row in picture.gpus.rows} == {"ok"}
    assert not live.session.faults, live.session.fault


@pytest.mark.parametrize("seed", range(8))
def test_our_clock_is_set_at_any_moment(seed: int) -> None:
    chance, live = random.Random(seed), Live()
    live.run(120)
    for _ in range(6):
        live.clock.jump(chance.choice((-HOUR, HOUR, -90.0, 90.0, 7 * 86400.0)))
        live.clock.advance(1.0)
        calm(live, [live.session.pump()])  # before anything new came
        calm(live, live.run(chance.uniform(2, 90)))


@pytest.mark.parametrize("seed", range(4))
def test_the_clock_of_a_writer_is_set(seed: int) -> None:
    chance, live = random.Random(seed), Live()
    live.run(120)
    for _ in range(4):
        live.skew[chance.randrange(4)] += chance.choice((-HOUR, HOUR))
        calm(live, live.run(chance.uniform(20, 90)))


@pytest.mark.parametrize("jump", [-HOUR, HOUR])
def test_what_the_run_shows_as_its_newest_time_follows_a_clock_that_is_set(jump: float) -> None:
    live = Live()
    live.run(120)
    live.clock.jump(jump)
    picture = live.run(10)[-1]
    assert picture.run.newest is not None and abs(picture.run.newest - live.clock.now()) < 3.0


@pytest.mark.parametrize("jump", [-HOUR, HOUR])
def test_an_alert_outlives_the_jump_and_resolves_after_it(jump: float) -> None:
    live = Live()
    live.run(120)
    live.lines(text="[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.")
    before = live.run(4, lines=False)[-1]
    (alert,) = before.alerts
    live.clock.jump(jump)
    for picture in live.run(60, lines=False):
        assert [each.id for each in picture.alerts] == [alert.id]
        assert picture.alerts[0].state == "firing"
    assert 0.0 <= live.now - live.session.snapshot.alerts[0].since < 120.0
    assert not live.session.snapshot.alerts[0].fresh
    live.clock.jump(-jump)
    live.run(10)
    states = {each.id: each.state for each in live.session.snapshot.alerts}
    assert states[alert.id] == "resolved"  # and said so for its ten seconds, jump or not


@pytest.mark.parametrize("jump", [-HOUR, HOUR])
def test_a_run_that_really_stops_is_told_of_in_its_usual_time(jump: float) -> None:
    live, plain = Live(), Live()
    found = []
    for each in (live, plain):
        each.run(240)
        if each is live:
            each.clock.jump(jump)
        for count in range(1000):
            if each.run(2, lines=False)[-1].alerts:
                found.append(count)
                break
    assert len(found) == 2 and abs(found[0] - found[1]) <= 1


@pytest.mark.parametrize("jump", [-HOUR, HOUR])
def test_how_long_ago_a_run_ended_does_not_jump(jump: float) -> None:
    live = Live()
    live.run(120)
    live.clock.jump(jump)
    live.run(20)
    live.lines(text='{"train_runtime": 140.0, "train_samples_per_second": 9.0, "train_loss": 3.9, "epoch": 1.0}')
    live.run(20, lines=False)
    live.clock.jump(jump)
    picture = live.run(40, lines=False)[-1]
    assert picture.run.state == "finished"
    assert picture.run.heard is not None and 50.0 <= live.now - picture.run.heard <= 64.0
    (row,) = draw_status(picture.run, 120, now=live.now)
    text = "".join(part if isinstance(part, str) else part[0] for part in row) if isinstance(row, list) else str(row)
    assert "m ago" in text or "s ago" in text, text


def test_files_that_join_after_a_jump_are_news() -> None:
    live = Live()
    live.run(60)
    live.clock.jump(-HOUR)
    live.run(4)
    live.session.pump([Opened(9, "worker-9.log", "/logs/worker-9.log", 10, live.clock.now(), joined=True)])
    assert live.session._engine.files[9].fresh


def test_the_steady_clock_takes_out_jumps_and_nothing_else() -> None:
    clock = ManualClock(START)
    steady = SteadyClock(clock)
    clock.advance(10.0)
    assert steady.now() == START + 10.0
    for jump in (HOUR, -2 * HOUR, 86_400.0):
        clock.jump(jump)
        assert steady.now() == pytest.approx(START + 10.0)
    clock.advance(5.0)
    assert steady.now() == pytest.approx(START + 15.0)
    clock.jump(0.5)  # a small correction is followed
    assert steady.now() == pytest.approx(START + 15.5)
    assert steady.shift == pytest.approx(HOUR - 2 * HOUR + 86_400.0)


def test_a_thread_that_is_held_up_between_two_looks_sees_no_jump() -> None:
    class Late:
        """Every third look at the wall clock comes half a minute late."""

        def __init__(self) -> None:
            self.time, self.looks = 0.0, 0

        def now(self) -> float:
            self.looks += 1
            if self.looks % 3 == 0:
                self.time += 30.0
            return START + self.time

        def monotonic(self) -> float:
            return self.time

    steady = SteadyClock(Late())
    before = [steady.now() for _ in range(30)]
    assert steady.shift == 0.0 and before == sorted(before)


def test_many_threads_agree_on_a_jump() -> None:
    clock = ManualClock(START)
    steady = SteadyClock(clock)
    clock.jump(HOUR)
    threads = [threading.Thread(target=lambda: [steady.now() for _ in range(2000)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert steady.shift == HOUR and steady.now() == START
