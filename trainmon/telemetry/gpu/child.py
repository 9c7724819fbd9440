"""A worker process, seen from the watchdog: started, read, told, killed; never waited for."""

from __future__ import annotations

import json
import mmap
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import Any

from trainmon.telemetry.gpu import surroundings
from trainmon.telemetry.gpu.place import BLOCK, Place, Wishes, read_place, write_wishes

COMMAND = (sys.executable, "-P", "-m", "trainmon.telemetry.gpu.worker")
"""-P: a `json.py` in the folder that trainmon is started in must not be taken for the library's."""
_CHUNK = 1 << 16
_LONGEST = 1 << 20
"""Bytes of a line; a worker that writes a longer one is out of its mind."""
_MOST_CHUNKS = 64
"""Read at one look: whoever writes without end must not keep the watchdog from everything else."""


class Child:
    """One worker.

    Args:
        command: To which the options are added as one JSON object.
        options: See `worker.main`.
        wishes: What it is to do at first.

    Raises:
        OSError: It cannot be started.
    """

    def __init__(self, command: Sequence[str], options: Mapping[str, Any], wishes: Wishes) -> None:
        self.only: int | None = options.get("only")
        self.ended = ""
        """Why it ended by itself, in its own word."""
        self.error = ""
        self.born = time.monotonic()
        self._rest = b""
        self._wishes = wishes
        fd = _memory()
        try:
            os.ftruncate(fd, BLOCK)
            self._block = memoryview(mmap.mmap(fd, BLOCK))
            write_wishes(self._block, wishes)
            given = json.dumps({**options, "fd": fd, "parent": os.getpid()})
            self._process = subprocess.Popen(
                [*command, given],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                pass_fds=(fd,),
                start_new_session=True,
            )
        finally:
            os.close(fd)
        assert self._process.stdout is not None
        self.fd = self._process.stdout.fileno()
        os.set_blocking(self.fd, False)

    @property
    def pid(self) -> int:
        """Its process number."""
        return self._process.pid

    def lines(self) -> list[dict[str, Any]] | None:
        """What it has written since the last time; None once it is gone and everything is read."""
        found: list[dict[str, Any]] = []
        for _ in range(_MOST_CHUNKS):
            try:
                data = os.read(self.fd, _CHUNK)
            except BlockingIOError:
                return found
            except OSError:
                data = b""
            if not data:
                return found or None
            *whole, self._rest = (self._rest + data).split(b"\n")
            if len(self._rest) > _LONGEST:
                self._rest = b""
            for line in whole:
                try:
                    one = json.loads(line)
                except (ValueError, RecursionError):
                    continue
                if isinstance(one, dict):
                    found.append(one)
            if len(data) < _CHUNK:
                break
        return found

    def place(self) -> Place | None:
        """Where it is; None when it moves right now."""
        return read_place(self._block)

    def wish(self, wishes: Wishes) -> None:
        """Tell it what to do from the next round on."""
        if wishes != self._wishes:
            self._wishes = wishes
            write_wishes(self._block, wishes)

    def short_of_time(self) -> bool:
        """Whether it waits for a processor, or is stopped: then it is not stuck in the driver."""
        stat = surroundings.read(f"/proc/{self.pid}/stat").rpartition(")")[2].split()
        return bool(stat) and stat[0] in "RTt"

    def kill(self) -> None:
        """Kill it and read no more. In the driver's depths it may not even die."""
        try:
            self._process.kill()
        except OSError:
            pass
        self.close()

    def close(self) -> None:
        """Close this end of its pipe."""
        if self._process.stdout is not None and not self._process.stdout.closed:
            self._process.stdout.close()
        self.fd = -1

    @property
    def code(self) -> int | None:
        """Its exit code (negative: the signal); None while it lives."""
        return self._process.poll()

    def code_soon(self, seconds: float) -> int | None:
        """Its exit code, waited for a moment: the pipe closes a little before the process is gone."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None


def _memory() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("trainmon")
    file = tempfile.TemporaryFile()  # noqa: SIM115 - macOS, where there is no NVML either
    try:
        return os.dup(file.fileno())
    finally:
        file.close()
