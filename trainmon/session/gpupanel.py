"""The GPU panel: which machine's GPUs are shown, where their figures come from, and the worst of all machines."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import replace

from trainmon.machines import GpuPanel, GpuRow
from trainmon.model import Incident
from trainmon.samples import DriverSample
from trainmon.session.cards import WINDOW_S, Card
from trainmon.session.gpurows import FINE, QUIET, Look, alarms_of, driver_sentence, row_of, weight
from trainmon.session.gpus import MAX_ROWS
from trainmon.session.run import RunState
from trainmon.session.wording import coarse, natural
from trainmon.snapshot import Health, NodeView

ORIGINS: dict[str, str] = {"NVML": "NVML", "host": "NVML", "agent": "from its agent", "log": "from the log"}
_ALARMED: frozenset[Health] = frozenset(("critical", "warning"))


def look_at(run: RunState, alerts: Sequence[tuple[Incident, int | None]], now: float) -> Look:
    """What rows of telemetry are made with; the alerts with the GPU that each is of."""
    return Look(run.machines.binding.node_of, alarms_of(list(alerts)), run.machines.cards.drivers, now)


def panel_of(
    run: RunState,
    nodes: Sequence[NodeView],
    alerts: Sequence[tuple[Incident, int | None]],
    selected: str | None,
    now: float,
) -> GpuPanel:
    """The GPU panel of the selected node, else of the worst one that is not well, else of this machine.

    Args:
        nodes: Worst first.
        alerts: What is firing, each with the GPU that it is of.
        selected: A node of the run or a machine.
    """
    look = look_at(run, alerts, now)
    machine = _choose(run, nodes, look, selected)
    everywhere, counted = _everywhere(run, look)
    if machine is None:
        panel = _logged(run, nodes, alerts, selected, now)
    else:
        panel = _machine(run, machine, look)
    if len(run.machines.cards.by_node) + run.gpus.nodes > 1:
        return replace(panel, everywhere=everywhere, counted=counted)
    return replace(panel, counted=counted)


def _choose(run: RunState, nodes: Sequence[NodeView], look: Look, selected: str | None) -> str | None:
    """The machine whose GPUs to show; None: what the logs tell is shown."""
    known = {name for name, cards in run.machines.cards.by_node.items() if cards}
    if selected is not None:
        machine = run.machines.binding.machine_of.get(selected, selected)
        if machine in known or machine in run.machines.cards.drivers:
            return machine
        if run.gpus.has(selected):
            return None
    bound = known & set(run.machines.binding.node_of) | known & set(run.machines.binding.machine_of.values())
    if not bound and len(run.gpus):
        return None  # the run's own figures go before those of a machine that may have nothing to do with it
    for view in nodes:
        found = run.machines.binding.machine_of.get(view.name)
        if view.health not in _ALARMED:
            break
        if found in known:
            return found
    if run.machines.here in known:
        return run.machines.here
    for view in nodes:
        found = run.machines.binding.machine_of.get(view.name)
        if found in known:
            return found
    if known:
        return min(known, key=lambda name: (_worst(run, name, look), natural(name)))
    return run.machines.here if run.machines.here in run.machines.cards.drivers and not len(run.gpus) else None


def _worst(run: RunState, machine: str, look: Look) -> tuple[int, bool, float]:
    return min(weight(card, look) for card in run.machines.cards.by_node[machine].values())


def _machine(run: RunState, machine: str, look: Look) -> GpuPanel:
    cards = run.machines.cards.of(machine)
    driver = run.machines.cards.drivers.get(machine)
    rows = tuple(row_of(card, look, alone=len(cards) == 1) for card in cards)
    newest = max(cards, key=lambda card: card.heard, default=None)
    age = None
    if newest is not None and newest.stale(look.now):
        age = coarse(newest.age(look.now)) or None
    origin = ORIGINS[newest.origin] if newest is not None else ORIGINS[driver.origin] if driver is not None else ""
    return GpuPanel(
        subject=look.names.get(machine, machine),
        origin=origin,
        rows=rows,
        sentence=_sentence(run, cards, driver),
        age_s=age,
        here=machine == run.machines.here,
        window_s=WINDOW_S if newest is not None and newest.origin != "log" else None,
        driver=(driver.driver if driver is not None else "")
        or (newest.facts.get("driver", "") if newest is not None else ""),
        bad=driver is not None and driver.state not in QUIET,
    )


def _sentence(run: RunState, cards: Sequence[Card], driver: DriverSample | None) -> str:
    if driver is None:
        return ""
    if driver.state not in FINE:
        return driver_sentence(driver)
    if cards:
        return ""
    if driver.state == "starting":
        return driver.sentence or "asking the NVIDIA driver for its GPUs"
    return driver.sentence or "the NVIDIA driver is there and counts no GPU"


def _logged(
    run: RunState,
    nodes: Sequence[NodeView],
    alerts: Sequence[tuple[Incident, int | None]],
    selected: str | None,
    now: float,
) -> GpuPanel:
    """What the logs' own figures tell."""
    bad: dict[tuple[str, int | None], Health] = {}
    for alert, gpu in alerts:
        if alert.node and alert.severity != "info" and alert.kind in ("near_oom", "oom", "memory_high", "memory_leak"):
            key = (alert.node, gpu)
            if bad.get(key) != "critical":
                bad[key] = "critical" if alert.severity == "critical" else "warning"
    return run.gpus.panel(selected, [view.name for view in nodes], now, bad)


def _everywhere(run: RunState, look: Look) -> tuple[tuple[GpuRow, ...], int]:
    """The worst GPUs of all machines, and how many there are."""
    known = run.machines.cards
    cards = known.cards.values()
    logged = [name for name in run.gpus.names() if run.machines.machine_of(name) not in known.by_node]
    counted = len(cards) + sum(len(run.gpus.of(name)) for name in logged)
    if len(known.by_node) + len(logged) < 2:
        return (), counted
    ranked = heapq.nsmallest(
        MAX_ROWS, ((*weight(card, look), natural(card.node), card.index or 0, card.key) for card in cards)
    )
    rows = [row_of(known.cards[entry[-1]], look) for entry in ranked]
    if logged:
        rows += run.gpus.rows(logged, MAX_ROWS)
        order = {"critical": 0, "warning": 1, "silent": 2}
        rows.sort(key=lambda row: order.get(row.health, 3))
    return tuple(rows[:MAX_ROWS]), counted


def gpus_of_run(run: RunState) -> int:
    """GPUs of the run: telemetry's of its machines and the logs' of the other nodes; with neither all that are seen."""
    book, binding = run.machines.cards, run.machines.binding
    machines = set(binding.node_of) | set(binding.machine_of.values())
    cards = [card for name in machines for card in book.by_node.get(name, {}).values()]
    logged = sum(len(run.gpus.of(name)) for name in run.gpus.names() if binding.machine_of.get(name) not in machines)
    return _whole(cards) + logged or _whole(book.cards.values())


def _whole(cards: Iterable[Card]) -> int:
    return sum(card.mine and not card.instance for card in cards)
