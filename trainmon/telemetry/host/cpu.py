"""Processors: how many may be used, how busy they are, and whether a quota holds the job back."""

from __future__ import annotations

import os
from collections.abc import Iterable

from trainmon.telemetry.host.cgroup import CpuUse, Groups
from trainmon.telemetry.host.reading import Found, Tree, Unreadable, decimal, usable, whole, wholes

IDLE, IOWAIT, STEAL = 3, 4, 7
MOST_PROCESSES = 64


class CpuReader:
    """Figures of the processors that this job may use: affinity and quota taken in.

    Busy is all but idle and iowait, as `psutil.cpu_percent` counts it; psutil itself knows neither the affinity nor
    the control group (giampaolo/psutil#2100).
    """

    def __init__(self, tree: Tree, groups: Groups) -> None:
        self._tree = tree
        self._groups = groups
        self._allowed: frozenset[int] | None = None
        self._ticks: tuple[float, frozenset[int] | None, int, int, int] | None = None
        self._use: tuple[float, CpuUse] | None = None

    def look(self, pids: Iterable[int] = ()) -> None:
        """The slow part: which processors the job's processes, or else this one, may run on."""
        union: set[int] = set()
        for pid in list(pids)[:MOST_PROCESSES]:
            union |= self._affinity(str(int(pid))) or set()
        if not union:
            union = self._affinity("self") or set()
            if not union and self._tree.real:
                try:
                    union = set(os.sched_getaffinity(0))
                except (AttributeError, OSError):  # not on macOS
                    pass
        self._allowed = frozenset(union) or None

    def _affinity(self, pid: str) -> set[int] | None:
        try:
            text = self._tree.text(f"/proc/{pid}/status")
        except Unreadable:
            return None
        for line in text.splitlines():
            if line.startswith("Cpus_allowed_list:"):
                return cpu_list(line.partition(":")[2])
        return None

    def forget(self) -> None:
        """The next look is a first one."""
        self._ticks, self._use = None, None

    def read(self, now: float, found: Found) -> None:
        """Add what is known at `now` (monotonic seconds)."""
        try:
            lines = _cpu_lines(self._tree.text("/proc/stat"))
        except Unreadable as error:
            lines = {}
            found.lack(str(error), "cpu_percent", "iowait_percent")
        if not lines and "cpu_percent" not in found.missing:
            found.lack("/proc/stat says nothing", "cpu_percent", "iowait_percent")
        machine = len(lines) - (-1 in lines)
        allowed = self._allowed
        if allowed is not None and lines:
            here = allowed & lines.keys()
            # A list of processors that are not there comes from another machine's /proc: not ours to use.
            allowed = frozenset(here) if here and len(here) < machine else None
        cpus = float(len(allowed)) if allowed else float(machine or len(self._allowed or ()))
        use = self._groups.cpu(cpus or None)
        if use is not None:
            found.scope = "container"
            found.put("cpus", use.quota)
        elif cpus:
            found.put("cpus", cpus)
        else:
            found.lack("neither /proc/stat nor the affinity can be read", "cpus")
        whole_machine = self._machine(now, lines, allowed, found)
        if use is None:
            self._use = None
            found.lack("no quota is in force", "cpu_throttled_percent")
            found.put("cpu_percent", whole_machine)
        else:
            self._contained(now, use, found)
        self._load(found, use.quota if use else cpus, machine)

    def _machine(
        self, now: float, lines: dict[int, list[int]], allowed: frozenset[int] | None, found: Found
    ) -> float | None:
        """Busy % of the allowed processors, out of /proc/stat; iowait goes straight to `found`."""
        total = idle = wait = 0
        for number in allowed if allowed is not None else (-1,) if -1 in lines else lines:
            ticks = lines.get(number)
            if ticks is None:
                continue
            total += sum(ticks[: STEAL + 1])  # guest time is part of user time
            idle += ticks[IDLE]
            wait += ticks[IOWAIT]
        before, self._ticks = self._ticks, (now, allowed, total, idle, wait)
        if not lines or before is None or before[1] != allowed or not usable(now - before[0]):
            return None
        passed = total - before[2]
        if passed <= 0:
            if total == 0 or passed < 0:
                found.lack("/proc/stat does not count here", "cpu_percent", "iowait_percent")
            return None
        # iowait may go back (proc(5)), idle on some kernels too.
        waited = max(0, wait - before[4])
        rested = max(0, idle - before[3])
        found.put("iowait_percent", _share(waited / passed))
        return _share(1.0 - (waited + rested) / passed)

    def _contained(self, now: float, use: CpuUse, found: Found) -> None:
        before, self._use = self._use, (now, use)
        if use.periods is None or use.throttled is None:
            found.lack("the control group does not count its periods", "cpu_throttled_percent")
        if use.used_s is None:
            found.lack("the control group does not count its use", "cpu_percent")
        if before is None or before[1].folder != use.folder or not usable(now - before[0]):
            return
        last = before[1]
        if use.used_s is not None and last.used_s is not None and use.used_s >= last.used_s:
            found.put("cpu_percent", _share((use.used_s - last.used_s) / (now - before[0]) / use.quota))
        if None not in (use.periods, use.throttled, last.periods, last.throttled):
            periods = use.periods - last.periods  # type: ignore[operator]
            throttled = use.throttled - last.throttled  # type: ignore[operator]
            if periods >= 0 and throttled >= 0:
                found.put("cpu_throttled_percent", _share(throttled / periods) if periods else 0.0)

    def _load(self, found: Found, cpus: float, machine: int) -> None:
        if machine and cpus < 0.9 * machine:
            found.lack("counts the whole machine, of which this job has a part", "load_1m")
            return
        try:
            load = decimal(self._tree.text("/proc/loadavg").partition(" ")[0])
        except Unreadable as error:
            found.lack(str(error), "load_1m")
            return
        if load is not None and 0.0 <= load < 1e7:
            found.put("load_1m", load)
        else:
            found.lack("/proc/loadavg says nothing", "load_1m")


def _share(part: float) -> float:
    """A share as %: the intervals of the clock and of the counters differ a little."""
    return min(100.0, max(0.0, 100.0 * part))


def _cpu_lines(text: str) -> dict[int, list[int]]:
    """Lines of /proc/stat by processor, -1 for the sum; the rest of that file (interrupts) is not looked at."""
    out: dict[int, list[int]] = {}
    for line in text.split("\n", 8200):
        if not line.startswith("cpu"):
            break
        words = line.split()
        number = whole(words[0][3:]) if len(words[0]) > 3 else -1
        ticks = wholes(words[1:9])
        if number is None or ticks is None or len(ticks) <= IOWAIT or min(ticks) < 0:
            continue
        out[number] = ticks
    return out


def cpu_list(text: str) -> set[int]:
    """ "0-3,8" as numbers; what is no range is passed over. At most 8,192 processors, as Linux builds them."""
    out: set[int] = set()
    for part in text.strip().split(","):
        first, dash, last = part.partition("-")
        low = whole(first.strip())
        high = whole(last.strip()) if dash else low
        if low is not None and high is not None and 0 <= low <= high < 8192:
            out.update(range(low, high + 1))
    return out
