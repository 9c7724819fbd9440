"""The JSON engine: one object a line, decoded once, filled by the plan of its key set."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from trainmon.model import Record
from trainmon.parsing.formats import Format
from trainmon.parsing.names import Slot, resolve
from trainmon.parsing.plan import Plan, fill
from trainmon.samples import KEY

_CONTAINERS = frozenset(
    [
        "metadata",
        "metrics",
        "data",
        "extra",
        "scalars",
        "fields",
        "labels",
        "tags",
        "values",
        "logs",
        "stats",
        "attributes",
        "context",
        "record",
        "record_extra",
        "payload",
    ]
)
EVALUATION = ("eval", "val", "test")
_MAX_PLANS = 512
_MAX_KEYS = 1 << 16
"""Characters in the keys of a line whose plan is kept: a line may have a megabyte of them."""

NOT_JSON = "not JSON"


class JsonEngine:
    """Reads JSON lines; keeps a plan per set of keys.

    Args:
        formats: The JSON formats that may name what they recognise; the others are ignored.
    """

    def __init__(self, formats: Sequence[Format]) -> None:
        import msgspec

        self._decode = msgspec.json.Decoder().decode
        self._refused: tuple[type[BaseException], ...] = (msgspec.MsgspecError, ValueError, RecursionError)
        self._formats = [f for f in formats if f.engine == "json"]
        self._plans: dict[tuple[str, ...], tuple[Plan, str, bool]] = {}

    def decode(self, data: bytes) -> dict[str, Any] | None:
        """The object of a line, also with bare NaN or bytes that are no UTF-8; None when it is none."""
        try:
            found = self._decode(data)
        except self._refused:
            try:
                found = json.loads(data.decode("utf-8", "replace"), strict=False)
            except (ValueError, RecursionError):
                return None
        return found if type(found) is dict else None

    def read(self, record: Record, found: dict[str, Any]) -> bool:
        """Fill `record` from a decoded object.

        Returns:
            False when the object holds no measurement (level and message are filled still).
        """
        keys = tuple(found)
        entry = self._plans.get(keys)
        if entry is None:
            entry = self._learn(keys, found)
        plan, name, nested = entry
        if nested:
            found = _flat(found)
            keys = tuple(found)
            entry = self._plans.get(keys) or self._learn(keys, found, name)
            plan = entry[0]
        record.format = name
        fill(record, plan, found.values())
        kind = plan.kind
        if plan.roles and kind == "metrics":
            _evaluation(record, plan, found)
        elif kind is not None:
            record.kind = kind
            if kind == "summary":
                _summary(record)
            elif kind == "eval":
                as_evaluation(record)
        return kind is not None and bool(record.values)

    def plan_of(self, found: dict[str, Any]) -> tuple[Plan, str] | None:
        """Plan and format name of a flat object's keys; None for one that holds others."""
        plan, name, nested = self._plans.get(tuple(found)) or self._learn(tuple(found), found)
        return None if nested else (plan, name)

    def _learn(self, keys: tuple[str, ...], found: dict[str, Any], name: str | None = None) -> tuple[Plan, str, bool]:
        if len(self._plans) >= _MAX_PLANS:
            self._plans.clear()
        here = set(keys)
        if isinstance(found.get(KEY), str):  # an agent's line: no measurement here, see `LineReader._object`
            return _AGENT
        format_ = next((f for f in self._formats if here.issuperset(f.keys)), None)
        nested = name is None and (
            any(type(v) is dict for v in found.values()) or ("event_type" in found and "key" in found)
        )
        plan = Plan(keys, format_.resolve if format_ else resolve)
        plan.kind = getattr(format_, "kind", None) or plan.kind  # a format of one's own may say what its lines are
        entry = (plan, name or (format_.name if format_ else "json"), nested)
        if sum(map(len, keys)) < _MAX_KEYS:
            self._plans[keys] = entry
        return entry


_AGENT = (Plan((), resolve), "json", False)


def _flat(found: dict[str, Any]) -> dict[str, Any]:
    """One level of nesting undone.

    `{"metrics": {"loss": 1}}` -> `{"loss": 1}`, `{"eval": {"loss": 1}}` -> `{"eval/loss": 1}`.
    """
    out = {key: value for key, value in found.items() if type(value) is not dict}
    if "event_type" in out and isinstance(out.get("key"), str):  # MLPerf: the name is a value
        out[out.pop("key")] = out.pop("value", None)
    for key, inner in found.items():
        if type(inner) is not dict:
            continue
        for name, value in inner.items():
            if type(value) is dict:
                continue
            bare = key.lower() in _CONTAINERS and name not in out
            out.setdefault(name if bare else f"{key}/{name}", value)
    return out


def _evaluation(record: Record, plan: Plan, found: dict[str, Any]) -> None:
    """A record that says of itself that it is an evaluation is one, and its loss is `eval_loss`."""
    for key in plan.roles:
        value = found.get(key)
        if isinstance(value, str) and value.lower().startswith(EVALUATION):
            record.kind = "eval"
            as_evaluation(record)
            return
    record.kind = "metrics"


def as_evaluation(record: Record) -> None:
    """Rename the measurements of an evaluation to their `eval_` names."""
    for name in ("loss", "accuracy", "perplexity"):
        if name in record.values:
            record.values.setdefault("eval_" + name, record.values.pop(name))


def _summary(record: Record) -> None:
    """The loss of an end-of-run summary is a mean over the run, no point of the curve."""
    if "loss" in record.values:
        record.extra["train_loss"] = record.values.pop("loss")


def summary(record: Record) -> None:
    """Make `record` an end-of-run summary."""
    record.kind = "summary"
    _summary(record)


__all__ = ["JsonEngine", "Slot", "as_evaluation", "summary"]
