"""Single readings against the stand-in in this process, time standing still: the paths that scenarios rarely take."""

from __future__ import annotations

import pytest

from trainmon.telemetry.gpu import fields, gpm, metrics
from trainmon.telemetry.gpu.device import Device, DeviceGone, Draft, DriverGone, Reading
from trainmon.telemetry.gpu.events import Events
from trainmon.telemetry.gpu.nvml import Nvml, Refused, clean, code_of
from trainmon.telemetry.gpu.opening import count, open_device, read_instances
from trainmon.telemetry.gpu.people import People
from trainmon.telemetry.gpu.processes import Processes
from trainmon.telemetry.gpu.standing import Standing

pytestmark = pytest.mark.needs_cc


def opened(lib: Nvml, index: int = 0) -> Device:
    device = Device(index)
    open_device(lib, device)
    return device


def ask(lib: Nvml, device: Device, key: str, now: float = 0.0) -> Draft:
    draft = Draft()
    for reading in metrics.table(Processes(People(lib.marker))):
        if reading.key == key:
            device.take(lib, reading, draft, now)
    return draft


def test_rates_are_differences_and_a_counter_that_begins_anew_gives_none(nvml_here, monkeypatch) -> None:
    lib, fake = nvml_here("h100x8-exact", t=10)
    device = opened(lib)
    clock = iter((100.0, 102.0, 104.0))
    monkeypatch.setattr(fields.time, "monotonic", lambda: next(clock))
    draft = Draft()
    fields.read_counters(lib, device, draft)
    assert "pcie_tx_mb_s" not in draft.values and draft.values["memory_temperature_c"] == 78
    fake.at(12)
    draft = Draft()
    fields.read_counters(lib, device, draft)
    assert draft.values["pcie_tx_mb_s"] == pytest.approx(2450, rel=0.01)
    fake.at(1)
    draft = Draft()
    fields.read_counters(lib, device, draft)
    assert "pcie_tx_mb_s" not in draft.values


def test_errors_of_links_are_added_up_where_there_is_no_total(nvml_here, monkeypatch) -> None:
    lib, fake = nvml_here("gb200-fabric", t=1)
    device = opened(lib, 3)
    device.forms["health"] = [one for one in fields.HEALTH if one.metric != "nvlink_errors"]
    draft = Draft()
    fields.read_health(lib, device, draft)
    assert draft.values["nvlink_errors"] == 18 * 812  # the stand-in gives each link the board's number
    assert draft.values["nvlinks_up"] == 15


def test_traffic_comes_from_gpm_where_no_counters_exist(nvml_here) -> None:
    lib, fake = nvml_here("h100x8-exact", t=10)
    device = opened(lib)
    device.missing["pcie_tx_mb_s"] = device.missing["pcie_rx_mb_s"] = "not supported"
    draft = Draft()
    gpm.read_activity(lib, device, draft)
    assert draft.values == {}
    fake.at(15)
    gpm.read_activity(lib, device, draft)
    assert draft.values["sm_active_percent"] == 71 and draft.values["dram_active_percent"] == 47
    assert draft.values["pcie_tx_mb_s"] == pytest.approx(2450)
    assert "pcie_tx_mb_s" not in device.missing


def test_measured_traffic_is_the_last_resort(nvml_here) -> None:
    lib, fake = nvml_here("geforce-4090x2")
    device = opened(lib)
    device.missing["pcie_tx_mb_s"] = "not supported"
    draft = Draft()
    metrics.throughput(lib, device, draft)
    assert set(draft.values) == {"pcie_tx_mb_s", "pcie_rx_mb_s"} and "pcie_tx_mb_s" not in device.missing


def test_slowdown_comes_from_the_margin_where_the_threshold_is_gone(nvml_here) -> None:
    lib, fake = nvml_here("h100x8-exact")
    fake.line("fail func=nvmlDeviceGetTemperatureThreshold code=NOT_SUPPORTED")
    draft = ask(lib, opened(lib), "slowdown")
    assert draft.values["slowdown_temperature_c"] == 89


