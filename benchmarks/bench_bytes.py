"""What the screen writes to the terminal while eight GPUs move and a step comes every second, view by view.

    python benchmarks/bench_bytes.py [--trainmon PATH] [--seconds 30] [--size 160x45]

The GPUs are the stand-in of tests/nvml (utilisation, power and heat differ each second), read by trainmon's own worker
through the real ctypes path. Prints bytes a second of the overview, of all GPUs (`3`), and of one GPU's page.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from bench_gpu import NVML, build  # noqa: E402
from pty_run import Session  # noqa: E402

SETTLE_S = 6.0
"""Seconds after a change of view that do not count: its first picture."""
VIEWS = (("overview", b"1"), ("GPUs (3)", b"3"), ("one GPU", b"\r"))
"""Each with the key that leads there from the one before."""


def scenario(name: str) -> str:
    """The path of a scenario."""
    return name if name.endswith(".scn") else str(NVML / "scenarios" / f"{name}.scn")


def write_steps(path: Path, stop: threading.Event) -> None:
    """A step a second, the figures of each a little different."""
    chance = random.Random(3)
    step = 0
    with path.open("a", encoding="utf-8") as file:
        while not stop.is_set():
            step += 1
            loss = 2 + 3 / step**0.5 + chance.uniform(-0.02, 0.02)
            seconds = 1.0 + chance.uniform(-0.02, 0.02)
            stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())
            file.write(
                f"{stamp}.000Z INFO step={step} total_steps=50000 loss={loss:.4f} "
                f"lr=4.0e-05 grad_norm={chance.uniform(1.1, 1.5):.3f} tokens_per_second={524288 / seconds:.0f} "
                f"step_time_s={seconds:.3f}\n"
            )
            file.flush()
            stop.wait(1.0)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainmon", default=str(HERE.parent / ".venv/bin/trainmon"), type=os.path.abspath)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--size", default="160x45", help="columns x rows")
    parser.add_argument("--scenario", default="h100x8-healthy", help="a name in tests/nvml/scenarios, or a file")
    parser.add_argument("--without-gpus", action="store_true", help="the same with --no-gpu --no-host, for comparison")
    parser.add_argument("--show", action="store_true", help="print the screen of each view")
    parser.add_argument("--record", help="file for all that was written to the terminal")
    given = parser.parse_args()
    columns, rows = map(int, given.size.split("x"))
    stop = threading.Event()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "train.log"
        writer = threading.Thread(target=write_steps, args=(log, stop), daemon=True)
        writer.start()
        env = {
            "LD_LIBRARY_PATH": build(folder),
            "FAKE_NVML_SCENARIO": scenario(given.scenario),
            "FAKE_NVML_T0": repr(time.time() - 30),
            "XDG_STATE_HOME": folder,
        }
        command = [given.trainmon, "tail", str(log)] + (["--no-gpu", "--no-host"] if given.without_gpus else [])
        session = Session(command, rows=rows, cols=columns, env=env, cwd=folder, record=given.record)
        waited(session, SETTLE_S)
        for name, key in VIEWS:
            session.send(key)
            waited(session, SETTLE_S)
            begun = session.now()
            waited(session, given.seconds)
            ended = session.now()
            got = session.window(begun, ended)
            print(
                f"{name:10} {given.size}: {got['bytes_s'] / 1000:.2f} KB/s in {got['reads_s']:.1f} writes a second, "
                f"{got.get('cpu_pct', float('nan')):.1f} % of a core",
                flush=True,
            )
            if given.show:
                print("\n".join(line.rstrip() for line in session.screen.lines))
        session.close([b"q", b"q"])
        stop.set()
        writer.join(2)
    return 0


def waited(session: Session, seconds: float) -> None:
    """Let time pass and read what comes."""
    until = session.now() + seconds
    while session.now() < until and session.proc.poll() is None:
        session.pump(limit=0.02)
    if session.proc.poll() is not None:
        text = re.sub(r"\n\s*\n+", "\n", session.screen.text())
        raise SystemExit(f"trainmon ended with {session.proc.returncode}:\n{text}")


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except subprocess.CalledProcessError as fault:
        raise SystemExit(f"the stand-in was not built: {fault}") from None
