"""Samples as JSON objects: there and back, whatever an object holds."""

from __future__ import annotations

import json
import math
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainmon.model import record_of
from trainmon.samples import (
    GPU_METRICS,
    HOST_METRICS,
    KEY,
    DiskSample,
    DriverSample,
    GpuEvent,
    GpuProcess,
    GpuSample,
    HostSample,
    LinkSample,
    VolumeSample,
    from_object,
    to_object,
)

NUMBER = st.floats(-1e18, 1e18, allow_nan=False)
WORDS = st.text(max_size=20)
WHOLE = st.integers(-(2**53), 2**53)


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


def several(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return maybe(st.lists(strategy, max_size=3).map(tuple))


PROCESS = st.builds(
    GpuProcess, WHOLE, maybe(NUMBER), maybe(NUMBER), WORDS, WORDS, WORDS, maybe(WHOLE), maybe(WHOLE), st.booleans(),
    WORDS, maybe(WHOLE),
)  # fmt: skip
GPU = st.builds(
    GpuSample, node=WORDS, index=maybe(WHOLE), uuid=WORDS, time=NUMBER, origin=st.sampled_from(("NVML", "agent", "log")),
    state=st.sampled_from(("ok", "lost")), since=maybe(NUMBER), sentence=WORDS, name=WORDS,
    values=st.dictionaries(st.sampled_from(sorted(GPU_METRICS)), NUMBER, max_size=5),
    missing=st.dictionaries(WORDS, WORDS, max_size=3), facts=st.dictionaries(WORDS, WORDS, max_size=3),
    throttle=several(WORDS), processes=several(PROCESS), events=st.lists(st.builds(GpuEvent, WHOLE, NUMBER, WORDS),
    max_size=2).map(tuple), parent=WORDS, profile=WORDS, instance=WORDS,
)  # fmt: skip
HOST = st.builds(
    HostSample, WORDS, NUMBER, st.sampled_from(("host", "agent")),
    values=st.dictionaries(st.sampled_from(sorted(HOST_METRICS)), NUMBER, max_size=5),
    missing=st.dictionaries(WORDS, WORDS, max_size=3), scope=st.sampled_from(("host", "container")),
    disks=several(st.builds(DiskSample, WORDS, *[maybe(NUMBER)] * 6)),
    volumes=several(st.builds(VolumeSample, WORDS, WORDS, WORDS, maybe(NUMBER), maybe(NUMBER), st.booleans())),
    links=several(st.builds(LinkSample, WORDS, WORDS, WORDS, *[maybe(NUMBER)] * 3, WHOLE, WHOLE)),
)  # fmt: skip
DRIVER = st.builds(
    DriverSample, WORDS, NUMBER, st.sampled_from(("ok", "not loaded")), WORDS, maybe(NUMBER), WORDS, maybe(WHOLE)
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.integers(10**300, 10**320) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
EVERY_KEY = sorted(
    {one.name for kind in (GpuSample, HostSample, DriverSample, GpuProcess, DiskSample) for one in fields(kind)}
)


@settings(max_examples=200, deadline=None)
@given(GPU | HOST | DRIVER)
def test_there_and_back(sample):
    assert from_object(json.loads(json.dumps(to_object(sample)))) == sample


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(("gpu/1", "host/1", "driver/1", "gpu", "host/9")), st.dictionaries(st.sampled_from(EVERY_KEY), JSON)
)
def test_no_object_raises_and_what_comes_out_is_finite(form, found):
    sample = from_object({KEY: form, "node": "n", "uuid": "u", "index": 0, "time": 1.0, "state": "ok", **found})
    if sample is None:
        return
    record_of(sample, "a.jsonl")
    assert math.isfinite(sample.time) and isinstance(sample.node, str)
    if not isinstance(sample, DriverSample):
        assert all(isinstance(name, str) and math.isfinite(v) for name, v in sample.values.items())
    json.dumps(to_object(sample), allow_nan=False)


@pytest.mark.parametrize(
    "found",
    [
        {}, {KEY: 1}, {KEY: None}, {KEY: "net/1", "node": "n", "time": 1.0}, {KEY: "gpu/1"},
        {KEY: "host/1", "node": "n"}, {KEY: "host/1", "node": 3, "time": 1.0}, {KEY: "host/1", "node": "n", "time": "1"},
        {KEY: "host/1", "node": "n", "time": True}, {KEY: "host/1", "node": "n", "time": math.nan},
        {KEY: "host/1", "node": "n", "time": 10**400}, {KEY: "host/1", "node": "n", "time": None},
        {KEY: "host/1", "node": "n", "time": 1.0, "values": [1]},
        {KEY: "host/1", "node": "n", "time": 1.0, "disks": {"name": "sda"}},
        {KEY: "host/1", "node": "n", "time": 1.0, "disks": ["sda"]},
        {KEY: "host/1", "node": "n", "time": 1.0, "disks": [{"util_percent": 1.0}]},
        {KEY: "host/1", "node": "n", "time": 1.0, "volumes": [{"path": "/", "hangs": 1}]},
        {KEY: "gpu/1", "node": "n", "index": 1.5, "uuid": "", "time": 1.0},
        {KEY: "gpu/1", "node": "n", "index": 1 << 400, "uuid": "", "time": 1.0},
        {KEY: "gpu/1", "node": "n", "index": 1, "uuid": "", "time": 1.0, "throttle": "idle"},
        {KEY: "gpu/1", "node": "n", "index": 1, "uuid": "", "time": 1.0, "processes": [{"pid": "7"}]},
        {KEY: "gpu/1", "node": "n", "index": 1, "uuid": "", "time": 1.0, "events": None},
    ],
)  # fmt: skip
def test_what_is_none_or_of_wrong_kinds_is_no_sample(found):
    assert from_object(found) is None


def test_a_newer_agents_keys_are_passed_over_and_numbers_that_are_none_left_out():
    sample = from_object(
        {KEY: "host/3", "node": "n", "time": 5, "colour": "red",
         "values": {"cpu_percent": 3, "load_1m": math.inf, "cpus": True, "swap_used_mb": "1", "oom_kills": 10**400},
         "disks": [{"name": "sda", "spin": [1]}]}
    )  # fmt: skip
    assert sample == HostSample("n", 5, values={"cpu_percent": 3.0}, disks=(DiskSample("sda"),))


def test_a_reader_may_say_where_it_has_it_from():
    sample = HostSample("n", 1.0, "host")
    assert from_object(to_object(sample), "agent") == HostSample("n", 1.0, "agent")
