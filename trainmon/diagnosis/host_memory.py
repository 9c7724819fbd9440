"""Memory of a machine or container: nearly full, filling up, processes killed for it, /dev/shm, pressure, open files.

What is judged is what is left (`memory_available_mb`), against the container's limit where there is one. A host that
has been that full ever since we looked is told of, too: the kernel kills, whatever is usual. With unified memory (GB10,
Jetson) this is the GPU's memory as well, and says so.
"""

from __future__ import annotations

from collections.abc import Iterable

from trainmon import units
from trainmon.diagnosis.fill import Fill
from trainmon.diagnosis.level import Level
from trainmon.diagnosis.machine import Host
from trainmon.diagnosis.pulse import Pulse
from trainmon.diagnosis.thresholds import Thresholds
from trainmon.diagnosis.watch import Watch
from trainmon.diagnosis.words import gib
from trainmon.model import Incident

HELD_S = 10.0
OFF = 0.03
FILL_BIN_S, FILL_BINS, FILL_GROWN = 10.0, 18, 0.01
FILL_FROM = 0.60
"""Below this share a rise is the start of something: a data set that is read into memory."""
SOON_S, SOON_SHARE = 120.0, 0.90
"""Full so soon and so full already: critical."""
CLEAR_FULL_S = 2.0
"""A rise is over when the time until full is so many times the threshold."""
PRESSURE_S = 30.0
PRESSURE_OFF = 0.5
SMALL_SHM_MB = 64.0
OOM_QUIET_S = 600.0
ADVICE = (
    "what grows? ps aux --sort -rss | head on {node}: loader workers multiply what each of them holds",
    "fewer loader workers, a smaller prefetch, no copies of the data set in Python lists",
    "a container: a higher limit, if the machine has the memory",
)
ADVICE_OOM = (
    "dmesg -T | grep -i 'killed process' on {node} names it (in a container: memory.events of its control group)",
    "a loader worker was killed: fewer workers, a smaller prefetch; a rank was killed: less offload",
)
ADVICE_SHM = (
    "ls -lhS /dev/shm on {node}: segments torch_* and nccl-* of dead jobs can go",
    "docker run --shm-size=16g (or --ipc=host); Kubernetes: an emptyDir with medium Memory at /dev/shm",
    "fewer loader workers, or torch.multiprocessing.set_sharing_strategy('file_system')",
)
ADVICE_FILES = (
    "ulimit -n (LimitNOFILE, nofile in limits.conf): raise it before the next start",
    "which? ls -l /proc/PID/fd on {node}: sockets and shards that are never closed",
)


