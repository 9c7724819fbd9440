"""Memory of a GPU on its way to the card's size.

Three rules, each for one GPU (or node, where a log carries one figure a node):

* rising: over 10, 24 or 48 blocks of 12 readings the maxima rise steadily (Mann-Kendall ≥ 0.6, Theil-Sen slope), and
  the card will be full within the threshold. An allocator that is still filling up (the slope falls off) and steps
  (a batch ramp, an evaluation buffer) are not a rise.
* close: from 90 % on and full within ten minutes, five blocks of four readings suffice: the alert must come in time.
* new maximum: at the threshold's share of the card or above, higher than it has ever been after it had settled. A
  caching allocator that sits there for days is quiet.

The card's size is the log's own (`gpu_memory_total_mb`); without it the next common size above the highest reading is
assumed, said to be so, and used for the first rule only.

What the boards themselves tell (NVML, agents) comes each second and is judged in seconds: `memory_board.py`. Of one
memory only one of the two speaks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

from trainmon import units
from trainmon.columns import Columns
from trainmon.diagnosis.detector import moment, step_of_record
from trainmon.diagnosis.machine import Gpu
from trainmon.diagnosis.memory_board import BoardMemory
from trainmon.diagnosis.memory_trend import CRITICAL_S, WARM_UP, Card, Trend, capacity_of, close, rising
from trainmon.diagnosis.pulse import Pulse
from trainmon.diagnosis.thresholds import Thresholds
from trainmon.diagnosis.watch import SILENT_S
from trainmon.diagnosis.words import gib, number
from trainmon.model import Incident, Record, Severity, Value
from trainmon.series.robust import median

CLOSE = 0.90
SETTLED_SAMPLES = 180
AHEAD = 288
"""Readings of columns that are judged together at most."""
ADVICE_ONE = (
    "only this GPU grows: look for tensors kept alive (a logged loss without .item(), a growing list)",
    "restart from the newest checkpoint before it is full",
    "halve the micro-batch and double gradient accumulation: that buys steps, not a cure",
)
ADVICE_ALL = (
    "halve the micro-batch and double gradient accumulation: the same global batch, less memory",
    "turn on gradient checkpointing; PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True against fragmentation",
    "look for tensors kept alive: .item() or .detach() on what is logged",
)


class Memory:
    """The detector; one incident a GPU."""

    kinds = frozenset(("metrics", "gpu", "host"))

    def __init__(self, pulse: Pulse, thresholds: Thresholds) -> None:
        self._pulse = pulse
        self._thresholds = thresholds
        self._cards: dict[tuple[str, int | None], Card] = {}
        self._totals: dict[str, float] = {}
        self._open: dict[tuple[str, int | None], Incident] = {}
        self._boards = BoardMemory(pulse, thresholds)

    # ------------------------------------------------------------ taking in

    def observe(self, record: Record, node: str, at: float | None) -> Iterable[Incident]:
        values = record.values
        used = number(values.get("gpu_memory_mb"))
        total = number(values.get("gpu_memory_total_mb"))
        if total is not None and 0.0 < total < 1e9 and record.extra.get("mig_instance") is None:
            self._totals[node] = total
        if record.sample is not None:
            return self._board(self._pulse.fleet.gpu)
        if used is None or not 0.0 <= used < 1e9:
            return ()
        gpu = _index(record)
        key = (node, gpu)
        card = self._cards.get(key)
        if card is None:
            if record.kind != "metrics" and gpu is None and self._has_metrics(node):
                return ()  # an agent's figure for the node beside the training's own: the same memory twice
            card = self._cards[key] = Card(record.kind)
        elif card.kind != record.kind:
            return ()
        if total is not None:
            card.total = total
        elif not card.total and self._totals:
            card.total = self._totals.get(node) or self._common_total()
        now = record.time if record.time is not None else moment(record, at)
        return self._reading(key, card, used, now, step_of_record(record), lambda: record)

    def fits(self, columns: Columns, node: str) -> bool:
        """Whether `take_columns` can take these."""
        sizes, used = columns.values.get("gpu_memory_total_mb"), columns.values.get("gpu_memory_mb")
        if sizes is not None and not (0.0 < sizes[0] < 1e9 and sizes.count(sizes[0]) == len(sizes)):
            return False
        if used is None:
            return True
        card = self._cards.get((node, _index(columns.first)))
        if card is None or card.kind != "metrics" or not card.stepped or not card.steps:
            return False
        return columns.steps[0] > card.steps[-1] and min(used) >= 0.0 and max(used) < 1e9

    def take_columns(self, columns: Columns, node: str, otherwise: float) -> list[tuple[int, Incident]]:
        """`observe` of each row; gives incidents by row.

        Args:
            otherwise: The moment of rows without a time.
        """
        readings, sizes = columns.values.get("gpu_memory_mb"), columns.values.get("gpu_memory_total_mb")
        if sizes is not None:
            self._totals[node] = sizes[0]
        if readings is None:
            return []
        times = columns.times if columns.times is not None else [otherwise] * len(columns)
        key = (node, _index(columns.first))
        card = self._cards[key]
        if sizes is not None:
            card.total = sizes[0]
        elif not card.total and self._totals:
            card.total = self._totals.get(node) or self._common_total()
        out: list[tuple[int, Incident]] = []
        row, rows, steps = 0, len(columns), columns.steps
        while row < rows:
            if key not in self._open and (end := self._calm_until(card, readings, row)) > row:
                card.leap(steps[row:end], times[row:end], readings[row:end])
                row = end
                continue
            place = partial(columns.record, row)
            found = self._reading(key, card, readings[row], times[row], steps[row], place)
            out += [(row, incident) for incident in found]
            row += 1
        return out

    def _calm_until(self, card: Card, readings: list[float], row: int) -> int:
        """Up to which row no rule can speak, so that nobody has to look; the given one: not even there."""
        if card.samples <= WARM_UP:
            return row
        rows, limits = readings[row : row + AHEAD], self._thresholds
        if max(rows) > card.high:
            rows = rows[: next(i for i, used in enumerate(rows) if used > card.high)]
        if not rows:
            return row
        capacity, assumed = capacity_of(card)
        shares = [CLOSE if limits.memory_full_within_s is not None else 9.0, limits.memory_fraction or 9.0]
        if not assumed and max(rows) >= min(shares) * capacity:
            return row
        return row + (len(rows) if limits.memory_full_within_s is None else card.flat(rows, capacity))

    # ------------------------------------------------------------ what the boards themselves tell

    def _board(self, gpu: Gpu | None) -> Iterable[Incident]:
        if gpu is None:
            return ()
        taken = any(node == gpu.node and (of is None or of < 0 or of == gpu.index) for node, of in self._open)
        return self._boards.look(gpu, taken, (ADVICE_ONE, ADVICE_ALL))

    def _told_by_board(self, key: tuple[str, int | None]) -> bool:
        """Whether the board of that memory has an open incident: the same memory is not told of twice."""
        node, gpu = key
        return any(
            i.node == node and (gpu is None or gpu < 0 or i.gpu is None or i.gpu == gpu)
            for i in self._boards.open.values()
        )

    def leave(self, key: str) -> list[Incident]:
        """That GPU is not the run's."""
        return self._boards.leave(key)

    def _common_total(self) -> float:
        """The size that all cards have whose size is known, for a node that does not say; 0 when they differ."""
        sizes = set(self._totals.values())
        return sizes.pop() if len(sizes) == 1 else 0.0

    def _has_metrics(self, node: str) -> bool:
        return any(n == node and c.kind == "metrics" for (n, _), c in self._cards.items())

    def _reading(
        self,
        key: tuple[str, int | None],
        card: Card,
        used: float,
        now: float,
        step: int | None,
        record: Callable[[], Record],
    ) -> Iterable[Incident]:
        x = float(step) if step is not None else float(card.samples)
        if card.steps and x <= card.steps[-1]:
            if x < card.steps[-1] - 4:  # resumed: what was learned of the past does not go on
                return self._restart(key, card, used, now)
            return ()  # several ranks of a node under one name: one reading a step
        card.stepped = step is not None
        ended = card.take(x, now, used)
        if card.samples == WARM_UP:
            card.settled = card.high
        if key in self._open:
            return self._look_again(key, card, ended, now, step)
        found = self._rule(card, ended, used)
        if found is None or self._told_by_board(key):
            return ()
        rule, severity, trend = found
        card.rule = rule
        incident = self._incident(key, card, rule, severity, trend, record(), now, step)
        self._open[key] = incident
        return (incident,)

    def _restart(self, key: tuple[str, int | None], card: Card, used: float, now: float) -> Iterable[Incident]:
        fresh = self._cards[key] = Card(card.kind)
        fresh.total = card.total
        open_ = self._open.pop(key, None)
        if open_ is None:
            return ()
        return (replace(open_, end=now, resolution=f"restarted, {gib(used)}"),)

    # ------------------------------------------------------------ the rules

    def _rule(self, card: Card, ended: bool, used: float) -> tuple[str, Severity, Trend | None] | None:
        if not card.total and not ended:
            return None  # where the card's size is assumed blocks are all that counts
        limits = self._thresholds
        capacity, assumed = capacity_of(card)
        if limits.memory_full_within_s is not None:
            trend = None
            if not assumed and used >= CLOSE * capacity and card.samples % 4 == 0:
                trend = close(card, capacity)
            if trend is None and ended:
                trend = rising(card, capacity)
            if trend is not None and trend.full_s <= limits.memory_full_within_s:
                critical = trend.full_s <= CRITICAL_S and not assumed
                return "rising", "critical" if critical else "warning", trend
        if limits.memory_fraction is None or assumed or card.samples <= WARM_UP:
            return None
        if used >= limits.memory_fraction * capacity and used > card.settled + 0.005 * capacity:
            return "new maximum", "warning", None
        return None

    # ------------------------------------------------------------ while it is open

    def _look_again(
        self, key: tuple[str, int | None], card: Card, ended: bool, now: float, step: int | None
    ) -> Iterable[Incident]:
        incident = self._open[key]
        capacity, assumed = capacity_of(card)
        if card.samples % 4 == 0:
            dropped = card.last < card.high - 0.04 * capacity and max(card.ring[-8:]) < card.high - 0.03 * capacity
            trend = close(card, capacity) or rising(card, capacity)
            if trend is not None:
                card.trend_at = card.samples
            stopped = card.samples - max(card.mark_at, card.trend_at) >= SETTLED_SAMPLES
            if dropped or stopped:
                card.settled = card.high
                del self._open[key]
                text = f"back to {gib(card.last)}" if dropped else f"no longer rises, {gib(card.last)}"
                if dropped:
                    del card.x[:], card.t[:], card.y[:]
                    card.high = card.mark = card.last
                return (replace(incident, end=now, end_step=step, resolution=text),)
            if trend is not None:
                severity: Severity = incident.severity
                if trend.full_s <= CRITICAL_S and not assumed:
                    severity = "critical"
                changed = replace(
                    incident,
                    severity=severity,
                    title=_title(severity, card.last, capacity),
                    measured=self._measured(card, trend),
                    outlook=f"full in ≈ {units.forecast(trend.full_s)}",
                )
            elif card.rule == "new maximum":
                changed = replace(incident, measured=self._measured(card, None))
            else:
                changed = replace(incident, measured=self._level(card) + ", still high", outlook="")
            if changed != incident:
                self._open[key] = changed
                return (changed,)
        return ()

    def _level(self, card: Card) -> str:
        capacity, assumed = capacity_of(card)
        share = units.percent(100.0 * card.last / capacity)
        word = ", assumed" if assumed else ""
        return f"{card.last / 1024.0:.1f} of {capacity / 1024.0:.1f} GiB ({share}{word})"

    def _measured(self, card: Card, trend: Trend | None) -> str:
        if trend is None:
            return f"{self._level(card)}, a new maximum"
        if card.stepped:
            return f"{self._level(card)}, +{_amount(trend.per_x * 100.0)} per 100 steps"
        seconds, word = (60.0, "min") if trend.per_s >= 1.0 else (3600.0, "h")
        return f"{self._level(card)}, +{_amount(trend.per_s * seconds)} per {word}"

    def _incident(
        self,
        key: tuple[str, int | None],
        card: Card,
        rule: str,
        severity: Severity,
        trend: Trend | None,
        record: Record,
        now: float,
        step: int | None,
    ) -> Incident:
        node, gpu = key
        capacity, assumed = capacity_of(card)
        others = [c.last for k, c in self._cards.items() if k != key and c.samples > 8]
        alone = bool(others) and median(others) < card.last - 0.02 * capacity
        who = node
        if gpu is not None:
            one = sum(name == node for name, _ in self._cards) == 1
            who = f"{node} gpu{gpu}" if gpu >= 0 else node if one else f"{node} rank {-1 - gpu}"
        evidence: list[tuple[str, Value]] = [
            ("rule", rule),
            ("level_mb", round(card.last, 1)),
            ("capacity_mb", round(capacity, 1)),
            ("level_percent", round(100.0 * card.last / capacity, 1)),
        ]
        if assumed:
            evidence.append(("capacity_is", "assumed: the next common card size"))
        if trend is not None:
            evidence.append(("slope_mb_per_min", round(trend.per_s * 60.0, 2)))
            if card.stepped:
                evidence.append(("slope_mb_per_100_steps", round(trend.per_x * 100.0, 1)))
            evidence.append(("trend_tau", round(trend.tau, 2)))
            evidence.append(("full_in_s", round(trend.full_s)))
        if others:
            evidence.append(("others_median_mb", round(median(others), 1)))
        return Incident(
            key=f"near_oom:{node}" + (f":{gpu}" if gpu is not None else ""),
            kind="near_oom",
            severity=severity,
            title=_title(severity, card.last, capacity),
            who=who,
            measured=self._measured(card, trend),
            outlook=f"full in ≈ {units.forecast(trend.full_s)}" if trend is not None else "the next peak may not fit",
            advice=ADVICE_ONE if alone else ADVICE_ALL,
            node=node,
            rank=record.rank,
            gpu=gpu if gpu is not None and gpu >= 0 else None,
            start=now,
            detected=now,
            start_step=int(trend.since) if trend is not None and step is not None else step,
            evidence=tuple(evidence),
            source=record.source,
            line=record.line or None,
            offset=record.offset,
        )

    def came_true(self, node: str, now: float, step: int | None, code: str) -> list[Incident]:
        """The node ran out of memory: its warnings give way to that error."""
        out: list[Incident] = []
        for key in [k for k in self._open if k[0] == node]:
            incident = self._open.pop(key)
            text = f"came true: {code}" + (f" at step {units.count(step)}" if step is not None else "")
            out.append(
                replace(
                    incident,
                    end=now,
                    end_step=step,
                    resolution=text,
                    evidence=(*incident.evidence, ("superseded", code)),
                )
            )
        for board, incident in list(self._boards.open.items()):
            if incident.node == node:
                self._boards.open[board] = replace(incident, evidence=(*incident.evidence, ("superseded", code)))
                text = f"came true: {code}" + (f" at step {units.count(step)}" if step is not None else "")
                out.extend(self._boards.end(board, now, text))
        return out

    def tick(self, now: float) -> Iterable[Incident]:
        return self._boards.silent(now, SILENT_S) if self._boards.open else ()


def _index(record: Record) -> int | None:
    """Which GPU of its node a record tells of; -1 - rank where only the rank is known."""
    gpu = record.gpu if record.gpu is not None else record.local_rank
    return -1 - record.rank if gpu is None and record.rank is not None and record.kind == "metrics" else gpu


def _title(severity: Severity, level: float, capacity: float) -> str:
    return "NEAR OOM" if severity == "critical" or level >= CLOSE * capacity else "MEMORY RISES"


def _amount(mb: float) -> str:
    return gib(mb) if mb >= 100.0 else f"{mb:.0f} MiB"
