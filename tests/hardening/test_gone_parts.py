"""Volumes that are unmounted and links that go: what was wrong with them is over."""

from __future__ import annotations

from trainmon.diagnosis.engine import Detectors
from trainmon.model import record_of
from trainmon.samples import HostSample, LinkSample, Sample, VolumeSample


class Machine:
    """Feeds detectors with samples of one machine, a second apart."""

    def __init__(self) -> None:
        self.detectors = Detectors()
        self.now = 1_764_500_000.0
        self.open: dict[str, str] = {}
        self.over: dict[str, str] = {}

    def say(self, times: int, volumes: tuple[VolumeSample, ...] | None, links: tuple[LinkSample, ...] | None) -> None:
        for _ in range(times):
            self.now += 1.0
            sample: Sample = HostSample("w1", self.now, volumes=volumes, links=links)
            for incident in self.detectors.observe(record_of(sample, "host"), "w1", self.now):
                if incident.end is None:
                    self.open[incident.key] = incident.title
                else:
                    self.open.pop(incident.key, None)
                    self.over[incident.key] = incident.resolution


def test_a_full_volume_that_is_unmounted_is_no_longer_full() -> None:
    machine = Machine()
    full = VolumeSample("/data", used_mb=99_999.0, total_mb=100_000.0)
    root = VolumeSample("/", used_mb=10.0, total_mb=100_000.0)
    machine.say(90, (root, full), None)
    assert machine.open == {"storage_fault:w1:/data": "DISK FULL"}
    machine.say(5, None, None)  # volumes are not read with every sample
    assert machine.open
    machine.say(1, (root,), None)
    assert not machine.open and "not there any more" in machine.over["storage_fault:w1:/data"]


def test_a_link_that_was_down_and_goes_is_no_longer_down() -> None:
    machine = Machine()
    eth, ib = LinkSample("eth0"), LinkSample("mlx5_0", kind="infiniband", state="active")
    machine.say(5, None, (eth, ib))
    machine.say(90, None, (eth, LinkSample("mlx5_0", kind="infiniband", state="down")))
    assert machine.open == {"network_fault:w1:mlx5_0": "LINK DOWN"}
    machine.say(1, None, (eth,))
    assert not machine.open and "not there any more" in machine.over["network_fault:w1:mlx5_0"]
