"""The processes on a GPU, as the driver lists them."""

from __future__ import annotations

import ctypes
import struct
from typing import Any

from trainmon.samples import GpuProcess
from trainmon.telemetry.gpu import nvml as codes
from trainmon.telemetry.gpu.device import Device, Draft
from trainmon.telemetry.gpu.nvml import Nvml, Refused
from trainmon.telemetry.gpu.people import MOST_PID, People

MOST = 256
"""Processes kept of one GPU."""
_ROOM = 32
_WIDEST = 32
_MARK = 0xEE
_ALL_KINDS_EVERY = 12
"""Turns between two looks for graphics and MPS processes on a GPU that has none."""
_MIB = 2**20
_NOT_TOLD = 2**64 - 1
_NO_INSTANCE = 0xFFFFFFFF
_KINDS = (("Compute", "C"), ("Graphics", "G"), ("MPSCompute", "M"))
_SLACK = 1.02


class Processes:
    """Reads process lists.

    Attributes:
        names: Commands and environments may be read.
    """

    def __init__(self, people: People) -> None:
        self._people = people
        self._turns: dict[str, int] = {}
        self.names = True

    def read(self, lib: Nvml, device: Device, draft: Draft) -> None:
        """All processes of a GPU or MIG instance, the biggest first."""
        found: dict[tuple[int, str], tuple[str, float | None]] = {}
        turn = self._turns[device.uuid] = self._turns.get(device.uuid, -1) + 1
        for name, kind in _KINDS:
            seen = f"seen {kind}"
            if kind != "C" and turn % _ALL_KINDS_EVERY and not device.forms.get(seen):
                continue
            try:
                records = _records(lib, device, name)
            except Refused:
                if kind == "C":
                    raise
                continue
            device.forms[seen] = bool(records)
            for pid, size, instance in records[:MOST]:
                if 0 < pid < MOST_PID and (pid, instance) not in found:
                    found[(pid, instance)] = kind, _megabytes(size, device)
        self._people.note(device.uuid, {pid: size or 0.0 for (pid, _), (_, size) in found.items()})
        busy = _utilization(lib, device) if found else {}
        listed = [
            self._one(device, pid, instance, kind, size, busy.get(pid))
            for (pid, instance), (kind, size) in found.items()
        ]
        draft.processes = tuple(sorted(listed, key=lambda one: (-(one.memory_mb or 0.0), one.pid)))

    def _one(
        self, device: Device, pid: int, instance: str, kind: str, size: float | None, busy: float | None
    ) -> GpuProcess:
        person = self._people.person(pid, self.names)
        rank, local_rank = self._people.ranks(pid, person, device.uuid)
        return GpuProcess(
            pid,
            size,
            busy,
            person.user,
            person.command,
            kind,
            rank,
            local_rank,
            person.here,
            instance if device.mig else device.instance,
            person.inner_pid,
        )


def _megabytes(size: int, device: Device) -> float | None:
    """MiB of a process; None where the driver does not tell, or tells more than there is."""
    total = device.forms.get("total_mb")
    if size == _NOT_TOLD or (total and size / _MIB > total * _SLACK):
        return None
    return round(size / _MIB, 1)


def _records(lib: Nvml, device: Device, name: str) -> list[tuple[int, int, str]]:
    """(pid, bytes, MIG instance) of each record of one of the three lists."""
    base = f"nvmlDeviceGet{name}RunningProcesses"
    width = 24
    if lib.has(f"{base}_v3"):
        function = f"{base}_v3"
    elif lib.has(f"{base}_v2"):
        function = f"{base}_v2"
    else:
        function, width = base, 16
    room = device.forms.get("room", _ROOM)
    for _ in range(3):
        buffer = ctypes.create_string_buffer(room * _WIDEST)
        ctypes.memset(buffer, _MARK, room * _WIDEST)
        count = ctypes.c_uint(room)
        code = lib.raw(function, device.handle, ctypes.byref(count), buffer, device=device.index)
        if code != codes.INSUFFICIENT_SIZE:
            break
        room = device.forms["room"] = min(max(count.value, room) * 2, 65_536)
    if code:
        raise Refused(code)
    return _parse(buffer.raw, min(count.value, room), width)


def _parse(raw: bytes, count: int, width: int) -> list[tuple[int, int, str]]:
    # Drivers of early R535 write 32 bytes a record where all others write 24: then the room behind 24 is touched.
    if width == 24 and raw[count * 24 : count * 32].strip(bytes([_MARK])):
        width = 32
    records = []
    for at in range(0, count * width, width):
        pid, size = struct.unpack_from("<IxxxxQ", raw, at)
        gi, ci = struct.unpack_from("<II", raw, at + 16) if width > 16 else (_NO_INSTANCE, _NO_INSTANCE)
        records.append((pid, size, "" if gi == _NO_INSTANCE else f"{gi}/{0 if ci == _NO_INSTANCE else ci}"))
    return records


def _utilization(lib: Nvml, device: Device) -> dict[int, float]:
    """% of the SMs' time by process since the last look; empty where the driver does not tell."""
    standing = device.standing("process utilisation")
    now = lib.now()
    if device.mig or device.parent is not None or not standing.due(now):
        return {}
    last = device.forms.get("sm since", 0)
    for _ in range(3):
        samples = _samples(lib, device)
        count = ctypes.c_uint(len(samples))
        code = lib.raw(
            "nvmlDeviceGetProcessUtilization",
            device.handle,
            samples,
            ctypes.byref(count),
            ctypes.c_ulonglong(last),
            device=device.index,
        )
        if code != codes.INSUFFICIENT_SIZE:
            break
        device.forms["sm room"] = min(max(count.value, len(samples)) * 2, 65_536)
    if code == codes.NOT_FOUND:  # nothing new
        return {}
    if code:
        standing.refuse(code, codes.words(code), now)
        return {}
    standing.ok()
    sums: dict[int, list[int]] = {}
    newest = last
    for record in samples[: min(count.value, len(samples))]:
        if record.timeStamp > last and 0 < record.pid < MOST_PID and record.smUtil <= 100:
            sums.setdefault(record.pid, []).append(record.smUtil)
            newest = max(newest, record.timeStamp)
    device.forms["sm since"] = newest
    return {pid: round(sum(each) / len(each), 1) for pid, each in sums.items()}


def _samples(lib: Nvml, device: Device) -> Any:
    room = device.forms.get("sm room", 128)
    known = device.forms.get("sm buffer")
    if known is None or len(known) < room:
        known = device.forms["sm buffer"] = (lib.binding.c_nvmlProcessUtilizationSample_t * room)()
    return known
