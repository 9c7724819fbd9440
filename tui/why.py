"""Why: one alert or error with its numbers, its line in the file, likely causes and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from textual.widget import Widget

from trainmon import units
from trainmon.snapshot import AlertView, ChartView, ErrorView, Snapshot
from trainmon.tui import keys
from trainmon.tui.copying import text_of
from trainmon.tui.layout import Rect
from trainmon.tui.page import Behind
from trainmon.tui.parts import TextBody
from trainmon.widgets.cells import Pen, Row, graphemes, width_of
from trainmon.widgets.chart import Chart
from trainmon.widgets.parts import heading, sentence

Subject = AlertView | ErrorView
RawLine = tuple[int | None, str]
"""Number of a line (None when it is not known) and its text, safe to show."""

AROUND = 6
"""Lines of the file shown before and after the line in question."""
SIDE_COLUMNS, SIDE_ROWS = 110, 30
"""From this size on the chart and the numbers stand side by side above the text."""

EVIDENCE = {
    "near_oom": "gpu_memory_mb", "oom": "gpu_memory_mb", "memory_high": "gpu_memory_mb", "memory_leak": "gpu_memory_mb",
    "straggler": "step_time_s", "slowdown": "step_time_s",
}  # fmt: skip
"""Chart that shows a kind of incident best; loss for all others."""


def wrap(text: str, width: int) -> list[str]:
    """The text in lines of at most `width` cells, broken between words where that is possible."""
    lines: list[str] = []
    line = ""
    for word in text.split():
        while width_of(word) > width > 0:
            head = "".join(graphemes(word)[: width - (width_of(line) + 1 if line else 0)])
            if not head:
                lines.append(line)
                line = ""
                continue
            lines.append(f"{line} {head}" if line else head)
            word, line = word[len(head) :], ""
        joined = f"{line} {word}" if line else word
        if width_of(joined) > width and line:
            lines.append(line)
            line = word
        else:
            line = joined
    return [*lines, line] if line else lines or [""]


def name_of(subject: Subject) -> str:
    """Code of an error, title of an alert."""
    return subject.code if isinstance(subject, ErrorView) else subject.title


_TOLD = ("found", "sentence")
"""Evidence that what was measured, and the GPU's row, say in words."""
_RECOVERY = {
    "0": "none", "1": "reset the GPU", "2": "reboot", "3": "take it out of peer traffic", "4": "drain and reset",
    "5": "restart the memory exchange between nodes", "6": "reset its bus", "7": "reboot",
}  # fmt: skip
"""What the driver advises, by its number (NVML's field 230)."""


def worded(name: str, value: str) -> tuple[str, str]:
    """A detector's number as one would say it: "level mb", "74,599.0" is "level", "72.9 GiB"."""
    words = name.split(" ")
    if name == "recovery action":
        return name, _RECOVERY.get(value, value)
    try:
        number = float(value.replace(",", "").replace(units.MINUS, "-"))
    except ValueError:
        return name, value
    if "mb" in words:
        at = words.index("mb")
        per = " ".join(words[at + 1 :]).replace("per ", "a ", 1).replace("a 100", "per 100")
        said = (units.MINUS if number < 0 else "") + units.memory_text(abs(number))
        return " ".join(words[:at]), f"{said} {per}".rstrip()
    if words[-1] == "percent" and len(words) > 1:
        return " ".join(words[:-1]), f"{value} %"
    if words[-1] == "s" and len(words) > 1:
        return " ".join(words[:-1]), units.duration(number) if number >= 60 else f"{value} s"
    return name, value


