"""From a line to the entries that match it.

Three stages, each cheaper than the next is dear: a few triggers in one pass over the raw bytes (almost every healthy
line ends there), the literal words of the signatures, and only then order, context and patterns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from trainmon.catalogue.entry import Entry, Signature

TRIGGERS: tuple[str, ...] = ()
"""Short pieces of which one stands in every literal of the packaged entries. Chosen to be rare in healthy lines:
healthy training lines are lower case and digits, so the pieces begin with a capital where they can."""

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


class Matcher:
    """The signatures of all entries, indexed by their literal words.

    Args:
        entries: In the order in which ties are broken.
        triggers: Pieces for the first stage; a literal without any of them becomes a trigger of its own.
    """

    def __init__(self, entries: Sequence[Entry], triggers: Iterable[str] = TRIGGERS) -> None:
        self._rules: dict[str, list[tuple[int, Entry, Signature]]] = {}
        for order, entry in enumerate(entries):
            for signature in entry.signatures:
                for word in signature.literals():
                    self._rules.setdefault(word, []).append((order, entry, signature))
        groups: dict[str, list[str]] = {trigger: [] for trigger in triggers}
        for word in self._rules:
            home = next((trigger for trigger in groups if trigger in word), None)
            groups.setdefault(word if home is None else home, []).append(word)
        self._groups = [(trigger, tuple(words)) for trigger, words in groups.items() if words]
        self._raw = [(trigger.encode(), tuple(w.encode() for w in words)) for trigger, words in self._groups]
        self.trigger = re.compile(b"|".join(re.escape(trigger) for trigger, _ in self._raw) or b"(?!)").search

    def might(self, line: bytes) -> bool:
        """Whether one of the literal words stands in `line`."""
        if self.trigger(line) is None:
            return False
        for trigger, words in self._raw:
            if trigger in line:
                for word in words:
                    if word in line:
                        return True
        return False

    def find(self, text: str, *, loud: bool, soft: bool) -> Entry | None:
        """The most specific entry that matches one line.

        Args:
            text: The line, without escape codes.
            loud: The program itself calls it an error, so words inside quotes count too.
            soft: The program calls it chatter, so only entries that are said as chatter count.
        """
        if len(text) > LONGEST:
            text = text[:LONGEST]
        found: dict[str, tuple[int, int, Entry]] = {}
        for trigger, words in self._groups:
            if trigger not in text:
                continue
            for word in words:
                if word in text:
                    for order, entry, signature in self._rules[word]:
                        if (soft and not entry.chatter) or (place := where(signature, text)) < 0:
                            continue
                        if not loud and not signature.quoted and text.count('"', 0, place) % 2:
                            continue
                        score = weight(signature)
                        if entry.code not in found or found[entry.code][0] < score:
                            found[entry.code] = (score, -order, entry)
        if not found or (not loud and _RAISE.match(text)):
            return None
        beaten = {code for _, _, entry in found.values() for code in entry.beats}
        left = [value for code, value in found.items() if code not in beaten] or list(found.values())
        return max(left, key=lambda value: value[:2])[2]
