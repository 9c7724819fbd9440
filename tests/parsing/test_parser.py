"""What FileParser does with awkward bytes, live chunks, levels, tracebacks and file names."""

from __future__ import annotations

import math

import pytest

from trainmon.parsing.parser import FileParser
from trainmon.parsing.splitter import LIMIT

GOOD = b'{"step": 1, "loss": 2.5}\n'


def test_nan_is_not_lost(parse):
    records = parse('{"step": 1, "loss": NaN, "grad_norm": Infinity, "x": -Infinity}\n')
    assert math.isnan(records[0].values["loss"])
    assert records[0].values["grad_norm"] == math.inf
    assert records[0].extra["x"] == -math.inf


def test_invalid_utf8_is_replaced(parse):
    assert parse(b'{"step": 1, "loss": 2.5, "note": "\xff"}\n')[0].extra["note"] == "\ufffd"
    assert parse(b"[ERROR] \xff broken\n")[0].message == "\ufffd broken"


def test_crlf(parse):
    records = parse(b'{"step": 1, "loss": 2.5}\r\n[INFO] Step 2: loss = 1.5, lr = 0.1\r\n')
    assert [(r.line, r.values["step"]) for r in records] == [(1, 1), (2, 2)]


def test_codes_in_the_middle_of_words(parse):
    records = parse("\x1b[32mst\x1b[1mep\x1b[0m=4 lo\x1b[31mss\x1b[0m=\x1b[1m1.5\x1b[0m\n")
    assert records[0].values == {"step": 4, "loss": 1.5}


def test_holes_are_skipped_and_counted(parse):
    records = parse(b"\0" * 5000 + GOOD + GOOD)
    assert [r.offset for r in records] == [0, 5000 + len(GOOD)]
    assert parse.parser.nul_bytes == 5000


def test_a_hole_in_many_chunks_holds_no_memory():
    parser = FileParser("a.log")
    for i in range(64):
        parser.feed(b"\0" * 65536, i * 65536)
    assert parser._splitter.rest == b""
    assert [r.values["step"] for r in parser.feed(GOOD, 64 * 65536)] == [1]
    assert parser.nul_bytes == 64 * 65536


def test_a_line_of_ten_megabytes():
    parser = FileParser("a.log")
    out = parser.feed(GOOD, 0)
    at = len(GOOD)
    for chunk in [b'{"step": 2, "x": "', *[b"y" * 262_144] * 40, b'"}\n', GOOD]:
        out += parser.feed(chunk, at)
        at += len(chunk)
        assert len(parser._splitter.rest) <= LIMIT
    assert [r.kind for r in out] == ["metrics", "quarantine", "metrics"]
    assert out[1].reason == "longer than 1 MiB"
    assert len(out[1].message) == 500
    assert [r.line for r in out] == [1, 2, 3]
    assert parser.long_lines == 1


def test_a_first_line_of_ten_megabytes_is_no_silence():
    parser = FileParser("a.log")
    data = b'{"step": 1, "loss": 2.0, "x": "' + b"y" * 3_000_000 + b'"}\n'
    for at in range(0, len(data), 262_144):
        out = parser.feed(data[at : at + 262_144], at)
    assert [(r.kind, r.reason, r.line) for r in out] == [("quarantine", "longer than 1 MiB", 1)]
    assert parser.last_line.startswith('{"step": 1')


def test_the_last_line_is_shown_from_its_start():
    parser = FileParser("a.log")
    long = b'{"step": 2, ' + b", ".join(b'"m%d": 1.0' % i for i in range(2000)) + b"}"
    parser.feed(GOOD + long + b"\n", 0)
    assert parser.last_line.startswith('{"step": 2, "m0"')


def test_half_lines_wait(parse):
    parser = FileParser("a.log")
    assert parser.feed(GOOD[:10], 0) == []
    assert len(parser.feed(GOOD[10:], 10)) == 1
    assert parser.feed(b'{"step": 2, "loss": 1}', len(GOOD)) == []
    assert parser.last_line == '{"step": 2, "loss": 1}'
    assert parser.lines == 1
    assert [r.line for r in parser.finish()] == [2]


