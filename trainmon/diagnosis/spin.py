"""GPUs that are busy but do not work: full utilisation at little power, as when a collective hangs.

Utilisation counts the kernels that wait in NCCL as work; power does not. A GPU spins while it is at least 90 % busy
and draws at most `gpu_spin_power` of its limit, or less than 45 % of what it draws as a rule. A job that always draws
so little (three quarters of its usual power) does not spin.

Together with steps that have stopped this is the fast way to a `hang` (`stall.py`). Where no log tells of steps, all
GPUs of a node that spin for two minutes after they worked are a warning of their own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from trainmon import units
from trainmon.diagnosis.machine import BUSY_PERCENT, FRESH_S, Gpu
from trainmon.diagnosis.phase import since_step
from trainmon.diagnosis.pulse import Pulse
from trainmon.diagnosis.thresholds import Thresholds
from trainmon.diagnosis.watch import Watch
from trainmon.diagnosis.words import members
from trainmon.model import Incident, Value
from trainmon.series.robust import median

BUSY = 90.0
STILL_BUSY = 80.0
USUAL = 0.45
ITS_WAY = 0.75
IDLE = 20.0
FLOW_S, FLOW_TIMES = 5.0, 3.0
SLACK_S = 3.0
ALONE_S = 120.0
MEMORY_AT_REST = 10.0
"""Percent of the time in which memory is read, below which a GPU that has always spun is taken for spinning."""
ADVICE = (
    "py-spy dump --pid PID on {node} for each rank: the rank that is not in the collective is the culprit",
    "TORCH_NCCL_DUMP_ON_TIMEOUT=1 writes the flight recorder, which names that rank",
    "dmesg -T | grep -i xid, and the links of the nodes: a lost peer leaves the others waiting",
)


@dataclass(frozen=True, slots=True)
class Spinning:
    """What the GPUs do, all of them together.

    Attributes:
        since: Moment (scale of `at`) from which all that spin now have been spinning.
        idle: GPUs that do nothing meanwhile.
        words: "all 8 GPUs busy at 31 % of their power".
    """

    gpus: tuple[Gpu, ...]
    idle: tuple[Gpu, ...]
    since: float
    words: str
    evidence: tuple[tuple[str, Value], ...]


class Spin(Watch):
    """Keeps who spins; and the detector for runs without steps, one incident a node."""

    def __init__(self, pulse: Pulse, thresholds: Thresholds) -> None:
        super().__init__(pulse, thresholds)
        self._since: dict[str, float] = {}
        self._started: dict[str, float] = {}  # the same in the samples' own time
        self._off: dict[str, float] = {}

    # ------------------------------------------------------------ one GPU

    def look_gpu(self, gpu: Gpu, at: float) -> Iterable[Incident]:
        bar = self.thresholds.gpu_spin_power
        util, power = gpu.now("gpu_utilization"), gpu.now("gpu_power_w")
        if bar is None or util is None or power is None:
            return ()
        key = gpu.key
        spins = self._spins(gpu, util, power, bar)
        if util >= BUSY_PERCENT and (not spins or self._steps_flow(at)):
            gpu.busy_power.take(power, gpu.time)
        if spins:
            self._off.pop(key, None)
            if key not in self._since:
                self._since[key], self._started[key] = at, gpu.time
            return self._alone(gpu, at) if self.pulse.step is None else ()
        if key not in self._since:
            return ()
        off = self._off.setdefault(key, gpu.time)
        if 0.0 <= gpu.time - off < SLACK_S:
            return ()
        self.forgotten(key)
        kept = f"hang:{gpu.node}"
        if kept not in self.open:
            return ()
        return self.end(kept, gpu.time, f"at work again, {units.watts(power)} W")

    def _spins(self, gpu: Gpu, util: float, power: float, bar: float) -> bool:
        if util < (STILL_BUSY if gpu.key in self._since else BUSY) or gpu.state != "ok" or power <= 0.0:
            return False
        usual = gpu.busy_power.value
        if usual is not None and power > ITS_WAY * usual:
            return False
        limit = gpu.values.get("power_limit_w")
        slack = 1.1 if gpu.key in self._since else 1.0
        if limit and power <= slack * bar * limit:
            return True
        return usual is not None and power <= slack * USUAL * usual

    def _steps_flow(self, at: float) -> bool:
        idle = since_step(self.pulse, at)
        return idle is not None and abs(idle) <= max(FLOW_S, FLOW_TIMES * (self.pulse.pace.typical or 0.0))

    # ------------------------------------------------------------ all of them

    def look(self, now: float, node: str | None = None) -> Spinning | None:
        """What the run's GPUs do at `now`, when some spin and none works; None otherwise.

        Args:
            node: Only those of this node.
        """
        if not self._since:
            return None
        spinning: list[Gpu] = []
        idle: list[Gpu] = []
        for gpu in self.fleet if node is None else self.fleet.of(node):
            if now - gpu.heard > FRESH_S or gpu.parent or not gpu.occupied:
                continue
            if gpu.key in self._since:
                spinning.append(gpu)
            elif gpu.state != "ok" or (gpu.recent("gpu_utilization") or 0.0) < IDLE:
                idle.append(gpu)
            else:
                return None
        if not spinning:
            return None
        powers = [g.values["gpu_power_w"] for g in spinning]
        limits = [g.values["power_limit_w"] for g in spinning if g.values.get("power_limit_w")]
        count = len(spinning)
        who = f"all {count} GPUs" if count > 1 and not idle else f"{count} GPUs" if count > 1 else spinning[0].label
        what = f"{who} busy at {units.watts(median(powers))}"
        what += f" of {units.watts(median(limits))} W" if limits else " W"
        if idle:
            does = "idle" if idle[0].state == "ok" else idle[0].state
            what += f", {members(idle[0].node, [g.label for g in idle])} {does}"
        evidence: list[tuple[str, Value]] = [
            ("gpus_spinning", count),
            ("gpus_idle", len(idle)),
            ("power_w", round(median(powers))),
        ]
        if limits:
            evidence.append(("power_limit_w", round(median(limits))))
        usual = [u for g in spinning if (u := g.busy_power.value) is not None]
        if usual:
            evidence.append(("usual_power_w", round(median(usual))))
        since = max(self._since[g.key] for g in spinning)
        evidence.append(("spinning_s", round(now - since)))
        return Spinning(tuple(spinning), tuple(idle), since, what, tuple(evidence))

    def _alone(self, gpu: Gpu, at: float) -> Iterable[Incident]:
        """No log tells of steps: the GPUs' own past has to do."""
        key = f"hang:{gpu.node}"
        if gpu.time - self._started[gpu.key] < ALONE_S:
            return ()
        if gpu.busy_power.value is None or self._started[gpu.key] - gpu.first < 5.0:
            memory = gpu.recent("memory_utilization")
            if memory is None or memory > MEMORY_AT_REST:
                return ()  # it has always been so: little power may be all that this job needs
        found = self.look(at, gpu.node)
        if found is None or at - found.since < ALONE_S or key in self.open:
            return ()
        return self.begin(
            gpu,
            key,
            "hang",
            "warning",
            "BUSY, NO WORK",
            f"{found.words} for {units.age(at - found.since)}",
            outlook="they wait in a collective that may hang",
            advice=ADVICE,
            who=members(gpu.node, [g.label for g in found.gpus]),
            since=min(self._started[g.key] for g in found.gpus),
            evidence=found.evidence,
        )

    def forgotten(self, key: str) -> None:
        self._since.pop(key, None)
        self._started.pop(key, None)
        self._off.pop(key, None)
