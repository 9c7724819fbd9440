"""Records as a Parquet file, through pyarrow, which is an extra of this package: `pip install 'trainmon[parquet]'`.

Column types are fixed by the record contract; a name in `extra` is an integer, a float, true or false, or text, as what
was seen of it allows. Row groups are written one by one, so that the size of the logs does not matter.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, BinaryIO

from trainmon.errors import UsageError
from trainmon.model import Record
from trainmon.outputs.jsonl import plain
from trainmon.outputs.table import FLAG, NUMBER, TIME, WHOLE, WORDS, Row, Spool
from trainmon.parsing.clean import safe

ROWS = 20_000
"""Rows of one group, which are in memory at once."""
_FIRST_S, _LAST_S = -62_135_596_800, 253_402_300_799
"""The years 1 to 9999, as in JSON lines."""
_LARGEST = 2**63


def load() -> Any:
    """The library.

    Raises:
        UsageError: It is not installed, or is broken.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        reason = "" if isinstance(error, ModuleNotFoundError) and error.name == "pyarrow" else f" ({error})"
        raise UsageError(
            f"--to parquet needs the package pyarrow{reason}: pip install 'trainmon[parquet]', or use --to csv"
        ) from None
    return pyarrow


class ParquetWriter:
    """Writes a table of all records when it is closed.

    Args:
        out: Where the bytes go; need not be seekable.

    Raises:
        UsageError: pyarrow is missing.
    """

    def __init__(self, out: BinaryIO) -> None:
        self._arrow = load()
        self._out = out
        self._spool = Spool()

    def write(self, records: Sequence[Record]) -> None:
        """Take in some records.

        Raises:
            OSError: The temporary folder is full.
        """
        self._spool.add(records)

    def close(self) -> None:
        """Write the file.

        Raises:
            OSError: It cannot be written.
        """
        arrow = self._arrow
        columns = self._spool.columns.all()
        types = {
            WORDS: arrow.string(),
            WHOLE: arrow.int64(),
            NUMBER: arrow.float64(),
            FLAG: arrow.bool_(),
            TIME: arrow.timestamp("ms", tz="UTC"),
        }
        schema = arrow.schema([(name, types[kind]) for name, kind in columns])
        try:
            with arrow.parquet.ParquetWriter(arrow.PythonFile(self._out, "w"), schema, compression="zstd") as writer:
                rows: list[Row] = []
                for row in self._spool.take():
                    rows.append(row)
                    if len(rows) >= ROWS:
                        writer.write_batch(_batch(arrow, schema, columns, rows))
                        rows = []
                if rows:
                    writer.write_batch(_batch(arrow, schema, columns, rows))
            self._out.flush()
        finally:
            self._spool.close()

    def abort(self) -> None:
        """Let go of what waits."""
        self._spool.close()


def _batch(arrow: Any, schema: Any, columns: list[tuple[str, str]], rows: list[Row]) -> Any:
    arrays = [
        arrow.array([_cell(kind, row.get(name)) for row in rows], type=schema.field(place).type)
        for place, (name, kind) in enumerate(columns)
    ]
    return arrow.record_batch(arrays, schema=schema)


def _cell(kind: str, value: Any) -> Any:
    if value is None:
        return None
    if kind == WORDS:
        if isinstance(value, str):
            return safe(value)
        return str(value).lower() if isinstance(value, bool) else str(plain(value))
    if kind == NUMBER:
        return float(value)
    if kind == FLAG:
        return value
    if not math.isfinite(value):
        return None
    if kind == TIME:
        return round(value * 1000) if _FIRST_S <= value < _LAST_S else None
    return int(value) if abs(value) < _LARGEST else None
