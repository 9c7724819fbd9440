"""What telemetry tells of GPUs: newest figures with their ages, state, and the past of each, bounded.

Samples are partial and may come twice, late, or from two sides (NVML of this machine and an agent's file): figures are
merged one by one, the newer one stays.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from trainmon.samples import GPU_METRICS, DriverSample, GpuEvent, GpuProcess, GpuSample
from trainmon.series.timeseries import Room, TimeSeries
from trainmon.session.freshness import Back, patience, text, usual

MAX_CARDS = 16_384
MAX_PER_NODE = 256
WINDOW_S = 10.0
"""Seconds over which utilisation is averaged."""
ROWS = (
    "gpu_memory_mb", "gpu_utilization", "gpu_power_w", "gpu_temperature_c", "sm_clock_mhz", "link_gb_s",
    "sm_active_percent", "tensor_active_percent",
)  # fmt: skip
"""Quantities whose past is kept; `link_gb_s` is NVLink's traffic in and out, else PCIe's."""
ROW = {name: row for row, name in enumerate(ROWS)}
LINK = ROW["link_gb_s"]
REASONS = ("power cap", "thermal", "hardware")
"""Throttle reasons whose seconds are counted."""
_REASON_OF = {
    "power cap": 0, "thermal (software)": 1, "thermal (hardware)": 1, "hardware slowdown": 2, "power brake": 2,
}  # fmt: skip
PLACE = {name: place for place, name in enumerate(GPU_METRICS)}
"""Metric -> where it stands among a GPU's values."""
_UTIL = PLACE["gpu_utilization"]
_COUNTERS = (PLACE["throttle_power_s"], PLACE["throttle_thermal_s"])
ROOMS = ((64, 480), (512, 240), (2048, 96), (MAX_CARDS, 24))
"""(GPUs at most, cells of each one's past): 8,000 GPUs with seven quantities stay below 16 MB."""
_MAX_WINDOW = 64
_MAX_EVENTS, _MAX_PROCESSES, _MAX_FACTS = 8, 64, 16
_SKEW_S = 86_400.0
_GONE_S = 60.0
_NEVER = -math.inf


