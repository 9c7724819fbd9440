"""Over a real ssh server on the loopback, with a key that lives as long as the test."""

from __future__ import annotations

import getpass
import os
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytestmark = [pytest.mark.needs_tmux, pytest.mark.needs_sshd]


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.fixture
def ssh(tmp_path: Path) -> Iterator[str]:
    """The beginning of an ssh command line to this machine."""
    path = f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin"
    program = next(f"{folder}/sshd" for folder in path.split(":") if os.access(f"{folder}/sshd", os.X_OK))
    home = tmp_path / "ssh"
    home.mkdir(mode=0o700)
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(home / name)], check=True)
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # the server's own, which its service makes at boot
    port = free_port()
    (home / "config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {home}/host\nAuthorizedKeysFile {home}/user.pub\n"
        "PidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
        "PermitRootLogin prohibit-password\nPrintMotd no\n"
    )
    with (home / "log").open("w") as log:
        server = subprocess.Popen([program, "-D", "-e", "-f", str(home / "config")], stderr=log)
    end = time.monotonic() + 30
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            break
        except OSError:
            if server.poll() is not None or time.monotonic() > end:
                pytest.fail(f"sshd did not start: {(home / 'log').read_text()}")
            time.sleep(0.05)
    yield (
        f"ssh -q -t -p {port} -i {home}/user -o IdentitiesOnly=yes -o StrictHostKeyChecking=no "
        f"-o UserKnownHostsFile={home}/known -o ControlPath=none {getpass.getuser()}@127.0.0.1"
    )
    server.terminate()
    server.wait(timeout=10)


def test_the_monitor_over_ssh(ssh: str, training, open_pane: Callable, tmp_path: Path) -> None:
    pane = open_pane(100, 30)
    program = f"LC_ALL=C.UTF-8 HOME={tmp_path}/home {sys.executable} -m trainmon"
    remote = f"cd {tmp_path} && {program} tail {shlex.quote('worker-*.log')}"
    (tmp_path / "go").write_text(f"exec {ssh} {shlex.quote(remote)}\n")
    pane.type("sh ./go; echo exit=$?")
    training.start()
    pane.wait(r"\b[67]\d\b")
    training.join(4)
    pane.wait(r"worker-4\b")
    training.stop()
    for value in (rf"\b{training.step}\b", f"{training.loss:.3f}", f"{training.rate:.2e}"):
        pane.wait(value)
    pane.keys("q")
    pane.wait("exit=0")
    pane.is_clean()
