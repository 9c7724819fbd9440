"""The GPUs and the host of the story that tests/story.py tells: one node, all nodes, one GPU in full, every state."""

from __future__ import annotations

# fmt: off
import calendar
import random
from dataclasses import replace

from trainmon.samples import GpuProcess
from trainmon.snapshot import ChartView, GpuDetail, GpuPanel, GpuRow, HostFigure, HostPanel, LinkRow, Points, Span

_DAY = calendar.timegm((2025, 4, 5, 0, 0, 0))
GIB = 1024.0


def at(text: str) -> float:
    """Unix seconds of a time of day of the story: "11:16:17"."""
    hours, minutes, seconds = (int(part) for part in text.split(":"))
    return float(_DAY + hours * 3600 + minutes * 60 + seconds)


def noise(seed: int, middle: float, part: float, count: int = 24) -> tuple[float, ...]:
    rng = random.Random(seed)
    return tuple(middle * (1 + rng.uniform(-part, part)) for _ in range(count))


_UTIL = (97, 96, 98, 97, 97, 95, 98, 97)
_MEMORY = (66.4, 66.2, 66.7, 67.2, 66.3, 66.5, 66.1, 66.4)
_HEAT = (66, 68, 67, 72, 69, 71, 66, 68)
_POWER = (381, 376, 388, 391, 379, 384, 372, 380)


def gpus(*, near: bool = False, idle: bool = False) -> GpuPanel:
    rows = []
    for index in range(8):
        known = {"key": f"GPU-2-{index}", "label": str(index), "name": "NVIDIA A100-SXM4-80GB", "state": "ok", "rank": 16 + index,
                 "power_limit_w": 400.0, "slowdown_c": 85.0, "clock_max_mhz": 1410.0}  # type: dict[str, object]
        if idle:
            rows.append(GpuRow("worker-2", index, 0.0, 0.4 * GIB, 80 * GIB, (41, 43, 42, 40, 43, 44, 41, 42)[index],
                               (62, 61, 63, 60, 62, 64, 61, 62)[index], 210, link_gb_s=0.0, **known))
            continue
        full = near and index == 3
        rows.append(
            GpuRow("worker-2", index, _UTIL[index], (76.8 if full else _MEMORY[index]) * GIB, 80 * GIB, _HEAT[index],
                   _POWER[index], 1410, "critical" if full else "ok", "96 %" if full else "", link_gb_s=146.0 + index % 3,
                   **known)
        )
    return GpuPanel("worker-2", "NVML", tuple(rows), here=True, window_s=10.0, driver="550.90.07", counted=64)


def logged_gpus() -> GpuPanel:
    """The same GPUs as a log tells of them: no instruments, so no state, window or link."""
    rows = tuple(
        GpuRow("worker-2", index, _UTIL[index], _MEMORY[index] * GIB, 80 * GIB, _HEAT[index], _POWER[index], 1410)
        for index in range(8)
    )
    return GpuPanel("worker-2", "from the log", rows)


