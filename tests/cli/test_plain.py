"""Plain lines: one for each update, alerts and errors at once."""

from __future__ import annotations

from dataclasses import replace

from trainmon.outputs.plain import PlainLines
from trainmon.snapshot import AlertView, ChartView, ErrorView, RunView, Snapshot, SourceView

RUN = RunView(state="running", step=1200, total_steps=5000, newest=1_764_500_000.0)
HEALTHY = Snapshot(
    run=RUN, charts=(ChartView("loss", "loss", 1.984), ChartView("learning_rate", "learning rate", 4.48e-05))
)
ALERT = AlertView(
    "a", "near_oom", "critical", "NEAR OOM", "worker-2 gpu3", "76.8 of 80.0 GiB", "full in ≈ 4 min", ("smaller batch",)
)
ERROR = ErrorView(
    "CUDA_OOM", "out of memory", "CUDA out of memory.", "critical", 1, "probable cause", 1, "worker-2", None,
    "worker-2.log:9", 1, 9, 400, fixes=("use fewer",),
)  # fmt: skip


def at_step(step: int) -> Snapshot:
    return replace(HEALTHY, run=replace(RUN, step=step))


def test_a_line_of_progress() -> None:
    (line,) = PlainLines().update(HEALTHY, 0.0)
    assert line.split("  ", 1)[1] == "running  step 1,200/5,000  loss 1.984  lr 4.48e-05"


def test_at_most_one_a_second_and_the_newest_is_not_lost() -> None:
    plain = PlainLines()
    assert len(plain.update(at_step(1), 0.0)) == 1
    assert plain.update(at_step(2), 0.4) == []
    assert plain.update(at_step(3), 0.8) == []
    (line,) = plain.update(at_step(3), 1.0)
    assert "step 3/5,000" in line
    assert plain.update(at_step(3), 9.0) == []


def test_a_new_state_does_not_wait() -> None:
    plain = PlainLines()
    plain.update(HEALTHY, 0.0)
    (line,) = plain.update(replace(HEALTHY, run=replace(RUN, state="stalled", note="no step for 4 m")), 0.1)
    assert "stalled" in line and "no step for 4 m" in line


def test_an_alert_is_said_once_and_so_is_its_end() -> None:
    plain = PlainLines()
    plain.update(HEALTHY, 0.0)
    firing = replace(HEALTHY, alerts=(ALERT,))
    (line,) = plain.update(firing, 0.1)
    assert "ALERT  critical  NEAR OOM  worker-2 gpu3  76.8 of 80.0 GiB  full in ≈ 4 min  → smaller batch" in line
    assert plain.update(firing, 0.2) == []
    (line,) = plain.update(replace(HEALTHY, alerts=(replace(ALERT, state="resolved", resolution="fell to 60"),)), 0.3)
    assert "RESOLVED  NEAR OOM" in line and "fell to 60" in line
    assert "ALERT" in plain.update(firing, 0.4)[0]


def test_an_error_is_said_once_however_often_it_comes() -> None:
    plain = PlainLines()
    plain.update(HEALTHY, 0.0)
    (line,) = plain.update(replace(HEALTHY, errors=(ERROR,)), 0.1)
    assert "ERROR  critical  CUDA_OOM  worker-2.log:9  CUDA out of memory.  probable cause  → use fewer" in line
    assert plain.update(replace(HEALTHY, errors=(replace(ERROR, lines=40),)), 0.2) == []


def test_sources_speak_when_something_is_to_say() -> None:
    waiting = SourceView(None, "a.log", "a.log", "no file yet", "it is opened as soon as it appears")
    plain = PlainLines()
    first = plain.update(Snapshot(sources=(waiting,)), 0.0)
    assert "SOURCE  a.log  no file yet  it is opened as soon as it appears" in first[0]
    followed = replace(waiting, id=1, word="followed", sentence="read from the start")
    assert not [line for line in plain.update(replace(HEALTHY, sources=(followed,)), 5.0) if "SOURCE" in line]
    late = replace(followed, id=2, name="b.log", path="b.log", sentence="joined")
    assert any("b.log" in line for line in plain.update(replace(HEALTHY, sources=(followed, late)), 9.0))
