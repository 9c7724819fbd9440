"""What happened in a run: planned things (checkpoint, evaluation), newcomers, gaps, restarts, and alerts."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from trainmon.snapshot import EventView, Health

MAX_EVENTS = 200


@dataclass(slots=True)
class _Entry:
    order: int
    sort: float
    mark: object
    view: EventView


class EventBook:
    """A bounded list of events; the same thing told by many nodes is one event."""

    def __init__(self) -> None:
        self._entries: deque[_Entry] = deque(maxlen=MAX_EVENTS)
        self._alerts: dict[str, _Entry] = {}
        self._order = 0
        self.revision = 0
        self.planned = {"eval": 0, "checkpoint": 0}

    def add(
        self,
        name: str,
        text: str,
        *,
        time: float | None,
        now: float,
        health: Health = "ok",
        who: str = "",
        mark: object = None,
        planned: bool = False,
    ) -> None:
        """Note an event.

        Args:
            time: When, by the log; now: for the order where the log has no time.
            mark: Equal marks among the last events are the same event (eight workers report one checkpoint).
        """
        if mark is not None:
            for entry in list(self._entries)[-64:]:
                if entry.mark == mark:
                    return
        if planned and name in self.planned:
            self.planned[name] += 1
        self._append(EventView(time, health, name, who, text, planned=planned), time if time is not None else now, mark)

    def find(self, name: str, mark: object) -> EventView | None:
        """The newest event of that name and mark."""
        return next((e.view for e in reversed(self._entries) if e.mark == mark and e.view.name == name), None)

    def update(self, name: str, mark: object, text: str) -> bool:
        """Replace the text of a marked event; False when it is not there."""
        for entry in reversed(self._entries):
            if entry.mark == mark and entry.view.name == name:
                if entry.view.text != text:
                    old = entry.view
                    entry.view = EventView(old.time, old.health, name, old.who, text, planned=old.planned)
                    self.revision += 1
                return True
        return False

    def alert(self, key: str, view: EventView, now: float) -> None:
        """Tell of an alert; the same key again updates the event that is there."""
        entry = self._alerts.get(key)
        if entry is not None:
            if entry.view != view:
                entry.view = view
                self.revision += 1
            return
        self._alerts[key] = self._append(view, view.time if view.time is not None else now, None)
        while len(self._alerts) > MAX_EVENTS:
            del self._alerts[next(iter(self._alerts))]

    def close(self, key: str) -> None:
        """The alert is over: the next one of this key is a new event."""
        self._alerts.pop(key, None)

    def views(self) -> tuple[EventView, ...]:
        """All of them, newest first."""
        ordered = sorted(self._entries, key=lambda entry: (entry.sort, entry.order), reverse=True)
        return tuple(entry.view for entry in ordered)

    def _append(self, view: EventView, sort: float, mark: object) -> _Entry:
        entry = _Entry(self._order, sort, mark, view)
        self._order += 1
        self.revision += 1
        self._entries.append(entry)
        return entry
