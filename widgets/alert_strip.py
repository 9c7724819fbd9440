"""The alert strip: the row under the status that says the worst thing, or in words that all is well."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trainmon import units
from trainmon.snapshot import AlertView
from trainmon.widgets.paint import HEALTH_GLYPHS, Instrument, Pen, Row, Span, cut, width_of
from trainmon.widgets.parts import spans_width


def ordered(alerts: Sequence[AlertView]) -> list[AlertView]:
    """Firing before resolved before muted, critical before warning, else as given (worst first, then newest)."""
    rank = {"firing": 0, "resolved": 1, "acknowledged": 2, "muted": 3}
    weight = {"critical": 0, "warning": 1, "info": 2}
    return sorted(alerts, key=lambda alert: (rank.get(alert.state, 3), weight.get(alert.severity, 2)))


def _shorter(text: str) -> Iterator[str]:
    """The sentence, then the same with one clause less, and so on; at last nothing."""
    while text:
        yield text
        places = [text.rfind(mark) for mark in (", ", " (", "; ")]
        at = max(places)
        text = text[:at].rstrip() if at > 0 else ""
    yield ""


def draw_alert_strip(
    alerts: Sequence[AlertView],
    calm: str,
    width: int,
    height: int = 1,
    *,
    flash_on: bool = False,
    now: float | None = None,
    selected: int = 0,
    enter: str = "⏎",
) -> list[Row]:
    """One row: glyph and name · who · measured → outlook, and the keys at the right; or the quiet sentence.

    With two rows below 40 columns the outlook takes the second one.

    Args:
        flash_on: Reverses the label of a fresh critical alert in this phase.
        now: Unix seconds, for the alert's age; None leaves the age out.
        selected: Which of the alerts, in the order of `ordered`.
        enter: How the Enter key is written.
    """
    if width < 1 or height < 1:
        return []
    if not alerts:
        return [_quiet(calm, width)]
    shown = ordered(alerts)
    index = max(0, min(selected, len(shown) - 1))
    alert = shown[index]
    if alert.state == "resolved":
        return [_resolved(alert, width)]
    rows = [_alert(alert, index, shown, width, flash_on=flash_on, now=now, enter=enter)]
    if height >= 2 and alert.state == "firing":
        rows.append(_second(alert, width, enter))
    return rows


def _quiet(calm: str, width: int) -> Row:
    pen = Pen(width)
    if not calm:
        return pen.row()
    parts = calm.split(" · ")
    well = calm.startswith("healthy")
    at = pen.put(1, "●", "ok" if well else "muted")
    at = pen.put(at + 1, cut(parts[0], width - 4), "text")
    for part in parts[1:]:
        text = ("  ·  " if width >= 60 else " · ") + part.strip()
        if at + width_of(text) > width - 1:
            break
        at = pen.put(at, text, "muted")
    return pen.row()


def _resolved(alert: AlertView, width: int) -> Row:
    tint = "+tint-ok"
    pen = Pen(width, "tint-ok")
    at = pen.put(1, "● resolved", "ok+bold" + tint)
    who = f" on {alert.who}" if alert.who and alert.who != "run" else ""
    text = alert.title + who
    lasted = f" after {units.duration(alert.resolved - alert.since)}" if alert.resolved is not None else ""
    for more in (lasted + (f": {alert.resolution}" if alert.resolution else ""), lasted, ""):
        if at + 2 + width_of(text + more) <= width - 1:
            text += more
            break
    pen.put(at + 2, cut(text, max(0, width - 3 - at)), "text" + tint)
    return pen.row()


def _second(alert: AlertView, width: int, enter: str) -> Row:
    """What follows, and the key that tells why: for panes in which the first row holds name and who only."""
    severity = "critical" if alert.severity == "critical" else "warning"
    tint = f"+tint-{severity}"
    pen = Pen(width, tint[1:])
    end = max(1, width - 1 - width_of(enter) - 4)
    head, sign, tail = alert.outlook.partition("≈")
    text = head.strip() if sign else alert.outlook.partition(";")[0] or alert.measured
    at = pen.put(3, cut(text, max(0, end - 4)), "text" + tint)
    if sign and at + 2 + width_of(tail) < end:
        pen.put(at + 1, "≈" + tail, severity + "+bold" + tint)
    pen.put(end, enter, "accent+bold" + tint)
    pen.put(end + width_of(enter), " why", "text" + tint)
    return pen.row()


def _keys(
    alert: AlertView, index: int, total: int, *, age: str, gap: int, mute: bool, enter: str, tint: str
) -> list[Span]:
    quiet = alert.state in ("muted", "acknowledged")
    count = f"{index + 1} of {total}" if total > 1 else ""
    word = "muted" + tint
    spans: list[Span] = []
    lead = " · ".join(part for part in (count, age) if part)
    if lead:
        spans.append((lead, word))
    if not quiet and enter:
        spans += [(" " * gap if spans else "", word), (enter, "accent+bold" + tint), (" why", "text" + tint)]
    if mute:
        label = "unmute" if alert.state == "muted" else "mute"
        spans += [(" " * gap if spans else "", word), ("M", "accent+bold" + tint)]
        spans.append((" " + label, ("muted" if quiet else "text") + tint))
    return spans


def _alert(
    alert: AlertView,
    index: int,
    shown: Sequence[AlertView],
    width: int,
    *,
    flash_on: bool,
    now: float | None,
    enter: str,
) -> Row:
    quiet = alert.state in ("muted", "acknowledged")
    severity = "critical" if alert.severity == "critical" else "warning"
    tint = "" if quiet else f"+tint-{severity}"
    pen = Pen(width, tint[1:])
    end = width - 1
    loud = "muted" if quiet else f"{severity}+bold"
    gap = 3 if width >= 100 else 2 if width >= 50 else 1
    glyph = HEALTH_GLYPHS["critical" if severity == "critical" else "warning"]
    label = f"{glyph} {alert.title}"
    if quiet:
        token = loud
    elif alert.fresh and flash_on and severity == "critical":
        token = loud + "+reverse"
    else:
        token = loud + tint + "+label"
    # The label takes a blank on either side, so that it reads when it is reversed.
    label = cut(label, max(0, width - 2))
    after = pen.put(0, f" {label} ", token)
    at = after + (1 if width >= 50 else 0)
    who_room = end - at
    if who_room <= 0:
        return pen.row()
    at = pen.put(at, cut(alert.who, who_room), ("muted" if quiet else "strong") + tint)

    age = units.age(max(0.0, now - alert.since)) if now is not None and width >= 120 else ""
    total = len([one for one in shown if one.state != "resolved"]) or 1
    clause = alert.outlook.partition(";")[0]
    least = 0 if quiet else width_of(clause) + 4 if clause else 12
    # Everything that was measured and what follows go before the age and the keys.
    said = _untitled(alert)
    whole = least + width_of(said)
    room = end - at
    choices = [
        _keys(alert, index, total, age=with_age, gap=gap, mute=with_mute, enter=enter, tint=tint)
        for with_age, with_mute in ((age, width >= 100), ("", width >= 100), ("", quiet))
    ]
    choices.append([(f"{index + 1}/{total}", "muted" + tint)] if total > 1 and width >= 36 else [])
    fitting = [spans for spans in choices if spans_width(spans) + 2 <= room - least]
    roomy = [spans for spans in fitting[:2] if spans_width(spans) + 2 + min(2, gap) <= room - whole]
    right = (roomy or fitting or choices[-1:])[0]
    if right and spans_width(right) < room:
        pen.spans(end - spans_width(right), right)
        end -= spans_width(right) + min(2, gap)
    at += min(2, gap)
    room = end - at
    state = " · acknowledged" if alert.state == "acknowledged" else " · muted until it resolves" if quiet else ""
    for measured in _shorter(said):
        for outlook in (alert.outlook, alert.outlook.split(";")[0], ""):
            spans = _sentence(measured, outlook, state, loud, quiet, tint)
            if spans_width(spans) <= room:
                pen.spans(at, spans)
                return pen.row()
            if outlook and ";" not in alert.outlook:
                # A shorter measure first: what follows matters more than the last clause.
                break
    brief = alert.outlook[alert.outlook.find("≈") :] if "≈" in alert.outlook else ""
    if brief and not quiet and width_of(brief) <= room:
        pen.put(at, brief, loud + tint)
    return pen.row()


def _untitled(alert: AlertView) -> str:
    """What was measured, without the title that stands before it already: "Xid 94: a memory error" of XID 94."""
    head, sign, rest = alert.measured.partition(": ")
    return rest if sign and head.upper() == alert.title.upper() else alert.measured


def _sentence(measured: str, outlook: str, state: str, loud: str, quiet: bool, tint: str) -> list[Span]:
    text = ("muted" if quiet else "text") + tint
    spans: list[Span] = []
    if measured:
        spans.append((measured, text))
    if state:
        spans.append((state if spans else state.removeprefix(" · "), text))
    elif outlook:
        head, mark, rest = outlook.partition(";")
        spans.append((" → " if measured else "→ ", text))
        spans.append((head, loud + tint))
        if mark:
            spans.append((mark + rest, text))
    return spans


class AlertStrip(Instrument, can_focus=True):
    """Row 1 of every screen, always there: nothing moves when an alert comes or goes."""

    DEFAULT_CSS = "AlertStrip { height: 1; }"

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._alerts: Sequence[AlertView] = ()
        self._calm = ""
        self._flash_on = False
        self._now: float | None = None
        self._chosen: str | None = None
        self.selected = 0
        self.leads = True
        """Enter leads from here to the alert's details: the key is shown."""

    @property
    def current(self) -> AlertView | None:
        """The alert that is shown; None when there is none."""
        shown = ordered(self._alerts)
        return shown[max(0, min(self.selected, len(shown) - 1))] if shown else None

    def show(self, alerts: Sequence[AlertView], calm: str, flash_on: bool = False, now: float | None = None) -> None:
        """Shows the alerts; `flash_on` is the phase of the flash, `now` Unix seconds for the age."""
        self._alerts, self._calm, self._flash_on, self._now = alerts, calm, flash_on, now
        shown = ordered(alerts)
        if self._chosen is not None:
            # Stays on the alert that the user chose, wherever it moved.
            places = [index for index, alert in enumerate(shown) if alert.id == self._chosen]
            self.selected, self._chosen = (places[0], self._chosen) if places else (0, None)
        else:
            self.selected = 0
        self.redraw()

    def move(self, delta: int) -> None:
        """Shows the next or previous alert."""
        shown = ordered(self._alerts)
        if shown:
            self.selected = max(0, min(len(shown) - 1, self.selected + delta))
            self._chosen = shown[self.selected].id if self.selected else None
            self.redraw()

    def draw(self, width: int, height: int) -> list[Row]:
        return draw_alert_strip(
            self._alerts,
            self._calm,
            width,
            height,
            flash_on=self._flash_on,
            now=self._now,
            selected=self.selected,
            enter=self.enter if self.leads else "",
        )
