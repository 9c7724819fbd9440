"""A machine out of files: what the host's reader sees of /proc and /sys below a root of the test's own."""

from __future__ import annotations

from pathlib import Path

import pytest

STAT = "cpu  {busy} 0 0 {idle} {wait} 0 0 0 0 0\n"
MEMINFO = """MemTotal:       65536000 kB
MemFree:        10000000 kB
MemAvailable:   49152000 kB
SwapTotal:       2048000 kB
SwapFree:        1024000 kB
"""


class Machine:
    """Writes files below its root; `root` is what the readers are given."""

    def __init__(self, folder: Path) -> None:
        self.root = str(folder)

    def path(self, name: str) -> Path:
        return Path(self.root + name)

    def write(self, name: str, text: str | bytes) -> None:
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())

    def link(self, name: str, to: str) -> None:
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(to)

    def remove(self, name: str) -> None:
        self.path(name).unlink()

    def cpus(self, count: int, busy: int = 0, idle: int = 0, wait: int = 0, only: frozenset[int] | None = None) -> None:
        """/proc/stat: ticks of each processor, or of those in `only`; the others idle at 0."""
        lines = [
            f"cpu{n} {busy if only is None or n in only else 0} 0 0 {idle} {wait} 0 0 0 0 0\n" for n in range(count)
        ]
        share = count if only is None else len(only)
        first = STAT.format(busy=busy * share, idle=idle * count, wait=wait * count)
        self.write("/proc/stat", first + "".join(lines) + "intr 1 2 3\nctxt 5\n")

    def allow(self, text: str, pid: str = "self") -> None:
        self.write(f"/proc/{pid}/status", f"Name:\tpython\nCpus_allowed:\tff\nCpus_allowed_list:\t{text}\n")

    def bare(self, cpus: int = 8) -> None:
        """A plain machine without containers."""
        self.cpus(cpus)
        self.allow(f"0-{cpus - 1}")
        self.write("/proc/meminfo", MEMINFO)
        self.write("/proc/loadavg", "3.25 2.00 1.00 2/300 4242\n")
        self.write("/proc/vmstat", "nr_free_pages 5\noom_kill 7\nswap_ra 1\n")
        self.write("/proc/pressure/memory", "some avg10=1.50 avg60=0.00 avg300=0.00 total=5\nfull avg10=0.10\n")
        self.write("/proc/sys/fs/file-nr", "5000\t0\t9223372036854775807\n")
        self.write("/proc/self/mountinfo", "22 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n")
        self.write("/proc/self/cgroup", "0::/user.slice/session-1.scope\n")

    def mount(self, inside: str, point: str, kind: str, options: str = "rw") -> None:
        before = self.path("/proc/self/mountinfo").read_text() if self.path("/proc/self/mountinfo").exists() else ""
        self.write("/proc/self/mountinfo", f"{before}30 22 0:29 {inside} {point} rw - {kind} {kind} {options}\n")

    def group2(self, folder: str, **files: str) -> None:
        """A group of version 2; `memory_max` is the file memory.max."""
        for name, text in files.items():
            self.write(f"/sys/fs/cgroup{folder}/{name.replace('_', '.', 1)}", text)


@pytest.fixture
def machine(tmp_path) -> Machine:
    made = Machine(tmp_path / "root")
    made.path("/").mkdir(parents=True)
    return made
