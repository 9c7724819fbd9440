"""The state of one run: records in, and everything that the screen shows is kept here, bounded.

A session holds one `RunState` that reads forward, and while history is read a second one that was fed with the
ends of the files only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from trainmon import units
from trainmon.diagnosis.detector import place_without_step
from trainmon.diagnosis.engine import Detectors
from trainmon.model import Incident, Record
from trainmon.session.blame import is_failure
from trainmon.session.errors import ErrorBook
from trainmon.session.events import EventBook
from trainmon.session.files import SourceFile
from trainmon.session.gpus import GpuBook
from trainmon.session.metrics import MetricBook
from trainmon.session.nodes import NodeBook, NodeState
from trainmon.session.warmup import WarmUp
from trainmon.session.wording import CHECKPOINT_BEGINS, duration_in, finite, natural, step_of_checkpoint

QUARANTINE = 200
_SLACK_STEPS = 4
_STEPPED = frozenset({"metrics", "eval", "summary"})


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
        self.gpus = GpuBook()
        self.warmup = WarmUp()
        self.quarantine: deque[tuple[str, int, str, str]] = deque(maxlen=QUARANTINE)
        self.quarantined = 0
        self.gaps = 0
        self.records = 0
        self.labels: dict[str, str] = {}
        self.scheduler = ""
        self.first_time: float | None = None
        self.newest_time: float | None = None
        self.last_loss_at: float | None = None
        self.loss_heard: float | None = None
        self.loss_interval: float | None = None
        self.last_eval: tuple[float, float] | None = None
        self.eval_started: float | None = None
        self.found: list[tuple[Incident, bool]] = []
        self.open: dict[str, Incident] = {}
        self.past: deque[Incident] = deque(maxlen=100)
        self.dirty: set[str] = set()
        self.faults = 0
        self.last_fault: Exception | None = None
        self._ordinals: dict[str, int] = {}
        self._starters = 0
        self._last_steps: dict[int, int] = {}
        self._told: dict[int, dict[str, None]] = {}
        """By file: names of nodes that stand in its lines, two at most."""
        self._ranked: set[int] = set()
        """Files in which ranks tell of their steps."""
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

    def heard(self, node: str, arrival: float, *, live: bool) -> None:
        """A node's file brought bytes, whatever they say."""
        self.watch.heard(node, arrival, live)
        state = self.nodes.get(node)
        if state is not None and arrival > state.heard:
            state.heard = arrival

    def leap(self, file: SourceFile) -> None:
        """The file's next records come from far behind the last ones: that is no resume."""
        self._last_steps.pop(file.id, None)

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
        self.records += 1
        kind = record.kind
        name, declared = self._node_of(record, file)
        if record.labels:
            self._labels(record.labels)
        time = record.time
        if time is not None:
            self._file_times[file.id] = time
            if self.first_time is None or time < self.first_time:
                self.first_time = time
            if self.newest_time is None or time > self.newest_time:
                self.newest_time = time
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
            self._log(record, name, arrival)
        if detect:
            for incident in self.watch.observe(record, name, arrival, live):
                self._note(incident, live)

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
            if record.kind == "metrics" and "step" in record.values:
                self._ranked.add(file.id)
                return name, True
            if file.id in self._ranked or self.nodes.get(name) is not None:
                return name, True
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
        if fresh:
            if first and node.step is not None:
                self._started(node, record, when)
            if node.step is not None:
                self._resumed(node.step, file, record.time, when)
        if record.kind in _STEPPED:
            self._series(record, node, arrival, when)
        if record.kind == "eval" or "eval_loss" in record.values:
            self._evaluated(record, node, when)

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
                gap = when - self.last_loss_at
                self.loss_interval = gap if self.loss_interval is None else self.loss_interval * 0.8 + gap * 0.2
            self.last_loss_at = when if self.last_loss_at is None else max(when, self.last_loss_at)
        rate = finite(values.get("learning_rate"))
        if rate is not None and self.warmup.take(x, rate):
            self.events.add(
                "warm-up over",
                f"step {self.warmup.steps:,} · learning rate at its peak {units.learning_rate(self.warmup.peak)}",
                time=record.time,
                now=when,
                mark="warm-up",
                planned=True,
            )
        self.dirty.update(("charts", "metrics"))

    # ------------------------------------------------------------ events

    def _started(self, node: NodeState, record: Record, when: float) -> None:
        self._starters += 1
        count = self._starters
        if count > 16:
            self.events.update("first step", "first step", f"{count} nodes")
        elif count == 1:
            self.events.add(
                "first step",
                f"step {node.step:,} · {node.name}",
                time=record.time,
                now=when,
                mark="first step",
                planned=True,
            )
        else:
            names = sorted((n.name for n in self.nodes.stepping()), key=natural)
            lowest = min(n.first_step or 0 for n in self.nodes.stepping())
            self.events.update("first step", "first step", f"step {lowest:,} · {names[0]} to {names[-1]}")
        self.dirty.add("events")

    def _resumed(self, step: int, file: SourceFile, time: float | None, when: float) -> None:
        last = self._last_steps.get(file.id)
        self._last_steps[file.id] = step
        if last is not None and step < last - _SLACK_STEPS:
            self.events.add(
                "resumed",
                f"from step {step:,}; step {last:,} had been reached",
                time=time,
                now=when,
                mark=("resumed", step),
                planned=True,
            )
            self.dirty.add("events")

    def _evaluated(self, record: Record, node: NodeState, when: float) -> None:
        loss = finite(record.values.get("eval_loss"))
        step = record.values.get("step", node.step)
        if loss is None and record.kind != "eval":
            return
        parts = [f"step {int(step):,}"] if isinstance(step, (int, float)) and step == step else []
        if loss is not None:
            text = f"loss {units.loss(loss)}"
            if self.last_eval is not None and isinstance(step, (int, float)) and step > self.last_eval[0]:
                by = loss - self.last_eval[1]
                text += f" {'▲' if by > 0 else '▼'} {units.loss(abs(by))}" if by else ""
            parts.append(text)
            if isinstance(step, (int, float)):
                self.last_eval = (float(step), loss)
        took = finite(record.extra.get("eval_runtime", record.values.get("eval_runtime")))
        if took is None and self.eval_started is not None and record.time is not None:
            took = record.time - self.eval_started if record.time > self.eval_started else None
        if took is not None:
            parts.append(units.duration(took))
        self.eval_started = None
        mark = ("eval", step) if isinstance(step, (int, float)) else None
        self.events.add("eval", " · ".join(parts), time=record.time, now=when, mark=mark, planned=True)
        self.dirty.add("events")

    def _log(self, record: Record, name: str, arrival: float) -> None:
        event = record.extra.get("event")
        when = record.time if record.time is not None else arrival
        if event == "eval_start":
            self.eval_started = record.time
            return
        if event not in ("checkpoint", "finished"):
            return
        said = (record.message or "").strip()[:160]
        step = record.values.get("step")
        if step is None and event == "checkpoint":
            step = step_of_checkpoint(said)
        if step is None:
            node = self.nodes.get(name)
            step = node.step if node is not None else self.step
        at = f"step {int(step):,}" if isinstance(step, (int, float)) and step == step else ""
        if event == "checkpoint":
            self._checkpoint(at, said, record.time, when)
        else:
            text = " · ".join(part for part in (at, said) if part)
            self.events.add("finished", text, time=record.time, now=when, mark=(event, step), planned=True)
        self.dirty.add("events")

    def _checkpoint(self, at: str, said: str, time: float | None, when: float) -> None:
        """One event a checkpoint: that it begins, that it is there and how long it took, whoever tells of it."""
        mark = ("checkpoint", at or said)
        before = self.events.find("checkpoint", mark)
        began = CHECKPOINT_BEGINS.search(said) is not None
        if before is not None and (began or f"{at} saved in" in before.text):
            return
        took = duration_in(said)
        if took is None and before is not None and not began and time is not None and before.time is not None:
            took = time - before.time if 0.0 < time - before.time < 7200.0 else None
        if not at:
            text = said
        elif began:
            text = f"{at} is being saved"
        else:
            text = f"{at} saved" + (f" in {units.seconds(took)}" if took is not None else "")
        if before is not None:
            self.events.update("checkpoint", mark, text)
        else:
            self.events.add("checkpoint", text, time=time, now=when, mark=mark, planned=True)

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

    def _note(self, incident: Incident, live: bool) -> None:
        if incident.end is None:
            self.open[incident.key] = incident
        else:
            self.open.pop(incident.key, None)
            if is_failure(incident) and any(not group.over for group in self.errors):
                self.errors.went_on()
                self.dirty.update(("errors", "nodes"))
            if incident.start_step is not None:
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
