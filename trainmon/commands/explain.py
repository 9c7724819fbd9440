"""`trainmon explain`: one error in words."""

from __future__ import annotations

import argparse
import sys

from trainmon.errors import TrainmonError, UsageError

_MOST = 1 << 20


def run(options: argparse.Namespace) -> int:
    """Explain a code, a text, or what stands on standard input.

    Raises:
        TrainmonError: No entry of the catalogue knows it.
    """
    from trainmon.catalogue import explain, load

    words: list[str] = options.text
    if not words:
        return _list_all()
    text = " ".join(words)
    if text == "-":
        text = sys.stdin.buffer.read(_MOST).decode("utf-8", "replace")
    if not text.strip():
        raise UsageError("nothing to explain: give a code, a line of a log, or - and text on standard input")
    found = explain(text)
    if not found:
        near = _near(text, [entry.code for entry in load().entries])
        hint = f'did you mean "{near}"?' if near else "`trainmon explain` without a word lists the codes"
        shown = text.strip().splitlines()[0][:60]
        raise TrainmonError(f"no entry knows {shown!r}; {hint}")
    from trainmon.catalogue.text import render

    sys.stdout.write("\n".join(render(entry) for entry in found))
    return 0


def _near(text: str, codes: list[str]) -> str:
    from difflib import get_close_matches

    found = get_close_matches(text.strip().upper(), codes, n=1, cutoff=0.6)
    return found[0] if found else ""


def _list_all() -> int:
    from trainmon.catalogue import load

    entries = load().entries
    width = max(len(entry.code) for entry in entries)
    for entry in entries:
        sys.stdout.write(f"{entry.code:<{width}}  {entry.title}\n")
    return 0
