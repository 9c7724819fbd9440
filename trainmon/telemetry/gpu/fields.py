"""Figures that NVML gives by number, many in one call ("field values"): counters of links, errors, temperatures."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from trainmon.telemetry.gpu import nvml as codes
from trainmon.telemetry.gpu.device import Device, Draft
from trainmon.telemetry.gpu.nvml import Nvml, Refused

ALL_LINKS = 0xFFFFFFFF
MOST_LINKS = 32


class Field(NamedTuple):
    """One number to ask for.

    Attributes:
        number: NVML's field id. metric: several fields of one metric add up.
        scale: Turns the unit of NVML into the metric's.
        rate: A counter: the metric is its growth a second.
        scope: Link number, where it has one.
    """

    number: int
    metric: str
    scale: float = 1.0
    rate: bool = False
    scope: int = 0


COUNTERS: Sequence[Field] = (
    Field(138, "nvlink_tx_gb_s", 1024 / 1e9, True, ALL_LINKS),
    Field(139, "nvlink_rx_gb_s", 1024 / 1e9, True, ALL_LINKS),
    Field(197, "pcie_tx_mb_s", 1 / 1e6, True),
    Field(198, "pcie_rx_mb_s", 1 / 1e6, True),
    Field(82, "memory_temperature_c"),
    Field(74, "throttle_power_s", 1 / 1e9),
    Field(75, "throttle_thermal_s", 1 / 1e9),
)
"""Each slow turn. NVLink data in KiB over all links, PCIe in bytes (R555 and later), throttling in ns."""

HEALTH: Sequence[Field] = (
    Field(3, "ecc_corrected"),
    Field(4, "ecc_uncorrected"),
    Field(6, "ecc_uncorrected_total"),
    Field(142, "remapped_corrected"),
    Field(143, "remapped_uncorrected"),
    Field(144, "remap_pending"),
    Field(145, "remap_failed"),
    Field(29, "retired_pages"),
    Field(30, "retired_pages"),
    Field(31, "retired_pending"),
    Field(94, "pcie_replays"),
    Field(91, "nvlinks"),
    Field(38, "nvlink_errors"),
    Field(45, "nvlink_errors"),
    Field(52, "nvlink_errors"),
    Field(59, "nvlink_errors"),
    Field(230, "recovery_action"),
)
"""Each rare turn. 38 to 59 are the totals up to Ampere; later boards count errors a link (161 to 163)."""

_LINK_STATE = 165
_LINK_ERRORS = (161, 162, 163)


def metrics_of(wanted: Sequence[Field]) -> tuple[str, ...]:
    """The metrics of some fields, each once."""
    return tuple(dict.fromkeys(one.metric for one in wanted))


def read_counters(lib: Nvml, device: Device, draft: Draft) -> None:
    """The slow turn's fields."""
    _read(lib, device, draft, COUNTERS, "counters")


def read_health(lib: Nvml, device: Device, draft: Draft) -> None:
    """The rare turn's fields, and the state of each NVLink where there are some."""
    _read(lib, device, draft, HEALTH, "health")
    links = int(draft.values.get("nvlinks", 0))
    if links:
        _read_links(lib, device, draft, min(links, MOST_LINKS))
        device.missing.pop("nvlinks_up", None)
    elif "nvlinks" in draft.refused or not device.missing.get("nvlinks", "failing").startswith("failing"):
        for metric in ("nvlinks", "nvlinks_up", "nvlink_errors"):
            draft.values.pop(metric, None)
            draft.refused.pop(metric, None)
            device.missing[metric] = "no NVLink"


