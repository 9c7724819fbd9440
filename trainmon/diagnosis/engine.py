"""All detectors of a run together: records in, incidents and the run's state out.

Pure: whoever calls it brings the time. Live silence is measured between arrivals (`observe`, `heard`) and `tick`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from trainmon.columns import Columns
from trainmon.diagnosis.cpu import Cpu
from trainmon.diagnosis.detector import Detector, moment, place_without_step, step_of_record
from trainmon.diagnosis.fatal import Fatal, Lookup
from trainmon.diagnosis.gpu_fault import GpuFault
from trainmon.diagnosis.gpu_links import GpuLinks
from trainmon.diagnosis.host_memory import HostMemory
from trainmon.diagnosis.machine import gpu_key
from trainmon.diagnosis.memory import Memory
from trainmon.diagnosis.network import Network
from trainmon.diagnosis.nonfinite import NonFinite
from trainmon.diagnosis.pulse import CHATTER, LEAVING, PAUSES, Pulse
from trainmon.diagnosis.silent import Silent
from trainmon.diagnosis.spin import Spin
from trainmon.diagnosis.stall import TROUBLE, Stall
from trainmon.diagnosis.state import StateMachine
from trainmon.diagnosis.storage import Storage
from trainmon.diagnosis.straggler import Straggler
from trainmon.diagnosis.thresholds import Thresholds
from trainmon.diagnosis.throttle import Throttle
from trainmon.diagnosis.underuse import Underuse
from trainmon.diagnosis.watch import Watch
from trainmon.diagnosis.words import number
from trainmon.model import Incident, Record
from trainmon.samples import DriverSample, GpuSample, HostSample, Sample
from trainmon.snapshot import RunState

DETECTORS: tuple[Callable[[Pulse, Thresholds], Detector], ...] = (NonFinite, Memory, Straggler)
"""Those that need nothing but records. Stall, Silent and Fatal work together with the run's state and are added."""
MACHINES: tuple[Callable[[Pulse, Thresholds], Watch], ...] = (
    Underuse, Throttle, GpuFault, GpuLinks, HostMemory, Cpu, Storage, Network,
)  # fmt: skip
"""Those of GPUs and hosts: they see records with a `sample` only. Spin (for Stall) and Memory are added."""
AWAY_S = 5.0
"""A look that comes later than this after the one before: we were stopped (Ctrl-Z, a suspended machine)."""
SINGLY = 64
"""The last rows of columns are looked at one by one, and leave what the rules remember of the recent past."""
GRACE_S = 2.0
"""For so long after that no silence is judged, so that what has piled up can be read first."""


