"""Records as comma-separated values, RFC 4180 with plain line ends."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any, BinaryIO

from trainmon.model import Record
from trainmon.outputs.jsonl import plain, rfc3339
from trainmon.outputs.table import Row, Spool, fixed, fixed_columns, row_of
from trainmon.parsing.clean import safe

_BATCH = 1000


class CsvWriter:
    """Writes a table: a header, then a line for each record. Missing values are empty.

    Args:
        out: Where the bytes go.
        live: Write each record at once. Its columns are the contract's then, and one, `extra`, that holds all else as
            JSON. Else the whole waits for `close`, and each name in `extra` has a column of its own.
    """

    def __init__(self, out: BinaryIO, *, live: bool = False) -> None:
        self._out = out
        self._spool = None if live else Spool()
        self._names: list[str] = []
        if live:
            self._names = [name for name, _ in fixed_columns()]
            self._put([self._names])

    def write(self, records: Sequence[Record]) -> None:
        """Take in some records.

        Raises:
            OSError: They cannot be written.
        """
        if self._spool is not None:
            self._spool.add(records)
        elif records:
            self._put([self._line(fixed(row_of(record))) for record in records])

    def close(self) -> None:
        """Write what waits.

        Raises:
            OSError: It cannot be written.
        """
        spool, self._spool = self._spool, None
        if spool is None:
            return
        try:
            self._names = [name for name, _ in spool.columns.all()]
            lines: list[list[str]] = [self._names]
            for row in spool.take():
                lines.append(self._line(row))
                if len(lines) >= _BATCH:
                    self._put(lines)
                    lines = []
            self._put(lines)
        finally:
            spool.close()

    def abort(self) -> None:
        """Let go of what waits."""
        if self._spool is not None:
            self._spool.close()
            self._spool = None

    def _line(self, row: Row) -> list[str]:
        get = row.get
        return [_cell(name, get(name)) for name in self._names]

    def _put(self, lines: list[list[str]]) -> None:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(lines)
        self._out.write(text.getvalue().encode("utf-8", "replace"))
        self._out.flush()


def _cell(name: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if name == "time":
        return rfc3339(value) or ""
    return safe(value) if isinstance(value, str) else str(plain(value))
