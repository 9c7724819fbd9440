"""Records as rows of a table: the contract's keys first and always, then what these records hold beside them.

Which columns a table has is known only when the last record was seen, and the records may come from a pipe: so rows go
into a temporary file first (in memory while they are few) and come out once the header can be written.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from typing import IO, Any

import msgspec

from trainmon.model import Record, Value
from trainmon.outputs.jsonl import parts

WORDS, WHOLE, NUMBER, TIME, FLAG = "words", "whole", "number", "time", "flag"
"""What a column holds: text, integers, floats, Unix seconds, true or false."""

_TEXTS = ("node", "job_id", "model_name", "trace_id", "module", "thread", "level", "format")
_WHOLES = ("rank", "local_rank", "gpu")
_VALUES: tuple[tuple[str, str], ...] = (
    ("step", WHOLE), ("total_steps", WHOLE), ("epoch", NUMBER), ("loss", NUMBER), ("learning_rate", NUMBER),
    ("grad_norm", NUMBER), ("accuracy", NUMBER), ("loss_scale", NUMBER), ("perplexity", NUMBER), ("reward", NUMBER),
    ("kl", NUMBER), ("tokens_per_second", NUMBER), ("samples_per_second", NUMBER), ("step_time_s", NUMBER),
    ("data_time_s", NUMBER), ("comm_time_s", NUMBER), ("tflops_per_gpu", NUMBER), ("mfu", NUMBER),
    ("gpu_memory_mb", NUMBER), ("gpu_memory_total_mb", NUMBER), ("gpu_utilization", NUMBER),
    ("gpu_temperature_c", NUMBER), ("gpu_power_w", NUMBER), ("consumed_samples", WHOLE), ("consumed_tokens", WHOLE),
    ("eval_loss", NUMBER),
)  # fmt: skip
_HEAD: tuple[tuple[str, str], ...] = (
    ("kind", WORDS), ("source", WORDS), ("line", WHOLE), ("offset", WHOLE), ("time", TIME), ("node", WORDS),
    ("rank", WHOLE), ("local_rank", WHOLE), ("gpu", WHOLE), ("job_id", WORDS), ("model_name", WORDS),
    ("trace_id", WORDS), ("module", WORDS), ("thread", WORDS), ("level", WORDS), ("format", WORDS), *_VALUES,
)  # fmt: skip
_TAIL: tuple[tuple[str, str], ...] = (("code", WORDS), ("priority", WHOLE), ("message", WORDS), ("reason", WORDS))
_LABELS = ("job_id", "model_name", "trace_id", "module", "thread")
_FIXED = frozenset(name for name, _ in (*_HEAD, *_TAIL))

MOST_COLUMNS = 2000
"""So many columns are made of `extra` at most; what comes beyond stands in the column `extra`, as JSON."""
_IN_MEMORY = 16 << 20
_LENGTH = 4

Row = dict[str, Any]


def row_of(record: Record) -> Row:
    """One record as column -> value; what is unknown is left out. `extra.*` is what the record has beside the contract.

    Times are Unix seconds, numbers that are not finite stay floats.
    """
    row: Row = {"kind": record.kind, "source": record.source, "line": record.line, "offset": record.offset}
    for name in ("time", "node", *_WHOLES, "level", "format", *(name for name, _ in _TAIL)):
        value = getattr(record, name)
        if value is not None:
            row[name] = value
    for name, label in record.labels.items():
        row[name if name in _LABELS else f"extra.{name}"] = label
    row.update(record.values)
    for name, value in record.extra.items():
        row[f"extra.{name}"] = value
    if record.sample is not None:
        for name, value in parts(record.sample).items():
            row[f"extra.{name}"] = value if isinstance(value, Value) else msgspec.json.encode(value).decode()
    return row


class Columns:
    """The columns that were seen so far, and what each holds."""

    def __init__(self) -> None:
        self._evaluation: dict[str, str] = {}
        self._extra: dict[str, str] = {}
        self._spilled = False

    def see(self, row: Row) -> Row:
        """Learn the columns of a row; what is too much for a table is put into its column `extra`."""
        spilled: Row = {}
        for name, value in row.items():
            if name in _FIXED:
                continue
            kinds = self._extra if name.startswith("extra.") else self._evaluation
            kind = kinds.get(name)
            if kind is None:
                if len(self._extra) + len(self._evaluation) >= MOST_COLUMNS:
                    spilled[name] = value
                    continue
                kinds[name] = _kind(value)
            elif kind != (new := _kind(value)):
                kinds[name] = NUMBER if {kind, new} == {WHOLE, NUMBER} else WORDS
        if spilled:
            self._spilled = True
            row = {name: value for name, value in row.items() if name not in spilled}
            named = {name.removeprefix("extra."): _json(value) for name, value in spilled.items()}
            row["extra"] = _text(named)
        return row

    def all(self) -> list[tuple[str, str]]:
        """Name and kind of each: the contract's in its order, evaluation values after `eval_loss`, then `extra.*`."""
        found = [*_HEAD, *sorted(self._evaluation.items()), *_TAIL, *sorted(self._extra.items())]
        return [*found, ("extra", WORDS)] if self._spilled else found


