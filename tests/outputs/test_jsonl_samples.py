"""Records of machines as lines of JSON: their numbers by name, and what else their sample holds."""

from __future__ import annotations

import json

from trainmon.model import record_of
from trainmon.outputs.jsonl import to_json
from trainmon.samples import DiskSample, DriverSample, GpuProcess, GpuSample, HostSample


def test_a_gpu() -> None:
    gpu = GpuSample(
        "worker-3", 1, "GPU-1", 1_764_500_000.5, "agent", name="NVIDIA H100", facts={"pci": "0000:1A:00.0"},
        values={"gpu_temperature_c": 61.0, "sm_clock_mhz": 1980.0}, missing={"fan_percent": "not supported"},
        throttle=("power cap",), processes=(GpuProcess(7, 900.0, command="python"),),
    )  # fmt: skip
    assert json.loads(to_json(record_of(gpu, "agents/worker-3.jsonl", 4, 99))) == {
        "kind": "gpu", "source": "agents/worker-3.jsonl", "line": 4, "offset": 99, "time": "2025-11-30T10:53:20.500Z",
        "node": "worker-3", "gpu": 1, "gpu_temperature_c": 61.0,
        "extra": {
            "uuid": "GPU-1", "gpu_name": "NVIDIA H100", "throttle": "power cap", "sm_clock_mhz": 1980.0, "origin": "agent",
            "processes": [{"pid": 7, "memory_mb": 900.0, "command": "python"}],
            "missing": {"fan_percent": "not supported"}, "facts": {"pci": "0000:1A:00.0"},
        },
    }  # fmt: skip


def test_a_host_and_a_driver() -> None:
    host = HostSample("a", 1.0, "log", values={"iowait_percent": 3.0}, disks=(DiskSample("sda", 99.0, read_mb_s=5.5),))
    extra = json.loads(to_json(record_of(host, "a.log")))["extra"]
    assert extra == {
        "iowait_percent": 3.0, "disks": [{"name": "sda", "util_percent": 99.0, "read_mb_s": 5.5}], "origin": "log",
    }  # fmt: skip
    driver = json.loads(to_json(record_of(DriverSample("a", 1.0, "not loaded", "load it"), "NVML")))
    assert driver["extra"] == {"driver_state": "not loaded", "sentence": "load it"}


def test_words_that_a_terminal_would_obey_or_that_are_no_utf8() -> None:
    gpu = GpuSample("a\udc80", 0, "", 1.0, name="x\u202e\x7f", processes=(GpuProcess(1, command="\ud800\x9b"),))
    line = to_json(record_of(gpu, "a.log"))
    assert line.isascii() and b"\x7f" not in line
    assert json.loads(line)["extra"]["processes"] == [{"pid": 1, "command": "?\x9b"}]
