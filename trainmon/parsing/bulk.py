"""Runs of JSON lines with the same keys, decoded block by block into columns (see `trainmon.columns`).

The keys of the first line make a typed structure; as far as the lines that follow fit it (the same keys in any order,
the same types), they are one run. A line that does not fit ends it, and is read in the ordinary way.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

from trainmon.columns import Columns, Unfit
from trainmon.model import LEVELS, Record
from trainmon.parsing import times
from trainmon.parsing.encodings import Wide
from trainmon.parsing.json_engine import EVALUATION
from trainmon.parsing.machine import MachineReader
from trainmon.parsing.names import (
    EXTRA,
    INVERSE,
    LABEL,
    LEVEL,
    MEMORY,
    NODE,
    NUMBER,
    PLACE,
    SECONDS,
    SKIP,
    STEP_OF,
    TEXT,
    TIME,
    WHOLE,
    Slot,
)  # fmt: skip
from trainmon.parsing.plan import LEVEL_NAMES, MAX_STEP, Plan, extra_of, number_of
from trainmon.parsing.splitter import Splitter
from trainmon.parsing.values import seconds
from trainmon.samples import KEY

_PORTION, _LEAST, _MOST = 64 << 10, 8 << 10, 512 << 10
"""Bytes that are decoded at once: at first, and at least and at most, as the runs are long."""
_MAX_SHAPES = 64
LEAST_ROWS = 16
"""Shorter runs are not worth it."""
_AT_ROW = re.compile(r"\$\[(\d+)\]")
_AT_BYTE = re.compile(r"\(byte (\d+)\)")
_CALM = frozenset(LEVELS[:3])
_CONSTANT = (LEVEL, LABEL, NODE, PLACE)
_ROW_BY_ROW = frozenset({"epoch_step", "pid", "lr_scheduler_type", "event"})


class Shape:
    """What is known of one set of keys."""

    def __init__(self, found: dict[str, Any], plan: Plan, format_: str) -> None:
        """See the module's docstring.

        Args:
            found: A line of this shape.
            plan: Where its values go.

        Raises:
            Unfit: Such lines are not for this way of reading.
        """
        import msgspec

        self.plan = plan
        self.format = format_
        self.fields: list[tuple[Callable[[Any], Any], str, Slot, Any]] = []
        """(how to get it from a row, key, slot, a value) of each key."""
        types: list[tuple[str, Any]] = []
        names: set[str] = set()
        for i, ((key, value), slot) in enumerate(zip(found.items(), plan.slots, strict=True)):
            kind = type(value)
            if slot.kind == STEP_OF:
                made = {"step", "total_steps"}
            else:
                made = {slot.name} if slot.kind not in (SKIP, TEXT) else set()
            if names & made:
                raise Unfit
            names.update(made)
            types.append((f"f{i}", _type_of(slot, kind)))
            self.fields.append((attrgetter(f"f{i}"), key, slot, value))
        if plan.kind != "metrics" or "step" not in names or not _ROW_BY_ROW.isdisjoint(names):
            raise Unfit
        if ("log" in found and "stream" in found) or KEY in found or any(name.startswith("eval_") for name in names):
            raise Unfit
        names_of = {f"f{i}": key for i, key in enumerate(found)}
        try:
            struct = msgspec.defstruct("Row", types, rename=names_of, forbid_unknown_fields=True, gc=False)
        except (ValueError, TypeError):  # quotes and control characters in a key
            raise Unfit from None
        self._decode: Callable[[bytes], list[Any]] = msgspec.json.Decoder(struct).decode_lines
        self._errors: tuple[type[Exception], ...] = (msgspec.MsgspecError, ValueError)

    def rows(self, block: bytes) -> tuple[list[Any], int]:
        """The rows of the whole lines of a block as far as they fit, and how many bytes they take."""
        end = len(block)
        while end:
            part = block if end == len(block) else block[:end]
            try:
                rows = self._decode(part)
            except self._errors as error:
                end = _before(part, str(error))
                continue
            # Every line begins an object, and there are as many objects as lines: each line is one.
            if part.count(b"\n") != len(rows) or part.count(b"\n{") != len(rows) - 1:
                return [], 0
            return rows, end
        return [], 0

    def columns(self, rows: list[Any], first: Record, block: bytes) -> Columns:
        """The rows as columns.

        Raises:
            Unfit: Something in them has to be looked at row by row.
        """
        plan, steps, when = self.plan, None, None
        values: dict[str, list[float]] = {}
        extra: dict[str, Callable[[], list[float]]] = {}
        roles = plan.roles
        for attribute, key, slot, sample in self.fields:
            kind, name = slot.kind, slot.name
            if sample is None or kind == SKIP or (kind == TEXT and key not in roles):
                continue
            column = list(map(attribute, rows))
            if key in roles and isinstance(sample, str) and any(v.lower().startswith(EVALUATION) for v in set(column)):
                raise Unfit
            if kind in (NUMBER, MEMORY, INVERSE):
                values[name] = _numbers(slot, column, sample)
            elif kind == WHOLE:
                whole = _whole(column, sample)
                if name == "step":
                    steps = whole
                elif name == "total_steps":
                    _same(whole)
                else:
                    values[name] = list(map(float, whole))
            elif kind == STEP_OF:
                steps, totals = _steps_of(column)
                _same(totals)
            elif kind == TIME:
                when = _times(column)
            elif kind == SECONDS:
                extra[name] = _durations(column)
            elif kind == EXTRA:
                if type(sample) is float or type(sample) is int:
                    extra[name] = _given(column)
                elif isinstance(sample, str) and (found := _texts(name, column)) is not None:
                    extra[name] = _given(found)
            elif kind in _CONSTANT:
                _same(column)
                if kind == LEVEL and LEVEL_NAMES.get(str(column[0]).strip().upper(), "INFO") not in _CALM:
                    raise Unfit
        numbers = {name for name, value in first.extra.items() if type(value) is float or type(value) is int}
        if steps is None or numbers != extra.keys() or first.values.keys() - {"step", "total_steps"} != values.keys():
            raise Unfit
        begin = first.offset
        return Columns(first, steps, when, values, extra, lambda: _starts(block, begin), begin + len(block))


def _before(block: bytes, error: str) -> int:
    """Where the line begins of which a decoder says this; a place before it when it does not name the line."""
    if found := _AT_ROW.search(error):
        at = 0
        for _ in range(int(found[1])):
            at = block.find(b"\n", at) + 1
        return at
    found = _AT_BYTE.search(error)
    place = int(found[1]) if found else len(block) // 2
    return block.rfind(b"\n", 0, min(place, len(block) - 1)) + 1


def _type_of(slot: Slot, kind: type) -> Any:
    import msgspec

    if slot.kind == SKIP:
        return msgspec.Raw
    if kind is int:
        return int if slot.kind in (WHOLE, PLACE, LABEL, NODE) else float
    if kind is float or kind is bool or kind is str or kind is list:
        if kind is list and slot.kind != EXTRA:
            raise Unfit
        if slot.kind == SECONDS and kind is not str:
            raise Unfit
        return kind
    if kind is type(None):
        return None
    raise Unfit


def _same(column: Sequence[object]) -> None:
    if column.count(column[0]) != len(column):
        raise Unfit


def _numbers(slot: Slot, column: list[Any], sample: object) -> list[float]:
    if sample is None or isinstance(sample, bool):
        raise Unfit
    if slot.kind == NUMBER and slot.factor == 1.0 and not isinstance(sample, str):
        return column
    if slot.kind == NUMBER and not isinstance(sample, str):
        factor = slot.factor
        return [value * factor for value in column]
    made = [number_of(slot, value) for value in column]
    if None in made:
        raise Unfit
    found: list[float] = made  # type: ignore[assignment]
    if slot.kind == INVERSE:
        if min(found) <= 0.0:
            raise Unfit
        return [1.0 / value for value in found]
    return found


def _whole(column: list[Any], sample: object) -> list[int]:
    if type(sample) is not int:
        raise Unfit
    if not (min(column) > -MAX_STEP and max(column) < MAX_STEP):
        raise Unfit
    return column


def _steps_of(column: list[Any]) -> tuple[list[int], list[str]]:
    parts = [value.partition("/") for value in column]
    steps, totals = [part[0] for part in parts], [part[2] for part in parts]
    if not all(map(str.isdigit, steps)) or not totals[0].isdigit() or not 0 < int(totals[0]) < MAX_STEP:
        raise Unfit
    if not all(map(str.isascii, steps)) or max(map(len, steps)) > 15:
        raise Unfit
    return list(map(int, steps)), totals


def _times(column: list[Any]) -> list[float]:
    found = times.column(column) if isinstance(column[0], str) else [times.epoch(value) for value in column]
    if None in found:
        raise Unfit
    return found  # type: ignore[return-value]


def _texts(name: str, column: list[str]) -> list[float] | None:
    """Numbers written as text; None when they are words, which no series takes."""
    known: dict[str, float | None] = {}
    for text in set(column):
        made: dict[str, float | int | str] = {}
        extra_of(made, name, text)
        value = made.get(name)
        known[text] = float(value) if isinstance(value, (int, float)) else None
    if None not in known.values():
        return [known[text] for text in column]  # type: ignore[misc]
    if any(value is not None for value in known.values()):
        raise Unfit
    return None


def _given(column: list[float]) -> Callable[[], list[float]]:
    return lambda: column


def _durations(column: list[str]) -> Callable[[], list[float]]:
    def durations() -> list[float]:
        found = [seconds(value) for value in column]
        if None in found:
            raise Unfit
        return found  # type: ignore[return-value]

    return durations


class BulkReader(MachineReader):
    """The part of a `FileParser` that reads runs."""

    _splitter: Splitter
    _wide: Wide | None
    _expected: int

    def _note(self, raw: bytes) -> None:
        """Remember the newest line."""

    def _reset(self) -> None:
        super()._reset()
        self._runs: dict[tuple[str, ...], Shape | None] = {}
        self._run: Shape | None = None
        self._portion = _PORTION
        self._ahead = b""

    def columns(self, data: bytes, at: int, offset: int) -> Columns | None:
        """The records of the lines that come next as columns, when they are a run; they are not taken in yet.

        Args:
            data: Bytes of the file; at: where in them those begin that follow what was fed; offset: where in the file.
        """
        if data[at : at + 1] != b"{" or not self.between_lines(offset):
            return None
        block = data[at : data.rfind(b"\n", at, at + self._portion) + 1]
        if not block:
            return None
        shape, size = self._run, 0
        rows: list[Any] = []
        if shape is not None:
            rows, size = shape.rows(block)
        if not rows:
            shape = self._shape_of(block[: block.find(b"\n")])
            if shape is not None:
                rows, size = shape.rows(block)
        self._portion = min(_MOST, 2 * self._portion) if size == len(block) else max(_LEAST, 2 * size)
        if shape is None or len(rows) < LEAST_ROWS:
            return None
        self._run = shape
        block = block if size == len(block) else block[:size]
        if b"\x1b" in block or b"\x08" in block or (b"\r" in block and block.count(b"\r") != block.count(b"\r\n")):
            return None
        self._ahead = block
        try:
            return shape.columns(rows, self._pattern(block[: block.find(b"\n")]), block)
        except Unfit:
            return None

    def took(self, columns: Columns) -> None:
        """The rows of what `columns` gave (or the first of them) are taken in: go on behind them."""
        first, end = columns.first, columns.end
        block, self._ahead = self._ahead[: end - self._line_start], b""
        self.lines += len(columns)
        self._expected = self._line_start = end
        self._blocks.passed(block, self.lines)
        self._note(block[block.rfind(b"\n", 0, -1) + 1 :].rstrip())
        self._json_seen = True
        self.format = first.format
        total = first.values.get("total_steps")
        if total is not None:
            self.total_steps = int(total)
        if columns.times is not None:
            self._time, self._time_line = columns.times[-1], self.lines

    def refused(self) -> None:
        """Columns that nobody took: try with less."""
        self._portion = _LEAST

    def between_lines(self, offset: int) -> bool:
        """Whether a line begins at that offset of the file and nothing waits for it."""
        cut = self._splitter.rest or self._splitter.skipping or self._blocks.half
        if cut or self._wide is not None or self._own.on or self._bars.held:
            return False
        if self._groups.open or self._joiner.open or self._blocks.open or self._bar or self._aside:
            return False
        return self._expected == self._line_start == offset

    def _shape_of(self, line: bytes) -> Shape | None:
        found = self._json.decode(line)
        if found is None:
            return None
        keys = tuple(found)
        if keys in self._runs:
            return self._runs[keys]
        shape = None
        known = self._json.plan_of(found)
        if known is not None:
            try:
                shape = Shape(found, *known)
            except Unfit:
                shape = None
        if len(self._runs) >= _MAX_SHAPES:
            self._runs.clear()
        self._runs[keys] = shape
        return shape

    def _pattern(self, line: bytes) -> Record:
        """The record of the first row.

        Raises:
            Unfit: It is not one that all could be like.
        """
        found = self._json.decode(line)
        number = self.lines + 1 if self._numbered else 0
        record = Record("log", self.source, number, self._line_start, None, self.node, self.rank, self.local_rank)
        record.labels.update(self._labels)
        if found is None or not self._json.read(record, found) or record.kind != "metrics":
            raise Unfit
        if record.level is not None and record.level not in _CALM:
            raise Unfit
        if record.message is not None:
            record.extra["message"], record.message = record.message, None
        if self.total_steps is not None and "total_steps" not in record.values:
            record.values["total_steps"] = self.total_steps
        return record


def _starts(block: bytes, begin: int) -> list[int]:
    out = []
    at = 0
    while at < len(block):
        out.append(begin + at)
        at = block.index(b"\n", at) + 1
    return out
