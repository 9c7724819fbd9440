"""What the run has shown of itself: who speaks, how far it is, at which pace, and which pause was announced.

All silence detectors and the state machine read from here, so that they can not disagree. Moments are *steady*
seconds: Unix time without the jumps of the host's clock (`wall` gives them back). While history is read the moments
are the log's own times, of which only differences are learned.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from operator import sub

from trainmon.diagnosis.fleet import Fleet
from trainmon.diagnosis.pace import JUMP_S, Pace, clock_jump
from trainmon.model import Record

LEAVING = re.compile(r"\bsig(?:term|int|usr1)\b|pre-?empt|\bexiting\b|requeu|\brestarting\b", re.IGNORECASE)
"""Words of a job that is stopped or started anew: its GPUs idle, and that is no news."""
CHATTER = frozenset(("gpu", "host"))
"""Kinds that come from a machine's agent: they go on while the training hangs."""
FATAL = 1
PAST_FATAL_STEPS = 3
"""A fatal error after which the run makes so many steps did not end it."""
RESUME_SLACK = 4
PAUSES = {"eval_start": "eval", "checkpoint": "checkpoint"}
PAUSE_LIMIT_S = 1800.0
"""How long an announced pause may take before the run has shown how long its pauses are (diagnosis: phases)."""


