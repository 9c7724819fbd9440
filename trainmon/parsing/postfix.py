"""Measurements inside of progress bars: `Epoch 4:  31%|███ | 10/32 [00:00<00:01, 9.3it/s, loss=1.28, lr=2e-7]`.

Lightning, NeMo 1, torchtune, llama-recipes, diffusers, kohya, and whatever calls `set_postfix`.
"""

from __future__ import annotations

import re

from trainmon.parsing import pairs as reader
from trainmon.parsing.names import FIELDS, resolve, snake
from trainmon.parsing.plan import lossy

_INSIDE = re.compile(
    r"\|\s{0,8}(?P<n>\d+)/(?P<total>\d+)\s{0,8}\[(?P<times>[^,\]]{0,60})(?:,\s*(?P<rest>.*))?\]\s*$", re.DOTALL
)
_RATE = re.compile(r"\s*(?:(?P<rate>[\d.]+)\s?(?P<per>it/s|s/it|steps?/s|batch(?:es)?/s)|\?\s?it/s)\s*(?:,|$)")
_TUNE = re.compile(r"^(?P<epoch>\d+)\|(?P<step>\d+)\|")
_EPOCH = re.compile(r"\bepochs?\b|\bep\b", re.IGNORECASE)
_ASIDE = re.compile(
    r"^\W*(?:valid\w*|sanity|test\w*|eval\w*|predict\w*|val|map|filter|download\w*|load\w*|tokeni\w+|generat\w*|sav\w+|fetch\w*"
    r"|prepar\w*|process\w*|convert\w*|cast\w*|encod\w*|extract\w*|computing|upload\w*|reading|inference)\b",
    re.IGNORECASE,
)
_WEAK = frozenset(
    [
        "step",
        "epoch",
        "total_steps",
        "step_time_s",
        "data_time_s",
        "samples_per_second",
        "tokens_per_second",
        "gpu_memory_mb",
    ]
)
"""Beside these alone a bar is one of loading or of evaluation."""


Count = tuple[object, int]
"""Epoch and counter of a bar."""


def read_bar(before: str, bar: str) -> tuple[Count, dict[str, object]] | None:
    """The count of a whole bar and what it measures, as pairs; None for one that only counts.

    Args:
        before: What stands in front of it, its description.
        bar: From the percentage to the closing bracket.
    """
    match = _INSIDE.search(bar)
    if match is None:
        return None
    rest = match["rest"] or ""
    description = before.strip()
    if ("=" not in rest and ":" not in rest and not any(c.isdigit() for c in description)) or _ASIDE.match(description):
        return None
    n, total = int(match["n"]), int(match["total"])
    if n == 0:  # what it shows is of the epoch before
        return None
    pairs: dict[str, object] = {}
    if tune := _TUNE.match(description):
        pairs["epoch"], pairs["step"] = tune["epoch"], tune["step"]
        description = description[tune.end() :]
    if rate := _RATE.match(rest):
        rest = rest[rate.end() :]
        if rate["rate"]:
            pairs["step_time" if rate["per"] == "s/it" else "it/s"] = rate["rate"]
    told = reader.read(description.rstrip(": ")) if description else {}
    measures = {**told, **_postfix(rest)}
    if not any(_measures(name) for name in measures):
        return None
    names = {resolve(name).name for name in measures}
    if _EPOCH.search(description) and "epoch" not in names:
        number = re.search(r"(?:epochs?|ep)\W{0,3}(\d+)", description, re.IGNORECASE)
        if number:
            measures["epoch"] = number[1]
            names.add("epoch")
    for name, value in measures.items():
        pairs.setdefault(name, value)
    count = next((value for name, value in measures.items() if resolve(name).name == "epoch"), None), n
    within = _EPOCH.search(description) is not None and "epoch" in names
    if "step" in names or "step" in pairs:
        pairs.pop("total_steps", None) if within else None
        if not within and "step" in pairs:
            pairs.setdefault("total_steps", total)
        return count, pairs
    if within:
        pairs["epoch_step"], pairs["steps_per_epoch"] = n, total
    else:
        pairs["step"], pairs["total_steps"] = n, total
    return count, pairs


def _postfix(rest: str) -> dict[str, str]:
    """`loss=3.1, v_num=, lr=1e-5` as tqdm joins it; also `loss: 3.1`."""
    out: dict[str, str] = {}
    for part in rest.split(","):
        key, sign, value = part.partition("=")
        if not sign:
            key, sign, value = part.partition(":")
        key, value = key.strip(), value.strip()
        if sign and key and value and len(key) <= 80:
            out.setdefault(key, value)
    return out


def _measures(name: str) -> bool:
    canonical = resolve(name).name
    if canonical in FIELDS:
        return canonical not in _WEAK
    return lossy(snake(name)) or (canonical.startswith("eval_") and "loss" in canonical)
