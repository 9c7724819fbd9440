"""Values, times, names, cleaning, prefixes and JSON lines, one by one."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainmon.model import Record
from trainmon.outputs.jsonl import rfc3339, to_json
from trainmon.parsing import names, times, values
from trainmon.parsing.clean import safe, shown, strip_codes
from trainmon.parsing.prefix import peel


@pytest.mark.parametrize(
    "text, number, unit",
    [("1,234", 1234.0, ""), ("12.3k", 12.3, "k"), ("9.46GiB(64.99%)", 9.46, "GiB"), ("tensor(2.5, device='cuda:0')", 2.5, ""), ("[8e-06, 8e-06]", 8e-06, ""),
     ("37.1%", 37.1, "%"), ("51,730 tok/s", 51730.0, "tok/s"), ("-inf", -math.inf, ""), ("1.5e-4,", 1.5e-4, "")],
)  # fmt: skip
def test_quantities(text, number, unit):
    assert values.quantity(text) == (number, unit)


@pytest.mark.parametrize("text", ["info", "nancy", "", "x", "infrastructure", "N/A"])
def test_no_quantities(text):
    assert values.quantity(text) is None


@pytest.mark.parametrize(
    "text, dimension, want",
    [("96ms", "time", 0.096), ("2 min", "time", 120.0), ("9GiB", "memory", 9216.0), ("433M", "memory", 433.0), ("1.5M", "count", 1.5e6), ("37%", "percent", 37.0)],
)  # fmt: skip
def test_measures(text, dimension, want):
    assert values.measure(text, dimension) == pytest.approx(want)


@pytest.mark.parametrize(
    "text, want",
    [
        ("1:02:03", 3723.0),
        ("1h 2m 3s", 3723.0),
        ("51s", 51.0),
        ("2 days, 1:00:00", 176400.0),
        ("473ms", 0.473),
        ("x", None),
    ],
)
def test_durations(text, want):
    assert values.seconds(text) == (want if want is None else pytest.approx(want))


@given(st.text(max_size=40))
def test_values_never_raise(text):
    values.quantity(text)
    values.seconds(text)
    values.simple(text)
    times.iso(text)
    names.resolve(text)
    peel(text, 1e9)


@pytest.mark.parametrize(
    "text, want",
    [("2025-04-05T10:00:00Z", 1743847200.0), ("2025-04-05 10:00:00,250", 1743847200.25), ("2025/04/05 10:00:00", 1743847200.0),
     ("2025-04-05T12:00:00+02:00", 1743847200.0), ("2025-04-05T10:00:00.123456789Z", 1743847200.123456), ("2025-13-05 10:00:00", None), ("20250405", None)],
)  # fmt: skip
def test_times(text, want):
    assert times.iso(text) == want


@pytest.mark.parametrize("number", [1743847200, 1743847200_000, 1743847200_000_000, 1743847200_000_000_000])
def test_unix_times(number):
    assert times.epoch(number) == pytest.approx(1743847200.0)


def test_no_unix_time():
    assert times.epoch(12.0) is None


def test_a_day_without_year_is_never_after_the_file():
    december = times.without_year(12, 31, 0.0, 1_735_700_000.0)  # the file is of 2025-01-01
    assert december == 1_735_603_200.0


@pytest.mark.parametrize(
    "key, name, factor",
    [("lr", "learning_rate", 1.0), ("gpu_mem", "gpu_memory_mb", 1.0), ("GpuMemory", "gpu_memory_mb", 1.0), ("memory(GiB)", "gpu_memory_mb", 1024.0),
     ("gpu_mem_gb", "gpu_memory_mb", 1024.0), ("elapsed time per iteration (ms)", "step_time_s", 1e-3), ("step_time_ms", "step_time_s", 1e-3),
     ("lm loss", "loss", 1.0), ("lm-loss", "loss", 1.0), ("train/loss", "loss", 1.0), ("tok/s", "tokens_per_second", 1.0), ("val_loss", "eval_loss", 1.0),
     ("test_acc", "eval_accuracy", 1.0), ("eval/ppl", "eval_perplexity", 1.0), ("throughput per GPU (TFLOP/s/GPU)", "tflops_per_gpu", 1.0),
     ("memory/max_mem_active(gib)", "gpu_memory_mb", 1024.0), ("Grad Norm", "grad_norm", 1.0), ("total optimization steps", "total_steps", 1.0),
     ("my-Own metric", "my_own_metric", 1.0)],
)  # fmt: skip
def test_spellings(key, name, factor):
    slot = names.resolve(key)
    assert (slot.name, slot.factor) == (name, factor)


def test_every_spelling_resolves_to_its_field():
    for word, (name, _) in names._TABLE.items():
        assert names.resolve(word).name == name, word


def test_memory_without_a_unit(parse):
    def memory(value):
        return parse(f'{{"step": 1, "loss": 1.0, "memory": {value}}}\n')[0].values["gpu_memory_mb"]

    assert memory(17.5e9) == pytest.approx(17.5e9 / 2**20)
    assert memory(12.5) == 12800.0
    assert memory(60928) == 60928.0


def test_the_better_spelling_wins(parse):
    (record,) = parse('{"loss_avg": 2.0, "global_step": 9, "loss": 1.5, "step": 3}\n')
    assert record.values == {"loss": 1.5, "step": 3}
    assert record.extra == {"loss_avg": 2.0, "global_step": 9}


def test_missing_values_are_left_out(parse):
    (record,) = parse('{"step": 4, "loss": 1.5, "mfu": "N/A", "grad_norm": null, "accuracy": ""}\n')
    assert record.values == {"step": 4, "loss": 1.5}


@given(st.text())
def test_safe_text_has_no_controls(text):
    shown_text = safe(text)
    assert not any(ord(c) < 32 or 0x7F <= ord(c) < 0xA0 or 0x202A <= ord(c) <= 0x202E for c in shown_text)


@given(st.binary())
def test_shown_never_raises(data):
    assert "\x1b" not in shown(data)
    assert strip_codes(data).count(b"\n") == data.count(b"\n")


def test_codes_of_every_kind_go():
    assert strip_codes(b"a\x1b[1;31mb\x1b]0;title\x07c\x1b(Bd\x1b[Ae\x1b") == b"abcde"


@pytest.mark.parametrize(
    "line, message, level",
    [("[INFO|trainer.py:1618] 2026-11-30 20:27:22,386 >> ***** Running", "***** Running", "INFO"),
     ("W1130 20:33:51.434000 30943 torch/run.py:1028] Sending", "Sending", "WARN"), ("[rank2]:[E1130 20:33:45.6 ProcessGroupNCCL.cpp:616] [Rank 2] W", "W", "ERROR"),
     ("2025-04-05 10:00:00 INFO — message", "message", "INFO"), ("2026-05-18 16:04:46,338 - root - INFO - step: 14", "step: 14", "INFO"),
     ("srun: error: node01: task 3: Killed", "srun: error: node01: task 3: Killed", "ERROR"), ("error in the loop", "error in the loop", None),
     ("[2023-04-18 02:03:40,386] [INFO] [logging.py:96:log_dist] [Rank 0] step=1", "step=1", "INFO"), ("2025-04-05 10:00:00 -3.4 degrees", "-3.4 degrees", None),
     ("2026-11-30 21:07:20.705 | INFO     | __main__:<module>:12 - step 7", "step 7", "INFO")],
)  # fmt: skip
def test_prefixes(line, message, level):
    prefix = peel(line, 1.79e9)
    assert (line[prefix.end :], prefix.level) == (message, level)


def test_json_lines():
    record = Record("metrics", "a.log", 3, 40, 1743847200.0626, "worker-1", 2, level="INFO", format="json")
    record.values.update({"step": 4, "loss": math.nan, "grad_norm": -math.inf})
    record.extra.update({"x": math.inf, "time_guess": True})
    record.labels["job_id"] = "7"
    assert json.loads(to_json(record)) == {
        "kind": "metrics", "source": "a.log", "line": 3, "offset": 40, "time": "2025-04-05T10:00:00.063Z", "node": "worker-1", "rank": 2,
        "job_id": "7", "level": "INFO", "format": "json", "step": 4, "loss": "nan", "grad_norm": "-inf", "extra": {"x": "inf", "time_guess": True},
    }  # fmt: skip


def test_times_beyond_the_calendar_are_left_out():
    assert rfc3339(1e20) is None
    assert rfc3339(-1.0) == "1969-12-31T23:59:59.000Z"
