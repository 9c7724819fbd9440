"""The session as it runs: real files, the real reader, its two threads."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from trainmon.errors import SourceError
from trainmon.session.session import Session
from trainmon.settings import Settings
from trainmon.snapshot import Snapshot

DEADLINE_S = 20.0


def step_line(step: int, loss: float = 2.0, node: str = "w") -> str:
    record = {"step": step, "total_steps": 100_000, "loss": loss, "learning_rate": 1e-4, "grad_norm": 1.0, "node": node}
    return json.dumps(record) + "\n"


class Watched:
    """A started session that can be waited for. It keeps every snapshot, so that a slow machine misses none."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.changed = threading.Condition()
        self.seen: list[Snapshot] = [session.snapshot]
        self.at = 0
        session.subscribe(self._wake)
        session.start()

    def _wake(self) -> None:
        with self.changed:
            self.seen.append(self.session.snapshot)
            self.changed.notify_all()

    def until(self, what: Callable[[Snapshot], object]) -> Snapshot:
        """The first snapshot, from the one that was given last, of which `what` is true."""
        end = time.monotonic() + DEADLINE_S
        with self.changed:
            while True:
                while self.at < len(self.seen):
                    if what(self.seen[self.at]):
                        return self.seen[self.at]
                    self.at += 1
                left = end - time.monotonic()
                if left <= 0:
                    pytest.fail(f"did not happen; the run is {self.session.snapshot.run}, fault {self.session.fault}")
                self.changed.wait(min(left, 0.5))


@pytest.fixture
def watch() -> Iterator[Callable[..., Watched]]:
    sessions: list[Session] = []

    def start(*specs: str, **options: bool) -> Watched:
        session = Session(list(specs), Settings(poll_s=0.02), **options)  # type: ignore[arg-type]
        sessions.append(session)
        return Watched(session)

    yield start
    for session in sessions:
        session.stop()


def test_what_is_appended_is_shown(tmp_path: Path, watch: Callable[..., Watched]) -> None:
    log = tmp_path / "worker-0.log"
    log.write_text("".join(step_line(s) for s in range(50)))
    seen = watch(str(log))
    seen.until(lambda s: s.run.step == 49 and s.run.state == "running" and s.counts.exact)
    with log.open("a") as out:
        out.write(step_line(50, 1.25))
    shot = seen.until(lambda s: s.run.step == 50)
    assert shot.charts[0].value == 1.25 and shot.last is not None and '"step": 50' in shot.last.text
    assert not seen.session.faults


def test_a_long_file_shows_its_end_first_and_is_then_read_whole(tmp_path: Path, watch: Callable[..., Watched]) -> None:
    log = tmp_path / "train.jsonl"
    steps = 25_000
    log.write_text("".join(step_line(s, 3.0 - s / steps) for s in range(steps)))
    assert log.stat().st_size > 2 << 20
    seen = watch(str(log))
    first = seen.until(lambda s: s.run.step is not None)
    assert first.run.step == steps - 1 and first.run.history is not None and not first.counts.exact
    with log.open("a") as out:
        out.write(step_line(steps))
    seen.until(lambda s: s.run.step == steps)
    last = seen.until(lambda s: s.run.history is None and s.counts.exact)
    assert last.counts.lines == steps + 1 and last.counts.records == steps + 1 and last.run.step == steps
    assert last.charts[0].first_value == 3.0 and last.charts[0].gaps == ()


def test_a_file_of_middle_size_shows_its_end_first(tmp_path: Path, watch: Callable[..., Watched]) -> None:
    log = tmp_path / "train.jsonl"
    log.write_text("".join(step_line(s) for s in range(6000)))
    seen = watch(str(log))
    assert seen.until(lambda s: s.run.step is not None).run.step == 5999
    assert seen.until(lambda s: s.counts.exact).counts.records == 6000


def test_a_newcomer_joins_and_a_rotation_loses_nothing(tmp_path: Path, watch: Callable[..., Watched]) -> None:
    first = tmp_path / "worker-0.log"
    first.write_text(step_line(1, node="worker-0"))
    seen = watch(str(tmp_path / "worker-*.log"))
    seen.until(lambda s: s.run.step == 1)
    (tmp_path / "worker-1.log").write_text(step_line(1, node="worker-1") + step_line(2, node="worker-1"))
    shot = seen.until(lambda s: s.run.nodes == 2)
    assert {view.name: view.step for view in shot.nodes} == {"worker-0": 1, "worker-1": 2}
    seen.until(lambda s: any(event.name == "joined" for event in s.events))
    with first.open("a") as out:
        out.write(step_line(2, node="worker-0"))
    first.rename(tmp_path / "worker-0.old")
    first.write_text(step_line(3, node="worker-0"))
    shot = seen.until(lambda s: next(n.step for n in s.nodes if n.name == "worker-0") == 3)
    assert shot.counts.lines == 5 and shot.counts.gaps == 0


