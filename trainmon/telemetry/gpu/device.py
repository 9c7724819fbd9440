"""One GPU (or MIG instance) as the worker knows it, and one reading of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from trainmon.samples import GpuEvent, GpuProcess, GpuSample, GpuState
from trainmon.telemetry.gpu import nvml as codes
from trainmon.telemetry.gpu import sentences
from trainmon.telemetry.gpu.nvml import Nvml, Refused
from trainmon.telemetry.gpu.standing import Standing

Group = Literal["fast", "slow", "rare"]
XID_MEMORY_S = 300.0
"""A state that follows an Xid within this time is told with it."""

_BOUNDS: Mapping[str, tuple[float, float]] = {
    "gpu_utilization": (0, 100),
    "memory_utilization": (0, 100),
    "gpu_temperature_c": (0, 150),
    "memory_temperature_c": (1, 150),
    "slowdown_temperature_c": (30, 150),
    "shutdown_temperature_c": (30, 150),
    "gpu_power_w": (0.5, 10_000),
    "power_limit_w": (1, 10_000),
    "gpu_memory_total_mb": (1, 2**26),
    "sm_clock_mhz": (0, 20_000),
    "sm_clock_max_mhz": (1, 20_000),
    "mem_clock_mhz": (0, 50_000),
    "fan_percent": (0, 200),
    "pcie_rx_mb_s": (0, 1e6),
    "pcie_tx_mb_s": (0, 1e6),
    "pcie_gen": (1, 10),
    "pcie_gen_max": (1, 10),
    "pcie_width": (1, 64),
    "pcie_width_max": (1, 64),
    "nvlink_rx_gb_s": (0, 1e5),
    "nvlink_tx_gb_s": (0, 1e5),
    "nvlinks": (1, 256),
    "sm_active_percent": (0, 100),
    "tensor_active_percent": (0, 100),
    "dram_active_percent": (0, 100),
    "recovery_action": (0, 100),
}
"""What a figure can be at all; outside of it the driver is wrong (a working board never draws 0 W)."""
_SLACK = 1.05
"""Percentages up to 105 are rounding: cut to 100."""
_MOST = float(2**62)


class DriverGone(Exception):
    """The driver as a whole no longer answers; the code says why."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class DeviceGone(Exception):
    """This GPU answers nothing any more."""

    def __init__(self, state: GpuState, code: int) -> None:
        super().__init__(state, code)
        self.state: GpuState = state
        self.code = code


@dataclass(slots=True)
class Draft:
    """What one pass read of a GPU."""

    values: dict[str, float] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    throttle: tuple[str, ...] | None = None
    processes: tuple[GpuProcess, ...] | None = None

    def put(self, metric: str, value: float) -> None:
        """Take a figure, unless it cannot be."""
        low, high = _BOUNDS.get(metric, (0, _MOST))
        if high == 100 and high < value <= high * _SLACK:
            value = high
        if low <= value <= high:
            self.values[metric] = round(value, 3)
        else:
            self.refused[metric] = f"refused: the driver said {value:.6g}"


@dataclass(frozen=True, slots=True)
class Reading:
    """One question to a GPU.

    Attributes:
        key: Its name in the table.
        group: How often it is asked.
        metrics: What it answers; all of them are missing when it is refused.
        read: Asks, and puts what it hears into the draft.
        whole: Only of a whole GPU, not of a MIG instance.
    """

    key: str
    group: Group
    metrics: tuple[str, ...]
    read: Callable[[Nvml, Device, Draft], None]
    whole: bool = True


