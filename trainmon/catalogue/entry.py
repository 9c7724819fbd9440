"""One catalogue entry, and how it is read from a TOML table.

A signature is a literal string, or a table of literals that must stand together on one line:

    "an illegal memory access"                    the words, anywhere in the line
    { start = "srun: error:", any = ["Killed"] }  the line's message begins with it
    { exc = "KeyError" }                          an exception of that class ends a traceback here
    { all = ["NCCL WARN", "failed"], not = ["retrying"] }
    { regex = 'Xid \\(.*\\): 79,', need = ["Xid"] } a pattern, and the literals of which one must be there first

`any` takes one of its words, `not` none of them; `quoted = true` lets the words stand inside double quotes.

An entry with `for_each = [{ code = "XID_48", n = "48" }, ...]` stands for one entry a table: its keys replace those of
the entry, and `{n}` in any text.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from trainmon.errors import ConfigError

Scope = Literal["gpu", "node", "process", "fabric", "storage", "data", "config", "code", "scheduler"]
SCOPES = ("gpu", "node", "process", "fabric", "storage", "data", "config", "code", "scheduler")
USUALLY = ("root_cause", "symptom")


@dataclass(frozen=True, slots=True)
class Hit:
    """What the catalogue knows about one line.

    Attributes:
        code: Code of the entry.
        priority: 1 fatal, 2 blocking, 3 warning.
        title: The entry's short name.
    """

    code: str
    priority: int
    title: str


@dataclass(frozen=True, slots=True)
class Signature:
    """Words that must stand together on one line; see the module's docstring."""

    text: str = ""
    start: tuple[str, ...] = ()
    exc: tuple[str, ...] = ()
    all: tuple[str, ...] = ()
    any: tuple[str, ...] = ()
    none: tuple[str, ...] = ()
    regex: str = ""
    need: tuple[str, ...] = ()
    quoted: bool = False

    def literals(self) -> tuple[str, ...]:
        """The words of which one at least stands in every line that this signature matches."""
        groups = [(self.text,), self.need, self.start, self.any, self.exc, *((word,) for word in self.all)]
        return min(
            (group for group in groups if all(group) and group), key=lambda group: max(map(rarity, group)), default=()
        )


RARE = "YKQVXJHDUWARBCLGSPFMEINOTZ<(*`xqjzfvwk"
"""Characters by how rare they are in healthy training logs, rarest first: a pass over a line that looks for pieces
beginning with these hardly ever has to look twice."""


def rarest(word: str) -> int:
    """Position of the rarest character of `word` that at least three others follow."""
    return min(range(max(1, len(word) - 3)), key=lambda place: _rank(word[place]))


def rarity(word: str) -> int:
    """How rare the rarest of these characters is: 0 is the rarest."""
    return _rank(word[rarest(word)]) if word else len(RARE)


def _rank(letter: str) -> int:
    place = RARE.find(letter)
    return place if place >= 0 else len(RARE) + (letter in " :=_.,-\"'")


@dataclass(frozen=True, slots=True)
class Entry:
    """One error, as data.

    Attributes:
        code: Upper case, unique.
        title: A few words for a list.
        family: The file it is in: "nccl", "checkpoint", ...
        level: 1 fatal, 2 blocking, 3 warning.
        scope: What is at fault: gpu, node, process, fabric, storage, data, config, code or scheduler.
        is_usually: "root_cause" or "symptom".
        meaning: One or two sentences.
        signatures: What a line must say; empty for the generic entries, which never match by themselves.
        causes, fixes: Sentences, most likely or most useful first.
        consequences: Codes that usually follow.
        source: Where the text or the advice can be read up.
        match: A line that this entry must match. near_miss: one that it must not.
        unified: The code under which one-code-for-all systems file this error.
        chatter: It counts at INFO and DEBUG too; others do not.
        beats: Codes that give way to this one on the same line.
    """

    code: str
    title: str
    family: str
    level: int
    scope: str
    is_usually: str
    meaning: str
    signatures: tuple[Signature, ...]
    causes: tuple[str, ...]
    fixes: tuple[str, ...]
    consequences: tuple[str, ...]
    source: str
    match: str = ""
    near_miss: str = ""
    unified: str | None = None
    chatter: bool = False
    beats: tuple[str, ...] = field(default=())

    @property
    def hit(self) -> Hit:
        """The answer for a line that this entry matches."""
        return Hit(self.code, self.level, self.title)


