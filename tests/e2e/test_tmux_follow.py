"""`trainmon tail 'worker-*.log'` in tmux at four sizes and three terminals, while a writer appends."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

pytestmark = pytest.mark.needs_tmux

SIZES = ((160, 45), (80, 24), (40, 12), (30, 8))
TERMS = ("xterm-256color", "screen", "vt100")
OOM = (
    "2026-01-01T00:00:00Z ERROR torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.50 GiB. "
    "GPU 3 has a total capacity of 79.15 GiB of which 214.00 MiB is free."
)


@pytest.mark.parametrize("term", TERMS)
def test_a_run_from_its_first_screen_to_its_failure(term: str, training, open_pane: Callable) -> None:
    panes = [open_pane(columns, rows, term) for columns, rows in SIZES]
    for pane in panes:
        pane.trainmon("tail", "worker-*.log")
    training.start()
    for pane in panes:
        pane.wait(r"\b[67]\d\b")

    training.join(4)
    for pane in panes[:2]:
        pane.wait(r"worker-4\b")
    for pane in panes[2:]:
        pane.wait(r"\b5\b")

    training.stop()
    step, loss, rate = training.step, f"{training.loss:.3f}", f"{training.rate:.2e}"
    for pane in panes:
        for value in (rf"\b{step}\b", re.escape(loss), re.escape(rate)):
            pane.wait(value)

    training.say(2, OOM)
    for pane in panes:
        pane.wait("CUDA.OOM")
    panes[0].wait(r"[→>] .*(batch|checkpoint)")
    for pane in panes[1:2]:
        pane.keys("5")
        pane.keys("Enter")
        pane.wait(r"(?i)batch")
        pane.keys("Escape")
        pane.gone(r"(?i)micro")

    for pane in panes:
        pane.keys("q")
        pane.wait("exit=0")
        pane.is_clean()
