"""Processors and memory: machine, affinity, quota, lxcfs, and files that are not there."""

from __future__ import annotations

import os

import pytest

from trainmon.telemetry.host.cgroup import Groups
from trainmon.telemetry.host.cpu import CpuReader, cpu_list
from trainmon.telemetry.host.memory import MemoryReader
from trainmon.telemetry.host.reading import Found, Tree

GIB = 2**30


class _Cpu:
    def __init__(self, machine, pids=()) -> None:
        tree = Tree(machine.root)
        self.groups = Groups(tree)
        self.groups.find(pids)
        self.reader = CpuReader(tree, self.groups)
        self.reader.look(pids)

    def at(self, now: float) -> Found:
        found = Found()
        self.reader.read(now, found)
        return found


def test_a_plain_machine(machine) -> None:
    machine.bare(8)
    cpu = _Cpu(machine)
    first = cpu.at(0.0)
    assert first.values == {"cpus": 8.0, "load_1m": 3.25}
    assert first.missing == {"cpu_throttled_percent": "no quota is in force"}
    machine.cpus(8, busy=50, idle=140, wait=10)
    second = cpu.at(2.0)
    assert (second.values["cpu_percent"], second.values["iowait_percent"], second.scope) == (25.0, 5.0, "host")


def test_only_the_processors_that_the_job_may_use(machine) -> None:
    machine.bare(8)
    machine.allow("0-7")
    machine.allow("2", pid="50")
    machine.allow("3", pid="51")
    cpu = _Cpu(machine, [50, 51])
    cpu.at(0.0)
    machine.cpus(8, busy=100, idle=100, only=frozenset({2, 3}))
    found = cpu.at(2.0)
    assert (found.values["cpus"], found.values["cpu_percent"]) == (2.0, 50.0)
    assert "load_1m" not in found.values and "whole machine" in found.missing["load_1m"]


def test_a_quota_is_what_counts_and_throttling_explains(machine) -> None:
    machine.bare(8)
    machine.mount("/", "/sys/fs/cgroup", "cgroup2")
    machine.write("/proc/self/cgroup", "0::/\n")
    machine.group2("", cpu_max="200000 100000\n", cpu_stat="usage_usec 1000000\nnr_periods 100\nnr_throttled 5\n")
    cpu = _Cpu(machine)
    assert cpu.at(0.0).values["cpus"] == 2.0
    machine.group2("", cpu_stat="usage_usec 4000000\nnr_periods 120\nnr_throttled 15\n")
    found = cpu.at(2.0)
    assert found.scope == "container"
    assert (found.values["cpu_percent"], found.values["cpu_throttled_percent"]) == (75.0, 50.0)
    # The counters start anew with the container: nothing is said, then all goes on.
    machine.group2("", cpu_stat="usage_usec 1000\nnr_periods 1\nnr_throttled 0\n")
    assert "cpu_percent" not in cpu.at(4.0).values
    machine.group2("", cpu_stat="usage_usec 401000\nnr_periods 1\nnr_throttled 0\n")
    found = cpu.at(6.0)
    assert (found.values["cpu_percent"], found.values["cpu_throttled_percent"]) == (10.0, 0.0)


def test_a_group_that_does_not_count_says_so(machine) -> None:
    machine.bare(8)
    machine.mount("/", "/sys/fs/cgroup", "cgroup2")
    machine.write("/proc/self/cgroup", "0::/\n")
    machine.group2("", cpu_max="200000 100000\n")
    cpu = _Cpu(machine)
    cpu.at(0.0)
    found = cpu.at(2.0)
    assert found.missing["cpu_percent"] == "the control group does not count its use"
    assert "cpu_throttled_percent" in found.missing


def test_iowait_that_goes_back_and_processors_that_go_away(machine) -> None:
    machine.bare(4)
    machine.cpus(4, busy=100, idle=1000, wait=50)
    cpu = _Cpu(machine)
    cpu.at(0.0)
    machine.cpus(4, busy=200, idle=1100, wait=40)
    found = cpu.at(2.0)
    assert found.values["iowait_percent"] == 0.0 and 45.0 < found.values["cpu_percent"] < 55.0
    machine.cpus(2, busy=201, idle=1101, wait=40)
    assert "cpu_percent" not in cpu.at(4.0).values


def test_a_proc_stat_of_zeros_is_no_idle_machine(machine) -> None:
    """gVisor fills it with zeros."""
    machine.bare(2)
    cpu = _Cpu(machine)
    cpu.at(0.0)
    found = cpu.at(2.0)
    assert found.missing["cpu_percent"] == "/proc/stat does not count here" and "cpu_percent" not in found.values


def test_nothing_readable(machine) -> None:
    cpu = _Cpu(machine)
    found = cpu.at(0.0)
    assert found.values == {}
    assert found.missing["cpu_percent"] == "/proc/stat is not there"
    assert "cpus" in found.missing and "load_1m" in found.missing


def test_too_short_an_interval_gives_no_rate(machine) -> None:
    machine.bare(2)
    cpu = _Cpu(machine)
    cpu.at(0.0)
    machine.cpus(2, busy=1, idle=1)
    assert "cpu_percent" not in cpu.at(0.01).values


