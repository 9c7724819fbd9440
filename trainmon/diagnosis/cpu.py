"""Processors of a machine or container: busy, or held back by the container's quota.

`cpu_percent` for three readings (two seconds or more apart) or `cpu_minute_percent` for a minute is a warning. It is
critical only when it costs (`settle.py`): a busy processor is what one pays for, and no reason to ring at night. What
has stood for ten minutes without a cost is usual. Start-up, evaluation and checkpoints are not judged.
"""

from __future__ import annotations

from collections.abc import Iterable

from trainmon import units
from trainmon.diagnosis.level import Level
from trainmon.diagnosis.machine import Host
from trainmon.diagnosis.phase import phase
from trainmon.diagnosis.pulse import Pulse
from trainmon.diagnosis.settle import DATA_SHARE, Settle
from trainmon.diagnosis.thresholds import Thresholds
from trainmon.diagnosis.watch import Watch
from trainmon.model import Incident

READINGS, APART_S = 3, 2.0
MINUTE_S = 60.0
OFF = 5.0
CLEAR_S = 10.0
THROTTLED_S = 30.0
ADVICE = (
    "who? top -H on {node}: loader workers (tokenising, decoding), or something that is not the training's",
    "prepare the data once, before the run; fewer workers than processors; OMP_NUM_THREADS=1 in the workers",
)
ADVICE_QUOTA = (
    "a higher CPU quota (docker --cpus, Kubernetes limits.cpu), or none",
    "no more loader workers and threads than the quota has processors: OMP_NUM_THREADS, num_workers",
)


class Cpu(Watch):
    """The detector; one incident a machine, and one for its quota."""

    kinds = frozenset(("host",))

    def __init__(self, pulse: Pulse, thresholds: Thresholds) -> None:
        super().__init__(pulse, thresholds)
        self._levels: dict[tuple[str, str], Level] = {}
        self._settle = Settle(pulse)

    def look_host(self, host: Host, at: float) -> Iterable[Incident]:
        out: list[Incident] = []
        throttled = host.now("cpu_throttled_percent")
        if throttled is not None:
            out += self._throttled(host, throttled, at)
        percent = host.now("cpu_percent")
        if percent is not None:
            out += self._busy(host, percent, at)
        return out

    def _busy(self, host: Host, percent: float, at: float) -> list[Incident]:
        limits = self.thresholds
        thrice, minute = limits.cpu_percent, limits.cpu_minute_percent
        marks = [m for m in (thrice, minute) if m is not None]
        if not marks:
            return []
        key, place = f"cpu_saturated:{host.node}", (host.node, "busy")
        high = self._levels.get((host.node, "minute"))
        level = self._levels.get(place)
        if level is None or high is None:
            if percent < min(marks):
                return []
            off = min(marks) - OFF
            level = self._levels[place] = Level(
                thrice if thrice is not None else 1e9, off, readings=READINGS, apart=APART_S, clear=CLEAR_S
            )
            high = self._levels[(host.node, "minute")] = Level(
                minute if minute is not None else 1e9, off, hold=MINUTE_S, clear=CLEAR_S
            )
        quota = f"{key}:quota" in self.open
        if quota:
            level.reset()
            high.reset()
        allowed = (
            phase(self.pulse, at) in ("unknown", "training") and not self._settle.usual(key, percent) and not quota
        )
        changed = level.take(percent, host.time, allowed=allowed)
        changed = high.take(percent, host.time, allowed=allowed) or changed
        open_ = level.open or high.open
        if not open_:
            took = "the quota holds it back" if quota else ""
            return self.end(key, host.time, took or f"{percent:.0f} % busy", superseded=took)
        if self._settle.settles(key, host, level if level.open else high, percent, at):
            level.reset()
            high.reset()
            return self.end(key, host.time, "as usual on this machine: steps keep their pace")
        before = self.open.get(key)
        cost = self._settle.cost(host, at)
        if not changed and before is not None and not (cost and high.open and before.severity != "critical"):
            return []
        cpus = host.values.get("cpus")
        of = f" of {cpus:g} processors" if cpus else ""
        where = " (container)" if host.scope == "container" else ""
        load = host.values.get("load_1m")
        held = f" for {units.age(host.time - high.since)}" if high.open and high.since is not None else ""
        return self.begin(
            host,
            key,
            "cpu_saturated",
            "critical" if high.open and cost else "warning",
            "CPU BUSY",
            f"{percent:.0f} %{of} busy{where}{held}",
            outlook=cost or "loader workers may not keep up",
            metric="cpu_percent",
            advice=ADVICE,
            since=min(s for s in (level.since, high.since, host.time) if s is not None),
            evidence=(
                ("cpu_percent", percent),
                ("bar_percent", thrice if level.open else minute),
                ("readings", level.count),
                ("cpus", cpus),
                ("load_1m", load),
                ("data_share", host.data_share),
                ("cpu_throttled_percent", host.values.get("cpu_throttled_percent")),
            ),
        )

    def _throttled(self, host: Host, percent: float, at: float) -> list[Incident]:
        mark = self.thresholds.cpu_throttled_percent
        if mark is None:
            return []
        key, place = f"cpu_saturated:{host.node}:quota", (host.node, "quota")
        level = self._levels.get(place)
        if level is None:
            if percent < mark:
                return []
            level = self._levels[place] = Level(mark, 0.5 * mark, hold=THROTTLED_S, readings=3, clear=30.0)
        changed = level.take(percent, host.time, allowed=phase(self.pulse, at) in ("unknown", "training"))
        if not changed:
            return []
        if not level.open:
            return self.end(key, host.time, f"held back {units.percent(percent)} of the time")
        cpus = host.values.get("cpus")
        quota = f" of {cpus:g} processors" if cpus else ""
        return self.begin(
            host,
            key,
            "cpu_saturated",
            "critical" if (host.data_share or 0.0) >= DATA_SHARE else "warning",
            "CPU QUOTA",
            f"the container's quota{quota} holds it back {units.percent(percent)} of the time",
            outlook="loader workers starve, whatever the percentage of CPU says",
            metric="cpu_throttled_percent",
            advice=ADVICE_QUOTA,
            since=level.since,
            evidence=(
                ("cpu_throttled_percent", percent),
                ("bar_percent", mark),
                ("held_s", THROTTLED_S),
                ("cpus", cpus),
            ),
        )

    def forgotten(self, key: str) -> None:
        for known in [k for k in self._levels if k[0] == key]:
            del self._levels[known]
        self._settle.forget(key)