class NodePulse:
    """One node (or rank, where each file is a rank)."""

    __slots__ = (
        "file_time",
        "heard",
        "live",
        "name",
        "pace",
        "step",
        "step_heard",
        "steps",
        "told_at",
        "uncounted",
        "util",
        "util_at",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.heard: float | None = None  # arrival of its newest line, steady seconds
        self.step_heard: float | None = None  # arrival of its newest step
        self.file_time: float | None = None  # the file's time of change at opening
        self.told_at: float | None = None  # newest time that one of its lines carried
        self.live = False  # its history is read
        self.step: int | None = None
        self.steps = 0
        self.uncounted = 0  # records of a log without steps
        self.pace = Pace(16)
        self.util: float | None = None  # newest utilisation of its GPUs in percent
        self.util_at = float("-inf")

    def last_heard(self) -> float | None:
        """When its newest line came, or its file last changed."""
        return self.heard if self.heard is not None else self.file_time


class Pulse:
    """The run as a whole. Fed by the engine only."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodePulse] = {}
        self.shift = 0.0
        self.live = False
        self.opened_at: float | None = None
        self.file_time: float | None = None  # newest time of change of any file at its opening
        self.heard: float | None = None  # newest live line of the training (not of an agent)
        self.step_heard: float | None = None  # newest live step
        self.lines_seen = False
        self.step: int | None = None  # newest step of the run
        self.total: int | None = None
        self.counted = True  # `step` is the log's own number
        self.pace = Pace()  # of the run's steps
        self.line_pace = Pace()
        self.per_step: list[tuple[float, int]] = []  # (moment, step) of the last steps, for seconds a step
        self.gap: tuple[float, float, int] | None = None  # (from, to, step before) of the step just taken
        self.pause: str | None = None  # an announced pause that is going on: "eval", "checkpoint"
        self.pause_at: float | None = None
        self.pause_longest: dict[str, float] = {}
        self.pauses: dict[str, int] = {}
        self.finished = False
        self.finished_step: int | None = None
        self.fatal: Record | None = None
        self.fatal_node = ""
        self.fatal_at: float | None = None
        self.blamed: tuple[str, str] | None = None  # code and node of the probable cause, by whoever knows the roles
        self.fatal_step: int | None = None
        self.fatal_lines = 0  # new steps told since the fatal error
        self.trouble: Record | None = None  # newest error or warning since the last step that names a hang
        self.ended_by: Record | None = None  # newest fatal or blocking error since the last step
        self.leaving = False  # a line since the last step says that the processes end, or begin anew
        self.stalled = False  # the stall detector has spoken
        self.fleet = Fleet()  # the run's machines, as their instruments show them
        self.stall_limit_s = 600.0
        self.limit: Callable[[], float] = lambda: self.stall_limit_s  # the stall detector's, once there is one

    def wall(self, steady: float) -> float:
        """Unix time of a steady moment."""
        return steady + self.shift

    def node(self, name: str) -> NodePulse:
        """The node of that name, made at its first mention."""
        found = self.nodes.get(name)
        if found is None:
            found = self.nodes[name] = NodePulse(name)
        return found

    # ------------------------------------------------------------ what comes in

    def opened(self, name: str, mtime: float, now: float) -> None:
        """A file of that node is followed from now on; `mtime` may lie in the future on another machine's clock."""
        seen = min(mtime, now)
        if self.opened_at is None:
            self.opened_at = now
        if self.file_time is None or seen > self.file_time:
            self.file_time = seen
        node = self.node(name)
        if node.file_time is None or seen > node.file_time:
            node.file_time = seen

    def line(self, node: NodePulse, at: float) -> None:
        """A live line of the training came at `at`."""
        node.heard = at
        self.lines_seen = True
        if self.heard is None or at > self.heard:
            self.line_pace.mark(at, self.stall_limit_s)
            self.heard = at

    def take_step(self, node: NodePulse, step: int, at: float | None, live: bool, log_time: float | None) -> bool:
        """A training step was logged.

        Args:
            node: Whose.
            step: Its number.
            at: Arrival when live, else the log's own time; None when there is none.
            live: False while history is read.
            log_time: The log's own time, for seconds a step.

        Returns:
            True when it is a resume: the step went back.
        """
        self.gap = None
        if live:
            self._go_live(node)
        elif self.live:
            at = None  # history of a file that joined later says nothing about the run's pace
        last = node.step
        resumed = last is not None and step < last - RESUME_SLACK
        fresh = last is None or step > last or resumed
        node.steps += 1
        if not fresh:
            return False
        node.step = step
        if at is not None:
            node.pace.mark(at, self.stall_limit_s, learn=not resumed and not self.pause)
            if live:
                node.step_heard = at
                if self.step_heard is None or at > self.step_heard:
                    self.step_heard = at
        if self.step is None or step > self.step:
            self._advance(step, at, live, log_time)
        elif resumed and last is not None and 0 <= self.step - last <= max(RESUME_SLACK, last - step):
            # The first node that goes back takes the run with it; the others follow.
            self._back_to(step, at)
            return True
        return False

    def skip_steps(self, node: NodePulse, steps: Sequence[int], times: Sequence[float] | None) -> None:
        """`take_step` of each, cheaply, when more will follow that are taken singly.

        Args:
            steps: Of history; they rise, and are all new to the run.
            times: The log's own, not falling, no gap beyond the limit; None when it has none.
        """
        node.steps += len(steps)
        node.step = self.step = steps[-1]
        if times is None:
            return
        node.pace.skip(times)
        self.pace.skip(times)
        known = self.per_step
        whole = len(known) + len(steps)
        keep = whole if whole < 129 else 65 + (whole - 129) % 64  # as if cut again and again, see `_advance`
        if keep <= len(steps):
            known.clear()
        else:
            del known[: whole - keep]
        known += zip(times[-keep:], steps[-keep:], strict=True)

    def steady(self, node: NodePulse, times: Sequence[float], limit: float) -> bool:
        """Whether no step of these came later than any rule would wait for.

        Args:
            limit: Seconds that the least patient rule waits.
        """
        limit = min(self.stall_limit_s, limit, JUMP_S)
        lasts = (self.pace.last, node.pace.last, self.per_step[-1][0] if self.per_step else None)
        if not all(last is not None and 0.0 <= times[0] - last <= limit for last in lasts):
            return False
        return max(map(sub, times[1:], times), default=0.0) <= limit

    def _go_live(self, node: NodePulse) -> None:
        """From here on moments are arrivals: no gap is taken across the change."""
        if not node.live:
            node.live = True
            node.pace.last = None
        if not self.live:
            self.live = True
            self.pace.last = None

    def _advance(self, step: int, at: float | None, live: bool, log_time: float | None) -> None:
        previous, self.step = self.step, step
        paused = self.pause
        gap = 0.0
        if at is not None:
            since = self.pace.last
            gap = at - since if since is not None else 0.0
            jumped = not live and gap >= JUMP_S and clock_jump(gap, self.pace.typical)
            if gap > 5.0:
                self.stall_limit_s = self.limit()  # before this gap is learned from
            self.pace.mark(at, self.stall_limit_s, learn=not paused and not jumped)
            if since is not None and gap > 0.0 and not jumped and previous is not None:
                self.gap = (since, at, previous)
            if jumped:
                self.per_step.clear()
        if self.pause is not None:
            self.end_pause(gap)
        moment = log_time if log_time is not None else at
        if moment is not None:
            if self.per_step and not 0.0 <= moment - self.per_step[-1][0] < 7200.0:
                self.per_step.clear()
            self.per_step.append((moment, step))
            if len(self.per_step) > 128:
                del self.per_step[:64]
        self.trouble = self.ended_by = None
        self.leaving = False
        if self.finished and self.finished_step is not None and step > self.finished_step:
            self.finished = False
        if self.fatal is not None:
            self.fatal_lines += 1
            if self.fatal_step is None:
                self.fatal_step = step
            elif step >= self.fatal_step + PAST_FATAL_STEPS and self.fatal_lines > 1:
                # One line more may come from a rank that has not noticed yet, whatever the steps between lines.
                self.fatal = None

    def _back_to(self, step: int, at: float | None) -> None:
        self.step = step
        self.per_step.clear()
        self.finished = False
        self.trouble = self.ended_by = None
        self.leaving = False
        self.end_pause(None)
        if at is not None:
            self.pace.mark(at, learn=False)
        self.fatal_step = step

    def event(self, name: str, at: float | None) -> None:
        """A message of the log told of a planned pause or of the end."""
        if name in PAUSES:
            self.pause = PAUSES[name]
            self.pause_at = at
        elif name == "eval_end":
            self.end_pause(None)
        elif name == "finished":
            self.finished = True
            self.finished_step = self.step
        elif name == "started":
            self.finished = False

    def end_pause(self, lasted: float | None) -> None:
        """The announced pause is over; `lasted` seconds are learned for its kind."""
        if self.pause and lasted is not None and lasted > 0.0:
            self.pauses[self.pause] = self.pauses.get(self.pause, 0) + 1
            self.pause_longest[self.pause] = max(self.pause_longest.get(self.pause, 0.0), min(lasted, 3600.0))
        self.pause = None

    def failed_by(self, record: Record, node: str, arrival: float | None) -> None:
        """A fatal error, live at `arrival`; the first one counts until steps go on."""
        if self.fatal is None:
            self.fatal_at = arrival
            self.fatal = record
            self.fatal_node = node
            self.fatal_step = self.step
            self.fatal_lines = 0

    def clamp(self, now: float) -> None:
        """Nothing has come in the future: the host's clock was set back between a line and this look."""
        if self.heard is not None:
            self.heard = min(self.heard, now)
        if self.step_heard is not None:
            self.step_heard = min(self.step_heard, now)
        for item in self.nodes.values():
            if item.heard is not None and item.heard > now:
                item.heard = now
            if item.step_heard is not None and item.step_heard > now:
                item.step_heard = now

    # ------------------------------------------------------------ what can be asked

    @property
    def seconds_per_step(self) -> float | None:
        """Seconds a step over the last steps, pauses included; None before the second."""
        if len(self.per_step) < 2:
            return None
        (t0, s0), (t1, s1) = self.per_step[0], self.per_step[-1]
        return (t1 - t0) / (s1 - s0) if s1 > s0 and t1 > t0 else None

    def slowest(self) -> int | None:
        """The step of the slowest node that reports steps."""
        return min((n.step for n in self.nodes.values() if n.step is not None), default=None)

    def at_end(self) -> bool:
        """Whether the last step is reached by every node that reports steps."""
        if not self.total or self.step is None or self.step < self.total:
            return False
        slowest = self.slowest()
        return slowest is not None and slowest >= self.total

    def stopped(self, now: float) -> bool:
        """Whether no step has come for three usual gaps (at least 3 s) since the fatal error."""
        since = [t for t in (self.no_step_since(), self.fatal_at) if t is not None]
        return not since or now - max(since) >= max(3.0, 3.0 * (self.pace.typical or 0.0))

    def silent_since(self) -> float | None:
        """When the last line of the training came: arrival, or the file's time at opening."""
        return self.heard if self.heard is not None else self.file_time

    def no_step_since(self) -> float | None:
        """When the last step came: arrival, or the file's time at opening."""
        return self.step_heard if self.step_heard is not None else self.file_time
