"""Every threshold of the live alerts, with its default, its unit and where it comes from.

`False` (here: None) switches an alert off. The configuration's `[thresholds]` has one key for each field.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Limits of the detectors. None switches the alert off."""

    stall_after_s: float | None = -1.0
    """Seconds without a new step or line until a run is `stalled`; -1: from the run's own pace (see `stall.py`)."""
    node_silent_after_s: float | None = -1.0
    """Seconds for which one node is silent while others go on; -1: from the node's own pace (see `silent.py`)."""
    non_finite_loss: float | None = 1.0
    """How many NaN or infinite losses make an alert."""
    memory_fraction: float | None = 0.97
    """Share of the card at which a *new maximum* is an alert (a card that sits there for days is quiet)."""
    memory_full_within_s: float | None = 7200.0
    """Rising memory that will be full within this many seconds is an alert; 600 and less is critical."""
    straggler_ratio: float | None = 1.10
    """A node's own step time against the median of the nodes, held for `straggler_steps`."""
    straggler_steps: float | None = 6.0
    """Steps for which the ratio must hold."""
    fatal_error: float | None = 1.0
    """Set to false to have errors listed but never announced."""

    # ------------------------------------------------------------ GPUs, as their instruments show them

    gpu_idle_percent: float | None = 20.0
    """Utilisation in percent below which a GPU of a run at work idles; over above five points more."""
    gpu_idle_readings: float | None = 5.0
    """For how many readings (a second or more apart)."""
    gpu_spin_power: float | None = 0.35
    """Share of the power limit up to which a GPU that is 90 % busy waits rather than works (NCCL's kernels spin)."""
    gpu_hang_after_s: float | None = 30.0
    """Seconds for which GPUs spin and steps fail to come (at least three usual gaps) until that is a hang."""
    throttle_clock_ratio: float | None = 0.90
    """Clock against the other GPUs below which a throttle reason in force for 10 of 30 s is an alert."""
    gpu_fault: float | None = 1.0
    """Xids, memory errors, lost GPUs; False: none is announced."""
    gpu_links: float | None = 1.0
    """NVLinks down, fabric not up, PCIe below its size under load; False: none is announced."""

    # ------------------------------------------------------------ hosts

    host_memory_fraction: float | None = 0.95
    """Share of the container's limit, else of the machine's memory, that is in use."""
    host_memory_full_within_s: float | None = 600.0
    """Rising host memory that will be full within this many seconds is an alert."""
    host_oom: float | None = 1.0
    """Processes that the kernel killed for memory; False: not announced."""
    memory_pressure_percent: float | None = 40.0
    """Share of time in which some task waited for memory, for half a minute (systemd-oomd acts at 60 % for 30 s)."""
    shm_fraction: float | None = 0.80
    """Share of /dev/shm in use; Docker's default is 64 MiB, and loaders die of it with "Bus error"."""
    volume_fraction: float | None = 0.95
    """Share in use of a file system that the run writes to."""
    volume_full_within_s: float | None = 3600.0
    """A file system that will be full within this many seconds is an alert."""
    volume_hang: float | None = 1.0
    """A file system that does not answer; False: not announced."""
    cpu_percent: float | None = 80.0
    """Processor use in percent for three readings."""
    cpu_minute_percent: float | None = 90.0
    """Processor use in percent for a minute."""
    cpu_throttled_percent: float | None = 25.0
    """Share of scheduler periods in which the container's quota held it back, for half a minute."""
    disk_util_percent: float | None = 85.0
    """%util of a disk for three readings, with a queue of 4 or more and 20 ms or more a request."""
    network_percent: float | None = 80.0
    """Share of a link's rate in percent for three readings."""
    network_fault: float | None = 1.0
    """Links that go down or count errors; False: not announced."""
    open_files_fraction: float | None = 0.90
    """Share of a process's (or the machine's) limit of open files."""
