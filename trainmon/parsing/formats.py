"""Log formats as data: one TOML file a format in the folder of that name. No Python is needed to add one.

A format names its `engine`:

- `json`: lines that are a JSON object. `keys` must all be there; `[names]` renames keys, `[units]` gives their unit.
- `pattern`: one or more `[[line]]`, see `LineRule`: a `pattern` whose named groups are fields, and how the rest is
  read as pairs.
- `dict`: a Python dictionary printed on a line.
- `log`: no measurements, a time and a level in front of a message.

Each file carries `[[sample]]` entries, `line` and `gives`, which a test runs.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from typing import Any

from trainmon.model import RecordKind
from trainmon.parsing.names import Slot, resolve, with_names


@dataclass(frozen=True, slots=True)
class LineRule:
    """One kind of line of a pattern format.

    Attributes:
        pattern: Its named groups are fields (`__` in a name stands for `/`).
        needs: Literals that must stand on the line before the pattern is tried.
        pairs: How the rest is read: "pipe", "equals", "dashes", "rounds", "mixed", "none".
        kind: Kind of the record; None lets the keys say.
        where: "message" when the pattern must match where the message begins, "line" when anywhere.
        rest: "after" reads pairs behind the match, "message" in the whole message.
        expect: Fields of which, when their names stand on the line, one at least must come out as a number; else the
            line goes to quarantine.
        least: How many measurements, or a loss, it takes beside the step.
        add: What is added to a number, as to a total that is printed as the last index.
        first: Whether a hit makes this rule the first that is tried.
    """

    pattern: re.Pattern[str]
    needs: tuple[str, ...]
    pairs: str
    kind: RecordKind | None
    where: str
    rest: str
    expect: tuple[str, ...]
    first: bool
    least: int
    add: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Format:
    """A log format, as its file says."""

    name: str
    title: str
    engine: str
    keys: tuple[str, ...] = ()
    lines: tuple[LineRule, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    order: int = 50
    samples: tuple[Mapping[str, Any], ...] = ()

    def resolve(self, key: str) -> Slot:
        """The slot of a key in this format."""
        return with_names(self.names, self.units, key) if self.names else resolve(key)


def _compiled(pattern: str, where: str) -> re.Pattern[str]:
    """`^` would be the beginning of the line, where labels stand; at the message the pattern is anchored anyway."""
    return re.compile(pattern.removeprefix("^") if where == "message" else pattern)


def read_format(text: str) -> Format:
    """A format from the text of its file.

    Raises:
        ValueError: When the file is no TOML, a key is missing, or a pattern does not compile.
    """
    data = tomllib.loads(text)
    try:
        lines = tuple(
            LineRule(
                _compiled(rule["pattern"], rule.get("where", "line")),
                tuple(rule.get("needs", ())),
                rule.get("pairs", "mixed"),
                rule.get("kind"),
                rule.get("where", "line"),
                rule.get("rest", "after"),
                tuple(rule.get("expect", ())),
                rule.get("first", True),
                rule.get("least", 0),
                rule.get("add", {}),
            )
            for rule in data.get("line", ())
        )
        return Format(
            name=data["name"],
            title=data.get("title", data["name"]),
            engine=data["engine"],
            keys=tuple(data.get("keys", ())),
            lines=lines,
            names=data.get("names", {}),
            units=data.get("units", {}),
            order=data.get("order", 50),
            samples=tuple(data.get("sample", ())),
        )
    except (KeyError, re.error, TypeError) as error:
        raise ValueError(f"format {data.get('name', '?')}: {error}") from error


@lru_cache(maxsize=1)
def builtin() -> tuple[Format, ...]:
    """The formats that come with trainmon, most specific first."""
    folder = resources.files("trainmon.parsing") / "formats"
    found = [read_format(entry.read_text("utf-8")) for entry in folder.iterdir() if entry.name.endswith(".toml")]
    return tuple(sorted(found, key=lambda f: (f.order, f.name)))
