"""Control groups, version 1, 2 and both at once: which ones hold the job, their limits, and what was used of them.

Inside a container /proc/meminfo and /proc/stat are the machine's; what ends or slows a job is its control group. The
rules are the kernel's (Documentation/admin-guide/cgroup-v1 and cgroup-v2.rst):

* /proc/<pid>/cgroup names the group: "0::/path" for version 2, "4:memory:/path" for version 1. With both, a controller
  belongs to the version that names it.
* Any group between that one and the top may carry the limit. In a namespace of its own the path is "/", or begins with
  "/.." when the group lies outside what can be seen here.
* Page cache that nobody uses (inactive_file) is given back before anything is killed: it is no use of memory.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from dataclasses import dataclass

from trainmon.telemetry.host.mounts import mounts
from trainmon.telemetry.host.reading import MIB, Rises, Tree, Unreadable, decimal, pairs, whole

NO_LIMIT = 2**62
"""Version 1 writes "no limit" as 2^63 rounded to a page; nothing above 2^62 is meant as a limit."""

STICK = 0.05
"""A group is only left for another that is fuller by this share, so that the figures do not jump to and fro."""

MOST_GROUPS = 16
MOST_DEPTH = 32


@dataclass(frozen=True, slots=True)
class Level:
    """A group that carries a limit: its folder, version 1 or 2, and the limit (bytes, or processors)."""

    folder: str
    version: int
    limit: float


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Memory of the group with the least room: MiB, % of the last 10 s, and kills since the last look.

    Attributes:
        headroom_mb: The least of all groups above the job, which may be less than `limit_mb - used_mb`.
    """

    folder: str
    limit_mb: float
    used_mb: float
    headroom_mb: float
    swap_mb: float | None
    pressure: float | None
    oom_kills: int | None


@dataclass(frozen=True, slots=True)
class CpuUse:
    """Counters of the group whose quota is smallest: processors, seconds of processor time, scheduler periods."""

    folder: str
    quota: float
    used_s: float | None
    periods: int | None
    throttled: int | None


def group_paths(text: str) -> dict[str, str]:
    """/proc/<pid>/cgroup as controller -> path; version 2 has the name ""."""
    out: dict[str, str] = {}
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        names, colon, path = rest.partition(":")
        if not colon or not path.startswith("/") or not number.isdigit():
            continue
        for name in names.split(",") if names else ([""] if number == "0" else []):
            out[name] = path
    return out


