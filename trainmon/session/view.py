"""Builds the sections of the snapshot out of the state of a run. No section keeps a reference to mutable state."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import pairwise

from trainmon.catalogue import Catalogue
from trainmon.model import Incident
from trainmon.parsing.clean import safe
from trainmon.session.errors import ErrorGroup
from trainmon.session.files import SourceFile
from trainmon.session.nodes import NodeState
from trainmon.session.roles import CAUSE, role_words
from trainmon.session.run import RunState
from trainmon.session.wording import age_words, coarse, run_name
from trainmon.snapshot import (
    PAST_STATES,
    Counts,
    ErrorView,
    LogLine,
    RunView,
    SourceView,
)
from trainmon.snapshot import RunState as StateWord

_STEPS_TO_JUDGE = 10
"""Steps that a node has told of before it is called another run."""
_MANY_NODES = 64
_GPU_NAMED = re.compile(r"\bGPU (\d{1,3})\b")


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
        lines=sum(file.lines for file in files.values() if not file.chatter),
        records=run.records,
        quarantined=run.quarantined,
        gaps=run.gaps,
        bytes=sum(file.bytes_before + file.read for file in files.values() if not file.chatter),
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
    read = [file.name for file in files.values() if (file.lines or file.read or file.tail) and not file.chatter]
    return labelled or run_name(read)


def not_answering(files: Mapping[int, SourceFile], missing: Mapping[str, SourceView]) -> str:
    """Which sources hang, in a few words; "" when all answer."""
    names = [file.name for file in files.values() if file.word == "hangs"]
    names += [view.name for view in missing.values() if view.word == "hangs"]
    if not names:
        return ""
    first = safe((names[0].rsplit("/", 1)[-1] or names[0])[:160])[:40]
    if len(names) == 1:
        return f"{first} does not answer"
    return f"{first} and {len(names) - 1:,} more do not answer"


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
    gpus: int,
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
    step, total = run.step, run.total_steps
    drawn = bar_progress(run, files)
    if drawn is not None and drawn[0] > (step or 0):
        step, total = drawn
        if state == "starting":
            state, note = "running", ""
    return RunView(
        name=name_of(run, files),
        state=state,
        note=note,
        newest=newest,
        step=step,
        total_steps=total,
        eta_s=eta(run, state, step),
        history=None if history is None else round(history, 2),
        nodes=nodes,
        gpus=gpus,
        demo=demo,
        hint=hint,
        started=opened if state == "waiting" else run.first_time,
        heard=run.newest_heard if state in PAST_STATES else None,
    )


def bar_progress(run: RunState, files: Mapping[int, SourceFile]) -> tuple[int, int] | None:
    """Step and steps in all by the training's progress bar, when one node at most names steps; else None.

    The Trainer reports every 500 steps by default: between two reports, and before the first, only its bar moves.
    """
    if run.separate or sum(node.step is not None for node in run.nodes) > 1:
        return None
    drawn = (file.parser.progress for file in files.values() if file.ahead is None)
    found = max((one for one in drawn if one is not None), default=None)
    return found if found is not None and run.total_steps in (None, found[1]) else None


def eta(run: RunState, state: StateWord, step: int | None = None) -> float | None:
    """Seconds to the last step, from the slowest node; None when it cannot be said.

    Args:
        step: Where the run is, when something tells that better than the slowest node's newest record.
    """
    if state not in ("running", "quiet"):
        return None
    slowest = run.slowest
    total = run.total_steps
    if slowest is None or slowest.step is None or total is None:
        return None
    rate = run.watch.seconds_per_step or slowest.seconds_a_step()
    if rate is None:
        return None
    return max(0, total - (slowest.step if step is None else step)) * rate


def tail_lines(file: SourceFile | None) -> tuple[LogLine, ...]:
    """The last lines of a file."""
    if file is None:
        return ()
    return tuple(LogLine(file.id, file.node, None, text) for text in file.last_lines())
