"""The process that talks to NVML: `python -m trainmon.telemetry.gpu.worker OPTIONS`, started by the watchdog.

It writes samples as JSON lines, `{"tick": n}` after each round, and `{"end": why}` before it ends by itself. It has one
thread, because NVML has had its troubles with more, and it may hang or crash: nobody waits for it.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import sys
import time
from typing import Any, NoReturn

from trainmon.samples import DriverSample, DriverState, Sample, to_object
from trainmon.telemetry.gpu import nvml as codes
from trainmon.telemetry.gpu import sentences, surroundings
from trainmon.telemetry.gpu.device import Device, DeviceGone, Draft, DriverGone
from trainmon.telemetry.gpu.events import Events
from trainmon.telemetry.gpu.metrics import RARE_S, SLOW_S, THROUGHPUT, THROUGHPUT_S, table
from trainmon.telemetry.gpu.nvml import Nvml, Refused, own_output
from trainmon.telemetry.gpu.opening import count, open_device, read_instances
from trainmon.telemetry.gpu.people import People
from trainmon.telemetry.gpu.place import IDLE, WRITE, Marker
from trainmon.telemetry.gpu.processes import Processes

FLOOR_S = 0.5
"""The sensors do not move faster, and faster polling costs the job."""
FLUSH_S = 0.2
"""What was read of one GPU does not wait longer for the others."""
_SLICE_S = 1.0
_PAUSES = {"lost": (5.0, 30.0), "reset needed": (10.0, 30.0), "no permission": (30.0, 30.0), "failing": (2.0, 60.0)}
"""Seconds until a GPU that is not well is asked again: at first, and at most."""
_INIT_FIRST_S, _INIT_SOON_S, _INIT_LONG_S = 1.0, 5.0, 30.0
_INIT_SHARE = 6
"""Pauses between two initialisations: a second, and a sixth of the time that it has been tried, up to the most."""
_SOON = (codes.DRIVER_NOT_LOADED, codes.UNKNOWN, codes.UNINITIALIZED)
_DIE_WITH_PARENT, _KILL = 1, 9


class Out:
    """The pipe to the watchdog."""

    def __init__(self, node: str, marker: Marker, fd: int) -> None:
        self.node = node
        self._marker = marker
        self._fd = fd
        self._lines: list[str] = []
        self._flushed = 0.0

    def sample(self, sample: Sample) -> None:
        """Put down a sample; it goes out with the tick, or before that when the tick takes long."""
        self.line(to_object(sample))
        if time.monotonic() - self._flushed > FLUSH_S:
            self.flush()

    def line(self, found: dict[str, Any]) -> None:
        """Put down a line."""
        self._lines.append(json.dumps(found, separators=(",", ":")))

    def flush(self) -> None:
        """Write what was put down. Ends the process when nobody reads."""
        self._flushed = time.monotonic()
        if not self._lines:
            return
        data = ("\n".join(self._lines) + "\n").encode()
        self._lines.clear()
        self._marker.at(WRITE)
        while data:
            try:
                data = data[os.write(self._fd, data) :]
            except OSError:
                os._exit(0)

    def end(self, why: str) -> NoReturn:
        """Say why, and end without the interpreter's farewell: it would call into the driver's library."""
        self.line({"end": why})
        self.flush()
        os._exit(0)


class Worker:
    """Reads all GPUs, round after round.

    Args:
        only: Read this GPU once and end: a look at one that did not answer.
    """

    def __init__(self, lib: Nvml, out: Out, marker: Marker, parent: int, only: int | None, root: str) -> None:
        self.lib = lib
        self.out = out
        self.marker = marker
        self.devices: list[Device] = []
        self._parent = parent
        self._only = only
        self._root = root
        self._people = People(marker, root)
        self._processes = Processes(self._people)
        self._table = table(self._processes)
        self._events = Events()
        self._state: DriverState = "starting"
        self._since = 0.0
        self._said = -RARE_S
        self._throughput_at = 0.0
        self._turn = 0
        self._was_ok = False
        self._register = False

    def run(self) -> NoReturn:
        """Until the parent is gone, or there is nothing to read."""
        began = time.monotonic()
        while True:
            code = self._start()
            if code is None:
                code = self._session()
                self._stop()
                began = time.monotonic()
            self._refused(code)
            most = _INIT_SOON_S if code in _SOON else _INIT_LONG_S
            pause = min(_INIT_FIRST_S + (time.monotonic() - began) / _INIT_SHARE, most)
            self._sleep_until(time.monotonic() + pause)

    def _start(self) -> int | None:
        try:
            self.lib.start()
        except Refused as refused:
            return refused.code
        return None

    def _stop(self) -> None:
        self._events = Events()
        self.devices = []
        self.lib.stop()

    def _refused(self, code: int) -> None:
        state, sentence = sentences.refusal(code, self._root, self._was_ok)
        self._say(state, sentence, None, self._state != state)
        self.out.flush()
        if code == codes.LIBRARY_NOT_FOUND:
            self.out.end("no library")
        if code == codes.VERSION_MISMATCH or self._only is not None:
            self.out.end("anew")  # the library that this process has loaded will not change any more

    def _say(self, state: DriverState, sentence: str, gpus: int | None, now: bool) -> None:
        wall = round(time.time(), 3)
        if self._state != state or not self._since:
            self._state, self._since = state, wall
        if self._only is None and (now or time.monotonic() - self._said >= RARE_S):
            self._said = time.monotonic()
            self.out.sample(DriverSample(self.out.node, wall, state, sentence, self._since, self.lib.driver, gpus))

    def _session(self) -> int:
        """From one initialisation to the driver's end; NVML's code of that."""
        try:
            self._count()
            self._was_ok = True
            due = time.monotonic()
            while True:
                began = time.monotonic()
                self._round(began)
                self.out.line({"tick": 1})
                self.out.flush()
                if self._only is not None:
                    self.out.end("seen")
                interval = max(self.marker.wishes().interval_s, FLOOR_S) if self.devices else RARE_S
                now = time.monotonic()
                due = min(max(due + interval, now + 0.05), now + interval)
                self._sleep_until(due, interval)
        except DriverGone as gone:
            return gone.code

    def _sleep_until(self, due: float, interval: float | None = None) -> None:
        """Sleep in short pieces: the parent may be gone, or want another interval."""
        while (left := due - time.monotonic()) > 0:
            self.marker.at(IDLE)
            time.sleep(min(left, _SLICE_S))
            if os.getppid() != self._parent:
                os._exit(0)
            if interval is not None and self.devices and self.marker.wishes().interval_s < interval:
                return

    def _count(self) -> None:
        number = count(self.lib)
        known = {device.index: device for device in self.devices}
        self.devices = [known.get(index) or Device(index) for index in range(number)]
        if self._only is not None:
            self.devices = [device for device in self.devices if device.index == self._only]
        state: DriverState = "ok"
        sentence = "" if number else sentences.NO_GPU
        maker = "" if number else surroundings.other_maker(self._root)
        if maker:
            state, sentence = "unsupported", sentences.unsupported(maker)
        self._say(state, sentence, number, self._state != state)

    def _round(self, now: float) -> None:
        wishes = self.marker.wishes()
        self._processes.names = wishes.names
        if now - self._said >= RARE_S:
            self._count()
        here = [device for device in self.devices if not wishes.left_out >> device.index & 1]
        for device in self.devices:
            if device not in here and device.handle is not None:
                device.forget()
        told = self._events.collect(self.lib, time.time())
        if self._register and self._events.any:
            self._enrol(here)
        doubtful = [device for device in here if self._visit(device, now)]
        if self._register and not self._events.any:
            self._enrol(here)
        self._all_gone(here)
        for device in {*doubtful, *told}:
            if device in doubtful or device.events:
                self.out.sample(device.sample(self.out.node, time.time()))
        for device in here:
            if device.handle is not None and device.state == "ok":
                self._visit_rarely(device, now)
        self._measure(here, now)

    def _enrol(self, here: list[Device]) -> None:
        """GPUs were opened or lost: those that are there are asked for events."""
        self._register = False
        self._people.gpus = [(device.uuid, device.name) for device in self.devices]
        self._events.register(self.lib, [one for one in here if one.handle is not None])

    def _all_gone(self, here: list[Device]) -> None:
        """Unknown Error from every GPU at once is the driver's, not theirs."""
        asked = [device for device in here if device.handle is not None]
        if asked and all(device.state == "failing" and device.code == codes.UNKNOWN for device in asked):
            raise DriverGone(codes.UNKNOWN)

    def _visit(self, device: Device, now: float) -> bool:
        """The fast group; True when it answered nothing, which is said only if the driver as a whole is well."""
        opened = False
        if device.handle is None or device.state != "ok":
            if now < device.again:
                return False
            try:
                if device.handle is None:
                    open_device(self.lib, device, self._root)
                    opened = self._register = True
                device.forgive()
            except DeviceGone as gone:
                self._fall(device, gone, now)
                return False
        try:
            return self._fast(device, now, opened)
        except DeviceGone as gone:
            device.forget()
            self._register = True
            self._fall(device, gone, now)
            return False

    def _fast(self, device: Device, now: float, full: bool) -> bool:
        device.answered = device.refusals = 0
        draft = self._ask(device, "fast", now)
        if device.refusals and not device.answered:
            device.fall("failing", device.code, time.time(), now, _PAUSES["failing"])
            return True
        if device.answered and device.state != "ok":
            device.rise()
        self.out.sample(device.sample(self.out.node, time.time(), draft, full))
        for one in device.instances:
            self.out.sample(one.sample(self.out.node, time.time(), self._ask(one, "fast", now), full))
        return False

    def _ask(self, device: Device, group: str, now: float) -> Draft:
        draft = Draft()
        for reading in self._table:
            if reading.group == group and (device.parent is None or not reading.whole):
                device.take(self.lib, reading, draft, now)
        return draft

    def _fall(self, device: Device, gone: DeviceGone, now: float) -> None:
        device.fall(gone.state, gone.code, time.time(), now, _PAUSES[gone.state])
        self.out.sample(device.sample(self.out.node, time.time(), full=True))

    def _visit_rarely(self, device: Device, now: float) -> None:
        if self._only is not None:
            return
        slow, rare = now >= device.slow_at, now >= device.rare_at
        if not slow and not rare:
            return
        first = device.rare_at == 0.0
        share = (device.index + 1) / len(self.devices) if first else 1.0  # from then on the GPUs take turns
        try:
            if rare:
                device.rare_at = now + RARE_S * share
                if not first:
                    read_instances(self.lib, device)
            if slow:
                device.slow_at = now + SLOW_S * share
            for one in (device, *device.instances):
                draft = self._ask(one, "slow", now) if slow else Draft()
                if rare:
                    draft.values.update(self._ask(one, "rare", now).values)
                self.out.sample(one.sample(self.out.node, time.time(), draft, rare))
        except DeviceGone as gone:
            device.forget()
            self._fall(device, gone, now)

    def _measure(self, here: list[Device], now: float) -> None:
        """PCIe traffic of one GPU that counts none, in turn."""
        if now < self._throughput_at or self._only is not None:
            return
        wanting = [device for device in here if device.handle is not None and _counts_no_traffic(device)]
        self._throughput_at = now + THROUGHPUT_S
        if not wanting:
            return
        self._turn += 1
        device = wanting[self._turn % len(wanting)]
        draft = Draft()
        try:
            device.take(self.lib, THROUGHPUT, draft, now)
        except DeviceGone:
            return  # its fast group will say so
        if draft.values:
            self.out.sample(device.sample(self.out.node, time.time(), draft))


