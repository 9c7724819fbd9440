"""When a worker's silence means that it is stuck: by the place that it last named."""

from __future__ import annotations

from trainmon.telemetry.gpu.child import Child
from trainmon.telemetry.gpu.place import IDLE, LOOK, NONE, Place

CALL_S = 1.5
"""Seconds that one call may take to a GPU that has answered before. A lost one takes 0.3 s, jitter up to 0.4 s."""
OPEN_S = 5.0
"""The first call to a GPU: without persistence mode the board wakes then."""
DRIVER_S = 2.0
"""Calls to the driver as a whole (count, events), and its initialisation once something hung."""
START_S = 5.0
"""The first initialisation, as long as nothing has hung."""
IDLE_S = 3.0
"""Between two rounds; the worker says so every second."""
OTHER_S = 10.0
"""At work outside NVML: importing, writing to the pipe."""
_STARVED = 4.0
"""A worker that only lacks a processor gets so many times more."""


def limit(place: Place, suspicious: bool) -> float:
    """Seconds that a worker may stay at a place.

    Args:
        suspicious: Something hung a moment ago.
    """
    if place.call == IDLE:
        return IDLE_S
    if place.call.startswith(LOOK):
        return CALL_S
    if not place.call.startswith("nvml"):
        return OTHER_S
    if place.device != NONE:
        return CALL_S if place.opened else OPEN_S
    if place.call.startswith("nvmlInit") and not suspicious:
        return START_S
    return DRIVER_S


def stuck(child: Child, now: float, suspicious: bool) -> Place | None:
    """Where a worker is stuck; None while all is well.

    Args:
        now: Monotonic seconds.
    """
    place = child.place()
    if place is None:
        return None
    if place.since == 0.0:  # it has not begun: Python itself is being loaded
        place = place._replace(since=child.born)
    allowed, silence = limit(place, suspicious), now - place.since
    if silence <= allowed or (silence <= allowed * _STARVED and child.short_of_time()):
        return None
    return place
