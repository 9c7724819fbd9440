"""The run that the drawings of the design tell of, as snapshots: `healthy`, `alert`, `failed`, `empty`.

qwen-7b-lora, 8 nodes with 8 A100-80GB each. Step 842 healthy; worker-2 gpu3 (rank 19) grows from step 880;
worker-5 is slow from 1,070; NEAR OOM at 11:10:36, CUDA_OOM at step 1,200, 11:16:17. Also used by screenshots/make.py.
"""

from __future__ import annotations

# fmt: off
import calendar
import math
import random
from dataclasses import replace

from trainmon.samples import GpuProcess
from trainmon.snapshot import (
    SECTIONS,
    AlertView,
    ChartView,
    Counts,
    ErrorView,
    EventView,
    GpuDetail,
    GpuPanel,
    GpuRow,
    HostFigure,
    HostPanel,
    LinkRow,
    LogLine,
    MetricView,
    NodeView,
    Points,
    RunView,
    Snapshot,
    SourceView,
    Span,
)

_DAY = calendar.timegm((2025, 4, 5, 0, 0, 0))
GIB = 1024.0


def at(text: str) -> float:
    """Unix seconds of a time of day of the story: "11:16:17"."""
    hours, minutes, seconds = (int(part) for part in text.split(":"))
    return float(_DAY + hours * 3600 + minutes * 60 + seconds)


