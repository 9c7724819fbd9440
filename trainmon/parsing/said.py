"""Lines without numbers: errors, warnings, events, banners; and tracebacks, whole or cut off."""

from __future__ import annotations

import re

from trainmon.model import Record
from trainmon.parsing import detect, hf
from trainmon.parsing.clean import safe
from trainmon.parsing.javatraces import JavaTraces, Trace
from trainmon.parsing.prefix import Prefix
from trainmon.parsing.records import RecordMaker
from trainmon.parsing.tracebacks import Block, Stream, last_line

_MESSAGE_LIMIT = 2000
_PAIRS = re.compile(r"\w+=\S")
_MSG = re.compile(r'\b(?:msg|message|event)=(?:"((?:[^"\\]|\\.){1,2000})"|(\S+))')
_WHY = re.compile(r'\b(?:err|error|exception|reason)=(?:"((?:[^"\\]|\\.){1,2000})"|(\S+))')


class SaidReader(RecordMaker):
    """Reads what a line says where it measures nothing."""

    def _reset(self) -> None:
        super()._reset()
        self._java = JavaTraces()

    def _said(self, text: str, message: str, prefix: Prefix) -> None:
        """A line without numbers: an error, a warning, an event, a banner, or nothing."""
        level = prefix.level
        message = _logfmt(message)
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

    def _in_traceback(self, text: str, prefix: Prefix) -> bool:
        stream: Stream = (prefix.rank, prefix.local_rank, prefix.node)
        body = text[prefix.labels_end :]
        if prefix.labels_end and body[:1] == " ":
            body = body[1:]
        what, block = self._tracebacks.feed(stream, body)
        if block is not None:
            self._traceback(stream, block, prefix, body.strip() if what == "end" else "")
        return what in ("inside", "end")

    def _in_java(self, text: str, prefix: Prefix) -> bool:
        inside, ended = self._java.feed((prefix.rank, prefix.local_rank, prefix.node), text[prefix.labels_end :])
        if ended is not None:
            self._java_trace(ended)
        return inside

    def _java_ended(self) -> None:
        """Nothing follows the stacks that are open."""
        for _, trace in self._java.close():
            self._java_trace(trace)

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

    def _java_trace(self, trace: Trace) -> None:
        """A Java exception with its stack is one error; without frames it is a line like any other."""
        if trace.lines == 1 or (not trace.at and not trace.cause):
            at, self.lines, self._line_start = (self.lines, self._line_start), trace.line - 1, trace.offset
            self._said(trace.head, trace.head, trace.prefix)
            self.lines, self._line_start = at
            return
        record = self._record("error", trace.prefix)
        record.line, record.offset = trace.line if self._numbered else 0, trace.offset
        record.level = "ERROR"
        said = trace.head.strip() + (f" (caused by {trace.cause})" if trace.cause else "")
        record.message = record.text = safe(said)[:_MESSAGE_LIMIT]
        if trace.at:
            record.extra["at"] = safe(trace.at)[:300]
        hit = self._classify.classify(said, "ERROR") if self._classify is not None else None
        self._name(record, hit, "GENERIC_TRACEBACK")
        self._emit(record)

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


def _logfmt(message: str) -> str:
    """What a line of `key=value` says: its `msg`, and why."""
    if not _PAIRS.match(message) or not (said := _MSG.search(message)):
        return message
    why = _WHY.search(message)
    return (said[1] or said[2]) + (f": {why[1] or why[2]}" if why else "")
