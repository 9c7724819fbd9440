"""The demo's recording on a manual clock: the same lines, detectors and screens, at one chosen moment, at once."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from trainmon.clock import ManualClock
from trainmon.demo.story import WORKERS, Moment, moments
from trainmon.model import CaughtUp, Data, Opened, SourceEvent
from trainmon.session.session import Session
from trainmon.settings import Settings

START = datetime(2026, 3, 2, 10, 14, 47, tzinfo=UTC).timestamp()
SLICE_S = 3.0
"""Recorded seconds that are fed at once: about a step, as a live session would see it."""


class Recording:
    """Plays the recording into files of `folder` and into a session, up to a moment.

    Args:
        workers: Those whose logs are played.

    Attributes:
        session: The session as it stands; its clock shows the moment.
    """

    def __init__(self, folder: Path, workers: Sequence[int] = range(WORKERS)) -> None:
        self._workers = list(workers)
        self._all = [moment for moment in moments() if moment.worker in self._workers]
        self._zero = START - self._all[0].at
        self._paths = [folder / f"worker-{worker}.log" for worker in self._workers]
        self._sizes = [0] * len(self._workers)
        self.clock = ManualClock(START)
        self.session = Session([str(folder / "worker-*.log")], Settings(), clock=self.clock)

    def step_time(self, step: int) -> float:
        """The recorded time at which the last worker wrote `step`."""
        key = f"step={step} "
        return max(m.at for m in self._all if m.text.startswith(key) and "loss=" in m.text)

    @property
    def end(self) -> float:
        """The recorded time of the last line."""
        return self._all[-1].at

    def play(self, until: float, silence: float = 0.0) -> Session:
        """Feed everything up to the recorded time `until`, then let `silence` seconds pass."""
        for path in self._paths:
            path.write_bytes(b"")
        self.session.pump([Opened(n, p.name, str(p), 0, START) for n, p in enumerate(self._paths)])
        self.session.pump([CaughtUp(n, 0) for n in range(len(self._paths))])
        for edge, lines in self._slices(until):
            self.clock.advance(max(0.0, self._zero + edge - self.clock.now()))
            self.session.pump(self._append(lines))
        for _ in range(int(silence)):
            self.clock.advance(1.0)
            self.session.pump()
        for path in self._paths:
            os.utime(path, (self.clock.now(), self.clock.now()))
        return self.session

    def _slices(self, until: float) -> Iterator[tuple[float, list[Moment]]]:
        lines: list[Moment] = []
        edge = self._all[0].at + SLICE_S
        for moment in self._all:
            if moment.at > until:
                break
            while moment.at > edge:
                yield edge, lines
                lines, edge = [], edge + SLICE_S
            lines.append(moment)
        yield min(edge, until), lines

    def _append(self, lines: list[Moment]) -> list[SourceEvent]:
        events: list[SourceEvent] = []
        for n, worker in enumerate(self._workers):
            data = "".join(self._line(m) for m in lines if m.worker == worker).encode()
            if not data:
                continue
            with self._paths[n].open("ab") as file:
                file.write(data)
            offset = self._sizes[n]
            self._sizes[n] += len(data)
            events.append(Data(n, 0, offset, data, self._sizes[n], self.clock.now()))
        return events

    def _line(self, moment: Moment) -> str:
        if not moment.level:
            return moment.text + "\n"
        stamp = datetime.fromtimestamp(self._zero + moment.at, UTC)
        return f"{stamp:%Y-%m-%dT%H:%M:%S}.{stamp.microsecond // 1000:03d}Z {moment.level} {moment.text}\n"
