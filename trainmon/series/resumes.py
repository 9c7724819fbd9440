"""Which values belong to a run as it stands, when nodes go back to a checkpoint."""

from __future__ import annotations

SLACK = 4
"""A step that is behind its node's newest by no more is a late line, not a resume."""


class Seat:
    """What is known of a node: its newest step and the segment (count of resumes) that it is in."""

    __slots__ = ("last", "segment")

    def __init__(self, last: int, segment: int) -> None:
        self.last = last
        self.segment = segment


class Resumes:
    """The nodes of a series, and where it was cut."""

    def __init__(self) -> None:
        self._seats: dict[str, Seat] = {}
        self._cuts: list[tuple[int, int]] = []  # (step it went back to, newest step before), one a segment

    def _cut(self, step: int) -> None:
        """A resume: forget everything from `step` on, and remember that in `_cuts`."""
        raise NotImplementedError

    def _admit(self, step: int, node: str) -> bool:
        """Whether a value belongs to the run as it stands; notices resumes."""
        seat = self._seats.get(node)
        segment = len(self._cuts)
        if seat is None:
            behind = 0 if self._cuts and step < self._cuts[-1][0] else segment
            self._seats[node] = seat = Seat(step, behind)
        elif step < seat.last - SLACK:
            seat.segment += 1
            seat.last = step
            if seat.segment > segment:
                self._cut(step)
                seat.segment = len(self._cuts)
        elif step > seat.last:
            seat.last = step
        if seat.segment < len(self._cuts):
            later = self._cuts[seat.segment :]
            if step > max(top for _, top in later):
                seat.segment = len(self._cuts)  # it is past all that was replaced: it must be in the present
            elif step >= min(cut for cut, _ in later):
                return False
        return True
