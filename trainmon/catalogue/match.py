"""From a line to the entries that match it.

Two stages. One pass over the line looks for pieces of the literal words that signatures need: almost every healthy
line ends there. Only what is left is held against the signatures themselves, with their order and context.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from trainmon.catalogue.entry import RARE, Entry, Signature, rarest

_PIECE = 10
"""Characters of a word that the first pass looks for."""

_FREQUENT = frozenset(chr(code) for code in range(128)) - frozenset(RARE)

LONGEST = 8192
"""Characters of a line that are looked at: an error says what it is at its beginning."""

_BEFORE = (
    r"(?:^|[\]:>|)—–-][ \t]+|[\]>]|\d[Zz]?[ \t]+|"
    r"\b(?:ERROR|FATAL|CRITICAL|SEVERE|WARNING|WARN|INFO|stderr|stdout|[FE])[ \t]+)[ \t]*"
)
"""What may stand before a message: nothing, a time, a level, a name with a colon, a bracket."""

_RAISE = re.compile(r"^(?:[^:]{0,40}:)?\s{2,}(?:raise|return|except|assert|log\w*\.|print\()")
"""A line of source code, as tracebacks quote it."""

_SAID = re.compile(
    r'"(?:error|err|exception|exc_info|exc|traceback|stack|stack_trace|stacktrace|reason|message|msg|log|event|text)"'
    r'\s*:\s*"((?:[^"\\]|\\.)*)"'
)
"""Fields of a JSON line that hold what the program says (a prompt or a sample is data)."""


@lru_cache(maxsize=1024)
def _anchored(word: str) -> re.Pattern[str]:
    return re.compile(_BEFORE + re.escape(word))


@lru_cache(maxsize=1024)
def _raised(name: str) -> re.Pattern[str]:
    return re.compile(_BEFORE + r"(?:[A-Za-z_][\w.]*\.)?" + re.escape(name) + r"(?:\([\w.]*\))?(?::|\s*$)")


@lru_cache(maxsize=1024)
def _pattern(regex: str) -> re.Pattern[str]:
    return re.compile(regex)


def _first(pattern_of: re.Pattern[str], text: str) -> int:
    found = pattern_of.search(text)
    return -1 if found is None else found.start()


def where(signature: Signature, text: str) -> int:
    """Position at which `signature` begins to match `text`, or -1."""
    if signature.text:
        return text.find(signature.text)
    if any(word in text for word in signature.none) or not all(word in text for word in signature.all):
        return -1
    if signature.any and not any(word in text for word in signature.any):
        return -1
    place = len(text)
    if signature.start:
        places = [p for p in (_first(_anchored(word), text) for word in signature.start) if p >= 0]
        if not places:
            return -1
        place = min(places)
    if signature.exc:
        places = [p for p in (_first(_raised(name), text) for name in signature.exc) if p >= 0]
        if not places:
            return -1
        place = min(place, *places)
    if signature.regex:
        found = _pattern(signature.regex).search(text)
        if found is None:
            return -1
        place = min(place, found.start())
    if place == len(text):
        place = min((text.find(word) for word in (*signature.all, *signature.any) if word in text), default=-1)
    return place


def weight(signature: Signature) -> int:
    """How specific a signature is: the number of characters that it fixes."""
    fixed = len(signature.text) + sum(map(len, signature.all))
    for words in (signature.start, signature.exc, signature.any):
        fixed += min(map(len, words), default=0)
    return fixed + len(signature.regex) // 2


def spoken(text: str) -> list[str]:
    """What a line says: itself, or for a JSON object its message fields, so that a prompt is never an error."""
    body = text.lstrip()
    if not body.startswith('{"'):
        return [text]
    return [said.replace('\\"', '"').replace("\\n", " ") for said in _SAID.findall(body)] + [""]


def piece(word: str) -> str:
    """The part of a word that the first pass looks for: from its rarest character on."""
    start = rarest(word)
    return word[start : start + _PIECE]


def _alternatives(words: Sequence[str]) -> str:
    """One pattern for any of `words`, as a tree of their characters: each character of a line is looked at once."""
    tree: dict[str, list[str]] = {}
    for word in words:
        if not word:
            return ""
        tree.setdefault(word[0], []).append(word[1:])
    branches = [re.escape(letter) + _alternatives(rest) for letter, rest in sorted(tree.items())]
    return branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})"


def _first_pass(pattern: bytes, common: list[bytes]) -> Callable[[bytes], bool]:
    search = re.compile(pattern).search

    def might(line: bytes) -> bool:
        if search(line) is not None:
            return True
        for part in common:  # noqa: SIM110 (a generator would double the cost)
            if part in line:
                return True
        return False

    return might


class Matcher:
    """The signatures of all entries, indexed by their literal words.

    Args:
        entries: In the order in which ties are broken.
    """

    def __init__(self, entries: Sequence[Entry]) -> None:
        rules: dict[str, list[tuple[str, int, Entry, Signature]]] = {}
        for order, entry in enumerate(entries):
            for signature in entry.signatures:
                for word in signature.literals():
                    rules.setdefault(piece(word), []).append((word, order, entry, signature))
        # Pieces that begin with a frequent character would make the pattern stop everywhere: they are few, and looked
        # for one by one.
        self._common = [part for part in rules if part[0] in _FREQUENT]
        rare = [part for part in rules if part[0] not in _FREQUENT]
        pattern = _alternatives(rare) if rare else "(?!)"
        self._pieces = re.compile(pattern)
        self._rules: dict[str, list[tuple[str, int, Entry, Signature]]] = {}
        for part in sorted(rules):
            # The pattern stops at the shortest piece, so that one stands for the longer ones that begin with it.
            found = self._pieces.match(part)
            self._rules.setdefault(part if found is None else found.group(), []).extend(rules[part])
        self.might = _first_pass(pattern.encode(), [part.encode() for part in self._common])
        """Whether a piece of one of the literal words stands in a line of bytes."""

    def _candidates(self, text: str) -> list[tuple[int, Entry, Signature]]:
        parts = {part for part in self._common if part in text}
        found = self._pieces.search(text)
        while found is not None:
            parts.add(found.group())
            found = self._pieces.search(text, found.start() + 1)
        rules = {id(rule[3]): rule for part in parts for rule in self._rules[part] if rule[0] in text}
        return [(order, entry, signature) for _, order, entry, signature in rules.values()]

    def find(self, text: str, *, loud: bool, soft: bool) -> Entry | None:
        """The most specific entry that matches one line.

        Args:
            text: The line, without escape codes.
            loud: The program itself calls it an error, so words inside quotes count too.
            soft: The program calls it chatter, so only entries that are said as chatter count.
        """
        if len(text) > LONGEST:
            text = text[:LONGEST]
        best: dict[str, tuple[int, int, Entry]] = {}
        for order, entry, signature in self._candidates(text):
            if (soft and not entry.chatter) or (place := where(signature, text)) < 0:
                continue
            if not loud and not signature.quoted and text.count('"', 0, place) % 2:
                continue
            score = weight(signature)
            if entry.code not in best or best[entry.code][0] < score:
                best[entry.code] = (score, -order, entry)
        if not best or _RAISE.match(text):
            return None
        beaten = {code for _, _, entry in best.values() for code in entry.beats}
        left = [value for code, value in best.items() if code not in beaten] or list(best.values())
        return max(left, key=lambda value: value[:2])[2]
