"""One segment of a log -> records: which engine reads it.

`FileParser` (parser.py) cuts the bytes and decides what can matter. The readers are layers of one object, each in its
own file: `RecordMaker` (what a file adds to every record), `SaidReader` (messages, tracebacks), `BarReader` (progress
bars), `LineReader` (here: text, JSON, groups of lines, the fallback), `ToolReader` and `MachineReader` (telemetry).
"""

from __future__ import annotations

import re
from typing import Any

from trainmon.model import Record
from trainmon.parsing import times
from trainmon.parsing.agent import HEAD as AGENT
from trainmon.parsing.clean import decode, strip_codes
from trainmon.parsing.javatraces import Trace
from trainmon.parsing.joiner import Held, Joiner
from trainmon.parsing.own_lines import OwnLineReader
from trainmon.parsing.prefix import Prefix, peel
from trainmon.parsing.splitter import LIMIT
from trainmon.parsing.tracebacks import HEADS, Stream
from trainmon.samples import KEY

_TEE = re.compile(rb"(?=\[default\d+\]:)")
_REPR = re.compile(
    r"\b(?:(?:np|numpy|jnp|jax|torch|mindspore)\.)?(?:b?float(?:16|32|64)?|int(?:8|16|32|64)|[Aa]rray|[tT]ensor|DeviceArray)"
    r"\(\s*(?:shape=\[[^\]]{0,30}\][^()]{0,80}?value=\s?)?\[?\s*([-+]?(?:[\d.]|nan|inf)[^(),\[\]]{0,60})[^()]{0,200}\)"
)
"""A number as libraries show it: `tensor(2.31, device='cuda:0')`, `np.float64(0.5)`, `Array(1., dtype=float32)`."""
_OPENED = re.compile(r"\[(?:bold|dim|italic|red|green|yellow|blue|magenta|cyan|white|#[0-9a-f]{6})")
_MARKUP = re.compile(
    r"\[/[a-z_ ]{0,40}\]|\[(?:(?:not |on )?(?:bold|dim|italic|underline|blink|reverse|strike|(?:bright_)?(?:black|red"
    r"|green|yellow|blue|magenta|cyan|white)|#[0-9a-f]{6}) ?){1,4}\]"
)
"""Rich's markup, printed by something else than Rich."""
_REPEATED = re.compile(r"\s{0,4}\[repeated (\d{1,9})x across cluster\].*$")
"""How Ray folds the same line of several workers."""
_MAX_TEXT = 1 << 14
_TEXTS = ("textPayload", "@message", "MESSAGE", "log", "line", "body", "text")
"""Where other envelopes of a line have it: Google Cloud, CloudWatch, journald, Fluentd, OpenTelemetry."""
_FIGURE = re.compile(r"\d")
_CALM = frozenset({"DEBUG", "INFO", "WARN"})


