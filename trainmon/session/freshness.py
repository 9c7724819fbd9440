"""How samples of one machine follow one another: their usual distance, when they have stopped, clocks set back."""

from __future__ import annotations

import math
from dataclasses import replace

from trainmon.parsing.clean import safe
from trainmon.samples import Sample

STALE_MIN_S = 10.0
STALE_INTERVALS = 3.0
"""Figures are stale when they are older than so many intervals and than `STALE_MIN_S` seconds."""
_LONGEST_S = 600.0


def usual(before: float | None, gap: float) -> float | None:
    """The usual seconds between two samples, after one more gap; a long silence counts little."""
    if gap <= 0.0:
        return before
    if before is None:
        return min(gap, _LONGEST_S)
    return before * 0.8 + min(gap, 2.0 * before + STALE_MIN_S) * 0.2


def patience(interval: float | None) -> float:
    """Seconds after which figures that come each `interval` seconds have stopped."""
    return max(STALE_MIN_S, STALE_INTERVALS * (interval or 0.0))


def text(word: str, most: int) -> str:
    """Words of a sample, safe to show and of bounded length."""
    return safe(word[: 4 * most])[:most]


_WORDS = {"node": 80, "uuid": 80, "name": 80, "sentence": 400, "parent": 80, "profile": 40, "instance": 20,
          "driver": 40, "scope": 20}  # fmt: skip


def cleaned(sample: Sample) -> Sample:
    """The sample with its own words safe to show: agents' files are text like any other."""
    wrong = {}
    for name, most in _WORDS.items():
        word = getattr(sample, name, "")
        if word and (len(word) > most or not (word.isascii() and word.isprintable())):
            safer = text(word, most)
            if safer != word:
                wrong[name] = safer
    return replace(sample, **wrong) if wrong else sample  # type: ignore[arg-type]


class Back:
    """Tells a clock that was set back from lines that come late: its samples go on from there as time passes."""

    __slots__ = ("at", "count", "time")

    def __init__(self) -> None:
        self.count = 0
        self.time = self.at = -math.inf

    def behind(self, time: float, at: float) -> bool:
        """A sample of an older time came at `at`; True at the third in its own order, each at another moment."""
        self.count = self.count + 1 if (time > self.time and at > self.at) or not self.count else 1
        self.time, self.at = time, at
        if self.count < 3:
            return False
        self.count = 0
        return True
