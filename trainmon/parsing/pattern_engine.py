"""The pattern engine: text lines, read by the rules of the format files and, failing those, by a sober generic reader.

A rule is tried only when its literals stand on the line. What a pattern leaves of the line is read as pairs; a plan per
set of keys remembers where each goes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from trainmon.model import Record
from trainmon.parsing import pairs
from trainmon.parsing.epochs import Epochs
from trainmon.parsing.formats import Format, LineRule
from trainmon.parsing.json_engine import as_evaluation, summary
from trainmon.parsing.names import FIELDS, resolve
from trainmon.parsing.plan import Plan, fill, lossy

_EQUALS = re.compile(
    r"(?<![^\s=,|;(){}\[\]\"'])([^\s=,|;(){}\[\]\"']{1,80})\s?=\s?"
    r"(\"[^\"]{0,2000}\"|'[^']{0,2000}'|\[[^\[\]]{0,500}\]|\w{1,40}\([^()]{0,200}\)|[^\s,|;]+)"
)
_EVALUATION = re.compile(
    r"\W*(?:(?:epoch|iter|step)\s?\(\s?)?"
    r"(?:saving dict|validat\w*|valid|eval\w*|test(?:ing)?|val|dev|验证集?|评估|测试集?)(?![A-Za-z])(?! set up)"
    r"|epoch\s?\[\d+\]\s(?:validation|valid|val|test)-",
    re.IGNORECASE,
)
_ONE_SCORE = re.compile(
    r"\W*(?:validation|valid|val|test|eval|evaluation|dev)[ _-](?:set[ _])?"
    r"(?P<name>loss|accuracy|acc|perplexity|ppl|bpb)"
    r"\s?(?:\([\w%]{1,8}\)\s?)?[:=]?\s?(?P<value>[-+]?(?:\d[\d.]*(?:e[-+]?\d+)?|nan|inf))\s?%?\s*$",
    re.IGNORECASE,
)
_AT_STEP = re.compile(r"(?:@|\bstep|\biter(?:ation)?)\s?[:=#]?\s?(\d[\d,]{0,15})\b", re.IGNORECASE)
_COUNTING = frozenset({"step", "epoch", "epoch_step"})
_SCORED = frozenset({"loss", "accuracy", "perplexity", "eval_loss", "eval_accuracy", "eval_perplexity"})
_SCORE = re.compile(
    r"(?:^|_)m?(?:ap|ar|map|iou|miou|f1|bleu|rouge\w*|wer|cer|auc|top_?[15]|acc_?[15]|psnr|ssim|fid|bpb|recall|precision)"
    r"(?:_|\d|$)"
)
_TELLING = frozenset(
    ["loss", "eval_loss", "reward", "accuracy", "perplexity", "policy_loss", "value_loss", "grad_norm"]
)
_BESIDE = frozenset({"learning_rate", "grad_norm"})
"""What a line of its own says of the epoch whose loss comes after it."""
_MAX_SENTENCE = 400
_SCORES = frozenset(["auc", "aucpr", "map", "ndcg", "pre", "accuracy", "f1", "r2", "average_precision"])
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


def dash_pairs(text: str) -> dict[str, str]:
    """`step:3 - actor/pg_loss:0.04 - actor/lr(1e-4):0.010` -> pairs."""
    out: dict[str, str] = {}
    for part in text.split(" - "):
        key, colon, value = part.rpartition(":")
        key, value = key.strip(), value.strip()
        if colon and key and " " not in key and value[:1] in "0123456789-+.nNiI":
            out.setdefault(key, value)
    return out


def round_pairs(text: str) -> dict[str, str]:
    """`train-rmse:0.47\\teval-rmse:0.49`, `training's l2: 0.5\\tvalid_1's l2: 0.6` -> pairs.

    The first value of each side is its loss, unless it is a score.
    """
    out: dict[str, str] = {}
    for part in text.split("\t"):
        key, colon, value = part.strip().rpartition(":")
        value = value.strip().split("+", 1)[0]
        if not colon or not value:
            continue
        side, _, name = key.replace("'s ", "-").rpartition("-")
        if not side:
            side, name = "train", key
        eval_ = not side.lower().startswith(("train", "learn"))
        loss = "eval_loss" if eval_ else "loss"
        if loss not in out and name.split("@")[0] not in _SCORES:
            out[loss] = value
        else:
            out.setdefault(f"eval_{name}" if eval_ else f"train_{name}", value)
    return out


def equals_pairs(text: str) -> dict[str, str]:
    """`step=4 loss=9.9 event="train step"` -> pairs."""
    out: dict[str, str] = {}
    for key, value in _EQUALS.findall(text):
        out.setdefault(key, value[1:-1] if value[0] in "\"'" and len(value) > 1 else value)
    return out


@lru_cache(maxsize=64)
def _named(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![A-Za-z]){name.replace('_', '[_ ]')}\s*[:=]")


def named(name: str, text: str) -> bool:
    """True when a field of that name has a value on the line, or should have."""
    return _named(name).search(text) is not None


_READERS: dict[str, Callable[[str], dict[str, str]]] = {
    "pipe": pipe_pairs,
    "equals": equals_pairs,
    "dashes": dash_pairs,
    "rounds": round_pairs,
    "mixed": pairs.read,
    "none": lambda text: {},
}


class PatternEngine:
    """Reads text lines by the rules of pattern formats; remembers which of them this file uses.

    Args:
        formats: All formats; those of other engines are ignored. Their order is the order of trying.

    Attributes:
        epochs: The epoch that was told above the lines.
        kept: Set when a line was no record, but is part of a later one.
    """

    def __init__(self, formats: Sequence[Format]) -> None:
        self.formats = formats
        self._rules: list[tuple[Format, LineRule]] = [(f, r) for f in formats if f.engine == "pattern" for r in f.lines]
        self._plans: dict[tuple[str, ...], Plan] = {}
        self.epochs = Epochs()
        self.kept = False

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
                if rule.where == "message":
                    match, behind = rule.pattern.match(text, start), text
                elif (match := rule.pattern.search(text)) is None and start:  # `^`, where labels stand before it
                    behind = text[start:]
                    match = rule.pattern.search(behind)
                else:
                    behind = text
                if match is None:
                    continue
                outcome = self._apply(record, format_, rule, match, behind, start if behind is text else 0)
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
        for name, more in rule.add.items():
            printed = record.values.get(name)
            if isinstance(printed, (int, float)):
                record.values[name] = printed + more
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
        """The fallback: a record needs a counter, and a loss or two other measurements, with numbers on its line."""
        message = text[start:]
        own = pairs.read(message)
        found = own
        if self.epochs.head and own and "poch" not in message:
            found = pairs.read(self.epochs.head + message)
            if len(own) == 1 and resolve(name := next(iter(own))).name in _BESIDE:
                self.epochs.before[name] = own[name]
                self.kept = True
                return None
        if len(found) < 2:
            return self._alone(record, text, start, own) if own else None
        key = tuple(found)
        plan = self._plans.get(key) or self._learn(key, resolve_plan(key))
        names = plan.names
        if names.isdisjoint(_COUNTING):
            return self._evaluated(record, plan, found, text, start)
        if plan.kind not in ("metrics", "eval"):
            return self._evaluated(record, plan, found, text, start)
        if names.isdisjoint(_TELLING) and not any(map(lossy, names)) and len(names & FIELDS.keys()) < 4:
            return self._evaluated(record, plan, found, text, start)
        if (
            found is not own
            and not self.epochs.belongs(message)
            and _COUNTING.isdisjoint(resolve_plan(tuple(own)).names)
        ):
            return None
        if self.epochs.before and found is not own and plan.kind == "metrics":
            found = {**self.epochs.before, **found}
            self.epochs.before = {}
            key = tuple(found)
            plan = self._plans.get(key) or self._learn(key, resolve_plan(key))
        fill(record, plan, found.values())
        if not (record.values.keys() & _COUNTING or "epoch_step" in record.extra) or not (
            record.values.keys() - _STEPLESS or any(map(lossy, record.extra))
        ):
            record.values.clear()
            record.extra.clear()
            return None
        record.format = "generic"
        record.kind = plan.kind or "metrics"
        self._finish(record, plan, text, start)
        return ""

    def _alone(self, record: Record, text: str, start: int, own: dict[str, str]) -> str | None:
        """`Validation perplexity: 34.5`: an evaluation of one value is all that its line says."""
        match, step = _ONE_SCORE.match(text, start), _AT_STEP.search(text, start)
        if match is not None:
            found = {f"val_{match['name']}": match["value"]}
        elif step and _EVALUATION.match(text, start) and resolve(next(iter(own))).name.startswith("eval_"):
            found = own
        else:
            return None
        if step:
            found = {"step": step[1], **found}
        return self._evaluated(record, resolve_plan(tuple(found)), found, text, start)

    def _evaluated(self, record: Record, plan: Plan, found: dict[str, str], text: str, start: int) -> str | None:
        """`Test set: Average loss: 0.3000, Accuracy: 9200/10000 (92%)`: an evaluation may go without a counter."""
        scored = [name for name in plan.names if name in _SCORED or _SCORE.search(name)]
        if not scored or len(text) - start > _MAX_SENTENCE:
            return None
        if not (_EVALUATION.match(text, start) or self.epochs.evaluating(record.line)):
            return None
        fill(record, plan, found.values())
        if record.values.keys().isdisjoint(scored) and record.extra.keys().isdisjoint(scored):
            record.values.clear()
            record.extra.clear()
            return None
        record.format = "generic"
        record.kind = "eval"
        self._finish(record, plan, text, start)
        return ""

    def _finish(self, record: Record, plan: Plan, text: str, start: int) -> None:
        if record.kind == "summary":
            summary(record)
        elif record.kind == "metrics" and (_EVALUATION.match(text, start) or self._below(record)):
            record.kind = "eval"
        if record.kind == "eval":
            as_evaluation(record)
            if record.format == "generic" and "step" not in record.values and "step_time_s" in record.values:
                record.extra["eval_time_s"] = record.values.pop("step_time_s")  # what the evaluation took
        if "mfu" in record.values and float(record.values["mfu"]) < 0:
            del record.values["mfu"]  # nanoGPT prints -100 until it has measured

    def _below(self, record: Record) -> bool:
        return "step" not in record.values and self.epochs.evaluating(record.line)

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
