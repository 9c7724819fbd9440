"""Searching a file of any size in bounded blocks: plain functions for a worker thread, which can be called off.

A literal runs at memory speed (`bytes.find`, `bytes.rfind`); a regular expression is applied to whole lines, so that a
match never depends on where a block ended. It never matches across lines.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable

Keep = Callable[[float], bool]
"""Told the share (0 to 1) that was searched; returns False to end the search."""

LITERAL_BLOCK = 1024 * 1024
PATTERN_BLOCK = 256 * 1024
"""Small: `re` holds the interpreter for as long as a block takes."""

LONGEST = 16 * 1024 * 1024
"""A longer line (bytes) is searched in pieces of this size."""


def find_literal(fd: int, literal: bytes, start: int, size: int, forward: bool, fold: bool, keep: Keep) -> int:
    """Offset of the next match that begins at or after `start`, or before it when going back; -1 for none.

    Args:
        size: Where the file's end is taken to be.
        fold: Ignore case (ASCII).

    Raises:
        OSError: The file cannot be read.
    """
    if fold:
        literal = literal.lower()
    reach = len(literal) - 1
    at, span = start, max(1, size - start if forward else start)
    while (at < size) if forward else (at > 0):
        low = at if forward else max(0, at - LITERAL_BLOCK)
        high = min(size, at + LITERAL_BLOCK) if forward else at
        block = os.pread(fd, min(high + reach, size) - low, low)
        if fold:
            block = block.lower()
        # What begins before `high` and ends behind it belongs to this block, and only to this one.
        found = block.find(literal) if forward else block.rfind(literal)
        if found >= 0:
            return low + found
        at = high if forward else low
        if not keep(abs(at - start) / span):
            return -1
    return -1


def find_pattern(
    fd: int, pattern: re.Pattern[bytes], start: int, size: int, forward: bool, keep: Keep
) -> tuple[int, int]:
    """Offset and length of the next non-empty match; (-1, 0) for none. See `find_literal`.

    Raises:
        OSError: The file cannot be read.
    """
    if not pattern.flags & re.MULTILINE:
        pattern = re.compile(pattern.pattern, pattern.flags | re.MULTILINE)
    span = max(1, size - start if forward else start)
    if forward:
        at = line_start(fd, start)
        while at < size:
            block = _whole_lines(fd, at, size)
            if not block:
                break
            for match in pattern.finditer(block, max(0, start - at)):
                if match.end() > match.start():
                    return at + match.start(), match.end() - match.start()
            at += len(block)
            if not keep((at - start) / span):
                break
        return -1, 0
    # The line that `start` stands in belongs to the first block: a match may begin before and end behind it.
    high = _line_end(fd, start, size)
    while high > 0:
        low = line_start(fd, max(0, high - PATTERN_BLOCK))
        block = os.pread(fd, high - low, low)
        last = None
        for match in pattern.finditer(block):
            if low + match.start() >= start:
                break
            if match.end() > match.start():
                last = match
        if last is not None:
            return low + last.start(), last.end() - last.start()
        high = low
        if not keep((start - low) / span):
            break
    return -1, 0


def _whole_lines(fd: int, at: int, size: int) -> bytes:
    """Lines from `at` on, about a block of them, the last one whole unless it is longer than `LONGEST`."""
    want = PATTERN_BLOCK
    while True:
        block = os.pread(fd, min(want, size - at), at)
        if at + len(block) >= size:
            return block
        cut = block.rfind(b"\n") + 1
        if cut:
            return block[:cut]
        if want >= LONGEST or len(block) < want:
            return block
        want *= 4


def line_start(fd: int, offset: int) -> int:
    """Where the line begins that `offset` stands in; at most `LONGEST` back.

    Raises:
        OSError: The file cannot be read.
    """
    at, floor, step = offset, max(0, offset - LONGEST), 4096
    while at > floor:
        low = max(floor, at - step)
        found = os.pread(fd, at - low, low).rfind(b"\n")
        if found >= 0:
            return low + found + 1
        at, step = low, min(step * 4, 1024 * 1024)
    return floor


def _line_end(fd: int, offset: int, size: int) -> int:
    """The offset behind the line that `offset` stands in; at most `LONGEST` on."""
    at, ceiling, step = offset, min(size, offset + LONGEST), 4096
    while at < ceiling:
        block = os.pread(fd, min(step, ceiling - at), at)
        if not block:
            break
        found = block.find(b"\n")
        if found >= 0:
            return at + found + 1
        at, step = at + len(block), min(step * 4, 1024 * 1024)
    return at
