"""GPUs that idle while the run should be at work.

Below `gpu_idle_percent` for `gpu_idle_readings` readings at least a second apart, with a training process on the GPU,
outside of known pauses; over above five points more. It has to be news: the GPU was busy before. One that has idled
ever since we looked is told of after a minute, and only while the run makes steps. Without a log of steps it must have
worked for 15 s before. Dips of a length that has come twice are this run's way (`level.py`).

All of a node's idle GPUs are one incident.
"""

from __future__ import annotations

from collections.abc import Iterable

from trainmon import units
from trainmon.diagnosis.level import Level
from trainmon.diagnosis.machine import Gpu
from trainmon.diagnosis.phase import phase, since_step
from trainmon.diagnosis.pulse import Pulse
from trainmon.diagnosis.thresholds import Thresholds
from trainmon.diagnosis.watch import Watch
from trainmon.diagnosis.words import ago, members
from trainmon.model import Incident

OFF = 5.0
NEVER_BUSY_S = 60.0
WORKED_S = 10.0
WORKED_ALONE_S = 15.0
ADVICE = (
    "it waits for its data, the host's CPU or another rank: py-spy dump --pid PID on {node} tells where",
    "data: more loader workers, a deeper prefetch, a local copy of the shards; look at disk and CPU of {node}",
    "it is meant to idle here: gpu_idle_percent = false in [thresholds] switches this alert off",
)


class Underuse(Watch):
    """The detector; one incident a node."""

    def __init__(self, pulse: Pulse, thresholds: Thresholds) -> None:
        super().__init__(pulse, thresholds)
        self._levels: dict[str, Level] = {}

    def look_gpu(self, gpu: Gpu, at: float) -> Iterable[Incident]:
        mark = self.thresholds.gpu_idle_percent
        util = gpu.now("gpu_utilization")
        if mark is None:
            return ()
        if util is None or gpu.state != "ok":
            if gpu.state != "ok" and gpu.key in self._levels:
                self._levels[gpu.key].reset()
                return self._tell(gpu, at)
            return ()
        level = self._levels.get(gpu.key)
        if level is None:
            if util > mark:
                return ()
            readings = max(1, int(self.thresholds.gpu_idle_readings or 5))
            level = self._levels[gpu.key] = Level(mark, mark + OFF, readings=readings, clear=2.0, falling=True)
        if util > mark and not level.open and level.since is None:
            level.last = gpu.time
            return ()  # the common case
        doing = phase(self.pulse, at)
        allowed, hold = gpu.occupied and not self.pulse.stalled, 0.0
        if doing == "training":
            hold = 0.0 if gpu.busy_s >= WORKED_S else NEVER_BUSY_S
        elif doing == "unknown":
            allowed = allowed and gpu.busy_s >= WORKED_ALONE_S
        else:
            allowed = False
        changed = level.take(util, gpu.time, allowed=allowed, hold=hold)
        if level.open and (doing == "over" or not gpu.occupied):
            level.reset()
            changed = True
        if changed or (level.open and self.pulse.stalled):
            return self._tell(gpu, at)
        return ()

    def _tell(self, gpu: Gpu, at: float) -> Iterable[Incident]:
        key = f"gpu_underutil:{gpu.node}"
        if self.pulse.stalled:
            for mate in self.fleet.of(gpu.node):
                if mate.key in self._levels:
                    self._levels[mate.key].reset()
            return self.end(key, gpu.time, "the run has stalled", superseded="stall")
        low = [g for g in self.fleet.of(gpu.node) if g.key in self._levels and self._levels[g.key].open]
        if not low:
            before = self.open.get(key)
            worked = before is not None and gpu.occupied and gpu.state == "ok" and phase(self.pulse, at) != "over"
            util = units.percent(gpu.values.get("gpu_utilization"))
            return self.end(key, gpu.time, f"busy again, {util}" if worked else "nothing is to be computed any more")
        if key in self.open and gpu not in low and not all(self._levels[g.key].is_beyond for g in low):
            return ()  # they come back one by one
        utils = sorted(g.values["gpu_utilization"] for g in low)
        usual = [g.usual_util.value for g in low if g.usual_util.value is not None]
        what = f"{units.percent(utils[0])} busy" if len(utils) == 1 else f"{_range(utils)} busy"
        if usual:
            what += f", usually {units.percent(sorted(usual)[len(usual) // 2])}"
        elif all(g.busy_s < WORKED_S for g in low):
            what += " since we look"
        since = min(self._levels[g.key].since or g.time for g in low)
        idle = since_step(self.pulse, at)
        typical = self.pulse.pace.typical
        outlook = ""
        if idle is not None and typical is not None:
            outlook = f"no step for {ago(idle)}" if idle > max(5.0, 3.0 * typical) else "steps go on"
        one = len(low) == 1
        return self.begin(
            low[0],
            key,
            "gpu_underutil",
            "warning",
            "GPU IDLES" if one else "GPUS IDLE",
            what,
            outlook=outlook,
            advice=ADVICE,
            metric="gpu_utilization",
            who="" if one else members(gpu.node, [g.label for g in low]),
            since=since,
            evidence=(
                ("gpus", ", ".join(g.label for g in low)),
                ("utilization_percent", utils[len(utils) // 2]),
                ("bar_percent", self.thresholds.gpu_idle_percent),
                ("readings", max(self._levels[g.key].count for g in low)),
                ("usual_percent", sorted(usual)[len(usual) // 2] if usual else None),
                ("since_step_s", idle),
            ),
        )

    def forgotten(self, key: str) -> None:
        self._levels.pop(key, None)


def _range(values: list[float]) -> str:
    low, high = round(values[0]), round(values[-1])
    return units.percent(values[0]) if low == high else f"{low}–{high} %"
