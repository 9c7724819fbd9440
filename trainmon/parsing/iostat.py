"""Reports of `iostat`, of sysstat 9 to 12: with and without -x, -t, -h, -s, -k, -m, and with decimal commas.

Columns are told by their names; a report is one sample of the host with all its disks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from trainmon.parsing.cells import Reading, Scene, before, number
from trainmon.parsing.clean import safe
from trainmon.parsing.prefix import Prefix
from trainmon.samples import DiskSample, HostSample

FORMAT = "iostat"
MAX_DISKS = 512
_BANNER = re.compile(r"Linux \S{1,80} \(([^()\s]{1,80})\)\s{1,8}\S{6,12}\s{1,8}_\S{1,20}_\s{1,8}\((\d{1,5}) CPU\)\s*$")
_CPU = "avg-cpu:"
_KIB = 1024 / 1e6
_RATES: Mapping[str, tuple[str, float]] = {
    "rkB/s": ("read", _KIB), "wkB/s": ("write", _KIB), "kB_read/s": ("read", _KIB), "kB_wrtn/s": ("write", _KIB),
    "rMB/s": ("read", _KIB * 1024), "wMB/s": ("write", _KIB * 1024),
    "MB_read/s": ("read", _KIB * 1024), "MB_wrtn/s": ("write", _KIB * 1024),
    "rsec/s": ("read", _KIB / 2), "wsec/s": ("write", _KIB / 2),
    "Blk_read/s": ("read", _KIB / 2), "Blk_wrtn/s": ("write", _KIB / 2),
}  # fmt: skip
_OTHERS: Mapping[str, str] = {
    "%util": "util", "aqu-sz": "queue", "avgqu-sz": "queue", "r_await": "read_await", "w_await": "write_await",
    "await": "await", "r/s": "reads", "w/s": "writes", "tps": "tps",
}  # fmt: skip
_SCALE: Mapping[str, float] = {"k": 1.0, "m": 1024.0, "g": 1024.0**2, "t": 1024.0**3}
_PHYSICAL = re.compile(r"(?:sd|nvme|vd|xvd|hd|mmcblk|dasd|pmem)")
_PASSED = re.compile(r"(?:loop|ram|zram|fd|sr|scd|nbd)\d")
_PARTITION = re.compile(r"((?:sd|vd|xvd|hd)[a-z]{1,3}|nvme\d{1,4}(?:c\d{1,4})?n\d{1,4}|mmcblk\d{1,3})p?\d{1,3}$")


class Report:
    """One report while it is being printed.

    Args:
        time: When it was printed, Unix seconds; None when that is not said.
        host: Name of the machine, as the banner says it.
        first: True for the report right behind a banner: unless -y was given it holds means since the machine started.
    """

    def __init__(self, time: float | None, host: str, cpus: int | None, first: bool) -> None:
        self.time, self.host, self.cpus, self.first = time, host, cpus, first
        self.columns: tuple[str, ...] = ()
        self.at_cpu = False
        self._values: dict[str, float] = {}
        self._disks: dict[str, DiskSample] = {}
        self._place: tuple[Scene, Prefix] | None = None
        self._told = 0

    @property
    def full(self) -> bool:
        """True when it has disks: a blank line ends it then."""
        return bool(self._disks)

    @property
    def begun(self) -> bool:
        """True when it has anything."""
        return self._place is not None

    @property
    def width(self) -> int:
        """Cells of the row that may come next; 0 when none is expected."""
        return 6 if self.at_cpu else len(self.columns)

    def row(self, cells: Sequence[str], scene: Scene, prefix: Prefix) -> bool:
        """A row of it; False when these cells are none."""
        if self.at_cpu:
            found = [number(cell) for cell in cells]
            if any(one is None or not 0.0 <= one[0] <= 110.0 or one[1] not in ("", "%") for one in found):
                return False
            shares = [one[0] for one in found if one is not None]
            self._values["iowait_percent"] = shares[3]
            self._values["cpu_percent"] = round(min(100.0, max(0.0, 100.0 - shares[3] - shares[5])), 2)
            self.at_cpu = False
        elif not self._disk(cells):
            return False
        self._place = scene, prefix
        return True

    def _disk(self, cells: Sequence[str]) -> bool:
        last = self.columns[-1] == ""
        name = cells[-1] if last else cells[0]
        if number(name) is not None or len(name) > 64:
            return False
        figures: dict[str, float] = {}
        for column, cell in zip(self.columns, cells, strict=True):
            if column == "":
                continue
            found = number(cell)
            if found is None:
                return False
            value, unit = found
            if column in _RATES:
                what, factor = _RATES[column]
                if unit and "MB" not in column:  # -h: 358,4k of a column in kB
                    value *= _SCALE.get(unit.lower()[:1], 1.0)
                figures[what] = value * factor
            elif column in _OTHERS:
                figures[_OTHERS[column]] = value
        if len(self._disks) < MAX_DISKS:
            self._disks[name] = _sample(safe(name), figures)
        return True

    def close(self) -> list[Reading]:
        """The report's sample, when it has something that was not told yet."""
        size = len(self._disks) + len(self._values)
        if self._place is None or size <= self._told:
            return []
        self._told = size
        scene, prefix = self._place
        disks = _whole(self._disks)
        if not disks and not self._values:
            return []
        own = prefix.time if prefix.time is not None else scene.outer
        when = own if own is not None else self.time
        node = safe(prefix.node or "")[:80] or scene.node or self.host
        values = dict(self._values)
        if self.cpus:
            values["cpus"] = float(self.cpus)
        sample = HostSample(
            node, scene.fallback if when is None else when, "log", values=values, disks=tuple(disks) or None
        )
        note = "first_report" if self.first else ""
        return [Reading(sample, FORMAT, scene.line, scene.offset, when is not None, prefix, note)]


