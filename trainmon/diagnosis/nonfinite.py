"""NaN or infinite loss: one incident for the run, however many nodes show it.

A gradient norm that is NaN for a step or two under fp16 is a skipped step and normal; eight in a row are not. Some
trainers print a loss of 0 with a gradient of NaN: twice in a row that is a NaN loss too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from trainmon import units
from trainmon.columns import Columns
from trainmon.diagnosis.detector import moment, step_of_record
from trainmon.diagnosis.pulse import Pulse
from trainmon.diagnosis.thresholds import Thresholds
from trainmon.diagnosis.words import number
from trainmon.model import Incident, Record

CLEAR_STEPS = 60
GRADIENTS = 8
MASKED = 2
ADVICE = (
    "stop, and restart from the checkpoint before the first bad step",
    "skip the data of these steps; lower the learning rate or clip harder",
    "bf16 instead of fp16, or a smaller initial loss scale",
)
ONE_NODE = "only one node shows it: a bad shard or a faulty GPU; swap the node and replay the step"


class NonFinite:
    """The detector."""

    kinds = frozenset(("metrics",))

    def __init__(self, pulse: Pulse, thresholds: Thresholds) -> None:
        self._pulse = pulse
        self._need = thresholds.non_finite_loss
        self._open: Incident | None = None
        self._nodes: dict[str, None] = {}
        self._count = 0
        self._gradients = 0
        self._masked = 0
        self._good = 0
        self._good_step: int | None = None
        self._last: tuple[int | None, float] | None = None
        self._told = 0

    def observe(self, record: Record, node: str, at: float | None) -> Iterable[Incident]:
        if self._need is None:
            return ()
        values = record.values
        loss = number(values.get("loss"))
        gradient = number(values.get("grad_norm"))
        bad_gradient = gradient is not None and gradient - gradient != 0.0
        if loss is not None and loss - loss != 0.0:
            return self._bad(record, node, at, f"loss is {_word(loss)}", int(max(1.0, self._need)))
        if bad_gradient:
            self._gradients += 1
            self._masked = self._masked + 1 if loss == 0.0 and self._last is not None else 0
            if self._masked >= MASKED:
                return self._bad(record, node, at, "loss is printed as 0, the gradient is NaN", 1)
            if self._gradients >= GRADIENTS:
                return self._bad(record, node, at, f"gradient norm is {_word(gradient or 0.0)}", 1)
            return ()
        if gradient is not None:
            self._gradients = self._masked = 0
        if loss is None:
            return ()
        return self._fine(record, at, loss)

    def take_columns(self, columns: Columns, otherwise: float) -> list[tuple[int, Incident]]:
        """`observe` of each row, all of whose values are finite; gives incidents by row.

        Args:
            otherwise: The moment of rows without a time.
        """
        if self._need is None:
            return []
        if "grad_norm" in columns.values:
            self._gradients = self._masked = 0
        losses = columns.values.get("loss")
        if losses is None:
            return []
        out: list[tuple[int, Incident]] = []
        row = 0
        while self._open is not None and row < len(columns):
            record = columns.record(row)
            out += [(row, found) for found in self._fine(record, otherwise, losses[row])]
            row += 1
        if row < len(columns):
            self._last = (columns.steps[-1], losses[-1])
            self._count = 0
            self._nodes.clear()
        return out

    def _bad(self, record: Record, node: str, at: float | None, what: str, need: int) -> Iterable[Incident]:
        self._count += 1
        self._good = 0
        if len(self._nodes) < 64:
            self._nodes[node] = None
        if self._open is not None or self._count < need:
            return ()
        step = step_of_record(record)
        nodes = len(self._pulse.nodes)
        alone = nodes > 1 and len(self._nodes) == 1
        evidence: list[tuple[str, str | int | float]] = [("values", self._count)]
        last = ""
        if self._last is not None:
            last = f", was {units.loss(self._last[1])}"
            evidence += [("last_finite_loss", self._last[1])]
            if self._last[0] is not None:
                evidence += [("last_finite_step", self._last[0])]
        where = f" at step {units.count(step)}" if step is not None else ""
        now = moment(record, at)
        self._open = Incident(
            key="loss_nan",
            kind="loss_nan",
            severity="critical",
            title="NAN LOSS",
            who=node if nodes > 1 else "run",
            measured=f"{what}{where}{last}",
            outlook="every step from here is lost",
            advice=(*ADVICE, ONE_NODE) if alone else ADVICE,
            node=node if nodes > 1 else None,
            rank=record.rank,
            start=now,
            detected=now,
            start_step=step,
            evidence=tuple(evidence),
            source=record.source,
            line=record.line or None,
            offset=record.offset,
        )
        self._told = 1
        return (self._open,)

    def _fine(self, record: Record, at: float | None, loss: float) -> Iterable[Incident]:
        step = step_of_record(record)
        self._last = (step, loss)
        if self._open is None:
            self._count = 0
            self._nodes.clear()
            return ()
        if step is None or step != self._good_step:  # steps, not lines: many nodes tell the same step
            self._good += 1
            self._good_step = step
        if self._good < CLEAR_STEPS:
            return ()
        done = replace(
            self._open,
            end=moment(record, at),
            end_step=step,
            resolution=f"loss is finite again for {CLEAR_STEPS} steps, {units.loss(loss)}",
        )
        self._open = None
        self._count = 0
        self._nodes.clear()
        return (done,)

    def tick(self, now: float) -> Iterable[Incident]:
        """Tell of more nodes that show it, at most once a second."""
        if self._open is None or len(self._nodes) <= self._told:
            return ()
        self._told = len(self._nodes)
        more = f"{self._told} nodes" if self._told < 64 else "64 nodes or more"
        advice = tuple(text for text in self._open.advice if text != ONE_NODE)
        self._open = replace(self._open, who=more, node=None, advice=advice)
        return (self._open,)


def _word(value: float) -> str:
    return "NaN" if value != value else "infinite"
