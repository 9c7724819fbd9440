"""The run that the drawings of the design tell of, as snapshots: `healthy`, `alert`, `failed`, `empty`.

qwen-7b-lora, 8 nodes with 8 A100-80GB each. Step 842 healthy; worker-2 gpu3 (rank 19) grows from step 880;
worker-5 is slow from 1,070; NEAR OOM at 11:10:36, CUDA_OOM at step 1,200, 11:16:17. Also used by screenshots/make.py.
"""

from __future__ import annotations

# fmt: off
import importlib.util
import math
import random
import sys
from dataclasses import replace
from pathlib import Path

from trainmon.snapshot import (
    SECTIONS,
    AlertView,
    ChartView,
    Counts,
    ErrorView,
    EventView,
    GpuPanel,
    LogLine,
    MetricView,
    NodeView,
    Points,
    RunView,
    Snapshot,
    SourceView,
    Span,
)


def _machines():  # type: ignore[no-untyped-def]
    """tests/gpustory.py, which is no package either."""
    name = "trainmon_gpustory"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name("gpustory.py"))
        assert spec is not None and spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


machines = _machines()
at, GIB, _noise = machines.at, machines.GIB, machines.noise


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
        charts=_charts(842, 2.028, -0.021, 4.72e-5), metrics=_metrics(bad=None), gpus=machines.gpus(),
        nodes=_nodes(842, phase="healthy"), events=_events("healthy"), sources=_sources(), last=tail[-1], tail=tail,
        counts=Counts(6880, 6736, 0, 0, 6_100_000),
    )


def alert() -> Snapshot:
    """Step 1,120, 11:11:44: NEAR OOM on worker-2 gpu3, worker-5 is a straggler, the run is alive."""
    tail = _tail(1120, 1.990, "11:11:44")
    return _snapshot(
        run=RunView("qwen-7b-lora", "running", "", at("11:11:44"), 1120, 5000, 13_200.0, None, 8, 64),
        alerts=_alerts("alert"), charts=_charts(1120, 1.990, -0.013, 4.48e-5),
        spans=(Span(1070, None, "warning"), Span(1100, None, "critical")), metrics=_metrics(bad=15), gpus=machines.everywhere(),
        gpu=machines.gpu_detail(), host=machines.host(), nodes=_nodes(1120, phase="alert"), events=_events("alert"), sources=_sources(), last=tail[-1], tail=tail,
        counts=Counts(9134, 8960, 0, 0, 8_200_000),
    )


def solo() -> Snapshot:
    """The alert's moment on one node alone: its host stands beside its GPUs."""
    whole = alert()
    panel = machines.gpus(near=True)
    return replace(whole, run=replace(whole.run, nodes=1, gpus=8), gpus=panel, nodes=tuple(n for n in whole.nodes if n.name == "worker-2"))


def gallery() -> Snapshot:
    """Every state that a GPU's row can have, and a driver with a fault."""
    return replace(alert(), gpus=machines.states())


def failed() -> Snapshot:
    """11:26:31: CUDA_OOM on worker-2 at step 1,200 stopped the run ten minutes ago."""
    last = LogLine(0, "worker-0", at("11:26:19"), "[rank0]: Watchdog caught collective operation timeout", "ERROR")
    return _snapshot(
        run=RunView("qwen-7b-lora", "failed", "", at("11:16:17"), 1200, 5000, None, None, 8, 64),
        alerts=_alerts("failed"), charts=_charts(1200, 1.984, -0.009, 4.40e-5),
        spans=(Span(1070, None, "warning"), Span(1100, None, "critical")), metrics=_metrics(bad=5), gpus=machines.gpus(idle=True),
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


NOW = {"healthy": at("10:57:15"), "alert": at("11:11:44"), "solo": at("11:11:44"), "gallery": at("11:11:44"), "failed": at("11:26:31"), "empty": at("11:15:22")}
"""The clock of each scene."""
