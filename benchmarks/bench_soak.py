"""Does anything grow? A day of a 64-node run in replay time, or real minutes at many files.

    bench_soak.py [--hours 24] [--nodes 64] [--trace]      a session on a manual clock, on this thread
    bench_soak.py --real 30 [--files 1000] [--rate 100]    `trainmon tail` in a real pty beside a writer process

Replay: every node steps each 10 s (553,000 lines in 24 h at 64 nodes), with evaluations, checkpoints, chatter, errors
whose words never repeat, stragglers, a crash with a restart from the last checkpoint at half-time, and a rotation of
every file each 2 h; instruments here and one agent tell of 8 GPUs and a host each, every 10 s. Each hour: RSS,
descriptors, objects that the collector tracks, ms that a whole picture takes. Flat: the last hour against hour 2.
--trace: tracemalloc, the lines of code whose memory grew most since hour 2 (three times slower; RSS then means little).

Real: RSS, descriptors, threads, CPU and bytes to the terminal, each minute.
"""

from __future__ import annotations

import argparse
import fcntl
import gc
import json
import os
import random
import select
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from perfutil import save, table, tree_pids, tree_sample

if TYPE_CHECKING:
    from trainmon.samples import Sample

STEP_S = 10.0
T0 = 1_764_500_000.0
FULL_EVERY = 30
"""The whole picture is built at once every so many steps, and timed; in between as a live session does."""


def stamp(t: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(t)) + f".{int(t % 1 * 1e6):06}Z"


class Node:
    """One worker and its file."""

    def __init__(self, number: int, seed: int) -> None:
        self.number, self.name = number, f"worker-{number:04d}.log"
        self.random = random.Random(seed * 1009 + number)
        self.step = self.offset = self.generation = self.lines = 0
        self.slow_until = 0.0

    def write(self, now: float) -> bytes:
        """What it writes within one step."""
        r, self.step = self.random, self.step + 1
        slow = now < self.slow_until
        if not slow and r.random() < 0.00005:
            self.slow_until = now + 300
        values = {
            "timestamp": stamp(now), "step": self.step, "total_steps": 20_000, "rank": self.number,
            "loss": round(1.2 + 9 / (self.step + 10) ** 0.5 + 0.08 * r.random(), 6),
            "learning_rate": 2e-5, "grad_norm": round(0.4 + r.random(), 5), "data_time_s": round(0.2 * r.random(), 4),
            "tokens_per_second": 41_000 + r.randrange(900),
            "step_time_s": round((20 if slow else STEP_S) - 0.3 * r.random(), 4),
            "gpu_memory_mb": 60_500 + r.randrange(4000),
        }  # fmt: skip
        out = [json.dumps(values)]
        if self.step % 500 == 0:
            out.append(
                json.dumps(
                    {"timestamp": stamp(now), "step": self.step, "eval_loss": values["loss"], "eval_accuracy": 0.5}
                )
            )
            out.append(
                f"{stamp(now)} - INFO - rank{self.number} - Saving model checkpoint to /ckpt/checkpoint-{self.step}"
            )
        k = r.random()
        if k < 0.1:
            out.append(
                f"{stamp(now)} - INFO - rank{self.number} - prefetched shard "
                f"{r.randrange(10**9):09d}.tar in {r.random():.3f}s"
            )
        elif k < 0.101:
            word = "".join(r.choice("abcdefghij") for _ in range(8))
            out.append(
                f"{stamp(now)} - ERROR - rank{self.number} - upload of {word} to bucket {word[::-1]} failed: timed out"
            )
        elif k < 0.1012:
            out.append(
                f'Traceback (most recent call last):\n  File "/w/data_{r.randrange(10**6)}.py", line {r.randrange(900)}'
                f", in get\n    x\nValueError: bad sample {r.randrange(10**6)}"
            )
        elif k < 0.1022:
            out.append(f'{{"step": {self.step}, "metric_{r.randrange(10**5)}": {r.random()}}}')
        elif k < 0.1032:
            out.append(f'{{"step": {self.step}, "loss": {r.random()}, broken ...')
        self.lines += len(out)
        return ("\n".join(out) + "\n").encode()


