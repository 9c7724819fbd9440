"""Every threshold of the live alerts, with its default, its unit and where it comes from.

`False` (here: None) switches an alert off. The configuration's `[thresholds]` has one key for each field.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Limits of the detectors. None switches the alert off."""

    stall_after_s: float | None = -1.0
    """Seconds without a new step or line until a run is `stalled`; -1: from the run's own pace (see `stall.py`)."""
    node_silent_after_s: float | None = -1.0
    """Seconds for which one node is silent while others go on; -1: from the node's own pace (see `silent.py`)."""
    non_finite_loss: float | None = 1.0
    """How many NaN or infinite losses make an alert."""
    memory_fraction: float | None = 0.97
    """Share of the card at which a *new maximum* is an alert (a card that sits there for days is quiet)."""
    memory_full_within_s: float | None = 7200.0
    """Rising memory that will be full within this many seconds is an alert; 600 and less is critical."""
    straggler_ratio: float | None = 1.10
    """A node's own step time against the median of the nodes, held for `straggler_steps`."""
    straggler_steps: float | None = 6.0
    """Steps for which the ratio must hold."""
    fatal_error: float | None = 1.0
    """Set to false to have errors listed but never announced."""
