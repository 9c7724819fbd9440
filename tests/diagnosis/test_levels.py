"""Levels, fills and phases: the parts that the detectors of machines are made of."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from trainmon.diagnosis.engine import Detectors
from trainmon.diagnosis.fill import Fill
from trainmon.diagnosis.level import Level
from trainmon.diagnosis.phase import phase
from trainmon.model import record_of
from trainmon.samples import (
    GPU_METRICS,
    HOST_METRICS,
    THROTTLE,
    DiskSample,
    GpuEvent,
    GpuProcess,
    GpuSample,
    HostSample,
    LinkSample,
    VolumeSample,
)

NewBench = Callable[..., Any]


def test_a_level_counts_readings_apart_and_resolves_below_its_second_mark() -> None:
    level = Level(80.0, 75.0, readings=3, apart=2.0, clear=4.0)
    assert [level.take(90.0, t) for t in (0.0, 0.5, 1.0, 2.0, 3.0, 4.0)] == [False] * 5 + [True]
    assert [level.take(77.0, t) for t in (5.0, 9.0, 20.0)] == [False] * 3, "between the marks"
    assert [level.take(10.0, t) for t in (21.0, 23.0, 25.0)] == [False, False, True]
    assert not level.open


def test_a_level_begins_anew_after_a_hole_and_after_a_clock_that_was_set() -> None:
    level = Level(80.0, 75.0, readings=3)
    assert not any(level.take(90.0, t) for t in (0.0, 1.0, 500.0, 501.0))
    level.take(90.0, 100.0)
    assert level.since == 100.0
    assert not level.take(90.0, 99.0), "late"


def test_a_spell_that_has_come_twice_is_usual() -> None:
    level = Level(20.0, 25.0, readings=5, falling=True, clear=2.0)
    opened = []
    time = 0.0
    for _ in range(5):
        for value, seconds in ((5.0, 12), (90.0, 60)):
            for _ in range(seconds):
                time += 1.0
                if level.take(value, time) and level.open:
                    opened.append(time)
    assert len(opened) == 2
    for _ in range(30):
        time += 1.0
        level.take(5.0, time)
    assert level.open, "twice as long is news"


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0.0, 400.0)), max_size=80))
def test_a_level_opens_only_by_a_reading_beyond_and_never_twice(readings: list[tuple[float, float]]) -> None:
    level = Level(80.0, 70.0, readings=2, hold=1.0)
    time, was = 0.0, False
    for value, gap in readings:
        time += gap
        changed = level.take(value, time)
        assert changed == (level.open != was)
        if changed and level.open:
            assert value >= 80.0
        if changed and not level.open:
            assert value < 70.0
        was = level.open


@given(st.floats(0.01, 5.0), st.floats(0.0, 0.4))
def test_a_steady_rise_is_forecast_and_flat_noise_is_none(slope: float, noise: float) -> None:
    fill = Fill(10.0, 18, 0.01)
    level = 5000.0
    for i in range(400):
        fill.take(level + i * slope + noise * slope * math.sin(i * 1.7), 10_000.0, i * 1.0)
    grown = slope * 170.0 >= 0.0102 * 10_000.0
    if grown:
        assert fill.last is not None
        assert 0.7 * slope <= fill.last[0] <= 1.4 * slope
    flat = Fill(10.0, 18, 0.01)
    for i in range(400):
        flat.take(level + 300.0 * math.sin(i * 1.7), 10_000.0, i * 1.0)
    assert flat.last is None


def test_phases_of_a_run(new_bench: NewBench) -> None:
    run = new_bench()
    pulse = run.watch.pulse
    assert phase(pulse, run.clock.now()) == "unknown"
    run.line("log", level="INFO", message="loading")
    assert phase(pulse, run.clock.now()) == "starting"
    run.train(2)
    assert phase(pulse, run.clock.now()) == "starting"
    run.train(10)
    assert phase(pulse, run.clock.now()) == "training"
    run.event("eval_start")
    assert phase(pulse, run.clock.now()) == "paused"
    run.train(1)
    run.line("log", level="WARN", message="received SIGTERM, exiting")
    assert phase(pulse, run.clock.now()) == "paused"
    run.train(1)
    assert phase(pulse, run.clock.now()) == "training"
    run.event("finished")
    assert phase(pulse, run.clock.now()) == "over"


# ---------------------------------------------------------------- whatever comes

_ODD = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False), st.floats(0, 100), st.sampled_from((0.0, -1.0, 1e300))
)
_TIMES = st.floats(0, 2e9)
_GPU = st.builds(
    GpuSample,
    node=st.sampled_from(("a", "b")),
    index=st.sampled_from((None, 0, 1)),
    uuid=st.sampled_from(("", "GPU-1", "GPU-2")),
    time=_TIMES,
    origin=st.sampled_from(("NVML", "agent", "log")),
    state=st.sampled_from(("ok", "lost", "reset needed", "not responding", "failing", "no permission")),
    values=st.dictionaries(st.sampled_from(sorted(GPU_METRICS)), _ODD, max_size=12),
    throttle=st.one_of(st.none(), st.lists(st.sampled_from(sorted(THROTTLE.values())), max_size=3).map(tuple)),
    processes=st.one_of(st.none(), st.lists(st.builds(GpuProcess, pid=st.integers(1, 5)), max_size=2).map(tuple)),
    events=st.lists(st.builds(GpuEvent, code=st.integers(-5, 400), time=_TIMES), max_size=2).map(tuple),
    parent=st.sampled_from(("", "GPU-1")),
    instance=st.sampled_from(("", "5/0")),
)
_MAYBE = st.one_of(st.none(), _ODD)
_HOST = st.builds(
    HostSample,
    node=st.sampled_from(("a", "b")),
    time=_TIMES,
    values=st.dictionaries(st.sampled_from(sorted(HOST_METRICS)), _ODD, max_size=10),
    disks=st.one_of(
        st.none(),
        st.lists(st.builds(DiskSample, name=st.just("d"), util_percent=_MAYBE, queue=_MAYBE, read_await_ms=_MAYBE),
                 max_size=2).map(tuple),
    ),
    volumes=st.one_of(
        st.none(),
        st.lists(st.builds(VolumeSample, path=st.just("/"), used_mb=_MAYBE, total_mb=_MAYBE, hangs=st.booleans()),
                 max_size=2).map(tuple),
    ),
    links=st.one_of(
        st.none(),
        st.lists(st.builds(LinkSample, name=st.just("l"), state=st.sampled_from(("up", "down", "init")), rate_mb_s=_MAYBE,
                           rx_mb_s=_MAYBE, errors=st.integers(-3, 10**12), downs=st.integers(-3, 10**12)),
                 max_size=2).map(tuple),
    ),
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.one_of(_GPU, _HOST), st.floats(0, 200), st.booleans(), st.booleans()), max_size=40))
def test_no_sample_however_odd_raises_and_every_end_had_a_begin(
    samples: list[tuple[GpuSample | HostSample, float, bool, bool]],
) -> None:
    watch = Detectors()
    now = 1e9
    open_: set[str] = set()
    for sample, gap, live, foreign in samples:
        now += gap
        record = record_of(sample, "x")
        if foreign:
            record.extra["foreign"] = 1
        found = [*watch.observe(record, sample.node, now, live), *watch.tick(now, now)]
        for incident in found:
            if incident.end is not None:
                assert incident.key in open_
                assert incident.end >= incident.start and incident.resolution
                open_.discard(incident.key)
            else:
                open_.add(incident.key)
            assert incident.measured and incident.title and incident.who
            assert not any(isinstance(v, float) and not math.isfinite(v) for _, v in incident.evidence)
