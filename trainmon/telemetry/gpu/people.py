"""Who a process is: user, command, rank. Out of /proc, read once for each process."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from trainmon.telemetry.gpu import surroundings
from trainmon.telemetry.gpu.nvml import clean
from trainmon.telemetry.gpu.place import LOOK, Marker
from trainmon.telemetry.gpu.ranks import WANTED, Seat, expected, seat

MOST_PID = 2**22
"""Linux numbers processes below this (PID_MAX_LIMIT); early R535 drivers answer garbage beyond it."""
_COMMAND = 60
"""Characters of a command. Arguments other than a script or module are left out: some hold secrets."""
_ENVIRON = 1 << 18
_FIRST_NAMESPACE = "pid:[4026531836]"
"""The machine's own: the kernel gives it this number."""
_KEPT = 4096


@dataclass(frozen=True, slots=True)
class Person:
    """A process, as far as /proc tells.

    Attributes:
        born: Its start, in ticks since boot: another number under the same PID is another process.
    """

    born: str
    here: bool
    user: str = ""
    command: str = ""
    inner_pid: int | None = None
    seat: Seat = field(default_factory=Seat)


class People:
    """Remembers processes.

    Args:
        marker: Told before another process's memory is read: that can hang with the process.
        root: Stands for "/".
    """

    def __init__(self, marker: Marker, root: str = "/") -> None:
        self._marker = marker
        self._root = root
        self._known: dict[int, Person] = {}
        self._where: dict[int, dict[str, float]] = {}
        own = os.environ.get("USER") or os.environ.get("LOGNAME")
        self._users: dict[int, str] = {os.getuid(): own} if own else {}
        for line in surroundings.read(os.path.join(root, "etc/passwd"), 1 << 20).splitlines():
            parts = line.split(":")
            if len(parts) > 2 and parts[2].isdigit():
                self._users.setdefault(int(parts[2]), parts[0])
        self._asking: threading.Thread | None = None
        self._foreign = self._in_namespace()
        self.gpus: Sequence[tuple[str, str]] = ()
        """(UUID, name) of all GPUs in NVML's order."""

    def _path(self, pid: int, name: str = "") -> str:
        return os.path.join(self._root, "proc", str(pid), name)

    def _in_namespace(self) -> bool:
        """Whether NVML's numbers may be another namespace's than ours."""
        try:
            return os.readlink(os.path.join(self._root, "proc/self/ns/pid")) != _FIRST_NAMESPACE
        except OSError:
            return True

    def person(self, pid: int, names: bool = True) -> Person:
        """Who `pid` is.

        Args:
            names: Command and environment may be read.
        """
        born = _born(surroundings.read(self._path(pid, "stat")))
        known = self._known.get(pid)
        if known is not None and known.born == born and (known.user or not known.here):
            return known
        if len(self._known) >= _KEPT:
            self._known.clear()
        person = self._known[pid] = self._look(pid, born, names) if born else Person("", False)
        return person

    def _look(self, pid: int, born: str, names: bool) -> Person:
        if self._foreign and not self._uses_gpu(pid):
            return Person(born, False)  # its number there, somebody else's here
        try:
            uid = os.stat(self._path(pid)).st_uid
        except OSError:
            return Person("", False)
        command, found = "", Seat()
        if names:
            self._marker.at(f"{LOOK}/{pid}")
            command = short_command(surroundings.read(self._path(pid, "cmdline")))
            if uid == os.getuid():
                found = self._seat(pid)
        if not command:
            command = clean(surroundings.read(self._path(pid, "comm")), _COMMAND)
        return Person(born, True, self._user(uid), command, self._inner(pid), found)

    def _uses_gpu(self, pid: int) -> bool:
        """Whether it holds a device file of the driver's; True when that cannot be seen."""
        if not surroundings.has_nvidia_files(self._root):
            return True
        folder = self._path(pid, "fd")
        try:
            for name in os.listdir(folder):
                try:
                    if "/nvidia" in os.readlink(os.path.join(folder, name)):
                        return True
                except OSError:
                    continue
        except OSError:
            return True
        return False

    def _seat(self, pid: int) -> Seat:
        text = surroundings.read(self._path(pid, "environ"), _ENVIRON)
        found: dict[str, str] = {}
        for entry in text.split("\0"):
            name, equals, value = entry.partition("=")
            if equals and name in WANTED:
                found[name] = value
        return seat(found)

    def _inner(self, pid: int) -> int | None:
        for line in surroundings.read(self._path(pid, "status")).splitlines():
            if line.startswith("NSpid:"):
                numbers = line.split()[1:]
                if len(numbers) > 1 and numbers[-1].isdigit():
                    return int(numbers[-1])
        return None

    def _user(self, uid: int) -> str:
        """A user's name. What /etc/passwd does not hold is asked of the system beside the work: LDAP may hang."""
        name = self._users.get(uid)
        if name is None and (self._asking is None or not self._asking.is_alive()):
            self._asking = threading.Thread(target=self._ask_system, args=(uid,), daemon=True)
            self._asking.start()
        return name or ""

    def _ask_system(self, uid: int) -> None:
        try:
            import pwd

            self._users[uid] = pwd.getpwuid(uid).pw_name
        except (ImportError, KeyError, OSError):
            self._users[uid] = str(uid)

    def note(self, uuid: str, memory: dict[int, float]) -> None:
        """Remember which processes are on a GPU, with their MiB."""
        for pid in [pid for pid, places in self._where.items() if uuid in places and pid not in memory]:
            places = self._where[pid]
            del places[uuid]
            if not places:
                del self._where[pid]
                self._known.pop(pid, None)
        for pid, size in memory.items():
            self._where.setdefault(pid, {})[uuid] = size

    def ranks(self, pid: int, person: Person, uuid: str) -> tuple[int | None, int | None]:
        """(rank, local rank) of a process as seen from one of its GPUs.

        A process that also holds a little memory on another's GPU (a stray CUDA context on GPU 0 is common) has its
        rank on its own GPU only: the one that `CUDA_VISIBLE_DEVICES` and its local rank name, else the fullest.
        """
        at = person.seat
        if at.rank is None and at.local_rank is None:
            return None, None
        places = self._where.get(pid, {})
        if len(places) > 1:
            own = expected(at, self.gpus)
            if own not in places:
                own = max(places, key=lambda name: places[name])
            if own != uuid:
                return None, None
        if at.by_task and self._shared(pid, at):
            return None, None
        return at.rank, at.local_rank

    def _shared(self, pid: int, at: Seat) -> bool:
        for other, person in self._known.items():
            same = person.seat.by_task and (person.seat.rank, person.seat.job) == (at.rank, at.job)
            if same and other != pid and other in self._where:
                return True
        return False


def _born(stat: str) -> str:
    """Field 22 of /proc/PID/stat; the command before it may hold blanks and brackets."""
    fields = stat.rpartition(")")[2].split()
    return fields[19] if len(fields) > 19 else ""


def short_command(cmdline: str) -> str:
    """Program and script (or module) of a command line: "python train.py", "python -m torch.distributed.run"."""
    words = [word for word in cmdline.split("\0") if word]
    if not words:
        return ""
    if len(words) == 1 and " " in words[0]:  # a process that has named itself
        return clean(words[0], _COMMAND)
    out = [os.path.basename(words[0]) or words[0]]
    for place, word in enumerate(words[1:], 1):
        if word == "-m" and place + 1 < len(words):
            out += ["-m", words[place + 1]]
            break
        if word in ("-c", "-"):
            break
        if not word.startswith("-") and "=" not in word:
            if word.endswith((".py", ".sh", ".pyc")) or "python" not in out[0]:
                name = os.path.basename(word)
                if name.endswith((".py", ".sh", ".pyc")) or "python" in out[0]:
                    out.append(name)
            break
    return clean(" ".join(out), _COMMAND)
