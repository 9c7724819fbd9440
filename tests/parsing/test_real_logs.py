"""Chosen real logs, cut short: what they must give."""

from __future__ import annotations

import math

import pytest


def kinds(records):
    return [r.kind for r in records]


def of(records, kind):
    return [r for r in records if r.kind == kind]


def test_hf_v4_that_diverges(parse):
    records = parse.log("hf_trainer_v4_nan.log")
    steps = of(records, "metrics")
    assert [r.values["step"] for r in steps] == list(range(1, 81))
    assert all(r.values["total_steps"] == 80 for r in steps)
    assert steps[0].values["loss"] == 4.8312
    assert steps[20].line == 21
    assert steps[20].values["loss"] == 0.0
    assert math.isnan(steps[20].values["grad_norm"])
    assert len(of(records, "eval")) == 2
    (end,) = of(records, "summary")
    assert "loss" not in end.values
    assert math.isclose(end.extra["train_loss"], 0.12086410522460937)
    assert not of(records, "error")


def test_hf_v5_values_are_strings_and_steps_stand_in_bars(parse):
    steps = of(parse.log("hf_trainer_v5_tqdm.log"), "metrics")
    assert len(steps) > 15
    assert [r.values["step"] for r in steps] == list(range(5, 5 * len(steps) + 1, 5))
    assert steps[0].values == {
        "loss": 4.996, "grad_norm": 1.132, "learning_rate": 0.0004, "epoch": 0.0625, "step": 5, "total_steps": 160,
    }  # fmt: skip
    assert steps[0].line == 104


def test_torchrun_tee(parse):
    records = parse.log("hf_torchrun_tee_crash.log")
    steps = of(records, "metrics")
    assert [(r.line, r.rank, r.values["step"]) for r in steps] == [
        (210, 0, 5), (213, 0, 10), (222, 0, 15), (224, 0, 20), (250, 0, 25),
    ]  # fmt: skip
    errors = {r.line: r for r in of(records, "error")}
    assert errors[249].rank == 1
    assert errors[249].code == "GENERIC_TRACEBACK"
    assert errors[249].message.startswith("RuntimeError: CUDA out of memory")
    assert errors[249].extra["first_line"] == 229
    assert errors[249].extra["at"].startswith("/workspace/run/hf_trainer.py:21")
    assert errors[291].rank == 0
    assert "Connection closed by peer" in errors[291].message
    assert "ChildFailedError" in errors[312].message


def test_ms_swift(parse):
    records = parse.log("ms_swift_logging.jsonl")
    assert kinds(records) == ["metrics"] * 11 + ["eval"] + ["metrics"] * 2 + ["summary"]
    first = records[0]
    assert first.format == "ms_swift"
    assert (first.values["step"], first.values["total_steps"]) == (1, 438)
    assert math.isclose(first.values["gpu_memory_mb"], 16353.28)
    assert math.isclose(first.values["step_time_s"], 1 / 0.157583)
    assert records[11].values["step"] == 100
    assert records[11].values["eval_loss"] == 0.15809415


def test_megatron(parse):
    records = parse.log("megatron_core_2025.log")
    steps = of(records, "metrics")
    assert [r.values["step"] for r in steps] == list(range(5, 5 * len(steps) + 1, 5))
    assert "loss" not in steps[0].values
    assert steps[0].values["loss_scale"] == 4294967296.0
    assert steps[1].values["tflops_per_gpu"] > 300
    assert steps[1].extra["load_balancing_loss"] > 1
    assert of(records, "gpu")[0].values["gpu_memory_mb"] > 1000
    evaluation = of(records, "eval")[0]
    assert evaluation.values["step"] == 100
    assert evaluation.values["eval_loss"] > 5
    assert not of(records, "error")


def test_structlog(parse):
    records = parse.log("structlog_json.log")
    assert records[-1].kind == "error"
    assert records[-1].message == "train_failed: ZeroDivisionError: division by zero"
    assert of(records, "eval")[0].values["eval_perplexity"] == 29788.99
    assert of(records, "metrics")[0].values["gpu_memory_mb"] == 62668.8


def test_logfmt(parse):
    records = parse.log("logfmt.log")
    assert kinds(records) == ["metrics"] * 40
    assert records[0].node == "node001"
    assert records[0].format == "logfmt"


def test_workers(parse):
    records = parse.log("causal_ecc_fault/worker-3.log")
    steps = of(records, "metrics")
    assert len(steps) >= 39
    assert {r.node for r in records} == {"worker-3"}
    assert steps[0].labels["trace_id"].startswith("trc-")
    assert set(steps[0].values) == {
        "step", "loss", "learning_rate", "grad_norm", "step_time_s", "data_time_s", "comm_time_s", "gpu_utilization", "gpu_memory_mb",
    }  # fmt: skip
    errors = of(records, "error")
    assert errors and all(r.level in ("ERROR", "FATAL") for r in errors)


def test_ranks_of_interleaved_tracebacks(parse):
    errors = of(parse.log("ddp4_dtype_rank3.log"), "error")
    (cause,) = [r for r in errors if "same dtype" in r.message]
    assert cause.rank == 3


def test_tensors_printed_as_they_are(parse):
    records = parse.log("custom_tensor_repr.log")
    assert all(r.kind == "metrics" for r in records)
    assert records[0].values["loss"] == 8.9685
    assert records[0].values["tokens_per_second"] == 1e6


@pytest.mark.parametrize(
    "name", ["dataset_text_with_error_words.log", "tensorflow_benign_e0000.log", "healthy_torchrun_exit0.log", "deepspeed_overflow.log",
             "trl_progress_bar_carriage_returns.log", "nginx_access.log"]
)  # fmt: skip
def test_noise_has_no_error(parse, name):
    records = parse.log(name)
    assert not of(records, "error")
    assert not of(records, "quarantine")


@pytest.mark.parametrize("name", ["nginx_access.log", "trl_progress_bar_carriage_returns.log"])
def test_look_alikes_give_no_curve(parse, name):
    assert not [r for r in parse.log(name) if r.kind in ("metrics", "eval")]
