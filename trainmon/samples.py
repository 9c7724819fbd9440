"""What telemetry says of a machine: samples of GPUs and of the host, and their form as plain JSON objects.

A sample is a *partial* update: it holds what was read at `time`, nothing else. Whoever keeps them merges metric by
metric and knows the age of each. The same objects come from NVML and /proc of this machine, from another node's agent
(JSON lines in a file) and from `nvidia-smi` or `iostat` text inside a log. Standard library only.

Metrics that cannot be had are absent from `values`; `missing` says why, in words. A number is never invented.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

Origin = Literal["NVML", "host", "agent", "log"]
"""NVML and host: of this machine, live. agent: lines that another node's agent wrote. log: text inside a log."""

GpuState = Literal["ok", "no permission", "lost", "reset needed", "not responding", "failing"]

DriverState = Literal[
    "starting", "ok", "no driver", "not loaded", "mismatch", "no permission", "no access", "not responding",
    "unsupported", "failing", "released",
]  # fmt: skip
"""Of a machine's NVML as a whole. "no driver": no library; "no access": a container lost its devices; "unsupported": an
accelerator of another maker; "released": let go at the user's wish."""

GPU_METRICS: Mapping[str, str] = {
    "gpu_utilization": "% of the last sample period in which a kernel ran",
    "gpu_memory_mb": "MiB in use as nvidia-smi counts it (without what the driver reserves, where it tells)",
    "gpu_memory_total_mb": "MiB",
    "memory_free_mb": "MiB",
    "memory_reserved_mb": "MiB that the driver keeps for itself",
    "memory_utilization": "% of time in which memory was read or written",
    "gpu_temperature_c": "°C",
    "memory_temperature_c": "°C",
    "slowdown_temperature_c": "°C at which the board slows down",
    "shutdown_temperature_c": "°C",
    "gpu_power_w": "W",
    "power_limit_w": "W, the limit in force",
    "sm_clock_mhz": "MHz",
    "sm_clock_max_mhz": "MHz",
    "mem_clock_mhz": "MHz",
    "fan_percent": "%",
    "pcie_rx_mb_s": "MB/s into the GPU",
    "pcie_tx_mb_s": "MB/s out of the GPU",
    "pcie_gen": "generation now",
    "pcie_gen_max": "generation at most",
    "pcie_width": "lanes now",
    "pcie_width_max": "lanes at most",
    "pcie_replays": "count since the driver was loaded",
    "nvlink_rx_gb_s": "GB/s over all links",
    "nvlink_tx_gb_s": "GB/s over all links",
    "nvlinks_up": "links that are up",
    "nvlinks": "links that the board has",
    "nvlink_errors": "replay, recovery and CRC errors, count",
    "ecc_corrected": "since the driver was loaded, count",
    "ecc_uncorrected": "since the driver was loaded, count",
    "ecc_uncorrected_total": "over the board's life, count",
    "remapped_corrected": "rows, count",
    "remapped_uncorrected": "rows, count",
    "remap_pending": "1: a row waits for a reset to be remapped",
    "remap_failed": "1: a row could not be remapped",
    "retired_pages": "count, boards before Ampere",
    "retired_pending": "1: a page waits for a reset to be retired",
    "sm_active_percent": "% of SMs with work (Hopper and later)",
    "tensor_active_percent": "%",
    "dram_active_percent": "%",
    "throttle_power_s": "seconds below the wanted clock for the power limit, counted by the driver",
    "throttle_thermal_s": "seconds below the wanted clock for heat, counted by the driver",
    "fabric_ok": "1: NVLink fabric is up, 0: it is not (boards with a switch only)",
    "recovery_action": "0 none, 1 reset the GPU, 2 reboot, 3 drain, 4 drain and reset",
}
"""Every GPU metric with its unit. Those of the record contract stand among a record's values, the rest in `extra`."""

HOST_METRICS: Mapping[str, str] = {
    "cpu_percent": "% of the processors that this container or machine may use",
    "cpus": "processors that may be used (quota and affinity taken in)",
    "cpu_throttled_percent": "% of scheduler periods in which the container's quota held it back",
    "load_1m": "processes that wanted to run, mean over a minute",
    "iowait_percent": "% of processor time spent waiting for disks",
    "memory_used_mb": "MiB in use, page cache not counted",
    "memory_total_mb": "MiB: the container's limit, else the machine's",
    "memory_available_mb": "MiB that can still be had",
    "memory_pressure_percent": "% of the last 10 s in which some task waited for memory",
    "swap_used_mb": "MiB",
    "oom_kills": "processes that the kernel killed for memory, count",
    "shm_used_mb": "MiB of /dev/shm",
    "shm_total_mb": "MiB of /dev/shm",
    "open_files": "descriptors open in the job's fullest process",
    "open_files_limit": "that process's own limit",
    "files_open_system": "descriptors open on the machine",
    "files_limit_system": "the machine's limit",
}
"""Every host metric with its unit."""