@dataclass(slots=True)
class Card:
    """One GPU or MIG instance.

    Attributes:
        values, times: By place of the metric in `GPU_METRICS`; NaN and -inf: never read.
        time: The newest sample's own time. heard: when it came, by this machine's clock (for what stood there at
            opening its own time). interval: usual seconds between two.
        held_s: Seconds for which a reason of `REASONS` was seen in force since we look.
        first_counters: The driver's own counters of the first two, as they were first seen.
        window: Time and value of the utilisations of the last `WINDOW_S` seconds in turn.
        rank: Of the training process on it. run_node: the run's node that this GPU is, where ranks are nodes.
        mine: Held by the training that is watched.
    """

    key: str
    node: str
    index: int | None
    uuid: str
    past: TimeSeries
    origin: str = "NVML"
    state: str = "ok"
    state_time: float = _NEVER
    since: float | None = None
    sentence: str = ""
    name: str = ""
    parent: str = ""
    profile: str = ""
    instance: str = ""
    values: array[float] = field(default_factory=lambda: array("d", [math.nan]) * len(PLACE))
    times: array[float] = field(default_factory=lambda: array("d", [_NEVER]) * len(PLACE))
    missing: dict[str, str] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)
    throttle: tuple[str, ...] = ()
    throttle_time: float = _NEVER
    held_s: tuple[float, ...] = (0.0, 0.0, 0.0)
    first_counters: tuple[float | None, float | None] = (None, None)
    processes: tuple[GpuProcess, ...] | None = None
    processes_time: float = _NEVER
    events: tuple[GpuEvent, ...] = ()
    time: float = _NEVER
    heard: float = _NEVER
    interval: float | None = None
    back: Back = field(default_factory=Back)
    window: array[float] = field(default_factory=lambda: array("d"))
    rank: int | None = None
    run_node: str = ""
    mine: bool = True

    def value(self, metric: str) -> float | None:
        """The newest value of a metric, None while there is none or it cannot be had."""
        found = self.values[PLACE[metric]]
        return found if found == found else None

    def age(self, now: float) -> float:
        """Seconds since it was heard of last."""
        return max(0.0, now - self.heard)

    def stale(self, now: float) -> bool:
        """Whether its figures have stopped."""
        return self.age(now) > patience(self.interval)

    def utilization(self) -> float | None:
        """Mean over the last `WINDOW_S` seconds of what was read, each reading for the time since the one before."""
        found = self.window
        if not found:
            return self.value("gpu_utilization")
        first = min(self.interval or 1.0, WINDOW_S)
        total = weight = 0.0
        before: float | None = None
        for i in range(0, len(found), 2):
            part = first if before is None else min(max(found[i] - before, 0.0), WINDOW_S)
            total += found[i + 1] * part
            weight += part
            before = found[i]
        return total / weight if weight > 0.0 else found[-1]

    @property
    def label(self) -> str:
        """ "3", of a MIG instance "3:5"."""
        name = "?" if self.index is None else str(self.index)
        return f"{name}:{self.instance.partition('/')[0]}" if self.instance else name

    def link_gb_s(self) -> float | None:
        """Traffic in and out over NVLink, else PCIe, in GB/s."""
        links = [one for one in (self.value("nvlink_rx_gb_s"), self.value("nvlink_tx_gb_s")) if one is not None]
        if links:
            return sum(links)
        lanes = [one for one in (self.value("pcie_rx_mb_s"), self.value("pcie_tx_mb_s")) if one is not None]
        return sum(lanes) / 1000.0 if lanes else None

    def throttled_s(self) -> tuple[float, ...]:
        """Seconds so far by `REASONS`: as the driver counted since we look, else as it was seen."""
        out = list(self.held_s)
        for i, place in enumerate(_COUNTERS):
            first, last = self.first_counters[i], self.values[place]
            if first is not None and last == last and last >= first:
                out[i] = last - first
        return tuple(out)

    # ------------------------------------------------------------ taking in

    def take(self, sample: GpuSample, at: float, live: bool) -> None:
        """Merge what a sample of this GPU tells; `at`: when it came, by this machine's clock."""
        time = sample.time
        if time < self.time and live and sample.origin == self.origin:
            if self.back.behind(time, at):
                self._set_back(time)
        elif time > self.time:
            self.back.count = 0
        newest = time >= self.time
        if live and time > self.time > _NEVER and at > self.heard:
            self.interval = usual(self.interval, at - self.heard)
        elif not live and time > self.time > _NEVER:
            self.interval = usual(self.interval, time - self.time)
        if newest:
            self.time = time
            self.origin = sample.origin
        if newest or live:
            self.heard = max(self.heard, at)
        if time >= self.state_time:
            self.state_time = time
            self.state, self.since = sample.state, sample.since
            self.sentence = text(sample.sentence, 400)
            self.name = text(sample.name, 80) or self.name
            if sample.index is not None and 0 <= sample.index < 100_000:
                self.index = sample.index
            self.parent = text(sample.parent, 80) or self.parent
            self.profile = text(sample.profile, 40) or self.profile
            self.instance = text(sample.instance, 20) or self.instance
        self._figures(sample)
        if sample.throttle is not None:
            self._throttled(sample.throttle, time)
        if sample.processes is not None and time >= self.processes_time:
            self.processes_time = time
            self.processes = tuple(_process(one) for one in sample.processes[:_MAX_PROCESSES])
        if sample.events:
            known = set(self.events)
            fresh = [one for one in sample.events[-_MAX_EVENTS:] if one not in known]
            self.events = tuple(sorted((*self.events, *fresh), key=lambda one: one.time))[-_MAX_EVENTS:]

    def _set_back(self, time: float) -> None:
        """The clock of its machine was set back: what comes now is the newest all the same."""
        self.time = self.state_time = self.throttle_time = self.processes_time = time
        for place, then in enumerate(self.times):
            if then > time:
                self.times[place] = time
        del self.window[:]

    def _figures(self, sample: GpuSample) -> None:
        time, values, times, past = sample.time, self.values, self.times, self.past
        link = False
        for name, value in sample.values.items():
            place = PLACE.get(name)
            if place is None or not -1e15 < value < 1e15:
                continue
            row = ROW.get(name)
            if row is not None:
                past.add(row, time, value)
            if time < times[place]:
                continue
            times[place], values[place] = time, value
            link = link or name.startswith(("nvlink_rx", "nvlink_tx", "pcie_rx", "pcie_tx"))
            if place == _UTIL:
                self._utilized(time, value)
            elif place in _COUNTERS:
                self._counted(place, value)
            if self.missing:
                self.missing.pop(name, None)
        if link:
            traffic = self.link_gb_s()
            if traffic is not None:
                past.add(LINK, time, traffic)
        if sample.missing:
            self._cannot(sample.missing, time)
        if sample.facts and time >= self.state_time:
            for name, word in list(sample.facts.items())[:_MAX_FACTS]:
                if name in self.facts or len(self.facts) < _MAX_FACTS:
                    self.facts[text(name, 40)] = text(word, 80)

    def _cannot(self, missing: Mapping[str, str], time: float) -> None:
        for name, why in missing.items():
            place = PLACE.get(name)
            if place is None or time < self.times[place]:
                continue
            if not why:
                self.missing.pop(name, None)
                continue
            if name not in self.missing or self.missing[name] != why:
                self.missing[name] = text(why, 120)
            self.values[place], self.times[place] = math.nan, time
            if place == _UTIL:
                del self.window[:]

    def _utilized(self, time: float, value: float) -> None:
        window = self.window
        if window and time <= window[-2]:
            if time == window[-2]:
                window[-1] = value
            return
        window.append(time)
        window.append(value)
        while len(window) > 2 * _MAX_WINDOW or window[0] <= time - WINDOW_S:
            del window[:2]

    def _counted(self, place: int, value: float) -> None:
        """The driver's counter of throttled seconds; one that went back was set to 0 by a reload."""
        first = list(self.first_counters)
        which = _COUNTERS.index(place)
        before = first[which]
        if before is None or value < before:
            first[which] = value
            self.first_counters = (first[0], first[1])

    def _throttled(self, reasons: tuple[str, ...], time: float) -> None:
        if time <= self.throttle_time:
            return
        gap = time - self.throttle_time
        if self.throttle and gap <= patience(self.interval):
            held = list(self.held_s)
            for which in {_REASON_OF[word] for word in self.throttle if word in _REASON_OF}:
                held[which] += gap
            self.held_s = tuple(held)
        self.throttle_time = time
        self.throttle = tuple(text(word, 40) for word in reasons[:12])


