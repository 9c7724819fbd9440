"""The session as plain lines: for pipes, job scripts and terminals that can draw no screen.

    11:16:17  running  step 1,200/5,000  loss 1.984  lr 4.48e-05  worker-2
    11:16:17  ALERT  critical  NEAR OOM  worker-2 gpu3  76.8 of 80.0 GiB (96 %)  full in ≈ 4 min
    11:16:17  ERROR  critical  CUDA_OOM  worker-2.log:1,223  CUDA out of memory. Tried to allocate 4.5 GiB

One line for each new step or state, at most one a second; alerts and errors at once.
"""

from __future__ import annotations

from collections.abc import Iterator

from trainmon import units
from trainmon.parsing.clean import visible
from trainmon.snapshot import AlertView, ErrorView, Snapshot

MOST_A_SECOND = 1.0
"""Seconds that lie at least between two lines of progress."""
MOST_OF_A_MESSAGE = 200
"""Characters of a log's message; the whole stands at the place that is named."""


class PlainLines:
    """Turns snapshots into the lines that are new.

    Args:
        interval_s: Seconds that lie at least between two lines of progress.
    """

    def __init__(self, interval_s: float = MOST_A_SECOND) -> None:
        self._interval = interval_s
        self._printed_at = -1e9
        self._progress: tuple[object, ...] = ()
        self._state = ""
        self._alerts: dict[str, str] = {}
        self._errors: dict[tuple[str, str], int] = {}
        self._sources: dict[str, str] = {}
        self._hint = ""
        self._began: float | None = None

    def update(self, snapshot: Snapshot, monotonic: float) -> list[str]:
        """Return the lines for what is new in a snapshot.

        Args:
            snapshot: The newest one.
            monotonic: Seconds of a clock that never goes back.
        """
        run = snapshot.run
        lines = [*self._of_sources(snapshot), *self._of_errors(snapshot), *self._of_alerts(snapshot)]
        if run.hint and run.hint != self._hint:
            self._hint = run.hint
            lines.append(_line(snapshot, "NOTE", self._hint))
        if self._began is None:
            self._began = monotonic
        if run.state == "waiting" and monotonic - self._began < self._interval:
            return lines  # the first look at the files is under way
        progress = (run.step, *_values(snapshot))
        due = monotonic - self._printed_at >= self._interval
        if run.state != self._state or (progress != self._progress and due):
            self._state, self._progress, self._printed_at = run.state, progress, monotonic
            lines.append(_progress(snapshot))
        return lines

    def _of_sources(self, snapshot: Snapshot) -> Iterator[str]:
        for source in snapshot.sources:
            key = source.path or source.name
            if self._sources.get(key) == source.word:
                continue
            known = key in self._sources
            self._sources[key] = source.word
            if source.word == "followed" and (known or self._state in ("", "waiting")):
                continue  # only one that joins later is news
            yield _line(snapshot, "SOURCE", source.name, source.word, source.sentence)

    def _of_errors(self, snapshot: Snapshot) -> Iterator[str]:
        for error in snapshot.errors:
            key = (error.code, error.message if error.code == "UNKNOWN_ERROR" else "")
            if key in self._errors:
                continue
            self._errors[key] = error.lines
            yield _error(snapshot, error)

    def _of_alerts(self, snapshot: Snapshot) -> Iterator[str]:
        for alert in snapshot.alerts:
            before = self._alerts.get(alert.id)
            self._alerts[alert.id] = alert.state
            if alert.state == "firing" and before != "firing":
                yield _alert(snapshot, alert)
            elif alert.state == "resolved" and before not in (None, "resolved"):
                yield _line(snapshot, "RESOLVED", alert.title, alert.who, alert.resolution)


def _values(snapshot: Snapshot) -> tuple[float | None, float | None]:
    values = {chart.key: chart.value for chart in snapshot.charts[:2]}
    return values.get("loss"), values.get("learning_rate")


def _line(snapshot: Snapshot, *parts: str) -> str:
    newest = snapshot.run.newest
    stamp = units.clock(newest) if newest is not None else "--:--:--"
    return visible("  ".join([stamp, *(part for part in parts if part)]))


def _progress(snapshot: Snapshot) -> str:
    run = snapshot.run
    parts: list[str] = [run.state]
    if run.history is not None:
        parts.append(f"history {units.percent(run.history * 100)}")
    if run.step is not None:
        total = f"/{run.total_steps:,}" if run.total_steps else ""
        parts.append(f"step {run.step:,}{total}")
    loss, rate = _values(snapshot)
    if loss is not None:
        parts.append(f"loss {units.loss(loss)}")
    if rate is not None:
        parts.append(f"lr {units.learning_rate(rate)}")
    firing = sum(alert.state == "firing" for alert in snapshot.alerts)
    if firing:
        parts.append(f"{firing} alert" + ("s" if firing > 1 else ""))
    if run.note:
        parts.append(run.note)
    return _line(snapshot, *parts)


def _alert(snapshot: Snapshot, alert: AlertView) -> str:
    advice = f"→ {alert.advice[0]}" if alert.advice else ""
    return _line(snapshot, "ALERT", alert.severity, alert.title, alert.who, alert.measured, alert.outlook, advice)


def _error(snapshot: Snapshot, error: ErrorView) -> str:
    fix = f"→ {error.fixes[0]}" if error.fixes else ""
    message = error.message if len(error.message) <= MOST_OF_A_MESSAGE else error.message[: MOST_OF_A_MESSAGE - 1] + "…"
    return _line(snapshot, "ERROR", error.severity, error.code, error.place, message, error.role, fix)
