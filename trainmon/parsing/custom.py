"""Formats of one's own: `[[format]]` of the configuration and plug-ins, which win over what comes with trainmon.

A format of one's own reads lines by patterns with named groups, by the keys of JSON lines, or by a Python function (of
an installed package only). It is a `Format` like any other; JSON keys are read by the JSON engine, the rest by
`OwnReader` before anything else looks at the line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from time import perf_counter
from typing import Any

from trainmon.model import Record, RecordKind
from trainmon.parsing.formats import Format
from trainmon.parsing.guard import LIMIT_S, LONGEST_TEXT, Guarded, PatternError
from trainmon.parsing.names import EXTRA, FIELDS, MEMORY, NUMBER, SKIP, TEXT, WHOLE, Slot, resolve, snake
from trainmon.parsing.pattern_engine import _READERS as READERS
from trainmon.parsing.prefix import peel
from trainmon.parsing.values import MISSING, UNITS

KINDS: tuple[RecordKind, ...] = ("metrics", "eval", "summary", "gpu", "host", "error", "log")
"""What a format of one's own may say that its lines are."""
KEYS = ("name", "title", "pattern", "keys", "names", "units", "kind", "needs", "pairs", "sample")
"""The keys of a `[[format]]`."""
MOST_PATTERNS = 20
"""Patterns of one format."""
OWN = "own"
"""The engine of formats that `OwnReader` reads."""
PAIRS = ("none", *(name for name in READERS if name != "none"))

_NAME = re.compile(r"[A-Za-z][\w.+-]{0,60}")
_SCALES: dict[str, dict[str, float]] = {
    "memory": {u: f for u, f in UNITS["memory"].items() if len(u) > 1},
    "time": {u: f for u, f in UNITS["time"].items() if u != "m"},
    "count": {"k": 1e3, "m": 1e6, "b": 1e9},
    "percent": {"percent": 1.0, "%": 1.0, "fraction": 100.0},
}

Line = Callable[[str], Mapping[str, object] | None]
"""What a plug-in may give: reads one line (without labels and escape codes) and returns its fields, or None."""


@dataclass(frozen=True, slots=True)
class OwnFormat(Format):
    """A format of one's own.

    Attributes:
        origin: "config", or the name of the plug-in.
        patterns: What its lines are read by; the first that matches counts.
        kind: What its lines are; None lets the fields say.
        needs: Texts of which each has to stand on the line.
        pairs: How what a pattern leaves of the line is read: "none", "mixed", "equals", "pipe".
        read: The function of a plug-in, instead of patterns.
    """

    origin: str = "config"
    patterns: tuple[Guarded, ...] = ()
    kind: RecordKind | None = None
    needs: tuple[str, ...] = ()
    pairs: str = "none"
    read: Line | None = None

    def __hash__(self) -> int:
        """Its own: engines keep plans by format, and tables of names cannot be hashed."""
        return id(self)

    def resolve(self, key: str) -> Slot:
        """The slot of a key in this format: its own name and unit for it, else the common ones."""
        return slot_of(key, self.names, self.units)


def slot_of(key: str, names: Mapping[str, str], units: Mapping[str, Any]) -> Slot:
    """The slot of a key where a format has names and units of its own.

    Args:
        units: Key or field -> unit, or the factor to the contract's unit.
    """
    canonical = names.get(key)
    if canonical == "":
        return Slot(SKIP, key)
    slot = resolve(canonical if canonical is not None else key)
    if canonical is not None and slot.kind == EXTRA:
        slot = Slot(EXTRA, snake(canonical))
    unit = units.get(key, units.get(slot.name))
    if unit is None:
        return slot
    factor = float(unit) if isinstance(unit, int | float) else _SCALES[slot.dimension][unit.lower()]
    return replace(slot, kind=NUMBER if slot.kind == MEMORY else slot.kind, factor=factor, guess=False)


Problem = tuple[str, str]
"""A key, and what is wrong with it."""


