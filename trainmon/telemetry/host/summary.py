"""This machine in a line: processors, memory and the disk of a folder, through psutil."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HostSummary:
    """Attributes: cores that this process may use, memory in MiB, free disk in MiB (None: cannot be had)."""

    cores: int
    memory_available_mb: float
    memory_total_mb: float
    disk_free_mb: float | None


def host_summary(folder: str) -> HostSummary:
    """Ask the operating system; `folder` chooses the disk."""
    import psutil

    mib = 1024.0 * 1024.0
    memory = psutil.virtual_memory()
    try:
        cores = len(psutil.Process().cpu_affinity())
    except (AttributeError, psutil.Error):  # not on macOS
        cores = psutil.cpu_count() or 1
    try:
        disk: float | None = psutil.disk_usage(folder).free / mib
    except OSError:
        disk = None
    return HostSummary(cores, memory.available / mib, memory.total / mib, disk)
