"""The machines of the story (see story.py): worker-2 by NVML with its GPU 3 in full, its host, all nodes' GPUs, and a
gallery of states. worker-2 gpu3 (rank 19) grows from step 880; an eval at 11:04:33 lets all of them idle for 41 s.
"""

from __future__ import annotations

# fmt: off
import calendar
import random
from dataclasses import replace

from trainmon.curves import ChartView, Points, Span
from trainmon.machines import GpuDetail, GpuPanel, GpuRow, HostFigure, HostPanel, LinkRow
from trainmon.samples import GpuProcess

_DAY = calendar.timegm((2025, 4, 5, 0, 0, 0))
NONE = Points()
GIB = 1024.0
TOTAL = 80 * GIB


def at(text: str) -> float:
    """Unix seconds of a time of day of the story: "11:16:17"."""
    hours, minutes, seconds = (int(part) for part in text.split(":"))
    return float(_DAY + hours * 3600 + minutes * 60 + seconds)


BEGIN, NOW = at("10:42:04"), at("11:11:44")
_EVAL = (at("11:03:52"), at("11:04:33"))

_UTIL = (97, 96, 98, 97, 97, 95, 98, 97)
_MEMORY = (66.4, 66.2, 66.7, 67.2, 66.3, 66.5, 66.1, 66.4)
_HEAT = (66, 68, 67, 72, 69, 71, 66, 68)
_POWER = (381, 376, 388, 391, 379, 384, 372, 380)
_LINK = (148, 147, 148, 148, 146, 148, 149, 147)