def numbers(subject: Subject) -> list[tuple[str, str, str]]:
    """(label, value, token) of everything that is known in numbers."""
    token = "critical+bold" if subject.severity == "critical" else "warning+bold"
    out: list[tuple[str, str, str]] = []
    if isinstance(subject, AlertView):
        out.append(("who", subject.who, "strong"))
        out.append(("measured", subject.measured, "text"))
        if subject.outlook:
            out.append(("outlook", subject.outlook, token))
        out += [(*worded(name, value), "text") for name, value in subject.evidence if name not in _TOLD]
        if subject.start_step is not None:
            out.append(("since step", units.count(subject.start_step), "strong"))
        if subject.since:
            out.append(("fired", units.clock(subject.since) + " UTC", "text"))
        if subject.resolved is not None:
            out.append(("resolved", units.clock(subject.resolved) + f" UTC  {subject.resolution}".rstrip(), "ok"))
        if subject.state in ("muted", "acknowledged"):
            out.append(("state", subject.state, "muted"))
        if subject.count > 1:
            out.append(("grouped", f"{subject.count} alike", "text"))
    else:
        out.append(("what", subject.title or subject.message, "strong"))
        out.append(("role", subject.role, token if subject.role == "probable cause" else "text"))
        out.append(("level", f"{subject.priority}, {_LEVELS.get(subject.priority, 'warning')}", "text"))
        out.append(("lines", ("" if subject.exact else "≥ ") + units.count(subject.lines), "text"))
        out.append(("where", subject.where, "text"))
        if subject.first is not None:
            out.append(("first", units.clock(subject.first) + " UTC", "text"))
    if subject.place:
        out.append(("place", subject.place, "text"))
    return [(label, value, kind) for label, value, kind in out if value]


_LEVELS = {1: "fatal: the run cannot go on", 2: "blocking", 3: "warning"}


def number_rows(subject: Subject, width: int) -> list[Row]:
    """The numbers as a block with a heading."""
    title = "numbers" if isinstance(subject, AlertView) else "error"
    rows = [heading(width, title, [[(name_of(subject), "text")]])]
    pairs = numbers(subject)
    column = min(24, 3 + max(width_of(label) for label, _, _ in pairs))
    for label, value, token in pairs:
        lines = wrap(value, max(8, width - 2 - column))
        for index, line in enumerate(lines):
            pen = Pen(width)
            if not index:
                pen.put(1, label, "muted", column)
            pen.put(column, line, token, width - 1)
            rows.append(pen.row())
    return rows


def raw_rows(subject: Subject, lines: Sequence[RawLine], width: int, told: str = "") -> list[Row]:
    """The line in its file, with the lines around it."""
    meta = "⏎ log at this line" if subject.source is not None else ""
    rows = [heading(width, "in the log", [[(subject.place, "muted")]] if subject.place else [], meta)]
    shown = list(lines)
    if not shown:
        raw = subject.raw if isinstance(subject, ErrorView) else ""
        shown = [(subject.line, raw)] if raw else []
    if not shown:
        pen = Pen(width)
        pen.put(1, told or "this comes from numbers over time, not from one line", "muted")
        return [*rows, pen.row()]
    gutter = max((len(units.count(n)) for n, _ in shown if n is not None), default=0)
    for number, text in shown:
        here = number is not None and number == subject.line
        tint = f"+tint-{'critical' if subject.severity == 'critical' else 'warning'}" if here else ""
        parts = wrap(text, max(10, width - gutter - 6))[:6] if here else [text]
        for index, part in enumerate(parts):
            pen = Pen(width, tint[1:])
            if here and not index:
                pen.put(0, "▌", "accent" + tint)
            if number is not None and not index:
                pen.right(1 + gutter, units.count(number), "muted" + tint)
            pen.put(gutter + 3, part, ("strong" if here else "muted") + tint, width - 1)
            rows.append(pen.row())
    return rows


