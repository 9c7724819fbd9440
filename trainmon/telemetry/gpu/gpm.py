"""Real activity of the parts of a GPU (Hopper and later): means between two snapshots that the driver takes."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

from trainmon.telemetry.gpu import nvml as codes
from trainmon.telemetry.gpu.device import Device, Draft
from trainmon.telemetry.gpu.nvml import Nvml, Refused

_MIB = 2**20
_ACTIVITY: Mapping[int, tuple[str, float]] = {
    2: ("sm_active_percent", 1.0),
    5: ("tensor_active_percent", 1.0),
    10: ("dram_active_percent", 1.0),
}
_PCIE: Mapping[int, tuple[str, float]] = {20: ("pcie_tx_mb_s", _MIB / 1e6), 21: ("pcie_rx_mb_s", _MIB / 1e6)}
_NVLINK: Mapping[int, tuple[str, float]] = {60: ("nvlink_rx_gb_s", _MIB / 1e9), 61: ("nvlink_tx_gb_s", _MIB / 1e9)}
"""NVML's metric -> ours. Traffic is asked of GPM only where no byte counters exist (drivers before R555)."""

METRICS = tuple(name for name, _ in _ACTIVITY.values())


def read_activity(lib: Nvml, device: Device, draft: Draft) -> None:
    """Take a snapshot; with the one before it, the means of the time between (the real driver wants 100 ms)."""
    if device.mig:
        raise Refused(codes.NOT_SUPPORTED)
    if "gpm" not in device.forms:
        if not lib.has("nvmlGpmMetricsGet"):
            raise Refused(codes.FUNCTION_NOT_FOUND)
        support = lib.ask("nvmlGpmQueryDeviceSupport", device.handle, device=device.index)
        if not support.isSupportedDevice:
            raise Refused(codes.NOT_SUPPORTED)
        fresh, used = (lib.ask("nvmlGpmSampleAlloc", device=device.index) for _ in range(2))
        device.forms["gpm"] = [fresh, used, False, lib.binding.c_nvmlGpmMetricsGet_t()]
    state = device.forms["gpm"]
    fresh, used, filled, request = state
    lib.ask("nvmlGpmSampleGet", device.handle, fresh, device=device.index)
    state[0], state[1], state[2] = used, fresh, True
    if filled:
        _evaluate(lib, device, draft, request, used, fresh)


def _evaluate(lib: Nvml, device: Device, draft: Draft, request: Any, before: Any, after: Any) -> None:
    wanted = dict(_ACTIVITY)
    if "pcie_tx_mb_s" in device.missing:
        wanted.update(_PCIE)
    if "nvlink_tx_gb_s" in device.missing and device.missing.get("nvlinks") != "no NVLink":
        wanted.update(_NVLINK)
    request.version, request.numMetrics = 1, len(wanted)
    request.sample1, request.sample2 = before, after
    for slot, number in enumerate(wanted):
        request.metrics[slot].metricId = number
    code = lib.raw("nvmlGpmMetricsGet", ctypes.byref(request), device=device.index)
    if code:
        raise Refused(code)
    for slot, (name, scale) in enumerate(wanted.values()):
        answer = request.metrics[slot]
        if answer.nvmlReturn == 0 and answer.value == answer.value:
            draft.put(name, answer.value * scale)
            if name in draft.values:
                device.missing.pop(name, None)


def forget(lib: Nvml, device: Device) -> None:
    """Give the snapshots back to the driver."""
    for sample in device.forms.pop("gpm", ())[:2]:
        try:
            lib.ask("nvmlGpmSampleFree", sample, device=device.index)
        except Refused:
            pass
