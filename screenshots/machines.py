"""Instruments for the pictures: samples beside the demo's recording, and a machine with a GPU in every state."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

from recording import START, Recording

from trainmon.clock import ManualClock
from trainmon.demo.story import WORKERS, Moment
from trainmon.model import SourceEvent, Telemetry
from trainmon.samples import (
    DiskSample,
    DriverSample,
    GpuEvent,
    GpuProcess,
    GpuSample,
    HostSample,
    LinkSample,
    Sample,
    VolumeSample,
)
from trainmon.session.session import Session
from trainmon.settings import Settings

HERE = 2
"""The worker that trainmon runs on; the others are read from their agents."""
_FIGURE = re.compile(r"(gpu_\w+)=([\d.]+)")
_WHO = re.compile(r"rank=(\d+) gpu=(\d+) ")
_CARD = {
    "gpu_memory_total_mb": 81_920.0, "power_limit_w": 400.0, "slowdown_temperature_c": 85.0, "sm_clock_mhz": 1410.0,
    "sm_clock_max_mhz": 1410.0, "nvlinks": 12.0, "nvlinks_up": 12.0, "ecc_uncorrected": 0.0, "retired_pages": 0.0,
}  # fmt: skip


def gpu(node: str, index: int, now: float, values: dict[str, float], **more: object) -> GpuSample:
    """An A100 of the recording."""
    facts = {"pci": f"0000:{0x07 + 0x20 * index:02X}:00.0", "ecc": "on", "driver": "550.90.07"}
    made = {"throttle": (), "facts": facts, "name": "NVIDIA A100-SXM4-80GB"} | more
    return GpuSample(node, index, f"GPU-{node}-{index}", now, values=_CARD | values, **made)  # type: ignore[arg-type]


class Instrumented(Recording):
    """The recording with all its machines' instruments: what the logs tell now and then, they tell at every look.

    Args:
        only_here: Only the worker that trainmon runs on, as if it were a run of one node.
    """

    def __init__(self, folder: Path, *, only_here: bool = False) -> None:
        super().__init__(folder, (HERE,) if only_here else range(WORKERS))
        self._figures: dict[tuple[int, int], dict[str, float]] = {}
        self._chance = Random(11)

    def _append(self, lines: list[Moment]) -> list[SourceEvent]:
        for line in lines:
            who = _WHO.search(line.text)
            found = {name: float(value) for name, value in _FIGURE.findall(line.text)}
            if who is not None and "gpu_memory_mb" in found:
                self._figures[line.worker, int(who[2])] = found
        now = self.clock.now()
        samples: list[Sample] = []
        for (worker, index), figures in self._figures.items():
            samples.append(self._gpu(worker, index, figures, now))
        if self._figures:
            samples += [self._host(now), DriverSample(f"worker-{HERE}", now, "ok", driver="550.90.07", gpus=8)]
        return [*super()._append(lines), *([Telemetry(tuple(samples))] if samples else [])]

    def _gpu(self, worker: int, index: int, figures: dict[str, float], now: float) -> GpuSample:
        chance = self._chance
        link = 74.0 + chance.uniform(-1, 1)
        hot = figures.get("gpu_temperature_c", 60.0) >= 85.0
        values = figures | {
            "gpu_power_w": figures.get("gpu_power_w", 385.0) + chance.uniform(-4, 4),
            "nvlink_rx_gb_s": link, "nvlink_tx_gb_s": link, "sm_clock_mhz": 1230.0 if hot else 1410.0,
        }  # fmt: skip
        rank = 8 * worker + index
        process = GpuProcess(41_200 + rank, figures["gpu_memory_mb"] - 310, figures.get("gpu_utilization"), "maria",
                             "python train/sft.py --config qwen-7b-lora.yaml", rank=rank, local_rank=index)  # fmt: skip
        return gpu(f"worker-{worker}", index, now, values, origin="NVML" if worker == HERE else "agent",
                   throttle=("thermal (software)",) if hot else (), processes=(process,))  # fmt: skip

    def _host(self, now: float) -> HostSample:
        chance = self._chance
        values = {
            "cpus": 96.0, "cpu_percent": 58 + chance.uniform(-6, 6),
            "memory_used_mb": 412.0 * 1024, "memory_total_mb": 504.0 * 1024,
            "shm_used_mb": 11.2 * 1024, "shm_total_mb": 64.0 * 1024, "open_files": 3112.0, "open_files_limit": 65_536.0,
        }  # fmt: skip
        links = [
            LinkSample(
                f"mlx5_{n}", "infiniband", "active", 50_000.0, 38_000 + 400 * n + chance.uniform(-99, 99), 38_100.0
            )
            for n in range(4)
        ]
        volumes = (
            VolumeSample("/runs", "logs", "nfs4", 22_000_000.0, 30_000_000.0),
            VolumeSample("/", "working folder", "ext4", 61_000.0, 102_000.0),
        )
        return HostSample(
            f"worker-{HERE}", now, values=values, scope="container",
            disks=(DiskSample("nvme0n1", 30 + chance.uniform(-8, 8), 380.0, 12.0, 0.4, 0.6, 1.2),),
            volumes=volumes,
            links=(*links, LinkSample("eth0", "ethernet", "up", 3125.0, 14.0, 11.0)),
        )  # fmt: skip


def every_state() -> Session:
    """One machine, a GPU in each state, and nothing else."""
    clock = ManualClock(START)
    session = Session(["nothing.log"], Settings(), clock=clock)
    chance = Random(5)
    node = "node-7"
    for second in range(60):
        now = clock.now()
        samples: list[Sample] = [DriverSample(node, now, "ok", driver="550.90.07", gpus=8)]
        for index in range(8):
            if index == 6 and second > 20:
                continue  # its figures have stopped
            values = {
                "gpu_utilization": 97 + chance.uniform(-2, 2), "gpu_memory_mb": 68_000.0 + 40 * index,
                "gpu_temperature_c": 66.0 + index % 3, "gpu_power_w": 380 + chance.uniform(-9, 9),
                "nvlink_rx_gb_s": 74.0, "nvlink_tx_gb_s": 74.0,
            }  # fmt: skip
            if index == 2:
                values |= {"gpu_temperature_c": 87.0, "sm_clock_mhz": 1230.0}
            rank = index if index != 7 else None
            process = GpuProcess(
                900 + index, 67_000.0, 97.0, "maria" if index != 7 else "wei", "python train.py", rank=rank
            )
            more: dict[str, object] = {"processes": (process,)}
            if index == 2:
                more["throttle"] = ("thermal (hardware)",)
            if index == 3 and second > 30:
                more = {"state": "lost", "since": START + 31, "events": (GpuEvent(79, now),) if second == 31 else ()}
                values = {}
            if index == 4 and second > 40:
                more, values = {"state": "not responding", "since": START + 41}, {}
            if index == 5:
                more, values = {"state": "no permission"}, {}
            samples.append(gpu(node, index, now, values, **more))
        session.pump([Telemetry(tuple(samples))])
        clock.advance(1.0)
    return session