def advice_rows(subject: Subject, width: int) -> list[Row]:
    """Likely causes, and what to do about it."""
    rows: list[Row] = []
    causes = subject.causes if isinstance(subject, ErrorView) else ()
    fixes = subject.fixes if isinstance(subject, ErrorView) else subject.advice
    if causes:
        rows.append(heading(width, "likely causes"))
        for cause in causes:
            for index, line in enumerate(wrap(cause, max(10, width - 5))):
                pen = Pen(width)
                if not index:
                    pen.put(1, "·", "muted")
                pen.put(3, line, "text", width - 1)
                rows.append(pen.row())
        rows.append([])
    origin = f"from the catalogue: {name_of(subject)}" if isinstance(subject, ErrorView) else ""
    rows.append(heading(width, "fix", [], origin))
    if not fixes:
        pen = Pen(width)
        pen.put(1, "the catalogue knows no fix: the words above are the log's own", "muted")
        rows.append(pen.row())
    for number, fix in enumerate(fixes, 1):
        for index, line in enumerate(wrap(fix, max(10, width - 5))):
            pen = Pen(width)
            if not index:
                pen.put(1, str(number), "accent")
            pen.spans(3, sentence(line), width - 1)
            rows.append(pen.row())
    reference = subject.reference if isinstance(subject, ErrorView) else ""
    if reference:
        pen = Pen(width)
        x = pen.put(1, "see ", "muted")
        pen.put(x, reference, "text", width - 1)
        rows.append(pen.row())
    return rows


