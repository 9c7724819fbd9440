"""A line of each of many programs: what comes out of it, alone and after a time and a label."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from trainmon.model import Record
from trainmon.parsing.parser import FileParser

LINES = tomllib.loads((Path(__file__).parent / "world.toml").read_text("utf-8"))["line"]


def records(text: str) -> list[Record]:
    parser = FileParser("x.log", mtime=1.8e9)
    out = parser.feed(text.encode() + b"\n", 0) + parser.finish()
    return [record for record in out if record.kind in ("metrics", "eval", "summary", "gpu", "quarantine")]


def said(record: Record) -> dict[str, Any]:
    return {"kind": record.kind, **record.extra, **record.values}


@pytest.mark.parametrize("front", ["", "2026-11-30 20:00:00,123 - trainer - INFO - ", "[rank0]: "])
@pytest.mark.parametrize("line", LINES, ids=lambda line: line["of"])
def test_line(line: dict[str, Any], front: str) -> None:
    found = records(front + line["text"])
    if line.get("none"):
        assert not found, said(found[0])
        return
    assert len(found) == 1
    told = said(found[0])
    assert {key: told.get(key) for key in line["gives"]} == pytest.approx(line["gives"], rel=1e-5)
