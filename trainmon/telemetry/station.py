"""All instruments of this machine behind one switch: NVML through its watchdog, and the host."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from trainmon.clock import Clock
from trainmon.samples import GpuSample, Sample

if TYPE_CHECKING:
    from trainmon.telemetry.gpu.watch import GpuWatch
    from trainmon.telemetry.host.watch import HostWatch

Sink = Callable[[list[Sample]], object]


def _none() -> tuple[()]:
    return ()


class Station:
    """Joins the instruments. What they read goes to `sink`, from their own threads.

    Args:
        sink: Called with each round's samples.
        node: Name of this machine.
        gpu, host: Which instruments there are.
        gpu_interval_s, host_interval_s: Seconds between two rounds.
        folders: Names the folders whose file systems matter.
    """

    def __init__(
        self,
        sink: Sink,
        *,
        node: str,
        clock: Clock,
        gpu: bool = True,
        gpu_interval_s: float = 1.0,
        host: bool = True,
        host_interval_s: float = 2.0,
        folders: Callable[[], Sequence[str]] = _none,
    ) -> None:
        self._sink = sink
        self._pids: dict[str, tuple[int, ...]] = {}
        self._gpu: GpuWatch | None = None
        self._host: HostWatch | None = None
        if gpu:
            from trainmon.telemetry.gpu.watch import GpuWatch

            self._gpu = GpuWatch(self._from_gpus, node=node, clock=clock, interval_s=gpu_interval_s)
        if host:
            from trainmon.telemetry.host.watch import HostWatch

            self._host = HostWatch(
                sink, node=node, clock=clock, interval_s=host_interval_s, folders=folders, pids=self.pids
            )

    def start(self) -> None:
        """Begin to measure; returns at once."""
        for watch in (self._gpu, self._host):
            if watch is not None:
                watch.start()

    def stop(self) -> None:
        """End within half a second, whatever a driver or a file system does."""
        for watch in (self._gpu, self._host):
            if watch is not None:
                watch.stop()

    def release(self) -> None:
        """Let go of the GPUs, so that they can be reset or split."""
        if self._gpu is not None:
            self._gpu.release()

    def resume(self) -> None:
        """Take them again."""
        if self._gpu is not None:
            self._gpu.resume()

    def pids(self) -> Iterable[int]:
        """The processes of this user on the GPUs: the job whose files and limits the host's figures are about."""
        return sorted({pid for pids in self._pids.values() for pid in pids})

    def _from_gpus(self, samples: list[Sample]) -> None:
        for sample in samples:
            if isinstance(sample, GpuSample) and sample.processes is not None:
                self._pids[sample.uuid] = tuple(p.pid for p in sample.processes if p.here and _ours(p.pid))
        self._sink(samples)


def _ours(pid: int) -> bool:
    try:
        return os.stat(f"/proc/{pid}").st_uid == os.getuid()
    except OSError:
        return False