class CardBook:
    """All GPUs that telemetry tells of, by (node, UUID); a log's text without UUIDs by (node, index)."""

    def __init__(self) -> None:
        self.cards: dict[str, Card] = {}
        self.by_node: dict[str, dict[str, Card]] = {}
        self.drivers: dict[str, DriverSample] = {}
        self.room = Room(*ROOMS)
        self.revision = 0
        self.seats = 0
        """Counts changes of who runs where: processes, new GPUs."""

    def __len__(self) -> int:
        return len(self.cards)

    def of(self, node: str) -> list[Card]:
        """The GPUs of a machine by index, MIG instances behind their GPU."""
        return sorted(self.by_node.get(node, {}).values(), key=place_of)

    def driver(self, sample: DriverSample) -> None:
        """Take how a machine's driver stands."""
        node = text(sample.node, 80)
        before = self.drivers.get(node)
        if before is None and len(self.drivers) >= MAX_CARDS:
            return
        if before is not None and sample.time < before.time and sample.origin != before.origin:
            return
        self.drivers[node] = replace(
            sample, node=node, sentence=text(sample.sentence, 400), driver=text(sample.driver, 40)
        )
        self.revision += 1

    def take(self, sample: GpuSample, at: float, *, live: bool) -> Card | None:
        """Take a sample; gives its GPU, None when there is no room for it.

        Args:
            at: When it came, Unix seconds by this machine's clock; for what stood there at opening its own time.
            live: It came while we looked.
        """
        if not math.isfinite(sample.time) or not math.isfinite(at):
            return None
        if live and abs(sample.time - at) > _SKEW_S:
            sample = replace(sample, time=at)  # a clock that is off by days is no clock
        card = self._card(sample)
        if card is None:
            return None
        before = card.processes
        card.take(sample, at, live)
        if card.processes != before:
            self.seats += 1
        self.revision += 1
        return card

    def _card(self, sample: GpuSample) -> Card | None:
        node, uuid = text(sample.node, 80), text(sample.uuid, 80)
        known = self.by_node.get(node)
        key = f"{node}|{uuid}" if uuid else f"{node}|gpu{sample.index}{'/' if sample.instance else ''}{sample.instance}"
        card = self.cards.get(key)
        if card is not None:
            return card
        if known and not sample.instance and sample.index is not None:
            # Text in a log names the index only: that is the GPU of the same index, whoever came first.
            twin = next((c for c in known.values() if c.index == sample.index and not c.instance), None)
            if twin is not None and not uuid:
                return twin
            if twin is not None and not twin.uuid:
                self._drop(twin)
                twin.key, twin.uuid = key, uuid
                return self._enter(twin)
        if len(self.cards) >= MAX_CARDS or (known is not None and len(known) >= MAX_PER_NODE):
            return None
        return self._enter(Card(key, node, sample.index, uuid, TimeSeries(len(ROWS), self.room)))

    def _enter(self, card: Card) -> Card:
        self.cards[card.key] = card
        self.by_node.setdefault(card.node, {})[card.key] = card
        self.room.fit(len(self.cards))
        self.seats += 1
        return card

    def _drop(self, card: Card) -> None:
        self.cards.pop(card.key, None)
        self.by_node.get(card.node, {}).pop(card.key, None)
        self.seats += 1

    def tidy(self, now: float) -> None:
        """Let go of MIG instances and index-twins that are no longer there, while their machine goes on."""
        for cards in list(self.by_node.values()):
            newest = max((card.heard for card in cards.values()), default=_NEVER)
            old = [card for card in cards.values() if newest - card.heard > _GONE_S]
            if not old or now - newest > _GONE_S:
                continue
            taken = {(c.index, c.instance) for c in cards.values() if newest - c.heard <= _GONE_S}
            for card in old:
                if card.instance or (card.index, card.instance) in taken:
                    self._drop(card)


def place_of(card: Card) -> tuple[int, int, str]:
    """Sorts the GPUs of a machine."""
    first = card.instance.partition("/")[0]
    order = -1 if not first else int(first) if first.isdecimal() and len(first) < 9 else 10**9
    return (-1 if card.index is None else card.index), order, card.instance


def _process(one: GpuProcess) -> GpuProcess:
    words = text(one.user, 40), text(one.command, 200), text(one.kind, 4), text(one.instance, 20)
    if words == (one.user, one.command, one.kind, one.instance):
        return one
    return replace(one, user=words[0], command=words[1], kind=words[2], instance=words[3])
