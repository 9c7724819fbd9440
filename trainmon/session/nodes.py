"""The nodes of a run: newest step and values, own step times, when each was heard last."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from statistics import median

from trainmon.model import Record
from trainmon.series.timeseries import Room, TimeSeries
from trainmon.session.wording import finite

MAX_NODES = 8192
PACE = 24
PAST = 40
"""Buckets of a node's own step times."""
PAST_STEPS = 4
"""Steps in a bucket at most, while no incident asks for a longer past."""


STEP_TIME, STEP = 0, 1
"""Rows of a node's past over time."""
_ROOMS = ((64, 240), (512, 96), (MAX_NODES, 24))
"""(nodes at most, cells of each one's past)."""


class Ring:
    """The last few numbers, in a fixed piece of memory."""

    __slots__ = ("_at", "_full", "_size", "_values")

    def __init__(self, size: int, code: str = "f") -> None:
        self._values: array[float] = array(code, [0.0] * size)
        self._size = size
        self._at = 0
        self._full = False

    def __len__(self) -> int:
        return self._size if self._full else self._at

    def push(self, value: float) -> None:
        """Append; the oldest one goes when it is full."""
        self._values[self._at] = value
        self._at += 1
        if self._at == self._size:
            self._at = 0
            self._full = True

    def replace_last(self, value: float) -> None:
        """Set the newest one."""
        self._values[self._at - 1] = value

    def values(self) -> list[float]:
        """Oldest first."""
        if not self._full:
            return self._values[: self._at].tolist()
        return self._values[self._at :].tolist() + self._values[: self._at].tolist()

    def newest(self) -> float:
        """The last one; 0 while there is none."""
        return self._values[self._at - 1]

    def clear(self) -> None:
        """Forget all of them."""
        self._at = 0
        self._full = False


class Past:
    """The mean of some steps a bucket: of a young run all, of an older one the last steps.

    Buckets stand still: a new value changes the last one only.
    """

    __slots__ = ("_count", "_starts", "_values", "_whole", "each")

    def __init__(self, *, whole: bool = False) -> None:
        """`whole`: it never lets go of the beginning."""
        self._whole = whole
        self._values: array[float] = array("f")
        self._starts: array[float] = array("d")
        self._count = 0
        self.each = 1
        """Values in a bucket."""

    def push(self, step: float, value: float, reach: float | None = None) -> None:
        """Take the value of a new step.

        Args:
            reach: What lies before this step must stay in sight.
        """
        values, starts = self._values, self._starts
        if values and self._count < self.each:
            self._count += 1
            values[-1] += (value - values[-1]) / self._count
            return
        if len(values) >= PAST:
            early = self._whole or self.each < PAST_STEPS or (reach is not None and reach >= starts[0])
            if early:
                for i in range(PAST // 2):
                    values[i] = (values[2 * i] + values[2 * i + 1]) / 2.0
                    starts[i] = starts[2 * i]
                del values[PAST // 2 :], starts[PAST // 2 :]
                self.each *= 2
            else:
                del values[: PAST // 10], starts[: PAST // 10]
        values.append(value)
        starts.append(step)
        self._count = 1

    def raise_last(self, old: float, value: float) -> None:
        """The newest value was `old` and is more."""
        self._values[-1] += (value - old) / self._count

    def cells(self, width: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """At most `width` means and the first step of each, oldest first."""
        values, starts = self._values, self._starts
        size = 1
        while -(-len(values) // size) > width:
            size *= 2
        parts = [values[i : i + size] for i in range(0, len(values), size)]
        means = tuple(sum(part) / len(part) for part in parts)
        return means, tuple(starts[::size])


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
