"""Files that agents write: telemetry of other machines, and no speech of the run."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from trainmon.clock import ManualClock
from trainmon.model import Ahead, CaughtUp, Data, Glimpse, Opened, SourceEvent
from trainmon.samples import GpuSample, HostSample, to_object
from trainmon.session.session import Session
from trainmon.settings import Settings

START = 1_764_500_000.0


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
def session(clock: ManualClock) -> Session:
    return Session(["*.log", "agents/*.jsonl"], Settings(), clock=clock)


def step_line(step: int, time: float) -> bytes:
    stamp = datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    record = {"timestamp": stamp, "step": step, "loss": 2.0, "step_time_s": 1.0}
    return json.dumps(record).encode() + b"\n"


def agent_lines(node: str, time: float, gpus: int = 8, temperature: float = 60.0) -> bytes:
    values = {"gpu_utilization": 90.0, "gpu_memory_mb": 70_000.0, "gpu_memory_total_mb": 81_920.0,
              "gpu_temperature_c": temperature}  # fmt: skip
    samples = [GpuSample(node, i, f"GPU-{i}", time, values=values, name="H100", origin="agent") for i in range(gpus)]
    host = HostSample(node, time, origin="agent", values={"cpu_percent": 20.0})
    return b"".join(json.dumps(to_object(one)).encode() + b"\n" for one in (*samples, host))


class File:
    """A file as the reader tells of it."""

    def __init__(self, session: Session, source: int, name: str, data: bytes, mtime: float) -> None:
        self.session, self.source, self.size = session, source, len(data)
        events: list[SourceEvent] = [Opened(source, name, f"/logs/{name}", len(data), mtime)]
        if data:
            events.append(Data(source, 0, 0, data, len(data), mtime))
        session.pump([*events, CaughtUp(source, 0)])

    def append(self, data: bytes, now: float) -> None:
        self.session._handle(Data(self.source, 0, self.size, data, self.size + len(data), now))
        self.size += len(data)


def training(session: Session, clock: ManualClock, name: str = "train.log", ago: float = 0.0) -> File:
    end = clock.now() - ago
    data = b"".join(step_line(step, end - 59 + step) for step in range(60))
    return File(session, 1, name, data, end)


def test_an_agents_lines_are_no_speech_of_the_run(session: Session, clock: ManualClock) -> None:
    training(session, clock)
    before = session.snapshot
    agent = File(session, 9, "agents/worker-3.jsonl", agent_lines("worker-3", START - 1), START)
    for _ in range(450):
        clock.advance(2)
        agent.append(agent_lines("worker-3", clock.now(), 2), clock.now())
        session.pump()
    shot = session.snapshot
    assert shot.run.state == "stalled" and shot.counts == before.counts and shot.last == before.last
    assert [node.name for node in shot.nodes] == ["train"] and shot.tail == before.tail and shot.run.nodes == 1
    assert shot.run.name == before.run.name and shot.run.newest == before.run.newest
    source = next(one for one in shot.sources if one.id == 9)
    assert source.format == "telemetry of worker-3" and source.word == "followed"
    assert shot.gpus.subject == "worker-3" and shot.gpus.origin == "from its agent" and not shot.gpus.here
    assert not session.fault


def test_an_agent_that_goes_on_does_not_make_an_old_run_young(session: Session, clock: ManualClock) -> None:
    agent = File(session, 9, "agents/worker-3.jsonl", agent_lines("worker-3", START - 1), START)
    training(session, clock, ago=7200.0)
    for _ in range(10):
        clock.advance(2)
        agent.append(agent_lines("worker-3", clock.now()), clock.now())
        session.pump()
    assert session.snapshot.run.state == "old"


def test_an_agent_alone_is_a_machine_without_a_run(session: Session, clock: ManualClock) -> None:
    File(session, 9, "agents/worker-3.jsonl", agent_lines("worker-3", START - 1), START)
    clock.advance(2)
    shot = session.pump()
    assert shot.run.state == "waiting" and shot.nodes == () and len(shot.gpus.rows) == 8 and shot.run.gpus == 8
    assert shot.last is None and shot.counts.lines == 0 and shot.host.subject == "worker-3"


def test_an_empty_agent_file_is_no_node_once_it_speaks(session: Session, clock: ManualClock) -> None:
    training(session, clock)
    agent = File(session, 9, "agents/worker-3.jsonl", b"", START)
    clock.advance(2)
    agent.append(agent_lines("worker-3", clock.now()), clock.now())
    shot = session.pump()
    assert [node.name for node in shot.nodes] == ["train"] and len(shot.gpus.rows) == 8


def three(session: Session, clock: ManualClock) -> list[File]:
    return [
        File(
            session, 10 + i, f"agents/node-{i}.jsonl", agent_lines(f"node-{i}", START - 1, temperature=60.0 + i), START
        )
        for i in range(3)
    ]


def test_three_agents_are_twenty_four_gpus_although_their_drivers_give_equal_numbers(
    session: Session, clock: ManualClock
) -> None:
    agents = three(session, clock)
    for _ in range(5):
        clock.advance(2)
        for i, agent in enumerate(agents):
            agent.append(agent_lines(f"node-{i}", clock.now(), temperature=60.0 + i), clock.now())
        shot = session.pump()
    assert shot.gpus.counted == 24 and len(shot.gpus.everywhere) == 24 and shot.run.gpus == 24
    session.select_node("node-2")
    shot = session.pump()
    assert shot.gpus.subject == "node-2" and {row.temperature_c for row in shot.gpus.rows} == {62.0}
    assert shot.host.subject == "node-2"


def test_gpus_of_an_agent_that_is_killed_become_stale_and_not_wrong(session: Session, clock: ManualClock) -> None:
    agents = three(session, clock)
    for turn in range(60):
        clock.advance(2)
        for i, agent in enumerate(agents):
            if i != 1 or turn < 5:
                agent.append(agent_lines(f"node-{i}", clock.now(), temperature=60.0 + i), clock.now())
        shot = session.pump()
    states = {node: {row.state for row in shot.gpus.everywhere if row.node == node} for node in ("node-0", "node-1")}
    assert states == {"node-0": {"ok"}, "node-1": {"stale"}}
    assert {row.temperature_c for row in shot.gpus.everywhere if row.node == "node-1"} == {61.0}
    assert shot.gpus.everywhere[0].node == "node-1" and not any(alert.severity == "critical" for alert in shot.alerts)


def test_a_long_agent_file_is_read_from_both_ends(session: Session, clock: ManualClock) -> None:
    whole = b"".join(agent_lines("worker-3", START - 1000 + 2 * i, 2, 40.0 + i / 100) for i in range(500))
    half = len(whole) // 2
    cut = whole.index(b"\n", half) + 1
    opened = Opened(9, "agents/worker-3.jsonl", "/a/worker-3.jsonl", len(whole), START)
    head = whole[: whole.index(b"\n", 4000) + 1]
    first = session.pump([opened, Glimpse(9, 0, head, whole[cut:], cut, len(whole))])
    assert first.gpus.rows[0].temperature_c == 45.0 and first.run.state == "waiting"
    line = agent_lines("worker-3", START, 2, 77.0)
    session.pump([Ahead(9, 0, len(whole), line, START)])
    assert session.snapshot.gpus.rows[0].temperature_c == 77.0
    clock.advance(1)
    everything = whole + line
    shot = session.pump([Data(9, 0, 0, everything, len(everything), START), CaughtUp(9, 0)])
    assert shot.gpus.rows[0].temperature_c == 77.0 and shot.run.state == "waiting" and shot.nodes == ()
    session.select_gpu(shot.gpus.rows[0].key)
    page = session.pump().gpu
    assert page is not None
    chart = next(chart for chart in page.charts if chart.key == "gpu_temperature_c")
    assert chart.points.x[0] <= START - 990 and chart.points.mid[0] == pytest.approx(40.0, abs=0.1)
    assert not session.fault


def test_a_log_that_prints_telemetry_between_its_steps_stays_a_log(session: Session, clock: ManualClock) -> None:
    log = training(session, clock, name="worker-3.log")
    clock.advance(1)
    log.append(agent_lines("worker-3", clock.now(), 1), clock.now())
    shot = session.pump()
    assert shot.nodes[0].name == "worker-3" and shot.gpus.rows[0].temperature_c == 60.0
    assert next(one for one in shot.sources if one.id == 1).format != "telemetry of worker-3"
    assert shot.counts.lines > 60
