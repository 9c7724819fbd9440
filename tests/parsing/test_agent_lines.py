"""Agents' lines: samples with their place, wherever in a log they stand; broken ones are put aside, never believed."""

from __future__ import annotations

import json

import pytest

from trainmon.model import Record
from trainmon.samples import DriverSample, GpuProcess, GpuSample, HostSample, Sample, VolumeSample, to_object

T = 1_764_500_000.0
GPU = GpuSample(
    "worker-3", 2, "GPU-2", T, values={"gpu_temperature_c": 61.0, "throttle_power_s": 3.0}, name="NVIDIA H100",
    throttle=("power cap",), processes=(GpuProcess(41, 900.0, command="python train.py", rank=2),),
)  # fmt: skip
HOST = HostSample("worker-3", T, values={"cpu_percent": 20.0}, volumes=(VolumeSample("/data", "logs"),))
DRIVER = DriverSample("worker-3", T, "not loaded", "load the driver")
STEP = b'{"step": 7, "loss": 2.5, "timestamp": "2025-11-30T10:00:00Z"}'


def line(sample: Sample, **more: object) -> bytes:
    return json.dumps({**to_object(sample), **more}, separators=(",", ":")).encode()


def kinds(records: list[Record]) -> list[str]:
    return [record.kind for record in records]


def test_samples_with_their_places_between_steps(parse) -> None:
    lines = [STEP, line(GPU), line(HOST), STEP, line(DRIVER)]
    records = parse(b"\n".join(lines) + b"\n")
    assert [(r.kind, r.line, r.offset) for r in records] == [
        (kind, i + 1, sum(len(one) + 1 for one in lines[:i]))
        for i, kind in enumerate(["metrics", "gpu", "host", "metrics", "gpu"])
    ]
    gpu, host, driver = (records[i] for i in (1, 2, 4))
    assert {r.format for r in (gpu, host, driver)} == {"trainmon_agent"}
    assert gpu.sample.processes == GPU.processes and gpu.sample.origin == "agent" and gpu.node == "worker-3"
    assert gpu.gpu == 2 and gpu.values["gpu_temperature_c"] == 61.0 and gpu.time == T
    assert host.sample.volumes == HOST.volumes and driver.sample.state == "not loaded"


@pytest.mark.parametrize(
    "before",
    [b"3: ", b"[default1]:", b"[rank5]: ", b"2025-11-30T10:00:00.123456789Z ", b"\x1b[32m", b"  ",
     b"[pod/trainer-0/agent] ", b"(RayTrainWorker pid=77) ", b"[1,5]<stdout>:", b"Nov 30 10:00:00 gpu07 trainmon[812]: "],
)  # fmt: skip
def test_behind_what_launchers_and_collectors_put_in_front(parse, before) -> None:
    records = parse(STEP + b"\n" + before + line(GPU) + b"\n" + before + line(HOST) + b"\r\n")
    assert kinds(records) == ["metrics", "gpu", "host"]
    assert records[1].sample.node == "worker-3" and records[1].sample.processes == GPU.processes


def test_inside_of_dockers_lines_and_with_keys_in_another_order(parse) -> None:
    docker = {"log": line(GPU).decode() + "\n", "stream": "stdout", "time": "2026-05-01T08:00:00.1Z"}
    turned = dict(reversed(to_object(HOST).items()))
    records = parse(json.dumps(docker) + "\n" + json.dumps(turned, indent=None) + "\n")
    assert kinds(records) == ["gpu", "host"] and records[0].time == T


def test_glued_to_other_lines(parse) -> None:
    glued = line(GPU) + line(HOST) + b"[default1]:step 4 loss 2.0\nstep 5 loss 1.9" + line(DRIVER) + b"\n"
    records = parse(glued)
    assert kinds(records) == ["gpu", "host", "metrics", "metrics", "gpu"]
    assert [r.values.get("step") for r in records if r.kind == "metrics"] == [4, 5]


def test_a_line_that_a_crash_cut_and_another_agent_went_on_behind(parse) -> None:
    whole = line(GPU)
    records = parse(whole[:150] + whole + b"\n" + whole[:200])
    assert kinds(records) == ["quarantine", "gpu", "quarantine"]
    assert all("cut short" in r.reason for r in records if r.kind == "quarantine")


