"""Rows of GPUs as the screen shows them: figures rounded so that equal pictures are equal, state and alarm in words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from trainmon import units
from trainmon.machines import GpuRow
from trainmon.model import Incident
from trainmon.samples import DriverSample, DriverState
from trainmon.session.cards import Card
from trainmon.session.wording import age_words, coarse
from trainmon.snapshot import Health

GPU_KINDS = frozenset(
    (
        "near_oom", "oom", "memory_high", "memory_leak", "gpu_fault", "gpu_underutil", "thermal_throttle", "hang",
        "straggler",
    )
)  # fmt: skip
"""Kinds of incidents that colour a GPU when they name one."""
FULL_SHARE = 0.95
"""Share of the card's memory from which the row says it, in words: a level, no alarm."""
FINE: frozenset[DriverState] = frozenset(("ok", "starting"))
QUIET: frozenset[DriverState] = frozenset(("ok", "starting", "no driver", "released", "unsupported"))
"""States of a driver that are no fault."""
_RANK: dict[Health, int] = {"critical": 0, "warning": 1, "silent": 2, "expected": 3, "ok": 3}
_STATES: dict[str, Health] = {
    "lost": "critical", "reset needed": "critical", "not responding": "warning", "failing": "warning",
    "no permission": "silent",
}  # fmt: skip
_SENTENCES: dict[str, str] = {
    "lost": "the driver has lost this GPU: power-cycle the machine",
    "reset needed": "this GPU needs a reset before it can be used again",
    "not responding": "the driver does not answer for this GPU",
    "failing": "the driver answers with errors for this GPU",
    "no permission": "no permission to look at this GPU",
}
_DRIVERS: dict[str, str] = {
    "no driver": "no NVIDIA driver here",
    "not loaded": "the NVIDIA driver is not loaded",
    "mismatch": "the NVIDIA driver was updated under the running one: reload it or reboot; running jobs go on",
    "no permission": "no permission to ask the NVIDIA driver",
    "no access": "access to the GPUs was lost: restart the container",
    "not responding": "the NVIDIA driver does not answer",
    "unsupported": "accelerators of this maker are not supported yet",
    "failing": "the NVIDIA driver answers with errors",
    "released": "the GPUs were let go at your wish",
}
_THROTTLES = (
    ("thermal (hardware)", "thermal"), ("thermal (software)", "thermal"), ("power brake", "power brake"),
    ("hardware slowdown", "slowdown"),
)  # fmt: skip
"""Reasons that cost speed, with the row's word. A power cap under load and an idle GPU are normal."""
_FIGURES = {
    "util_percent": "gpu_utilization", "memory_mb": "gpu_memory_mb", "total_mb": "gpu_memory_total_mb",
    "temperature_c": "gpu_temperature_c", "power_w": "gpu_power_w", "clock_mhz": "sm_clock_mhz",
    "power_limit_w": "power_limit_w", "slowdown_c": "slowdown_temperature_c", "clock_max_mhz": "sm_clock_max_mhz",
    "link_gb_s": "nvlink_rx_gb_s",
}  # fmt: skip
_GIB_TENTH = 102.4
MOST_NAMED = 256
_INDEX = re.compile(r"(?<![\d:.])\d{1,4}(?![\d.])")
"""A GPU's number in "0, 1, 3:5"; what stands behind the colon is an instance."""

Alarms = Mapping[tuple[str, int | None], Incident]
"""The worst alert by (node, index); index None: of the node, where it has one GPU."""


@dataclass(frozen=True, slots=True)
class Look:
    """What rows are made with.

    Attributes:
        names: Machine -> name of the run's node that it is. alarms: see `Alarms`. now: Unix seconds.
        drivers: How each machine's driver stands.
    """

    names: Mapping[str, str]
    alarms: Alarms
    drivers: Mapping[str, DriverSample]
    now: float


def alarms_of(alerts: list[tuple[Incident, int | None]]) -> dict[tuple[str, int | None], Incident]:
    """The worst alert of each GPU; given with the GPU that each is of. One of several names them in its evidence."""
    out: dict[tuple[str, int | None], Incident] = {}
    for alert, gpu in alerts:
        if alert.node is None or alert.severity == "info" or alert.kind not in GPU_KINDS:
            continue
        for index in gpus_of(alert, gpu):
            if index is None and alert.kind in ("straggler", "hang"):
                continue
            key = (alert.node, index)
            before = out.get(key)
            if before is None or (alert.severity == "critical" and before.severity != "critical"):
                out[key] = alert
    return out


def gpus_of(alert: Incident, gpu: int | None) -> list[int | None]:
    """Indexes of the GPUs that an alert is of: its own, else those in its evidence; None: it names none."""
    if gpu is not None:
        return [gpu]
    told = next((str(value) for name, value in alert.evidence if name == "gpus"), "")
    return [int(one) for one in _INDEX.findall(told)[:MOST_NAMED]] or [None]


def alarm_of(card: Card, look: Look, *, alone: bool = False) -> Incident | None:
    """The worst alert on a GPU."""
    nodes = {card.run_node or card.node, look.names.get(card.node, card.node), card.node}
    found = [look.alarms.get((node, card.index)) for node in nodes]
    if alone:
        found += [look.alarms.get((node, None)) for node in nodes]
    alerts = [alert for alert in found if alert is not None]
    return min(alerts, key=lambda alert: alert.severity != "critical", default=None)


