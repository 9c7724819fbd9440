"""Numbers as short text: one function a quantity, each with a fixed greatest width.

No function raises. What cannot be had (`None`) is `–`; a metric that is not finite is said in words (`NaN`, `inf`),
for times, shares and counts that make no sense then it is `–` as well.
"""

from __future__ import annotations

import math
import time as _time
from collections.abc import Callable

NONE = "–"
"""What stands where no value can be had."""
MINUS = "−"

WIDTHS = {
    "loss": 6,
    "learning_rate": 8,
    "number": 6,
    "seconds": 6,
    "wait_seconds": 6,
    "per_second": 6,
    "memory_mb": 5,
    "percent": 6,
    "mfu": 7,
    "change": 6,
    "celsius": 4,
    "watts": 6,
    "mhz": 6,
    "duration": 9,
    "forecast": 6,
    "clock": 8,
}
"""Greatest width in cells by form. Counts (`count`, `step`) are never shortened and have none."""


def _word(value: float) -> str | None:
    """The word for a value that is not finite, else None."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "inf" if value > 0 else MINUS + "inf"
    return None


def _scientific(value: float, width: int, decimals: int = 2) -> str:
    """Exponent form with as many decimals, up to `decimals`, as the width holds."""
    for count in range(decimals, -1, -1):
        text = f"{value:.{count}e}".replace("-", MINUS, 1) if value < 0 else f"{value:.{count}e}"
        if len(text) <= width:
            return text
    return text.replace("e+", "e")[:width]


def _grouped(value: float) -> str:
    return f"{abs(value):,.0f}" if value >= 0 else MINUS + f"{-value:,.0f}"


def loss(value: float | None) -> str:
    """Three decimals, one from 100 on: `1.984`, `143.2`."""
    if value is None:
        return NONE
    if word := _word(value):
        return word
    size = abs(value)
    sign = MINUS if value < 0 else ""
    for limit, decimals in ((99.9995, 3), (999.95, 1), (99999.5, 0)):
        if size < limit:
            text = sign + f"{size:.{decimals}f}"
            if len(text) <= 6:
                return text
            return sign + f"{size:.{max(0, decimals - 1)}f}"
    return _scientific(value, 6)


def learning_rate(value: float | None) -> str:
    """Exponent form with two decimals: `4.48e-05`; a plain `0` for nothing."""
    if value is None:
        return NONE
    if word := _word(value):
        return word
    if value == 0:
        return "0"
    return _scientific(value, 8)


def number(value: float | None) -> str:
    """Three significant digits: `1.91`, `38.2`, `410`, `1.5e+04`."""
    if value is None:
        return NONE
    if word := _word(value):
        return word
    size = abs(value)
    if size != 0 and (size < 0.005 or size >= 9999.5):
        return _scientific(value, 6, 1)
    decimals = 2 if size < 9.995 else 1 if size < 99.95 else 0
    text = f"{size:.{decimals}f}"
    return MINUS + text if value < 0 and float(text) != 0 else text


def seconds(value: float | None) -> str:
    """Seconds a step: `3.41 s`, `310 ms`, `11.0 s`, `143 s`, `24 m`."""
    if value is None:
        return NONE
    if word := _word(value):
        return word
    if value < 0:
        return NONE
    if value < 0.9995:
        if value == 0:
            return "0 s"
        return f"{value * 1e3:.0f} ms" if value >= 0.0095 else f"{value * 1e3:.1f} ms"
    if value < 9.995:
        return f"{value:.2f} s"
    if value < 99.95:
        return f"{value:.1f} s"
    if value < 999.5:
        return f"{value:.0f} s"
    return forecast(value)


def wait_seconds(value: float | None) -> str:
    """A part of a step, always in seconds so that parts compare: `0.06 s`."""
    if value is None:
        return NONE
    if word := _word(value):
        return word
    if 0 <= value < 0.995:
        return f"{abs(value):.2f} s"
    return seconds(value)


def bare_seconds(value: float | None) -> str:
    """Seconds for a column whose head says the unit: `2.65`, `11.0`, `143`."""
    if value is None or not math.isfinite(value) or value < 0:
        return NONE
    if value < 9.995:
        return f"{abs(value):.2f}" if value == 0 or value >= 0.005 else f"{value:.3f}"[:5]
    if value < 99.95:
        return f"{value:.1f}"
    return f"{value:.0f}" if value < 99999.5 else _scientific(value, 5, 0)


_SCALES = ("", " k", " M", " G", " T", " P")


def per_second(value: float | None) -> str:
    """Throughput with three significant digits: `154 k`, `1.52 M`."""
    if value is None:
        return NONE
    if word := _word(value):
        return word
    if value < 0:
        return NONE
    size = value
    for scale in _SCALES:
        if size < 999.5:
            decimals = 2 if size < 9.995 else 1 if size < 99.95 else 0
            if not scale and size == int(size):
                decimals = 0
            return f"{abs(size):.{decimals}f}{scale}"
        size /= 1000.0
    return _scientific(value, 6, 1)


def count(value: float | None) -> str:
    """A step or a count, thousands by comma, never shortened: `1,120`."""
    if value is None or not math.isfinite(value):
        return NONE
    if abs(value) >= 1e15:
        return _scientific(float(value), 9)
    return _grouped(value)


def memory(value_mb: float | None) -> str:
    """MiB as GiB with one decimal, without the unit: `76.8`."""
    if value_mb is None or not math.isfinite(value_mb):
        return NONE
    gib = value_mb / 1024.0
    if gib < 0:
        return NONE
    if gib < 999.95:
        return f"{abs(gib):.1f}"
    return f"{gib:,.0f}" if gib < 9999.5 else _scientific(gib, 5, 0)


def memory_text(value_mb: float | None) -> str:
    """MiB in a sentence: `76.8 GiB`, below 1 GiB `214 MiB`."""
    if value_mb is None or not math.isfinite(value_mb) or value_mb < 0:
        return NONE
    if value_mb < 1023.5:
        return f"{round(value_mb)} MiB"
    return memory(value_mb) + " GiB"


def memory_gib(value_gib: float | None) -> str:
    """GiB in a sentence: `76.8 GiB`."""
    return memory_text(None if value_gib is None else value_gib * 1024.0)


def memory_total(value_mb: float | None) -> str:
    """A card's size in GiB, without `.0`: `80`, `79.6`."""
    text = memory(value_mb)
    return text.removesuffix(".0")


