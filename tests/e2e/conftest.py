"""The program as people use it: inside tmux, over ssh, in pipes. Everything here is real but the training run."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

TRAINMON = [sys.executable, "-m", "trainmon"]
SHELL = ["bash", "--norc", "--noprofile", "-i"]
"""One that takes the terminal back from a job that was stopped, as people's shells do."""
PATIENCE_S = 60.0
"""How long a thing that has to come may take on a machine that is busy; nothing is measured here."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip by name what this machine has no program for."""
    needs = {
        "needs_tmux": ("tmux", bool(shutil.which("tmux"))),
        "needs_sshd": ("sshd and ssh", bool(find_sshd() and shutil.which("ssh"))),
    }
    for item in items:
        for mark, (name, there) in needs.items():
            if item.get_closest_marker(mark) and not there:
                item.add_marker(pytest.mark.skip(reason=f"{name} is not installed"))


def find_sshd() -> str | None:
    """Path of the ssh server, which is not on an ordinary user's PATH."""
    return shutil.which("sshd", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")


class Run:
    """A training run that never was: a thread appends to `worker-<n>.log`.

    Attributes:
        step: The newest step that every worker has written.
    """

    def __init__(self, folder: Path, workers: int) -> None:
        self.folder = folder
        self.step = 0
        self._workers = list(range(workers))
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        for _ in range(60):
            self.advance()

    def path(self, worker: int) -> Path:
        return self.folder / f"worker-{worker}.log"

    @property
    def loss(self) -> float:
        return 4.0 - self.step * 0.001

    @property
    def rate(self) -> float:
        return 1e-4 + self.step * 1e-6

    def advance(self) -> None:
        """Every worker writes one more step."""
        with self._lock:
            self.step += 1
            for worker in self._workers:
                self._append(worker, {"step": self.step, "total_steps": 5000, "loss": self.loss,
                                      "learning_rate": self.rate, "grad_norm": 1.5, "step_time_s": 0.2})  # fmt: skip

    def _append(self, worker: int, values: dict[str, float]) -> None:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        with self.path(worker).open("a") as file:
            file.write(json.dumps({"timestamp": stamp, **values}) + "\n")

    def say(self, worker: int, text: str) -> None:
        """A worker writes one line of text."""
        with self._lock, self.path(worker).open("a") as file:
            file.write(text + "\n")

    def join(self, worker: int) -> None:
        """One more worker begins to write."""
        with self._lock:
            self._workers.append(worker)

    def leave(self, worker: int) -> None:
        """A worker writes no more."""
        with self._lock:
            self._workers.remove(worker)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Write no more; the values are then those of the last step."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _work(self) -> None:
        while not self._stop.wait(0.2):
            self.advance()


@pytest.fixture
def training(tmp_path: Path) -> Iterator[Run]:
    """Four workers with sixty steps behind them; not started."""
    run = Run(tmp_path, 4)
    yield run
    run.stop()


class Pane:
    """One tmux window with a shell in it."""

    def __init__(self, server: list[str], name: str, columns: int, rows: int, folder: Path, term: str) -> None:
        self._server = server
        self.name = name
        self.columns, self.rows = columns, rows
        # A home of its own: no configuration and no state of whoever runs the tests.
        env = {"TERM": term, "PS1": "ready$ ", "HISTFILE": "", "HOME": str(folder / ".home"), "LC_ALL": "C.UTF-8",
               "COLORTERM": "", "TMPDIR": str(folder), "XDG_STATE_HOME": str(folder / ".state"),
               "XDG_CONFIG_HOME": str(folder / ".config"),
               "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "NO_COLOR": ""}  # fmt: skip
        settings = [f"{key}={value}" for key, value in env.items()]
        self.tmux("new-session", "-d", "-s", name, "-x", str(columns), "-y", str(rows), "-c", str(folder),
                  "env", *settings, *SHELL)  # fmt: skip
        self.wait(r"ready\$")

    def tmux(self, *arguments: str) -> str:
        done = subprocess.run([*self._server, *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 0, (arguments, done.stderr)
        return done.stdout

    def keys(self, *keys: str) -> None:
        """Press keys, by tmux's names."""
        self.tmux("send-keys", "-t", self.name, *keys)

    def type(self, line: str) -> None:
        """Type a line and press Enter."""
        self.tmux("send-keys", "-t", self.name, "-l", line)
        self.keys("Enter")

    def trainmon(self, *arguments: str, then: str = 'echo "exit=$?"') -> None:
        """Run the program and, after it, show its exit code."""
        quoted = " ".join(argument if argument[:1] in "<>2|" else shlex.quote(argument) for argument in arguments)
        self.type(f"trainmon {quoted}; {then}")

    def text(self) -> str:
        """What is on the screen."""
        return self.tmux("capture-pane", "-p", "-t", self.name)

    def wait(self, pattern: str, patience: float = PATIENCE_S) -> str:
        """Wait until the screen shows `pattern`; return the screen."""
        return self.until(lambda text: re.search(pattern, text) is not None, pattern, patience)

    def gone(self, pattern: str) -> str:
        """Wait until the screen shows `pattern` no more; return the screen."""
        return self.until(lambda text: re.search(pattern, text) is None, f"no {pattern}", PATIENCE_S)

    def until(self, good: Callable[[str], bool], what: str, patience: float) -> str:
        end = time.monotonic() + patience
        while True:
            text = self.text()
            if good(text):
                return text
            if time.monotonic() > end:
                pytest.fail(f"{self.name}: never saw {what}; the screen was\n{text}")
            time.sleep(0.1)

    def resize(self, columns: int, rows: int) -> None:
        self.tmux("resize-window", "-t", self.name, "-x", str(columns), "-y", str(rows))

    def process(self) -> int:
        """The process id of the trainmon that runs in this window."""
        shell = psutil.Process(int(self.tmux("display-message", "-p", "-t", self.name, "#{pane_pid}")))
        return next(child.pid for child in shell.children() if "trainmon" in " ".join(child.cmdline()))

    def modes(self) -> dict[str, str]:
        """What the program switched on in its terminal and has to switch off again."""
        names = ("alternate_on", "mouse_any_flag", "cursor_flag", "keypad_cursor_flag", "pane_in_mode")
        values = self.tmux("display-message", "-p", "-t", self.name, " ".join(f"#{{{name}}}" for name in names)).split()
        return dict(zip(names, values, strict=True))

    def is_clean(self) -> None:
        """Nothing of the program is left: the shell's own screen, its cursor, its line discipline."""
        text = self.wait(r"exit=\d+\s+ready\$")
        assert not re.search(r"[─│┤⣀-⣿]|help.*quit", text), text
        modes = self.modes()
        assert (modes["alternate_on"], modes["mouse_any_flag"], modes["cursor_flag"]) == ("0", "0", "1"), modes
        self.type("stty -a | grep -q -e ' -icanon' -e ' -echo ' || echo sane-$((40 + 2))")
        self.wait("sane-42")


@pytest.fixture(scope="session")
def tmux_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """A tmux server of our own, with no configuration of anybody's."""
    socket = tmp_path_factory.mktemp("tmux") / "socket"
    server = ["tmux", "-S", str(socket), "-f", os.devnull]
    environment = {name: value for name, value in os.environ.items() if name not in ("TMUX", "TMUX_PANE")}
    subprocess.run([*server, "new-session", "-d", "-s", "keeper", "sh"], check=True, env=environment)
    yield server
    subprocess.run([*server, "kill-server"], check=False, capture_output=True)


@pytest.fixture
def open_pane(tmux_server: list[str], tmp_path: Path) -> Iterator[Callable[..., Pane]]:
    """Makes panes; they go at the test's end."""
    made: list[Pane] = []

    def make(columns: int = 80, rows: int = 24, term: str = "xterm-256color", folder: Path = tmp_path) -> Pane:
        pane = Pane(tmux_server, f"p{os.getpid()}-{id(made)}-{len(made)}", columns, rows, folder, term)
        made.append(pane)
        return pane

    yield make
    for pane in made:
        subprocess.run([*tmux_server, "kill-session", "-t", pane.name], check=False, capture_output=True)
