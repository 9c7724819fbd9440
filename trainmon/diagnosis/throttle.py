"""A GPU that is slowed against its wish, and that it costs speed.

Heat, the power brake or a hardware slowdown in force for 10 of the last 30 seconds *and* a clock below
`throttle_clock_ratio` of the others' (the run's other GPUs of that kind that work; alone: its own when it was well,
else its maximum). The power cap (`SwPowerCap`) and idleness are normal; a cap counts only when the limit itself lies
well below that of the other GPUs, or below what it was, and the clock with it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from trainmon import units
from trainmon.diagnosis.machine import BRAKE, BUSY_PERCENT, HEAT, SLOW, Gpu
from trainmon.diagnosis.pulse import Pulse
from trainmon.diagnosis.thresholds import Thresholds
from trainmon.diagnosis.watch import Watch
from trainmon.model import Incident
from trainmon.series.robust import median

WINDOW_S = 30.0
HELD_S = 10.0
CLOCK_S = 10.0
"""Seconds over which the clock is averaged: it swings under load."""
CAPPED = 0.90
"""A power limit below this share of the others' has been lowered."""
OFF = 0.04
NEWS = 0.05
"""An open one says its clock anew when the ratio has moved by so much."""
CLEAR_S = 20.0
ADVICE_HEAT = (
    "check the fans, inlet and airflow of {node}, or drain it",
    "nvidia-smi -q -d TEMPERATURE,PERFORMANCE -i {index} on {node}: since when, and is it one GPU or all?",
    "until then a lower power limit keeps the clock steady: nvidia-smi -i {index} -pl WATTS",
)
ADVICE_BRAKE = (
    "the machine's power supply holds the GPU back: check PSUs, power cables and the rack's power budget of {node}",
    "nvidia-smi -q -d PERFORMANCE,POWER -i {index} on {node}",
)
ADVICE_LIMIT = (
    "nvidia-smi -q -d POWER -i {index} on {node} shows limit and default; nvidia-smi -i {index} -pl WATTS sets it back",
    "is it meant (a power budget)? throttle_clock_ratio = false in [thresholds] switches this alert off",
)


