"""Patterns that somebody else wrote: refused when they are bad, bounded when they are catastrophic.

`re` cannot be stopped once it backtracks, so these run in the `regex` library with a time limit for each line
(docs/decisions/014-patterns-of-ones-own.md). A pattern that meets its limit again and again is switched off, with one
message that names it.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

LIMIT_S = 0.02
"""So long a pattern may work on one line, in seconds."""
STRIKES = 5
"""So many time-outs switch a pattern off; a thousand lines in time take one back."""
_FORGIVEN_AFTER = 1000
SLOW_S = 0.002
"""A pattern that takes longer than this a line on average, in seconds, is switched off, too."""
_WORTH_A_LOOK_S = 1.0
LONGEST_PATTERN = 4000
LONGEST_TEXT = 4096
"""Characters of a line that are looked at."""
_MOST_REPEATED = 10_000
_SHORTEST_LITERAL = 2
_WITH_ARGUMENT = frozenset("xuUNpPgkmL0123456789")
"""Escapes whose meaning goes on behind their letter."""


class PatternError(ValueError):
    """A pattern that is refused; the message says why and where."""


class Guarded:
    """One pattern.

    Args:
        source: In Python's syntax.
        name: What it is called when it has to be switched off.

    Attributes:
        literal: A text that stands on every line that matches, "" when none could be told.
        groups: Its named groups.
        off: Whether it was switched off.
        spent_s: Seconds that it worked so far.
        tell: Told why, once.

    Raises:
        PatternError: It does not compile, is too long, or has no named group.
    """

    def __init__(self, source: str, name: str) -> None:
        import regex

        if len(source) > LONGEST_PATTERN:
            raise PatternError(f"is longer than {LONGEST_PATTERN:,} characters")
        self.literal, most, self._hint = _scan(source)
        if most > _MOST_REPEATED:
            raise PatternError(f"repeats a part of itself {most:,} times: counted repeats stand inside one another")
        try:
            compiled = regex.compile(source)
        except regex.error as error:
            # its own attributes are not in the stubs
            place, message = getattr(error, "pos", None), getattr(error, "msg", str(error))
            where = "" if place is None else f" at position {place + 1}"
            raise PatternError(f"does not compile: {message}{where}") from None
        except (RecursionError, OverflowError, MemoryError, ValueError) as error:
            raise PatternError(f"does not compile: {str(error)[:100] or 'it is nested too deeply'}") from None
        self.source = source
        self.name = name
        self.groups: tuple[str, ...] = tuple(compiled.groupindex)
        self.off = False
        self.spent_s = 0.0
        self._tried = 0
        self.tell: Callable[[str], None] = lambda _text: None
        self._search = compiled.search
        self._strikes = 0
        self._clean = 0
        if not self.groups:
            raise PatternError("has no named group such as (?P<loss>\\S+): it would read nothing")
        if self.search("") is not None:
            raise PatternError("matches an empty line, and so every line")

    def search(self, text: str, limit_s: float = LIMIT_S) -> Any:
        """The match in a line, or None; None also when the time is up.

        Args:
            limit_s: Seconds that are left for this line.
        """
        if self.off or limit_s <= 0.0:
            return None
        begun = perf_counter()
        try:
            found = self._search(text[:LONGEST_TEXT], timeout=limit_s)
        except TimeoutError:
            if limit_s > LIMIT_S / 2:  # else others have used the line's time up
                self._strike()
            return None
        self.spent_s += perf_counter() - begun
        self._clean += 1
        self._tried += 1
        if self._clean >= _FORGIVEN_AFTER:
            self._clean = 0
            self._strikes = max(0, self._strikes - 1)
        if self.spent_s > _WORTH_A_LOOK_S and self.spent_s > SLOW_S * self._tried:
            self._end(f"it takes {1000 * self.spent_s / self._tried:.1f} ms a line")
        return found

    def _strike(self) -> None:
        self._strikes += 1
        self._clean = 0
        if self._strikes >= STRIKES:
            self._end(f"it took more than {LIMIT_S * 1000:.0f} ms on {STRIKES} lines")

    def _end(self, why: str) -> None:
        self.off = True
        self.tell(
            f"{self.name} is switched off: {why} "
            "(parts of it can match the same text in many ways; see docs/formats.md)"
        )


def runs_away(pattern: Guarded) -> bool:
    """Whether a pattern can be made to meet its limit by a line that is long and does not quite fit.

    A trial, no proof: lines of one repeated sign, behind the text that the pattern needs.
    """
    trial = Guarded(pattern.source, pattern.name)
    for sign in ("a", "1", " ", "a ", "1 ", "=", "ab=1 ", "1.5, ", "-", "a1"):
        body = (sign * LONGEST_TEXT)[: LONGEST_TEXT - 200]
        for text in (
            f"{trial._hint}{body}\x00",
            f"{body}{trial._hint}\x00",
            f"{body[:40]}{trial._hint}{body[:40]}\x00",
        ):
            try:
                trial._search(text, timeout=5 * LIMIT_S)
            except TimeoutError:
                return True
    return False


def _scan(source: str) -> tuple[str, int, str]:
    """The longest text that every match holds, how often a part is repeated at most, and any text outside of groups.

    Knows only what it needs: anything unusual gives no literal, never a wrong one.
    """
    longest, run = "", ""
    depth, at, end = 0, 0, len(source)
    counts: list[int] = [1]  # the largest repeat inside each open group
    open_groups: list[int] = []
    plain = "(?" not in source.replace("(?P<", "").replace("(?:", "").replace("(?=", "").replace("(?!", "")
    alternatives = False
    last = 1  # repeats inside the item before this place

    def cut() -> None:
        nonlocal longest, run
        if len(run) > len(longest):
            longest = run
        run = ""

    while at < end:
        sign = source[at]
        if sign == "\\":
            nxt = source[at + 1 : at + 2]
            plain = plain and nxt not in _WITH_ARGUMENT
            if depth == 0:
                if nxt and not nxt.isalnum():
                    run += nxt
                else:
                    cut()
            last, at = 1, at + 2
            continue
        if sign == "[":
            cut()
            stop = at + 1
            if source[stop : stop + 1] == "^":
                stop += 1
            stop += 1  # a bracket that comes first is a member
            while stop < end and source[stop] != "]":
                stop += 2 if source[stop] == "\\" else 1
            last, at = 1, stop + 1
            continue
        if sign == "(":
            cut()
            depth += 1
            open_groups.append(len(counts))
            counts.append(1)
        elif sign == ")":
            depth = max(0, depth - 1)
            if open_groups:
                open_groups.pop()
                last = counts.pop()
                counts[-1] = max(counts[-1], last)
            cut()
            at += 1
            continue
        elif sign in "*?" or sign == "{":
            repeat = _repeat(source, at) if sign == "{" else 1
            if repeat is None:  # a brace that is a character
                run = run + sign if depth == 0 else run
                last, at = 1, at + 1
                continue
            if depth == 0:
                run = run[:-1]
                cut()
            counts[-1] = max(counts[-1], last * repeat)
            last = last * repeat
            at = source.index("}", at) + 1 if sign == "{" else at + 1
            continue
        elif sign == "+" or sign in ".^$":
            cut()
        elif sign == "|":
            cut()
            alternatives = alternatives or depth == 0
        elif depth == 0:
            run += sign
        last = 1 if sign != "+" else last
        at += 1
    cut()
    usable = plain and not alternatives and len(longest) >= _SHORTEST_LITERAL
    return (longest if usable else ""), max(counts), longest


def _repeat(source: str, at: int) -> int | None:
    """The highest count of `{3}`, `{1,20}` or `{2,}` at a place; None when the brace begins no repeat."""
    stop = source.find("}", at)
    if stop < 0:
        return None
    low, _, high = source[at + 1 : stop].partition(",")
    if not (low + high).isdigit() or any(part and not part.isdigit() for part in (low, high)):
        return None
    return max(1, int(low or 0), int(high or 0))
