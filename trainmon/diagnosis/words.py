"""Words that several detectors share."""

from __future__ import annotations

from trainmon import units
from trainmon.model import Value


def ago(seconds: float) -> str:
    """A silence in coarse steps, rounded down, so that a screen with it stays still: `10 s`, `2 m`, `20 m`, `3 h`."""
    if seconds < 10:
        return "a few seconds"
    return units.age(seconds)


def step_of(step: int | None, total: int | None) -> str:
    """`step 1,187 of 5,000`, as far as it is known; empty without a step."""
    if step is None:
        return ""
    return f"step {units.count(step)}" + (f" of {units.count(total)}" if total else "")


def number(value: Value | None) -> float | None:
    """A field as a float; None when it is missing or no number."""
    if value is None or isinstance(value, float):
        return value
    if isinstance(value, int):
        return float(value)
    if isinstance(value, str) and value.strip().lower().lstrip("+-") in ("nan", "inf", "infinity"):
        return float(value)
    return None


def gib(mb: float) -> str:
    """MiB as GiB with one decimal and unit, also below 1 GiB: `76.8 GiB`."""
    return f"{mb / 1024.0:.1f} GiB"


def short(seconds: float) -> str:
    """A gap in few digits: `310 ms`, `3.4 s`, `105 s`."""
    return f"{seconds * 1000:.0f} ms" if seconds < 0.95 else f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"


def members(node: str, labels: list[str]) -> str:
    """Several of a node: `worker-2 gpu0, gpu3`; from three on their number, `worker-2, 8 GPUs`."""
    return f"{node} {', '.join(labels)}" if len(labels) < 3 else f"{node}, {len(labels)} GPUs"