class WhyPage(Behind):
    """Details of what was selected; stays on it while it changes.

    Args:
        kind: "alert" with the alert's id, or "error" with code, a zero character and the message.
        key: See `kind`.
    """

    PAGE = keys.WHY
    BINDINGS = keys.bindings(keys.WHY)  # type: ignore[assignment]

    def __init__(self, kind: str, key: str) -> None:
        super().__init__()
        self.kind, self.key = kind, key
        self.subject: Subject | None = None
        self.lines: list[RawLine] = []
        self.told = ""
        self.chart = Chart(id="chart")
        self.chart.can_focus = False
        self.side = TextBody(id="side")
        self.body = TextBody(id="body")
        self._loaded: tuple[int | None, int | None] | None = None

    def parts(self) -> Iterator[Widget]:
        yield from (self.crumbs, self.strip, self.chart, self.side, self.body)

    # ------------------------------------------------------------ places

    def trail(self) -> list[str]:
        place = "errors" if self.kind == "error" else "alerts"
        return [place, name_of(self.subject) if self.subject is not None else "gone"]

    def wide(self) -> bool:
        """Room for the chart, and something to draw in it."""
        size = self.app.size
        return size.width >= SIDE_COLUMNS and size.height >= SIDE_ROWS and self.evidence() is not None

    def body_places(self, width: int, top: int, height: int) -> dict[str, Rect]:
        if not self.wide():
            return {"body": Rect(0, top, width, height)}
        side = 58 if width >= 140 else 46
        upper = min(16, height // 2 - 1)
        return {
            "chart": Rect(0, top + 1, width - side - 1, upper),
            "side": Rect(width - side, top + 1, side, upper),
            "body": Rect(0, top + upper + 2, width, height - upper - 2),
        }

    def on_resize(self) -> None:
        self.show_subject()

    # ------------------------------------------------------------ what is shown

    def find(self, snapshot: Snapshot) -> Subject | None:
        """The alert or error as it is now."""
        if self.kind == "alert":
            return next((alert for alert in snapshot.alerts if alert.id == self.key), None)
        code, _, message = self.key.partition("\0")
        same = [error for error in snapshot.errors if error.code == code]
        return next((error for error in same if error.message == message), same[0] if same else None)

    def evidence(self) -> ChartView | None:
        """The series that shows it best."""
        charts = self.monitor.snapshot.charts
        subject: Subject | None = self.subject
        if isinstance(subject, ErrorView):
            code = subject.code
            subject = next((alert for alert in self.monitor.snapshot.alerts if alert.code == code), None)
        wanted = EVIDENCE.get(subject.kind, "loss") if isinstance(subject, AlertView) else "loss"
        # Of the GPU in question, where there is such a chart.
        own = f"{wanted}:{subject.node}:{subject.gpu}" if isinstance(subject, AlertView) else ""
        found = next((chart for key in (own, wanted) for chart in charts if chart.key == key), None)
        found = found or (charts[0] if charts else None)
        return found if found is not None and found.points.x else None

    def show(self, snapshot: Snapshot, changed: frozenset[str]) -> None:
        subject = self.find(snapshot)
        if subject is not None and subject != self.subject:
            self.subject = subject
            self.show_subject()
            self.show_footer()
            self.load()
        super().show(snapshot, changed)
        if changed & {"charts", "spans"} and (chart := self.evidence()) is not None:
            # Evidence does not fade with the run.
            self.chart.show(replace(chart, stale_s=None), snapshot.spans)

    def show_subject(self) -> None:
        """Draw the text anew."""
        subject = self.subject
        if subject is None:
            return
        lines, told, wide = list(self.lines), self.told, self.wide()

        def make(width: int) -> list[Row]:
            raw, advice = raw_rows(subject, lines, width, told), advice_rows(subject, width)
            # On a small screen what helps comes before what was read, or it would lie below the edge.
            return [*raw, [], *advice] if wide else [*number_rows(subject, width), [], *advice, [], *raw]

        self.side.show(lambda width: number_rows(subject, width))
        self.body.show(make)

    def load(self) -> None:
        """Read the lines around the place, once."""
        subject = self.subject
        if subject is None or subject.source is None or (subject.source, subject.offset) == self._loaded:
            return
        if subject.offset is None and subject.line is None:
            return
        self._loaded = subject.source, subject.offset
        self.run_worker(self.read(subject), exclusive=True, exit_on_error=False)

    async def read(self, subject: Subject) -> None:
        """The lines around the place; a file that is gone leaves what the snapshot carries."""
        from trainmon.tui.rawlines import around

        assert subject.source is not None
        self.lines, self.told = await around(self.monitor.session, subject.source, subject.line, subject.offset, AROUND)
        self.show_subject()

    def move(self, rows: int) -> None:
        self.body.move(rows)

    # ------------------------------------------------------------ actions

    def alert_id(self) -> str | None:
        if isinstance(self.subject, AlertView):
            return self.subject.id
        code = self.subject.code if self.subject is not None else None
        return next((alert.id for alert in self.monitor.snapshot.alerts if alert.code == code), None)

    def footer_keys(self) -> list[tuple[str, str]]:
        labels = {"open": "log at this line", "charts": "", "gpus": "", "nodes": "", "errors": ""}
        if self.subject is None or self.subject.source is None:
            labels["open"] = ""
        if self.kind == "error":
            labels |= {"acknowledge": "", "mute": ""}
        return [*keys.footer(self.PAGE, **labels, back=""), ("[ ]", "next")]

    def action_open(self) -> None:
        if self.subject is not None and self.subject.source is not None:
            self.monitor.open_log(self.subject.source, self.subject.line, self.subject.offset)
        else:
            self.notice("no single line stands behind this; 6 opens the log")

    def step(self, by: int) -> None:
        """The next or previous alert or error in its list."""
        snapshot = self.monitor.snapshot
        if self.kind == "alert":
            known = [alert.id for alert in snapshot.alerts]
        else:
            known = [error.code + "\0" + error.message for error in snapshot.errors]
        if len(known) < 2 or self.key not in known:
            self.notice("there is no other")
            return
        self.key = known[(known.index(self.key) + by) % len(known)]
        self.lines, self.told, self._loaded = [], "", None
        self.body.top = 0
        self.show_all()
        self.arrange_anew()

    def action_next_one(self) -> None:
        self.step(1)

    def action_previous_one(self) -> None:
        self.step(-1)

    def copied(self) -> tuple[str, str]:
        if self.subject is None:
            return "", ""
        what, text = text_of(self.subject)
        around = [f"{number or ''}\t{line}" for number, line in self.lines]
        return what, "\n".join([text, *around])
