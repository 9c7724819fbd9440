"""The run's state, and it is true.

The states are those of `trainmon.snapshot.RunState`.
Silence is measured by arrival and file time, never by the log's own clock.
"""

from __future__ import annotations

from trainmon.diagnosis.fatal import NAMELESS
from trainmon.diagnosis.pulse import Pulse
from trainmon.diagnosis.stall import Stall
from trainmon.diagnosis.words import ago, short, step_of
from trainmon.snapshot import RunState

QUIET_TIMES = 10.0
"""So many times its usual pace without a line or step, and a run is quiet."""
QUIET_FLOOR_S = 10.0
OLD_AT_MOST_S = 3600.0


class StateMachine:
    """Tells in which state the run is, and why.

    Args:
        pulse: What the run has shown.
        stall: The stall detector: `stalled` is its word.
    """

    def __init__(self, pulse: Pulse, stall: Stall) -> None:
        self._pulse = pulse
        self._stall = stall
        self.state: RunState = "waiting"
        self.note = ""

    def over(self, now: float) -> RunState | None:
        """`finished`, `failed` or `old` when the run is over as far as one can see, else None."""
        pulse = self._pulse
        if not pulse.lines_seen:
            return None
        if pulse.finished or pulse.at_end():
            return "finished"
        if pulse.fatal is not None and pulse.stopped(now):
            return "failed"
        if self.was_old():
            return "old"
        return None

    def was_old(self) -> bool:
        """Whether the newest line had been there longer than the stall limit at opening, and none came since."""
        pulse = self._pulse
        if pulse.heard is not None or pulse.file_time is None or pulse.opened_at is None:
            return False
        limit = self._stall.limits.seconds()
        return pulse.opened_at - pulse.file_time > min(limit, OLD_AT_MOST_S)

    def look(self, now: float) -> tuple[RunState, str]:
        """State and note at `now` (steady seconds). Call after the stall detector's tick."""
        self.state, self.note = self._look(now)
        return self.state, self.note

    def _look(self, now: float) -> tuple[RunState, str]:
        pulse = self._pulse
        if not pulse.lines_seen:
            return "waiting", ""
        since = pulse.silent_since()
        silent = max(0.0, now - since) if since is not None else 0.0
        over = self.over(now)
        step = step_of(pulse.step, pulse.total) if pulse.counted else ""
        if over == "finished":
            return over, f"last line {ago(silent)} ago" if silent >= 60.0 else ""
        if over == "failed":
            steps = pulse.no_step_since()
            idle = max(0.0, now - steps) if steps is not None else silent
            code = pulse.fatal.code if pulse.fatal is not None else ""
            code, node = pulse.blamed or (code, pulse.fatal_node)
            return (
                over,
                f"{code or 'an error'} on {node}, {ago(min(idle, silent) if pulse.heard is None else idle)} ago",
            )
        if over == "old":
            last = pulse.ended_by
            why = "may have hung"
            if last is not None:
                why = f"ended with {last.code}" if last.code and last.code not in NAMELESS else "ended with an error"
            return over, f"last line {ago(silent)} ago" + (f", {step}" if step else "") + f": {why}"
        if self._stall.stalled:
            steps = pulse.no_step_since()
            idle = now - steps if steps is not None and pulse.step is not None else silent
            return "stalled", f"no {'step' if pulse.step is not None else 'line'} for {ago(idle)}"
        if pulse.step is None:
            return "starting", ""
        if pulse.pause is not None:
            return "running", "evaluation" if pulse.pause == "eval" else "checkpoint"
        usual = pulse.pace.typical
        if usual is None:
            return "running", ""
        if silent > max(QUIET_FLOOR_S, QUIET_TIMES * usual):
            return "quiet", f"no line for {ago(silent)}{_usually(usual)}"
        steps = pulse.no_step_since()
        if steps is not None and now - steps > max(6.0 * QUIET_FLOOR_S, QUIET_TIMES * usual):
            return "quiet", f"no step for {ago(now - steps)}{_usually(usual)}"
        return "running", ""


def _usually(gap: float) -> str:
    """What is usual, for a sentence; nothing where lines came in one lump: "every 0 ms" is no pace."""
    return f", usually every {short(gap)}" if gap >= 0.001 else ""
