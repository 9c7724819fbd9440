"""Records of one file: what its name, its prefix, its labels and its counters add to what a line says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from trainmon.model import Record, RecordKind
from trainmon.parsing import hf
from trainmon.parsing.classifier import Classifier, Hit
from trainmon.parsing.clean import safe
from trainmon.parsing.counters import Counters
from trainmon.parsing.custom import OwnReader
from trainmon.parsing.formats import Format, builtin
from trainmon.parsing.groups import Groups
from trainmon.parsing.json_engine import JsonEngine, as_evaluation, summary
from trainmon.parsing.line import Row
from trainmon.parsing.pattern_engine import PatternEngine
from trainmon.parsing.plan import Plan, fill
from trainmon.parsing.prefix import Prefix, place_of
from trainmon.parsing.shapes import Shapes
from trainmon.parsing.tracebacks import Tracebacks

_MAX_HELD = 12
_LOOSE = frozenset({"generic", "learned", "bracket_step", "key_value"})
"""Formats of no program in particular, whose counters say only by how they go on what they count."""
_MAX_PLANS = 512
_NEIGHBOURS = 60
"""Lines behind one with a time within which an error without one is taken to be as old: tracebacks have none."""
_PRIORITY: dict[str | None, int] = {"FATAL": 1, "ERROR": 2}


class RecordMaker:
    """What is known of one file between its lines; see `FileParser` for the arguments."""

    def __init__(
        self,
        source: str,
        *,
        formats: Sequence[Format] | None = None,
        tags: Mapping[str, str] | None = None,
        classify: Classifier | None = None,
        mtime: float | None = None,
        node: str | None = None,
        keep_log: bool = False,
        numbered: bool = True,
    ) -> None:
        place = place_of(source)
        self.source = source
        self.mtime = mtime
        self.keep_log = keep_log
        self.node = node if node is not None else place.node
        self.rank, self.local_rank = place.rank, place.local_rank
        self._labels = dict(tags or {})
        if place.job_id and "job_id" not in self._labels:
            self._labels["job_id"] = place.job_id
        self._classify = classify
        known = builtin() if formats is None else tuple(formats)
        self._json = JsonEngine(known)
        self._patterns = PatternEngine(known)
        self._own = OwnReader(known)
        self._numbered = numbered
        self.quarantined = 0
        self._reset()

    def _reset(self) -> None:
        self.format: str | None = None
        self.lines = 0
        self.total_steps: int | None = None
        self._patterns = PatternEngine(self._patterns.formats)
        self._dicts: dict[tuple[str, ...], Plan] = {}
        self._bars = hf.Bars()
        self._tracebacks = Tracebacks()
        self._groups = Groups()
        self._shapes = Shapes()
        self._counters = Counters()
        self._plans: dict[tuple[str, ...], Plan] = {}
        self._json_seen = False
        self._line_start = 0
        self._out: list[Record] = []
        self._time: float | None = None
        self._time_line = 0
        self._repeated = 0
        self._outer_time: float | None = None

    def _record(self, kind: RecordKind, prefix: Prefix | None) -> Record:
        record = Record(
            kind,
            self.source,
            self.lines + 1 if self._numbered else 0,
            self._line_start,
            self._outer_time,
            self.node,
            self.rank,
            self.local_rank,
        )
        if self._labels:
            record.labels.update(self._labels)
        if prefix is not None:
            if prefix.time is not None:
                record.time = prefix.time
                if prefix.guessed:
                    record.extra["time_guess"] = True
            record.level = prefix.level
            if prefix.rank is not None:
                record.rank = prefix.rank
            if prefix.local_rank is not None:
                record.local_rank = prefix.local_rank
                if record.rank is None:
                    record.rank = prefix.local_rank
            if prefix.node is not None:
                record.node = prefix.node
            record.gpu = prefix.gpu
            if prefix.labels:
                record.labels.update(prefix.labels)
        if self._repeated:
            record.extra["repeated"] = self._repeated
        return record

    def _rows(self, rows: Iterable[Row]) -> None:
        """Measurements of tables, bars and blocks as records."""
        for row in rows:
            record = self._row_record(row)
            if record is not None:
                self._emit(record)

    def _row_record(self, row: Row) -> Record | None:
        """One of them; None when its names hold no measurement."""
        key = (row.format, *row.pairs)
        plan = self._plans.get(key)
        if plan is None:
            if len(self._plans) >= _MAX_PLANS:
                self._plans.clear()
            plan = self._plans[key] = Plan(tuple(row.pairs), row.resolve)
        kind = row.kind or plan.kind
        if kind is None:
            return None
        record = self._record(kind, row.prefix)
        record.line, record.offset = row.line if self._numbered else 0, row.offset
        record.format = row.format
        fill(record, plan, row.pairs.values())
        if not record.values:
            return None
        record.extra.update(row.extra)
        if row.first_epoch is not None:
            self._counters.first_epoch = row.first_epoch
        if kind == "summary":
            summary(record)
        elif kind == "eval":
            as_evaluation(record)
        return record

    def _emit(self, record: Record) -> None:
        if self._bars.held:
            if record.kind != "error" and len(self._bars.held) < _MAX_HELD:
                self._bars.held.append(record)
                return
            self._out += self._finish_held(self._bars.release())
        self._complete(record)
        self._out.append(record)

    def _finish_held(self, records: list[Record]) -> list[Record]:
        for record in records:
            self._complete(record)
        return records

    def _complete(self, record: Record) -> None:
        kind = record.kind
        if kind == "metrics" or kind == "eval":
            self.format = record.format
            if "epoch_step" in record.extra or ("total_steps" in record.values and record.format in _LOOSE):
                self._counters.complete(record)
            if record.message is not None:  # what a measurement says beside its numbers is a field like any other
                record.extra["message"], record.message = record.message, None
            total = record.values.get("total_steps")
            if total is not None:
                self.total_steps = int(total)
            elif self.total_steps is not None:
                record.values["total_steps"] = self.total_steps
        if record.time is not None:
            self._time, self._time_line = record.time, record.line
        elif kind == "error" and self._time is not None and 0 <= record.line - self._time_line <= _NEIGHBOURS:
            record.time = self._time
            record.extra["time_guess"] = True

    def _name(self, record: Record, hit: Hit | None, otherwise: str) -> None:
        if hit is None or (hit.code == "UNKNOWN_ERROR" and otherwise != hit.code):
            record.code = otherwise
            record.priority = _PRIORITY.get(record.level, 2)
        else:
            record.code, record.priority = hit.code, hit.priority

    def _quarantine(self, text: str, reason: str, prefix: Prefix) -> None:
        self.quarantined += 1
        record = self._record("quarantine", prefix)
        record.reason = reason
        record.message = safe(text)[:500]
        self._emit(record)
