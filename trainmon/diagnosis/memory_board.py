"""Memory of a GPU as its board tells, each second or two: the rules of `memory.py` in seconds instead of steps.

The level is 1 - free/total, which reaches 100 % when nothing is left, whatever "used" includes (without a free figure:
used/total). Blocks are maxima of 36 s, so that "rising" looks back 6, 14 and 29 minutes; "close" looks at the last 20
to 60 seconds; "new maximum" has to be held for 3 s and is over two points below.

What fills up in the first five minutes of a process, or before the run has made 20 steps, is its start: weights, the
optimiser and the allocator's cache. What was full at the first look is settled. New processes, or memory that falls to
half, begin a new card. A rise that stays within what the card has held before (engines that sleep and wake, as in RL)
is none. Unified memory is the host's, and judged there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from trainmon import units
from trainmon.diagnosis.machine import Gpu
from trainmon.diagnosis.memory_trend import BLOCK, CRITICAL_S, SHORT, Card, Trend, close, rising
from trainmon.diagnosis.pulse import Pulse
from trainmon.diagnosis.thresholds import Thresholds
from trainmon.diagnosis.words import gib
from trainmon.model import Incident, Severity, Value
from trainmon.series.robust import median

CLOSE = 0.90
HELD_S = 3.0
OFF = 0.02
START_S = 300.0
START_STEPS = 20
FIRST_S = 30.0
"""What is seen so soon after the first look is what was there."""
EMPTY = 0.30
"""A process on a card that is no fuller than this has just begun."""
BIN_S = 3.0
SETTLED_S = 300.0
MOST_GAP_S = 30.0


class Board:
    """What is remembered of one GPU's memory."""

    __slots__ = (
        "apart", "at", "began", "bin_end", "bin_top", "fast", "first", "held", "high_before", "incident_high",
        "last_rise", "recent", "settled", "slow", "start", "total",
    )  # fmt: skip

    def __init__(self, time: float, total: float) -> None:
        self.first = self.at = time
        self.began: float | None = None  # a process whose start we saw
        self.total = total
        self.apart = 0.0  # the driver's reserve, which is in neither "used" nor "free"
        self.fast = Card("gpu")
        self.slow = Card("gpu")
        self.fast.total = self.slow.total = total
        self.bin_top, self.bin_end = 0.0, time + BIN_S
        self.settled = 0.0  # the most that was no news
        self.recent: list[tuple[float, float]] = []  # (time, MiB): bins of the last minute
        self.high_before = 0.0  # the most before that
        self.held: float | None = None  # since when it has been at the threshold
        self.last_rise = time
        self.incident_high = 0.0
        self.start = True

    def warming(self, time: float, step: int | None, stepping: bool) -> bool:
        """Whether the job is still filling its memory for the first time."""
        if stepping and (step is None or step < START_STEPS):
            # A log that nobody can read never tells of steps, and steps may take minutes.
            return time - self.first < (START_S if step is None else 6.0 * START_S)
        return self.began is not None and time - self.began < START_S

    def take(self, used: float, time: float) -> bool:
        """A reading; True when a bin of three seconds has ended with it."""
        self.at = time
        self.fast.take(time, time, used)
        self.bin_top = max(self.bin_top, used)
        if time < self.bin_end:
            return False
        top, self.bin_top, self.bin_end = self.bin_top, 0.0, time + BIN_S
        self.slow.take(time, time, top)
        self.recent.append((time, top))
        while self.recent and time - self.recent[0][0] > 60.0:
            self.high_before = max(self.high_before, self.recent.pop(0)[1])
        return True

    def known(self, time: float) -> float:
        """The most that it held before the last twenty seconds."""
        return max([self.high_before, *(top for when, top in self.recent if time - when > 20.0)], default=0.0)


