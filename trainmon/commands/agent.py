"""`trainmon agent`: this machine's telemetry as JSON lines, until it is stopped."""

from __future__ import annotations

import argparse
import json
import os
import queue
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from trainmon.clock import SystemClock
from trainmon.commands.say import complain
from trainmon.commands.tail import signals_raise
from trainmon.errors import SourceError, UsageError
from trainmon.outputs.agentfile import AgentFile
from trainmon.outputs.agentlock import AgentLock, Holder
from trainmon.samples import DriverSample, GpuSample, HostSample, Sample, to_object
from trainmon.telemetry.names import node_name
from trainmon.telemetry.station import Station

HELLO_S = 4.0
"""So long the first line waits for the driver's answer; initialising eight boards takes up to a second or two."""
ONCE_S, ONCE_GPUS_S = 2.5, 8.0
"""How long `--once` listens: rates need two looks; a driver may need longer for its first answer."""
_QUEUE = 256

Write = Callable[[list[bytes]], None]


def run(options: argparse.Namespace) -> int:
    """Measure and write until a signal comes, or once.

    Returns:
        0; signals end it with 128 and their number.

    Raises:
        UsageError: Nothing is to be measured.
        SourceError: The place cannot be written, or another agent of this node writes there.
    """
    from trainmon.settings import load
    from trainmon.settings.keys import KEYS

    settings = load(Path(options.config) if options.config else None)
    gpu, host = settings.gpu and not options.no_gpu, settings.host and not options.no_host
    if not (gpu or host):
        raise UsageError("an agent without GPUs and without the host has nothing to write")
    interval = max(2.0, settings.host_interval_s)
    if options.interval:
        try:
            interval = next(key.convert for key in KEYS if key.name == "host_interval")(options.interval)  # type: ignore[assignment]
        except ValueError as error:
            raise UsageError(f"--interval {options.interval}: {error}") from None
    node = node_name()
    samples: queue.Queue[list[Sample]] = queue.Queue(_QUEUE)
    with signals_raise():
        place = _Place(options, node)
        station = Station(
            lambda found: _put(samples, found),
            node=node,
            clock=SystemClock(),
            gpu=gpu,
            gpu_interval_s=interval,
            host=host,
            host_interval_s=interval,
            folders=lambda: [str(place.folder), os.getcwd()],
        )
        station.start()
        try:
            if options.once:
                place.write(_lines(_everything(samples, gpu, host)))
                return 0
            _go_on(samples, place, _Teller(node, place, interval, gpu, host))
            return 0
        finally:
            station.stop()
            place.close()


def _put(samples: queue.Queue[list[Sample]], found: list[Sample]) -> None:
    try:
        samples.put_nowait(found)
    except queue.Full:  # a disk that hangs must not fill the memory: the oldest go
        try:
            samples.get_nowait()
            samples.put_nowait(found)
        except (queue.Empty, queue.Full):
            pass


def _go_on(samples: queue.Queue[list[Sample]], place: _Place, teller: _Teller) -> None:
    while True:
        try:
            found = samples.get(timeout=1.0)
        except queue.Empty:
            found = []
        place.write(_lines(found))
        place.beat()
        teller.hear(found)


def _lines(samples: Iterable[Sample]) -> list[bytes]:
    # ASCII only: a line of it can be cut anywhere and shown anywhere.
    return [json.dumps(to_object(sample), separators=(",", ":"), allow_nan=False).encode() for sample in samples]


class _Place:
    """Where the lines go: a locked file, or standard output."""

    def __init__(self, options: argparse.Namespace, node: str) -> None:
        self._file: AgentFile | None = None
        self._lock: AgentLock | None = None
        self._told = ""
        self._node = node
        self.folder = Path.cwd()
        self.name = "standard output"
        if options.out == "-":
            return
        path = Path(options.out)
        if path.is_dir() or options.out.endswith("/"):
            path = path / f"trainmon-agent-{node}.jsonl"
        if not path.parent.is_dir():
            raise SourceError(f"there is no folder {path.parent} to write into")
        self.folder, self.name = path.parent, str(path)
        self._lock = AgentLock(path.parent / f".trainmon-agent-{node}.lock")
        try:
            holder = self._lock.take(time.time())
        except OSError as error:
            raise SourceError(f"{path.parent} cannot be written ({(error.strerror or '').lower()})") from None
        if holder is not None:
            raise SourceError(self._taken(holder))
        try:
            self._file = AgentFile(path, max_bytes=options.max_size, keep=options.keep)
        except SourceError:
            self._lock.free()
            raise

    def _taken(self, holder: Holder) -> str:
        from trainmon.units import duration

        who = f" (process {holder.pid}" if holder.pid else ""
        if who and holder.since:
            who += f", for {duration(max(0.0, time.time() - holder.since))}"
        return f"an agent of {self._node} writes to {self.folder} already{who + ')' if who else ''}"

    def write(self, lines: list[bytes]) -> None:
        """Write lines; a disk that is full is told of once, and so is that it goes on."""
        if not lines:
            return
        if self._file is None:
            sys.stdout.buffer.write(b"\n".join(lines) + b"\n")
            sys.stdout.buffer.flush()
            return
        dropped = self._file.dropped
        self._file.write(lines)
        problem = self._file.problem
        if problem and problem != self._told:
            complain(f"{self.name} cannot be written ({problem}): samples are dropped until it can")
        elif not problem and self._told:
            complain(f"{self.name} can be written again; {dropped:,} samples were dropped")
        self._told = problem

    def beat(self) -> None:
        """Show that we live.

        Raises:
            SourceError: The folder was removed and made anew, and another agent of this node was there first.
        """
        holder = self._lock.beat() if self._lock is not None else None
        if holder is not None:
            raise SourceError(self._taken(holder))

    def close(self) -> None:
        """Let go of file and lock."""
        if self._file is not None:
            self._file.close()
        if self._lock is not None:
            self._lock.free()