class HostMemory(Watch):
    """The detector; one incident a machine and matter."""

    kinds = frozenset(("host",))

    def __init__(self, pulse: Pulse, thresholds: Thresholds) -> None:
        super().__init__(pulse, thresholds)
        self._levels: dict[tuple[str, str], Level] = {}
        self._fills: dict[str, Fill] = {}
        self._kills: dict[str, float] = {}
        self._killed_at: dict[str, float] = {}

    def look_host(self, host: Host, at: float) -> Iterable[Incident]:
        out: list[Incident] = []
        if host.now("memory_total_mb"):
            out += self._memory(host)
        if host.now("oom_kills") is not None:
            out += self._oom(host)
        if host.now("memory_pressure_percent") is not None:
            out += self._pressure(host)
        if host.now("shm_total_mb"):
            out += self._shm(host)
        if host.now("open_files_limit") or host.now("files_limit_system"):
            out += self._files(host)
        return out

    def _level(self, host: Host, what: str, on: float, off: float, hold: float, clear: float = 10.0) -> Level:
        found = self._levels.get((host.node, what))
        if found is None:
            found = self._levels[(host.node, what)] = Level(on, off, hold=hold, clear=clear, learns=False)
        return found

    # ------------------------------------------------------------ memory

    def _memory(self, host: Host) -> list[Incident]:
        total = host.values["memory_total_mb"]
        left, used = host.now("memory_available_mb"), host.now("memory_used_mb")
        if left is None and used is None:
            return []
        used = total - left if left is not None else (used or 0.0)
        used = min(max(used, 0.0), total)
        key = f"memory_high:{host.node}"
        limits, share = self.thresholds, used / total
        full_s, slope = self._filling(host, used, total)
        high = False
        if (mark := limits.host_memory_fraction) is not None:
            level = self._level(host, "memory", mark, mark - OFF, HELD_S)
            level.take(share, host.time)
            high = level.open
        within = limits.host_memory_full_within_s
        fills = within is not None and full_s is not None and full_s <= within and share >= FILL_FROM
        rising = key in self.open and within is not None and full_s is not None and full_s <= CLEAR_FULL_S * within
        where = "the container" if host.scope == "container" else "the machine"
        text = f"{used / 1024.0:.1f} of {gib(total)} ({units.percent(100.0 * share)})"
        if not (high or fills or (rising and share >= FILL_FROM)):
            return self.end(key, host.time, f"back to {text}")
        if high and not fills and mark is not None and share < mark - OFF:
            return []  # it is about to be over
        if slope is not None:
            text += f", +{gib(slope * 60.0) if slope * 60.0 >= 100.0 else f'{slope * 60.0:.0f} MiB'} per min"
        worst = key in self.open and self.open[key].severity == "critical"
        outlook = f"the kernel kills the biggest process of {where} when it is full"
        if full_s is not None:
            outlook = f"full in ≈ {units.forecast(full_s)}: then the kernel kills the biggest process"
        if self._unified(host.node):
            text += ", shared with the GPU"
        return self.begin(
            host,
            key,
            "memory_high",
            "critical" if (full_s is not None and full_s <= SOON_S and share >= SOON_SHARE) or worst else "warning",
            "HOST MEMORY",
            text,
            outlook=outlook,
            metric="memory_total_mb",
            advice=ADVICE,
            evidence=(
                ("rule", "share" if high else "time until full"),
                ("used_mb", used),
                ("total_mb", total),
                ("used_percent", 100.0 * share),
                ("scope", host.scope),
                ("slope_mb_per_min", slope * 60.0 if slope is not None else None),
                ("full_in_s", round(full_s) if full_s is not None else None),
                ("swap_used_mb", host.values.get("swap_used_mb")),
            ),
        )

    def _filling(self, host: Host, used: float, total: float) -> tuple[float | None, float | None]:
        fill = self._fills.get(host.node)
        if fill is None:
            fill = self._fills[host.node] = Fill(FILL_BIN_S, FILL_BINS, FILL_GROWN)
        fill.take(used, total, host.time)
        if fill.last is None:
            return None, None
        return fill.last[1], fill.last[0]

    def _unified(self, node: str) -> bool:
        return any("unified" in gpu.facts.get("memory", "") for gpu in self.fleet.of(node))

    def _oom(self, host: Host) -> list[Incident]:
        count = host.values["oom_kills"]
        before = self._kills.get(host.node)
        self._kills[host.node] = count
        key = f"host_oom:{host.node}"
        if self.thresholds.host_oom is None:
            return []
        if before is None or count <= before:
            killed = self._killed_at.get(host.node)
            if key in self.open and killed is not None and host.time - killed > OOM_QUIET_S:
                return self.end(key, host.time, "no further process was killed")
            return []
        self._killed_at[host.node] = host.time
        killed_now = int(count - before)
        open_ = self.open.get(key)
        if open_ is not None:
            killed_now += next((int(v) for n, v in open_.evidence if n == "killed" and isinstance(v, int)), 0)
        where = "in this container" if host.scope == "container" else "on this machine"
        return self.begin(
            host,
            key,
            "host_oom",
            "critical",
            "KILLED FOR MEMORY",
            f"the kernel killed {killed_now} process{'es' if killed_now > 1 else ''} {where}",
            outlook="a rank or a loader worker may be gone: the others wait for it",
            advice=ADVICE_OOM,
            at_once=True,
            evidence=(("killed", killed_now), ("oom_kills", count), ("used_mb", host.values.get("memory_used_mb"))),
        )

    def _pressure(self, host: Host) -> list[Incident]:
        mark = self.thresholds.memory_pressure_percent
        if mark is None:
            return []
        value = host.values["memory_pressure_percent"]
        level = self._level(host, "pressure", mark, PRESSURE_OFF * mark, PRESSURE_S, 30.0)
        changed = level.take(value, host.time)
        key = f"memory_high:{host.node}:pressure"
        if not level.open:
            return self.end(key, host.time, f"tasks wait {units.percent(value)} of the time") if changed else []
        if not changed:
            return []
        swap = host.values.get("swap_used_mb")
        return self.begin(
            host,
            key,
            "memory_high",
            "warning",
            "MEMORY PRESSURE",
            f"tasks wait for memory {units.percent(value)} of the time" + (f", {gib(swap)} swapped" if swap else ""),
            outlook="it swaps or drops its cache: everything on this machine is slower",
            metric="memory_pressure_percent",
            advice=ADVICE,
            since=level.since,
            evidence=(
                ("pressure_percent", value),
                ("bar_percent", mark),
                ("held_s", PRESSURE_S),
                ("swap_used_mb", swap),
            ),
        )

    # ------------------------------------------------------------ /dev/shm and open files

    def _shm(self, host: Host) -> list[Incident]:
        total, used, mark = host.values["shm_total_mb"], host.now("shm_used_mb"), self.thresholds.shm_fraction
        if used is None or mark is None:
            return []
        level = self._level(host, "shm", mark, mark - 0.1, 4.0)
        changed = level.take(used / total, host.time)
        key = f"memory_high:{host.node}:shm"
        if not level.open:
            return self.end(key, host.time, f"back to {units.percent(100.0 * used / total)}") if changed else []
        if not changed:
            return []
        docker = ", Docker's default" if total <= SMALL_SHM_MB else ""
        size = f"{used:.0f} of {total:.0f} MiB" if total < 2048.0 else f"{used / 1024.0:.1f} of {gib(total)}"
        return self.begin(
            host,
            key,
            "memory_high",
            "warning",
            "SHM FULL" if used >= 0.95 * total else "SHM FILLS",
            f"/dev/shm {size}{docker} ({units.percent(100.0 * used / total)})",
            outlook='loaders die with "Bus error" when it is full',
            advice=ADVICE_SHM,
            since=level.since,
            evidence=(("used_mb", used), ("total_mb", total), ("bar", mark)),
        )

    def _files(self, host: Host) -> list[Incident]:
        mark = self.thresholds.open_files_fraction
        if mark is None:
            return []
        out: list[Incident] = []
        for what, used_name, limit_name, where in (
            ("files", "open_files", "open_files_limit", "one process of the job"),
            ("files_system", "files_open_system", "files_limit_system", "the machine"),
        ):
            used, limit = host.now(used_name), host.now(limit_name)
            if used is None or not limit:
                continue
            level = self._level(host, what, mark, mark - 0.1, 4.0)
            changed = level.take(used / limit, host.time)
            key = f"config_fault:{host.node}:{what}"
            if not changed:
                continue
            text = f"{where} has {units.count(used)} of {units.count(limit)} files open"
            if not level.open:
                out += self.end(key, host.time, text)
                continue
            out += self.begin(
                host,
                key,
                "config_fault",
                "warning",
                "OPEN FILES",
                text,
                outlook='then "Too many open files"',
                advice=ADVICE_FILES,
                since=level.since,
                evidence=(("open", used), ("limit", limit), ("bar", mark)),
            )
        return out

    def forgotten(self, key: str) -> None:
        for known in [k for k in self._levels if k[0] == key]:
            del self._levels[known]
        self._fills.pop(key, None)
