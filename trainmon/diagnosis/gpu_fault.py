"""A GPU that is sick: Xids by NVIDIA's action, memory errors, rows to be remapped, a GPU that is lost or must be reset.

What is found of one GPU within its sickness is one incident: an Xid 94, the error that ECC counts for it and the reset
that the driver asks for are one matter. The worst gives the name. Counters tell by their rise while we look, never by
what they were; "waits for a reset" and "failed" are said once. An Xid that is the program's own fault (13, 31, ...) is
a warning, what needs a reset, a reboot or a hand is critical, what NVIDIA says to ignore is not announced (but 63 and
92: the memory wears out). A sick GPU does not make the run `failed`: its log does, when it fails.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from trainmon.catalogue.xid import Action, Xid, xid
from trainmon.diagnosis.machine import Gpu, Host
from trainmon.diagnosis.pulse import Pulse
from trainmon.diagnosis.thresholds import Thresholds
from trainmon.diagnosis.watch import Watch
from trainmon.model import Incident, Record, Severity
from trainmon.samples import DriverSample

WEARS_OUT = frozenset((63, 92, 168))
GOES_ON_STEPS = 3
GOES_ON_S = 60.0
NOTED_S = 600.0
"""After so long what does not stop the run has been said."""
FAILING_S = 30.0
DRIVER_S = 10.0
MOST_CODES = 12
XID_RANK = 2
"""Of an Xid that is the board's fault: it says why, so its words come first."""
Deed = Action | Literal["wait or reboot"]
ADVICE: dict[Deed, tuple[str, ...]] = {
    "none": ("nothing to do at once: nvidia-smi -q -d ECC,ROW_REMAPPER on {node} shows how often it happens",),
    "restart the job": (
        "restart the job from its newest checkpoint",
        "comes back on the same GPU: drain {node} and have the board checked",
    ),
    "reset the GPU": (
        "stop the job on {node} and reset the GPU: nvidia-smi -r -i {index}; comes back: have the board replaced",
        "restart from the newest checkpoint on another node",
    ),
    "reboot": (
        "take {node} out and power-cycle it: a plain reboot may not bring the GPU back",
        "check power supply, seating and cooling; comes back: have the board replaced",
    ),
    "wait or reboot": (
        "the job goes on: leave it; it hangs too: dmesg -T | grep -i xid on {node}, then reset GPU {index} or reboot",
        "comes back: drain {node} and have the board checked",
    ),
    "check the hardware": (
        "nvidia-smi nvlink -s and -e on {node}: which link, and which GPU at its other end?",
        "drain {node}, check cables and seating, reset the GPUs",
    ),
    "contact support": (
        "look the number up in NVIDIA's Xid catalogue; nvidia-bug-report.sh on {node} for the vendor",
        "comes back on the same GPU: drain {node}",
    ),
}
OWN = (
    "as a rule the program's own fault: run it with compute-sanitizer, or CUDA_LAUNCH_BLOCKING=1",
    "always the same GPU: have the board checked",
)
RECOVERY: dict[int, tuple[str, Severity, Action]] = {
    1: ("the driver asks for a reset of this GPU", "critical", "reset the GPU"),
    2: ("the driver asks for a reboot", "critical", "reboot"),
    3: ("the driver asks to take it out of peer traffic", "warning", "reset the GPU"),
    4: ("the driver asks to drain and reset it", "warning", "reset the GPU"),
    5: ("the driver asks to restart the memory exchange between nodes", "warning", "contact support"),
    6: ("the driver asks for a reset of its bus", "critical", "reset the GPU"),
    7: ("the driver asks for a reboot", "critical", "reboot"),
}
STATES: dict[str, tuple[str, str, Severity, Deed, float]] = {
    "lost": ("GPU LOST", "it no longer answers", "critical", "reboot", 0.0),
    "reset needed": ("RESET NEEDED", "it needs a reset", "critical", "reset the GPU", 0.0),
    "not responding": ("GPU HANGS", "NVML gets no answer from it", "warning", "wait or reboot", 0.0),
    "failing": ("GPU FAILS", "NVML fails on it", "warning", "reset the GPU", FAILING_S),
}
"""GPU state: title, words, severity, action, seconds for which it must last."""


@dataclass(slots=True)
class _Fact:
    rank: int  # the lower the more it says
    severity: Severity
    title: str
    text: str
    advice: tuple[str, ...]
    at: float
    step: int | None
    state: bool = False  # it lasts until the GPU's state is another


