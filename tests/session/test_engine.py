"""The session without threads: events in, snapshots out."""

from __future__ import annotations

import dataclasses
import json
import math

import pytest

from trainmon.clock import ManualClock
from trainmon.model import Ahead, CaughtUp, Data, Glimpse, Opened, Replaced, SourceEvent, SourceState
from trainmon.session.session import Session
from trainmon.settings import Settings
from trainmon.snapshot import SECTIONS, Snapshot

START = 1_764_500_000.0
ISO = "2025-11-30T10:53:20"


def line(step: int, loss: float | None = None, **more: object) -> bytes:
    """One JSON record; a second a step, ending at the clock's start for step 0."""
    from datetime import UTC, datetime

    time = datetime.fromtimestamp(START - 1000 + step, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    record: dict[str, object] = {"timestamp": time, "step": step, "loss": 3.0 - step / 1000 if loss is None else loss}
    record |= {"learning_rate": 1e-4, "step_time_s": 1.0} | more
    return json.dumps(record).encode() + b"\n"


def whole(source: int, data: bytes, *, mtime: float = START - 1, caught: bool = True) -> list[SourceEvent]:
    """What the reader says of a small file."""
    events: list[SourceEvent] = [
        Opened(source, f"worker-{source}.log", f"/logs/worker-{source}.log", len(data), mtime),
        Data(source, 0, 0, data, len(data), mtime),
    ]
    return [*events, CaughtUp(source, 0)] if caught else events


def appended(source: int, offset: int, data: bytes, mtime: float) -> Data:
    return Data(source, 0, offset, data, offset + len(data), mtime)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
def session(clock: ManualClock) -> Session:
    return Session(["worker-*.log"], Settings(), clock=clock)


def without_versions(snapshot: Snapshot) -> dict[str, object]:
    return {name: getattr(snapshot, name) for name in SECTIONS}


def test_before_anything_it_waits(session: Session) -> None:
    shot = session.pump()
    assert shot.run.state == "waiting" and shot.run.step is None and shot.alerts == ()


def test_a_small_file_is_shown_at_once(session: Session) -> None:
    shot = session.pump(whole(1, b"".join(line(s, total_steps=500) for s in range(100))))
    assert shot.run.state == "running" and shot.run.history is None
    assert (shot.run.step, shot.run.total_steps, shot.run.nodes) == (99, 500, 1)
    assert shot.charts[0].key == "loss" and shot.charts[1].key == "learning_rate"
    assert shot.charts[0].value == pytest.approx(2.901)
    assert shot.charts[0].points.x[-1] == 99
    assert shot.run.eta_s == pytest.approx(401, rel=0.05)
    assert shot.last is not None and '"step": 99' in shot.last.text and shot.last.node == "worker-1"
    assert len(shot.tail) == 40 and shot.tail[-1].text == shot.last.text
    assert (shot.counts.lines, shot.counts.records, shot.counts.exact) == (100, 100, True)
    assert shot.nodes[0].name == "worker-1" and shot.nodes[0].word == "ok"
    assert not session.fault


def test_the_headline_is_the_median_and_progress_the_slowest(session: Session) -> None:
    for i, steps in enumerate((50, 60, 60)):
        session.pump(whole(i, b"".join(line(s, loss=1.0 + i, total_steps=100) for s in range(steps))))
    shot = session.snapshot
    assert shot.run.step == 49
    assert shot.charts[0].value == 2.5  # at the newest step two report: 2.0 and 3.0
    at = shot.charts[0].points.x.index(40.0)
    points = shot.charts[0].points
    assert (points.lo[at], points.mid[at], points.hi[at]) == (1.0, 2.0, 3.0)


# ---------------------------------------------------------------- glimpse and handover


def long_file(steps: int = 4000) -> bytes:
    return b"".join(line(s, total_steps=10_000, gpu_memory_mb=70_000.0) for s in range(steps))


def glimpse_of(source: int, data: bytes, ends: int = 20_000) -> Glimpse:
    head = data[: data.rfind(b"\n", 0, ends) + 1]
    at = data.rfind(b"\n", 0, len(data) - ends) + 1
    return Glimpse(source, 0, head, data[at:], at, len(data))


def test_a_glimpse_shows_the_present_and_says_how_much_is_read(session: Session) -> None:
    data = long_file()
    opened = Opened(1, "worker-1.log", "/logs/worker-1.log", len(data), START - 1)
    shot = session.pump([opened, glimpse_of(1, data)])
    assert shot.run.step == 3999 and shot.run.total_steps == 10_000
    assert shot.run.history == 0.0 and not shot.counts.exact
    assert shot.last is not None and '"step": 3999' in shot.last.text
    assert shot.charts[0].gaps and shot.charts[0].gaps[0] < 1000
    assert shot.charts[0].first_x == 0
    half = len(data) // 2
    shot = session.pump([Data(1, 0, 0, data[:half], len(data), START - 1)])
    assert shot.run.history == pytest.approx(0.5, abs=0.01)
    assert shot.run.step == 3999, "the forward state is not shown yet"


def test_after_the_handover_all_is_as_if_read_straight(clock: ManualClock) -> None:
    data = long_file() + b"2025-11-30 10:00:00 ERROR disk full on shard 7\n" + line(4000)
    more = line(4001) + line(4002)
    split = Session([], Settings(), clock=clock)
    opened = Opened(1, "worker-1.log", "/logs/worker-1.log", len(data), START - 1)
    events: list[SourceEvent] = [opened, glimpse_of(1, data)]
    events += [Data(1, 0, at, data[at : at + 70_000], len(data), START - 1) for at in range(0, len(data), 70_000)]
    events.insert(4, Ahead(1, 0, len(data), more, START))
    split.pump(events)
    assert split.snapshot.run.step == 4002, "what was appended meanwhile is shown"
    assert split.snapshot.run.history is not None
    split.pump([appended(1, len(data), more, START), CaughtUp(1, 0)])
    straight = Session([], Settings(), clock=clock)
    straight.pump(whole(1, data))
    straight.pump([appended(1, len(data), more, START)])
    clock.advance(2)  # charts that no overview shows are made anew once a second
    ours, theirs = without_versions(split.pump()), without_versions(straight.pump())
    for name in SECTIONS:
        if name not in ("tail", "sources"):
            assert ours[name] == theirs[name], name
    assert split.snapshot.charts[0].gaps == () and split.snapshot.counts.exact


def test_small_files_beside_a_long_one_are_in_the_picture(session: Session) -> None:
    data = long_file()
    session.pump(whole(2, b"".join(line(s) for s in range(4000))))
    shot = session.pump([Opened(1, "worker-1.log", "/logs/worker-1.log", len(data), START - 1), glimpse_of(1, data)])
    assert [node.name for node in shot.nodes] == ["worker-1", "worker-2"]
    session.pump([appended(2, 10**6, line(4000), START)])
    assert {n.name: n.step for n in session.snapshot.nodes} == {"worker-1": 3999, "worker-2": 4000}
    shot = session.pump([Data(1, 0, 0, data, len(data), START - 1), CaughtUp(1, 0)])
    assert {n.name: n.step for n in shot.nodes} == {"worker-1": 3999, "worker-2": 4000}
    assert shot.run.history is None


def test_history_that_recovered_alarms_nobody_but_is_told(session: Session) -> None:
    data = b"".join(line(s, loss=math.nan if 100 <= s < 110 else 2.0) for s in range(4000))
    opened = Opened(1, "worker-1.log", "/logs/worker-1.log", len(data), START - 1)
    shot = session.pump([opened, glimpse_of(1, data, 5000), Data(1, 0, 0, data, len(data), START - 1), CaughtUp(1, 0)])
    assert [a for a in shot.alerts if a.state == "firing"] == []
    assert not any(a.fresh for a in shot.alerts)
    assert shot.charts[0].non_finite_count == 10


# ---------------------------------------------------------------- life


def test_a_nan_loss_alerts_once_and_marks_the_chart(session: Session, clock: ManualClock) -> None:
    data = b"".join(line(s) for s in range(100))
    session.pump(whole(1, data))
    clock.advance(1)
    shot = session.pump([appended(1, len(data), line(100, loss=math.nan), clock.now())])
    assert len(shot.alerts) == 1
    alert = shot.alerts[0]
    assert alert.kind == "loss_nan" and alert.severity == "critical" and alert.fresh
    assert math.isnan(shot.charts[0].value or 0) and shot.charts[0].non_finite == (100.0,)
    assert any(event.alert == alert.id for event in shot.events)
    clock.advance(4)
    shot = session.pump([])
    assert shot.alerts and not shot.alerts[0].fresh


def test_mute_acknowledge_and_back(session: Session, clock: ManualClock) -> None:
    data = b"".join(line(s) for s in range(100))
    session.pump(whole(1, data))
    clock.advance(1)
    shot = session.pump([appended(1, len(data), line(100, loss=math.inf), clock.now())])
    session.mute(shot.alerts[0].id)
    assert session.pump().alerts[0].state == "muted"
    session.unmute(shot.alerts[0].id)
    session.acknowledge(shot.alerts[0].id)
    assert session.pump().alerts[0].state == "acknowledged"


def test_yesterdays_log_is_old_and_silent(session: Session, clock: ManualClock) -> None:
    text = b"".join(line(s, total_steps=5000) for s in range(100)) + line(100, loss=math.nan, total_steps=5000)
    shot = session.pump(whole(1, text, mtime=START - 86_400))
    assert shot.run.state == "old" and "may have hung" in shot.run.note
    assert shot.charts[0].stale_s == 86_400 and shot.nodes[0].word == "silent 1 d"
    assert not any(alert.fresh for alert in shot.alerts)
    clock.advance(30)
    shot = session.pump()
    assert shot.run.state == "old" and not any(alert.fresh for alert in shot.alerts)
    shot = session.pump([appended(1, len(text), line(101), clock.now())])
    assert shot.run.state == "running"


def test_a_file_that_joins_is_announced(session: Session, clock: ManualClock) -> None:
    session.pump(whole(1, line(1) + line(2)))
    clock.advance(5)
    shot = session.pump(
        [
            Opened(2, "worker-2.log", "/logs/worker-2.log", 0, clock.now(), joined=True),
            Data(2, 0, 0, line(2) + line(3), 200, clock.now()),
            CaughtUp(2, 0),
        ]
    )
    assert shot.run.nodes == 2
    assert any(event.name == "joined" and event.who == "worker-2" for event in shot.events)


def test_a_lossy_replacement_is_a_gap_not_silence(session: Session, clock: ManualClock) -> None:
    data = line(1) + line(2)
    session.pump(whole(1, data))
    shot = session.pump(
        [Replaced(1, 1, "rotated", True, 4096), Data(1, 1, 0, line(9) + line(10), 200, clock.now()), CaughtUp(1, 1)]
    )
    assert shot.counts.gaps == 1 and shot.counts.lines == 4
    assert any(event.name == "gap" and "4,096 bytes" in event.text for event in shot.events)
    assert shot.run.step == 10 and shot.sources[0].gaps == 1
    assert shot.charts[0].gaps == (2.0,)


def test_errors_are_grouped_with_their_first_place(session: Session) -> None:
    text = line(1) + b"".join(b"2025-11-30 10:00:%02d ERROR cannot read shard %d\n" % (i, i) for i in range(20))
    shot = session.pump(whole(3, text))
    (error,) = shot.errors
    assert error.lines == 20 and error.code == "UNKNOWN_ERROR"
    assert error.place == "worker-3.log:2" and error.offset == len(line(1)) and error.source == 3
    assert "cannot read shard 0" in error.raw and error.node == "worker-3"


def test_every_line_that_says_error_is_counted_whatever_their_number(session: Session) -> None:
    words = ("".join(chr(97 + int(digit)) for digit in str(number)) for number in range(1000))
    shot = session.pump(whole(3, b"".join(b"2025-11-30 10:00:00 ERROR odd %s\n" % word.encode() for word in words)))
    assert sum(error.lines for error in shot.errors) == 1000


def test_a_source_that_is_not_there_is_a_sentence(session: Session) -> None:
    shot = session.pump([SourceState("x.log", None, "no file yet", "shown as soon as it appears")])
    assert shot.sources[0].word == "no file yet" and shot.sources[0].id is None and shot.run.state == "waiting"
    shot = session.pump([Opened(5, "x.log", "/a/x.log", 0, START), CaughtUp(5, 0)])
    assert [(view.id, view.word) for view in shot.sources] == [(5, "empty")]


def test_the_launchers_log_is_no_node(session: Session) -> None:
    session.pump(whole(1, b"".join(line(s) for s in range(9))))
    shot = session.pump(
        [
            Opened(7, "launcher.log", "/logs/launcher.log", 30, START),
            Data(7, 0, 0, b"2025-11-30 10:00:00 INFO starting 8 processes\n", 46, START),
            CaughtUp(7, 0),
        ]
    )
    assert [node.name for node in shot.nodes] == ["worker-1"] and len(shot.sources) == 2


def test_two_files_of_one_node_are_one_node(session: Session) -> None:
    session.pump(whole(1, line(1)))
    error = b"2025-11-30 10:00:00 ERROR no space left\n"
    shot = session.pump(
        [
            Opened(9, "worker-1.err", "/logs/worker-1.err", len(error), START),
            Data(9, 0, 0, error, 40, START),
            CaughtUp(9, 0),
        ]
    )
    assert [node.name for node in shot.nodes] == ["worker-1"]
    assert shot.errors[0].node == "worker-1"


def test_separate_makes_each_file_a_run(clock: ManualClock) -> None:
    session = Session([], Settings(), clock=clock, separate=True)
    session.pump(whole(1, line(1, node="a")))
    shot = session.pump(whole(2, line(7, node="a")))
    assert [node.name for node in shot.nodes] == ["worker-1.log", "worker-2.log"] and shot.run.hint


def test_files_with_other_totals_look_like_different_runs(session: Session) -> None:
    session.pump(whole(1, line(1, total_steps=100)))
    shot = session.pump(whole(2, line(1, total_steps=5000)))
    assert "different runs" in shot.run.hint


# ---------------------------------------------------------------- snapshots


def test_nothing_new_publishes_nothing(session: Session, clock: ManualClock) -> None:
    session.pump(whole(1, b"".join(line(s) for s in range(50))))
    calls: list[int] = []
    session.subscribe(lambda: calls.append(1))
    session.pump()
    before = session.pump()
    calls.clear()
    for _ in range(5):
        clock.advance(1)
        assert session.pump() is before
    assert calls == []


def test_only_what_changed_gets_a_new_version(session: Session, clock: ManualClock) -> None:
    data = b"".join(line(s) for s in range(50))
    before = session.pump(whole(1, data))
    clock.advance(1)
    after = session.pump([appended(1, len(data), line(50), clock.now())])
    assert after.version > before.version and after.versions["charts"] > before.versions["charts"]
    for name in ("errors", "quarantine", "sources"):
        same = after.versions[name] == before.versions[name]
        assert same == (getattr(after, name) is getattr(before, name))
    assert after.versions["errors"] == before.versions["errors"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        after.run.step = 1  # type: ignore[misc]
    assert before.charts[0].points.x[-1] == 49


def test_two_hundred_nodes_stay_worst_first(session: Session, clock: ManualClock) -> None:
    for i in range(200):
        session.pump(whole(i, b"".join(line(s) for s in range(10))))
    bad = b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has 79.15 GiB in all\n"
    shot = session.pump([appended(137, 10**6, bad, clock.now()), appended(150, 10**6, line(10), clock.now())])
    assert len(shot.nodes) == 200 and shot.run.nodes == 200
    assert shot.nodes[0].name == "worker-137" and shot.nodes[0].health == "critical"
    assert [node.name for node in shot.nodes[1:4]] == ["worker-0", "worker-1", "worker-2"]


def test_a_fault_in_one_event_is_told_and_the_rest_goes_on(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    session.pump(whole(1, line(1)))

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("boom")

    with monkeypatch.context() as patch:
        patch.setattr(session._engine.files[1].parser, "feed", broken)
        shot = session.pump([appended(1, 100, line(2), START)])
    assert "internal fault" in shot.run.hint and session.fault and "boom" in session.fault
    shot = session.pump([appended(1, 200, line(3), START)])
    assert shot.run.step == 3
