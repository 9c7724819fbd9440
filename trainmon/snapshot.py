"""What the screen sees: one immutable picture of the session, made by `trainmon.session`.

Each section has a version in `Snapshot.versions`; a section whose version is unchanged is the same object as before,
so that the feed compares integers. Values are plain numbers with units in their names; text is safe to show (no control
characters). Standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from trainmon.curves import ChartView as ChartView
from trainmon.curves import Health as Health
from trainmon.curves import Points as Points
from trainmon.curves import Span as Span
from trainmon.machines import GpuDetail as GpuDetail
from trainmon.machines import GpuPanel as GpuPanel
from trainmon.machines import GpuRow as GpuRow
from trainmon.machines import HostFigure as HostFigure
from trainmon.machines import HostPanel as HostPanel
from trainmon.machines import LinkRow as LinkRow
from trainmon.model import Severity

RunState = Literal["waiting", "starting", "running", "quiet", "stalled", "finished", "failed", "old"]

PAST_STATES: tuple[RunState, ...] = ("stalled", "finished", "failed", "old")
"""States of which is said how long ago the newest line came."""


@dataclass(frozen=True, slots=True)
class RunView:
    """The status row.

    Attributes:
        name: Model or job name from tags or logs, else the common part of the file names.
        state: The true run state (see PRODUCT: Screens).
        note: What belongs to the state: "last line 20 m ago, step 1,187 of 5,000: may have hung"; may be empty.
        newest: Unix time of the newest line (the log's own, else arrival); None before the first line.
        step, total_steps: Of the slowest node; None when unknown.
        eta_s: Seconds to the end, from the slowest node; None when unknown.
        history: Share of history that is read, 0 to 1; None once everything is read.
        gpus: GPUs seen in the logs or by NVML.
        line_rate: Lines a second over the last ten seconds.
        demo: True in `trainmon demo`.
        hint: A sentence about the whole (files look like different runs, ...); may be empty.
        heard: When the newest line came, on the session's clock, of a run that is over and of which it came while we
            looked: its age does not depend on what the clocks of the logs were set to.
    """

    name: str = ""
    state: RunState = "waiting"
    note: str = ""
    newest: float | None = None
    step: int | None = None
    total_steps: int | None = None
    eta_s: float | None = None
    history: float | None = None
    nodes: int = 0
    gpus: int = 0
    demo: bool = False
    hint: str = ""
    started: float | None = None
    heard: float | None = None


@dataclass(frozen=True, slots=True)
class AlertView:
    """One alert, as the strip and the why screen show it.

    Attributes:
        id: Identity for acknowledge and mute.
        title: "NEAR OOM"; who: "worker-2 gpu3"; measured and outlook: see `Incident`.
        state: "firing", "muted", "acknowledged" or "resolved".
        since: Unix time when it fired; resolved: when it ended, else None.
        fresh: True while the label may flash and the bell has to ring (live, critical, first 3 s).
        count: How many firings were grouped in it.
    """

    id: str
    kind: str
    severity: Severity
    title: str
    who: str
    measured: str
    outlook: str = ""
    advice: tuple[str, ...] = ()
    state: Literal["firing", "muted", "acknowledged", "resolved"] = "firing"
    since: float = 0.0
    resolved: float | None = None
    resolution: str = ""
    fresh: bool = False
    count: int = 1
    node: str | None = None
    gpu: int | None = None
    source: int | None = None
    place: str = ""
    line: int | None = None
    offset: int | None = None
    code: str | None = None
    start_step: int | None = None
    evidence: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class MetricView:
    """A number with a sparkline: grad norm, tokens/s, step time, MFU, data wait, ...

    Attributes:
        unit: One of the keys of `trainmon.units.FORMATS`.
        change_percent: Against the median of the healthy past; None when there is none yet.
        spark: The last values, oldest first, one a column.
        bad_from: Index in `spark` from which an incident colours it, else None.
    """

    key: str
    title: str
    short: str
    unit: str
    value: float | None
    change_percent: float | None = None
    severity: Severity | None = None
    spark: tuple[float, ...] = ()
    bad_from: int | None = None


@dataclass(frozen=True, slots=True)
class NodeView:
    """One node (or rank, where each file is a rank), worst first.

    Attributes:
        word: "ok", "slow", "NEAR OOM", "silent 2 m", "failed", ...
        own_s: Seconds a step without waiting for others (falls back to the step time).
        versus_percent: own_s against the median of all nodes.
        wait_s: Seconds a step spent waiting (communication) where the log says so.
        sources: Numbers of its files.
    """

    name: str
    health: Health
    word: str
    step: int | None = None
    own_s: float | None = None
    spark: tuple[float, ...] = ()
    bad_from: int | None = None
    versus_percent: float | None = None
    wait_s: float | None = None
    memory_mb: float | None = None
    temperature_c: float | None = None
    loss: float | None = None
    silent_s: float | None = None
    sources: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ErrorView:
    """One error code (or one unknown error by its own words), however many lines.

    Attributes:
        role: "probable cause", "follows CUDA_OOM", "its own" or "warning".
        severity: critical for level 1, warning for the rest.
        lines: How many lines; exact False while history is still being read (shown as ≥).
        place: "worker-2.log:1,223".
        raw: The line in its file, safe to show. context: a few lines around it.
    """

    code: str
    title: str
    message: str
    severity: Severity
    priority: int
    role: str
    lines: int
    where: str
    first: float | None
    place: str
    source: int | None
    line: int | None
    offset: int | None
    raw: str = ""
    fixes: tuple[str, ...] = ()
    causes: tuple[str, ...] = ()
    reference: str = ""
    node: str | None = None
    rank: int | None = None
    exact: bool = True


@dataclass(frozen=True, slots=True)
class EventView:
    """Something that happened: an alert, a checkpoint, an evaluation, a newcomer, a gap.

    Attributes:
        health: Its glyph. who: node or GPU, may be empty. alert: id of the alert it tells of, else None.
    """

    time: float | None
    health: Health
    name: str
    who: str
    text: str
    advice: str = ""
    alert: str | None = None
    planned: bool = False


@dataclass(frozen=True, slots=True)
class SourceView:
    """One thing that the user named, or one file that a pattern matched.

    Attributes:
        id: The file's number; None for a pattern without a file.
        word, sentence, bad: See `SourceState`.
    """

    id: int | None
    name: str
    path: str
    word: str
    sentence: str
    bad: bool = False
    node: str = ""
    format: str | None = None
    size: int = 0
    lines: int = 0
    quarantined: int = 0
    gaps: int = 0
    history: float | None = None


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of the log tail. fields: (start, end) slices of values to be shown bright."""

    source: int
    node: str
    time: float | None
    text: str
    level: str | None = None


@dataclass(frozen=True, slots=True)
class Counts:
    """Totals. exact is False while history is still being read, then they carry ≥."""

    lines: int = 0
    records: int = 0
    quarantined: int = 0
    gaps: int = 0
    bytes: int = 0
    exact: bool = True


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The whole picture. See the classes above."""

    version: int = 0
    versions: dict[str, int] = field(default_factory=dict)
    run: RunView = RunView()
    alerts: tuple[AlertView, ...] = ()
    calm: str = ""
    """The sentence of the alert row when nothing is wrong: "healthy for 41 m 12 s · no alerts since the start"."""
    charts: tuple[ChartView, ...] = ()
    """loss first, learning rate second, then every other metric by name; at the end `gpu_memory_mb:NODE:GPU` of each
    GPU whose memory an alert is about, against the others."""
    spans: tuple[Span, ...] = ()
    """Incidents on the step axis, for all charts."""
    metrics: tuple[MetricView, ...] = ()
    gpus: GpuPanel = GpuPanel()
    gpu: GpuDetail | None = None
    """The GPU that was selected with `Session.select_gpu`; None while none is, or it is gone."""
    host: HostPanel = HostPanel()
    nodes: tuple[NodeView, ...] = ()
    errors: tuple[ErrorView, ...] = ()
    events: tuple[EventView, ...] = ()
    """Newest first."""
    sources: tuple[SourceView, ...] = ()
    last: LogLine | None = None
    """The newest line of all files, as it stands."""
    tail: tuple[LogLine, ...] = ()
    """The last lines of the file that spoke last, newest last."""
    quarantine: tuple[tuple[str, int, str, str], ...] = ()
    """The last lines that could not be read: (source, line, reason, text)."""
    counts: Counts = Counts()


SECTIONS = (
    "run", "alerts", "charts", "spans", "metrics", "gpus", "gpu", "host", "nodes", "errors", "events", "sources",
    "last", "tail", "quarantine", "counts",
)  # fmt: skip
"""Keys of `Snapshot.versions`; `calm` goes with `alerts`."""