def readings(node: str, now: float, r: random.Random, origin: str) -> tuple[Sample, ...]:
    """One round of readings of a machine with 8 GPUs."""
    from trainmon.samples import DiskSample, GpuProcess, GpuSample, HostSample, LinkSample

    def gpu(index: int) -> GpuSample:
        values = {
            "gpu_utilization": 90.0 + r.randrange(10), "gpu_memory_mb": 60_000.0 + r.randrange(2000),
            "gpu_memory_total_mb": 81_559.0, "gpu_power_w": 600.0 + r.randrange(90), "power_limit_w": 700.0,
            "gpu_temperature_c": 60.0 + r.randrange(9), "sm_clock_mhz": 1980.0, "ecc_corrected": 0.0,
        }  # fmt: skip
        reasons = ("power cap",) if r.random() < 0.02 else ()
        process = GpuProcess(4000 + index + 10 * (r.random() < 0.001), values["gpu_memory_mb"], rank=index)
        uuid = f"GPU-{node}-{index}"
        return GpuSample(
            node, index, uuid, now, origin, name="H100", values=values, throttle=reasons, processes=(process,)
        )  # type: ignore[arg-type]

    disk = DiskSample("nvme0n1", 20 + 60 * r.random(), 100.0, 300.0, 0.2, 1.0, 2.0)
    link = LinkSample("eth0", rate_mb_s=12_500.0, rx_mb_s=4000 * r.random(), tx_mb_s=4000 * r.random())
    host = {"cpu_percent": 30 + 9 * r.random(), "cpus": 64.0, "memory_used_mb": 4e5, "memory_total_mb": 2e6}
    host_origin = "host" if origin == "NVML" else origin
    return (*map(gpu, range(8)), HostSample(node, now, host_origin, host, disks=(disk,), links=(link,)))  # type: ignore[arg-type]


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def rss() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def replay(hours: float, count: int, trace: bool, seed: int) -> list[dict[str, object]]:
    from trainmon.clock import ManualClock
    from trainmon.model import CaughtUp, Data, Opened, Replaced, SourceEvent, Telemetry
    from trainmon.samples import to_object
    from trainmon.session.session import Session
    from trainmon.settings import Settings

    clock = ManualClock(T0)
    session = Session(["worker-*.log", "agent-*.jsonl"], Settings(), clock=clock)
    nodes = [Node(i, seed) for i in range(count)]
    chance = random.Random(seed)

    def opened(source: int, name: str) -> Iterator[SourceEvent]:
        yield Opened(source, name, f"/logs/{name}", 0, clock.now(), joined=clock.now() > T0)
        yield CaughtUp(source, 0)

    def round_(first: bool) -> Iterator[SourceEvent]:
        now = clock.now()
        for node in nodes:
            if first:
                yield from opened(node.number, node.name)
            if node.step and node.step % 720 == 0:
                node.generation, node.offset = node.generation + 1, 0
                yield Replaced(node.number, node.generation, "rotated", lost=False)
            data = node.write(now + chance.uniform(-1, 1))
            size = node.offset + len(data)
            yield Data(node.number, node.generation, node.offset, data, size, now)
            node.offset = size
        agent = 100_000
        if first:
            yield from opened(agent, "agent-worker-0001.jsonl")
            agent_at[0] = 0
        session._inbox.put([Telemetry(readings("worker-0000", now, chance, "NVML"))])
        told = readings("worker-0001", now, chance, "agent")
        data = "".join(json.dumps(to_object(each)) + "\n" for each in told).encode()
        yield Data(agent, 0, agent_at[0], data, agent_at[0] + len(data), now)
        agent_at[0] += len(data)

    agent_at = [0]
    rows: list[dict[str, object]] = []
    built: list[float] = []
    began = time.monotonic()
    steps = int(hours * 3600 / STEP_S)
    per_hour = int(3600 / STEP_S)
    mark: tracemalloc.Snapshot | None = None
    kinds: Counter[str] = Counter()
    for step in range(steps):
        if step == steps // 2:
            for node in nodes:
                node.step -= node.step % 500  # killed, and begun anew from the checkpoint
        events = list(round_(step == 0))
        session._inbox.put(events)
        for _ in range(5):  # a look every 2 s
            session.step()
            clock.advance(STEP_S / 5)
        if step % FULL_EVERY == 0:
            session._engine.front.dirty.update(session.snapshot.versions)
            start = time.perf_counter()
            session._publisher.build(at_once=True)
            built.append(time.perf_counter() - start)
        if (step + 1) % per_hour == 0 or step + 1 == steps:
            hour = (step + 1) // per_hour
            gc.collect()
            tracked = gc.get_objects()
            row: dict[str, object] = {
                "hour": hour, "rss_mb": rss() / 1e6, "fds": open_files(), "objects": len(tracked),
                "picture_ms": 1000 * statistics.median(built), "lines": sum(n.lines for n in nodes),
                "nodes": len(session.snapshot.nodes),
                "alerts": len(session.snapshot.alerts),
                "events": len(session.snapshot.events),
                "faults": session.faults, "wall_s": time.monotonic() - began,
            }  # fmt: skip
            if trace:
                row["traced_mb"] = tracemalloc.get_traced_memory()[0] / 1e6
            rows.append(row)
            print(json.dumps({k: round(v, 2) if isinstance(v, float) else v for k, v in row.items()}), flush=True)
            built.clear()
            now_kinds = Counter(type(each).__qualname__ for each in tracked)
            del tracked
            if hour == 2:
                kinds = now_kinds
                if trace:
                    mark = tracemalloc.take_snapshot()
            elif step + 1 == steps:
                grown = [(n - kinds[k], k, n) for k, n in now_kinds.items() if n - kinds[k] > 200]
                print("kinds that grew since hour 2:", sorted(grown, reverse=True)[:20])
                if trace and mark is not None:
                    for line in tracemalloc.take_snapshot().compare_to(mark, "lineno")[:25]:
                        print(line)
    if session.fault:
        print(session.fault)
    return rows


