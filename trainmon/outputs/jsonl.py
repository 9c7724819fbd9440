"""Records as JSON lines, by the record contract: unknown keys left out, RFC 3339 times, nan and inf as strings."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import msgspec

from trainmon.model import Record, Value

_encode = msgspec.json.Encoder().encode
_HEAD = ("node", "rank", "local_rank", "gpu")
_TAIL = ("code", "priority", "message", "reason")


def to_json(record: Record) -> bytes:
    """One record as one line of JSON, without the line break."""
    out: dict[str, Any] = {"kind": record.kind, "source": record.source, "line": record.line, "offset": record.offset}
    if record.time is not None and (when := rfc3339(record.time)) is not None:
        out["time"] = when
    for name in _HEAD:
        value = getattr(record, name)
        if value is not None:
            out[name] = value
    out.update(record.labels)
    if record.level is not None:
        out["level"] = record.level
    if record.format is not None:
        out["format"] = record.format
    for name, value in record.values.items():
        out[name] = plain(value)
    for name in _TAIL:
        value = getattr(record, name)
        if value is not None:
            out[name] = value
    if record.extra:
        out["extra"] = {name: plain(value) for name, value in record.extra.items()}
    return _encode(out)


def plain(value: Value) -> Value:
    """A value as JSON can hold it: `nan`, `inf` and `-inf` become strings."""
    if type(value) is float and not math.isfinite(value):
        return "nan" if value != value else "inf" if value > 0 else "-inf"
    return value


def rfc3339(time: float) -> str | None:
    """Unix seconds as `2025-04-05T10:00:00.622Z`, rounded to milliseconds; None outside of the calendar."""
    try:
        milliseconds = round(time * 1000)
        when = datetime.fromtimestamp(milliseconds // 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return None
    return f"{when:%Y-%m-%dT%H:%M:%S}.{milliseconds % 1000:03d}Z"