def test_a_jump_drops_the_half_line():
    parser = FileParser("a.log")
    parser.feed(b'{"step": 7, "lo', 0)
    assert [r.offset for r in parser.feed(GOOD, 5000)] == [5000]


def test_restart_begins_anew():
    parser = FileParser("a.log")
    parser.feed(GOOD * 3, 0)
    parser.restart(1)
    assert [(r.line, r.offset) for r in parser.feed(GOOD, 0)] == [(1, 0)]


def test_truncated_json_goes_to_quarantine(parse):
    records = parse(GOOD + b'{"step": 2, "loss"\n' + GOOD)
    assert [r.kind for r in records] == ["metrics", "quarantine", "metrics"]
    assert records[1].message == '{"step": 2, "loss"'
    assert parse.parser.quarantined == 1


def test_json_like_text_of_another_file_does_not(parse):
    assert parse('{"architectures\n{Epoch: 3\n{\n') == []


def test_nested_history_adds_no_records(parse):
    records = parse(
        '{"best": 1, "log_history": [{"loss": 1.0, "step": 1}, {"loss": 0.5, "step": 2}], "memory": 16.5}\n'
    )
    assert [r.kind for r in records] in ([], ["summary"])


def test_several_formats_in_one_file(parse):
    text = (
        '{"step": 1, "loss": 2.5}\n[INFO] Step 2: loss = 2.4, lr = 0.1\nstep=3 loss=2.3\n'
        " iteration 4/ 9 | elapsed time per iteration (ms): 5.0 | lm loss: 2.2 |\n"
    )
    records = parse(text)
    assert [(r.format, r.values["step"]) for r in records] == [
        ("json", 1), ("bracket_step", 2), ("key_value", 3), ("megatron", 4),
    ]  # fmt: skip


def test_a_step_may_go_back(parse):
    assert [r.values["step"] for r in parse("step=5 loss=1\nstep=6 loss=1\nstep=1 loss=1\n")] == [5, 6, 1]


def test_totals_of_banners_are_carried(parse):
    records = parse("Total optimization steps = 1,240\nstep=3 loss=1.5\n")
    assert records[0].values["total_steps"] == 1240
    assert parse.parser.total_steps == 1240


# ---------------------------------------------------------------- bars

DICT = b"{'loss': 1.5, 'learning_rate': 1e-4, 'epoch': 0.5}\n"
STALE = "\r  3%|▎ | 3/160 [00:00<00:03, 49.53it/s]\r          \r".encode()
FRESH = "\r  3%|▎ | 5/160 [00:00<00:03, 49.53it/s]".encode()


def test_the_bar_after_the_dictionary_counts():
    parser = FileParser("a.log")
    raw = STALE + DICT
    assert parser.feed(raw, 0) == []
    (record,) = parser.feed(FRESH, len(raw))  # not even its line has ended
    assert record.values["step"] == 5
    assert record.values["total_steps"] == 160
    assert record.line == 1
    assert parser.feed(b"\r", len(raw) + len(FRESH)) == []


def test_the_bar_tells_the_progress_between_two_dictionaries():
    parser = FileParser("a.log")
    assert parser.progress is None
    assert parser.feed(b"\r  0%|  | 2/160 [00:00<00:03, 4.5it/s]", 0) == []
    assert parser.progress == (2, 160)  # before the first report, and before the bar's line has ended
    parser.feed(b"\r  1%|  | 3/160 [00:00<00:03, 4.5it/s]\n", parser._expected)
    assert parser.progress == (3, 160)
    parser.feed(b"\r 40%|  | 2/5 [00:00<00:03, 4.5it/s]", parser._expected)
    assert parser.progress == (3, 160)  # an evaluation's bar is no progress
    parser.feed(b"\r  3%|  | 4/160 [00:00<00:03, 4.5it/s]", parser._expected)
    assert parser.progress == (4, 160)
    parser.restart(1)
    assert parser.progress is None