class BoardMemory:
    """The rules; `memory.py` owns it and its incidents."""

    def __init__(self, pulse: Pulse, thresholds: Thresholds) -> None:
        self._pulse = pulse
        self._thresholds = thresholds
        self._boards: dict[str, Board] = {}
        self._rules: dict[str, str] = {}
        self.open: dict[str, Incident] = {}
        self._gpus: dict[str, Gpu] = {}

    def look(self, gpu: Gpu, taken: bool, advice: tuple[tuple[str, ...], tuple[str, ...]]) -> Iterable[Incident]:
        """A sample of a GPU was merged.

        Args:
            taken: The training's own log has an open incident for that memory: none is opened beside it.
            advice: What to do when this GPU alone grows, and when all do.
        """
        total = gpu.now("gpu_memory_total_mb") or gpu.values.get("gpu_memory_total_mb")
        free, used = gpu.now("memory_free_mb"), gpu.now("gpu_memory_mb")
        if not total or (free is None and used is None) or "unified" in gpu.facts.get("memory", ""):
            return ()
        level = total - free if free is not None else (used or 0.0)
        level = min(max(level, 0.0), total)
        board = self._boards.get(gpu.key)
        if board is None:
            board = self._boards[gpu.key] = Board(gpu.time, total)
        elif self._anew(board, gpu, level, total):
            out = self.end(gpu.key, gpu.time, f"restarted, {gib(level)}")
            board = self._boards[gpu.key] = Board(gpu.time, total)
            board.began = gpu.time
            board.take(level, gpu.time)
            return out
        elif gpu.time <= board.at:
            return ()
        if level >= EMPTY * total:
            board.start = False
        elif board.start:
            board.began = gpu.time  # next to nothing is on it yet
        if used is not None and free is not None:
            board.apart = max(0.0, level - used)
        ended = board.take(level, gpu.time)
        stepping = self._pulse.lines_seen and self._pulse.heard is not None
        if board.warming(gpu.time, self._pulse.step, stepping) or gpu.time - board.first < FIRST_S:
            board.settled = max(board.settled, board.fast.high)
            if gpu.time - board.first < FIRST_S and not board.warming(gpu.time, self._pulse.step, stepping):
                return self._rule(gpu, board, ended, taken, advice, first=True)
            return ()
        if gpu.key in self.open:
            return self._look_again(gpu, board, ended)
        return self._rule(gpu, board, ended, taken, advice)

    def _anew(self, board: Board, gpu: Gpu, level: float, total: float) -> bool:
        if gpu.fresh_pids or abs(total - board.total) > 1.0 or gpu.time < board.at - 5.0:
            return True
        if gpu.time - board.at > 10.0 * MOST_GAP_S:
            return True
        return board.fast.high > EMPTY * total and level < 0.5 * board.fast.high

    # ------------------------------------------------------------ the rules

    def _rule(
        self,
        gpu: Gpu,
        board: Board,
        ended: bool,
        taken: bool,
        advice: tuple[tuple[str, ...], tuple[str, ...]],
        *,
        first: bool = False,
    ) -> Iterable[Incident]:
        if gpu.key in self.open:
            return self._look_again(gpu, board, ended)
        limits, fast = self._thresholds, board.fast
        used, total = fast.last, board.total
        trend: Trend | None = None
        rule = ""
        if limits.memory_full_within_s is not None:
            new = used > board.known(gpu.time) + 0.005 * total
            if used >= CLOSE * total and new and fast.samples >= SHORT and fast.samples % 2 == 0:
                trend = close(fast, total, SHORT)
            if trend is None and ended and not first and board.slow.samples % BLOCK == 0:
                trend = rising(board.slow, total)
            if trend is not None and trend.full_s > limits.memory_full_within_s:
                trend = None
            rule = "rising" if trend is not None else ""
        share = limits.memory_fraction
        if share is not None and not first:
            if used >= share * total and used > board.settled + 0.005 * total:
                board.held = gpu.time if board.held is None else board.held
                if not rule and gpu.time - board.held >= HELD_S:
                    rule = "new maximum"
            else:
                board.held = None
        if not rule or taken:
            return ()
        critical = trend is not None and trend.full_s <= CRITICAL_S
        board.last_rise = gpu.time
        board.incident_high = used
        self._rules[gpu.key] = rule
        self._gpus[gpu.key] = gpu
        incident = self._incident(gpu, board, rule, "critical" if critical else "warning", trend, advice)
        self.open[gpu.key] = incident
        return (incident,)

    def _look_again(self, gpu: Gpu, board: Board, ended: bool) -> Iterable[Incident]:
        incident = self.open[gpu.key]
        fast, total = board.fast, board.total
        used = fast.last
        share = self._thresholds.memory_fraction
        low = (share if share is not None else CLOSE + 0.07) - OFF
        if self._rules[gpu.key] == "new maximum":
            dropped = max(fast.ring[-4:]) < low * total
        else:
            dropped = max(fast.ring[-8:]) < board.incident_high - 0.03 * total
        if used > board.incident_high + 0.002 * total:
            board.incident_high, board.last_rise = used, gpu.time
        trend = None
        if fast.samples % 2 == 0:
            trend = close(fast, total, SHORT) if used < 0.99 * total else None
        if trend is None and ended and board.slow.samples % BLOCK == 0:
            trend = rising(board.slow, total)
        if trend is not None:
            board.last_rise = gpu.time
        if dropped or gpu.time - board.last_rise >= SETTLED_S:
            board.settled = max(board.settled, board.incident_high)
            board.held = None
            held = gib(used - board.apart)
            text = f"back to {held}" if dropped else f"no longer rises, {held}"
            return self.end(gpu.key, gpu.time, text)
        if trend is None:
            if used >= 0.99 * total:
                changed = replace(
                    incident,
                    severity="critical",
                    title=_title("critical", used, total),
                    measured=f"{_level(board)}, {_amount(max(0.0, total - used))} free",
                    outlook="the next allocation fails",
                )
            elif gpu.time - board.last_rise >= 60.0:
                changed = replace(incident, measured=f"{_level(board)}, still high", outlook="")
            else:
                return ()
        else:
            severity: Severity = "critical" if trend.full_s <= CRITICAL_S else incident.severity
            changed = replace(
                incident,
                severity=severity,
                title=_title(severity, used, total),
                measured=self._measured(board, trend),
                outlook=f"full in ≈ {units.forecast(trend.full_s)}",
            )
        if changed == incident:
            return ()
        self.open[gpu.key] = changed
        return (changed,)

    # ------------------------------------------------------------ words

    def _measured(self, board: Board, trend: Trend | None) -> str:
        level = _level(board)
        if trend is None:
            return f"{level}, a new maximum"
        pace = self._pulse.seconds_per_step
        if pace and self._pulse.live and self._pulse.counted:
            return f"{level}, +{_amount(trend.per_s * pace * 100.0)} per 100 steps"
        seconds, word = (60.0, "min") if trend.per_s >= 1.0 else (3600.0, "h")
        return f"{level}, +{_amount(trend.per_s * seconds)} per {word}"

    def _incident(
        self,
        gpu: Gpu,
        board: Board,
        rule: str,
        severity: Severity,
        trend: Trend | None,
        advice: tuple[tuple[str, ...], tuple[str, ...]],
    ) -> Incident:
        used, total = board.fast.last, board.total
        held = used - board.apart
        others = [
            b.fast.last - b.apart for k, b in self._boards.items() if k != gpu.key and abs(b.at - board.at) < 60.0
        ]
        alone = bool(others) and median(others) < held - 0.02 * total
        evidence: list[tuple[str, Value]] = [
            ("rule", rule),
            ("level_mb", round(held, 1)),
            ("capacity_mb", round(total, 1)),
            ("level_percent", round(100.0 * held / total, 1)),
            ("settled_mb", round(max(0.0, board.settled - board.apart), 1)),
        ]
        if trend is not None:
            evidence.append(("slope_mb_per_min", round(trend.per_s * 60.0, 2)))
            evidence.append(("full_in_s", round(trend.full_s)))
        if others:
            evidence.append(("others_median_mb", round(median(others), 1)))
        place = gpu.label.removeprefix("gpu") or "0"
        return Incident(
            key=f"near_oom:{gpu.node}:{place}",
            kind="near_oom",
            severity=severity,
            title=_title(severity, used, total),
            who=gpu.who,
            measured=self._measured(board, trend),
            outlook=f"full in ≈ {units.forecast(trend.full_s)}" if trend is not None else "the next peak may not fit",
            advice=advice[0] if alone else advice[1],
            node=gpu.node,
            rank=gpu.rank,
            gpu=gpu.index,
            start=trend.since if trend is not None else gpu.time,
            detected=gpu.time,
            start_step=self._pulse.step,
            evidence=tuple(evidence),
        )

    def end(self, key: str, when: float, text: str) -> list[Incident]:
        """Resolve the incident of that GPU, if there is one."""
        incident = self.open.pop(key, None)
        if incident is None:
            return []
        self._rules.pop(key, None)
        self._gpus.pop(key, None)
        return [replace(incident, end=max(when, incident.start), end_step=self._pulse.step, resolution=text)]

    def silent(self, now: float, limit: float) -> list[Incident]:
        """Close what belongs to GPUs that were last heard of more than `limit` seconds ago."""
        out: list[Incident] = []
        for key, gpu in list(self._gpus.items()):
            if now - gpu.heard > limit:
                out += self.end(key, gpu.time, "not known any more: its figures have stopped")
        return out

    def leave(self, key: str) -> list[Incident]:
        """That GPU is not the run's."""
        self._boards.pop(key, None)
        incident = self.open.get(key)
        if incident is not None:
            evidence = (*incident.evidence, ("superseded", "not of this run"))
            self.open[key] = replace(incident, evidence=evidence)
        return self.end(key, incident.start if incident is not None else 0.0, "not of this run")


def _level(board: Board) -> str:
    """What is used, in the words of the GPU's row and of nvidia-smi."""
    used, total = board.fast.last - board.apart, board.total
    return f"{used / 1024.0:.1f} of {total / 1024.0:.1f} GiB ({units.percent(100.0 * used / total)})"


def _title(severity: Severity, level: float, capacity: float) -> str:
    return "NEAR OOM" if severity == "critical" or level >= CLOSE * capacity else "MEMORY RISES"


def _amount(mb: float) -> str:
    return gib(mb) if mb >= 100.0 else f"{mb:.0f} MiB"