class Groups:
    """The control groups of this process, or of the job where they differ. `find` is dear, the rest is cheap."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._memory: list[Level] = []
        self._cpu: list[Level] = []
        self._chosen = ""
        self._kills = Rises()
        self.why = ""
        """Why no group can be seen; "" when they can."""
        self.gone = False
        """A group went away since `find`: look again."""

    def find(self, pids: Iterable[int] = ()) -> None:
        """Look for the groups anew: once every few seconds, limits and groups change rarely.

        Args:
            pids: The job's processes; those that are gone are passed over, without any it is this process.
        """
        self.why = ""
        self.gone = False
        self._memory, self._cpu = [], []
        texts = self._texts(pids)
        try:
            points = self._points()
        except Unreadable as error:
            self.why = str(error)
            return
        for folder, version in self._chains("memory", texts, points):
            limit = self._memory_limit(folder, version)
            if limit is not None:
                self._memory.append(Level(folder, version, limit))
        for folder, version in self._chains("cpu", texts, points):
            quota = self._quota(folder, version)
            if quota is not None:
                self._cpu.append(Level(folder, version, quota))

    def _texts(self, pids: Iterable[int]) -> list[str]:
        texts: set[str] = set()
        for pid in pids:
            try:
                texts.add(self._tree.text(f"/proc/{int(pid)}/cgroup"))
            except Unreadable:
                continue
        if not texts:
            try:
                texts.add(self._tree.text("/proc/self/cgroup"))
            except Unreadable:
                texts.add("")  # the mount points alone are tried then
        return sorted(texts)

    def _points(self) -> list[tuple[str, int, str, frozenset[str]]]:
        """Mount points of control groups: where, version, which part is mounted, controllers."""
        out = []
        for one in mounts(self._tree):
            if one.kind == "cgroup2":
                out.append((one.point, 2, one.inside, frozenset[str]()))
            elif one.kind == "cgroup":
                out.append((one.point, 1, one.inside, frozenset(one.options)))
        if not out:
            # gVisor mounts them without saying so.
            for name in ("memory", "cpu"):
                if self._tree.there(f"/sys/fs/cgroup/{name}/cgroup.procs"):
                    out.append((f"/sys/fs/cgroup/{name}", 1, "/", frozenset({name})))
            if self._tree.there("/sys/fs/cgroup/cgroup.controllers"):
                out.append(("/sys/fs/cgroup", 2, "/", frozenset()))
        if not out:
            raise Unreadable("no control groups are mounted here")
        return out

    def _chains(
        self, controller: str, texts: list[str], points: list[tuple[str, int, str, frozenset[str]]]
    ) -> list[tuple[str, int]]:
        """Every group from the job's up to the mount point, without doubles; (folder, version)."""
        leaves: list[tuple[str, str, int]] = []
        for text in texts[:MOST_GROUPS]:
            paths = group_paths(text)
            old = controller in paths or not paths
            for point, version, inside, names in points:
                if version == 1 and controller in names and old:
                    leaves.append((point, self._below(point, inside, paths.get(controller, "/")), 1))
                elif version == 2 and controller not in paths:
                    leaves.append((point, self._below(point, inside, paths.get("", "/")), 2))
        out: dict[tuple[str, int], None] = {}
        for point, folder, version in leaves:
            for _ in range(MOST_DEPTH):
                out[(folder, version)] = None
                if folder == point or len(folder) <= len(point):
                    break
                folder = posixpath.dirname(folder)
        return list(out)

    def _below(self, point: str, inside: str, path: str) -> str:
        """Folder of a group; for a path that is not below what is mounted the mount point stands in."""
        path = posixpath.normpath(path)
        if path.startswith("/.."):
            return point
        if inside != "/":
            if path != inside and not path.startswith(inside.rstrip("/") + "/"):
                return point
            path = path[len(inside.rstrip("/")) :]
        folder = point.rstrip("/") + path if path not in ("", "/") else point
        # A container that sees the machine's /proc but its own mounts: the longest part that is there.
        while folder != point and len(folder) > len(point) and not self._tree.there(folder):
            folder = posixpath.dirname(folder)
        return folder

    def _memory_limit(self, folder: str, version: int) -> float | None:
        try:
            if version == 2:
                limit = whole(self._tree.text(f"{folder}/memory.max").strip())
            else:
                limit = self._tree.number(f"{folder}/memory.limit_in_bytes")
        except Unreadable:
            return None
        if version == 1 and limit is not None:
            # The smallest of all groups above, also of those that are not mounted here.
            above = self._pairs(f"{folder}/memory.stat").get("hierarchical_memory_limit")
            limit = min(limit, above) if above else limit
        return float(limit) if limit is not None and 0 < limit < NO_LIMIT else None

    def _quota(self, folder: str, version: int) -> float | None:
        """Processors that the group may use; None: no quota."""
        try:
            if version == 2:
                words = self._tree.text(f"{folder}/cpu.max").split()
            else:
                words = [
                    self._tree.text(f"{folder}/cpu.cfs_quota_us").strip(),
                    self._tree.text(f"{folder}/cpu.cfs_period_us").strip(),
                ]
        except Unreadable:
            return None
        quota, period = (whole(words[0]), whole(words[1])) if len(words) >= 2 else (None, None)
        if quota is None or not period or quota <= 0 or period < 0:
            return None
        return quota / period

    def memory(self, total_mb: float | None = None) -> MemoryUse | None:
        """What the fullest group uses now; None: no limit below `total_mb` (the machine's memory) is in force.

        "Fullest" and not "smallest": of nested limits the one that ends the job is the one that is reached first.
        """
        best: tuple[float, Level, float] | None = None
        room: float | None = None
        for level in self._memory:
            if total_mb is not None and level.limit / MIB >= total_mb:
                continue
            used = self._memory_used(level)
            if used is None:
                continue
            share = used / level.limit + (STICK if level.folder == self._chosen else 0.0)
            room = min(room, level.limit - used) if room is not None else level.limit - used
            if best is None or share > best[0]:
                best = (share, level, used)
        if best is None or room is None:
            self._chosen = ""
            return None
        level, used = best[1], best[2]
        self._chosen = level.folder
        return MemoryUse(
            level.folder, level.limit / MIB, used / MIB, max(0.0, room) / MIB,
            self._swap(level), self._pressure(level), self._killed(level),
        )  # fmt: skip

    def _memory_used(self, level: Level) -> float | None:
        now, cache = ("memory.current", "inactive_file") if level.version == 2 else (
            "memory.usage_in_bytes", "total_inactive_file",
        )  # fmt: skip
        try:
            used = self._tree.number(f"{level.folder}/{now}")
        except Unreadable:
            self.gone = True
            return None
        # Without memory.stat the page cache is counted in: too much rather than nothing.
        return float(max(0, used - self._pairs(f"{level.folder}/memory.stat").get(cache, 0)))

    def _pairs(self, name: str) -> dict[str, int]:
        try:
            return pairs(self._tree.text(name))
        except Unreadable:
            return {}

    def _swap(self, level: Level) -> float | None:
        if level.version == 2:
            used = self._tree.maybe(f"{level.folder}/memory.swap.current")
        else:
            both = self._tree.maybe(f"{level.folder}/memory.memsw.usage_in_bytes")
            alone = self._tree.maybe(f"{level.folder}/memory.usage_in_bytes")
            used = None if both is None or alone is None else both - alone
        return None if used is None else max(0, used) / MIB

    def _pressure(self, level: Level) -> float | None:
        """Version 1 has no pressure of its own."""
        if level.version == 1:
            return None
        try:
            return pressure(self._tree.text(f"{level.folder}/memory.pressure"))
        except Unreadable:
            return None

    def _killed(self, level: Level) -> int | None:
        """Version 2 counts the groups below; version 1 counts each group alone, so the job's chain is added up."""
        if level.version == 2:
            files = [f"{level.folder}/memory.events"]
        else:
            files = [f"{one.folder}/memory.oom_control" for one in self._memory if one.version == 1]
        seen, rise = False, 0
        for name in files:
            count = self._pairs(name).get("oom_kill")
            if count is not None:
                seen = True
                rise += self._kills.see(name, count)
        return rise if seen else None

    def cpu(self, cpus: float | None = None) -> CpuUse | None:
        """Counters of the group with the smallest quota; None: no quota below `cpus` processors is in force."""
        levels = [level for level in self._cpu if cpus is None or level.limit < cpus]
        if not levels:
            return None
        level = min(levels, key=lambda one: one.limit)
        stat = self._pairs(f"{level.folder}/cpu.stat")
        self.gone = self.gone or not stat
        if level.version == 2:
            used = stat.get("usage_usec")
            seconds = None if used is None else used / 1e6
        else:
            used = self._tree.maybe(f"{level.folder}/cpuacct.usage")
            if used is None:  # cpuacct may be mounted apart from cpu
                used = self._tree.maybe(f"{level.folder}/".replace("/cpu/", "/cpuacct/", 1) + "cpuacct.usage")
            seconds = None if used is None else used / 1e9
        return CpuUse(level.folder, level.limit, seconds, stat.get("nr_periods"), stat.get("nr_throttled"))


def pressure(text: str) -> float | None:
    """ "some avg10" of a pressure file: % of the last 10 s in which at least one task waited."""
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["some"]:
            for word in words[1:]:
                name, _, value = word.partition("=")
                if name == "avg10":
                    share = decimal(value)
                    return share if share is not None and 0.0 <= share <= 100.0 else None
    return None
