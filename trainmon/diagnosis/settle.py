"""What is usual for a machine, and what its load costs.

A training node at 85 % CPU for days is a well used one. So a level rule speaks when its mark is passed, once; what has
stood for ten minutes and costs nothing is taken for usual and resolved, and is news again only when it gets clearly
worse. It costs when the node waits for its data, when its container is held back by its quota, or when the run's steps
take longer than they did.
"""

from __future__ import annotations

from trainmon import units
from trainmon.diagnosis.level import Level
from trainmon.diagnosis.machine import Host
from trainmon.diagnosis.phase import since_step
from trainmon.diagnosis.pulse import Pulse

SETTLES_S = 600.0
WORSE = 8.0
"""Points above what is usual from which it is news again."""
DATA_SHARE = 0.20
THROTTLED = 25.0
SLOWER = 3.0


class Settle:
    """What has become usual, by incident key."""

    def __init__(self, pulse: Pulse) -> None:
        self._pulse = pulse
        self._usual: dict[str, float] = {}

    def usual(self, key: str, value: float) -> bool:
        """Whether a level of `value` percent is this machine's usual one."""
        level = self._usual.get(key)
        return level is not None and value < min(level + WORSE, 99.5)

    def settles(self, key: str, host: Host, level: Level, value: float, at: float) -> bool:
        """Whether an open level is usual by now; it is closed then, and remembered."""
        if level.since is None or host.time - level.since < SETTLES_S or self.cost(host, at):
            return False
        self._usual[key] = value
        level.reset()
        return True

    def cost(self, host: Host, at: float) -> str:
        """What the node's load costs, in words; "" when nothing is seen of it."""
        share = host.data_share
        if share is not None and share >= DATA_SHARE:
            return f"steps wait {units.percent(100.0 * share)} of their time for data"
        throttled = host.values.get("cpu_throttled_percent")
        if throttled is not None and throttled >= THROTTLED:
            return f"the container's quota holds it back {units.percent(throttled)} of the time"
        idle, usual = since_step(self._pulse, at), self._pulse.pace.typical
        if idle is not None and usual and self._pulse.live and idle > max(10.0, SLOWER * usual):
            return f"no step for {units.age(idle)}"
        return ""

    def forget(self, node: str) -> None:
        """That machine is none of the run's, or silent."""
        for key in [k for k in self._usual if f":{node}" in k]:
            del self._usual[key]
