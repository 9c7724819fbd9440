"""Plays the recording into files: a thread that only appends, as a training script would."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from trainmon.clock import Clock, SystemClock
from trainmon.demo.story import PACE, WORKERS, Moment, moments

_LONGEST_NAP_S = 0.25


class Writer:
    """Writes `worker-0.log` to `worker-7.log`.

    Args:
        folder: An existing folder; files of those names in it are written anew.
        speed: Times the usual pace of the demo.
        clock: The clock whose "now" is the first live moment.
    """

    def __init__(self, folder: Path, speed: float = 1.0, clock: Clock | None = None) -> None:
        self._folder = folder
        self._pace = PACE * speed
        self._clock = SystemClock() if clock is None else clock
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._play, name="demo writer", daemon=True)
        self._rest: Iterator[Moment] = iter(())
        self._next: Moment | None = None
        self._start = 0.0
        self.error = ""

    @property
    def paths(self) -> list[Path]:
        """The files, in order of the workers."""
        return [self._folder / f"worker-{worker}.log" for worker in range(WORKERS)]

    @property
    def finished(self) -> bool:
        """True once the last line is written (or nothing more can be)."""
        return not self._thread.is_alive() and self._thread.ident is not None

    def write_history(self) -> None:
        """Write what stands there at the beginning, and set the start of the live part to now.

        Raises:
            OSError: The folder cannot be written.
        """
        self._start = self._clock.now()
        self._rest = moments()
        parts: list[list[str]] = [[] for _ in range(WORKERS)]
        for moment in self._rest:
            if moment.at >= 0:
                self._next = moment
                break
            parts[moment.worker].append(self._line(moment))
        for path, lines in zip(self.paths, parts, strict=True):
            path.write_text("".join(lines), "utf-8")

    def start(self) -> None:
        """Begin to append; returns at once."""
        self._thread.start()

    def stop(self) -> None:
        """Stop appending; returns within a moment."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(0.5)

    def _line(self, moment: Moment) -> str:
        if not moment.level:
            return moment.text + "\n"
        stamp = datetime.fromtimestamp(self._start + moment.at / self._pace, UTC)
        return f"{stamp:%Y-%m-%dT%H:%M:%S}.{stamp.microsecond // 1000:03d}Z {moment.level} {moment.text}\n"

    def _play(self) -> None:
        began = self._clock.monotonic()
        try:
            files = [path.open("a", encoding="utf-8", buffering=1) for path in self.paths]
            try:
                while self._next is not None:
                    ahead = self._next.at / self._pace - (self._clock.monotonic() - began)
                    if ahead > 0:
                        if self._stop.wait(min(ahead, _LONGEST_NAP_S)):
                            return
                        continue
                    files[self._next.worker].write(self._line(self._next))
                    self._next = next(self._rest, None)
            finally:
                for file in files:
                    file.close()
        except OSError as error:  # the folder went away, the disk is full
            self.error = error.strerror or str(error)
