"""The feed wakes on events, paints at most so often, and leaves a slow terminal alone."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace

from trainmon.snapshot import SECTIONS, Snapshot
from trainmon.tui import feed as module
from trainmon.tui.feed import Feed


class Source:
    def __init__(self) -> None:
        self.snapshot = Snapshot(1, dict.fromkeys(SECTIONS, 1))
        self.wake = lambda: None

    def subscribe(self, callback) -> None:
        self.wake = callback

    def put(self, *sections: str) -> None:
        old = self.snapshot
        versions = {name: value + (name in sections) for name, value in old.versions.items()}
        self.snapshot = replace(old, version=old.version + 1, versions=versions)
        self.wake()


async def test_many_events_make_few_paints_and_the_last_is_shown():
    source, seen = Source(), []
    feed = Feed(source, lambda snapshot, changed: seen.append((snapshot.version, changed)))
    feed.start()

    def hammer() -> None:
        for _ in range(500):
            source.put("run")

    thread = threading.Thread(target=hammer)
    thread.start()
    while thread.is_alive():
        await asyncio.sleep(0)
    await asyncio.sleep(3 * module.LEAST_S)
    assert seen[0] == (1, frozenset(SECTIONS))
    assert seen[-1][0] == 501
    assert all(changed == frozenset({"run"}) for _, changed in seen[1:])
    assert len(seen) < 50


async def test_nothing_is_scheduled_while_nothing_happens():
    source, seen = Source(), []
    feed = Feed(source, lambda snapshot, changed: seen.append(changed))
    feed.start()
    await asyncio.sleep(2 * module.LEAST_S)
    assert feed._timer is None
    source.wake()
    await asyncio.sleep(2 * module.LEAST_S)
    assert len(seen) == 1
    assert feed._timer is None


async def test_a_busy_terminal_gets_nothing_more_until_it_is_ready(monkeypatch):
    monkeypatch.setattr(module, "MOST_S", 0.1)
    source, seen, slow = Source(), [], [0.0]
    feed = Feed(source, lambda snapshot, changed: seen.append(snapshot.version), lambda: slow[0])
    feed.start()
    slow[0] = 10.0
    for _ in range(5):
        source.put("run")
        await asyncio.sleep(0.06)
    assert seen == [1]
    slow[0] = 0.0
    await asyncio.sleep(0.3)
    assert seen[-1] == 6


async def test_after_closing_nothing_is_painted():
    source, seen = Source(), []
    feed = Feed(source, lambda snapshot, changed: seen.append(1))
    feed.start()
    feed.close()
    source.put("run")
    await asyncio.sleep(2 * module.LEAST_S)
    assert seen == [1]
