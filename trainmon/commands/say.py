"""What is said beside the data: calm lines on standard error."""

from __future__ import annotations

import sys


def complain(text: str) -> None:
    """Say one calm line on standard error; a standard error that is closed is no reason to fail."""
    try:
        sys.stderr.write(f"trainmon: {text}\n")
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        pass
