"""One segment of a log -> records: which engine reads it, bars, tracebacks, levels, what its file adds.

`FileParser` (parser.py) cuts the bytes and decides what can matter; everything after that is here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from trainmon.model import Record, RecordKind
from trainmon.parsing import detect, hf, times
from trainmon.parsing.agent import HEAD as AGENT
from trainmon.parsing.classifier import Classifier, Hit
from trainmon.parsing.clean import decode, safe, strip_codes
from trainmon.parsing.formats import Format, builtin
from trainmon.parsing.json_engine import JsonEngine, summary
from trainmon.parsing.names import resolve
from trainmon.parsing.pattern_engine import PatternEngine
from trainmon.parsing.plan import Plan, fill
from trainmon.parsing.prefix import Prefix, peel, place_of
from trainmon.parsing.splitter import LIMIT
from trainmon.parsing.tracebacks import HEADS, Block, Stream, Tracebacks, last_line
from trainmon.samples import KEY

_MAX_HELD = 12
_TEE = re.compile(rb"(?=\[default\d+\]:)")
_MESSAGE_LIMIT = 2000
_MAX_TEXT = 1 << 14
_CALM = frozenset({"DEBUG", "INFO", "WARN"})
_PRIORITY: dict[str | None, int] = {"FATAL": 1, "ERROR": 2}


class LineReader:
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
        self._json_seen = False
        self._line_start = 0
        self._out: list[Record] = []
        self._time: float | None = None
        self._outer_time: float | None = None

    # ------------------------------------------------------------ one segment

    def _segment(self, data: bytes) -> None:
        """A piece of a line that may matter: bars first, then text."""
        if data[:1] == b"{":
            self._object(data)
            return
        if b"[default" in data[1:]:  # torchrun glues what one rank prints behind the unfinished line of another
            for part in _TEE.split(data, 256):
                if part:
                    self._part(part)
        else:
            self._part(data)

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

    def _text(self, text: str) -> None:
        prefix = peel(text, self.mtime)
        if self._tracebacks.open and self._in_traceback(text, prefix):
            return
        message = text[prefix.end :]
        if message.startswith(HEADS):
            stream: Stream = (prefix.rank, prefix.local_rank, prefix.node)
            cut = self._tracebacks.begin(stream, self.lines + 1, self._line_start)
            if cut is not None:
                self._traceback(stream, cut, None, "")
            return
        if prefix.level != "ERROR" and prefix.level != "FATAL" and self._measured(text, message, prefix):
            return
        self._said(text, message, prefix)

    def _measured(self, text: str, message: str, prefix: Prefix) -> bool:
        """True when the line was a record of numbers (or a broken one)."""
        at = message.find("{")
        if at >= 0 and message.rstrip()[-1:] in "}]":
            following = message[at + 1 : at + 2]
            if following == "'" and self._dictionary(message[at:], prefix, message[:at]):
                return True
            if following == '"' and (found := self._json.decode(message[at:].strip().encode())) is not None:
                record = self._record("metrics", prefix)
                if self._json.read(record, found):
                    self._emit(record)
                    return True
        record = self._record("metrics", prefix)
        outcome = self._patterns.read(record, text, prefix.end)
        if outcome is None:
            return False
        if outcome:
            self._quarantine(text, outcome, prefix)
        else:
            self._emit(record)
        return True

    def _in_traceback(self, text: str, prefix: Prefix) -> bool:
        stream: Stream = (prefix.rank, prefix.local_rank, prefix.node)
        body = text[prefix.labels_end :]
        if prefix.labels_end and body[:1] == " ":
            body = body[1:]
        what, block = self._tracebacks.feed(stream, body)
        if block is not None:
            self._traceback(stream, block, prefix, body.strip() if what == "end" else "")
        return what in ("inside", "end")

    def _object(self, data: bytes) -> None:
        """A line that begins with a brace."""
        found = self._json.decode(data)
        if found is None:
            if data.startswith(AGENT) and self._agent(data, None, Prefix()):
                return
            text = decode(data[:_MAX_TEXT])
            if data[1:2] == b"'":
                if self._dictionary(text, None, ""):
                    return
            elif (self._json_seen or len(data) >= LIMIT) and data[1:2] in (b'"', b" ", b""):
                reason = "longer than 1 MiB" if len(data) >= LIMIT else "JSON that is cut short or malformed"
                self._quarantine(text, reason, Prefix())
                return
            self._text(text)
            return
        if "log" in found and "stream" in found and isinstance(found["log"], str):
            self._docker(found)
            return
        line = self.lines + 1 if self._numbered else 0
        record = Record("log", self.source, line, self._line_start, None, self.node, self.rank, self.local_rank)
        if self._labels:
            record.labels.update(self._labels)
        if self._json.read(record, found):
            self._json_seen = True
            if record.level is None or record.level in _CALM:
                self._emit(record)
                return
        elif KEY in found and self._agent(data, found, Prefix()):
            return
        self._json_log(record)

    def _agent(self, data: bytes, found: dict[str, Any] | None, prefix: Prefix) -> bool:
        """True when it was an agent's line; see `MachineReader`."""
        return False

    def _docker(self, found: dict[str, Any]) -> None:
        """Docker's json-file driver: the line stands inside."""
        inner = strip_codes(found["log"].encode("utf-8", "replace"))
        when = found.get("time")
        outer = self._outer_time
        self._outer_time = times.iso(when) if isinstance(when, str) else None
        for segment in inner.replace(b"\n", b"\r").split(b"\r"):
            if segment.strip() and not segment.startswith(b'{"log"'):
                self._inner(segment)
        self._outer_time = outer

    _inner = _segment

    def _json_log(self, record: Record) -> None:
        """A JSON line that measures nothing: level and message."""
        exception, record.text = record.text, None
        last = safe(last_line(exception))[:_MESSAGE_LIMIT] if exception else ""
        if record.level not in ("ERROR", "FATAL") and not last:
            if record.message is None or record.kind != "log":
                return
            happened = detect.event(record.message)
            if happened:
                record.extra["event"] = happened
            if happened or record.level == "WARN" or (self.keep_log and record.level):
                self._emit(record)
            return
        said = record.message or ""
        record.kind = "error"
        record.message = f"{said}: {last}" if said and last else said or last
        record.text = record.message
        if not record.message:
            return
        hit = self._classify.classify(last or said, record.level) if self._classify else None
        self._name(record, hit, "GENERIC_TRACEBACK" if last else "UNKNOWN_ERROR")
        self._emit(record)

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

    # ------------------------------------------------------------ what lines say

    def _said(self, text: str, message: str, prefix: Prefix) -> None:
        """A line without numbers: an error, a warning, an event, a banner, or nothing."""
        level = prefix.level
        bad = level == "ERROR" or level == "FATAL"
        if detect.harmless(message):
            return
        hit = None
        if self._classify is not None and (bad or self._classify.might_match(text.encode("utf-8", "replace"))):
            hit = self._classify.classify(text, level)
        if hit is not None or bad:
            # what a program itself calls chatter is listed as a notice when the catalogue says it is mild
            quiet = hit is not None and hit.priority >= 3 and level in ("INFO", "DEBUG")
            record = self._record("log" if quiet else "error", prefix)
            record.message = safe(message.strip())[:_MESSAGE_LIMIT]
            record.text = safe(text.strip())[:_MESSAGE_LIMIT]
            if record.message:
                self._name(record, hit, "UNKNOWN_ERROR")
                self._emit(record)
            return
        if found := hf.banner(text):
            self._banner(*found)
        happened = detect.event(message)
        model = None
        if "model_name" not in self._labels and "model" in message and (model := detect.model_named(message)):
            self._labels["model_name"] = model
        if happened or model or level == "WARN" or (self.keep_log and level is not None):
            record = self._record("log", prefix)
            record.message = safe(message.strip())[:_MESSAGE_LIMIT]
            if happened:
                record.extra["event"] = happened
            if any(character.isalnum() for character in record.message[:200]):
                self._emit(record)

    def _banner(self, what: str, number: int) -> None:
        if what == "total":
            self.total_steps = self._bars.total = number
            if self._bars.epochs:
                self._bars.per_epoch = self._bars.per_epoch or number / self._bars.epochs
        elif what == "per_epoch":
            self._bars.per_epoch = float(number)
        else:
            self._bars.epochs = number

    def _traceback(self, stream: Stream, block: Block, prefix: Prefix | None, last: str) -> None:
        """The end of a traceback, whole or cut off, is one error."""
        record = self._record("error", prefix)
        record.rank = stream[0] if stream[0] is not None else self.rank
        record.local_rank = stream[1] if stream[1] is not None else self.local_rank
        record.node = stream[2] or self.node
        record.level = "ERROR"
        if not last:  # its end never came: it stands where it began
            record.line, record.offset = block.line if self._numbered else 0, block.offset
        message = last or f"traceback cut off after: {block.last or 'its first line'}"
        record.message = record.text = safe(message)[:_MESSAGE_LIMIT]
        record.extra["first_line"] = block.line
        if block.frame:
            record.extra["at"] = safe(block.frame)[:300]
        hit = self._classify.classify(message, "ERROR") if self._classify is not None and last else None
        self._name(record, hit, "GENERIC_TRACEBACK")
        self._emit(record)

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

    # ------------------------------------------------------------ records

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
            if record.message is not None:  # what a measurement says beside its numbers is a field like any other
                record.extra["message"], record.message = record.message, None
            total = record.values.get("total_steps")
            if total is not None:
                self.total_steps = int(total)
            elif self.total_steps is not None:
                record.values["total_steps"] = self.total_steps
        if record.time is not None:
            self._time = record.time
