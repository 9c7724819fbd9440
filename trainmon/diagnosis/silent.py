"""One node is silent while the others go on.

Measured by arrival and by the node's own pace. A node that has not spoken yet is not silent, nor is one that never
reported steps (often only the first rank logs), nor one whose file was already old at opening.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from trainmon.diagnosis.pulse import NodePulse, Pulse
from trainmon.diagnosis.thresholds import Thresholds
from trainmon.diagnosis.words import ago, step_of
from trainmon.model import Incident, Record

FLOOR_S = 60.0
OLD_AT_OPENING_S = 3600.0
ADVICE = (
    "is the process alive, and the host reachable? ssh {node}, then dmesg -T | tail (killed for memory? an Xid?)",
    "is its log still written to this file, and the disk not full?",
)


class Silent:
    """The detector; one incident a node."""

    kinds: frozenset[str] = frozenset()

    def __init__(self, pulse: Pulse, thresholds: Thresholds) -> None:
        self._pulse = pulse
        self._given = thresholds.node_silent_after_s
        self.applies = True
        self._open: dict[str, Incident] = {}

    def observe(self, record: Record, node: str, at: float | None) -> Iterable[Incident]:
        return ()

    def limit(self, node: NodePulse) -> float:
        """Seconds of silence that this node's own past explains."""
        if self._given is None:
            return float("inf")
        if self._given >= 0.0:
            return self._given
        limit = max(FLOOR_S, 10.0 * (node.pace.typical or 0.0), 1.5 * node.pace.longest)
        return max(limit, 1.5 * self._pulse.pause_longest.get("eval", 0.0))

    def silent_s(self, name: str, now: float) -> float | None:
        """Seconds for which a node with an open incident has been silent, else None."""
        if name not in self._open:
            return None
        heard = self._pulse.nodes[name].last_heard()
        return now - heard if heard is not None else None

    def tick(self, now: float) -> Iterable[Incident]:
        pulse = self._pulse
        out: list[Incident] = []
        if self._open:
            for name, incident in list(self._open.items()):
                changed = self._look_again(pulse.nodes[name], incident, now)
                if changed is not None:
                    out.append(changed)
        newest = pulse.step_heard
        if self._given is None or not self.applies or newest is None or len(pulse.nodes) < 2:
            return out
        for node in pulse.nodes.values():
            heard = node.last_heard()
            if heard is None or node.steps < 3 or now - heard < 1.0 or node.name in self._open:
                continue
            limit = self.limit(node)
            if now - heard <= limit or newest - heard <= limit / 2.0 or pulse.pause is not None:
                continue
            if node.step is not None and pulse.step is not None and node.step >= pulse.step:
                continue
            if pulse.total and node.step is not None and node.step >= pulse.total:
                continue
            if node.heard is None and pulse.opened_at is not None and pulse.opened_at - heard > OLD_AT_OPENING_S:
                continue
            self._open[node.name] = found = self._incident(node, heard, limit, now)
            out.append(found)
        return out

    def _incident(self, node: NodePulse, heard: float, limit: float, now: float) -> Incident:
        pulse = self._pulse
        return Incident(
            key=f"node_silent:{node.name}",
            kind="node_silent",
            severity="warning",
            title="SILENT",
            who=node.name,
            measured=self._measured(node, now - heard),
            outlook="the others go on",
            advice=tuple(text.format(node=node.name) for text in ADVICE),
            node=node.name,
            start=pulse.wall(heard),
            detected=pulse.wall(now),
            start_step=node.step,
            evidence=(
                ("silent_s", round(now - heard, 1)),
                ("limit_s", round(limit, 1)),
                ("usual_gap_s", round(node.pace.typical or 0.0, 3)),
            ),
        )

    def _measured(self, node: NodePulse, silent: float) -> str:
        behind = ""
        if node.step is not None and self._pulse.step is not None:
            behind = f", last at {step_of(node.step, None)}"
        return f"no line for {ago(silent)}{behind}"

    def _look_again(self, node: NodePulse, incident: Incident, now: float) -> Incident | None:
        pulse = self._pulse
        heard = node.last_heard()
        since = incident.start - pulse.shift
        if heard is not None and heard > since + 1.0:
            del self._open[node.name]
            text = f"heard again after {ago(heard - since)}"
            return replace(incident, end=pulse.wall(now), end_step=node.step, resolution=text)
        if not self.applies:
            del self._open[node.name]
            return replace(incident, end=pulse.wall(now), evidence=(*incident.evidence, ("superseded", "run over")))
        text = self._measured(node, now - since)
        if text == incident.measured:
            return None
        self._open[node.name] = changed = replace(incident, measured=text)
        return changed
