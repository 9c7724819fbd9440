"""What a followed file gives: history, news, replacements. Nothing sleeps for luck."""

from __future__ import annotations

import io
import os
from pathlib import Path

from trainmon.model import Ahead, CaughtUp, Data, Glimpse, Opened, Replaced, SourceState


def append(path: Path, data: bytes) -> None:
    with open(path, "ab") as file:
        file.write(data)


def test_short_file_is_opened_given_and_caught_up(tmp_path: Path, follow) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(b"one\ntwo\nhalf")
    _, sink = follow(log)
    sink.wait(lambda s: s.of(CaughtUp))
    kinds = [type(event) for event in sink.events if not isinstance(event, SourceState)]
    assert kinds == [Opened, Data, CaughtUp]
    opened = sink.of(Opened)[0]
    assert (opened.name, opened.path, opened.size, opened.joined) == (str(log), str(log), 12, False)
    append(log, b" line\nnext\n")
    sink.wait(lambda s: s.data() == b"one\ntwo\nhalf line\nnext\n")
    assert len(sink.of(CaughtUp)) == 1
    assert sink.word(str(log)) == "followed"


def test_bytes_pass_untouched(tmp_path: Path, follow) -> None:
    log = tmp_path / "odd.log"
    odd = b"a\r\nbar 1%\rbar 2%\r\n\xff\xfe invalid \xc3( utf-8\n\x1b[31mred\x1b[0m\n\x00\x00\x00\nend"
    log.write_bytes(odd)
    _, sink = follow(log)
    sink.wait(lambda s: s.data() == odd)


def test_hole_of_nul_bytes(tmp_path: Path, follow) -> None:
    """A log that was truncated under a writer that does not append: it begins with a hole."""
    log = tmp_path / "hole.log"
    with open(log, "wb") as file:
        file.seek(700_000)
        file.write(b"step 1\n")
    _, sink = follow(log)
    sink.wait(lambda s: s.of(CaughtUp))
    assert sink.data() == b"\0" * 700_000 + b"step 1\n"


def test_long_file_glimpse_history_ahead_and_meeting(tmp_path: Path, follow) -> None:
    log = tmp_path / "long.log"
    lines = b"".join(b"step %07d loss 1.25\n" % i for i in range(150_000))
    log.write_bytes(lines)
    _, sink = follow(log, accept=False)  # history has to wait
    sink.wait(lambda s: s.of(Glimpse))
    glimpse = sink.of(Glimpse)[0]
    assert lines.startswith(glimpse.head) and glimpse.head.endswith(b"\n") and len(glimpse.head) > 60_000
    assert lines.endswith(glimpse.tail) and glimpse.tail.startswith(b"step ") and len(glimpse.tail) > 250_000
    assert lines[glimpse.tail_offset :] == glimpse.tail and glimpse.size == len(lines)
    append(log, b"while history waits\n")
    sink.wait(lambda s: s.of(Ahead))
    ahead = sink.of(Ahead)[0]
    assert (ahead.offset, ahead.data) == (len(lines), b"while history waits\n")
    assert not sink.of(CaughtUp)
    assert len(sink.data()) <= 256 * 1024  # one block before the first refusal
    sink.accept = True
    sink.wait(lambda s: s.of(CaughtUp))
    assert sink.data() == lines + b"while history waits\n"
    assert max(len(event.data) for event in sink.of(Data)) <= 256 * 1024
    append(log, b"live\n")
    sink.wait(lambda s: s.data().endswith(b"live\n"))
    assert len(sink.of(Ahead)) == 1
    first = [type(event) for event in sink.events].index(Data)
    assert [type(event) for event in sink.events].index(Glimpse) < first


def test_glimpses_come_before_any_history_and_histories_take_turns(tmp_path: Path, follow) -> None:
    for name in "ab":
        (tmp_path / f"{name}.log").write_bytes(b"x" * 99 + b"\n" + (b"y" * 99 + b"\n") * 15_000)
    _, sink = follow(tmp_path / "a.log", tmp_path / "b.log")
    sink.wait(lambda s: len(s.of(CaughtUp)) == 2)
    kinds = [type(event) for event in sink.events]
    assert max(i for i, kind in enumerate(kinds) if kind is Glimpse) < kinds.index(Data)
    turns = [event.source for event in sink.of(Data)]
    assert turns[:4] == [0, 1, 0, 1]


