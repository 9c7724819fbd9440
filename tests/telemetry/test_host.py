"""The machine in a line."""

from __future__ import annotations

import os

import psutil

from trainmon.telemetry.host.summary import host_summary


def test_it_agrees_with_the_operating_system(tmp_path) -> None:
    summary = host_summary(str(tmp_path))
    assert summary.cores == len(os.sched_getaffinity(0))
    assert summary.memory_total_mb == psutil.virtual_memory().total / 2**20
    assert 0 < summary.memory_available_mb <= summary.memory_total_mb
    disk = os.statvfs(tmp_path)
    assert summary.disk_free_mb is not None and summary.disk_free_mb <= disk.f_bfree * disk.f_frsize / 2**20 + 64


def test_a_folder_that_is_not_there_has_no_disk(tmp_path) -> None:
    assert host_summary(str(tmp_path / "gone")).disk_free_mb is None


def test_what_a_container_holds_back_is_said(tmp_path) -> None:
    """Limits far below those of any machine, in a control group made of files."""
    group = tmp_path / "sys/fs/cgroup"
    group.mkdir(parents=True)
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_text("30 22 0:29 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
    (tmp_path / "proc/self/cgroup").write_text("0::/\n")
    (group / "memory.max").write_text("67108864\n")
    (group / "memory.current").write_text("50331648\n")
    (group / "cpu.max").write_text("50000 100000\n")
    (group / "cpu.stat").write_text("usage_usec 5\n")
    summary = host_summary(str(tmp_path), root=str(tmp_path))
    assert (summary.memory_total_mb, summary.memory_available_mb) == (64.0, 16.0)
    assert summary.limits[0] == "quota of 0.5 processors"
    assert summary.limits[1].startswith("memory limited to 64 MiB of the machine's ")
