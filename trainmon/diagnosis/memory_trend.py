"""What tells memory that fills up from memory that is in use: the arithmetic of `memory.py`.

Readings of one GPU are kept as the maxima of blocks, and a rise is looked for in the last 10, 24 and 48 of them.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

from trainmon.series.robust import mann_kendall, median, theil_sen

BLOCK = 12
BLOCKS = 48
WINDOWS = (10, 24, 48)
WARM_UP = 150
SHORT = 20
TAU = 0.6
GROWN = 0.02
CRITICAL_S = 600.0
CARDS_GIB = (8, 10, 11, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 141, 192, 288)
_CARDS_MB = tuple(c * 1024.0 for c in CARDS_GIB)


class Card:
    """What is remembered of one GPU."""

    __slots__ = (
        "block", "high", "kind", "last", "mark", "mark_at", "ring", "rule", "samples", "settled", "stepped", "steps",
        "t", "times", "total", "trend_at", "x", "y",
    )  # fmt: skip

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.stepped = False  # readings carry steps
        self.samples = 0
        self.block = 0.0
        self.high = 0.0  # highest reading ever
        self.settled = 0.0  # highest reading before the last alert for a new maximum
        self.mark = 0.0  # the last maximum that was clearly one
        self.mark_at = 0
        self.trend_at = 0  # reading at which the rise was last seen
        self.last = 0.0
        self.total = 0.0
        self.x = array("d")  # step, or number of the reading, at the end of each block
        self.t = array("d")  # moment of the same
        self.y = array("d")  # highest reading of the block
        self.ring = array("d")  # the last readings, for the short rule
        self.steps = array("d")
        self.times = array("d")
        self.rule = ""

    def take(self, x: float, now: float, used: float) -> bool:
        """A reading at step (or number, or moment) `x`; True when a block has ended with it."""
        self.samples += 1
        self.last = used
        self.steps.append(x)
        self.times.append(now)
        self.ring.append(used)
        if len(self.ring) > SHORT * 2:
            del self.steps[:SHORT], self.times[:SHORT], self.ring[:SHORT]
        self.block = max(self.block, used)
        if used > self.high:
            self.high = used
            if used > self.mark * 1.002:
                self.mark, self.mark_at = used, self.samples
        if self.samples % BLOCK:
            return False
        self.x.append(x)
        self.t.append(now)
        self.y.append(self.block)
        self.block = 0.0
        if len(self.y) > BLOCKS * 2:
            del self.x[:BLOCKS], self.t[:BLOCKS], self.y[:BLOCKS]
        return True

    def flat(self, readings: Sequence[float], capacity: float) -> int:
        """How many of these readings end no block at which `rising` can give a rise, by its first test."""
        first = BLOCK - self.samples % BLOCK
        if len(readings) < first:
            return len(readings)
        before = self.y[-WINDOWS[2] :].tolist()
        tops = [max(self.block, max(readings[:first]))]
        tops += [max(readings[at : at + BLOCK]) for at in range(first, len(readings) - BLOCK + 1, BLOCK)]
        bar = min(min(tops), min(before, default=tops[0])) + GROWN * capacity
        if max(before[-2:], default=0.0) >= bar:
            return first - 1
        for i, top in enumerate(tops):
            if top >= bar:
                return first - 1 + i * BLOCK
        return len(readings)

    def leap(self, xs: Sequence[float], times: Sequence[float], readings: Sequence[float]) -> None:
        """`take` of many readings, none of which is above `high`."""
        count = len(readings)
        first = BLOCK - self.samples % BLOCK
        self.samples += count
        self.last = readings[-1]
        for column, more in ((self.steps, xs), (self.times, times), (self.ring, readings)):
            _extend(column, more, SHORT * 2, SHORT)
        if count < first:
            self.block = max(self.block, max(readings))
            return
        tops = [max(self.block, max(readings[:first]))]
        tops += [max(readings[at : at + BLOCK]) for at in range(first, count - BLOCK + 1, BLOCK)]
        end = first + (len(tops) - 1) * BLOCK
        self.block = max(readings[end:], default=0.0)
        for column, more in (
            (self.x, xs[first - 1 : end : BLOCK]),
            (self.t, times[first - 1 : end : BLOCK]),
            (self.y, tops),
        ):
            _extend(column, more, BLOCKS * 2, BLOCKS)


def _extend(column: array[float], more: Sequence[float], most: int, cut: int) -> None:
    """Append one by one, and cut off that many in front whenever there are more than `most`."""
    whole = len(column) + len(more)
    keep = whole if whole <= most else most + 1 - cut + (whole - most - 1) % cut
    if keep <= len(more):
        column[:] = array("d", more[len(more) - keep :])
    else:
        del column[: whole - keep]
        column.extend(more)


class Trend:
    """A rise: slope in MiB a step (or reading), in MiB a second, and the seconds until full."""

    __slots__ = ("full_s", "per_s", "per_x", "since", "tau")

    def __init__(self, per_x: float, per_s: float, full_s: float, since: float, tau: float) -> None:
        self.per_x = per_x
        self.per_s = per_s
        self.full_s = full_s
        self.since = since
        self.tau = tau


def capacity_of(card: Card) -> tuple[float, bool]:
    """MiB of the card, and whether that is assumed."""
    if card.total:
        return card.total, False
    i = bisect_left(_CARDS_MB, card.high)
    return _CARDS_MB[i] if i < len(_CARDS_MB) else card.high * 1.25, True


def close(card: Card, capacity: float, least: int = WARM_UP // 3) -> Trend | None:
    n = len(card.ring)
    if n < SHORT or card.samples < least:
        return None
    ring, xs, ts = card.ring[n - SHORT :], card.steps[n - SHORT :], card.times[n - SHORT :]
    tops = [max(ring[i : i + 4]) for i in range(0, SHORT, 4)]
    rises = [b - a for a, b in pairwise(tops)]
    grown = tops[-1] - tops[0]
    if min(rises) <= 0.0 or grown < 0.005 * capacity or max(rises) > 0.6 * grown:
        return None
    if saturates(rises[0] + rises[1], rises[2] + rises[3], card.last, capacity):
        return None
    slope = theil_sen(xs, ring)
    trend = _trend_of(card, slope, capacity, xs, ts, 1.0)
    return trend if trend is not None and trend.full_s <= CRITICAL_S else None


def rising(card: Card, capacity: float) -> Trend | None:
    blocks = len(card.y)
    if card.samples < WARM_UP or blocks < WINDOWS[0]:
        return None
    if max(card.y[-3:]) - min(card.y[-WINDOWS[2] :]) < GROWN * capacity:
        return None  # the common case costs two slices
    best: Trend | None = None
    for window in WINDOWS:
        if window > blocks:
            break
        ys, xs, ts = card.y[-window:], card.x[-window:], card.t[-window:]
        third = window // 3
        head, tail = median(ys[:third]), median(ys[-third:])
        if tail - head < GROWN * capacity * 0.8 or ys[-1] - ys[0] < GROWN * capacity:
            continue
        tau = mann_kendall(ys, tie=0.0015 * capacity)
        if tau < TAU:
            continue
        slope = theil_sen(xs, ys)
        early, late = theil_sen(xs[:third], ys[:third]), theil_sen(xs[-third:], ys[-third:])
        if late < 0.4 * slope or (early > 2.5 * late and early > 0.0):
            continue  # filling up, not leaking
        middle = median(ys[third:-third])
        if saturates(middle - head, tail - middle, card.last, capacity):
            continue
        jumps = sorted((b - a for a, b in pairwise(ys)), reverse=True)
        grown = ys[-1] - ys[0]
        if grown - sum(jumps[:2]) < 0.4 * grown:
            continue  # stairs
        half = window // 2
        if ys[half] - ys[0] < 0.3 * grown:  # it has just begun: what lay before must not lengthen the forecast
            slope = max(slope, theil_sen(xs[half:], ys[half:]))
        trend = _trend_of(card, slope, capacity, xs, ts, tau)
        if trend is not None:
            low = head + 0.1 * grown
            trend.since = next((xs[i] for i in range(window - 1, -1, -1) if ys[i] <= low), xs[0])
        if trend is not None and (best is None or trend.full_s < best.full_s):
            best = trend
    return best


def _trend_of(
    card: Card, slope: float, capacity: float, xs: array[float], ts: array[float], tau: float
) -> Trend | None:
    span, seconds = xs[-1] - xs[0], ts[-1] - ts[0]
    if slope <= 0.0 or span <= 0.0 or seconds <= 0.0:
        return None
    left = max(0.0, 0.99 * capacity - card.last)
    per_s = slope * span / seconds
    return Trend(slope, per_s, left / per_s, xs[0], tau)


def saturates(first: float, second: float, level: float, capacity: float) -> bool:
    """Whether growth that falls off as it did from `first` to `second` comes to rest below the card's size."""
    if second <= 0.0:
        return True
    if second >= first:
        return False
    share = second / first
    return level + second * share / (1.0 - share) < 0.98 * capacity
