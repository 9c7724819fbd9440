"""The GPUs that the logs tell of: newest figures a node and index."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice

from trainmon.columns import Columns
from trainmon.model import Record
from trainmon.series.timeseries import Room, TimeSeries
from trainmon.session.cards import PLACE, ROOMS, ROW, ROWS, Card
from trainmon.session.rings import PAST, Past, gaps_after
from trainmon.session.wording import coarse, finite, natural
from trainmon.snapshot import GpuPanel, GpuRow, Health, Points

MAX_GPUS = 16_384
MAX_ROWS = 256
_FORGOTTEN = 400
"""What came so many readings ago does not show in a smoothed interval."""
MAX_COMPARED = 256
"""GPUs that one of them is held against."""
_KEYS = frozenset({"gpu_memory_mb", "gpu_utilization", "gpu_temperature_c", "gpu_power_w", "gpu_memory_total_mb"})
_SLOTS = (
    ("gpu_memory_mb", "memory"),
    ("gpu_utilization", "util"),
    ("gpu_memory_total_mb", "total"),
    ("gpu_temperature_c", "temperature"),
    ("gpu_power_w", "power"),
)
_WARN, _CRITICAL = 0.90, 0.95


@dataclass(slots=True)
class _Gpu:
    node: str
    index: int | None
    util: float | None = None
    memory: float | None = None
    total: float | None = None
    temperature: float | None = None
    power: float | None = None
    clock: float | None = None
    past: Past = field(default_factory=lambda: Past(whole=True))
    """Its memory in MiB by step, of the whole run."""
    step: int | None = None
    times: TimeSeries | None = None
    """All figures over time, in the rows of a GPU of telemetry."""
    heard: float = 0.0

    def past_of(self, room: Room) -> TimeSeries:
        """Its figures over time, made when the first one comes."""
        if self.times is None:
            self.times = TimeSeries(len(ROWS), room)
        return self.times


class GpuBook:
    """Collects GPU figures out of any record that carries some."""

    def __init__(self) -> None:
        self._gpus: dict[tuple[str, int | None], _Gpu] = {}
        self._by_node: dict[str, list[_Gpu]] = {}
        self._ranks: dict[str, int | None] = {}
        self._index_of: dict[tuple[str, int], int] = {}
        self._room = Room(*ROOMS)
        self.newest: float | None = None
        self.interval: float | None = None
        self.revision = 0

    def __len__(self) -> int:
        return len(self._gpus)

    def take(self, record: Record, node: str, heard: float, step: int | None = None) -> bool:
        """Feed one record; False when it says nothing of a GPU.

        Args:
            step: The node's step at that moment.
            heard: When it was written, as far as is known: Unix seconds.
        """
        values = record.values
        if _KEYS.isdisjoint(values):
            return False
        index = record.gpu if record.gpu is not None else record.local_rank
        if index is None and record.rank is not None:
            index = self._by_rank(node, record.rank)
        elif index is not None and record.rank is not None and len(self._index_of) < MAX_GPUS:
            self._index_of[(node, record.rank)] = index
        key = (node, index)
        gpu = self._gpus.get(key)
        if gpu is None:
            if len(self._gpus) >= MAX_GPUS:
                return True
            gpu = self._gpus[key] = _Gpu(node, index)
            self._room.fit(len(self._gpus))
            self._by_node.setdefault(node, []).append(gpu)
        for name, slot in _SLOTS:
            if name in values:
                number = finite(values[name])
                if number is not None:
                    setattr(gpu, slot, number)
                    row = ROW.get(name)
                    if row is not None:
                        gpu.past_of(self._room).add(row, heard, number)
        if step is not None and gpu.memory is not None and "gpu_memory_mb" in values and gpu.step != step:
            gpu.step = step
            gpu.past.push(step, gpu.memory)
        if record.extra:
            clock = finite(record.extra.get("gpu_clock_mhz", record.extra.get("sm_clock_mhz")))
            if clock is not None:
                gpu.clock = clock
        if self.newest is not None and heard > self.newest:
            gap = heard - self.newest
            self.interval = gap if self.interval is None else self.interval * 0.9 + gap * 0.1
        self.newest = heard if self.newest is None else max(heard, self.newest)
        gpu.heard = max(gpu.heard, heard)
        self.revision += 1
        return True

    def fits(self, columns: Columns, node: str) -> bool:
        """Whether `take_columns` can take these."""
        if _KEYS.isdisjoint(columns.values):
            return True
        gpu = self._gpus.get((node, self._index(columns.first, node)))
        return gpu is not None and gpu.step != columns.steps[0]

    def take_columns(self, columns: Columns, node: str, whens: list[float]) -> bool:
        """`take` each row; `whens`: when they were written."""
        if _KEYS.isdisjoint(columns.values):
            return False
        first = columns.first
        index = self._index(first, node)
        if index is not None and first.rank is not None and len(self._index_of) < MAX_GPUS:
            self._index_of[(node, first.rank)] = index
        gpu = self._gpus[(node, index)]
        told: dict[int, list[float]] = {}
        for name, slot in _SLOTS:
            if name in columns.values:
                setattr(gpu, slot, columns.values[name][-1])
                row = ROW.get(name)
                if row is not None:
                    told[row] = columns.values[name]
        if told:
            gpu.past_of(self._room).add_columns(whens, told)
        if "gpu_memory_mb" in columns.values:
            gpu.step = columns.steps[-1]
            gpu.past.push_many(columns.steps, columns.values["gpu_memory_mb"])
        clock = columns.extra.get("gpu_clock_mhz", columns.extra.get("sm_clock_mhz"))
        if clock is not None:
            gpu.clock = clock()[-1]
        for gap in gaps_after(self.newest, whens)[-_FORGOTTEN:]:
            self.interval = gap if self.interval is None else self.interval * 0.9 + gap * 0.1
        self.newest = whens[-1] if self.newest is None else max(self.newest, whens[-1])
        gpu.heard = max(gpu.heard, whens[-1])
        self.revision += len(columns)
        return True

    def _index(self, record: Record, node: str) -> int | None:
        index = record.gpu if record.gpu is not None else record.local_rank
        return self._by_rank(node, record.rank) if index is None and record.rank is not None else index

    def card_of(self, key: str) -> Card | None:
        """A GPU that logs tell of, in the form of one that telemetry tells of; by the key of its row."""
        node = key.rpartition("|gpu")[0]
        gpu = next((one for one in self.of(node) if _key(one) == key), None)
        if gpu is None:
            return None
        card = Card(key, gpu.node, gpu.index, "", gpu.past_of(self._room), origin="log")
        card.heard, card.interval = gpu.heard, self.interval
        told = {
            "gpu_memory_mb": gpu.memory,
            "gpu_utilization": gpu.util,
            "gpu_memory_total_mb": gpu.total,
            "gpu_temperature_c": gpu.temperature,
            "gpu_power_w": gpu.power,
            "sm_clock_mhz": gpu.clock,
        }
        for metric, value in told.items():
            if value is not None:
                card.values[PLACE[metric]] = value
        return card

    def _by_rank(self, node: str, rank: int) -> int | None:
        """The index that a rank gives: none while its node has but one (then the figure is the node's)."""
        first = self._ranks.setdefault(node, rank)
        if first is None:
            return rank
        if first == rank:
            return None
        self._ranks[node] = None
        alone = self._gpus.pop((node, None), None)
        if alone is not None:
            alone.index = first
            self._gpus[(node, first)] = alone
        return rank

    def of(self, node: str) -> list[_Gpu]:
        """The GPUs of a node."""
        return self._by_node.get(node, [])

    def has(self, node: str) -> bool:
        """Whether anything is known of a node's GPUs."""
        return node in self._by_node

    @property
    def nodes(self) -> int:
        """How many nodes have some."""
        return len(self._by_node)

    def names(self) -> list[str]:
        """The nodes that have some."""
        return list(self._by_node)

    def rows(self, nodes: Iterable[str], most: int) -> list[GpuRow]:
        """Rows of all GPUs of some nodes, at most `most`."""
        return [_row(gpu, {}, alone=False) for gpu in islice((g for n in nodes for g in self._by_node[n]), most)]

    def worst(self, node: str) -> tuple[float | None, float | None]:
        """Memory in MiB of the node's fullest GPU, and the temperature of its hottest in °C."""
        cards = self.of(node)
        return _top(card.memory for card in cards), _top(card.temperature for card in cards)

    def index_of(self, node: str, rank: int) -> int | None:
        """The GPU of a rank: as its figures told, else by its place among the node's GPUs; None when unknown."""
        told = self._index_of.get((node, rank))
        if told is not None:
            return told
        known = {gpu.index for gpu in self.of(node) if gpu.index is not None}
        if rank in known:
            return rank
        return rank % len(known) if known and rank % len(known) in known else None

    def memory_of(self, node: str, index: int | None) -> tuple[Points, int]:
        """Memory of one GPU in GiB by step, the band of the others around it, and how many others there are."""
        mine = self._gpus.get((node, index))
        if mine is None:
            return Points(), 0
        values, steps = mine.past.cells(PAST)
        if not steps:
            return Points(), 0
        low, high = [math.inf] * len(steps), [-math.inf] * len(steps)
        others = [gpu for gpu in islice(self._gpus.values(), MAX_COMPARED) if gpu is not mine]
        for gpu in others:
            for value, step in zip(*gpu.past.cells(PAST), strict=True):
                at = bisect_right(steps, step) - 1
                if at >= 0:
                    low[at], high[at] = min(low[at], value), max(high[at], value)
        rows = [
            (x, y, y, y) if lo > hi else (x, lo, y, hi) for x, y, lo, hi in zip(steps, values, low, high, strict=True)
        ]
        x, lows, middle, highs = zip(*rows, strict=True)
        lows, middle, highs = (tuple(value / 1024.0 for value in row) for row in (lows, middle, highs))
        return Points(x, lows, middle, highs), len(others)

    def panel(
        self, subject: str | None, order: list[str], now: float, bad: dict[tuple[str, int | None], Health]
    ) -> GpuPanel:
        """The GPU panel.

        Args:
            subject: The node whose GPUs to show; None lets it choose the first of `order` that has some.
            order: Nodes, worst first.
            bad: Health by (node, index) where an alert says so; index None: the node, where it has one GPU.
        """
        if not self._gpus:
            return GpuPanel(sentence="the logs name no GPU memory or utilisation")
        age = None
        if self.newest is not None:
            old = now - self.newest
            if old > max(10.0, 3 * (self.interval or 0.0)):
                age = coarse(old) or None
        if max(len(gpus) for gpus in self._by_node.values()) == 1 and len(self._by_node) > 1:
            known = [name for name in order if name in self._by_node]
            rest = sorted(self._by_node.keys() - set(known), key=natural)
            rows = tuple(_row(self._by_node[name][0], bad, alone=True) for name in [*known, *rest][:MAX_ROWS])
            total = len(self._by_node) if len(self._by_node) > MAX_ROWS else 0
            return GpuPanel(subject="one row a node", rows=rows, age_s=age, total=total)
        name = subject if subject in self._by_node else next((n for n in order if n in self._by_node), None)
        if name is None:
            name = min(self._by_node, key=natural)
        gpus = sorted(self._by_node[name], key=lambda gpu: -1 if gpu.index is None else gpu.index)
        return GpuPanel(subject=name, rows=tuple(_row(g, bad, alone=len(gpus) == 1) for g in gpus), age_s=age)


def _top(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _row(gpu: _Gpu, bad: dict[tuple[str, int | None], Health], *, alone: bool) -> GpuRow:
    health: Health = "ok"
    word = ""
    if gpu.memory is not None and gpu.total:
        share = gpu.memory / gpu.total
        if share >= _WARN:
            health = "critical" if share >= _CRITICAL else "warning"
            word = f"{share * 100:.0f} %"
    alarm = bad.get((gpu.node, gpu.index)) or (bad.get((gpu.node, None)) if alone else None)
    if alarm == "critical" or (alarm == "warning" and health == "ok"):
        health = alarm
    return GpuRow(
        gpu.node,
        gpu.index,
        gpu.util,
        gpu.memory,
        gpu.total,
        gpu.temperature,
        gpu.power,
        gpu.clock,
        health,
        word,
        key=_key(gpu),
        label="" if gpu.index is None else str(gpu.index),
    )


def _key(gpu: _Gpu) -> str:
    return f"{gpu.node}|gpu{'' if gpu.index is None else gpu.index}"