class Detectors:
    """See the module's docstring.

    Args:
        thresholds: Limits; None in a field switches that alert off.
        lookup: Tells what the catalogue knows of a code (title, fixes); may return None or raise LookupError.
        separate: The nodes are runs of their own: none is compared with the others.
    """

    def __init__(
        self, thresholds: Thresholds | None = None, *, lookup: Lookup | None = None, separate: bool = False
    ) -> None:
        limits = thresholds if thresholds is not None else Thresholds()
        if separate:
            limits = replace(limits, node_silent_after_s=None, straggler_ratio=None)
        self.pulse = pulse = Pulse()
        self._spin = Spin(pulse, limits)
        self.stall = Stall(pulse, limits, self._spin)
        self.silent = Silent(pulse, limits)
        self.fatal = Fatal(pulse, limits, lookup)
        self._others = [make(pulse, limits) for make in DETECTORS]
        self._memory = next(d for d in self._others if isinstance(d, Memory))
        self._nonfinite = next(d for d in self._others if isinstance(d, NonFinite))
        self._straggler = next(d for d in self._others if isinstance(d, Straggler))
        self._all: tuple[Detector, ...] = (*self._others, self.fatal, self.stall)
        self._wants = {
            kind: tuple(d.observe for d in self._all if kind in d.kinds) for kind in ("metrics", "gpu", "host", "error")
        }
        self._watches: tuple[Watch, ...] = (self._spin, *(make(pulse, limits) for make in MACHINES))
        self._instruments: dict[str, tuple[Watch | Memory, ...]] = {
            "gpu": (self._memory, *(w for w in self._watches if "gpu" in w.kinds)),
            "host": tuple(w for w in self._watches if "host" in w.kinds),
        }
        self._storage = next(w for w in self._watches if isinstance(w, Storage))
        self._homes: set[str] = set()  # machines that are nodes of the run
        self._machine = StateMachine(pulse, self.stall)
        self._looked: float | None = None
        self._mono: float | None = None
        self._hold_until = float("-inf")
        self._had_fatal = False
        self._counted: dict[str, int | None] = {}
        self.planned: dict[str, int] = {}
        """Announced pauses so far, by kind: "eval", "checkpoint"."""

    # ------------------------------------------------------------ taking in

    def opened(self, node: str, mtime: float, now: float) -> None:
        """A file of `node` is followed from now on.

        Args:
            node: Node (or rank) that the file belongs to.
            mtime: The file's last change, Unix seconds.
            now: Unix seconds.
        """
        self.pulse.opened(node, mtime - self.pulse.shift, now - self.pulse.shift)

    def heard(self, node: str, arrival: float, live: bool = True) -> None:
        """Bytes of `node` arrived, whether or not a record is in them. Call it once for each batch, not each line.

        Args:
            node: Node that the file belongs to.
            arrival: Unix seconds.
            live: False while its history is read.
        """
        self.pulse.lines_seen = True
        if live:
            self.pulse.line(self.pulse.node(node), arrival - self.pulse.shift)

    def observe(self, record: Record, node: str, arrival: float, live: bool = True) -> list[Incident]:
        """Take in a record.

        Args:
            record: What a line said.
            node: Node (or rank) whose it is.
            arrival: When its bytes arrived, Unix seconds; the same for all records of a batch.
            live: False while history is read: then time passes by the log's own clock.

        Returns:
            Incidents that are new, changed or resolved by it. Those of history are for the caller to mark.
        """
        if record.sample is not None:
            return self._sampled(record, node, arrival, live)
        pulse = self.pulse
        kind = record.kind
        at = arrival - pulse.shift if live else record.time
        pulse.lines_seen = pulse.lines_seen or record.sample is None  # instruments are no line of a log
        pulse.gap = None
        mine = pulse.node(node)
        if live and kind not in CHATTER:
            pulse.line(mine, arrival - pulse.shift)
        if kind == "metrics":
            if "data_time_s" in record.values and node in pulse.fleet.hosts:
                pulse.fleet.waits(node, record)
            if "total_steps" in record.values:
                total = number(record.values["total_steps"])
                if total is not None and 0.0 < total < 2**53:
                    pulse.total = int(total)
            step = step_of_record(record)
            if step is None and "loss" in record.values and (pulse.step is None or mine.uncounted):
                # A log without steps goes on, too.
                step = mine.uncounted = place_without_step(record.values, mine.uncounted)
                pulse.counted = False
            if step is not None:
                pulse.take_step(mine, step, at, live, record.time)
            if "eval_loss" in record.values:
                self._count("eval")
        elif kind in ("log", "summary", "eval"):
            self._event(record, at)
            return []
        elif kind == "error":
            if record.priority == 1:
                pulse.failed_by(record, node, at if live else None)
            if record.priority is not None and record.priority <= 2:
                pulse.ended_by = record
            if record.message and TROUBLE.search(record.message):
                pulse.trouble = record
            pulse.leaving = pulse.leaving or (record.message is not None and LEAVING.search(record.message) is not None)
        if "gpu_utilization" in record.values:
            mine.util = number(record.values["gpu_utilization"])
            mine.util_at = at if live and at is not None else float("-inf")
        if record.time is not None:
            mine.told_at = record.time
        wants = self._wants.get(kind)
        if wants is None:
            return []
        if at is None:  # tracebacks carry no time: the line before them, else the file, tells when they were written
            at = mine.told_at if mine.told_at is not None else arrival
        out: list[Incident] = []
        for want in wants:
            found = want(record, node, at)
            if found:
                out.extend(found)
        if self._had_fatal and pulse.fatal is None:
            self._had_fatal = False
            out.extend(self.fatal.progressed(moment(record, at)))
        elif kind == "error" and pulse.fatal is not None:
            self._had_fatal = True
            code = record.code or ""
            if record.priority == 1 and "OOM" in code:
                out.extend(self._memory.came_true(node, moment(record, at), pulse.step, code))
        return out

    def fits(self, columns: Columns, node: str) -> bool:
        """Whether `observe_columns` can take these."""
        pulse = self.pulse
        mine, front = pulse.nodes.get(node), pulse.step
        if mine is None or mine.step is None or front is None or not columns.steps[0] > max(front, mine.step):
            return False
        if pulse.live or pulse.fatal is not None or self._had_fatal or pulse.finished or pulse.pause is not None:
            return False
        if pulse.trouble is not None or ("data_time_s" in columns.values and node in pulse.fleet.hosts):
            return False
        total = number(columns.first.values.get("total_steps", 1))
        return (
            total is not None
            and 0.0 < total < 2**53
            and self._memory.fits(columns, node)
            and self._straggler.fits(columns)
        )

    def observe_columns(self, columns: Columns, node: str, arrival: float) -> list[tuple[int, Incident]]:
        """`observe` of each row of history, in one go; gives incidents with the row that they belong to.

        Args:
            columns: As `fits` wants them: finite, with rising steps and times that do not fall.
        """
        pulse, first, steps, times, rows = self.pulse, columns.first, columns.steps, columns.times, len(columns)
        mine = pulse.node(node)
        pulse.lines_seen = True
        pulse.total = int(first.values.get("total_steps", pulse.total or 0)) or None
        found: list[tuple[int, int, Incident]] = []
        row, skip = 0, rows - SINGLY
        if skip > 0 and (times is None or pulse.steady(mine, times[:skip], self.stall.limits.least())):
            pulse.skip_steps(mine, steps[:skip], None if times is None else times[:skip])
            row = skip
        for i in range(row, rows):
            at = None if times is None else times[i]
            pulse.take_step(mine, steps[i], at, False, at)
            if pulse.gap is not None and pulse.gap[1] - pulse.gap[0] > pulse.stall_limit_s:
                found += [(i, 2, one) for one in self.stall.observe(columns.record(i), node, at)]
        pulse.trouble = pulse.ended_by = None
        pulse.leaving = False
        if "gpu_utilization" in columns.values:
            mine.util, mine.util_at = columns.values["gpu_utilization"][-1], float("-inf")
        if times is not None:
            mine.told_at = times[-1]
        otherwise = mine.told_at if mine.told_at is not None else arrival
        self._straggler.take_columns(columns, node, otherwise)
        found += [(i, 0, incident) for i, incident in self._nonfinite.take_columns(columns, otherwise)]
        found += [(i, 1, incident) for i, incident in self._memory.take_columns(columns, node, otherwise)]
        return [(i, incident) for i, _, incident in sorted(found, key=lambda one: one[:2])]

    def _sampled(self, record: Record, node: str, arrival: float, live: bool) -> list[Incident]:
        """What instruments read. It says nothing of whether the run is alive."""
        pulse, sample = self.pulse, record.sample
        assert sample is not None
        if record.extra.get("foreign"):
            if isinstance(sample, GpuSample):
                return self._leave(gpu_key(sample, node) if sample.uuid else record.node or node)
            return self._leave(node)
        pulse.gap = None
        at = arrival - pulse.shift if live else sample.time
        away = self._elsewhere(sample, node)
        if away and not isinstance(sample, HostSample):
            return self._leave(gpu_key(sample, node)) if isinstance(sample, GpuSample) else []
        about = pulse.fleet.take(sample, node, at, live)
        if about is None and not isinstance(sample, DriverSample):
            return []
        if live and record.kind == "gpu" and (told := pulse.nodes.get(node)) is not None:
            told.util, told.util_at = pulse.fleet.util(node), at
        out: list[Incident] = []
        for key in pulse.fleet.dropped:
            out.extend(self._leave(key, gone=True))
        pulse.fleet.dropped.clear()
        if pulse.fleet.host is not None:
            pulse.fleet.host.elsewhere = away
        for detector in self._instruments[record.kind] if not away else (self._storage,):
            found = detector.observe(record, node, at)
            if found:
                out.extend(found)
        return out

    def _elsewhere(self, sample: Sample, node: str) -> bool:
        """Whether this machine only watches a run of several nodes, of which it is none."""
        if node in self.pulse.nodes:
            self._homes.add(sample.node)
            return False
        if sample.node in self._homes or sample.origin not in ("NVML", "host"):
            return False
        return sum(n.steps > 0 for n in self.pulse.nodes.values()) > 1

    def _leave(self, key: str, *, gone: bool = False) -> list[Incident]:
        """A GPU (by its key) or a machine is none of the run's: no alarm of it, and no comparison with it.

        Args:
            gone: The fleet has let go of it already, or knows it anew.
        """
        pulse = self.pulse
        if not gone and not pulse.fleet.known(key) and key not in pulse.fleet.hosts:
            return []
        out = [incident for watch in self._watches for incident in watch.leave(key)]
        out.extend(self._memory.leave(key))
        if not gone:
            pulse.fleet.forget(key)
        return out

    def _count(self, kind: str | None) -> None:
        """Count a planned pause: once, though several nodes and lines (saving, saved) tell of it."""
        if kind is None:
            return
        step = self.pulse.step
        last = self._counted.get(kind)
        if step is not None and last is not None and last <= step <= last + 1:
            return
        self._counted[kind] = step
        self.planned[kind] = self.planned.get(kind, 0) + 1

    def _event(self, record: Record, at: float | None) -> None:
        event = record.extra.get("event")
        if isinstance(event, str):
            self.pulse.event(event, at)
            self._count(PAUSES.get(event))
        elif record.kind == "eval":
            self._count("eval")
        elif record.kind == "summary":
            self.pulse.event("finished", at)
        if record.message and not self.pulse.leaving and LEAVING.search(record.message):
            self.pulse.leaving = True
        if record.level in ("WARN", "ERROR", "FATAL") and record.message and TROUBLE.search(record.message):
            self.pulse.trouble = record

    # ------------------------------------------------------------ time passes

    def tick(self, now: float, mono: float | None = None) -> list[Incident]:
        """Time has passed; call it about once a second.

        Args:
            now: Unix seconds; may jump.
            mono: Seconds that never jump (`Clock.monotonic`). With it a clock that is set changes nothing; without
                it a jump back is taken out and a jump ahead looks like silence.

        Returns:
            Incidents that are new, changed or resolved.
        """
        steady = self._steady(now, mono)
        if self._looked is not None and steady - self._looked > AWAY_S:
            self._hold_until = steady + GRACE_S
        self._looked = steady
        pulse = self.pulse
        over = self._machine.over(steady)
        out: list[Incident] = []
        self.stall.applies = pulse.lines_seen and over is None
        self.silent.applies = over is None
        if steady >= self._hold_until:
            out.extend(self.stall.tick(steady))
            out.extend(self.silent.tick(steady))
        out.extend(self.fatal.tick(steady))
        for detector in self._others:
            out.extend(detector.tick(steady))
        for watch in self._watches:
            out.extend(watch.tick(steady))
        self._machine.look(steady)
        return out

    def _steady(self, now: float, mono: float | None) -> float:
        pulse = self.pulse
        steady = now - pulse.shift
        if self._looked is not None:
            if mono is not None and self._mono is not None:
                expected = self._looked + max(0.0, mono - self._mono)
                if abs(steady - expected) > 1.0:
                    pulse.shift += steady - expected
                    steady = expected
                    pulse.clamp(steady)
            elif steady < self._looked - 1.0:
                pulse.shift += steady - self._looked
                steady = self._looked
                pulse.clamp(steady)
        self._mono = mono
        return steady

    # ------------------------------------------------------------ giving out

    @property
    def state(self) -> RunState:
        """The run's state as of the last tick."""
        return self._machine.state

    @property
    def note(self) -> str:
        """What belongs to the state, in words; may be empty."""
        return self._machine.note

    @property
    def seconds_per_step(self) -> float | None:
        """Seconds a step over the last steps, for the ETA."""
        return self.pulse.seconds_per_step

    def look(self, now: float) -> tuple[RunState, str]:
        """State and note at `now`, Unix seconds, without running the detectors."""
        return self._machine.look(now - self.pulse.shift)
