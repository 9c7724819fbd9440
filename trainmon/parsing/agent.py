"""Lines of `trainmon agent`: JSON objects with the key `trainmon`. They are text of unknown origin like any other."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, get_args

from trainmon.model import Record, record_of
from trainmon.parsing.clean import safe
from trainmon.samples import KEY, DriverSample, DriverState, GpuProcess, GpuSample, GpuState, HostSample, from_object

FORMAT = "trainmon_agent"
HEAD = b'{"trainmon"'
"""How such a line begins: one that is cut short is known by it."""

_FORM = re.compile(r"[a-z_]{1,20}/\d{1,4}$")
_BEGINS = re.compile(rb'\{"trainmon"\s*(?::\s*(?:"(?:[a-z_]{1,20}(?:/|$)|$)|$)|$)')
KINDS = frozenset(("gpu", "host", "driver"))
_GPU_STATES = frozenset(get_args(GpuState))
_DRIVER_STATES = frozenset(get_args(DriverState))
_LAST = 253402300800.0  # the year 10000
_MAX_INDEX = 4096
_MAX_PID = 1 << 31
_MAX_WORD = 400
_MAX_PARTS = 1024
_MAX_METRICS = 256


def begins(data: bytes) -> bool:
    """Whether bytes that are no whole object begin like an agent's line."""
    return _BEGINS.match(data) is not None


def is_agent(found: Mapping[str, Any]) -> bool:
    """Whether a decoded object says of itself that it is an agent's line (of a kind that may be newer than we are)."""
    form = found.get(KEY)
    return isinstance(form, str) and _FORM.match(form) is not None


def passed_over(found: Mapping[str, Any]) -> bool:
    """Whether it is of a kind that this version does not know, and nothing is wrong with it."""
    return str(found.get(KEY)).partition("/")[0] not in KINDS


def read(found: Mapping[str, Any], raw: bytes, source: str, line: int, offset: int) -> Record | None:
    """The record of an agent's object; None when its parts are of the wrong kinds or beyond any machine.

    Args:
        found: The decoded object.
        raw: The bytes that it was decoded from: plain ones cannot hold what a terminal would obey.
    """
    sample = from_object(found, "agent")
    if sample is None or not 0.0 <= sample.time < _LAST:
        return None
    if isinstance(sample, GpuSample):
        if (sample.index is not None and not 0 <= sample.index < _MAX_INDEX) or len(sample.values) > _MAX_METRICS:
            return None
        if sample.state not in _GPU_STATES:  # of a newer agent: it is not well, or it would say "ok"
            sample = replace(sample, state="failing", sentence=sample.sentence or f"state: {sample.state}")
        if sample.processes is not None and not all(_there(one) for one in sample.processes):
            sample = replace(sample, processes=tuple(one for one in sample.processes if _there(one)))
        if len(sample.events) > _MAX_PARTS or (sample.processes is not None and len(sample.processes) > _MAX_PARTS):
            return None
    elif isinstance(sample, DriverSample):
        if sample.state not in _DRIVER_STATES:
            sample = replace(sample, state="failing", sentence=sample.sentence or f"state: {sample.state}")
    elif not _sized(sample):
        return None
    if not _plain(raw):
        sample = _shown(sample)
    record = record_of(sample, source, line, offset)
    record.format = FORMAT
    return record


def _there(one: GpuProcess) -> bool:
    return 0 <= one.pid < _MAX_PID and (one.inner_pid is None or 0 <= one.inner_pid < _MAX_PID)


def _sized(sample: HostSample) -> bool:
    return len(sample.values) <= _MAX_METRICS and all(
        parts is None or len(parts) <= _MAX_PARTS for parts in (sample.disks, sample.volumes, sample.links)
    )


def _plain(raw: bytes) -> bool:
    """True when nothing in these bytes needs cleaning: printable ASCII without escapes, and no word is long."""
    return len(raw) <= _MAX_WORD * 16 and b"\\" not in raw and raw.isascii() and raw.decode("ascii").isprintable()


def _shown(thing: Any) -> Any:
    """A copy of a sample or of a part of it with all its words safe to show and of bounded length."""
    if isinstance(thing, str):
        return thing if len(thing) <= _MAX_WORD and thing.isprintable() and thing.isascii() else safe(thing)[:_MAX_WORD]
    if isinstance(thing, tuple):
        return tuple(_shown(one) for one in thing)
    if isinstance(thing, Mapping):
        return {_shown(name): _shown(value) for name, value in thing.items()}
    if not hasattr(thing, "__dataclass_fields__"):
        return thing
    changed = {}
    for name in thing.__dataclass_fields__:
        value = getattr(thing, name)
        if isinstance(value, (str, tuple, Mapping)):
            changed[name] = _shown(value)
    return replace(thing, **changed)
