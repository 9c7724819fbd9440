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
