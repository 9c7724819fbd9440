"""Calls that never return: one GPU, or the driver as a whole."""

from __future__ import annotations

import itertools
import time

import pytest

from trainmon.telemetry.gpu import leftout, watch

pytestmark = pytest.mark.needs_cc


def test_a_hung_call_costs_one_gpu_and_the_others_go_on(scene, watching) -> None:
    scene("hung-call", t=4)
    watched, heard = watching()
    heard.ready(8)
    heard.until(lambda h: h.gpu(1).last.state == "not responding")
    told = heard.gpu(1).last
    assert "nvmlDeviceGetMemoryInfo" in told.sentence and told.since is not None
    assert told.since == pytest.approx(heard.gpu(1).samples[-2].time, abs=3)
    others = [heard.gpu(index) for index in range(8) if index != 1]
    counts = [len(seen.samples) for seen in others]
    heard.until(lambda h: all(len(seen.samples) > n + 1 for seen, n in zip(others, counts, strict=True)))
    # From the hang to the next figure of the others: the wait and a new start, far from the driver's own time.
    for seen in others:
        resumed = next(s.time for s in seen.samples if s.values and s.time > told.time)
        assert resumed - told.since < 10
    assert all(seen.last.state == "ok" for seen in others)
    assert heard.gpu(1).last is told or heard.gpu(1).last.state == "not responding"
    began = time.monotonic()
    watched.stop()
    assert time.monotonic() - began < 2


def test_a_gpu_that_answers_again_comes_back(scene, watching, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftout, "RETRY_S", 1.0)
    scene("INCLUDE/h100x8.inc\nhang gpu=1 func=nvmlDeviceGetMemoryInfo* at=5 until=8\n", t=4)
    _, heard = watching()
    heard.ready(8)
    heard.until(lambda h: h.gpu(1).last.state == "not responding")
    heard.until(lambda h: h.gpu(1).last.state == "ok")
    count = len(heard.gpu(1).samples)
    heard.until(lambda h: len(h.gpu(1).samples) > count + 3)
    assert heard.gpu(1).values["gpu_utilization"] == 97


def test_a_gpu_that_stays_silent_is_looked_at_apart_from_the_others(
    scene, watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leftout, "RETRY_S", 0.5)
    scene("INCLUDE/h100x8.inc\nhang gpu=1 func=nvmlDeviceGetMemoryInfo* at=5\n", t=4.5)
    _, heard = watching()
    heard.ready(8)
    heard.until(lambda h: sum(s.state == "not responding" for s in h.gpu(1).samples) >= 3)
    times = [sample.time for sample in heard.gpu(0).samples]
    after = [t for t in times if t > next(s.time for s in heard.gpu(1).samples if s.state != "ok") + 1]
    assert len(after) >= 2 and max(b - a for a, b in itertools.pairwise(after)) < 5


def test_a_hung_driver_is_said_once_and_tried_again(scene, watching, monkeypatch: pytest.MonkeyPatch) -> None:
    scene("hung-driver", t=4)
    watched, heard = watching()
    heard.ready(8)
    heard.until(lambda h: h.driver.state == "not responding")
    told = heard.driver
    assert "not responding since" in told.sentence and "30 s" in told.sentence
    assert told.gpus == 8 and told.driver == "550.54.15"
    time.sleep(1)
    assert sum(driver.state == "not responding" for driver in heard.drivers) == 1
    began = time.monotonic()
    watched.stop()
    assert time.monotonic() - began < 2


def test_a_driver_that_wakes_up_is_read_again(scene, watching, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "TRY_S", 1.0)
    scene("INCLUDE/h100x8.inc\nhang func=* at=5 until=10.5 global=1\n", t=4)
    _, heard = watching()
    heard.ready(8)
    heard.until(lambda h: h.driver.state == "not responding")
    heard.until(lambda h: h.driver.state == "ok")
    counts = [len(heard.gpu(index).samples) for index in range(8)]
    heard.until(lambda h: all(len(h.gpu(index).samples) > counts[index] + 1 for index in range(8)))
    assert all(heard.gpu(index).last.state == "ok" for index in range(8))
