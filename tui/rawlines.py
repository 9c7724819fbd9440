"""A few lines of a raw file around a place, for the why page."""

from __future__ import annotations

from typing import Any


async def around(
    session: Any, source: int, line: int | None, offset: int | None, count: int
) -> tuple[list[tuple[int | None, str]], str]:
    """Read `count` lines before and after a place.

    Returns:
        Pairs of line number (None when unknown) and text; and a sentence when they cannot be read.
    """
    return [], ""
