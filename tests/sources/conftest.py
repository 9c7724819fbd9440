"""A reader on real files and real threads, and a sink that waits for what a test expects."""

from __future__ import annotations

import threading
import time

import pytest

from trainmon.clock import SystemClock
from trainmon.model import Data, Opened, Replaced, SourceState
from trainmon.sources import reader as reader_module
from trainmon.sources.reader import Reader

DEADLINE_S = 20.0


class Sink:
    """Collects events; `wait` returns once a condition holds, or fails."""

    def __init__(self) -> None:
        self.events: list = []
        self.changed = threading.Condition()
        self.accept = True

    def __call__(self, batch: list) -> bool:
        with self.changed:
            self.events += batch
            self.changed.notify_all()
            return self.accept

    def wait(self, condition, what: str = "") -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: condition(self), DEADLINE_S), (what, self.short())

    def until(self, condition) -> None:
        """For what no event tells."""
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            assert time.monotonic() < deadline
            threading.Event().wait(0.005)

    def short(self) -> list[str]:
        return [f"{type(event).__name__}: {str(event)[:150]}" for event in self.events[-30:]]

    def of(self, kind: type) -> list:
        return [event for event in self.events if isinstance(event, kind)]

    def names(self) -> list[str]:
        return [event.name for event in self.of(Opened)]

    def number(self, name: str) -> int:
        return next(event.source for event in self.of(Opened) if event.name == name)

    def data(self, source: int = 0, generation: int | None = None) -> bytes:
        """The bytes of a source; its newest generation unless told otherwise. Offsets must join."""
        out, current = b"", 0
        for event in self.events:
            if isinstance(event, Replaced) and event.source == source:
                current = event.generation
                if generation is None or current <= generation:
                    out = b""
            elif isinstance(event, Data) and event.source == source and generation in (None, event.generation):
                assert event.generation == current
                assert event.offset == len(out)
                out += event.data
        return out

    def word(self, spec: str) -> str | None:
        said = [state for state in self.of(SourceState) if state.spec == spec]
        return said[-1].word if said else None

    def state(self, spec: str) -> SourceState:
        return [state for state in self.of(SourceState) if state.spec == spec][-1]


@pytest.fixture
def follow(monkeypatch):
    """Start a reader on specs; it is stopped at the end and must not hold the test up."""
    readers: list[Reader] = []
    monkeypatch.setattr(reader_module, "SCAN_S", 0.1)

    def start(*specs: object, **options: object) -> tuple[Reader, Sink]:
        sink = Sink()
        sink.accept = bool(options.pop("accept", True))
        reader = Reader([str(spec) for spec in specs], sink, clock=SystemClock(), poll_s=0.01, **options)
        readers.append(reader)
        reader.start()
        return reader, sink

    yield start
    for reader in readers:
        reader.stop()