def test_a_nan_rings_while_we_look(tmp_path: Path, watch: Callable[..., Watched]) -> None:
    log = tmp_path / "worker-0.log"
    log.write_text("".join(step_line(s) for s in range(50)))
    seen = watch(str(log))
    seen.until(lambda s: s.run.step == 49 and s.counts.exact)
    with log.open("a") as out:
        out.write(step_line(50).replace("2.0", "NaN"))
    shot = seen.until(lambda s: s.alerts)
    assert shot.alerts[0].kind == "loss_nan" and shot.alerts[0].fresh
    seen.session.mute(shot.alerts[0].id)
    seen.until(lambda s: s.alerts and s.alerts[0].state == "muted")


def test_eight_nodes_read_side_by_side_show_the_straggler(tmp_path: Path, watch: Callable[..., Watched]) -> None:
    for worker in range(8):
        lines = []
        for step in range(1500):
            slow = 1.4 if worker == 5 and step > 1000 else 1.0
            record = {
                "step": step,
                "loss": 2.0,
                "step_time_s": 3.0,
                "comm_time_s": 3.0 - 2.0 * slow,
                "node": f"worker-{worker}",
            }
            lines.append(json.dumps(record))
        (tmp_path / f"worker-{worker}.log").write_text("\n".join(lines) + "\n")
    seen = watch(str(tmp_path / "worker-*.log"))
    shot = seen.until(lambda s: s.counts.exact and s.run.nodes == 8 and s.nodes[0].step == 1499 and s.alerts)
    assert (shot.alerts[0].kind, shot.alerts[0].node) == ("straggler", "worker-5")
    assert (shot.nodes[0].name, shot.nodes[0].word, shot.nodes[0].health) == ("worker-5", "slow", "warning")


def test_the_raw_log_of_a_source_can_be_opened(tmp_path: Path, watch: Callable[..., Watched]) -> None:
    log = tmp_path / "a.log"
    log.write_text(step_line(1))
    seen = watch(str(log))
    shot = seen.until(lambda s: s.sources and s.sources[0].id is not None)
    assert shot.sources[0].id is not None
    assert seen.session.open_log(shot.sources[0].id).path == str(log)
    with pytest.raises(SourceError):
        seen.session.open_log(99)


def test_stop_ends_both_threads(tmp_path: Path) -> None:
    before = set(threading.enumerate())  # other tests leave threads behind, in calls that hang on purpose
    session = Session([str(tmp_path / "not-there.log")], Settings())
    session.start()
    session.stop()
    end = time.monotonic() + DEADLINE_S
    while left := set(threading.enumerate()) - before:
        assert time.monotonic() < end, left
        time.sleep(0.02)


class SlowToStart:
    """Instruments that are stopped while they are being started."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.starting = threading.Event()

    def start(self) -> None:
        self.starting.set()
        time.sleep(0.05)
        self.calls.append("on")

    def stop(self) -> None:
        self.calls.append("off")

    def release(self) -> None: ...

    def resume(self) -> None: ...


def test_instruments_that_are_just_being_switched_on_are_switched_off_after_that(tmp_path: Path) -> None:
    station = SlowToStart()
    session = Session([str(tmp_path / "not-there.log")], Settings(), station=lambda sink: station)
    session.start()
    assert station.starting.wait(DEADLINE_S)
    session.stop()
    assert (station.calls, session.fault) == (["on", "off"], None)


def test_the_progress_bar_moves_the_step_before_the_first_report_and_between_two(tmp_path: Path, watch) -> None:
    log = tmp_path / "train.log"
    log.write_text("\r  0%|  | 22/5000 [00:22<41:02,  2.01it/s]")
    watched = watch(str(log))
    run = watched.until(lambda shown: shown.run.step == 22).run
    assert (run.state, run.total_steps) == ("running", 5000)
    with log.open("a") as file:
        file.write("\r{'loss': 1.5, 'learning_rate': 1e-4, 'epoch': 0.5}\n\r 10%|  | 500/5000 [04:22<41:02,  2.01it/s]")
    assert watched.until(lambda shown: shown.run.step == 500).run.total_steps == 5000
    with log.open("a") as file:
        file.write("\r 10%|  | 517/5000 [04:30<41:02,  2.01it/s]")
    watched.until(lambda shown: shown.run.step == 517)


def test_bars_of_a_node_say_nothing_about_a_run_whose_nodes_name_their_steps(tmp_path: Path, watch) -> None:
    (tmp_path / "a.log").write_text(step_line(40, node="a") + "\r 50%|  | 900/1000 [00:22<41:02,  2.01it/s]")
    (tmp_path / "b.log").write_text(step_line(41, node="b"))
    watched = watch(str(tmp_path / "a.log"), str(tmp_path / "b.log"))
    assert watched.until(lambda shown: shown.run.nodes == 2 and shown.run.step is not None).run.step == 40
