"""The whole: life cycle, what a sample holds, sleep, garbage in every file, and machines with little in them."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trainmon.clock import ManualClock, SystemClock
from trainmon.samples import HOST_METRICS, HostSample, from_object, to_object
from trainmon.telemetry.host import cgroup, cpu, disks, infiniband, memory, mounts, network, reading
from trainmon.telemetry.host.reader import HostReader
from trainmon.telemetry.host.reading import Tree
from trainmon.telemetry.host.volumes import Room
from trainmon.telemetry.host.watch import HostWatch


def _room(path: str) -> Room:
    return Room(path, 10.0, 64.0)


def _reader(machine, clock) -> HostReader:
    return HostReader("node3", clock, machine.root, _room, temporary="", here="/home/me")


def _full(machine) -> None:
    """A machine with something in every file that is read."""
    machine.bare(4)
    machine.mount("/", "/sys/fs/cgroup", "cgroup2")
    machine.write("/proc/self/cgroup", "0::/box\n")
    machine.write("/proc/9/cgroup", "0::/box\n")
    machine.group2(
        "/box", memory_max="1073741824\n", memory_current="536870912\n", memory_stat="inactive_file 4096\n",
        memory_events="oom_kill 1\n", memory_pressure="some avg10=1.00\n",
        cpu_max="200000 100000\n", cpu_stat="usage_usec 5\nnr_periods 5\nnr_throttled 1\n",
    )  # fmt: skip
    machine.write("/sys/fs/cgroup/box/memory.swap.current", "0\n")
    machine.write("/proc/diskstats", "8 0 sda 1 1 1 1 1 1 1 1 0 1 1\n")
    machine.path("/sys/block/sda/slaves").mkdir(parents=True, exist_ok=True)
    machine.write("/proc/net/dev", "eth0: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n")
    for name, text in (
        ("operstate", "up"),
        ("speed", "1000"),
        ("type", "1"),
        ("carrier_down_count", "1"),
        ("uevent", ""),
    ):
        machine.write(f"/sys/class/net/eth0/{name}", text)
    machine.path("/sys/class/net/eth0/device").mkdir(exist_ok=True)
    port = "/sys/class/infiniband/mlx5_0/ports/1"
    for name, text in (
        ("state", "4: ACTIVE"), ("rate", "400 Gb/sec (4X NDR)"), ("link_layer", "InfiniBand"),
        ("counters/port_rcv_data", "1"), ("counters/port_xmit_data", "1"), ("counters/symbol_error", "0"),
        ("counters/link_downed", "0"),
    ):  # fmt: skip
        machine.write(f"{port}/{name}", text)
    machine.write("/proc/9/fd/0", "")
    machine.write("/proc/9/limits", "Max open files            1024                 4096                 files\n")
    machine.write("/proc/9/task/9/children", "")
    machine.allow("0-3", "9")


def test_everything_in_one_sample(machine) -> None:
    _full(machine)
    clock = ManualClock()
    reader = _reader(machine, clock)
    first = reader.look(folders=["/home/me"], pids=[9])
    assert first.disks is None and first.links is not None and first.volumes is not None
    clock.advance(2.0)
    second = reader.look(slow=False)
    assert second.volumes is None
    assert second.disks is not None and [disk.name for disk in second.disks] == ["sda"]
    assert [link.name for link in second.links or ()] == ["eth0", "mlx5_0"]
    both = {**first.values, **second.values}
    # load, and iowait of processors whose ticks stand still, cannot be had here
    assert both.keys() == HOST_METRICS.keys() - {"load_1m", "iowait_percent", "files_limit_system"}
    assert (second.node, second.time, second.origin, second.scope) == ("node3", clock.now(), "host", "container")
    assert both["shm_total_mb"] == 64.0
    assert from_object(to_object(first)) == first
    reader.end()


def test_a_reason_is_told_when_it_is_new_and_every_slow_look_and_taken_back(machine) -> None:
    clock = ManualClock()
    reader = _reader(machine, clock)
    first = reader.look()
    assert first.missing["memory_used_mb"] == "/proc/meminfo is not there"
    assert first.missing["disks"] == "/proc/diskstats is not there"
    assert first.missing["links"] == "/proc/net/dev is not there"
    assert all(name in HOST_METRICS or name in ("disks", "links") for name in first.missing)
    clock.advance(2.0)
    assert reader.look(slow=False).missing == {}
    machine.bare()
    clock.advance(2.0)
    third = reader.look(slow=False)
    assert third.missing["memory_used_mb"] == "" and third.values["memory_used_mb"] == 16000.0
    clock.advance(2.0)
    assert reader.look(slow=True).missing["disks"] == "/proc/diskstats is not there"
    reader.end()


def test_a_part_that_breaks_leaves_the_others(machine, monkeypatch) -> None:
    _full(machine)
    reader = _reader(machine, ManualClock())

    def breaks(*_: object) -> None:
        raise RuntimeError("new kernel")

    monkeypatch.setattr(reader._memory, "read", breaks)
    sample = reader.look()
    assert sample.missing["memory_used_mb"] == "could not be read (RuntimeError: new kernel)"
    assert sample.values["cpus"] == 2.0 and sample.links
    reader.end()


def _steps(machine) -> list[str]:
    return sorted("/" + str(path.relative_to(machine.root)) for path in Path(machine.root).rglob("*") if path.is_file())


def _spoilt(text: bytes, at: int, much: int, by: bytes) -> bytes:
    """`text` with `much` bytes from `at` on replaced."""
    at %= len(text) + 1
    return text[:at] + by + text[at + much :]


_numbers = st.integers(-(2**70), 2**70).map(lambda number: str(number).encode())
_lines = (
    _numbers
    | st.binary(max_size=200)
    | st.text(alphabet="0123456789 -.:/,\n\t%ax²٣", max_size=120).map(
        lambda text: text.encode("utf-8", "surrogatepass")
    )
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_garbage_in_any_file(machine, data) -> None:
    """No part may break (it would say "could not be read"), and no figure may be other than finite and sane."""
    _full(machine)
    clock = ManualClock()
    reader = _reader(machine, clock)
    reader.look(folders=["/home/me"], pids=[9])
    files = _steps(machine)
    whole = st.tuples(st.sampled_from(files), st.none(), st.just(0), _lines)
    part = st.tuples(st.sampled_from(files), st.integers(0, 400), st.integers(0, 20), _lines)
    for round_ in data.draw(st.lists(st.lists(whole | part, min_size=1, max_size=6), min_size=2, max_size=2)):
        for name, at, much, by in round_:
            machine.write(name, by if at is None else _spoilt(machine.path(name).read_bytes(), at, much, by))
        clock.advance(2.0)
        sample = reader.look(folders=["/home/me"], pids=[9])
        assert not [why for why in sample.missing.values() if "could not be read" in why]
        assert sample.values.keys() <= HOST_METRICS.keys()
        for name, value in sample.values.items():
            assert 0.0 <= value < 2**65, name
            assert value <= 100.0 or not name.endswith("percent"), name
        for row in (*(sample.disks or ()), *(sample.links or ())):
            for value in (getattr(row, name) for name in row.__slots__ if name not in ("name", "kind", "state")):
                assert value is None or 0.0 <= value < 2**72, row
        assert from_object(to_object(sample)) is not None
    reader.end()


_words = st.sampled_from([
    "-", " ", "\n", ":", "/", "0", "1", "18446744073709551616", "-1", "max", "cpu", "cpu0", "some", "avg10=", "0::/", "rw",
    "/sys/fs/cgroup", "/..", "memory", "sda", "eth0:", "kB", "MemTotal:", "\\040", "cgroup2", " - ", ",", "oom_kill", "3-1", "²",
])  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(words=st.lists(_words, max_size=60), glue=st.sampled_from(["", " "]))
def test_parsers_take_any_text(words, glue) -> None:
    """Each for itself: a broken line must be passed over where it is parsed, not be caught further up."""
    text = glue.join(words)

    class OneText(Tree):
        def text(self, name: str, most: int = 0) -> str:
            return text

    for parse in (
        cgroup.group_paths, cgroup.pressure, cpu.cpu_list, cpu._cpu_lines, memory._meminfo, disks.diskstats,
        network.netdev, infiniband.port_rate, reading.pairs, reading.whole, reading.decimal,
    ):  # fmt: skip
        parse(text)
    assert all(mount.point for mount in mounts.mounts(OneText()))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_files_missing(machine, data) -> None:
    _full(machine)
    for name in data.draw(st.lists(st.sampled_from(_steps(machine)), unique=True)):
        machine.remove(name)
    clock = ManualClock()
    reader = _reader(machine, clock)
    for _ in range(2):
        sample = reader.look(pids=[9])
        assert not [why for why in sample.missing.values() if "could not be read" in why]
        clock.advance(2.0)
    reader.end()


def test_every_file_empty(machine) -> None:
    """As behind masks of /dev/null: each figure that is absent has its reason, and lists are empty."""
    _full(machine)
    clock = ManualClock()
    for name in _steps(machine):
        machine.write(name, "")
    reader = _reader(machine, clock)
    first = reader.look(pids=[9])
    clock.advance(2.0)
    second = reader.look(pids=[9])
    assert second.disks == () and [link.name for link in second.links or ()] == []
    for sample in (first, second):
        assert HOST_METRICS.keys() - sample.values.keys() == sample.missing.keys()
    reader.end()


def test_a_file_that_is_a_folder_or_never_ends(machine) -> None:
    machine.bare()
    machine.remove("/proc/meminfo")
    machine.path("/proc/meminfo").mkdir()
    machine.link("/proc/net/dev", "/dev/zero")
    sample = _reader(machine, ManualClock()).look()
    assert sample.missing["memory_used_mb"] == "/proc/meminfo: Is a directory"
    assert sample.links == ()


class Sink:
    def __init__(self, stuck: threading.Event | None = None) -> None:
        self.got: list[HostSample] = []
        self.came = threading.Event()
        self._stuck = stuck

    def __call__(self, samples: list) -> None:
        self.got += samples
        self.came.set()
        if self._stuck is not None:
            self._stuck.wait(60)
        raise RuntimeError("a sink that breaks is no reason to end")


def _wait(true) -> None:
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_it_starts_stops_and_starts_again(machine) -> None:
    _full(machine)
    sink = Sink()
    watch = HostWatch(
        sink, node="node3", clock=SystemClock(), interval_s=0.15, root=machine.root,
        folders=lambda: [str(machine.root)], pids=lambda: [9],
    )  # fmt: skip
    watch.stop()
    watch.start()
    watch.start()
    _wait(lambda: len(sink.got) >= 3)
    assert sink.got[0].values["open_files"] == 1.0
    assert sink.got[1].disks is not None
    watch.set_interval(0.05)
    watch.stop()
    # A look that was under way when it stopped may still end; nothing comes after.
    _wait(lambda: not [one for one in threading.enumerate() if one.name == "trainmon-host"])
    count = len(sink.got)
    time.sleep(0.3)
    assert len(sink.got) == count
    watch.start()
    _wait(lambda: len(sink.got) > count)
    watch.stop()


def test_stop_does_not_wait_for_a_thread_that_is_stuck(machine) -> None:
    machine.bare()
    free = threading.Event()
    sink = Sink(free)
    watch = HostWatch(sink, node="node3", clock=SystemClock(), interval_s=0.1, root=machine.root)
    watch.start()
    assert sink.came.wait(60)
    began = time.monotonic()
    watch.stop()
    assert time.monotonic() - began < 20
    free.set()
    _wait(lambda: not [one for one in threading.enumerate() if one.name == "trainmon-host"])
    assert len(sink.got) == 1, "it is mute from then on"


def test_callers_functions_that_break(machine) -> None:
    machine.bare()

    def breaks() -> list:
        raise KeyError("gone")

    sink = Sink()
    watch = HostWatch(
        sink, node="n", clock=SystemClock(), interval_s=0.1, root=machine.root, folders=breaks, pids=breaks
    )
    watch.start()
    _wait(lambda: len(sink.got) >= 2)
    watch.stop()
    assert sink.got[0].values["memory_total_mb"] == 64000.0


def test_after_a_sleep_of_the_machine_no_mean_is_taken_over_it(machine) -> None:
    _full(machine)
    clock = ManualClock()
    sink = Sink()
    steps = iter([2.0, 3600.0, 2.0])
    watch = HostWatch(sink, node="n", clock=clock, interval_s=2.0, root=machine.root)

    class Over(threading.Event):
        """Time passes only while the watch waits."""

        def wait(self, timeout: float | None = None) -> bool:
            step = next(steps, None)
            if step is None:
                self.set()
            else:
                clock.advance(step)
                machine.write("/proc/diskstats", f"8 0 sda 1 1 {int(clock.monotonic())} 1 1 1 1 1 0 1 1\n")
            return self.is_set()

    watch._run(Over())
    assert [one.disks is not None for one in sink.got] == [False, True, False, True]


def test_how_often_the_slow_part_is_looked_at(machine) -> None:
    machine.bare()
    clock = ManualClock()
    sink = Sink()
    watch = HostWatch(sink, node="n", clock=clock, interval_s=2.0, root=machine.root)

    class Over(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            clock.advance(timeout or 0.0)
            if clock.monotonic() > 33.0:
                self.set()
            return self.is_set()

    watch._run(Over())
    slow = [one.time - 1_764_500_000.0 for one in sink.got if "files_open_system" in one.values]
    assert slow == [0.0, 9.0, 19.0, 29.0], "after the early second look"


@pytest.mark.parametrize("root", ["/nowhere/at/all", "/dev/null"])
def test_a_root_that_is_none(root) -> None:
    sample = HostReader("n", ManualClock(), root, _room, temporary="", here="/").look()
    assert sample.values.keys() <= {"shm_used_mb", "shm_total_mb"}
    assert {"cpu_percent", "memory_used_mb", "disks", "links"} <= sample.missing.keys()
