"""What is asked of a GPU, and how often: the table, and the questions that are one call each."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from trainmon.samples import THROTTLE
from trainmon.telemetry.gpu import fields, gpm, surroundings
from trainmon.telemetry.gpu import nvml as codes
from trainmon.telemetry.gpu.device import Device, Draft, Reading
from trainmon.telemetry.gpu.nvml import Nvml, Refused
from trainmon.telemetry.gpu.processes import Processes

SLOW_S = 5.0
RARE_S = 60.0
"""Seconds between two slow and two rare turns of a GPU; the fast group is asked at the interval."""
THROUGHPUT_S = 10.0
"""Seconds between two measurements of PCIe traffic by the driver, of one GPU each: it takes 20 ms a direction."""

_MIB = 2**20
_SM, _MEM = 1, 2
_SHUTDOWN, _SLOWDOWN = 0, 1
_SLOWDOWN_MARGIN = 194
_UNIFIED = ("GB10", "ORIN", "THOR", "TEGRA", "XAVIER", "NVGPU")
"""Boards whose memory is the host's: some drivers answer with the system's figures instead of refusing."""
_RACK = ("GB200", "GB300")
"""Boards whose NVLink reaches over several machines: there a cluster UUID of zeros means that it does not work.
Eight-GPU boards with a switch are well with zeros."""


def _utilization(lib: Nvml, device: Device, draft: Draft) -> None:
    found = lib.ask("nvmlDeviceGetUtilizationRates", device.handle, device=device.index)
    draft.put("gpu_utilization", found.gpu)
    draft.put("memory_utilization", found.memory)


def _memory(lib: Nvml, device: Device, draft: Draft) -> None:
    """Version 2 lists the driver's own reserve apart, as nvidia-smi does; version 1 counts it as used."""
    form = device.forms.get("memory")
    if form == 0:
        _take_host_memory(device, draft)
        return
    if form != 1:
        try:
            found = lib.ask(
                "nvmlDeviceGetMemoryInfo", device.handle, device=device.index, version=lib.binding.nvmlMemory_v2
            )
        except Refused as refused:
            if form == 2 or refused.code in codes.DRIVER_WIDE or refused.code == codes.GPU_IS_LOST:
                raise
        else:
            device.forms["memory"] = 2
            _take_memory(device, draft, found.total, found.used, found.free, found.reserved)
            return
    try:
        found = lib.ask("nvmlDeviceGetMemoryInfo", device.handle, device=device.index)
    except Refused as refused:
        if refused.code != codes.NOT_SUPPORTED or device.parent is not None or device.vgpu or form == 1:
            raise
        _take_host_memory(device, draft)
        return
    device.forms["memory"] = 1
    _take_memory(device, draft, found.total, found.used, found.free, None)


def _take_memory(device: Device, draft: Draft, total: int, used: int, free: int, reserved: int | None) -> None:
    if used > total or free > total or used + free > total * 1.001:
        reason = f"refused: the driver said {used / _MIB:.0f} MiB used, {free / _MIB:.0f} free of {total / _MIB:.0f}"
        for metric in ("gpu_memory_mb", "memory_free_mb", "memory_reserved_mb"):
            draft.refused[metric] = reason
        draft.put("gpu_memory_total_mb", total / _MIB)
        return
    if any(word in device.name.upper() for word in _UNIFIED):
        device.facts["memory"] = "unified with the host's"
    elif reserved is None:
        device.facts["memory"] = "with what the driver reserves"
    else:
        device.facts["memory"] = "without what the driver reserves"
    device.forms["total_mb"] = total / _MIB
    draft.put("gpu_memory_mb", used / _MIB)
    draft.put("gpu_memory_total_mb", total / _MIB)
    draft.put("memory_free_mb", free / _MIB)
    if reserved is not None:
        draft.put("memory_reserved_mb", reserved / _MIB)
    else:
        draft.refused["memory_reserved_mb"] = "not told apart from what is used"


def _take_host_memory(device: Device, draft: Draft) -> None:
    found = surroundings.host_memory_mb(device.forms.get("root", "/"))
    if found is None:
        raise Refused(codes.NOT_SUPPORTED)
    total, available = found
    device.forms["memory"] = 0
    device.facts["memory"] = "unified with the host's"
    draft.put("gpu_memory_total_mb", total)
    draft.put("memory_free_mb", available)
    draft.put("gpu_memory_mb", total - available)
    draft.refused["memory_reserved_mb"] = "unified with the host's"


