"""What the words between the numbers of a line say: the names of the numbers, which one counts, what is measured."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from trainmon.model import RecordKind
from trainmon.parsing.names import FIELDS, resolve, snake
from trainmon.parsing.plan import lossy
from trainmon.parsing.values import simple

_UNITS = (
    r"tok(?:en)?s?/s(?:ec)?|samples?/s(?:ec)?|imgs?/s(?:ec)?|it/s|s/it|ms|us|µs|s|sec|min|h|%|[kKMGT]i?B(?:/s)?|[kKMB]"
)
_NUMBER = re.compile(
    r"(?<![A-Za-z_\d.])"
    r"(?:\d{1,4}(?::\d\d){1,2}(?:\.\d+)?(?![\d:])"  # a time of day or a duration: no measurement
    rf"|([-+]?(?:\d{{1,3}}(?:,\d{{3}})+(?:\.\d+)?|\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?(?:{_UNITS})?(?![A-Za-z_\d])"
    r"|[-+]?(?:nan|inf)(?![A-Za-z_\d])))",
    re.IGNORECASE,
)
_BLANKS = re.compile(r"\s+")
_KEY = re.compile(r"[^\W\d_][\w./ @-]{0,60}?(?: ?\([^()\d]{1,20}\))?(?=[\s:=\[(<]*$)")
_AFTER_UNIT = re.compile(rf"\s?({_UNITS})(?![A-Za-z])", re.IGNORECASE)
_SPLIT = re.compile(r"[|,;(){}\[\]<>]| - |\s{2,}")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_COUNTERS = _words(
    """step steps iteration iterations iter itr batch batches minibatch mini_batch update updates generation gen episode
    round trial cycle sweep timestep timesteps tick frame frames game"""
)
_WITHIN = _words("batch batches minibatch mini_batch iter iteration itr it step mb")
_LOSSES = _words("cost costs nll xent cross_entropy ce bce mse objective criterion nll_loss")
"""What stands for the loss where nothing has that name."""
_MEASURED = re.compile(
    r"(?:^|_)(?:loss|losses|cost|nll|xent|cross_entropy|ce|mse|mae|rmse|elbo|bpb|bpc|bpd|ppl|perplexity|acc|accuracy|auc"
    r"|f1|bleu|wer|cer|fid|map|iou|dice|psnr|ssim|reward|return|rew|fitness|score|objective|kl|entropy|lr|grad_norm|gnorm"
    r"|error|err|top1|top5|acc1|acc5|损失|准确率)(?:_|\d*$)"
)
_TELLING = frozenset({"loss", "learning_rate", "accuracy"})
_FOREIGN = re.compile(
    r"\b(?:requests?|responses?|download\w*|upload\w*|connect\w*|clients?|servers?|port|pid|threads?|sessions?|users?|quer\w+"
    r"|tables?|rows?|pages?|messages?|files?|chunks?|bytes?|packets?|retr\w+|attempts?|cach\w+|https?|GET|POST|latency|uptime"
    r"|offsets?|partitions?|segments?|heartbeat|lag|jobs?|tasks?|queue\w*|pool|buffers?|blocks?|shards?|tokeniz\w+|pars\w+"
    r"|load\w*|sav\w+|writ\w+|read\w*|wrote|copied|percent|eta|elapsed|remaining|version|id|line|lines|column|address|params?"
    r"|parameters|layers?|shape|size|seed|index|rank|world|device|cuda|gpu|cpu|temp\w*|fan|watts?|minutes?|hours?|days?|year"
    r"|january|february|march|april|may|june|july|august|chapter|volume|figure|section|price|usd|euro|bus|node|vote\w*)\b",
    re.IGNORECASE,
)
_EVALUATION = re.compile(r"\W*(?:validat\w*|eval\w*|test(?:ing)?|dev|val)\b", re.IGNORECASE)
_SEPARATE = re.compile(r"\b(val|valid|validation|test|eval|dev)\b", re.IGNORECASE)


def cut(text: str) -> tuple[tuple[str, ...], list[str]]:
    """A line as its shape (what stands between the numbers, blanks folded) and its numbers."""
    between: list[str] = []
    values: list[str] = []
    at = 0
    pending = ""
    for match in _NUMBER.finditer(text):
        pending += text[at : match.start()]
        at = match.end()
        if match[1] is None:
            pending += "\0"
            continue
        between.append(_BLANKS.sub(" ", pending))
        values.append(match[1])
        pending = ""
    between.append(_BLANKS.sub(" ", pending + text[at:]).rstrip())
    return tuple(between), values


@dataclass(frozen=True, slots=True)
class Slots:
    """What the numbers of one shape are.

    Attributes:
        names: One a number: its key as the log spells it, or a name of the contract; "" for one that says nothing.
        counter: Index of the number that counts; -1 when no word says which.
        measures: True when the words name something that trainings measure, and a counter.
        kind: "metrics" or "eval".
    """

    names: tuple[str, ...]
    counter: int
    measures: bool
    kind: RecordKind

    def counts(self, readings: Sequence[Sequence[str]]) -> bool:
        """Whether the counter is whole, never falls but to begin anew, and moves."""
        column = [simple(row[self.counter].replace(",", "")) for row in readings]
        if any(type(number) is not int for number in column):
            return False
        falls = sum(b < a for a, b in pairwise(column))  # type: ignore[operator]
        return falls <= len(column) // 3 and len(set(map(tuple, readings))) > 1

    def behaves(self, readings: Sequence[Sequence[str]]) -> bool:
        """Whether the numbers behave as a training's; then `names` is settled for them.

        One whole number goes up by the same amount each time, and beside it stands a number with a name that varies.
        """
        columns = [[simple(cell.replace(",", "")) for cell in column] for column in zip(*readings, strict=True)]
        counter = next((i for i, column in enumerate(columns) if _strides(column)), None)
        if counter is None or not self.names[counter]:
            return False
        varied = [i for i, column in enumerate(columns) if i != counter and self.names[i] and _varies(column)]
        if not varied:
            return False
        names = list(self.names)
        names[counter] = "step"
        falling = [i for i in varied if _falls(columns[i])]
        if "loss" not in names and len(falling) == 1 and names[falling[0]] not in FIELDS:
            names[falling[0]] = "loss"
        object.__setattr__(self, "names", tuple(names))
        object.__setattr__(self, "counter", counter)
        return True


def _strides(column: Sequence[float | int | None]) -> bool:
    if any(type(number) is not int for number in column):
        return False
    strides = {b - a for a, b in pairwise(column)}  # type: ignore[operator]
    return len(strides) == 1 and strides.pop() > 0


def _varies(column: Sequence[float | int | None]) -> bool:
    return (
        all(number is not None for number in column) and any(type(n) is float for n in column) and len(set(column)) > 3
    )


def _falls(column: Sequence[float | int | None]) -> bool:
    numbers = [float(number) for number in column if number is not None]
    third = max(1, len(numbers) // 3)
    return min(numbers) > 0 and sum(numbers[-third:]) < 0.97 * sum(numbers[:third])


def foreign(shape: tuple[str, ...]) -> bool:
    """Whether the words are those of something else than a training: servers, downloads, prose."""
    text = " ".join(shape)
    words = len(re.findall(r"[^\W\d_]{2,}", text))
    return _FOREIGN.search(text) is not None or words > 2 * (len(shape) - 1) + 2


@lru_cache(maxsize=1024)
def told(shape: tuple[str, ...]) -> Slots:
    """What the words of a shape say."""
    keys = [_key(before, after) for before, after in pairwise(shape)]
    names: list[str] = []
    separate = ""
    for i, key in enumerate(keys):
        if found := _SEPARATE.search(shape[i]):
            separate = found[1].lower() + "_"
        elif "train" in shape[i].lower():
            separate = ""
        if key in ("/", "of") and names and i:
            names.append(_total(names[-1]))
            continue
        name = key
        if i == 0 and not key and shape[0].strip() in ("(", "[", "<", "#", "") and shape[1].strip() == "/":
            name = "step"  # `(1200/50000) G: 0.6`
        if i and not key and shape[i].strip() in (":", "=") and names[-1] and resolve(names[-1]).name != "step":
            name, names[-1] = names[-1], ""  # `avg loss over last 10: 2.345`
        if name and name in names:
            name = separate + name if separate and separate + name not in names else ""
        names.append(name)
    _within_epochs(names)
    canonical = [resolve(name).name if name else "" for name in names]
    counter = next((i for i, name in enumerate(canonical) if name == "step"), -1)
    if counter < 0:
        counter = next((i for i, name in enumerate(names) if _last(name) in _COUNTERS), -1)
        if counter >= 0:
            names[counter] = "step"
    if counter < 0:
        counter = next((i for i, name in enumerate(names) if name in ("epoch_step",)), -1)
    if counter < 0:
        counter = next((i for i, name in enumerate(canonical) if name == "epoch"), -1)
    measured = [
        i
        for i, name in enumerate(names)
        if name
        and i != counter
        and (_MEASURED.search(snake(name)) or canonical[i] in _TELLING)
        and ("loss" not in name.lower() or lossy(snake(name)))
    ]
    if not any("loss" in name for name in canonical):
        for i in measured:
            if snake(names[i]) in _LOSSES:
                names[i] = "loss"
                break
    if measured and counter < 0 and not names[0] and len(names) > 1:
        counter, names[0] = 0, "step"  # `[00012] cost 1.2`: believed when it counts
    evaluation = _EVALUATION.match(shape[0]) is not None
    return Slots(tuple(names), counter, counter >= 0 and bool(measured), "eval" if evaluation else "metrics")


def _key(before: str, after: str) -> str:
    """The name of a number: the words right before it, else the unit right behind it."""
    text = before.rstrip(" :=[(<#~\t")
    if text.endswith("/") or text.rstrip().endswith(" of") or text in ("of", "/"):
        return "/" if text.endswith("/") else "of"
    segment = _SPLIT.split(text)[-1].strip(" .-*>#")
    match = _KEY.search(segment)
    key = match[0].strip() if match else ""
    words = key.split(" ")
    for i in range(len(words)):
        tail = " ".join(words[i:])
        if resolve(tail).name in FIELDS or _MEASURED.search(snake(tail)):
            return tail
    if key and len(words) <= 4:
        return key if len(words) <= 2 else " ".join(words[-2:])
    if not key and (unit := _AFTER_UNIT.match(after)) and "/" in unit[1]:
        return unit[1]
    return ""


def _total(name: str) -> str:
    last = _last(name)
    if last == "epoch":
        return "total_epochs"
    if last in _COUNTERS or resolve(name).name == "step":
        return "total_steps"
    return ""


def _last(name: str) -> str:
    return snake(name.rsplit(" ", 1)[-1]) if name else ""


def _within_epochs(names: list[str]) -> None:
    """`Epoch 1/10 Batch 12/100`: the batches count within the epoch, when their number is printed, too."""
    epoch = next((i for i, name in enumerate(names) if name and resolve(name).name == "epoch"), -1)
    if epoch < 0 or any(name and snake(name) in ("global_step", "total_step") for name in names):
        return
    for i, name in enumerate(names[:-1]):
        if _last(name) in _WITHIN and names[i + 1] == "total_steps":
            names[i], names[i + 1] = "epoch_step", "steps_per_epoch"
            return
