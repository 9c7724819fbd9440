"""A GPU and a host as their instruments show them: partial samples merged metric by metric, each with its own time."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right

from trainmon.diagnosis.level import BACK_S
from trainmon.samples import HOST_METRICS, DiskSample, GpuProcess, GpuSample, HostSample, LinkSample, VolumeSample
from trainmon.series.robust import median

FRESH_S = 15.0
"""A GPU that was heard of longer ago is not compared with others."""
BUSY_PERCENT = 50.0
CONTEXT_MB, UNTOLD_MB = 100.0, 1024.0
"""Less is used than a CUDA context takes: nobody computes; more than this: somebody does, listed or not."""
MOST_FACTS = 32
RING = 40
MOST_FACTS = 64
HEAT = frozenset(("thermal (software)", "thermal (hardware)"))
BRAKE = "power brake"
SLOW = HEAT | {BRAKE, "hardware slowdown"}
"""Reasons for a low clock that are no one's wish; the power cap and idleness are normal."""
_KEPT = frozenset(
    (
        "gpu_utilization", "memory_utilization", "gpu_temperature_c", "slowdown_temperature_c", "gpu_power_w",
        "power_limit_w", "power_limit_default_w", "sm_clock_mhz", "sm_clock_max_mhz", "gpu_memory_mb",
        "gpu_memory_total_mb", "memory_free_mb", "pcie_gen", "pcie_gen_max", "pcie_width", "pcie_width_max",
        "pcie_replays", "nvlinks_up", "nvlinks", "nvlink_errors", "ecc_uncorrected", "ecc_uncorrected_total",
        "remap_pending", "remap_failed", "retired_pending", "fabric_ok", "recovery_action",
    )
)  # fmt: skip
"""Metrics that a rule asks for."""
_USUAL_EVERY_S = 5.0
_USUAL = 60


def gpu_key(sample: GpuSample, node: str) -> str:
    """The same for all samples that a machine gives of a GPU, whichever node it is taken for.

    A GPU of which two machines tell (this one, and an agent in a container of another name) is two: where one of them
    is none of the run's, it may not take the other's alarms with it.
    """
    return f"{sample.node}|{sample.uuid}" if sample.uuid else f"{node}:{sample.index}:{sample.instance}"


class Usual:
    """What a reading is as a rule: the median of readings at least five seconds apart, of the last minutes."""

    __slots__ = ("_at", "_known", "values")

    def __init__(self) -> None:
        self.values = array("d")
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


class Readings:
    """The last readings of a GPU: when, % busy, MHz (NaN: not read), and whether it was slowed against its wish."""

    __slots__ = ("clock", "slow", "time", "util")

    def __init__(self) -> None:
        self.time, self.util, self.clock = array("d"), array("d"), array("d")
        self.slow = bytearray()

    def add(self, time: float, util: float | None, clock: float | None, slow: bool) -> None:
        """Take a reading; of more than 80 the oldest go."""
        self.time.append(time)
        self.util.append(math.nan if util is None else util)
        self.clock.append(math.nan if clock is None else clock)
        self.slow.append(slow)
        if len(self.time) > 2 * RING:
            for column in (self.time, self.util, self.clock, self.slow):
                del column[:RING]

    def clear(self) -> None:
        """What was timed does not go on."""
        for column in (self.time, self.util, self.clock, self.slow):
            del column[:]

    def since(self, moment: float) -> range:
        """Places of the readings after a moment."""
        return range(bisect_right(self.time, moment), len(self.time))


class Gpu:
    """One GPU or MIG instance of the run.

    Attributes:
        values, times: Newest value of each metric, and when it was read.
        readings: The last ones, a minute or so.
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
        self.key = gpu_key(sample, node)
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
        self.readings = Readings()
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
            self.facts = dict([*(self.facts | dict(sample.facts)).items()][:MOST_FACTS])
        if sample.state != self.state:
            self.state, self.state_since = sample.state, sample.since if sample.since is not None else time
        self.sentence = sample.sentence
        for metric, value in sample.values.items():
            if metric in _KEPT:
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
            self._reading(util, clock, sample.throttle is not None, since)
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

    def _reading(self, util: float | None, clock: float | None, told: bool, since: float) -> None:
        slow = told and any(reason in SLOW for reason in self.throttle)
        self.readings.add(self.time, util, clock, slow)
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
            if metric in HOST_METRICS:
                self.values[metric] = value
                self.times[metric] = sample.time
        self.disks, self.volumes, self.links = sample.disks, sample.volumes, sample.links
        return True
