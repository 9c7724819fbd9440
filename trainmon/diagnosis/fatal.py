"""A fatal error of the log.

One incident for one failure: the first fatal error gives its name, what follows before steps go on is told in its
outlook ("then NCCL_WATCHDOG_TIMEOUT ×56"). Where the first one is a mere traceback or an error without a name and a
known one follows within a minute, the known one gives the name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Protocol

from trainmon import units
from trainmon.diagnosis.detector import moment
from trainmon.diagnosis.pulse import Pulse
from trainmon.diagnosis.thresholds import Thresholds
from trainmon.diagnosis.words import step_of
from trainmon.model import Incident, Record

NAMELESS = frozenset(("UNKNOWN_ERROR", "GENERIC_TRACEBACK"))
RENAME_S = 60.0
SURVIVED = 2
MOST_OF_A_MESSAGE = 800
"""An error after which the run went on so often is a warning from then on."""
KINDS = (
    ("host_oom", ("HOST_OOM", "OOM_KILL", "CGROUP_OOM", "HOST_MEMORY")),
    ("oom", ("OOM", "OUT_OF_MEMORY", "GLM_5032")),
    ("hang", ("WATCHDOG", "TIMEOUT", "HANG")),
    ("gpu_fault", ("XID", "ECC", "GPU", "CUDA", "NVLINK")),
    ("network_fault", ("NCCL", "E_COMM", "LINK", "IB_", "RDMA", "SOCKET", "RENDEZVOUS", "CONNECTION")),
    ("storage_fault", ("DISK", "STORAGE", "NFS", "CHECKPOINT", "IO_", "QUOTA", "NO_SPACE")),
    ("loss_nan", ("NAN", "NONFINITE", "LOSS_SCALE")),
)


class Known(Protocol):
    """What the catalogue tells of a code (see `trainmon.catalogue`)."""

    @property
    def title(self) -> str: ...
    @property
    def fixes(self) -> Sequence[str]: ...
    @property
    def is_usually(self) -> str: ...


Lookup = Callable[[str], Known | None]


def kind_of(code: str) -> str:
    """The incident kind of an error code, by its words; `fatal_error` when none fits."""
    upper = code.upper()
    for kind, words in KINDS:
        if any(word in upper for word in words):
            return kind
    return "fatal_error"


class Fatal:
    """The detector."""

    kinds = frozenset(("error",))

    def __init__(self, pulse: Pulse, thresholds: Thresholds, lookup: Lookup | None = None) -> None:
        self._pulse = pulse
        self._on = thresholds.fatal_error is not None
        self._lookup = lookup
        self._open: Incident | None = None
        self._code = ""
        self._first = 0.0
        self._places: dict[tuple[str, int | None], None] = {}
        self._follow: dict[str, int] = {}
        self._told: tuple[int, int] = (0, 0)
        self._survived: dict[str, int] = {}

    def observe(self, record: Record, node: str, at: float | None) -> Iterable[Incident]:
        if not self._on or record.priority != 1 or record.code is None:
            return ()
        now = moment(record, at)
        if self._open is None:
            self._first = now
            self._open = self._incident(record, node, now)
            return (self._open,)
        if record.code == self._code:
            if len(self._places) < 4096:
                self._places[(node, record.rank)] = None
            return ()
        if self._weaker(record.code) and now - self._first <= RENAME_S:
            earlier = self._code
            key = self._open.key
            follow = self._follow
            self._open = replace(self._incident(record, node, now), key=key, detected=self._open.detected)
            self._follow = follow
            if earlier not in NAMELESS:
                self._follow[earlier] = self._follow.get(earlier, 0) + 1
            return (self._open,)
        if record.code not in NAMELESS and (record.code in self._follow or len(self._follow) < 32):
            self._follow[record.code] = self._follow.get(record.code, 0) + 1
        return ()

    def _weaker(self, code: str) -> bool:
        """Whether the name that the failure has says less than `code`."""
        if code in NAMELESS:
            return False
        if self._code in NAMELESS:
            return True
        mine, other = self._entry(self._code), self._entry(code)
        return mine is not None and other is not None and mine.is_usually == "symptom" != other.is_usually

    def _entry(self, code: str) -> Known | None:
        if self._lookup is None:
            return None
        try:
            return self._lookup(code)
        except LookupError:
            return None

    def _incident(self, record: Record, node: str, now: float) -> Incident:
        code = record.code or "UNKNOWN_ERROR"
        self._code = code
        self._places = {(node, record.rank): None}
        self._follow = {}
        self._told = (1, 0)
        entry = self._entry(code)
        step = self._pulse.step
        where = f" at step {units.count(step)}" if step is not None else ""
        what = entry.title if entry is not None and code not in NAMELESS else (record.message or "an error")
        what = what[:1].lower() + what[1:] if what[1:2].islower() else what
        return Incident(
            key=f"fatal:{record.source}:{record.offset}",
            kind=kind_of(code),
            severity="critical" if self._survived.get(code, 0) < SURVIVED else "warning",
            title=code if code not in NAMELESS else "FATAL ERROR",
            who=node if record.rank is None or node == f"rank {record.rank}" else f"{node} rank {record.rank}",
            measured=f"{what[:160]}{where}",
            outlook="",
            advice=tuple(entry.fixes) if entry is not None else (),
            node=node,
            rank=record.rank,
            gpu=record.gpu if record.gpu is not None else record.local_rank,
            start=now,
            detected=now,
            start_step=step,
            evidence=(("code", code), ("message", _cut(record.message or ""))),
            source=record.source,
            line=record.line or None,
            offset=record.offset,
        )

    def progressed(self, now: float) -> list[Incident]:
        """Steps go on after the error: it did not end the run."""
        if self._open is None:
            return []
        incident, self._open = self._open, None
        if len(self._survived) < 256:
            self._survived[self._code] = self._survived.get(self._code, 0) + 1
        text = f"training goes on, {step_of(self._pulse.step, None)}"
        return [replace(incident, end=now, end_step=self._pulse.step, resolution=text)]

    def tick(self, now: float) -> Iterable[Incident]:
        """Tell what followed and on how many ranks, at most once a second."""
        if self._open is None:
            return ()
        followed = sum(self._follow.values())
        stopped = self._pulse.fatal is not None and self._pulse.stopped(now)
        state = (len(self._places), followed * 2 + stopped)
        if state == self._told:
            return ()
        self._told = state
        parts = ["the run has stopped"] if stopped else []
        worst = sorted(self._follow.items(), key=lambda item: -item[1])[:2]
        parts += [f"then {code} ×{count}" if count > 1 else f"then {code}" for code, count in worst]
        who = self._open.who
        if len(self._places) > 1:
            nodes = {node for node, _ in self._places}
            ranks = f"{len(self._places)} ranks" if any(r is not None for _, r in self._places) else ""
            where = f"{len(nodes)} nodes" if len(nodes) > 1 else next(iter(nodes))
            who = f"{ranks} of {where}" if ranks else where
        self._open = replace(self._open, outlook="; ".join(parts), who=who)
        return (self._open,)


def _cut(message: str) -> str:
    """As much of a message as a page shows: PyTorch's own about memory stands in it to its end."""
    return message if len(message) <= MOST_OF_A_MESSAGE else message[: MOST_OF_A_MESSAGE - 1] + "…"
