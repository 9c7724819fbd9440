"""Disks as `iostat -x` shows them, out of /proc/diskstats (Documentation/admin-guide/iostats.rst).

psutil leaves the weighted time out (its eleventh field is the queue) and counts partitions and the disks that they lie
on both (giampaolo/psutil#1259). Only whole disks are shown, and device mapper or RAID devices only if what they lie on
is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from trainmon.samples import DiskSample
from trainmon.telemetry.host.reading import Tree, Unreadable, usable, wholes

SECTOR = 512
"""Bytes; whatever the device's own sectors are."""
WRAP_MS = 2**32
"""Times are counted in 32 bits: they start anew after 49.7 days of work."""
MB = 1e6

_NEVER = re.compile(r"^(loop|ram|zram|fd|sr|nbd|mtdblock|nvme\d+c\d+n)\d+")
_PARTITION = re.compile(r"^(?:([shv]d[a-z]+|xvd[a-z]+)\d+|((?:nvme\d+n|mmcblk|md|pmem|dasd)\d+)p\d+)$")
_STACKED = re.compile(r"^(dm-|md)")


class DiskReader:
    """Rates between two looks. The first look, and the first after a disk came, gives none."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._last: dict[str, list[int]] | None = None
        self._time = 0.0
        self._names: frozenset[str] = frozenset()
        self._shown: frozenset[str] = frozenset()
        self.why = ""

    def read(self, now: float) -> tuple[DiskSample, ...] | None:
        """Disks at `now` (monotonic seconds); None: nothing to say yet, or `why` says why not."""
        self.why = ""
        try:
            text = self._tree.text("/proc/diskstats")
        except Unreadable as error:
            self.why = str(error)
            self._last = None
            return None
        found = diskstats(text)
        names = frozenset(found)
        if names != self._names:
            self._names, self._shown = names, whole_disks(names, self._tree)
        dt = now - self._time
        if self._last is not None and not usable(dt):
            return None  # the next look measures from the last one
        last, self._last, self._time = self._last, found, now
        if last is None:
            return None
        out = []
        for name, after in found.items():
            before = last.get(name)
            if name not in self._shown or before is None or not any(after):
                continue
            sample = rates(name, before, after, dt)
            if sample is not None:
                out.append(sample)
        return tuple(out)

    def forget(self) -> None:
        """The next look is a first one."""
        self._last = None


def diskstats(text: str) -> dict[str, list[int]]:
    """/proc/diskstats as name -> its eleven first counters; lines that are none are passed over."""
    out = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) < 14:
            continue  # kernels of 2.6 had four counters for partitions
        counters = wholes(words[3:14])
        if counters is not None:
            out[words[2]] = counters
    return out


def rates(name: str, before: list[int], after: list[int], dt: float) -> DiskSample | None:
    """Figures over `dt` seconds, formulas as in iostat; None when the counters started anew (another disk, a reset)."""
    d = [new - old for old, new in zip(before, after, strict=True)]
    for at in (3, 7, 9, 10):  # times in ms; the ninth counter, requests in flight, may go down
        if d[at] < 0 and before[at] < WRAP_MS:
            d[at] += WRAP_MS
    if any(d[at] < 0 for at in (0, 2, 3, 4, 6, 7, 9, 10)):
        return None
    reads, writes = d[0], d[4]
    # A wrap that was none shows as more work than a disk can have had time for.
    if d[9] > 1000.0 * dt * 2.0 + 1000.0:
        return None
    return DiskSample(
        name,
        util_percent=round(min(100.0, d[9] / (10.0 * dt)), 2),
        read_mb_s=round(d[2] * SECTOR / MB / dt, 3),
        write_mb_s=round(d[6] * SECTOR / MB / dt, 3),
        read_await_ms=round(d[3] / reads, 3) if reads else 0.0,
        write_await_ms=round(d[7] / writes, 3) if writes else 0.0,
        queue=round(d[10] / 1000.0 / dt, 3),
    )


def whole_disks(names: Iterable[str], tree: Tree) -> frozenset[str]:
    """Which of the names in /proc/diskstats are shown."""
    among = set(names)
    try:
        whole = {name.replace("!", "/") for name in tree.names("/sys/block")}
    except Unreadable:
        whole = set()
    if not whole:  # no /sys: partitions by their names, if the disk is there too
        whole = {name for name in among if not _is_partition(name, among)}
    disks = {name for name in among & whole if not _NEVER.match(name)}
    plain = {name for name in disks if not _STACKED.match(name)}
    return frozenset(name for name in disks if name in plain or not _lies_on(name, plain, tree, 0))


def _is_partition(name: str, among: set[str]) -> bool:
    found = _PARTITION.match(name)
    return found is not None and (found[1] or found[2]) in among


def _lies_on(name: str, plain: set[str], tree: Tree, depth: int) -> bool:
    """A device mapper or RAID device stands, by whatever steps, on a disk that is shown."""
    try:
        slaves = tree.names(f"/sys/block/{name.replace('/', '!')}/slaves")
    except Unreadable:
        return bool(plain)  # without /sys it is unknown; its disks are nearly always there
    for slave in slaves:
        parent = slave.replace("!", "/")
        if parent in plain or any(
            parent.startswith(disk) and tree.there(f"/sys/block/{disk.replace('/', '!')}/{slave}") for disk in plain
        ):
            return True
        if depth < 8 and _STACKED.match(parent) and _lies_on(parent, plain, tree, depth + 1):
            return True
    return False