class Throttle(Watch):
    """The detector; one incident a GPU, which also tells why its node is slow."""

    def __init__(self, pulse: Pulse, thresholds: Thresholds) -> None:
        super().__init__(pulse, thresholds)
        self._limits: dict[str, float] = {}  # highest power limit ever, by GPU
        self._well: dict[str, float] = {}  # since when an open one is over

    def look_gpu(self, gpu: Gpu, at: float) -> Iterable[Incident]:
        ratio = self.thresholds.throttle_clock_ratio
        if ratio is None:
            return ()
        key = f"thermal_throttle:{gpu.node}:{gpu.label}"
        limit = gpu.now("power_limit_w")
        if limit is not None and limit > self._limits.get(gpu.key, 0.0):
            self._limits[gpu.key] = limit
        if key in self.open:
            return self._look_again(gpu, key, ratio)
        if gpu.throttle_at != gpu.time or gpu.state != "ok" or gpu.now("sm_clock_mhz") is None:
            return ()
        if any(reason in SLOW for reason in gpu.throttle):
            if _held(gpu) < HELD_S:
                return ()
        elif not self._capped(gpu):
            return ()
        return self._judge(gpu, key, ratio)

    def _capped(self, gpu: Gpu) -> bool:
        """Whether its power limit has been lowered far below the others', or what it was."""
        limit = gpu.values.get("power_limit_w")
        if limit is None or "power cap" not in gpu.throttle or limit >= CAPPED * self._usual_limit(gpu):
            return False
        return gpu.time - gpu.first >= HELD_S

    def _usual_limit(self, gpu: Gpu) -> float:
        own = max(self._limits.get(gpu.key, 0.0), gpu.values.get("power_limit_default_w", 0.0))
        if own * CAPPED > gpu.values.get("power_limit_w", 0.0):
            return own
        theirs = [o.values["power_limit_w"] for o in self.fleet.siblings(gpu) if "power_limit_w" in o.values]
        return median(theirs) if theirs else own

    def _reference(self, gpu: Gpu) -> tuple[float, str] | None:
        """The clock that it should have, and whose that is."""
        clocks = [
            o.values["sm_clock_mhz"]
            for o in self.fleet.others(gpu)
            if o.age("sm_clock_mhz") <= CLOCK_S and (o.recent("gpu_utilization") or 0.0) >= BUSY_PERCENT
        ]
        own, most = gpu.busy_clock.value, gpu.values.get("sm_clock_max_mhz")
        if clocks and (own is None or median(clocks) >= own):
            return median(clocks), "the others"
        if own is not None:
            return own, "before"
        return None if most is None else (most, "at most")

    def _judge(self, gpu: Gpu, key: str, ratio: float) -> Iterable[Incident]:
        clock, reference = _clock(gpu), self._reference(gpu)
        if clock is None or reference is None or clock >= ratio * reference[0]:
            return ()
        title, words, advice = _kind(gpu)
        should, whose = reference
        temperature = gpu.recent("gpu_temperature_c", 60.0)
        slowdown = gpu.values.get("slowdown_temperature_c")
        clocks = f"SM clock {units.mhz(clock)} of {units.mhz(should)} MHz"
        parts = [clocks]
        if title == "THERMAL THROTTLE" and temperature is not None:
            parts.insert(0, f"{units.celsius(temperature)} °C")
        elif title == "POWER LIMITED":
            limit, usual = gpu.values["power_limit_w"], self._usual_limit(gpu)
            parts.insert(0, f"power limit {units.watts(limit)} W instead of {units.watts(usual)} W")
        measured = ", ".join(parts) + f": {words}"
        behind = units.change(100.0 * (clock / should - 1.0))
        outlook = {"the others": f"{behind} against the others: all wait for it", "before": f"{behind} against before"}
        said = outlook.get(whose, f"{behind} below its maximum")
        if slowdown is not None and title == "THERMAL THROTTLE":
            said += f"; the board slows down from {units.celsius(slowdown)} °C on"
        where = f"{gpu.label} at {measured}" if title == "THERMAL THROTTLE" else f"{gpu.label}: {measured}"
        self._well.pop(gpu.key, None)
        return self.begin(
            gpu,
            key,
            "thermal_throttle",
            "warning",
            title,
            measured,
            outlook=said,
            metric="sm_clock_mhz",
            advice=advice,
            slows=where,
            since=gpu.time - _held(gpu),
            evidence=(
                ("reasons", ", ".join(gpu.throttle)),
                ("held_s", _held(gpu)),
                ("window_s", WINDOW_S),
                ("sm_clock_mhz", round(clock)),
                ("reference_mhz", round(should)),
                ("reference", whose),
                ("ratio", clock / should),
                ("bar", ratio),
                ("temperature_c", temperature),
                ("slowdown_temperature_c", slowdown),
                ("power_limit_w", gpu.values.get("power_limit_w")),
            ),
        )

    def _look_again(self, gpu: Gpu, key: str, ratio: float) -> Iterable[Incident]:
        clock, reference = _clock(gpu), self._reference(gpu)
        if gpu.throttle_at != gpu.time or clock is None:
            return ()
        busy = (gpu.recent("gpu_utilization") or 0.0) >= BUSY_PERCENT
        fast = reference is not None and clock >= (ratio + OFF) * reference[0]
        slowed = any(reason in SLOW for reason in gpu.throttle) or self._capped(gpu)
        if slowed and not fast:
            self._well.pop(gpu.key, None)
            before = dict(self.open[key].evidence).get("ratio")
            moved = reference is not None and isinstance(before, float) and abs(clock / reference[0] - before) >= NEWS
            same = self.open[key].title == _kind(gpu)[0]
            return self._judge(gpu, key, ratio) if moved and same else ()
        since = self._well.setdefault(gpu.key, gpu.time)
        if gpu.time - since < CLEAR_S:
            return ()
        del self._well[gpu.key]
        temperature = gpu.recent("gpu_temperature_c", 60.0)
        heat = f"{units.celsius(temperature)} °C, " if temperature is not None else ""
        text = f"{heat}SM clock {units.mhz(clock)} MHz" if busy else "nothing is to be computed any more"
        return self.end(key, gpu.time, text)

    def forgotten(self, key: str) -> None:
        self._limits.pop(key, None)
        self._well.pop(key, None)


def _kind(gpu: Gpu) -> tuple[str, str, tuple[str, ...]]:
    now = set(gpu.throttle)
    if now & HEAT:
        return "THERMAL THROTTLE", "thermal slowdown", ADVICE_HEAT
    if BRAKE in now:
        return "POWER BRAKE", "the power supply's brake", ADVICE_BRAKE
    if "hardware slowdown" in now:
        return "HARDWARE SLOWDOWN", "slowed by the board", ADVICE_HEAT
    return "POWER LIMITED", "power cap", ADVICE_LIMIT


def _held(gpu: Gpu) -> float:
    """Seconds of the last 30 in which it was slowed; between two readings what the later one says, 10 s at most."""
    held, start, readings = 0.0, gpu.time - WINDOW_S, gpu.readings
    for i in readings.since(start):
        if i and readings.slow[i]:
            held += min(readings.time[i] - max(readings.time[i - 1], start), 10.0)
    return held


def _clock(gpu: Gpu) -> float | None:
    """Mean SM clock of the last ten seconds (of the newest reading, where they are rarer)."""
    clocks = [gpu.readings.clock[i] for i in gpu.readings.since(gpu.time - CLOCK_S)]
    clocks = [clock for clock in clocks if not math.isnan(clock)]
    return sum(clocks) / len(clocks) if clocks else gpu.now("sm_clock_mhz")
