"""Where the worker is: a few bytes of memory that worker and watchdog share.

A worker that is stuck inside the driver cannot say so. It therefore writes the name of each call before it makes it,
without a system call (a line on the pipe for each would wake the screen's process sixty times a second). The
watchdog writes its wishes behind it: the interval, and which GPUs to leave out.
"""

from __future__ import annotations

import struct
import time
from typing import NamedTuple

BLOCK = 128
"""Bytes."""
MOST_GPUS = 64
"""As many as the mask of those that are left out has bits."""
NONE = -1
"""No particular GPU."""
IDLE = "idle"
WRITE = "write"
LOOK = "/proc"
"""Places that are no NVML call: between two ticks, writing to the pipe, reading /proc of other processes."""

_PLACE = struct.Struct("<qhh52s")
_WISHES = struct.Struct("<dQQ")
_WISHES_AT = 64


class Place(NamedTuple):
    """What the worker does.

    Attributes:
        since: CLOCK_MONOTONIC in seconds, of the whole machine; 0.0: it has not said anything yet.
        device: NVML's index, `NONE` when no GPU is concerned.
        opened: The device has answered before.
        call: Name of the NVML function, or one of the words above.
    """

    since: float
    device: int
    opened: bool
    call: str


class Wishes(NamedTuple):
    """What the watchdog wants.

    Attributes:
        interval_s: Seconds between two ticks.
        left_out: Bit n: GPU n is not to be touched.
        names: Commands and environments of processes may be read.
    """

    interval_s: float
    left_out: int
    names: bool


class Marker:
    """The worker's side: says where it is."""

    def __init__(self, block: memoryview) -> None:
        self._block = block
        self._names: dict[str, bytes] = {}

    def at(self, call: str, device: int = NONE, opened: bool = True) -> None:
        """Say that `call` comes next."""
        name = self._names.get(call)
        if name is None:
            name = self._names[call] = call.encode("ascii", "replace")[:52]
        _PLACE.pack_into(self._block, 0, time.monotonic_ns(), device, opened, name)

    def wishes(self) -> Wishes:
        """What the watchdog wants now."""
        interval, left_out, names = _WISHES.unpack_from(self._block, _WISHES_AT)
        return Wishes(interval, left_out, bool(names))


def write_wishes(block: memoryview, wishes: Wishes) -> None:
    """The watchdog's side: put down what it wants."""
    _WISHES.pack_into(block, _WISHES_AT, wishes.interval_s, wishes.left_out, wishes.names)


def read_place(block: memoryview) -> Place | None:
    """The watchdog's side: where the worker is; None when it moved while this was read, so it is well."""
    raw = bytes(block[: _PLACE.size])
    if raw != bytes(block[: _PLACE.size]):
        return None
    since, device, opened, name = _PLACE.unpack(raw)
    if since == 0 or not 0 <= device < MOST_GPUS:  # it has said nothing yet, or a library wrote where it should not
        device = NONE
    return Place(since / 1e9, device, bool(opened), name.rstrip(b"\0").decode("ascii", "replace"))
