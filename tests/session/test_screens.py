"""What the screens say: built from records through a whole session, on a manual clock."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainmon.clock import ManualClock
from trainmon.model import CaughtUp, Data, Opened, Record, SourceEvent, SourceState
from trainmon.parsing.detect import model_named
from trainmon.session.charts import SPARK, recent
from trainmon.session.rings import PAST, Past
from trainmon.session.session import Session
from trainmon.session.wording import duration_in, epoch_of_checkpoint, step_of_checkpoint
from trainmon.settings import Settings
from trainmon.snapshot import Points, Snapshot

START = 1_772_446_487.0


class Stage:
    """Files that are written line by line, and the session that watches them."""

    def __init__(self, *names: str) -> None:
        self.clock = ManualClock(START)
        self.session = Session([], Settings(), clock=self.clock)
        self.sizes = [0] * len(names)
        self.session.pump([Opened(n, name, f"/logs/{name}", 0, START) for n, name in enumerate(names)])
        self.session.pump([CaughtUp(n, 0) for n in range(len(names))])

    def say(self, source: int, *lines: str, later: float = 0.0) -> None:
        self.clock.advance(later)
        data = "".join(line + "\n" for line in lines).encode()
        offset = self.sizes[source]
        self.sizes[source] += len(data)
        event: SourceEvent = Data(source, 0, offset, data, self.sizes[source], self.clock.now())
        self.session.pump([event])

    def wait(self, seconds: int) -> Snapshot:
        for _ in range(seconds):
            self.clock.advance(1.0)
            self.session.pump()
        return self.session.snapshot


def step_line(step: int, **more: object) -> str:
    return json.dumps({"time": START + step, "step": step, "loss": 3.0 - step / 1000, "total_steps": 1000, **more})


def gpu_line(step: int, rank: int, gpu: int, memory: float, heat: float = 60) -> str:
    return json.dumps(
        {
            "time": START + step,
            "step": step,
            "rank": rank,
            "gpu": gpu,
            "gpu_memory_mb": memory,
            "gpu_memory_total_mb": 81920,
            "gpu_temperature_c": heat,
        }
    )


OOM = (
    "[rank19]: Traceback (most recent call last):",
    '[rank19]:   File "train.py", line 1, in <module>',
    "[rank19]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.50 GiB. GPU 3 has a total capacity of "
    "80.00 GiB of which 214.00 MiB is free.",
)
WATCHDOG = (
    "2026-03-02T10:20:00Z ERROR [Rank {}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, "
    "OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600021 milliseconds before timing out."
)


def two_nodes_that_fail(*, cause_first: bool = True) -> Stage:
    stage = Stage("worker-0.log", "worker-2.log")
    for step in range(1, 40):
        for source in (0, 1):
            stage.say(source, step_line(step), later=0.5)
    for gpu in range(8):
        stage.say(0, gpu_line(39, gpu, gpu, 60_000))
        stage.say(1, gpu_line(39, 16 + gpu, gpu, 80_300 if gpu == 3 else 68_000 + gpu, 60 + gpu))
    sayings = [(1, OOM), (0, (WATCHDOG.format(0), WATCHDOG.format(1)))]
    for source, lines in sayings if cause_first else sayings[::-1]:
        stage.say(source, *lines)
        stage.wait(2)
    stage.wait(20)
    return stage


# ---------------------------------------------------------------- nodes and GPUs


def test_a_node_shows_its_fullest_and_hottest_gpu() -> None:
    shot = two_nodes_that_fail().session.snapshot
    node = next(n for n in shot.nodes if n.name == "worker-2")
    assert node.memory_mb == 80_300
    assert node.temperature_c == 67


def test_a_gpu_that_empties_is_no_longer_the_fullest() -> None:
    stage = Stage("w.log")
    stage.say(0, step_line(1), gpu_line(1, 0, 0, 70_000), gpu_line(1, 1, 1, 60_000), gpu_line(2, 0, 0, 10_000))
    assert stage.session.snapshot.nodes[0].memory_mb == 60_000


def test_only_the_gpu_that_ran_out_of_memory_is_critical() -> None:
    shot = two_nodes_that_fail().session.snapshot
    assert shot.gpus.subject == "worker-2"
    assert [row.index for row in shot.gpus.rows if row.health == "critical"] == [3]


# ---------------------------------------------------------------- errors and their cause


@pytest.mark.parametrize("cause_first", [True, False])
def test_alert_state_and_errors_name_one_cause(cause_first: bool) -> None:
    shot = two_nodes_that_fail(cause_first=cause_first).session.snapshot
    assert [(e.code, e.role) for e in shot.errors] == [
        ("CUDA_OOM", "probable cause"),
        ("NCCL_WATCHDOG_TIMEOUT", "follows CUDA_OOM"),
    ]
    fatal = next(a for a in shot.alerts if a.severity == "critical")
    assert (fatal.title, fatal.kind, fatal.gpu) == ("CUDA_OOM", "oom", 3)
    assert fatal.who == "worker-2 rank 19"
    assert "NCCL_WATCHDOG_TIMEOUT ×2" in fatal.outlook
    assert fatal.place.startswith("worker-2.log:")
    assert shot.run.state == "failed"
    assert shot.run.note.startswith("CUDA_OOM on worker-2")
    assert [e.name for e in shot.events if e.alert is not None] == ["CUDA_OOM"]


def test_an_error_without_a_time_has_that_of_the_line_before() -> None:
    shot = two_nodes_that_fail().session.snapshot
    assert shot.errors[0].first == START + 39


def test_an_old_failure_that_was_survived_explains_no_new_one() -> None:
    stage = Stage("w.log")
    stage.say(0, *(step_line(step) for step in range(1, 10)))
    stage.say(0, *OOM)
    for step in range(10, 40):
        stage.say(0, step_line(step), later=1.0)
    assert stage.session.snapshot.errors[0].role == "probable cause"
    stage.say(0, WATCHDOG.format(0), later=1.0)
    shot = stage.wait(20)
    assert {e.code: e.role for e in shot.errors} == {
        "NCCL_WATCHDOG_TIMEOUT": "probable cause",
        "CUDA_OOM": "its own",
    }
    assert shot.alerts[0].title == "NCCL_WATCHDOG_TIMEOUT"


def test_a_late_line_of_another_rank_is_no_recovery() -> None:
    stage = Stage("w.log")
    stage.say(0, *(step_line(step) for step in range(5, 25, 5)))
    stage.say(0, *OOM)
    stage.say(0, step_line(25))
    assert any(a.title == "CUDA_OOM" and a.state == "firing" for a in stage.wait(20).alerts)


# ---------------------------------------------------------------- names and states


def test_the_run_is_named_by_its_model() -> None:
    stage = Stage("worker-0.log", "worker-1.log")
    assert stage.session.snapshot.run.name == ""
    stage.say(0, step_line(1))
    assert stage.session.snapshot.run.name == "worker-0"
    stage.say(1, "2026-03-02T10:14:47Z INFO training started model=qwen-7b-lora world_size=64")
    assert stage.session.snapshot.run.name == "qwen-7b-lora"


@pytest.mark.parametrize(
    ("message", "name"),
    [
        ("training started model=qwen-7b-lora world_size=64", "qwen-7b-lora"),
        ('args: {"model": "Qwen/Qwen2-7B", "lr": 1}', "Qwen2-7B"),
        ("model_name_or_path='/models/llama-3/', x", "llama-3"),
        ("model=yolo11n.yaml, data=coco8.yaml", "yolo11n"),
        ("model=DistributedDataParallel(", None),
        ("loading model=None", None),
        ("the model: starts now", None),
    ],
)
def test_models_in_start_lines(message: str, name: str | None) -> None:
    assert model_named(message) == name


def test_waiting_has_no_name_and_says_for_how_long() -> None:
    clock = ManualClock(START)
    session = Session([], Settings(), clock=clock)
    session.pump([Opened(0, "logs/launcher.log", "/logs/launcher.log", 0, START)])
    session.pump([SourceState("logs/launcher.log", 0, "empty", "followed")])
    for _ in range(42):
        clock.advance(1.0)
        session.pump()
    run = session.snapshot.run
    assert (run.state, run.name, run.note, run.started) == ("waiting", "", "42 s", START)
    notes = set()
    for _ in range(240):
        clock.advance(1.0)
        session.pump()
        notes.add(session.snapshot.run.note)
    assert len(notes) <= 23  # by the second in the first minute, coarse afterwards


def test_a_log_that_counts_epochs_only_is_running() -> None:
    stage = Stage("log.jsonl")
    for epoch in range(12):
        stage.say(0, json.dumps({"train_loss": 7.0 - epoch / 10, "train_lr": 1e-4, "epoch": epoch}), later=5.0)
    shot = stage.session.snapshot
    assert shot.run.state == "running"
    assert shot.run.step is None
    assert shot.charts[0].points.x == tuple(range(12))
    assert shot.nodes[0].word == "ok"


def test_files_without_a_step_in_common_look_like_different_runs() -> None:
    stage = Stage("a.log", "b.log")
    for n in range(30):
        stage.say(0, step_line(n, total_steps=90_000), later=0.5)
        stage.say(1, json.dumps({"time": START + n, "step": 5000 + n, "loss": 2.0, "total_steps": 90_000}))
    shot = stage.session.snapshot
    assert "different runs" in shot.run.hint
    assert "different runs" in shot.calm.split(" · ")[1]


def test_a_node_that_is_behind_is_no_other_run() -> None:
    stage = Stage("a.log", "b.log")
    for n in range(30):
        stage.say(0, step_line(n + 12), later=0.5)
        stage.say(1, step_line(n))
    assert stage.session.snapshot.run.hint == ""


def test_an_earlier_part_of_the_run_is_no_other_run() -> None:
    stage = Stage("part1.log", "part2.log")
    stage.say(0, *(step_line(n) for n in range(30)))
    stage.say(1, *(step_line(n) for n in range(500, 530)))
    assert stage.session.snapshot.run.hint == ""


def test_a_lone_rank_and_its_file_are_one_node() -> None:
    stage = Stage("a.log")
    for step in range(5):
        stage.say(0, json.dumps({"rank": 0, "step": step, "loss": 1.0}), json.dumps({"step": step, "mfu": 30.0}))
    assert [n.name for n in stage.session.snapshot.nodes] == ["rank 0"]


# ---------------------------------------------------------------- events


def test_a_checkpoint_is_one_event_whoever_tells_of_it() -> None:
    stage = Stage("a.log", "b.log")
    stage.say(0, step_line(1000))
    for source in (0, 1):
        stage.say(source, "2026-03-02T11:00:00Z INFO saving checkpoint to out/step-1000")
    found = [e.text for e in stage.session.snapshot.events if e.name == "checkpoint"]
    assert found == ["step 1,000 is being saved"]
    for source in (0, 1):
        stage.say(source, "2026-03-02T11:00:08.4Z INFO checkpoint saved to out/step-1000 in 8.4 s", later=9)
    found = [e.text for e in stage.session.snapshot.events if e.name == "checkpoint"]
    assert found == ["step 1,000 saved in 8.40 s"]
    assert "one checkpoint " in stage.wait(1).calm


def test_the_time_a_checkpoint_took_is_taken_from_its_lines() -> None:
    stage = Stage("a.log")
    stage.say(0, "2026-03-02T11:00:00Z INFO Saving checkpoint to checkpoint-500")
    stage.say(0, "2026-03-02T11:00:12Z INFO checkpoint written to checkpoint-500")
    stage.say(0, "2026-03-02T11:00:13Z INFO checkpoint written to checkpoint-500")
    assert [e.text for e in stage.session.snapshot.events] == ["step 500 saved in 12.0 s"]


def test_a_program_that_goes_on_has_saved() -> None:
    stage = Stage("a.log")
    stage.say(0, step_line(10), "2026-03-02T11:00:00Z INFO saving checkpoint to out", step_line(11))
    assert "step 10 saved" in [e.text for e in stage.session.snapshot.events]


def test_evaluations_tell_their_change_and_a_repeated_one_is_one() -> None:
    stage = Stage("a.log")
    for step, loss in ((10, 2.5), (20, 2.25), (21, 2.25)):
        stage.say(0, step_line(step, eval_loss=loss))
    found = [e.text for e in stage.session.snapshot.events if e.name == "eval"]
    assert found == ["step 20 · loss 2.250 ▼ 0.250", "step 10 · loss 2.500"]


@pytest.mark.parametrize(
    ("message", "step", "epoch", "took"),
    [
        ("checkpoint saved to out/step-1000 in 14.0 s", 1000, "", 14.0),
        ("Saving model checkpoint to out/checkpoint-80", 80, "", None),
        ("successfully saved checkpoint from iteration     600 to ckpt", 600, "", None),
        ("Saving checkpoint at 4 epochs", None, "epoch 4", None),
        ("checkpoint saved, took 350 ms", None, "", 0.35),
    ],
)
def test_words_about_checkpoints(message: str, step: int | None, epoch: str, took: float | None) -> None:
    assert step_of_checkpoint(message) == step
    assert epoch_of_checkpoint(message) == epoch
    assert duration_in(message) == took


# ---------------------------------------------------------------- sparklines and charts


def flat_then(after: float, at: int, until: int) -> Points:
    x = tuple(float(step) for step in range(until + 1))
    y = tuple(after if step >= at else 1.0 for step in x)
    return Points(x, y, y, y)


def test_a_sparkline_shows_the_time_before_the_incident() -> None:
    for until in (960, 1100, 1500, 3000):
        spark, bad = recent(flat_then(2.0, 945, until), 945.0)
        assert bad is not None
        assert 4 <= bad < len(spark) <= SPARK
        assert set(spark[: bad - 1]) == {1.0}
        assert set(spark[bad + 1 :]) <= {2.0}


def test_a_sparkline_moves_once_in_many_steps() -> None:
    pictures = [recent(flat_then(1.0, 0, until), None)[0] for until in range(2000, 2100)]
    assert len({len(p) for p in pictures}) == 1
    ramp = Points(*(tuple(map(float, range(2101))),) * 4)
    heads = {recent(Points(*(row[:until] for row in (ramp.x, ramp.lo, ramp.mid, ramp.hi))), None)[0][:-1]
             for until in range(2000, 2100)}  # fmt: skip
    assert len(heads) <= 11


@given(st.lists(st.floats(0.001, 1e4), min_size=1, max_size=600), st.integers(1, 20))
def test_the_past_of_a_node_is_bounded_and_true(values: list[float], width: int) -> None:
    past = Past()
    for step, value in enumerate(values):
        past.push(step, value)
    means, steps = past.cells(width)
    assert len(means) == len(steps) <= min(width, PAST)
    assert list(steps) == sorted(steps)
    assert min(values) * 0.999 <= min(means) and max(means) <= max(values) * 1.001
    whole = past.cells(PAST)[1]
    assert len(values) - whole[0] >= min(len(values), PAST * 3)


def test_the_past_keeps_what_was_before_an_incident() -> None:
    past = Past()
    for step in range(2000):
        past.push(step, 1.0 if step < 945 else 2.0, 945 if step > 970 else None)
    means, steps = past.cells(10)
    assert steps[0] < 945
    assert means[0] == 1.0 and means[-1] == 2.0


def test_memory_charts_are_in_gib_and_of_the_gpu_in_question() -> None:
    shot = two_nodes_that_fail().session.snapshot
    memory = next(c for c in shot.charts if c.key == "gpu_memory_mb")
    assert memory.unit == "memory_gib" and memory.value is not None and 50 < memory.value < 80
    mine = next(c for c in shot.charts if c.key == "gpu_memory_mb:worker-2:3")
    assert mine.points.mid[-1] == pytest.approx(80_300 / 1024)
    assert (mine.points.lo[-1], mine.points.hi[-1]) == pytest.approx((60_000 / 1024, 68_007 / 1024))
    assert "15 GPUs" in mine.band


def test_an_old_log_tells_how_it_ended() -> None:
    clock = ManualClock(START)
    session = Session([], Settings(), clock=clock)
    text = "".join(step_line(n) + "\n" for n in range(20)) + "Traceback (most recent call last):\n"
    data = (text + '  File "a.py", line 1, in <module>\nZeroDivisionError: division by zero\n').encode()
    old = START - 7200
    session.pump([Opened(0, "a.log", "/a.log", len(data), old), Data(0, 0, 0, data, len(data), old), CaughtUp(0, 0)])
    clock.advance(2)
    session.pump()
    assert session.snapshot.run.state == "old"
    assert "ended with an error" in session.snapshot.run.note


def test_a_gpu_of_a_rank_is_found() -> None:
    from trainmon.session.gpus import GpuBook

    book = GpuBook()
    for gpu in range(8):
        book.take(Record("gpu", "a", rank=16 + gpu, gpu=gpu, values={"gpu_memory_mb": 1.0}), "w", 0.0)
    assert book.index_of("w", 19) == 3
    assert book.index_of("w", 27) == 3  # never heard: by its place
    assert book.index_of("other", 3) is None


def test_sections_that_take_long_do_not_starve() -> None:
    stage = Stage("a.log")
    stage.say(0, step_line(1))
    publisher = stage.session._publisher
    for step in range(2, 8):
        stage.clock.advance(1.0)
        publisher._took.update(nodes=1.0, charts=1.0)
        data = (step_line(step) + "\n").encode()
        stage.session._handle(Data(0, 0, stage.sizes[0], data, stage.sizes[0] + len(data), stage.clock.now()))
        stage.sizes[0] += len(data)
        stage.session._publish(stage.clock.monotonic())
    stage.clock.advance(1.0)
    stage.session._publish(stage.clock.monotonic())
    shot = stage.session.snapshot
    assert (shot.run.step, shot.nodes[0].step, shot.charts[0].points.x[-1]) == (7, 7, 7.0)


def test_a_slow_rise_is_shaded_from_where_it_was_told_of() -> None:
    from types import SimpleNamespace

    from trainmon.model import Incident
    from trainmon.session.charts import spans

    rise = Incident("near_oom:w:3", "near_oom", "critical", "NEAR OOM", "w gpu3", "", start_step=880)
    slow = Incident("straggler:v", "straggler", "warning", "STRAGGLER", "v", "", start_step=905)
    run = SimpleNamespace(past=[], open={rise.key: rise, slow.key: slow}, noticed={rise.key: 1060})
    assert [(span.start, span.severity) for span in spans(run)] == [(905.0, "warning"), (1060.0, "critical")]


def test_what_happens_in_a_log_without_times_is_as_old_as_its_arrival() -> None:
    clock = ManualClock()
    session = Session(["train.log"], Settings(), clock=clock)
    past = b"".join(b'{"step": %d, "loss": 2.0}\n' % n for n in range(1, 30))
    size = len(past)
    session.pump([Opened(0, "train.log", "/x/train.log", size, clock.now()), Data(0, 0, 0, past, size, clock.now())])
    session.pump([CaughtUp(0, 0)])
    clock.advance(5)
    line = b'{"step": 30, "eval_loss": 1.9}\n'
    session.pump([Data(0, 0, size, line, size + len(line), clock.now())])
    times = {event.name: event.time for event in session.snapshot.events}
    assert times["eval"] == clock.now()
    assert times["first step"] is None, "nobody knows when the past was"
