"""Progress bars inside of lines, what stands glued before and behind them, and dictionaries that wait for a bar."""

from __future__ import annotations

from trainmon.parsing import hf
from trainmon.parsing.clean import decode
from trainmon.parsing.json_engine import summary
from trainmon.parsing.names import resolve
from trainmon.parsing.plan import Plan, fill
from trainmon.parsing.prefix import Prefix
from trainmon.parsing.said import SaidReader

_MAX_TEXT = 1 << 14


class BarReader(SaidReader):
    """Reads a segment that may hold bars."""

    def _part(self, data: bytes) -> None:
        """Progress bars, and what stands glued before and behind them."""
        at = 0
        while b"%|" in data and (found := hf.find_bar(data, at)) is not None:
            before = data[at : found.start()]
            if b"{'" in before:
                self._plain(before)
                before = b""
            if self._bars.draw(before[-120:] + found[0]):
                self._out += self._finish_held(self._bars.take())
            at = found.end()
        if at == 0:
            self._plain(data)
        elif len(rest := data[at:].strip()) > 3:
            self._plain(rest)

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
        if plan.kind not in ("metrics", "eval", "summary") or not hf.believable(plan.names):
            return False
        record = self._record(plan.kind, prefix)
        fill(record, plan, found.values())
        if not record.values:
            return False
        record.format = "hf_trainer"
        if before and (step := hf.step_before(before)) is not None:
            record.values.setdefault("step", step)
        if plan.kind == "summary":
            summary(record)
        self._out += self._finish_held(self._bars.release())
        if plan.kind == "summary":
            self._emit(record)
            self._bars.restarted()
        elif not self._bars.hold(record):
            self._emit(record)
        return True

    def _text(self, text: str) -> None:
        """A segment without bars; see `LineReader`."""
