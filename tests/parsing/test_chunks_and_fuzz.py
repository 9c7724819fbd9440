"""The same bytes give the same records in whatever chunks they come, and no bytes raise."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainmon.catalogue import load
from trainmon.outputs.jsonl import to_json
from trainmon.parsing.parser import OURS, FileParser

LOGS = sorted(p for p in (Path(__file__).parent.parent / "logs").rglob("*") if p.suffix in (".log", ".jsonl"))
BITS = [
    b"\n", b"\r", b"\r\n", b"\0", b"\0\0\0", b"\x1b[32m", b"\x1b[0m", b"\x1b]0;x\x07", b"\x08", b"\xff\xfe", b"{", b"}", b'"', b"'", b": ", b"=",
    b'{"step": 1, "loss": 2.5}', b'{"step": 2, "loss": NaN', b"{'loss': 1.5, 'epoch': 0.5}", b" 12%|#  | 5/40 [00:00<00:02, 12.2it/s]",
    b"[rank3]: ", b"[default0]:", b"3: ", b"2025-04-05 10:00:00 ", b"11/30 20:37:00 ", b"[10:00:00] ", b"ERROR ", b"[INFO] ", b"Step 4: loss = 1.5, lr = 1e-5",
    b"Traceback (most recent call last):\n", b'  File "x.py", line 3, in f\n', b"ValueError: bad\n", b"step=4/90 loss=nan lr=[1e-5, 1e-5]",
    b" iteration 5/ 10 | elapsed time per iteration (ms): 3 | lm loss: 2.0 |", b"E1130 20:33:51.750000 30943 api.py:1002] failed",
    b"ts=2026-11-30T21:07:21Z level=error msg=oops", b"\xe6\x8d\x9f\xe5\xa4\xb1: 1.5", b"Total optimization steps = 40", b"1e999", b"-inf", b"9" * 400,
    b'{"a": {"loss": 1, "step": 1e400}}', b'{"log": "step=1 loss=2\\n", "stream": "stdout", "time": "2026-05-01T08:00:00.1Z"}',
]  # fmt: skip
CATALOGUE = load()


def records(raw: bytes, cuts: list[int]) -> list[bytes]:
    parser = FileParser("worker-3.log", classify=CATALOGUE, mtime=1.7e9)
    out = []
    at = 0
    for cut in [*sorted(c % (len(raw) + 1) for c in cuts), len(raw)]:
        out += parser.feed(raw[at:cut], at)
        at = cut
    out += parser.finish()
    assert parser.last_line == parser.last_line.strip("\r\n") and "\x1b" not in parser.last_line
    _ = parser.last_level, parser.last_time
    return [to_json(r) for r in out]


@settings(max_examples=250, deadline=None)
@given(
    st.lists(st.one_of(st.sampled_from(BITS), st.binary(max_size=12)), max_size=40),
    st.lists(st.integers(0, 10_000), max_size=8),
)
def test_any_bytes_in_any_chunks(parts, cuts):
    raw = b"".join(parts)
    assert records(raw, cuts) == records(raw, [])


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_mutated_real_lines(data):
    raw = data.draw(st.sampled_from(LOGS)).read_bytes()
    start = data.draw(st.integers(0, max(0, len(raw) - 3000)))
    piece = bytearray(raw[start : start + 3000])
    for place, value in data.draw(st.lists(st.tuples(st.integers(0, 2999), st.integers(0, 255)), max_size=25)):
        if place < len(piece):
            piece[place] = value
    cuts = data.draw(st.lists(st.integers(0, 3000), max_size=6))
    assert records(bytes(piece), cuts) == records(bytes(piece), [])


@pytest.mark.parametrize("path", LOGS, ids=lambda p: p.name)
@pytest.mark.parametrize("size", [7, 501])
def test_real_logs_in_small_chunks(path, size):
    raw = path.read_bytes()[:20_000]
    assert records(raw, list(range(size, len(raw), size))) == records(raw, [])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(BITS), max_size=40))
def test_places_are_true(parts):
    raw = b"".join(parts)
    parser = FileParser("a.log")
    for record in parser.feed(raw, 0) + parser.finish():
        assert record.line == raw.count(b"\n", 0, record.offset) + 1
        assert record.offset == 0 or raw[record.offset - 1 : record.offset] == b"\n"


@given(
    st.lists(
        st.one_of(
            st.from_regex(
                r"(\[rank[0-9]{1,30}\]: |\[[0-9]{1,30},[0-9]{1,30}\]<stdout>:|\[worker-1:[0-9]{1,30}\] )?[a-z]{0,9} (step|epoch|iteration)[ :=]{1,3}[0-9,.]{1,400} (loss|lr|elapsed)[ :=]{1,3}[0-9a-z,.:+-]{1,400}",
                fullmatch=True,
            ),
            st.from_regex(
                r"(Num update steps per epoch = |Num Epochs = |max_steps: |total steps = )[0-9,]{1,400}", fullmatch=True
            ),
            st.from_regex(
                r"[0-9]{1,400}%\|#| [0-9]{1,400}/[0-9]{1,400} \[[0-9:]{1,400}<[0-9:]{1,40}, [0-9.]{1,400}it/s\]",
                fullmatch=True,
            ),
            st.text(max_size=300),
        ),
        max_size=8,
    )
)
def test_numbers_of_any_length_are_no_fault(lines):
    parser = FileParser("rank7.log", keep_log=True, mtime=0.0)
    text = "\n".join(line.replace("0", "0" * 5000) for line in lines) + "\n"
    records = parser.feed(text.encode("utf-8", "replace"), 0) + parser.finish()
    assert not [record for record in records if (record.reason or "").startswith(OURS)]
    for record in records:
        to_json(record)


def test_a_fault_costs_one_line(monkeypatch):
    parser = FileParser("a.log")
    broken = type(parser)._plain

    def plain(self, data):
        if b"evil" in data:
            raise ZeroDivisionError
        broken(self, data)

    monkeypatch.setattr(type(parser), "_plain", plain)
    out = parser.feed(b"step 1 loss 2.0\nstep 2 loss evil\nstep 3 loss 1.0\n", 0)
    assert [(r.kind, r.line) for r in out] == [("metrics", 1), ("quarantine", 2), ("metrics", 3)]
    assert out[1].reason == f"{OURS} (ZeroDivisionError)"