def _counts_no_traffic(device: Device) -> bool:
    counted = any(one.metric == "pcie_tx_mb_s" for one in device.forms.get("counters", ()))
    return not counted and not device.standing("activity").ever_ok and not device.standing(THROUGHPUT.key).settled


def _die_with(parent: int) -> None:
    """Ask the kernel to kill this process when the thread that started it ends, however it ends."""
    try:
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, _KILL)
    except (OSError, AttributeError):
        pass  # not Linux: the pipe breaks at the next sample
    if os.getppid() != parent:
        os._exit(0)


def main(options: dict[str, Any]) -> NoReturn:
    """Read GPUs until the parent is gone.

    Args:
        options: "node", "fd" (of the block shared with the watchdog), "parent" (its PID), "only" (a GPU to look at
            once, or None), "root" (stands for "/").
    """
    _die_with(options["parent"])
    marker = Marker(memoryview(mmap.mmap(options["fd"], 0)))
    out = Out(options["node"], marker, own_output())
    root = options.get("root", "/")
    marker.at("import")
    try:
        import pynvml

        if not hasattr(pynvml, "nvmlInitWithFlags") or not hasattr(pynvml, "nvmlMemory_v2"):
            raise ImportError("another package of that name")
    except ImportError:
        out.sample(DriverSample(out.node, round(time.time(), 3), "failing", sentences.NO_BINDING, time.time()))
        out.end("no binding")
    try:
        Worker(Nvml(pynvml, marker), out, marker, options["parent"], options.get("only"), root).run()
    except Exception as error:
        out.line({"error": f"{type(error).__name__}: {error}"[:200]})
        out.flush()
        os._exit(1)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