def build(data: Mapping[str, Any], origin: str = "config") -> tuple[OwnFormat | None, list[Problem]]:
    """A format from a `[[format]]` table.

    Args:
        origin: Where it is from, as `trainmon formats` shows it.

    Returns:
        The format, or None and what is wrong, all of it.
    """
    problems: list[Problem] = []

    def wrong(key: str, text: str) -> None:
        problems.append((key, text))

    for key in data:
        if key not in KEYS:
            near = get_close_matches(str(key), KEYS, n=1)
            wrong(str(key), "is no key of a format" + (f'; did you mean "{near[0]}"?' if near else ""))
    name = data.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        wrong("name", 'should be a short name such as "mytrainer"' if "name" in data else "is missing")
        name = "?"
    label = f'format "{name}"'
    patterns: list[Guarded] = []
    texts = _texts(data.get("pattern", ()), "pattern", wrong)
    if len(texts) > MOST_PATTERNS:
        wrong("pattern", f"should be {MOST_PATTERNS} patterns at most")
    for text in texts[:MOST_PATTERNS]:
        try:
            patterns.append(Guarded(text, label))
        except PatternError as error:
            wrong("pattern", str(error))
    keys = tuple(_texts(data.get("keys", ()), "keys", wrong))
    if ("pattern" in data) == ("keys" in data):
        wrong("pattern", "and keys: a format has one of them" if keys else "or keys is missing: nothing would be read")
    kind = _one_of(data, "kind", KINDS if "keys" not in data else KINDS[:-2], wrong)
    pairs = _one_of(data, "pairs", PAIRS, wrong) or "none"
    names = _names(data.get("names", {}), wrong)
    fields = keys or tuple(_key(group) for pattern in patterns for group in pattern.groups)
    units = _units(data.get("units", {}), names, fields, open_=bool(keys) or pairs != "none", wrong=wrong)
    samples = data.get("sample", [])
    if not isinstance(samples, list) or not all(
        isinstance(s, dict) and isinstance(s.get("line"), str) for s in samples
    ):
        wrong("sample", "should be tables with a line, and what it gives")
        samples = []
    title = data.get("title", name)
    if not isinstance(title, str):
        wrong("title", "should be a text")
    needs = tuple(_texts(data.get("needs", ()), "needs", wrong))
    if problems:
        return None, problems
    found = OwnFormat(
        name=name,
        title=title,
        engine="json" if keys else OWN,
        keys=keys,
        names=names,
        units=units,
        order=-1,
        samples=tuple(samples),
        origin=origin,
        patterns=tuple(patterns),
        kind=kind,  # type: ignore[arg-type]
        needs=needs,
        pairs=pairs,
    )
    return found, []


_Wrong = Callable[[str, str], None]


def _texts(value: object, key: str, wrong: _Wrong) -> list[str]:
    found = [value] if isinstance(value, str) else list(value) if isinstance(value, list | tuple) else None
    if found is None or not all(isinstance(each, str) and each for each in found):
        wrong(key, "should be a text or a list of texts")
        return []
    return [str(each) for each in found]


def _one_of(data: Mapping[str, Any], key: str, known: Sequence[str], wrong: _Wrong) -> str | None:
    value = data.get(key)
    if value is None or (isinstance(value, str) and value in known):
        return value
    near = get_close_matches(str(value), known, n=1)
    wrong(key, "should be one of " + ", ".join(known) + (f'; did you mean "{near[0]}"?' if near else ""))
    return None


def _names(value: object, wrong: _Wrong) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        wrong("names", 'should be a table such as { it = "step", closs = "loss" }')
        return {}
    return {str(key): str(each) for key, each in value.items()}


def _units(
    value: object, names: Mapping[str, str], fields: Sequence[str], *, open_: bool, wrong: _Wrong
) -> dict[str, Any]:
    """The units, checked.

    Args:
        fields: The keys that the format is known to read.
        open_: Whether it may read others.
    """
    if not isinstance(value, dict):
        wrong("units", 'should be a table such as { step_time_s = "ms" }')
        return {}
    found: dict[str, Any] = {}
    canonical = {resolve(names.get(key) or key).name for key in fields}
    for key, unit in value.items():
        slot = resolve(names.get(key) or key)
        if slot.name not in FIELDS:
            wrong("units", f'names "{key}", which is no field with a unit')
        elif not open_ and key not in fields and key not in canonical:
            wrong("units", f'names "{key}", which this format does not read')
        elif isinstance(unit, bool) or not isinstance(unit, str | int | float):
            wrong("units", f'of "{key}" should be a unit or a factor')
        elif isinstance(unit, str) and unit.lower() not in _SCALES.get(slot.dimension, {}):
            known = ", ".join(_SCALES.get(slot.dimension, {})) or "a factor such as 0.001"
            wrong("units", f'"{unit}" of "{key}" is none that is known; it is one of {known}')
        else:
            found[key] = unit
    return found


