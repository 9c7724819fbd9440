"""Open descriptors: "Too many open files" is how a data loader with many workers or shards ends.

One listing per process and nothing else: `psutil.Process.open_files` asks for every single file, and psutil's
children() walks through all of /proc. None of these files needs the process's memory map, which may be locked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from trainmon.telemetry.host.reading import Found, Tree, Unreadable, whole, wholes

MOST_PROCESSES = 256
UNLIMITED = 2**62
_LIMIT = re.compile(r"^Max open files\s+(\S+)", re.MULTILINE)


class FilesReader:
    """The job's fullest process, and the machine as a whole. All of it belongs to the slow group."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    def read(self, pids: Iterable[int], found: Found) -> None:
        """Add what is known now."""
        self._system(found)
        best: tuple[float, int, int | None] | None = None
        why = "no training process is known on this machine"
        for pid in self._family(pids):
            try:
                count = self._tree.count(f"/proc/{pid}/fd")
            except Unreadable as error:
                why = str(error)
                continue
            limit = self._limit(pid)
            share = count / limit if limit else 0.0
            if best is None or (share, count) > best[:2]:
                best = (share, count, limit)
        if best is None:
            found.lack(why, "open_files", "open_files_limit")
            return
        found.put("open_files", float(best[1]))
        if best[2] is None:
            found.lack("the process has no limit, or does not say it", "open_files_limit")
        else:
            found.put("open_files_limit", float(best[2]))

    def _family(self, pids: Iterable[int]) -> list[int]:
        """The processes and what they started: the workers of data loaders are not on the GPU."""
        out: dict[int, None] = {}
        wait = [int(pid) for pid in pids]
        while wait and len(out) < MOST_PROCESSES:
            pid = wait.pop(0)
            if pid in out or pid <= 0:
                continue
            out[pid] = None
            try:
                text = self._tree.text(f"/proc/{pid}/task/{pid}/children", 65536)
            except Unreadable:
                continue
            wait.extend(child for word in text.split() if (child := whole(word)) is not None)
        return list(out)

    def _limit(self, pid: int) -> int | None:
        try:
            line = _LIMIT.search(self._tree.text(f"/proc/{pid}/limits"))
        except Unreadable:
            return None
        value = whole(line[1]) if line else None
        return value if value is not None and 0 < value < UNLIMITED else None

    def _system(self, found: Found) -> None:
        try:
            words = wholes(self._tree.text("/proc/sys/fs/file-nr").split())
        except Unreadable as error:
            found.lack(str(error), "files_open_system", "files_limit_system")
            return
        if words is None or len(words) != 3 or min(words) < 0:
            found.lack("/proc/sys/fs/file-nr says nothing", "files_open_system", "files_limit_system")
            return
        found.put("files_open_system", float(words[0] - min(words[1], words[0])))
        if words[2] < UNLIMITED:
            found.put("files_limit_system", float(words[2]))
        else:
            found.lack("the machine has no limit", "files_limit_system")
