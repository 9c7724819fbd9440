"""Filling records: a plan per set of keys says once where each value goes, then every line of that shape is cheap."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from trainmon.model import Level, Record, RecordKind
from trainmon.parsing import times
from trainmon.parsing.clean import safe
from trainmon.parsing.names import (
    EXTRA,
    INVERSE,
    LABEL,
    LEVEL,
    MEMORY,
    NODE,
    NUMBER,
    PLACE,
    SECONDS,
    SKIP,
    STEP_OF,
    TEXT,
    TIME,
    WHOLE,
    Slot,
    snake,
)
from trainmon.parsing.values import MISSING, UNITS, quantity, seconds, simple

_LEVEL_WORDS: tuple[tuple[Level, str], ...] = (
    ("DEBUG", "TRACE DEBUG D"),
    ("INFO", "INFO NOTICE INFORMATION SUCCESS I 信息"),
    ("WARN", "WARN WARNING W 警告"),
    ("ERROR", "ERROR ERR EXCEPTION SEVERE E 错误"),
    ("FATAL", "FATAL CRITICAL CRIT PANIC EMERG F C 严重"),
)
LEVEL_NAMES: dict[str, Level] = {word: level for level, words in _LEVEL_WORDS for word in words.split()}
"""Every spelling of a level, in capitals."""

_LOSSES = frozenset({"loss", "policy_loss", "value_loss", "actor_loss", "critic_loss", "box_loss"})
_NO_LOSS = re.compile(
    r"loss_?(?:es)?_?(?:scale|weight|type|fn|func|name|coef|step|lambda|mask|reduction|spike|threshold|limit|toler|record)|best|lossless"
)
_WEAK = frozenset({"step", "total_steps", "epoch", "consumed_samples", "consumed_tokens"})
_GPU = frozenset({"gpu_memory_mb", "gpu_memory_total_mb", "gpu_utilization", "gpu_temperature_c", "gpu_power_w"})
MAX_STEP = 2**53
_HUGE = 2**1000  # above it an integer is no float any more


def lossy(name: str) -> bool:
    """Whether a name is that of a loss: `loss_g`, `box_loss`, not `loss_scale` or `loss_weight`."""
    return "loss" in name and _NO_LOSS.search(name) is None and not name.startswith("eval_")


class Plan:
    """What to do with the values of one set of keys.

    Attributes:
        slots: One a key, in the order of the keys.
        kind: The kind of such a record, or None when the keys hold no measurement.
        roles: Keys that say what the record is (`event`, `split`): they may turn it into an evaluation.
        has_level: True when one of the keys is a log level.
    """

    __slots__ = ("has_level", "kind", "names", "roles", "slots", "steps")

    def __init__(self, keys: Sequence[str], resolve: Callable[[str], Slot]) -> None:
        slots = [resolve(key) for key in keys]
        best: dict[str, int] = {}
        for i, slot in enumerate(slots):
            if slot.kind in (EXTRA, SKIP, TEXT, LABEL):
                continue
            j = best.get(slot.name)
            if j is None:
                best[slot.name] = i
            elif (slot.place, slot.kind == STEP_OF) < (slots[j].place, slots[j].kind == STEP_OF):
                slots[j] = Slot(EXTRA, snake(keys[j]))
                best[slot.name] = i
            else:
                slots[i] = Slot(EXTRA, snake(keys[i]))
        self.slots = slots
        # what the loop needs, flat: attribute look-ups cost more than the arithmetic
        self.steps = tuple((s.kind if s.factor == 1.0 or s.kind != NUMBER else MEMORY, s.name, s) for s in slots)
        self.names = frozenset(s.name for s in slots)
        self.roles = tuple(
            k for k in keys if snake(k) in ("event", "split", "phase", "mode", "stage", "type", "prefix")
        )
        self.has_level = any(s.kind == LEVEL for s in slots)
        self.kind = self._kind(frozenset(keys))

    def _kind(self, keys: frozenset[str]) -> RecordKind | None:
        names = self.names
        measured = {s.name for s in self.slots if s.measured or s.name in _LOSSES}
        if "log_history" in keys or ("train_runtime" in keys and "loss" not in keys):
            return "summary"
        stepped = "step" in measured or "epoch" in measured
        evals = any(n.startswith("eval_") for n in measured)
        real = {n for n in measured if n not in _WEAK and not n.startswith("eval_")}
        if real & _LOSSES or (stepped and any(lossy(s.name) for s in self.slots)):
            return "metrics"
        if evals and not real - {"step_time_s", "samples_per_second", "tokens_per_second", *_GPU}:
            return "eval"
        if stepped and real and (real != {"learning_rate"} or "step" in measured):  # epochs and lr: a configuration
            return "metrics"
        if real & _GPU:
            return "gpu"
        if names & {"cpu_percent", "cpu_util", "cpu_utilization", "host_memory_mb"}:
            return "host"
        return None


def number_of(slot: Slot, value: object) -> float | None:
    """A value as a number in the unit of its slot; None when it says nothing."""
    if isinstance(value, str):
        try:
            result = float(value)
        except ValueError:
            if value.strip().lower() in MISSING:
                return None
            found = quantity(value)
            if found is None:
                return None
            result, unit = found
            if unit and (factor := UNITS[slot.dimension].get(unit.lower())) is not None:
                return result * factor
    elif type(value) is float or (type(value) is int and -_HUGE < value < _HUGE):
        result = float(value)
    elif isinstance(value, list) and value and not isinstance(value[0], (list, dict)):
        return number_of(slot, value[0])
    else:
        return None
    if slot.kind == MEMORY and slot.guess:
        if result > 2e7:
            return result / 2**20
        if 0 < result < 200 and result != int(result):
            return result * 1024
        return result
    return result * slot.factor


def whole(number: float) -> int | None:
    """A counter; None for what can't be one (nan, inf, beyond 2^53)."""
    return int(number) if -MAX_STEP < number < MAX_STEP else None


