"""The run's state and the silence detectors, told by a clock that the test moves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from trainmon.diagnosis.pace import Pace, clock_jump
from trainmon.diagnosis.thresholds import Thresholds
from trainmon.model import Record

NewRun = Callable[..., Any]


def test_waiting_starting_running(new_run: NewRun) -> None:
    run = new_run()
    assert run.state == "waiting"
    run.open()
    run.wait(5)
    assert run.state == "waiting"
    run.line("log", level="INFO", message="loading the model")
    assert run.state == "starting"
    run.wait(240)
    assert run.state == "starting", "compiling for minutes is no stall"
    run.train(20)
    assert run.state == "running"
    assert run.found == []


def test_quiet_after_ten_times_the_pace_without_a_bell_then_stalled_then_resolved(new_run: NewRun) -> None:
    run = new_run(total=5000)
    run.open()
    run.train(100)
    run.wait(9)
    assert run.state == "running"
    run.wait(3)
    assert run.state == "quiet"
    assert run.note == "no line for 10 s, usually every 1.0 s"
    run.wait(580)
    assert run.state == "quiet"
    assert run.found == []
    run.wait(15)
    assert run.state == "stalled"
    assert run.kinds() == ["stall"]
    stall = run.found[0]
    assert stall.severity == "critical"
    assert stall.who == "run"
    assert stall.measured == "no step and no line for 10 m, usually every 1.0 s; step 100 of 5,000"
    assert stall.start_step == 100
    assert stall.start == pytest.approx(run.clock.now() - 607)
    assert stall.advice
    run.wait(600)
    assert [i.key for i in run.found] == ["stall", "stall", "stall"], "told again only when the coarse age changes"
    run.step(101)
    run.wait(1)
    assert run.state == "running"
    assert run.found[-1].end is not None
    assert run.found[-1].resolution == "goes on after 20 m, step 101 of 5,000"


def test_fast_steps_do_not_alarm_at_a_checkpoint_of_five_seconds(new_run: NewRun) -> None:
    run = new_run()
    run.open()
    for _ in range(10):
        run.train(20, pace=0.3)
        run.wait(5)
        assert run.state == "running"
    assert run.found == []


def test_healthy_run_with_evaluations_and_checkpoints_stays_quiet(new_run: NewRun) -> None:
    run = new_run()
    run.open()
    run.train(100, pace=3.0)
    for _ in range(4):
        run.event("eval_start")
        for _ in range(24):
            run.wait(15)
            run.line("log", level="INFO", message="evaluating")
            assert run.state == "running"
        run.event("eval_end")
        run.event("checkpoint")
        run.wait(40)
        assert run.state == "running"
        assert run.note == "checkpoint"
        run.train(100, pace=3.0)
    assert run.found == []
    assert run.watch.planned == {"eval": 4, "checkpoint": 4}


def test_a_pause_that_several_lines_tell_of_is_counted_once(new_run: NewRun) -> None:
    run = new_run()
    for _ in range(3):
        run.train(10, nodes=("a", "b"))
        for _ in range(4):
            run.event("checkpoint")  # saving, saved, on two nodes
        run.line("eval", values={"step": run.now_step, "eval_loss": 2.0})
    assert run.watch.planned == {"checkpoint": 3, "eval": 3}


def test_runs_of_their_own_are_not_compared(new_run: NewRun) -> None:
    run = new_run()
    run.watch = type(run.watch)(separate=True)
    run.train(60, nodes=NODES, step_time_s=1.0)
    for _ in range(200):
        run.train(1, nodes=NODES[:2])
        run.step(run.now_step, NODES[2], step_time_s=9.0)
    assert run.found == []


def test_an_announced_evaluation_may_be_silent_for_long_but_not_for_ever(new_run: NewRun) -> None:
    run = new_run()
    run.open()
    run.train(50)
    run.event("eval_start")
    run.wait(1700, every=2.0)
    assert run.state == "running"
    run.wait(200, every=2.0)
    assert run.kinds() == ["stall"]


def test_known_evaluations_shorten_the_limit_of_the_next(new_run: NewRun) -> None:
    run = new_run()
    run.open()
    run.train(50)
    for _ in range(3):
        run.event("eval_start")
        run.wait(60)
        run.train(50)
    run.event("eval_start")
    run.wait(595)
    assert run.found == []
    run.wait(20)
    assert run.kinds() == ["stall"]


def test_a_pause_of_many_minutes_that_ended_is_learned(new_run: NewRun) -> None:
    run = new_run()
    run.open()
    for _ in range(3):
        run.train(40)
        run.wait(540)
    assert run.found == []
    run.train(5)
    run.wait(700)
    assert run.found == [], "1.5 times the longest pause that this run has shown"
    run.wait(200)
    assert run.kinds() == ["stall"]


def test_lines_that_go_on_do_not_hide_that_steps_stand_still(new_run: NewRun) -> None:
    run = new_run()
    run.open()
    run.train(50)
    for _ in range(62):
        run.wait(10)
        run.line("log", level="INFO", message="heartbeat")
    assert run.kinds() == ["stall"]
    assert run.found[0].measured.startswith("no step, though lines come,")
    assert run.state == "stalled"


def test_a_machine_agent_that_goes_on_is_no_sign_of_life(new_run: NewRun) -> None:
    run = new_run()
    run.open()
    run.train(50)
    for _ in range(65):
        run.wait(10)
        run.line("host", values={"gpu_utilization": 100.0})
    assert run.kinds() == ["stall"]
    assert run.found[0].measured.startswith("no step and no line")


def test_after_a_line_that_names_a_hang_one_minute_is_enough(new_run: NewRun) -> None:
    run = new_run()
    run.open()
    run.train(50)
    run.line("error", level="ERROR", priority=2, code="UNKNOWN_ERROR", message="watchdog: collective not finished")
    run.wait(58)
    assert run.found == []
    run.wait(5)
    assert run.kinds() == ["stall"]
    assert "hangs" in run.found[0].outlook


def test_the_threshold_of_the_user_counts(new_run: NewRun) -> None:
    run = new_run(Thresholds(stall_after_s=5.0))
    run.open()
    run.train(20)
    run.wait(7)
    assert run.kinds() == ["stall"]
    off = new_run(Thresholds(stall_after_s=None))
    off.open()
    off.train(20)
    off.wait(5000, every=4.0)
    assert off.found == []
    assert off.state == "quiet"


def test_slow_rhythm_from_the_start_is_no_stall(new_run: NewRun) -> None:
    run = new_run()
    run.open()
    for _ in range(6):
        run.wait(1900, every=4.0)
        run.step()
    assert run.found == []


def test_lumps_of_a_buffered_writer_are_one_moment(new_run: NewRun) -> None:
    run = new_run()
    run.open()
    for lump in range(20):
        run.wait(30)
        for s in range(30):
            run.step(lump * 30 + s)
        assert run.state == "running"
    run.wait(290)
    assert run.state == "running"
    run.wait(20)
    assert run.state == "quiet"


def test_finished_by_its_word_and_by_its_last_step(new_run: NewRun) -> None:
    said = new_run()
    said.open()
    said.train(20)
    said.event("finished")
    said.wait(5000, every=4.0)
    assert said.state == "finished"
    assert said.note == "last line 1 h ago"
    assert said.found == []
    done = new_run(total=30)
    done.open()
    done.train(30)
    assert done.state == "finished"
    done.wait(900)
    assert done.found == []


def test_a_new_stage_after_the_end_runs_again(new_run: NewRun) -> None:
    run = new_run()
    run.open()
    run.train(20)
    run.event("finished")
    assert run.state == "finished"
    run.train(5)
    assert run.state == "running"


def test_finished_waits_for_the_slowest_node(new_run: NewRun) -> None:
    run = new_run(total=20)
    run.train(19, nodes=("a", "b"))
    run.step(20, "a")
    assert run.state == "running"
    run.step(20, "b")
    assert run.state == "finished"


def test_failed_is_a_fatal_error_and_then_silence(new_run: NewRun) -> None:
    run = new_run()
    run.open()
    run.train(20, pace=3.0)
    run.fatal()
    assert run.state == "running"
    run.wait(10)
    assert run.state == "failed"
    assert run.note == "CUDA_OOM on run, 10 s ago"
    run.wait(2000)
    assert run.kinds() == ["oom"], "the error says more than the silence after it"


def test_an_error_that_the_run_survives_is_resolved(new_run: NewRun) -> None:
    run = new_run()
    run.open()
    run.train(20)
    run.fatal("UNKNOWN_ERROR")
    run.train(2)
    assert run.kinds().count("fatal_error") == 1
    run.train(3)
    assert run.state == "running"
    assert run.found[-1].end is not None
    assert "goes on" in run.found[-1].resolution


def test_opening_yesterdays_log_alarms_nobody(new_run: NewRun) -> None:
    run = new_run(total=5000)
    run.history(1187, age=86_400)
    run.wait(700)
    assert run.state == "old"
    assert run.note == "last line 24 h ago, step 1,187 of 5,000: may have hung"
    assert run.found == []


def test_old_and_the_words_of_the_product_page(new_run: NewRun) -> None:
    run = new_run(total=5000)
    run.history(1187, age=1210)
    run.wait(1)
    assert run.state == "old"
    assert run.note == "last line 20 m ago, step 1,187 of 5,000: may have hung"
    run.wait(3)
    run.step(1188)
    assert run.state == "running"
    run.wait(601)
    assert run.kinds() == ["stall"], "a run that woke up is watched like any other"


@pytest.mark.parametrize(("ending", "state"), [("finished", "finished"), ("fatal", "failed")])
def test_old_logs_are_shown_as_they_ended(new_run: NewRun, ending: str, state: str) -> None:
    run = new_run()
    run.history(100, age=86_400)
    if ending == "finished":
        run.event("finished", live=False)
    else:
        run.fatal(live=False)
    run.wait(60)
    assert run.state == state
    told = {i.key for i in run.past}
    assert {i.key for i in run.found} <= told, "nothing new comes of an old log"
    assert [i.kind for i in run.past] == (["oom"] if ending == "fatal" else [])


def test_opened_in_the_middle_of_a_short_silence(new_run: NewRun) -> None:
    run = new_run()
    run.history(100, age=120)
    run.wait(1)
    assert run.state == "quiet"
    run.wait(300)
    assert run.found == []
    run.wait(250)
    assert run.kinds() == ["stall"], "the file's time counts: 120 s before opening are part of the silence"


def test_a_gap_of_history_is_told_as_over(new_run: NewRun) -> None:
    run = new_run()
    run.open(age=0.0)
    now = run.clock.now()
    for s in range(1, 101):
        run.step(s, live=False, time=now - 5000 + s)
    for s in range(101, 201):
        run.step(s, live=False, time=now - 2000 + s)
    assert [i.kind for i in run.past] == ["stall"]
    stall = run.past[0]
    assert stall.end is not None
    assert (stall.start_step, stall.end_step) == (100, 101)
    assert run.found == []


def test_summer_time_in_a_log_is_no_gap(new_run: NewRun) -> None:
    run = new_run()
    run.open()
    now = run.clock.now()
    for s in range(1, 101):
        run.step(s, live=False, time=now + s + (3600 if s > 50 else 0))
    assert run.past == []
    assert clock_jump(3601.0, 1.0)
    assert not clock_jump(3000.0, 1.0)


def test_the_logs_own_clock_says_nothing_about_silence(new_run: NewRun) -> None:
    run = new_run()
    run.open()
    for s in range(1, 50):
        run.wait(1)
        run.step(s, time=1000.0 * s)  # an absurd clock
    assert run.found == []
    assert run.state == "running"
    run.wait(590)
    assert run.found == []
    run.wait(15)
    assert run.kinds() == ["stall"]


@pytest.mark.parametrize("by", [3600.0, -3600.0])
def test_setting_the_hosts_clock_is_harmless(new_run: NewRun, by: float) -> None:
    run = new_run()
    run.open()
    run.train(50)
    run.clock.jump(by)
    run.train(50)
    assert run.found == []
    assert run.state == "running"
    run.wait(590)
    assert run.found == []
    run.wait(20)
    assert run.kinds() == ["stall"]
    assert run.found[0].start == pytest.approx(run.clock.now() - 610, abs=3)


def test_setting_the_clock_while_it_is_silent_is_harmless(new_run: NewRun) -> None:
    run = new_run()
    run.open()
    run.train(50)
    run.wait(100)
    run.clock.jump(3600)
    run.wait(300)
    assert run.found == []
    run.clock.jump(-7200)
    run.wait(150)
    assert run.found == []
    run.wait(80)
    assert run.kinds() == ["stall"]


def test_a_file_from_a_machine_whose_clock_is_ahead(new_run: NewRun) -> None:
    run = new_run()
    run.history(100, age=-7200)
    run.wait(590)
    assert run.found == []
    run.wait(20)
    assert run.kinds() == ["stall"]


def test_after_being_stopped_the_backlog_is_read_before_silence_is_judged(new_run: NewRun) -> None:
    run = new_run()
    run.open()
    run.train(50)
    run.clock.advance(3000)  # Ctrl-Z
    run.found.extend(run.watch.tick(run.clock.now(), run.clock.monotonic()))
    assert run.found == []
    run.step()
    run.wait(5)
    assert run.found == []


def test_a_resume_is_no_error_and_its_gap_no_pace(new_run: NewRun) -> None:
    run = new_run()
    run.open()
    run.train(100)
    run.wait(300)
    run.now_step = 60
    run.train(50)
    assert run.found == []
    assert run.watch.pulse.pace.longest < 10
    assert run.watch.pulse.step == 110


def test_every_node_goes_back_once_and_the_run_with_the_first(new_run: NewRun) -> None:
    run = new_run()
    run.train(100, nodes=("a", "b"))
    run.step(60, "a")
    assert run.watch.pulse.step == 60
    run.step(61, "a")
    run.step(60, "b")
    assert run.watch.pulse.step == 61


def test_history_of_files_read_one_after_the_other_keeps_the_newest_step(new_run: NewRun) -> None:
    run = new_run()
    now = run.clock.now()
    for node in ("a", "b"):
        run.open(node)
        for s in [*range(1, 655), *range(600, 1400)]:
            run.step(s, node, live=False, time=now - 3000 + s)
    assert run.watch.pulse.step == 1399
    assert run.past == []


def test_seconds_per_step(new_run: NewRun) -> None:
    run = new_run()
    run.train(30, pace=2.5)
    assert run.watch.seconds_per_step == pytest.approx(2.5)


def test_pace_learns_a_pause_of_stall_length_only_when_it_comes_again() -> None:
    pace = Pace()
    for t in range(50):
        pace.mark(float(t), limit=600.0)
    pace.mark(1049.0, limit=600.0)
    assert pace.longest == 1.0
    pace.mark(2149.0, limit=600.0)
    assert pace.longest == 1100.0
    pace.mark(9999.0, limit=600.0)
    assert pace.longest == 1100.0, "more than an hour is never usual"


# ---------------------------------------------------------------- one node is silent


NODES = ("worker-0", "worker-1", "worker-2", "worker-3")


def test_a_node_that_falls_silent_while_the_others_go_on(new_run: NewRun) -> None:
    run = new_run()
    run.train(60, nodes=NODES)
    run.train(50, nodes=NODES[:3])
    assert run.found == []
    run.train(15, nodes=NODES[:3])
    assert run.kinds() == ["node_silent"]
    silent = run.found[0]
    assert silent.who == silent.node == "worker-3"
    assert silent.measured == "no line for 1 m, last at step 60"
    assert silent.start_step == 60
    run.train(5, nodes=NODES)
    assert run.found[-1].end is not None
    assert run.found[-1].resolution.startswith("heard again after 1 m")


def test_a_node_that_joins_late_is_not_silent(new_run: NewRun) -> None:
    run = new_run()
    run.train(100, nodes=NODES[:3])
    run.open("worker-3")
    run.train(200, nodes=NODES[:3])
    assert run.found == []


def test_a_rank_that_never_logs_steps_is_not_silent(new_run: NewRun) -> None:
    run = new_run()
    for node in NODES:
        run.line("log", node, level="INFO", message="hello")
    run.train(300, nodes=NODES[:1])
    assert run.found == []


def test_all_silent_is_a_stall_and_names_the_one_that_stopped_first(new_run: NewRun) -> None:
    run = new_run(Thresholds(node_silent_after_s=None))
    run.train(60, nodes=NODES)
    for _ in range(20):
        run.wait(10)
        for node in NODES[:3]:
            run.line("log", node, level="WARN", message="still here")
    run.wait(500)
    assert run.kinds() == ["stall"]
    assert run.found[0].who == "worker-3"


def test_a_stall_names_the_node_whose_gpus_idle_while_the_others_spin(new_run: NewRun) -> None:
    run = new_run()
    run.train(60, nodes=NODES)
    for _ in range(65):
        run.wait(10)
        for node in NODES:
            run.line("host", node, values={"gpu_utilization": 2.0 if node == "worker-1" else 100.0})
    assert run.kinds() == ["stall"]
    assert run.found[0].who == "worker-1"


def test_a_node_that_stopped_days_ago_is_no_news(new_run: NewRun) -> None:
    run = new_run()
    now = run.clock.now()
    for node, age in (("old", 90_000.0), ("live", 0.0), ("other", 0.0)):
        run.open(node, age=age)
        for s in range(1, 50):
            run.step(s, node, live=False, time=now - age - 50 + s)
    run.now_step = 50
    run.train(200, nodes=("live", "other"))
    assert run.found == []


def test_a_node_that_slows_down_with_all_is_not_silent(new_run: NewRun) -> None:
    run = new_run()
    run.train(60, nodes=NODES)
    run.wait(400)
    run.train(60, nodes=NODES)
    assert run.found == []


def test_a_failure_without_a_time_of_its_own_happened_when_the_line_before_it_was_written(new_run) -> None:
    run = new_run()
    run.history(50, age=3600)
    run.watch.opened("other", run.clock.now() - 60, run.clock.now())
    bare = Record("error", "run", level="ERROR", priority=1, code="CUDA_OOM", message="out of memory")
    (incident,) = run.watch.observe(bare, "run", run.clock.now() - 60, False)
    assert incident.start == pytest.approx(run.clock.now() - 3600)


def test_a_failure_in_a_log_without_times_is_as_old_as_its_file(new_run) -> None:
    run = new_run()
    bare = Record("error", "run", level="ERROR", priority=1, code="CUDA_OOM", message="out of memory")
    (incident,) = run.watch.observe(bare, "run", run.clock.now() - 60, False)
    assert incident.start == run.clock.now() - 60


def test_lines_in_one_lump_have_no_pace_to_tell(new_run: NewRun) -> None:
    run = new_run()
    run.open()
    run.train(20, pace=1e-5)
    run.wait(15)
    assert (run.state, run.note) == ("quiet", "no line for 10 s")
