"""Limits of control groups: both versions, mixed, nested, in namespaces, of the job and not of the monitor."""

from __future__ import annotations

import pytest

from trainmon.telemetry.host.cgroup import Groups, group_paths, pressure
from trainmon.telemetry.host.reading import Tree

GIB = 2**30
NONE_V1 = "9223372036854771712\n"


def _groups(machine, pids=()) -> Groups:
    groups = Groups(Tree(machine.root))
    groups.find(pids)
    return groups


def test_version_2_in_a_namespace_of_its_own(machine) -> None:
    machine.mount("/", "/sys/fs/cgroup", "cgroup2")
    machine.write("/proc/self/cgroup", "0::/\n")
    machine.group2(
        "", memory_max=f"{8 * GIB}\n", memory_current=f"{6 * GIB}\n", memory_stat=f"anon 5\ninactive_file {2 * GIB}\n",
        memory_events="low 0\noom 3\noom_kill 3\n", memory_pressure="some avg10=12.50 avg60=1.00\n",
        memory_swap="x", cpu_max="150000 100000\n",
        cpu_stat="usage_usec 9000000\nnr_periods 100\nnr_throttled 25\nthrottled_usec 5\n",
    )  # fmt: skip
    machine.write("/sys/fs/cgroup/memory.swap.current", f"{GIB}\n")
    groups = _groups(machine)
    use = groups.memory(64 * 1024.0)
    assert use is not None
    assert (use.limit_mb, use.used_mb, use.headroom_mb) == (8192, 4096, 4096)
    assert (use.swap_mb, use.pressure, use.oom_kills) == (1024, 12.5, 0)
    machine.group2("", memory_events="oom_kill 5\n")
    again = groups.memory(64 * 1024.0)
    assert again is not None and again.oom_kills == 2
    cpu = groups.cpu(8)
    assert cpu is not None
    assert (cpu.quota, cpu.used_s, cpu.periods, cpu.throttled) == (1.5, 9.0, 100, 25)


def test_the_fullest_of_nested_limits_counts_and_the_room_is_the_least(machine) -> None:
    machine.mount("/", "/sys/fs/cgroup", "cgroup2")
    machine.write("/proc/self/cgroup", "0::/job/step/task\n")
    machine.group2("/job/step/task", memory_max="max\n", memory_current="1\n")
    machine.group2(
        "/job/step", memory_max=f"{90 * GIB}\n", memory_current=f"{50 * GIB}\n", memory_stat="inactive_file 0\n"
    )
    machine.group2("/job", memory_max=f"{100 * GIB}\n", memory_current=f"{97 * GIB}\n", memory_stat="inactive_file 0\n")
    groups = _groups(machine)
    use = groups.memory()
    assert use is not None and use.folder == "/sys/fs/cgroup/job"
    assert (use.limit_mb, use.used_mb, use.headroom_mb) == (100 * 1024, 97 * 1024, 3 * 1024)
    # Nearly alike: the figures stay with the group they were of.
    machine.group2("/job/step", memory_current=f"{88 * GIB}\n")
    stays = groups.memory()
    assert stays is not None and stays.folder == "/sys/fs/cgroup/job" and stays.headroom_mb == 2 * 1024
    machine.group2("/job", memory_current=f"{60 * GIB}\n")
    goes = groups.memory()
    assert goes is not None and goes.folder == "/sys/fs/cgroup/job/step"


