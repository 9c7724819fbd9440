"""What GPUs show, told at one reading a second: idle, hanging, throttled, sick; and healthy ones stay quiet."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from trainmon.catalogue.xid import xid
from trainmon.diagnosis.thresholds import Thresholds
from trainmon.samples import DriverSample, GpuEvent, GpuProcess

NewBench = Callable[..., Any]
CARD, RESERVED, GIB = 81559.0, 559.0, 1024.0


def memory(used: float) -> dict[str, Any]:
    return {"gpu_memory_mb": used, "memory_free_mb": CARD - RESERVED - used}


# ---------------------------------------------------------------- near OOM


def climbing(t: float, gpu: int) -> dict[str, Any]:
    """GPU 3 climbs from 80 to 99 % in a minute, then stays."""
    return memory(min(0.80 * CARD + 0.19 * CARD * min(t, 60.0) / 60.0, CARD - RESERVED)) if gpu == 3 else {}


def test_memory_that_climbs_within_a_minute_is_critical_in_time(new_bench: NewBench) -> None:
    run = new_bench()
    run.play(61, climbing)
    assert run.began() == [("near_oom", "NEAR OOM", "worker-2 gpu3")]
    first = run.found[0]
    assert first.severity == "critical"
    assert first.detected - first.start < 40.0
    assert first.detected <= run.clock.now() - 20.0, "well before the card is full"
    assert " of 79.6 GiB (9" in first.measured and "per 100 steps" in first.measured
    assert first.outlook.startswith("full in ≈ ")
    assert first.gpu == 3 and first.rank == 3 and first.node == "worker-2"
    assert any("only this GPU" in text for text in first.advice)
    assert run.found[-1].measured == "78.9 of 79.6 GiB (99 %), 0.3 GiB free", "as the GPU's row and nvidia-smi say it"
    run.play(400, climbing)
    assert run.found[-1].resolution.startswith("no longer rises")
    assert len(run.began()) == 1


@pytest.mark.parametrize("share", [0.90, 0.975, 0.985])
def test_an_allocator_that_sits_there_since_the_start_is_quiet(new_bench: NewBench, share: float) -> None:
    run = new_bench()
    run.play(900, lambda t, gpu: memory(share * CARD - RESERVED + (t * 7 + gpu) % 5))
    assert run.found == []


def test_a_new_maximum_has_to_be_held_and_resolves_two_points_below(new_bench: NewBench) -> None:
    run = new_bench()
    run.play(600, lambda t, gpu: memory(0.85 * CARD))
    run.play(2, lambda t, gpu: memory(0.98 * CARD - RESERVED))
    run.play(60, lambda t, gpu: memory(0.85 * CARD))
    assert run.found == [], "two seconds are a peak"
    run.play(6, lambda t, gpu: memory(0.98 * CARD - RESERVED) if gpu == 1 else memory(0.85 * CARD))
    assert run.began() == [("near_oom", "NEAR OOM", "worker-2 gpu1")]
    assert run.found[0].severity == "warning" and run.found[0].measured.endswith("a new maximum")
    run.play(30, lambda t, gpu: memory(0.962 * CARD - RESERVED) if gpu == 1 else memory(0.85 * CARD))
    assert run.found[-1].end is None, "within two points"
    run.play(10, lambda t, gpu: memory(0.90 * CARD - RESERVED) if gpu == 1 else memory(0.85 * CARD))
    assert run.found[-1].end is not None and run.found[-1].resolution.startswith("back to ")


def test_the_start_of_a_process_fills_the_card_and_is_quiet(new_bench: NewBench) -> None:
    run = new_bench()
    run.play(60, lambda t, gpu: memory(4.0) | {"processes": (), "gpu_utilization": 0.0}, steps=None)

    def start(t: float, gpu: int) -> dict[str, Any]:
        return memory(min(0.97, (t - 60.0) / 120.0) * CARD - RESERVED if t > 62 else 500.0)

    run.play(200, start, steps=None)
    run.play(400, start)
    assert run.found == []

    def anew(t: float, gpu: int) -> dict[str, Any]:
        return start(t - 600.0, gpu) | {"processes": (GpuProcess(9000 + gpu),)}

    run.play(400, anew)
    assert run.found == [], "other processes: a restart"


def test_a_slow_leak_is_told_with_hours_to_go(new_bench: NewBench) -> None:
    run = new_bench(gpus=2)
    run.play(900)
    assert run.found == []
    run.play(1800, lambda t, gpu: memory(68.5 * GIB + (t - 900.0) * 2.0 + (t * 13) % 40) if gpu == 1 else {})
    assert run.began() == [("near_oom", "MEMORY RISES", "worker-2 gpu1")]
    assert dict(run.found[0].evidence)["slope_mb_per_min"] == pytest.approx(120.0, rel=0.15)


def test_engines_that_sleep_and_wake_are_quiet(new_bench: NewBench) -> None:
    """RL: memory swings between generation and training, each time over several seconds."""

    def swing(t: float, gpu: int) -> dict[str, Any]:
        phase = t % 240.0
        share = 0.45 + 0.48 * min(1.0, max(0.0, (phase - 100.0) / 25.0)) if phase < 220.0 else 0.45
        return memory(share * CARD)

    run = new_bench(gpus=2)
    run.play(60, lambda t, gpu: memory(0.2 * CARD), steps=None)
    run.play(3600, swing)
    assert run.found == []


def test_log_and_board_do_not_tell_of_the_same_memory_twice(new_bench: NewBench) -> None:
    run = new_bench()
    for i in range(700):
        used = 68.5 * GIB + (max(0, i - 300) * 30.0)
        values = {"step": run.now_step + 1, "gpu_memory_mb": used, "gpu_memory_total_mb": CARD}
        run.line("metrics", "worker-2", gpu=3, rank=3, values=values)
        run.play(1, lambda t, gpu, used=used: memory(min(used, CARD - RESERVED)) if gpu == 3 else {}, steps=1.0)
    assert len({i.key for i in run.found}) == 1
    assert len(run.began()) == 1
    run.fatal("CUDA_OOM", "worker-2", rank=3)
    assert run.found[-1].resolution.startswith("came true: CUDA_OOM")


def test_unified_memory_is_left_to_the_host_and_used_above_total_is_clamped(new_bench: NewBench) -> None:
    run = new_bench(gpus=1)
    run.play(60, lambda t, gpu: {"facts": {"memory": "unified with the host's"}} | memory(0.5 * CARD))
    run.play(60, lambda t, gpu: {"facts": {"memory": "unified with the host's"}} | memory(0.99 * CARD))
    assert run.found == []


# ---------------------------------------------------------------- idle


def collapse(t: float, gpu: int) -> dict[str, Any]:
    if 20 <= t < 32:
        return {"gpu_utilization": {1: 14.0, 2: 0.0}.get(gpu, 4.0), "gpu_power_w": 138.0, "throttle": ()}
    return {"gpu_utilization": 6.0} if t == 40 else {}


def test_a_collapse_of_utilisation_is_one_incident_of_the_node_and_a_lone_dip_is_none(new_bench: NewBench) -> None:
    run = new_bench()
    run.play(24, collapse)
    assert run.found == [], "four readings"
    run.play(8, collapse)
    assert {i.key for i in run.found} == {"gpu_underutil:worker-2"}
    assert run.found[-1].who == "worker-2, 8 GPUs"
    assert run.found[-1].severity == "warning"
    assert run.found[-1].measured.startswith("0–14 % busy")
    run.play(60, collapse)
    assert len(run.began()) == 1
    assert run.found[-1].end is not None and run.found[-1].resolution == "busy again, 97 %"


def test_readings_each_five_seconds_need_five_of_them_too(new_bench: NewBench) -> None:
    run = new_bench(gpus=1)

    def rare(t: float, gpu: int) -> dict[str, Any]:
        return {"absent": t % 5 != 0, "gpu_utilization": 3.0 if t >= 100 else 97.0}

    run.play(120, rare)
    assert run.found == []
    run.play(2, rare)
    assert [i.kind for i in run.found] == ["gpu_underutil"]


@pytest.mark.parametrize("event", ["eval_start", "checkpoint"])
def test_announced_pauses_are_quiet(new_bench: NewBench, event: str) -> None:
    run = new_bench()
    run.play(60)
    run.event(event)
    run.play(90, lambda t, gpu: {"gpu_utilization": 0.0}, steps=None)
    run.play(30)
    assert run.found == []


def test_a_pause_that_has_been_made_before_is_quiet_and_so_is_the_end(new_bench: NewBench) -> None:
    run = new_bench()
    run.play(60)
    for _ in range(4):
        run.play(40, lambda t, gpu: {"gpu_utilization": 0.0}, steps=None)
        run.play(60)
    assert len(run.began()) == 1, "the first one is news"
    run.event("finished")
    run.play(60, lambda t, gpu: {"gpu_utilization": 0.0}, steps=None)
    assert len(run.began()) == 1


def test_before_the_first_steps_without_a_process_and_when_stopped_idle_gpus_are_normal(new_bench: NewBench) -> None:
    run = new_bench()
    run.line("log", "worker-2", level="INFO", message="loading")
    run.play(120, lambda t, gpu: {"gpu_utilization": 0.0}, steps=None)
    assert run.found == []
    run = new_bench()
    run.play(60)
    run.play(60, lambda t, gpu: {"gpu_utilization": 0.0, "processes": ()} | memory(4.0))
    run.play(60, lambda t, gpu: {"gpu_utilization": 0.0} | memory(4.0))
    assert run.found == []
    run.play(60, lambda t, gpu: {"processes": ()})
    run.play(10, lambda t, gpu: {"gpu_utilization": 0.0, "processes": ()})
    assert run.began() == [("gpu_underutil", "GPU IDLES", "worker-2 gpu0")], "a container that hides its processes"
    run = new_bench()
    run.play(60)
    run.line("log", "worker-2", level="WARN", message="received SIGTERM, exiting")
    run.play(200, lambda t, gpu: {"gpu_utilization": 0.0}, steps=None)
    assert run.found == []


def test_a_run_that_has_idled_ever_since_is_told_of_once(new_bench: NewBench) -> None:
    run = new_bench(gpus=1)
    run.play(600, lambda t, gpu: {"gpu_utilization": 12.0, "gpu_power_w": 150.0})
    assert run.began() == [("gpu_underutil", "GPU IDLES", "worker-2 gpu0")]
    assert run.found[0].measured == "12 % busy since we look"
    assert run.found[0].outlook == "steps go on"


# ---------------------------------------------------------------- hang


def spinning(t: float, gpu: int) -> dict[str, Any]:
    return {"gpu_utilization": 100.0, "gpu_power_w": 220.0}


def test_busy_gpus_without_work_and_without_steps_are_a_hang_long_before_the_stall(new_bench: NewBench) -> None:
    run = new_bench()
    run.play(120)
    run.play(34, spinning, steps=None)
    assert run.began() == [("hang", "HANG", "run")]
    first = run.found[0]
    assert first.severity == "warning" and run.state != "stalled"
    assert first.measured.startswith("all 8 GPUs busy at 220 of 700 W; no step and no line for 30 s")
    run.play(80, spinning, steps=None)
    assert run.found[-1].severity == "critical" and run.state == "stalled"
    run.play(900, spinning, steps=None)
    assert len(run.began()) == 1, "the stall is the same incident"
    run.play(3)
    assert run.found[-1].end is not None and run.state == "running"


def test_the_only_gpu_that_idles_while_the_others_wait_is_named(new_bench: NewBench) -> None:
    run = new_bench()
    run.play(120)
    run.play(120, lambda t, gpu: {"gpu_utilization": 0.0, "gpu_power_w": 90.0} if gpu == 3 else spinning(t, gpu),
             steps=None)  # fmt: skip
    hang = next(i for i in reversed(run.found) if i.kind == "hang")
    assert (hang.who, hang.node, hang.severity) == ("worker-2 gpu3", "worker-2", "critical")
    idle = [i for i in run.found if i.kind == "gpu_underutil"]
    assert idle[-1].end is not None and ("superseded", "stall") in idle[-1].evidence


def test_a_stall_without_power_figures_takes_its_usual_time(new_bench: NewBench) -> None:
    run = new_bench()
    run.play(120)
    run.play(500, lambda t, gpu: {"gpu_utilization": 100.0, "gpu_power_w": None}, steps=None)
    assert run.found == []
    run.play(200, lambda t, gpu: {"gpu_utilization": 100.0, "gpu_power_w": None}, steps=None)
    assert run.began() == [("stall", "STALLED", "run")]


def test_jobs_that_draw_little_power_do_not_hang_while_steps_come(new_bench: NewBench) -> None:
    run = new_bench()
    run.play(900, lambda t, gpu: {"gpu_utilization": 96.0, "gpu_power_w": 190.0}, steps=20.0)
    assert run.found == []
    run = new_bench()
    run.play(1500, lambda t, gpu: {"gpu_utilization": 96.0, "gpu_power_w": 190.0}, steps=None)
    assert run.found == [], "nor where nothing tells of steps"


def test_without_steps_gpus_that_worked_and_spin_are_a_warning_after_two_minutes(new_bench: NewBench) -> None:
    run = new_bench()
    run.play(120, steps=None)
    run.play(110, spinning, steps=None)
    assert run.found == []
    run.play(20, spinning, steps=None)
    assert run.began() == [("hang", "BUSY, NO WORK", "worker-2, 8 GPUs")]
    assert run.found[0].severity == "warning"
    run.play(10, steps=None)
    assert run.found[-1].end is not None


def test_hang_can_be_switched_off(new_bench: NewBench) -> None:
    run = new_bench(Thresholds(gpu_hang_after_s=None, stall_after_s=None))
    run.play(120)
    run.play(300, spinning, steps=None)
    assert run.found == []


# ---------------------------------------------------------------- throttling


def hot(t: float, gpu: int) -> dict[str, Any]:
    if gpu != 6:
        return {"gpu_power_w": 480.0, "gpu_utilization": 99.0, "gpu_temperature_c": 58.0} if t >= 30 else {}
    what: dict[str, Any] = {"gpu_temperature_c": 66.0 + 23.0 * min(t, 30.0) / 30.0}
    if t >= 30:
        reasons = ("hardware slowdown", "thermal (software)", "thermal (hardware)")
        return what | {"throttle": reasons, "sm_clock_mhz": 990.0, "gpu_power_w": 410.0, "gpu_utilization": 99.0}
    return what | {"throttle": ("thermal (software)",), "sm_clock_mhz": 1410.0} if t >= 20 else what


def test_heat_that_costs_clock_names_the_gpu_and_resolves(new_bench: NewBench) -> None:
    run = new_bench()
    run.play(90, hot)
    assert run.began() == [("thermal_throttle", "THERMAL THROTTLE", "worker-2 gpu6")]
    first = run.found[0]
    assert first.measured == "88 °C, SM clock 1,410 of 1,755 MHz: thermal slowdown"
    assert first.outlook == "−20 % against the others: all wait for it; the board slows down from 87 °C on"
    assert dict(first.evidence)["held_s"] >= 10.0
    told = [i.measured for i in run.found]
    assert told[-1] == "89 °C, SM clock 990 of 1,755 MHz: thermal slowdown" and len(told) <= 4, "it follows, seldom"
    assert run.found[-1].outlook.startswith("−44 % against the others")
    run.play(60)
    assert run.found[-1].end is not None and run.found[-1].resolution == "66 °C, SM clock 1,755 MHz"


def test_a_straggler_is_told_with_its_reason(new_bench: NewBench) -> None:
    run = new_bench(gpus=2)
    nodes = tuple(f"worker-{i}" for i in range(4))
    rng = random.Random(5)

    def steps(slow: float, count: int) -> None:
        for _ in range(count):
            run.now_step += 1
            own = {n: 2.65 * (slow if n == "worker-3" else 1.0) * (1 + rng.gauss(0, 0.01)) for n in nodes}
            wall = max(own.values()) + 0.4
            for node in nodes:
                run.step(run.now_step, node, step_time_s=wall, comm_time_s=wall - own[node])
            for node in nodes:
                run.t += 1
                for gpu in range(2):
                    bad = slow > 1.0 and node == "worker-3" and gpu == 1
                    what = {"throttle": ("thermal (software)",), "sm_clock_mhz": 1230.0, "gpu_temperature_c": 87.0}
                    run.sample(run.board(gpu, node, **(what if bad else {})))
            run.wait(3.0)

    steps(1.0, 60)
    assert run.found == []
    steps(1.2, 20)
    found = next(i for i in run.found if i.kind == "straggler")
    assert found.who == "worker-3"
    assert found.measured.endswith("; gpu1 at 87 °C, SM clock 1,230 of 1,755 MHz: thermal slowdown")
    assert found.advice[0] == "check the fans and inlet of worker-3, or drain it"


def test_power_cap_and_idleness_are_normal_but_a_lowered_limit_is_not(new_bench: NewBench) -> None:
    run = new_bench()
    run.play(300, lambda t, gpu: {"throttle": ("power cap",), "sm_clock_mhz": 1300.0 + 150.0 * (gpu % 2)})
    run.play(60, lambda t, gpu: {"throttle": ("idle",), "sm_clock_mhz": 345.0, "processes": ()} | memory(4.0))
    assert run.found == []
    run.play(60)

    def capped(t: float, gpu: int) -> dict[str, Any]:
        return {"power_limit_w": 450.0, "gpu_power_w": 448.0, "sm_clock_mhz": 1290.0} if gpu == 2 else {}

    run.play(60, capped)
    assert run.began() == [("thermal_throttle", "POWER LIMITED", "worker-2 gpu2")]
    assert run.found[0].measured.startswith("power limit 450 W instead of 700 W, SM clock ")
    run.play(60)
    assert run.found[-1].end is not None


def test_heat_for_a_moment_or_without_a_loss_of_clock_is_quiet(new_bench: NewBench) -> None:
    run = new_bench()
    run.play(300, lambda t, gpu: {"throttle": ("thermal (software)",) if t % 30 < 6 else ()} | {"sm_clock_mhz": 1500.0})
    run.play(120, lambda t, gpu: {"throttle": ("thermal (software)",), "sm_clock_mhz": 1700.0 if gpu else 1650.0})
    assert run.found == []


def test_a_lone_gpu_is_compared_with_itself(new_bench: NewBench) -> None:
    run = new_bench(gpus=1)
    run.play(120)
    run.play(30, lambda t, gpu: {"throttle": ("hardware slowdown", "power brake"), "sm_clock_mhz": 1100.0})
    assert run.began() == [("thermal_throttle", "POWER BRAKE", "worker-2 gpu0")]
    assert run.found[0].outlook == "−37 % against before"


# ---------------------------------------------------------------- faults


def test_a_lost_gpu_with_xid_79_is_one_critical_incident_and_the_run_is_not_failed_by_it(new_bench: NewBench) -> None:
    run = new_bench()

    def lost(t: float, gpu: int) -> dict[str, Any]:
        if gpu == 5 and t >= 12:
            events = (GpuEvent(79, run.clock.now()),) if t == 12 else ()
            return {"state": "lost", "events": events}
        return spinning(t, gpu) if t >= 12 else {}

    run.play(12, lost)
    run.play(28, lost, steps=None)
    faults = [i for i in run.found if i.kind == "gpu_fault"]
    assert {i.key for i in faults} == {"gpu_fault:worker-2:gpu5"}
    assert (faults[-1].title, faults[-1].severity, faults[-1].who) == ("GPU LOST", "critical", "worker-2 gpu5")
    assert faults[-1].measured == "Xid 79: the GPU has fallen off the bus; it no longer answers"
    assert "power-cycle" in faults[-1].advice[0] and "worker-2" in faults[-1].advice[0]
    assert run.state != "failed"
    run.play(5)
    assert run.found[-1].end is not None, "it is back"


def test_xids_by_what_nvidia_says_to_do(new_bench: NewBench) -> None:
    run = new_bench()

    def sick(t: float, gpu: int) -> dict[str, Any]:
        now = run.clock.now()
        if gpu == 2 and t >= 64:
            return {"remap_pending": 1.0} | ({"events": (GpuEvent(63, now),)} if t == 64 else {})
        if gpu == 4 and t >= 68:
            return {"ecc_uncorrected": 1.0, "recovery_action": 4.0} | (
                {"events": (GpuEvent(94, now),)} if t == 68 else {}
            )
        return {"events": (GpuEvent(13, now), GpuEvent(45, now), GpuEvent(38, now))} if gpu == 0 and t == 72 else {}

    run.play(80, sick)
    assert run.began() == [
        ("gpu_fault", "XID 63", "worker-2 gpu2"),
        ("gpu_fault", "XID 94", "worker-2 gpu4"),
        ("gpu_fault", "XID 13", "worker-2 gpu0"),
    ]
    by = {i.gpu: i for i in run.found}
    assert [by[g].severity for g in (2, 4, 0)] == ["warning", "critical", "warning"]
    assert by[4].measured == (
        "Xid 94: a memory error that hit this program only; 1 uncorrected memory error; "
        "the driver asks to drain and reset it"
    )
    assert "program's own fault" in by[0].advice[0]
    assert "Xid 38" not in by[0].measured, "NVIDIA says to ignore it"
    run.play(1000, sick)
    assert all(i.end is not None for i in {i.key: i for i in run.found}.values())
    assert len(run.began()) == 3


def test_an_echo_alone_and_what_is_to_be_ignored_are_quiet(new_bench: NewBench) -> None:
    run = new_bench()
    codes = iter((43, 45, 137, 37, 66, 121, 154))
    run.play(7, lambda t, gpu: {"events": (GpuEvent(next(codes), run.clock.now()),)} if gpu == 1 else {})
    assert run.found == []
    assert xid(79).action == "reboot" and xid(31).own and xid(4711).action == "contact support"


def test_counters_that_were_high_at_the_start_are_no_news_and_pending_is_said_once(new_bench: NewBench) -> None:
    run = new_bench()
    run.play(400, lambda t, gpu: {"ecc_uncorrected": 17.0, "nvlink_errors": 5000.0} if t % 60 == 0 else {})
    assert run.found == []
    run.play(1500, lambda t, gpu: {"ecc_uncorrected": 17.0} | ({"remap_pending": 1.0} if gpu == 1 else {}))
    assert run.began() == [("gpu_fault", "RESET PENDING", "worker-2 gpu1")]
    assert run.found[-1].end is not None
    run.play(120, lambda t, gpu: {"ecc_uncorrected": 19.0 if gpu == 7 else 17.0})
    assert run.found[-1].title == "ECC ERROR" and run.found[-1].measured == "2 uncorrected memory errors"


def test_links_fabric_and_pcie(new_bench: NewBench) -> None:
    run = new_bench(gpus=4)

    def links(t: float, gpu: int) -> dict[str, Any]:
        if t % 60:
            return {}
        return {2: {"fabric_ok": 0.0}, 3: {"nvlinks_up": 15.0, "nvlink_errors": 812.0}}.get(gpu, {})

    run.play(200, links)
    assert sorted(run.began()) == [
        ("gpu_fault", "FABRIC DOWN", "worker-2 gpu2"),
        ("gpu_fault", "NVLINK DOWN", "worker-2 gpu3"),
    ]
    assert "3 of 18 NVLinks down" in [i.measured for i in run.found]
    run.play(130)
    assert all(i.end is not None for i in {i.key: i for i in run.found}.values())
    run = new_bench()
    run.play(130)
    run.play(130, lambda t, gpu: {"pcie_width": 8.0} if gpu == 4 and t % 60 == 0 else {})
    assert run.began() == [("gpu_fault", "PCIE DEGRADED", "worker-2 gpu4")]
    assert run.found[0].measured == "gen5 x8 under load instead of gen5 x16"
    run = new_bench()
    run.play(300, lambda t, gpu: {"pcie_width": 8.0, "nvlinks_up": 0.0} if t % 60 == 0 else {})
    assert run.found == [], "built so"


def test_a_driver_that_gives_no_answer_is_told_for_machines_at_work(new_bench: NewBench) -> None:
    run = new_bench()
    run.play(60)
    run.sample(DriverSample("worker-2", run.clock.now(), "not responding", "NVML does not answer"))
    run.wait(8.0)
    assert run.found == []
    run.wait(300.0)
    assert run.began() == [("gpu_fault", "NVML HANGS", "worker-2")]
    run.sample(DriverSample("worker-2", run.clock.now() + 1.0, "ok"))
    assert run.found[-1].end is not None
    run.sample(DriverSample("worker-2", run.clock.now() + 2.0, "no access"))
    assert run.found[-1].title == "GPUS CUT OFF"


# ---------------------------------------------------------------- quiet, foreign, stale


@pytest.mark.parametrize("gpus", [8, 16])
def test_healthy_gpus_are_quiet_for_an_hour(new_bench: NewBench, gpus: int) -> None:
    rng = random.Random(gpus)

    def noise(t: float, gpu: int) -> dict[str, Any]:
        return {
            "gpu_utilization": 97.0 + rng.uniform(-2, 2),
            "gpu_power_w": 642.0 + rng.uniform(-22, 22),
            "gpu_temperature_c": 66.0 + rng.uniform(-1, 1),
            "sm_clock_mhz": 1755.0 + rng.uniform(-60, 60),
        }

    run = new_bench(gpus=gpus)
    run.play(3600 if gpus == 8 else 900, noise)
    assert run.found == []


def test_sudden_noise_in_every_figure_does_not_ring(new_bench: NewBench) -> None:
    """Utilisation of a data-bound run swings without rhythm; nothing of it is held."""
    rng = random.Random(11)
    run = new_bench(gpus=2)
    run.play(1800, lambda t, gpu: {"gpu_utilization": rng.choice((5.0, 60.0, 90.0, 99.0)),
                                   "gpu_power_w": rng.uniform(150, 690),
                                   "sm_clock_mhz": rng.uniform(1200, 1980)})  # fmt: skip
    assert [i for i in run.found if i.severity == "critical"] == []
    assert len(run.began()) <= 1


def test_gpus_of_others_raise_no_alarm_and_what_was_told_goes_without_a_word(new_bench: NewBench) -> None:
    run = new_bench(gpus=1)
    run.play(60)
    run.play(8, lambda t, gpu: {"state": "lost"})
    assert run.found[-1].title == "GPU LOST"
    run.sample(run.board(0, state="lost"), foreign=1)
    assert run.found[-1].end is not None and ("superseded", "not of this run") in run.found[-1].evidence
    told = len(run.found)
    run.sample(run.board(0, state="lost"), foreign=1)
    assert len(run.found) == told


def test_this_machine_is_none_of_the_runs_nodes_and_raises_no_alarm(new_bench: NewBench) -> None:
    run = new_bench(node="laptop", gpus=1)
    for _ in range(30):
        run.play(1, nodes=("worker-1", "worker-2"))
    for _ in range(30):
        run.wait(1.0)
        run.sample(run.board(0, "laptop", state="lost"))
    assert run.found == []


def test_figures_that_stop_end_the_incident_instead_of_leaving_it(new_bench: NewBench) -> None:
    run = new_bench()
    run.play(60, hot)
    assert run.began()
    run.wait(130.0)
    assert run.found[-1].resolution == "not known any more: its figures have stopped"


def test_late_doubled_and_future_readings_change_nothing(new_bench: NewBench) -> None:
    run = new_bench(gpus=1)
    run.play(60)
    low = run.board(0, gpu_utilization=1.0)
    for _ in range(20):
        run.sample(low)
    assert run.found == [], "one reading, twenty times"
    run.clock.advance(-3600.0)
    run.play(120)
    assert run.found == []


def test_history_is_judged_by_its_own_time(new_bench: NewBench) -> None:
    run = new_bench(gpus=1)
    begin = run.clock.now() - 4000.0
    for i in range(400):
        run.step(i + 1, "worker-2", live=False, time=begin + i)
        what = {"gpu_utilization": 2.0} if 200 <= i < 230 else {}
        sample = run.board(0, **what)
        object.__setattr__(sample, "time", begin + i)
        run.sample(sample, live=False)
    assert [i.kind for i in run.past][:1] == ["gpu_underutil"]
    assert run.past[0].detected == pytest.approx(begin + 204.0, abs=2.0)
    assert run.past[-1].end is not None


def test_each_rule_can_be_switched_off(new_bench: NewBench) -> None:
    off = Thresholds(
        memory_fraction=None, memory_full_within_s=None, gpu_idle_percent=None, gpu_hang_after_s=None,
        gpu_spin_power=None, throttle_clock_ratio=None, gpu_fault=None, gpu_links=None, stall_after_s=None,
    )  # fmt: skip

    def bad(t: float, gpu: int) -> dict[str, Any]:
        return climbing(t, gpu) | collapse(t, gpu) | hot(t, gpu) | {"fabric_ok": 0.0, "events": (GpuEvent(79, t),)}

    run = new_bench(off)
    run.play(120, bad)
    run.play(120, spinning, steps=None)
    assert run.found == []


def test_gpus_that_never_come_again_make_room_everywhere(new_bench: NewBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainmon.diagnosis.fleet.MOST_GPUS", 16)
    run = new_bench(gpus=1)
    for turn in range(200):
        run.wait(1.0)
        run.step(turn + 1, "worker-2")
        sample = run.board(0, rare=True, gpu_utilization=1.0, throttle=("thermal (software)",))
        object.__setattr__(sample, "uuid", f"GPU-{turn}")
        run.sample(sample)
    fleet = run.watch.pulse.fleet
    assert sum(1 for _ in fleet) == 16 and len(fleet.of("worker-2")) == 16 and fleet.dropped == []
    for detector in (*run.watch._watches, run.watch._memory._boards):
        for name, book in vars(detector).items():
            if isinstance(book, (dict, set)):
                assert len(book) <= 16 * 8, (type(detector).__name__, name)


def test_a_machine_that_is_recognised_as_a_node_goes_on_under_its_name(new_bench: NewBench) -> None:
    run = new_bench(gpus=1, node="box")
    run.play(30, lambda t, gpu: {"state": "lost"} if t >= 10 else {}, steps=None)
    assert run.found[-1].who == "box gpu0"
    for _ in range(5):
        run.wait(1.0)
        run.sample(run.board(0, "box", state="lost"), node="train")
    assert [i.end is not None for i in run.found if i.node == "box"][-1]
    assert run.found[-1].who == "train gpu0" and run.found[-1].end is None


def test_a_gpu_that_two_machines_tell_of_keeps_its_alarm(new_bench: NewBench) -> None:
    """This machine, none of the run's, and an agent in a container on it that has the node's name."""
    run = new_bench(gpus=2)
    for t in range(90):
        run.wait(1.0)
        run.now_step += 1
        run.step(run.now_step, "worker-2")
        for gpu in range(2):
            sample = run.board(gpu, **(hot(t, 6) if gpu else {}))
            run.sample(sample)
            run.sample(replace(sample, node="box"), node="box", foreign=1)
    assert run.began() == [("thermal_throttle", "THERMAL THROTTLE", "worker-2 gpu1")]
    assert all(i.end is None for i in run.found)


def test_a_gpu_that_hangs_is_no_reason_to_pull_the_plug_of_a_job_that_goes_on(new_bench: NewBench) -> None:
    run = new_bench(gpus=2)
    run.play(30, lambda t, gpu: {"state": "not responding"} if gpu and t >= 10 else {})
    assert run.began() == [("gpu_fault", "GPU HANGS", "worker-2 gpu1")]
    assert run.found[-1].advice[0].startswith("the job goes on: leave it; ") and "GPU 1" in run.found[-1].advice[0]


def test_a_collapse_without_any_log_is_told_of_too(new_bench: NewBench) -> None:
    run = new_bench()
    run.play(60, collapse, steps=None)
    assert {i.key for i in run.found} == {"gpu_underutil:worker-2"}
    assert run.found[-1].end is not None and run.state == "waiting"
