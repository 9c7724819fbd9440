"""Values and keys of a megabyte inside of JSON: with a search that goes back and forth they would take hours."""

from __future__ import annotations

import json

import pytest

from trainmon.parsing import names
from trainmon.parsing.json_engine import JsonEngine
from trainmon.parsing.values import quantity, seconds

SIZE = 900_000


VALUES = {
    "blanks": " " * SIZE + "x",
    "digits": "9" * SIZE,
    "minutes": "9" * SIZE + "m",
    "colons": "1:" * (SIZE // 2),
    "tensors": "tensor(" * (SIZE // 7),
}
KEYS = {"brackets": " ( ", "words": "a_", "numbers": "9 ", "evaluations": "eval_"}


@pytest.mark.parametrize("long", VALUES.values(), ids=list(VALUES))
@pytest.mark.parametrize("key", ["loss", "elapsed", "timestamp", "step", "gpu_mem", "node", "level"])
def test_a_long_value_leaves_the_rest_of_its_line(parse, key: str, long: str) -> None:
    found = {"step": 4, "loss": 2.5, "lr": 1e-4, key: long}
    after = json.dumps({"step": 5, "loss": 2.4})
    records = parse(f"{json.dumps(found)}\n{after}\n")
    assert records[-1].values["step"] == 5
    assert records[0].values.get("learning_rate") == 1e-4


@pytest.mark.parametrize("word", KEYS.values(), ids=list(KEYS))
def test_a_long_key_is_cut_and_not_kept(parse, word: str) -> None:
    long = word * (SIZE // len(word))
    (record,) = parse(json.dumps({"step": 4, "loss": 2.5, long: 7}) + "\n")
    assert (record.values["step"], record.values["loss"]) == (4, 2.5)
    assert all(len(name) <= 220 for name in (*record.values, *record.extra))


def test_a_megabyte_of_keys_makes_no_plan_that_stays() -> None:
    engine = JsonEngine(())
    many = {f"key_{i}": 1 for i in range(20_000)}
    engine._learn(tuple(many), many)
    engine._learn(("step", "loss"), {"step": 1, "loss": 2.0})
    assert list(engine._plans) == [("step", "loss")]


def test_long_text_is_the_number_that_it_begins_with() -> None:
    assert quantity(" " * SIZE + "12.5 GiB" + " " * SIZE) == (12.5, "GiB")
    assert seconds(" " * SIZE + "1:02:03") == 3723.0
    assert names.resolve("memory(GiB)" + " " * SIZE).name == names.resolve("memory(GiB)").name
