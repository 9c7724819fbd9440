"""Each scenario of the stand-in, through a real worker under the real watchdog: what is told of the GPUs."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import pytest

from trainmon.samples import GPU_METRICS, GpuSample, from_object, to_object

pytestmark = pytest.mark.needs_cc

MIB = 2**20


def test_eight_gpus_tell_every_figure_with_its_unit(scene, watching) -> None:
    scene("h100x8-exact", t=30)
    _, heard = watching()
    heard.ready(8)
    heard.until(lambda h: "nvlink_tx_gb_s" in h.gpu(0).values and "sm_active_percent" in h.gpu(0).values)
    assert heard.driver.state == "ok" and heard.driver.gpus == 8 and heard.driver.driver == "550.54.15"
    assert heard.driver.sentence == ""
    for index in range(8):
        seen = heard.gpu(index)
        assert seen.values["gpu_utilization"] == 97 - index
        assert seen.values["gpu_power_w"] == 641 + index
        assert seen.values["gpu_temperature_c"] == 61 + index
    seen = heard.gpu(0)
    assert seen.name == "NVIDIA H100 80GB HBM3" and seen.last.uuid.startswith("GPU-") and seen.last.node == "node-a"
    assert seen.values["gpu_memory_mb"] == 70144 and seen.values["memory_reserved_mb"] == 559
    assert seen.values["gpu_memory_total_mb"] == pytest.approx(85520809984 / MIB)
    total = seen.values["memory_free_mb"] + seen.values["gpu_memory_mb"] + seen.values["memory_reserved_mb"]
    assert total == pytest.approx(seen.values["gpu_memory_total_mb"], abs=1)
    assert seen.values["power_limit_w"] == 700 and seen.values["slowdown_temperature_c"] == 89
    assert seen.values["sm_clock_mhz"] == 1755 and seen.values["sm_clock_max_mhz"] == 1980
    # 18 links of 11,000,000 KiB/s each; PCIe counters are bytes, 2,450,000 KB/s
    assert seen.values["nvlink_tx_gb_s"] == pytest.approx(18 * 11e6 * 1024 / 1e9, rel=0.05)
    assert seen.values["pcie_tx_mb_s"] == pytest.approx(2450, rel=0.05)
    assert seen.values["sm_active_percent"] == 71 and seen.values["tensor_active_percent"] == 44
    assert seen.values["nvlinks_up"] == seen.values["nvlinks"] == 18
    assert seen.values["fabric_ok"] == 1 and seen.throttle == ("power cap",)
    assert seen.missing["fan_percent"] == "not supported" and "fan_percent" not in seen.values
    assert set(seen.values) <= set(GPU_METRICS)
    assert seen.facts["memory"] == "without what the driver reserves" and seen.facts["pci"] == "0000:0F:00.0"
    (process,) = seen.processes
    assert process.memory_mb == 68000 and process.sm_percent == 96 and process.here and process.kind == "C"
    assert process.command == "python -m trainmon.telemetry.gpu.worker"


def test_samples_survive_their_json_form(scene, watching) -> None:
    scene("h100x8-exact", t=30)
    _, heard = watching()
    heard.ready(8)
    for batch in heard.batches:
        for sample in batch:
            assert from_object(to_object(sample)) == sample


def test_sixteen_gpus(scene, watching) -> None:
    scene("h100x16", t=5)
    _, heard = watching()
    heard.ready(16)
    assert heard.driver.gpus == 16
    assert sorted(seen.last.index for seen in heard.gpus.values()) == list(range(16))


def test_a_round_is_one_batch_from_one_thread(scene, watching) -> None:
    scene("h100x8-exact", t=5)
    _, heard = watching()
    heard.ready(8)
    heard.until(lambda h: len(h.gpu(7).samples) > 6)
    assert heard.threads == {"gpu-watch"}
    full = [batch for batch in heard.batches if sum(isinstance(s, GpuSample) and bool(s.values) for s in batch) >= 8]
    assert len(full) >= 3


@pytest.mark.parametrize("scenario", ["gb10-unified", "jetson-orin"])
def test_unified_memory_is_the_hosts_and_says_so(scene, watching, tmp_path: Path, scenario: str) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal: 125829120 kB\nMemFree: 1 kB\nMemAvailable: 62914560 kB\n")
    scene(scenario, t=5)
    _, heard = watching(root=str(tmp_path))
    heard.ready(1)
    seen = heard.gpu(0)
    assert seen.values["gpu_memory_total_mb"] == 122880
    assert seen.values["memory_free_mb"] == 61440 and seen.values["gpu_memory_mb"] == 61440
    assert seen.facts["memory"] == "unified with the host's"
    assert seen.last.state == "ok" and heard.driver.state == "ok"
    if scenario == "jetson-orin":
        assert seen.values["gpu_utilization"] == 73
        for metric in ("gpu_power_w", "gpu_temperature_c", "sm_clock_mhz", "throttle", "processes", "events"):
            assert seen.missing[metric] == "not supported" and metric not in seen.values
    else:
        assert seen.missing["power_limit_w"] == "not supported" and seen.values["gpu_power_w"] == 41


def test_a_host_that_does_not_tell_leaves_unified_memory_out(scene, watching, tmp_path: Path) -> None:
    scene("gb10-unified", t=5)
    _, heard = watching(root=str(tmp_path))
    heard.ready(1)
    assert heard.gpu(0).missing["gpu_memory_mb"] == "not supported"
    assert "gpu_memory_mb" not in heard.gpu(0).values


def test_wsl_falls_back_to_the_old_memory_call_and_tells_no_process_memory(scene, watching, tmp_path: Path) -> None:
    release = tmp_path / "proc/sys/kernel"
    release.mkdir(parents=True)
    (release / "osrelease").write_text("5.15.167.4-microsoft-standard-WSL2\n")
    scene("wsl2", t=5)
    _, heard = watching(root=str(tmp_path))
    heard.ready(1)
    seen = heard.gpu(0)
    assert seen.values["gpu_memory_mb"] == pytest.approx(21.4 * 1024, abs=1)
    assert seen.missing["memory_reserved_mb"] and "memory_reserved_mb" not in seen.values
    assert seen.facts["memory"] == "with what the driver reserves" and seen.facts["mode"] == "WSL2"
    assert [one.memory_mb for one in seen.processes] == [None]


def test_a_vgpu_guest_says_why_it_has_no_temperature(scene, watching) -> None:
    scene("vgpu", t=5)
    _, heard = watching()
    heard.ready(1)
    seen = heard.gpu(0)
    assert seen.values["gpu_utilization"] == 64 and seen.values["gpu_memory_total_mb"] == 40960
    for metric in ("gpu_temperature_c", "gpu_power_w", "processes"):
        assert seen.missing[metric] == "n/a in a vGPU guest" and metric not in seen.values
    assert seen.facts["mode"] == "vGPU"


def test_mig_instances_are_samples_of_their_own(scene, watching) -> None:
    scene("a100-mig", t=5)
    _, heard = watching()
    heard.ready(5)
    whole = heard.gpu(0)
    assert whole.missing["gpu_utilization"] == "n/a under MIG" and "gpu_utilization" not in whole.values
    assert heard.gpu(1).values["gpu_utilization"] == 88
    parts = {seen.last.instance: seen for seen in heard.gpus.values() if seen.last.parent}
    assert set(parts) == {"2/0", "5/0", "9/0"}
    part = parts["5/0"]
    assert part.last.parent == whole.last.uuid and part.last.profile == "2g.20gb" and part.last.index == 0
    assert part.values["gpu_memory_mb"] == 7800 and part.values["gpu_memory_total_mb"] == 19968
    assert part.missing["gpu_utilization"] == "n/a under MIG" and part.missing["gpu_power_w"] == "of the whole GPU"
    assert [one.memory_mb for one in part.processes] == [7700] and part.processes[0].instance == "5/0"
    assert parts["9/0"].processes == ()
    assert sorted(one.instance for one in whole.processes) == ["2/0", "5/0"]


def test_forbidden_gpus_leave_the_others_alone(scene, watching) -> None:
    scene("partial-permission", t=5)
    _, heard = watching()
    heard.ready(6)
    heard.until(lambda h: h.has(2) and h.has(6))
    assert heard.driver.state == "ok" and heard.driver.gpus == 8
    for index in (2, 6):
        last = heard.gpu(index).last
        assert last.state == "no permission" and last.sentence.startswith("no permission") and last.since is not None
        assert last.uuid == ""  # it cannot be asked, so it is not invented
    assert all(heard.gpu(index).last.state == "ok" for index in (0, 1, 3, 4, 5, 7))


def test_foreign_processes_are_shown_as_such(scene, watching) -> None:
    scene("foreign-pids", t=5)
    _, heard = watching()
    heard.ready(8)
    first, second = heard.gpu(0).processes
    assert (first.pid, first.memory_mb, first.here, first.user) == (3100001, 61440, False, "")
    assert (second.pid, second.sm_percent) == (3200001, 40)


@pytest.mark.parametrize(("scenario", "driver"), [("legacy-driver-535", 535), ("legacy-driver-535", 580)])
def test_wide_process_records_are_read_as_such(scene, watching, scenario: str, driver: int) -> None:
    scene(scenario, t=5, driver=driver)
    _, heard = watching()
    heard.ready(8)
    assert [(one.pid, one.memory_mb) for one in heard.gpu(0).processes] == [
        (1003, 12288),
        (1002, 11264),
        (1001, 10240),
    ]


def test_a_driver_without_newer_calls_tells_what_it_can(scene, watching) -> None:
    scene("h100x8-exact", t=30, driver=470)
    _, heard = watching()
    heard.ready(8)
    seen = heard.gpu(0)
    assert seen.values["gpu_utilization"] == 97 and seen.throttle == ("power cap",)
    assert seen.facts["memory"] == "with what the driver reserves"
    assert seen.values["gpu_memory_mb"] == 70144 + 559
    assert [one.memory_mb for one in seen.processes] == [68000]
    assert seen.missing["sm_active_percent"] == "not supported" and seen.missing["fabric_ok"] == "not supported"


def test_garbage_is_refused_with_what_was_said(scene, watching) -> None:
    scene("garbage-samples", t=3)
    _, heard = watching()
    heard.ready(8)
    assert all(one.sm_percent is None for one in heard.gpu(0).processes)
    overfull = heard.gpu(1)
    assert "gpu_memory_mb" not in overfull.values and "92160 MiB" in overfull.missing["gpu_memory_mb"]
    assert "memory_free_mb" not in overfull.values  # else it would look full to the last byte
    assert overfull.values["gpu_memory_total_mb"] == pytest.approx(81559, abs=1)
    assert "refused" in heard.gpu(2).missing["gpu_power_w"] and "gpu_power_w" not in heard.gpu(2).values
    heard.until(lambda h: "gpu_temperature_c" in h.gpu(3).missing)
    assert heard.gpu(3).missing["gpu_temperature_c"] == "failing: Unknown Error"
    assert heard.gpu(3).last.state == "ok"  # the rest of it answers
    heard.until(lambda h: "gpu_temperature_c" not in h.gpu(3).missing)
    assert heard.gpu(3).values["gpu_temperature_c"] == 66


def test_a_rack_board_whose_fabric_is_not_up_says_so(scene, watching) -> None:
    scene("gb200-fabric", t=5)
    _, heard = watching()
    heard.ready(4)
    assert [heard.gpu(index).values["fabric_ok"] for index in range(4)] == [1, 1, 0, 1]
    assert heard.gpu(2).facts["fabric"] == "in progress"
    assert heard.gpu(3).values["nvlinks_up"] == 15 and heard.gpu(3).values["nvlinks"] == 18
    assert heard.gpu(3).values["nvlink_errors"] == 812


def test_a_workstation_board_has_a_fan_and_no_ecc(scene, watching) -> None:
    scene("geforce-4090x2", t=5)
    _, heard = watching()
    heard.ready(2)
    seen = heard.gpu(0)
    assert seen.values["fan_percent"] == 58 and seen.facts["brand"] == "GeForce"
    assert "ecc_corrected" in seen.missing and seen.missing["nvlinks"] == "no NVLink"
    assert "nvlink_errors" not in seen.values
    (desktop,) = heard.gpu(1).processes
    assert desktop.kind == "G" and desktop.memory_mb == 612


@pytest.mark.parametrize(
    ("scenario", "t", "index", "metric", "value"),
    [
        ("near-oom", 60, 3, "gpu_memory_mb", 84665601884 / MIB),
        ("util-collapse", 25, 1, "gpu_utilization", 14),
        ("straggler-thermal", 61, 6, "throttle_thermal_s", 30),
        ("h100x8-healthy", 5, 0, "gpu_memory_mb", 70144),
    ],
)
def test_figures_at_a_moment(scene, watching, scenario: str, t: float, index: int, metric: str, value: float) -> None:
    scene(scenario, t=t, frozen=True)
    _, heard = watching()
    heard.ready(8)
    assert heard.gpu(index).values[metric] == pytest.approx(value, rel=1e-3)


def test_throttling_is_told_in_words(scene, watching) -> None:
    scene("straggler-thermal", t=31, frozen=True)
    _, heard = watching()
    heard.ready(8)
    assert heard.gpu(6).throttle == ("hardware slowdown", "thermal (software)", "thermal (hardware)")
    assert heard.gpu(0).throttle == ("power cap",)


def test_slow_calls_do_not_stop_the_round(scene, watching) -> None:
    log = scene("slow-calls", t=5)
    _, heard = watching()
    heard.ready(8)
    heard.until(lambda h: min(len(h.gpu(index).samples) for index in range(8)) > 6)
    assert heard.driver.state == "ok" and all(seen.last.state == "ok" for seen in heard.gpus.values())
    assert "nvmlDeviceGetPcieThroughput" not in log.read_text()  # its counters do the work


def test_what_is_not_supported_is_asked_once(scene, watching) -> None:
    log = scene("jetson-orin", t=5)
    _, heard = watching()
    heard.ready(1)
    heard.until(lambda h: len(h.gpu(0).samples) > 7)
    calls = Counter(line.split()[2] for line in log.read_text().splitlines())
    once = ("PowerUsage", "Temperature", "CurrentClocksEventReasons", "FanSpeed", "MemoryInfo_v2", "MemoryInfo")
    assert {name: calls[f"nvmlDeviceGet{name}"] for name in once} == dict.fromkeys(once, 1)
    assert calls["nvmlDeviceGetUtilizationRates"] > 5
    refused = Counter(line.split()[2] for line in log.read_text().splitlines() if " rc=3 " in line)
    # the clock calls are asked for several clocks
    assert {name: count for name, count in refused.items() if count > 1 and "Clock" not in name} == {}


def test_a_round_of_eight_gpus_is_cheap(scene, watching) -> None:
    log = scene("h100x8-exact", t=30)
    _, heard = watching()
    heard.ready(8)
    heard.until(lambda h: len(h.gpu(7).samples) > 10)
    rows = [line.split() for line in log.read_text().splitlines()]
    ticks = [i for i, row in enumerate(rows) if row[2] == "nvmlEventSetWait_v2"]
    between = sorted(later - earlier for earlier, later in itertools.pairwise(ticks))
    assert between[len(between) // 2] <= 60
    assert len({row[1] for row in rows}) == 1  # one thread
