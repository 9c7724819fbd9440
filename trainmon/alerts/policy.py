"""The alert book: incidents in, what the alert strip shows out. Pure; whoever calls it brings the time.

    incident -> firing -> (acknowledged | muted) -> resolved, shown for 10 s -> gone, kept in the history

* An incident of history is noted and never announced: `apply(..., live=False)`.
* A live critical alert is fresh for 3 s, once: that is the flash and the bell.
* The same key within 60 s of its end is opened again quietly.
* The same kind on several nodes within 5 s is one alert with a count, and the worst of them speaks for it.
* Acknowledged: it stays, steady. Muted: it stays in grey until all of it is resolved.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from trainmon import units
from trainmon.model import Incident, Severity, Value
from trainmon.snapshot import AlertView

FRESH_S = 3.0
RESOLVED_S = 10.0
REOPEN_S = 60.0
GROUP_S = 5.0
HISTORY = 500
REMEMBERED = 512
WORST: dict[Severity, int] = {"critical": 0, "warning": 1, "info": 2}
GROUPED = frozenset(("near_oom", "straggler", "node_silent", "gpu_underutil", "thermal_throttle"))
"""Kinds that several nodes can have at once; the others are one for the run, or one for each failure."""
BY_TITLE = frozenset((
    "gpu_fault", "memory_high", "host_oom", "cpu_saturated", "disk_saturated", "network_bottleneck", "network_fault",
    "storage_fault",
))  # fmt: skip
"""The same, where one kind has several matters: an Xid 94 is not told together with a lost GPU."""


@dataclass(slots=True)
class _Alert:
    """One alert: an incident, or several of a kind."""

    id: str
    kind: str
    since: float
    order: int
    members: dict[str, Incident] = field(default_factory=dict)
    live: bool = True
    rung_at: float | None = None
    acknowledged: bool = False
    muted: bool = False
    resolved: float | None = None
    gone: bool = False
    head: Incident | None = None
    count: int = 1


class AlertBook:
    """See the module's docstring.

    Args:
        place: Turns an incident's source into (number of the source, words like "worker-2.log:1,223"); without it
            places stay empty.
    """

    def __init__(self, place: Callable[[Incident], tuple[int | None, str]] | None = None) -> None:
        self._place = place
        self._alerts: OrderedDict[str, _Alert] = OrderedDict()
        self._of_key: OrderedDict[str, str] = OrderedDict()
        self._rung: OrderedDict[str, float] = OrderedDict()
        self._history: deque[_Alert] = deque(maxlen=HISTORY)
        self._serial = 0
        self._offset = 0.0
        self._last = float("-inf")
        self._started: float | None = None
        self._healthy_since: float | None = None
        self._last_resolved: float | None = None
        self._last_resolved_wall: float | None = None
        self._ever = 0
        self.version = 0
        """Rises when something changed; time alone may change `views` too (`next_change`)."""

    # ------------------------------------------------------------ time

    def _steady(self, now: float) -> float:
        """Seconds that never go back, whatever is done to the clock."""
        steady = now + self._offset
        if steady < self._last:
            self._offset += self._last - steady
            steady = self._last
        self._last = steady
        return steady

    # ------------------------------------------------------------ incidents

    def apply(self, incident: Incident, now: float, live: bool = True) -> None:
        """Take in a new, changed or resolved incident.

        Args:
            incident: What a detector found.
            now: Unix seconds.
            live: False for what is found while history is read: it is noted without an announcement.
        """
        t = self._steady(now)
        alert = self._alerts.get(self._of_key.get(incident.key, ""))
        if incident.end is not None:
            self._close(alert, incident, t, live)
            return
        if alert is None:
            alert = self._open(incident, t, live)
        elif alert.resolved is not None:  # within the time in which it is opened again quietly
            alert.resolved = None
            alert.gone = False
            alert.acknowledged = alert.acknowledged or not live
        before = alert.members.get(incident.key)
        if before == incident:
            return
        alert.members[incident.key] = incident
        self._headline(alert)
        self.version += 1
        # What history left open is announced only when it gets worse now.
        worse = alert.live or (before is not None and before.severity != "critical")
        if live and worse and incident.severity == "critical" and not alert.muted and not alert.acknowledged:
            self._ring(alert, incident.key, t)

    def _open(self, incident: Incident, t: float, live: bool) -> _Alert:
        alert = self._group_for(incident, t, live)
        if alert is None:
            self._serial += 1
            self._ever += 1
            alert = _Alert(incident.key, incident.kind, t, self._serial, live=live)
            if not live:
                alert.since = incident.detected or incident.start
            self._alerts[alert.id] = alert
            if len(self._alerts) > REMEMBERED:
                self._forget()
        self._of_key[incident.key] = alert.id
        return alert

    def _group_for(self, incident: Incident, t: float, live: bool) -> _Alert | None:
        by_title = incident.kind in BY_TITLE
        if incident.kind not in GROUPED and not by_title:
            return None
        for alert in reversed(self._alerts.values()):
            if alert.kind != incident.kind or alert.resolved is not None or alert.live != live:
                continue
            if by_title and (alert.head is None or alert.head.title != incident.title):
                continue
            if live and t - alert.since > GROUP_S and alert.count < 2:
                continue
            if live and t - alert.since > 300.0:
                continue
            severities = {m.severity for m in alert.members.values()}
            if live and incident.severity == "critical" and "critical" not in severities and t - alert.since > GROUP_S:
                continue  # the first critical one is news of its own
            return alert
        return None

    def _ring(self, alert: _Alert, key: str, t: float) -> None:
        """Fresh once for an alert, and not again for a key that has just been announced."""
        if alert.rung_at is not None:
            return
        rung = self._rung.get(key)
        self._rung[key] = t
        self._rung.move_to_end(key)
        if len(self._rung) > REMEMBERED:
            self._rung.popitem(last=False)
        alert.rung_at = t if rung is None or t - rung > REOPEN_S else float("-inf")

    def _close(self, alert: _Alert | None, incident: Incident, t: float, live: bool) -> None:
        if alert is None:
            if live:
                return
            alert = self._open(incident, t, live)  # history: it begins and ends in one word
        alert.members[incident.key] = incident
        self.version += 1
        if any(m.end is None for m in alert.members.values()):
            self._headline(alert)
            return
        alert.head = incident
        alert.count = len(alert.members)
        alert.resolved = t
        alert.muted = False
        alert.gone = not live or superseded(incident)
        if live and not alert.gone:
            self._last_resolved, self._last_resolved_wall = t, incident.end
        if not any(a.resolved is None for a in self._alerts.values()):
            self._healthy_since = t

    def _headline(self, alert: _Alert) -> None:
        open_ = [m for m in alert.members.values() if m.end is None] or list(alert.members.values())
        alert.head = min(open_, key=lambda m: (WORST[m.severity], -m.detected))
        alert.count = len(open_)

    def _forget(self) -> None:
        """Drop the oldest that is over; never one that fires, as long as there is another."""
        victim = next((a for a in self._alerts.values() if a.resolved is not None), None)
        if victim is None:
            heads = [(WORST[a.head.severity], -a.order, a) for a in self._alerts.values() if a.head is not None]
            victim = max(heads, key=lambda item: item[:2])[2]
        self._retire(victim)

    def _retire(self, alert: _Alert) -> None:
        self._alerts.pop(alert.id, None)
        self._history.append(alert)
        for key in alert.members:
            if self._of_key.get(key) == alert.id:
                del self._of_key[key]

    # ------------------------------------------------------------ what the user does

    def acknowledge(self, id: str) -> bool:
        """Seen: it stays, but steady. False when there is no such alert."""
        alert = self._alerts.get(id)
        if alert is None or alert.resolved is not None or alert.acknowledged:
            return False
        alert.acknowledged = True
        self.version += 1
        return True

    def mute(self, id: str) -> bool:
        """Grey until it is resolved. False when there is no such alert."""
        alert = self._alerts.get(id)
        if alert is None or alert.resolved is not None or alert.muted:
            return False
        alert.muted = True
        self.version += 1
        return True

    def unmute(self, id: str) -> bool:
        """Take muting back, without a new announcement. False when it was not muted."""
        alert = self._alerts.get(id)
        if alert is None or not alert.muted:
            return False
        alert.muted = False
        if alert.rung_at is None:
            alert.rung_at = float("-inf")
        self.version += 1
        return True

    # ------------------------------------------------------------ giving out

    def views(self, now: float) -> tuple[AlertView, ...]:
        """What the strip shows: worst first, then newest; muted and resolved ones after the others."""
        t = self._steady(now)
        self._started = t if self._started is None else self._started
        shown: list[tuple[tuple[int, int, int], AlertView]] = []
        for alert in list(self._alerts.values()):
            if alert.resolved is not None:
                age = t - alert.resolved
                if age > REOPEN_S or (not alert.live and alert.gone):
                    self._retire(alert)
                    continue
                if alert.gone or age >= RESOLVED_S:
                    continue
            head = alert.head
            if head is None:
                continue
            late = 2 if alert.resolved is not None else 1 if alert.muted else 0
            shown.append(((late, WORST[head.severity], -alert.order), self._view(alert, head, t)))
        shown.sort(key=lambda item: item[0])
        return tuple(view for _, view in shown)

    def history(self, now: float) -> tuple[AlertView, ...]:
        """Alerts that are over, and those that are open, newest first, for the list of events; bounded."""
        t = self._steady(now)
        every = [*self._history, *self._alerts.values()]
        every.sort(key=lambda a: a.order, reverse=True)
        return tuple(self._view(a, a.head, t) for a in every[:HISTORY] if a.head is not None)

    def next_change(self, now: float) -> float | None:
        """Seconds until `views` changes by the passing of time alone; None when it does not."""
        t = self._steady(now)
        times: list[float] = []
        for alert in self._alerts.values():
            if alert.resolved is not None and not alert.gone and t - alert.resolved < RESOLVED_S:
                times.append(alert.resolved + RESOLVED_S - t)
            elif alert.rung_at is not None and 0.0 <= t - alert.rung_at < FRESH_S:
                times.append(alert.rung_at + FRESH_S - t)
        return min(times, default=None)

    def id_of(self, key: str) -> str | None:
        """The alert that an incident of this key belongs to, or None."""
        return self._of_key.get(key)

    def firing(self) -> tuple[Incident, ...]:
        """Every incident that is open, muted ones too, for spans and the words of nodes."""
        return tuple(m for a in self._alerts.values() for m in a.members.values() if m.end is None)

    def _view(self, alert: _Alert, head: Incident, t: float) -> AlertView:
        fresh = (
            alert.rung_at is not None
            and 0.0 <= t - alert.rung_at < FRESH_S
            and alert.resolved is None
            and not (alert.acknowledged or alert.muted)
        )
        who = head.who
        if alert.count > 1:
            names = {m.node for m in alert.members.values() if m.node}
            what = f"{len(names)} nodes" if len(names) > 1 else f"{alert.count} GPUs"
            if len(names) == 1 and head.gpu is None and head.kind in BY_TITLE:
                what = f"{alert.count} on {head.node}"
            who = f"{what}, worst {head.who}" if head.kind != "node_silent" else what
        source, place = self._place(head) if self._place is not None else (None, "")
        code = next((str(v) for k, v in head.evidence if k == "code"), None)
        state = (
            "resolved"
            if alert.resolved is not None
            else "muted"
            if alert.muted
            else "acknowledged"
            if alert.acknowledged
            else "firing"
        )
        return AlertView(
            id=alert.id,
            kind=head.kind,
            severity=head.severity,
            title=head.title,
            who=who,
            measured=head.measured,
            outlook=head.outlook,
            advice=head.advice,
            state=state,  # type: ignore[arg-type]  # one of the four words above
            since=alert.since - self._offset if alert.live else alert.since,
            resolved=head.end if alert.resolved is not None else None,
            resolution=head.resolution,
            fresh=fresh,
            count=alert.count,
            node=head.node,
            gpu=head.gpu,
            source=source,
            place=place,
            line=head.line,
            offset=head.offset,
            code=code,
            start_step=head.start_step,
            evidence=tuple((name.replace("_", " "), _text(value)) for name, value in head.evidence),
        )

    def calm(self, now: float, planned: dict[str, int] | None = None, started: float | None = None) -> str:
        """The sentence of the alert row when nothing is wrong; empty while something is.

        Its age is coarse, so that an idle screen stays silent.

        Args:
            now: Unix seconds.
            planned: Announced pauses so far, by kind (`Detectors.planned`).
            started: Unix seconds of the first line that is known, else the first look counts.
        """
        t = self._steady(now)
        if any(a.resolved is None or (not a.gone and t - a.resolved < RESOLVED_S) for a in self._alerts.values()):
            return ""
        since = self._healthy_since
        if since is None:
            since = started + self._offset if started is not None else self._started
        age = 0.0 if since is None else max(0.0, t - since)
        parts = [f"healthy for {calm_age(age)}" if age >= 60.0 else "healthy"]
        if self._last_resolved_wall is not None:
            parts.append(f"last alert resolved {units.clock(self._last_resolved_wall)}")
        elif self._ever:
            parts.append("no alerts since it was opened")
        else:
            parts.append("no alerts since the start")
        pauses = _pauses(planned or {})
        return " · ".join([*parts, pauses] if pauses else parts)


def superseded(incident: Incident) -> bool:
    """Whether it ended because something worse has taken its place: that is no good news."""
    return any(name == "superseded" for name, _ in incident.evidence)


def calm_age(seconds: float) -> str:
    """A coarse age for the calm sentence: minutes in the first ten, then five, then hours."""
    if seconds < 600.0:
        return f"{int(seconds // 60)} m"
    if seconds < 7200.0:
        minutes = int(seconds // 300) * 5
        return f"{minutes} m" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} m"
    return units.age(seconds)


def _pauses(planned: dict[str, int]) -> str:
    words = {1: "one", 2: "two", 3: "three"}
    names = {"eval": ("eval", "evals"), "checkpoint": ("checkpoint", "checkpoints")}
    told = [
        f"{words.get(planned[kind], units.count(planned[kind]))} {one if planned[kind] == 1 else many}"
        for kind, (one, many) in names.items()
        if planned.get(kind)
    ]
    if not told:
        return ""
    total = sum(planned.get(kind, 0) for kind in names)
    return " and ".join(told) + (" recognised as a planned pause" if total == 1 else " recognised as planned pauses")


def _text(value: Value) -> str:
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else value
