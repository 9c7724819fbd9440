"""What is selected, as plain text for the clipboard and for searching in a panel."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from trainmon.snapshot import AlertView, ChartView, ErrorView, EventView, NodeView

_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def pasteable(text: str) -> str:
    """Text that a shell or an editor can be given: nothing in it is a key press or a command to the terminal."""
    return _OBEYED.sub("\ufffd", text)


def write_copy(text: str) -> str | None:
    """Keep what was copied last in a file, for terminals that take no clipboard from us.

    Returns:
        Where it is; None when nothing can be written.
    """
    from trainmon.patience import within
    from trainmon.settings.state import PATIENCE_S, state_folder, write_whole

    folder, _ = state_folder()
    if folder is None:
        return None
    path = folder / "copied.txt"
    try:
        within(PATIENCE_S, lambda: write_whole(path, text.encode("utf-8", "replace")))
    except (OSError, TimeoutError):  # a full disk, a home that does not answer: the screen goes on
        return None
    return str(path)


def text_of(entry: Any) -> tuple[str, str]:
    """A word for the entry, and its text."""
    if isinstance(entry, ErrorView):
        lines = [f"{entry.code}: {entry.message}", f"{entry.place}  {entry.where}  ({entry.role})", entry.raw]
        lines += [f"fix: {fix}" for fix in entry.fixes]
        return entry.code, "\n".join(line for line in lines if line.strip())
    if isinstance(entry, AlertView):
        head = f"{entry.title} {entry.who}: {entry.measured}"
        lines = [head + (f" -> {entry.outlook}" if entry.outlook else ""), entry.place]
        lines += [f"{name}: {value}" for name, value in entry.evidence]
        lines += [f"do: {advice}" for advice in entry.advice]
        return entry.title, "\n".join(line for line in lines if line)
    if isinstance(entry, EventView):
        return entry.name, " ".join(part for part in (entry.name, entry.who, entry.text, entry.advice) if part)
    if isinstance(entry, NodeView):
        parts = [entry.name, entry.word]
        if entry.step is not None:
            parts.append(f"step {entry.step}")
        if entry.loss is not None:
            parts.append(f"loss {entry.loss:g}")
        return entry.name, " ".join(parts)
    if isinstance(entry, ChartView):
        from trainmon.widgets.text_plot import text_plot

        return f"chart of {entry.title}", "\n".join(text_plot(entry))
    if dataclasses.is_dataclass(entry):
        pairs = ((field.name, getattr(entry, field.name)) for field in dataclasses.fields(entry))
        return type(entry).__name__, " ".join(f"{name}={value}" for name, value in pairs if value not in (None, "", ()))
    return "text", str(entry)