def fill(record: Record, plan: Plan, given: Iterable[object]) -> None:
    """Put the values of one line where the plan says; what is missing or malformed is left out."""
    values, extra = record.values, record.extra
    for (kind, name, slot), value in zip(plan.steps, given, strict=False):
        if (kind == NUMBER and type(value) is float) or (
            kind == WHOLE and type(value) is int and -MAX_STEP < value < MAX_STEP
        ):
            values[name] = value
        elif value is None:
            continue
        elif kind == TIME:
            _time(record, name, value)
        elif kind == EXTRA:
            extra_of(extra, name, value)
        elif kind <= INVERSE:
            number = number_of(slot, value)
            if kind == WHOLE:
                if isinstance(value, str) and "/" in value:
                    step_of(record, name, value)
                elif number is not None and (count := whole(number)) is not None:
                    values[name] = count
                continue
            if number is None:
                continue
            if kind != INVERSE:
                values[name] = number
            elif number > 0:
                values[name] = 1.0 / number
        else:
            _other(record, kind, name, value)


def _other(record: Record, kind: int, name: str, value: object) -> None:
    if kind == SKIP:
        return
    if kind == LEVEL:
        record.level = LEVEL_NAMES.get(str(value).strip().upper(), record.level)
    elif kind == STEP_OF:
        step_of(record, "step", str(value))
    elif kind == SECONDS:
        found = seconds(str(value))
        if found is not None:
            record.extra[name] = found
    elif kind == PLACE:
        number = simple(str(value).removeprefix("cuda:"))
        if number is not None and (count := whole(float(number))) is not None and count >= 0:
            setattr(record, name, count)
    elif kind == NODE:
        record.node = safe(str(value))[:100]
    elif kind == LABEL:
        record.labels[name] = safe(str(value))[:200]
    elif kind == TEXT and isinstance(value, str):
        if name == "message" and record.message is None:
            record.message = safe(value)[:2000]
        elif name == "exception":
            record.text = value[:20000]


def _time(record: Record, name: str, value: object) -> None:
    if isinstance(value, str):
        when = times.iso(value)
        if when is None:
            number = simple(value)
            when = None if number is None else times.epoch(float(number))
    else:
        when = times.epoch(value) if type(value) is float or type(value) is int else None
    if when is not None:
        record.time = when
    elif not isinstance(value, (dict, list)):
        extra_of(record.extra, name, value)


def step_of(record: Record, name: str, value: str) -> None:
    """`10/438` -> step and total (or epoch and total_epochs)."""
    first, _, second = value.partition("/")
    step, total = quantity(first), quantity(second)
    if step is not None and (count := whole(step[0])) is not None:
        record.values[name] = count
    if total is not None and name == "step" and total[0] > 0 and (count := whole(total[0])) is not None:
        record.values["total_steps"] = count


def extra_of(extra: dict[str, float | int | str], name: str, value: object) -> None:
    kind = type(value)
    if kind is float or kind is bool:
        extra[name] = value  # type: ignore[assignment]
    elif isinstance(value, int):
        if -MAX_STEP < value < MAX_STEP:
            extra[name] = value
        elif -_HUGE < value < _HUGE:
            extra[name] = float(value)
    elif isinstance(value, str):
        if value.strip().lower() in MISSING:
            return
        number = simple(value)
        if number is None and value[-1:] == "%":
            number = simple(value[:-1])
        extra[name] = safe(value)[:500] if number is None else number
