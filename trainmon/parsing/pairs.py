"""Numbers of a line with the names that stand beside them, in whatever spelling.

`loss: 2.3`, `loss=2.3`, `loss 2.3`, `lr(1e-4):0.01`, `1,234 tok/s`, `45.6% MFU`, `Epoch [1][50/7517]`, `step 5/100`,
`lm loss: 1.2E+00 | grad norm: 0.5`, `step:3 - actor/lr:2e-06`. A line is cut at its numbers; what stands between them
is its shape. Names are worked out once a shape, so that each further line of it costs one pass of one expression.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise

from trainmon.parsing.names import FIELDS, SECONDS, resolve, snake

_UNITS = (
    r"tok(?:en)?s?/s(?:ec)?|samples?/s(?:ec)?|imgs?/s(?:ec)?|images?/s(?:ec)?|seqs?/s(?:ec)?|steps?/s(?:ec)?|it/s|s/it"
    r"|TFLOP/?s(?:/s)?|ms|us|µs|μs|ns|secs?|seconds?|mins?|minutes?|hours?|hrs?|s|h|%|[kKMGT]i?B(?:/s)?|[kKMGBT]"
)
_FIGURE = r"(?:\d{1,3}(?:,\d{3})+(?!,?\d)(?:\.\d*)?|\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"
_VALUE = re.compile(
    r"(?<![A-Za-zÀ-ÿ\d_.@])(?<![\w)]-)(?:"
    # A date, a time of day, a duration, a version: one thing, and no measurement but by its name.
    r"(?P<when>\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?)?"
    r"|(?:\d{1,9} days?,? )?\d{1,9}:\d\d(?::\d\d)?(?:\.\d+)?(?![\w:])"
    r"|(?:\d{1,9}[dhms]){2,4}(?![\w.])|\d+\.\d+\.\d+[\w.+]*)"
    r"|(?!1e-?\d{1,2}\)\s?[:=])"  # a scale in a key: `lr(1e-4):0.010`
    rf"(?P<number>[-+]?{_FIGURE}(?:{_UNITS})?(?![A-Za-z_\d])(?!\.\d))"
    r"|(?P<word>[-+]?(?:nan|inf(?:inity)?)(?:ms|s|%)?(?![\w-])|n/a(?![\w-])|none(?=[\s,|;)]|$)"
    r"|-{1,2}(?=\s|$)(?<=[:=] -))"
    r")",
    re.IGNORECASE,
)
_TENSOR = re.compile(r"tensor\(\s*\[?\s*([^(),\[\]]{1,60})[^()]{0,200}\)")
_BLANKS = re.compile(r"\s+")
_WIDE = str.maketrans("：，（）＝；｜【】％／、。［］", ":,()=;|[]%/,.[]")
_SEPARATOR = re.compile(r"[|,;{}<>\[\]\t\"]|\s-\s|\s{2,}|(?<![\w)])[()](?!\d)|->|=>")
_KEY_END = re.compile(r"(?:[^\W\d_]|[_@])(?:[\w./@%#+*^-]|\s(?=\S))*(?:\s?[(\[][^()\[\]]{1,24}[)\]])?$")
_ASSIGN = re.compile(r"\s*(?:[:=~]|\bis\b)\s*(?:tensor\()?[\[({'\"$]{0,2}\s*$")
_BEHIND = re.compile(rf"\s?({_UNITS})(?![\w/])(?!\s{{0,4}}[:=])(?!\s{{1,4}}[-+]?$)", re.IGNORECASE)
_BEHIND_WORDS = re.compile(r"\s?(?:%|ms|s)?\s?([A-Za-z][\w/ -]{0,30})")
_OVER = re.compile(r"\s?/\s*$")
_NORM = re.compile(r"\|([A-Za-z]\w{0,20})\|$")
_EPOCH_ZH = re.compile(r"第\s?$")
_LONE = re.compile(r"[\s|,;)]*([A-Za-z_]\w{1,30})\s*$")
_SPLIT_WORD = re.compile(r"(?<![A-Za-z])(train|training|val|valid|validation|test|eval|dev)(?![A-Za-z])", re.IGNORECASE)

_SPEEDS = frozenset(["speed", "rate", "速度", "throughput", "perf"])
"""What is said of a number whose unit says it better."""
_SIDES = frozenset(["train", "training", "epoch"])
_WITHIN = frozenset(
    "批次 batch minibatch mini_batch iter iters iteration itr it step batches".split()  # noqa: SIM905
)
_COUNTERS = _WITHIN | {"update", "updates", "episode", "round", "generation"}
_WHOLE_TIMES = frozenset(["epoch", "total", "wall", "elapsed", "training", "eval", "evaluation", "validation", "val"])
"""Beside one of these words a time is no step's."""
_EVALUATIONS = frozenset(
    ["eval", "evaluation", "evaluating", "validation", "validate", "validating", "valid", "val", "test"]
)
_COUNTED = frozenset(["step", "iter", "iteration", "epoch", "update"])
_PER_STEP = re.compile(r"/(?:step|it|iter|iteration|batch)\b")
_PER_SECOND = re.compile(r"/s\b(?!tep)")
_SPACED_WORDS = frozenset(["步数", "步", "轮", "损失", "学习率", "batch", "update", "updates", "episode", "time"])