def test_truncation_and_rewriting_in_place(tmp_path: Path, follow) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(b"first run, step 1\n")
    _, sink = follow(log)
    sink.wait(lambda s: s.of(CaughtUp))
    os.truncate(log, 0)
    sink.wait(lambda s: s.of(Replaced))
    append(log, b"second\n")
    sink.wait(lambda s: s.data() == b"second\n")
    assert (sink.of(Replaced)[0].reason, sink.of(Replaced)[0].lost) == ("truncated", True)
    with open(log, "r+b") as file:
        file.write(b"another text that is longer\n")
    sink.wait(lambda s: s.data() == b"another text that is longer\n")
    assert sink.of(Replaced)[1].reason == "rewritten"
    assert len(sink.of(CaughtUp)) == 3


def test_clean_rotation_loses_nothing(tmp_path: Path, follow) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(b"1\n")
    _, sink = follow(log)
    sink.wait(lambda s: s.of(CaughtUp))
    with open(log, "ab", buffering=0) as writer:
        writer.write(b"2\n")
        os.rename(log, tmp_path / "a.log.1")
        writer.write(b"3, after the rename\n")
        sink.wait(lambda s: s.data() == b"1\n2\n3, after the rename\n")
    log.write_bytes(b"4\n")
    sink.wait(lambda s: s.data() == b"4\n")
    assert [(event.reason, event.lost) for event in sink.of(Replaced)] == [("rotated", False)]


def test_deleted_and_created_again(tmp_path: Path, follow) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(b"1\n")
    _, sink = follow(log)
    sink.wait(lambda s: s.of(CaughtUp))
    log.unlink()
    sink.wait(lambda s: s.word(str(log)) == "gone")
    assert not sink.state(str(log)).bad
    log.write_bytes(b"2\n")
    sink.wait(lambda s: s.data() == b"2\n")
    sink.wait(lambda s: s.word(str(log)) == "followed")
    assert sink.of(Replaced)[0].reason == "re-created"


def test_longer_copy_put_in_place_goes_on(tmp_path: Path, follow) -> None:
    """rsync replaces a growing log by a longer copy: nothing is given twice."""
    log, copy = tmp_path / "a.log", tmp_path / ".a.log.tmp"
    text = b"".join(b"step %d\n" % i for i in range(50))
    log.write_bytes(text)
    _, sink = follow(log)
    sink.wait(lambda s: s.of(CaughtUp))
    copy.write_bytes(text + b"step 50\n")
    os.replace(copy, log)
    sink.wait(lambda s: s.data() == text + b"step 50\n")
    assert not sink.of(Replaced)


def test_empty_file_says_so_until_its_first_line(tmp_path: Path, follow) -> None:
    log = tmp_path / "a.log"
    log.touch()
    _, sink = follow(log)
    sink.wait(lambda s: s.word(str(log)) == "empty" and s.of(CaughtUp))
    append(log, b"1\n")
    sink.wait(lambda s: s.word(str(log)) == "followed" and s.data() == b"1\n")


def test_thousand_files_and_a_line_in_each(tmp_path: Path, follow) -> None:
    paths = [tmp_path / f"w-{i:04}.log" for i in range(1024)]
    for path in paths:
        path.write_bytes(b"1\n")
    _, sink = follow(tmp_path / "w-*.log")
    sink.wait(lambda s: len(s.of(CaughtUp)) == 1024)
    for path in paths:
        append(path, b"2\n")
    sink.wait(lambda s: sum(len(event.data) for event in s.of(Data)) == 4 * 1024)
    assert all(sink.data(source) == b"1\n2\n" for source in (0, 511, 1023))


def test_standard_input(follow) -> None:
    read, write = os.pipe()
    stream = os.fdopen(read, "rb")
    reader, sink = follow("-", stdin=stream)
    os.write(write, b"one\nha")
    sink.wait(lambda s: s.data() == b"one\nha" and s.of(CaughtUp))
    os.write(write, b"lf\n")
    sink.wait(lambda s: s.data() == b"one\nhalf\n")
    assert sink.word("-") == "followed" and not reader.closed
    os.close(write)
    sink.wait(lambda s: s.word("-") == "ended")
    sink.until(lambda: reader.closed)
    stream.close()


def test_standard_input_that_is_no_descriptor_and_larger_than_the_buffer(follow) -> None:
    text = b"".join(b"line %d\n" % i for i in range(1_000_000))
    _, sink = follow("-", stdin=io.BytesIO(text))
    sink.wait(lambda s: s.word("-") == "ended")
    assert sink.data() == text


def test_stop_closes_descriptors_and_sends_nothing_more(tmp_path: Path, follow) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(b"1\n")
    reader, sink = follow(log)
    sink.wait(lambda s: s.of(CaughtUp))
    reader.stop()
    assert reader.closed
    count = len(sink.events)
    append(log, b"2\n")
    assert len(sink.events) == count
