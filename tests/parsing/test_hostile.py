"""Logs, agents' lines and tools' tables that are cut, flipped, doubled, glued: no fault, nothing unsafe, no dear line."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from unicodedata import category

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainmon.catalogue import load
from trainmon.model import Record
from trainmon.outputs.jsonl import to_json
from trainmon.parsing import times, values
from trainmon.parsing.clean import safe
from trainmon.parsing.parser import OURS, FileParser
from trainmon.parsing.prefix import peel, place_of
from trainmon.samples import (
    DiskSample,
    DriverSample,
    GpuProcess,
    GpuSample,
    HostSample,
    LinkSample,
    VolumeSample,
    to_object,
)

CATALOGUE = load()
FOLDER = Path(__file__).parent.parent / "logs"
LOGS = sorted(path for path in FOLDER.rglob("*") if path.suffix in (".log", ".jsonl"))
TOOLS = (FOLDER / "machine_tools.log").read_bytes().split(b"\n")
AGENT = [
    json.dumps(to_object(sample)).encode()
    for sample in (
        GpuSample("worker-3", 1, "GPU-1", 1.7e9, values={"gpu_temperature_c": 61.0}, missing={"fan_percent": "no fan"},
                  processes=(GpuProcess(7, 9.0, command="python é \x1b[31m"),), throttle=("power cap",), name="H100"),
        HostSample("worker-3", 1.7e9, values={"cpu_percent": 2.0}, disks=(DiskSample("sda", 3.0),),
                   volumes=(VolumeSample("/", used_mb=1.0),), links=(LinkSample("eth0"),)),
        DriverSample("worker-3", 1.7e9, "not loaded", "load \u202e it"),
    )
]  # fmt: skip
LINES = TOOLS + AGENT * 4 + [line for path in LOGS for line in path.read_bytes().split(b"\n")[:40]]
FRONTS = [
    b"",
    b"",
    b"",
    b"3: ",
    b"[default0]:",
    b"[rank3]: ",
    b"[pod/a/b] ",
    b"2025-04-05T10:00:00.1Z ",
    b"\x1b[32m",
    b"\r",
]
SCRAPS = [b"\n", b"\n\n", b"\r\n", b"\0", b"\x1b[", b"\xff", b"|", b"+--", b'"', b"{", b",", b"\t", b"9" * 40, b"1e999", b"ERR!",
          b"# gpu ", b"N/A", b"\\ud800", b"\xe2\x80\xae", b"\xc2\x9b", b"\xd9\xa3", b"\xc5\xbf", b'{"trainmon":"gpu/1",']  # fmt: skip


def parsed(raw: bytes, cuts: list[int], keep_log: bool = False) -> list[Record]:
    parser = FileParser("worker-3.log", classify=CATALOGUE, mtime=1.7e9, keep_log=keep_log)
    out: list[Record] = []
    at = 0
    for cut in [*sorted(cut % (len(raw) + 1) for cut in cuts), len(raw)]:
        out += parser.feed(raw[at:cut], at)
        at = cut
    out += parser.finish()
    assert harmless(parser.last_line)
    _ = parser.last_level, parser.last_time, parser.progress
    return out


def harmless(text: str) -> bool:
    return not any(category(sign) in ("Cc", "Cs") or sign in "\u202e\u2066\u061c" for sign in text)


def words(thing: object) -> list[str]:
    if isinstance(thing, str):
        return [thing]
    if isinstance(thing, dict):
        return [word for pair in thing.items() for part in pair for word in words(part)]
    return [word for part in thing for word in words(part)] if isinstance(thing, (list, tuple)) else []


def judged(raw: bytes, cuts: list[int], keep_log: bool) -> None:
    whole = parsed(raw, [], keep_log)
    assert [to_json(record) for record in parsed(raw, cuts, keep_log)] == [to_json(record) for record in whole]
    for record in whole:
        assert not (record.reason or "").startswith(OURS), record.reason
        said = [record.node, record.message, record.code, record.extra, record.labels, list(record.values)]
        if record.sample is not None:
            told = to_object(record.sample)
            said.append(told)
            assert math.isfinite(record.sample.time) and record.kind in ("gpu", "host")
            json.dumps(told, allow_nan=False)
        assert all(harmless(word) for word in words(said)), said


CUTS = st.lists(st.integers(0, 20_000), max_size=8)


@st.composite
def torn(draw: st.DrawFn) -> bytes:
    """Some lines of some logs in any order, each perhaps behind a label, perhaps cut, perhaps twice."""
    out = []
    start = draw(st.integers(0, len(LINES) - 1))
    for _ in range(draw(st.integers(1, 4))):
        run = LINES[start : start + draw(st.integers(1, 14))]
        front = draw(st.sampled_from(FRONTS))
        out += [front + line for line in run]
        start = draw(st.integers(0, len(LINES) - 1))
    raw = bytearray(b"\n".join(out) + draw(st.sampled_from([b"", b"\n", b"\r\n"])))
    for place, what in draw(st.lists(st.tuples(st.integers(0, 1 << 14), st.integers(0, 400)), max_size=12)):
        at = place % (len(raw) + 1)
        if what < len(SCRAPS):
            raw[at:at] = SCRAPS[what]
        elif what < 60:
            del raw[at : at + what]
        elif what < 100:
            raw[at:at] = raw[max(0, at - what) : at]
        elif at < len(raw):
            raw[at] = what % 256
    return bytes(raw)


@settings(max_examples=250, deadline=None)
@given(torn(), CUTS, st.booleans())
def test_torn_lines_in_any_chunks(raw: bytes, cuts: list[int], keep_log: bool) -> None:
    judged(raw, cuts, keep_log)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.sampled_from(LINES), max_size=12), CUTS)
def test_lines_inside_of_dockers_lines(lines: list[bytes], cuts: list[int]) -> None:
    raw = b"".join(
        json.dumps({"log": line.decode("utf-8", "replace") + "\n", "stream": "stdout", "time": "2026-05-01T08:00:00Z"}).encode()
        + b"\n"
        for line in lines
    )  # fmt: skip
    judged(raw, cuts, False)


@pytest.mark.parametrize("size", [1, 3, 61])
def test_tools_in_chunks_of_one_size(size: int) -> None:
    raw = b"\n".join(TOOLS)
    judged(raw, list(range(0, len(raw), size)), False)


def test_every_cut_of_the_tools_text() -> None:
    raw = b"\n".join(TOOLS)
    for end in range(0, len(raw), 29):
        for record in parsed(raw[:end], []):
            assert record.kind in ("gpu", "host", "metrics", "log"), (end, record)


# ---------------------------------------------------------------- long hostile lines

UNITS = [b" ", b"9", b"|", b"| ", b"- ", b"0.00 ", b", ", b"{", b'{"', b"[x", b"(", b"\\", b"a=1 ", b"a: 1 | ", b"%|", b"[default0]:",
         b"[rank1]: ", b"N/A ", b"# gpu ", b"NVIDIA-SMI ", b"avg-cpu: ", b"%util ", b"memory.used [MiB], ", b"'C, ", b'{"trainmon"',
         b"2025-01-01 ", b"10:00:00 ", b"Error: ", b"CUDA out of memory. ", b"model=", b"saving checkpoint ", b"a/", b"\x1b[", b"\x1b]",
         b"validation", b"test", b"evaluate ", b"epoch ", b"Step ", b"java.", b"A", b"worker-1: ", b"-a1", b"loss: ", b"1/", b"{'a': ",
         "第".encode(), b"[repeated ", b"[bold]", b"a_", b"10:00:00,", b"train ", b"scoation "]  # fmt: skip


@pytest.mark.parametrize("front", [b"", b"| ", b"step 1 loss ", b"ERROR "])
def test_the_cost_of_a_line_grows_as_its_length(front: bytes) -> None:
    """Ten times the length is never a hundred times the work: what grows so takes minutes here, not a second."""
    opened = b"\n".join(TOOLS) + b"\n"
    for unit in UNITS:
        parser = FileParser("a.log", classify=CATALOGUE, mtime=1.7e9, keep_log=True)
        parser.feed(opened, 0)
        line = front + unit * (200_000 // len(unit)) + b" loss 2\n"
        begun = time.process_time()
        parser.feed(line, len(opened))
        _ = parser.last_line, parser.last_level
        parser.finish()
        assert time.process_time() - begun < 10.0, unit


# ---------------------------------------------------------------- the small parts

ODD = st.text(st.characters(), max_size=60) | st.from_regex(r"[\d/.:,\- TZ+]{0,40}", fullmatch=True)
MTIMES = st.sampled_from([None, 0.0, 1.7e9, -1e9, -1e14, 1e14, 1e18, 1e300, math.inf, math.nan])
PIECES = ["[", "]", ": ", " ", "2025-11-30T10:00:00", "1130 10:00:00.1 77 a.py:3]", "W", "İ", "ſ", "[NeMo w ", "NCCL INFo", "[rank", "11/30 25:61:61",
          "Feb 30 99:99:99 host app[1]:", "[25:61:00]", "٣", "[pod/\u202ea/b]", "[worker-1:9]", "trace_id=a", "[I|x] >> ", "\x1f"]  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(ODD | st.lists(st.sampled_from(PIECES), max_size=8).map("".join), MTIMES)
def test_fronts_times_and_numbers_of_any_text(text: str, mtime: float | None) -> None:
    prefix = peel(text, mtime)
    assert 0 <= prefix.end <= len(text)
    for word in (prefix.node or "", *prefix.labels.values()):
        assert harmless(word)
    assert prefix.time is None or math.isfinite(prefix.time)
    for found in (
        times.iso(text),
        times.clock(text),
        values.measure(text, "memory"),
        values.seconds(text),
        values.simple(text),
    ):
        assert found is None or isinstance(found, (int, float))
    place_of(text)
    assert harmless(safe(text))


WORDS = sorted({word for path in LOGS for word in path.read_text("utf-8", "replace").split()[:400]})


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from(WORDS) | st.text(max_size=8) | st.sampled_from(
        ["CUDA", "out of memory", "NCCL", "Error:", "Xid", "Watchdog", "RuntimeError:", '"', "'", "\n", "Killed"]), max_size=20),
    st.sampled_from([None, "INFO", "WARN", "ERROR", "FATAL"]),
)  # fmt: skip
def test_the_catalogue_answers_to_any_words(parts: list[str], level: str | None) -> None:
    text = " ".join(parts)
    CATALOGUE.might_match(text.encode("utf-8", "replace"))
    hit = CATALOGUE.classify(text, level)
    assert hit is None or (hit.code.isupper() and hit.priority in (1, 2, 3))
