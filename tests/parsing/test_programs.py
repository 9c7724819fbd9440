"""Short logs of many programs: every record, where it stands, and nothing else."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from trainmon.model import Record
from trainmon.parsing.parser import FileParser

PROGRAMS = tomllib.loads((Path(__file__).parent / "programs.toml").read_text("utf-8"))["program"]
EXTRA = ("epoch_step", "steps_per_epoch", "total_epochs")


def read(log: str, piece: int = 1 << 16) -> list[Record]:
    data = log.replace("\\r", "\r").replace("\\e", "\x1b").encode()
    parser = FileParser("run.log", mtime=1.733e9)
    out: list[Record] = []
    for at in range(0, len(data), piece):
        out += parser.feed(data[at : at + piece], at)
    out += parser.finish()
    return [record for record in out if record.kind in ("metrics", "eval", "summary", "gpu", "quarantine")]


def said(record: Record) -> dict[str, Any]:
    told = {"line": record.line, "kind": record.kind, **record.values}
    told |= {name: record.extra[name] for name in EXTRA if name in record.extra}
    return told | {n: getattr(record, n) for n in ("node", "rank", "local_rank") if getattr(record, n) is not None}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program["of"])
def test_program(program: dict[str, Any]) -> None:
    found = [said(record) for record in read(program["log"])]
    assert [(one["line"], one["kind"]) for one in found] == [(one["line"], one["kind"]) for one in program["gives"]]
    for one, wanted in zip(found, program["gives"], strict=True):
        assert one == pytest.approx(wanted, nan_ok=True)


@pytest.mark.parametrize("piece", [7, 61, 500])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program["of"])
def test_pieces_make_no_difference(program: dict[str, Any], piece: int) -> None:
    assert [said(record) for record in read(program["log"], piece)] == [said(record) for record in read(program["log"])]
