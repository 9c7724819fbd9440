"""What machines show of themselves: memory, processors, disks, file systems, links; and what is usual stays quiet."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from trainmon.diagnosis.thresholds import Thresholds
from trainmon.samples import DiskSample, HostSample, LinkSample, VolumeSample

NewBench = Callable[..., Any]
GIB = 1024.0


def disk(**what: Any) -> tuple[DiskSample, ...]:
    usual = {"util_percent": 30.0, "read_mb_s": 100.0, "read_await_ms": 1.0, "write_await_ms": 1.0, "queue": 0.5}
    return (DiskSample("nvme0n1", **{**usual, **what}),)


def volume(used: float | None, **what: Any) -> tuple[VolumeSample, ...]:
    return (VolumeSample("/data", "logs", "nfs4", used, None if used is None else 1000 * GIB, **what),)


def link(**what: Any) -> tuple[LinkSample, ...]:
    usual = {"kind": "infiniband", "state": "active", "rate_mb_s": 50_000.0, "rx_mb_s": 1000.0, "tx_mb_s": 900.0}
    return (LinkSample("mlx5_0", **{**usual, **what}),)


def last(run: Any, key: str) -> Any:
    return next(i for i in reversed(run.found) if i.key == key)


# ---------------------------------------------------------------- memory


def test_memory_of_a_container_nearly_full_and_back(new_bench: NewBench) -> None:
    run = new_bench()
    what = {"memory_total_mb": 100 * GIB, "memory_used_mb": 96 * GIB, "memory_available_mb": 4 * GIB}
    run.host(8, scope="container", **what)
    assert run.found == [], "ten seconds"
    run.host(10, scope="container", **what)
    assert run.began() == [("memory_high", "HOST MEMORY", "worker-2")]
    first = run.found[0]
    assert first.measured == "96.0 of 100.0 GiB (96 %)"
    assert "the container" in first.outlook and first.severity == "warning"
    run.host(20, scope="container", **{**what, "memory_available_mb": 7 * GIB})
    assert run.found[-1].end is None, "within three points"
    run.host(20, scope="container", **{**what, "memory_available_mb": 40 * GIB})
    assert run.found[-1].resolution == "back to 60.0 of 100.0 GiB (60 %)"


def test_memory_that_fills_is_told_with_the_time_left(new_bench: NewBench) -> None:
    run = new_bench()
    run.host(200)
    run.host(560, memory_available_mb=lambda t: max(20 * GIB, 600 * GIB - (t - 200.0) * GIB))
    assert len(run.began()) == 1
    first = run.found[0]
    left = dict(first.evidence)["full_in_s"]
    assert left == pytest.approx((1000 * GIB - dict(first.evidence)["used_mb"]) / GIB, rel=0.15)
    assert left <= 600.0
    assert last(run, "memory_high:worker-2").severity == "critical"


def test_a_data_set_that_is_read_into_memory_and_a_sawtooth_are_quiet(new_bench: NewBench) -> None:
    run = new_bench()
    run.host(120, memory_available_mb=lambda t: 900 * GIB - t * 3 * GIB)
    run.host(600, memory_available_mb=540 * GIB)
    assert run.found == []
    run.host(3600, memory_available_mb=lambda t: (300.0 - (t % 240.0)) * GIB)
    assert len(run.began()) <= 1, "a tooth as high as one before is no news"


def test_processes_killed_for_memory_are_critical_and_old_ones_no_news(new_bench: NewBench) -> None:
    run = new_bench()
    run.host(60, oom_kills=7.0)
    assert run.found == []
    run.host(10, oom_kills=8.0)
    run.host(10, oom_kills=10.0)
    assert run.began() == [("host_oom", "KILLED FOR MEMORY", "worker-2")]
    assert run.found[0].severity == "critical"
    assert run.found[-1].measured == "the kernel killed 3 processes on this machine"
    run.host(700, oom_kills=10.0)
    assert run.found[-1].end is not None


def test_shared_memory_pressure_and_open_files(new_bench: NewBench) -> None:
    run = new_bench()
    run.host(12, shm_total_mb=64.0, shm_used_mb=55.0)
    assert run.found[0].measured == "/dev/shm 55 of 64 MiB, Docker's default (86 %)"
    run.host(60, memory_pressure_percent=70.0)
    run.host(60, open_files=62_000.0)
    assert [title for _, title, _ in run.began()] == ["SHM FILLS", "MEMORY PRESSURE", "OPEN FILES"]
    run.host(60)
    assert all(i.end is not None for i in {i.key: i for i in run.found}.values())


# ---------------------------------------------------------------- processors


def test_processors_three_times_above_80_is_a_warning_and_two_are_none(new_bench: NewBench) -> None:
    run = new_bench()
    run.host(60)
    run.host(4, cpu_percent=85.0)
    run.host(60)
    assert run.found == []
    run.host(8, cpu_percent=85.0)
    assert run.began() == [("cpu_saturated", "CPU BUSY", "worker-2")]
    assert run.found[0].measured == "85 % of 64 processors busy"
    assert run.found[0].severity == "warning"
    run.host(30)
    assert run.found[-1].end is not None


def test_a_node_that_is_always_busy_is_told_of_once_and_again_only_when_it_costs(new_bench: NewBench) -> None:
    run = new_bench()
    run.host(3600, cpu_percent=lambda t: 86.0 + t % 3)
    assert len(run.began()) == 1
    assert run.found[-1].resolution == "as usual on this machine: steps keep their pace"
    run.host(120)
    run.host(600, cpu_percent=86.0)
    assert len(run.began()) == 1, "usual"
    run.host(60, cpu_percent=98.0)
    assert len(run.began()) == 2, "clearly more"


def test_ninety_percent_for_a_minute_is_critical_only_when_it_costs(new_bench: NewBench) -> None:
    run = new_bench()
    run.host(60)
    run.host(120, cpu_percent=97.0)
    assert {i.severity for i in run.found} == {"warning"}
    for _ in range(30):
        run.wait(2.0)
        run.now_step += 1
        run.step(run.now_step, "worker-2", step_time_s=2.0, data_time_s=0.9)
        run.sample(HostSample("worker-2", run.clock.now(), values={"cpu_percent": 97.0, "cpus": 64.0}))
    worst = last(run, "cpu_saturated:worker-2")
    assert worst.severity == "critical"
    assert worst.outlook == "steps wait 45 % of their time for data"


def test_a_quota_that_holds_back_says_more_than_the_percentage(new_bench: NewBench) -> None:
    run = new_bench()
    run.host(60)
    run.host(120, cpu_percent=99.0, cpus=8.0, cpu_throttled_percent=55.0, scope="container")
    quota = last(run, "cpu_saturated:worker-2:quota")
    assert quota.measured == "the container's quota of 8 processors holds it back 55 % of the time"
    assert ("superseded", "the quota holds it back") in last(run, "cpu_saturated:worker-2").evidence
    run.host(60, cpu_throttled_percent=2.0)
    assert last(run, "cpu_saturated:worker-2:quota").resolution == "held back 2 % of the time"
    run.host(60, cpu_throttled_percent=55.0)
    run.host(150)
    assert last(run, "cpu_saturated:worker-2:quota").resolution.startswith("not known any more")


def test_start_up_and_pauses_may_use_all_processors(new_bench: NewBench) -> None:
    run = new_bench()
    run.line("log", "worker-2", level="INFO", message="tokenising")
    run.host(300, cpu_percent=99.0, steps=None)
    assert run.found == []
    run.host(60)
    run.event("checkpoint")
    run.host(120, cpu_percent=99.0, steps=None)
    assert run.found == []


# ---------------------------------------------------------------- disks and file systems


def test_a_disk_is_saturated_by_its_queue_not_by_its_percentage(new_bench: NewBench) -> None:
    run = new_bench()
    run.host(300, disks=disk(util_percent=100.0, queue=1.2))
    run.host(60, disks=disk(util_percent=100.0, queue=40.0))
    assert run.found == []
    run.host(10, disks=disk(util_percent=99.0, queue=30.0, read_await_ms=80.0))
    assert run.began() == [("disk_saturated", "DISK SATURATED", "worker-2")]
    assert run.found[0].measured == "nvme0n1 99 % busy, 30 requests wait 80 ms, reads 100 MB/s"
    run.host(30, disks=disk())
    assert run.found[-1].end is not None


def test_a_file_system_nearly_full_filling_and_stairs(new_bench: NewBench) -> None:
    run = new_bench()
    run.host(3600, volumes=lambda t: volume((500.0 + 60.0 * (t // 600)) * GIB))
    assert run.found == [], "checkpoints come in stairs"
    run = new_bench()
    run.host(600, volumes=lambda t: volume((700.0 + 0.1 * t) * GIB))
    assert run.began() == [("storage_fault", "DISK FILLS", "worker-2")]
    assert run.found[0].outlook.startswith("full in ≈ 4")
    run.host(1200, volumes=lambda t: volume(min(999.0, 850.0 + 0.3 * (t - 600)) * GIB))
    assert (run.found[-1].title, run.found[-1].severity) == ("DISK FULL", "critical")
    run.host(60, volumes=volume(400 * GIB))
    assert run.found[-1].resolution == "600.0 GiB free"


def test_a_mount_that_hangs_is_critical_until_it_answers(new_bench: NewBench) -> None:
    run = new_bench()
    run.host(30, volumes=volume(500 * GIB))
    run.host(4, volumes=volume(None, hangs=True))
    assert run.found == []
    run.host(10, volumes=volume(None, hangs=True))
    assert run.began() == [("storage_fault", "MOUNT HANGS", "worker-2")]
    assert run.found[0].measured == "/data (logs), nfs4 does not answer"
    run.host(4, volumes=volume(500 * GIB))
    assert run.found[-1].resolution == "it answers again"


# ---------------------------------------------------------------- links


def test_a_link_at_its_rate_is_told_of_and_usual_after_ten_minutes(new_bench: NewBench) -> None:
    run = new_bench()
    run.host(60, links=link())
    run.host(10, links=link(rx_mb_s=45_000.0))
    assert run.found[0].measured == "mlx5_0 45.0 of 50.0 GB/s (90 %) in"
    run.host(30, links=link())
    run.host(1800, links=link(tx_mb_s=44_000.0))
    run.host(60, links=link())
    run.host(300, links=link(tx_mb_s=44_000.0))
    assert len(run.began()) == 2
    run.host(60, links=link(rate_mb_s=None, rx_mb_s=1e9))
    run.host(60, links=link(rx_mb_s=1e9))
    assert len(run.began()) == 2, "no rate, or more than it can carry"


def test_links_that_go_down_flap_or_count_errors(new_bench: NewBench) -> None:
    run = new_bench()
    run.host(60, links=link(state="down", downs=4))
    assert run.found == [], "it was down before we looked"
    run.host(60, links=link(downs=4))
    run.host(10, links=link(state="down", downs=5))
    assert run.began() == [("network_fault", "LINK DOWN", "worker-2")]
    assert run.found[0].severity == "critical"
    run.host(10, links=link(downs=5))
    assert last(run, "network_fault:worker-2:mlx5_0").end is not None
    run = new_bench()
    run.host(120, links=lambda t: link(errors=int(t % 20 == 0)))
    assert run.found == []
    run.host(240, links=link(errors=40))
    assert run.began() == [("network_fault", "LINK ERRORS", "worker-2")]
    run.host(700, links=link())
    assert run.found[-1].end is not None
    run.host(10, links=link(downs=1))
    assert run.began()[-1][1] == "LINK FLAPS"


# ---------------------------------------------------------------- quiet


def test_a_healthy_machine_is_quiet_for_hours(new_bench: NewBench) -> None:
    rng = random.Random(2)
    run = new_bench()
    run.host(
        7200,
        cpu_percent=lambda t: 45.0 + rng.gauss(0, 12),
        memory_available_mb=lambda t: (600.0 + rng.gauss(0, 8)) * GIB,
        memory_pressure_percent=lambda t: max(0.0, rng.gauss(0, 3)),
        disks=lambda t: disk(util_percent=min(100.0, abs(rng.gauss(40, 30))), queue=abs(rng.gauss(1, 1))),
        links=lambda t: link(rx_mb_s=abs(rng.gauss(12_000, 6_000))),
        volumes=lambda t: volume((600.0 + 0.001 * t) * GIB),
    )
    assert run.found == []


def test_a_machine_that_only_watches_tells_of_its_file_systems_alone(new_bench: NewBench) -> None:
    run = new_bench(node="laptop")
    for _ in range(30):
        run.play(1, nodes=("worker-1", "worker-2"))
    for _ in range(60):
        run.wait(2.0)
        values = {"cpu_percent": 99.0, "memory_total_mb": 8 * GIB, "memory_available_mb": 0.1 * GIB}
        run.sample(HostSample("laptop", run.clock.now(), values=values, volumes=volume(990 * GIB), disks=disk()))
    assert [kind for kind, _, _ in run.began()] == ["storage_fault"]


def test_each_rule_can_be_switched_off(new_bench: NewBench) -> None:
    off = Thresholds(
        host_memory_fraction=None, host_memory_full_within_s=None, host_oom=None, memory_pressure_percent=None,
        shm_fraction=None, volume_fraction=None, volume_full_within_s=None, volume_hang=None, cpu_percent=None,
        cpu_minute_percent=None, cpu_throttled_percent=None, disk_util_percent=None, network_percent=None,
        network_fault=None, open_files_fraction=None,
    )  # fmt: skip
    bad: dict[str, Any] = {
        "memory_available_mb": 1.0, "oom_kills": lambda t: t, "memory_pressure_percent": 99.0,
        "shm_used_mb": 64 * GIB, "cpu_percent": 100.0, "cpu_throttled_percent": 90.0, "open_files": 65_536.0,
        "disks": disk(util_percent=100.0, queue=90.0, read_await_ms=900.0),
        "volumes": lambda t: (*volume(999.9 * GIB), VolumeSample("/x", hangs=True)),
        "links": lambda t: link(rx_mb_s=49_000.0, errors=500, downs=int(t)),
    }  # fmt: skip
    run = new_bench(off)
    run.host(300, **bad)
    assert run.found == []
    run = new_bench()
    run.host(300, **bad)
    kinds = {kind for kind, _, _ in run.began()}
    assert kinds >= {"memory_high", "host_oom", "cpu_saturated", "disk_saturated", "storage_fault", "network_fault"}
