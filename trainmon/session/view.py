"""Builds the sections of the snapshot out of the state of a run. No section keeps a reference to mutable state."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from statistics import median

from trainmon.catalogue import Catalogue
from trainmon.model import Incident
from trainmon.session.blame import cause_of
from trainmon.session.errors import UNKNOWN, ErrorGroup
from trainmon.session.files import SourceFile
from trainmon.session.nodes import NodeState
from trainmon.session.roles import CAUSE, role_words
from trainmon.session.run import RunState
from trainmon.session.wording import age_words, coarse, natural, pattern_of, run_name
from trainmon.snapshot import (
    Counts,
    ErrorView,
    GpuPanel,
    Health,
    LogLine,
    NodeView,
    RunView,
    SourceView,
)
from trainmon.snapshot import RunState as StateWord

SPARK = 10
_WORDS = {"straggler": "slow", "slowdown": "slow", "memory_high": "memory", "stall": "stalled", "node_silent": "silent"}
_RANK: dict[Health, int] = {"critical": 0, "warning": 1, "silent": 2, "expected": 3, "ok": 4}
_SILENT_MIN_S = 10.0
_STEPS_TO_JUDGE = 10
"""Steps that a node has told of before it is called another run."""
_MANY_NODES = 64
_GPU_NAMED = re.compile(r"\bGPU (\d{1,3})\b")


# ---------------------------------------------------------------- nodes


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
        if file.node in known or file.id in told:
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


# ---------------------------------------------------------------- errors


def error_views(run: RunState, catalogue: Catalogue, *, exact: bool) -> tuple[ErrorView, ...]:
    """The errors: the probable cause first, what follows it by time, then the rest."""
    roles = role_words(run.errors, catalogue)

    def order(group: ErrorGroup) -> tuple[int, tuple[float, int]]:
        role = roles[group.key]
        rank = 0 if role == CAUSE else 1 if role.startswith("follows") else 2 if group.priority < 3 else 3
        return rank, group.sort_key

    return tuple(
        _error_view(group, roles[group.key], catalogue, exact=exact) for group in sorted(run.errors, key=order)
    )


def _error_view(group: ErrorGroup, role: str, catalogue: Catalogue, *, exact: bool) -> ErrorView:
    entry = catalogue.entry(group.code)
    first = group.first
    place = first.name.rsplit("/", 1)[-1] + (f":{first.line:,}" if first.line else "")
    return ErrorView(
        code=group.code,
        title=entry.title if entry is not None else "",
        message=group.message,
        severity="critical" if group.priority == 1 else "warning",
        priority=group.priority,
        role=role,
        lines=group.lines,
        where=group.where,
        first=first.at,
        place=place,
        source=first.source,
        line=first.line or None,
        offset=first.offset,
        raw=group.raw,
        fixes=tuple(entry.fixes) if entry is not None else (),
        causes=tuple(entry.causes) if entry is not None else (),
        reference=entry.source if entry is not None else "",
        node=first.node,
        rank=first.rank,
        exact=exact,
    )


# ---------------------------------------------------------------- GPUs, sources, run


def gpu_panel(
    run: RunState, nodes: Sequence[NodeView], alerts: Sequence[Incident], selected: str | None, now: float
) -> GpuPanel:
    """The GPU panel of the selected or worst node."""
    bad: dict[tuple[str, int | None], Health] = {}
    for alert in alerts:
        if alert.node and alert.severity != "info" and alert.kind in ("near_oom", "oom", "memory_high", "memory_leak"):
            key = (alert.node, gpu_of(alert, run))
            if bad.get(key) != "critical":
                bad[key] = "critical" if alert.severity == "critical" else "warning"
    order = [view.name for view in nodes]
    return run.gpus.panel(selected, order, now, bad)


def gpu_of(alert: Incident, run: RunState) -> int | None:
    """The GPU that an alert is of: its own, that of its rank, or the one that the error's words name."""
    if alert.gpu is not None or alert.node is None:
        return alert.gpu
    if alert.rank is not None:
        found = run.gpus.index_of(alert.node, alert.rank)
        if found is not None:
            return found
    named = _GPU_NAMED.search(next((str(value) for name, value in alert.evidence if name == "message"), ""))
    return int(named[1]) if named else None


def source_views(files: Mapping[int, SourceFile], missing: Mapping[str, SourceView]) -> tuple[SourceView, ...]:
    """What the user named that is no file (yet), then the files."""
    views = list(missing.values())
    for file in files.values():
        words = file.word, file.sentence
        if file.word == "followed" and file.size == 0 and file.read == 0:
            words = "empty", file.sentence or "empty; shown as soon as something is written"
        views.append(
            SourceView(
                id=file.id,
                name=file.name,
                path=file.path,
                word=words[0],
                sentence=words[1],
                bad=file.bad,
                node=file.node,
                format=file.format,
                size=file.size,
                lines=file.lines,
                quarantined=file.parser.quarantined,
                gaps=file.gaps,
                history=None if file.history is None else round(file.history, 2),
            )
        )
    return tuple(views)