def states() -> GpuPanel:
    """One row a state: what each of them looks like beside the others."""
    def row(index: int, health: str = "ok", word: str = "", **more: object) -> GpuRow:
        known: dict[str, object] = {
            "util_percent": 97.0, "memory_mb": 66.4 * GIB, "total_mb": 80 * GIB, "temperature_c": 66.0, "power_w": 380.0,
            "clock_mhz": 1410.0, "link_gb_s": 148.0, "state": "ok", "slowdown_c": 85.0, "rank": index,
            "key": f"GPU-s-{index}", "label": str(index),
        }
        return GpuRow("worker-2", index, health=health, word=word, **(known | more))  # type: ignore[arg-type]

    none = dict.fromkeys(("util_percent", "memory_mb", "temperature_c", "power_w", "clock_mhz", "link_gb_s"))
    rows = (
        row(0),
        row(1, "critical", "96 %", memory_mb=76.8 * GIB),
        row(2, "warning", "thermal", temperature_c=87.0, clock_mhz=1230.0, throttle=("thermal (hardware)",)),
        row(3, "critical", "Xid 79", state="lost", **none,
            note="GPU 3 is lost (Xid 79): it fell off the bus; drain the node, then reset the GPU or reboot (since 11:02:11)"),
        row(4, "warning", "not responding", state="not responding", **none,
            note="GPU 4 has not answered for 12 s; the others go on"),
        row(5, "silent", "no permission", state="no permission", **none,
            note="no permission to look at this GPU: run as its owner or in the group video"),
        row(6, "silent", "stale 30 s", state="stale", age_s=30.0),
        row(7, mine=False, rank=None, util_percent=41.0, memory_mb=21.0 * GIB),
        row(8, "warning", "idle", util_percent=0.0, power_w=92.0),
        row(9, util_percent=None, power_w=None, temperature_c=44.0, rank=None),
        row(9, label="9:5", key="MIG-5", profile="2g.20gb", util_percent=None, memory_mb=7.6 * GIB, total_mb=20 * GIB,
            temperature_c=None, power_w=None, clock_mhz=None, link_gb_s=None, rank=None),
    )
    return GpuPanel("worker-2", "NVML", rows, here=True, window_s=10.0, driver="550.90.07", counted=11, bad=True,
                    sentence="the NVIDIA driver was updated under the running one: reload it or reboot; running jobs go on")


def everywhere(nodes: int = 8) -> GpuPanel:
    """GPUs of all nodes, worst first: near OOM on worker-2, heat on worker-5."""
    panel = gpus(near=True)
    rows = []
    for node in range(nodes):
        for row in gpus().rows:
            index = row.index or 0
            heat = float(60 + (7 * node + 3 * index) % 13)
            rows.append(replace(row, node=f"worker-{node}", key=f"GPU-{node}-{index}", rank=8 * node + index, temperature_c=heat))
    rows[8 * 2 + 3] = replace(panel.rows[3], rank=19)
    rows[8 * 5 + 6] = replace(rows[8 * 5 + 6], health="warning", word="thermal", temperature_c=87.0, clock_mhz=1230.0,
                              throttle=("thermal (software)",))
    rows.sort(key=lambda row: {"critical": 0, "warning": 1}.get(row.health, 2))
    return replace(panel, everywhere=tuple(rows[:256]), counted=8 * nodes)


def host() -> HostPanel:
    """The machine of worker-2, its memory near the container's limit."""
    rng = noise
    return HostPanel(
        "worker-2", True, "host", None, "",
        (
            HostFigure("CPU", "61 % of 96 processors, container", share=0.61, spark=rng(31, 61, 0.1)),
            HostFigure("memory", "472.0 of 504 GiB, container", "warning", 0.937, rng(32, 460, 0.02),
                       note="tasks wait for it 4 % of the time"),
            HostFigure("/dev/shm", "11.2 GiB of 64.0 GiB", share=0.175),
            HostFigure("/runs", "1.2 TB free of 30 TB", share=0.96, health="warning", note="holds the logs · nfs4"),
            HostFigure("/mnt/data", "does not answer", "critical", note="no answer for 40 s"),
            HostFigure("disk nvme0n1", "await 0.41 ms · queue 1.20 · 34 % busy · 410 MB/s", share=0.34, spark=rng(33, 34, 0.3)),
            HostFigure("network", "mlx5_4 11.8 GB/s of 50.0", share=0.236),
            HostFigure("open files", "3,112 of 1,048,576", share=0.003),
        ),
        (
            LinkRow("mlx5_4", "active", "critical", 11.8, 50.0, 1840.0, 3, at("11:08:52")),
            LinkRow("mlx5_0", "active", "ok", 38.3, 50.0, 0.0),
            LinkRow("mlx5_1", "active", "ok", 38.6, 50.0, 0.0),
            LinkRow("mlx5_2", "active", "ok", 38.9, 50.0, 0.0),
            LinkRow("eth0", "up", "ok", 0.02, 3.1, 0.0),
            LinkRow("eth1", "down", "silent", None, None, None),
        ),
    )