def fixed_columns() -> list[tuple[str, str]]:
    """The columns of a table that is written while its end is not known: the contract's, and `extra` as JSON."""
    return [*_HEAD, *_TAIL, ("extra", WORDS)]


def fixed(row: Row) -> Row:
    """A row for `fixed_columns`: whatever the contract does not name stands in `extra`, as JSON."""
    other = {name.removeprefix("extra."): _json(value) for name, value in row.items() if name not in _FIXED}
    out = {name: value for name, value in row.items() if name in _FIXED}
    if other:
        out["extra"] = _text(other)
    return out


def _text(named: Row) -> str:
    """Some values as JSON."""
    try:
        return msgspec.json.encode(named).decode()
    except UnicodeEncodeError:
        return msgspec.json.encode(_encodable(named)).decode()


def _json(value: Any) -> Any:
    from trainmon.outputs.jsonl import plain

    return plain(value)


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return FLAG
    if isinstance(value, int):
        return WHOLE
    return NUMBER if isinstance(value, float) else WORDS


class Spool:
    """Rows that wait until the columns are known. Beyond a few megabytes they lie in a temporary file."""

    def __init__(self) -> None:
        self.columns = Columns()
        self.rows = 0
        self._file: IO[bytes] = tempfile.SpooledTemporaryFile(_IN_MEMORY, prefix="trainmon-")  # noqa: SIM115
        self._encode = msgspec.msgpack.Encoder().encode

    def add(self, records: Sequence[Record]) -> None:
        """Keep the rows of some records.

        Raises:
            OSError: The temporary folder is full.
        """
        out = bytearray()
        for record in records:
            row = row_of(record)
            try:
                data = self._encode(row)
            except (UnicodeEncodeError, OverflowError):  # a name that is no UTF-8; an integer of 64 bits and more
                row = _encodable(row)
                data = self._encode(row)
            seen = self.columns.see(row)
            if seen is not row:
                data = self._encode(seen)
            out += len(data).to_bytes(_LENGTH, "little")
            out += data
        self._file.write(out)
        self.rows += len(records)

    def take(self) -> Iterator[Row]:
        """Give the rows back, from the first."""
        self._file.seek(0)
        decode = msgspec.msgpack.Decoder().decode
        read = self._file.read
        while head := read(_LENGTH):
            yield decode(read(int.from_bytes(head, "little")))

    def close(self) -> None:
        """Let the temporary file go."""
        self._file.close()


def _encodable(row: Row) -> Row:
    out: Row = {}
    for name, value in row.items():
        if isinstance(value, str):
            value = value.encode("utf-8", "replace").decode()
        elif isinstance(value, int) and not -(2**63) <= value < 2**63:
            value = float(value)
        out[name.encode("utf-8", "replace").decode()] = value
    return out