class GpuFault(Watch):
    """The detector; one incident a GPU."""

    def __init__(self, pulse: Pulse, thresholds: Thresholds) -> None:
        super().__init__(pulse, thresholds)
        self._facts: dict[str, dict[str, _Fact]] = {}
        self._counts: dict[tuple[str, str], float] = {}
        self._said: set[tuple[str, str]] = set()
        self._drivers: dict[str, tuple[DriverSample, float]] = {}
        """Drivers with a fault: what was said last, and since when."""

    # ------------------------------------------------------------ one GPU

    def observe(self, record: Record, node: str, at: float | None) -> Iterable[Incident]:
        if self.thresholds.gpu_fault is None:
            return ()
        if isinstance(record.sample, DriverSample):
            return self._driver(record.sample, node, at if at is not None else 0.0)
        if self.fleet.gpu is None:
            return ()
        sample = record.sample
        found = [xid(e.code) for e in sample.events] if sample is not None and hasattr(sample, "events") else []
        return self._look(self.fleet.gpu, found)

    def _look(self, gpu: Gpu, xids: list[Xid]) -> list[Incident]:
        facts = self._facts.get(gpu.key)
        new: dict[str, _Fact] = {}
        if xids:
            self._xids(gpu, xids, new, bool(facts))
        self._counters(gpu, new)
        self._state(gpu, facts, new)
        if facts is None:
            if not new:
                return []
            facts = self._facts[gpu.key] = {}
        news = {code: fact for code, fact in new.items() if code not in facts}
        if len(facts) < MOST_CODES:
            facts.update(news)
        gone, why = self._over(gpu, facts)
        for code in gone:
            del facts[code]
        if not facts:
            del self._facts[gpu.key]
            return self.end(_key(gpu), gpu.time, why)
        return self._tell(gpu, facts) if news or gone else []

    def _fact(
        self,
        gpu: Gpu,
        rank: int,
        severity: Severity,
        title: str,
        text: str,
        advice: tuple[str, ...],
        state: bool = False,
    ) -> _Fact:
        return _Fact(rank, severity, title, text, advice, gpu.time, self.pulse.step)

    def _xids(self, gpu: Gpu, xids: list[Xid], new: dict[str, _Fact], known: bool) -> None:
        for each in xids:
            if each.echo and not (known or new):
                continue
            if each.action == "none" and not each.echo and each.code not in WEARS_OUT:
                continue
            mild = each.own or each.action in ("none", "restart the job")
            severity: Severity = "warning" if mild and each.code != 94 else "critical"
            advice = OWN if each.own else ADVICE[each.action]
            rank = XID_RANK if severity == "critical" else 8 if each.echo else 6
            text = f"Xid {each.code}: {each.what}"
            new[f"xid{each.code}"] = self._fact(gpu, rank, severity, f"XID {each.code}", text, advice)

    def _rise(self, gpu: Gpu, metric: str) -> float:
        """By how much a counter has risen with this sample; what it was at first is no news."""
        value = gpu.now(metric)
        if value is None:
            return 0.0
        before = self._counts.get((gpu.key, metric))
        self._counts[(gpu.key, metric)] = value
        return value - before if before is not None and value > before else 0.0

    def _counters(self, gpu: Gpu, new: dict[str, _Fact]) -> None:
        values = gpu.values
        if "ecc_uncorrected" in values or "ecc_uncorrected_total" in values:
            rise = max(self._rise(gpu, "ecc_uncorrected"), self._rise(gpu, "ecc_uncorrected_total"))
            if rise >= 1.0:
                text = f"{rise:.0f} uncorrected memory error" + ("s" if rise >= 2.0 else "")
                new["ecc"] = self._fact(gpu, 4, "critical", "ECC ERROR", text, ADVICE["reset the GPU"])
        if gpu.now("remap_failed") == 1.0 and self._once(gpu, "remap_failed"):
            text = "a bad memory row could not be remapped"
            new["remap"] = self._fact(gpu, 4, "critical", "ROW REMAP FAILED", text, ADVICE["reset the GPU"])
        for metric, text in (
            ("remap_pending", "a memory row waits for a reset to be remapped"),
            ("retired_pending", "a memory page waits for a reset to be retired"),
        ):
            if gpu.now(metric) == 1.0 and self._once(gpu, metric) and "xid63" not in new:
                if "xid63" not in self._facts.get(gpu.key, ()):
                    new[metric] = self._fact(gpu, 7, "warning", "RESET PENDING", text, ADVICE["none"])
            elif gpu.now(metric) == 0.0:
                self._said.discard((gpu.key, metric))
        action = gpu.now("recovery_action")
        if action is not None and action >= 1.0 and self._once(gpu, f"recovery{action:.0f}"):
            text, severity, what = RECOVERY.get(int(action), RECOVERY[1])
            new["recovery"] = self._fact(gpu, 5, severity, "RESET NEEDED", text, ADVICE[what])

    def _once(self, gpu: Gpu, what: str) -> bool:
        if (gpu.key, what) in self._said:
            return False
        self._said.add((gpu.key, what))
        return True

    def _state(self, gpu: Gpu, facts: dict[str, _Fact] | None, new: dict[str, _Fact]) -> None:
        found = STATES.get(gpu.state)
        if found is None:
            return
        title, text, severity, action, held = found
        if held and gpu.time - gpu.state_since < held:
            return
        code = f"state {gpu.state}"
        if facts is None or code not in facts:
            fact = new[code] = self._fact(gpu, 1, severity, title, text, ADVICE[action])
            fact.state = True
            fact.at = min(gpu.time, gpu.state_since)

    # ------------------------------------------------------------ telling and ending

    def _over(self, gpu: Gpu, facts: dict[str, _Fact]) -> tuple[list[str], str]:
        """Which facts are over, and why. A state ends by itself, all else together: it is one matter."""
        step = self.pulse.step
        gone = [code for code, fact in facts.items() if fact.state and f"state {gpu.state}" != code]
        rest = [fact for code, fact in facts.items() if code not in gone]
        why = "it answers again" if gone else ""
        if gone and gpu.state == "ok":
            return list(facts), why  # whatever it was: it was reset, or the machine booted
        if any(fact.state for fact in rest) or not rest:
            return gone, why
        age = gpu.time - max(fact.at for fact in rest)
        mild = all(fact.severity == "warning" for fact in rest)
        on = step is not None and all(f.step is not None and step >= f.step + GOES_ON_STEPS for f in rest)
        if gpu.fresh_pids and age > 0.0:
            why = "a new process runs on it"
        elif gpu.state == "ok" and on and age >= (GOES_ON_S if mild else NOTED_S):
            why = "training goes on; what is pending waits for the end of the job"
        elif gpu.state == "ok" and mild and age >= NOTED_S:
            why = "nothing further happened"
        else:
            return gone, why
        return list(facts), why

    def _tell(self, gpu: Gpu, facts: dict[str, _Fact]) -> list[Incident]:
        told = sorted(facts.values(), key=lambda f: (f.severity != "critical", f.rank, f.at))
        head = told[0]
        in_order = sorted(facts.values(), key=lambda f: (f.rank != XID_RANK, f.at, f.rank))
        texts = list(dict.fromkeys(f.text for f in in_order))
        measured = "; ".join(texts[:3]) + (f"; {len(texts) - 3} more" if len(texts) > 3 else "")
        outlook = ""
        if head.severity == "critical":
            outlook = "the job on it fails" if gpu.occupied else ""
        elif "xid" in head.title.lower() and head.advice is OWN:
            outlook = "look at the program's own error"
        return self.begin(
            gpu,
            _key(gpu),
            "gpu_fault",
            head.severity,
            head.title,
            measured,
            outlook=outlook,
            advice=head.advice,
            at_once=True,
            since=min(f.at for f in facts.values()),
            evidence=(
                ("found", ", ".join(facts)),
                ("state", gpu.state),
                ("ecc_uncorrected", gpu.values.get("ecc_uncorrected")),
                ("recovery_action", gpu.values.get("recovery_action")),
                ("sentence", gpu.sentence or None),
            ),
        )

    def forgotten(self, key: str) -> None:
        self._facts.pop(key, None)
        for known in [k for k in self._counts if k[0] == key]:
            del self._counts[known]
        self._said = {k for k in self._said if k[0] != key}

    # ------------------------------------------------------------ the driver as a whole

    def tick(self, now: float) -> Iterable[Incident]:
        out = list(super().tick(now))
        for node, (sample, since) in list(self._drivers.items()):
            if now - since >= DRIVER_S and f"gpu_fault:{node}:driver" not in self.open:
                out += self._driver(sample, node, now)
        return out

    def _driver(self, sample: DriverSample, node: str, at: float) -> list[Incident]:
        key = f"gpu_fault:{node}:driver"
        if sample.state not in ("no access", "not responding"):
            self._drivers.pop(node, None)
            return self.end(key, sample.time, "NVML answers again") if sample.state == "ok" else []
        hangs = sample.state == "not responding"
        before = self._drivers.get(node)
        since = before[1] if before is not None and before[0].state == sample.state else at
        self._drivers[node] = (sample, since)
        if not any(g.occupied for g in self.fleet.of(node)) or (hangs and at - since < DRIVER_S):
            return []
        machine = Host(node)
        machine.time = sample.time
        machine.heard = math.inf if sample.origin == "NVML" else at  # it is said once, and holds until it changes
        return self.begin(
            machine,
            key,
            "gpu_fault",
            "warning",
            "NVML HANGS" if hangs else "GPUS CUT OFF",
            "the NVIDIA driver gives no answer" if hangs else "this container lost its access to the GPUs",
            outlook="the job may hang in the driver, too" if hangs else "the job may die at its next CUDA call",
            advice=(
                "dmesg -T | grep -i xid on {node} names a fault; a hung driver needs a reboot",
                "a container: start it anew (a reload of systemd cuts the devices off)",
            ),
            evidence=(("driver_state", sample.state), ("sentence", sample.sentence or None)),
        )


def _key(gpu: Gpu) -> str:
    return f"gpu_fault:{gpu.node}:{gpu.label}"
