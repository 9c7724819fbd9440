"""Lines that a format of one's own reads: before anything else looks at them."""

from __future__ import annotations

from trainmon.model import Record
from trainmon.parsing import detect
from trainmon.parsing.barlines import BarReader
from trainmon.parsing.clean import decode, safe
from trainmon.parsing.custom import OwnLine, numbers_missing
from trainmon.parsing.guard import LONGEST_TEXT
from trainmon.parsing.json_engine import as_evaluation, summary
from trainmon.parsing.plan import Plan, fill
from trainmon.parsing.prefix import Prefix, peel

_MESSAGE_LIMIT = 2000
_MAX_PLANS = 512


class OwnLineReader(BarReader):
    """Reads one line by the formats of one's own."""

    def _own_line(self, data: bytes) -> bool:
        """True when one of them knows this line."""
        text = decode(data[: 4 * LONGEST_TEXT])
        found = self._own.read(text)
        if found is None:
            return False
        prefix = peel(text, self.mtime)
        key = (found.format.name, *found.pairs)
        plan = self._plans.get(key)
        if plan is None:
            if len(self._plans) >= _MAX_PLANS:
                self._plans.clear()
            plan = self._plans[key] = Plan(tuple(found.pairs), found.format.resolve)
        kind = found.format.kind or plan.kind
        if kind is None:
            kind = "metrics" if found.message is None and not plan.has_level else "log"
        record = self._record(kind, prefix)
        record.format = found.format.name
        fill(record, plan, found.pairs.values())
        if kind == "log" or kind == "error":
            self._own_message(record, found, text, prefix)
        elif missing := numbers_missing(found, record):
            self._quarantine(text, f"no number for {', '.join(missing)}", prefix)
        elif not record.values and not record.extra:
            return False
        else:
            if kind == "summary":
                summary(record)
            elif kind == "eval":
                as_evaluation(record)
            self._emit(record)
        return True

    def _own_message(self, record: Record, found: OwnLine, text: str, prefix: Prefix) -> None:
        """A line of text: an error when it says so or an error is known in it, else a message."""
        said = found.message if found.message is not None else text[prefix.end :]
        record.message = safe(said.strip())[:_MESSAGE_LIMIT]
        if not record.message:
            return
        level = record.level
        if record.kind == "error" and level not in ("ERROR", "FATAL"):
            level = record.level = "ERROR"
        bad = level == "ERROR" or level == "FATAL"
        hit = None
        if self._classify is not None and (bad or self._classify.might_match(text.encode("utf-8", "replace"))):
            hit = self._classify.classify(text, level)
        if bad or hit is not None:
            quiet = hit is not None and hit.priority >= 3 and level in ("INFO", "DEBUG")
            record.kind = "log" if quiet else "error"
            record.text = safe(text.strip())[:_MESSAGE_LIMIT]
            self._name(record, hit, "UNKNOWN_ERROR")
            self._emit(record)
            return
        happened = detect.event(record.message)
        if happened:
            record.extra["event"] = happened
        if happened or level == "WARN" or self.keep_log:
            self._emit(record)
