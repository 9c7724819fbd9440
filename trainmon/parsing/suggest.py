"""What a format of one's own could look like for lines that nobody knows: a proposal, to be looked at by a person.

Lines of one shape (the same words around other numbers) that come back become one pattern. The numbers are named as the
fallback names them (shape_words.py), else by the word in front of each.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from trainmon.model import RecordKind
from trainmon.parsing.custom import build
from trainmon.parsing.names import FIELDS, resolve, snake
from trainmon.parsing.prefix import peel
from trainmon.parsing.shape_words import cut, told

MOST = 5
"""Proposals for one file."""
_FEWEST = 3
_LONGEST = 1000
_MOST_NUMBERS = 24
_NUMBER = re.compile(
    r"(?<![\w.])[-+]?(?:\d+(?:,\d{3})*(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?|(?<!\w)[-+]?(?:nan|inf)(?!\w)"
)
_KEY = re.compile(r"([A-Za-z_][\w/.@-]{0,40}|[\u4e00-\u9fff]{1,8})[\s]{0,3}(?:\(\w{1,8}\))?[\s:=\[(]{1,4}$")
_UNIT = re.compile(r"\s?(ms|us|s|sec|secs|seconds|MiB|MB|GiB|GB|kB|KB|%|[kKMB])(?![\w/])")
_NEVER = ("%|", "\u2501", " HTTP/", 'File "', "://")
"""On progress bars, lines of web servers and tracebacks, which are no measurements whatever their numbers."""
_COUNTERS = frozenset({"step", "total_steps", "epoch"})
_TELLING = 2
"""So many changing numbers with names make a line worth a format, when none of them is known to be measured."""
_SPACES = re.compile(r"\s+")
_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A format that could be made.

    Attributes:
        name: Proposed name.
        pattern: As for `[[format]]`.
        kind: What its lines are.
        units: Field -> unit.
        count: Lines of this shape.
        example: The first of them.
        fields: What the pattern gives for the example, by the names of records.
    """

    name: str
    pattern: str
    count: int
    example: str
    kind: RecordKind = "metrics"
    units: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, object] = field(default_factory=dict)

    def toml(self) -> str:
        """The `[[format]]` to paste."""
        lines = ["[[format]]", f'name = "{self.name}"', f"pattern = '''{self.pattern}'''"]
        if self.kind != "metrics":
            lines.append(f'kind = "{self.kind}"')
        if self.units:
            lines.append("units = { " + ", ".join(f'"{key}" = "{unit}"' for key, unit in self.units.items()) + " }")
        return "\n".join(lines)


def suggest(lines: Iterable[str], name: str = "mytrainer") -> list[Suggestion]:
    """Formats for lines that are not known, the most frequent first.

    Args:
        lines: Lines without escape codes.
        name: What the first is called; others get a number.
    """
    shapes: dict[str, list[str]] = {}
    counts: dict[str, int] = {}
    for line in lines:
        message = line[peel(line).end :].strip()[:_LONGEST]
        found = len(_NUMBER.findall(message))
        if not 0 < found <= _MOST_NUMBERS or any(sign in message for sign in _NEVER):
            continue
        shape = _SPACES.sub(" ", _DIGITS.sub("0", _NUMBER.sub("\0", message)))
        if shape not in shapes and len(shapes) >= 5000:
            continue
        counts[shape] = counts.get(shape, 0) + 1
        kept = shapes.setdefault(shape, [])
        if len(kept) < 20:
            kept.append(message)
    out: list[Suggestion] = []
    for shape, kept in sorted(shapes.items(), key=lambda item: -counts[item[0]]):
        if counts[shape] < _FEWEST or len(out) >= MOST:
            break
        made = _suggestion(f"{name}{len(out) + 1 if out else ''}", kept, counts[shape])
        if made is not None:
            out.append(made)
    return out


def _suggestion(name: str, lines: Sequence[str], count: int) -> Suggestion | None:
    """A pattern for lines of one shape; None when nothing in them has a name."""
    example = lines[0]
    told_names, kind = _told(lines)
    rows = [[match[0] for match in _NUMBER.finditer(line)] for line in lines]
    changing = [len({row[i] for row in rows if i < len(row)}) > 1 for i in range(len(rows[0]))]
    parts: list[str] = []
    units: dict[str, str] = {}
    taken: set[str] = set()
    at = 0
    useful = 0
    for place, match in enumerate(_NUMBER.finditer(example)):
        between = example[at : match.start()]
        parts.append(_literal(between))
        key = _KEY.search(example[: match.start()])
        group, at = "", match.end()
        if place < len(told_names) and told_names[place]:
            slot = resolve(told_names[place])
            group = slot.name if slot.name in FIELDS else re.sub(r"\W", "_", snake(told_names[place]))
        elif key is not None:
            word = key[1].rsplit(" ", 1)[-1]
            slot = resolve(word)
            group = slot.name if slot.name in FIELDS else re.sub(r"\W", "_", snake(word))
        elif between.strip() == "/" and place and "step" in taken and "total_steps" not in taken:
            group = "total_steps"
        if not group or not group.isidentifier() or group in taken:
            parts.append(r"[-+.\w]+")
            continue
        taken.add(group)
        if changing[place]:
            telling = (group in FIELDS or group.startswith("eval_")) and group not in _COUNTERS
            useful += _TELLING if telling else 1
        parts.append(rf"(?P<{group}>[-+.,\w]+?)" if _UNIT.match(example, at) else rf"(?P<{group}>[-+.,\w]+)")
        if unit := _UNIT.match(example, at):
            at = unit.end()
            parts.append(_literal(unit[0]))
            if resolve(group).name in FIELDS and (known := _unit(group, unit[1])):
                units[group] = known
    parts.append(_literal(example[at:]))
    pattern = "".join(parts)
    data: dict[str, object] = {"name": name, "pattern": pattern}
    if kind != "metrics":
        data["kind"] = kind
    if units:
        data["units"] = units
    made, wrong = build(data)
    if made is None and units and any(key == "units" for key, _ in wrong):
        units = {}
        made, wrong = build({key: value for key, value in data.items() if key != "units"})
    if made is None or useful < _TELLING or "'''" in pattern:
        return None
    match = made.patterns[0].search(example)
    if match is None:
        return None
    return Suggestion(name, pattern, count, example, kind, units, match.groupdict())


def _told(lines: Sequence[str]) -> tuple[tuple[str, ...], RecordKind]:
    """What the fallback would call the numbers of these lines, and the kind of its record; () where it cannot say."""
    shape, values = cut(lines[0])
    if len(values) != len(_NUMBER.findall(lines[0])):
        return (), "metrics"
    slots = replace(told(shape))
    if not slots.measures:
        readings = [found for line in lines if len(found := cut(line)[1]) == len(values)]
        if len(readings) < _FEWEST or not slots.behaves(readings):
            return (), "metrics"
    return slots.names, slots.kind


def _unit(group: str, unit: str) -> str:
    return "" if unit == "%" or (unit == "s" and group.endswith("_s")) else unit.lower()


def _literal(text: str) -> str:
    r"""Text as a pattern: what stands there, and any width of space (numbers are often padded)."""
    pieces = _SPACES.split(text)
    quoted = (re.sub(r"([\\.^$*+?{}\[\]|()])", r"\\\1", piece) for piece in pieces)
    return r"\s+".join(_DIGITS.sub(r"\\d+", piece) for piece in quoted)
