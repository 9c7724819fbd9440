"""What telemetry tells of machines beside their GPUs: the newest figures with their ages, and a short past, bounded."""

from __future__ import annotations

import math
from array import array
from collections import deque
from dataclasses import dataclass, field, replace

from trainmon.samples import HOST_METRICS, DiskSample, HostSample, LinkSample, VolumeSample
from trainmon.session.freshness import Back, patience, text, usual

MAX_HOSTS = 8_192
RECENT = 24
RECENT_S = 5.0
"""A short past has so many cells of so many seconds."""
_ERRORS_S = 60.0
_MAX_PARTS = 64
"""Disks, volumes or links of one machine."""
_NEVER = -math.inf


class Recent:
    """The last two minutes of a figure: means over some seconds, of which the last one is still growing."""

    __slots__ = ("_at", "_count", "_values")

    def __init__(self) -> None:
        self._values = array("f")
        self._at = 0
        self._count = 0

    def push(self, time: float, value: float) -> None:
        """Take a value; one from before the newest cell is passed over."""
        if not -1e30 < value < 1e30:
            return
        cell = int(time // RECENT_S)
        values = self._values
        if values and cell == self._at:
            self._count += 1
            values[-1] += (value - values[-1]) / self._count
        elif not values or cell > self._at:
            values.append(value)
            self._at, self._count = cell, 1
            if len(values) > RECENT:
                del values[0]

    def clear(self) -> None:
        """Forget it: the clock was set back."""
        del self._values[:]

    def values(self) -> tuple[float, ...]:
        """Oldest first; the newest one rounded to whole numbers, as the others."""
        return tuple(float(round(value)) for value in self._values)


@dataclass(slots=True)
class LinkState:
    """A link's errors of the last minute, and when it went down.

    Attributes:
        errors: (time, new errors). downs: as counted by whoever looks. flapped: when it rose while we looked.
    """

    errors: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=64))
    downs: int | None = None
    flapped: float | None = None
    looks: int = 0

    def take(self, link: LinkSample, time: float) -> None:
        """The newest look at the link."""
        self.errors.append((time, max(0, min(link.errors, 10**12))))
        while self.errors and not 0.0 <= time - self.errors[0][0] < _ERRORS_S:
            self.errors.popleft()
        self.looks += 1
        if self.downs is not None and link.downs > self.downs:
            self.flapped = time
        self.downs = link.downs

    def per_minute(self) -> float:
        """Errors of the last minute."""
        return float(sum(count for _, count in self.errors))


@dataclass(slots=True)
class Host:
    """One machine.

    Attributes:
        values: Metric -> newest number; times: when each was read. missing: metric -> why it cannot be had.
        heard: When its newest sample came, by this machine's clock.
    """

    node: str
    origin: str = "host"
    scope: str = "host"
    values: dict[str, float] = field(default_factory=dict)
    times: dict[str, float] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    disks: tuple[DiskSample, ...] = ()
    volumes: tuple[VolumeSample, ...] = ()
    links: tuple[LinkSample, ...] = ()
    seen: dict[str, LinkState] = field(default_factory=dict)
    cpu: Recent = field(default_factory=Recent)
    memory: Recent = field(default_factory=Recent)
    busy: dict[str, Recent] = field(default_factory=dict)
    time: float = _NEVER
    heard: float = _NEVER
    interval: float | None = None
    back: Back = field(default_factory=Back)

    def age(self, now: float) -> float:
        """Seconds since it was heard of last."""
        return max(0.0, now - self.heard)

    def stale(self, now: float) -> bool:
        """Whether its figures have stopped."""
        return self.age(now) > patience(self.interval)

    def take(self, sample: HostSample, at: float, live: bool) -> None:
        """Merge what a sample tells; `at`: when it came, by this machine's clock."""
        time = sample.time
        if time < self.time:
            if not (live and sample.origin == self.origin and self.back.behind(time, at)):
                return  # a late line: nothing of a host's past is kept beyond two minutes
            for recent in (self.cpu, self.memory, *self.busy.values()):
                recent.clear()
            self.times.clear()
            self.seen.clear()
        elif time > self.time > _NEVER:
            self.back.count = 0
            self.interval = usual(self.interval, at - self.heard if live else time - self.time)
        again = time == self.time
        self.time, self.heard, self.origin = time, max(self.heard, at), sample.origin
        self.scope = text(sample.scope, 20)
        for name, value in sample.values.items():
            if name in HOST_METRICS and -1e15 < value < 1e15:
                self.values[name], self.times[name] = value, time
                self.missing.pop(name, None)
        for name, why in sample.missing.items():
            if name in HOST_METRICS:
                self.values.pop(name, None)
                if why:
                    self.missing[name] = text(why, 120)
                else:
                    self.missing.pop(name, None)
        if again:
            return
        self._parts(sample, time)
        self._pasts(sample, time)

    def _parts(self, sample: HostSample, time: float) -> None:
        if sample.disks is not None:
            self.disks = tuple(replace(disk, name=text(disk.name, 40)) for disk in sample.disks[:_MAX_PARTS])
        if sample.volumes is not None:
            self.volumes = tuple(
                replace(one, path=text(one.path, 200), why=text(one.why, 60), kind=text(one.kind, 20))
                for one in sample.volumes[:_MAX_PARTS]
            )
        if sample.links is not None:
            self.links = tuple(
                replace(one, name=text(one.name, 40), kind=text(one.kind, 20), state=text(one.state, 20))
                for one in sample.links[:_MAX_PARTS]
            )
            names = {link.name for link in self.links}
            for name in [name for name in self.seen if name not in names]:
                del self.seen[name]
            for link in self.links:
                self.seen.setdefault(link.name, LinkState()).take(link, time)

    def _pasts(self, sample: HostSample, time: float) -> None:
        if "cpu_percent" in sample.values:
            self.cpu.push(time, sample.values["cpu_percent"])
        total = self.values.get("memory_total_mb")
        if "memory_used_mb" in sample.values and total:
            self.memory.push(time, 100.0 * sample.values["memory_used_mb"] / total)
        if sample.disks is not None:
            for name in [name for name in self.busy if all(disk.name != name for disk in self.disks)]:
                del self.busy[name]
            for disk in self.disks[:16]:
                if disk.util_percent is not None:
                    self.busy.setdefault(disk.name, Recent()).push(time, disk.util_percent)


class HostBook:
    """All machines that telemetry tells of, by name."""

    def __init__(self) -> None:
        self.hosts: dict[str, Host] = {}

    def get(self, node: str) -> Host | None:
        """The machine of that name, if it was heard of."""
        return self.hosts.get(node)

    def take(self, sample: HostSample, at: float, *, live: bool) -> Host | None:
        """Take a sample; None when there is no room or it makes no sense.

        Args:
            at: When it came, Unix seconds by this machine's clock; for what stood there at opening its own time.
            live: It came while we looked.
        """
        if not math.isfinite(sample.time) or not math.isfinite(at) or not 0.0 <= sample.time < 1e12:
            return None
        node = text(sample.node, 80)
        host = self.hosts.get(node)
        if host is None:
            if len(self.hosts) >= MAX_HOSTS:
                return None
            host = self.hosts[node] = Host(node)
        host.take(sample, at, live)
        return host
