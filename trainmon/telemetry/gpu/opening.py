"""Opening a GPU: handle, identity, MIG layout."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from typing import TypeVar

from trainmon.samples import GpuState
from trainmon.telemetry.gpu import gpm, surroundings
from trainmon.telemetry.gpu import nvml as codes
from trainmon.telemetry.gpu.device import Device, DeviceGone, DriverGone
from trainmon.telemetry.gpu.nvml import Nvml, Refused
from trainmon.telemetry.gpu.place import MOST_GPUS

_T = TypeVar("_T")
_STATES: dict[int, GpuState] = {
    codes.GPU_IS_LOST: "lost",
    codes.RESET_REQUIRED: "reset needed",
    codes.NO_PERMISSION: "no permission",
}
_BRANDS = {
    1: "Quadro", 2: "Tesla", 3: "NVS", 4: "GRID", 5: "GeForce", 6: "Titan", 12: "Quadro RTX", 13: "NVIDIA RTX",
    14: "NVIDIA", 15: "GeForce RTX", 16: "Titan RTX",
}  # fmt: skip
_VGPU_GUEST = 2
_MOST_INSTANCES = 16
_PROFILE = re.compile(r"MIG\s+(\S+)")


def count(lib: Nvml) -> int:
    """How many GPUs NVML counts, sick ones too.

    Raises:
        DriverGone: When it does not say.
    """
    try:
        return max(0, min(int(lib.ask("nvmlDeviceGetCount")), MOST_GPUS))
    except Refused as refused:
        raise DriverGone(refused.code) from None


def gone(refused: Refused) -> Exception:
    """What a refusal means when it concerns the GPU as a whole."""
    if refused.code in codes.DRIVER_WIDE:
        return DriverGone(refused.code)
    return DeviceGone(_STATES.get(refused.code, "failing"), refused.code)


def open_device(lib: Nvml, device: Device, root: str = "/") -> None:
    """Get its handle and learn who it is.

    Raises:
        DeviceGone: It cannot be opened.
        DriverGone: The driver as a whole does not answer.
    """
    try:
        device.handle = lib.ask("nvmlDeviceGetHandleByIndex", device.index, device=device.index, opened=False)
        device.uuid = lib.text("nvmlDeviceGetUUID", device.handle, device.index, opened=False)
    except Refused as refused:
        raise gone(refused) from None
    device.forms["root"] = root
    device.name = _perhaps(lambda: lib.text("nvmlDeviceGetName", device.handle, device.index), device.name)
    device.facts["driver"] = lib.driver
    serial = _perhaps(lambda: lib.text("nvmlDeviceGetSerial", device.handle, device.index), "")
    if serial and serial.strip("0"):
        device.facts["serial"] = serial
    pci = _perhaps(lambda: _pci(lib, device), "")
    if pci:
        device.facts["pci"] = pci
    brand = _perhaps(lambda: int(lib.ask("nvmlDeviceGetBrand", device.handle, device=device.index)), 0)
    if brand in _BRANDS:
        device.facts["brand"] = _BRANDS[brand]
    mode = _perhaps(lambda: int(lib.ask("nvmlDeviceGetVirtualizationMode", device.handle, device=device.index)), 0)
    device.vgpu = mode == _VGPU_GUEST
    if device.vgpu:
        device.facts["mode"] = "vGPU"
    elif surroundings.in_wsl(root):
        device.facts["mode"] = "WSL2"
    read_instances(lib, device)


def _perhaps(read: Callable[[], _T], default: _T) -> _T:
    """What is good to know but not needed."""
    try:
        return read()
    except Refused as refused:
        if refused.code in codes.DRIVER_WIDE or refused.code in (codes.GPU_IS_LOST, codes.RESET_REQUIRED):
            raise gone(refused) from None
        return default
    except (ValueError, TypeError, AttributeError):
        return default


def _pci(lib: Nvml, device: Device) -> str:
    found = lib.ask("nvmlDeviceGetPciInfo", device.handle, device=device.index).busId
    text = found.decode("ascii", "replace") if isinstance(found, bytes) else str(found)
    # "00000000:0F:00.0": the domain has eight digits, four of which are in use
    return text[4:] if len(text) == 16 and text.startswith("0000") else text


def read_instances(lib: Nvml, device: Device) -> None:
    """The MIG layout: whether MIG is on, and the instances there are."""
    found = _perhaps(lambda: list(lib.ask("nvmlDeviceGetMigMode", device.handle, device=device.index)), [0, 0])
    was = device.mig
    device.mig = bool(found and found[0] == 1)
    if device.mig != was:
        gpm.forget(lib, device)
    if not device.mig:
        device.instances = []
        return
    most = _perhaps(
        lambda: int(lib.ask("nvmlDeviceGetMaxMigDeviceCount", device.handle, device=device.index)), _MOST_INSTANCES
    )
    known = {one.uuid: one for one in device.instances}
    device.instances = []
    for number in range(min(max(most, 0), _MOST_INSTANCES)):
        one = _perhaps(lambda number=number: _instance(lib, device, number), None)  # type: ignore[misc]
        if one is not None:
            device.instances.append(known.get(one.uuid, one))


def _instance(lib: Nvml, device: Device, number: int) -> Device | None:
    handle = lib.ask("nvmlDeviceGetMigDeviceHandleByIndex", device.handle, number, device=device.index)
    one = Device(device.index, device)
    one.handle = handle
    one.uuid = lib.text("nvmlDeviceGetUUID", handle, device.index)
    one.name = _perhaps(lambda: lib.text("nvmlDeviceGetName", handle, device.index), "")
    match = _PROFILE.search(one.name)
    one.profile = match.group(1) if match else ""
    ids = []
    for name in ("nvmlDeviceGetGpuInstanceId", "nvmlDeviceGetComputeInstanceId"):
        value = ctypes.c_uint()
        if lib.raw(name, handle, ctypes.byref(value), device=device.index) == 0:
            ids.append(str(value.value))
    one.instance = "/".join(ids)
    one.facts["driver"] = lib.driver
    for metric in ("gpu_utilization", "memory_utilization"):
        one.missing[metric] = "n/a under MIG"
    for metric in ("gpu_temperature_c", "gpu_power_w", "sm_clock_mhz", "throttle"):
        one.missing[metric] = "of the whole GPU"
    return one