def row(index: int = 3, **changes: object) -> GpuRow:
    """A healthy GPU of worker-2, as NVML tells of it."""
    made = GpuRow(
        "worker-2", index, float(_UTIL[index]), _MEMORY[index] * GIB, TOTAL, float(_HEAT[index]), float(_POWER[index]),
        1410.0, key=f"worker-2/GPU-{index}", label=str(index), name="NVIDIA A100-SXM4-80GB", state="ok", rank=16 + index,
        power_limit_w=400.0, slowdown_c=85.0, clock_max_mhz=1410.0, link_gb_s=float(_LINK[index]),
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def near() -> GpuRow:
    """worker-2 gpu3 at 11:11:44."""
    return row(3, memory_mb=76.8 * GIB, health="critical", word="96 %")


def panel(**changes: object) -> GpuPanel:
    """The GPUs of worker-2, this host, by NVML."""
    rows = tuple(near() if index == 3 else row(index) for index in range(8))
    made = GpuPanel("worker-2", "NVML", rows, here=True, window_s=10.0, driver="550.90.07", counted=8)
    return replace(made, **changes)  # type: ignore[arg-type]


def _points(level: float, noise: float, idle: float | None = None, lag: float = 0.0, seed: int = 1) -> Points:
    rng = random.Random(seed)
    x, y, now = [], [], level
    for step in range(int((NOW - BEGIN) // 5) + 1):
        time = BEGIN + 5 * step
        wanted = level
        if idle is not None and _EVAL[0] <= time <= _EVAL[1]:
            wanted = idle
        now = wanted if not lag else now + (wanted - now) / lag
        x.append(time)
        y.append(now + rng.uniform(-noise, noise))
    return Points(tuple(x), tuple(y), tuple(y), tuple(y))


def _growing() -> Points:
    flat = _points(67.2, 0.02, seed=2)
    begun = at("10:58:10")
    y = tuple(v if t < begun else 67.2 + 9.6 * (t - begun) / (NOW - begun) for t, v in zip(flat.x, flat.mid, strict=True))
    return Points(flat.x, y, y, y)


def charts() -> tuple[ChartView, ...]:
    """Six charts of GPU 3 on one axis of time, and its node's step time."""
    window = (BEGIN, NOW)

    def chart(key: str, title: str, value: float, points: Points, others: Points = NONE, **more: object) -> ChartView:
        made = ChartView(key, title, value, points, axis="time", window=window, others=others, band="other 7 GPUs")
        return replace(made, **more)  # type: ignore[arg-type]

    return (
        chart("gpu_memory_mb", "memory", 76.8, _growing(), _points(66.4, 0.05, seed=3), unit="memory_gib", limit=80.0,
              limit_severity="critical", limit_word="of 80"),
        chart("gpu_utilization", "utilisation", 97.0, _points(97.0, 1.0, 11.0, seed=4), _points(97.0, 0.4, 12.0, seed=5),
              unit="percent", low=0.0, high=100.0),
        chart("gpu_power_w", "power", 391.0, _points(391.0, 4.0, 140.0, 2.0, seed=6), _points(380.0, 1.5, 138.0, 2.0, seed=7),
              unit="watts", low=0.0, limit=400.0, limit_word="cap 400 W"),
        chart("gpu_temperature_c", "temperature", 72.0, _points(72.0, 0.4, 61.0, 6.0, seed=8), _points(68.0, 0.2, 60.0, 6.0, seed=9),
              unit="celsius", limit=85.0, limit_word="slows at 85"),
        chart("sm_clock_mhz", "SM clock", 1410.0, _points(1410.0, 0.0), unit="mhz", low=0.0, note="of 1,410, never throttled"),
        chart("link_gb_s", "NVLink", 148.0, _points(148.0, 4.0, 1.0, seed=10), _points(147.6, 1.0, 1.0, seed=11),
              unit="number", low=0.0, note="in and out, 12 links up"),
        chart("step_time_s", "step time", 3.41, _points(3.2, 0.02, seed=12), unit="seconds", low=0.0, note="of worker-2", band=""),
    )


def detail(**changes: object) -> GpuDetail:
    """GPU 3 of worker-2 at 11:11:44: the page of the design."""
    made = GpuDetail(
        row=near(), origin="NVML", driver="550.90.07",
        facts=(
            ("rank", "19", None), ("PCI", "0000:87:00.0", None), ("driver", "550.90.07", None),
            ("ECC", "on, 0 uncorrected", None), ("Xid", "none", None), ("retired pages", "0", None),
        ),
        charts=charts(), spans=(Span(at("11:10:36"), None, "critical"),),
        steady_mb=67.2 * GIB, grown_mb=9.6 * GIB, free_mb=3.2 * GIB, steady_since=40, grown_since=880, outlook="full in ≈ 4 min",
        processes=(GpuProcess(41207, 76.5 * GIB, 97.0, "maria", "python train/sft.py", rank=19, local_rank=3),),
        throttle=(("power cap", False, 0.0), ("thermal", False, 0.0), ("hardware", False, 0.0)),
        follows=(
            "memory grew on this GPU only: look for tensors kept alive on rank 19 (a logged loss without .item(), a growing list, an uneven batch)",
            "micro-batch 2 → 1 with gradient accumulation 1 → 2 buys ≈ 225 steps; a restart now from checkpoint-1000 loses 120 steps (6 m 30 s)",
        ),
        siblings=panel().rows, log_source=2,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def hot() -> GpuDetail:
    """GPU 6 of worker-5: heat holds its clocks back; two processes, one in another namespace."""
    this = row(6, node="worker-5", key="worker-5/GPU-6", temperature_c=87.0, clock_mhz=1230.0, health="warning", word="thermal",
               throttle=("thermal (hardware)",), rank=46)
    return detail(
        row=this, facts=(("rank", "46", None), ("PCI", "0000:BD:00.0", None), ("driver", "550.90.07", None),
                         ("ECC", "on, 2 uncorrected", "critical"), ("Xid", "63 at 10:51:09", "critical"),
                         ("remapped rows", "1, reset needed", "warning")),
        spans=(Span(at("11:08:54"), None, "warning"),), steady_mb=66.1 * GIB, grown_mb=0.0, free_mb=13.9 * GIB, steady_since=40,
        grown_since=None, outlook="",
        processes=(GpuProcess(41310, 65.8 * GIB, 96.0, "maria", "python train/sft.py", rank=46, local_rank=6),
                   GpuProcess(2207, 0.3 * GIB, None, "", "", here=False)),
        throttle=(("power cap", True, 420.0), ("thermal", True, 190.0), ("hardware", False, 0.0)),
        follows=("heat slows it down: look at fans, inlet temperature and dust, or drain the machine",),
        siblings=tuple(replace(row(index), node="worker-5", key=f"worker-5/GPU-{index}") if index != 6 else this for index in range(8)),
        log_source=5,
    )


def lost() -> GpuDetail:
    """A GPU that fell off the bus at 11:02:11."""
    gone = row(5, util_percent=None, memory_mb=None, temperature_c=None, power_w=None, clock_mhz=None, link_gb_s=None,
               health="critical", word="Xid 79", state="lost",
               note="lost since 11:02:11, Xid 79: reset it or reboot the machine")
    return detail(
        row=gone, age_s=600.0, facts=(("PCI", "0000:B7:00.0", None), ("driver", "550.90.07", None), ("Xid", "79 at 11:02:11", "critical")),
        charts=(), spans=(), steady_mb=None, grown_mb=None, free_mb=None, steady_since=None, grown_since=None, outlook="",
        processes=(), process_sentence="cannot be read now", throttle=(),
        follows=("lost since 11:02:11, Xid 79: reset it or reboot the machine",), siblings=states().rows, log_source=None,
    )


def states() -> GpuPanel:
    """One row for each state that a GPU can be in."""
    none = {"util_percent": None, "memory_mb": None, "temperature_c": None, "power_w": None, "clock_mhz": None, "link_gb_s": None}
    rows = (
        row(0),
        near(),
        row(2, temperature_c=87.0, clock_mhz=1230.0, health="warning", word="thermal", throttle=("thermal (hardware)",)),
        row(1, mine=False, rank=None, memory_mb=21.4 * GIB, util_percent=100.0),
        row(4, util_percent=None, power_w=None, clock_mhz=None, missing=(("gpu_utilization", "not supported"),)),
        row(5, **none, health="critical", word="Xid 79", state="lost",
            note="lost since 11:02:11, Xid 79: reset it or reboot the machine"),
        row(6, **none, health="warning", word="not responding", state="not responding",
            note="the driver does not answer for this GPU (since 11:09:40)"),
        row(7, **none, health="silent", word="no permission", state="no permission",
            note="no permission to look at this GPU"),
        replace(row(0), key="worker-2/GPU-8", index=8, label="8", health="silent", word="stale 12 s", state="stale", age_s=12.0),
        row(0, key="worker-2/MIG-5", label="0:5", profile="2g.20gb", total_mb=19.5 * GIB, memory_mb=7.3 * GIB,
            util_percent=None, temperature_c=None, power_w=None, clock_mhz=None, link_gb_s=None,
            missing=(("gpu_utilization", "n/a under MIG"),)),
    )
    return panel(rows=rows, counted=10)


def faulty() -> GpuPanel:
    """The driver as a whole does not answer: what was known is stale."""
    rows = tuple(replace(one, health="silent", word="stale 40 s", state="stale", age_s=40.0) for one in panel().rows)
    return panel(rows=rows, age_s=40.0, bad=True,
                 sentence="the NVIDIA driver does not answer since 11:11:04: nvidia-smi would hang, too; running jobs may go on")


def without() -> GpuPanel:
    """No driver at all."""
    return GpuPanel("worker-2", "NVML", (), "no NVIDIA driver here: GPU figures that the logs carry are shown as they come", here=True)


def everywhere(nodes: int = 8) -> GpuPanel:
    """The GPUs of all nodes, worst first."""
    worst: list[GpuRow] = [near(), hot().row]
    rest = [
        replace(row(index), node=f"worker-{node}", key=f"worker-{node}/GPU-{index}", rank=node * 8 + index)
        for node in range(nodes) for index in range(8) if (node, index) not in ((2, 3), (5, 6))
    ]
    return panel(everywhere=tuple([*worst, *rest][:256]), counted=8 * nodes)


def host(**changes: object) -> HostPanel:
    """worker-2 in figures: its memory is limited, a volume is nearly full, an InfiniBand port flaps."""
    rng = random.Random(20)
    past = tuple(round(37 + rng.uniform(-4, 4), 1) for _ in range(24))
    made = HostPanel(
        "worker-2", True, "host",
        figures=(
            HostFigure("CPU", "38 % of 64 processors, container", share=0.38, spark=past),
            HostFigure("memory", "412.0 of 504 GiB, container", share=0.817, spark=tuple(410 + i / 12 for i in range(24))),
            HostFigure("/dev/shm", "52.3 GiB of 64.0 GiB", "warning", share=0.817),
            HostFigure("/scratch", "310 GB free of 7.0 TB", "warning", share=0.956, note="nfs4"),
            HostFigure("/", "61 GB free of 98 GB", share=0.38, note="ext4"),
            HostFigure("disk nvme0n1", "await 0.41 ms · queue 0.12 · 9 % busy · 214 MB/s", share=0.09, spark=(9.0, 8.0, 11.0, 9.0)),
            HostFigure("network", "mlx5_4 11.8 GB/s of 50.0", "critical", share=0.236),
            HostFigure("open files", "2,114 of 1,048,576", share=0.002),
        ),
        links=(
            LinkRow("mlx5_4", "active, slow", "critical", 11.8, 50.0, 1840.0, 3, at("11:09:52")),
            *(LinkRow(f"mlx5_{n}", "active", "ok", 38.3 + n / 10, 50.0, 0.0) for n in (0, 1, 2, 3)),
            LinkRow("mlx5_5", "down", "silent"),
            LinkRow("eth0", "up", "ok", 0.011, 3.125, None),
        ),
    )
    return replace(made, **changes)  # type: ignore[arg-type]