@pytest.mark.parametrize(
    ("text", "found"),
    [("0-3,8", {0, 1, 2, 3, 8}), ("", set()), ("x,2,5-4,-1,1-", {2}), ("0-99999999999", set()), ("7\n", {7})],
)
def test_lists_of_processors(text, found) -> None:
    assert cpu_list(text) == found


def test_of_this_machine_it_agrees_with_the_system() -> None:
    tree = Tree("/")
    groups = Groups(tree)
    groups.find()
    reader = CpuReader(tree, groups)
    reader.look()
    found = Found()
    reader.read(0.0, found)
    assert 0 < found.values["cpus"] <= len(os.sched_getaffinity(0))


def _memory(machine, pids=()) -> MemoryReader:
    tree = Tree(machine.root)
    groups = Groups(tree)
    groups.find(pids)
    return MemoryReader(tree, groups)


def _look(reader: MemoryReader) -> Found:
    found = Found()
    reader.read(found)
    return found


def test_memory_of_a_plain_machine_and_kills_since_we_look(machine) -> None:
    machine.bare()
    reader = _memory(machine)
    found = _look(reader)
    assert found.values == {
        "memory_total_mb": 64000.0, "memory_available_mb": 48000.0, "memory_used_mb": 16000.0,
        "swap_used_mb": 1000.0, "memory_pressure_percent": 1.5, "oom_kills": 0.0,
    }  # fmt: skip
    machine.write("/proc/vmstat", "oom_kill 9\n")
    assert _look(reader).values["oom_kills"] == 2.0
    machine.write("/proc/vmstat", "oom_kill 1\n")  # another machine under the same name: no rise
    assert _look(reader).values["oom_kills"] == 2.0


def test_memory_of_a_container_on_a_machine_that_is_fuller(machine) -> None:
    machine.bare()
    machine.mount("/", "/sys/fs/cgroup", "cgroup2")
    machine.write("/proc/self/cgroup", "0::/\n")
    machine.group2("", memory_max=f"{60 * GIB}\n", memory_current=f"{5 * GIB}\n", memory_events="oom_kill 4\n")
    reader = _memory(machine)
    found = _look(reader)
    assert found.scope == "container"
    assert (found.values["memory_total_mb"], found.values["memory_used_mb"]) == (61440.0, 5120.0)
    assert found.values["memory_available_mb"] == 48000.0
    assert found.missing["swap_used_mb"] == "the control group does not count swap"
    assert found.values["memory_pressure_percent"] == 1.5, "the group has none: the machine's"
    machine.group2("", memory_events="oom_kill 5\n")
    assert _look(reader).values["oom_kills"] == 1.0


def test_a_container_that_is_killed_takes_its_count_with_it(machine) -> None:
    machine.bare()
    machine.mount("/", "/sys/fs/cgroup", "cgroup2")
    machine.write("/proc/self/cgroup", "0::/\n")
    machine.write("/proc/9/cgroup", "0::/box\n")
    machine.group2("/box", memory_max=f"{GIB}\n", memory_current="5\n", memory_events="oom_kill 0\n")
    reader = _memory(machine, [9])
    assert _look(reader).values["oom_kills"] == 0.0
    machine.write("/proc/vmstat", "oom_kill 8\n")  # somebody else's, while the box is there
    machine.group2("/box", memory_events="oom_kill 1\n")
    assert _look(reader).values["oom_kills"] == 1.0
    machine.remove("/sys/fs/cgroup/box/memory.current")
    machine.write("/proc/vmstat", "oom_kill 9\n")
    found = _look(reader)
    assert (found.scope, found.values["oom_kills"]) == ("host", 2.0)


def test_a_limit_above_what_lxcfs_shows_is_none(machine) -> None:
    machine.bare()
    machine.write("/proc/meminfo", "MemTotal: 1048576 kB\nMemAvailable: 524288 kB\n")
    machine.mount("/", "/sys/fs/cgroup", "cgroup2")
    machine.write("/proc/self/cgroup", "0::/\n")
    machine.group2("", memory_max=f"{2 * GIB}\n", memory_current="5\n")
    found = _look(_memory(machine))
    assert (found.values["memory_total_mb"], found.values["memory_used_mb"], found.scope) == (1024.0, 512.0, "host")
    assert found.missing["swap_used_mb"] == "/proc/meminfo does not say"


def test_memory_without_any_file(machine) -> None:
    found = _look(_memory(machine))
    assert found.values == {}
    assert found.missing["memory_used_mb"] == "/proc/meminfo is not there"
    assert found.missing["oom_kills"] == "/proc/vmstat is not there"
    assert "pressure" in found.missing["memory_pressure_percent"]


def test_memory_of_this_machine_is_no_more_than_it_has() -> None:
    tree = Tree("/")
    found = Found()
    MemoryReader(tree, Groups(tree)).read(found)
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**20
    assert 0 < found.values["memory_available_mb"] <= found.values["memory_total_mb"] <= pages + 1
