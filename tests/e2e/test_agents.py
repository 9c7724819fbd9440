"""Agents of three nodes write into one folder, and a session on that folder shows every node's GPUs."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from trainmon.session.session import Session
from trainmon.snapshot import GpuRow

pytestmark = pytest.mark.needs_cc

NVML = Path(__file__).parents[1] / "nvml"
PATIENCE_S = 60.0
SCENES = {"node-a": "h100x8-healthy", "node-b": "h100x8-exact", "node-c": "gpu-lost-xid79"}


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a stand-in for the driver's library."""
    if shutil.which("cc") is None:
        pytest.skip("needs_cc: no C compiler for the NVML stand-in")
    folder = tmp_path_factory.mktemp("driver")
    flags = ["-O1", "-shared", "-fPIC", "-pthread", "-fvisibility=hidden", "-Wl,-soname,libnvidia-ml.so.1"]
    out, source = str(folder / "libnvidia-ml.so.1"), str(NVML / "fake_nvml.c")
    subprocess.run(["cc", *flags, "-DFAKE_NVML_DRIVER=580", "-o", out, source, "-lm"], check=True)
    return folder


@pytest.fixture
def agents(driver: Path, tmp_path: Path) -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    """agents(node) starts one; all end with the test."""
    children: list[subprocess.Popen[str]] = []

    def start(node: str, *more: str) -> subprocess.Popen[str]:
        env = dict(
            os.environ,
            LD_LIBRARY_PATH=str(driver),
            FAKE_NVML_SCENARIO=str(NVML / "scenarios" / f"{SCENES[node]}.scn"),
            TRAINMON_NODE=node,
        )
        command = [sys.executable, "-m", "trainmon", "agent", "--out", str(tmp_path), "--interval", "1s", *more]
        child = subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True)
        children.append(child)
        return child

    yield start
    for child in children:
        child.kill()
        child.wait()


def until(true: Callable[[], object]) -> bool:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if true():
            return True
        time.sleep(0.1)
    return False


def rows(session: Session) -> dict[str, list[GpuRow]]:
    """The rows of all nodes, by node."""
    panel = session.snapshot.gpus
    found: dict[str, list[GpuRow]] = {}
    for row in panel.everywhere or panel.rows:
        found.setdefault(row.node, []).append(row)
    return found


def workers() -> list[int]:
    return [
        process.pid
        for process in psutil.process_iter(["cmdline"])
        if "trainmon.telemetry.gpu.worker" in " ".join(process.info["cmdline"] or [])
    ]


def test_gpus_of_three_nodes_and_a_dead_agent(agents: Callable[..., subprocess.Popen[str]], tmp_path: Path) -> None:
    children = {node: agents(node) for node in SCENES}
    session = Session([str(tmp_path)])
    session.start()
    try:
        assert until(lambda: sum(map(len, rows(session).values())) == 24), rows(session)
        assert session.snapshot.gpus.counted == 24
        assert sorted(rows(session)) == sorted(SCENES)
        assert until(lambda: any(row.state == "lost" for row in rows(session)["node-c"]))
        assert "GPU LOST" in {alert.title for alert in session.snapshot.alerts}
        # One agent dies: what it said last stays, with its age, and turns into no alarm.
        before = {row.label: row.memory_mb for row in rows(session)["node-b"]}
        alerts = {(alert.title, alert.who) for alert in session.snapshot.alerts}
        children["node-b"].send_signal(signal.SIGKILL)
        assert until(lambda: all(row.state == "stale" for row in rows(session)["node-b"]))
        stale = rows(session)["node-b"]
        assert {row.label: row.memory_mb for row in stale} == before
        assert all(row.age_s for row in stale)
        assert all(row.state == "ok" for row in rows(session)["node-a"])
        assert {(alert.title, alert.who) for alert in session.snapshot.alerts if "node-b" in alert.who} <= alerts
        # It comes back: the same GPUs again, and they are no longer stale.
        agents("node-b")
        assert until(lambda: all(row.state == "ok" for row in rows(session)["node-b"]))
        assert session.snapshot.gpus.counted == 24
        assert session.fault is None, session.fault
    finally:
        session.stop()


def test_a_second_agent_of_a_node_says_who_is_there_and_ends(
    agents: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    first = agents("node-a")
    assert until(lambda: any(tmp_path.glob("*.jsonl")))
    second = agents("node-a")
    assert second.wait(PATIENCE_S) == 3
    assert second.stderr is not None
    said = second.stderr.read()
    assert f"process {first.pid}" in said and "an agent of node-a writes to" in said
    assert first.poll() is None


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)])
def test_a_signal_ends_it_and_its_worker(
    agents: Callable[..., subprocess.Popen[str]], tmp_path: Path, number: signal.Signals, code: int
) -> None:
    before = set(workers())
    child = agents("node-b")
    assert child.stderr is not None
    assert "8 × NVIDIA H100 80GB HBM3 (driver 550.54.15), host, every 1 s to " in child.stderr.readline()
    assert set(workers()) > before
    child.send_signal(number)
    assert child.wait(PATIENCE_S) == code
    assert until(lambda: set(workers()) <= before)
    (path,) = tmp_path.glob("*.jsonl")
    assert path.read_bytes().endswith(b"}\n")


def test_a_killed_agent_leaves_no_worker_and_no_lock(
    agents: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    before = set(workers())
    child = agents("node-a")
    assert until(lambda: set(workers()) > before)
    child.kill()
    child.wait()
    assert until(lambda: set(workers()) <= before)
    again = agents("node-a")
    assert again.stderr is not None and "every 1 s to" in again.stderr.readline()


def test_once_writes_everything_and_ends(driver: Path) -> None:
    env = dict(os.environ, LD_LIBRARY_PATH=str(driver), FAKE_NVML_SCENARIO=str(NVML / "scenarios" / "h100x8-exact.scn"))
    command = [sys.executable, "-m", "trainmon", "agent", "--once", "--out", "-"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert sum('"trainmon":"gpu/1"' in line for line in lines) == 8
    assert sum('"trainmon":"host/1"' in line for line in lines) == 1
    assert all(word in lines[-1] + lines[1] for word in ("gpu_memory_mb", "sm_clock_max_mhz", "pcie_gen"))


def test_a_closed_pipe_ends_it_quietly(driver: Path) -> None:
    command = f"{sys.executable} -m trainmon agent --no-gpu --interval 0.5s --out - | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0 and done.stdout.count("\n") == 1
    assert "Traceback" not in done.stderr