THROTTLE: Mapping[int, str] = {
    0x1: "idle",
    0x2: "clocks set by an application",
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "thermal (software)",
    0x40: "thermal (hardware)",
    0x80: "power brake",
    0x100: "clocks set by the display",
}
"""Bits of NVML's clock event reasons, in words."""


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process on a GPU.

    Attributes:
        pid: As NVML says it: the machine's number, which need not be ours (see `here`).
        memory_mb: MiB; None where the driver does not tell.
        sm_percent: % of the SMs' time, where the driver tells.
        kind: "C" compute, "G" graphics, "M" through MPS.
        rank, local_rank: Of the training, from its environment or its log.
        here: False: no such process in this process's namespace.
        instance: "gi/ci" of a MIG instance, else "".
        inner_pid: The number that its own container gives it, where that differs.
    """

    pid: int
    memory_mb: float | None = None
    sm_percent: float | None = None
    user: str = ""
    command: str = ""
    kind: str = "C"
    rank: int | None = None
    local_rank: int | None = None
    here: bool = True
    instance: str = ""
    inner_pid: int | None = None


@dataclass(frozen=True, slots=True)
class GpuEvent:
    """An Xid: its number, Unix time, and the process's MIG instance where it names one."""

    code: int
    time: float
    instance: str = ""


@dataclass(frozen=True, slots=True)
class GpuSample:
    """What was read of one GPU (or MIG instance) at `time`.

    Attributes:
        node: Machine that it is in. index: NVML's number there; a MIG instance has that of its GPU.
        uuid: The identity; "" only where text in a log gives none.
        time: Unix seconds.
        state: How the GPU answers. since: Unix time from which that state holds. sentence: what it means, what to do.
        values: Metric -> number, see `GPU_METRICS`. Only what was read now.
        missing: Metric -> why it cannot be had: "not supported", "n/a under MIG", "failing: Unknown Error".
            An empty reason: it can be had again.
        facts: "pci", "memory" (what "used" means: "unified with the host's"), "ecc" ("on", "off"), "driver", "brand",
            "mode" ("WSL2", "vGPU"), "serial".
        throttle: Reasons in force now, words of `THROTTLE`; None: not read now.
        processes: All of them; None: not read now.
        events: Xids since the last sample.
        parent: UUID of the GPU of a MIG instance. profile: "2g.20gb". instance: "gi/ci".
    """

    node: str
    index: int | None
    uuid: str
    time: float
    origin: Origin = "NVML"
    state: GpuState = "ok"
    since: float | None = None
    sentence: str = ""
    name: str = ""
    values: Mapping[str, float] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
    throttle: tuple[str, ...] | None = None
    processes: tuple[GpuProcess, ...] | None = None
    events: tuple[GpuEvent, ...] = ()
    parent: str = ""
    profile: str = ""
    instance: str = ""


@dataclass(frozen=True, slots=True)
class DriverSample:
    """How a machine's NVML stands as a whole.

    Attributes:
        sentence: For the screen: what is the matter and what to do; "" when all is well.
        since: Unix time from which the state holds.
        gpus: How many GPUs it counts, sick ones too; None: not known.
    """

    node: str
    time: float
    state: DriverState
    sentence: str = ""
    since: float | None = None
    driver: str = ""
    gpus: int | None = None
    origin: Origin = "NVML"


@dataclass(frozen=True, slots=True)
class DiskSample:
    """One whole disk over the last interval, as `iostat -x` counts. None: cannot be had.

    Attributes:
        util_percent: % of the time in which a request was outstanding (100 % is no saturation on NVMe).
        read_await_ms, write_await_ms: Mean time a request took. queue: mean number of requests outstanding.
    """

    name: str
    util_percent: float | None = None
    read_mb_s: float | None = None
    write_mb_s: float | None = None
    read_await_ms: float | None = None
    write_await_ms: float | None = None
    queue: float | None = None


@dataclass(frozen=True, slots=True)
class VolumeSample:
    """Room on a mounted file system.

    Attributes:
        path: Mount point. why: why it is looked at ("logs", "working folder", "temporary files", "shared memory").
        kind: "ext4", "nfs4", ...
        used_mb, total_mb: MiB; None while it does not answer, then `hangs` is True.
    """

    path: str
    why: str = ""
    kind: str = ""
    used_mb: float | None = None
    total_mb: float | None = None
    hangs: bool = False


@dataclass(frozen=True, slots=True)
class LinkSample:
    """A network interface or InfiniBand port over the last interval.

    Attributes:
        kind: "ethernet", "infiniband", "roce", "efa".
        state: "up", "down", or the port's own word in lower case ("active", "init").
        rate_mb_s: What it can carry in one direction, MB/s (10^6 bytes); None: it does not say.
        rx_mb_s, tx_mb_s: What it carried. errors: new since the last sample; downs: times it went down, count.
    """

    name: str
    kind: str = "ethernet"
    state: str = "up"
    rate_mb_s: float | None = None
    rx_mb_s: float | None = None
    tx_mb_s: float | None = None
    errors: int = 0
    downs: int = 0


