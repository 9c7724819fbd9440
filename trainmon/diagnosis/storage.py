"""Disks and file systems: saturated, nearly full, filling up, or not answering.

%util is the time in which some request was outstanding: on its own 100 % says nothing about NVMe or an array. A disk is
saturated when it is busy *and* requests queue up (4 or more) *and* wait (20 ms or more); that is news when it is not
this machine's usual state, see `settle.py`.
"""

from __future__ import annotations

from collections.abc import Iterable

from trainmon import units
from trainmon.diagnosis.fill import Fill
from trainmon.diagnosis.level import Level
from trainmon.diagnosis.machine import Host
from trainmon.diagnosis.phase import phase
from trainmon.diagnosis.pulse import Pulse
from trainmon.diagnosis.settle import Settle
from trainmon.diagnosis.thresholds import Thresholds
from trainmon.diagnosis.watch import Watch
from trainmon.diagnosis.words import gib
from trainmon.model import Incident
from trainmon.samples import DiskSample, VolumeSample

READINGS, APART_S = 3, 2.0
QUEUE, WAIT_MS = 4.0, 20.0
UTIL_OFF = 10.0
VOLUME_HELD_S = 10.0
VOLUME_OFF = 0.02
FILL_BIN_S, FILL_BINS, FILL_GROWN = 30.0, 14, 0.001
PLENTY = 0.5
"""A file system emptier than this is not said to fill up within the hour: it would have to be a burst."""
ROOM_MB = 1024.0 * 1024.0
"""With more room than this (a checkpoint of 80 G parameters with its optimiser) 95 % is no alarm by itself."""
HANG_S = 5.0
MOST = 64
"""Disks or volumes of a machine that are looked at."""
ADVICE_DISK = (
    "iostat -x 1 and iotop on {node}: who reads or writes?",
    "the data set: bigger shards read in order, a local copy, more memory for the page cache",
    "checkpoints: write them asynchronously, or to another disk than the data",
)
ADVICE_FULL = (
    "df -h and du -xh --max-depth=2 on {node}: old checkpoints and core dumps first",
    "keep fewer checkpoints (save_total_limit), or write them elsewhere",
)
ADVICE_HANG = (
    "ls on it from another shell of {node}: does it hang, too? Then the server or the network is the matter",
    "dmesg -T | tail on {node} (nfs: server not responding?); mount and nfsstat show the server",
    "the training hangs at its next read or checkpoint there",
)


