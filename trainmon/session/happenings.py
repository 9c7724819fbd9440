"""What a log tells besides numbers, as events: first steps, resumes, checkpoints, evaluations, the end."""

from __future__ import annotations

from collections.abc import Sequence

from trainmon import units
from trainmon.model import Record
from trainmon.session.events import EventBook
from trainmon.session.nodes import NodeState
from trainmon.session.wording import (
    CHECKPOINT_BEGINS,
    duration_in,
    epoch_of_checkpoint,
    finite,
    natural,
    step_of_checkpoint,
)

SLACK_STEPS = 4
_BEING_SAVED = "is being saved"
_ALL_NAMED = 16
_NO_SCORE = ("runtime", "per_second", "samples", "steps", "time")


class Happenings:
    """Turns records into events, each thing once whoever tells of it.

    Args:
        events: Where they go.
    """

    def __init__(self, events: EventBook) -> None:
        self._events = events
        self._last_eval: tuple[float, float] | None = None
        self._eval_started: float | None = None
        self._saving: tuple[object, str] | None = None
        self._starters = 0
        self._last_steps: dict[int, int] = {}
        self.live = False
        """Whether the line that is told of has just been written."""

    def leap(self, source: int) -> None:
        """The next records of that file come from far behind the last ones: that is no resume."""
        self._last_steps.pop(source, None)

    def started(self, node: NodeState, stepping: Sequence[NodeState], time: float | None, when: float) -> None:
        """A node's first step.

        Args:
            stepping: All nodes that have made a step.
            time: The log's own, if it has one; when: that or the arrival.
        """
        self._starters += 1
        mark = "first step"
        if self._starters > _ALL_NAMED:
            self._events.update(mark, mark, f"{self._starters} nodes")
        elif self._starters == 1:
            self._plan(mark, f"step {node.step:,} · {node.name}", time, when, mark)
        else:
            names = sorted((n.name for n in stepping), key=natural)
            lowest = min(n.first_step or 0 for n in stepping)
            self._events.update(mark, mark, f"step {lowest:,} · {names[0]} to {names[-1]}")

    def stepped(self, step: int, source: int, time: float | None, when: float) -> None:
        """A new step of a file: it may have gone back to a checkpoint."""
        last = self._last_steps.get(source)
        self._last_steps[source] = step
        if last is not None and step < last - SLACK_STEPS:
            text = f"from step {step:,}; step {last:,} had been reached"
            self._plan("resumed", text, time, when, ("resumed", step))
        self._saved()

    def last_step(self, source: int) -> int | None:
        """The newest step of a file, as far as `stepped` was told."""
        return self._last_steps.get(source)

    def leapt(self, step: int, source: int) -> None:
        """`stepped` for each of many rising steps, the last of which is this one."""
        self._last_steps[source] = step
        self._saved()

    def warm(self, steps: int | None, peak: float, time: float | None, when: float) -> None:
        """The learning rate has reached its peak."""
        text = f"step {steps or 0:,} · learning rate at its peak {units.learning_rate(peak)}"
        self._plan("warm-up over", text, time, when, "warm-up")

    def evaluated(self, record: Record, step: int | None, when: float) -> None:
        """The result of an evaluation; `step` is the node's, where the record has none."""
        loss = finite(record.values.get("eval_loss"))
        if record.kind != "eval" and (loss is None or (self._last_eval is not None and loss == self._last_eval[1])):
            return  # some loggers repeat the last one on every line
        at = finite(record.values.get("step", step))
        parts = [f"step {int(at):,}"] if at is not None else []
        if at is None:
            at = finite(record.values.get("epoch"))
            parts = [f"epoch {at:,.4g}"] if at is not None else []
        if loss is not None:
            text = f"loss {units.loss(loss)}"
            if self._last_eval is not None and at is not None and at > self._last_eval[0]:
                by = loss - self._last_eval[1]
                size = units.loss(abs(by))
                text += f" {'▲' if by > 0 else '▼'} {size}" if size.strip("0.") else ""
            parts.append(text)
            if at is not None:
                self._last_eval = (at, loss)
        elif score := _score(record):
            parts.append(score)
        took = finite(record.extra.get("eval_runtime", record.values.get("eval_runtime")))
        if took is None and self._eval_started is not None and record.time is not None:
            took = record.time - self._eval_started if record.time > self._eval_started else None
        if took is not None:
            parts.append(units.duration(took) if took >= 60.0 else units.seconds(took))
        self._eval_started = None
        if parts:
            self._plan("eval", " · ".join(parts), record.time, when, None if at is None else ("eval", at))

    def said(self, record: Record, step: int | None, when: float) -> None:
        """A message that announces something; `step` is the speaker's."""
        event = record.extra.get("event")
        if event == "eval_start":
            self._eval_started = record.time
        elif event == "checkpoint":
            self._checkpoint(record, step, when)
        elif event == "finished":
            self._saved()
            at = finite(record.values.get("step", step))
            parts = (f"step {int(at):,}" if at is not None else "", (record.message or "").strip()[:160])
            self._plan("finished", " · ".join(part for part in parts if part), record.time, when, ("finished", at))

    def _checkpoint(self, record: Record, step: int | None, when: float) -> None:
        """One event a checkpoint: that it begins, that it is there and how long it took."""
        message, time = (record.message or "").strip()[:160], record.time
        told = finite(record.values.get("step", step_of_checkpoint(message)))
        number = told if told is not None else step
        at = f"step {int(number):,}" if number is not None else epoch_of_checkpoint(message)
        mark = ("checkpoint", at or message)
        before = self._events.find("checkpoint", mark)
        began = CHECKPOINT_BEGINS.search(message) is not None
        took = duration_in(message)
        if before is not None:
            waiting = before.text.endswith(_BEING_SAVED)
            if began or not (waiting or (took is not None and " saved in " not in before.text)):
                return
            if took is None and time is not None and before.time is not None and 0.0 < time - before.time < 7200.0:
                took = time - before.time
        if not at:
            text = message
        elif began:
            text = f"{at} {_BEING_SAVED}"
            self._saving = mark, f"{at} saved"
        else:
            self._saving = None
            text = f"{at} saved" + (f" in {units.seconds(took)}" if took is not None else "")
        if before is None:
            self._plan("checkpoint", text, time, when, mark)
        else:
            self._events.update("checkpoint", mark, text)

    def _saved(self) -> None:
        """Many programs never say that a checkpoint is there: they go on."""
        if self._saving is not None:
            self._events.update("checkpoint", *self._saving)
            self._saving = None

    def _plan(self, name: str, text: str, time: float | None, when: float, mark: object) -> None:
        shown = when if time is None and self.live else time  # a line without a time is as old as its arrival
        self._events.add(name, text, time=shown, now=when, mark=mark, planned=True)


def _score(record: Record) -> str:
    """The first result of an evaluation that has no loss: "bpb 0.927"."""
    for key, value in (*record.values.items(), *record.extra.items()):
        name = key.removeprefix("eval_")
        score = finite(value)
        if name != key and score is not None and not name.endswith(_NO_SCORE):
            return f"{name.replace('_', ' ')} {units.number(score)}"
    return ""
