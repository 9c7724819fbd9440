"""Lines of raw files for the pages, through the session's random access to them."""

from __future__ import annotations

from typing import Any


class RawReader:
    """stub"""

    def __init__(self, log: Any) -> None:
        self.log = log

    def close(self) -> None: ...


async def around(
    session: Any, source: int, line: int | None, offset: int | None, count: int
) -> tuple[list[tuple[int | None, str]], str]:
    return [], ""
