"""All instruments behind one switch, and the machine's name."""

from __future__ import annotations

import os
import time

from trainmon.clock import SystemClock
from trainmon.samples import GpuProcess, GpuSample, HostSample, Sample
from trainmon.telemetry.names import node_name
from trainmon.telemetry.station import Station


def test_names_come_from_the_launcher_first() -> None:
    assert node_name({"TRAINMON_NODE": "blue", "SLURMD_NODENAME": "gpu-7"}) == "blue"
    assert node_name({"SLURMD_NODENAME": "gpu-7"}) == "gpu-7"
    assert node_name({"TRAINMON_NODE": "a/b\x1b c"}) == "abc"
    assert "." not in node_name({}) and node_name({})


def test_processes_of_this_user_are_given_to_the_host() -> None:
    got: list[Sample] = []
    station = Station(got.extend, node="n", clock=SystemClock(), gpu=False, host=False)
    mine = GpuProcess(os.getpid())
    station._from_gpus(
        [GpuSample("n", 0, "GPU-0", 1.0, processes=(mine, GpuProcess(os.getpid(), here=False), GpuProcess(2**22 - 1)))]
    )
    station._from_gpus([GpuSample("n", 1, "GPU-1", 1.0, processes=(mine,)), GpuSample("n", 0, "GPU-0", 2.0)])
    assert station.pids() == [os.getpid()]
    assert len(got) == 3


def test_the_host_is_measured_without_gpus() -> None:
    got: list[Sample] = []
    station = Station(got.extend, node="n", clock=SystemClock(), gpu=False, host_interval_s=0.5)
    station.start()
    deadline = time.monotonic() + 30
    while not got and time.monotonic() < deadline:
        time.sleep(0.05)
    station.stop()
    station.release()
    station.resume()
    assert isinstance(got[0], HostSample) and got[0].node == "n" and got[0].values
