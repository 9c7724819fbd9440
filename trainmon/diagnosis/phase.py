"""What the run is doing, for rules that judge a machine: idle GPUs are no incident while nothing is to be computed."""

from __future__ import annotations

from typing import Literal

from trainmon.diagnosis.pulse import Pulse

Phase = Literal["unknown", "starting", "paused", "over", "training"]
"""unknown: no log tells of steps."""

KNOWN_GAPS = 3
STARTING_S = 1800.0
"""Without a step for so long after it was opened, a log is one that does not tell of steps."""
LOST_TRACK_S = 600.0
"""Without a step for so long nobody can say what the run is doing: that is the stall detector's matter."""
PAUSE_TIMES = 4.0
"""A gap between steps of so many times the usual one was a pause that nobody announced."""


def since_step(pulse: Pulse, at: float) -> float | None:
    """Seconds since the newest step at the moment `at`; None when none is known. In history by the log's times."""
    since = pulse.step_heard if pulse.step_heard is not None else pulse.pace.last
    return None if since is None or pulse.step is None else at - since


def phase(pulse: Pulse, at: float) -> Phase:
    """What the run is doing at the moment `at` (steady seconds while live, the log's time in history)."""
    if pulse.finished or pulse.at_end() or (pulse.fatal is not None and pulse.stopped(at)):
        return "over"
    idle = since_step(pulse, at)
    if idle is None:
        begun = pulse.heard is not None and (pulse.opened_at is None or at - pulse.opened_at < STARTING_S)
        return "starting" if begun else "unknown"
    if pulse.pause is not None or pulse.leaving:
        return "paused"
    if abs(idle) > LOST_TRACK_S and pulse.step_heard is None:
        return "unknown"  # a history that was read before the machine's, or long after it
    if pulse.pace.count < KNOWN_GAPS:
        return "starting"
    return "paused" if _explained(pulse, idle) else "training"


def _explained(pulse: Pulse, idle: float) -> bool:
    """Whether the run has made pauses of this length before, and went on by itself."""
    usual = pulse.pace.typical or 0.0
    return pulse.pace.longest > PAUSE_TIMES * usual and 2.0 * usual < idle <= 1.5 * pulse.pace.longest
