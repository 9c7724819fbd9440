"""A catalogue entry as plain text, for `trainmon explain` and for panels that show one entry whole. No colours."""

from __future__ import annotations

import textwrap

from trainmon.catalogue import Catalogue, load
from trainmon.catalogue.entry import Entry

LEVELS = {1: "fatal", 2: "blocking", 3: "warning"}
"""Words for the three levels."""

_SCOPES = {
    "gpu": "GPU",
    "node": "node",
    "process": "process",
    "fabric": "network between nodes",
    "storage": "storage",
    "data": "data",
    "config": "configuration",
    "code": "code",
    "scheduler": "scheduler",
}


def _item(text: str, mark: str, width: int) -> list[str]:
    return textwrap.wrap(
        text,
        width,
        initial_indent=f"  {mark} ",
        subsequent_indent=" " * (len(mark) + 3),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _prose(text: str, width: int) -> list[str]:
    indent = "  "
    return textwrap.wrap(
        text, width, initial_indent=indent, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def render(entry: Entry, catalogue: Catalogue | None = None, width: int = 80) -> str:
    """One entry as text: what it means, its causes, what to do, what follows, where to read on.

    Args:
        entry: The entry.
        catalogue: For the titles of the codes that follow; None for that of the package.
        width: Columns; a link or a command longer than a line is not broken.
    """
    catalogue = load() if catalogue is None else catalogue
    usually = "usually the root cause" if entry.is_usually == "root_cause" else "usually a symptom of something else"
    facts = [LEVELS[entry.level], _SCOPES[entry.scope], usually]
    lines = [*textwrap.wrap(f"{entry.code}: {entry.title}", width), *textwrap.wrap(" · ".join(facts), width)]
    lines += ["", "Meaning", *_prose(entry.meaning, width)]
    if entry.unified:
        lines += _prose(f"Filed under {entry.unified} where one code stands for all communication failures.", width)
    lines += ["", "Likely causes"]
    for cause in entry.causes:
        lines += _item(cause, "-", width)
    lines += ["", "What to do"]
    for number, fix in enumerate(entry.fixes, 1):
        lines += _item(fix, f"{number}.", width)
    if entry.consequences:
        lines += ["", "What often follows"]
        wide = max(map(len, entry.consequences))
        for code in entry.consequences:
            known = catalogue.entry(code)
            lines += _item(code if known is None else f"{code:<{wide}}  {known.title}", "-", max(width, wide + 20))
    lines += ["", "Source", *_prose(entry.source, width)]
    return "\n".join(lines) + "\n"
