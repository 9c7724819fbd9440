"""One GPU in full: what the page behind its row shows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from trainmon import units
from trainmon.curves import Span
from trainmon.machines import GpuDetail
from trainmon.model import Incident, Severity
from trainmon.samples import GpuProcess
from trainmon.session.cards import REASONS, ROW, Card
from trainmon.session.gpucharts import gpu_charts, tidy
from trainmon.session.gpupanel import ORIGINS
from trainmon.session.gpurows import Look, driver_sentence, gpus_of, memory_of, note_of, row_of
from trainmon.session.nodes import STEP, NodeState
from trainmon.session.run import SLOW_RISES, RunState
from trainmon.session.wording import coarse

MAX_OTHERS = 64
MAX_FOLLOWS = 6
_MEMORY = frozenset(("near_oom", "memory_leak", "memory_high", "oom"))
_GROWN = 0.01
"""Share of the steady level from which memory has grown."""
_NEAR = 0.97
"""Share of the steady level from which it was reached."""
_THROTTLE_WORDS = {
    "power cap": ("power cap",),
    "thermal": ("thermal (software)", "thermal (hardware)"),
    "hardware": ("hardware slowdown", "power brake"),
}
_COOL = "heat slows it down: look at fans, inlet temperature and dust, or drain the machine"


_GpuOf = Callable[[Incident], int | None]


def gpu_detail(
    run: RunState, key: str, look: Look, alerts: Sequence[tuple[Incident, int | None]], gpu_of: _GpuOf
) -> GpuDetail | None:
    """The page of a GPU; None when there is none of that key.

    Args:
        key: Of its row.
        look: What rows are made with.
        alerts: What is firing, each with the GPU that it is of.
        gpu_of: Gives the GPU that an incident is of.
    """
    card = run.machines.cards.cards.get(key)
    if card is None:
        card = run.gpus.card_of(key)
    if card is None:
        return None
    logged = key not in run.machines.cards.cards
    cards = run.machines.cards.of(card.node) if not logged else [card]
    whole = [one for one in cards if bool(one.instance) == bool(card.instance)]
    names = {card.node, look.names.get(card.node, card.node), card.run_node or card.node}
    alone = len(whole) == 1
    mine = [
        alert
        for alert, gpu in alerts
        if alert.node in names and (card.index in gpus_of(alert, gpu) or (alone and gpu is None))
    ]
    mine.sort(key=lambda alert: alert.severity != "critical")
    node = _node(run, card, look)
    driver = run.machines.cards.drivers.get(card.node)
    others = [one for one in whole if one is not card]
    if not others and not logged:
        others = [one for one in run.machines.cards.cards.values() if one is not card and not one.instance]
    row = row_of(card, look, alone=alone)
    if logged:
        row = replace(row, state="" if row.state == "ok" else row.state)
    stale = coarse(card.age(look.now)) if row.state == "stale" else 0.0
    page = GpuDetail(
        row=row,
        origin=ORIGINS.get(card.origin, card.origin),
        age_s=stale or None,
        driver=card.facts.get("driver", "") or (driver.driver if driver is not None else ""),
        facts=_facts(card, driver.driver if driver is not None else ""),
        charts=gpu_charts(card, others[:MAX_OTHERS], node, stale or None),
        spans=_spans(run, card, names, gpu_of),
        processes=_processes(card),
        process_sentence=_process_sentence(card, logged),
        throttle=_throttle(card),
        follows=_follows(card, row.state, mine, driver_sentence(driver) if not logged else ""),
        siblings=tuple(row_of(one, look, alone=alone) for one in cards),
        log_source=_source(run, card, node),
    )
    return _split(page, card, node, mine)


def _about(card: Card, incident: Incident, gpu: int | None, alone: bool) -> bool:
    return card.index in gpus_of(incident, gpu) or (alone and gpu is None)


def _node(run: RunState, card: Card, look: Look) -> NodeState | None:
    for name in (card.run_node, look.names.get(card.node), card.node):
        found = run.nodes.get(name) if name else None
        if found is not None:
            return found
    return None


def _source(run: RunState, card: Card, node: NodeState | None) -> int | None:
    seat = run.machines.seats.ranks.get(card.rank) if card.rank is not None else None
    if seat is not None and seat.source is not None:
        return seat.source
    return node.sources[0] if node is not None and node.sources else None


# ---------------------------------------------------------------- heading


def _facts(card: Card, driver: str) -> tuple[tuple[str, str, Severity | None], ...]:
    facts = card.facts
    out: list[tuple[str, str, Severity | None]] = []
    if card.rank is not None:
        out.append(("rank", units.count(card.rank), None))
    for label, name in (("PCI", "pci"), ("mode", "mode"), ("memory", "memory")):
        if name in facts:
            out.append((label, facts[name], None))
    version = facts.get("driver") or driver
    if version:
        out.append(("driver", version, None))
    if card.profile:
        out.append(("MIG", card.profile, None))
    ecc = _ecc(card)
    if ecc is not None:
        out.append(ecc)
    if card.origin != "log":
        newest = card.events[-1] if card.events else None
        if newest is not None:
            out.append(("Xid", f"{newest.code} at {units.clock(newest.time)}", "critical"))
        elif "events" not in card.missing:
            out.append(("Xid", "none", None))
    out += _rows(card)
    fabric = card.value("fabric_ok")
    if fabric is not None:
        out.append(("NVLink fabric", "up" if fabric else "not up", None if fabric else "critical"))
    return tuple(out)


def _ecc(card: Card) -> tuple[str, str, Severity | None] | None:
    state, wrong = card.facts.get("ecc"), card.value("ecc_uncorrected")
    if state is None and wrong is None:
        return None
    words = [word for word in (state, f"{units.count(wrong)} uncorrected" if wrong is not None else None) if word]
    return "ECC", ", ".join(words), "critical" if wrong else None


def _rows(card: Card) -> list[tuple[str, str, Severity | None]]:
    """Remapped rows, or retired pages of older boards."""
    out: list[tuple[str, str, Severity | None]] = []
    remapped = [card.value("remapped_corrected"), card.value("remapped_uncorrected")]
    known = [one for one in remapped if one is not None]
    if known:
        failed, pending = bool(card.value("remap_failed")), bool(card.value("remap_pending"))
        words = units.count(sum(known)) + (", failed" if failed else ", reset needed" if pending else "")
        out.append(("remapped rows", words, "critical" if failed else "warning" if pending else None))
    retired = card.value("retired_pages")
    if retired is not None:
        pending = bool(card.value("retired_pending"))
        words = units.count(retired) + (", reset needed" if pending else "")
        out.append(("retired pages", words, "warning" if pending else None))
    return out


def _spans(run: RunState, card: Card, names: set[str], gpu_of: _GpuOf) -> tuple[Span, ...]:
    """What slowly rises is shaded from the moment at which it was told of: the rise itself stands in its chart."""
    out = []
    for incident in (*run.past, *run.open.values()):
        if (
            incident.node not in names
            or incident.severity == "info"
            or card.index not in gpus_of(incident, gpu_of(incident))
        ):
            continue
        start = max(incident.start, incident.detected) if incident.kind in SLOW_RISES else incident.start
        out.append(Span(start, incident.end, incident.severity))
    return tuple(sorted(out, key=lambda span: (span.severity == "critical", span.start)))


# ---------------------------------------------------------------- memory by what it does


def _split(page: GpuDetail, card: Card, node: NodeState | None, alerts: Iterable[Incident]) -> GpuDetail:
    """The page with steady, grown and free memory, since which step, and what follows from it."""
    used, total = memory_of(card), card.value("gpu_memory_total_mb")
    if used is None:
        return page
    row = ROW["gpu_memory_mb"]
    rise = next((alert for alert in alerts if alert.kind in _MEMORY), None)
    steady = used
    if rise is not None:
        begun = _time_of(node, rise.start_step)
        before = card.past.at(row, (begun if begun is not None else rise.start) - card.past.width_s)
        if before is not None and used - before > _GROWN * before:
            steady = before
    reached = card.past.first_at_least(row, _NEAR * steady)
    grown = used - steady
    free = card.value("memory_free_mb")
    if free is None and total is not None:
        free = max(0.0, total - used)
    return replace(
        page,
        steady_mb=round(steady, 1),
        grown_mb=round(grown, 1),
        free_mb=None if free is None else round(free, 1),
        steady_since=_step_at(node, reached),
        grown_since=rise.start_step if rise is not None and grown > 0.0 else None,
        outlook=rise.outlook if rise is not None else "",
    )


def _step_at(node: NodeState | None, time: float | None) -> int | None:
    if node is None or time is None:
        return None
    step = node.times.at(STEP, time)
    return None if step is None else int(step)


def _time_of(node: NodeState | None, step: int | None) -> float | None:
    return None if node is None or step is None else node.times.first_at_least(STEP, step)


# ---------------------------------------------------------------- processes, throttling, advice


def _processes(card: Card) -> tuple[GpuProcess, ...]:
    return tuple(sorted(card.processes or (), key=lambda one: (-(one.memory_mb or 0.0), one.pid)))


def _process_sentence(card: Card, logged: bool) -> str:
    if card.processes:
        return ""
    if card.processes is not None:
        return "no process is on it"
    if logged or card.origin == "log":
        return "a log does not tell of processes"
    return "not read yet" if card.state == "ok" else "cannot be read now"


def _throttle(card: Card) -> tuple[tuple[str, bool, float], ...]:
    if card.throttle_time == -math.inf:
        return ()
    return tuple(
        (reason, any(word in card.throttle for word in _THROTTLE_WORDS[reason]), tidy(lost))
        for reason, lost in zip(REASONS, card.throttled_s(), strict=True)
    )


def _follows(card: Card, state: str, alerts: Iterable[Incident], driver: str) -> tuple[str, ...]:
    out: dict[str, None] = {}
    for sentence in (note_of(card, state), driver):
        if sentence:
            out.setdefault(sentence)
    for alert in alerts:
        for sentence in alert.advice:
            out.setdefault(sentence)
    if not out and any(word in card.throttle for word in _THROTTLE_WORDS["thermal"]):
        out.setdefault(_COOL)
    return tuple(out)[:MAX_FOLLOWS]