def percent(value: float | None) -> str:
    """A whole share: `22 %`."""
    if value is None or not math.isfinite(value):
        return NONE
    whole = round(value)
    if whole > 9999 or whole < -999:
        return ">999 %" if whole > 0 else "<0 %"
    return f"{whole} %".replace("-", MINUS)


def bare_percent(value: float | None) -> str:
    """A whole share for a column whose head says the unit: `97`."""
    return percent(value).removesuffix(" %")


def mfu(value: float | None) -> str:
    """A share with one decimal: `35.2 %`."""
    if value is None:
        return NONE
    if word := _word(value):
        return word
    if value >= 999.95 or value <= -99.95:
        return percent(value)
    text = f"{abs(value):.1f} %"
    return MINUS + text if value < 0 and text != "0.0 %" else text


def change(value: float | None) -> str:
    """A change in percent, always signed: `+14 %`, `−1 %`, `0 %`; from tenfold on the factor, `×11`."""
    if value is None or not math.isfinite(value):
        return NONE
    if value >= 999.5:
        factor = 1 + value / 100
        return f"×{factor:.0f}" if factor < 9999.5 else "×" + _scientific(factor, 5, 0)
    if value <= -999.5:
        return "<−999"
    whole = round(value)
    if whole == 0:
        return "0 %"
    return f"+{whole} %" if whole > 0 else f"{MINUS}{-whole} %"


def points(value: float | None) -> str:
    """The size of a difference of shares: `4.4 pt`."""
    if value is None or not math.isfinite(value):
        return NONE
    return f"{min(abs(value), 999.0):.1f} pt"


def celsius(value: float | None) -> str:
    """Whole degrees without the unit: `87`."""
    if value is None or not math.isfinite(value) or abs(value) >= 999.5:
        return NONE
    return f"{round(value)}".replace("-", MINUS)


def watts(value: float | None) -> str:
    """Whole watts without the unit: `391`."""
    if value is None or not math.isfinite(value) or not -1 < value < 99999.5:
        return NONE
    return f"{max(0.0, value):,.0f}"


