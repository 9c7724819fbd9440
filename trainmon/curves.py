"""Shapes that the snapshot's sections share: health, curves, charts. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trainmon.model import Severity

Health = Literal["ok", "warning", "critical", "silent", "expected"]
"""Of a node, GPU or source: the glyphs ● ▲ ✗ ○ ◌."""


@dataclass(frozen=True, slots=True)
class Points:
    """A series reduced for drawing, oldest first, all four the same length.

    Attributes:
        x: Steps. lo, mid, hi: Minimum, mean (or median of the nodes) and maximum at or around that step.
    """

    x: tuple[float, ...] = ()
    lo: tuple[float, ...] = ()
    mid: tuple[float, ...] = ()
    hi: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Span:
    """An incident on a chart's x axis. end None: still open, drawn to the newest step."""

    start: float
    end: float | None
    severity: Severity


@dataclass(frozen=True, slots=True)
class ChartView:
    """One chart: loss, learning rate or any other metric.

    Attributes:
        key: Canonical name ("loss"). title: "loss".
        value: The newest value (median over the nodes at the newest step); None before the first.
        change: Difference of the mean of the last window to the one before, and `change_steps` its width in steps.
        note: "cosine, 100 warm-up steps"; may be empty.
        gaps: Steps after which values are missing (tail and gap while history is being read).
        non_finite: Steps at which the value was NaN or infinite; non_finite_count counts all of them.
        stale_s: Age in coarse seconds once nothing new came for 3 intervals, else None.
        unit: One of the keys of `trainmon.units.FORMATS`, of value and points; empty: by the key.
        band: What `lo` and `hi` are, where that is not minimum and maximum of the same thing.
        axis: What `x` is: steps, or Unix seconds.
        limit: A line across the chart (the card's memory, its slow-down temperature); None: none.
        limit_severity: Its colour. limit_word: what it is ("slows at 85").
        window: First and last x that is drawn, the same for all charts of a page; None: as the points need.
        low, high: Fixed range of y; None: as the points need.
        others: Mean of all others by the same x ("other 7 GPUs"), drawn muted; empty: none.
    """

    key: str
    title: str
    value: float | None = None
    points: Points = Points()
    change: float | None = None
    change_steps: int = 0
    note: str = ""
    gaps: tuple[float, ...] = ()
    non_finite: tuple[float, ...] = ()
    non_finite_count: int = 0
    stale_s: float | None = None
    first_x: float | None = None
    first_value: float | None = None
    unit: str = ""
    band: str = ""
    axis: Literal["step", "time"] = "step"
    limit: float | None = None
    limit_severity: Severity = "warning"
    limit_word: str = ""
    window: tuple[float, float] | None = None
    low: float | None = None
    high: float | None = None
    others: Points = Points()
