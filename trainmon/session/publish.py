"""Makes the next snapshot out of what changed; a section that came out equal stays the same object and version."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from trainmon.model import Incident
from trainmon.session import nodeview, view
from trainmon.session.charts import ChartBuilder, spans
from trainmon.session.engine import Engine
from trainmon.session.gpudetail import gpu_detail
from trainmon.session.gpupanel import gpus_of_run, look_at, panel_of
from trainmon.session.hostview import host_of
from trainmon.session.incidents import IncidentDesk
from trainmon.session.run import RunState
from trainmon.snapshot import SECTIONS, LogLine, Snapshot

_MAX_ALERTS = 100
_ORDER = ("alerts", "nodes", *(name for name in SECTIONS if name not in ("alerts", "nodes")))
"""Sections in the order in which they are made: some need those before them."""
_QUICK = frozenset({"alerts", "run", "last", "tail", "counts"})
"""Sections that wait for no other ones."""
_CALM: dict[str, float] = {
    "nodes": 0.5, "charts": 0.5, "spans": 0.5, "metrics": 0.5, "sources": 0.5, "gpus": 2.0, "gpu": 1.0, "host": 5.0,
}  # fmt: skip
"""So many seconds these sections rest, unless an alert has changed: nobody reads faster, and instruments never stop."""
_CALM_S = 0.5
_HEAVY_S = 0.004
_QUICK_REST_S, _LONGEST_REST_S = 0.1, 2.0
"""What took long may have been kept waiting itself: no section rests for longer than this."""
_REST = 80.0
"""A section rests for so many times as long as it took to make: thousand nodes must not cost a core."""


class Publisher:
    """Builds snapshots.

    Args:
        engine: Where the state is.
        desk: Where the alerts are.
        demo: Shown in the status row.
    """

    def __init__(self, engine: Engine, desk: IncidentDesk, *, demo: bool = False) -> None:
        self._engine = engine
        self._desk = desk
        self._demo = demo
        self._charts = ChartBuilder()
        self._front: object = None
        self.snapshot = Snapshot(versions=dict.fromkeys(SECTIONS, 0))
        self.selected: str | None = None
        self.selected_gpu: str | None = None
        self.hint = ""
        self.faults: list[Exception] = []
        self.more = False
        """Sections that take long are due: call `build` again."""
        self._due: dict[str, float] = {}
        self._took: dict[str, float] = {}
        self._first: float | None = None
        self._opened = engine.clock.now()

    def build(self, *, at_once: bool = False) -> bool:
        """Make the next snapshot if something visible changed; True when it did.

        The newest line does not wait for sections that take long: when those are due, too, `more` is set, and the
        next call makes them.

        Args:
            at_once: Let no section rest or wait (tests, replay).
        """
        engine = self._engine
        run = engine.front
        self.more = False
        dirty, run.dirty = run.dirty, set()
        if run is not self._front:
            self._front = run
            dirty = set(SECTIONS)
        if not dirty:
            return False
        at_once = at_once or dirty.issuperset(SECTIONS)  # another run, or its past is read: no mixture of the two
        asked = not _QUICK.isdisjoint(dirty)
        if "alerts" in dirty:
            dirty |= {"nodes", "gpus", "gpu", "host", "spans", "metrics", "charts"}
        if "nodes" in dirty:
            dirty.add("run")  # it counts them: no reason to let them wait for it
        now = engine.clock.now()
        started = engine.clock.monotonic()
        if self._first is None:
            self._first = started
        # In the first moments everything that is new is news.
        calm = not at_once and started - self._first >= _CALM_S
        heavy = sum(took for name, took in self._took.items() if name in dirty and started >= self._due.get(name, 0.0))
        quick = not at_once and heavy > _HEAVY_S and asked
        done: dict[str, Any] = {}
        news = at_once
        for name in _ORDER:
            if name not in dirty:
                continue
            if not news and (started < self._due.get(name, 0.0) or (quick and name not in _QUICK)):
                self.more = self.more or started >= self._due.get(name, 0.0)
                run.dirty.add(name)
                continue
            try:
                done[name] = getattr(self, "_make_" + name)(run, now, done)
            except Exception as fault:
                # The other sections go on; the session tells of it.
                self.faults.append(fault)
            ended = engine.clock.monotonic()
            took = ended - started
            rest = min(_REST * took, _QUICK_REST_S if name in _QUICK else _LONGEST_REST_S)
            self._due[name] = ended + max(rest, _CALM.get(name, 0.0) if calm else 0.0)
            if name not in _QUICK:
                self._took[name] = took
            started = ended
            if name == "alerts" and done.get(name) != self.snapshot.alerts:
                news = True
        if "alerts" in done:
            done["calm"] = "" if done["alerts"] else self._desk.calm(run, engine.speakers.heard, now, self._hint(run))
        return self._adopt(done)

    def earliest(self) -> float:
        """Monotonic time from which something that has changed may be shown; what rests need not wake anybody."""
        run = self._engine.front
        if run is not self._front:
            return 0.0
        return min((self._due.get(name, 0.0) for name in run.dirty), default=math.inf)

    def ask(self, *sections: str) -> None:
        """The user wants to see these now: they do not rest."""
        self._engine.front.dirty.update(sections)
        for name in sections:
            self._due.pop(name, None)

    # Each takes the run, Unix time and the sections that were made before it, and gives the section's new value.

    def _make_alerts(self, run: RunState, now: float, done: dict[str, Any]) -> object:
        return self._desk.views(now)[:_MAX_ALERTS]

    def _make_nodes(self, run: RunState, now: float, done: dict[str, Any]) -> object:
        return nodeview.node_views(
            run, self._engine.files, self._desk.book.firing(), self._desk.state[0], now, self._engine.catalogue
        )

    def _make_charts(self, run: RunState, now: float, done: dict[str, Any]) -> object:
        gaps = tuple(float(step) for step in sorted(self._engine.gap_steps | self._engine.preview.gap_steps))
        charts = self._charts.charts(run, now, gaps, self._desk.book.firing())
        if self._charts.behind:
            run.dirty.add("charts")
        return charts

    def _make_spans(self, run: RunState, now: float, done: dict[str, Any]) -> object:
        return spans(run)

    def _make_metrics(self, run: RunState, now: float, done: dict[str, Any]) -> object:
        return self._charts.metrics(run)

    def _make_gpus(self, run: RunState, now: float, done: dict[str, Any]) -> object:
        nodes = done.get("nodes", self.snapshot.nodes)
        return panel_of(run, nodes, self._alerts(run), self.selected, now)

    def _alerts(self, run: RunState) -> list[tuple[Incident, int | None]]:
        """What is firing, each with the GPU that it is of."""
        return [(alert, view.gpu_of(alert, run)) for alert in self._desk.book.firing()]

    def _make_gpu(self, run: RunState, now: float, done: dict[str, Any]) -> object:
        if self.selected_gpu is None:
            return None
        alerts = self._alerts(run)
        look = look_at(run, alerts, now)
        return gpu_detail(run, self.selected_gpu, look, alerts, lambda incident: view.gpu_of(incident, run))

    def _make_host(self, run: RunState, now: float, done: dict[str, Any]) -> object:
        gpus = done.get("gpus", self.snapshot.gpus)
        return host_of(run, self._desk.book.firing(), self.selected, gpus, now)

    def _make_errors(self, run: RunState, now: float, done: dict[str, Any]) -> object:
        return view.error_views(run, self._engine.catalogue, exact=not self._engine.in_history)

    def _make_events(self, run: RunState, now: float, done: dict[str, Any]) -> object:
        ids = self._desk.book.id_of
        return tuple(e if e.alert is None else replace(e, alert=ids(e.alert)) for e in run.events.views())

    def _make_sources(self, run: RunState, now: float, done: dict[str, Any]) -> object:
        return view.source_views(self._engine.files, self._engine.missing)

    def _make_last(self, run: RunState, now: float, done: dict[str, Any]) -> object:
        file = self._engine.speakers.newest
        text = file.last_line() if file is not None else ""
        if file is None or not text:
            return self.snapshot.last
        parser = file.parser if file.ahead is None or file.live else file.ahead
        return LogLine(file.id, file.node, parser.last_time, text, parser.last_level)

    def _make_tail(self, run: RunState, now: float, done: dict[str, Any]) -> object:
        files = [file for file in self._engine.files.values() if not file.chatter]
        chosen = next((file for file in files if file.node == self.selected), None) if self.selected else None
        return view.tail_lines(chosen if chosen is not None else self._engine.speakers.steady)

    def _make_quarantine(self, run: RunState, now: float, done: dict[str, Any]) -> object:
        return tuple(run.quarantine)

    def _make_counts(self, run: RunState, now: float, done: dict[str, Any]) -> object:
        return view.counts(self._engine.forward, self._engine.files, exact=not self._engine.in_history)

    def _make_run(self, run: RunState, now: float, done: dict[str, Any]) -> object:
        engine = self._engine
        state, note = self._desk.state
        newest = run.newest_time if run.newest_time is not None else engine.speakers.heard
        return view.run_view(
            run,
            engine.files,
            state=state,
            note=note,
            newest=None if newest is None else float(math.floor(newest)),
            history=engine.history,
            nodes=len(done.get("nodes", self.snapshot.nodes)),
            gpus=gpus_of_run(run),
            demo=self._demo,
            hint=self._hint(run),
            opened=self._opened,
            now=now,
        )

    def _hint(self, run: RunState) -> str:
        engine = self._engine
        return self.hint or view.not_answering(engine.files, engine.missing) or view.different_runs(run, engine.files)

    def _adopt(self, changes: dict[str, Any]) -> bool:
        old = self.snapshot
        fresh = {name: value for name, value in changes.items() if _differs(name, getattr(old, name), value)}
        if not fresh:
            return False
        versions = dict(old.versions)
        for name in fresh:
            section = "alerts" if name == "calm" else name
            versions[section] = old.version + 1
        values = {name: fresh.get(name, getattr(old, name)) for name in (*SECTIONS, "calm")}
        self.snapshot = Snapshot(version=old.version + 1, versions=versions, **values)
        return True


def _differs(name: str, old: Any, new: Any) -> bool:
    if name == "charts":
        # An unchanged chart is the same object; thousands of points need not be compared.
        return len(old) != len(new) or any(one is not other for one, other in zip(old, new, strict=True))
    return bool(old != new)