def test_a_bar_of_something_else_does_not_count():
    parser = FileParser("a.log")
    raw = (
        STALE
        + DICT
        + "\rMap:  50%|▎ | 80/160 [00:00<00:03, 49.53it/s]\r 25%|▎ | 1/4 [00:00<00:03, 49.53it/s]\r".encode()
    )
    assert parser.feed(raw, 0) == []
    assert parser.feed(FRESH + b"\r", len(raw))[0].values["step"] == 5


def test_settle_gives_what_is_held():
    parser = FileParser("a.log")
    parser.feed(STALE + DICT, 0)
    (record,) = parser.settle()
    assert record.values["loss"] == 1.5
    assert parser.settle() == []


def test_without_bars_nothing_waits():
    parser = FileParser("a.log")
    (record,) = parser.feed(DICT, 0)
    assert "step" not in record.values


def test_an_error_is_not_held_back():
    parser = FileParser("a.log")
    records = parser.feed(STALE + DICT + b"[ERROR] out of luck\n", 0)
    assert [r.kind for r in records] == ["metrics", "error"]


# ---------------------------------------------------------------- who, when, how bad


@pytest.mark.parametrize(
    "front, rank, local",
    [
        ("[rank3]: ", 3, None),
        ("[default3]:", 3, 3),
        ("3: ", 3, None),
        ("[default1]:[rank5]: ", 5, 1),
        ("[1,4]<stdout>:", 4, None),
    ],
)
def test_launcher_prefixes(parse, front, rank, local):
    (record,) = parse(f"{front}step=4 loss=1.5\n")
    assert (record.rank, record.local_rank) == (rank, local)


@pytest.mark.parametrize(
    "source, node, rank",
    [("worker-3.log", "worker-3", None), ("logs/rank_2.log", None, 2), ("node-1/rank3.log", "node-1", 3), ("worker-0/train.log", "worker-0", None),
     ("train.log", None, None)],
)  # fmt: skip
def test_names_of_files(parse, source, node, rank):
    (record,) = parse("step=4 loss=1.5\n", source=source)
    assert (record.node, record.rank) == (node, rank)


def test_slurm_job(parse):
    assert parse("step=4 loss=1.5\n", source="slurm-7421.out")[0].labels == {"job_id": "7421"}


def test_the_line_wins_over_the_name(parse):
    (record,) = parse("2025-04-05 10:00:00 [worker-7] [INFO] step=4 loss=1.5 rank=9\n", source="worker-3.log", node="x")
    assert (record.node, record.rank) == ("worker-7", 9)


def test_tags(parse):
    assert parse(GOOD, tags={"job_id": "7"})[0].labels == {"job_id": "7"}


def test_times_without_a_year_come_from_the_file(parse):
    (record,) = parse("11/30 20:37:00 - trainer - INFO - step=4 loss=1.5\n", mtime=1_764_540_000.0)
    assert record.time == 1_764_535_020.0
    assert record.extra["time_guess"] is True
    assert parse("11/30 20:37:00 - trainer - INFO - step=4 loss=1.5\n")[0].time is None


def test_levels(parse):
    text = "[INFO] all is well\n2025-04-05 10:00:00 WARNING — slow\n[ERROR] x=1.50 broke\n2025-04-05 10:00:00,1 - CRITICAL - gone\n"
    records = parse(text)
    assert [(r.kind, r.level, r.message, r.code, r.priority) for r in records] == [
        ("log", "WARN", "slow", None, None),
        ("error", "ERROR", "x=1.50 broke", "UNKNOWN_ERROR", 2),
        ("error", "FATAL", "gone", "UNKNOWN_ERROR", 1),
    ]
    assert [r.kind for r in parse(text, keep_log=True)] == ["log", "log", "error", "error"]


@pytest.mark.parametrize(
    "line",
    ["the error in step 3 was small", "eval_error: 0.1", "log_level=ERROR error_handling=1", "INFO errors=0 failed=0", "number of nan iterations:   0 |",
     "/a/b.py:141: FutureWarning: x is deprecated", 'INFO sample: "Traceback (most recent call last): is printed"', "LAUNCH INFO 2024 ---- ERROR LOG DETAIL ----"],
)  # fmt: skip
def test_words_are_no_errors(parse, line):
    assert [r for r in parse(line + "\n") if r.kind == "error"] == []


