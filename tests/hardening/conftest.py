"""The program in a real pseudo-terminal that this process holds, for what no well-behaved terminal does."""

from __future__ import annotations

import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyte
import pytest

PATIENCE_S = 60.0
"""How long a thing that has to come may take on a machine that is busy; nothing is measured here."""
MODE = re.compile(rb"\x1b\[\?([\d;]+)([hl])")


class Term:
    """A command in a pseudo-terminal. A thread reads what it writes, unless it is told not to.

    Attributes:
        raw: Everything that was written.
    """

    def __init__(self, command: list[str], folder: Path, env: dict[str, str], columns: int, rows: int) -> None:
        self.master, self._slave = os.openpty()
        self.resize(columns, rows)
        self._before = termios.tcgetattr(self._slave)
        self.raw = bytearray()
        self.pause = 0.0
        """Seconds between two reads of at most `portion` bytes: a slow line."""
        self.portion = 65536
        self._screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        self._fed = 0
        self._closed = False
        self.process = subprocess.Popen(
            command, stdin=self._slave, stdout=self._slave, stderr=self._slave, cwd=folder, env=env,
            start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )  # fmt: skip
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while not self._closed:
            try:
                if select.select([self.master], [], [], 0.05)[0] and not self._closed:
                    self.raw += os.read(self.master, self.portion)
            except (OSError, ValueError):
                return
            if self.pause:
                time.sleep(self.pause)

    # ------------------------------------------------------------ what a terminal does

    def send(self, keys: bytes) -> None:
        """Type; in portions, as a terminal's line has room for 4 KiB."""
        while keys and not self._closed and self.process.poll() is None:
            if select.select([], [self.master], [], 1.0)[1]:
                keys = keys[os.write(self.master, keys[:1024]) :]

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def close(self) -> None:
        """The window goes."""
        self._closed = True
        self._thread.join()
        os.close(self._slave)
        os.close(self.master)

    # ------------------------------------------------------------ what is seen

    def text(self, columns: int = 0, rows: int = 0) -> str:
        """What is on the screen."""
        if columns:
            self._screen.resize(rows, columns)
        data = bytes(self.raw[self._fed :])
        self._fed += len(data)
        self._stream.feed(re.sub(rb"\x1b\[[<>=][\d;]*[a-zA-Z]", b"", data))  # modes that pyte does not know
        return "\n".join(self._screen.display)

    def until(self, pattern: str, patience: float = PATIENCE_S) -> str:
        """Wait until the screen shows `pattern`."""
        end = time.monotonic() + patience
        while not re.search(pattern, text := self.text()):
            if time.monotonic() > end:
                raise AssertionError(f"never saw {pattern}; code {self.process.poll()}; the screen was\n{text}")
            time.sleep(0.05)
        return text

    def leave(self, keys: bytes = b"q", limit: float = PATIENCE_S) -> int:
        """Quit; the exit code."""
        if keys:
            self.send(keys)
        return self.process.wait(limit)

    def is_restored(self) -> None:
        """Nothing of the program is left: every mode off, the cursor there, the line discipline as it was."""
        time.sleep(0.2)
        on: dict[bytes, bool] = {}
        for match in MODE.finditer(bytes(self.raw)):
            for number in match[1].split(b";"):
                on[number] = match[2] == b"h"
        left = [number for number in (b"1049", b"1000", b"1003", b"1006", b"2004", b"1004", b"2026") if on.get(number)]
        assert not left, left
        assert on.get(b"25", True)
        assert termios.tcgetattr(self._slave)[:4] == self._before[:4]
        assert b"Traceback" not in self.raw and b"fault in trainmon" not in self.raw, bytes(self.raw[-3000:])


def environment(home: Path, **more: str) -> dict[str, str]:
    """Nothing of whoever runs the tests: no configuration, no state, no GPUs of this machine."""
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "VIRTUAL_ENV") if name in os.environ}
    return {
        **kept, "HOME": str(home), "XDG_STATE_HOME": str(home / "state"), "XDG_CONFIG_HOME": str(home / "config"),
        "TMPDIR": str(home / "tmp"), "TERM": "xterm-256color", "LC_ALL": "C.UTF-8", **more,
    }  # fmt: skip


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home folder of its own, with a folder of temporary files."""
    folder = tmp_path / "home"
    (folder / "tmp").mkdir(parents=True)
    return folder


@pytest.fixture
def env(home: Path) -> Callable[..., dict[str, str]]:
    """Makes an environment in that home."""
    return lambda **more: environment(home, **more)


@pytest.fixture
def terminal(tmp_path: Path, home: Path) -> Iterator[Callable[..., Term]]:
    """Runs trainmon in pseudo-terminals, which go at the test's end."""
    made: list[Term] = []

    def start(*arguments: str, columns: int = 100, rows: int = 30, folder: Path = tmp_path, **more: Any) -> Term:
        command = [sys.executable, "-m", "trainmon", *arguments]
        made.append(Term(command, folder, environment(home, **more), columns, rows))
        return made[-1]

    yield start
    for term in made:
        if term.process.poll() is None:
            try:
                os.killpg(term.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            term.process.wait()
        if not term._closed:
            term.close()


class Logs:
    """Workers' logs that are written by the test."""

    def __init__(self, folder: Path, workers: int) -> None:
        self.folder, self.workers, self.step = folder, workers, 0
        folder.mkdir(parents=True, exist_ok=True)

    def path(self, worker: int) -> Path:
        return self.folder / f"worker-{worker}.log"

    def advance(self, steps: int = 1, skip: tuple[int, ...] = ()) -> None:
        """Every worker (but those) writes so many steps more."""
        for _ in range(steps):
            self.step += 1
            stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            for worker in range(self.workers):
                if worker not in skip:
                    with self.path(worker).open("a") as file:
                        file.write(
                            f'{{"timestamp": "{stamp}", "step": {self.step}, "loss": {4 - self.step * 0.001:.4f}}}\n'
                        )


@pytest.fixture
def logs(tmp_path: Path) -> Callable[..., Logs]:
    """Makes logs in a folder with some steps in them."""

    def make(workers: int = 2, steps: int = 60, folder: str = "logs") -> Logs:
        found = Logs(tmp_path / folder, workers)
        found.advance(steps)
        return found

    return make
