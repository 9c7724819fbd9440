"""What reading eight GPUs once a second costs: NVML calls and processor time, against nvitop and gpustat.

    python benchmarks/bench_gpu.py [--nvitop PATH] [--gpustat PATH] [--seconds 40]

All of them read the stand-in of tests/nvml through the real ctypes path, in a pty of 160×45 cells. Calls are counted in
a run of their own, because writing the log of calls costs time. Nothing here waits for a driver, so what is compared is
the programs' own work and how often they ask; a real driver makes each call dearer, for all alike.
"""

import argparse
import collections
import fcntl
import os
import pty
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from pathlib import Path

from perfutil import tree_pids

NVML = Path(__file__).parents[1] / "tests" / "nvml"
WARM_S = 4.0

WATCH = """
import json, os, signal, sys, threading
from trainmon.clock import SystemClock
from trainmon.samples import to_object
from trainmon.telemetry.gpu.watch import GpuWatch
out = open(os.devnull, "w")
def sink(samples):
    out.write("".join(json.dumps(to_object(one)) + "\\n" for one in samples))
    out.flush()
watch = GpuWatch(sink, node="bench", clock=SystemClock(), interval_s=1.0)
watch.start()
threading.Event().wait()
"""


def build(folder):
    """The stand-in, compiled."""
    flags = ["-O1", "-shared", "-fPIC", "-pthread", "-fvisibility=hidden", "-Wl,-soname,libnvidia-ml.so.1"]
    target = os.path.join(folder, "libnvidia-ml.so.1")
    subprocess.run(["cc", *flags, "-o", target, str(NVML / "fake_nvml.c"), "-lm"], check=True)
    return folder


def cpu_seconds(root):
    """Processor seconds of a process and its live descendants, from the scheduler's own count in ns."""
    total = 0
    for pid in tree_pids(root):
        try:
            for thread in os.listdir(f"/proc/{pid}/task"):
                total += int(Path(f"/proc/{pid}/task/{thread}/schedstat").read_text().split()[0])
        except (OSError, ValueError, IndexError):
            continue
    return total / 1e9


def run(command, library, log, seconds):
    """Start a program in a pty, let it settle, measure: (CPU in % of one processor, bytes a second)."""
    env = {
        **os.environ,
        "LD_LIBRARY_PATH": library,
        "FAKE_NVML_SCENARIO": str(NVML / "scenarios" / "h100x8-healthy.scn"),
        "FAKE_NVML_T0": repr(time.time() - 30),
        "TERM": "xterm-256color",
    }
    env.pop("FAKE_NVML_LOG", None)
    if log:
        env["FAKE_NVML_LOG"] = log
    pid, master = pty.fork()
    if pid == 0:
        os.execvpe(command[0], command, env)
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 45, 160, 0, 0))
    written = [0]

    def drain():
        while True:
            try:
                data = os.read(master, 65536)
            except OSError:
                return
            if not data:
                return
            written[0] += len(data)
            if b"\x1b[6n" in data:  # gpustat's terminal library waits to be told where the cursor is
                os.write(master, b"\x1b[1;1R" * data.count(b"\x1b[6n"))

    threading.Thread(target=drain, daemon=True).start()
    time.sleep(WARM_S)
    began, cpu, before = time.monotonic(), cpu_seconds(pid), written[0]
    time.sleep(seconds)
    span = time.monotonic() - began
    used = cpu_seconds(pid) - cpu
    shown = written[0] - before
    for each in reversed(tree_pids(pid)):
        try:
            os.kill(each, signal.SIGKILL)
        except OSError:
            pass
    os.waitpid(pid, 0)
    os.close(master)
    return 100 * used / span, shown / span


def calls(log, seconds):
    """Calls a second of the measured time, and the function called most."""
    rows = [line.split() for line in Path(log).read_text().splitlines()]
    first = float(rows[0][0])
    kept = [row[2] for row in rows if WARM_S <= float(row[0]) - first < WARM_S + seconds]
    return len(kept) / seconds, collections.Counter(kept).most_common(3)


def main():
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--nvitop", default=shutil.which("nvitop"))
    parser.add_argument("--gpustat", default=shutil.which("gpustat"))
    parser.add_argument("--seconds", type=float, default=40.0)
    given = parser.parse_args()
    programs = {"trainmon": [sys.executable, "-c", WATCH]}
    if given.nvitop:
        programs["nvitop"] = [given.nvitop, "--monitor", "full", "--interval", "1"]
    if given.gpustat:
        programs["gpustat"] = [given.gpustat, "--watch", "1", "--show-all"]
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        library = build(folder)
        for name, command in programs.items():
            cpu, shown = run(command, library, None, given.seconds)
            log = os.path.join(folder, f"{name}.log")
            run(command, library, log, given.seconds / 2)
            rate, most = calls(log, given.seconds / 2)
            found[name] = rate, cpu
            top = ", ".join(f"{function.removeprefix('nvmlDevice')} {count}" for function, count in most)
            print(f"{name:10} {rate:7.1f} calls/s  CPU {cpu:5.2f} %  to the terminal {shown / 1024:6.2f} KB/s  ({top})")
    for name, (rate, cpu) in found.items():
        if name != "trainmon" and rate:
            own_rate, own_cpu = found["trainmon"]
            print(f"trainmon / {name}: calls {own_rate / rate:.2f}, CPU {own_cpu / cpu:.2f}")


if __name__ == "__main__":
    main()
