"""The fallback: lines of programs that nobody told us of."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainmon.model import Record
from trainmon.parsing.parser import FileParser
from trainmon.parsing.shape_words import cut


def read(text: str, chunk: int = 0) -> list[Record]:
    parser, data, out = FileParser("x.log"), text.encode(), []
    for at in range(0, len(data), chunk or len(data)):
        out += parser.feed(data[at : at + (chunk or len(data))], at)
    return out + parser.finish()


def measured(text: str, chunk: int = 0) -> list[Record]:
    return [record for record in read(text, chunk) if record.kind in ("metrics", "eval")]


def test_a_program_whose_words_say_nothing_is_understood_by_how_its_numbers_behave() -> None:
    lines = [f"foo {i * 10} | bar={3.4 - i * 0.1:.3f} qux {i * i % 7}.5" for i in range(20)]
    records = measured("\n".join(lines) + "\n")
    assert [(r.line, r.values["step"], r.values["loss"]) for r in records] == [
        (i + 1, i * 10, pytest.approx(3.4 - i * 0.1)) for i in range(20)
    ]
    assert records[3].extra["qux"] == 2.5


def test_batches_count_within_their_epoch() -> None:
    lines = [
        f"Epoch {1 + i // 10}/5 Batch {i % 10 * 5}/50 Cost {3.4 - i * 0.01:.3f} [{12.5 + i % 4} it/s]"
        for i in range(30)
    ]
    records = measured("\n".join(lines))
    assert [r.values["step"] for r in records] == [i // 10 * 50 + i % 10 * 5 for i in range(30)]
    assert records[0].values["step_time_s"] == pytest.approx(1 / 12.5)
    assert {r.values["total_steps"] for r in records[10:]} == {250}
    assert records[29].values["loss"] == pytest.approx(3.11)


def test_values_of_the_training_and_of_the_test_on_one_line_stay_apart() -> None:
    lines = [f"round {i} Train Loss 0.{90 - i} Acc 0.{10 + i} | Test Loss 0.{95 - i} Acc 0.{31 + i}" for i in range(5)]
    records = measured("\n".join(lines))
    assert records[-1].values == {"step": 4, "loss": 0.86, "accuracy": 0.14, "eval_loss": 0.91, "eval_accuracy": 0.35}


def test_an_unnamed_counter_in_front_of_something_that_trainings_measure() -> None:
    records = measured("".join(f"[{i:05d}] cost={3.4 - i * 0.1:.3f} err {i % 7}.5\n" for i in range(12)))
    assert [(r.values["step"], r.values["loss"]) for r in records][:2] == [(0, 3.4), (1, 3.3)]


@pytest.mark.parametrize(
    "line",
    [
        "request {i} took {f} ms",
        "Downloaded {i} of 100 files, {f} MB/s",
        "In {y} the price of bread rose to {f} florins",
        "GET /api/{i} 200 {f}",
        "partition {i} offset {y} lag {f}",
        "layer {i} weight {f} bias {f}",
        "    x[{i}] = {f}",
        "chapter {i}: loss of {f} ships and their crews",
        "connection {i} from client: {f} s",
    ],
)
def test_what_counts_and_is_no_training_gives_nothing(line: str) -> None:
    chance = random.Random(1)
    text = "".join(line.format(i=i, y=1900 + i, f=f"{chance.uniform(0, 9):.2f}") + "\n" for i in range(60))
    assert not measured(text)


def test_three_lines_are_needed() -> None:
    assert not measured("gen 0: fitness 1.5\ngen 1: fitness 1.7\n")
    assert len(measured("gen 0: fitness 1.5\ngen 1: fitness 1.7\ngen 2: fitness 1.9\n")) == 3


def test_a_line_that_stands_still_is_no_curve() -> None:
    assert not measured("gen 0: fitness 1.5\n" * 50)


@given(st.text(max_size=300))
def test_any_text_is_cut_into_numbers_and_what_is_between(text: str) -> None:
    shape, values = cut(text)
    assert len(shape) == len(values) + 1


@settings(max_examples=40, deadline=None)
@given(
    names=st.lists(st.sampled_from(["alpha", "zeta", "gamma", "mu"]), min_size=1, max_size=3, unique=True),
    counter=st.sampled_from(["gen", "round", "tick", "update"]),
    equals=st.sampled_from([" ", "=", ": ", " = "]),
    between=st.sampled_from([" ", ", ", " | ", "  ", "; "]),
    seed=st.integers(0, 99),
    chunk=st.integers(1, 200),
)
def test_any_regular_program_is_read_whole(
    names: list[str], counter: str, equals: str, between: str, seed: int, chunk: int
) -> None:
    chance = random.Random(seed)
    rows = [[chance.uniform(0.1, 9) for _ in names] for _ in range(10)]
    lines = [
        between.join(
            [
                f"{counter}{equals}{i * 5}",
                f"loss{equals}{9 - i / 4}",
                *(f"{n}{equals}{v:.4f}" for n, v in zip(names, row, strict=True)),
            ]
        )
        for i, row in enumerate(rows)
    ]
    records = measured("\n".join(lines) + "\n", chunk)
    assert [r.values["step"] for r in records] == [i * 5 for i in range(10)]
    assert [r.values["loss"] for r in records] == [9 - i / 4 for i in range(10)]
    for record, row in zip(records, rows, strict=True):
        assert [float(v) for v in list(record.extra.values())[: len(row)]] == pytest.approx(row, abs=1e-4)
