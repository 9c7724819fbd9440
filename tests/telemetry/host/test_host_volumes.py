"""Room on file systems, the ones that hang above all; and open descriptors."""

from __future__ import annotations

import os
import threading
import time

import pytest

from trainmon.samples import VolumeSample
from trainmon.telemetry.host.files import FilesReader
from trainmon.telemetry.host.mounts import mount_of, mounts
from trainmon.telemetry.host.reading import Found, Tree, Unreadable
from trainmon.telemetry.host.volumes import DEADLINE_S, Room, VolumeReader, ask, room_of, shared_memory


class Mounted:
    """Answers for paths below /data at once, for those below /dead only when it is let go."""

    def __init__(self) -> None:
        self.alive = threading.Event()
        self.asked: list[str] = []

    def __call__(self, path: str) -> Room:
        self.asked.append(path)
        if path.startswith("/dead"):
            self.alive.wait(60)
        if path.startswith("/gone"):
            raise FileNotFoundError(2, "No such file or directory")
        return Room(path, 30.0, 100.0)


@pytest.fixture
def mounted():
    made = Mounted()
    yield made
    made.alive.set()


def _reader(machine, mounted) -> VolumeReader:
    machine.mount("/", "/", "ext4")
    machine.mount("/", "/data", "nfs4")
    machine.mount("/", "/dead", "nfs")
    machine.mount("/", "/dev/shm", "tmpfs")
    return VolumeReader(Tree(machine.root), mounted, temporary="/tmp", here="/home/me")


