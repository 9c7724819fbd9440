"""A short ring of values, for the sparkline of a node or metric."""

from __future__ import annotations

from array import array


class NodeSeries:
    """The last values of one metric, without their steps.

    Args:
        size: How many are kept.
    """

    __slots__ = ("_ring", "_size", "count")

    def __init__(self, size: int = 48) -> None:
        self._ring = array("d")
        self._size = size
        self.count = 0
        """How many values have come in all."""

    def add(self, value: float) -> None:
        """Append a value; the oldest goes once the ring is full. NaN and infinity are left out."""
        if value - value != 0.0:  # NaN and ±inf
            return
        if len(self._ring) < self._size:
            self._ring.append(value)
        else:
            self._ring[self.count % self._size] = value
        self.count += 1

    @property
    def last(self) -> float | None:
        """The newest value."""
        return self._ring[(self.count - 1) % self._size] if self._ring else None

    def values(self, width: int | None = None) -> tuple[float, ...]:
        """The values, oldest first; only the newest `width` of them where that is given."""
        at = self.count % self._size if len(self._ring) == self._size else 0
        ordered = tuple(self._ring[at:]) + tuple(self._ring[:at])
        return ordered if width is None else ordered[max(0, len(ordered) - width) :]
