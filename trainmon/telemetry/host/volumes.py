"""Room on the file systems that matter: those of the logs, the working folder, temporary files and shared memory.

`statvfs` on a dead network file system never returns, and neither does any look at a path on it. So every folder is
asked by a thread of its own, one call at a time; a folder that does not answer within the deadline is said to hang and
asked no further until it does. Where a path is mounted is told from the text of mountinfo.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from trainmon.samples import VolumeSample
from trainmon.telemetry.host.mounts import Mount, mount_of, mounts
from trainmon.telemetry.host.reading import MIB, Tree, Unreadable

DEADLINE_S = 2.0
"""A file system that has not told its size by then hangs: local ones answer in microseconds, NFS in milliseconds."""
PATIENCE_S = 0.05
"""How long a round is waited for at once, so that its answers are in the same sample."""
MOST_FOLDERS = 64
SHM = "/dev/shm"
_ROOT_OF = re.compile(r"/proc/\d+/root/")


class Statvfs(Protocol):
    """What is used of `os.statvfs_result`."""

    @property
    def f_frsize(self) -> int: ...
    @property
    def f_blocks(self) -> int: ...
    @property
    def f_bfree(self) -> int: ...
    @property
    def f_bavail(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Room:
    """MiB that are used, and used or free for a plain user together, as in df; `real` is the path without links."""

    real: str
    used_mb: float
    total_mb: float


def ask(path: str) -> Room:
    """Ask the kernel. May never return.

    Raises:
        OSError: it cannot be asked.
    """
    # /proc/<pid>/root leads into another mount namespace, its text says only "/".
    real = path if _ROOT_OF.search(path) else os.path.realpath(path)
    return room_of(real, os.statvfs(real))


def room_of(real: str, stat: Statvfs) -> Room:
    """What root may fill beyond others counts as neither used nor free: a job that is not root ends before it."""
    unit = stat.f_frsize / MIB
    used = max(0, stat.f_blocks - stat.f_bfree) * unit
    return Room(real, used, used + max(0, stat.f_bavail) * unit)


class _Asker:
    """One folder and the thread that asks for it. The thread is started by the first question and waits for more."""

    def __init__(self, path: str, how: Callable[[str], Room]) -> None:
        self.path = path
        self._how = how
        self._wanted = threading.Semaphore(0)
        self._answered = threading.Event()
        self._over = False
        self._thread: threading.Thread | None = None
        self.asked: float | None = None
        """When the question was put that is not answered yet (monotonic seconds)."""
        self.answer: Room | None = None
        self.error = ""
        self.hung = False

    def put(self, now: float, answered: threading.Event) -> None:
        if self.asked is not None:
            return
        self.asked = now
        self._answered = answered
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="trainmon-volume", daemon=True)
            self._thread.start()
        self._wanted.release()

    def end(self) -> None:
        self._over = True
        self._wanted.release()

    def _run(self) -> None:
        while True:
            self._wanted.acquire()
            if self._over:
                return
            try:
                answer, error = self._how(self.path), ""
            except Exception as failure:  # a path with odd bytes, a mount that goes away
                answer, error = None, str(getattr(failure, "strerror", None) or failure)
            self.answer, self.error = answer, error
            self.asked = None
            self._answered.set()


class VolumeReader:
    """Rounds of questions. `start` puts them, `take` gathers the answers, neither waits for a file system.

    Args:
        tree: Where /proc is.
        how: Asks for one path; a test's may hang.
        temporary: Folder of temporary files; "" leaves it out.
        here: The working folder, which is named so among those of `start`.
    """

    def __init__(
        self,
        tree: Tree,
        how: Callable[[str], Room] = ask,
        temporary: str | None = None,
        here: str | None = None,
    ) -> None:
        self._tree = tree
        self._how = how
        self._temporary = _temporary_folder() if temporary is None else temporary
        self._here = _working_folder() if here is None else here
        self._askers: dict[str, _Asker] = {}
        self._whys: dict[str, str] = {}
        self._shm = SHM
        self._mounts: list[Mount] = []
        self._round: float | None = None
        self.shm: Room | None = None
        self.shm_why = ""

    def start(self, folders: Sequence[str], now: float, shm: str = SHM) -> None:
        """Put the questions of a round; those that still wait for an answer are not put again.

        Args:
            folders: Whose file systems matter.
            now: Monotonic seconds.
            shm: The job's shared memory.
        """
        try:
            self._mounts = mounts(self._tree)
        except Unreadable:
            self._mounts = []
        self._whys = self._wanted(folders, shm)
        for gone in self._askers.keys() - self._whys.keys():
            self._askers.pop(gone).end()
        self._shm = shm
        self._round = now
        events = []
        for path in self._whys:
            asker = self._askers.get(path)
            if asker is None:
                asker = self._askers[path] = _Asker(path, self._how)
            if asker.asked is None:
                event = threading.Event()
                asker.put(now, event)
                if not asker.hung:
                    events.append(event)
        until = time.monotonic() + PATIENCE_S
        for event in events:
            event.wait(max(0.0, until - time.monotonic()))

    def _wanted(self, folders: Sequence[str], shm: str) -> dict[str, str]:
        """Path -> why it is looked at; of many folders on one mount the first stands for all."""
        out: dict[str, str] = {}
        seen: set[str] = set()
        for folder in folders:
            path = os.path.normpath(os.path.join(self._here, folder))
            here = path == self._here
            mount = mount_of(path, self._mounts)
            key = ("here:" if here else "") + (mount.point if mount else path)
            if key not in seen and len(out) < MOST_FOLDERS:
                seen.add(key)
                out[path] = "working folder" if here else "logs"
        if self._temporary:
            out.setdefault(self._temporary, "temporary files")
        out.setdefault(shm, "shared memory")
        return out

    def take(self, now: float) -> tuple[VolumeSample, ...] | None:
        """The round's volumes when all have answered or missed the deadline, or one came back; else None."""
        came_back = False
        waits = False
        for asker in self._askers.values():
            if asker.asked is None:
                came_back = came_back or asker.hung
                asker.hung = False
            elif now - asker.asked >= DEADLINE_S:
                came_back = came_back or not asker.hung
                asker.hung = True
            else:
                waits = True
        if not came_back and (self._round is None or waits):
            return None
        self._round = None
        return self._samples()

    def _samples(self) -> tuple[VolumeSample, ...]:
        rows: dict[str, VolumeSample] = {}
        for path, why in self._whys.items():
            asker = self._askers[path]
            room = asker.answer
            if path == self._shm:
                self.shm = None if asker.hung else room
                self.shm_why = "does not answer" if asker.hung else asker.error
            if room is None and not asker.hung:
                continue  # not there, or not for us
            real = room.real if room is not None else path
            mount = mount_of(real, self._mounts)
            point = SHM if path == self._shm else mount.point if mount is not None else real
            made = VolumeSample(
                point, why, mount.kind if mount is not None and not _ROOT_OF.search(real) else "",
                None if asker.hung or room is None else round(room.used_mb, 1),
                None if asker.hung or room is None else round(room.total_mb, 1),
                asker.hung,
            )  # fmt: skip
            known = rows.get(point)
            if known is None:
                rows[point] = made
            elif why not in known.why.split(", "):
                best = known if known.hangs or not made.hangs else made
                rows[point] = VolumeSample(
                    point, f"{known.why}, {why}", best.kind, best.used_mb, best.total_mb, best.hangs
                )
        return tuple(rows.values())

    def room(self, path: str) -> Room | None:
        """The newest answer for one of the round's folders; None: it hangs or cannot be asked."""
        asker = self._askers.get(os.path.normpath(os.path.join(self._here, path)))
        return None if asker is None or asker.hung else asker.answer

    def end(self) -> None:
        """Let the threads go; one that hangs goes when its file system answers."""
        for asker in self._askers.values():
            asker.end()
        self._askers = {}


def shared_memory(tree: Tree, pids: Sequence[int]) -> str:
    """Path of the job's /dev/shm: a container has its own, Docker's has 64 MB (pytorch/pytorch#5040).

    It is reached through /proc/<pid>/root, if we may look there; else it is ours.
    """
    ours = tree.link("/proc/self/ns/mnt")
    for pid in pids[:16]:
        theirs = tree.link(f"/proc/{int(pid)}/ns/mnt")
        if ours and theirs and theirs != ours:
            return tree.path(f"/proc/{int(pid)}/root{SHM}")
    return tree.path(SHM)


def _temporary_folder() -> str:
    """As `tempfile.gettempdir` says it, which tries it out by writing a file: that is not ours to do."""
    named = (os.environ.get(name, "") for name in ("TMPDIR", "TEMP", "TMP"))
    return next((name for name in named if os.path.isabs(name)), "/tmp")


def _working_folder() -> str:
    try:
        return os.getcwd()
    except OSError:
        return "/"
