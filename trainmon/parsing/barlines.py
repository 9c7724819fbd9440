"""Progress bars inside of lines, what stands glued before and behind them, and dictionaries that wait for a bar."""

from __future__ import annotations

import re

from trainmon.model import Record
from trainmon.parsing import hf
from trainmon.parsing.clean import decode
from trainmon.parsing.json_engine import summary
from trainmon.parsing.line import Line, Row
from trainmon.parsing.names import resolve
from trainmon.parsing.plan import Plan, fill
from trainmon.parsing.postfix import read_bar
from trainmon.parsing.prefix import Prefix, peel
from trainmon.parsing.said import SaidReader

_MAX_TEXT = 1 << 14
_PHASE = re.compile(r"\b(?:rollout|perf|generation|sampling)\s+\d+\s*:?\s*$", re.IGNORECASE)
_DIGITS = tuple(bytes([digit]) for digit in b"0123456789")


class BarReader(SaidReader):
    """Reads a segment that may hold bars."""

    def _reset(self) -> None:
        super()._reset()
        self._bar: tuple[tuple[object, ...], Row] | None = None
        self._aside: Record | None = None

    def _part(self, data: bytes) -> None:
        """Progress bars, and what stands glued before and behind them."""
        at = 0
        while b"%|" in data and (found := hf.find_bar(data, at)) is not None:
            before = data[at : found.start()]
            if self._groups.open and before.strip() and b"{'" not in before and self._table_row(before):
                before = b""
            elif b"{'" in before or (self._groups.open and before.strip()):
                self._plain(before)
                before = b""
            elif b"=" in found[0] or any(digit in before for digit in _DIGITS):
                self._measured_bar(before, found[0])
            if self._bars.draw(before[-120:] + found[0]):
                self._out += self._finish_held(self._bars.take())
            at = found.end()
        if at == 0:
            if self._bar is not None:
                self._bar_told()
            self._plain(data)
        elif len(rest := data[at:].strip()) > 3:
            self._plain(rest)

    def _table_row(self, before: bytes) -> bool:
        """The row of a table with a bar behind it, which is drawn again and again: the last state of it is a record."""
        text = decode(before[-_MAX_TEXT:])
        prefix = peel(text, self.mtime)
        rows = self._groups.line(self._line(text, prefix))
        for row in rows or ():
            key = (next(iter(row.pairs.items()), None), prefix.rank, prefix.local_rank)
            held, self._bar = self._bar, (key, row)
            if held is not None and held[0] != key:
                self._rows([held[1]])
        return rows is not None

    def _line(self, text: str, prefix: Prefix) -> Line:
        return Line(text, prefix, self.lines + 1, self._line_start)

    def _measured_bar(self, before: bytes, bar: bytes) -> None:
        """A bar with numbers beside its counter, drawn again and again: the last state of a count is its record."""
        text = decode(before[-_MAX_TEXT:])
        prefix = peel(text, self.mtime)
        told = read_bar(text[prefix.end :], decode(bar))
        if told is None:
            return
        count, pairs = told
        key = (*count, prefix.rank, prefix.local_rank)
        held, self._bar = self._bar, (key, Row(pairs, "bar", self.lines + 1, self._line_start, prefix, "metrics"))
        if held is not None and held[0] != key:
            self._rows([held[1]])

    def _bar_told(self) -> None:
        """Something else comes, or nothing: the bar that was drawn last is a record."""
        held, self._bar = self._bar, None
        if held is not None:
            self._rows([held[1]])

    def _plain(self, data: bytes) -> None:
        self._text(decode(data if len(data) <= _MAX_TEXT else data[:_MAX_TEXT]))

    def _dictionary(self, text: str, prefix: Prefix | None, before: str) -> bool:
        """A Python dictionary as the Trainer prints it; the step may stand in front of it or in the bar after it."""
        found = hf.pairs(text)
        if not found:
            return False
        keys = tuple(found)
        plan = self._dicts.get(keys)
        if plan is None:
            if len(self._dicts) > 256:
                self._dicts.clear()
            plan = self._dicts[keys] = Plan(keys, resolve)
        step = hf.step_before(before) if before else None
        kind = plan.kind or ("metrics" if step is not None else None)
        if kind not in ("metrics", "eval", "summary") or not hf.believable(plan.names):
            return False
        record = self._record(kind, prefix)
        fill(record, plan, found.values())
        if not record.values:
            return False
        record.format = "hf_trainer"
        if step is not None:
            record.values.setdefault("step", step)
        if kind == "summary":
            summary(record)
        self._out += self._finish_held(self._bars.release())
        if kind == "metrics" and not any("loss" in name for name in plan.names) and _PHASE.search(before):
            self._set_aside(record)
        elif kind == "summary":
            self._emit(record)
            self._bars.restarted()
        elif not self._bars.hold(record):
            if kind == "metrics" and self._aside is not None:
                aside, self._aside = self._aside, None
                _add(record, aside)
            self._emit(record)
        return True

    def _set_aside(self, record: Record) -> None:
        """What a phase of a step reports (`rollout 3: {…}`, `perf 3: {…}`) waits for the report of its training."""
        aside = self._aside
        if aside is not None and aside.values.get("step") == record.values.get("step"):
            _add(aside, record)
            return
        self._alone()
        self._aside = record

    def _alone(self) -> None:
        """No training was reported behind it: the phase is a record of its own."""
        aside, self._aside = self._aside, None
        if aside is not None:
            self._emit(aside)

    def _text(self, text: str) -> None:
        """A segment without bars; see `LineReader`."""


def _add(record: Record, more: Record) -> None:
    """What the other says beside it, where the two do not both speak."""
    record.values = {**more.values, **record.values}
    record.extra = {**more.extra, **record.extra}