def _loss(steps: int) -> Points:
    rng = random.Random(7)
    x, lo, mid, hi = [], [], [], []
    for step in range(0, steps + 1, 2):
        value = 1.965 + 1.635 * math.exp(-step / 180) + rng.uniform(-0.012, 0.012)
        spread = rng.uniform(0.012, 0.03) + (rng.uniform(0, 0.03) if rng.random() < 0.2 else 0.0)
        x.append(float(step))
        mid.append(value)
        lo.append(value - spread)
        hi.append(value + spread)
    for step, top in ((432, 2.61), (720, 2.22)):
        if step <= steps:
            hi[step // 2] = top
    hi[0] = 3.60
    return Points(tuple(x), tuple(lo), tuple(mid), tuple(hi))


def _rate(steps: int) -> Points:
    x, y = [], []
    for step in range(0, steps + 1, 2):
        if step < 100:
            value = 5e-5 * step / 100
        else:
            value = 2.5e-5 * (1 + math.cos(math.pi * (step - 100) / 4900))
        x.append(float(step))
        y.append(value)
    return Points(tuple(x), tuple(y), tuple(y), tuple(y))


def _charts(steps: int, loss: float, change: float, rate: float) -> tuple[ChartView, ...]:
    return (
        ChartView("loss", "loss", loss, _loss(steps), change, 100, first_x=0.0, first_value=3.60),
        ChartView("learning_rate", "learning rate", rate, _rate(steps), note="cosine, 100 warm-up steps"),
    )


def _noise(seed: int, middle: float, part: float, count: int = 24) -> tuple[float, ...]:
    rng = random.Random(seed)
    return tuple(middle * (1 + rng.uniform(-part, part)) for _ in range(count))


def _metrics(*, bad: int | None) -> tuple[MetricView, ...]:
    def turned(seed: int, before: float, after: float) -> tuple[float, ...]:
        good = _noise(seed, before, 0.004)
        return good if bad is None else good[:bad] + tuple(after for _ in range(24 - bad))

    slow = bad is not None
    warning = "warning" if slow else None
    return (
        MetricView("grad_norm", "grad norm", "grad norm", "number", 1.91 if slow else 1.87, 1.0, spark=_noise(1, 1.9, 0.045)),
        MetricView("tokens_per_second", "tokens/s", "tokens/s", "per_second", 154_000 if slow else 173_000,
                   -11.0 if slow else 0.0, warning, turned(2, 173e3, 154e3), bad),
        MetricView("step_time_s", "step time", "step", "seconds", 3.41 if slow else 3.03, 13.0 if slow else 0.0, warning,
                   turned(3, 3.03, 3.41), bad),
        MetricView("mfu", "MFU", "MFU", "mfu", 35.2 if slow else 39.6, -11.1 if slow else 0.0, warning,
                   turned(4, 39.6, 35.2), bad),
        MetricView("data_time_s", "data wait", "data", "wait_seconds", 0.06, 0.0, spark=_noise(5, 0.06, 0.06)),
    )


_UTIL = (97, 96, 98, 97, 97, 95, 98, 97)
_MEMORY = (66.4, 66.2, 66.7, 67.2, 66.3, 66.5, 66.1, 66.4)
_HEAT = (66, 68, 67, 72, 69, 71, 66, 68)
_POWER = (381, 376, 388, 391, 379, 384, 372, 380)


def _gpus(*, near: bool = False, idle: bool = False) -> GpuPanel:
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
    panel = _gpus(near=True)
    rows = []
    for node in range(nodes):
        for row in _gpus().rows:
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
    rng = _noise
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
    panel = _gpus(near=True)
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


_OWN = (2.63, 2.65, 2.65, 2.61, 2.66, 2.65, 2.62, 2.64)
_WAIT = (0.40, 0.38, 0.38, 0.42, 0.37, 0.38, 0.41, 0.39)
_NODE_MEMORY = (66.4, 66.8, 67.2, 66.3, 66.6, 66.3, 66.9, 66.5)
_NODE_HEAT = (71, 70, 72, 69, 71, 74, 70, 70)
_VERSUS = (0.0, 0.0, 0.0, -1.0, 1.0, 0.0, -1.0, 0.0)


def _nodes(step: int, *, phase: str) -> tuple[NodeView, ...]:
    order = range(8) if phase == "healthy" else (2, 5, 0, 1, 3, 4, 6, 7)
    out = []
    for index in order:
        slow = phase != "healthy" and index == 5
        worst = phase != "healthy" and index == 2
        if phase == "healthy":
            health, word = "ok", "ok"
        elif worst:
            health, word = "critical", "NEAR OOM" if phase == "alert" else "CUDA_OOM"
        elif phase == "failed":
            health, word = "silent", "timed out"
        else:
            health, word = ("warning", "slow") if slow else ("ok", "ok")
        memory = (76.8 if phase == "alert" else 80.0) if worst else _NODE_MEMORY[index]
        spark = _noise(20 + index, _OWN[index], 0.004, 10)
        if slow:
            spark = spark[:3] + (3.02,) * 7
        wait = 0.39 if slow else round(_WAIT[index] + (0.38 if phase != "healthy" else 0.0), 2)
        out.append(
            NodeView(f"worker-{index}", health, word, step, 3.02 if slow else _OWN[index], spark, 3 if slow else None,
                     14.0 if slow else _VERSUS[index], wait, memory * GIB, 87.0 if slow else _NODE_HEAT[index],
                     sources=(index,))
        )
    return tuple(out)


_EVAL = "step 500 · loss 2.105 · 41 s"


def _events(phase: str) -> tuple[EventView, ...]:
    early = (
        EventView(at("10:40:00"), "ok", "checkpoint", "", "step 500 saved in 8.1 s, in the background", planned=True),
        EventView(at("10:39:18"), "ok", "eval", "", _EVAL, planned=True),
    )
    if phase == "healthy":
        return (
            *early,
            EventView(at("10:36:34"), "ok", "loss spike", "", "step 432 · 2.61 and back in 3 steps, not an incident", planned=True),
            EventView(at("10:19:47"), "ok", "warm-up over", "", "step 100 · learning rate at its peak 5.00e-05", planned=True),
            EventView(at("10:14:47"), "ok", "first step", "", "worker-0 to worker-7, clocks within 0.1 s of each other", planned=True),
        )
    return (
        EventView(at("11:10:36"), "critical", "NEAR OOM", "worker-2 gpu3",
                  "76.8 of 80 GiB and rising since step 880, while the other 63 GPUs stay at 66.5 GiB",
                  "only rank 19 grows: look for tensors kept alive; a restart now from checkpoint-1000 loses 120 steps (6 m 30 s)",
                  "near_oom:worker-2:3"),
        EventView(at("11:08:54"), "warning", "STRAGGLER", "worker-5",
                  "own time 3.02 s, +14 % over the median; gpu6 at 87 °C, SM clock 1,230 of 1,410 MHz: thermal slowdown",
                  "costs 11 % of the run's speed; check the fans and inlet of worker-5, or drain it", "straggler:worker-5"),
        EventView(at("11:05:14"), "ok", "checkpoint", "", "step 1,000 saved in 8.4 s, in the background", planned=True),
        EventView(at("11:04:33"), "ok", "eval", "", "step 1,000 · loss 2.014 ▼ 0.038 · 41 s", planned=True),
        *early,
    )


def _alerts(phase: str) -> tuple[AlertView, ...]:
    slow = AlertView("straggler:worker-5", "straggler", "warning", "STRAGGLER", "worker-5", "own time 3.02 s, +14 %",
                     "costs 11 %", ("check the fans and inlet of worker-5, or drain it",), since=at("11:08:54"),
                     node="worker-5", start_step=1070)
    if phase == "alert":
        near = AlertView("near_oom:worker-2:3", "near_oom", "critical", "NEAR OOM", "worker-2 gpu3",
                         "76.8 of 80 GiB (96 %), +4.0 GiB per 100 steps", "full in ≈ 4 min",
                         ("only rank 19 grows: look for tensors kept alive",), since=at("11:10:36"), node="worker-2", gpu=3,
                         start_step=1100, evidence=(("level", "76.8 GiB, 96 % of 80.0"), ("slope", "+4.0 GiB per 100 steps")))
        return near, slow
    oom = AlertView("fatal:CUDA_OOM", "oom", "critical", "CUDA_OOM", "worker-2 rank 19",
                    "ran out of GPU memory at step 1,200",
                    "the run has stopped; 56 ranks timed out waiting for it", since=at("11:16:17"), node="worker-2", gpu=3,
                    place="worker-2.log:1,223", line=1223, code="CUDA_OOM", start_step=1200)
    return oom, slow


def _errors() -> tuple[ErrorView, ...]:
    raw = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB. GPU 3 has a total capacity of 79.15 GiB "
        "of which 214.00 MiB is free. Of the allocated memory 77.61 GiB is allocated by PyTorch."
    )
    fix = (
        "only this rank grew: look for tensors kept alive on rank 19; micro-batch 2 → 1 buys ≈ 225 steps; "
        "restart from checkpoint-1000"
    )

    def view(
        code: str, message: str, severity: str, role: str, lines: int, where: str, first: str, place: str
    ) -> ErrorView:
        name, line = place.rsplit(":", 1)
        number = int(line.replace(",", ""))
        top = code == "CUDA_OOM"
        return ErrorView(code, code.replace("_", " ").lower(), message, severity, 1 if severity == "critical" else 3, role,
                         lines, where, at(first), place, int(name[7]), number, number * 90, raw if top else message,
                         (fix,) if top else (), ("tensors kept alive between steps",) if top else (),
                         "PyTorch documentation", f"worker-{name[7]}", 19 if top else None)

    return (
        view("CUDA_OOM", "tried to allocate 512 MiB on GPU 3, 214 MiB free", "critical", "probable cause", 1,
             "worker-2 rank 19", "11:16:17", "worker-2.log:1,223"),
        view("SIGTERM_FROM_LAUNCHER", "torchrun stopped the other ranks of the node", "warning", "follows CUDA_OOM", 7,
             "worker-2 ranks 16–23", "11:16:19", "worker-2.log:1,225"),
        view("TORCHRUN_CHILD_FAILED", "local_rank 3, exit code 1", "critical", "follows CUDA_OOM", 1, "worker-2", "11:16:21",
             "worker-2.log:1,232"),
        view("NCCL_WATCHDOG_TIMEOUT", "ALLREDUCE 28,817 ran for 600,041 ms", "critical", "follows CUDA_OOM", 56, "7 nodes",
             "11:26:19", "worker-0.log:1,240"),
        view("GPU_THERMAL_SLOWDOWN", "SM clock 1,230 of 1,410 MHz at 87 °C", "warning", "its own", 1, "worker-5 gpu6",
             "11:07:46", "worker-5.log:1,101"),
    )