_MAX_KEY = 160
"""Characters in front of a number that can be its name."""

Shape = tuple[str, ...]
_LASTS = "\1"
"""Marks, in a shape, that what follows is a duration or a time of day."""


def cut(text: str) -> tuple[Shape, list[str]]:
    """A line as its shape (what stands between its numbers, runs of blanks folded to two) and its numbers.

    The shape has one part more than there are numbers. Durations stand among them; a date belongs to the shape.
    """
    if "tensor(" in text:
        text = _TENSOR.sub(r"\1", text)
    if not text.isascii():
        text = text.translate(_WIDE)
    between: list[str] = []
    values: list[str] = []
    at = begun = 0
    for match in _VALUE.finditer(text):
        if match.lastgroup == "when" and "-" in match[0]:
            continue
        piece = _fold(text[begun : match.start()])
        between.append(piece + _LASTS if match.lastgroup == "when" else piece)
        values.append(match[0])
        begun = at = match.end()
    between.append(_fold(text[at:]).rstrip())
    return tuple(between), values


def _fold(text: str) -> str:
    return text if "  " not in text and "\t" not in text else _BLANKS.sub(_folded, text)


def _folded(match: re.Match[str]) -> str:
    return " " if len(match[0]) == 1 and match[0] != "\t" else "  "


def read(text: str) -> dict[str, str]:
    """Names and numbers of a line, in order; of two of one name the first."""
    shape, values = cut(text)
    out: dict[str, str] = {}
    for i, (name, unit, value) in enumerate(zip(*names_of(shape), values, strict=True)):
        if name and name not in out:
            out[name] = value + unit if unit and value[-1:].isdigit() else value
            if shape[i + 1].strip() == "/" and resolve(name).name.endswith("accuracy"):
                out[name] = _share(value, values[i + 1]) or out[name]
    return out


def _share(part: str, whole: str) -> str:
    """`9842/10000` as a share; "" when it is none."""
    try:
        return repr(float(part) / float(whole)) if float(part) <= float(whole) else ""
    except (ValueError, ZeroDivisionError):
        return ""


