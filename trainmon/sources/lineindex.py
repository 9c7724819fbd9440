"""Which line is where in a file of gigabytes: a count of line ends every 64 KiB, eight bytes each."""

from __future__ import annotations

import os
from array import array
from bisect import bisect_left

STEP = 64 * 1024
SLICE = 16 * 1024 * 1024
"""Bytes that one call of `extend` reads at most."""

_BLOCK = 1024 * 1024


class LineIndex:
    """A sparse index that grows with what was read.

    Attributes:
        covered: Bytes from the start that are counted; always whole steps, but for the end of the file.
    """

    def __init__(self) -> None:
        self.covered = 0
        self._counts = array("Q", [0])  # line ends before each multiple of STEP
        self._partial = 0  # line ends in the step that is not complete yet
        self._closed = True

    @property
    def line_ends(self) -> int:
        """Line ends in the covered part."""
        return self._counts[-1] + self._partial

    def extend(self, fd: int, size: int) -> bool:
        """Count on towards `size`, one slice at most; True when that is reached.

        Raises:
            OSError: The file cannot be read.
        """
        goal = min(size, self.covered + SLICE)
        while self.covered < goal:
            block = os.pread(fd, min(_BLOCK, goal - self.covered), self.covered)
            if not block:
                return True
            at = 0
            while at < len(block):
                room = STEP - (self.covered + at) % STEP
                end = min(len(block), at + room)
                self._partial += block.count(b"\n", at, end)
                if end - at == room:
                    self._counts.append(self.line_ends)
                    self._partial = 0
                at = end
            self.covered += len(block)
        return self.covered >= size

    def number_at(self, fd: int, offset: int) -> int | None:
        """1-based number of the line that `offset` stands in; None where the index has not come yet.

        Raises:
            OSError: The file cannot be read.
        """
        if offset > self.covered:
            return None
        step = min(offset // STEP, len(self._counts) - 1)
        start = step * STEP
        return self._counts[step] + os.pread(fd, offset - start, start).count(b"\n") + 1

    def start_of(self, fd: int, number: int) -> int | None:
        """Offset at which the 1-based line `number` begins; None where the index does not reach it.

        Raises:
            OSError: The file cannot be read.
        """
        if number <= 1:
            return 0
        ends = number - 1
        if ends > self.line_ends:
            return None
        step = bisect_left(self._counts, ends) - 1
        left = ends - self._counts[step]
        block = os.pread(fd, STEP, step * STEP)
        at = -1
        for _ in range(left):
            at = block.find(b"\n", at + 1)
            if at < 0:
                return None
        return step * STEP + at + 1
