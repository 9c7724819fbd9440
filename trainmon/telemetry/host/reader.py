"""All of the host in one look. `HostReader` has no thread and no clock of its own; `watch.py` gives it both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from trainmon.clock import Clock
from trainmon.samples import HostSample, LinkSample
from trainmon.telemetry.host.cgroup import Groups
from trainmon.telemetry.host.cpu import CpuReader
from trainmon.telemetry.host.disks import DiskReader
from trainmon.telemetry.host.files import FilesReader
from trainmon.telemetry.host.infiniband import InfinibandReader
from trainmon.telemetry.host.memory import MemoryReader
from trainmon.telemetry.host.network import NetworkReader
from trainmon.telemetry.host.reading import Found, Tree
from trainmon.telemetry.host.volumes import Room, VolumeReader, ask, shared_memory

MOST_PIDS = 256
_T = TypeVar("_T")


class HostReader:
    """Reads a machine. Cheap things at each look, dear ones (`slow`) every few seconds.

    Args:
        node: The machine's name in the samples.
        clock: For the samples' time and for intervals.
        root: Where /proc and /sys are; "/" for this machine.
        how: Asks for the room on a file system.
    """

    def __init__(
        self,
        node: str,
        clock: Clock,
        root: str = "/",
        how: Callable[[str], Room] = ask,
        temporary: str | None = None,
        here: str | None = None,
    ) -> None:
        self._node = node
        self._clock = clock
        self._tree = Tree(root)
        self._groups = Groups(self._tree)
        self._cpu = CpuReader(self._tree, self._groups)
        self._memory = MemoryReader(self._tree, self._groups)
        self._disks = DiskReader(self._tree)
        self._network = NetworkReader(self._tree)
        self._infiniband = InfinibandReader(self._tree)
        self._files = FilesReader(self._tree)
        self._volumes = VolumeReader(self._tree, how, temporary, here)
        self._pids: list[int] = []
        self._said: dict[str, str] = {}
        self._first = True

    def forget(self) -> None:
        """The machine slept, or this process was stopped: a mean over that time would say nothing of now."""
        for reader in (self._cpu, self._disks, self._network, self._infiniband):
            reader.forget()

    def look(self, slow: bool = True, folders: Sequence[str] = (), pids: Iterable[int] = ()) -> HostSample:
        """What can be read now.

        Args:
            slow: Volumes, descriptors, limits and error counters too; the first look always is.
            folders: Whose file systems matter. pids: The training's processes. Both are used when `slow`.
        """
        slow = slow or self._first
        found = Found()
        now = self._clock.monotonic()
        if slow:
            self._pids = [int(pid) for _, pid in zip(range(MOST_PIDS), pids, strict=False)]
            self._part(found, ("open_files", "open_files_limit"), lambda: self._files.read(self._pids, found))
            self._part(found, (), self._find)
            self._part(found, (), lambda: self._volumes.start(folders, now, shared_memory(self._tree, self._pids)))
        elif self._groups.gone:
            self._part(found, (), self._find)
        self._part(found, ("cpu_percent", "cpus"), lambda: self._cpu.read(now, found))
        self._part(found, ("memory_used_mb", "memory_total_mb"), lambda: self._memory.read(found))
        disks = self._part(found, (), lambda: self._disks.read(self._clock.monotonic()))
        if disks is None and self._disks.why:
            found.lack(self._disks.why, "disks")
        links = self._part(found, (), self._links)
        if links is None and self._network.why:
            found.lack(self._network.why, "links")
        volumes = self._part(found, (), lambda: self._volumes.take(self._clock.monotonic()))
        if volumes is not None:
            self._shm(found)
        self._first = False
        have = {*found.values, *(["disks"] if disks is not None else []), *(["links"] if links is not None else [])}
        return HostSample(
            self._node, self._clock.now(), values=found.values, missing=self._news(found, slow, have),
            scope=found.scope, disks=disks, volumes=volumes, links=links,
        )  # fmt: skip

    @staticmethod
    def _part(found: Found, names: tuple[str, ...], read: Callable[[], _T]) -> _T | None:
        """One part that breaks must not take the others with it."""
        try:
            return read()
        except Exception as error:
            found.lack(f"could not be read ({type(error).__name__}: {error})"[:120], *names)
            return None

    def _find(self) -> None:
        self._groups.find(self._pids)
        self._cpu.look(self._pids)
        self._infiniband.look()
        self._network.ports = self._infiniband.any
        self._network.look()

    def _links(self) -> tuple[LinkSample, ...] | None:
        ethernet = self._network.read(self._clock.monotonic())
        ports = self._infiniband.read(self._clock.monotonic()) if self._infiniband.any else ()
        if ethernet is None and not ports:
            return None
        return (ethernet or ()) + (ports or ())

    def _shm(self, found: Found) -> None:
        room = self._volumes.shm
        if room is None:
            found.lack(f"/dev/shm: {self._volumes.shm_why or 'is not there'}", "shm_used_mb", "shm_total_mb")
        else:
            found.put("shm_used_mb", room.used_mb)
            found.put("shm_total_mb", room.total_mb)

    def _news(self, found: Found, everything: bool, have: set[str]) -> dict[str, str]:
        """Reasons that are new, or all of them; an empty one says that the metric is back.

        Beside metrics there are "disks" and "links".
        """
        out = {}
        for name, why in found.missing.items():
            if name not in have and (everything or self._said.get(name) != why):
                out[name] = self._said[name] = why
        for name in [name for name in self._said if name in have]:
            del self._said[name]
            out[name] = ""
        return out

    def end(self) -> None:
        """Let go of the threads that ask file systems."""
        self._volumes.end()
