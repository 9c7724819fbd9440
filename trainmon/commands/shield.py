"""The way out of a read that the kernel does not let go of.

A call into a FUSE file system (and some others) that hangs cannot be ended, not even by `kill -9`: a process with a
thread in it stays, dead, and the shell that waits for it gives no prompt. Where sources lie on such a file system the
screen therefore runs in a child; the parent does nothing but wait, and ends as soon as the child *says* how it ended.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterable
from pathlib import Path

from trainmon.commands.ending import code_of

_STUCK = frozenset(
    {"fuse", "lustre", "gpfs", "beegfs", "cifs", "smb3", "9p", "ceph", "orangefs", "pvfs2", "afs", "wekafs", "panfs"}
)
"""File systems whose calls may not be interruptible. NFS is not among them: since Linux 2.6.25 a kill ends its."""
_LOCAL = frozenset({"fuse.fuse-overlayfs", "fuse.lxcfs", "fuse.portal", "fuse.gvfsd-fuse"})
"""FUSE, but of this machine: the root of some containers."""
_LINKS = 40
_ASKED = {signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGCONT}
_TOLD = signal.SIGUSR1
_PR_SET_PDEATHSIG = 1


def may_stick(paths: Iterable[str], mounts: str | None = None) -> bool:
    """Whether one of these paths lies where a call that hangs cannot be ended. Touches nothing that lies there.

    Args:
        paths: Files, folders, patterns.
        mounts: Text of `/proc/self/mountinfo`; None: read now.
    """
    if mounts is None:
        try:
            mounts = Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape")
        except OSError:  # no Linux, no /proc
            return False
    bad: list[str] = []
    good: list[str] = []
    for line in mounts.splitlines():
        fields, _, rest = line.partition(" - ")
        kind, place = rest.partition(" ")[0], fields.split(" ")[4:5]
        if place:
            base = kind.partition(".")[0]
            (bad if base in _STUCK and kind not in _LOCAL else good).append(_unescaped(place[0]))
    if not bad:
        return False
    return any(_leads_to(os.path.abspath(path), bad, good) for path in paths)


def _leads_to(path: str, bad: list[str], good: list[str]) -> bool:
    """Follow a path link by link, and stop in front of a mount that may hang."""
    here, todo = "/", path.split("/")
    for _ in range(_LINKS):
        while todo:
            place = os.path.normpath(os.path.join(here, todo.pop(0)))
            if _depth(place, bad) > _depth(place, good):
                return True
            try:
                link = os.readlink(place)
            except (OSError, ValueError):  # no link, or not there
                here = place
                continue
            todo = [*link.split("/"), *todo]
            here = "/" if link.startswith("/") else here
            break
        else:
            return False
    return False


def _depth(path: str, mounts: list[str]) -> int:
    """Length of the longest mount point above a path; -1 when there is none."""
    above = (len(m.rstrip("/")) for m in mounts if path == m or path.startswith(m.rstrip("/") + "/"))
    return max(above, default=-1)


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def shielded(work: Callable[[], int]) -> int:
    """Do something in a child process, and return its exit code once it says it.

    Signals, stops and the child's death are passed on; only a SIGSTOP to this process is not.
    """
    ears, mouth = os.pipe()
    heard = {*_ASKED, _TOLD, signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, heard)
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        os.close(ears)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        _die_with(parent)
        code = code_of(work)
        _flush()
        os.write(mouth, bytes((code & 0xFF,)))
        os.kill(parent, _TOLD)
        # Not by way of the interpreter's end, which would do all of it twice.
        os._exit(code & 0xFF)
    os.close(mouth)
    try:
        return _wait(child, ears, heard)
    finally:
        os.close(ears)
        signal.signal(_TOLD, signal.SIG_IGN)  # its word may have been read before its signal came
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _wait(child: int, ears: int, heard: set[signal.Signals]) -> int:
    os.set_blocking(ears, False)
    while True:
        info = signal.sigwaitinfo(heard)
        code = _said(ears)
        if code is not None:
            return code
        if info.si_signo == signal.SIGCHLD:
            pid, status = os.waitpid(child, os.WNOHANG | os.WUNTRACED)
            if pid and os.WIFSTOPPED(status):
                os.kill(os.getpid(), signal.SIGSTOP)  # so that the shell sees it
                os.kill(child, signal.SIGCONT)
            elif pid:
                late = _said(ears)
                return late if late is not None else _code(status)
        elif info.si_signo != _TOLD and info.si_code <= 0:
            os.kill(child, info.si_signo)  # what the terminal sends it has sent to the child, too


def _said(ears: int) -> int | None:
    try:
        data = os.read(ears, 1)
    except BlockingIOError:
        return None
    return data[0] if data else None


def _code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _die_with(parent: int) -> None:
    """Have the kernel end us when the parent is killed; not by a hang-up, which `nohup` ignores."""
    try:
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    except (ImportError, OSError, AttributeError):
        return
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGTERM)


def _flush() -> None:
    import sys

    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):
            continue
