"""The longest time for which the screen stood still, on every scenario of the stand-in, and how long quitting took.

    python benchmarks/bench_gaps.py [--trainmon PATH] [--seconds 14] [--only NAME,...]

`trainmon tail` runs in a real pty on a log that gets ten lines a second, its GPUs being the scenario's. A gap is the
time between two writes to the terminal, from two seconds after the first line on; the lines are 0.1 s apart.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import threading
import time
from itertools import pairwise
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from bench_gpu import NVML, build  # noqa: E402
from pty_run import Session  # noqa: E402

LINES_S = 10.0
BEGIN_S = 2.5


def write_lines(path: Path, stop: threading.Event, late: list[float]) -> None:
    """Ten steps a second; `late` takes how late each line was: the machine's own gaps."""
    chance = random.Random(3)
    step, due = 0, time.monotonic()
    with path.open("a", encoding="utf-8") as file:
        while not stop.is_set():
            step += 1
            file.write(f'{{"step": {step}, "loss": {2 + chance.uniform(-0.1, 0.1):.4f}, "lr": 4e-05}}\n')
            file.flush()
            due += 1 / LINES_S
            time.sleep(max(0.0, due - time.monotonic()))
            late.append(time.monotonic() - due)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainmon", default=str(HERE.parent / ".venv/bin/trainmon"), type=os.path.abspath)
    parser.add_argument("--seconds", type=float, default=14.0)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    names = given.only.split(",") if given.only else sorted(p.stem for p in (NVML / "scenarios").glob("*.scn"))
    worst = slowest = 0.0
    with tempfile.TemporaryDirectory() as folder:
        library = build(Path(folder))
        for name in names:
            gap, late, quitting = look(given, Path(folder), library, name)
            worst, slowest = max(worst, gap), max(slowest, quitting)
            print(f"{name:24} gap {gap:.3f} s (line late by {late:.3f} at most)  quit {quitting:.3f} s", flush=True)
    print(f"{'all':24} gap {worst:.3f} s  quit {slowest:.3f} s")
    return 0


def look(given: argparse.Namespace, folder: Path, library: Path, name: str) -> tuple[float, float, float]:
    """Longest gap, the writer's own lateness, seconds from `q` to the end."""
    log = folder / f"{name}.log"
    stop, late = threading.Event(), [0.0]
    writer = threading.Thread(target=write_lines, args=(log, stop, late), daemon=True)
    writer.start()
    env = dict(os.environ, LD_LIBRARY_PATH=str(library), FAKE_NVML_SCENARIO=str(NVML / "scenarios" / f"{name}.scn"))
    session = Session([given.trainmon, "tail", str(log)], rows=45, cols=160, env=env, cwd=str(folder))
    writes: list[float] = []
    while session.now() < given.seconds and session.proc.poll() is None:
        session.pump(seen=lambda at, _screen: writes.append(at), limit=0.02)
    counted = [at for at in writes if at > BEGIN_S]
    gap = max((b - a for a, b in pairwise(counted)), default=float("inf"))
    begun = time.monotonic()
    session.send(b"q")
    while session.proc.poll() is None and time.monotonic() - begun < 10:
        session.pump(limit=0.005)
    quitting = time.monotonic() - begun
    stop.set()
    writer.join(2)
    session.close()
    return gap, max(late), quitting


if __name__ == "__main__":
    raise SystemExit(main())