def _power(lib: Nvml, device: Device, draft: Draft) -> None:
    draft.put("gpu_power_w", lib.ask("nvmlDeviceGetPowerUsage", device.handle, device=device.index) / 1000)


def _temperature(lib: Nvml, device: Device, draft: Draft) -> None:
    name = "nvmlDeviceGetTemperature"
    if not lib.has(name):  # announced to go with CUDA 14
        name = "nvmlDeviceGetTemperatureV"
    draft.put("gpu_temperature_c", lib.ask(name, device.handle, 0, device=device.index))


def _sm_clock(lib: Nvml, device: Device, draft: Draft) -> None:
    draft.put("sm_clock_mhz", lib.ask("nvmlDeviceGetClockInfo", device.handle, _SM, device=device.index))


def _throttle(lib: Nvml, device: Device, draft: Draft) -> None:
    name = "nvmlDeviceGetCurrentClocksEventReasons"
    if not lib.has(name):  # before R535
        name = "nvmlDeviceGetCurrentClocksThrottleReasons"
    bits = ctypes.c_ulonglong()
    code = lib.raw(name, device.handle, ctypes.byref(bits), device=device.index)
    if code:
        raise Refused(code)
    draft.throttle = tuple(word for bit, word in THROTTLE.items() if bits.value & bit)


def _mem_clock(lib: Nvml, device: Device, draft: Draft) -> None:
    draft.put("mem_clock_mhz", lib.ask("nvmlDeviceGetClockInfo", device.handle, _MEM, device=device.index))


def _fan(lib: Nvml, device: Device, draft: Draft) -> None:
    draft.put("fan_percent", lib.ask("nvmlDeviceGetFanSpeed", device.handle, device=device.index))


def _link_width(lib: Nvml, device: Device, draft: Draft) -> None:
    draft.put("pcie_gen", lib.ask("nvmlDeviceGetCurrPcieLinkGeneration", device.handle, device=device.index))
    draft.put("pcie_width", lib.ask("nvmlDeviceGetCurrPcieLinkWidth", device.handle, device=device.index))


def _link_most(lib: Nvml, device: Device, draft: Draft) -> None:
    draft.put("pcie_gen_max", lib.ask("nvmlDeviceGetMaxPcieLinkGeneration", device.handle, device=device.index))
    draft.put("pcie_width_max", lib.ask("nvmlDeviceGetMaxPcieLinkWidth", device.handle, device=device.index))


def _power_limit(lib: Nvml, device: Device, draft: Draft) -> None:
    try:
        limit = lib.ask("nvmlDeviceGetEnforcedPowerLimit", device.handle, device=device.index)
    except Refused as refused:
        if refused.code not in codes.UNSUPPORTED:
            raise
        limit = lib.ask("nvmlDeviceGetPowerManagementLimit", device.handle, device=device.index)
    draft.put("power_limit_w", limit / 1000)


def _sm_clock_max(lib: Nvml, device: Device, draft: Draft) -> None:
    draft.put("sm_clock_max_mhz", lib.ask("nvmlDeviceGetMaxClockInfo", device.handle, _SM, device=device.index))


def _shutdown_at(lib: Nvml, device: Device, draft: Draft) -> None:
    name = "nvmlDeviceGetTemperatureThreshold"
    draft.put("shutdown_temperature_c", lib.ask(name, device.handle, _SHUTDOWN, device=device.index))


def _slowdown_at(lib: Nvml, device: Device, draft: Draft) -> None:
    try:
        name = "nvmlDeviceGetTemperatureThreshold"
        draft.put("slowdown_temperature_c", lib.ask(name, device.handle, _SLOWDOWN, device=device.index))
    except Refused as refused:
        if refused.code not in codes.UNSUPPORTED:
            raise
        # Newer boards tell how far it is to the limit, and where below or above that limit they slow down.
        margin = _margin(lib, device)
        offset = fields.single(lib, device, _SLOWDOWN_MARGIN)
        now = lib.ask("nvmlDeviceGetTemperature", device.handle, 0, device=device.index)
        draft.put("slowdown_temperature_c", now + margin - offset)


def _margin(lib: Nvml, device: Device) -> int:
    """Degrees left to the board's limit (nvmlMarginTemperature, version 1: two 32-bit words)."""
    words = (ctypes.c_int * 2)(8 | 1 << 24, 0)
    code = lib.raw("nvmlDeviceGetMarginTemperature", device.handle, ctypes.byref(words), device=device.index)
    if code:
        raise Refused(code)
    return int(words[1])