def test_every_cut_of_a_line_is_put_aside_or_nothing(parse) -> None:
    whole = line(GPU)
    for end in range(12, len(whole)):
        records = parse(whole[:end] + b"\n" + whole + b"\n")
        assert kinds(records)[-1] == "gpu" and set(kinds(records)[:-1]) <= {"quarantine"}, whole[:end]
        assert end < 25 or len(records) == 2


@pytest.mark.parametrize(
    "wrong",
    [{"time": "now"}, {"time": 1e300}, {"time": -5.0}, {"node": 7}, {"index": -1}, {"index": 1 << 62}, {"values": [3]},
     {"processes": [{"pid": "x"}]}, {"processes": [{"pid": 1}] * 5000}, {"values": {f"m{i}": 1 for i in range(999)}}],
    ids=lambda wrong: str(wrong)[:30],
)  # fmt: skip
def test_parts_that_no_agent_writes(parse, wrong) -> None:
    records = parse(line(GPU, **wrong) + b"\n" + line(HOST) + b"\n")
    assert kinds(records) == ["quarantine", "host"] and "wrong kinds" in records[0].reason


def test_newer_agents_and_other_peoples_keys(parse) -> None:
    records = parse(
        line(HOST, colour="red") + b"\n" + b'{"trainmon":"net/1","node":"a","time":1}\n{"trainmon": 3, "step": 1, "loss": 2.0}\n'
        + line(GPU, state="melting") + b"\n"
    )  # fmt: skip
    assert kinds(records) == ["host", "metrics", "gpu"]
    assert records[2].sample.state == "failing" and "melting" in records[2].sample.sentence


def test_words_come_out_safe_and_bounded(parse) -> None:
    evil = "\x1b]0;own\x07\x9b31m\u202egnp.exe\n" + "x" * 5000
    gpu = GpuSample(
        evil, 0, evil, T, sentence=evil, name=evil, missing={evil: evil}, facts={evil: evil}, throttle=(evil,),
        processes=(GpuProcess(1, command=evil, user=evil),), parent=evil, profile=evil, instance=evil, values={evil: 1.0},
    )  # fmt: skip
    for sample in (
        gpu,
        HostSample(evil, T, scope=evil, volumes=(VolumeSample(evil),)),
        DriverSample(evil, T, "ok", evil),
    ):
        for ascii_only in (True, False):
            (record,) = parse(json.dumps(to_object(sample), ensure_ascii=ascii_only) + "\n")
            words = repr((record.sample, record.node, record.values, record.extra)).replace("\\n", "")
            assert record.kind in ("gpu", "host")
            assert "\\x1b" not in words and "\\x9b" not in words and "\\u202e" not in words and "\\x07" not in words
            assert "x" * 1000 not in words


def test_what_names_no_machine_or_time_has_that_of_its_line(parse) -> None:
    records = parse(
        b"[worker-9] 2025-11-30 10:00:00 INFO " + line(GPU, node="", time=0.0) + b"\n" + line(HOST, node="", time=0) + b"\n",
        source="worker-4.log",
    )  # fmt: skip
    assert records[0].sample.node == "worker-9" and records[0].time == records[0].sample.time == 1_764_496_800.0
    assert records[1].sample.node == "" and records[1].node == "worker-4" and records[1].time == 1_764_496_800.0
    (alone,) = parse(line(HOST, node="", time=0) + b"\n", source="a.log")
    assert alone.sample.time == 0.0 and alone.time is None


def test_in_chunks_of_any_size(parse) -> None:
    raw = b"\n".join([STEP, b"3: " + line(GPU), line(HOST), line(GPU)[:99], b"x" + line(DRIVER), b""])
    whole = [(r.kind, r.line, r.offset, r.sample) for r in parse(raw)]
    for size in (1, 2, 7, 64, 500):
        sizes = [size] * (len(raw) // size)
        assert [(r.kind, r.line, r.offset, r.sample) for r in parse(raw, sizes=sizes)] == whole


def test_an_object_of_somebody_else_with_that_key_and_something_behind_it(parse) -> None:
    records = parse(b'{"trainmon": 3, "step": 1, "loss": 2.0}step 4 loss 2.0\n' + line(HOST) + b"\n")
    assert kinds(records) == ["metrics", "metrics", "host"]
