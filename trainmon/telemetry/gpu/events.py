"""Xids, as NVML delivers them: no thread waits, each tick looks whether some are there."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from typing import Any

from trainmon.samples import GpuEvent
from trainmon.telemetry.gpu.device import Device
from trainmon.telemetry.gpu.nvml import Nvml, Refused

_XID = 8
_MOST = 64
"""Events taken in one tick."""
_NO_INSTANCE = 0xFFFFFFFF


class Events:
    """The event set of one NVML session."""

    def __init__(self) -> None:
        self._set: Any = None
        self._of: dict[int | None, Device] = {}

    @property
    def any(self) -> bool:
        """Whether there is a set."""
        return self._set is not None

    def register(self, lib: Nvml, devices: Iterable[Device]) -> None:
        """(Re)make the set with these GPUs.

        A lost GPU in it makes every wait return at once with GPU_IS_LOST, so the set is made anew without it.
        """
        self.close(lib)
        self._of = {}
        try:
            made = lib.ask("nvmlEventSetCreate")
        except Refused:
            return
        for device in devices:
            try:
                lib.ask("nvmlDeviceRegisterEvents", device.handle, _XID, made, device=device.index)
            except Refused as refused:
                device.missing["events"] = "not supported" if refused.code == 3 else f"failing: {refused.text}"
            else:
                device.missing.pop("events", None)
                self._of[_address(device.handle)] = device
        if self._of:
            self._set = made
        else:
            _free(lib, made)

    def close(self, lib: Nvml) -> None:
        """Give the set back."""
        if self._set is not None:
            _free(lib, self._set)
            self._set = None

    def collect(self, lib: Nvml, wall: float) -> Sequence[Device]:
        """Take what has come; the GPUs that it came from have it in `events`.

        Args:
            wall: Unix time that the events get: they carry none.
        """
        if self._set is None:
            return ()
        touched: list[Device] = []
        data = lib.binding.c_nvmlEventData_t()
        name = "nvmlEventSetWait_v2" if lib.has("nvmlEventSetWait_v2") else "nvmlEventSetWait"
        for _ in range(_MOST):
            if lib.raw(name, self._set, ctypes.byref(data), ctypes.c_uint(0)):
                break  # nothing there; or GPU_IS_LOST, which the GPU's own calls will say better
            device = self._of.get(_address(data.device))
            if device is None or not data.eventType & _XID:
                continue
            gi, ci = data.gpuInstanceId, data.computeInstanceId
            instance = "" if gi == _NO_INSTANCE else f"{gi}/{0 if ci == _NO_INSTANCE else ci}"
            code = int(data.eventData)
            if 0 < code < 10_000:
                device.events.append(GpuEvent(code, round(wall, 3), instance))
                device.xid = code, wall
                touched.append(device)
        return touched


def _free(lib: Nvml, made: Any) -> None:
    try:
        lib.ask("nvmlEventSetFree", made)
    except Refused:
        pass


def _address(handle: Any) -> int | None:
    return ctypes.cast(handle, ctypes.c_void_p).value
