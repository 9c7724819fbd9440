"""The state of one run: records in, and everything that the screen shows is kept here, bounded.

A session holds one `RunState` that reads forward, and while history is read a second one that was fed with the
ends of the files only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import replace

from trainmon.diagnosis.detector import place_without_step
from trainmon.diagnosis.engine import Detectors
from trainmon.model import Incident, Record, record_of
from trainmon.samples import Sample
from trainmon.session.blame import is_failure
from trainmon.session.errors import ErrorBook
from trainmon.session.events import EventBook
from trainmon.session.files import SourceFile
from trainmon.session.gpus import GpuBook
from trainmon.session.happenings import Happenings
from trainmon.session.instruments import Machines
from trainmon.session.metrics import MetricBook
from trainmon.session.nodes import MAX_NODES, NodeBook, NodeState
from trainmon.session.warmup import WarmUp
from trainmon.session.wording import (
    finite,
)

QUARANTINE = 200
SET_BACK_S = 60.0
"""A file's own time that goes back by more than this (seconds): its machine's clock was set."""
_STEPPED = frozenset({"metrics", "eval", "summary"})


SLOW_RISES = frozenset(("near_oom", "memory_leak", "memory_high"))
"""Kinds of incidents that begin long before anything is told of them."""


class RunState:
    """Everything known of a run.

    Args:
        watch: The detectors: fed with every record; what they find is queued in `found`.
        separate: Each file is a run of its own: nodes are files.
    """

    def __init__(self, watch: Detectors, *, separate: bool = False) -> None:
        self.watch = watch
        self.separate = separate
        self.nodes = NodeBook()
        self.metrics = MetricBook()
        self.errors = ErrorBook()
        self.events = EventBook()
        self.told = Happenings(self.events)
        self.gpus = GpuBook()
        """What training logs tell of GPUs."""
        self.machines = Machines()
        """What telemetry tells of them."""
        self.warmup = WarmUp()
        self.quarantine: deque[tuple[str, int, str, str]] = deque(maxlen=QUARANTINE)
        self.quarantined = 0
        self.gaps = 0
        self.records = 0
        self.labels: dict[str, str] = {}
        self.scheduler = ""
        self.first_time: float | None = None
        self.newest_time: float | None = None
        self.newest_heard: float | None = None
        """When the line of that time came, if it came while we looked."""
        self._newest_file = -1
        self.last_loss_at: float | None = None
        self.loss_heard: float | None = None
        self.loss_interval: float | None = None
        self.found: list[tuple[Incident, bool]] = []
        self.open: dict[str, Incident] = {}
        self.noticed: dict[str, int] = {}
        """Step at which an open incident was first told of, by key: a slow rise begins long before."""
        self.past: deque[Incident] = deque(maxlen=100)
        self.dirty: set[str] = set()
        self.faults = 0
        self.last_fault: Exception | None = None
        self._names: set[str] = set()
        self._members: set[str] = set()
        self._ordinals: dict[str, int] = {}
        self._events_at = 0
        self._told: dict[int, dict[str, None]] = {}
        """By file: names of nodes that stand in its lines, two at most."""
        self._ranked: dict[int, set[str]] = {}
        """By file in which ranks tell of their steps: their names, two at most."""
        self._file_times: dict[int, float] = {}

    # ------------------------------------------------------------ taking in

    def feed(
        self, file: SourceFile, records: Iterable[Record], arrival: float, *, live: bool, detect: bool = True
    ) -> None:
        """Take in what a file says.

        Args:
            arrival: When it came, Unix seconds; for what was there at opening the file's time.
            live: It came while we looked.
            detect: Let the detectors see it (not the head of a glimpse: there is a hole after it).
        """
        for record in records:
            try:
                self._take(record, file, arrival, live, detect)
            except Exception as fault:
                # One odd record must not stop the picture of all others; the session tells of it.
                self.faults += 1
                self.last_fault = fault

    def opened(self, file: SourceFile) -> None:
        """A file of the training is followed from now on."""
        self.watch.opened(file.node, file.mtime if file.size else file.opened, file.opened)
        if file.joined:
            now = file.opened
            self.events.add("joined", "followed from now on", time=now, now=now, who=file.node, planned=True)
            self.dirty.add("events")

    def instruments(self, samples: Iterable[Sample], now: float) -> None:
        """Take in what this machine's own instruments read."""
        for sample in samples:
            self.machines.here = sample.node
            self.telemetry(record_of(sample, sample.origin), now, live=True)

    def telemetry(self, record: Record, arrival: float, *, live: bool, detect: bool = True) -> None:
        """Take in what instruments say (a record made from a sample): it is no speech of the training.

        Args:
            arrival: When it came, Unix seconds. live, detect: see `feed`.
        """
        try:
            node = self.machines.take(record, arrival, live, self.dirty)
            if detect and node is not None:
                for incident in self.watch.observe(record, node, arrival, live):
                    self._note(incident, live)
        except Exception as fault:
            self.faults += 1
            self.last_fault = fault

    def heard(self, node: str, arrival: float, *, live: bool) -> None:
        """A node's file brought bytes, whatever they say."""
        self.watch.heard(node, arrival, live)
        state = self.nodes.get(node)
        if state is not None and arrival > state.heard:
            state.heard = arrival

    def leap(self, file: SourceFile) -> None:
        """The file's next records come from far behind the last ones: that is no resume."""
        self.told.leap(file.id)

    def adopt(self, glimpse: RunState) -> None:
        """Take over when each node was heard while history was read: here the same lines came as history."""
        mine, theirs = self.watch.pulse, glimpse.watch.pulse
        for name, pulse in theirs.nodes.items():
            if pulse.heard is not None:
                node = mine.node(name)
                node.heard, node.step_heard = pulse.heard, pulse.step_heard
        mine.heard, mine.step_heard, mine.shift = theirs.heard, theirs.step_heard, theirs.shift
        for other in glimpse.nodes:
            state = self.nodes.get(other.name)
            if state is not None and other.heard > state.heard:
                state.heard = other.heard

    def tick(self, now: float, mono: float) -> None:
        """Let the detectors see that time passes: Unix seconds, and seconds that never jump."""
        for incident in self.watch.tick(now, mono):
            self._note(incident, True)

    # ------------------------------------------------------------ one record

    def _take(self, record: Record, file: SourceFile, arrival: float, live: bool, detect: bool) -> None:
        if record.sample is not None:
            self.telemetry(self._placed(record, file, arrival), arrival, live=live, detect=detect)
            return
        self.records += 1
        self.told.live = live
        kind = record.kind
        name, declared = self._named(record, file)
        if record.rank is not None or "pid" in record.extra:
            place = record.rank, record.local_rank, record.gpu
            self.machines.seats.take(name, file.id, *place, record.extra.get("pid"))
        if record.labels:
            self._labels(record.labels)
        time = record.time
        if time is not None:
            self._file_times[file.id] = time
            if self.first_time is None or time < self.first_time:
                self.first_time = time
            if (
                self.newest_time is None
                or time > self.newest_time
                or (live and file.id == self._newest_file and self.newest_time - time > SET_BACK_S)
            ):
                self.newest_time, self._newest_file = time, file.id
                self.newest_heard = arrival if live else None
        if kind in _STEPPED or kind == "gpu" or kind == "host":
            self._numbers(record, file, name, declared, arrival, live)
        elif kind == "error":
            self._error(record, file, name, declared, arrival)
        elif kind == "quarantine":
            self.quarantined += 1
            self.quarantine.append((record.source, record.line, record.reason or "", record.message or ""))
            self.dirty.add("quarantine")
        elif kind == "gap":
            self.gap(record, file.node, arrival)
        elif kind == "log":
            speaker = self.nodes.get(name)
            self.told.said(
                record, speaker.step if speaker is not None else self.step, time if time is not None else arrival
            )
        if self.events.revision != self._events_at:
            self._events_at = self.events.revision
            self.dirty.add("events")
        if detect:
            for incident in self.watch.observe(record, name, arrival, live):
                self._note(incident, live)

    def _placed(self, record: Record, file: SourceFile, arrival: float) -> Record:
        """A sample out of a log's text, which need not name its machine nor the time: then the file tells."""
        sample = record.sample
        assert sample is not None
        if not sample.node:
            record.node = None
            record.node, _ = self._node_of(record, file)
            sample = record.sample = replace(sample, node=record.node)
        if sample.time <= 0.0:
            record.time = self._file_times.get(file.id, arrival)
            record.sample = replace(sample, time=record.time)
        return record

    def _named(self, record: Record, file: SourceFile) -> tuple[str, bool]:
        """Whose line it is. Beyond so many names (random ones, a field that was taken for one) it is the file's."""
        name, declared = self._node_of(record, file)
        if name not in self._names:
            if len(self._names) >= MAX_NODES:
                return file.node, False
            self._names.add(name)
        return name, declared

    def _node_of(self, record: Record, file: SourceFile) -> tuple[str, bool]:
        if self.separate:
            return file.node, False
        if record.node:
            if record.node != file.node:
                told = self._told.setdefault(file.id, {})
                if len(told) < 2:
                    told[record.node] = None
            return record.node, record.node != file.node
        if record.rank is not None:
            name = f"rank {record.rank}"
            ranks = self._ranked.get(file.id)
            if record.kind == "metrics" and "step" in record.values:
                if ranks is None and (mine := self.nodes.get(file.node)) is not None and mine.step is not None:
                    return file.node, False  # steps without a rank came first: the file is one node
                if ranks is None:
                    ranks = self._ranked[file.id] = set()
                if len(ranks) < 2:
                    ranks.add(name)
                return name, True
            if ranks is not None or self.nodes.get(name) is not None:
                return name, True
        elif record.kind == "metrics" and (ranks := self._ranked.get(file.id)) is not None and len(ranks) == 1:
            return next(iter(ranks)), True
        names = self._told.get(file.id)
        if names is not None and len(names) == 1:
            return next(iter(names)), True  # its machine names itself in some lines, the training in none
        return file.node, False

    def _labels(self, labels: dict[str, str]) -> None:
        for key in ("model_name", "job_id"):
            value = labels.get(key)
            if value and self.labels.get(key) != value:
                self.labels[key] = value
                self.dirty.add("run")

    def _numbers(self, record: Record, file: SourceFile, name: str, declared: bool, arrival: float, live: bool) -> None:
        node = self.nodes.need(name, declared, file.id)
        first = node.step is None
        fresh = node.take(record, arrival, live)
        if arrival > node.heard:
            node.heard = arrival
        when = record.time if record.time is not None else arrival
        if self.gpus.take(record, name, arrival if live else when, node.step):
            self.dirty.add("gpus")
        self.dirty.update(("nodes", "run"))
        if fresh and node.step is not None:
            if first:
                self.told.started(node, self.nodes.stepping(), record.time, when)
            self.told.stepped(node.step, file.id, record.time, when)
        if record.kind in _STEPPED:
            self._series(record, node, arrival, when)
        if record.kind == "eval" or "eval_loss" in record.values:
            self.told.evaluated(record, node.step, when)

    def _series(self, record: Record, node: NodeState, arrival: float, when: float) -> None:
        values = record.values
        step = values.get("step")
        if isinstance(step, (int, float)) and step == step:
            x = int(step)
        elif node.step is not None:
            x = node.step
        elif record.kind == "metrics" and "loss" in values and not self.nodes.stepping():
            # A log without any steps: whole epochs, else its records in their order.
            x = self._ordinals[node.name] = place_without_step(values, self._ordinals.get(node.name, 0))
        else:
            return
        member = node.name if record.rank is None else f"{node.name}#{record.rank}"
        if member not in self._members:
            if len(self._members) >= MAX_NODES:
                member = node.name
            self._members.add(member)
        if record.kind == "summary":
            return
        self.metrics.take(record, x, member)
        if (
            "step_time_s" not in values
            and node.step_time is None
            and node.own_s is not None
            and record.kind == "metrics"
        ):
            self.metrics.add("step_time_s", x, member, node.own_s)
        scheduler = record.extra.get("lr_scheduler_type")
        if isinstance(scheduler, str):
            self.scheduler = scheduler
        if "loss" in values:
            self.loss_heard = arrival if self.loss_heard is None else max(arrival, self.loss_heard)
            if self.last_loss_at is not None and when > self.last_loss_at:
                gap, usual = when - self.last_loss_at, self.loss_interval
                self.loss_interval = gap if usual is None else usual * 0.8 + min(gap, 10 * usual + 10) * 0.2
            self.last_loss_at = when if self.last_loss_at is None else max(when, self.last_loss_at)
        rate = finite(values.get("learning_rate"))
        if rate is not None and self.warmup.take(x, rate):
            self.told.warm(self.warmup.steps, self.warmup.peak, record.time, when)
        self.dirty.update(("charts", "metrics"))

    # ------------------------------------------------------------ what is no number

    def gap(self, record: Record, who: str, arrival: float) -> None:
        """Something may have stood in a file unseen."""
        self.gaps += 1
        when = record.time if record.time is not None else arrival
        text = record.reason or "replaced between two looks"
        self.events.add("gap", text, time=when, now=when, health="warning", who=who)
        self.dirty.update(("events", "counts", "sources"))

    def _error(self, record: Record, file: SourceFile, name: str, declared: bool, arrival: float) -> None:
        self.errors.add(record, file.id, name, self._file_times.get(file.id))
        self.dirty.update(("errors", "counts"))
        node = self.nodes.need(name, True, file.id) if declared else self.nodes.get(name)
        if node is None and record.priority == 1:
            node = self.nodes.need(name, declared, file.id)
        if node is not None:
            node.error_lines += 1
            if record.priority == 1 and node.fatal_code is None:
                node.fatal_code = record.code
            if arrival > node.heard:
                node.heard = arrival
            self.dirty.add("nodes")

    # ------------------------------------------------------------ incidents

    def _note(self, incident: Incident, live: bool, step: int | None = None) -> None:
        if incident.end is None:
            self.open[incident.key] = incident
            step = self.step if step is None else step
            if incident.kind in SLOW_RISES and step is not None:
                self.noticed.setdefault(incident.key, step)
        else:
            self.open.pop(incident.key, None)
            if is_failure(incident) and any(not group.over for group in self.errors):
                self.errors.went_on()
                self.dirty.update(("errors", "nodes"))
            if incident.start_step is not None or incident.gpu is not None:
                self.past.append(incident)
        self.found.append((incident, live))

    # ------------------------------------------------------------ the whole

    @property
    def step(self) -> int | None:
        """The newest step of the slowest node."""
        slowest = self.slowest
        return slowest.step if slowest is not None else None

    @property
    def slowest(self) -> NodeState | None:
        """The node that is behind all others; one that told of a step or two long ago does not count."""
        nodes = self.nodes.stepping()
        steady = [node for node in nodes if node.steps >= 3]
        return min(steady or nodes, key=lambda node: node.step or 0, default=None)

    @property
    def total_steps(self) -> int | None:
        """The announced last step, the largest that a node names."""
        return max((node.total_steps for node in self.nodes if node.total_steps is not None), default=None)
