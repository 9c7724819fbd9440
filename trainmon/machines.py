"""The machine's part of the snapshot: GPUs and the host as the screen sees them. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass

from trainmon.curves import ChartView, Health, Span
from trainmon.model import Severity
from trainmon.samples import GpuProcess


@dataclass(frozen=True, slots=True)
class GpuRow:
    """One GPU or MIG instance. None: that value cannot be had.

    Attributes:
        word: What the row's glyph stands for, short: "96 %", "thermal", "Xid 79", "stale 12 s".
        util_percent: Mean over the panel's window.
        key: Identity, for `Session.select_gpu`. label: "3", of a MIG instance "0:5".
        state: Of the GPU (`trainmon.samples.GpuState`), "stale" when its figures have stopped, "" for figures of logs.
        note: A sentence that takes the place of the figures ("GPU is lost since 14:02:11, Xid 79: reset it or ...").
        age_s: Age of its newest figure in coarse seconds once it matters, else None.
        rank: Of the training process on it. profile: of a MIG instance, "2g.20gb".
        link_gb_s: NVLink (else PCIe) traffic in and out.
        mine: Held by the training that is watched; False: by others or nobody (then it raises no alarm).
        missing: (metric, why it cannot be had), for the figures that are None.
        memory_note: "unified" where the memory is the host's own; "" usually.
    """

    node: str
    index: int | None
    util_percent: float | None = None
    memory_mb: float | None = None
    total_mb: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    clock_mhz: float | None = None
    health: Health = "ok"
    word: str = ""
    key: str = ""
    label: str = ""
    name: str = ""
    state: str = ""
    note: str = ""
    age_s: float | None = None
    rank: int | None = None
    profile: str = ""
    power_limit_w: float | None = None
    slowdown_c: float | None = None
    clock_max_mhz: float | None = None
    link_gb_s: float | None = None
    throttle: tuple[str, ...] = ()
    mine: bool = True
    missing: tuple[tuple[str, str], ...] = ()
    memory_note: str = ""


@dataclass(frozen=True, slots=True)
class GpuPanel:
    """The GPUs of one node, or of every node where the logs carry one figure a node.

    Attributes:
        subject: "worker-2" or "one row a node".
        origin: Where the figures are from: "NVML", "from its agent", "from the log".
        sentence: Said instead of rows when there are none, and above them when the driver as a whole has a fault.
        age_s: Age of the newest figure in coarse seconds once it matters, else None.
        total: How many there are, where `rows` holds only the worst; 0: `rows` has all.
        here: The subject is this machine.
        window_s: Seconds over which utilisation is averaged; None: it is not (figures of logs).
        driver: Version of its driver; "" unknown.
        everywhere: GPUs of all nodes, worst first, at most 256; empty while there is but one node.
        counted: GPUs of all nodes.
        bad: The driver as a whole has a fault (see `sentence`).
    """

    subject: str = ""
    origin: str = "from the log"
    rows: tuple[GpuRow, ...] = ()
    sentence: str = ""
    age_s: float | None = None
    total: int = 0
    here: bool = False
    window_s: float | None = None
    driver: str = ""
    everywhere: tuple[GpuRow, ...] = ()
    counted: int = 0
    bad: bool = False


@dataclass(frozen=True, slots=True)
class GpuDetail:
    """One GPU in full: the page behind its row.

    Attributes:
        row: As in the panel.
        origin, age_s, driver: See `GpuPanel`.
        facts: (label, value, severity or None) of the heading: PCI address, driver, ECC, Xid, retired pages, ...
        charts: memory (GiB), utilisation, power, temperature, SM clock, NVLink or PCIe, step time, SM activity, ... as
            far as there are figures; all with `axis` "time" and one `window`.
        spans: Incidents of this GPU on the time axis.
        steady_mb, grown_mb, free_mb: Memory by what it does; None: no figures.
        steady_since, grown_since: Steps, where known.
        processes: What runs on it, biggest first. process_sentence: said instead ("the driver does not tell").
        throttle: (reason, in force now, seconds so far) for power, heat and hardware.
        follows: What it means and what to do, in sentences.
        siblings: The other GPUs of the node, and itself, by index.
        log_source: Number of the file of its rank, for "log of rank 19"; None when unknown.
    """

    row: GpuRow
    origin: str = ""
    age_s: float | None = None
    driver: str = ""
    facts: tuple[tuple[str, str, Severity | None], ...] = ()
    charts: tuple[ChartView, ...] = ()
    spans: tuple[Span, ...] = ()
    steady_mb: float | None = None
    grown_mb: float | None = None
    free_mb: float | None = None
    steady_since: int | None = None
    grown_since: int | None = None
    outlook: str = ""
    processes: tuple[GpuProcess, ...] = ()
    process_sentence: str = ""
    throttle: tuple[tuple[str, bool, float], ...] = ()
    follows: tuple[str, ...] = ()
    siblings: tuple[GpuRow, ...] = ()
    log_source: int | None = None


@dataclass(frozen=True, slots=True)
class HostFigure:
    """One line of the host panel: "memory", "412 of 504 GiB, container", health, and a share for its bar.

    Attributes:
        share: 0 to 1, None: no bar. spark: its past, oldest first. alert: id of the alert it belongs to, else None.
    """

    title: str
    text: str
    health: Health = "ok"
    share: float | None = None
    spark: tuple[float, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class LinkRow:
    """A network interface or InfiniBand port of the network panel.

    Attributes:
        gb_s: Traffic of its busier direction, GB/s. rate_gb_s: what it can carry. errors_per_min, flaps: counts.
        last_flap: Unix time; None: never since we look.
    """

    name: str
    state: str
    health: Health = "ok"
    gb_s: float | None = None
    rate_gb_s: float | None = None
    errors_per_min: float | None = None
    flaps: int = 0
    last_flap: float | None = None


@dataclass(frozen=True, slots=True)
class HostPanel:
    """One machine: processors, memory, disks, network. `figures` worst first is not wanted: a fixed order.

    Attributes:
        subject: Node. here: it is this machine. origin, age_s: see `GpuPanel`. sentence: said instead of figures.
    """

    subject: str = ""
    here: bool = False
    origin: str = ""
    age_s: float | None = None
    sentence: str = ""
    figures: tuple[HostFigure, ...] = ()
    links: tuple[LinkRow, ...] = ()
