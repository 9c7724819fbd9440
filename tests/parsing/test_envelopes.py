"""Lines inside of JSON envelopes, folded repeats, markup, and evaluations that name their step."""

from __future__ import annotations

import json

import pytest

from trainmon.model import Record
from trainmon.parsing.parser import FileParser

TIME = 1_733_047_200.0  # 2024-12-01 10:00 UTC
LINE = "step 30/1500 loss=2.5 lr=0.0005"


def read(text: str) -> list[Record]:
    parser = FileParser("run.log", mtime=TIME + 1.0)
    return parser.feed(text.encode(), 0) + parser.finish()


@pytest.mark.parametrize(
    "envelope",
    [
        {
            "jsonPayload": {"message": LINE, "levelname": "INFO"},
            "severity": "INFO",
            "timestamp": "2024-12-01T10:00:00Z",
        },
        {"textPayload": LINE, "severity": "INFO", "timestamp": "2024-12-01T10:00:00Z"},
        {"@timestamp": "2024-12-01T10:00:00Z", "@message": LINE},
        {"timestamp": "2024-12-01T10:00:00Z", "level": "info", "message": LINE},
        {"time": "2024-12-01T10:00:00Z", "level": "INFO", "msg": LINE, "hostname": "node-7"},
        {"MESSAGE": LINE, "_HOSTNAME": "node-7", "timestamp": "2024-12-01T10:00:00Z"},
        {"log": LINE + "\n", "stream": "stdout", "time": "2024-12-01T10:00:00Z"},
    ],
    ids=lambda envelope: next(iter(envelope)),
)
def test_a_line_in_an_envelope(envelope: dict[str, object]) -> None:
    (record,) = read(json.dumps(envelope) + "\n")
    assert record.kind == "metrics"
    assert record.values == {"step": 30, "total_steps": 1500, "loss": 2.5, "learning_rate": 0.0005}
    assert record.time == TIME
    if envelope.get("hostname"):
        assert record.node == "node-7"


def test_an_error_in_an_envelope_stays_one() -> None:
    (record,) = read('{"level": "ERROR", "message": "step 3 loss=2.0: worker lost"}\n')
    assert (record.kind, record.message) == ("error", "step 3 loss=2.0: worker lost")


def test_a_message_that_measures_nothing_is_no_record() -> None:
    assert read('{"level": "INFO", "message": "loading shard 3 of 9"}\n') == []


def test_ray_folds_repeats() -> None:
    tail = " [repeated 7x across cluster] (Ray deduplicates logs by default. Set RAY_DEDUP_LOGS=0 to disable.)"
    (record,) = read("(Worker pid=9, ip=10.0.0.3) {'loss': 2.5, 'step': 3}" + tail + "\n")
    assert (record.values["loss"], record.extra["repeated"], record.node) == (2.5, 7, "10.0.0.3")
    plain, other = read("(Worker pid=9) step=3 loss=2.0 lr=0.1\n(Worker pid=8) step=4 loss=2.0 lr=0.1\n")
    assert "repeated" not in plain.extra and "repeated" not in other.extra


def test_markup_that_nobody_rendered() -> None:
    text = "[09:00:00] [bold green]step 100/900[/bold green] loss=[red]3.25[/red] lr=[cyan]2e-04[/cyan] acc=[#ff00ff]0.5[/]\n"
    (record,) = read(text)
    assert record.values == {"step": 100, "total_steps": 900, "loss": 3.25, "learning_rate": 0.0002, "accuracy": 0.5}


@pytest.mark.parametrize(
    "line",
    [
        "eval at step 12000: val_loss=2.5, val_ppl=14.5",
        ">> Eval at step 12,000: val loss 2.5, perplexity 14.5",
        "INFO eval step 12000/20000 val_loss 2.5",
        "[eval @ 12000] val_loss=2.5",
        "Validation at iteration 12000 - val_loss: 2.5",
    ],
)
def test_evaluations_name_their_step(line: str) -> None:
    (record,) = read(line + "\n")
    assert (record.kind, record.values["step"], record.values["eval_loss"]) == ("eval", 12000, 2.5)


def test_a_summary_after_the_training_is_no_evaluation() -> None:
    assert read("***** eval metrics *****\n  eval_loss               =        nan\n") == []


def test_a_counter_that_begins_anew_in_each_epoch() -> None:
    text = "".join(f"epoch {e}/3, step {s}/40, loss 2.5, lr 0.1\n" for e in (1, 2, 3) for s in (20, 40))
    records = read(text)
    assert [r.values["step"] for r in records] == [20, 40, 60, 80, 100, 120]
    assert [r.values.get("total_steps") for r in records] == [None, None, 120, 120, 120, 120]


def test_a_counter_that_goes_on_over_the_epochs() -> None:
    text = "".join(f"epoch {e}/3, step {20 * i}/120, loss 2.5, lr 0.1\n" for i, e in enumerate((1, 1, 2, 2, 3, 3), 1))
    records = read(text)
    assert [r.values["step"] for r in records] == [20, 40, 60, 80, 100, 120]
    assert [r.values.get("total_steps") for r in records] == [None, None, 120, 120, 120, 120]


def test_lines_of_words_that_no_format_has() -> None:
    """Their own words become what they are known by, however many there are."""
    text = "".join(f"it {i}/900  ce {9 - i / 200:.3f}  kl 0.1  aux 0.01  eta 0h{i % 60:02d}m\n" for i in range(200))
    assert len(read(text)) == 200