def mhz(value: float | None) -> str:
    """Whole megahertz without the unit: `1,410`."""
    return watts(value)


def clock(value: float | None) -> str:
    """Unix seconds as the time of day in UTC: `11:16:17`."""
    if value is None or not math.isfinite(value):
        return NONE
    try:
        return _time.strftime("%H:%M:%S", _time.gmtime(value))
    except (OverflowError, ValueError, OSError):
        return NONE


def duration(value: float | None) -> str:
    """Seconds in two units: `41 m 12 s`, `3 h 40 m`, `5 d 07 h`, `12 s`."""
    if value is None or not math.isfinite(value) or value < 0:
        return NONE
    whole = int(value)
    for size, name, part, part_name in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if whole >= size:
            head = whole // size
            if head >= 100:
                return f"{head:,} {name}" if head < 100_000 else ">99,999 d"
            return f"{head} {name} {whole % size // part:02d} {part_name}"
    return f"{whole} s"


def forecast(value: float | None) -> str:
    """Seconds in one unit, rounded down: `4 min`, `3 h`, `5 d`."""
    if value is None or not math.isfinite(value) or value < 0:
        return NONE
    for size, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if value >= size:
            whole = int(value // size)
            return f"{whole} {name}" if whole < 10_000 else ">27 y"
    return f"{int(value)} s"


AGES = (1, 10, 20, 30, 60, 120, 180, 300, 600, 900, 1200, 1800, 2700)
"""Seconds at which a coarse age changes below an hour: one scale, or two panels contradict each other."""


def age(value: float | None) -> str:
    """An age, coarse so that it changes seldom: `10 s`, `30 s`, `1 m`, `5 m`, `20 m`, `2 h`, `3 d`."""
    if value is None or not math.isfinite(value) or value < 0:
        return NONE
    if value < 3600:
        coarse = max((step for step in AGES if step <= value), default=0)
        return f"{coarse} s" if coarse < 60 else f"{coarse // 60} m"
    if value < 172_800:
        return f"{int(value // 3600)} h"
    days = int(value // 86400)
    return f"{days:,} d" if days < 100_000 else ">99,999 d"


def file_size(value: float | None) -> str:
    """Bytes in a sentence: `0 B`, `38 kB`, `1.2 GB` (decimal, as file managers say it)."""
    if value is None or not math.isfinite(value) or value < 0:
        return NONE
    if value < 999.5:
        return f"{round(value)} B"
    for name in ("kB", "MB", "GB", "TB", "PB"):
        value /= 1000
        if value < 999.5 or name == "PB":
            break
    return f"{value:.1f} {name}" if value < 9.95 else f"{min(value, 99999):.0f} {name}"


def traffic(mb_s: float | None) -> str:
    """MB/s (10^6 bytes) in a sentence: `0 MB/s`, `0.3 MB/s`, `38 MB/s`, `1.2 GB/s`, `48 GB/s`."""
    if mb_s is None or not math.isfinite(mb_s) or mb_s < 0:
        return NONE
    value, name = (mb_s, "MB/s") if mb_s < 999.5 else (mb_s / 1000.0, "GB/s")
    if value < 0.05:
        return f"0 {name}"
    return f"{value:.1f} {name}" if value < 9.95 else f"{min(value, 99999):.0f} {name}"


def depth(value: float | None) -> str:
    """Length of a queue: `0`, `0.3`, `4.8`, `32`."""
    if value is None or not math.isfinite(value) or value < 0:
        return NONE
    return "0" if value < 0.05 else f"{value:.1f}" if value < 9.95 else f"{min(value, 99999):.0f}"


FORMATS: dict[str, Callable[[float | None], str]] = {
    "loss": loss,
    "learning_rate": learning_rate,
    "number": number,
    "seconds": seconds,
    "wait_seconds": wait_seconds,
    "per_second": per_second,
    "count": count,
    "memory_mb": memory_text,
    "memory_gib": memory_gib,
    "percent": percent,
    "mfu": mfu,
    "change": change,
    "celsius": celsius,
    "watts": watts,
    "mhz": mhz,
    "duration": duration,
}
"""Form of a metric by the name of its unit (`MetricView.unit`)."""


def format_value(unit: str, value: float | None) -> str:
    """The value in the form of its unit; an unknown unit is written as a plain number."""
    return FORMATS.get(unit, number)(value)
