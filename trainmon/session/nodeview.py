"""The nodes section of the snapshot: worst first, each with its figures, its health and a word for it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import median

from trainmon.catalogue import Catalogue
from trainmon.model import Incident
from trainmon.session.blame import cause_of
from trainmon.session.errors import UNKNOWN, ErrorGroup
from trainmon.session.files import SourceFile
from trainmon.session.gpurows import memory_of, tenths
from trainmon.session.nodes import NodeState
from trainmon.session.run import RunState
from trainmon.session.wording import age_words, coarse, natural, pattern_of
from trainmon.snapshot import Health, NodeView
from trainmon.snapshot import RunState as StateWord

SPARK = 10
_WORDS = {"straggler": "slow", "slowdown": "slow", "memory_high": "memory", "stall": "stalled", "node_silent": "silent"}
_RANK: dict[Health, int] = {"critical": 0, "warning": 1, "silent": 2, "expected": 3, "ok": 4}
_SILENT_MIN_S = 10.0


def listed_nodes(run: RunState, files: Mapping[int, SourceFile]) -> list[NodeState]:
    """The nodes that are worth a row.

    A file without steps (the launcher's, a GPU agent's) is a node only when its name stands in a row with files
    that have steps, when the log names the node itself, or when nothing at all has steps.
    """
    nodes = list(run.nodes)
    stepping = [node for node in nodes if node.step is not None]
    if not stepping or run.separate:
        return nodes
    patterns = {pattern_of(node.name) for node in stepping}
    spoken = {source for node in stepping for source in node.sources}
    return [
        node
        for node in nodes
        if node.step is not None
        or (node.fatal_code is not None and (node.declared or not spoken.issuperset(node.sources)))
        or (node.declared and node.telemetry)
        or (pattern_of(node.name) in patterns and len(stepping) > 1)
    ]


def bind_machines(run: RunState, files: Mapping[int, SourceFile], now: float) -> None:
    """Find out which machine is which of the run's nodes."""
    run.machines.tidy(now)
    run.machines.bind(run.nodes.shape, lambda: [node.name for node in listed_nodes(run, files)], run.dirty)


def node_views(
    run: RunState,
    files: Mapping[int, SourceFile],
    alerts: Sequence[Incident],
    state: StateWord,
    now: float,
    catalogue: Catalogue,
) -> tuple[NodeView, ...]:
    """The nodes, worst first, then by name."""
    listed = listed_nodes(run, files)
    known = {node.name for node in listed}
    if len(run.nodes) == 0 or len(listed) < len(files):
        waiting = _expected(run, files, known)
    else:
        waiting = []
    own = [node.own_s for node in listed if node.own_s is not None]
    middle = median(own) if len(own) > 1 else None
    by_node: dict[str, list[Incident]] = {}
    for alert in alerts:
        if alert.node:
            by_node.setdefault(alert.node, []).append(alert)
    cause = cause_of(run.errors, catalogue)
    views = [_node_view(node, by_node.get(node.name, ()), cause, state, now, middle, run) for node in listed]
    views += waiting
    views.sort(key=lambda view: (_RANK[view.health], natural(view.name)))
    return tuple(views)


def _expected(run: RunState, files: Mapping[int, SourceFile], known: set[str]) -> list[NodeView]:
    stepping = run.nodes.stepping()
    patterns = {pattern_of(node.name) for node in stepping}
    told = {source for node in run.nodes for source in node.sources}
    names: dict[str, list[int]] = {}
    for file in files.values():
        if file.node in known or file.id in told or file.chatter:
            continue
        if not stepping or (pattern_of(file.node) in patterns and len(stepping) > 1):
            names.setdefault(file.node, []).append(file.id)
    word = "no step yet"
    return [NodeView(name=name, health="expected", word=word, sources=tuple(ids)) for name, ids in names.items()]


def _node_view(
    node: NodeState,
    alerts: Sequence[Incident],
    cause: ErrorGroup | None,
    state: StateWord,
    now: float,
    middle: float | None,
    run: RunState,
) -> NodeView:
    memory, heat = run.gpus.worst(node.name)
    cards = run.machines.of(node.name)
    if cards:
        told = [used for card in cards if card.mine and (used := memory_of(card)) is not None]
        heats = [one for card in cards if card.mine and (one := card.value("gpu_temperature_c")) is not None]
        memory = tenths(max(told)) if told else memory
        heat = float(round(max(heats))) if heats else heat
    silent = coarse(now - node.heard) if node.heard else 0.0
    pace = node.seconds_a_step() or 0.0
    if silent < max(_SILENT_MIN_S, 3.0 * pace):
        silent = 0.0
    health, word = _health(node, alerts, cause, state, silent)
    bad_from = None
    spark, starts = node.spark(SPARK)
    begun = min(
        (a.start_step for a in alerts if a.kind in ("straggler", "slowdown") and a.start_step is not None), default=None
    )
    node.reach = begun
    if begun is not None and spark:
        # The bucket in which it began counts when most of it lies behind that step.
        middles = [*((one + two) / 2 for one, two in pairwise(starts)), math.inf]
        bad_from = next(i for i, x in enumerate(middles) if x >= begun)
    versus = None
    if middle and node.own_s is not None:
        share = (node.own_s - middle) / middle * 100.0
        versus = float(round(share)) if math.isfinite(share) else None
    return NodeView(
        name=node.name,
        health=health,
        word=word,
        step=node.step,
        own_s=node.own_s,
        spark=spark,
        bad_from=bad_from,
        versus_percent=versus,
        wait_s=node.wait_s,
        memory_mb=node.memory_mb if memory is None else memory,
        temperature_c=node.temperature_c if heat is None else heat,
        loss=node.loss if node.loss is None or node.loss == node.loss else math.nan,
        silent_s=silent or None,
        sources=node.sources,
    )


def _health(
    node: NodeState, alerts: Sequence[Incident], cause: ErrorGroup | None, state: StateWord, silent: float
) -> tuple[Health, str]:
    if node.fatal_code is not None:
        if cause is not None and cause.lead.node == node.name:
            return "critical", "failed" if cause.code in UNKNOWN else cause.code
        if cause is not None and cause.lead.node != node.name:
            return "silent", "timed out" if "TIMEOUT" in node.fatal_code else "failed"
        return "critical", "failed"
    if state == "failed" and cause is not None and cause.lead.node == node.name:
        return "critical", "failed" if cause.code in UNKNOWN else cause.code
    worst = min(alerts, key=lambda alert: alert.severity != "critical", default=None)
    if worst is not None and worst.severity != "info":
        if worst.kind in ("node_silent", "stall") and silent:
            return "silent", f"silent {age_words(silent)}"
        if worst.severity == "critical":
            return "critical", worst.title
        return "warning", _WORDS.get(worst.kind, worst.title.lower())
    if state in ("failed", "stalled", "old") and silent:
        return "silent", f"silent {age_words(silent)}"
    if state == "finished":
        return "ok", "finished"
    if node.step is None and node.loss is None:
        return "expected", "no step yet"
    return "ok", "ok"