@pytest.mark.parametrize(
    ("line", "well", "word"),
    [
        ("gpu=0 fabric_state=3", 1, "completed"),
        ("gpu=0 fabric_state=2", 0, "in progress"),
        ("gpu=0 fabric_state=3 fabric_status=23", 0, "error 23"),
    ],
)
def test_fabric(nvml_here, line: str, well: int, word: str) -> None:
    lib, fake = nvml_here("h100x8-exact")
    fake.line(line)
    device = opened(lib)
    assert ask(lib, device, "fabric").values["fabric_ok"] == well
    assert device.facts["fabric"] == word


def test_mig_that_is_switched_under_way_is_noticed(nvml_here) -> None:
    lib, fake = nvml_here("a100-mig")
    device = opened(lib, 1)
    assert ask(lib, device, "utilisation").values["gpu_utilization"] == 88
    fake.line("gpu=1 mig_mode=1 mig_max=7")
    fake.line("mig gpu=1 mig=0 gi=3 ci=0 profile=7g.80gb uuid=MIG-7 mem_total=80Gi mem_used=1Gi mem_reserved=0")
    read_instances(lib, device)
    assert [one.profile for one in device.instances] == ["7g.80gb"]
    assert ask(lib, device, "utilisation", 100.0).values == {}
    assert device.missing["gpu_utilization"] == "n/a under MIG"
    fake.line("gpu=1 mig_mode=0")
    read_instances(lib, device)
    assert device.instances == []
    assert ask(lib, device, "utilisation", 200.0).values["gpu_utilization"] == 88
    assert "gpu_utilization" not in device.missing


def test_a_name_in_odd_bytes_is_shown_all_the_same(nvml_here) -> None:
    lib, fake = nvml_here('system gpus=1\ngpu=0 name="NVIDIA \x07 B\x1b[31moard" mem_used=1Gi\n')
    assert opened(lib).name == "NVIDIA B [31moard"
    assert clean(b"H\xff\xfe100".decode("utf-8", "replace")).startswith("H")


def test_many_processes_need_more_room(nvml_here) -> None:
    lib, fake = nvml_here("h100x8-exact")
    for pid in range(100, 400):
        fake.line(f"proc gpu=1 pid={pid} mem={pid}Mi sm=1")
    found = ask(lib, opened(lib, 1), "processes").processes
    assert len(found) == 256 and found[0].memory_mb == 68000


@pytest.mark.parametrize(
    ("code", "wanted", "error"),
    [
        ("GPU_IS_LOST", "lost", DeviceGone),
        ("RESET_REQUIRED", "reset needed", DeviceGone),
        ("NO_PERMISSION", "no permission", DeviceGone),
        ("IRQ_ISSUE", "failing", DeviceGone),
        ("UNINITIALIZED", None, DriverGone),
        ("LIB_RM_VERSION_MISMATCH", None, DriverGone),
    ],
)
def test_a_refused_handle_is_that_gpus_or_the_drivers(nvml_here, code: str, wanted: str, error: type) -> None:
    lib, fake = nvml_here("h100x8-exact")
    fake.line(f"fail func=nvmlDeviceGetHandleByIndex* gpu=2 code={code}")
    with pytest.raises(error) as caught:
        opened(lib, 2)
    if wanted:
        assert caught.value.state == wanted
    assert opened(lib, 3).name and count(lib) == 8


def test_one_metrics_refusal_is_that_metrics(nvml_here) -> None:
    lib, fake = nvml_here("h100x8-exact")
    device = opened(lib)
    fake.line("gpu=0 power=!NO_PERMISSION")
    assert ask(lib, device, "power").values == {} and device.missing["gpu_power_w"] == "no permission"
    fake.line("gpu=0 temp=!UNKNOWN")
    ask(lib, device, "temperature")
    asked = fake.calls("nvmlDeviceGetTemperature")
    ask(lib, device, "temperature", 1.0)
    assert fake.calls("nvmlDeviceGetTemperature") == asked  # it pauses
    fake.line("gpu=0 temp=50")
    assert ask(lib, device, "temperature", 3.0).values["gpu_temperature_c"] == 50
    assert "gpu_temperature_c" not in device.missing


def test_changes_of_what_is_missing_are_told_and_what_is_back_with_an_empty_reason(nvml_here) -> None:
    lib, fake = nvml_here("h100x8-exact")
    device = opened(lib)
    fake.line("gpu=0 temp=!UNKNOWN")
    ask(lib, device, "temperature")
    assert device.sample("n", 1.0).missing == {"gpu_temperature_c": "failing: Unknown Error"}
    assert device.sample("n", 2.0).missing == {}
    assert device.sample("n", 3.0, full=True).missing == {"gpu_temperature_c": "failing: Unknown Error"}
    fake.line("gpu=0 temp=50")
    ask(lib, device, "temperature", 10.0)
    assert device.sample("n", 4.0).missing == {"gpu_temperature_c": ""}


