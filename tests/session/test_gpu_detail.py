"""The page of one GPU: one axis of time, memory by what it does, processes, throttling, what follows."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from trainmon.clock import ManualClock
from trainmon.machines import GpuDetail
from trainmon.model import CaughtUp, Data, Incident, Opened, Telemetry
from trainmon.samples import DriverSample, GpuEvent, GpuProcess, GpuSample, Sample
from trainmon.session.session import Session
from trainmon.settings import Settings

START = 1_764_500_000.0
TOTAL = 81_920.0


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
def session(clock: ManualClock) -> Session:
    return Session(["*.log"], Settings(), clock=clock)


class Run:
    """A training of eight GPUs on worker-2, a step a second, whose logs and samples are told second by second."""

    def __init__(self, session: Session, clock: ManualClock) -> None:
        self.session, self.clock = session, clock
        self.offset = 0
        session.pump([Opened(1, "worker-2.log", "/l/worker-2.log", 1, START), CaughtUp(1, 0)])

    def second(self, step: int, *, grows: float = 0.0, throttle: tuple[str, ...] = (), **more: object) -> None:
        now = self.clock.now()
        stamp = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        record = {"timestamp": stamp, "step": step, "loss": 2.0, "step_time_s": 3.0, "rank": 19, "local_rank": 3}
        line = json.dumps(record).encode() + b"\n"
        self.session._handle(Data(1, 0, self.offset, line, self.offset + len(line), now))
        self.offset += len(line)
        samples: list[Sample] = []
        for i in range(8):
            memory = 67_000.0 + (grows if i == 3 else 0.0)
            values = {
                "gpu_utilization": 97.0, "gpu_memory_mb": memory, "gpu_memory_total_mb": TOTAL, "gpu_power_w": 390.0,
                "power_limit_w": 400.0, "gpu_temperature_c": 70.0 + i, "slowdown_temperature_c": 85.0,
                "sm_clock_mhz": 1410.0, "sm_clock_max_mhz": 1410.0, "nvlink_rx_gb_s": 74.0, "nvlink_tx_gb_s": 74.0,
                "nvlinks": 12.0, "nvlinks_up": 12.0,
            }  # fmt: skip
            process = GpuProcess(41_207 + i, memory - 300.0, 97.0, "maria", "python train/sft.py", rank=16 + i)
            samples.append(
                GpuSample("worker-2", i, f"GPU-{i}", now, name="NVIDIA A100-SXM4-80GB", values=values,
                          throttle=throttle if i == 3 else (), processes=(process,),
                          facts={"pci": "0000:87:00.0", "ecc": "on", "driver": "550.90.07"}, **more)  # type: ignore[arg-type]
            )  # fmt: skip
        self.session.pump([Telemetry(tuple(samples))])
        self.clock.advance(1)

    def page(self, index: int = 3) -> GpuDetail:
        self.session.select_gpu(f"worker-2|GPU-{index}")
        found = self.session.pump().gpu
        assert found is not None and not self.session.fault
        return found


def test_nothing_is_told_until_a_gpu_is_selected(session: Session, clock: ManualClock) -> None:
    Run(session, clock).second(0)
    assert session.pump().gpu is None
    session.select_gpu("worker-2|GPU-99")
    assert session.pump().gpu is None
    session.select_gpu("worker-2|GPU-3")
    assert session.pump().gpu is not None
    session.select_gpu(None)
    assert session.pump().gpu is None


def test_the_page_tells_who_and_what_it_is(session: Session, clock: ManualClock) -> None:
    run = Run(session, clock)
    for step in range(30):
        run.second(step)
    page = run.page()
    assert page.row.label == "3" and page.row.rank == 19 and page.row.node == "worker-2" and page.origin == "NVML"
    facts = {label: word for label, word, _ in page.facts}
    assert facts["rank"] == "19" and facts["PCI"] == "0000:87:00.0" and facts["driver"] == "550.90.07"
    assert facts["ECC"] == "on" and facts["Xid"] == "none"
    assert [row.label for row in page.siblings] == [str(i) for i in range(8)]
    assert page.processes[0].command == "python train/sft.py" and page.process_sentence == ""
    assert page.log_source == 1


def test_all_charts_share_one_window_of_time(session: Session, clock: ManualClock) -> None:
    run = Run(session, clock)
    for step in range(60):
        run.second(step)
    page = run.page()
    charts = {chart.key: chart for chart in page.charts}
    assert [chart.key for chart in page.charts][:7] == [
        "gpu_memory_mb", "gpu_utilization", "gpu_power_w", "gpu_temperature_c", "sm_clock_mhz", "link_gb_s",
        "step_time_s",
    ]  # fmt: skip
    assert len({chart.window for chart in page.charts}) == 1 and {chart.axis for chart in page.charts} == {"time"}
    window = page.charts[0].window
    assert window == (START, START + 60)
    memory = charts["gpu_memory_mb"]
    assert memory.limit == 80.0 and memory.limit_severity == "critical" and memory.value == 65.4
    assert memory.points.x[0] == START and memory.points.mid[-1] == pytest.approx(65.43, abs=0.01)
    assert memory.band == "other 7 GPUs" and memory.others.mid[-1] == pytest.approx(65.43, abs=0.01)
    assert charts["gpu_temperature_c"].limit == 85.0 and charts["gpu_temperature_c"].limit_word == "slows at 85"
    assert charts["gpu_temperature_c"].value == 73.0 and charts["gpu_temperature_c"].others.mid[-1] < 73.6
    assert charts["gpu_power_w"].limit == 400.0 and charts["gpu_utilization"].high == 100.0
    assert charts["link_gb_s"].value == 148.0 and "12 links up" in charts["link_gb_s"].note
    assert charts["step_time_s"].points.mid[-1] == 3.0 and charts["step_time_s"].value == 3.0
    assert charts["sm_clock_mhz"].note == "of 1,410, never throttled"


def test_an_outage_of_the_instruments_is_a_gap(session: Session, clock: ManualClock) -> None:
    run = Run(session, clock)
    for step in range(20):
        run.second(step)
    clock.advance(60)
    run.second(80)
    assert run.page().charts[0].gaps == (START + 19,)


def near_oom(start: float, detected: float, step: int) -> Incident:
    return Incident(
        "near_oom:worker-2:3", "near_oom", "critical", "NEAR OOM", "worker-2 gpu3", "76.8 of 80 GiB",
        outlook="full in ≈ 4 min", advice=("only this GPU grows", "restart soon"), node="worker-2", gpu=3, start=start,
        detected=detected, start_step=step,
    )  # fmt: skip


def test_memory_is_split_into_steady_grown_and_free(session: Session, clock: ManualClock) -> None:
    run = Run(session, clock)
    for step in range(40):
        run.second(step)
    for step in range(40, 80):
        run.second(step, grows=(step - 39) * 100.0)
    # The detector's own word is not waited for.
    front = session._engine.front
    front._note(near_oom(START + 40, START + 70, 40), True)
    page = run.page()
    assert page.steady_mb == pytest.approx(67_000, abs=150) and page.grown_mb == pytest.approx(4_000, abs=150)
    assert page.free_mb == pytest.approx(TOTAL - 71_000) and page.grown_since == 40 and page.steady_since == 0
    assert page.outlook == "full in ≈ 4 min" and page.follows[:2] == ("only this GPU grows", "restart soon")
    assert [(span.start, span.end, span.severity) for span in page.spans if span.start == START + 70] == [
        (START + 70, None, "critical")
    ]
    other = run.page(2)
    assert other.grown_mb == 0.0 and other.grown_since is None and other.spans == ()
    assert session.snapshot.gpus.rows[3].health == "critical" and session.snapshot.gpus.rows[3].word == "87 %"


def test_an_alert_on_memory_has_a_chart_by_steps_although_only_telemetry_tells_of_it(
    session: Session, clock: ManualClock
) -> None:
    run = Run(session, clock)
    for step in range(100, 140):
        run.second(step)
    session._engine.front._note(near_oom(START + 20, START + 30, 120), True)
    clock.advance(2)
    run.second(142)
    chart = next(chart for chart in session.pump().charts if chart.key == "gpu_memory_mb:worker-2:3")
    assert chart.axis == "step" and chart.points.x[0] >= 100 and chart.points.x[-1] == 142
    assert chart.points.mid[-1] == pytest.approx(65.43, abs=0.01) and chart.band == "the other 7 GPUs: min–max"


def test_seconds_of_throttling_are_counted_as_they_are_seen(session: Session, clock: ManualClock) -> None:
    run = Run(session, clock)
    for step in range(10):
        run.second(step)
    for step in range(10, 31):
        run.second(step, throttle=("thermal (hardware)",) if step < 30 else ())
    page = run.page()
    assert page.throttle == (("power cap", False, 0.0), ("thermal", False, 20.0), ("hardware", False, 0.0))
    assert next(c for c in page.charts if c.key == "sm_clock_mhz").note == "of 1,410, throttled 20 s"
    clock.advance(600)  # nobody looked: nothing is known of these minutes
    run.second(31, throttle=("thermal (hardware)",))
    page = run.page()
    assert page.throttle[1] == ("thermal", True, 20.0)
    assert any("fans" in sentence for sentence in page.follows)


def test_the_drivers_own_counters_go_before_what_was_seen(session: Session, clock: ManualClock) -> None:
    for i, counted in enumerate((100.0, 130.0, 142.5, 1.0, 3.0)):
        session.pump(
            [Telemetry((GpuSample("b", 0, "U", START + i, throttle=(), values={"throttle_power_s": counted}),))]
        )
        clock.advance(1)
        if i == 2:
            session.select_gpu("b|U")
            page = session.pump().gpu
            assert page is not None and page.throttle[0] == ("power cap", False, 42.0)
    page = session.pump().gpu
    assert page is not None and page.throttle[0][2] == 2.0  # the driver was loaded anew


def test_a_lost_gpu_says_what_follows(session: Session, clock: ManualClock) -> None:
    lost = GpuSample("b", 5, "U5", START, state="lost", since=START - 3, sentence="GPU is lost: reset it or reboot",
                     events=(GpuEvent(79, START - 3),), values={})  # fmt: skip
    session.pump([Telemetry((DriverSample("b", START, "ok", driver="550.1"), lost))])
    session.select_gpu("b|U5")
    page = session.pump().gpu
    assert page is not None and page.charts == () and page.steady_mb is None and page.driver == "550.1"
    assert page.follows[0] == "GPU is lost: reset it or reboot (Xid 79, since 10:53:17)"
    assert ("Xid", "79 at 10:53:17", "critical") in page.facts
    assert page.process_sentence == "cannot be read now"


def test_a_gpu_of_the_logs_has_a_page_too(session: Session, clock: ManualClock) -> None:
    lines = b""
    for step in range(50):
        stamp = datetime.fromtimestamp(START - 50 + step, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        record = {"timestamp": stamp, "step": step, "loss": 1.0, "rank": 4, "gpu_memory_mb": 40_000 + step,
                  "gpu_memory_total_mb": 81_920}  # fmt: skip
        lines += json.dumps(record).encode() + b"\n"
    shot = session.pump([Opened(1, "w.log", "/w.log", len(lines), START), Data(1, 0, 0, lines, len(lines), START),
                         CaughtUp(1, 0)])  # fmt: skip
    row = shot.gpus.rows[0]
    assert row.key and row.state == ""
    session.select_gpu(row.key)
    page = session.pump().gpu
    assert page is not None and page.origin == "from the log" and page.row.state == ""
    assert [chart.key for chart in page.charts] == ["gpu_memory_mb", "step_time_s"]
    assert page.charts[0].points.x[0] == START - 50 and page.process_sentence == "a log does not tell of processes"
