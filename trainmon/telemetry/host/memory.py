"""Memory as far as the job can get it: the container's limit or the machine, without page cache that is given back."""

from __future__ import annotations

from trainmon.telemetry.host.cgroup import Groups, pressure
from trainmon.telemetry.host.reading import MIB, Found, Rises, Tree, Unreadable, whole


class MemoryReader:
    """Figures of memory, swap, its pressure and of what the kernel killed."""

    def __init__(self, tree: Tree, groups: Groups) -> None:
        self._tree = tree
        self._groups = groups
        self._kills = Rises()
        self._killed = 0

    def read(self, found: Found) -> None:
        """Add what is known now."""
        info: dict[str, float] = {}
        why = ""
        try:
            info = _meminfo(self._tree.text("/proc/meminfo"))
        except Unreadable as error:
            why = str(error)
        total, available = info.get("MemTotal"), info.get("MemAvailable")
        if self._tree.real and (total is None or available is None):
            total, available = _by_psutil(total, available)
        use = self._groups.memory(total)
        if use is not None:
            found.scope = "container"
            found.put("memory_total_mb", use.limit_mb)
            found.put("memory_used_mb", use.used_mb)
            # The machine may be full before the container is (giampaolo/psutil#1011: and the other way round).
            found.put("memory_available_mb", min(use.headroom_mb, available if available is not None else 1e12))
            self._put(found, "swap_used_mb", use.swap_mb, "the control group does not count swap")
            if use.pressure is not None:
                found.put("memory_pressure_percent", use.pressure)
            else:
                self._pressure(found)
            self._put_kills(found, use.oom_kills, True)
            return
        self._put(found, "memory_total_mb", total, why or "/proc/meminfo does not say")
        self._put(found, "memory_available_mb", available, why or "/proc/meminfo does not say")
        used = None if total is None or available is None else max(0.0, total - available)
        self._put(found, "memory_used_mb", used, why or "/proc/meminfo does not say")
        swap, free = info.get("SwapTotal"), info.get("SwapFree")
        swapped = None if swap is None or free is None else max(0.0, swap - free)
        self._put(found, "swap_used_mb", swapped, why or "/proc/meminfo does not say")
        self._pressure(found)
        self._put_kills(found, None, False)

    @staticmethod
    def _put(found: Found, name: str, value: float | None, why: str) -> None:
        if value is None:
            found.lack(why, name)
        else:
            found.put(name, value)

    def _pressure(self, found: Found) -> None:
        """The machine's: version 1 of control groups has none of its own."""
        try:
            share = pressure(self._tree.text("/proc/pressure/memory"))
        except Unreadable as error:
            found.lack(f"the kernel does not measure pressure ({error})", "memory_pressure_percent")
            return
        self._put(found, "memory_pressure_percent", share, "/proc/pressure/memory says nothing")

    def _put_kills(self, found: Found, group: int | None, contained: bool) -> None:
        """One count since we look, as everywhere here: what was killed last week is no news.

        The machine's counter is followed all the time: a container that is killed takes its own counter with it.
        """
        machine, why = self._machine_kills()
        rise = group if contained else machine
        if rise is None:
            found.lack("the control group does not count them" if contained else why, "oom_kills")
        else:
            self._killed += rise
            found.put("oom_kills", float(self._killed))

    def _machine_kills(self) -> tuple[int | None, str]:
        try:
            text = self._tree.text("/proc/vmstat")
        except Unreadable as error:
            return None, str(error)
        at = text.find("oom_kill ")
        count = whole(text[at + 9 :].partition("\n")[0].strip()) if at >= 0 else None
        return (None, "the kernel does not count them") if count is None else (self._kills.see("", count), "")


def _meminfo(text: str) -> dict[str, float]:
    """/proc/meminfo in MiB."""
    out = {}
    for line in text.splitlines():
        name, colon, rest = line.partition(":")
        words = rest.split()
        value = whole(words[0]) if colon and words else None
        if value is not None and value >= 0:
            out[name] = value * 1024.0 / MIB
    return out


def _by_psutil(total: float | None, available: float | None) -> tuple[float | None, float | None]:
    """psutil knows how to do without MemAvailable (kernels before 3.14, some containers), and other systems."""
    try:
        import psutil

        memory = psutil.virtual_memory()
    except Exception:  # it raises what its reading raises
        return total, available
    return memory.total / MIB, memory.available / MIB