def _sample(name: str, figures: Mapping[str, float]) -> DiskSample:
    waits = {side: figures.get(f"{side}_await") for side in ("read", "write")}
    if "await" in figures and "reads" in figures:  # one mean for both: it is that of a side when only that side works
        reads, writes = figures["reads"], figures.get("writes", 0.0)
        if waits["read"] is None and reads > 0.0 and writes == 0.0:
            waits["read"] = figures["await"]
        if waits["write"] is None and writes > 0.0 and reads == 0.0:
            waits["write"] = figures["await"]
    util = figures.get("util")
    read, write = figures.get("read"), figures.get("write")
    return DiskSample(
        name,
        None if util is None else min(100.0, util),
        None if read is None else round(read, 3),
        None if write is None else round(write, 3),
        waits["read"],
        waits["write"],
        figures.get("queue"),
    )


def _whole(disks: Mapping[str, DiskSample]) -> list[DiskSample]:
    """Whole disks: no loops, no partitions beside their disk, nothing that is made of disks which are there."""
    physical = any(_PHYSICAL.match(name) for name in disks)
    out = []
    for name, disk in disks.items():
        parent = _PARTITION.match(name)
        if _PASSED.match(name) or (parent is not None and parent[1] in disks):
            continue
        if physical and not _PHYSICAL.match(name) and name.startswith(("dm-", "md")):
            continue
        out.append(disk)
    return out


def banner(text: str) -> tuple[str, int, int] | None:
    """Host name, number of CPUs, and where iostat's first line begins; None when this is none."""
    found = _BANNER.search(text[-400:])
    if found is None:
        return None
    return safe(found[1]).partition(".")[0], int(found[2]), max(0, len(text) - 400) + found.start()


def cpu_head(text: str) -> int:
    """Where `avg-cpu:  %user ...` begins; -1 when this is no such line."""
    at = text.find(_CPU)
    return at if at >= 0 and len(text[at:].split()) == 7 else -1


def disk_head(text: str) -> tuple[tuple[str, ...], int] | None:
    """Columns of the disks ("" is the name's) and where they begin; None when this is no such line."""
    tokens = text.split()
    known = [token in _RATES or token in _OTHERS or token.endswith(_UNUSED) for token in tokens]
    if sum(known) < 3:
        return None
    start = known.index(True)
    end = len(tokens) - known[::-1].index(True)
    if not all(known[start:end]):
        return None
    names = tuple(tokens[start:end])
    if not ({"%util", "tps", "r_await", "rkB/s", "rMB/s", "r/s"} & set(names)):
        return None
    if end == len(tokens) - 1 and tokens[-1].rstrip(":").isalpha():  # -h, and -N: the name comes last
        names, first = (*names, ""), start
    elif end == len(tokens) and start > 0:
        names, first = ("", *names), start - 1
    else:
        return None
    left = text.rsplit(None, len(tokens) - first)
    return names, len(text) - len(text[len(left[0]) :].lstrip()) if len(left) > len(tokens) - first else 0


_UNUSED = ("rqm/s", "areq-sz", "%rrqm", "%wrqm", "%drqm", "dkB/s", "dMB/s", "d/s", "d_await", "f/s", "f_await", "svctm",
           "avgrq-sz", "_read", "_wrtn", "_dscd", "_dscd/s", "kB/s", "MB/s", "%rqm")  # fmt: skip


def begun(scene: Scene, prefix: Prefix, known: tuple[str, int] | None, first: bool) -> Report:
    """A report that begins at this line."""
    time = prefix.time if prefix.time is not None else before(scene, prefix, "stamp")
    host, cpus = known if known is not None else ("", None)
    return Report(time, host, cpus, first)
