"""The watchdog of the process that talks to NVML.

A call into a sick driver can last for ever, and a process in it cannot be killed; a GPU that fell off the bus can take
minutes; a library can crash. None of that may reach the screen. So a worker process asks, and this thread reads what it
says and looks where it is: one that stays in a call is killed and not waited for, and a new one leaves that GPU out.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from trainmon.clock import Clock
from trainmon.samples import DriverSample, DriverState, GpuSample, Sample, from_object
from trainmon.telemetry.gpu import sentences
from trainmon.telemetry.gpu.child import COMMAND, Child
from trainmon.telemetry.gpu.leftout import LeftOut
from trainmon.telemetry.gpu.place import LOOK, NONE, Place, Wishes
from trainmon.telemetry.gpu.verdict import CALL_S, stuck

TRY_S = 30.0
"""Between two attempts at a driver that does not answer."""
REPEAT_S = 60.0
"""What stands is said again as often, for those who join late."""
MOST_STUCK = 2
"""Workers that are killed and do not die; more are not started."""
CRASH_S, CRASH_MOST_S = 1.0, 60.0
_POLL_S = 0.25
_BATCH_S = 0.5
_LATE_S = 0.5
_STOP_S = 0.15


class GpuWatch:
    """Reads this machine's GPUs, whatever their driver does.

    Args:
        sink: Called with the samples of each round, from the watch's own thread.
        node: Name of this machine.
        interval_s: Seconds between two rounds, at least 0.5.
        command: Starts a worker, given its options as one more argument; for tests.
        root: Stands for "/" when the worker looks at /proc, /sys and /dev; for tests.
    """

    def __init__(
        self,
        sink: Callable[[list[Sample]], object],
        *,
        node: str,
        clock: Clock,
        interval_s: float = 1.0,
        command: Sequence[str] | None = None,
        root: str = "/",
    ) -> None:
        self._sink = sink
        self._node = node
        self._clock = clock
        self._interval = interval_s
        self._command = tuple(command or COMMAND)
        self._root = root
        self._thread: threading.Thread | None = None
        self._wake_read = self._wake_write = -1
        self._stopping = False
        self._released = False
        self._refresh = False
        self._worker: Child | None = None
        self._probe: Child | None = None
        self._graves: list[Child] = []
        self._batch: list[Sample] = []
        self._batch_at = 0.0
        self._start_at: float | None = 0.0
        self._started = 0.0
        self._grace = 0.0
        self._names = True
        self._suspect: int | None = None
        self._crashes = 0
        self._crashed_at: int | None = None
        self._anew = 0
        self._driver: DriverSample | None = None
        self._repeated = 0.0
        self._out = LeftOut(node, clock)

    # --- what others call -------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin. Returns at once."""
        if self._thread is not None:
            return
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        self._thread = threading.Thread(target=self._run, name="gpu-watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End, within 0.2 s whatever the driver does. A worker that does not die is left to the system."""
        thread = self._thread
        if thread is None or self._stopping:
            return
        self._stopping = True
        self._wake()
        thread.join(_STOP_S)
        if thread.is_alive():  # its sink hangs: the worker goes with this process, or earlier
            for child in (self._worker, self._probe):
                if child is not None:
                    child.kill()

    def release(self) -> None:
        """Let NVML go, for a GPU reset or a change of the MIG layout."""
        self._released = self._refresh = True
        self._wake()

    def resume(self) -> None:
        """Read again; also looks anew for a driver where none was."""
        self._released = False
        self._refresh = True
        self._wake()

    def set_interval(self, seconds: float) -> None:
        """Change the interval from the next round on."""
        self._interval = seconds
        self._wake()

    def _wake(self) -> None:
        if self._wake_write >= 0:
            try:
                os.write(self._wake_write, b"!")
            except OSError:
                pass

    # --- the thread -------------------------------------------------------------------------------------------

    def _run(self) -> None:
        self._say("starting", sentences.STARTING)
        try:
            while not self._stopping:
                try:
                    self._step()
                except Exception as error:  # a worker that is out of its mind must not end the watch
                    self._bury_all()
                    self._start_at = time.monotonic() + TRY_S
                    self._say("failing", f"reading NVML failed ({type(error).__name__}); tried again in {TRY_S:g} s")
        finally:
            self._bury_all()
            read, write, self._wake_read, self._wake_write = self._wake_read, self._wake_write, -1, -1
            os.close(write)
            os.close(read)

    def _step(self) -> None:
        now = time.monotonic()
        if self._refresh:
            self._turn(now)
        self._begin(now)
        self._wait(now)
        now = time.monotonic()
        if self._worker is not None:
            self._hear(self._worker, now)
        if self._probe is not None:
            self._hear(self._probe, now)
        if now >= self._grace:
            self._judge(now)
        self._repeat(now)
        if self._batch and now - self._batch_at > _BATCH_S:
            self._send()
        self._graves = [child for child in self._graves if child.code is None]

    def _turn(self, now: float) -> None:
        """The user let go, or took hold again."""
        self._refresh = False
        if self._released:
            self._bury_all()
            self._start_at = None
            self._out.clear()
            self._say("released", sentences.RELEASED)
        elif self._worker is None:
            self._start_at = now
            self._say("starting", sentences.STARTING)

    def _begin(self, now: float) -> None:
        if self._worker is None and self._start_at is not None and now >= self._start_at:
            if len(self._graves) < MOST_STUCK:
                self._worker = self._spawn(None, now)
                self._started = now
        elif self._worker is not None and self._probe is None and len(self._graves) < MOST_STUCK:
            index = self._out.due(now)
            if index is not None:
                self._probe = self._spawn(index, now)
        if self._worker is not None:
            self._worker.wish(self._wishes())

    def _wishes(self) -> Wishes:
        return Wishes(self._interval, self._out.mask, self._names)

    def _spawn(self, only: int | None, now: float) -> Child | None:
        options = {"node": self._node, "only": only, "root": self._root}
        wishes = self._wishes() if only is None else Wishes(self._interval, 0, self._names)
        try:
            return Child(self._command, options, wishes)
        except OSError as error:
            if only is None:
                self._start_at = now + TRY_S
                self._say("failing", f"the process that reads NVML cannot be started: {error}")
            return None

    def _bury(self, child: Child | None) -> None:
        if child is not None:
            child.kill()
            self._graves.append(child)

    def _bury_all(self) -> None:
        self._bury(self._worker)
        self._bury(self._probe)
        self._worker = self._probe = None

    def _wait(self, now: float) -> None:
        poll = select.poll()
        poll.register(self._wake_read, select.POLLIN)
        for child in (self._worker, self._probe):
            if child is not None:
                poll.register(child.fd, select.POLLIN)
        if self._worker is not None or self._probe is not None or self._batch or self._graves:
            timeout: float | None = _POLL_S
        elif self._start_at is None:
            timeout = None
        else:
            timeout = max(0.0, min(self._start_at - now, REPEAT_S))
        ready = poll.poll(None if timeout is None else timeout * 1000)
        late = time.monotonic() - now - (timeout or 0.0)
        if timeout is not None and late > _LATE_S:
            # This process itself stood still (suspended, starved): the worker's silence of that time says nothing.
            self._grace = time.monotonic() + CALL_S
        if any(fd == self._wake_read for fd, _ in ready):
            os.read(self._wake_read, 1024)

    def _hear(self, child: Child, now: float) -> None:
        found = child.lines()
        for one in found or ():
            self._take(child, one, now)
        if found is None:
            self._gone(child, now)

    def _take(self, child: Child, one: dict[str, Any], now: float) -> None:
        if "end" in one:
            child.ended = str(one["end"])
        elif "error" in one:
            child.error = str(one["error"])
        elif "tick" in one:
            if child is self._worker:
                self._send()
                if now - self._started > REPEAT_S:
                    self._crashes, self._crashed_at = 0, None
        else:
            sample = from_object(one)
            if isinstance(sample, DriverSample):
                self._take_driver(sample)
            elif isinstance(sample, GpuSample):
                if sample.index is not None and not sample.parent:
                    if sample.uuid:
                        self._out.know(sample.index, sample.uuid)
                    if child.only == sample.index:
                        self._out.remove(sample.index)  # it answers again
                self._add(sample)

    def _take_driver(self, sample: DriverSample) -> None:
        before = self._driver
        if before is not None and before.state == sample.state and before.since is not None:
            sample = replace(sample, since=before.since)  # another worker, the same trouble
        self._driver = sample
        if sample.state == "ok":
            self._suspect, self._anew = None, 0
        self._add(sample)

    def _gone(self, child: Child, now: float) -> None:
        """A worker ended by itself."""
        place = child.place()
        child.close()
        if child is self._probe:
            self._probe = None
            self._in_vain(child, now)
            return
        self._worker = None
        self._send()
        if child.ended in ("no library", "no binding"):
            self._start_at = None
            return
        if child.ended == "anew":
            self._start_at = now + (CRASH_S if self._anew == 0 else TRY_S)
            self._anew += 1
            return
        code = child.code_soon(0.1)
        what = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
        what = child.error or what
        pause = min(CRASH_S * 2**self._crashes, CRASH_MOST_S)
        self._crashes = min(self._crashes + 1, 10)
        device = place.device if place is not None else NONE
        if place is not None and device != NONE and device == self._crashed_at:
            # Twice in the same GPU: go on without it.
            self._leave_out(place, now, what)
            pause = CRASH_S
        self._crashed_at = device if device != NONE else None
        self._start_at = now + pause
        self._say("failing", sentences.crashed(what, place.call if place is not None else "", pause))

    # --- judging silence --------------------------------------------------------------------------------------

    def _judge(self, now: float) -> None:
        worker, probe = self._worker, self._probe
        suspicious = self._suspect is not None
        if probe is not None and stuck(probe, now, True) is not None:
            self._bury(probe)
            self._probe = None
            self._in_vain(probe, now)
        place = stuck(worker, now, suspicious) if worker is not None else None
        if worker is None or place is None:
            return
        if place.device == NONE and place.call.startswith("nvml"):
            self._silent(worker, place, now)
            return
        self._bury(worker)
        self._worker = None
        self._start_at = now
        if place.device != NONE:
            self._leave_out(place, now)
            self._suspect = place.device
        elif place.call.startswith(LOOK):
            self._names = False  # reading another process's memory can hang with that process
        self._send()

    def _leave_out(self, place: Place, now: float, why: str = "") -> None:
        self._out.add(place.device, place.call, now - place.since, now, why)
        self._tell(place.device)

    def _in_vain(self, probe: Child, now: float) -> None:
        """A second look at a GPU did not help."""
        if probe.only is not None and probe.only in self._out:
            self._out.in_vain(probe.only, now)
            self._tell(probe.only)

    def _tell(self, index: int) -> None:
        sample = self._out.sample(index)
        if sample is not None:
            self._add(sample)

    def _silent(self, worker: Child, place: Place, now: float) -> None:
        """NVML as a whole does not answer."""
        if self._suspect is None:
            self._suspect = NONE
        if self._driver is None or self._driver.state != "not responding":
            since = self._clock.now() - (now - place.since)
            since = min(since, self._out.since(self._suspect) or since)
            self._say("not responding", sentences.silent(place.call, since, TRY_S), since)
        self._out.remove(self._suspect, forgive=True)  # it was not that GPU alone
        if place.call.startswith("nvmlInit") and now - place.since < TRY_S:
            return  # it may yet get through, and another one would only wait behind it
        self._bury(worker)
        self._worker = None
        self._start_at = now

    # --- saying -----------------------------------------------------------------------------------------------

    def _say(self, state: DriverState, sentence: str, since: float | None = None) -> None:
        wall = self._clock.now()
        before = self._driver
        if since is None and before is not None and before.state == state:
            since = before.since
        version = before.driver if before is not None else ""
        gpus = before.gpus if before is not None and state != "released" else None
        self._driver = DriverSample(
            self._node, wall, state, sentence, since if since is not None else wall, version, gpus
        )
        self._add(self._driver)
        self._send()

    def _repeat(self, now: float) -> None:
        """Say again what no worker says."""
        if now - self._repeated < REPEAT_S:
            return
        self._repeated = now
        for sample in self._out.samples():
            self._add(sample)
        if self._driver is not None and self._driver.state in ("not responding", "failing"):
            self._say(self._driver.state, self._driver.sentence)

    def _add(self, sample: Sample) -> None:
        if not self._batch:
            self._batch_at = time.monotonic()
        self._batch.append(sample)

    def _send(self) -> None:
        batch, self._batch = self._batch, []
        if batch and not self._stopping:
            try:
                self._sink(batch)
            except Exception:  # the listener's trouble must not end the watch
                pass