def condition(card: Card, look: Look, *, alone: bool = False) -> tuple[str, Health, str]:
    """State, health and word of a GPU."""
    now = look.now
    driver = look.drivers.get(card.node)
    faulty = driver is not None and driver.state not in FINE and driver.origin == card.origin
    state = card.state
    alarm = alarm_of(card, look, alone=alone) if card.mine else None
    if state != "ok":
        health = _STATES.get(state, "warning")
        word = state
        if alarm is not None and alarm.severity == "critical":
            health = "critical"
        if state == "lost" and card.events:
            word = f"Xid {card.events[-1].code}"
        return state, health, word
    if faulty or card.stale(now):
        age = coarse(card.age(now))
        return "stale", "silent", f"stale {age_words(age)}" if age else "stale"
    if alarm is not None:
        return state, "critical" if alarm.severity == "critical" else "warning", _alarm_word(card, alarm)
    for reason, word in _THROTTLES:
        if reason in card.throttle:
            return state, "warning" if card.mine else "ok", word
    share = memory_share(card)
    if share is not None and share >= FULL_SHARE:
        return state, "ok", f"{share * 100.0:.0f} %"
    return state, "ok", ""


def _alarm_word(card: Card, alarm: Incident) -> str:
    if alarm.kind in ("near_oom", "memory_high", "memory_leak"):
        share = memory_share(card)
        return f"{share * 100.0:.0f} %" if share is not None else alarm.title
    if alarm.kind == "gpu_fault" and card.events:
        return f"Xid {card.events[-1].code}"
    if alarm.kind == "thermal_throttle":
        return next((word for reason, word in _THROTTLES if reason in card.throttle), "throttled")
    return {"gpu_underutil": "idle", "straggler": "slow", "hang": "hangs"}.get(
        alarm.kind, alarm.title if alarm.severity == "critical" else _calm(alarm.title)
    )


def _calm(title: str) -> str:
    """ "NVLINK DOWN" -> "NVLink down"."""
    names = {"nvlink": "NVLink", "pcie": "PCIe", "ecc": "ECC", "gpu": "GPU", "xid": "Xid"}
    return " ".join(names.get(word, word) for word in title.lower().split())


def memory_of(card: Card) -> float | None:
    """MiB in use."""
    used = card.value("gpu_memory_mb")
    if used is not None:
        return used
    total, free = card.value("gpu_memory_total_mb"), card.value("memory_free_mb")
    return total - free if total is not None and free is not None and 0.0 <= free <= total else None


def memory_share(card: Card) -> float | None:
    """Share of the card's memory in use, 0 to 1."""
    used, total = memory_of(card), card.value("gpu_memory_total_mb")
    return used / total if used is not None and total is not None and total > 0.0 else None


def note_of(card: Card, state: str) -> str:
    """The sentence that takes the place of the figures; "" while there are figures to show."""
    if state in ("ok", "stale"):
        return ""
    sentence = card.sentence or _SENTENCES.get(state, state)
    told = []
    if state == "lost" and card.events:
        told.append(f"Xid {card.events[-1].code}")
    since = card.since if card.since is not None else card.events[-1].time if card.events else None
    if since is not None and units.clock(since) not in sentence:
        told.append(f"since {units.clock(since)}")
    told = [word for word in told if word not in sentence]
    return f"{sentence} ({', '.join(told)})" if told else sentence


def driver_sentence(driver: DriverSample | None) -> str:
    """What is the matter with a machine's driver as a whole; "" when all is well."""
    if driver is None or driver.state in FINE:
        return ""
    return driver.sentence or _DRIVERS.get(driver.state, f"the NVIDIA driver: {driver.state}")


def row_of(card: Card, look: Look, *, alone: bool = False) -> GpuRow:
    """The row of a GPU; `alone`: it is the only one of its machine."""
    state, health, word = condition(card, look, alone=alone)
    age = coarse(card.age(look.now)) if state == "stale" else 0.0
    memory, link = memory_of(card), card.link_gb_s()
    figures: dict[str, float | None] = {
        "util_percent": _round(card.utilization()),
        "memory_mb": None if memory is None else tenths(memory),
        "total_mb": card.value("gpu_memory_total_mb"),
        "temperature_c": _round(card.value("gpu_temperature_c")),
        "power_w": _round(card.value("gpu_power_w")),
        "clock_mhz": _round(card.value("sm_clock_mhz")),
        "power_limit_w": _round(card.value("power_limit_w")),
        "slowdown_c": _round(card.value("slowdown_temperature_c")),
        "clock_max_mhz": _round(card.value("sm_clock_max_mhz")),
        "link_gb_s": None if link is None else round(link, 1) if link < 9.95 else float(round(link)),
    }
    missing = tuple(
        (metric, card.missing[metric])
        for name, metric in _FIGURES.items()
        if figures[name] is None and metric in card.missing
    )
    return GpuRow(
        node=look.names.get(card.node, card.node),
        index=card.index,
        health=health,
        word=word,
        key=card.key,
        label=card.label,
        name=card.name,
        state=state,
        note=note_of(card, state),
        age_s=age or None,
        rank=card.rank,
        profile=card.profile,
        throttle=card.throttle,
        mine=card.mine,
        missing=missing,
        memory_note="unified" if card.facts.get("memory", "").startswith("unified") else "",
        **figures,
    )


def weight(card: Card, look: Look) -> tuple[int, bool, float]:
    """Sorts the worst first: alarms and lost ones, warnings, what is stale, then by memory in use.

    Memory counts in whole per cents, or equals would change places at every look.
    """
    _, health, _ = condition(card, look)
    return _RANK[health], not card.mine, -round((memory_share(card) or 0.0) * 100.0)


def tenths(memory_mb: float) -> float:
    """MiB as whole tenths of a GiB: what the screen shows of them."""
    return round(round(memory_mb / _GIB_TENTH) * _GIB_TENTH, 1)


def _round(value: float | None) -> float | None:
    return None if value is None else float(round(value))