def _key(group: str) -> str:
    """The key that a group stands for: `__` is a slash, as in `actor__pg_loss`."""
    return group.replace("__", "/")


# ---------------------------------------------------------------- reading


@dataclass(slots=True)
class OwnLine:
    """What a format of one's own reads in a line.

    Attributes:
        pairs: Keys and values, as written.
        message: The line's text, when the format names one (a group `message`).
    """

    format: OwnFormat
    pairs: dict[str, object]
    message: str | None


class OwnReader:
    """The formats of one's own that read lines of text.

    Args:
        formats: All formats; only those of one's own are used, in their order.
    """

    def __init__(self, formats: Iterable[Format]) -> None:
        self._formats = [f for f in formats if isinstance(f, OwnFormat) and f.engine == OWN]
        literals: list[bytes] | None = []
        for format_ in self._formats:
            for text in format_.needs[:1] or [pattern.literal for pattern in format_.patterns] or [""]:
                if not text:
                    literals = None
                elif literals is not None:
                    literals.append(text.encode())
        self._literals = None if literals is None else tuple(dict.fromkeys(literals))
        self.on = bool(self._formats)

    def might(self, line: bytes) -> bool:
        """Whether a raw line can be one of them: cheap, and never wrong when it says no."""
        if self._literals is None:
            return self.on
        return any(literal in line for literal in self._literals)

    def read(self, text: str) -> OwnLine | None:
        """A line as the first format that knows it reads it; None when none does.

        A pattern is looked for anywhere on the line; one that begins with `^` also where the message begins, behind
        labels and time.

        Args:
            text: The line without escape codes, with all that stands in front of it.
        """
        text = text[:LONGEST_TEXT]
        until = perf_counter() + LIMIT_S
        for format_ in self._formats:
            if not all(literal in text for literal in format_.needs):
                continue
            if format_.read is not None:
                found = format_.read(text[peel(text).end :])
                if found:
                    pairs = {str(key): value for key, value in found.items() if value is not None}
                    return _said(format_, pairs)
                continue
            for pattern in format_.patterns:
                match, within = pattern.search(text, until - perf_counter()), text
                if match is None and pattern.source.startswith(("^", r"\A")) and pattern.literal in text:
                    within = text[peel(text).end :]
                    match = pattern.search(within, until - perf_counter()) if within != text else None
                if match is None:
                    continue
                pairs = {_key(group): value for group, value in match.groupdict().items() if value is not None}
                if format_.pairs != "none":
                    for key, value in READERS[format_.pairs](within[match.end() :]).items():
                        pairs.setdefault(key, value)
                return _said(format_, pairs)
        return None


def _said(format_: OwnFormat, pairs: dict[str, object]) -> OwnLine:
    for key in pairs:
        slot = format_.resolve(key)
        if slot.kind == TEXT and slot.name == "message":
            return OwnLine(format_, pairs, str(pairs[key]))
    return OwnLine(format_, pairs, None)


def numbers_missing(found: OwnLine, record: Record) -> list[str]:
    """The fields for which a line has a word where a number should be, when that makes it unfit for a record.

    That is a step or a loss, or all that it measures; `n/a` and the like say that there is no number.
    """
    hoped: list[str] = []
    missing: list[str] = []
    for key, value in found.pairs.items():
        slot = found.format.resolve(key)
        if slot.kind not in (NUMBER, WHOLE, MEMORY) or not slot.measured:
            continue
        there = slot.name in record.values or f"eval_{slot.name}" in record.values
        hoped.append(slot.name)
        if not there and not (isinstance(value, str) and value.strip().lower() in MISSING):
            missing.append(slot.name)
    if "step" in missing or "loss" in missing or not set(hoped) - {"step", "total_steps", "epoch", *missing}:
        return list(dict.fromkeys(missing))
    return []


__all__ = [
    "KEYS",
    "KINDS",
    "OWN",
    "OwnFormat",
    "OwnLine",
    "OwnReader",
    "Problem",
    "build",
    "numbers_missing",
    "slot_of",
]