class _Teller:
    """What is said on standard error: one line at the start, one for each change of state."""

    def __init__(self, node: str, place: _Place, interval: float, gpu: bool, host: bool) -> None:
        self._words = f"{node}: %s, every {interval:g} s to {place.name}"
        self._gpu, self._host = gpu, host
        self._begun = time.monotonic()
        self._said = False
        self._driver: DriverSample | None = None
        self._gpus: dict[str, GpuSample] = {}

    def hear(self, samples: list[Sample]) -> None:
        """Take in what was written."""
        for sample in samples:
            if isinstance(sample, DriverSample):
                if self._said and self._driver is not None and sample.state != self._driver.state:
                    complain(sample.sentence or f"the NVIDIA driver answers again ({sample.driver})")
                self._driver = sample
            elif isinstance(sample, GpuSample):
                before = self._gpus.get(sample.uuid)
                if self._said and before is not None and before.state != sample.state:
                    complain(sample.sentence or f"GPU {sample.index} answers again")
                self._gpus[sample.uuid] = replace(sample, name=sample.name or (before.name if before else ""))
        if not self._said and (self._complete() or time.monotonic() - self._begun > HELLO_S):
            self._said = True
            complain(self._words % self._sight())

    def _complete(self) -> bool:
        driver = self._driver
        if not self._gpu:
            return True
        if driver is None or driver.state == "starting":
            return False
        return driver.state != "ok" or len([g for g in self._gpus.values() if not g.parent]) >= (driver.gpus or 0)

    def _sight(self) -> str:
        parts = []
        driver = self._driver
        if self._gpu and driver is None:
            parts.append("the NVIDIA driver has not answered yet")
        elif self._gpu and driver is not None:
            names = Counter(gpu.name or "GPU" for gpu in self._gpus.values() if not gpu.parent)
            cards = ", ".join(f"{count} × {name}" for name, count in names.items())
            parts.append(f"{cards} (driver {driver.driver})" if cards else driver.sentence or "no GPU")
        if self._host:
            parts.append("host")
        return ", ".join(parts)


def _everything(samples: queue.Queue[list[Sample]], gpu: bool, host: bool) -> list[Sample]:
    """One whole sample of each thing, merged from the first rounds."""
    merged: dict[object, Sample] = {}
    driver: DriverSample | None = None
    begun = time.monotonic()
    while True:
        gone = time.monotonic() - begun
        pending = gpu and (driver is None or driver.state == "starting")
        if gone > ONCE_GPUS_S or (gone > ONCE_S and not pending):
            break
        try:
            found = samples.get(timeout=0.2)
        except queue.Empty:
            continue
        for sample in found:
            if isinstance(sample, DriverSample):
                driver = sample
            key = (type(sample), getattr(sample, "uuid", ""), getattr(sample, "instance", ""))
            merged[key] = _joined(merged.get(key), sample)
    return list(merged.values())


def _joined(before: Sample | None, after: Sample) -> Sample:
    """Two partial samples of the same thing as one."""
    if before is None or isinstance(after, DriverSample) or isinstance(before, DriverSample):
        return after
    changes: dict[str, Any] = {"values": {**before.values, **after.values}}
    missing = {**before.missing, **after.missing}
    changes["missing"] = {name: why for name, why in missing.items() if why and name not in after.values}
    if isinstance(after, GpuSample) and isinstance(before, GpuSample):
        changes["facts"] = {**before.facts, **after.facts}
        changes["name"] = after.name or before.name
        changes["events"] = before.events + after.events
        changes["throttle"] = before.throttle if after.throttle is None else after.throttle
        changes["processes"] = before.processes if after.processes is None else after.processes
    elif isinstance(after, HostSample) and isinstance(before, HostSample):
        for name in ("disks", "volumes", "links"):
            new = getattr(after, name)
            changes[name] = getattr(before, name) if new is None else new
    return replace(after, **changes)
