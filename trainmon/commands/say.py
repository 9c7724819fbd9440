"""What is said beside the data: calm lines on standard error."""

from __future__ import annotations

import sys

from trainmon.parsing.clean import visible


def complain(text: str) -> None:
    """Say one calm line on standard error, which may be closed; no name in it can command the terminal."""
    try:
        sys.stderr.write(f"trainmon: {visible(text)}\n")
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        pass