def _ecc_mode(lib: Nvml, device: Device, draft: Draft) -> None:
    found = lib.ask("nvmlDeviceGetEccMode", device.handle, device=device.index)
    device.facts["ecc"] = "on" if found[0] else "off"


class _FabricInfo(ctypes.Structure):
    """nvmlGpuFabricInfo, version 2."""

    _fields_ = (
        ("version", ctypes.c_uint),
        ("cluster", ctypes.c_ubyte * 16),
        ("status", ctypes.c_uint),
        ("clique", ctypes.c_uint),
        ("state", ctypes.c_ubyte),
        ("health", ctypes.c_uint),
    )


_FABRIC_STATES = {1: "not started", 2: "in progress", 3: "completed"}


def _fabric(lib: Nvml, device: Device, draft: Draft) -> None:
    info = _FabricInfo()
    info.version = ctypes.sizeof(_FabricInfo) | 2 << 24
    code = lib.raw("nvmlDeviceGetGpuFabricInfoV", device.handle, ctypes.byref(info), device=device.index)
    if code in codes.UNSUPPORTED and lib.has("nvmlDeviceGetGpuFabricInfo"):
        # Version 1 is the same without its first word and its last.
        start = ctypes.byref(info, 4)
        code = lib.raw("nvmlDeviceGetGpuFabricInfo", device.handle, start, device=device.index)
    if code:
        raise Refused(code)
    state = int(info.state)
    if state == 0:
        raise Refused(codes.NOT_SUPPORTED)
    zeros = not any(info.cluster)
    rack = any(word in device.name.upper() for word in _RACK)
    well = state == 3 and info.status == 0 and not (zeros and rack)
    draft.put("fabric_ok", float(well))
    word = _FABRIC_STATES.get(state, f"state {state}")
    if state == 3 and not well:
        word = codes.words(int(info.status)) if info.status else "no cluster"
    device.facts["fabric"] = word


def throughput(lib: Nvml, device: Device, draft: Draft) -> None:
    """PCIe traffic measured by the driver, 20 ms a direction: only where nothing counts it."""
    for kind, metric in ((0, "pcie_tx_mb_s"), (1, "pcie_rx_mb_s")):
        found = lib.ask("nvmlDeviceGetPcieThroughput", device.handle, kind, device=device.index)
        draft.put(metric, found / 1000)
        device.missing.pop(metric, None)


THROUGHPUT = Reading("throughput", "slow", (), throughput)

_MEMORY = ("gpu_memory_mb", "gpu_memory_total_mb", "memory_free_mb", "memory_reserved_mb")


def table(processes: Processes) -> Sequence[Reading]:
    """Every question, in the order of asking."""
    return (
        Reading("utilisation", "fast", ("gpu_utilization", "memory_utilization"), _utilization),
        Reading("memory", "fast", _MEMORY, _memory, whole=False),
        Reading("power", "fast", ("gpu_power_w",), _power),
        Reading("temperature", "fast", ("gpu_temperature_c",), _temperature),
        Reading("SM clock", "fast", ("sm_clock_mhz",), _sm_clock),
        Reading("clock reasons", "fast", ("throttle",), _throttle),
        Reading("processes", "slow", ("processes",), processes.read, whole=False),
        Reading("counters", "slow", fields.metrics_of(fields.COUNTERS), fields.read_counters),
        Reading("memory clock", "slow", ("mem_clock_mhz",), _mem_clock),
        Reading("fan", "slow", ("fan_percent",), _fan),
        Reading("activity", "slow", gpm.METRICS, gpm.read_activity),
        Reading("health", "rare", fields.metrics_of(fields.HEALTH), fields.read_health),
        Reading("power limit", "rare", ("power_limit_w",), _power_limit),
        Reading("PCIe link", "rare", ("pcie_gen", "pcie_width"), _link_width),
        Reading("PCIe most", "rare", ("pcie_gen_max", "pcie_width_max"), _link_most),
        Reading("SM clock max", "rare", ("sm_clock_max_mhz",), _sm_clock_max),
        Reading("slowdown", "rare", ("slowdown_temperature_c",), _slowdown_at),
        Reading("shutdown", "rare", ("shutdown_temperature_c",), _shutdown_at),
        Reading("ECC", "rare", (), _ecc_mode),
        Reading("fabric", "rare", ("fabric_ok",), _fabric),
    )