def _until(reader: VolumeReader, now: float) -> tuple[VolumeSample, ...]:
    """What `take` gives, with patience for threads on a busy machine."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        found = reader.take(now)
        if found is not None:
            return found
        time.sleep(0.01)
    raise AssertionError("no answer")


def test_each_file_system_once_and_why(machine, mounted) -> None:
    reader = _reader(machine, mounted)
    reader.start(["/home/me", "/data/run/a", "/data/run/b", "/var/log", "/gone/x"], 0.0)
    found = _until(reader, 0.1)
    assert [(one.path, one.why, one.kind, one.used_mb, one.total_mb) for one in found] == [
        ("/", "working folder, logs, temporary files", "ext4", 30.0, 100.0),
        ("/data", "logs", "nfs4", 30.0, 100.0),
        ("/dev/shm", "shared memory", "tmpfs", 30.0, 100.0),
    ]
    assert "/data/run/b" not in mounted.asked, "one folder stands for its file system"
    assert reader.shm == Room("/dev/shm", 30.0, 100.0)
    assert reader.take(0.2) is None, "a round is told once"


def test_a_dead_mount_hangs_nothing_and_comes_back(machine, mounted) -> None:
    reader = _reader(machine, mounted)
    began = time.monotonic()
    reader.start(["/dead/logs", "/data"], 0.0)
    assert time.monotonic() - began < 20, "it does not wait for the mount"
    assert reader.take(1.0) is None, "within the deadline it may still answer"
    found = {one.path: one for one in _until(reader, DEADLINE_S)}
    assert found["/dead"] == VolumeSample("/dead", "logs", "nfs", None, None, True)
    assert found["/data"].used_mb == 30.0 and not found["/data"].hangs
    for now in (10.0, 20.0):
        reader.start(["/dead/logs", "/data"], now)
        found = {one.path: one for one in _until(reader, now + 0.1)}
        assert found["/dead"].hangs and found["/data"].used_mb == 30.0
    assert mounted.asked.count("/dead/logs") == 1, "one question at a time"
    mounted.alive.set()
    found = {one.path: one for one in _until(reader, 21.0)}
    assert found["/dead"] == VolumeSample("/dead", "logs", "nfs", 30.0, 100.0)
    reader.start(["/data"], 30.0)
    assert "/dead" not in {one.path for one in _until(reader, 30.1)}
    reader.end()


def test_threads_end_with_the_reader(machine, mounted) -> None:
    reader = _reader(machine, mounted)
    reader.start(["/data"], 0.0)
    _until(reader, 0.1)
    mine = [asker._thread for asker in reader._askers.values()]
    reader.end()
    for thread in mine:
        assert thread is not None
        thread.join(30)
        assert not thread.is_alive()


def test_the_folder_of_temporary_files_is_not_tried_out(machine, mounted, monkeypatch) -> None:
    """tempfile.gettempdir writes a file to see whether it can, and fails where nothing can be written."""
    monkeypatch.setenv("TMPDIR", "/data/scratch")
    reader = VolumeReader(Tree(machine.root), mounted, here="/home/me")
    reader.start([], 0.0)
    assert next((one.path, one.why) for one in _until(reader, 0.1)) == ("/data/scratch", "temporary files")
    monkeypatch.setenv("TMPDIR", "relative")
    monkeypatch.delenv("TEMP", raising=False)
    monkeypatch.delenv("TMP", raising=False)
    assert VolumeReader(Tree(machine.root), mounted)._temporary == "/tmp"


def test_no_mountinfo(machine, mounted) -> None:
    reader = VolumeReader(Tree(machine.root), mounted, temporary="", here="/home/me")
    reader.start(["/data/a"], 0.0)
    assert [(one.path, one.kind) for one in _until(reader, 0.1)] == [("/data/a", ""), ("/dev/shm", "")]


def test_shared_memory_that_is_not_there_says_why(machine, mounted) -> None:
    reader = _reader(machine, mounted)
    reader.start([], 0.0, shm="/gone/shm")
    _until(reader, 0.1)
    assert reader.shm is None and reader.shm_why == "No such file or directory"


def test_the_jobs_shared_memory_in_its_own_namespace(machine) -> None:
    tree = Tree(machine.root)
    machine.link("/proc/self/ns/mnt", "mnt:[1]")
    machine.link("/proc/7/ns/mnt", "mnt:[1]")
    machine.link("/proc/8/ns/mnt", "mnt:[2]")
    assert shared_memory(tree, [7]) == machine.root + "/dev/shm"
    assert shared_memory(tree, [7, 8]) == machine.root + "/proc/8/root/dev/shm"
    assert shared_memory(tree, [9]) == machine.root + "/dev/shm"


def test_room_is_that_of_a_plain_user(tmp_path) -> None:
    class Stat:
        f_frsize, f_blocks, f_bfree, f_bavail = 4096, 256 * 100, 256 * 60, 256 * 55

    assert room_of("/x", Stat()) == Room("/x", 40.0, 95.0)
    link = tmp_path / "link"
    link.symlink_to("/")
    assert ask(str(link)).real == "/"
    with pytest.raises(OSError):
        ask(str(tmp_path / "gone"))


def test_mounts_on_top_of_each_other_with_blanks_in_their_names(machine) -> None:
    machine.mount("/", "/", "ext4")
    machine.mount("/", "/mnt/my\\040data", "autofs")
    machine.mount("/", "/mnt/my\\040data", "nfs4")
    machine.mount("/", "/mnt/my", "xfs")
    found = mounts(Tree(machine.root))
    best = mount_of("/mnt/my data/run", found)
    assert best is not None and (best.point, best.kind) == ("/mnt/my data", "nfs4")
    assert mount_of("/mnt/mydata", found) == found[0]
    assert mount_of("relative", found) is None


def _files(machine, pids) -> Found:
    found = Found()
    FilesReader(Tree(machine.root)).read(pids, found)
    return found


def _process(machine, pid: int, count: int, limit: str, children: str = "") -> None:
    for number in range(count):
        machine.write(f"/proc/{pid}/fd/{number}", "")
    machine.write(
        f"/proc/{pid}/limits",
        f"Limit                     Soft Limit           Hard Limit           Units\nMax open files            {limit:<20} 4096                 files\n",
    )
    machine.write(f"/proc/{pid}/task/{pid}/children", children)


def test_the_fullest_process_of_the_job_its_workers_too(machine) -> None:
    machine.bare()
    _process(machine, 10, 8, "100", "11 12 ")
    _process(machine, 11, 9, "10", "10")
    _process(machine, 12, 20, "1000")
    found = _files(machine, [10])
    assert (found.values["open_files"], found.values["open_files_limit"]) == (9.0, 10.0)
    assert found.values["files_open_system"] == 5000.0
    assert found.missing["files_limit_system"] == "the machine has no limit"


def test_no_limit_and_no_process(machine) -> None:
    machine.bare()
    machine.write("/proc/sys/fs/file-nr", "300\t100\t1000\n")
    _process(machine, 10, 3, "unlimited")
    found = _files(machine, [10, 4])
    assert found.values["open_files"] == 3.0 and "open_files_limit" not in found.values
    assert (found.values["files_open_system"], found.values["files_limit_system"]) == (200.0, 1000.0)
    assert _files(machine, [4]).missing["open_files"] == "/proc/4/fd is not there"
    assert "no training process" in _files(machine, []).missing["open_files"]


def test_of_this_process_it_agrees_with_the_system() -> None:
    import resource

    found = Found()
    FilesReader(Tree("/")).read([os.getpid()], found)
    assert found.values["open_files"] >= 3
    assert found.values["open_files_limit"] == resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def test_a_folder_without_permission_says_so(machine, monkeypatch) -> None:
    """As root nothing is forbidden, so the call itself refuses."""
    machine.bare()

    def refuse(path: str) -> list[str]:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("trainmon.telemetry.host.reading.os.listdir", refuse)
    assert _files(machine, [10]).missing["open_files"] == "no permission to read /proc/10/fd"
    with pytest.raises(Unreadable, match="no permission"):
        Tree(machine.root).names("/sys/block")
