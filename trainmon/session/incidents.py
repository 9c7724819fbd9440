"""From incidents to alerts and events: what is of the present becomes an alert, what is history an event only."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from trainmon.alerts.policy import AlertBook
from trainmon.catalogue import Catalogue
from trainmon.model import Incident
from trainmon.session.blame import blamed, cause_of, is_failure
from trainmon.session.engine import Engine
from trainmon.session.errors import UNKNOWN
from trainmon.session.files import SourceFile
from trainmon.session.run import RunState
from trainmon.session.view import gpu_of
from trainmon.snapshot import AlertView, EventView, Health
from trainmon.snapshot import RunState as StateWord

PRESENT_S = 60.0
"""A file that changed this recently speaks of the present: what is open at its end may ring."""


class IncidentDesk:
    """Feeds the alert book from the run on screen.

    While history is read, the glimpse's incidents are the alerts; those of the forward run are history, and only
    what is still open when it meets the end is an alert, too.
    """

    def __init__(self) -> None:
        self.book = AlertBook(self._place)
        self._files: Mapping[int, SourceFile] = {}
        self.state: tuple[StateWord, str] = ("waiting", "")
        self._open: dict[str, Incident] = {}
        self._past_read = False
        self._version = 0
        self._change_at = math.inf
        self._shown: RunState | None = None
        self._catalogue: Catalogue | None = None
        self._errors_at: tuple[object, int] | None = None

    def settle(self, engine: Engine) -> None:
        """Take what the detectors found since the last call, and the run's state."""
        now = engine.clock.now()
        self._files = engine.files
        self._catalogue = engine.catalogue
        front = engine.front
        history = engine.in_history
        if engine.forward is not front:
            self._note_events(engine.forward, engine.forward.found, now)
            engine.forward.found = []
        found, front.found = front.found, []
        if found:
            self._note_events(front, found, now)
            front.dirty.update(("alerts", "events", "spans"))
        judged = engine.preview.run is not None or not history
        if front is not self._shown or judged != self._past_read:
            self._shown, self._past_read = front, judged
            self._take_over(front, engine, now, judged)
        elif judged:
            for incident, live in found:
                self._apply(self._named(front, incident), now, live)
        self._blame(front, engine, now, judged)
        if self.book.version != self._version or not now < self._change_at:
            self._version = self.book.version
            front.dirty.add("alerts")
        left = self.book.next_change(now)
        self._change_at = math.inf if left is None else now + left
        before, self.state = self.state, front.watch.look(now)
        if self.state != before:
            front.dirty.update(("run", "nodes", "alerts"))

    def views(self, now: float) -> tuple[AlertView, ...]:
        """The alerts, worst first."""
        return self.book.views(now)

    def calm(self, run: RunState, heard: float | None, now: float, hint: str = "") -> str:
        """The sentence of the alert row when nothing is wrong.

        Args:
            heard: When the newest line came, Unix seconds.
            hint: A sentence about the whole, said right after the verdict.
        """
        word = self.state[0]
        if word in ("waiting", "old", "failed"):
            return {"waiting": "nothing to judge yet", "old": "this log had ended before it was opened"}.get(word, "")
        started = run.first_time
        if started is not None and run.newest_time is not None and heard is not None:
            started += heard - run.newest_time  # the log's clock, or its zone, may be off
        sentence = self.book.calm(now, run.events.planned, started)
        if not hint or not sentence:
            return sentence
        verdict, _, rest = sentence.partition(" · ")
        return " · ".join(part for part in (verdict, hint, rest) if part)

    def _place(self, incident: Incident) -> tuple[int | None, str]:
        if incident.source is None:
            return None, ""
        found = next((file.id for file in self._files.values() if file.name == incident.source), None)
        return found, incident.source.rsplit("/", 1)[-1] + (f":{incident.line:,}" if incident.line else "")

    def _take_over(self, front: RunState, engine: Engine, now: float, judged: bool) -> None:
        """Another run is on screen, or its past is read now: its open incidents are the alerts."""
        if not judged:
            return
        present = engine.speakers.heard is not None and now - engine.speakers.heard < PRESENT_S
        for key, incident in list(self._open.items()):
            if key not in front.open:
                self._apply(replace(incident, end=now), now, False)
        for incident in list(front.open.values()):
            self._apply(self._named(front, incident), now, present)
        front.dirty.update(("alerts", "nodes", "spans", "events"))

    def _apply(self, incident: Incident, now: float, live: bool) -> None:
        if incident.end is None:
            self._open[incident.key] = incident
        else:
            self._open.pop(incident.key, None)
        self.book.apply(incident, now, live)

    def _named(self, run: RunState, incident: Incident) -> Incident:
        """A failure goes by the name of its probable cause, as in the list of errors."""
        if self._catalogue is None or not is_failure(incident):
            return incident
        named = blamed(incident, run.errors, self._catalogue)
        return replace(named, gpu=gpu_of(named, run)) if named.kind == "oom" and named.gpu is None else named

    def _blame(self, run: RunState, engine: Engine, now: float, judged: bool) -> None:
        """The errors have changed: the failure may have a better name, and so may the run's state."""
        if self._errors_at == (run, run.errors.revision):
            return
        self._errors_at = run, run.errors.revision
        cause = cause_of(run.errors, engine.catalogue)
        run.watch.pulse.blamed = (
            None if cause is None or cause.over else ("" if cause.code in UNKNOWN else cause.code, cause.lead.node)
        )
        for key, incident in list(run.open.items()):
            if not is_failure(incident):
                continue
            named = self._named(run, incident)
            if judged and key in self._open and self._open[key] != named:
                self._apply(named, now, False)
            run.events.alert(key, _event(named), now)
            run.dirty.update(("alerts", "events", "run", "nodes"))

    def _note_events(self, run: RunState, found: list[tuple[Incident, bool]], now: float) -> None:
        for incident, _ in found:
            run.events.alert(incident.key, _event(self._named(run, incident)), now)
            if incident.end is not None:
                run.events.close(incident.key)


def _event(incident: Incident) -> EventView:
    health: Health = (
        "ok"
        if incident.severity == "info" or incident.end is not None
        else ("critical" if incident.severity == "critical" else "warning")
    )
    text = incident.measured
    if incident.end is not None and incident.resolution:
        text = f"{text}; {incident.resolution}" if text else incident.resolution
    return EventView(
        time=incident.start or incident.detected or None,
        health=health,
        name=incident.title,
        who=incident.who,
        text=text,
        advice=incident.advice[0] if incident.advice and incident.end is None else "",
        alert=incident.key,
    )
