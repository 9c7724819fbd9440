"""What lines of a log tell of machines, not of the training: agents' lines, and text that tools print into logs."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from trainmon.model import Record
from trainmon.parsing import agent
from trainmon.parsing.clean import decode
from trainmon.parsing.lines import LineReader
from trainmon.parsing.prefix import Prefix, peel
from trainmon.parsing.tool_lines import ToolReader

_MOST_GLUED = 64
"""Objects on one line that are looked at; agents end their lines, so that more are somebody's joke."""
_raw_decode = json.JSONDecoder(strict=False).raw_decode


class MachineReader(ToolReader):
    """A reader of lines that also knows what agents write, wherever in a line it stands."""

    def _segment(self, data: bytes) -> None:
        if b"{" in data and agent.HEAD in data:  # the byte alone is found ten times as fast
            self._telemetry(data)
        else:
            LineReader._segment(self, data)  # not by super(): it costs where lines come by the million

    def _telemetry(self, data: bytes) -> None:
        """A line with an agent's object in it: behind labels, behind half a line, glued to another, cut short."""
        before, *objects = data.split(agent.HEAD, _MOST_GLUED)
        labels = decode(before[-2000:])
        prefix = peel(labels + "{", self.mtime)
        if len(labels[prefix.end :].strip()) > 3:
            self._part(before)
        for body in objects:
            piece = agent.HEAD + body.rstrip()
            found, after = self._json.decode(piece), b""
            if found is None:
                found, piece, after = _glued(piece)
            if found is not None:
                if not self._agent(piece, found, prefix):
                    self._object(piece)
            elif agent.begins(piece):
                self._quarantine(decode(piece[:2000]), "telemetry that is cut short or malformed", prefix)
            if len(after.strip()) > 3:
                self._part(after)

    def _agent(self, data: bytes, found: dict[str, Any] | None, prefix: Prefix) -> bool:
        if found is None:
            self._telemetry(data)
            return True
        if not agent.is_agent(found):
            return False
        record = agent.read(found, data, self.source, self.lines + 1 if self._numbered else 0, self._line_start)
        if record is not None:
            self._sampled(record, prefix)
        elif not agent.passed_over(found):
            self._quarantine(decode(data[:2000]), "telemetry whose parts are of the wrong kinds", prefix)
        return True

    def _sampled(self, record: Record, prefix: Prefix) -> None:
        """A sample of this file. What it does not say itself, its line says, else (later) who knows the file."""
        sample = record.sample
        assert sample is not None
        if not sample.node:
            if prefix.node:
                sample = replace(sample, node=prefix.node)
            record.node = prefix.node or self.node
        if sample.time <= 0.0:
            record.time = next((time for time in (prefix.time, self._outer_time, self._time) if time is not None), None)
            sample = replace(sample, time=record.time or 0.0)
        record.sample = sample
        if self._labels:
            record.labels.update(self._labels)
        self._emit(record)


def _glued(piece: bytes) -> tuple[dict[str, Any] | None, bytes, bytes]:
    """The object at the beginning of `piece`, its own bytes, and what stands behind it on the same line."""
    text = decode(piece)
    try:
        found, end = _raw_decode(text)
    except (ValueError, RecursionError):
        return None, piece, b""
    if type(found) is not dict:
        return None, piece, b""
    return found, text[:end].encode("utf-8", "replace"), text[end:].encode("utf-8", "replace")
