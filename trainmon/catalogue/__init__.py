"""The error catalogue: what the lines of a failing run mean and what to do, as data in `*.toml`, one file a family.

    catalogue = load()
    if catalogue.might_match(line):              # bytes, about a microsecond
        hit = catalogue.classify(text, level)    # Hit(code, priority, title) or None
    catalogue.entry("CUDA_OOM").fixes

Pure: the files are read once, from the package, when they are first needed.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, lru_cache
from importlib import resources

from trainmon.catalogue.entry import Entry, Hit, Signature, read_entries
from trainmon.catalogue.match import Matcher, spoken, where
from trainmon.errors import ConfigError

__all__ = ["GENERIC_TRACEBACK", "UNKNOWN_ERROR", "Catalogue", "Entry", "Hit", "Signature", "explain", "load"]

UNKNOWN_ERROR = "UNKNOWN_ERROR"
"""Code of an ERROR line that no entry knows; its entry has no signature."""
GENERIC_TRACEBACK = "GENERIC_TRACEBACK"
"""Code of a traceback whose last line no entry knows; its entry has no signature."""

_LOUD = frozenset({"ERROR", "FATAL"})
_SOFT = frozenset({"INFO", "DEBUG"})


class Catalogue:
    """All entries, and the matcher over them.

    Args:
        entries: The entries; None for those of the package, read when first needed.

    Raises:
        ConfigError: (at first use) an entry is wrong, or two have the same code.
    """

    def __init__(self, entries: Sequence[Entry] | None = None) -> None:
        self._given = entries
        self.might_match: Callable[[bytes], bool] = self._first_look
        """Whether `classify` could know a raw line; False is certain. Costs about a microsecond, hence a plain
        function and no method. (Escape codes inside the words of a signature hide it.)"""

    @cached_property
    def entries(self) -> dict[str, Entry]:
        """Every entry by its code, families and files in alphabetical order."""
        entries: dict[str, Entry] = {}
        for entry in _packaged() if self._given is None else self._given:
            if entry.code in entries:
                raise ConfigError([f"the code {entry.code} is in {entries[entry.code].family} and in {entry.family}"])
            entries[entry.code] = entry
        return entries

    @cached_property
    def _matcher(self) -> Matcher:
        return Matcher(list(self.entries.values()))

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries.values())

    def _first_look(self, line: bytes) -> bool:
        self.might_match = self._matcher.might
        return self.might_match(line)

    def classify(self, text: str, level: str | None = None) -> Hit | None:
        """What a line means, or None when no entry knows it.

        A line at INFO or DEBUG, a prompt or sample in a JSON line and words inside double quotes are no errors,
        unless the line's level is ERROR or FATAL. An exception that a program merely warns of has been dealt with, so
        it is not fatal. Of several entries the most specific one wins.

        Args:
            text: One line (or several: the first of the worst level counts), without escape codes.
            level: Its level, as in `trainmon.model.LEVELS`; None when it has none.
        """
        entry = self._classify(text, level)
        if entry is None:
            return None
        if level == "WARN" and entry.level == 1 and any(s.exc and where(s, text) >= 0 for s in entry.signatures):
            return Hit(entry.code, 2, entry.title)
        return entry.hit

    def _classify(self, text: str, level: str | None) -> Entry | None:
        loud, soft = level in _LOUD, level in _SOFT
        best: Entry | None = None
        for line in text.splitlines() if "\n" in text else (text,):
            for said in spoken(line):
                # Nothing said in a JSON line that does not call itself an error: its fields are data.
                found = self._matcher.find(said or line, loud=loud, soft=soft or not (said or loud))
                if found is not None:
                    if best is None or found.level < best.level:
                        best = found
                    break
        return best

    def entry(self, code: str) -> Entry | None:
        """The entry of a code, or None."""
        return self.entries.get(code)

    def consequences(self, code: str) -> tuple[str, ...]:
        """Codes that usually follow `code`; empty for an unknown one."""
        entry = self.entries.get(code)
        return () if entry is None else entry.consequences

    def explain(self, text: str) -> list[Entry]:
        """Entries for a code in any spelling ("xid 79"), or for pasted log text, in the order of its lines.

        Empty when nothing is known; `nearest` then names codes that are spelt alike.
        """
        code = _spelt(text)
        if code in self.entries:
            return [self.entries[code]]
        found: dict[str, Entry] = {}
        for line in text.splitlines():
            entry = self._classify(line, "ERROR")
            if entry is None:
                entry = next(
                    (self.entries[w] for w in re.findall(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+", line) if w in self.entries),
                    None,
                )
            if entry is not None:
                found.setdefault(entry.code, entry)
        if not found and "Traceback (most recent call last)" in text:
            return [self.entries[GENERIC_TRACEBACK]]
        return list(found.values())

    def nearest(self, text: str, count: int = 3) -> list[str]:
        """Up to `count` codes that are spelt like `text`, nearest first."""
        code = _spelt(text)[:80]
        codes = [entry.code for entry in self]
        close = difflib.get_close_matches(code, codes, n=count, cutoff=0.6)
        if len(close) < count and len(code) >= 3:
            close += [known for known in codes if code in known and known not in close]
        return close[:count]


def _spelt(text: str) -> str:
    return re.sub(r"[\s-]+", "_", text.strip()).upper()


def _packaged() -> Iterator[Entry]:
    folder = resources.files(__name__)
    for file in sorted(folder.iterdir(), key=lambda item: item.name):
        if file.name.endswith(".toml"):
            yield from read_entries(file.read_text(encoding="utf-8"), file.name)


@lru_cache(maxsize=1)
def load() -> Catalogue:
    """The catalogue of the package, one for the process. Costs nothing until the first line is asked about."""
    return Catalogue()


def explain(text_or_code: str) -> list[Entry]:
    """`load().explain(...)`: the entries for a code or for pasted log text."""
    return load().explain(text_or_code)