class LineReader(OwnLineReader):
    """Reads one segment at a time."""

    def _segment(self, data: bytes) -> None:
        """A piece of a line that may matter: bars first, then text."""
        if data[:1] == b"{":
            self._object(data)
            return
        if b"[default" in data[1:]:  # torchrun glues what one rank prints behind the unfinished line of another
            first, *others = _TEE.split(data, 256)
            outer = decode(first[:_MAX_TEXT])
            if first.strip() and peel(f"{outer}x", self.mtime).end >= len(outer):  # labels of a launcher around it
                others, first = [first + part for part in others], b""
            for part in (first, *others):
                if part:
                    self._part(part)
        else:
            self._part(data)

    def _reset(self) -> None:
        super()._reset()
        self._joiner = Joiner()
        self._unsigned = False
        """True while a line is read on which no literal of the formats stands."""
        self._whole = False
        """True while what was joined (or turned out to be several lines) is read."""

    def _text(self, text: str) -> None:
        if "[/" in text and _OPENED.search(text):
            text = _MARKUP.sub("", text)
        self._repeated = 0
        if "[repeated " in text and (match := _REPEATED.search(text)):
            self._repeated = int(match[1])
            text = text[: match.start()]
        prefix = peel(text, self.mtime)
        if self._joiner.open and self._joined(text, prefix):
            return
        if self._tracebacks.open and self._in_traceback(text, prefix):
            return
        if self._java.open and self._in_java(text, prefix):
            return
        message = text[prefix.end :]
        told = False
        if len(message) < 200 and ("poch" in message or "POCH" in message or message[-1:] in ": "):
            told = self._patterns.epochs.told(message, self.lines + 1)
        if (rows := self._groups.line(self._line(text, prefix))) is not None:
            self._rows(rows)
            return
        if told:
            return
        if message.startswith(HEADS):
            stream: Stream = (prefix.rank, prefix.local_rank, prefix.node)
            cut = self._tracebacks.begin(stream, self.lines + 1, self._line_start)
            if cut is not None:
                self._traceback(stream, cut, None, "")
            return
        if ("." in message[:12] or message.startswith("Exception in thread ")) and self._java.begins(message):
            trace = Trace(message, prefix, self.lines + 1, self._line_start)
            before = self._java.begin((prefix.rank, prefix.local_rank, prefix.node), trace)
            if before is not None:
                self._java_trace(before)
            return
        calm = prefix.level != "ERROR" and prefix.level != "FATAL"
        if calm and not self._whole and self._joiner.begins(text, prefix, self.lines + 1, self._line_start):
            return
        if calm and self._measured(text, message, prefix):
            return
        self._said(text, message, prefix)

    def _begins_object(self, text: str) -> bool:
        return self._joiner.begins(text, Prefix(), self.lines + 1, self._line_start)

    def _held(self, text: str, prefix: Prefix) -> Held:
        return Held(text, prefix, self.lines + 1, self._line_start)

    def _joined(self, text: str, prefix: Prefix) -> bool:
        """Whether a line goes on what the lines before it began."""
        if not self._joiner.goes_on(self._held(text, prefix)):
            self._read_joined()
            return False
        if self._joiner.complete:
            self._read_joined()
        return True

    def _read_joined(self) -> None:
        """What was joined is read as one line, and what does not belong together line by line."""
        held, whole = self._joiner.take()
        at, self._whole = (self.lines, self._line_start), True
        try:
            for one in held if whole is None else held[:1]:
                self.lines, self._line_start = one.number - 1, one.offset
                self._segment((one.text if whole is None else whole).encode("utf-8", "replace"))
        finally:
            (self.lines, self._line_start), self._whole = at, False

    def _measured(self, text: str, message: str, prefix: Prefix) -> bool:
        """True when the line was a record of numbers (or a broken one)."""
        if "(" in message and ("float" in message or "rray(" in message or "ensor(" in message or "int" in message):
            message = _REPR.sub(r"\1", message)
            text = text[: prefix.end] + message
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
            if self._patterns.kept:
                self._patterns.kept = False
                self._shapes.known(message if self._unsigned else "")
                return True
            if not self._shapes.probing or (rows := self._shapes.line(self._line(text, prefix))) is None:
                return False
            self._rows(rows)
            return True
        if outcome:
            self._quarantine(text, outcome, prefix)
        else:
            if record.format is not None:
                self._shapes.known(message if self._unsigned else "")
            self._emit(record)
        return True

    def _object(self, data: bytes) -> None:
        """A line that begins with a brace."""
        if self._joiner.open:
            self._read_joined()
        found = self._json.decode(data)
        if found is None:
            if data.startswith(AGENT) and self._agent(data, None, Prefix()):
                return
            text = decode(data[:_MAX_TEXT])
            if not self._whole and len(data) <= _MAX_TEXT and self._begins_object(text):
                return
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
        record = Record(
            "log", self.source, line, self._line_start, self._outer_time, self.node, self.rank, self.local_rank
        )
        if self._labels:
            record.labels.update(self._labels)
        if self._json.read(record, found):
            self._json_seen = True
            if record.level is None or record.level in _CALM:
                self._emit(record)
                return
        elif self._envelope(record, found) or (KEY in found and self._agent(data, found, Prefix())):
            return
        self._json_log(record)

    def _agent(self, data: bytes, found: dict[str, Any] | None, prefix: Prefix) -> bool:
        """True when it was an agent's line; see `MachineReader`."""
        return False

    def _envelope(self, record: Record, found: dict[str, Any]) -> bool:
        """True when the message of a JSON line was itself a line with a measurement."""
        said = record.message
        payload = found.get("jsonPayload")
        if said is None:
            said = next((v for k in _TEXTS if isinstance(v := found.get(k), str)), None)
        if said is None and isinstance(payload, dict) and isinstance(payload.get("message"), str):
            said = payload["message"]
        if said is None or len(said) > _MAX_TEXT or record.level in ("ERROR", "FATAL") or not _FIGURE.search(said):
            return False
        outer, before = self._outer_time, len(self._out)
        self._outer_time = record.time if record.time is not None else outer
        message = strip_codes(said.encode("utf-8", "replace")).decode("utf-8", "replace").strip("\r\n")
        prefix = peel(message, self.mtime)
        if "\n" in message or not self._measured(message, message[prefix.end :], prefix):
            self._outer_time = outer
            return False
        self._outer_time = outer
        for made in self._out[before:]:
            made.node = made.node or record.node
            made.rank = record.rank if made.rank is None else made.rank
            made.local_rank = record.local_rank if made.local_rank is None else made.local_rank
        return True

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

    def _inner(self, data: bytes) -> None:
        """A line inside of a line, or the last one of a file: nothing has looked at it yet."""
        if not (self._own.on and self._own.might(data) and self._own_line(data)):
            self._segment(data)
