"""Records as JSON lines, by the record contract: unknown keys left out, RFC 3339 times, nan and inf as strings."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from typing import Any

import msgspec

from trainmon.model import Record, Value
from trainmon.samples import Sample, to_object

_encode = msgspec.json.Encoder().encode
_OBEYED = re.compile(rb"\x7f|\xc2[\x80-\x9f]|\xd8\x9c|\xe2\x80[\x8e\x8f\xa8-\xae]|\xe2\x81[\xa6-\xa9]")
"""What JSON allows as it is and a terminal obeys all the same: DEL, C1, marks of direction."""
_HEAD = ("node", "rank", "local_rank", "gpu")
_TAIL = ("code", "priority", "message", "reason")
_PARTS = (
    "processes", "events", "disks", "volumes", "links", "missing", "facts", "sentence", "since", "parent", "profile",
    "driver", "gpus", "scope", "origin",
)  # fmt: skip
"""What a sample holds beside the numbers that its record has."""


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
    extra: dict[str, Any] = {name: plain(value) for name, value in record.extra.items()}
    if record.sample is not None:
        extra.update(parts(record.sample))
    if extra:
        out["extra"] = extra
    try:
        line = _encode(out)
    except UnicodeEncodeError:  # bytes in a file's name that are no UTF-8
        line = _encode(_utf8(out))
    return line if line.isascii() and b"\x7f" not in line else _OBEYED.sub(_escaped, line)


def parts(sample: Sample) -> dict[str, Any]:
    """Lists and words of a sample, as the agents' files have them."""
    found = to_object(sample)
    return {name: found[name] for name in _PARTS if name in found}


def _utf8(thing: Any) -> Any:
    if isinstance(thing, str):
        return thing.encode("utf-8", "replace").decode()
    if isinstance(thing, dict):
        return {_utf8(name): _utf8(value) for name, value in thing.items()}
    return [_utf8(value) for value in thing] if isinstance(thing, list) else thing


def _escaped(match: re.Match[bytes]) -> bytes:
    return b"\\u%04x" % ord(match[0].decode())


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
