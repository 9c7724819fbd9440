"""A progress bar on standard error, for work that takes a while and that somebody watches."""

from __future__ import annotations

import os
import sys
import time

from trainmon.parsing.clean import visible

AFTER_S = 1.0
"""Work that is done within this time shows nothing."""
EVERY_S = 0.2
_WIDTH = 24


class Progress:
    """How much of the bytes was read. Without a terminal on standard error it does nothing.

    Args:
        total: Bytes in all; 0: not known.
        quiet: Draw nothing.
    """

    def __init__(self, total: int, *, quiet: bool = False) -> None:
        self._total = total
        self._done = 0
        self._begun = time.monotonic()
        self._due = self._begun + AFTER_S
        self._drawn = False
        self._on = not quiet and _is_terminal()

    def add(self, count: int, name: str = "") -> None:
        """So many bytes more are done, of the file of this name."""
        self._done += count
        if self._on and (now := time.monotonic()) >= self._due:
            self._due = now + EVERY_S
            self._draw(now, name)

    def _draw(self, now: float, name: str) -> None:
        rate = self._done / max(now - self._begun, 1e-3)
        parts = [f"{self._done / 1e6:,.0f} MB"]
        if self._total:
            share = min(1.0, self._done / self._total)
            filled = round(share * _WIDTH)
            left = max(0.0, self._total - self._done) / max(rate, 1.0)
            parts = [
                f"[{'#' * filled}{'.' * (_WIDTH - filled)}] {share:4.0%}",
                f"{self._done / 1e6:,.0f} of {max(self._total, self._done) / 1e6:,.0f} MB",
                f"{left:.0f} s left" if left < 90 else f"{left / 60:.0f} min left",
            ]
        parts.append(f"{rate / 1e6:,.0f} MB/s")
        line = "  ".join([*parts, visible(name)])[: _columns() - 1]
        self._put(f"\r{line}\x1b[K")
        self._drawn = True

    def clear(self) -> None:
        """Take the bar away; it comes again with the next bytes."""
        if self._drawn:
            self._drawn = False
            self._put("\r\x1b[K")

    def _put(self, text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except (OSError, ValueError, AttributeError):
            self._on = False


def _is_terminal() -> bool:
    try:
        return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    except (OSError, ValueError, AttributeError):
        return False


def _columns() -> int:
    try:
        return max(20, os.get_terminal_size(sys.stderr.fileno()).columns)
    except (OSError, ValueError):
        return 80