def _read(lib: Nvml, device: Device, draft: Draft, wanted: Sequence[Field], key: str) -> None:
    left: list[Field] = device.forms.setdefault(key, list(wanted))
    if not left:
        raise Refused(codes.NOT_SUPPORTED)
    now = time.monotonic()
    sums: dict[str, float] = {}
    reasons: dict[str, str] = {}
    for one, (code, number) in zip(list(left), _ask(lib, device, left, key), strict=True):
        if code in codes.UNSUPPORTED or code == codes.INVALID_ARGUMENT:
            left.remove(one)
            reasons.setdefault(one.metric, device.why(one.metric))
        elif code in codes.DRIVER_WIDE or code in (codes.GPU_IS_LOST, codes.RESET_REQUIRED):
            raise Refused(code)
        elif code or number is None:
            reasons[one.metric] = f"failing: {codes.words(code)}"
        elif one.rate:
            rate = _rate(device.counters, one, number * one.scale, now)
            if rate is not None:
                sums[one.metric] = rate
        else:
            sums[one.metric] = sums.get(one.metric, 0.0) + number * one.scale
    for metric, value in sums.items():
        draft.put(metric, value)
    asked = {one.metric for one in left}
    for metric, reason in reasons.items():
        if metric not in sums and (metric not in asked or reason.startswith("failing")):
            device.missing[metric] = reason
    if not left:
        raise Refused(codes.NOT_SUPPORTED)


def _rate(counters: dict[str, tuple[float, float]], one: Field, total: float, now: float) -> float | None:
    before = counters.get(one.metric)
    counters[one.metric] = total, now
    if before is None or now - before[1] < 0.05 or total < before[0]:  # the first one, or a counter that began anew
        return None
    return (total - before[0]) / (now - before[1])


def _ask(lib: Nvml, device: Device, wanted: Sequence[Field], key: str) -> list[tuple[int, float | None]]:
    buffer = _buffer(lib, device, wanted, key)
    code = lib.raw("nvmlDeviceGetFieldValues", device.handle, ctypes.c_int(len(wanted)), buffer, device=device.index)
    if code:
        raise Refused(code)
    return [(int(buffer[i].nvmlReturn), _number(buffer[i])) for i in range(len(wanted))]


def _buffer(lib: Nvml, device: Device, wanted: Sequence[Field], key: str) -> Any:
    """Records to be filled. One more than is asked for: drivers wrote one past the end in NVLink queries."""
    known = device.forms.get(f"{key} buffer")
    if known is None or known[0] != len(wanted):
        known = len(wanted), (lib.binding.c_nvmlFieldValue_t * (len(wanted) + 1))()
        device.forms[f"{key} buffer"] = known
    buffer = known[1]
    for record, one in zip(buffer, wanted, strict=False):
        record.fieldId, record.scopeId = one.number, one.scope
    return buffer


_KINDS: Mapping[int, str] = {0: "dVal", 1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal", 6: "usVal"}


def _number(record: Any) -> float | None:
    name = _KINDS.get(int(record.valueType))
    return None if name is None else float(getattr(record.value, name, 0))


def _read_links(lib: Nvml, device: Device, draft: Draft, links: int) -> None:
    """How many of the links are up; errors link by link where there is no total."""
    wanted = [Field(_LINK_STATE, "up", scope=link) for link in range(links)]
    if "nvlink_errors" not in draft.values and device.forms.get("link errors", True):
        wanted += [Field(number, "errors", scope=link) for number in _LINK_ERRORS for link in range(links)]
    states = 0
    counted: dict[str, float] = {}
    for one, (code, number) in zip(wanted, _ask(lib, device, wanted, "links"), strict=True):
        if code == 0 and number is not None:
            counted[one.metric] = counted.get(one.metric, 0.0) + (bool(number) if one.metric == "up" else number)
            states += one.metric == "up"
    if states:
        draft.put("nvlinks_up", counted.get("up", 0.0))
    else:
        draft.put("nvlinks_up", float(_ask_each_link(lib, device, links)))
    if "errors" in counted:
        draft.put("nvlink_errors", counted["errors"])
        device.missing.pop("nvlink_errors", None)
    elif len(wanted) > links:
        device.forms["link errors"] = False


def _ask_each_link(lib: Nvml, device: Device, links: int) -> int:
    up = ctypes.c_uint()
    count = 0
    for link in range(links):
        code = lib.raw(
            "nvmlDeviceGetNvLinkState", device.handle, ctypes.c_uint(link), ctypes.byref(up), device=device.index
        )
        if code == 0:
            count += up.value == 1
    return count


def single(lib: Nvml, device: Device, number: int) -> float:
    """One field by itself.

    Raises:
        Refused: The driver does not give it.
    """
    ((code, value),) = _ask(lib, device, [Field(number, "")], "single")
    if code or value is None:
        raise Refused(code or codes.NOT_SUPPORTED)
    return value
