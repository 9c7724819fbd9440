"""One node that is slower than the others at its own work.

In synchronous training every node shows the same step time: the others wait. What tells is the own time: what the node
computes (and waits for its data), or its step time without communication. Compared with the median of all nodes at
the same step, and held for several steps; the bar rises with the spread among the nodes, and a small difference that
a node has always had is its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from trainmon import units
from trainmon.columns import Columns
from trainmon.diagnosis.detector import moment
from trainmon.diagnosis.pulse import Pulse
from trainmon.diagnosis.thresholds import Thresholds
from trainmon.diagnosis.words import number
from trainmon.model import Incident, Record, Value
from trainmon.series.robust import MAD_TO_SIGMA, median

NODES = 3
WARM_UP_STEPS = 8
BASE_STEPS = 40
BASE_SPREAD = 0.05
CLEAR_STEPS = 12
OPEN_STEPS = 6
DATA_SHARE = 0.5
ADVICE_COMPUTE = (
    "check clocks, temperature and power cap of {node}: nvidia-smi -q -d PERFORMANCE,CLOCK",
    "look for ECC errors, PCIe width and a second process on its GPUs",
    "drain the node and let the others go on",
)
ADVICE_DATA = (
    "it waits for its data: check the disk or mount of {node} (iostat -x 1, nfsiostat 1)",
    "more loader workers, a deeper prefetch, or a local copy of the shards",
)


ADVICE_HOT = "check the fans and inlet of {node}, or drain it"


def _advice(node: str, waits: bool, reason: str) -> tuple[str, ...]:
    texts = ADVICE_DATA if waits else ADVICE_COMPUTE
    if "thermal" in reason:
        texts = (ADVICE_HOT, *ADVICE_COMPUTE[1:])
    return tuple(text.format(node=node) for text in texts)


class _Node:
    __slots__ = ("above", "base", "base_ratios", "data", "excess", "own", "quiet", "ratio", "recent")

    def __init__(self) -> None:
        self.base = 1.0
        self.base_ratios: list[float] = []
        self.recent: list[bool] = []
        self.quiet = 0
        self.ratio = 1.0
        self.own = 0.0
        self.excess = 0.0
        self.data = 0.0
        self.above = 0


class Straggler:
    """The detector; one incident a node."""

    kinds = frozenset(("metrics",))

    def __init__(self, pulse: Pulse, thresholds: Thresholds) -> None:
        self._pulse = pulse
        self._bar = thresholds.straggler_ratio
        self._hold = max(1, int(thresholds.straggler_steps or 6))
        self._steps: dict[int, dict[str, tuple[float, float, float]]] = {}
        self._nodes: dict[str, _Node] = {}
        self._reporting: dict[str, int] = {}
        self._open: dict[str, Incident] = {}
        self._done = -1
        self._seen = 0
        self._spread = 0.0
        self._beside: float | None = None
        """Seconds of a step beside the nodes' own time, while no node is slow: a slow one hides a part of them."""
        self._pause_seen = False

    def observe(self, record: Record, node: str, at: float | None) -> Iterable[Incident]:
        values = record.values
        if self._bar is None or "step_time_s" not in values:
            return ()
        wall = number(values.get("step_time_s"))
        step = values.get("step")
        if wall is None or not isinstance(step, int) or not 0.0 < wall < 1e6:
            return ()
        data = number(values.get("data_time_s")) or 0.0
        compute = number(record.extra.get("compute_time_s"))
        comm = number(values.get("comm_time_s"))
        if compute is not None:
            own = compute + data
        elif comm is not None and 0.0 <= comm < wall:
            own = wall - comm
        else:
            own = wall
        self._reporting[node] = step
        if not 0.0 < own < 1e6 or step <= self._done:
            if step < self._done - 4:
                self._restart(step)
            return ()
        if self._pulse.pause is not None:
            return ()
        told = self._steps.get(step)
        if told is None:
            told = self._steps[step] = {}
        before = told.get(node)
        if before is None or own > before[0]:  # of several ranks under one name the slowest counts
            told[node] = (own, data, wall)
        if len(told) >= len(self._reporting) >= NODES:
            return self._judge(step, record, at)
        if len(self._steps) > OPEN_STEPS:  # nodes that are behind are not waited for
            oldest = min(self._steps)
            for name in [n for n, s in self._reporting.items() if s < oldest]:
                del self._reporting[name]
            if len(self._steps[oldest]) >= max(NODES, len(self._reporting) // 2):
                return self._judge(oldest, record, at)
            del self._steps[oldest]
        return ()

    def fits(self, columns: Columns) -> bool:
        """Whether `take_columns` can take these: nodes that are compared with others are looked at record by record."""
        if self._bar is None or "step_time_s" not in columns.values:
            return True
        alone = len(self._reporting) < NODES and all(len(told) < NODES for told in self._steps.values())
        return alone and columns.steps[0] > self._done

    def take_columns(self, columns: Columns, node: str, otherwise: float) -> None:
        """`observe` of each row: of a node alone the last steps are all that is kept."""
        if self._bar is None or "step_time_s" not in columns.values:
            return
        for row in range(max(0, len(columns) - OPEN_STEPS - 2), len(columns)):
            self.observe(columns.record(row), node, otherwise)

    def _restart(self, step: int) -> None:
        """The run was resumed: begin again, with what is permanent of each node."""
        live = self._pulse.step
        if live is not None and step > live:
            return
        self._done = step - 1
        self._seen = 0
        self._steps.clear()

    def _judge(self, step: int, record: Record, at: float | None) -> Iterable[Incident]:
        told = self._steps.pop(step)
        for old in [s for s in self._steps if s < step]:
            del self._steps[old]
        self._done = step
        self._seen += 1
        if self._seen <= WARM_UP_STEPS:
            return ()
        owns = [own for own, _, _ in told.values()]
        middle = median(owns)
        if middle <= 0.0:
            return ()
        spread = MAD_TO_SIGMA * median([abs(own - middle) for own in owns]) / middle
        self._spread = spread if self._seen == WARM_UP_STEPS + 1 else 0.9 * self._spread + 0.1 * spread
        assert self._bar is not None
        bar = max(self._bar, 1.0 + 3.0 * self._spread)
        middle_data = median([data for _, data, _ in told.values()])
        out: list[Incident] = []
        for name, (own, data, wall) in told.items():
            node = self._nodes.get(name)
            if node is None:
                node = self._nodes[name] = _Node()
            raw = own / middle
            ratio = raw / node.base
            if len(node.base_ratios) < BASE_STEPS:
                node.base_ratios.append(raw)
                if len(node.base_ratios) == BASE_STEPS:
                    node.base = min(1.0 + BASE_SPREAD, max(1.0 - BASE_SPREAD, median(node.base_ratios)))
            node.recent.append(ratio >= bar)
            if len(node.recent) > self._hold:
                del node.recent[0]
            if name not in self._open and not node.recent[-1]:
                continue
            weight = 0.3
            node.ratio += weight * (min(ratio, 3.0) - node.ratio) if node.recent[-1] or name in self._open else 0.0
            node.own, node.excess, node.data = own, own - middle, data - middle_data
            if name in self._open:
                out.extend(self._look_again(name, node, ratio, middle, wall, record, at, step))
            elif sum(node.recent) >= max(1, self._hold - 1) and len(node.recent) >= self._hold:
                self._open[name] = found = self._incident(name, node, ratio, middle, wall, bar, record, at, step)
                node.quiet = 0
                out.append(found)
        if not self._open and not any(node.recent[-1] for name, node in self._nodes.items() if name in told):
            beside = max(0.0, median([wall for _, _, wall in told.values()]) - middle)
            known = beside if self._beside is None else self._beside
            # It rises slowly, so that a node that slows down step by step does not pass for usual.
            self._beside = known + (0.1 if beside < known else 0.01) * (beside - known)
        return out

    def _words(self, node: _Node, own: float, middle: float, wall: float) -> tuple[str, str]:
        percent = 100.0 * (own / middle - 1.0)
        measured = f"own time {units.seconds(own)}, {units.change(percent)} over the median"
        lost = own - middle if self._beside is None else min(own - middle, wall - middle - self._beside)
        cost = 100.0 * max(0.0, lost) / max(wall, own)
        return measured, f"costs {units.percent(cost)} of the run's speed" if cost >= 1.0 else ""

    def _incident(
        self,
        name: str,
        node: _Node,
        ratio: float,
        middle: float,
        wall: float,
        bar: float,
        record: Record,
        at: float | None,
        step: int,
    ) -> Incident:
        measured, outlook = self._words(node, node.own, middle, wall)
        waits = node.excess > 0.0 and node.data > DATA_SHARE * node.excess
        evidence: list[tuple[str, Value]] = [
            ("own_s", round(node.own, 4)),
            ("median_s", round(middle, 4)),
            ("ratio", round(ratio, 3)),
            ("bar", round(bar, 3)),
            ("spread_of_nodes", round(self._spread, 4)),
            ("cause", "waits for data" if waits else "computes slower"),
        ]
        reason = self._reason(name, waits)
        if waits:
            measured += ", waits for its data"
        if reason:
            measured += f"; {reason}"
            evidence.append(("reason", reason))
        now = moment(record, at)
        node.above = step
        return Incident(
            key=f"straggler:{name}",
            kind="straggler",
            severity="warning",
            title="STRAGGLER",
            who=name,
            measured=measured,
            outlook=outlook,
            advice=_advice(name, waits, reason),
            node=name,
            start=now,
            detected=now,
            start_step=max(0, step - self._hold + 1),
            evidence=tuple(evidence),
        )

    def _look_again(
        self,
        name: str,
        node: _Node,
        ratio: float,
        middle: float,
        wall: float,
        record: Record,
        at: float | None,
        step: int,
    ) -> Iterable[Incident]:
        incident = self._open[name]
        assert self._bar is not None
        node.quiet = node.quiet + 1 if ratio < 1.0 + 0.6 * (self._bar - 1.0) else 0
        if node.quiet >= CLEAR_STEPS:
            del self._open[name]
            node.ratio = 1.0
            text = f"own time {units.seconds(node.own)}, as the others"
            return (replace(incident, end=moment(record, at), end_step=step, resolution=text),)
        if (step - node.above) % 20 == 0:
            smooth = node.ratio * node.base * middle
            measured, outlook = self._words(node, smooth, middle, max(wall, smooth))
            waits = "waits for its data" in incident.measured
            reason = self._reason(name, waits)
            measured += (", waits for its data" if waits else "") + (f"; {reason}" if reason else "")
            if measured != incident.measured and ratio > 1.0:
                self._open[name] = changed = replace(
                    incident, measured=measured, outlook=outlook, advice=_advice(name, waits, reason)
                )
                return (changed,)
        return ()

    def _reason(self, name: str, waits: bool) -> str:
        """What the node's own instruments say of it: "gpu6 at 87 °C, SM clock 1,230 of 1,410 MHz: thermal slowdown"."""
        return "" if waits else self._pulse.fleet.reason(name)

    def tick(self, now: float) -> Iterable[Incident]:
        return ()

    def ratio(self, name: str) -> float | None:
        """Own time of a node with an open incident against the median, else None."""
        return self._nodes[name].ratio if name in self._open else None
