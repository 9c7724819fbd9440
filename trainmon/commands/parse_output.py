"""Where the records of `parse` go: standard output or a file that appears whole, and one for what could not be read."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO, Protocol

from trainmon.model import Record
from trainmon.outputs.jsonl import to_json

if TYPE_CHECKING:
    from trainmon.outputs.whole import WholeFile


class Writer(Protocol):
    """Turns records into bytes."""

    def write(self, records: Sequence[Record]) -> None: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...


class JsonLines:
    """One JSON object a line, at once."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out

    def write(self, records: Sequence[Record]) -> None:
        """Write records.

        Raises:
            OSError: They cannot be written.
        """
        if records:
            self._out.write(b"".join([to_json(record) + b"\n" for record in records]))
            self._out.flush()

    def close(self) -> None:
        """Nothing waits."""

    def abort(self) -> None:
        """Nothing waits."""


class Output:
    """What is open for writing. Leaving it without `commit` leaves nothing behind.

    Raises:
        SourceError: A file cannot be written.
        UsageError: pyarrow is missing.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        from trainmon.outputs.whole import WholeFile

        self._whole: list[WholeFile] = []
        self._live = bool(options.follow)
        self._terminal = False
        try:
            if options.out and options.out != "-":
                self._out: BinaryIO = self._open(WholeFile(options.out))
            else:
                self._out = sys.stdout.buffer
                self._terminal = sys.stdout.isatty()
            self._aside: BinaryIO | None = None
            if options.quarantine:
                # Followed logs have no end at which it could appear.
                self._aside = (
                    open(options.quarantine, "wb")  # noqa: SIM115
                    if self._live
                    else self._open(WholeFile(options.quarantine))
                )
            self._writer = self._made(options.to)
        except OSError as error:
            self._drop()
            from trainmon.errors import SourceError

            why = (error.strerror or "unknown reason").lower()
            raise SourceError(f"{options.quarantine} cannot be written ({why})") from None
        except BaseException:
            self._drop()
            raise

    def _open(self, file: WholeFile) -> BinaryIO:
        self._whole.append(file)
        return file.file

    def _made(self, form: str) -> Writer:
        if form == "csv":
            from trainmon.outputs.csv import CsvWriter

            return CsvWriter(self._out, live=self._live)
        if form == "parquet":
            from trainmon.outputs.parquet import ParquetWriter

            return ParquetWriter(self._out)
        return JsonLines(self._out)

    @property
    def on_terminal(self) -> bool:
        """Whether the records themselves are shown on a terminal: a progress bar would stand between them."""
        return self._terminal

    def is_same(self, path: str) -> bool:
        """Whether a path leads to a file that is being written."""
        return any(file.is_same(path) for file in self._whole)

    def write(self, records: Sequence[Record]) -> None:
        """Take in some records; what could not be read goes aside where a file for it was named.

        Raises:
            OSError: They cannot be written.
        """
        if self._aside is not None and any(record.kind == "quarantine" for record in records):
            aside = [to_json(record) + b"\n" for record in records if record.kind == "quarantine"]
            self._aside.write(b"".join(aside))
            if self._live:
                self._aside.flush()
            records = [record for record in records if record.kind != "quarantine"]
        self._writer.write(records)

    def flush(self) -> None:
        """Let everything be seen that was written, before something is said beside it."""
        self._out.flush()

    def commit(self) -> None:
        """All is written: files appear at their places.

        Raises:
            OSError: They cannot be written to their ends.
        """
        self._writer.close()
        self._out.flush()
        for file in self._whole:
            file.commit()

    def _drop(self) -> None:
        for file in self._whole:
            file.abort()

    def __enter__(self) -> Output:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.abort()
        if self._live and self._aside is not None:
            self._aside.close()
        self._drop()