class Device:
    """A GPU.

    Args:
        index: NVML's number; of a MIG instance that of its GPU.
        parent: The GPU of a MIG instance.
    """

    def __init__(self, index: int, parent: Device | None = None) -> None:
        self.index = index
        self.parent = parent
        self.handle: Any = None
        self.uuid = ""
        self.name = ""
        self.profile = ""
        self.instance = ""
        self.mig = False
        self.vgpu = False
        self.facts: dict[str, str] = {}
        self.instances: list[Device] = []
        self.state: GpuState = "ok"
        self.code = 0
        self.since: float | None = None
        self.again = 0.0
        self.pause = 0.0
        self.missing: dict[str, str] = {}
        self.told: dict[str, str] = {}
        self.events: list[GpuEvent] = []
        self.xid: tuple[int, float] | None = None
        self.slow_at = 0.0
        self.rare_at = 0.0
        self.counters: dict[str, tuple[float, float]] = {}
        self.forms: dict[str, Any] = {}
        """Which of several ways of asking this board answers to, and buffers that are used again."""
        self.answered = self.refusals = 0
        self._standings: dict[str, Standing] = {}

    def standing(self, key: str) -> Standing:
        """How a reading stands."""
        found = self._standings.get(key)
        if found is None:
            found = self._standings[key] = Standing()
        return found

    def forgive(self) -> None:
        """Let everything that only fails be asked again at once."""
        for standing in self._standings.values():
            standing.hurry()

    def forget(self) -> None:
        """Know nothing of it any more: it comes back from a reset."""
        self._standings.clear()
        self.forms.clear()
        self.counters.clear()
        self.missing.clear()
        self.instances.clear()
        self.handle = None
        self.slow_at = self.rare_at = 0.0

    def why(self, metric: str) -> str:
        """The reason to give for what is not supported."""
        if (self.mig or self.parent is not None) and metric in ("gpu_utilization", "memory_utilization"):
            return "n/a under MIG"
        if self.vgpu:
            return "n/a in a vGPU guest"
        return "not supported"

    def take(self, lib: Nvml, reading: Reading, draft: Draft, now: float) -> None:
        """Make one reading, if it is due.

        Raises:
            DriverGone, DeviceGone: When the refusal speaks of more than this metric.
        """
        standing = self.standing(reading.key)
        if not standing.due(now):
            return
        try:
            reading.read(lib, self, draft)
        except Refused as refused:
            self._refused(reading, standing, refused, now)
            return
        except (ValueError, OverflowError, TypeError, ArithmeticError, LookupError, AttributeError) as error:
            # Bad data of a driver, or a binding of another age: this metric's trouble alone.
            self._refused(reading, standing, Refused(codes.NO_CODE, type(error).__name__), now)
            return
        standing.ok()
        self.answered += 1
        for metric in reading.metrics:
            reason = draft.refused.get(metric)
            if reason is not None:
                self.missing[metric] = reason
            elif metric in draft.values or metric in ("throttle", "processes"):
                self.missing.pop(metric, None)

    def _refused(self, reading: Reading, standing: Standing, refused: Refused, now: float) -> None:
        if refused.code in codes.DRIVER_WIDE:
            raise DriverGone(refused.code)
        if refused.code == codes.GPU_IS_LOST:
            raise DeviceGone("lost", refused.code)
        if refused.code == codes.RESET_REQUIRED:
            raise DeviceGone("reset needed", refused.code)
        standing.refuse(refused.code, refused.text, now)
        if standing.reason != "not supported":
            self.refusals += 1
            self.code = refused.code
        for metric in reading.metrics:
            self.missing[metric] = self.why(metric) if standing.reason == "not supported" else standing.reason

    def fall(self, state: GpuState, code: int, wall: float, now: float, pauses: tuple[float, float]) -> None:
        """Note that the GPU as a whole is not well.

        Args:
            pauses: Seconds until it is asked again: the first time, and at most (doubling).
        """
        if self.state != state:
            self.since, self.pause = wall, pauses[0]
        self.state, self.code = state, code
        self.again = now + self.pause
        self.pause = min(self.pause * 2, pauses[1])

    def rise(self) -> None:
        """Note that it is well."""
        self.state, self.since, self.code = "ok", None, 0

    @property
    def sentence(self) -> str:
        """What its state means."""
        xid = self.xid[0] if self.xid is not None and (self.since or 0) - self.xid[1] < XID_MEMORY_S else None
        return sentences.gpu(self.state, self.index, code=self.code, xid=xid)

    def sample(self, node: str, wall: float, draft: Draft | None = None, full: bool = False) -> GpuSample:
        """The sample of what was read.

        Args:
            full: With name, facts and all that is missing: at first and with each rare group, for late joiners.
        """
        if full:
            missing = dict(self.missing)
        else:
            missing = {name: why for name, why in self.missing.items() if self.told.get(name) != why}
        missing.update((name, "") for name in self.told if name not in self.missing)
        self.told = dict(self.missing)
        events, self.events = tuple(self.events), []
        return GpuSample(
            node,
            self.index,
            self.uuid,
            round(wall, 3),
            state=self.state,
            since=self.since,
            sentence=self.sentence,
            name=self.name if full else "",
            values=draft.values if draft is not None else {},
            missing=missing,
            facts=dict(self.facts) if full else {},
            throttle=draft.throttle if draft is not None else None,
            processes=draft.processes if draft is not None else None,
            events=events,
            parent=self.parent.uuid if self.parent is not None else "",
            profile=self.profile,
            instance=self.instance,
        )
