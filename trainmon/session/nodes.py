"""The nodes of a run: newest step and values, own step times, when each was heard last."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from operator import lt, sub, truediv
from statistics import median

from trainmon.columns import Columns, Unfit
from trainmon.model import Record
from trainmon.series.timeseries import Room, TimeSeries
from trainmon.session.rings import Past, Ring
from trainmon.session.wording import finite

MAX_NODES = 8192
PACE = 24
STEP_TIME, STEP = 0, 1
"""Rows of a node's past over time."""
_ROOMS = ((64, 240), (512, 96), (MAX_NODES, 24))
"""(nodes at most, cells of each one's past)."""


class NodeState:
    """What is known of one node.

    Attributes:
        declared: The log names it itself (its name does not come from the file's name alone).
        step, first_step, total_steps: Newest, first and announced last step. steps: How many it told of.
        own_s: Seconds a step without waiting for others, where the log tells, else the step time.
        heard: Arrival of its newest line, Unix seconds (file time for what was there at opening).
        began: The time of its first step; said: the newest time in its log. highest: Its highest step.
        reach: First step of an incident: the step times before it are kept.
        times: Seconds a step and the step itself (`STEP_TIME`, `STEP`) over time.
    """

    __slots__ = (
        "_last_pace", "_own", "_pace", "began", "declared", "error_lines", "fatal_code", "first_step", "heard",
        "highest", "loss", "memory_mb", "name", "own_from_log", "own_s", "reach", "said", "sources", "step",
        "step_time", "steps", "telemetry", "temperature_c", "times", "total_steps",
        "wait_s",
    )  # fmt: skip

    def __init__(self, name: str, declared: bool, room: Room | None = None) -> None:
        self.name = name
        self.declared = declared
        self.step: int | None = None
        self.steps = 0
        self.first_step: int | None = None
        self.total_steps: int | None = None
        self.loss: float | None = None
        self.own_s: float | None = None
        self.own_from_log = False
        self.step_time: float | None = None
        self.wait_s: float | None = None
        self.memory_mb: float | None = None
        self.temperature_c: float | None = None
        self.heard = 0.0
        self.said: float | None = None
        self.began: float | None = None
        self.highest: int | None = None
        self.telemetry = False
        self.fatal_code: str | None = None
        self.error_lines = 0
        self.sources: tuple[int, ...] = ()
        self.reach: int | None = None
        self.times = TimeSeries(2, room if room is not None else Room())
        self._own = Past()
        self._pace = Ring(PACE)
        self._last_pace: tuple[float, int] | None = None

    def spark(self, width: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Own step times in seconds, at most `width` of them, oldest first, and the step at which each begins."""
        return self._own.cells(width)

    def seconds_a_step(self) -> float | None:
        """Median of the recent distances between steps, by the log's clock, else by arrival."""
        values = self._pace.values()
        if len(values) >= 2:
            return median(values)
        if self.step_time is not None and self.step_time > 0:
            return self.step_time
        return values[0] if values else None

    def take(self, record: Record, arrival: float, live: bool) -> bool:
        """Feed one record of this node; True when it brought a step that is new to the node."""
        values, extra = record.values, record.extra
        if record.time is not None and (self.said is None or record.time > self.said):
            self.said = record.time
        if "gpu_memory_mb" in values:
            self.memory_mb = _or(values["gpu_memory_mb"], self.memory_mb)
            self.telemetry = True
        if "gpu_temperature_c" in values:
            self.temperature_c = _or(values["gpu_temperature_c"], self.temperature_c)
            self.telemetry = True
        if "gpu_utilization" in values:
            self.telemetry = True
        if record.kind not in ("metrics", "eval"):
            return False
        last_step = values.get("total_steps")
        if isinstance(last_step, (int, float)) and last_step > 0:
            self.total_steps = int(last_step)
        loss = values.get("loss")
        if isinstance(loss, (int, float)):
            self.loss = float(loss)
        step = values.get("step")
        fresh = False
        if isinstance(step, (int, float)) and step == step and record.kind == "metrics":
            step = int(step)
            fresh = self.step != step
            if fresh:
                self._note_pace(step, record.time if record.time is not None else (arrival if live else None))
                self.step = step
                self.steps += 1
                self.fatal_code = None  # it went on
                if self.first_step is None or step < self.first_step:
                    self.first_step = step
                if self.highest is None or step > self.highest:
                    self.highest = step
                if self.began is None:
                    self.began = record.time
        self._note_own(values, extra, fresh)
        when = record.time if record.time is not None else arrival if live else None
        if fresh and when is not None and self.step is not None:
            self.times.add(STEP, when, self.step)
            lasted = self.step_time if self.step_time is not None else self._pace.newest() if len(self._pace) else None
            if lasted is not None:
                self.times.add(STEP_TIME, when, lasted)
        return fresh

    def take_columns(self, columns: Columns, arrival: float) -> list[float] | None:
        """`take` each row of history; gives the seconds a step of each, where the log does not tell them itself.

        Raises:
            Unfit: They have to be taken one by one; nothing has been changed.
        """
        values, steps, times, first = columns.values, columns.steps, columns.times, columns.first
        last_pace, newest = self._last_pace, self._pace.newest() if len(self._pace) else None
        if self.step is None or steps[0] <= self.step:
            raise Unfit
        paces: list[float] = []
        if times is not None:
            if last_pace is None or times[0] < last_pace[0] or steps[0] <= last_pace[1]:
                raise Unfit
            pushed, paces, last_pace = _paces(steps, times, last_pace, newest)
        elif newest is not None:
            raise Unfit
        whole, wait = values.get("step_time_s"), values.get("comm_time_s")
        own = self._own_columns(columns, whole, wait)
        if own is None and not paces and self.step_time is None and self.own_s is not None:
            raise Unfit
        told = whole is not None or self.step_time is not None
        # ---- from here on nothing stops it
        if times is not None:
            self.said = times[-1] if self.said is None else max(self.said, times[-1])
            for pace in pushed[-PACE:]:
                self._pace.push(pace)
            self._last_pace = last_pace
            self.began = times[0] if self.began is None else self.began
        if "gpu_memory_mb" in values:
            self.memory_mb, self.telemetry = values["gpu_memory_mb"][-1], True
        if "gpu_temperature_c" in values:
            self.temperature_c, self.telemetry = values["gpu_temperature_c"][-1], True
        self.telemetry = self.telemetry or "gpu_utilization" in values
        total = first.values.get("total_steps")
        if isinstance(total, (int, float)) and total > 0:
            self.total_steps = int(total)
        if "loss" in values:
            self.loss = values["loss"][-1]
        self.step = steps[-1]
        self.steps += len(steps)
        self.fatal_code = None
        self.first_step = steps[0] if self.first_step is None else min(self.first_step, steps[0])
        self.highest = steps[-1] if self.highest is None else max(self.highest, steps[-1])
        if wait is not None:
            self.wait_s = wait[-1]
        lasted: list[float] | None = None
        if whole is not None:
            self.step_time, lasted = whole[-1], whole
        elif self.step_time is not None and times is not None:
            lasted = [self.step_time] * len(times)
        elif times is not None:
            lasted = paces
        if own is None and not told:
            own = paces or None
        elif own is not None:
            self.own_from_log = True
        if own is not None:
            self._own.push_many(steps, own, self.reach)
            self.own_s = own[-1]
        if times is not None and lasted is not None:
            self.times.add_columns(times, {STEP: steps, STEP_TIME: lasted})
        if arrival > self.heard:
            self.heard = arrival
        return own if own is not None and self.step_time is None else None

    def _own_columns(self, columns: Columns, whole: list[float] | None, wait: list[float] | None) -> list[float] | None:
        compute = columns.extra.get("compute_time_s")
        if compute is not None:
            own = compute()
        elif whole is None:
            return None
        elif wait is not None:
            own = [a - b if 0 <= b < a else a for a, b in zip(whole, wait, strict=True)]
        else:
            own = whole
        if min(own) <= 0.0 or (whole is not None and min(whole) <= 0.0):
            raise Unfit
        return own

    def _note_pace(self, step: int, time: float | None) -> None:
        if time is None:
            return
        last = self._last_pace
        if last is not None and time == last[0] and step > last[1]:
            return  # a clock of whole seconds, or one lump: the steps count towards the next moment
        self._last_pace = (time, step)
        if last is None or step <= last[1] or time < last[0]:
            if last is not None and step <= last[1]:
                self._pace.clear()
            return
        self._pace.push((time - last[0]) / (step - last[1]))

    def _note_own(self, values: dict[str, float | int | str], extra: dict[str, float | int | str], fresh: bool) -> None:
        whole = finite(values["step_time_s"]) if "step_time_s" in values else None
        wait = finite(values["comm_time_s"]) if "comm_time_s" in values else None
        if wait is not None:
            self.wait_s = wait
        if whole is not None and whole > 0:
            self.step_time = whole
        own = finite(extra["compute_time_s"]) if "compute_time_s" in extra else None
        if own is None and whole is not None:
            own = whole - wait if wait is not None and 0 <= wait < whole else whole
        if own is None:
            if fresh and self.step_time is None and len(self._pace):
                self._push_own(self._pace.newest(), True)
            return
        if own > 0:
            self.own_from_log = True
            self._push_own(own, fresh)

    def _push_own(self, own: float, fresh: bool) -> None:
        # Several ranks of a node report the same step: the slowest one counts.
        if fresh or self.own_s is None:
            self._own.push(self.step if self.step is not None else -1, own, self.reach)
            self.own_s = own
        elif own > self.own_s:
            self._own.raise_last(self.own_s, own)
            self.own_s = own


def _paces(
    steps: Sequence[int], times: Sequence[float], last: tuple[float, int], newest: float | None
) -> tuple[list[float], list[float], tuple[float, int]]:
    """Seconds a step: of each pair of moments, as of each row, and the last moment with its step."""
    at, before = last
    if times[0] > at and all(map(lt, times, times[1:])):
        gaps = map(truediv, map(sub, times, (at, *times)), map(sub, steps, (before, *steps)))
        made = array("f", gaps).tolist()
        return made, made, (times[-1], steps[-1])
    pushed: list[float] = []
    rows: list[float] = []
    for step, time in zip(steps, times, strict=True):
        if time > at:
            newest = array("f", ((time - at) / (step - before),))[0]
            pushed.append(newest)
            at, before = time, step
        if newest is None:
            raise Unfit
        rows.append(newest)
    return pushed, rows, (at, before)


def _or(value: object, before: float | None) -> float | None:
    found = finite(value)
    return before if found is None else found


class NodeBook:
    """All nodes by name."""

    def __init__(self) -> None:
        self._nodes: dict[str, NodeState] = {}
        self._room = Room(*_ROOMS)
        self.revision = 0

    def __iter__(self) -> Iterator[NodeState]:
        return iter(self._nodes.values())

    def __len__(self) -> int:
        return len(self._nodes)

    def get(self, name: str) -> NodeState | None:
        """The node of that name, if it was heard of."""
        return self._nodes.get(name)

    def need(self, name: str, declared: bool, source: int) -> NodeState:
        """The node of that name, made when it is new; beyond the limit the last one takes all further names."""
        node = self._nodes.get(name)
        if node is None:
            if len(self._nodes) >= MAX_NODES:
                return next(reversed(self._nodes.values()))
            node = self._nodes[name] = NodeState(name, declared, self._room)
            self._room.fit(len(self._nodes))
            self.revision += 1
        elif declared and not node.declared:
            node.declared = True
        if source not in node.sources and len(node.sources) < 64:
            node.sources = (*node.sources, source)
        return node

    @property
    def shape(self) -> tuple[int, int]:
        """Changes when a node is new or tells of its first step."""
        return self.revision, sum(node.step is not None for node in self._nodes.values())

    def stepping(self) -> list[NodeState]:
        """Those with a step."""
        return [node for node in self._nodes.values() if node.step is not None]
