"""The books that a run is made of: errors, events, nodes, GPUs, the warm-up, and the words around them."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from trainmon.model import Ahead, CaughtUp, Data, Glimpse, Opened, Record
from trainmon.parsing.parser import FileParser
from trainmon.session.errors import MAX_GROUPS, MAX_PLACES, ErrorBook
from trainmon.session.events import MAX_EVENTS, EventBook
from trainmon.session.files import SourceFile
from trainmon.session.gpus import GpuBook
from trainmon.session.inbox import Inbox
from trainmon.session.nodes import NodeBook, Ring
from trainmon.session.warmup import WarmUp, schedule_note
from trainmon.session.wording import age_words, coarse, masked, natural, rank_words, run_name


def error(message: str, code: str = "UNKNOWN_ERROR", **more: object) -> Record:
    return Record(kind="error", source="a.log", code=code, priority=1, message=message, text=message, **more)


# ---------------------------------------------------------------- words


def test_ages_change_in_coarse_steps_only() -> None:
    assert [coarse(s) for s in (-5, 0, 9.9, 10, 29, 30, 59, 60, 119, 120, 299, 300, 7300)] == [
        0, 0, 0, 10, 20, 30, 30, 60, 60, 120, 180, 300, 7200,
    ]  # fmt: skip
    assert age_words(120) == "2 m" and age_words(86400 * 3) == "3 d"


@given(st.floats(0, 1e7), st.floats(0, 1e7))
def test_a_coarse_age_never_exceeds_the_age_and_keeps_order(a: float, b: float) -> None:
    assert coarse(a) <= a
    if a <= b:
        assert coarse(a) <= coarse(b)


def test_worker_2_comes_before_worker_10() -> None:
    assert sorted(["worker-10", "worker-2", "worker-x", "a"], key=natural) == ["a", "worker-2", "worker-10", "worker-x"]


@given(st.lists(st.text(max_size=12), max_size=12))
def test_any_names_can_be_sorted(names: list[str]) -> None:
    assert len(sorted(names, key=natural)) == len(names)


def test_messages_that_differ_in_numbers_only_are_one() -> None:
    assert masked("rank 3 lost 12.5 MiB at 0x7f3a") == masked("rank 11 lost 9 MiB at 0xdeadbeef")
    assert masked("disk full") != masked("disk gone")


def test_the_run_is_named_by_what_its_files_share() -> None:
    assert run_name(["logs/worker-0.log", "logs/worker-11.log"]) == "worker"
    assert run_name(["train.log"]) == "train"
    assert run_name(["qwen/a.log", "qwen/b.log"]) == "qwen"
    assert run_name(["x/a.log", "y/b.log"]) == ""


def test_ranks_in_words() -> None:
    assert rank_words([19]) == "rank 19"
    assert rank_words(range(16, 24)) == "ranks 16–23"
    assert rank_words([1, 5]) == "ranks 1, 5"
    assert rank_words([1, 5, 9, 11]) == "4 ranks"


# ---------------------------------------------------------------- queue


def test_the_inbox_asks_history_to_wait_but_takes_everything() -> None:
    inbox = Inbox(limit=10)
    assert inbox.put([Data(1, 0, 0, b"12345", 5, 0.0)])
    assert not inbox.put([Data(1, 0, 5, b"123456", 11, 0.0)])
    assert not inbox.put([Ahead(1, 0, 11, b"x", 0.0)])
    taken = []
    while (event := inbox.take(0)) is not None:
        taken.append(event)
    assert [type(event) for event in taken] == [Ahead, Data, Data]
    assert inbox.waiting_bytes == 0
    assert inbox.put([])


def test_the_inbox_keeps_the_order_within_a_lane() -> None:
    inbox = Inbox()
    inbox.put([Data(1, 0, 0, b"a", 1, 0.0), CaughtUp(1, 0), Opened(2, "b", "b", 0, 0.0), Glimpse(2, 0, b"", b"", 0, 0)])
    inbox.put([Data(2, 0, 0, b"c", 1, 0.0)])
    kinds = [type(inbox.take(0)).__name__ for _ in range(5)]
    assert kinds == ["Opened", "Glimpse", "Data", "CaughtUp", "Data"]


def test_wake_lets_the_next_take_return() -> None:
    inbox = Inbox()
    inbox.wake()
    assert inbox.take(60) is None  # would wait for a minute


# ---------------------------------------------------------------- errors


def test_errors_group_by_code_and_unknown_ones_by_their_words() -> None:
    book = ErrorBook()
    for rank in range(70):
        book.add(error("timeout after 600 s", code="NCCL_TIMEOUT", rank=rank, line=rank), 1, "worker-1")
    book.add(error("cannot read shard 17"), 1, "worker-1")
    book.add(error("cannot read shard 18"), 1, "worker-2")
    book.add(error("something else"), 1, "worker-1")
    groups = {group.message: group for group in book}
    assert len(groups) == 3 and book.lines == 73
    timeout = groups["timeout after 600 s"]
    assert timeout.lines == 70 and len(timeout.places) == MAX_PLACES
    assert timeout.where == "worker-1 ranks 0–69"
    assert groups["cannot read shard 17"].where == "2 nodes"


def test_the_first_place_is_the_earliest_by_time_over_files() -> None:
    book = ErrorBook()
    book.add(error("late", code="X", time=20.0, line=5), 1, "b")
    book.add(error("early", code="X", time=10.0, line=9), 2, "a")
    book.add(error("later still", code="X", time=5.0, line=99), 2, "a")
    (group,) = book
    assert (group.message, group.first.line, group.first.source) == ("early", 9, 2)


def test_ten_thousand_different_errors_stay_bounded() -> None:
    book = ErrorBook()
    for i in range(10_000):
        word = "".join(chr(97 + int(d)) for d in str(i))
        odd = error(f"odd {word}")
        odd.priority = 2
        book.add(odd, 1, "n")
    assert len(book) <= MAX_GROUPS + 1 and book.lines == 10_000
    assert sum(group.lines for group in book) == 10_000
    fatal = error("CUDA out of memory", code="CUDA_OOM")
    fatal.priority = 1
    assert book.add(fatal, 1, "n").code == "CUDA_OOM"
    for i in range(2000):
        word = "".join(chr(97 + int(d)) for d in str(i))
        fatal = error(f"fatal {word}")
        fatal.priority = 1
        book.add(fatal, 1, "n")
    assert len(book) <= 2 * MAX_GROUPS + 1
    assert [group.priority for group in book if group.message.startswith("further")] == [2]


# ---------------------------------------------------------------- events


def test_one_checkpoint_of_eight_workers_is_one_event() -> None:
    book = EventBook()
    for worker in range(8):
        book.add("checkpoint", "step 500", time=100.0 + worker, now=0.0, mark=("checkpoint", 500), planned=True)
    assert len(book.views()) == 1 and book.planned["checkpoint"] == 1


def test_events_are_bounded_and_newest_first_whatever_order_they_came_in() -> None:
    book = EventBook()
    times = [float(i) for i in range(MAX_EVENTS + 50)]
    random.Random(1).shuffle(times)
    for time in times:
        book.add("gap", "x", time=time, now=0.0)
    views = book.views()
    assert len(views) == MAX_EVENTS
    assert [view.time for view in views] == sorted((view.time for view in views), reverse=True)


# ---------------------------------------------------------------- nodes


def metrics(step: int, time: float | None = None, **values: float) -> Record:
    return Record(kind="metrics", source="a", time=time, values={"step": step, **values})


@given(st.lists(st.integers(0, 1000), max_size=100), st.integers(1, 20))
def test_a_ring_holds_the_last_values(values: list[int], size: int) -> None:
    ring = Ring(size)
    for value in values:
        ring.push(value)
    assert ring.values() == [float(v) for v in values[-size:]]
    assert len(ring) == min(len(values), size)


def test_own_time_is_the_step_without_waiting_for_others() -> None:
    node = NodeBook().need("w", False, 1)
    node.take(metrics(1, step_time_s=3.0, comm_time_s=0.4), 0.0, True)
    assert node.own_s == 2.6 and node.wait_s == 0.4
    node.take(metrics(2, step_time_s=3.0), 1.0, True)
    assert node.own_s == 3.0


def test_the_slowest_rank_of_a_node_counts() -> None:
    node = NodeBook().need("w", False, 1)
    for value in (2.0, 2.5, 2.2):
        node.take(metrics(1, step_time_s=value), 0.0, True)
    assert node.spark(10) == ((2.5,), (1.0,))


def test_pace_comes_from_the_log_clock_and_survives_one_pause() -> None:
    node = NodeBook().need("w", False, 1)
    time = 0.0
    for step in range(0, 200, 10):
        time += 30.0 + (600.0 if step == 150 else 0.0)
        node.take(metrics(step, time), 0.0, False)
    assert node.seconds_a_step() == 3.0


def test_many_steps_within_one_second_of_the_log_are_a_part_of_it_each() -> None:
    node = NodeBook().need("w", False, 1)
    for step in range(50):
        node.take(metrics(step, float(step // 5)), 0.0, False)
    assert [round(value or 0.0, 6) for value in (node.seconds_a_step(), node.own_s)] == [0.2, 0.2]


# ---------------------------------------------------------------- GPUs


def test_one_figure_a_node_gives_one_row_a_node() -> None:
    book = GpuBook()
    for i in (10, 2):
        record = metrics(1, gpu_memory_mb=70_000.0 + i, gpu_memory_total_mb=81_920.0)
        assert book.take(record, f"worker-{i}", 0.0)
    panel = book.panel(None, [], 1.0, {})
    assert panel.subject == "one row a node" and panel.origin == "from the log"
    assert [row.node for row in panel.rows] == ["worker-2", "worker-10"]


def test_many_gpus_show_those_of_the_chosen_or_worst_node_and_colour_what_is_full() -> None:
    book = GpuBook()
    for node in ("a", "b"):
        for gpu in range(2):
            record = Record(
                kind="gpu", source="x", gpu=gpu, values={"gpu_memory_mb": 78_500.0, "gpu_memory_total_mb": 81_920.0}
            )
            book.take(record, node, 0.0)
    assert book.panel(None, ["b", "a"], 1.0, {}).subject == "b"
    panel = book.panel("a", ["b", "a"], 1.0, {})
    assert panel.subject == "a" and [row.index for row in panel.rows] == [0, 1]
    assert panel.rows[0].health == "critical" and panel.rows[0].word == "96 %"


def test_no_gpu_figures_are_a_sentence() -> None:
    assert GpuBook().panel(None, [], 0.0, {}).sentence


# ---------------------------------------------------------------- learning rate


def test_a_warm_up_and_a_cosine_are_recognised() -> None:
    from math import cos, pi

    warm, told = WarmUp(), []
    xs, ys = [], []
    for step in range(0, 700, 10):
        rate = 5e-5 * step / 100 if step <= 100 else 5e-5 * 0.5 * (1 + cos(pi * (step - 100) / 900))
        xs.append(float(step))
        ys.append(rate)
        if warm.take(step, rate):
            told.append(step)
    assert told == [110] or (told and warm.steps == 100)
    assert len(told) == 1
    assert schedule_note(warm, xs, ys, 1000, "") == "cosine, 100 warm-up steps"
    assert schedule_note(warm, xs, [y * 0.8 for y in ys], 1000, "") == "100 warm-up steps"


def test_a_constant_rate_has_no_warm_up() -> None:
    warm = WarmUp()
    assert not any(warm.take(step, 1e-4) for step in range(100))
    assert schedule_note(warm, [], [], None, "") == ""


# ---------------------------------------------------------------- files


def test_the_newest_line_behind_a_hole_is_shown() -> None:
    file = SourceFile(1, "a.log", "/a.log", "a", FileParser("a.log"))
    file.keep_tail(b"step 1\n" + b"\0" * 60_000 + b"step 2\n", 65_536)
    assert file.last_line() == "step 2" and file.last_lines() == ["step 2"]
    file.keep_tail(b"\0" * 60_000, 65_536)
    assert file.last_line() == "step 2"


def test_what_is_shortened_says_so() -> None:
    from trainmon.session.wording import shortened

    assert shortened("as it is", 8) == "as it is"
    assert shortened("longer than that", 8) == "longer…"
    assert len(shortened("x" * 50, 20)) == 20
