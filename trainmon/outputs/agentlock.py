"""One agent a node and folder: a lock that dies with its holder, and a heartbeat where locks do not work.

The lock is `flock` on `.trainmon-agent-NODE.lock` beside the output; the kernel lets go of it however the holder ends.
Some shared file systems have no `flock`: there the file's own age tells, since a living agent touches it.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

BEAT_S = 10.0
"""Between two touches."""
DEAD_S = 60.0
"""A file that was not touched for so long belongs to nobody."""
_NO_LOCKS = frozenset((errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL))


@dataclass(frozen=True, slots=True)
class Holder:
    """Who has the lock: its PID on its machine, and when it began (Unix seconds); None: it does not say."""

    pid: int | None = None
    since: float | None = None


class AgentLock:
    """See the module's docstring.

    Args:
        path: The lock file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = -1
        self._beaten = 0.0

    def take(self, now: float) -> Holder | None:
        """Try to get the lock.

        Args:
            now: Unix seconds.

        Returns:
            None when it is ours, else who has it.

        Raises:
            OSError: The file cannot be made.
        """
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                    holder = _holder(fd)
                    os.close(fd)
                    return holder
                if error.errno not in _NO_LOCKS:
                    raise
                age = now - os.fstat(fd).st_mtime
                holder = _holder(fd)
                if holder.pid is not None and holder.pid != os.getpid() and -DEAD_S < age < DEAD_S:
                    os.close(fd)
                    return holder
            os.ftruncate(fd, 0)
            os.pwrite(fd, json.dumps({"pid": os.getpid(), "since": round(now)}).encode() + b"\n", 0)
        except OSError:
            try:
                os.close(fd)
            except OSError:
                pass
            raise
        self._fd = fd
        return None

    def beat(self) -> Holder | None:
        """Touch the file, at most once in ten seconds. One that is gone (with its folder) is made anew.

        Returns:
            None while the lock is ours, else who took it meanwhile.
        """
        now = time.monotonic()
        if self._fd < 0 or now - self._beaten < BEAT_S:
            return None
        self._beaten = now
        mine = self._fd
        try:
            os.utime(mine)
            if self._there():
                return None
            holder = self.take(time.time())
        except OSError:
            return None  # there is no folder: nobody else can be in it
        if holder is None:
            os.close(mine)
        return holder

    def _there(self) -> bool:
        """Whether the file that we hold is still the one of that name."""
        try:
            return os.path.samestat(os.stat(self.path, follow_symlinks=False), os.fstat(self._fd))
        except FileNotFoundError:
            return False

    def free(self) -> None:
        """Let go. The file stays, empty: removing it would let two agents hold two files of one name."""
        if self._fd < 0:
            return
        try:
            os.ftruncate(self._fd, 0)
        except OSError:
            pass
        os.close(self._fd)
        self._fd = -1


def _holder(fd: int) -> Holder:
    try:
        found = json.loads(os.pread(fd, 200, 0))
        pid, since = found["pid"], found["since"]
    except (OSError, ValueError, KeyError, TypeError):
        return Holder()
    return Holder(pid if type(pid) is int else None, float(since) if isinstance(since, (int, float)) else None)
