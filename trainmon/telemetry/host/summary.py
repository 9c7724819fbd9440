"""This machine in a line, for `doctor`: processors, memory, a folder, as far as a container lets them be used."""

from __future__ import annotations

from dataclasses import dataclass

from trainmon.telemetry.host.cgroup import Groups
from trainmon.telemetry.host.reading import MIB, Tree
from trainmon.telemetry.host.volumes import SHM, Room, VolumeReader
from trainmon.units import memory_text

SMALL_SHM_MB = 64.0
"""What Docker gives without --shm-size: too little for a data loader with workers (pytorch/pytorch#5040)."""


@dataclass(frozen=True, slots=True)
class HostSummary:
    """What may be used here.

    Attributes:
        cores: Processors that this process may run on.
        memory_available_mb, memory_total_mb: MiB; the container's, where it has a limit.
        disk_free_mb: MiB on the folder's disk; None: cannot be had, or it does not answer.
        limits: What a container holds back, in words: "quota of 1.5 processors".
    """

    cores: int
    memory_available_mb: float
    memory_total_mb: float
    disk_free_mb: float | None
    limits: tuple[str, ...] = ()


def host_summary(folder: str, root: str = "/") -> HostSummary:
    """Ask the operating system; `folder` chooses the disk, `root` is where control groups are looked for."""
    import psutil

    memory = psutil.virtual_memory()
    available, total = memory.available / MIB, memory.total / MIB
    try:
        cores = len(psutil.Process().cpu_affinity())
    except (AttributeError, psutil.Error):  # not on macOS
        cores = psutil.cpu_count() or 1
    tree = Tree(root)
    groups = Groups(tree)
    groups.find()
    limits = []
    quota = groups.cpu(cores)
    if quota is not None:
        limits.append(f"quota of {quota.quota:g} processors")
    use = groups.memory(total)
    if use is not None:
        limits.append(f"memory limited to {memory_text(use.limit_mb)} of the machine's {memory_text(total)}")
        available, total = min(available, use.headroom_mb), use.limit_mb
    disk, shm = _rooms(folder, tree)
    if shm is not None and shm.total_mb <= SMALL_SHM_MB:
        limits.append(f"{memory_text(shm.total_mb)} of {SHM}, too little for data loaders with workers")
    return HostSummary(cores, available, total, None if disk is None else disk.total_mb - disk.used_mb, tuple(limits))


def _rooms(folder: str, tree: Tree) -> tuple[Room | None, Room | None]:
    """Room of a folder and of shared memory, each within the deadline: a dead network disk must not hang `doctor`."""
    import time

    reader = VolumeReader(tree, temporary="", here="/")
    began = time.monotonic()
    reader.start([folder], began)
    while reader.take(time.monotonic()) is None:
        time.sleep(0.02)
    disk = reader.room(folder)
    reader.end()
    return disk, reader.shm
