"""Records as tables: the same columns for everybody, whatever a record holds, and files that appear whole."""

from __future__ import annotations

import csv
import io
import math
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainmon.errors import SourceError
from trainmon.model import Record
from trainmon.outputs import table
from trainmon.outputs.csv import CsvWriter
from trainmon.outputs.jsonl import to_json
from trainmon.outputs.table import Columns, Spool, fixed_columns, row_of
from trainmon.outputs.whole import WholeFile

NAMES = st.text(alphabet="abcXY_0/é\udc80", min_size=1, max_size=6)
VALUES = st.one_of(
    st.integers(-(2**70), 2**70), st.floats(), st.booleans(), st.text(max_size=8), st.just("a\udc80\n,\"'\x1b[2J")
)


@st.composite
def records(draw: st.DrawFn) -> Record:
    return Record(
        draw(st.sampled_from(["metrics", "eval", "error", "log", "gpu"])),
        draw(st.text(max_size=8)) + "\udc80",
        line=draw(st.integers(0, 2**40)),
        offset=draw(st.integers(0, 2**50)),
        time=draw(st.none() | st.floats(-1e12, 1e12)),
        rank=draw(st.none() | st.integers(0, 9)),
        values=draw(
            st.dictionaries(st.sampled_from(["loss", "step", "eval_loss", "eval_f1"]), st.floats() | st.integers(0, 9))
        ),
        extra=draw(st.dictionaries(NAMES, VALUES, max_size=4)),
        message=draw(st.none() | st.text(max_size=8)),
    )


def csv_of(found: list[Record], *, live: bool = False) -> list[dict[str, str]]:
    out = io.BytesIO()
    writer = CsvWriter(out, live=live)
    for record in found:
        writer.write([record])
    writer.close()
    return list(csv.DictReader(io.StringIO(out.getvalue().decode(), newline="")))


@given(st.lists(records(), max_size=6))
def test_every_record_is_one_row_with_what_it_says(found: list[Record]) -> None:
    rows = csv_of(found)
    assert len(rows) == len(found)
    for row, record in zip(rows, found, strict=True):
        assert None not in row and row["kind"] == record.kind and row["line"] == str(record.line)
        for name, value in record.values.items():
            same = (
                math.isclose(float(row[name]), value) if math.isfinite(value) else row[name] in ("nan", "inf", "-inf")
            )
            assert same, name
        assert not any("\x1b" in cell or "\n" in cell for cell in row.values())
    assert [len(row) for row in csv_of(found, live=True)] == [len(fixed_columns())] * len(found)


@given(st.lists(records(), min_size=1, max_size=6))
def test_parquet_takes_whatever_comes(found: list[Record]) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    from trainmon.outputs.parquet import ParquetWriter

    out = io.BytesIO()
    out.close = lambda: None  # type: ignore[method-assign]
    writer = ParquetWriter(out)
    writer.write(found)
    writer.close()
    rows = parquet.read_table(io.BytesIO(out.getvalue())).to_pylist()
    assert [row["line"] for row in rows] == [record.line for record in found]
    for row, record in zip(rows, found, strict=True):
        for name in record.values.keys() & {"loss", "eval_loss"}:
            assert row[name] == record.values[name] or math.isnan(row[name])


def test_row_groups_are_written_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    from trainmon.outputs import parquet as module

    monkeypatch.setattr(module, "ROWS", 10)
    out = io.BytesIO()
    out.close = lambda: None  # type: ignore[method-assign]
    writer = module.ParquetWriter(out)
    for n in range(35):
        writer.write([Record("metrics", "a", n, values={"step": n})])
    writer.close()
    file = parquet.ParquetFile(io.BytesIO(out.getvalue()))
    assert file.num_row_groups == 4 and file.read().column("step").to_pylist() == list(range(35))


def test_kinds_of_columns_meet_where_values_differ() -> None:
    columns = Columns()
    for value in ({"a": 1, "b": 1, "c": True, "d": 1.5}, {"a": 2.5, "b": "x", "c": False, "d": 2}):
        columns.see(row_of(Record("log", "s", extra=dict(value))))
    kinds = {name: kind for name, kind in columns.all() if name.startswith("extra.")}
    assert kinds == {"extra.a": table.NUMBER, "extra.b": table.WORDS, "extra.c": table.FLAG, "extra.d": table.NUMBER}


def test_more_names_than_columns_go_into_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "MOST_COLUMNS", 3)
    (row,) = csv_of([Record("log", "s", extra={"a": 1, "b": 2, "c": 3, "d": math.nan, "e": "x"})])
    assert (row["extra.a"], row["extra.c"], row["extra"]) == ("1", "3", '{"d":"nan","e":"x"}')


def test_rows_beyond_memory_come_back_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "_IN_MEMORY", 100)
    spool = Spool()
    spool.add([Record("log", "s", n, message="x" * n) for n in range(300)])
    assert [row["line"] for row in spool.take()] == list(range(300)) and spool.rows == 300
    spool.close()


def test_the_fixed_columns_are_the_contracts_keys() -> None:
    names = [name for name, _ in fixed_columns()]
    assert len(names) == len(set(names)) == 47
    whole = Record("error", "s", 1, 2, 3.0, "n", 1, 2, 3, "INFO", "f", code="C", priority=1, message="m", reason="r")
    whole.labels = dict.fromkeys(["job_id", "model_name", "trace_id", "module", "thread"], "x")
    assert set(row_of(whole)) <= set(names)
    assert to_json(whole).count(b":") > 20


# ---------------------------------------------------------------- whole files


def test_a_file_appears_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "out"
    file = WholeFile(str(path))
    file.file.write(b"x")
    assert not path.exists()
    file.commit()
    assert path.read_bytes() == b"x" and os.listdir(tmp_path) == ["out"]
    for end in ("abort", "abort"):
        file = WholeFile(str(path))
        file.file.write(b"y")
        getattr(file, end)()
    assert path.read_bytes() == b"x" and os.listdir(tmp_path) == ["out"]


def test_a_links_target_is_replaced_and_not_the_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real")
    file = WholeFile(str(tmp_path / "link"))
    file.file.write(b"new")
    assert file.is_same(str(tmp_path / "real")) and not file.is_same(str(tmp_path / "none"))
    file.commit()
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").read_bytes() == b"new"


def test_a_full_disk_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "out").write_bytes(b"old")
    file = WholeFile(str(tmp_path / "out"))
    file.file.close()
    file.file = open("/dev/full", "wb")
    file.file.write(b"x" * 10)
    with pytest.raises(OSError, match="No space"):
        file.commit()
    assert (tmp_path / "out").read_bytes() == b"old" and os.listdir(tmp_path) == ["out"]


def test_what_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="cannot be written"):
        WholeFile(str(tmp_path / "no" / "folder"))
    with pytest.raises(SourceError, match="a directory"):
        WholeFile(str(tmp_path))
