"""The run's machines, GPU by GPU and host by host.

Fed by the engine only; the detectors of GPUs and hosts read from here. What is foreign (other people's GPUs, machines
that are not the run's) is left out. Moments in `heard` are on the scale of `Detector.observe`'s `at`; all other times
are those of the samples.
"""

from __future__ import annotations

from collections.abc import Iterator

from trainmon.diagnosis.machine import FRESH_S, Gpu, Host, gpu_key
from trainmon.diagnosis.words import number
from trainmon.model import Record
from trainmon.samples import DriverSample, GpuSample, HostSample
from trainmon.series.robust import median

MOST_GPUS = 8192
MOST_NODES = 2048


class Fleet:
    """See the module's docstring."""

    def __init__(self) -> None:
        self._gpus: dict[str, Gpu] = {}
        self._of: dict[str, dict[str, Gpu]] = {}
        self._in: dict[str, dict[str, Gpu]] = {}
        self.hosts: dict[str, Host] = {}
        self.dropped: list[str] = []
        """GPUs that had to make room; what detectors remember of them is to go, too."""
        self.gpu: Gpu | None = None
        """The one that the last sample was about."""
        self.host: Host | None = None
        """The same."""
        self._reasons: dict[str, dict[str, str]] = {}

    def take(
        self, sample: GpuSample | HostSample | DriverSample, node: str, at: float, live: bool
    ) -> Gpu | Host | None:
        """Merge a sample.

        Returns:
            What it was about; None when it says nothing new (it came late, or is a whole driver's).
        """
        self.gpu = self.host = None
        if isinstance(sample, HostSample):
            host = self.hosts.get(node)
            if host is None:
                if len(self.hosts) >= MOST_NODES:
                    return None
                host = self.hosts[node] = Host(node)
            if not host.take(sample):
                return None
            host.heard, host.live = at, live
            self.host = host
            return host
        if not isinstance(sample, GpuSample):
            return None
        gpu = self._find(sample, node, at)
        if gpu is None or not gpu.take(sample):
            return None
        gpu.heard, gpu.live = at, live
        self.gpu = gpu
        return gpu

    def _find(self, sample: GpuSample, node: str, at: float) -> Gpu | None:
        key = gpu_key(sample, node)
        gpu = self._gpus.get(key)
        if gpu is not None and gpu.node != node:
            self.forget(key)  # its machine was recognised as a node of the run
            self.dropped.append(key)
            gpu = None
        if gpu is None:
            if not sample.uuid and any(
                g.index == sample.index and at - g.heard < 60.0 for g in self.of(node) if g.key != key
            ):
                return None  # text in a log about a GPU whose own instruments speak
            if len(self._gpus) >= MOST_GPUS:
                oldest = min(self._gpus.values(), key=lambda g: g.heard).key
                self.forget(oldest)
                self.dropped.append(oldest)
            gpu = self._gpus[key] = Gpu(node, sample)
            self._of.setdefault(node, {})[key] = gpu
            self._in.setdefault(gpu.machine, {})[key] = gpu
        return gpu

    def forget(self, key: str) -> None:
        """That GPU or machine is not the run's (any more)."""
        gpu = self._gpus.pop(key, None)
        self.hosts.pop(key, None)
        if gpu is not None:
            for index, name in ((self._of, gpu.node), (self._in, gpu.machine)):
                mates = index.get(name, {})
                mates.pop(key, None)
                if not mates:
                    index.pop(name, None)

    def of(self, node: str) -> list[Gpu]:
        """The GPUs of a node."""
        found = self._of.get(node)
        return list(found.values()) if found else []

    def slowed(self, node: str, key: str, reason: str = "") -> None:
        """Something that makes a node slow, by the key of its incident; without a reason it is over."""
        if reason:
            self._reasons.setdefault(node, {})[key] = reason
        elif node in self._reasons:
            self._reasons[node].pop(key, None)
            if not self._reasons[node]:
                del self._reasons[node]

    def reason(self, node: str) -> str:
        """Why a node is slow, as its instruments tell: "gpu6: 3 of 18 NVLinks down"; "" when they do not."""
        found = self._reasons.get(node)
        return next(iter(found.values())) if found else ""

    def waits(self, node: str, record: Record) -> None:
        """Learn from a log's record which share of its steps a node waits for data."""
        data, step = number(record.values.get("data_time_s")), number(record.values.get("step_time_s"))
        if data is None or step is None or not 0.0 <= data <= step or step <= 0.0:
            return
        host = self.hosts[node]
        share = data / step
        host.data_share = share if host.data_share is None else 0.8 * host.data_share + 0.2 * share

    def __iter__(self) -> Iterator[Gpu]:
        return iter(self._gpus.values())

    def known(self, key: str) -> bool:
        """Whether that GPU is still the run's."""
        return key in self._gpus

    def others(self, gpu: Gpu) -> list[Gpu]:
        """The run's other GPUs of the same kind of which something was heard at about the same time."""
        return [
            other
            for other in self._gpus.values()
            if other is not gpu
            and abs(other.heard - gpu.heard) <= FRESH_S
            and other.name == gpu.name
            and bool(other.parent) == bool(gpu.parent)
        ]

    def siblings(self, gpu: Gpu) -> list[Gpu]:
        """The same, of its own machine."""
        return [
            other
            for other in self._in.get(gpu.machine, {}).values()
            if other is not gpu and other.name == gpu.name and bool(other.parent) == bool(gpu.parent)
        ]

    def util(self, node: str) -> float | None:
        """Median utilisation of a node's GPUs in percent, of those that have just been heard of."""
        gpus = self._of.get(node)
        if not gpus:
            return None
        newest = max(g.heard for g in gpus.values())
        utils = [
            g.values["gpu_utilization"]
            for g in gpus.values()
            if newest - g.heard <= FRESH_S and g.age("gpu_utilization") <= FRESH_S
        ]
        return median(utils) if utils else None