def _over(seed: int, middle: float, noise: float, dip: float | None = None, rise: tuple[float, float] | None = None) -> Points:
    """Half an hour up to the alert, a value every six seconds; an eval at 11:04 dips it."""
    rng = random.Random(seed)
    x, y = [], []
    begin, end = at("10:42:00"), at("11:11:44")
    for n in range(int((end - begin) / 6) + 1):
        now = begin + 6 * n
        value = middle + rng.uniform(-noise, noise)
        if rise is not None and now > at("10:59:30"):
            value = rise[0] + (rise[1] - rise[0]) * (now - at("10:59:30")) / (end - at("10:59:30"))
        if dip is not None and at("11:03:52") <= now <= at("11:04:33"):
            value = dip
        x.append(now)
        y.append(value)
    return Points(tuple(x), tuple(y), tuple(y), tuple(y))


def gpu_detail() -> GpuDetail:
    """GPU 3 of worker-2 in full, while it runs out of memory."""
    panel = gpus(near=True)
    window = (at("10:42:00"), at("11:11:44"))

    def chart(key: str, title: str, unit: str, value: float, points: Points, **more: object) -> ChartView:
        return ChartView(key, title, value, points, unit=unit, axis="time", window=window, **more)  # type: ignore[arg-type]

    return GpuDetail(
        row=panel.rows[3], origin="NVML", driver="550.90.07",
        facts=(("rank", "19", None), ("PCI", "0000:87:00.0", None), ("driver", "550.90.07", None),
               ("ECC", "on, 0 uncorrected", None), ("Xid", "none", None), ("retired pages", "0", None)),
        charts=(
            chart("gpu_memory_mb", "memory", "memory_gib", 76.8, _over(1, 67.2, 0.05, rise=(67.2, 76.8)), limit=80.0,
                  limit_severity="critical", limit_word="of 80", band="other 7 GPUs", others=_over(2, 66.4, 0.2)),
            chart("gpu_utilization", "utilisation", "percent", 97.0, _over(3, 97.0, 1.5, 12.0), low=0.0, high=100.0),
            chart("gpu_power_w", "power", "watts", 391.0, _over(4, 389.0, 8.0, 141.0), low=0.0, limit=400.0, limit_word="cap 400 W"),
            chart("gpu_temperature_c", "temperature", "celsius", 72.0, _over(5, 71.0, 1.0, 65.0), limit=85.0,
                  limit_word="slows at 85"),
            chart("sm_clock_mhz", "SM clock", "mhz", 1410.0, _over(6, 1410.0, 0.0), low=0.0, note="of 1,410, never throttled"),
            chart("link_gb_s", "NVLink", "number", 148.0, _over(7, 147.0, 4.0, 1.0), low=0.0, note="in and out, 12 links up"),
            chart("step_time_s", "step time", "seconds", 3.41, _over(8, 3.03, 0.02, 41.0), low=0.0, note="of worker-2"),
        ),
        spans=(Span(at("11:10:36"), None, "critical"),),
        steady_mb=67.2 * GIB, grown_mb=9.6 * GIB, free_mb=3.2 * GIB, steady_since=40, grown_since=880, outlook="full in ≈ 4 min",
        processes=(GpuProcess(41207, 76.5 * GIB, 97.0, "maria", "python train/sft.py", rank=19),),
        throttle=(("power cap", False, 0.0), ("thermal", False, 0.0), ("hardware", False, 0.0)),
        follows=(
            "memory grew on this GPU only: look for tensors kept alive on rank 19 (a logged loss without .item(), a growing "
            "list, an uneven batch)",
            "micro-batch 2 → 1 with gradient accumulation 1 → 2 buys ≈ 225 steps; a restart now from checkpoint-1000 loses 120 "
            "steps (6 m 30 s)",
        ),
        siblings=panel.rows, log_source=2,
    )