_SIGNATURE_KEYS = {"start", "exc", "all", "any", "not", "regex", "need", "quoted"}
_ENTRY_KEYS = {
    "code", "title", "level", "scope", "is_usually", "meaning", "signatures", "causes", "fixes", "consequences",
    "source", "match", "near_miss", "unified", "chatter", "beats",
}  # fmt: skip


def _words(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    return tuple(str(item) for item in value) if isinstance(value, list) else ()


def _signature(value: Any, where: str, problems: list[str]) -> Signature | None:
    if isinstance(value, str) and value:
        return Signature(text=value)
    if not isinstance(value, dict):
        problems.append(f"{where}: a signature is a string or a table")
        return None
    unknown = sorted(set(value) - _SIGNATURE_KEYS)
    if unknown:
        problems.append(f"{where}: unknown key in a signature: {', '.join(unknown)}")
    regex = value.get("regex", "")
    if regex:
        try:
            re.compile(regex)
        except re.error as error:
            problems.append(f"{where}: bad regex {regex!r}: {error}")
            return None
    signature = Signature(
        start=_words(value.get("start")),
        exc=_words(value.get("exc")),
        all=_words(value.get("all")),
        any=_words(value.get("any")),
        none=_words(value.get("not")),
        regex=regex,
        need=_words(value.get("need")),
        quoted=bool(value.get("quoted", False)),
    )
    if not any(signature.literals()):
        problems.append(f"{where}: a signature needs at least one literal word (regex: name it in `need`)")
        return None
    return signature


def _entry(table: Mapping[str, Any], family: str, where: str, problems: list[str]) -> Entry | None:
    unknown = sorted(set(table) - _ENTRY_KEYS)
    if unknown:
        problems.append(f"{where}: unknown key: {', '.join(unknown)}")
    for key in ("code", "title", "level", "scope", "is_usually", "meaning", "causes", "fixes", "source"):
        if not table.get(key):
            problems.append(f"{where}: {key} is missing")
            return None
    if table["level"] not in (1, 2, 3) or table["scope"] not in SCOPES or table["is_usually"] not in USUALLY:
        problems.append(
            f"{where}: level is 1 to 3, scope one of {', '.join(SCOPES)}, is_usually {' or '.join(USUALLY)}"
        )
        return None
    signatures = [_signature(value, where, problems) for value in table.get("signatures", [])]
    return Entry(
        code=table["code"],
        title=table["title"],
        family=family,
        level=table["level"],
        scope=table["scope"],
        is_usually=table["is_usually"],
        meaning=table["meaning"],
        signatures=tuple(signature for signature in signatures if signature is not None),
        causes=_words(table["causes"]),
        fixes=_words(table["fixes"]),
        consequences=_words(table.get("consequences")),
        source=table["source"],
        match=table.get("match", ""),
        near_miss=table.get("near_miss", ""),
        unified=table.get("unified"),
        chatter=bool(table.get("chatter", False)),
        beats=_words(table.get("beats")),
    )


def _filled(value: Any, words: Mapping[str, Any]) -> Any:
    if isinstance(value, str):
        for key, word in words.items():
            value = value.replace(f"{{{key}}}", str(word))
        return value
    if isinstance(value, list):
        return [_filled(item, words) for item in value]
    if isinstance(value, dict):
        return {key: _filled(item, words) for key, item in value.items()}
    return value


def _each(table: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The entries that one TOML table stands for."""
    plain = {key: value for key, value in table.items() if key != "for_each"}
    if "for_each" not in table:
        return [plain]
    return [
        _filled({**plain, **{key: word for key, word in words.items() if key in _ENTRY_KEYS}}, words)
        for words in table["for_each"]
    ]


def read_entries(text: str, name: str) -> list[Entry]:
    """The entries of one TOML file.

    Args:
        text: The file's text: a `family` and `[[entry]]` tables.
        name: The file's name, for messages.

    Raises:
        ConfigError: The file is not TOML, or an entry is wrong; every problem is named.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError([f"{name}: {error}"]) from error
    problems: list[str] = []
    family = str(document.get("family", name.removesuffix(".toml")))
    entries = []
    tables = [each for table in document.get("entry", []) for each in _each(table)]
    for number, table in enumerate(tables, 1):
        where = f"{name}: {table.get('code') or f'entry {number}'}"
        entry = _entry(table, family, where, problems)
        if entry is not None:
            entries.append(entry)
    if problems:
        raise ConfigError(problems)
    return entries