def test_a_binding_that_breaks_costs_one_metric(nvml_here) -> None:
    lib, fake = nvml_here("h100x8-exact")
    device = opened(lib)

    def read(lib: Nvml, device: Device, draft: Draft) -> None:
        raise OverflowError("Python int too large to convert to C int")

    device.take(lib, Reading("x", "fast", ("gpu_power_w",), read), Draft(), 0.0)
    assert device.missing["gpu_power_w"] == "failing: OverflowError"


def test_events_of_a_lost_gpu_do_not_spin(nvml_here) -> None:
    lib, fake = nvml_here("h100x8-exact", t=1)
    devices = [opened(lib, index) for index in range(4)]
    events = Events()
    events.register(lib, devices)
    fake.line("xid gpu=1 code=79 at=2")
    fake.line("lost gpu=1 at=2")
    fake.at(3)
    before = fake.calls("nvmlEventSetWait*")
    assert [device.index for device in events.collect(lib, 50.0)] == [1]
    assert [(event.code, event.time) for event in devices[1].events] == [(79, 50.0)]
    assert fake.calls("nvmlEventSetWait*") - before <= 2
    for _ in range(10):
        events.collect(lib, 51.0)
    assert fake.calls("nvmlEventSetWait*") - before <= 12
    events.register(lib, [device for device in devices if device.index != 1])
    fake.line("xid gpu=2 code=63 at=4")
    fake.at(5)
    assert [device.index for device in events.collect(lib, 52.0)] == [2]
    events.close(lib)


def test_every_function_of_an_old_driver_that_is_missing_is_no_error(nvml_here) -> None:
    lib, fake = nvml_here("h100x8-exact", driver=470)
    device = opened(lib)
    for reading in metrics.table(Processes(People(lib.marker))):
        device.take(lib, reading, Draft(), 0.0)
    assert {why for why in device.missing.values() if why.startswith("failing")} == set()


class TestDraft:
    @pytest.mark.parametrize(
        ("metric", "value", "kept"),
        [
            ("gpu_utilization", 100, 100),
            ("gpu_utilization", 104, 100),
            ("gpu_utilization", 37100, None),
            ("gpu_power_w", 0, None),
            ("gpu_power_w", 2**32 / 1000, None),
            ("gpu_temperature_c", 2**32 - 1, None),
            ("sm_active_percent", float("nan"), None),
            ("fan_percent", 130, 130),
            ("ecc_corrected", -1, None),
            ("pcie_width", 0, None),
        ],
    )
    def test_what_cannot_be_is_refused_with_what_was_said(self, metric, value, kept) -> None:
        draft = Draft()
        draft.put(metric, value)
        assert draft.values.get(metric) == kept
        assert (metric in draft.refused) == (kept is None)


class TestStanding:
    def test_pauses_double_up_to_a_minute(self) -> None:
        standing = Standing()
        now, pauses = 0.0, []
        for _ in range(7):
            standing.refuse(999, "Unknown Error", now)
            start = now
            while not standing.due(now):
                now += 1
            pauses.append(now - start)
        assert pauses == [2, 4, 8, 16, 32, 60, 60] and standing.reason == "failing: Unknown Error"

    def test_unsupported_is_settled_unless_it_once_answered(self) -> None:
        standing = Standing()
        standing.refuse(3, "", 0.0)
        assert standing.settled and not standing.due(1e9)
        other = Standing()
        other.ok()
        other.refuse(3, "", 0.0)
        assert not other.settled and other.due(61) and not other.due(59)

    def test_an_argument_that_the_driver_does_not_know_is_unsupported(self) -> None:
        standing = Standing()
        standing.refuse(2, "Invalid Argument", 0.0)
        assert standing.settled


def test_codes_of_what_bindings_raise() -> None:
    class NVMLLibraryMismatchError(Exception):
        pass

    assert code_of(NVMLLibraryMismatchError("old")) == 13
    assert code_of(UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad")) == -1
    assert Refused(15).text == "GPU is lost"
