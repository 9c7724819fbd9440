"""One log file -> records: splitting, cheap tests, the two engines, bars, tracebacks, levels.

The same bytes give the same records in whatever chunks they come.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from trainmon.model import Level, Record, RecordKind
from trainmon.parsing import detect, hf, times
from trainmon.parsing.clean import decode, safe, shown, strip_codes
from trainmon.parsing.formats import Format, builtin
from trainmon.parsing.json_engine import JsonEngine, summary
from trainmon.parsing.names import resolve
from trainmon.parsing.pattern_engine import PatternEngine
from trainmon.parsing.plan import Plan, fill
from trainmon.parsing.prefix import Prefix, peel, place_of
from trainmon.parsing.splitter import LIMIT, Splitter
from trainmon.parsing.tracebacks import HEADS, Block, Stream, Tracebacks, last_line

_PIECE = 4096
_MAX_HELD = 12
_MESSAGE_LIMIT = 2000
_MAX_TEXT = 1 << 16
_CALM = frozenset({"DEBUG", "INFO", "WARN"})
_PRIORITY: dict[str | None, int] = {"FATAL": 1, "ERROR": 2}


class Hit(Protocol):
    """What a classifier says of an error."""

    @property
    def code(self) -> str: ...
    @property
    def priority(self) -> int: ...


class Classifier(Protocol):
    """Knows errors by their words."""

    def might_match(self, line: bytes, /) -> bool:
        """False when no line of these bytes can be a known error."""
        ...

    def classify(self, text: str, level: str | None, /) -> Hit | None:
        """The error that a line is, or None."""
        ...


class FileParser:
    """Parses one file (or stream) as it grows.

    Args:
        source: Name of the source, as records carry it; node and rank are read from it.
        formats: Formats to use instead of the built-in ones.
        tags: Labels for every record (`job_id`, `model_name`, ...).
        classify: Knows error codes; without it every error is UNKNOWN_ERROR or GENERIC_TRACEBACK.
        mtime: The file's time, Unix seconds, for times without year or date.
        node: Node of the file, when the caller knows it.
        keep_log: Also give `log` records of INFO and DEBUG lines.
        numbered: False for a part of a file whose line numbers are not known: `line` is 0 then.

    Attributes:
        format: Name of the format that read the newest record.
        lines: Lines that ended so far.
        quarantined: Lines that looked like a record and could not be read.
        total_steps: Length of the training, when a banner or a record said it.
        mtime: May be set anew at any time.
    """

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
        self.rank = place.rank
        self.local_rank = place.local_rank
        self._labels = dict(tags or {})
        if place.job_id and "job_id" not in self._labels:
            self._labels["job_id"] = place.job_id
        self._classify = classify
        self._formats = builtin() if formats is None else tuple(formats)
        self._json = JsonEngine(self._formats)
        self._numbered = numbered
        self.quarantined = 0
        self._reset()

    def _reset(self) -> None:
        self.format: str | None = None
        self.lines = 0
        self.total_steps: int | None = None
        self._patterns = PatternEngine(self._formats)
        self._dicts: dict[tuple[str, ...], Plan] = {}
        self._splitter = Splitter()
        self._bars = hf.Bars()
        self._tracebacks = Tracebacks()
        self._json_seen = False
        self._expected = 0
        self._line_start = 0
        self._out: list[Record] = []
        self._raw = b""
        self._level: Level | None = None
        self._time: float | None = None
        self._newest: Prefix | None = None
        self._outer_time: float | None = None

    # ------------------------------------------------------------ the interface

    def feed(self, data: bytes, offset: int) -> list[Record]:
        """Parse the next bytes.

        Args:
            data: As read from the file.
            offset: Where they begin in this generation. A jump drops the half line before it.

        Returns:
            The records that are complete now, in file order.
        """
        self._out = []
        if offset != self._expected:
            self._splitter.take()
            self._line_start = offset
        self._expected = offset + len(data)
        block, after = self._splitter.feed(data)
        if block:
            end = self._expected - after
            self._block(block, end)
        rest = self._splitter.rest
        if rest:
            if self._bars.held and b"%|" in rest and rest.rstrip().endswith(b"]") and self._bars.resolve(rest):
                self._out += self._finish_held(self._bars.take())
            if rest.strip():
                self._note(rest)
        return self._out

    def finish(self) -> list[Record]:
        """Nothing follows: parse the last line even without its end, and give what was held back."""
        self._out = []
        rest = self._splitter.take()
        if rest:
            self._segment(strip_codes(rest), None)
            self.lines += 1
            self._line_start = self._expected
        self._out += self.settle()
        for stream, block in self._tracebacks.flush():
            self._traceback(stream, block, None, "")
        return self._out

    def settle(self) -> list[Record]:
        """Give what waits for a progress bar, with the step that can be told without one. For a source that fell silent."""
        return self._finish_held(self._bars.release())

    def restart(self, generation: int) -> list[Record]:
        """A new generation of the file begins at offset 0.

        Returns:
            What was held back of the old one.
        """
        left = self.finish()
        self._reset()
        return left

    @property
    def last_line(self) -> str:
        """Newest line, complete or not, safe to show."""
        return shown(self._raw)

    @property
    def last_level(self) -> Level | None:
        """Level of the newest line, None when it names none."""
        return self._peeled().level

    @property
    def last_time(self) -> float | None:
        """Newest time that a line carried, Unix seconds."""
        newest = self._peeled().time
        return newest if newest is not None else self._time

    @property
    def nul_bytes(self) -> int:
        """NUL bytes that were skipped."""
        return self._splitter.holes

    @property
    def long_lines(self) -> int:
        """Lines of which only the first megabyte was parsed."""
        return self._splitter.cut

    def _peeled(self) -> Prefix:
        if self._newest is None:
            self._newest = peel(shown(self._raw), self.mtime) if not self._raw.lstrip().startswith(b"{") else self._json_peeled()
        return self._newest

    def _json_peeled(self) -> Prefix:
        found = self._json.decode(self._raw.strip())
        prefix = Prefix()
        if found is not None:
            record = Record("log", self.source)
            self._json.read(record, found)
            prefix.time, prefix.level = record.time, record.level
        return prefix

    # ------------------------------------------------------------ blocks and lines

    def _note(self, raw: bytes) -> None:
        self._raw = raw
        self._newest = None

    def _block(self, block: bytes, end: int) -> None:
        """Whole segments that end at file offset `end`."""
        start, size = 0, len(block)
        begin = end - size  # right for every line but the first, whose start is known
        while start < size:
            stop = size if size - start <= _PIECE else (block.find(b"\n", start + _PIECE) + 1 or size)
            piece = block if start == 0 and stop == size else block[start:stop]
            self._piece(piece, begin + start)
            start = stop
        tail = block[-4096:].rstrip()
        if tail:
            line = tail[max(tail.rfind(b"\n"), tail.rfind(b"\r")) + 1 :]
            self._note(line if b"\0" not in line else line.replace(b"\0", b""))

    def _piece(self, piece: bytes, begin: int) -> None:
        clean = piece
        if b"\0" in piece:
            clean = self._splitter.without_holes(clean)
        if b"\x1b" in clean or b"\x08" in clean:
            clean = strip_codes(clean)
        known = self._classify is not None and self._classify.might_match(clean)
        if not known and not self._tracebacks.open and not self.keep_log and not detect.can_matter(b"\n" + clean):
            if count := piece.count(b"\n"):
                self.lines += count
                self._line_start = begin + piece.rfind(b"\n") + 1
            return
        literals = [literal for literal in detect.LITERALS if literal in clean]
        glog = detect.has_glog(b"\n" + clean)
        raw_lines = piece.split(b"\n")
        last = len(raw_lines) - 1
        at = begin
        for i, line in enumerate(raw_lines if clean is piece else clean.split(b"\n")):
            if line:
                if b"\r" in line:
                    for segment in line.split(b"\r"):
                        if segment:
                            self._consider(segment, literals, glog, known)
                else:
                    self._consider(line, literals, glog, known)
            if i < last:
                at += len(raw_lines[i]) + 1
                self._line_start = at
                self.lines += 1

    def _consider(self, line: bytes, literals: list[bytes], glog: bool, known: bool) -> None:
        if len(line) > LIMIT:
            line = line[:LIMIT]
            self._splitter.cut += 1
        if line[0] == 123:  # {
            self._object(line)
            return
        mine = known and self._classify is not None and self._classify.might_match(line)
        if mine or self._tracebacks.open or self.keep_log:
            self._segment(line, mine)
            return
        for literal in literals:
            if literal in line:
                self._segment(line, mine)
                return
        if glog and detect.glog_line(line):
            self._segment(line, mine)

    # ------------------------------------------------------------ one segment

    def _segment(self, data: bytes, hot: bool | None) -> None:
        """A piece of a line that may matter: bars first, then text."""
        if hot is None:
            hot = self._classify is not None and self._classify.might_match(data)
        if data[:1] == b"{":
            self._object(data)
            return
        if b"%|" in data and self._bar(data):
            return
        text = decode(data if len(data) <= _MAX_TEXT else data[:_MAX_TEXT])
        at = text.find("[default", 1)
        if at > 0 and text[:at].strip():  # torchrun glues what one rank prints behind the unfinished line of another
            self._text(text[:at], hot)
            self._segment(text[at:].encode(), hot)
            return
        self._text(text, hot)

    def _bar(self, data: bytes) -> bool:
        """A progress bar, and what stands glued behind it."""
        end = hf.bar_end(data)
        if end == 0:
            return False
        whole = data if end == len(data) else data[:end]
        if self._bars.draw(whole):
            self._out += self._finish_held(self._bars.take())
        if end < len(data) and len(rest := data[end:].strip()) > 3:
            self._segment(rest, None)
        return True

    def _text(self, text: str, hot: bool) -> None:
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
        self._said(text, message, prefix, hot)

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
            text = decode(data[:_MAX_TEXT])
            if data[1:2] == b"'":
                if self._dictionary(text, None, ""):
                    return
            elif self._json_seen and data[1:2] in (b'"', b" ", b""):
                reason = "longer than 1 MiB" if len(data) >= LIMIT else "JSON that is cut short or malformed"
                self._quarantine(text, reason, Prefix())
                return
            self._text(text, False)
            return
        if "log" in found and "stream" in found and isinstance(found["log"], str):
            self._docker(found)
            return
        record = Record(
            "log", self.source, self.lines + 1 if self._numbered else 0, self._line_start, None, self.node, self.rank, self.local_rank
        )
        if self._labels:
            record.labels.update(self._labels)
        if self._json.read(record, found):
            if not self._json_seen:
                self._json_seen = True
            if record.level is None or record.level in _CALM:
                self._emit(record)
                return
        self._json_log(record)

    def _docker(self, found: dict[str, Any]) -> None:
        """Docker's json-file driver: the line stands inside."""
        inner = strip_codes(found["log"].encode("utf-8", "replace"))
        when = found.get("time")
        outer = self._outer_time
        self._outer_time = times.iso(when) if isinstance(when, str) else None
        for segment in inner.replace(b"\n", b"\r").split(b"\r"):
            if segment.strip() and not segment.startswith(b'{"log"'):
                self._segment(segment, None)
        self._outer_time = outer

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

    def _said(self, text: str, message: str, prefix: Prefix, hot: bool) -> None:
        """A line without numbers: an error, a warning, an event, a banner, or nothing."""
        level = prefix.level
        bad = level == "ERROR" or level == "FATAL"
        if detect.harmless(message):
            return
        hit = self._classify.classify(text, level) if self._classify is not None and (hot or bad) else None
        if hit is not None or bad:
            record = self._record("error", prefix)
            record.message = safe(message.strip())[:_MESSAGE_LIMIT]
            record.text = safe(text.strip())[:_MESSAGE_LIMIT]
            if record.message:
                self._name(record, hit, "UNKNOWN_ERROR")
                self._emit(record)
            return
        if found := hf.banner(text):
            self._banner(*found)
        happened = detect.event(message)
        if happened or level == "WARN" or (self.keep_log and level is not None):
            record = self._record("log", prefix)
            record.message = safe(message.strip())[:_MESSAGE_LIMIT]
            if happened:
                record.extra["event"] = happened
            if record.message:
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
            kind, self.source, self.lines + 1 if self._numbered else 0, self._line_start, self._outer_time, self.node, self.rank, self.local_rank
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
            total = record.values.get("total_steps")
            if total is not None:
                self.total_steps = int(total)
            elif self.total_steps is not None:
                record.values["total_steps"] = self.total_steps
        if record.time is not None:
            self._time = record.time
