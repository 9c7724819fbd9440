"""The vocabulary of the engine: what flows between its layers.

    bytes -> lines -> records -> state -> incidents -> alerts -> snapshot

Times are Unix seconds (UTC) as floats, memory is MiB, shares are percent unless a name says otherwise.
What the screen sees is in `trainmon.snapshot`. Standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from trainmon.samples import DriverSample, GpuSample, HostSample, Sample

Value = float | int | str
"""A field of a record. Non-finite numbers stay floats here and become strings only on output."""

Severity = Literal["critical", "warning", "info"]
Level = Literal["DEBUG", "INFO", "WARN", "ERROR", "FATAL"]
RecordKind = Literal["metrics", "eval", "summary", "gpu", "host", "error", "gap", "log", "quarantine"]

LEVELS: tuple[Level, ...] = ("DEBUG", "INFO", "WARN", "ERROR", "FATAL")
"""Log levels, mildest first."""


# ---------------------------------------------------------------- what the readers say


@dataclass(frozen=True, slots=True)
class Opened:
    """A file (or standard input) is followed from now on.

    Attributes:
        source: Small integer, unique in the session.
        name: How the user knows it: as given, or as the glob matched it.
        path: Where it is; "-" for standard input.
        size: Bytes at opening.
        mtime: Time of the last change, Unix seconds.
        joined: True when it appeared after the start.
    """

    source: int
    name: str
    path: str
    size: int
    mtime: float
    joined: bool = False


@dataclass(frozen=True, slots=True)
class Glimpse:
    """Both ends of a file that is too long to be read before the first screen.

    The same bytes come again later as `Data`, from the start and once.

    Attributes:
        head: The first bytes, cut at a line's end.
        tail: The last bytes, beginning at a line's start.
        tail_offset: Where `tail` begins.
        size: Bytes of the file at that look.
    """

    source: int
    generation: int
    head: bytes
    tail: bytes
    tail_offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Data:
    """The next bytes of a file, in order, each exactly once within its generation.

    Attributes:
        offset: Where `data` begins in this generation of the file.
        size: Bytes the file had at this look, for the share of history that is read.
        mtime: Time of the file's last change, Unix seconds.
    """

    source: int
    generation: int
    offset: int
    data: bytes
    size: int
    mtime: float


@dataclass(frozen=True, slots=True)
class Ahead:
    """Bytes appended at the end while history is still being read; they come again as `Data`."""

    source: int
    generation: int
    offset: int
    data: bytes
    mtime: float


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """All that stood in the file at the last look has been given as `Data`. Said once a generation."""

    source: int
    generation: int


@dataclass(frozen=True, slots=True)
class Replaced:
    """A new generation of the file begins: it was rotated, truncated or written anew.

    Attributes:
        generation: The new one; its offsets begin at 0.
        reason: "rotated", "truncated", "rewritten" or "re-created".
        lost: True when something may have stood there unseen (this becomes a `gap` record); a clean rotation loses
            nothing.
        lost_bytes: How many bytes, where that can be known.
    """

    source: int
    generation: int
    reason: str
    lost: bool
    lost_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class SourceState:
    """What became of something the user named, in words for the screen.

    Attributes:
        spec: The argument as given (or the file's name).
        source: The file's number, None for a pattern or a path that is not there yet.
        word: "no file yet", "empty", "followed", "not readable", "folder", "not a file", "gone", "hangs", "ended".
        sentence: What that means and what happens next.
        bad: True when the user should do something.
    """

    spec: str
    source: int | None
    word: str
    sentence: str
    bad: bool = False


@dataclass(frozen=True, slots=True)
class Telemetry:
    """What the instruments of this machine read: NVML and the host."""

    samples: tuple[Sample, ...]


SourceEvent = Opened | Glimpse | Data | Ahead | CaughtUp | Replaced | SourceState | Telemetry


# ---------------------------------------------------------------- what the parsers give


@dataclass(slots=True)
class Record:
    """One thing that a log says. Keys and units of `values` and `extra` are those of the record contract.

    Attributes:
        line: 1-based number of the line (0 when it is not known yet, in a glimpse).
        offset: Byte offset of the start of the line in its generation.
        time: Unix seconds, from the line itself; None when the line has none.
        values: Canonical numbers: step, total_steps, epoch, loss, learning_rate, gpu_memory_mb, ...
        extra: Every other number or string of the line.
        labels: job_id, model_name, trace_id, module, thread.
        priority: Of an error: 1 fatal, 2 blocking, 3 warning.
        message: Of error, log and quarantine: the text without prefix and escape codes.
        reason: Of gap and quarantine.
        text: The raw line as text that is safe to show, kept for errors only.
        sample: Of kinds gpu and host: the whole sample that it was made from (see `record_of`).
    """

    kind: RecordKind
    source: str
    line: int = 0
    offset: int = 0
    time: float | None = None
    node: str | None = None
    rank: int | None = None
    local_rank: int | None = None
    gpu: int | None = None
    level: Level | None = None
    format: str | None = None
    values: dict[str, Value] = field(default_factory=dict)
    extra: dict[str, Value] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    code: str | None = None
    priority: int | None = None
    message: str | None = None
    reason: str | None = None
    text: str | None = None
    sample: Sample | None = None


_IN_CONTRACT = frozenset(
    ("gpu_utilization", "gpu_memory_mb", "gpu_memory_total_mb", "gpu_temperature_c", "gpu_power_w")
)


def record_of(sample: Sample, source: str, line: int = 0, offset: int = 0) -> Record:
    """A sample as a record: the contract's numbers in `values`, the other numbers and words in `extra`.

    Args:
        source: Name of the file that it stands in, "NVML" or "host" for what this machine's instruments read.
    """
    kind: RecordKind = "host" if isinstance(sample, HostSample) else "gpu"
    record = Record(kind, source, line, offset, sample.time, node=sample.node or None, sample=sample)
    extra = record.extra
    if isinstance(sample, DriverSample):
        extra["driver_state"] = sample.state
    elif isinstance(sample, GpuSample):
        record.gpu = sample.index
        for text, name in (("uuid", sample.uuid), ("gpu_name", sample.name), ("mig_instance", sample.instance)):
            if name:
                extra[text] = name
        if sample.state != "ok":
            extra["gpu_state"] = sample.state
        if sample.throttle:
            extra["throttle"] = ", ".join(sample.throttle)
        if sample.events:
            extra["xid"] = sample.events[-1].code
    if not isinstance(sample, DriverSample):
        for metric, number in sample.values.items():
            (record.values if metric in _IN_CONTRACT else extra)[metric] = number
    return record


# ---------------------------------------------------------------- what the detectors find


@dataclass(frozen=True, slots=True)
class Incident:
    """Something that is or was wrong, with its evidence.

    Attributes:
        key: Identity over time: the same key is the same incident, updated.
        kind: One of the contract's incident kinds (`stall`, `near_oom`, ...).
        title: Short name for a label, upper case: "NEAR OOM", "STALLED", "CUDA_OOM".
        who: "worker-2 gpu3", "worker-5", "run".
        measured: The numbers in words: "76.8 of 80.0 GiB (96 %), +4.0 GiB per 100 steps".
        outlook: What follows: "full in ≈ 4 min"; empty when nothing can be said.
        advice: What to do, most useful first.
        start: When it began, Unix seconds; detected: when the detector said so; end: None while it is open.
        start_step, end_step: The same in steps, where steps are known.
        evidence: The numbers that the rule used, with units in their names.
        source, line, offset: The place in a log, where there is one.
    """

    key: str
    kind: str
    severity: Severity
    title: str
    who: str
    measured: str
    outlook: str = ""
    advice: tuple[str, ...] = ()
    node: str | None = None
    rank: int | None = None
    gpu: int | None = None
    start: float = 0.0
    detected: float = 0.0
    end: float | None = None
    start_step: int | None = None
    end_step: int | None = None
    evidence: tuple[tuple[str, Value], ...] = ()
    resolution: str = ""
    source: str | None = None
    line: int | None = None
    offset: int | None = None
