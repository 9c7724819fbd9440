"""UTF-16, byte order marks, GBK, and recordings of a terminal."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainmon.model import Record
from trainmon.parsing.clean import decode, strip_codes
from trainmon.parsing.parser import FileParser

LINES = [f"Epoch {i + 1}/9 - 训练 - step: {i * 10} - loss: {2.5 - i / 16} - lr: 0.001" for i in range(9)]
BARS = "\r\n".join(
    f"\r{n}/4 [{'=' * n}{'.' * (4 - n)}] - loss: 0.{n}\r\nstep: {n} loss: {n}.5 lr: 0.1" for n in range(1, 5)
)


def read(data: bytes, piece: int = 1 << 16, begin: int = 0) -> list[Record]:
    parser = FileParser("a.log")
    out: list[Record] = []
    for at in range(begin, len(data), piece):
        out += parser.feed(data[at : at + piece], at)
    return out + parser.finish()


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("name", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("marked", [True, False])
def test_utf_16(name: str, marked: bool, newline: str) -> None:
    mark = (codecs.BOM_UTF16_LE if name == "utf-16-le" else codecs.BOM_UTF16_BE) if marked else b""
    data = mark + (newline.join(LINES) + newline).encode(name)
    records = read(data)
    assert [(r.line, r.values["step"], r.values["loss"]) for r in records] == [
        (i + 1, 10 * i, 2.5 - i / 16) for i in range(9)
    ]
    for i, record in enumerate(records):
        assert data[record.offset :].decode(name).startswith(LINES[i]) or (i == 0 and record.offset == 0)


@given(st.integers(min_value=1, max_value=90))
def test_pieces_of_utf_16(piece: int) -> None:
    data = codecs.BOM_UTF16_LE + ("\r\n".join(LINES) + "\r\n" + BARS + "\r\n").encode("utf-16-le")
    assert read(data, max(piece, 64) if piece < 64 else piece) == read(data)


def test_the_end_of_a_file_of_utf_16() -> None:
    data = codecs.BOM_UTF16_LE + ("\n".join(LINES) + "\n").encode("utf-16-le")
    for begin in (200, 201, 311):
        records = read(data, begin=begin)
        assert records[-1].values["step"] == 80
        assert data[records[-1].offset :].decode("utf-16-le").startswith(LINES[8])


def test_a_mark_of_utf_8_is_no_text() -> None:
    records = read(codecs.BOM_UTF8 + b'{"step": 1, "loss": 2.0}\n{"step": 2, "loss": 1.0}\n')
    assert [(r.values["step"], r.line, r.offset) for r in records] == [(1, 1, 0), (2, 2, 28)]


def test_gbk() -> None:
    text = "".join(f"训练步数：{i}，损失：{2.5 - i / 16}，学习率：0.001\n" for i in range(5))
    assert [(r.values["step"], r.values["loss"]) for r in read(text.encode("gbk"))] == [
        (i, 2.5 - i / 16) for i in range(5)
    ]
    assert read(text.encode("gbk")) == [r for r, _ in zip(read(text.encode("gbk")), read(text.encode()), strict=True)]


def test_bytes_that_are_no_chinese_are_replaced() -> None:
    assert decode(b"caf\xe9 \xff ok") == "caf\ufffd \ufffd ok"
    assert decode("naïve — ok".encode("latin-1", "replace")).isprintable()


def test_a_recording_of_a_terminal_moves_the_cursor() -> None:
    assert strip_codes(b"\x1b[1mstep\x1b[0m\x1b[3C7\x1b[Closs") == b"step   7 loss"
