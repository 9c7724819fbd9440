"""`trainmon explain`: one error in words."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from trainmon.errors import TrainmonError, UsageError
from trainmon.parsing.clean import safe, visible

if TYPE_CHECKING:
    from trainmon.catalogue import Catalogue

_MOST = 1 << 20


def run(options: argparse.Namespace) -> int:
    """Explain a code, a text, or what stands on standard input.

    Raises:
        TrainmonError: No entry of the catalogue knows it.
    """
    from trainmon.catalogue import load

    catalogue = load()
    words: list[str] = options.text
    if not words:
        return _list_all(catalogue)
    text = " ".join(words)
    if text == "-":
        if sys.stdin is None:
            raise UsageError("standard input is closed: there is nothing to read for -")
        text = sys.stdin.buffer.read(_MOST).decode("utf-8", "replace")
    text = "\n".join(map(safe, text.splitlines()))  # colours are no part of what was said
    if not text.strip():
        raise UsageError("nothing to explain: give a code, a line of a log, or - and text on standard input")
    found = catalogue.explain(text)
    if not found:
        near = catalogue.nearest(text) if len(text.split()) == 1 else []
        hint = f"did you mean {' or '.join(near)}?" if near else "`trainmon explain` without a word lists the codes"
        shown = visible(text.strip().splitlines()[0])[:60]
        raise TrainmonError(f'no entry knows "{shown}"; {hint}')
    from trainmon.catalogue.text import render

    sys.stdout.write("\n".join(render(entry) for entry in found))
    return 0


def _list_all(catalogue: Catalogue) -> int:
    entries = sorted(catalogue, key=lambda entry: entry.code)
    width = max(len(entry.code) for entry in entries)
    for entry in entries:
        sys.stdout.write(f"{entry.code:<{width}}  {entry.title}\n")
    return 0