def _sources() -> tuple[SourceView, ...]:
    return tuple(
        SourceView(index, f"worker-{index}.log", f"/runs/worker-{index}.log", "followed", "megatron", node=f"worker-{index}",
                   format="megatron", size=820_000, lines=1140)
        for index in range(8)
    )


def _tail(step: int, loss: float, time: str) -> tuple[LogLine, ...]:
    end = at(time)
    texts = []
    for back, value, norm, took in (
        (2, loss + 0.003, 1.85, 3.03),
        (1, loss - 0.003, 1.90, 3.02),
        (0, loss, 1.87, 3.03),
    ):
        text = (
            f"step={step - back} loss={value:.3f} lr=4.72e-05 grad_norm={norm:.2f} step_time={took:.2f} data_wait=0.06"
        )
        texts.append(LogLine(0, "worker-0", end - 3 * back, text, "INFO"))
    return tuple(texts)


def _snapshot(**sections: object) -> Snapshot:
    return Snapshot(version=1, versions=dict.fromkeys(SECTIONS, 1), **sections)  # type: ignore[arg-type]


def healthy() -> Snapshot:
    """Step 842, 10:57:15: nothing is wrong."""
    tail = _tail(842, 2.028, "10:57:15")
    return _snapshot(
        run=RunView("qwen-7b-lora", "running", "", at("10:57:15"), 842, 5000, 12_600.0, None, 8, 64),
        calm="healthy for 41 m 12 s · no alerts since the start · one eval and one checkpoint recognised as planned pauses",
        charts=_charts(842, 2.028, -0.021, 4.72e-5), metrics=_metrics(bad=None), gpus=_gpus(),
        nodes=_nodes(842, phase="healthy"), events=_events("healthy"), sources=_sources(), last=tail[-1], tail=tail,
        counts=Counts(6880, 6736, 0, 0, 6_100_000),
    )


