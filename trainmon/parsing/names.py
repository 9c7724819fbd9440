"""Names of fields: every spelling a log may use -> the name and unit of the record contract.

`resolve(key)` is cached, so a key costs its analysis once. The tables are data (`names.toml`): a new
spelling is one word.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

NUMBER, WHOLE, MEMORY, INVERSE, STEP_OF, SECONDS, EXTRA, TIME, LEVEL, TEXT, LABEL, NODE, PLACE, SKIP = range(14)
"""What is done with a value: see `Slot.kind`."""

_KINDS = {
    "NUMBER": NUMBER, "WHOLE": WHOLE, "MEMORY": MEMORY, "INVERSE": INVERSE, "STEP_OF": STEP_OF,
    "SECONDS": SECONDS, "EXTRA": EXTRA, "TIME": TIME, "LEVEL": LEVEL, "TEXT": TEXT, "LABEL": LABEL,
    "NODE": NODE, "PLACE": PLACE, "SKIP": SKIP,
}  # fmt: skip
_DATA = tomllib.loads((resources.files("trainmon.parsing") / "names.toml").read_text("utf-8"))

FIELDS: dict[str, tuple[int, str]] = {
    name: (_KINDS[kind], dimension) for name, (kind, dimension) in _DATA["fields"].items()
}
"""Canonical name -> (kind, dimension); what is not here goes to `extra`."""

_TABLE: dict[str, tuple[str, int]] = {
    word: (name, place) for name, words in _DATA["spellings"].items() for place, word in enumerate(words.split())
}
_OTHERS: dict[str, tuple[int, str]] = {
    word: (_KINDS[group["kind"]], group["name"]) for group in _DATA["other"] for word in group["spellings"].split()
}
_EVAL = re.compile(
    r"(?:(?:eval|evaluation|val|valid|validation|test|dev)_(?!time|step|iter|epoch(?!_loss))|(?:验证集?|测试集?|评估)_?)(.+)"
)
_MILLISECONDS = frozenset(["ms_batch", "ms_step", "ms_iter", "ms_it", "ms_per_step", "ms_per_batch", "bch"])
_TIMING = re.compile(r"timing(?:_s)?_(.+)")
_PARENS = re.compile(r"\s*[(\[]([^()\[\]]*)[)\]]")
_SEPARATORS = re.compile(r"[^0-9a-z\u00b5\u4e00-\u9fff]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z][a-z])")
_SCALE = re.compile(r"1e-?\d{1,2}")
_UNIT_SUFFIX = re.compile(r"(.+?)_(?:in_)?(ms|us|s|sec|secs|seconds|mb|mib|gb|gib|kb|bytes|b|percent|pct|w|c|watts)")
_UNIT_FACTORS: dict[str, dict[str, float]] = {
    "memory": {"mb": 1.0, "mib": 1.0, "gb": 1024.0, "gib": 1024.0, "kb": 1 / 1024, "bytes": 2.0**-20, "b": 2.0**-20},
    "time": {"ms": 1e-3, "us": 1e-6, "s": 1.0, "sec": 1.0, "secs": 1.0, "seconds": 1.0},
    "percent": {"percent": 1.0, "pct": 1.0, "fraction": 100.0},
    "plain": {"w": 1.0, "watts": 1.0, "c": 1.0},
}


@dataclass(frozen=True, slots=True)
class Slot:
    """Where the value of one key goes.

    Attributes:
        kind: One of the constants above: NUMBER a float, WHOLE an integer, MEMORY a float whose unit may have to be
            guessed, INVERSE 1/x, STEP_OF `10/438`, SECONDS a duration in words, EXTRA kept as it is, and the rest
            fields of the record itself.
        name: Canonical name, or the key in snake_case for `extra`.
        factor: From the key's own unit to the contract's.
        dimension: Which units a value may carry itself.
        place: 0 for the best spelling; of two keys for one name the lower wins.
        guess: True when the key names no unit, so that memory may be bytes or GiB.
    """

    kind: int
    name: str
    factor: float = 1.0
    dimension: str = "plain"
    place: int = 0
    guess: bool = False

    @property
    def measured(self) -> bool:
        """True for what stands in `Record.values`."""
        return self.name in FIELDS or self.name.startswith("eval_")


_LONGEST = 200
"""Characters of a key that are looked at (and kept): JSON may hold a megabyte in one."""


def snake(key: str) -> str:
    """`memory/max_mem_active(gib)` -> `memory_max_mem_active_gib`."""
    return _snake(key if len(key) <= _LONGEST else key[:_LONGEST])


@lru_cache(maxsize=8192)
def _snake(key: str) -> str:
    return _SEPARATORS.sub("_", _CAMEL.sub("_", key).lower()).strip("_") or "value"


def _known(word: str) -> tuple[str, int] | None:
    found = _TABLE.get(word)
    if found is None and "_" in word:
        found = _TABLE.get(word.replace("_", "")) if len(word) > 8 else None
    return found


def _slot(name: str, place: int, unit: str) -> Slot:
    kind, dimension = FIELDS.get(name, (EXTRA, "plain"))
    factor = _UNIT_FACTORS.get(dimension, {}).get(unit, 1.0)
    known = unit in _UNIT_FACTORS.get(dimension, {})
    if _SCALE.fullmatch(unit):  # `actor/lr(1e-4): 0.010`
        factor = float(unit)
    if kind == MEMORY and known:
        kind = NUMBER
    return Slot(kind, name, factor, dimension, place, guess=not known)


def resolve(key: str) -> Slot:
    """The slot of a key in any spelling; keys that mean nothing to us go to `extra` under their own name."""
    return _resolve(key if len(key) <= _LONGEST else key[:_LONGEST])


@lru_cache(maxsize=8192)
def _resolve(key: str) -> Slot:
    whole = snake(key)
    if whole in _OTHERS:
        kind, name = _OTHERS[whole]
        return Slot(kind, name, dimension="time" if name == "step_time_s" else "plain")
    if whole in _MILLISECONDS:
        return _slot("step_time_s", 2, "ms")
    unit = ""
    bare = whole
    if found := _PARENS.search(key):
        bare = snake(_PARENS.sub("", key))
        unit = found[1].strip().lower()
    for candidate in (whole, bare):
        if hit := _known(candidate):
            return _slot(*hit, unit)
    if (suffix := _UNIT_SUFFIX.fullmatch(bare)) and (hit := _known(suffix[1])):
        return _slot(*hit, suffix[2])
    if phase := _TIMING.fullmatch(bare):  # verl: `timing/gen`, `timing_s/step`
        if phase[1] == "step":
            return _slot("step_time_s", 1, "")
        return Slot(EXTRA, f"timing_{phase[1]}_s")
    if evaluation := _EVAL.fullmatch(bare):
        return _evaluation(evaluation[1], unit)
    return Slot(EXTRA, whole)


_LOSSES = frozenset(["logloss", "mlogloss", "binary_logloss", "multi_logloss", "cross_entropy", "crossentropy", "nll"])


def _evaluation(rest: str, unit: str) -> Slot:
    hit = _known(rest) or (("loss", 50) if rest in _LOSSES else None)
    name = rest
    if hit is not None and hit[0] in ("loss", "accuracy", "perplexity", "reward", "kl", "samples_per_second"):
        name = hit[0]
    return Slot(NUMBER, "eval_" + name, place=hit[1] if hit else 0)


def with_names(names: Mapping[str, str], units: Mapping[str, str], key: str) -> Slot:
    """The slot of a key in a format that has its own names and units for some keys."""
    canonical = names.get(key)
    if canonical is None:
        return resolve(key)
    if canonical == "":
        return Slot(SKIP, key)
    base = resolve(canonical)
    return (
        _slot(base.name, 0, units.get(key, ""))
        if base.kind in (NUMBER, WHOLE, MEMORY, EXTRA) and base.name in FIELDS
        else base
    )
