"""How a metric of a GPU stands: asked once and for all, or asked again with growing pauses."""

from __future__ import annotations

from trainmon.telemetry.gpu import nvml

FIRST_PAUSE_S = 2.0
LONGEST_PAUSE_S = 60.0
"""Pauses after a failure, doubling."""


class Standing:
    """One reading of one GPU: unknown, then ok, unsupported or failing.

    Attributes:
        reason: Why it cannot be had; "" when it can or nobody has asked yet.
    """

    __slots__ = ("_again", "_pause", "ever_ok", "reason")

    def __init__(self) -> None:
        self.ever_ok = False
        self.reason = ""
        self._again: float | None = 0.0
        self._pause = FIRST_PAUSE_S

    def due(self, now: float) -> bool:
        """Whether to ask at `now` (monotonic seconds)."""
        return self._again is not None and now >= self._again

    @property
    def settled(self) -> bool:
        """It is not supported and is not asked again."""
        return self._again is None

    def hurry(self) -> None:
        """End a pause."""
        if self._again is not None:
            self._again = 0.0

    def ok(self) -> None:
        """It answered."""
        self.ever_ok = True
        self.reason = ""
        self._again = 0.0
        self._pause = FIRST_PAUSE_S

    def refuse(self, code: int, text: str, now: float, why: str = "not supported") -> None:
        """It did not answer.

        Args:
            code: NVML's. text: In words.
            now: Monotonic seconds.
            why: The reason to give when it is not supported at all.
        """
        never = code in nvml.UNSUPPORTED or (code == nvml.INVALID_ARGUMENT and not self.ever_ok)
        if never and not self.ever_ok:
            self.reason, self._again = why, None
            return
        if never:  # it was supported a while ago: MIG or a mode was switched
            self.reason, self._again = why, now + LONGEST_PAUSE_S
            return
        self.reason = "no permission" if code == nvml.NO_PERMISSION else f"failing: {text}"
        self._again = now + (LONGEST_PAUSE_S if code == nvml.NO_PERMISSION else self._pause)
        self._pause = min(self._pause * 2, LONGEST_PAUSE_S)
