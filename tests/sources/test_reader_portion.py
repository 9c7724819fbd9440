"""Which of very many files a sweep asks: none is left out for long, however often the books are made anew."""

from __future__ import annotations

from trainmon.clock import ManualClock
from trainmon.sources.reader import Reader
from trainmon.sources.tail import Tail


def test_silent_files_are_asked_in_every_third_sweep_also_while_others_begin_to_speak() -> None:
    clock = ManualClock()
    reader = Reader([], lambda events: True, clock=clock)
    for i in range(600):
        tail = Tail(i, f"/nowhere/{i}", clock=clock)
        tail.prepare(str(i), clock.monotonic())
        tail.probe_size = 1
        reader._swept.append(tail)
    now = clock.monotonic() + 60.0
    asked: list[set[int]] = []
    for sweep in range(40):
        now += 0.1
        asked.append({tail.source for tail in reader._portion(now)})
        for tail in reader._swept[sweep * 8 : sweep * 8 + 8]:  # some speak again: from now on always asked
            tail.active = now
            reader._sorted_due = now
    everything = set(range(600))
    for first, second, third in zip(asked, asked[1:], asked[2:], strict=False):
        assert first | second | third == everything
    assert len(asked[0]) == 200
    assert all({0, 1, 2} <= portion for portion in asked[1:])