def counts(run: RunState, files: Mapping[int, SourceFile], *, exact: bool) -> Counts:
    """The totals."""
    return Counts(
        lines=sum(file.lines for file in files.values()),
        records=run.records,
        quarantined=run.quarantined,
        gaps=run.gaps,
        bytes=sum(file.bytes_before + file.read for file in files.values()),
        exact=exact,
    )


def history_share(files: Iterable[SourceFile]) -> tuple[int, int]:
    """Bytes of the files that are read, and all of them."""
    read = size = 0
    for file in files:
        read += file.size if file.live or file.settled else min(file.read, file.size)
        size += file.size
    return read, size


def name_of(run: RunState, files: Mapping[int, SourceFile]) -> str:
    """Model or job name, else what the files' names have in common."""
    labelled = run.labels.get("model_name") or run.labels.get("job_id")
    read = [file.name for file in files.values() if file.lines or file.read or file.tail]
    return labelled or run_name(read)


def different_runs(run: RunState, files: Mapping[int, SourceFile]) -> str:
    """A sentence when the files look like different runs, else ""."""
    if run.separate:
        return "each file is a run of its own" if len(files) > 1 else ""
    if len(files) < 2:
        return ""
    totals: dict[int, str] = {}
    for node in run.nodes:
        if node.total_steps is not None and node.sources:
            totals.setdefault(node.total_steps, node.name)
    keep = "--separate keeps them apart"
    if len(totals) > 1:
        two = sorted(totals)[:2]
        return f"the files look like different runs ({two[0]:,} and {two[1]:,} steps in all): {keep}"
    apart = _never_together(run)
    if apart is not None:
        one, other = apart
        return f"{one.name} and {other.name} look like different runs (no step in common): {keep}"
    return ""


def _never_together(run: RunState) -> tuple[NodeState, NodeState] | None:
    """Two nodes that made steps at the same time and share none, far apart by their own count; else None."""
    nodes = [
        node for node in run.nodes if node.steps >= _STEPS_TO_JUDGE and node.began is not None and node.said is not None
    ]
    if not 2 <= len(nodes) <= _MANY_NODES:
        return None
    nodes.sort(key=lambda node: node.first_step or 0)
    for one, other in pairwise(nodes):
        if one.highest is None or other.first_step is None or other.first_step <= one.highest:
            continue
        made = max(one.highest - (one.first_step or 0), 1)
        both = min(one.said or 0.0, other.said or 0.0) - max(one.began or 0.0, other.began or 0.0)
        whole = min((one.said or 0.0) - (one.began or 0.0), (other.said or 0.0) - (other.began or 0.0))
        if other.first_step - one.highest > made and whole > 0.0 and both > 0.5 * whole:
            return one, other
    return None


def run_view(
    run: RunState,
    files: Mapping[int, SourceFile],
    *,
    state: StateWord,
    note: str,
    newest: float | None,
    history: float | None,
    nodes: int,
    demo: bool,
    hint: str,
    opened: float | None = None,
    now: float = 0.0,
) -> RunView:
    """The status row.

    Args:
        opened: When the session began, Unix seconds: how long it has waited is said as of `now`.
    """
    if state == "waiting" and opened is not None:
        waited = max(0.0, now - opened)
        note = f"{int(waited)} s" if waited < 60.0 else age_words(coarse(waited))
    return RunView(
        name=name_of(run, files),
        state=state,
        note=note,
        newest=newest,
        step=run.step,
        total_steps=run.total_steps,
        eta_s=eta(run, state),
        history=None if history is None else round(history, 2),
        nodes=nodes,
        gpus=len(run.gpus),
        demo=demo,
        hint=hint,
        started=opened if state == "waiting" else run.first_time,
    )


def eta(run: RunState, state: StateWord) -> float | None:
    """Seconds to the last step, from the slowest node; None when it cannot be said."""
    if state not in ("running", "quiet"):
        return None
    slowest = run.slowest
    total = run.total_steps
    if slowest is None or slowest.step is None or total is None:
        return None
    rate = run.watch.seconds_per_step or slowest.seconds_a_step()
    if rate is None:
        return None
    return max(0, total - slowest.step) * rate


def tail_lines(file: SourceFile | None) -> tuple[LogLine, ...]:
    """The last lines of a file."""
    if file is None:
        return ()
    return tuple(LogLine(file.id, file.node, None, text) for text in file.last_lines())
