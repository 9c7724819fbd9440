"""NaN, memory, stragglers and fatal errors."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainmon.diagnosis.engine import Detectors
from trainmon.diagnosis.fatal import kind_of
from trainmon.diagnosis.thresholds import Thresholds
from trainmon.diagnosis.words import ago, number, short, step_of
from trainmon.model import Record

NewRun = Callable[..., Any]
NODES = tuple(f"worker-{i}" for i in range(8))
CARD = 81_920.0

# ---------------------------------------------------------------- NaN


def test_nan_on_many_nodes_is_one_incident_and_sixty_finite_steps_resolve_it(new_run: NewRun) -> None:
    run = new_run()
    run.train(30, nodes=NODES, loss=2.0)
    run.train(10, nodes=NODES, loss=math.nan)
    assert run.kinds() == ["loss_nan"]
    first = run.found[0]
    assert first.severity == "critical"
    assert first.who == "worker-0"
    assert first.measured == "loss is NaN at step 31, was 2.000"
    assert first.start_step == 31
    assert run.found[-1].who == "8 nodes"
    run.train(59, nodes=NODES, loss=2.0)
    assert run.found[-1].end is None
    run.train(1, nodes=NODES, loss=2.0)
    assert run.found[-1].end is not None
    run.train(1, nodes=NODES, loss=math.inf)
    assert run.kinds() == ["loss_nan", "loss_nan"]


def test_one_node_alone_with_nan_points_at_that_node(new_run: NewRun) -> None:
    run = new_run()
    run.train(30, nodes=NODES, loss=2.0)
    run.step(31, "worker-3", loss=math.inf)
    assert run.found[0].who == "worker-3"
    assert run.found[0].measured.startswith("loss is infinite")
    assert any("only one node" in text for text in run.found[0].advice)


def test_skipped_steps_under_fp16_are_normal(new_run: NewRun) -> None:
    run = new_run()
    for _ in range(10):
        run.train(2, loss=2.0, grad_norm=math.nan)
        run.train(20, loss=2.0, grad_norm=1.0)
    assert run.found == []
    run.train(8, loss=2.0, grad_norm=math.nan)
    assert run.kinds() == ["loss_nan"]


def test_nan_that_is_printed_as_zero(new_run: NewRun) -> None:
    run = new_run()
    run.train(5, loss=2.0, grad_norm=1.0)
    run.train(1, loss=0.0, grad_norm=math.nan)
    assert run.found == []
    run.train(1, loss=0.0, grad_norm=math.nan)
    assert run.kinds() == ["loss_nan"]


def test_nan_in_another_metric_or_in_an_evaluation_is_none_of_this(new_run: NewRun) -> None:
    run = new_run()
    run.train(20, loss=2.0, accuracy=math.nan)
    run.line("eval", values={"step": 20, "loss": math.nan, "eval_loss": math.nan})
    assert run.found == []


# ---------------------------------------------------------------- memory


def leak(
    run: Any,
    steps: int,
    start: float,
    per_step: float,
    noise: float = 100.0,
    node: str = "worker-2",
    total: bool = True,
) -> None:
    rng = random.Random(7)
    for i in range(steps):
        used = min(CARD, start + per_step * i + rng.uniform(-noise, noise))
        values = {"gpu_memory_mb": used} | ({"gpu_memory_total_mb": CARD} if total else {})
        run.train(1, pace=3.0, nodes=(node,), **values)


def test_a_leak_is_announced_with_the_time_until_full_then_becomes_critical(new_run: NewRun) -> None:
    run = new_run()
    leak(run, 300, 66.5 * 1024, 0.0)
    assert run.found == []
    leak(run, 300, 66.5 * 1024, 41.0)  # 4.0 GiB per 100 steps
    assert run.kinds() == ["near_oom"]
    first = run.found[0]
    assert (first.severity, first.title) == ("warning", "MEMORY RISES")
    assert (run.found[-1].severity, run.found[-1].title) == ("critical", "NEAR OOM")
    assert 288 <= first.start_step <= 330
    rising = next(i for i in run.found if "(96 %)" in i.measured)
    assert re.search(r"\+(3\.[89]|4\.[012]) GiB per 100 steps$", rising.measured)
    assert " of 80.0 GiB (96 %)" in rising.measured
    assert rising.outlook in ("full in ≈ 3 min", "full in ≈ 4 min")
    assert first.detected < run.clock.now() - 150 * 3.0, "in time to do something"
    forecast = dict(first.evidence)["full_in_s"]
    happens = (CARD - dict(first.evidence)["level_mb"]) / 41.0 * 3.0
    assert forecast == pytest.approx(happens, rel=0.25)


def test_a_leak_without_a_known_card_size_says_that_it_is_assumed(new_run: NewRun) -> None:
    run = new_run()
    leak(run, 200, 66.5 * 1024, 0.0, total=False)
    leak(run, 200, 66.5 * 1024, 20.0, total=False)
    assert run.kinds() == ["near_oom"]
    assert all(i.severity == "warning" for i in run.found)
    assert "of 80.0 GiB" in run.found[0].measured
    assert "assumed" in run.found[0].measured


def test_an_allocator_at_97_percent_since_the_start_is_quiet(new_run: NewRun) -> None:
    run = new_run()
    leak(run, 2000, 0.97 * CARD, 0.0, noise=200.0)
    assert run.found == []


def test_warm_up_of_the_allocator_that_saturates_is_quiet(new_run: NewRun) -> None:
    run = new_run()
    rng = random.Random(3)
    for i in range(1500):
        used = 45_000 + 30_000 * (1 - math.exp(-i / 120)) + rng.uniform(-150, 150)
        run.train(1, pace=2.0, gpu_memory_mb=used, gpu_memory_total_mb=CARD)
    assert run.found == []


def test_stairs_of_a_batch_ramp_and_peaks_of_evaluations_are_quiet(new_run: NewRun) -> None:
    run = new_run()
    rng = random.Random(4)
    for i in range(2000):
        used = 30_000 + 9_000 * (i // 500) + rng.uniform(-100, 100) + (4_000 if i % 200 == 0 else 0)
        run.train(1, pace=2.0, gpu_memory_mb=used, gpu_memory_total_mb=CARD)
    assert run.found == []


def test_batches_of_very_different_length_are_quiet(new_run: NewRun) -> None:
    run = new_run()
    rng = random.Random(5)
    for _ in range(2000):
        run.train(1, pace=2.0, gpu_memory_mb=rng.uniform(0.5, 0.93) * CARD, gpu_memory_total_mb=CARD)
    assert run.found == []


def test_a_new_maximum_near_the_top_is_a_warning_once(new_run: NewRun) -> None:
    run = new_run()
    leak(run, 300, 0.80 * CARD, 0.0)
    leak(run, 3, 0.975 * CARD, 0.0)
    assert run.kinds() == ["near_oom"]
    assert run.found[0].severity == "warning"
    assert run.found[0].measured.endswith("a new maximum")
    leak(run, 30, 0.80 * CARD, 0.0)
    assert run.found[-1].end is not None
    assert run.found[-1].resolution.startswith("back to 63.9 GiB")


def test_a_leak_that_stops_resolves(new_run: NewRun) -> None:
    run = new_run()
    leak(run, 200, 0.70 * CARD, 0.0)
    leak(run, 200, 0.70 * CARD, 30.0)
    assert run.kinds() == ["near_oom"]
    leak(run, 300, 0.70 * CARD + 6000, 0.0)
    assert run.found[-1].end is not None
    assert run.found[-1].resolution.startswith("no longer rises")


def test_only_the_gpu_that_grows_is_named_and_its_oom_takes_over(new_run: NewRun) -> None:
    run = new_run()
    for i in range(500):
        run.wait(3.0)
        run.now_step += 1
        for gpu in range(8):
            used = 68_000 + (41.0 * (i - 200) if gpu == 3 and i > 200 else 0) + (i * 7 + gpu) % 50
            values = {"step": run.now_step, "gpu_memory_mb": used, "gpu_memory_total_mb": CARD}
            run.line("metrics", "worker-2", gpu=gpu, rank=16 + gpu, values=values)
    assert {i.who for i in run.found} == {"worker-2 gpu3"}
    assert run.found[0].gpu == 3
    assert run.found[0].rank == 19
    assert any("only this GPU" in text for text in run.found[0].advice)
    run.fatal("CUDA_OOM", "worker-2", rank=19)
    assert run.found[-1].key == "near_oom:worker-2:3"
    assert run.found[-1].resolution.startswith("came true: CUDA_OOM")


def test_memory_alerts_can_be_switched_off(new_run: NewRun) -> None:
    run = new_run(Thresholds(memory_fraction=None, memory_full_within_s=None))
    leak(run, 500, 0.80 * CARD, 40.0)
    assert run.found == []


# ---------------------------------------------------------------- straggler


def steps_of(run: Any, steps: int, slow: dict[str, float], jitter: float = 0.015, seed: int = 1, **how: Any) -> None:
    rng = random.Random(seed)
    for _ in range(steps):
        run.wait(3.0)
        run.now_step += 1
        owns = {n: 2.65 * slow.get(n, 1.0) * (1 + rng.gauss(0, jitter)) for n in NODES}
        wall = max(owns.values()) + 0.38
        for n in NODES:
            own = owns[n]
            comm = wall - own
            run.step(run.now_step, n, step_time_s=wall, comm_time_s=comm, **how)


def test_a_straggler_of_14_percent_is_found_within_a_dozen_steps(new_run: NewRun) -> None:
    run = new_run()
    steps_of(run, 100, {})
    assert run.found == []
    steps_of(run, 12, {"worker-5": 1.14}, seed=2)
    assert run.kinds() == ["straggler"]
    found = run.found[0]
    assert found.who == "worker-5"
    assert found.severity == "warning"
    assert "over the median" in found.measured
    assert found.outlook.startswith("costs ")
    steps_of(run, 40, {}, seed=3)
    assert run.found[-1].end is not None


def test_what_a_straggler_costs_is_what_the_run_lost(new_run: NewRun) -> None:
    run = new_run()
    for step in range(1, 81):
        run.wait(3.0)
        slow = step > 60
        for n in NODES:
            own = 3.3 if slow and n == "worker-5" else 2.6
            wall = 3.4 if slow else 3.0  # the collective waits less: 0.3 of the 0.7 s are hidden
            run.step(step, n, step_time_s=wall, comm_time_s=wall - own)
    assert [found.outlook for found in run.found] == ["costs 12 % of the run's speed"]


def test_a_straggler_that_waits_for_its_data_says_so(new_run: NewRun) -> None:
    run = new_run()
    for s in range(60):
        run.wait(3.0)
        for n in NODES:
            data = 1.2 if n == "worker-2" and s > 30 else 0.05
            run.line(
                "metrics", n, values={"step": s, "step_time_s": 4.0, "data_time_s": data}, extra={"compute_time_s": 2.6}
            )
    assert run.kinds() == ["straggler"]
    assert "waits for its data" in run.found[0].measured
    assert "iostat" in run.found[0].advice[0]


def test_single_slow_steps_and_wide_jitter_are_quiet(new_run: NewRun) -> None:
    run = new_run()
    for burst in range(20):
        steps_of(run, 15, {}, seed=burst)
        steps_of(run, 1, {NODES[burst % 8]: 6.0}, seed=burst)
    steps_of(run, 400, {}, jitter=0.10, seed=99)
    assert run.found == []


def test_a_permanent_small_difference_is_the_nodes_own(new_run: NewRun) -> None:
    run = new_run(Thresholds(straggler_ratio=1.04))
    steps_of(run, 400, {"worker-1": 1.03, "worker-7": 0.98}, jitter=0.004)
    assert run.found == []


def test_two_nodes_have_no_median_to_be_behind(new_run: NewRun) -> None:
    run = new_run()
    for s in range(100):
        run.wait(1.0)
        run.step(s, "a", step_time_s=1.0)
        run.step(s, "b", step_time_s=2.0)
    assert run.found == []


def test_a_node_that_left_is_not_waited_for(new_run: NewRun) -> None:
    run = new_run(Thresholds(node_silent_after_s=None))
    steps_of(run, 50, {})
    for s in range(40):
        run.wait(3.0)
        run.now_step += 1
        for n in NODES[:7]:
            run.step(run.now_step, n, step_time_s=3.0, comm_time_s=0.38 - (0.3 if n == "worker-5" else 0) + 0 * s)
    assert run.found == [] or {i.node for i in run.found} == {"worker-5"}
    for _ in range(20):
        run.wait(3.0)
        run.now_step += 1
        for n in NODES[:7]:
            run.step(run.now_step, n, step_time_s=4.0, comm_time_s=0.1 if n == "worker-5" else 1.3)
    assert {i.node for i in run.found} == {"worker-5"}


# ---------------------------------------------------------------- fatal errors


BOOK = {
    "CUDA_OOM": SimpleNamespace(
        title="Ran out of GPU memory", fixes=("halve the micro-batch",), is_usually="root_cause"
    ),
    "NCCL_WATCHDOG_TIMEOUT": SimpleNamespace(title="A collective timed out", fixes=(), is_usually="symptom"),
}


def test_a_fatal_error_is_one_alert_with_its_consequences(new_run: NewRun) -> None:
    run = new_run(lookup=BOOK.__getitem__)
    run.train(1200, pace=0.5, nodes=NODES)
    run.fatal("CUDA_OOM", "worker-2", rank=19)
    first = run.found[-1]
    assert (first.kind, first.title, first.who) == ("oom", "CUDA_OOM", "worker-2 rank 19")
    assert first.measured == "ran out of GPU memory at step 1,200"
    assert first.advice == ("halve the micro-batch",)
    run.wait(10)
    assert run.found[-1].outlook == "the run has stopped"
    for rank in range(56):
        run.fatal("NCCL_WATCHDOG_TIMEOUT", NODES[rank // 8], rank=rank)
    run.wait(2)
    assert run.kinds() == ["oom"]
    assert run.found[-1].outlook == "the run has stopped; then NCCL_WATCHDOG_TIMEOUT ×56"


def test_a_code_that_is_not_in_the_catalogue(new_run: NewRun) -> None:
    run = new_run(lookup=BOOK.__getitem__)
    run.train(5)
    run.fatal("UNKNOWN_ERROR")
    assert run.found[0].title == "FATAL ERROR"
    assert run.found[0].measured == "UNKNOWN_ERROR happened at step 5"


def test_a_known_error_gives_the_name_to_a_traceback_before_it(new_run: NewRun) -> None:
    run = new_run(lookup=BOOK.__getitem__)
    run.train(5)
    run.fatal("GENERIC_TRACEBACK")
    run.fatal("CUDA_OOM", rank=3)
    assert run.kinds() == ["fatal_error"], "the same alert under a better name"
    assert run.found[-1].title == "CUDA_OOM"
    assert len({i.key for i in run.found}) == 1


def test_a_symptom_that_was_printed_first_gives_way_to_the_cause(new_run: NewRun) -> None:
    run = new_run(lookup=BOOK.__getitem__)
    run.train(5)
    run.fatal("NCCL_WATCHDOG_TIMEOUT", rank=1)
    run.fatal("CUDA_OOM", rank=3)
    run.fatal("NCCL_WATCHDOG_TIMEOUT", rank=2)
    run.wait(2)
    assert run.found[-1].title == "CUDA_OOM"
    assert "then NCCL_WATCHDOG_TIMEOUT ×2" in run.found[-1].outlook


def test_an_error_that_the_run_survives_again_and_again_stops_ringing(new_run: NewRun) -> None:
    run = new_run()
    for _ in range(4):
        run.train(10)
        run.fatal("UNKNOWN_ERROR", offset=run.now_step)
    begun = [i.severity for i in run.found if i.end is None and not i.outlook]
    assert begun == ["critical", "critical", "warning", "warning"]


def test_the_message_of_an_exhausted_card_is_kept_to_its_end_and_a_cut_one_says_so(new_run: NewRun) -> None:
    for length, end in ((450, "xend"), (5000, "x…")):
        run = new_run()
        run.train(5)
        run.line("error", level="ERROR", priority=1, code="CUDA_OOM", message="x" * length + "end")
        (message,) = [str(value) for name, value in run.found[-1].evidence if name == "message"]
        assert message.endswith(end)


def test_errors_that_block_nothing_are_not_announced(new_run: NewRun) -> None:
    run = new_run()
    run.train(5)
    run.line("error", level="ERROR", priority=2, code="X", message="m")
    off = new_run(Thresholds(fatal_error=None))
    off.train(5)
    off.fatal()
    assert run.found == []
    assert off.found == []


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("CUDA_OOM", "oom"),
        ("HOST_OOM_KILL", "host_oom"),
        ("NCCL_WATCHDOG_TIMEOUT", "hang"),
        ("GPU_XID_79", "gpu_fault"),
        ("E_COMM_1001", "network_fault"),
        ("NO_SPACE_LEFT", "storage_fault"),
        ("GENERIC_TRACEBACK", "fatal_error"),
    ],
)
def test_kinds_of_errors(code: str, kind: str) -> None:
    assert kind_of(code) == kind


# ---------------------------------------------------------------- anything may come


numbers = st.one_of(st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=4), st.booleans())
records = st.builds(
    Record,
    kind=st.sampled_from(["metrics", "eval", "summary", "gpu", "host", "error", "gap", "log", "quarantine"]),
    source=st.just("f.log"),
    time=st.none() | st.floats(0, 4e9),
    rank=st.none() | st.integers(0, 9),
    gpu=st.none() | st.integers(0, 9),
    level=st.sampled_from([None, "INFO", "WARN", "ERROR", "FATAL"]),
    values=st.dictionaries(
        st.sampled_from(
            [
                "step",
                "total_steps",
                "loss",
                "grad_norm",
                "gpu_memory_mb",
                "gpu_memory_total_mb",
                "step_time_s",
                "comm_time_s",
            ]
        ),
        numbers,
    ),
    extra=st.dictionaries(st.sampled_from(["event", "compute_time_s"]), numbers | st.just("eval_start")),
    code=st.none() | st.sampled_from(["CUDA_OOM", "UNKNOWN_ERROR"]),
    priority=st.none() | st.integers(1, 3),
    message=st.none() | st.text(max_size=10),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(records, st.sampled_from(["a", "b", "c"]), st.booleans(), st.floats(-1e5, 1e5)), max_size=60))
def test_no_record_and_no_clock_makes_it_fall(told: list[tuple[Record, str, bool, float]]) -> None:
    watch = Detectors()
    now = 1e9
    for record, node, live, by in told:
        now += by
        watch.observe(record, node, now, live)
        watch.tick(now)
    assert watch.state in ("waiting", "starting", "running", "quiet", "stalled", "finished", "failed", "old")


@settings(max_examples=40, deadline=None)
@given(st.floats(0.05, 120.0), st.floats(0.0, 0.6), st.integers(0, 2**32))
def test_a_steady_run_of_any_pace_never_alarms(pace: float, jitter: float, seed: int) -> None:
    rng = random.Random(seed)
    watch = Detectors()
    now = 1e9
    watch.opened("a", now, now)
    for step in range(150):
        now += pace * (1 + jitter * rng.uniform(-1, 1))
        record = Record("metrics", "a", time=now, values={"step": step, "loss": rng.random(), "step_time_s": pace})
        assert watch.observe(record, "a", now) == []
        assert watch.tick(now) == []
        assert watch.state == "running"


def test_words() -> None:
    assert [ago(s) for s in (3, 12, 45, 70, 1199, 1210, 7300, 90_000)] == [
        "a few seconds", "10 s", "30 s", "1 m", "15 m", "20 m", "2 h", "25 h",
    ]  # fmt: skip
    assert step_of(1187, 5000) == "step 1,187 of 5,000"
    assert (step_of(None, 5), step_of(3, None)) == ("", "step 3")
    assert [short(s) for s in (0.31, 3.41, 105.0)] == ["310 ms", "3.4 s", "105 s"]
    assert number("x") is None
    assert math.isinf(number("-inf") or 0.0)
