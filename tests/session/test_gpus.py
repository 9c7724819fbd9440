"""GPUs of telemetry on the screen: merged, aged, bound, never invented. Samples by hand, no threads."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from trainmon.clock import ManualClock
from trainmon.machines import GpuRow
from trainmon.model import CaughtUp, Data, Opened, SourceEvent, Telemetry
from trainmon.samples import DriverSample, GpuEvent, GpuProcess, GpuSample, Sample
from trainmon.session.cards import MAX_PER_NODE, CardBook
from trainmon.session.session import Session
from trainmon.settings import Settings
from trainmon.snapshot import Snapshot

START = 1_764_500_000.0
FULL = {
    "gpu_utilization": 97.0, "gpu_memory_mb": 68_000.0, "gpu_memory_total_mb": 81_920.0, "gpu_temperature_c": 66.0,
    "gpu_power_w": 381.4, "sm_clock_mhz": 1410.0, "power_limit_w": 400.0, "slowdown_temperature_c": 85.0,
    "sm_clock_max_mhz": 1410.0, "nvlink_rx_gb_s": 70.0, "nvlink_tx_gb_s": 78.2, "nvlinks": 12.0, "nvlinks_up": 12.0,
}  # fmt: skip


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
def session(clock: ManualClock) -> Session:
    return Session(["*.log"], Settings(), clock=clock)


def gpu(index: int, time: float, node: str = "box", **more: object) -> GpuSample:
    given: dict[str, object] = {"values": dict(FULL), "name": "NVIDIA A100-SXM4-80GB"} | more
    return GpuSample(node, index, f"GPU-{node}-{index}", time, **given)  # type: ignore[arg-type]


def tell(session: Session, *samples: Sample) -> Snapshot:
    return session.pump([Telemetry(samples)])


def training(session: Session, clock: ManualClock, name: str = "train", steps: int = 60, source: int = 1,
             **more: object) -> Snapshot:  # fmt: skip
    """A log of that many steps, a second each, the last one now."""
    lines = b""
    for step in range(steps):
        stamp = datetime.fromtimestamp(clock.now() - steps + step + 1, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        record = {"timestamp": stamp, "step": step, "loss": 2.0, "step_time_s": 1.0, "total_steps": 5000} | more
        lines += json.dumps(record).encode() + b"\n"
    events: list[SourceEvent] = [
        Opened(source, f"{name}.log", f"/logs/{name}.log", len(lines), clock.now() - 1),
        Data(source, 0, 0, lines, len(lines), clock.now() - 1),
        CaughtUp(source, 0),
    ]
    return session.pump(events)


def by_index(rows: Iterable[GpuRow]) -> dict[int | None, GpuRow]:
    return {row.index: row for row in rows}


# ---------------------------------------------------------------- rows


def test_a_sample_becomes_a_row(session: Session) -> None:
    shot = tell(session, gpu(1, START), gpu(0, START))
    panel = shot.gpus
    assert (panel.subject, panel.origin, panel.here, panel.window_s, panel.bad) == ("box", "NVML", True, 10.0, False)
    assert [row.label for row in panel.rows] == ["0", "1"] and panel.everywhere == () and panel.counted == 2
    row = panel.rows[0]
    assert (row.util_percent, row.temperature_c, row.power_w, row.clock_mhz) == (97.0, 66.0, 381.0, 1410.0)
    assert row.memory_mb == pytest.approx(68_000, abs=52) and row.link_gb_s == 148.0 and row.slowdown_c == 85.0
    assert row.key and row.state == "ok" and row.mine and row.age_s is None and row.health == "ok"
    assert shot.run.gpus == 2
    assert not session.fault


def test_partial_updates_are_merged_and_each_keeps_its_own_time(session: Session, clock: ManualClock) -> None:
    tell(session, gpu(0, START))
    clock.advance(1)
    shot = tell(session, gpu(0, START + 1, values={"gpu_temperature_c": 71.0}))
    row = shot.gpus.rows[0]
    assert row.temperature_c == 71.0 and row.power_w == 381.0 and row.name == "NVIDIA A100-SXM4-80GB"


def test_late_and_double_samples_change_nothing_new(session: Session, clock: ManualClock) -> None:
    clock.advance(2)
    tell(session, gpu(0, START + 2))
    late = gpu(0, START + 1, values={"gpu_temperature_c": 20.0, "memory_utilization": 44.0}, state="lost")
    shot = tell(session, late, gpu(0, START + 2), gpu(0, START + 2))
    assert shot.gpus.rows[0].temperature_c == 66.0 and shot.gpus.rows[0].state == "ok"
    shuffled = [gpu(0, START + 2 + i, values={"gpu_power_w": 100.0 + i}) for i in range(20)]
    clock.advance(20)
    random.Random(7).shuffle(shuffled)
    for sample in shuffled:
        shot = tell(session, sample)
    assert shot.gpus.rows[0].power_w == 119.0


def test_a_clock_that_is_set_back_or_ahead_does_not_stop_the_figures(session: Session, clock: ManualClock) -> None:
    for _ in range(5):
        tell(session, gpu(0, clock.now()))
        clock.advance(1)
    clock.jump(-3600)
    for i in range(5):
        shot = tell(session, gpu(0, clock.now(), values={"gpu_temperature_c": 70.0 + i}))
        clock.advance(1)
    assert shot.gpus.rows[0].temperature_c == 74.0 and shot.gpus.rows[0].state == "ok"
    clock.jump(7200)
    shot = tell(session, gpu(0, clock.now(), values={"gpu_temperature_c": 50.0}))
    assert shot.gpus.rows[0].temperature_c == 50.0 and shot.gpus.rows[0].state == "ok"
    assert not session.fault


def test_utilisation_is_the_mean_of_ten_seconds(session: Session, clock: ManualClock) -> None:
    for i in range(40):
        clock.advance(1)
        shot = tell(session, gpu(0, clock.now(), values={"gpu_utilization": 100.0 if i % 2 else 0.0}))
    assert shot.gpus.rows[0].util_percent == 50.0
    for _ in range(12):
        clock.advance(1)
        shot = tell(session, gpu(0, clock.now(), values={"gpu_utilization": 20.0}))
    assert shot.gpus.rows[0].util_percent == 20.0


def test_figures_that_stop_become_stale_and_stay(session: Session, clock: ManualClock) -> None:
    for _ in range(5):
        tell(session, gpu(0, clock.now()), gpu(1, clock.now()))
        clock.advance(1)
    for _ in range(14):
        shot = tell(session, gpu(0, clock.now()))
        clock.advance(1)
    rows = by_index(shot.gpus.rows)
    assert rows[1].state == "stale" and rows[1].health == "silent" and rows[1].word == "stale 10 s"
    assert rows[1].memory_mb == rows[0].memory_mb and rows[0].state == "ok" and shot.gpus.age_s is None
    clock.advance(60)
    shot = session.pump()
    assert shot.gpus.age_s == 60.0 and all(row.state == "stale" for row in shot.gpus.rows)
    shot = tell(session, gpu(0, clock.now()), gpu(1, clock.now()))
    assert all(row.state == "ok" for row in shot.gpus.rows)


def test_slow_instruments_are_not_stale_between_two_looks(session: Session, clock: ManualClock) -> None:
    for _ in range(4):
        shot = tell(session, gpu(0, clock.now()))
        clock.advance(30)
    clock.advance(30)
    assert session.pump().gpus.rows[0].state == "ok"
    clock.advance(120)
    shot = session.pump()
    assert shot.gpus.rows[0].state == "stale"


def test_what_cannot_be_had_is_absent_with_its_reason(session: Session) -> None:
    values = {"gpu_memory_mb": 9_000.0, "gpu_memory_total_mb": 20_000.0}
    missing = {"gpu_utilization": "n/a under MIG", "gpu_power_w": "not supported", "nonsense": "x"}
    row = tell(session, gpu(0, START, values=values, missing=missing)).gpus.rows[0]
    assert row.util_percent is None and row.power_w is None
    assert dict(row.missing) == {"gpu_utilization": "n/a under MIG", "gpu_power_w": "not supported"}
    again = replace(gpu(0, START + 1, values={"gpu_power_w": 100.0}), missing={"gpu_utilization": ""})
    row = tell(session, again).gpus.rows[0]
    assert row.power_w == 100.0 and row.missing == ()


def test_a_value_that_fails_later_is_no_longer_shown(session: Session) -> None:
    tell(session, gpu(0, START))
    failing = gpu(0, START + 1, values={}, missing={"gpu_temperature_c": "failing: Unknown Error"})
    row = tell(session, failing).gpus.rows[0]
    assert row.temperature_c is None and row.missing == (("gpu_temperature_c", "failing: Unknown Error"),)


@pytest.mark.parametrize(
    ("more", "health", "word", "note"),
    [
        ({"state": "lost", "since": START - 5, "events": (GpuEvent(79, START - 5),)}, "critical", "Xid 79", "10:53:15"),
        ({"state": "lost", "sentence": "GPU is lost: reset it"}, "critical", "lost", "reset it"),
        ({"state": "no permission"}, "silent", "no permission", "no permission"),
        ({"state": "not responding", "since": START - 9}, "warning", "not responding", "10:53:11"),
        ({"state": "reset needed"}, "critical", "reset needed", "reset"),
        ({"state": "failing"}, "warning", "failing", "errors"),
        ({"throttle": ("thermal (hardware)", "power cap")}, "warning", "thermal", ""),
        ({"throttle": ("power brake",)}, "warning", "power brake", ""),
        ({"throttle": ("power cap",)}, "ok", "", ""),
        ({"throttle": ("idle",)}, "ok", "", ""),
        ({"values": FULL | {"gpu_memory_mb": 80_000.0}}, "ok", "98 %", ""),
    ],
)  # fmt: skip
def test_each_state_has_its_word(session: Session, more: dict[str, object], health: str, word: str, note: str) -> None:
    row = tell(session, gpu(0, START, **more)).gpus.rows[0]
    assert (row.health, row.word) == (health, word)
    assert note in row.note and bool(row.note) == bool(note)


def test_mig_instances_are_rows_of_their_own_and_go_when_they_are_gone(session: Session, clock: ManualClock) -> None:
    def slice_(gi: int) -> GpuSample:
        return GpuSample("box", 0, f"MIG-{gi}", clock.now(), values={"gpu_memory_mb": 9000.0}, parent="GPU-box-0",
                         profile="2g.20gb", instance=f"{gi}/0", missing={"gpu_utilization": "n/a under MIG"})  # fmt: skip

    shot = tell(session, slice_(11), gpu(1, START), slice_(5), gpu(0, START))
    assert [row.label for row in shot.gpus.rows] == ["0", "0:5", "0:11", "1"]
    assert shot.gpus.rows[1].profile == "2g.20gb" and shot.run.gpus == 2
    for _ in range(80):
        clock.advance(1)
        shot = tell(session, gpu(0, clock.now()), gpu(1, clock.now()), slice_(5))
    assert [row.label for row in shot.gpus.rows] == ["0", "0:5", "1"]


# ---------------------------------------------------------------- the driver as a whole


def test_without_a_driver_there_is_one_sentence(session: Session) -> None:
    shot = tell(session, DriverSample("box", START, "no driver", "no NVIDIA driver here: nothing to see"))
    assert shot.gpus.rows == () and shot.gpus.sentence == "no NVIDIA driver here: nothing to see"
    assert not shot.gpus.bad and shot.run.state == "waiting"


def test_without_a_driver_the_figures_of_logs_go_on(session: Session, clock: ManualClock) -> None:
    training(session, clock, gpu_memory_mb=41_000, gpu_memory_total_mb=81_920)
    shot = tell(session, DriverSample("box", START, "no driver", "no NVIDIA driver here"))
    assert shot.gpus.origin == "from the log" and shot.gpus.rows[0].memory_mb == 41_000 and shot.gpus.sentence == ""
    assert shot.run.gpus == 1 and shot.run.nodes == 1


def test_a_driver_that_fails_leaves_the_last_figures_stale(session: Session, clock: ManualClock) -> None:
    tell(session, DriverSample("box", START, "ok", driver="550.90.07", gpus=1), gpu(0, START))
    clock.advance(1)
    shot = tell(session, DriverSample("box", clock.now(), "not responding", "NVML does not respond for 3 s"))
    assert shot.gpus.bad and shot.gpus.sentence == "NVML does not respond for 3 s"
    assert shot.gpus.rows[0].state == "stale" and shot.gpus.rows[0].memory_mb is not None
    clock.advance(1)
    shot = tell(session, DriverSample("box", clock.now(), "ok", driver="550.90.07"), gpu(0, clock.now()))
    assert not shot.gpus.bad and shot.gpus.sentence == "" and shot.gpus.rows[0].state == "ok"
    assert shot.gpus.driver == "550.90.07"


def test_letting_the_gpus_go_is_no_fault(session: Session) -> None:
    shot = tell(session, gpu(0, START), DriverSample("box", START + 1, "released"))
    assert not shot.gpus.bad and shot.gpus.sentence and shot.gpus.rows[0].state == "stale"


# ---------------------------------------------------------------- whose they are


def test_others_gpus_are_dimmed_and_raise_no_alarm(session: Session, clock: ManualClock) -> None:
    training(session, clock, name="box", rank=3)
    mine = (GpuProcess(10, user="maria", rank=3),)
    hot = {"throttle": ("thermal (hardware)",)}
    tell(session, gpu(0, START, processes=mine, **hot), gpu(1, START, processes=(GpuProcess(99, user="john"),), **hot))
    rows = by_index(session.pump().gpus.rows)
    assert rows[0].mine and rows[0].rank == 3 and rows[0].health == "warning"
    assert not rows[1].mine and rows[1].health == "ok" and rows[1].word == "thermal"
    assert session.snapshot.run.gpus == 1
    for second in range(1, 200):
        clock.advance(1)
        tell(session, gpu(0, clock.now(), processes=mine),
             gpu(1, clock.now(), values=FULL | {"gpu_memory_mb": 60_000.0 + 100 * second}, **hot))  # fmt: skip
    assert not any(alert.gpu == 1 for alert in session.snapshot.alerts)


def test_the_node_table_has_what_the_logs_lack(session: Session, clock: ManualClock) -> None:
    shot = training(session, clock, name="worker-2")
    assert shot.nodes[0].memory_mb is None
    tell(session, gpu(0, START, "worker-2.cluster"), gpu(1, START, "worker-2.cluster",
                                                          values=FULL | {"gpu_temperature_c": 83.0}))  # fmt: skip
    clock.advance(1)
    shot = session.pump()
    assert [node.name for node in shot.nodes] == ["worker-2"] and shot.run.nodes == 1
    assert shot.nodes[0].memory_mb == pytest.approx(68_000, abs=52) and shot.nodes[0].temperature_c == 83.0
    assert shot.gpus.subject == "worker-2" and shot.gpus.here


def test_a_machine_that_has_nothing_to_do_with_the_run_does_not_hide_its_figures(
    session: Session, clock: ManualClock
) -> None:
    training(session, clock, name="worker-0", source=1, gpu_memory_mb=41_000)
    training(session, clock, name="worker-1", source=2, gpu_memory_mb=42_000)
    shot = tell(session, gpu(0, START, "login"))
    assert shot.gpus.origin == "from the log" and shot.gpus.subject == "one row a node"
    assert {row.node for row in shot.gpus.everywhere} == {"worker-0", "worker-1", "login"} and shot.gpus.counted == 3
    session.select_node("login")
    assert session.pump().gpus.subject == "login"


def test_telemetry_is_no_speech_of_the_run(session: Session, clock: ManualClock) -> None:
    before = training(session, clock)
    for _ in range(900):
        clock.advance(1)
        session._handle(Telemetry((gpu(0, clock.now()), gpu(1, clock.now()))))
        session.pump()
    shot = session.pump()
    assert shot.run.state == "stalled" and any(alert.kind == "stall" for alert in shot.alerts)
    assert shot.counts == before.counts and shot.last == before.last and shot.run.newest == before.run.newest
    assert [node.name for node in shot.nodes] == ["train"]


# ---------------------------------------------------------------- many machines


def test_the_worst_of_all_machines_come_first(session: Session, clock: ManualClock) -> None:
    for second in range(30):
        samples: list[Sample] = []
        for node in ("a", "b", "c"):
            for i in range(2):
                if (node, i) == ("b", 1) and second > 5:
                    continue
                more: dict[str, object] = {"origin": "agent", "values": FULL | {"gpu_memory_mb": 1000.0 * (i + 1)}}
                if (node, i) == ("c", 0):
                    more |= {"state": "lost", "values": {}, "events": (GpuEvent(79, START),)}
                if (node, i) == ("a", 1):
                    more["throttle"] = ("thermal (software)",)
                samples.append(gpu(i, clock.now(), node, **more))
        session._handle(Telemetry(tuple(samples)))
        clock.advance(1)
    shot = session.pump()
    order = [(row.node, row.index) for row in shot.gpus.everywhere]
    assert order == [("c", 0), ("a", 1), ("b", 1), ("c", 1), ("a", 0), ("b", 0)]
    assert shot.gpus.counted == 6


def test_a_thousand_machines_are_bounded_and_shown() -> None:
    book = CardBook()
    for node in range(1000):
        for i in range(8):
            book.take(gpu(i, START, f"n{node}", origin="agent"), START, live=True)
    assert len(book) == 8000 and book.room.cells == 24
    for i in range(MAX_PER_NODE + 50):
        book.take(GpuSample("big", i, f"U{i}", START), START, live=True)
    assert len(book.of("big")) == MAX_PER_NODE
    for i in range(20_000):
        book.take(GpuSample(f"m{i}", 0, "U", START), START, live=True)
    assert len(book) == 16_384


def test_the_same_gpu_from_two_sides_is_one(session: Session, clock: ManualClock) -> None:
    clock.advance(2)
    tell(session, gpu(0, START + 2), replace(gpu(0, START + 1, values={"gpu_temperature_c": 5.0}), origin="agent"))
    shot = tell(session, GpuSample("box", 0, "", START, origin="log", values={"gpu_temperature_c": 6.0}))
    assert len(shot.gpus.rows) == 1 and shot.gpus.rows[0].temperature_c == 66.0 and shot.gpus.origin == "NVML"


def test_text_of_a_log_that_came_first_becomes_the_gpu_of_that_index(session: Session, clock: ManualClock) -> None:
    tell(session, GpuSample("box", 0, "", START, origin="log", values={"gpu_temperature_c": 6.0}))
    clock.advance(1)
    shot = tell(session, gpu(0, START + 1))
    assert len(shot.gpus.rows) == 1 and shot.gpus.rows[0].temperature_c == 66.0


# ---------------------------------------------------------------- hostile ones


def test_hostile_samples_break_nothing(session: Session, clock: ManualClock) -> None:
    nasty: list[Sample] = [
        GpuSample("\x1b[2Jbox\n" * 50, 10**30, "U\x00" * 500, math.nan),
        GpuSample("\x1b[2Jbox\n" * 50, 10**30, "U\x00" * 500, START, name="\x1b]0;x\x07y" * 100, sentence="z" * 10**5),
        gpu(0, START, values={"gpu_utilization": math.nan, "gpu_memory_mb": math.inf, "gpu_power_w": 1e300}),
        gpu(1, START, throttle=("x" * 1000,) * 100, processes=(GpuProcess(-1, command="\x1b[31m" * 1000),) * 1000),
        gpu(2, 1e300), gpu(3, -5.0), gpu(4, START, facts={f"k{i}": "v" * 1000 for i in range(1000)}),
        gpu(5, START, events=tuple(GpuEvent(i, math.inf if i % 2 else -1e300) for i in range(1000)), state="lost"),
        GpuSample("", None, "", START), DriverSample("", math.nan, "failing", "\x1b" * 1000),
    ]  # fmt: skip
    for _ in range(3):
        shot = tell(session, *nasty)
        clock.advance(1)
    for key in [row.key for row in (*shot.gpus.rows, *shot.gpus.everywhere)]:
        session.select_gpu(key)
        shot = session.pump()
        assert shot.gpu is not None and repr(shot.gpu).isprintable() and len(repr(shot.gpu)) < 100_000
        assert "\\x1b" not in repr(shot.gpu)
    assert not session.fault


def test_equal_pictures_stay_equal(session: Session, clock: ManualClock) -> None:
    tell(session, gpu(0, clock.now(), values=FULL | {"gpu_power_w": 381.2, "gpu_memory_mb": 68_000.0}))
    clock.advance(1)
    one = session.pump()
    two = tell(session, gpu(0, clock.now(), values=FULL | {"gpu_power_w": 380.8, "gpu_memory_mb": 68_010.0}))
    assert one.versions["gpus"] == two.versions["gpus"]
