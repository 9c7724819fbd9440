"""No new step or line for longer than the run's own past explains.

How long is too long (`StallLimits`), where m is the usual gap between steps and P the longest that ended by itself:

    usually                          max(600 s, 10 m, 1.5 P)
    after a line that names a hang   max(60 s, 6 m)
    in an announced pause            max(the first, 1800 s), or 5 times the longest of its kind once three are known
    before the first step            max(1800 s, 10 × the usual gap between lines): loading, compiling
    until three gaps are known       3600 s, NVRx's limit for a first interval: some log every half hour

600 s is PyTorch's time-out for NCCL collectives; restarts and first evaluations that nobody announces take five to
nine minutes, and are no incident. Until then a silent run is `quiet` (state.py), which shows after ten gaps. NVRx takes
five times the longest interval for its heartbeats; ordinary pauses reach six times the usual gap, hence ten.

GPUs that are busy at little power while no step comes (`spin.py`) are a quicker sign: a warning after
`gpu_hang_after_s`, three usual gaps and half as long again as any pause that ended by itself; critical, and the run
`stalled`, from 90 s and ten usual gaps on (a checkpoint that nobody announces looks the same for a minute: one GPU
writes, the others wait in a barrier). It is one incident with the stall that it becomes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from trainmon.diagnosis.detector import moment
from trainmon.diagnosis.phase import PAUSE_TIMES
from trainmon.diagnosis.pulse import PAUSE_LIMIT_S, Pulse
from trainmon.diagnosis.spin import Spin, Spinning
from trainmon.diagnosis.thresholds import Thresholds
from trainmon.diagnosis.words import ago, short, step_of
from trainmon.model import Incident, Record, Value

FLOOR_S = 600.0
STARTING_S = 1800.0
FIRST_GAPS_S = 3600.0
KNOWN_AFTER = 3
HANG_GAPS = 3.0
HANG_CRITICAL_S, HANG_CRITICAL_GAPS = 90.0, 10.0
IDLE_PERCENT = 20.0
SPIN_PERCENT = 90.0
TROUBLE = re.compile(
    r"watchdog|time[d ]?-?out|killed|nccl|\bxid\b|\becc\b|not responding|dataloader|unreachable"
    r"|connection (reset|refused)",
    re.IGNORECASE,
)
"""Words of errors and warnings after which a silence is likely a hang."""
ADVICE = (
    "py-spy dump --pid PID on {node}: where does it wait?",
    "TORCH_NCCL_DUMP_ON_TIMEOUT=1 writes the flight recorder: the rank that is missing there is the culprit",
    "check the host's memory, the data loader's workers and the storage mount",
)


class StallLimits:
    """How long the run may be without a step, in seconds. `inf` when the alert is switched off."""

    def __init__(self, pulse: Pulse, thresholds: Thresholds) -> None:
        self._pulse = pulse
        self._given = thresholds.stall_after_s

    def seconds(self) -> float:
        """Seconds without a step (or line, before the first step)."""
        if self._given is None:
            return float("inf")
        pulse = self._pulse
        if self._given >= 0.0:
            base = self._given
        elif pulse.step is not None and pulse.pace.count < KNOWN_AFTER and pulse.trouble is None:
            return FIRST_GAPS_S
        elif pulse.step is None:
            return max(STARTING_S, 10.0 * (pulse.line_pace.typical or 0.0))
        else:
            usual, longest = pulse.pace.typical or 0.0, pulse.pace.longest
            if pulse.trouble is not None:
                return max(60.0, 6.0 * usual)
            base = max(FLOOR_S, 10.0 * usual, 1.5 * longest)
        if pulse.pause is not None:
            longest = pulse.pause_longest.get(pulse.pause, 0.0)
            shown = pulse.pauses.get(pulse.pause, 0) >= 3
            base = max(base, min(PAUSE_LIMIT_S, 5.0 * longest) if shown else PAUSE_LIMIT_S)
            base = max(base, 1.5 * longest)
        return base

    def least(self) -> float:
        """The least that `seconds` can be while steps come and nothing else happens."""
        if self._given is None:
            return float("inf")
        return self._given if self._given >= 0.0 else FLOOR_S


class Stall:
    """The detector. Whether it applies (the run is over, was old at opening) the state machine tells it."""

    kinds = frozenset(("metrics",))

    def __init__(self, pulse: Pulse, thresholds: Thresholds, spin: Spin | None = None) -> None:
        self._pulse = pulse
        self._thresholds = thresholds
        self._spin = spin
        self.limits = StallLimits(pulse, thresholds)
        pulse.limit = self.limits.seconds
        self.applies = True
        self.open: Incident | None = None
        self._step: int | None = None
        self._since = 0.0
        self._said = ""

    @property
    def stalled(self) -> bool:
        """Whether the run has stalled; GPUs that have only just begun to spin do not say so yet."""
        return self.open is not None and self.open.severity == "critical"

    def observe(self, record: Record, node: str, at: float | None) -> Iterable[Incident]:
        """In history, where no clock runs beside the log, a gap shows when it ends."""
        pulse = self._pulse
        gap = pulse.gap
        if gap is None or pulse.live or self._thresholds.stall_after_s is None:
            return ()
        since, until, step = gap
        if until - since <= pulse.stall_limit_s:
            return ()
        now = moment(record, at)
        return (
            Incident(
                key=f"stall:{step}",
                kind="stall",
                severity="critical",
                title="STALLED",
                who="run",
                measured=f"no step for {ago(until - since)} after {step_of(step, pulse.total)}",
                start=since,
                detected=now,
                end=now,
                start_step=step,
                end_step=pulse.step,
                resolution=f"steps went on after {ago(until - since)}",
                evidence=self._evidence(until - since, pulse.stall_limit_s),
                source=record.source,
                line=record.line or None,
                offset=record.offset,
            ),
        )

    def tick(self, now: float) -> Iterable[Incident]:
        pulse = self._pulse
        pulse.stall_limit_s = self.limits.seconds()
        if self.open is not None:
            return self._look_again(now)
        if not self.applies:
            return ()
        lines, steps = pulse.silent_since(), pulse.no_step_since()
        if lines is None:
            return ()
        if steps is None or pulse.step is None:
            steps = lines  # no step yet: lines are all there is to go by
        idle, limit = now - steps, self.limits.seconds()
        spins = self._spins(now, idle)
        if idle <= limit and spins is None:
            return ()
        self._since, self._step = steps, pulse.step
        culprit = self._culprit(now)
        node, who = culprit, culprit or "run"
        if culprit is None and spins is not None and len(spins.idle) == 1 and len(spins.gpus) > 1:
            node, who = spins.idle[0].node, spins.idle[0].who  # the only one that does nothing while all others wait
        outlook = "it may hang" if pulse.trouble is None else "it hangs: the log has named trouble"
        self.open = Incident(
            key="stall",
            kind="stall" if spins is None else "hang",
            severity="critical" if idle > limit or self._surely(idle) else "warning",
            title="STALLED" if spins is None else "HANG",
            who=who,
            measured=self._measured(now),
            outlook=outlook if spins is None else "a collective hangs",
            advice=tuple(text.format(node=node or "the node") for text in ADVICE),
            node=node,
            start=pulse.wall(steps),
            detected=pulse.wall(now),
            start_step=pulse.step,
            evidence=self._evidence(idle, limit, spins),
        )
        self._said = self.open.measured
        pulse.stalled = self.stalled
        return (self.open,)

    def _look_again(self, now: float) -> Iterable[Incident]:
        pulse, incident = self._pulse, self.open
        assert incident is not None
        moved = pulse.step != self._step if pulse.step is not None else (pulse.heard or 0.0) > self._since
        if moved or (pulse.step_heard is not None and pulse.step_heard > self._since):
            self.open = None
            pulse.stalled = False
            lasted = max(0.0, (pulse.step_heard or now) - self._since)
            return (
                replace(
                    incident,
                    end=pulse.wall(now),
                    end_step=pulse.step,
                    resolution=f"goes on after {ago(lasted)}"
                    + (f", {step_of(pulse.step, pulse.total)}" if pulse.step is not None else ""),
                ),
            )
        if not self.applies:  # it has finished or failed: that says more than the silence
            self.open = None
            pulse.stalled = False
            return (replace(incident, end=pulse.wall(now), evidence=(*incident.evidence, ("superseded", "run over"))),)
        text = self._measured(now)
        idle, limit = now - self._since, self.limits.seconds()
        worse = not self.stalled and (idle > limit or (self._surely(idle) and self._spins(now, idle) is not None))
        if text == self._said and not worse:
            return ()
        self._said = text
        self.open = replace(incident, measured=text)
        if worse:
            spins = self._spins(now, idle)
            self.open = replace(self.open, severity="critical", evidence=self._evidence(idle, limit, spins))
            pulse.stalled = True
        return (self.open,)

    # ------------------------------------------------------------ busy, but not at work

    def _spins(self, now: float, idle: float) -> Spinning | None:
        """What the GPUs do, where that says that the run hangs."""
        pulse, after = self._pulse, self._thresholds.gpu_hang_after_s
        if self._spin is None or after is None or pulse.step is None or pulse.pause is not None or not pulse.live:
            return None
        usual, longest = pulse.pace.typical, pulse.pace.longest
        if usual is None or pulse.pace.count < KNOWN_AFTER:
            return None
        known = 1.5 * longest if longest > PAUSE_TIMES * usual else 0.0
        if idle <= max(after, HANG_GAPS * usual, known):
            return None
        found = self._spin.look(now)
        return found if found is not None and now - found.since >= after else None

    def _surely(self, idle: float) -> bool:
        return idle > max(HANG_CRITICAL_S, HANG_CRITICAL_GAPS * (self._pulse.pace.typical or 0.0))

    def _measured(self, now: float) -> str:
        pulse = self._pulse
        lines_too = (pulse.silent_since() or 0.0) <= self._since + 1.0
        if pulse.step is None:
            return f"no line for {ago(now - self._since)}, before the first step"
        what = "no step and no line" if lines_too else "no step, though lines come,"
        usual = pulse.pace.typical
        pace = f", usually every {short(usual)}" if usual else ""
        spins = self._spins(now, now - self._since)
        gpus = f"{spins.words}; " if spins is not None else ""
        return f"{gpus}{what} for {ago(now - self._since)}{pace}; {step_of(pulse.step, pulse.total)}"

    def _evidence(self, idle: float, limit: float, spins: Spinning | None = None) -> tuple[tuple[str, Value], ...]:
        pulse = self._pulse
        found: list[tuple[str, Value]] = [("idle_s", round(idle, 1)), ("limit_s", round(limit, 1))]
        if spins is not None:
            found.extend(spins.evidence)
        if pulse.pace.typical:
            found.append(("usual_gap_s", round(pulse.pace.typical, 3)))
            found.append(("longest_pause_s", round(pulse.pace.longest, 1)))
        if pulse.trouble is not None and pulse.trouble.message:
            found.append(("last_error", pulse.trouble.message[:200]))
        return tuple(found)

    def _culprit(self, now: float) -> str | None:
        """The node that holds the others up: the late one is the cause, those that wait are victims.

        It fell silent well before the others, or its GPUs idle while those of all others spin in the collective.
        """
        utils = [(n.util, n.name) for n in self._pulse.nodes.values() if n.util is not None and n.util_at > self._since]
        idle = [name for util, name in utils if util < IDLE_PERCENT]
        if len(idle) == 1 and len(utils) > 1 and sum(util >= SPIN_PERCENT for util, _ in utils) == len(utils) - 1:
            return idle[0]
        heard = [(n.last_heard() or now, n.name) for n in self._pulse.nodes.values() if n.steps >= 3]
        if len(heard) < 2:
            return None
        heard.sort()
        (first, name), (second, _) = heard[0], heard[1]
        usual = self._pulse.pace.typical or 0.0
        return name if second - first > max(3.0 * usual, 60.0) else None
