"""What the detectors of machines share: the book of their open incidents, and what ends them beside their own rules."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from trainmon.diagnosis.fleet import Fleet
from trainmon.diagnosis.machine import Gpu, Host
from trainmon.diagnosis.pulse import Pulse
from trainmon.diagnosis.thresholds import Thresholds
from trainmon.diagnosis.words import number
from trainmon.model import Incident, Record, Severity, Value

RETELL_S = 15.0
"""Words alone are not told anew more often: a screen with them stays still."""
SILENT_S = 120.0
"""Nothing heard of a machine for so long: what was wrong with it is not known any more."""


class Watch:
    """A detector of GPUs or hosts. Subclasses give `look_gpu` or `look_host`; both read `self.fleet`."""

    kinds: frozenset[str] = frozenset(("gpu",))

    def __init__(self, pulse: Pulse, thresholds: Thresholds) -> None:
        self.pulse = pulse
        self.thresholds = thresholds
        self.fleet: Fleet = pulse.fleet
        self.open: dict[str, Incident] = {}
        self._machine: dict[str, Gpu | Host] = {}
        self._told: dict[str, float] = {}
        self._metric: dict[str, str] = {}

    # ------------------------------------------------------------ the detector's side

    def observe(self, record: Record, node: str, at: float | None) -> Iterable[Incident]:
        fleet = self.fleet
        moment = at if at is not None else 0.0
        if fleet.gpu is not None:
            return self.look_gpu(fleet.gpu, moment)
        if fleet.host is not None:
            return self.look_host(fleet.host, moment)
        return ()

    def look_gpu(self, gpu: Gpu, at: float) -> Iterable[Incident]:
        """A sample of a GPU was merged; `at` as in `Detector.observe`."""
        return ()

    def look_host(self, host: Host, at: float) -> Iterable[Incident]:
        """A sample of a machine was merged."""
        return ()

    def forgotten(self, key: str) -> None:
        """That GPU or machine is none of the run's (any more), or is silent: what was learned of it goes."""

    def tick(self, now: float) -> Iterable[Incident]:
        """Close what belongs to machines that have fallen silent."""
        if not self.open:
            return ()
        out = []
        for key, machine in list(self._machine.items()):
            metric = self._metric[key]
            mute = bool(metric) and machine.time - machine.times.get(metric, machine.time) > SILENT_S
            if mute or now - machine.heard > SILENT_S:
                self.forgotten(machine.key)
                out.extend(self.end(key, machine.time, "not known any more: its figures have stopped"))
        return out

    def leave(self, machine: str) -> list[Incident]:
        """A GPU or machine is not the run's: its incidents go without a word."""
        out: list[Incident] = []
        for key in [k for k, m in self._machine.items() if m.key == machine]:
            incident = self.open[key]
            self.open[key] = replace(incident, evidence=(*incident.evidence, ("superseded", "not of this run")))
            out.extend(self.end(key, self._machine[key].time, "not of this run"))
        self.forgotten(machine)
        return out

    # ------------------------------------------------------------ the subclass's side

    def begin(
        self,
        machine: Gpu | Host,
        key: str,
        kind: str,
        severity: Severity,
        title: str,
        measured: str,
        *,
        outlook: str = "",
        advice: tuple[str, ...] = (),
        who: str = "",
        since: float | None = None,
        evidence: Iterable[tuple[str, Value | None]] = (),
        metric: str = "",
        at_once: bool = False,
        slows: str = "",
    ) -> list[Incident]:
        """Open an incident, or change the open one of that key; nothing when it stays as it is.

        Args:
            key: Its identity.
            since: When it began, Unix seconds; None: with this sample.
            evidence: Numbers of the rule; None is left out.
            metric: What it is judged by: when that stops coming, nobody knows any more.
            at_once: New words are worth telling now.
            slows: Why it makes its node slow, for the straggler's words.
        """
        before = self.open.get(key)
        told = tuple((name, _rounded(value)) for name, value in evidence if value is not None)
        gpu = machine if isinstance(machine, Gpu) else None
        step = self.pulse.step
        made = Incident(
            key=key,
            kind=kind,
            severity=severity,
            title=title,
            who=who or machine.who,
            measured=measured,
            outlook=outlook,
            advice=tuple(text.format(node=machine.node, index=_index(gpu)) for text in advice),
            node=machine.node,
            rank=gpu.rank if gpu is not None and not who else None,
            gpu=gpu.index if gpu is not None and not who else None,
            start=before.start if before is not None else machine.time if since is None else since,
            detected=before.detected if before is not None else machine.time,
            start_step=before.start_step if before is not None else step,
            evidence=told,
        )
        if before is not None:
            words = (before.measured, before.outlook) != (made.measured, made.outlook)
            news = (before.severity, before.title, before.who) != (made.severity, made.title, made.who)
            if (
                not news
                and not (words and at_once)
                and not (words and machine.time - self._told.get(key, float("-inf")) >= RETELL_S)
            ):
                return []
        self._told[key] = machine.time
        self.open[key] = made
        self._machine[key] = machine
        self._metric[key] = metric
        if slows:
            self.fleet.slowed(machine.node, key, slows)
        return [made]

    def end(self, key: str, when: float, text: str, *, superseded: str = "") -> list[Incident]:
        """Resolve the incident of that key, if there is one.

        Args:
            when: Unix seconds.
            text: How it ended.
            superseded: What has taken its place; "" when it is really over.
        """
        incident = self.open.pop(key, None)
        if incident is None:
            return []
        self.fleet.slowed(self._machine.pop(key).node, key)
        self._told.pop(key, None)
        self._metric.pop(key, None)
        evidence = (*incident.evidence, ("superseded", superseded)) if superseded else incident.evidence
        end = max(when, incident.start)
        return [replace(incident, end=end, end_step=self.pulse.step, resolution=text, evidence=evidence)]


def _rounded(value: Value) -> Value:
    found = number(value) if isinstance(value, float) else None
    return value if found is None else round(found, 3)


def _index(gpu: Gpu | None) -> str:
    return "" if gpu is None or gpu.index is None else str(gpu.index)
