"""The status row: which run, in what state, how far, how long still."""

from __future__ import annotations

from trainmon import units
from trainmon.snapshot import PAST_STATES, RunView
from trainmon.widgets.paint import Instrument, Pen, Row, Span, cut
from trainmon.widgets.parts import bar, spans_width

STATE_GLYPHS: dict[str, tuple[str, str, str]] = {
    "waiting": ("○", "muted", "text"),
    "starting": ("◌", "muted", "text"),
    "running": ("●", "ok+bold", "text"),
    "quiet": ("▲", "warning+bold", "warning+bold"),
    "stalled": ("✗", "critical+bold", "critical+bold"),
    "finished": ("●", "ok+bold", "text"),
    "failed": ("✗", "critical+bold", "critical+bold"),
    "old": ("○", "muted", "text"),
}
"""Glyph, its token and the token of the word, by run state."""


def _state(run: RunView, now: float | None, *, zone: bool, note: bool) -> list[Span]:
    glyph, glyph_token, word_token = STATE_GLYPHS.get(run.state, STATE_GLYPHS["waiting"])
    spans: list[Span] = [(glyph, glyph_token), (" ", "text"), (run.state, word_token)]
    time = units.clock(run.newest) + (" UTC" if zone else "") if run.newest is not None else ""
    detail = time
    if note and run.note:
        detail = run.note
    elif note and time and now is not None and run.newest is not None and run.state in PAST_STATES:
        detail = f"{units.age(max(0.0, now - (run.heard or run.newest)))} ago, at {time}"
    elif run.state == "waiting" and now is not None and run.started is not None:
        detail = units.age(max(0.0, now - run.started))
    if detail:
        spans.append((" " + detail, "muted"))
    return spans


def _progress(run: RunView, *, cells: int, gap: int, eta: bool) -> list[Span]:
    if run.step is None:
        return []
    spans: list[Span] = [("step ", "muted"), (units.count(run.step), "strong")]
    if run.total_steps and run.total_steps > 0:
        share = run.step / run.total_steps
        spans.append(("/" + units.count(run.total_steps), "muted"))
        if cells:
            spans.append((" " * (2 if cells >= 20 else 1), "text"))
            spans += bar(share, cells, "muted" if run.state in ("failed", "stalled", "old") else "accent")
        spans.append((" ", "text"))
        spans.append((units.percent(min(share, 1.0) * 100), "strong"))
    if eta and run.state != "finished" and (run.eta_s is not None or run.total_steps):
        over = run.state in ("failed", "stalled", "old")
        spans.append((" " * gap + "ETA ", "muted"))
        spans.append((units.NONE if over else units.duration(run.eta_s), "strong"))
    return spans


def _extras(run: RunView, paused: int | None) -> list[list[Span]]:
    out: list[list[Span]] = []
    if paused is not None:
        waiting = f" · {units.count(paused)} waiting" if paused else ""
        out.append([("paused", "warning+bold"), (waiting, "warning")])
    if run.history is not None:
        out.append([(f"history {units.percent(run.history * 100)}", "muted")])
    if run.hint:
        out.append([(run.hint, "muted")])
    return out


def draw_status(
    run: RunView, width: int, height: int = 1, *, now: float | None = None, paused: int | None = None
) -> list[Row]:
    """One row of `width` cells: name and state on the left, progress and ETA on the right.

    What does not fit is dropped whole: hint, bar, nodes, product name, zone, note, ETA, bar and share, step.

    Args:
        paused: How many updates wait while the picture is paused; None when it is not paused.
    """
    if height < 1 or width < 1:
        return []
    pen = Pen(width)
    end = width - 1
    name = run.name or (
        "" if run.step is not None or width < 60 else "waiting for the first line" if run.state == "waiting" else ""
    )
    demo: list[Span] = [("DEMO", "accent+bold+reverse"), ("  ", "text")] if run.demo else []
    title: list[Span] = [(name, "strong" if run.name else "muted")] if name else []
    count = f"{units.count(run.nodes)} nodes · {units.count(run.gpus)} GPUs" if run.nodes > 1 and run.gpus else (
        f"{units.count(run.nodes)} nodes" if run.nodes > 1 else f"{units.count(run.gpus)} GPUs" if run.gpus > 1 else ""
    )  # fmt: skip
    extras = _extras(run, paused)
    wide = width >= 100
    # (product, node count, extras kept, zone, note, bar, eta): richest first.
    plans = [
        (True, True, 3, True, True, 24, True),
        (True, True, 2, True, True, 24, True),
        (True, True, 2, True, True, 8, True),
        (True, False, 2, True, True, 8, True),
        (False, False, 2, True, True, 8, True),
        (False, False, 2, False, True, 8, True),
        (False, False, 1, False, True, 8, True),
        (False, False, 1, False, False, 8, True),
        (False, False, 1, False, False, 0, True),
        (False, False, 1, False, False, 0, False),
        (False, False, 0, False, False, 0, False),
    ]
    if width < 120:
        plans = [plan for plan in plans if plan[5] <= 8]
    if width <= 80:
        plans = [plan for plan in plans if not plan[0] and not plan[3]]
    for product, nodes, kept, zone, note, cells, eta in plans:
        left: list[Span] = (
            [("trainmon", "accent+bold"), ("  ", "text")] if product or (not run.name and width >= 60) else []
        )
        left += demo + title
        if nodes and count:
            left.append(("  " + count, "muted"))
        if left and left[-1][0].strip():
            left.append((" " * (3 if wide else 2), "text"))
        state = _state(run, now, zone=zone, note=note)
        for extra in extras[:kept]:
            state += [("  ", "text"), *extra]
        right = _progress(run, cells=cells, gap=3 if wide else 2, eta=eta) if width >= 50 else []
        if 1 + spans_width(left) + spans_width(state) + (2 + spans_width(right) if right else 0) <= end:
            after = pen.spans(1, left)
            # Without progress, and in a corner pane, the state stands at the right end.
            pen.spans(after if right else end - spans_width(state), state)
            if right:
                pen.spans(end - spans_width(right), right)
            return [pen.row()]
    state = _state(run, now, zone=False, note=False)
    if width < 36:
        # The floor: glyph and time of the newest line only.
        state = [state[0], state[-1]] if len(state) > 3 else state
    start = max(1, end - spans_width(state))
    pen.put(1, cut(name, max(0, start - 2)), "strong")
    pen.spans(start, state, end)
    return [pen.row()]


class StatusRow(Instrument):
    """Row 0 of every screen: name, state, newest line's time, progress, ETA."""

    DEFAULT_CSS = "StatusRow { height: 1; }"

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._run = RunView()
        self._now: float | None = None
        self._paused: int | None = None

    def show(self, run: RunView, now: float | None = None, paused_count: int | None = None) -> None:
        """Shows the run as of `now` (Unix seconds); `paused_count` updates wait, None when not paused."""
        self._run, self._now, self._paused = run, now, paused_count
        self.redraw()

    def draw(self, width: int, height: int) -> list[Row]:
        return draw_status(self._run, width, height, now=self._now, paused=self._paused)
