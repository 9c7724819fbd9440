"""All figures of `benchmarks/README.md` in one run, each beside its goal and its yardstick.

    python benchmarks/run.py --trainmon .venv/bin/trainmon [--only open live idle bytes help] [--tl PATH]

Needs lnav on the PATH and toolong's `tl` (its own environment: `pip install toolong`) for the ratios; what is not
there is left out and said. Linux, standard library only.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import peers  # noqa: E402
from perfutil import RESULTS, med  # noqa: E402

Row = tuple[str, str, str, bool | None]
"""(what, measured, goal, met or None when there is no goal or no yardstick)."""


def bench(script: str, *args: str) -> list[dict[str, Any]]:
    """Run one of the benchmark scripts and return its rows."""
    name = f"run_{script}"
    subprocess.run([sys.executable, str(HERE / f"{script}.py"), *args, "--out", name], check=True)
    rows: list[dict[str, Any]] = json.loads((Path(RESULTS) / f"{name}.json").read_text("utf-8"))["rows"]
    return rows


def opening(trainmon: str) -> list[Row]:
    rows = bench("bench_open", "--trainmon", trainmon, "--peers", "trainmon", "lnav", "tl", "--cache", "warm")
    at = {(r["size"], r["peer"]): r for r in rows}
    out: list[Row] = []
    for size in ("1M", "100M", "1G"):
        ours = at[size, "trainmon"]
        newest = max(ours["last_s"], ours["useful_s"])
        out.append((f"newest line and values, {size}", f"{newest:.3f} s", "≤ 0.5 s", newest <= 0.5))
    for peer, goal in (("lnav", 0.1), ("tl", 0.25)):
        if ("1G", peer) in at:
            ratio = at["1G", "trainmon"]["last_s"] / at["1G", peer]["last_s"]
            out.append((f"newest line at 1G against {peer}", f"{ratio:.3f}", f"≤ {goal}", ratio <= goal))
    return out


def live(trainmon: str) -> list[Row]:
    out: list[Row] = []
    goals = {64: (120, 300, 12, None), 1000: (None, 500, 30, 150)}
    for files, (p50, p99, cpu, rss) in goals.items():
        rows = bench("bench_live", "--trainmon", trainmon, "--peers", "trainmon", "lnav", "--combos", f"{files}:1000")
        for r in rows:
            ours = r["peer"] == "trainmon"
            what = f"{files} files, 1,000 lines/s, {r['peer']}"
            if p50 or not ours:
                met = r["lag_p50_ms"] <= p50 if ours and p50 else None
                out.append((f"{what}: lag p50", f"{r['lag_p50_ms']:.0f} ms", f"≤ {p50} ms" if ours else "", met))
            met = r["lag_p99_ms"] <= p99 if ours else None
            out.append((f"{what}: lag p99", f"{r['lag_p99_ms']:.0f} ms", f"≤ {p99} ms" if ours else "", met))
            out.append(
                (
                    f"{what}: CPU",
                    f"{r['cpu_pct']:.1f} %",
                    f"≤ {cpu} %" if ours else "",
                    r["cpu_pct"] <= cpu if ours else None,
                )
            )
            if rss:
                out.append(
                    (
                        f"{what}: RSS",
                        f"{r['rss_peak_mb']:.0f} MB",
                        f"≤ {rss} MB" if ours else "",
                        r["rss_peak_mb"] <= rss if ours else None,
                    )
                )
    return out


def idle(trainmon: str) -> list[Row]:
    """Nothing is written for 20 s, between two of the coarse ages that the screen shows (30 s, 1 m)."""
    from pty_run import Session, keybytes

    out: list[Row] = []
    for files, cpu in ((64, 1.0), (1000, 2.0)):
        folder = Path(os.environ.get("PERF_WORK", "/tmp/perf/work")) / f"idle{files}"
        shutil.rmtree(folder, ignore_errors=True)
        gen = [
            sys.executable,
            str(HERE / "gen_logs.py"),
            "live",
            str(folder),
            "--files",
            str(files),
            "--rate",
            "0",
            "--start-lines",
            "50",
        ]
        subprocess.run(gen, check=True)
        session = Session([trainmon, "tail", *(str(p) for p in sorted(folder.glob("*.log")))])
        while session.now() < 38:
            session.pump(None, 0.05)
        start = session.now()
        while session.now() < start + 20:
            session.pump(None, 0.05)
        got = session.window(start, session.now())
        session.close([keybytes("q")])
        shutil.rmtree(folder, ignore_errors=True)
        out.append((f"idle, {files} files: CPU", f"{got['cpu_pct']:.2f} %", f"≤ {cpu} %", got["cpu_pct"] <= cpu))
        out.append((f"idle, {files} files: to the terminal", f"{got['bytes_s']:.0f} B/s", "0 B/s", got["bytes_s"] == 0))
    return out


def terminal_bytes(trainmon: str) -> list[Row]:
    rows = bench(
        "bench_live", "--trainmon", trainmon, "--peers", "trainmon", "--combos", "1:1", "8:8", "--seconds", "20"
    )
    return [
        (
            f"a step a second, {r['files']} file(s), 160×45: to the terminal",
            f"{r['kb_s']:.2f} KB/s",
            "≤ 4 KB/s",
            r["kb_s"] <= 4,
        )
        for r in rows
    ]


def help_ratio(trainmon: str, runs: int = 15) -> list[Row]:
    python = sys.executable
    python = str(Path(trainmon).parent / "python") if (Path(trainmon).parent / "python").exists() else python
    ours, bare = [], []
    for _ in range(runs):
        for into, command in ((ours, [trainmon, "--help"]), (bare, [python, "-c", "pass"])):
            start = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            into.append(time.perf_counter() - start)
    ratio = med(ours) / med(bare)
    return [
        (
            "`--help` against `python -c pass`",
            f"{ratio:.1f} ({1000 * med(ours):.0f} / {1000 * med(bare):.0f} ms)",
            "≤ 4",
            ratio <= 4,
        )
    ]


PARTS = {"open": opening, "live": live, "idle": idle, "bytes": terminal_bytes, "help": help_ratio}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainmon", default=str(HERE.parent / ".venv/bin/trainmon"), type=os.path.abspath)
    parser.add_argument("--only", nargs="*", choices=PARTS, default=list(PARTS))
    parser.add_argument("--tl", help="path of toolong's command")
    args = parser.parse_args()
    if args.tl:
        os.environ["PERF_TL"] = args.tl
    os.environ.setdefault("PERF_HOME", "/tmp/perf/home")
    peers.setup()
    rows: list[Row] = []
    for part in args.only:
        rows += PARTS[part](args.trainmon)
    print("\n| what | measured | goal | met |\n| --- | --- | --- | --- |")
    for what, measured, goal, met in rows:
        print(f"| {what} | {measured} | {goal} | {'' if met is None else 'yes' if met else '**no**'} |")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