def alert() -> Snapshot:
    """Step 1,120, 11:11:44: NEAR OOM on worker-2 gpu3, worker-5 is a straggler, the run is alive."""
    tail = _tail(1120, 1.990, "11:11:44")
    return _snapshot(
        run=RunView("qwen-7b-lora", "running", "", at("11:11:44"), 1120, 5000, 13_200.0, None, 8, 64),
        alerts=_alerts("alert"), charts=_charts(1120, 1.990, -0.013, 4.48e-5),
        spans=(Span(1070, None, "warning"), Span(1100, None, "critical")), metrics=_metrics(bad=15), gpus=everywhere(),
        gpu=gpu_detail(), host=host(), nodes=_nodes(1120, phase="alert"), events=_events("alert"), sources=_sources(), last=tail[-1], tail=tail,
        counts=Counts(9134, 8960, 0, 0, 8_200_000),
    )


def failed() -> Snapshot:
    """11:26:31: CUDA_OOM on worker-2 at step 1,200 stopped the run ten minutes ago."""
    last = LogLine(0, "worker-0", at("11:26:19"), "[rank0]: Watchdog caught collective operation timeout", "ERROR")
    return _snapshot(
        run=RunView("qwen-7b-lora", "failed", "", at("11:16:17"), 1200, 5000, None, None, 8, 64),
        alerts=_alerts("failed"), charts=_charts(1200, 1.984, -0.009, 4.40e-5),
        spans=(Span(1070, None, "warning"), Span(1100, None, "critical")), metrics=_metrics(bad=5), gpus=_gpus(idle=True),
        nodes=_nodes(1200, phase="failed"), errors=_errors(), events=_events("alert"), sources=_sources(), last=last,
        tail=(last,), counts=Counts(10_021, 9600, 0, 0, 9_100_000),
    )


def empty() -> Snapshot:
    """Nothing has come yet: one pattern without a file, one empty file, one that may not be read."""
    return _snapshot(
        sources=(
            SourceView(None, "logs/worker-*.log", "", "no file yet", "joins as soon as one matches"),
            SourceView(0, "logs/launcher.log", "logs/launcher.log", "empty", "0 B, made 38 s ago; followed"),
            SourceView(None, "/mnt/old/train.log", "", "not readable", "permission denied for user maria: chmod g+r it", True),
        ),
        gpus=GpuPanel(sentence="GPU figures that the logs carry are shown as they come."),
    )


NOW = {"healthy": at("10:57:15"), "alert": at("11:11:44"), "failed": at("11:26:31"), "empty": at("11:15:22")}
"""The clock of each scene."""
