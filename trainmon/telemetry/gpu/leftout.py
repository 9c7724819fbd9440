"""GPUs that are left out because they do not answer, and when to look at them again."""

from __future__ import annotations

from dataclasses import dataclass

from trainmon.clock import Clock
from trainmon.samples import GpuSample, GpuState
from trainmon.telemetry.gpu import sentences

RETRY_S, RETRY_MOST_S = 60.0, 600.0
"""Pause until a GPU that hung is looked at again; doubles each time."""


@dataclass(slots=True)
class _One:
    call: str
    since: float
    pause: float
    again: float
    state: GpuState = "not responding"
    why: str = ""


class LeftOut:
    """The GPUs that no worker is to touch.

    Args:
        node: Name of this machine.
    """

    def __init__(self, node: str, clock: Clock) -> None:
        self._node = node
        self._clock = clock
        self._gpus: dict[int, _One] = {}
        self._pauses: dict[int, float] = {}
        self._uuids: dict[int, str] = {}

    def __contains__(self, index: object) -> bool:
        return index in self._gpus

    @property
    def mask(self) -> int:
        """Bit n: GPU n."""
        return sum(1 << index for index in self._gpus)

    def know(self, index: int, uuid: str) -> None:
        """Remember whose number an index is."""
        self._uuids[index] = uuid

    def add(self, index: int, call: str, silent_s: float, now: float, why: str = "") -> None:
        """Leave a GPU out.

        Args:
            call: What it did not answer. silent_s: For how long.
            now: Monotonic seconds.
            why: It made the worker end: "signal 11"; its state is "failing" then.
        """
        pause = self._pauses.get(index, RETRY_S)
        self._pauses[index] = min(pause * 2, RETRY_MOST_S)
        state: GpuState = "failing" if why else "not responding"
        self._gpus[index] = _One(call, self._clock.now() - silent_s, pause, now + pause, state, why)

    def since(self, index: int) -> float | None:
        """Unix time from which a GPU has not answered; None when it is not left out."""
        one = self._gpus.get(index)
        return one.since if one is not None else None

    def due(self, now: float) -> int | None:
        """A GPU that is to be looked at again; its next turn is put off at once."""
        for index, one in self._gpus.items():
            if now >= one.again:
                one.again = now + one.pause
                return index
        return None

    def in_vain(self, index: int, now: float) -> None:
        """The second look did not help either."""
        one = self._gpus.get(index)
        if one is not None:
            one.pause = min(one.pause * 2, RETRY_MOST_S)
            one.again = now + one.pause
            self._pauses[index] = one.pause

    def remove(self, index: int, forgive: bool = False) -> None:
        """It may be touched again.

        Args:
            forgive: It was not its own fault: the pause after its next hang is the shortest.
        """
        self._gpus.pop(index, None)
        if forgive:
            self._pauses.pop(index, None)

    def clear(self) -> None:
        """None is left out."""
        self._gpus.clear()
        self._pauses.clear()

    def sample(self, index: int) -> GpuSample | None:
        """What there is to say of a GPU that is left out."""
        one = self._gpus.get(index)
        if one is None:
            return None
        if one.why:
            text = sentences.gpu_crash(one.why, one.call, one.pause)
        else:
            text = sentences.gpu_silent(one.call, one.since, one.pause)
        return GpuSample(
            self._node,
            index,
            self._uuids.get(index, ""),
            self._clock.now(),
            state=one.state,
            since=one.since,
            sentence=text,
        )

    def samples(self) -> list[GpuSample]:
        """Of all that are left out."""
        found = [self.sample(index) for index in self._gpus]
        return [one for one in found if one is not None]