def test_version_1_with_the_machines_paths_inside_a_container(machine) -> None:
    """Docker without a namespace: the path is the machine's, the mount shows only the part below it."""
    machine.mount("/docker/abc", "/sys/fs/cgroup/memory", "cgroup", "rw,memory")
    machine.mount("/docker/abc", "/sys/fs/cgroup/cpu,cpuacct", "cgroup", "rw,cpu,cpuacct")
    machine.write("/proc/self/cgroup", "5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n0::/docker/abc\n")
    base = "/sys/fs/cgroup/memory"
    machine.write(f"{base}/memory.limit_in_bytes", f"{4 * GIB}\n")
    machine.write(f"{base}/memory.usage_in_bytes", f"{3 * GIB}\n")
    machine.write(f"{base}/memory.stat", f"total_inactive_file {GIB}\nhierarchical_memory_limit {4 * GIB}\n")
    machine.write(f"{base}/memory.memsw.usage_in_bytes", f"{3 * GIB + 2**20}\n")
    machine.write(f"{base}/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
    cpu = "/sys/fs/cgroup/cpu,cpuacct"
    machine.write(f"{cpu}/cpu.cfs_quota_us", "400000\n")
    machine.write(f"{cpu}/cpu.cfs_period_us", "100000\n")
    machine.write(f"{cpu}/cpuacct.usage", "7000000000\n")
    machine.write(f"{cpu}/cpu.stat", "nr_periods 10\nnr_throttled 1\nthrottled_time 99\n")
    groups = _groups(machine)
    use = groups.memory()
    assert use is not None
    assert (use.limit_mb, use.used_mb, use.swap_mb, use.pressure, use.oom_kills) == (4096, 2048, 1, None, 0)
    machine.write(f"{base}/memory.oom_control", "oom_kill 3\n")
    assert groups.memory().oom_kills == 1  # type: ignore[union-attr]
    quota = groups.cpu(16)
    assert quota is not None and (quota.quota, quota.used_s, quota.periods) == (4.0, 7.0, 10)


def test_version_1_a_limit_that_lies_above_what_is_mounted(machine) -> None:
    machine.mount("/pods/one/box", "/sys/fs/cgroup/memory", "cgroup", "rw,memory")
    machine.write("/proc/self/cgroup", "5:memory:/pods/one/box\n")
    base = "/sys/fs/cgroup/memory"
    machine.write(f"{base}/memory.limit_in_bytes", NONE_V1)
    machine.write(f"{base}/memory.usage_in_bytes", f"{GIB}\n")
    machine.write(f"{base}/memory.stat", f"total_inactive_file 0\nhierarchical_memory_limit {2 * GIB}\n")
    use = _groups(machine).memory()
    assert use is not None and use.limit_mb == 2048


def test_both_versions_mixed(machine) -> None:
    """memory by version 1 in a nested group, cpu and cpuacct mounted apart, version 2 without controllers."""
    machine.mount("/", "/sys/fs/cgroup/memory", "cgroup", "rw,memory")
    machine.mount("/", "/sys/fs/cgroup/cpu", "cgroup", "rw,cpu")
    machine.mount("/", "/sys/fs/cgroup/cpuacct", "cgroup", "rw,cpuacct")
    machine.mount("/", "/sys/fs/cgroup/unified", "cgroup2")
    machine.write("/proc/self/cgroup", "4:memory:/api/e10c\n2:cpuacct:/api\n1:cpu:/api\n0::/\n")
    machine.write("/sys/fs/cgroup/unified/cpu.stat", "usage_usec 5\n")
    base = "/sys/fs/cgroup/memory/api/e10c"
    machine.write(f"{base}/memory.limit_in_bytes", NONE_V1)
    machine.write(f"{base}/memory.usage_in_bytes", f"{GIB}\n")
    machine.write("/sys/fs/cgroup/memory/api/memory.limit_in_bytes", f"{3 * GIB}\n")
    machine.write("/sys/fs/cgroup/memory/api/memory.usage_in_bytes", f"{2 * GIB}\n")
    machine.write("/sys/fs/cgroup/cpu/api/cpu.cfs_quota_us", "50000\n")
    machine.write("/sys/fs/cgroup/cpu/api/cpu.cfs_period_us", "100000\n")
    machine.write("/sys/fs/cgroup/cpu/api/cpu.stat", "nr_periods 1\nnr_throttled 0\nthrottled_time 0\n")
    machine.write("/sys/fs/cgroup/cpuacct/api/cpuacct.usage", "1000000000\n")
    groups = _groups(machine)
    use = groups.memory()
    assert use is not None and (use.limit_mb, use.used_mb) == (3072, 2048)
    quota = groups.cpu(2)
    assert quota is not None and (quota.quota, quota.used_s) == (0.5, 1.0)


@pytest.mark.parametrize(
    "limit", [NONE_V1, "9223372036854775807\n", "-1\n", "0\n", "max\n", "", "garbage\n", str(10**30)]
)
def test_what_is_no_limit(machine, limit) -> None:
    machine.mount("/", "/sys/fs/cgroup/memory", "cgroup", "rw,memory")
    machine.write("/proc/self/cgroup", "4:memory:/\n")
    machine.write("/sys/fs/cgroup/memory/memory.limit_in_bytes", limit)
    machine.write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1\n")
    assert _groups(machine).memory() is None


@pytest.mark.parametrize("text", ["max 100000\n", "-1 100000\n", "100000 0\n", "100000\n", "", "a b\n"])
def test_what_is_no_quota(machine, text) -> None:
    machine.mount("/", "/sys/fs/cgroup", "cgroup2")
    machine.write("/proc/self/cgroup", "0::/\n")
    machine.group2("", cpu_max=text)
    assert _groups(machine).cpu(8) is None


def test_a_limit_beyond_the_machine_is_none(machine) -> None:
    machine.mount("/", "/sys/fs/cgroup", "cgroup2")
    machine.write("/proc/self/cgroup", "0::/\n")
    machine.group2(
        "", memory_max=f"{64 * GIB}\n", memory_current="5\n", cpu_max="1600000 100000\n", cpu_stat="usage_usec 1\n"
    )
    groups = _groups(machine)
    assert groups.memory(64 * 1024.0) is None and groups.cpu(16) is None
    assert groups.memory(65 * 1024.0) is not None and groups.cpu(17) is not None


def test_the_jobs_group_and_not_the_monitors(machine) -> None:
    machine.mount("/", "/sys/fs/cgroup", "cgroup2")
    machine.write("/proc/self/cgroup", "0::/user.slice\n")
    machine.write("/proc/71/cgroup", "0::/slurm/job_5/step_0/task_0\n")
    machine.write("/proc/72/cgroup", "0::/slurm/job_5/step_0/task_1\n")
    machine.group2("/user.slice", memory_max=f"{GIB}\n", memory_current="5\n")
    for task in (0, 1):
        machine.group2(f"/slurm/job_5/step_0/task_{task}", memory_max="max\n", memory_current="5\n")
    machine.group2("/slurm/job_5", memory_max=f"{20 * GIB}\n", memory_current=f"{5 * GIB}\n")
    use = _groups(machine, [71, 72, 99]).memory()
    assert use is not None and use.folder == "/sys/fs/cgroup/slurm/job_5"
    gone = _groups(machine, [99]).memory()
    assert gone is not None and gone.folder == "/sys/fs/cgroup/user.slice"


def test_two_containers_of_one_job_show_the_fuller(machine) -> None:
    machine.mount("/", "/sys/fs/cgroup", "cgroup2")
    for pid, name, used in ((71, "a", 2), (72, "b", 7)):
        machine.write(f"/proc/{pid}/cgroup", f"0::/docker/{name}\n")
        machine.group2(f"/docker/{name}", memory_max=f"{8 * GIB}\n", memory_current=f"{used * GIB}\n")
    use = _groups(machine, [71, 72]).memory()
    assert use is not None and use.folder == "/sys/fs/cgroup/docker/b"


@pytest.mark.parametrize("path", ["/../../other", "/..", "/not/mounted/here", "relative"])
def test_a_group_that_cannot_be_seen_leaves_the_mount_point(machine, path) -> None:
    machine.mount("/", "/sys/fs/cgroup", "cgroup2")
    machine.write("/proc/self/cgroup", f"0::{path}\n")
    machine.group2("", memory_max=f"{GIB}\n", memory_current="5\n")
    use = _groups(machine).memory()
    assert use is not None and use.folder == "/sys/fs/cgroup"


def test_without_proc_self_cgroup_and_mountinfo_the_usual_places_are_tried(machine) -> None:
    """gVisor shows a version 1 tree that no file speaks of."""
    machine.write("/sys/fs/cgroup/memory/cgroup.procs", "1\n")
    machine.write("/proc/self/mounts", "none / 9p rw 0 0\n")
    machine.write("/sys/fs/cgroup/memory/memory.limit_in_bytes", f"{GIB}\n")
    machine.write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1048576\n")
    use = _groups(machine).memory()
    assert use is not None and (use.limit_mb, use.used_mb) == (1024, 1)


def test_no_control_groups_at_all(machine) -> None:
    machine.write("/proc/self/mountinfo", "22 1 254:0 / / rw - ext4 /dev/vda rw\n")
    groups = _groups(machine)
    assert groups.memory() is None and groups.cpu() is None
    assert groups.why == "no control groups are mounted here"


def test_a_group_that_goes_away_asks_to_be_looked_for(machine) -> None:
    machine.mount("/", "/sys/fs/cgroup", "cgroup2")
    machine.write("/proc/self/cgroup", "0::/a\n")
    machine.group2("/a", memory_max=f"{GIB}\n", memory_current="5\n")
    groups = _groups(machine)
    assert groups.memory() is not None and not groups.gone
    machine.remove("/sys/fs/cgroup/a/memory.current")
    assert groups.memory() is None and groups.gone


def test_paths_of_all_controllers() -> None:
    text = "12:cpu,cpuacct:/a:b\n3:name=systemd:/s\n0::/u\nnonsense\n:::\n7:memory\n"
    assert group_paths(text) == {"cpu": "/a:b", "cpuacct": "/a:b", "name=systemd": "/s", "": "/u"}


def test_pressure_in_words_of_the_kernel() -> None:
    assert pressure("some avg10=3.25 avg60=0\nfull avg10=9\n") == 3.25
    assert pressure("full avg10=9\n") is None
    assert pressure("some avg10=nan\n") is None
    assert pressure("") is None
