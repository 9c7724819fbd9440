"""What is said beside the data: calm lines on standard error."""

from __future__ import annotations

import sys


def complain(text: str) -> None:
    """Say one calm line on standard error, which may be closed; no name in it can command the terminal."""
    from trainmon.parsing.clean import visible  # only when something is wrong: `--help` loads nothing

    try:
        sys.stderr.write(f"trainmon: {visible(text)}\n")
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        pass
