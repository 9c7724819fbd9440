"""The machines as their instruments show them: partial samples merged metric by metric, each with its own time.

Fed by the engine only; the detectors of GPUs and hosts read from here. What is foreign (other people's GPUs, machines
that are not the run's) is left out. Moments in `heard` are on the scale of `Detector.observe`'s `at`; all other times
are those of the samples.
"""

from __future__ import annotations

from collections.abc import Iterator

from trainmon.diagnosis.level import BACK_S
from trainmon.diagnosis.words import number
from trainmon.model import Record
from trainmon.samples import (
    DiskSample,
    DriverSample,
    GpuProcess,
    GpuSample,
    HostSample,
    LinkSample,
    VolumeSample,
)
from trainmon.series.robust import median

FRESH_S = 15.0
"""A GPU that was heard of longer ago is not compared with others."""
BUSY_PERCENT = 50.0
CONTEXT_MB, UNTOLD_MB = 100.0, 1024.0
MOST_GPUS = 8192
MOST_NODES = 2048
RING = 40
HEAT = frozenset(("thermal (software)", "thermal (hardware)"))
BRAKE = "power brake"
SLOW = HEAT | {BRAKE, "hardware slowdown"}
"""Reasons for a low clock that are no one's wish; the power cap and idleness are normal."""
_USUAL_EVERY_S = 5.0
_USUAL = 60


class Usual:
    """What a reading is as a rule: the median of readings at least five seconds apart, of the last minutes."""

    __slots__ = ("_at", "_known", "values")

    def __init__(self) -> None:
        self.values: list[float] = []
        self._at = float("-inf")
        self._known: float | None = None

    def take(self, value: float, time: float) -> None:
        """A reading of a time at which all is well."""
        if -BACK_S <= time - self._at < _USUAL_EVERY_S:
            return
        self._at = time
        self.values.append(value)
        if len(self.values) > _USUAL:
            del self.values[0]
        self._known = None

    @property
    def seconds(self) -> float:
        """For how long it has been learned from."""
        return _USUAL_EVERY_S * len(self.values)

    @property
    def value(self) -> float | None:
        """None before a minute has been seen."""
        if self._known is None and self.seconds >= 60.0:
            self._known = median(self.values)
        return self._known


class Gpu:
    """One GPU or MIG instance of the run.

    Attributes:
        values, times: Newest value of each metric, and when it was read.
        readings: (time, utilisation, watts, MHz, whether it was slowed against its wish) of the last ones; NaN: not
            known.
        busy_s: Seconds of work seen in the life of its present processes.
        began: When its present processes were first seen to begin; None: they were there before we looked.
        busy_power: What it draws while it works; kept by `spin.py`, which tells work from waiting.
    """

    __slots__ = (
        "began", "busy_clock", "busy_power", "busy_s", "facts", "first", "fresh_pids", "heard", "index", "instance",
        "key", "label", "live", "machine", "name", "node", "parent", "pids", "processes", "rank", "readings",
        "sentence", "state", "state_since", "throttle", "throttle_at", "time", "times", "usual_util", "values",
    )  # fmt: skip

    def __init__(self, node: str, sample: GpuSample) -> None:
        self.node = node
        self.machine = sample.node
        self.index = sample.index
        self.instance = sample.instance
        self.parent = sample.parent
        self.key = sample.uuid or f"{node}:{sample.index}:{sample.instance}"
        number = "" if sample.index is None else str(sample.index)
        self.label = f"gpu{number}" + (f":{sample.instance.partition('/')[0]}" if sample.instance else "")
        self.name = ""
        self.values: dict[str, float] = {}
        self.times: dict[str, float] = {}
        self.facts: dict[str, str] = {}
        self.first = self.time = sample.time
        self.heard = float("-inf")
        self.live = False
        self.state = "ok"
        self.state_since = sample.time
        self.sentence = ""
        self.throttle: tuple[str, ...] = ()
        self.throttle_at = float("-inf")
        self.processes: tuple[GpuProcess, ...] | None = None
        self.pids: frozenset[int] = frozenset()
        self.fresh_pids = False  # the processes of this sample are not those of before
        self.rank: int | None = None
        self.began: float | None = None
        self.busy_s = 0.0
        self.readings: list[tuple[float, float, float, float, bool]] = []
        self.busy_clock = Usual()
        self.busy_power = Usual()
        self.usual_util = Usual()

    @property
    def who(self) -> str:
        """ "worker-2 gpu3"."""
        return f"{self.node} {self.label}"

    def now(self, metric: str) -> float | None:
        """The metric's value when it came with the newest sample, else None: nothing is judged by what is stale."""
        return self.values[metric] if self.times.get(metric) == self.time else None

    def recent(self, metric: str, within: float = FRESH_S) -> float | None:
        """The metric's newest value when it was read within so many seconds of the newest sample."""
        when = self.times.get(metric)
        return self.values[metric] if when is not None and self.time - when <= within else None

    def age(self, metric: str) -> float:
        """Seconds from the metric's newest reading to the newest sample; inf when there is none."""
        return self.time - self.times.get(metric, float("-inf"))

    @property
    def occupied(self) -> bool:
        """Whether a process computes on it, as far as the driver tells; else by its memory.

        Processes are listed more rarely than memory is read: where less is used than a CUDA context takes, it is gone.
        Inside a container the list may be empty whatever runs.
        """
        used = self.values.get("gpu_memory_mb")
        if used is not None and used < CONTEXT_MB and not self.parent:
            return False
        if self.processes:
            return any(p.kind != "G" for p in self.processes)
        return used >= UNTOLD_MB if used is not None else self.processes is None

    def take(self, sample: GpuSample) -> bool:
        """Merge a sample; False for one that came late."""
        time = sample.time
        back = self.time - time
        if back > BACK_S:  # its clock was set: what was timed does not go on
            self.readings.clear()
            self.times = dict.fromkeys(self.times, float("-inf"))
            self.first = min(self.first, time)
        elif back > 0.0:
            return False
        since = min(max(0.0, time - self.time), 10.0)
        self.time = time
        if sample.name:
            self.name = sample.name
        if sample.facts:
            self.facts.update(sample.facts)
        if sample.state != self.state:
            self.state, self.state_since = sample.state, sample.since if sample.since is not None else time
        self.sentence = sample.sentence
        for metric, value in sample.values.items():
            self.values[metric] = value
            self.times[metric] = time
        for metric, why in sample.missing.items():
            if why:
                self.values.pop(metric, None)
                self.times.pop(metric, None)
        if sample.throttle is not None:
            self.throttle, self.throttle_at = sample.throttle, time
        self.fresh_pids = False
        if sample.processes is not None:
            self._take_processes(sample)
        values = sample.values
        util, clock = values.get("gpu_utilization"), values.get("sm_clock_mhz")
        if util is not None or clock is not None:
            self._reading(util, values.get("gpu_power_w"), clock, sample.throttle is not None, since)
        return True

    def _take_processes(self, sample: GpuSample) -> None:
        assert sample.processes is not None
        pids = frozenset(p.pid for p in sample.processes if p.kind != "G")
        if pids and not pids & self.pids and (self.pids or self.processes is not None):
            self.fresh_pids = True
            self.began = sample.time
            self.busy_s = 0.0
        if pids or not self.pids:
            self.pids = pids
        self.processes = sample.processes
        self.rank = next((p.rank for p in sample.processes if p.rank is not None), self.rank)

    def _reading(self, util: float | None, power: float | None, clock: float | None, told: bool, since: float) -> None:
        nan = float("nan")
        slow = told and any(reason in SLOW for reason in self.throttle)
        reading = (
            self.time,
            nan if util is None else util,
            nan if power is None else power,
            nan if clock is None else clock,
            slow,
        )
        self.readings.append(reading)
        if len(self.readings) > 2 * RING:
            del self.readings[:RING]
        if util is not None and util >= BUSY_PERCENT:
            self.busy_s += since
            self.usual_util.take(util, self.time)
            if clock is not None and not slow:
                self.busy_clock.take(clock, self.time)