# ---------------------------------------------------------------- real minutes


class Terminal:
    """A program in a pty whose output is counted and answered, not drawn."""

    def __init__(self, command: list[str], folder: str) -> None:
        from pty_run import REPLY

        self.bytes = 0
        self._reply = REPLY
        master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 45, 160, 0, 0))
        env = {**os.environ, "TERM": "xterm-256color", "LANG": "C.UTF-8", "XDG_STATE_HOME": folder + "/state"}
        self.proc = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, cwd=folder, env=env, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))  # fmt: skip
        os.close(slave)
        self.master = master

    def pump(self, until: float) -> None:
        """Take what is written until then (monotonic seconds), or until the program ends."""
        while (left := until - time.monotonic()) > 0 and self.proc.poll() is None:
            if select.select([self.master], [], [], min(left, 1.0))[0]:
                try:
                    data = os.read(self.master, 65536)
                except OSError:
                    return
                self.bytes += len(data)
                for query, answer in self._reply:
                    if query in data:
                        os.write(self.master, answer)
                time.sleep(0.02)


def real(minutes: float, files: int, rate: float, trainmon: str) -> list[dict[str, object]]:
    generator = str(Path(__file__).with_name("gen_logs.py"))
    with tempfile.TemporaryDirectory(prefix="soak") as folder:
        logs = [sys.executable, generator, "live", folder + "/d", "--files", str(files)]
        subprocess.run([*logs, "--rate", "0", "--start-lines", "50"], check=True)
        seconds = str(60 * minutes + 60)
        writer = subprocess.Popen([*logs, "--rate", str(rate), "--seconds", seconds], stderr=subprocess.DEVNULL)
        terminal = Terminal([trainmon, "tail", folder + "/d"], folder)
        rows: list[dict[str, object]] = []
        before = tree_sample(terminal.proc.pid)
        try:
            for minute in range(1, int(minutes) + 1):
                seen, begun = terminal.bytes, time.monotonic()
                terminal.pump(begun + 60)
                after = tree_sample(terminal.proc.pid)
                spent = time.monotonic() - begun
                fds = sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in tree_pids(terminal.proc.pid))
                rows.append({
                    "minute": minute, "rss_mb": after["rss"] / 1e6, "fds": fds, "threads": after["threads"],
                    "processes": after["procs"], "cpu_pct": 100 * (after["cpu"] - before["cpu"]) / spent,
                    "kb_s": (terminal.bytes - seen) / spent / 1e3,
                })  # fmt: skip
                before = after
                print(
                    json.dumps({k: round(v, 2) if isinstance(v, float) else v for k, v in rows[-1].items()}), flush=True
                )
            begun = time.monotonic()
            os.write(terminal.master, b"q")
            terminal.pump(begun + 10)
            print(f"q: exit {terminal.proc.poll()} after {time.monotonic() - begun:.2f} s")
        finally:
            for process in (terminal.proc, writer):
                process.kill()
                process.wait()
        return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=24)
    parser.add_argument("--nodes", type=int, default=64)
    parser.add_argument("--trace", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--real", type=float, metavar="MINUTES")
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--rate", type=float, default=100, help="lines a second over all files")
    parser.add_argument("--trainmon", default=str(Path(sys.executable).with_name("trainmon")))
    parser.add_argument("--out", default="soak")
    options = parser.parse_args()
    if options.real:
        rows = real(options.real, options.files, options.rate, options.trainmon)
    else:
        if options.trace:
            tracemalloc.start()
        rows = replay(options.hours, options.nodes, options.trace, options.seed)
    save(options.out, rows, args=vars(options))
    print(table(rows, list(rows[0])))


if __name__ == "__main__":
    main()
