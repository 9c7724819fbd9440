"""Records spread over several lines by a terminal, a pretty printer or a container runtime."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainmon.model import Record
from trainmon.parsing.parser import FileParser


def read(text: str, piece: int = 1 << 16) -> list[Record]:
    parser = FileParser("worker-0.log")
    data = text.encode()
    out: list[Record] = []
    for at in range(0, len(data), piece):
        out += parser.feed(data[at : at + piece], at)
    return out + parser.finish()


def wrapped(line: str, width: int) -> Iterator[str]:
    return (line[at : at + width] for at in range(0, len(line), width))


LINE = (
    "[01/02 10:00:{second:02d} d2.utils.events]:  eta: 0:02:30  iter: {step}  total_loss: {loss:.3f}  loss_cls: 0.2551  "
    "loss_box_reg: 0.531  time: 0.8395  data_time: 0.3512  lr: 0.00076  max_mem: 3242M"
)


@pytest.mark.parametrize("width", [90, 120, 145])
def test_a_copy_of_a_terminal(width: int) -> None:
    lines = [LINE.format(second=i, step=20 * i + 19, loss=7.5 - i / 8) for i in range(12)]
    records = read("\n".join(part for line in lines for part in wrapped(line, width)) + "\n")
    assert [r.values["step"] for r in records] == [20 * i + 19 for i in range(12)]
    known = records[-3:]
    assert [r.values["loss"] for r in known] == [7.5 - i / 8 for i in (9, 10, 11)]
    assert all(r.values["gpu_memory_mb"] == 3242.0 and r.values["learning_rate"] == 0.00076 for r in known)
    parts = len(list(wrapped(lines[0], width)))
    assert [r.line for r in records] == [1 + parts * i for i in range(12)]


def test_lines_that_are_whole_stay_so() -> None:
    records = read(
        "step: 1 loss: 2.5 lr: 0.1 and then it says more about speed\nnothing: 5\nstep: 2 loss: 2.4 lr: 0.1\n"
    )
    assert [(r.values["step"], r.line) for r in records] == [(1, 1), (2, 3)]


@pytest.mark.parametrize("indent", [1, 2, 4])
@pytest.mark.parametrize("front", ["", "[rank3]: ", "worker-7: "])
def test_pretty_json(indent: int, front: str) -> None:
    told = [{"step": i, "loss": 2.5 - i / 16, "optimizer": {"lr": 1e-4}} for i in range(6)]
    text = "\n".join(front + line for one in told for line in json.dumps(one, indent=indent).split("\n")) + "\n"
    records = [r for r in read(text) if r.kind == "metrics"]
    assert [(r.values["step"], r.values["loss"]) for r in records] == [(i, 2.5 - i / 16) for i in range(6)]
    assert {r.rank for r in records} == {3 if "rank" in front else None}


def test_pretty_dictionaries() -> None:
    text = "".join(
        f"Step {i} metrics:\n{{'loss': {2.5 - i / 16},\n 'grad_norm': 1.25,\n 'step': {i}}}\n" for i in range(5)
    )
    records = read(text)
    assert [(r.values["step"], r.values["loss"], r.values["grad_norm"]) for r in records] == [
        (i, 2.5 - i / 16, 1.25) for i in range(5)
    ]


def test_json_that_is_cut_short_is_no_part_of_what_follows() -> None:
    records = read('{"step": 1, "loss": 2.0}\n{"step": 2, "lo\n{"step": 3, "loss": 1.5}\n{"step": 4')
    assert [(r.kind, r.line) for r in records] == [("metrics", 1), ("quarantine", 2), ("metrics", 3), ("quarantine", 4)]


def test_an_object_that_never_ends_swallows_nothing() -> None:
    text = "{\n" + "2025-01-01 10:00:00 INFO ready\n" + "step=3 loss=2.0 lr=0.1\nstep=4 loss=2.0 lr=0.1\n"
    assert [r.values["step"] for r in read(text) if r.kind == "metrics"] == [3, 4]
    open_ended = "config {\n" + "".join(f"step={i} loss=2.0 lr=0.1\n" for i in range(400))
    assert [r.values["step"] for r in read(open_ended) if r.kind == "metrics"] == list(range(400))


def test_lines_that_a_container_runtime_cut() -> None:
    t = "2025-01-01T10:00:0%d.000000000Z stdout %s %s\n"
    whole = '{"step": 7, "loss": 2.0, "note": "a  b"}'
    text = t % (0, "P", whole[:11]) + t % (0, "P", whole[11:33]) + t % (0, "F", whole[33:])
    text += t % (1, "F", '{"step": 8, "loss": 1.5}')
    records = read(text)
    assert [(r.values["step"], r.values["loss"], r.line) for r in records] == [(7, 2.0, 1), (8, 1.5, 4)]


def test_what_waits_is_told_when_nothing_follows() -> None:
    parser = FileParser("a.log")
    data = b"step: 1 loss: 2.5 grad_norm: 0.25 time: 0.125 learning_rate:\n"
    assert parser.feed(data, 0) == []
    assert [r.values["step"] for r in parser.settle()] == [1]


@given(st.integers(min_value=1, max_value=80), st.integers(min_value=60, max_value=160))
def test_pieces_make_no_difference(piece: int, width: int) -> None:
    lines = [LINE.format(second=i, step=20 * i + 19, loss=7.5 - i / 8) for i in range(4)]
    text = "\n".join(part for line in lines for part in wrapped(line, width)) + "\n"
    assert read(text, piece) == read(text)