@pytest.mark.parametrize(
    "line, event",
    [("Saving model checkpoint to out/checkpoint-90", "checkpoint"), ("***** Running Evaluation *****", "eval_start"),
     ("***** Running training *****", "started"), ("INFO trainer: training finished, exited with code 0", "finished"),
     ("failed to save checkpoint", None), ("the training of dogs", None)],
)  # fmt: skip
def test_events(parse, line, event):
    assert [r.extra["event"] for r in parse(line + "\n")] == ([event] if event else [])


def test_one_traceback_is_one_error(parse):
    text = 'Traceback (most recent call last):\n  File "train.py", line 31, in main\n    step()\n    ^^^^^^\nValueError: bad value 1,234\nstep=4 loss=1.5\n'
    records = parse(text)
    assert [r.kind for r in records] == ["error", "metrics"]
    error = records[0]
    assert (error.line, error.code, error.message) == (5, "GENERIC_TRACEBACK", "ValueError: bad value 1,234")
    assert error.extra == {"first_line": 1, "at": "train.py:31 in main"}


def test_tracebacks_of_two_ranks_interleaved(parse):
    text = (
        "[rank0]: Traceback (most recent call last):\n[rank1]: Traceback (most recent call last):\n"
        '[rank0]:   File "a.py", line 1, in f\n[rank1]:   File "b.py", line 2, in g\n'
        "[rank1]: KeyError: 'x'\n[rank0]: torch.distributed.DistBackendError: gone\n"
    )
    assert [(r.rank, r.message) for r in parse(text)] == [
        (1, "KeyError: 'x'"),
        (0, "torch.distributed.DistBackendError: gone"),
    ]


def test_numbers_between_the_lines_of_a_traceback(parse):
    text = 'Traceback (most recent call last):\n{"step": 1, "loss": 2.5}\n  File "a.py", line 1, in f\nstep=2 loss=2\nOSError: gone\n'
    assert [r.kind for r in parse(text)] == ["metrics", "metrics", "error"]


class Known:
    def might_match(self, line: bytes) -> bool:
        return b"out of memory" in line

    def classify(self, text, level):
        class Hit:
            code, priority, title = "OOM", 1, "out of memory"

        return Hit if "out of memory" in text else None


def test_the_classifier_is_asked(parse):
    text = "some chatter\nkernel: out of memory: killed\n[ERROR] other\nTraceback (most recent call last):\n  x\nRuntimeError: out of memory\n"
    assert [(r.line, r.code, r.priority) for r in parse(text, classify=Known())] == [
        (2, "OOM", 1), (3, "UNKNOWN_ERROR", 2), (6, "OOM", 1),
    ]  # fmt: skip


def test_last_line_is_safe_and_resolved():
    parser = FileParser("a.log")
    parser.feed(b"2025-04-05 10:00:00 [ERROR] x\n" + "old\rnew \x1b[31mred\x1b[0m \x9b\u202etext".encode(), 0)
    assert parser.last_line == "new red \ufffdtext"
    parser.feed(b"\n2025-04-05 10:00:05 [WARNING] y\n\n", parser._expected)
    assert parser.last_line == "2025-04-05 10:00:05 [WARNING] y"
    assert parser.last_level == "WARN"
    assert parser.last_time == 1743847205.0


def test_unnumbered_parts(parse):
    assert [r.line for r in parse(GOOD, numbered=False)] == [0]


def test_a_traceback_goes_on_after_a_pause():
    parser = FileParser("a.log")
    first = b'Traceback (most recent call last):\n  File "a.py", line 1, in f\n'
    assert parser.feed(first, 0) == []
    (cut,) = parser.finish()
    assert cut.line == 1 and "cut off" in cut.message
    assert parser.finish() == []
    (whole,) = parser.feed(b"ValueError: late\n", len(first))
    assert (whole.line, whole.message) == (3, "ValueError: late")
