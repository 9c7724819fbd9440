"""A read that the kernel does not let go of must not keep the prompt from coming back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from trainmon.commands.shield import may_stick

MOUNTS = r"""
22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw
30 22 0:44 / /mnt/bucket rw,relatime - fuse.gcsfuse gcsfuse rw
31 22 0:45 / /mnt/with\040space rw - fuse.sshfs host: rw
32 30 8:2 / /mnt/bucket/local rw - ext4 /dev/sdb rw
33 22 0:46 / /nfs rw - nfs4 server:/x rw
34 22 0:47 / /lustre rw - lustre mds:/x rw
35 22 0:48 / /mnt/ntfs rw - fuseblk /dev/sdc rw
"""


@pytest.mark.parametrize(
    ("path", "sticks"),
    [
        ("/mnt/bucket/run/worker-*.log", True),
        ("/mnt/bucket", True),
        ("/mnt/with space/a.log", True),
        ("/mnt/bucket2/a.log", False),
        ("/mnt/bucket/local/a.log", True),
        ("/nfs/a.log", False),
        ("/lustre/a.log", True),
        ("/mnt/ntfs/a.log", False),
        ("/home/me/a.log", False),
        ("", False),
    ],
)
def test_which_file_systems_may_stick(path: str, sticks: bool) -> None:
    assert may_stick([path], MOUNTS) is sticks


def test_a_container_whose_root_is_fuse_needs_no_shield() -> None:
    assert not may_stick(["/a.log"], "22 1 0:1 / / rw - fuse.fuse-overlayfs fuse-overlayfs rw")
    assert not may_stick(["/a.log"], "nonsense\n1 2 3\n - \n")


def test_a_link_into_such_a_file_system_counts(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    mounts = f"22 1 8:1 / / rw - ext4 d rw\n30 22 0:1 / {tmp_path}/real rw - fuse.x x rw\n"
    assert may_stick([str(tmp_path / "link" / "a.log")], mounts)


HEAD = """
import os, signal, sys, time
from trainmon.commands.shield import shielded
from trainmon.errors import SourceError

def work():
    print(os.getpid(), flush=True)
"""
TAIL = "\nsys.exit(shielded(work))\n"


class Run:
    """A process that does something behind the shield."""

    def __init__(self, body: str) -> None:
        code = HEAD + "".join(f"    {line}\n" for line in body.strip().splitlines()) + TAIL
        self.process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self.process.stdout is not None
        self.child = int(self.process.stdout.readline())

    def end(self) -> tuple[int, str]:
        _, err = self.process.communicate(timeout=60)
        return self.process.returncode, err

    def until(self, good: str, pid: int) -> None:
        end = time.monotonic() + 60
        while (status := psutil.Process(pid).status()) != good:
            assert time.monotonic() < end, status
            time.sleep(0.02)


@pytest.mark.parametrize(
    ("body", "code", "said"),
    [
        ("return 0", 0, ""),
        ("return 3", 3, ""),
        ("raise SystemExit(143)", 143, ""),
        ("raise KeyboardInterrupt", 130, ""),
        ("raise SourceError('no such thing')", 3, "trainmon: no such thing\n"),
        ("os.kill(os.getpid(), signal.SIGKILL)", 137, ""),
    ],
)
def test_the_exit_code_is_the_childs(body: str, code: int, said: str) -> None:
    assert Run(body).end() == (code, said)


def test_nobody_waits_for_a_child_that_has_said_its_last_word() -> None:
    """As one does whose thread hangs in the kernel: here it is stopped right after its word."""
    run = Run("os._exit = lambda code: os.kill(os.getpid(), signal.SIGSTOP)\nreturn 7")
    try:
        assert run.process.wait(60) == 7
        run.until(psutil.STATUS_STOPPED, run.child)
    finally:
        os.kill(run.child, signal.SIGKILL)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_signals_reach_the_child(number: signal.Signals) -> None:
    run = Run(
        "def leave(n, _): raise SystemExit(100 + n)\n"
        "for n in (1, 2, 15): signal.signal(n, leave)\n"
        "print('ready', flush=True)\n"
        "while True: time.sleep(0.05)"
    )
    assert run.process.stdout is not None and run.process.stdout.readline() == "ready\n"
    run.process.send_signal(number)
    assert run.end()[0] == 100 + number


def test_a_stop_of_the_child_stops_the_parent_and_both_go_on() -> None:
    run = Run("os.kill(os.getpid(), signal.SIGSTOP)\nreturn 5")
    run.until(psutil.STATUS_STOPPED, run.process.pid)
    os.killpg(run.process.pid, signal.SIGCONT)
    assert run.end()[0] == 5


def test_a_parent_that_is_killed_takes_the_child_along() -> None:
    run = Run("while True: time.sleep(0.05)")
    child = psutil.Process(run.child)
    run.process.kill()
    run.process.wait()
    child.wait(60)
