"""NVML through the real ctypes path, against a stand-in library that is built here."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainmon.telemetry.probe import probe


@pytest.fixture
def scenario(scene):
    return scene


class TestWithADriver:
    pytestmark = pytest.mark.needs_cc

    def test_eight_gpus_and_the_driver_are_named(self, scenario) -> None:
        scenario("h100x8-healthy")
        report = probe()
        assert report.word == "ok"
        assert len(report.gpus) == 8 and all("H100" in name for name in report.gpus)
        assert report.driver and report.driver in report.sentence

    @pytest.mark.parametrize(
        ("name", "says"),
        [("driver-mismatch", "reboot"), ("driver-not-loaded", "modprobe"), ("no-permission", "may not ask")],
    )
    def test_a_driver_that_refuses_gets_a_sentence_that_helps(self, scenario, name: str, says: str) -> None:
        scenario(name)
        report = probe()
        assert report.word == "refused" and says in report.sentence

    def test_no_gpu_is_said(self, scenario) -> None:
        scenario("zero-gpus")
        report = probe()
        assert report.word == "ok" and report.gpus == () and "0 GPUs" in report.sentence

    def test_a_driver_that_hangs_is_given_up(self, scenario, monkeypatch) -> None:
        scenario("hung-driver")
        monkeypatch.setenv("FAKE_NVML_NOW", "6")
        assert probe(timeout_s=1.0).word == "hangs"

    def test_bytes_that_are_no_text_are_shown_as_far_as_they_can_be(self, scenario) -> None:
        scenario('system gpus=1 driver="5\x1b[31m50"\ngpu=all name="E\x1b[31m\udcffVIL"\n')
        report = probe()
        assert report.word == "ok" and report.gpus == ("E [31m\ufffdVIL",) and report.driver == "5 [31m50"

    def test_doctor_shows_it(self, scenario) -> None:
        from trainmon.commands.doctor import findings

        scenario("geforce-4090x2")
        found = [f for f in findings(None) if f.subject == "NVML"]
        assert len(found) == 1 and "2 × " in found[0].text and "4090" in found[0].text


def test_without_a_driver_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/nonexistent")
    report = probe()
    if report.word == "ok":
        assert report.driver  # a machine that really has one
    else:
        assert report.word == "no driver" and ("libnvidia-ml" in report.sentence or "accelerator" in report.sentence)


def test_a_library_that_prints_does_not_spoil_the_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pynvml.py").write_text("import os\nos.write(1, b'[' * 200_000 + b'\\n')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert probe().word == "refused"
