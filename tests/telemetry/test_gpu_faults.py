"""What breaks, breaks apart: lost GPUs, drivers that come and go, machines without any."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.needs_cc


def test_a_lost_gpu_is_said_with_its_xid_and_asked_seldom(scene, watching) -> None:
    log = scene("gpu-lost-xid79", t=10.5)
    _, heard = watching()
    heard.ready(8)
    heard.until(lambda h: h.gpu(5).last.state == "lost")
    told = heard.gpu(5)
    assert [event.code for event in told.events] == [79]
    assert "lost (Xid 79)" in told.last.sentence and told.last.since is not None
    before = len(log.read_text().splitlines())
    counts = [len(heard.gpu(index).samples) for index in range(8)]
    heard.until(lambda h: len(h.gpu(0).samples) > counts[0] + 6)
    lines = [line.split() for line in log.read_text().splitlines()[before:]]
    assert sum(row[3] == "gpu=5" for row in lines) <= 2
    waits = sum(row[2].startswith("nvmlEventSetWait") for row in lines)
    assert waits <= sum(row[2] == "nvmlDeviceGetPowerUsage" and row[3] == "gpu=0" for row in lines) + 2  # no spinning
    assert all(heard.gpu(index).last.state == "ok" for index in range(8) if index != 5)


def test_a_lost_gpu_that_returns_is_known_anew(scene, watching) -> None:
    scene("INCLUDE/h100x8.inc\nlost gpu=2 at=5 ms=50 until=7\n", t=4)
    _, heard = watching()
    heard.ready(8)
    heard.until(lambda h: h.gpu(2).last.state == "lost")
    heard.until(lambda h: h.gpu(2).last.state == "ok")
    assert heard.gpu(2).last.sentence == "" and heard.gpu(2).last.since is None


def test_a_gpu_that_needs_a_reset_says_how(scene, watching) -> None:
    scene("INCLUDE/h100x8.inc\nfail gpu=3 func=nvmlDeviceGet* code=RESET_REQUIRED at=5\n", t=4)
    _, heard = watching()
    heard.ready(8)
    heard.until(lambda h: h.gpu(3).last.state == "reset needed")
    assert "nvidia-smi --gpu-reset -i 3" in heard.gpu(3).last.sentence


def test_a_gpu_that_answers_nothing_but_errors_is_failing(scene, watching) -> None:
    scene("INCLUDE/h100x8.inc\nfail gpu=3 func=nvmlDevice* code=UNKNOWN at=5 until=8\n", t=4)
    _, heard = watching()
    heard.ready(8)
    heard.until(lambda h: h.gpu(3).last.state == "failing")
    assert "Unknown Error" in heard.gpu(3).last.sentence
    assert heard.driver.state == "ok" and heard.gpu(4).last.state == "ok"
    heard.until(lambda h: h.gpu(3).last.state == "ok")


def test_xids_come_with_their_gpu(scene, watching) -> None:
    scene("xid-nonfatal", t=3)
    _, heard = watching()
    heard.ready(8)
    heard.until(lambda h: h.gpu(4).events)
    assert [event.code for event in heard.gpu(2).events] == [63]
    assert [event.code for event in heard.gpu(4).events] == [94]
    assert heard.gpu(2).last.state == heard.gpu(4).last.state == "ok"


def test_a_driver_that_is_loaded_later_is_found(scene, watching) -> None:
    scene("driver-reload", t=3)
    _, heard = watching()
    heard.until(lambda h: h.driver.state == "not loaded")
    assert "modprobe nvidia" in heard.driver.sentence and heard.driver.gpus is None
    heard.ready(8)
    assert heard.driver.state == "ok" and heard.driver.gpus == 8


@pytest.mark.parametrize(
    ("scenario", "state", "says"),
    [
        ("driver-mismatch", "mismatch", "reboot"),
        ("driver-not-loaded", "not loaded", "modprobe"),
        ("no-permission", "no permission", "may not ask"),
        ("zero-gpus", "ok", "counts no GPU"),
    ],
)
def test_a_driver_that_gives_nothing_gets_one_sentence(scene, watching, scenario: str, state: str, says: str) -> None:
    scene(scenario)
    _, heard = watching()
    heard.until(lambda h: h.driver.state == state)
    assert says in heard.driver.sentence and not heard.gpus
    assert heard.driver.gpus == (0 if scenario == "zero-gpus" else None)


def test_devices_cut_off_from_a_container_are_the_drivers_state_not_eight_gpus(scene, watching) -> None:
    scene("container-lost-devices", t=9)
    _, heard = watching()
    heard.ready(8)
    heard.until(lambda h: h.driver.state == "no access")
    assert "restart the container" in heard.driver.sentence
    assert all(seen.last.state == "ok" for seen in heard.gpus.values())  # their last figures grow old


def test_no_library_ends_the_worker_and_nothing_runs(watching, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    watched, heard = watching(root=str(tmp_path))
    heard.until(lambda h: h.driver.state != "starting")
    if heard.driver.state == "ok":
        pytest.skip("this machine has a driver")
    assert heard.driver.state == "no driver" and "libnvidia-ml.so.1" in heard.driver.sentence
    time.sleep(1.5)
    assert len(heard.drivers) == 2 and watched._worker is None and not watched._graves


@pytest.mark.parametrize(
    ("files", "state", "says"),
    [
        (["dev/kfd"], "unsupported", "an AMD accelerator is here"),
        (["dev/davinci0"], "unsupported", "a Huawei Ascend"),
        (["sys/class/accel/accel0/device/vendor=0x1da3"], "unsupported", "an Intel Gaudi"),
        (["sys/class/accel/accel0/device/vendor=0x8086"], "no driver", "no NVIDIA driver"),
        ([".dockerenv"], "no driver", "--gpus all"),
        ([".dockerenv", "dev/nvidiactl"], "no driver", "NVIDIA_DRIVER_CAPABILITIES"),
        (
            ["sys/bus/pci/devices/0/vendor=0x10de", "sys/bus/pci/devices/0/class=0x030200"],
            "no driver",
            "install the driver",
        ),
    ],
)
def test_without_a_library_the_machine_itself_says_what_is_here(
    watching, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, files: list[str], state: str, says: str
) -> None:
    for entry in files:
        name, _, text = entry.partition("=")
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    _, heard = watching(root=str(tmp_path))
    heard.until(lambda h: h.driver.state != "starting")
    if heard.driver.state == "ok":
        pytest.skip("this machine has a driver")
    assert heard.driver.state == state and says in heard.driver.sentence


def test_no_nvidia_gpu_counted_and_another_makers_here(scene, watching, tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/kfd").touch()
    scene("zero-gpus")
    _, heard = watching(root=str(tmp_path))
    heard.until(lambda h: h.driver.state == "unsupported")
    assert "AMD" in heard.driver.sentence and heard.driver.gpus == 0
