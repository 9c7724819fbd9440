"""Which lines can matter, and what a message says happened: literals first, patterns only behind them."""

from __future__ import annotations

import re
from functools import lru_cache

from trainmon.parsing.groups import OPENERS

LITERALS: tuple[bytes, ...] = (
    b"oss", b"tep", b'{"', b"{'", b"%|", b"poch", b"ERROR", b"WARN", b"iter", b"Iter", b"rror:", b"Traceback",
    b"heckpoint", b"raining", b"FATAL", b"CRIT", b"valuat", b"=err", b"=warn", b"xception", b"NeMo ", b"atal error",
    b": E ", b": W ", b": F ", b"=fatal", b"=crit", b"[error", b"[warn", b"[crit", b'" 50',
    b"model=", b"model_name",
    b"\xcb\xf0\xca\xa7", b"\xb4\xed\xce\xf3", b"\xbe\xaf\xb8\xe6",
    b"\xe6\x8d\x9f\xe5\xa4\xb1", b"\xe9\x94\x99\xe8\xaf\xaf", b"\xe8\xad\xa6\xe5\x91\x8a",
)  # fmt: skip
"""One of these stands on every line that can be a record, but for those that begin as `HEADS`.

The last six are the Chinese words for loss, error and warning, in GBK and in UTF-8.
"""


@lru_cache(maxsize=8)
def signs(rules: tuple[tuple[str, ...], ...]) -> tuple[bytes, ...]:
    """What stands on every line that can matter: the literals, and what else rules need.

    Args:
        rules: The literals that each rule needs.
    """
    out = [*LITERALS, *OPENERS]
    for needs in (tuple(need.encode() for need in rule) for rule in rules if rule):
        if not any(sign in need for sign in out for need in needs):
            out.append(max(needs, key=len))
    return tuple(dict.fromkeys(out))


HEADS = frozenset(b"WEF[")
"""First bytes of lines with a one-letter level (glog, absl, c10d)."""

_GLOG = re.compile(rb"(?:\[(?:rank|default)\d+\]:? ?)*\[?[WEF](?:\d{4} \d\d:| \S+\.(?:cpp|cc|cu|h):\d)")


def glog_line(line: bytes) -> bool:
    """True when this line carries a one-letter level above I."""
    return _GLOG.match(line) is not None


_EVENTS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile("|".join(patterns), re.IGNORECASE))
    for name, patterns in {
        "checkpoint": (
            r"sav(?:ed|ing)\b.{0,40}\bcheckpoint",
            r"checkpoint\b.{0,60}\b(?:saved|written)",
            r"sav(?:ed|ing) model to",
        ),
        "eval_start": (
            r"\*{3,} ?running (?:evaluation|eval|validation)",
            r"(?:start(?:ing|ed)?|begin(?:ning)?|running) (?:evaluation|validation)\b",
        ),
        "eval_end": (r"(?:evaluation|validation) (?:finished|done|completed?|took)\b",),
        "finished": (
            r"\btraining (?:is )?(?:finished|completed?|done|ended successfully)\b",
            r"finished training\b",
            r"`?Trainer\.fit`? stopped: `max_",
            r"训练完成",
        ),
        "started": (
            r"\*{3,} ?running training",
            r"training starts? at\b",
            r"training started\b",
            r"start(?:ing|ed)? (?:the )?training\b(?! step)",
            r"^training \.\.\.",
        ),
    }.items()
)
_FAILED = re.compile(r"\b(?:fail|error|unable|cannot|could not|not )", re.IGNORECASE)


def event(message: str) -> str | None:
    """What a message says happened: checkpoint, eval_start, eval_end, finished, started; None for all else."""
    head = message[:300]
    for name, pattern in _EVENTS:
        if pattern.search(head):
            return None if name in ("checkpoint", "finished") and _FAILED.search(head) else name
    return None


# Lines at level E that every healthy start of these libraries prints.
_HARMLESS = (
    "Unable to register cuFFT factory",
    "Unable to register cuDNN factory",
    "Unable to register cuBLAS factory",
    "computation placer already registered",
)


def harmless(message: str) -> bool:
    """True for lines whose level says error and whose content is none."""
    return message.startswith(_HARMLESS) or message.startswith("LOG DETAIL") or "ERROR LOG DETAIL" in message


_MODEL = re.compile(
    r"""\bmodel(?:_name)?(?:_or_path)?["']?\s?(?:=|:(?=\s?["']))\s?["']?([A-Za-z/.][\w.+/-]{1,120})(?=["',;\s)}]|$)"""
)
_FILE_END = re.compile(r"\.(?:ya?ml|json|pth?|ckpt|safetensors)$")
_NO_MODEL = frozenset({"none", "null", "true", "false", "model"})


def model_named(message: str) -> str | None:
    """The name of the model that a start-up message tells (`model=qwen-7b-lora`), without its folders."""
    found = _MODEL.search(message[:2000]) if "model" in message else None
    if found is None:
        return None
    name = _FILE_END.sub("", found[1].rstrip("/.").rsplit("/", 1)[-1])
    return name if len(name) > 1 and name.lower() not in _NO_MODEL else None
