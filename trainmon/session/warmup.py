"""The learning-rate schedule as far as it can be known from the values: its warm-up, and its form when that is sure."""

from __future__ import annotations

import math
from collections.abc import Sequence

_HOLD = 5
_NEAR = 0.015


class WarmUp:
    """Notices that a rising learning rate has reached its peak.

    Attributes:
        steps: Step of the peak, None until the warm-up is over (or when there was none).
        peak: The highest learning rate.
    """

    def __init__(self) -> None:
        self.steps: int | None = None
        self.peak = 0.0
        self._first: float | None = None
        self._last_step = -1
        self._peak_step = 0
        self._rises = 0
        self._held = 0
        self._over = False

    @property
    def over(self) -> bool:
        """Whether nothing that is fed changes anything any more."""
        return self._over

    def take(self, step: int, rate: float) -> bool:
        """Feed a learning rate; True at the one moment when the warm-up is over."""
        if self._over or step <= self._last_step:
            return False
        self._last_step = step
        if self._first is None:
            self._first = rate
        if rate > self.peak * 1.0005:
            self.peak = rate
            self._peak_step = step
            self._rises += 1
            self._held = 0
            return False
        self._held += 1
        fell = rate < self.peak * 0.9995
        if not fell and self._held < _HOLD:
            return False
        self._over = True
        if self._rises >= 3 and self._first < 0.5 * self.peak:
            self.steps = self._peak_step
            return True
        return False


def schedule_note(warmup: WarmUp, steps: Sequence[float], rates: Sequence[float], total: int | None, said: str) -> str:
    """What can be said for sure of the schedule: "cosine, 100 warm-up steps", "linear", or "".

    Args:
        steps, rates: The learning rate by step.
        total: The announced last step.
        said: The schedule's name where the log has it.
    """
    form = said.replace("_", " ").lower() if said else ""
    if not form and total and warmup.steps is not None and warmup.peak > 0:
        form = _form(warmup.steps, warmup.peak, steps, rates, total)
    parts = [form] if form else []
    if warmup.steps:
        parts.append(f"{warmup.steps:,} warm-up steps")
    return ", ".join(parts)


def _form(start: int, peak: float, steps: Sequence[float], rates: Sequence[float], total: int) -> str:
    if total <= start:
        return ""
    told = cosine = linear = 0
    for step, rate in zip(steps[-400:], rates[-400:], strict=True):
        share = (step - start) / (total - start)
        if not 0.05 <= share < 0.95:
            continue
        curved, straight = 0.5 * (1 + math.cos(math.pi * share)), 1 - share
        if abs(curved - straight) < 4 * _NEAR * straight:
            continue
        told += 1
        cosine += abs(rate / peak - curved) < _NEAR * curved
        linear += abs(rate / peak - straight) < _NEAR * straight
    if told >= 5 and cosine == told:
        return "cosine"
    if told >= 5 and linear == told:
        return "linear"
    return ""