@lru_cache(maxsize=4096)
def names_of(shape: Shape) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The name of each number ("" for one that says nothing), and the unit behind it where that stands apart."""
    names: list[str] = []
    units: list[str] = []
    side = ""
    for i, (before, after) in enumerate(pairwise(shape)):
        key = _key(before, after, names, i)
        if words := _SPLIT_WORD.findall(before):
            side = "" if words[-1].lower().startswith("train") else "val_"
        if key == "\0again":
            key = names[-1] if resolve(names[-1]).name not in FIELDS or "loss" in resolve(names[-1]).name else ""
            names[-1] = "" if key else names[-1]
        if key and key[0] != "\0" and key in names:  # `Train Loss 1 Acc 2 | Val Loss 3 Acc 4`
            key = side + key if side and side + key not in names else ""
        names.append(key)
        unit = _BEHIND.match(after)
        if unit and "/" in unit[1] and snake(key) in _SPEEDS:
            names[-1] = unit[1]
        units.append(unit[1] if unit and key else "")
    _settle(names)
    return tuple(names), tuple(units)


def _key(before: str, after: str, names: list[str], i: int) -> str:
    """The name of the number between two pieces of a line."""
    if len(before) > 2 * _MAX_KEY:
        before = before[:_MAX_KEY] + before[-_MAX_KEY:]
    if before.endswith(_LASTS):
        key = _key(before[:-1], after, names, i)
        if key == "step_time":
            return "elapsed"
        return key if key and key[0] != "\0" and resolve(key).kind == SECONDS else ""
    if i and before[:1] in " %" and (unit := _BEHIND.match(before)) and unit.end() < len(before):
        before = before[unit.end() :]
    text = before.rstrip()
    if _EPOCH_ZH.search(before):  # `第 3/5 轮`
        return "epoch"
    if i and (text in ("/", " /", "of", " of") or (text.endswith(("/", " of")) and len(text) < 4)):
        return _total(names[-1]) if names else ""
    if text.strip() == ":" and _OVER.match(after):
        return "\0inner"
    if assigned := _ASSIGN.search(before):
        if i and not before[: assigned.start()].strip() and names[-1] and names[-1][0] != "\0":
            return "\0again"  # `avg loss over last 10: 2.345`
        return _trim(_last_key(before[: assigned.start()]))
    if before.endswith(",") and (word := before.strip(" ,")) and "," not in word and _well_known(word) == word:
        return word  # `step,1000,loss,2.345`
    if i and text[-1:] == "(" and text.strip() == "(":
        return ""  # `1.08 (1.13)`: the mean of what stands before it
    if text[-1:] in "[(" and (word := _last_key(text[:-1])):
        return word if _well_known(word) else ""
    if text.strip(" ]()%[") == "" and ("[" in text or (i == 0 and text == "(")) and _OVER.match(after):
        return "\0inner"
    if text.strip(" ][") == "" and "[" in text and i == 0 and after[:1] in "],":
        return "\0bracket"
    if word := _last_key(text):
        known = _well_known(word)
        if known:
            return known
    if i and not text.strip(" |") and _OVER.match(after):  # `| epoch   1 |   200/ 2983 batches |`
        return "\0inner"
    if lone := _LONE.match(before):
        return lone[1]
    if not text.strip(" |,;-"):
        unit = _BEHIND.match(after)
        if unit and "/" in unit[1]:
            return unit[1]
        if _PER_STEP.match(after):
            return "step_time"
        if _PER_SECOND.match(after):
            return "samples/s"
        words = _BEHIND_WORDS.match(after)
        if words and (known := _well_known(_SEPARATOR.split(words[1])[0].strip())):
            return known
    return ""


def _last_key(text: str) -> str:
    """The words at the end of a piece, behind the last separator."""
    text = text[-_MAX_KEY:].rstrip(" \t'\"")
    if text.endswith("|") and (found := _NORM.search(text)):  # `|grad|=1.0`
        return found[1]
    if text.endswith((")", "]")):  # a unit, or a group of a name: `memory (MB)`, `Epoch(train)`
        opening = max(text.rfind("("), text.rfind("["))
        stem, tail = text[:opening], text[opening:]
        if opening <= 0 or len(tail) > 26 or not stem.strip():
            return ""
        word = _last_key(stem)
        return word + (" " if stem.endswith(" ") else "") + tail if word else ""
    part = _SEPARATOR.split(text)[-1].strip(" *#>.-'\"(")
    match = _KEY_END.search(part)
    return match[0] if match else ""


@lru_cache(maxsize=4096)
def _trim(key: str) -> str:
    """The longest ending of a key that means something: `INFO train loss` -> `train loss`; else its last word."""
    if snake(key) == "time":
        return "step_time"  # beside a step, a bare time is what the step took
    words = key.split(" ")
    if len(words) > 1 and snake(words[0]) in _EVALUATIONS and snake(words[-1]) in _COUNTED:
        return words[-1]  # `eval at step 12000: val_loss=2.6`
    for i in range(len(words)):
        candidate = " ".join(words[i:])
        slot = resolve(candidate)
        if slot.name in FIELDS or (slot.name.startswith("eval_") and (len(words) - i < 4 or "loss" in slot.name)):
            return candidate
    return words[-1] if len(words) > 5 and "(" not in words[-1] else key


@lru_cache(maxsize=4096)
def _well_known(key: str) -> str:
    """The ending of words that is a name without any `:` or `=` behind it; "" when there is none."""
    words = key.split(" ")
    if len(words) > 1 and snake(words[0]) in _EVALUATIONS and snake(words[-1]) in _COUNTED:
        return words[-1]
    for i in range(max(0, len(words) - 4), len(words)):
        candidate = " ".join(words[i:])
        bare = candidate.split("(")[0]
        slot = resolve(bare)
        if (slot.name in FIELDS and len(bare) > 1) or slot.name.startswith("eval_") or snake(bare) in _SPACED_WORDS:
            if snake(bare) != "time":
                return bare
            return "step_time" if i == 0 or snake(words[i - 1]) not in _WHOLE_TIMES else f"{words[i - 1]} time"
    return ""


def _total(name: str) -> str:
    canonical = resolve(name).name if name else ""
    if canonical == "epoch":
        return "total_epochs"
    return f"\0of {name}" if name else ""


def _settle(names: list[str]) -> None:
    """Which counter is the step, which counts within the epoch, and whose total the totals are."""
    if not names:
        return
    if any("loss" in name for name in names):  # `loss train: 2.3, val: 2.4`
        names[:] = ["val_loss" if name.lower() in ("val", "valid", "validation") else name for name in names]
    canonical = [resolve(name).name if name and name[0] != "\0" else "" for name in names]
    epoch = next((i for i, name in enumerate(canonical) if name == "epoch"), -1)
    inners = [i for i, name in enumerate(names) if name == "\0inner"]
    if epoch < 0 and len(inners) > 1:  # `[0/25][50/1583]`
        epoch = inners.pop(0)
        names[epoch] = "epoch"
    inner = inners[0] if inners else -1
    if epoch < 0 and inner > 0:  # `Train: 0 [  50/10009 (  0%)]`, `Train: [0/300][10/1251]`
        at = next((i for i in range(inner - 1, -1, -1) if names[i] and names[i][0] != "\0"), -1)
        if at >= 0 and snake(names[at].split(" ")[-1]) in _SIDES:
            names[at], epoch = "epoch", at
    if names[0] == "\0bracket" and inner < 0:  # `[0]\ttrain-logloss:0.6`, `[1,  2000] loss: 2.1`
        alone = len(names) < 2 or names[1] != ""
        names[0] = "step" if alone else "epoch"
        if not alone and len(names) > 2:  # `[2,  4000] loss: 1.8`
            names[1] = "step"
    steps = [i for i, name in enumerate(canonical) if name == "step"]
    best = min(steps, key=lambda i: resolve(names[i]).place, default=-1)
    if best < 0 and inner < 0:
        best = next((i for i, name in enumerate(names) if name and snake(name) in _COUNTERS), -1)
        if best >= 0 and epoch < 0:
            names[best] = "step"
    for i, name in enumerate(names):
        if name == "\0inner":
            names[i] = "epoch_step" if epoch >= 0 else "" if steps else "step"
        elif name.startswith("\0of"):
            whose = name[4:]
            if i == inner + 1 and inner >= 0:
                names[i] = {"epoch_step": "steps_per_epoch", "step": "total_steps"}.get(names[inner], "")
            elif i - 1 != best:
                names[i] = "total_epochs" if i - 1 == epoch else ""
            elif 0 <= epoch < best and snake(whose) in _WITHIN:
                names[best], names[i] = "epoch_step", "steps_per_epoch"
            else:
                names[i] = "total_steps"
        elif name == "\0bracket":
            names[i] = ""