@dataclass(frozen=True, slots=True)
class HostSample:
    """What was read of a machine at `time`.

    Attributes:
        values: Metric -> number, see `HOST_METRICS`. missing: metric -> why it cannot be had.
        scope: "container" when limits of a control group are in force, else "host".
        disks, volumes, links: All of them; None: not read now.
    """

    node: str
    time: float
    origin: Origin = "host"
    values: Mapping[str, float] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    scope: str = "host"
    disks: tuple[DiskSample, ...] | None = None
    volumes: tuple[VolumeSample, ...] | None = None
    links: tuple[LinkSample, ...] | None = None


Sample = GpuSample | HostSample | DriverSample

_KINDS: Mapping[str, type[Any]] = {"gpu": GpuSample, "host": HostSample, "driver": DriverSample}
_PARTS: Mapping[str, type[Any]] = {
    "processes": GpuProcess,
    "events": GpuEvent,
    "disks": DiskSample,
    "volumes": VolumeSample,
    "links": LinkSample,
}
KEY = "trainmon"
"""Key of the object's form and version: `{"trainmon": "gpu/1", ...}`; a reader passes over what it does not know."""


def kind_of(sample: Sample) -> str:
    """ "gpu", "host" or "driver"."""
    return "gpu" if isinstance(sample, GpuSample) else "host" if isinstance(sample, HostSample) else "driver"


def to_object(sample: Sample) -> dict[str, Any]:
    """A sample as a JSON object; what has its default is left out."""
    out: dict[str, Any] = {KEY: f"{kind_of(sample)}/1"}
    out.update(_plain(sample))
    return out


def _plain(thing: Any) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for one in fields(thing):
        value = getattr(thing, one.name)
        if value == one.default or (isinstance(value, Mapping) and not value):
            continue
        if isinstance(value, Mapping):
            value = {name: v for name, v in value.items() if not isinstance(v, float) or math.isfinite(v)}
        elif isinstance(value, tuple):
            value = [item if isinstance(item, str) else _plain(item) for item in value]
        elif isinstance(value, float) and not math.isfinite(value):
            continue
        out[one.name] = value
    return out


def from_object(found: Mapping[str, Any], origin: Origin | None = None) -> Sample | None:
    """The sample of a JSON object; None when it is none or its parts are of the wrong kinds.

    Unknown keys are passed over, so that newer agents can be read.

    Args:
        found: As a JSON decoder gives it.
        origin: Where it comes from, whatever the object says of that.
    """
    form = found.get(KEY)
    kind = _KINDS.get(form.partition("/")[0]) if isinstance(form, str) else None
    if kind is None:
        return None
    try:
        return _made(kind, found, origin)  # type: ignore[no-any-return]
    except (TypeError, ValueError):
        return None


def _made(kind: type[Any], found: Any, origin: Origin | None = None) -> Any:
    if not isinstance(found, dict):
        raise TypeError("not an object")
    rules = _RULES[kind]
    given: dict[str, Any] = {}
    for name, value in found.items():
        rule = rules.get(name)
        if rule is None:
            continue
        types, read = rule
        if type(value) not in types:
            raise TypeError(f"{name} cannot be of {type(value)}")
        given[name] = value if read is None or value is None else read(value)
    if origin is not None:
        given["origin"] = origin
    return kind(**given)


def _finite(value: float) -> float:
    if not -_MOST <= value <= _MOST:
        raise ValueError("no number that a machine can have")
    return value


def _numbers(value: dict[Any, Any]) -> dict[str, float]:
    return {name: float(v) for name, v in value.items() if type(v) in (float, int) and -_MOST <= v <= _MOST}


def _rule(name: str, wanted: str) -> tuple[tuple[type[Any], ...], Callable[[Any], Any] | None]:
    """Which JSON types a field may have, and what is made of them: looked at once, not for each line."""
    nothing: tuple[type[Any], ...] = (type(None),) if "None" in wanted else ()
    part = _PARTS.get(name)
    if part is not None:
        return (list, *nothing), lambda value: tuple([_made(part, item) for item in value])
    if name == "throttle":
        return (list, *nothing), lambda value: tuple([str(item) for item in value])
    if name == "values":
        return (dict,), _numbers
    if name in ("missing", "facts"):
        return (dict,), lambda value: {key: str(v) for key, v in value.items()}
    if wanted.startswith("bool"):
        return (bool, *nothing), None
    if wanted.startswith(("int", "float")):
        return (int, *nothing) if wanted[0] == "i" else (float, int, *nothing), _finite
    return (str, *nothing), None


_MOST = 1e18
_RULES = {
    kind: {one.name: _rule(one.name, str(one.type)) for one in fields(kind)}
    for kind in (*_KINDS.values(), *_PARTS.values())
}
