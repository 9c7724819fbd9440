"""A line says the same whatever launcher, container, clock or terminal stands around it, and however many of them do."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainmon.model import Record
from trainmon.parsing.formats import builtin
from trainmon.parsing.parser import FileParser

TIME = 1_733_047_200.0  # 2024-12-01 10:00 UTC


@dataclass(frozen=True)
class Wrapping:
    """Something around a line; `gives` is what it says of it."""

    name: str
    around: Callable[[str], str]
    gives: dict[str, Any]


def before(front: str) -> Callable[[str], str]:
    return lambda line: front + line


def docker(line: str) -> str:
    return json.dumps({"log": line + "\n", "stream": "stderr", "time": "2024-12-01T10:00:00.000000000Z"})


def coloured(line: str) -> str:
    """Colours in the middle of words, as a highlighter sets them."""
    return "".join(f"\x1b[3{i % 7}m{line[at : at + 9]}\x1b[0m" for i, at in enumerate(range(0, len(line), 9)))


OUTER = [
    Wrapping("docker", docker, {"time": TIME}),
    Wrapping("CRI", before("2024-12-01T10:00:00.000000000Z stdout F "), {"time": TIME}),
    Wrapping(
        "kubectl", before("[pod/train-0/main] 2024-12-01T10:00:00.000000000Z "), {"node": "train-0", "time": TIME}
    ),
    Wrapping("journald", before("Dec 01 10:00:00 node7 python[123]: "), {"node": "node7", "time": TIME}),
    Wrapping("pdsh", before("worker-1: "), {"node": "worker-1"}),
    Wrapping("SageMaker", before("algo-2-x7f2k | "), {"node": "algo-2-x7f2k"}),
    Wrapping("ts", before("Dec 01 10:00:00 "), {"time": TIME}),
]
INNER = [
    Wrapping("torchrun", before("[rank3]: "), {"rank": 3}),
    Wrapping("tee", before("[default2]:"), {"local_rank": 2}),
]
LAUNCHERS = [
    Wrapping("srun", before("5: "), {"rank": 5}),
    Wrapping("mpirun", before("[1,6]<stdout>:"), {"rank": 6}),
    Wrapping("Ray", before("(Worker pid=123, ip=10.0.0.7) "), {"node": "10.0.0.7"}),
]
CLOCKS = [
    Wrapping("logging", before("2024-12-01 10:00:00,000 - trainer - INFO - "), {"time": TIME, "level": "INFO"}),
    Wrapping(
        "loguru", before("2024-12-01 10:00:00.000 | INFO     | train:main:42 - "), {"time": TIME, "level": "INFO"}
    ),
    Wrapping("hydra", before("[2024-12-01 10:00:00,000][__main__][INFO] - "), {"time": TIME, "level": "INFO"}),
    Wrapping("glog", before("I1201 10:00:00.000000  1234 train.py:42] "), {"time": TIME, "level": "INFO"}),
    Wrapping("examples", before("12/01/2024 10:00:00 - INFO - __main__ - "), {"time": TIME, "level": "INFO"}),
    Wrapping("clock", before("[10:00:00] "), {"time": TIME}),
]
TERMINALS = [
    Wrapping("colours", coloured, {}),
    Wrapping("CRLF", lambda line: line + "\r", {}),
    Wrapping("redrawn", lambda line: f"\r{' ' * 20}\r{line}", {}),
]


def read(text: str) -> list[Record]:
    parser = FileParser("run.log", mtime=TIME + 1.0)
    return parser.feed(text.encode() + b"\n", 0) + parser.finish()


def told(record: Record) -> tuple[Any, ...]:
    extra = {key: value for key, value in record.extra.items() if key not in ("time_guess", "elapsed_s")}
    return record.kind, {k: repr(v) for k, v in record.values.items()}, {k: repr(v) for k, v in extra.items()}


def samples() -> list[str]:
    world = tomllib.loads((Path(__file__).parent / "world.toml").read_text("utf-8"))["line"]
    lines = [line["text"] for line in world if "none" not in line]
    lines += [s["line"] for f in builtin() for s in f.samples if s["gives"].get("kind") in ("metrics", "eval")]
    return [line for line in lines if "\n" not in line and len(read(line)) == 1]


SAMPLES = samples()
"""Each gives one record by itself."""


def place(record: Record) -> dict[str, Any]:
    return {name: getattr(record, name) for name in ("rank", "local_rank", "node", "time", "level")}


def check(line: str, wrappings: list[Wrapping]) -> None:
    (plain,) = read(line)
    text, said = line, [place(plain)]
    for wrapping in wrappings:
        text = wrapping.around(text)
        said.append(wrapping.gives)
    records = [record for record in read(text) if record.kind != "log"]
    assert len(records) == 1, text
    assert told(records[0]) == told(plain), text
    found = place(records[0])
    for name in ("rank", "local_rank", "node", "time", "level"):
        wanted = [one[name] for one in said if one.get(name) is not None]
        assert found[name] in wanted or (not wanted and found[name] is None) or found["local_rank"] == found[name], (
            name,
            found[name],
            text,
        )


@pytest.mark.parametrize(
    "wrapping", [*OUTER, *LAUNCHERS, *INNER, *CLOCKS, *TERMINALS], ids=lambda wrapping: wrapping.name
)
@pytest.mark.parametrize("line", SAMPLES, ids=[f"{i}" for i in range(len(SAMPLES))])
def test_one(line: str, wrapping: Wrapping) -> None:
    check(line, [wrapping])


@settings(max_examples=300)
@given(
    st.sampled_from(SAMPLES),
    st.tuples(
        st.lists(st.sampled_from(CLOCKS), max_size=1),
        st.lists(st.sampled_from(INNER), max_size=1),
        st.lists(st.sampled_from(LAUNCHERS), max_size=1),
        st.lists(st.sampled_from(TERMINALS[:1]), max_size=1),
        st.lists(st.sampled_from(OUTER), max_size=1),
        st.lists(st.sampled_from(TERMINALS[1:]), max_size=1),
    ),
)
def test_several(line: str, around: tuple[list[Wrapping], ...]) -> None:
    if read(line)[0].time is not None:  # no program has two clocks of its own
        around = ([], *around[1:])
    check(line, [wrapping for layer in around for wrapping in layer])
