from __future__ import annotations

from pathlib import Path

import pytest

from trainmon.model import Record
from trainmon.parsing.parser import FileParser

LOGS = Path(__file__).parent.parent / "logs"


class Parse:
    """Whole inputs through a fresh parser, in one chunk or in several."""

    def __call__(self, data: bytes | str, *, sizes=None, source="train.log", **options) -> list[Record]:
        raw = data.encode() if isinstance(data, str) else data
        parser = FileParser(source, **options)
        out: list[Record] = []
        at = 0
        for size in sizes or [len(raw)]:
            out += parser.feed(raw[at : at + size], at)
            at += size
        out += parser.feed(raw[at:], at)
        out += parser.finish()
        self.parser = parser
        return out

    def log(self, name: str, **options) -> list[Record]:
        options.setdefault("source", name)
        return self((LOGS / name).read_bytes(), **options)


@pytest.fixture
def parse() -> Parse:
    return Parse()
