"""The pattern engine: text lines, read by the rules of the format files and, failing those, by a sober generic reader.

A rule is tried only when its literals stand on the line. What a pattern leaves of the line is read as pairs; a plan per
set of keys remembers where each goes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from trainmon.model import Record
from trainmon.parsing.formats import Format, LineRule
from trainmon.parsing.json_engine import as_evaluation, summary
from trainmon.parsing.names import FIELDS, resolve
from trainmon.parsing.plan import Plan, fill

_NUMBER = r"[-+]?(?:\d{1,3}(?:,\d{3})+(?![\d,])(?:\.\d*)?|\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"
_UNIT = (
    r"(?:\s?(?:tok(?:en)?s?/s(?:ec)?|samples/s(?:ec)?|imgs?/s|ms|s|MB|MiB|GB|GiB|%)(?![\w:=/])"
    r"|[A-Za-z\u00b5%][A-Za-z/%]*)"
)
_VALUE = (
    rf"(?:tensor\([^()]{{1,200}}\)|\[[^\[\]]{{1,200}}\]|{_NUMBER}(?:\s?/\s*\d+)?{_UNIT}?"
    rf"|[-+]?(?:nan|inf(?:inity)?)(?:ms|s|%)?(?![\w])|[nN]/[aA])"
)
# Bounded, and tried at the start of a word only: a word of 8,000 letters costs what it costs to walk over it.
_KEY = (
    r"(?<![\w/.@%#-])(?:\|?[^\W\d_](?:[\w/.@%#-]{0,60}[\w%|])?(?: [^\W\d_][\w/.@#-]{0,40}){0,3}"
    r"(?: ?\([^()]{1,24}\))?)"
)
_PAIR = re.compile(rf"({_KEY})\s{{0,12}}[:=]\s{{0,12}}({_VALUE})", re.IGNORECASE)
_WORDS = (
    "global step|step|iteration|iter|epoch|update|train loss|val loss|valid loss|validation loss|eval loss|lm loss|loss"
    "|lr|learning rate|grad_norm|grad norm|norm|ppl|perplexity|mfu|acc|accuracy|tokens/s|tok/s|tokens/sec|time"
)
_SPACED = re.compile(rf"(?<![\w/.=-])({_WORDS})\s{{1,12}}[\[(]?\s*({_VALUE})(?![\w=])", re.IGNORECASE)
_TRAILING = re.compile(rf"(?<![\w.])({_NUMBER}[kKM]?) (tok(?:en)?s?/s(?:ec)?|samples/s(?:ec)?|imgs?/s)(?![\w:=])")
_EQUALS = re.compile(
    r"(?<![^\s=,|;(){}\[\]\"'])([^\s=,|;(){}\[\]\"']{1,80})\s?=\s?"
    r"(\"[^\"]{0,2000}\"|'[^']{0,2000}'|\[[^\[\]]{0,500}\]|\w{1,40}\([^()]{0,200}\)|[^\s,|;]+)"
)
_EVALUATION = re.compile(r"(?:\W*)(?:validat\w*|eval\w*|test(?:ing)?)\b(?! set up)", re.IGNORECASE)
_STEPLESS = frozenset({"step", "total_steps", "epoch", "total_epochs"})
_MAX_TEXT = 8192
_MAX_PLANS = 512


def pipe_pairs(text: str) -> dict[str, str]:
    """` lm loss: 1.2E+00 | grad norm: 0.5 | learning rate 1e-4 |` -> pairs; keys may hold spaces and units."""
    out: dict[str, str] = {}
    for part in text.split("|"):
        key, colon, value = part.rpartition(":")
        if not colon:
            key, colon, value = part.rpartition("=")
        if not colon:
            key, colon, value = part.strip().rpartition(" ")
        key, value = key.strip(), value.strip()
        if key and value and len(key) <= 80:
            out.setdefault(key, value)
    return out


def equals_pairs(text: str) -> dict[str, str]:
    """`step=4 loss=9.9 event="train step"` -> pairs."""
    out: dict[str, str] = {}
    for key, value in _EQUALS.findall(text):
        out.setdefault(key, value[1:-1] if value[0] in "\"'" and len(value) > 1 else value)
    return out


@lru_cache(maxsize=4096)
def _trim(key: str) -> str:
    """The longest ending of a key that means something: `INFO train loss` -> `train loss`; else its last word."""
    if key == "time":
        return "step_time"  # beside a step, a bare time is what the step took
    words = key.split(" ")
    for i in range(len(words)):
        candidate = " ".join(words[i:])
        slot = resolve(candidate)
        if slot.name in FIELDS or slot.name.startswith("eval_"):
            return candidate
    return words[-1] if len(words) > 1 and "(" not in words[-1] else key


@lru_cache(maxsize=64)
def _named(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![A-Za-z]){name.replace('_', '[_ ]')}\s*[:=]")


def named(name: str, text: str) -> bool:
    """True when a field of that name has a value on the line, or should have."""
    return _named(name).search(text) is not None


def _listed(text: str) -> dict[str, str] | None:
    """` loss = 2.3, lr = 1e-05`: a plain list of pairs, which needs no regular expression; None for all else."""
    out: dict[str, str] = {}
    for part in text.split(", "):
        key, equals, value = part.partition("=")
        if not equals:
            key, equals, value = part.partition(": ")
        key = key.strip()
        value = value.strip()
        if not key.isidentifier() or value[:1] not in _DIGITS or not _PLAIN.isdisjoint(value):
            return None
        out.setdefault("step_time" if key == "time" else key, value)
    return out


_DIGITS = frozenset("0123456789-+.")
_PLAIN = frozenset(" ,=:/()[]")


def mixed_pairs(text: str) -> dict[str, str]:
    """Pairs of any of the spellings `name: 1`, `name = 1`, and of well-known names also `name 1` and `1 tok/s`."""
    if (listed := _listed(text)) is not None:
        return listed
    out: dict[str, str] = {}
    for key, value in _PAIR.findall(text):
        out.setdefault(_trim(key), value)
    for key, value in _SPACED.findall(text):
        out.setdefault(_trim(key.lower()), value)
    for value, unit in _TRAILING.findall(text):
        out.setdefault(unit, value)
    return out


_READERS: dict[str, Callable[[str], dict[str, str]]] = {
    "pipe": pipe_pairs,
    "equals": equals_pairs,
    "mixed": mixed_pairs,
    "none": lambda text: {},
}


class PatternEngine:
    """Reads text lines by the rules of pattern formats; remembers which of them this file uses.

    Args:
        formats: All formats; those of other engines are ignored. Their order is the order of trying.
    """

    def __init__(self, formats: Sequence[Format]) -> None:
        self.formats = formats
        self._rules: list[tuple[Format, LineRule]] = [(f, r) for f in formats if f.engine == "pattern" for r in f.lines]
        self._plans: dict[tuple[str, ...], Plan] = {}

    def read(self, record: Record, text: str, start: int) -> str | None:
        """Fill `record` from a line.

        Args:
            text: The line without escape codes.
            start: Where its message begins.

        Returns:
            None when the line is no record; "" when it was read; else why it looks like a record and can't be read.
        """
        if len(text) > _MAX_TEXT:
            text = text[:_MAX_TEXT]
        for place, (format_, rule) in enumerate(self._rules):
            for literal in rule.needs:
                if literal not in text:
                    break
            else:
                match = rule.pattern.match(text, start) if rule.where == "message" else rule.pattern.search(text)
                if match is None:
                    continue
                outcome = self._apply(record, format_, rule, match, text, start)
                if outcome is None:
                    continue
                if place and not outcome and rule.first:  # the rule that fits this file is tried first from now on
                    self._rules.insert(0, self._rules.pop(place))
                return outcome
        return self.generic(record, text, start)

    def _apply(
        self, record: Record, format_: Format, rule: LineRule, match: re.Match[str], text: str, start: int
    ) -> str | None:
        found = {key.replace("__", "/"): value for key, value in match.groupdict().items() if value is not None}
        rest = text[match.end() :] if rule.rest == "after" else text[start:]
        for key, value in _READERS[rule.pairs](rest).items():
            found.setdefault(key, value)
        plan = self._plan(format_, found)
        if plan.kind is not None or rule.kind is not None:
            fill(record, plan, found.values())
        hoped = [name for name in rule.expect if named(name, text)]
        measured = record.values.keys() - _STEPLESS
        if hoped and not any(name in measured or f"eval_{name}" in measured for name in hoped):
            record.values.clear()
            record.extra.clear()
            return f"no number for {', '.join(hoped)}"
        if (len(measured) < rule.least and "loss" not in measured) or not (measured or (rule.kind and record.extra)):
            record.values.clear()
            record.extra.clear()
            return None
        record.format = format_.name
        record.kind = rule.kind or plan.kind or "metrics"
        self._finish(record, plan, text, start)
        return ""

    def generic(self, record: Record, text: str, start: int) -> str | None:
        """The fallback: a record needs numbers for a step and a loss (or two other measurements) on its line."""
        if "tep" not in text and "ter" not in text and "poch" not in text and "步" not in text and "pdate" not in text:
            return None
        pairs = mixed_pairs(text[start:])
        if len(pairs) < 2:
            return None
        key = tuple(pairs)
        plan = self._plans.get(key) or self._learn(key, resolve_plan(key))
        names = plan.names
        if "step" not in names or plan.kind not in ("metrics", "eval"):
            return None
        if not any("loss" in name for name in names) and len(names & FIELDS.keys()) < 4:
            return None
        fill(record, plan, pairs.values())
        if "step" not in record.values or not (record.values.keys() - _STEPLESS):
            record.values.clear()
            record.extra.clear()
            return None
        record.format = "generic"
        record.kind = plan.kind
        self._finish(record, plan, text, start)
        return ""

    def _finish(self, record: Record, plan: Plan, text: str, start: int) -> None:
        if record.kind == "summary":
            summary(record)
        elif record.kind == "metrics" and _EVALUATION.match(text, start):
            record.kind = "eval"
        if record.kind == "eval":
            as_evaluation(record)
        if "mfu" in record.values and float(record.values["mfu"]) < 0:
            del record.values["mfu"]  # nanoGPT prints -100 until it has measured

    def _plan(self, format_: Format, found: dict[str, str]) -> Plan:
        key = (format_.name, *found)
        return self._plans.get(key) or self._learn(key, Plan(list(found), format_.resolve))

    def _learn(self, key: tuple[str, ...], plan: Plan) -> Plan:
        if len(self._plans) >= _MAX_PLANS:
            self._plans.clear()
        self._plans[key] = plan
        return plan


def resolve_plan(keys: tuple[str, ...]) -> Plan:
    """A plan by the common table of names alone."""
    return Plan(keys, resolve)
