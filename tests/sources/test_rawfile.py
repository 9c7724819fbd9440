"""Random access to a raw log: lines, numbers and search agree with a plain reading of the whole file."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trainmon.sources import lineindex, rawfile, seek
from trainmon.sources.rawfile import RawLog

ODD = [b"", b"a", b"step 1 loss 2.5", b"x" * 70, b"\xff\xfe", b"bar 1%\rbar 2%", b"\0\0", b"needle", b"need"]


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of a few bytes, so that every border is met."""
    monkeypatch.setattr(rawfile, "_BLOCK", 16)
    monkeypatch.setattr(rawfile, "SHOWN", 24)
    monkeypatch.setattr(seek, "LITERAL_BLOCK", 16)
    monkeypatch.setattr(seek, "PATTERN_BLOCK", 16)
    monkeypatch.setattr(lineindex, "STEP", 32)
    monkeypatch.setattr(lineindex, "SLICE", 96)
    monkeypatch.setattr(lineindex, "_BLOCK", 48)


def plain_lines(content: bytes) -> list[tuple[int, bytes]]:
    lines, at = [], 0
    for line in content.split(b"\n"):
        lines.append((at, line))
        at += len(line) + 1
    if not lines[-1][1]:
        lines.pop()
    return lines


CONTENT = st.lists(st.sampled_from(ODD), max_size=14).flatmap(
    lambda lines: st.sampled_from([b"\n".join(lines), b"\n".join(lines) + b"\n"])
)
RELAXED = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@RELAXED
@given(content=CONTENT, data=st.data())
def test_lines_and_numbers(content: bytes, data, small_blocks, tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(content)
    wanted = plain_lines(content)
    offset = data.draw(st.integers(0, len(content)))
    count = data.draw(st.integers(1, 6))
    index = data.draw(st.booleans())

    async def check() -> None:
        async with RawLog(str(path)) as log:
            if index:
                await log.start_index()
                assert log.indexed == 1.0
                assert log.lines == len(wanted)
            here = [i for i, (at, line) in enumerate(wanted) if at <= offset <= at + len(line)]
            lines = await log.lines_at(offset, count)
            first = here[0] if here else len(wanted)
            assert [line.offset for line in lines] == [at for at, _ in wanted[first : first + count]]
            for line, (i, (at, text)) in zip(lines, list(enumerate(wanted))[first:], strict=False):
                assert line.data == text[:24]
                assert line.length == len(text)
                assert line.cut == (len(text) > 24)
                assert line.end == min(at + len(text) + 1, len(content))
                assert line.complete == (at + len(text) < len(content))
                assert line.number == (i + 1 if index or line.number is not None else None)
            before = await log.lines_before(offset, count)
            stop = first if offset < len(content) else len(wanted)
            assert [line.offset for line in before] == [at for at, _ in wanted[max(0, stop - count) : stop]]
            if index:
                assert [line.number for line in before] == list(range(max(0, stop - count) + 1, stop + 1))
                for i, (at, text) in enumerate(wanted):
                    assert await log.line_of(at) == await log.line_of(at + len(text)) == i + 1

    asyncio.run(check())


@RELAXED
@given(content=CONTENT, number=st.integers(-1, 20))
def test_goto_line(content: bytes, number: int, small_blocks, tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(content)
    wanted = plain_lines(content) or [(0, b"")]

    async def check() -> None:
        async with RawLog(str(path)) as log:
            assert await log.goto_line(number) == wanted[min(max(number, 1), len(wanted)) - 1][0]

    asyncio.run(check())


@RELAXED
@given(
    content=CONTENT,
    data=st.data(),
    what=st.sampled_from(
        [b"needle", b"e", b"1 l", b"zz", re.compile(rb"e+"), re.compile(rb"^s\w+ \d"), re.compile(rb"x*$")]
    ),
    forward=st.booleans(),
)
def test_search_agrees_with_a_whole_reading(content: bytes, data, what, forward, small_blocks, tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(content)
    start = data.draw(st.integers(0, len(content)))
    if isinstance(what, bytes):
        places = [(i, len(what)) for i in range(len(content)) if content.startswith(what, i)]
        places = [place for place in places if (place[0] >= start if forward else place[0] < start)]
    else:
        # From the start of a line, as the eye does; forward from `start` on.
        places = []
        for at, line in plain_lines(content):
            origin = max(0, start - at) if forward else 0
            matches = what.finditer(line, min(origin, len(line))) if at + len(line) >= start or not forward else ()
            places += [(at + m.start(), m.end() - m.start()) for m in matches if m.end() > m.start()]
        places = [place for place in places if (place[0] >= start if forward else place[0] < start)]
    wanted = (places[0] if forward else places[-1]) if places else None

    async def check() -> None:
        async with RawLog(str(path)) as log:
            match = await log.search(what, start, forward)
            assert (None if match is None else (match.offset, match.length)) == wanted
            if match is not None:
                assert match.line == content.rfind(b"\n", 0, match.offset) + 1

    asyncio.run(check())


async def test_ignoring_case(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"one\nCUDA Error\nthree\n")
    async with RawLog(str(path)) as log:
        assert await log.search(b"cuda error", 0) is None
        match = await log.search(b"cuda error", 0, ignore_case=True)
        assert match is not None and match.offset == 4


async def test_crlf_is_no_part_of_a_line(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"one\r\ntwo\r\n")
    async with RawLog(str(path)) as log:
        assert [line.data for line in await log.lines_at(0, 5)] == [b"one", b"two"]


async def test_line_of_ten_megabytes_is_cut_and_said(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"before\n" + b"x" * 10_000_000 + b"\nafter\n")
    async with RawLog(str(path)) as log:
        lines = await log.lines_at(0, 3)
        assert [line.length for line in lines] == [6, 10_000_000, 5]
        assert [line.cut for line in lines] == [False, True, False]
        assert len(lines[1].data) == rawfile.SHOWN
        assert [line.offset for line in await log.lines_at(5_000_000, 1)] == [7]
        assert [line.length for line in await log.lines_before(log.size, 2)] == [10_000_000, 5]


async def test_growth_truncation_and_replacement_while_open(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"one\n")
    async with RawLog(str(path)) as log:
        await log.start_index()
        assert await log.refresh() == "same"
        with open(path, "ab") as file:
            file.write(b"two\nhalf")
        assert await log.refresh() == "grown"
        await log.start_index()
        assert log.lines == 3
        assert [line.complete for line in await log.lines_before(log.size, 9)] == [True, True, False]
        path.write_bytes(b"a")
        assert await log.refresh() == "truncated"
        assert [line.data for line in await log.lines_at(0, 9)] == [b"a"]
        with open(path, "r+b") as file:
            file.write(b"bcdef\n")
        assert await log.refresh() == "truncated"
        os.rename(path, tmp_path / "old")
        assert await log.refresh() == "gone"
        path.write_bytes(b"another\n")
        assert await log.refresh() == "replaced"
        assert [line.data for line in await log.lines_at(0, 9)] == [b"bcdef"]
        await log.reopen()
        assert [line.data for line in await log.lines_at(0, 9)] == [b"another"]
        await log.start_index()
        assert log.lines == 1


async def test_missing_file_raises_and_may_come_later(tmp_path: Path) -> None:
    log = RawLog(str(tmp_path / "a.log"))
    with pytest.raises(FileNotFoundError):
        await log.lines_at(0, 1)
    (tmp_path / "a.log").write_bytes(b"here\n")
    assert [line.data for line in await log.lines_at(0, 1)] == [b"here"]
    log.close()
    with pytest.raises(OSError, match="closed"):
        await log.lines_at(0, 1)


async def test_progress_and_cancelling(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(seek, "LITERAL_BLOCK", 64)
    monkeypatch.setattr(rawfile, "_PROGRESS_S", 0.0)
    path = tmp_path / "a.log"
    path.write_bytes(b"x" * 100_000)
    async with RawLog(str(path)) as log:
        shares: list[float] = []
        assert await log.search(b"needle", 0, progress=shares.append) is None
        await asyncio.sleep(0)
        assert shares == sorted(shares) and shares[-1] == 1.0 and len(shares) > 100
        asked: list[int] = []

        def cancel() -> bool:
            asked.append(1)
            return len(asked) >= 3

        assert await log.search(b"needle", 0, cancel=cancel) is None
        assert len(asked) == 3


async def test_cancelled_task_ends_its_search(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(seek, "LITERAL_BLOCK", 8)
    path = tmp_path / "a.log"
    path.write_bytes(b"x" * 1_000_000)
    reads: list[int] = []
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()
    real = os.pread

    def counted(fd: int, size: int, offset: int) -> bytes:
        reads.append(offset)
        if len(reads) == 50:
            loop.call_soon_threadsafe(begun.set)
        return real(fd, size, offset)

    async with RawLog(str(path)) as log:
        monkeypatch.setattr(os, "pread", counted)
        task = asyncio.create_task(log.search(b"needle", 0))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await loop.shutdown_default_executor()  # waits for the worker: it must have ended early
        assert len(reads) < 125_000


async def test_descriptor_is_let_go(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"x\n")
    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("needs /proc to count descriptors")
    async with RawLog(str(path)) as log:
        await log.lines_at(0, 1)
        held = [fd for fd in os.listdir("/proc/self/fd") if _target(fd) == str(path)]
        assert len(held) == 1
    del log
    await asyncio.get_running_loop().shutdown_default_executor()  # its worker held the last call
    end = time.monotonic() + 60
    while [fd for fd in os.listdir("/proc/self/fd") if _target(fd) == str(path)]:
        assert time.monotonic() < end
        await asyncio.sleep(0.01)  # it is closed aside


def _target(fd: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return ""


def test_a_log_that_only_the_interpreters_end_lets_go_of_does_not_hold_it_up(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("step 1\n")
    script = (
        "import sys\n"
        "from trainmon.sources.rawfile import _Handle\n"
        "handle = _Handle(sys.argv[1])\n"
        "handle.itself = handle\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(log)], timeout=60, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
