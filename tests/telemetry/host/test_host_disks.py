"""Disks beside a recorded iostat, and which of the devices are shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainmon.samples import DiskSample
from trainmon.telemetry.host.disks import DiskReader, diskstats, rates, whole_disks
from trainmon.telemetry.host.reading import Tree

DATA = Path(__file__).parent / "disks"


def _line(name: str, *counters: int) -> str:
    return f" 259 0 {name} {' '.join(str(n) for n in counters)} 0 0 0 0 0 0\n"


def test_as_iostat_says() -> None:
    """Snapshots of /proc/diskstats around `iostat -x -d -y vda 5 1` (sysstat 12.6.1), four writers and readers.

    The two intervals lie 20 ms apart, and iostat rounds its waits to hundredths.
    """
    before, after = (diskstats((DATA / f"{name}.txt").read_text()) for name in ("before", "after"))
    disk = rates("vda", before["vda"], after["vda"], 5.000296884998534)
    assert disk is not None
    heads, figures = ((DATA / "iostat.txt").read_text().splitlines()[n].split() for n in (0, 1))
    said = dict(zip(heads[1:], map(float, figures[1:]), strict=True))
    near = {"rel": 0.005}
    assert disk.read_mb_s == pytest.approx(said["rkB/s"] * 1024 / 1e6, **near)
    assert disk.write_mb_s == pytest.approx(said["wkB/s"] * 1024 / 1e6, **near)
    assert disk.read_await_ms == pytest.approx(said["r_await"], abs=0.006)
    assert disk.write_await_ms == pytest.approx(said["w_await"], abs=0.006)
    assert disk.queue == pytest.approx(said["aqu-sz"], **near)
    assert disk.util_percent == pytest.approx(said["%util"], **near)


def test_formulas_by_hand() -> None:
    before = [10, 0, 0, 100, 20, 0, 0, 50, 0, 1000, 2000]
    after = [20, 0, 2000, 150, 120, 0, 4000, 550, 3, 2000, 6000]
    assert rates("sda", before, after, 2.0) == DiskSample("sda", 50.0, 0.512, 1.024, 5.0, 5.0, 2.0)


def test_no_request_has_no_wait_and_util_ends_at_100() -> None:
    disk = rates("sda", [0] * 11, [0] * 9 + [2010, 0], 2.0)
    assert disk is not None and (disk.read_await_ms, disk.util_percent) == (0.0, 100.0)


def test_times_wrap_at_32_bits_and_resets_give_nothing() -> None:
    top = 2**32 - 100
    before = [10, 0, 10, top, 10, 0, 10, top, 0, top, top]
    disk = rates("sda", before, [20, 0, 20, 100, 20, 0, 20, 100, 0, 900, 900], 2.0)
    assert disk is not None and disk.read_await_ms == 20.0 and disk.util_percent == 50.0
    assert rates("sda", before, [1] * 11, 2.0) is None, "another disk under this name"
    assert rates("sda", [0] * 9 + [5000, 0], [0] * 9 + [100, 0], 2.0) is None, "no wrap: it never was near 2^32"


def test_first_looks_and_disks_that_come_and_go(machine) -> None:
    for name in ("sda", "sdb"):
        machine.path(f"/sys/block/{name}").mkdir(parents=True)
    machine.write("/proc/diskstats", _line("sda", 1, 0, 8, 1, 1, 0, 8, 1, 0, 5, 5))
    reader = DiskReader(Tree(machine.root))
    assert reader.read(0.0) is None and reader.why == ""
    assert reader.read(0.01) is None
    machine.write(
        "/proc/diskstats",
        _line("sda", 1, 0, 8, 1, 1, 0, 3914, 1, 0, 5, 5) + _line("sdb", 5, 0, 8, 1, 1, 0, 8, 1, 0, 5, 5),
    )
    found = reader.read(2.0)
    assert found is not None and [(disk.name, disk.write_mb_s) for disk in found] == [("sda", 1.0)]
    found = reader.read(4.0)
    assert found is not None and [disk.name for disk in found] == ["sda", "sdb"]
    reader.forget()
    assert reader.read(4000.0) is None
    machine.remove("/proc/diskstats")
    assert reader.read(4002.0) is None and reader.why == "/proc/diskstats is not there"


NAMES = ["loop0", "ram0", "zram0", "sr0", "sda", "sda1", "nvme0n1", "nvme0n1p2", "nvme0c0n1", "dm-0", "dm-1", "md0"]


def test_whole_disks_once(machine) -> None:
    for name in NAMES:
        if name not in ("sda1", "nvme0n1p2"):
            machine.path(f"/sys/block/{name}/slaves").mkdir(parents=True)
    machine.path("/sys/block/sda/sda1").mkdir()
    machine.path("/sys/block/md0/slaves/nvme0n1").mkdir()
    machine.path("/sys/block/dm-0/slaves/sda1").mkdir()
    machine.path("/sys/block/dm-1/slaves/md0").mkdir()
    assert whole_disks(NAMES, Tree(machine.root)) == {"sda", "nvme0n1"}


def test_a_mapped_device_whose_disks_are_not_shown_is(machine) -> None:
    """dm over loop devices, RAID without members that can be seen, and a cciss disk with its stroke."""
    for name in ("dm-0", "md0", "loop3", "cciss!c0d0"):
        machine.path(f"/sys/block/{name}/slaves").mkdir(parents=True)
    machine.path("/sys/block/dm-0/slaves/loop3").mkdir()
    names = ["dm-0", "md0", "loop3", "cciss/c0d0"]
    assert whole_disks(names, Tree(machine.root)) == {"dm-0", "md0", "cciss/c0d0"}


def test_without_sys_partitions_are_known_by_name(machine) -> None:
    names = [*NAMES, "xvda1", "vda", "vda15", "mmcblk0", "mmcblk0p1"]
    assert whole_disks(names, Tree(machine.root)) == {"sda", "nvme0n1", "xvda1", "vda", "mmcblk0"}


def test_disks_that_never_worked_are_left_out_and_broken_lines_too(machine) -> None:
    machine.path("/sys/block/sda").mkdir(parents=True)
    machine.path("/sys/block/sdb").mkdir(parents=True)
    text = _line("sda", *[0] * 11) + "8 0 sdb 1 2\n" + "8 0 sdb 1 0 x 1 1 0 1 1 0 1 1\n" + "nonsense\n"
    machine.write("/proc/diskstats", text)
    reader = DiskReader(Tree(machine.root))
    reader.read(0.0)
    assert reader.read(2.0) == ()