class Host:
    """One machine of the run; see `Gpu`."""

    __slots__ = (
        "data_share", "disks", "elsewhere", "heard", "key", "label", "links", "live", "node", "scope", "time", "times",
        "values", "volumes",
    )  # fmt: skip

    def __init__(self, node: str) -> None:
        self.node = self.key = node
        self.label = ""
        self.values: dict[str, float] = {}
        self.times: dict[str, float] = {}
        self.scope = "host"
        self.time = float("-inf")
        self.heard = float("-inf")
        self.live = False
        self.disks: tuple[DiskSample, ...] | None = None
        self.volumes: tuple[VolumeSample, ...] | None = None
        self.links: tuple[LinkSample, ...] | None = None
        self.elsewhere = False
        """It only watches: the run is on other machines."""
        self.data_share: float | None = None
        """Share of the step in which it waits for data, as its log tells."""

    @property
    def who(self) -> str:
        return self.node

    def now(self, metric: str) -> float | None:
        """See `Gpu.now`."""
        return self.values[metric] if self.times.get(metric) == self.time else None

    def take(self, sample: HostSample) -> bool:
        """Merge a sample; False for one that came late. `disks` and so on are those of this sample alone."""
        back = self.time - sample.time
        if 0.0 < back <= BACK_S:
            return False
        if back > BACK_S:
            self.times = dict.fromkeys(self.times, float("-inf"))
        self.time = sample.time
        self.scope = sample.scope
        for metric, value in sample.values.items():
            self.values[metric] = value
            self.times[metric] = sample.time
        self.disks, self.volumes, self.links = sample.disks, sample.volumes, sample.links
        return True


class Fleet:
    """See the module's docstring."""

    def __init__(self) -> None:
        self._gpus: dict[str, Gpu] = {}
        self._of: dict[str, dict[str, Gpu]] = {}
        self._in: dict[str, dict[str, Gpu]] = {}
        self.hosts: dict[str, Host] = {}
        self.gpu: Gpu | None = None
        """The one that the last sample was about."""
        self.host: Host | None = None
        """The same."""
        self.reasons: dict[str, str] = {}
        """Why a node is slow, by node: said by the detectors of GPUs, for whoever finds that it is slow."""

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
        key = sample.uuid or f"{node}:{sample.index}:{sample.instance}"
        gpu = self._gpus.get(key)
        if gpu is not None and gpu.node != node:
            self.forget(key)  # its machine was recognised as a node of the run
            gpu = None
        if gpu is None:
            if not sample.uuid and any(
                g.index == sample.index and at - g.heard < 60.0 for g in self.of(node) if g.key != key
            ):
                return None  # text in a log about a GPU whose own instruments speak
            if len(self._gpus) >= MOST_GPUS:
                self.forget(min(self._gpus.values(), key=lambda g: g.heard).key)
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
