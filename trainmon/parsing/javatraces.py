"""Java stack traces: an exception, its frames and its causes, joined to one error."""

from __future__ import annotations

import re
from dataclasses import dataclass

from trainmon.parsing.prefix import Prefix
from trainmon.parsing.tracebacks import Stream

_HEAD = re.compile(
    r"(?:Exception in thread \"[^\"]{1,100}\" )?"
    r"(?:java|javax|jakarta|jdk|sun|org|com|net|io|edu|de|scala|kotlin|akka|kafka|reactor|feign)\."
    r"(?:[a-z_][\w$]{0,60}\.){0,12}[\w$]{0,60}[A-Z][\w$]{0,60}(?:Exception|Error|Throwable|Failure|Interrupt)\b(?::\s|$)"
)
_CAUSE = re.compile(r"\s*(?:Caused by|Suppressed): (.{1,400})")
_FRAME = re.compile(r"\s+at\s+(?:[\w.$@-]+/)*[\w.$<>]+\(([^)]{0,200})\)")
_MORE = re.compile(r"\s*\.\.\. \d+ (?:more|common frames omitted)")
_MAX_LINES = 400
_MAX_TRACES = 64


@dataclass(slots=True)
class Trace:
    """One that has begun.

    Attributes:
        head: The line that names the exception.
        prefix: What its front says.
        line, offset: Where it stands.
        cause: The last `Caused by`, the root of it; "" when there is none.
        at: The first frame.
        lines: How many belong to it so far.
    """

    head: str
    prefix: Prefix
    line: int
    offset: int
    cause: str = ""
    at: str = ""
    lines: int = 1


class JavaTraces:
    """Open traces, one a stream."""

    def __init__(self) -> None:
        self.open: dict[Stream, Trace] = {}

    def begins(self, message: str) -> bool:
        """Whether a message is the head of a trace: `package.Error: text` of a package that is no Python's."""
        return _HEAD.match(message) is not None

    def begin(self, stream: Stream, trace: Trace) -> Trace | None:
        """A trace begins; gives the one that it ends."""
        before = self.open.pop(stream, None)
        if len(self.open) >= _MAX_TRACES:
            self.open.pop(next(iter(self.open)))
        self.open[stream] = trace
        return before

    def feed(self, stream: Stream, body: str) -> tuple[bool, Trace | None]:
        """The next line of a stream: whether it belongs to the open trace, and the trace that has ended before it."""
        trace = self.open.get(stream)
        if trace is None:
            return False, None
        trace.lines += 1
        if trace.lines <= _MAX_LINES:
            if frame := _FRAME.match(body):
                trace.at = trace.at or frame[1]
                return True, None
            if cause := _CAUSE.match(body):
                trace.cause = cause[1].strip()
                return True, None
            if _MORE.match(body):
                return True, None
        del self.open[stream]
        return False, trace

    def close(self) -> list[tuple[Stream, Trace]]:
        """All that are open: nothing follows for now."""
        left = list(self.open.items())
        self.open.clear()
        return left
