"""Every key of the configuration: its table, its kind, its limits. What it means is told in docs/configuration.md.

A key of `[thresholds]` is the field of `Thresholds` of that name; a field that ends in `_s` is a duration and its key
has no ending (`stall_after_s` -> `stall_after`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, fields

from trainmon.diagnosis.thresholds import Thresholds
from trainmon.settings.model import THEMES

AUTO = -1.0
"""What "auto" stands for in a threshold: from the run's own pace."""

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)")

Convert = Callable[[object], object]
"""Turns a value of TOML (or a string) into the setting's value; raises ValueError with what it should be."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key.

    Attributes:
        table: "thresholds", "screen", "sources", "telemetry" or "parsing".
        name: As it is written in the file; the variable is TRAINMON_ and this in capitals.
        field: The attribute of `Settings` or `Thresholds` that it sets.
        convert: See `Convert`.
        own: Taken only from the user's own file or `--config`, never from a `trainmon.toml` that merely lies there.
    """

    table: str
    name: str
    field: str
    convert: Convert
    own: bool = False


def seconds(value: object) -> float:
    """Read a duration: `"10m"`, `"1h30m"`, `"500ms"`, or a number of seconds.

    Returns:
        Seconds.

    Raises:
        ValueError: It is none; the message says what one looks like.
    """
    problem = 'should be a duration such as "90s", "10m" or "1h30m"'
    if isinstance(value, bool):
        raise ValueError(problem)
    if isinstance(value, int | float):
        number = float(value)
    elif isinstance(value, str):
        text = value.strip().lower()
        try:
            number = float(text)
        except ValueError:
            parts = _DURATION.findall(text)
            if not parts or _DURATION.sub("", text).strip():
                raise ValueError(problem) from None
            number = sum(float(count) * _UNITS[unit] for count, unit in parts)
    else:
        raise ValueError(problem)
    if not math.isfinite(number) or number <= 0:
        raise ValueError("should be more than no time at all")
    return number


def _off(value: object) -> bool:
    return value is False or (isinstance(value, str) and value.strip().lower() in ("false", "off", "no"))


def _on(value: object) -> bool:
    return value is True or (isinstance(value, str) and value.strip().lower() in ("true", "on", "yes"))


def _flag(value: object) -> bool:
    if _off(value) or value == "0":
        return False
    if _on(value) or value == "1":
        return True
    raise ValueError("should be true or false")


def _flag_or_auto(value: object) -> bool | None:
    if value == "auto":
        return None
    try:
        return _flag(value)
    except ValueError:
        raise ValueError('should be true, false or "auto"') from None


def _theme(value: object) -> str:
    if isinstance(value, str) and value in THEMES:
        return value
    near = nearest(value, THEMES) if isinstance(value, str) else ""
    raise ValueError("should be one of " + ", ".join(THEMES) + (f'; did you mean "{near}"?' if near else ""))


def _poll(value: object) -> float:
    number = seconds(value)
    if not 0.02 <= number <= 60:
        raise ValueError('should lie between "20ms" and "60s"')
    return number


def _interval(value: object) -> float:
    number = seconds(value)
    if not 0.5 <= number <= 60:
        raise ValueError('should lie between "500ms" and "60s"')
    return number


def _duration_threshold(default: float, automatic: bool) -> Convert:
    def convert(value: object) -> float | None:
        if _off(value):
            return None
        if _on(value):
            return default
        if value == "auto" and automatic:
            return AUTO
        try:
            return seconds(value)
        except ValueError as error:
            also = ', "auto"' if automatic else ""
            raise ValueError(f"{error}{also} or false") from None

    return convert


def _number_threshold(default: float, low: float, high: float) -> Convert:
    def convert(value: object) -> float | None:
        if _off(value):
            return None
        if _on(value):
            return default
        number = math.nan
        if isinstance(value, int | float):
            number = float(value)
        elif isinstance(value, str):
            try:
                number = float(value)
            except ValueError:
                pass
        if low == high and number != low:
            raise ValueError("should be true or false")  # a switch, kept as a number
        if math.isnan(number):
            raise ValueError("should be a number or false")
        if not low <= number <= high:
            raise ValueError(f"should lie between {low:g} and {high:g}")
        return number

    return convert


_RANGES = {
    "memory_fraction": (0.5, 1.0),
    "straggler_ratio": (1.01, 10.0),
    "straggler_steps": (1.0, 10_000.0),
    "non_finite_loss": (1.0, 1_000_000.0),
    "fatal_error": (1.0, 1_000_000.0),
    "gpu_idle_percent": (1.0, 100.0),
    "gpu_idle_readings": (1.0, 1_000.0),
    "gpu_spin_power": (0.05, 1.0),
    "throttle_clock_ratio": (0.1, 1.0),
    "gpu_fault": (1.0, 1.0),
    "gpu_links": (1.0, 1.0),
    "host_memory_fraction": (0.5, 1.0),
    "host_oom": (1.0, 1.0),
    "memory_pressure_percent": (1.0, 100.0),
    "shm_fraction": (0.1, 1.0),
    "volume_fraction": (0.5, 1.0),
    "volume_hang": (1.0, 1.0),
    "cpu_percent": (1.0, 100.0),
    "cpu_minute_percent": (1.0, 100.0),
    "cpu_throttled_percent": (1.0, 100.0),
    "disk_util_percent": (1.0, 100.0),
    "network_percent": (1.0, 100.0),
    "network_fault": (1.0, 1.0),
    "open_files_fraction": (0.1, 1.0),
}


def _thresholds() -> list[Key]:
    defaults = Thresholds()
    keys = []
    for each in fields(Thresholds):
        default = getattr(defaults, each.name)
        usual = 1.0 if default is None else float(default)
        if each.name.endswith("_s"):
            convert = _duration_threshold(usual, automatic=usual == AUTO)
            keys.append(Key("thresholds", each.name.removesuffix("_s"), each.name, convert))
        else:
            low, high = _RANGES.get(each.name, (0.0, 1e12))
            keys.append(Key("thresholds", each.name, each.name, _number_threshold(usual, low, high)))
    return keys


KEYS: tuple[Key, ...] = (
    *_thresholds(),
    Key("screen", "theme", "theme", _theme),
    Key("screen", "flash", "flash", _flag),
    Key("screen", "bell", "bell", _flag),
    Key("screen", "ascii", "ascii", _flag_or_auto),
    Key("sources", "poll", "poll_s", _poll),
    Key("telemetry", "gpu", "gpu", _flag),
    Key("telemetry", "gpu_interval", "gpu_interval_s", _interval),
    Key("telemetry", "host", "host", _flag),
    Key("telemetry", "host_interval", "host_interval_s", _interval),
    Key("parsing", "plugins", "plugins", _flag, own=True),
)
"""All keys but those of `[tags]`, which are patterns of the user's own."""

TABLES = ("thresholds", "tags", "screen", "sources", "telemetry", "parsing", "format")
LATER = ("alert", "channels")
"""Tables that are promised but not read by this version: said, never silently passed over."""


def nearest(name: object, known: tuple[str, ...] | list[str]) -> str:
    """Return the known name that is nearest to `name`, or "" when none is near."""
    from difflib import get_close_matches

    found = get_close_matches(str(name).lower(), known, n=1, cutoff=0.6)
    return found[0] if found else ""