class Storage(Watch):
    """The detector; one incident a disk or volume."""

    kinds = frozenset(("host",))

    def __init__(self, pulse: Pulse, thresholds: Thresholds) -> None:
        super().__init__(pulse, thresholds)
        self._levels: dict[tuple[str, str], Level] = {}
        self._fills: dict[tuple[str, str], Fill] = {}
        self._hangs: dict[tuple[str, str], float] = {}
        self._there: dict[str, frozenset[str]] = {}
        """By machine: names of its disks and volumes, as told last."""
        self._settle = Settle(pulse)

    def look_host(self, host: Host, at: float) -> Iterable[Incident]:
        out = self._gone(host)
        if host.disks and not host.elsewhere and self.thresholds.disk_util_percent is not None:
            for disk in host.disks[:MOST]:
                out += self._disk(host, disk, at)
        if host.volumes:
            for volume in host.volumes[:MOST]:
                out += self._volume(host, volume)
        return out

    def _gone(self, host: Host) -> list[Incident]:
        """What was unmounted or unplugged is no longer full, and nothing is kept of it."""
        before = self._there.get(host.node, frozenset())
        disks = {f"disk {disk.name}" for disk in host.disks[:MOST]} if host.disks is not None else None
        volumes = {volume.path for volume in host.volumes[:MOST]} if host.volumes is not None else None
        kept = {name for name in before if (disks if name.startswith("disk ") else volumes) is None}
        now = self._there[host.node] = frozenset(kept | (disks or set()) | (volumes or set()))
        out: list[Incident] = []
        for name in before - now:
            for book in (self._levels, self._fills, self._hangs):
                book.pop((host.node, name), None)
            disk = name.startswith("disk ")
            key = f"disk_saturated:{host.node}:{name[5:]}" if disk else f"storage_fault:{host.node}:{name}"
            for each in (key, f"{key}:hang"):
                out += self.end(each, host.time, "it is not there any more")
                self._settle.forget(f"{host.node}:{name}")
        return out

    # ------------------------------------------------------------ disks

    def _disk(self, host: Host, disk: DiskSample, at: float) -> list[Incident]:
        mark, util = self.thresholds.disk_util_percent, disk.util_percent
        if mark is None or util is None:
            return []
        waits = [w for w in (disk.read_await_ms, disk.write_await_ms) if w is not None]
        queued = (disk.queue or 0.0) >= QUEUE and max(waits, default=0.0) >= WAIT_MS
        key, place = f"disk_saturated:{host.node}:{disk.name}", (host.node, f"disk {disk.name}")
        level = self._levels.get(place)
        if level is None:
            if util < mark or not queued:
                return []
            level = self._levels[place] = Level(mark, mark - UTIL_OFF, readings=READINGS, apart=APART_S, clear=10.0)
        value = util if queued else min(util, mark - UTIL_OFF - 1.0)  # busy without a queue is no saturation
        paused = phase(self.pulse, at) in ("paused", "over")
        changed = level.take(value, host.time, allowed=not paused and not self._settle.usual(key, util))
        if level.open and self._settle.settles(key, host, level, util, at):
            return self.end(key, host.time, "as usual on this machine: steps keep their pace")
        if not changed:
            return []
        told = f"{util:.0f} % busy"
        if not level.open:
            return self.end(key, host.time, told)
        wait = max(waits, default=0.0)
        rates = [f"reads {disk.read_mb_s:.0f} MB/s"] if disk.read_mb_s and disk.read_mb_s >= 1.0 else []
        rates += [f"writes {disk.write_mb_s:.0f} MB/s"] if disk.write_mb_s and disk.write_mb_s >= 1.0 else []
        more = f", {', '.join(rates)}" if rates else ""
        return self.begin(
            host,
            key,
            "disk_saturated",
            "warning",
            "DISK SATURATED",
            f"{disk.name} {told}, {disk.queue or 0.0:.0f} requests wait {wait:.0f} ms{more}",
            outlook=self._settle.cost(host, at) or "readers of data and writers of checkpoints wait for it",
            advice=ADVICE_DISK,
            since=level.since,
            evidence=(
                ("disk", disk.name),
                ("util_percent", util),
                ("bar_percent", mark),
                ("queue", disk.queue),
                ("read_await_ms", disk.read_await_ms),
                ("write_await_ms", disk.write_await_ms),
                ("read_mb_s", disk.read_mb_s),
                ("write_mb_s", disk.write_mb_s),
            ),
        )

    # ------------------------------------------------------------ file systems

    def _volume(self, host: Host, volume: VolumeSample) -> list[Incident]:
        out = self._hang(host, volume)
        used, total = volume.used_mb, volume.total_mb
        if used is None or not total or total <= 0.0 or volume.path == "/dev/shm":
            return out
        key, place = f"storage_fault:{host.node}:{volume.path}", (host.node, volume.path)
        limits, share = self.thresholds, used / total
        high = False
        if (mark := limits.volume_fraction) is not None:
            level = self._levels.get(place)
            if level is None:
                level = self._levels[place] = Level(
                    mark, mark - VOLUME_OFF, hold=VOLUME_HELD_S, clear=10.0, learns=False
                )
            level.take(share, host.time)
            high = level.open and total - used < ROOM_MB
        fill = self._fills.get(place)
        if fill is None:
            fill = self._fills[place] = Fill(FILL_BIN_S, FILL_BINS, FILL_GROWN)
        fill.take(used, total, host.time)
        within, full_s = limits.volume_full_within_s, fill.last[1] if fill.last is not None else None
        fills = within is not None and full_s is not None and share >= PLENTY
        fills = fills and (full_s or 0.0) <= (within or 0.0) * (2.0 if key in self.open else 1.0)
        left = gib(total - used) if total - used >= 100.0 else f"{total - used:.0f} MiB"
        if not (high or fills):
            return out + self.end(key, host.time, f"{left} free")
        why = f" ({volume.why})" if volume.why else ""
        text = f"{volume.path}{why} is {units.percent(100.0 * share)} full, {left} left"
        outlook = "the next checkpoint may not fit"
        if full_s is not None and within is not None and full_s <= 2.0 * within:
            outlook = f"full in ≈ {units.forecast(full_s)}"
        return out + self.begin(
            host,
            key,
            "storage_fault",
            "critical" if share >= 0.995 else "warning",
            "DISK FULL" if share >= 0.995 else "DISK FILLS",
            text,
            outlook=outlook,
            advice=ADVICE_FULL,
            evidence=(
                ("volume", volume.path),
                ("used_percent", 100.0 * share),
                ("free_mb", total - used),
                ("slope_mb_per_min", fill.last[0] * 60.0 if fill.last is not None else None),
                ("full_in_s", round(full_s) if full_s is not None else None),
                ("file_system", volume.kind or None),
            ),
        )

    def _hang(self, host: Host, volume: VolumeSample) -> list[Incident]:
        key, place = f"storage_fault:{host.node}:{volume.path}:hang", (host.node, volume.path)
        if not volume.hangs or self.thresholds.volume_hang is None:
            self._hangs.pop(place, None)
            return self.end(key, host.time, "it answers again")
        since = self._hangs.setdefault(place, host.time)
        if host.time - since < HANG_S:
            return []
        why = f" ({volume.why})" if volume.why else ""
        kind = f", {volume.kind}" if volume.kind else ""
        return self.begin(
            host,
            key,
            "storage_fault",
            "critical",
            "MOUNT HANGS",
            f"{volume.path}{why}{kind} does not answer",
            outlook="whoever reads or writes there waits",
            advice=ADVICE_HANG,
            since=since,
            evidence=(("volume", volume.path), ("file_system", volume.kind or None)),
        )

    def forgotten(self, key: str) -> None:
        for known in {*self._levels, *self._fills, *self._hangs}:
            if known[0] == key:
                self._levels.pop(known, None)
                self._fills.pop(known, None)
                self._hangs.pop(known, None)
        self._there.pop(key, None)
        self._settle.forget(key)
