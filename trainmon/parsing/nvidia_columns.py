"""Rows under a header that `nvidia-smi` prints once or now and then: `dmon`, `pmon`, and `--query-gpu=… --format=csv`.

The header (or the command line, where it was echoed) says what the columns are; a row is one that has as many cells,
each of the right kind. Without an identity of the GPU on the row nothing is guessed: see `Grid.take`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trainmon.parsing.cells import Reading, Scene, front, number
from trainmon.parsing.clean import safe
from trainmon.parsing.nvidia_smi import FORMAT, MAX_GPUS, put, reading
from trainmon.parsing.prefix import Prefix
from trainmon.parsing.times import clock, iso, without_date
from trainmon.samples import THROTTLE, GpuProcess

_DMON: Mapping[str, str] = {
    "pwr": "gpu_power_w", "gtemp": "gpu_temperature_c", "temp": "gpu_temperature_c", "mtemp": "memory_temperature_c",
    "sm": "gpu_utilization", "mem": "memory_utilization", "mclk": "mem_clock_mhz", "pclk": "sm_clock_mhz",
    "fb": "gpu_memory_mb", "rxpci": "pcie_rx_mb_s", "txpci": "pcie_tx_mb_s", "dbecc": "ecc_uncorrected_total",
    "pci": "pcie_replays", "smutil": "sm_active_percent", "mmaact": "tensor_active_percent",
    "dram": "dram_active_percent",
}  # fmt: skip
"""Columns of dmon. "sm" is what NVML calls utilisation; for "sbecc", which counts over the board's life, there is no
metric."""

_QUERY: Mapping[str, str] = {
    "utilization.gpu": "gpu_utilization", "utilization.memory": "memory_utilization", "memory.used": "gpu_memory_mb",
    "memory.total": "gpu_memory_total_mb", "memory.free": "memory_free_mb", "memory.reserved": "memory_reserved_mb",
    "temperature.gpu": "gpu_temperature_c", "temperature.memory": "memory_temperature_c", "fan.speed": "fan_percent",
    "power.draw": "gpu_power_w", "power.draw.average": "gpu_power_w", "power.draw.instant": "gpu_power_w",
    "power.limit": "power_limit_w", "enforced.power.limit": "power_limit_w",
    "clocks.sm": "sm_clock_mhz", "clocks.current.sm": "sm_clock_mhz", "clocks.max.sm": "sm_clock_max_mhz",
    "clocks.mem": "mem_clock_mhz", "clocks.current.memory": "mem_clock_mhz",
    "pcie.link.gen.current": "pcie_gen", "pcie.link.gen.gpucurrent": "pcie_gen", "pcie.link.gen.max": "pcie_gen_max",
    "pcie.link.width.current": "pcie_width", "pcie.link.width.max": "pcie_width_max",
    "ecc.errors.corrected.volatile.total": "ecc_corrected",
    "ecc.errors.uncorrected.volatile.total": "ecc_uncorrected",
    "ecc.errors.uncorrected.aggregate.total": "ecc_uncorrected_total",
}  # fmt: skip
_PLACE = frozenset(("index", "timestamp", "name", "gpu_name", "uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id", "serial",
                    "gpu_serial", "count", "driver_version", "pstate"))  # fmt: skip
_REASONS = ("clocks_throttle_reasons.", "clocks_event_reasons.")
_REASON_WORDS: Mapping[str, str] = {
    "gpu_idle": THROTTLE[0x1], "applications_clocks_setting": THROTTLE[0x2], "sw_power_cap": THROTTLE[0x4],
    "hw_slowdown": THROTTLE[0x8], "sync_boost": THROTTLE[0x10], "sw_thermal_slowdown": THROTTLE[0x20],
    "hw_thermal_slowdown": THROTTLE[0x40], "hw_power_brake_slowdown": THROTTLE[0x80],
}  # fmt: skip
_FIELD = re.compile(r"([a-z][a-z0-9_.]{0,60})(?: \[([A-Za-z/%]{1,8})\])?$")
_ORDER = re.compile(r"--query-gpu=([\w.,]{3,2000})")
_DMON_HEAD = re.compile(r"#\s{0,3}(?:Date[\s,]{1,12})?(?:Time[\s,]{1,12})?gpu[\s,]")
_UUID = re.compile(r"(?:GPU|MIG)-[\w./-]{4,60}$")
_BUS = re.compile(r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]$")
_STAMP = re.compile(r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})?$")
_WORD = re.compile(r"\[[A-Za-z /]{2,40}\]$|N/A$|ERR!$")
_FIGURE = re.compile(r"[-+]?\d{1,15}(?:\.\d{1,9})?(?: (?:%|MiB|W|MHz|MB|C))?$")
_TICK_S = 0.25
_MAX_COLUMNS = 200


@dataclass(frozen=True)
class Layout:
    """What a header says.

    Attributes:
        tool: "dmon", "pmon" or "csv".
        columns: Names as they are printed, without units.
        units: Of the columns, where the header names them.
    """

    tool: str
    columns: tuple[str, ...]
    units: tuple[str, ...] = ()

    def cut(self, text: str) -> tuple[str, list[str]] | None:
        """What stands before a row, and its cells; None when the line has too few or they are of other kinds."""
        size = len(self.columns)
        if self.tool == "csv":
            return self._cut_csv(text, size)
        if "," in text and self.tool == "dmon":  # its --format csv; other commas are decimal ones of other tools
            if text.count(",") not in (size - 1, size):
                return None
            text = text.replace(",", " ")
        if self.tool == "pmon":
            return self._cut_pmon(text, size)
        parts = text.rsplit(None, size)
        if len(parts) == size + 1:
            left, cells = parts[0], parts[1:]
        elif len(parts) == size:
            left, cells = "", parts
        else:
            return None
        left = left.removesuffix("#")
        for column, cell in zip(self.columns, cells, strict=True):
            if column in ("Date", "Time"):
                if not (cell.isdecimal() and len(cell) == 8 if column == "Date" else clock_of(cell) is not None):
                    return None
            elif cell != "-" and not _FIGURE.match(cell):
                return None
        return left, cells

    def _cut_pmon(self, text: str, size: int) -> tuple[str, list[str]] | None:
        tokens = text.split(None, 40)
        kind = self.columns.index("type")
        for at in range(min(len(tokens), 6)):  # the command may hold spaces: the row is found by its kind of process
            cells = tokens[at : at + size - 1]
            if len(cells) < size - 1 or cells[kind] not in ("C", "G", "C+G", "M", "M+C", "-"):
                continue
            if all(cell == "-" or cell.isdecimal() for i, cell in enumerate(cells) if i != kind and ":" not in cell):
                return " ".join(tokens[:at]), [*cells, " ".join(tokens[at + size - 1 :])]
        return None

    def _cut_csv(self, text: str, size: int) -> tuple[str, list[str]] | None:
        cells = [cell.strip() for cell in text.split(",", size)]
        if len(cells) != size:
            return None
        for column, cell in zip(self.columns[1:], cells[1:], strict=True):
            if not fits(column, cell):
                return None
        first = self.columns[0]
        whole = text.split(",", 1)[0].rstrip()
        pattern = _PATTERNS.get(first)
        if pattern is None:
            pattern = _FIGURE_END if first not in _PLACE and not first.startswith(_REASONS) else None
        if pattern is None:
            return "", cells
        found = pattern.search(whole[-80:])
        if found is None:
            return None
        cells[0] = found[0].strip()
        return whole[: len(whole) - len(found[0])], cells


_PATTERNS: Mapping[str, re.Pattern[str]] = {
    "timestamp": _STAMP, "index": re.compile(r"(?<!\S)\d{1,4}$"), "uuid": _UUID, "gpu_uuid": _UUID,
    "pci.bus_id": _BUS, "gpu_bus_id": _BUS,
}  # fmt: skip
_FIGURE_END = re.compile(
    r"(?<!\S)(?:[-+]?\d{1,15}(?:\.\d{1,9})?(?: (?:%|MiB|W|MHz|MB|C))?|\[[A-Za-z /]{2,40}\]|N/A|ERR!)$"
)


def clock_of(cell: str) -> float | None:
    """`17:36:40` as seconds of the day."""
    return clock(cell) if len(cell) >= 8 and cell[2] == cell[5] == ":" else None


def fits(column: str, cell: str) -> bool:
    """Whether a cell of CSV can stand in that column."""
    pattern = _PATTERNS.get(column)
    if pattern is not None:
        return pattern.match(cell) is not None or _WORD.match(cell) is not None
    if column in _QUERY:
        return _FIGURE.match(cell) is not None or _WORD.match(cell) is not None
    return len(cell) <= 100


class Grid:
    """What is known between the rows of one writer.

    Attributes:
        layout: What its header says.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._waiting: Reading | None = None
        self._crowded = False
        self._group: list[GpuProcess] = []
        self._of: tuple[int, Scene, Prefix, float | None] | None = None

    def take(self, cells: Sequence[str], scene: Scene, prefix: Prefix) -> list[Reading]:
        """A row as readings.

        A row of CSV that names no GPU (no index, UUID or bus) is one only while no second row stands at its time: then
        the machine has one GPU to tell of. Otherwise such rows are left alone.
        """
        found = dict(zip(self.layout.columns, cells, strict=True))
        if self.layout.tool == "pmon":
            return self._pmon(found, scene, prefix)
        if self.layout.tool == "dmon":
            return self._dmon(found, scene, prefix)
        return self._csv(found, scene, prefix)

    def close(self) -> list[Reading]:
        """What was held back."""
        waiting, self._waiting = self._waiting, None
        return ([waiting] if waiting is not None else []) + self._flush()

    def _time(self, found: Mapping[str, str], scene: Scene) -> float | None:
        of_day = clock_of(found["Time"]) if "Time" in found else None
        date = found.get("Date", "")
        if date:
            day = iso(f"{date[:4]}-{date[4:6]}-{date[6:8]} 00:00:00")
            return None if day is None or of_day is None else day + of_day
        return None if of_day is None else without_date(of_day, scene.mtime)

    def _dmon(self, found: Mapping[str, str], scene: Scene, prefix: Prefix) -> list[Reading]:
        if not found["gpu"].isdecimal() or int(found["gpu"]) >= MAX_GPUS:
            return []
        values: dict[str, float] = {}
        for column, cell in found.items():
            metric = _DMON.get(column)
            if metric is not None and (value := number(cell)) is not None:
                values[metric] = value[0]
        for column, metric in (("nvlrx", "nvlink_rx_gb_s"), ("nvltx", "nvlink_tx_gb_s")):
            if column in found and (value := number(found[column])) is not None:
                values[metric] = value[0] * 2**20 / 1e9
        if not values:
            return []
        return [
            reading(
                scene,
                prefix,
                self._time(found, scene),
                FORMAT,
                int(found["gpu"]),
                values=values,
                guessed="Date" not in found,
            )
        ]

    def _pmon(self, found: Mapping[str, str], scene: Scene, prefix: Prefix) -> list[Reading]:
        if not found["gpu"].isdecimal() or int(found["gpu"]) >= MAX_GPUS:
            return []
        gpu, pid = int(found["gpu"]), found["pid"]
        again = any(str(one.pid) == pid for one in self._group)
        out = self._flush() if again or (self._of is not None and self._of[0] != gpu) or pid == "-" else []
        self._of = gpu, scene, prefix, self._time(found, scene)
        if pid.isdecimal() and len(pid) < 11:
            busy, memory = number(found.get("sm", "-")), number(found.get("fb", "-"))
            self._group.append(
                GpuProcess(
                    int(pid),
                    memory[0] if memory else None,
                    busy[0] if busy else None,
                    command=safe(found.get("command", ""))[:200],
                    kind=found["type"],
                )
            )
        return out

    def _flush(self) -> list[Reading]:
        group, self._group = self._group, []
        of, self._of = self._of, None
        if of is None or not group:
            return []
        gpu, scene, prefix, time = of
        return [reading(scene, prefix, time, FORMAT, gpu, processes=tuple(group))]

    def _csv(self, found: Mapping[str, str], scene: Scene, prefix: Prefix) -> list[Reading]:
        values: dict[str, float] = {}
        missing: dict[str, str] = {}
        facts: dict[str, str] = {}
        throttle: list[str] | None = None
        for column, cell in found.items():
            metric = _QUERY.get(column)
            if metric is not None:
                put(values, missing, metric, cell)
            elif column.startswith(_REASONS):
                words = _reasons(column.partition(".")[2], cell)
                if words is not None:
                    throttle = [*(throttle or []), *(word for word in words if word not in (throttle or []))]
            elif column == "driver_version":
                facts["driver"] = safe(cell)[:40]
        if not values and not missing:
            return []
        bus = found.get("pci.bus_id") or found.get("gpu_bus_id") or ""
        uuid = found.get("uuid") or found.get("gpu_uuid") or ""
        index = int(found["index"]) if found.get("index", "").isdecimal() else None
        if bus and _BUS.match(bus):
            facts["pci"] = bus.upper()
        uuid = uuid if _UUID.match(uuid) else bus.upper() if index is None and _BUS.match(bus) else ""
        stamp = iso(found["timestamp"].replace("/", "-")) if "timestamp" in found else None
        lost = any("GPU is lost" in reason for reason in missing.values())
        told = reading(
            scene,
            prefix,
            stamp,
            FORMAT,
            index,
            uuid=uuid,
            name=safe(found.get("name") or found.get("gpu_name") or "")[:80],
            values=values,
            missing=missing,
            facts=facts,
            throttle=None if throttle is None else tuple(throttle),
            state="lost" if lost else "ok",
            sentence="nvidia-smi says that the GPU is lost" if lost else "",
        )
        if index is not None or uuid:
            return [told]
        return self._nameless(told) if stamp is not None else []

    def _nameless(self, told: Reading) -> list[Reading]:
        before, self._waiting = self._waiting, told
        if before is not None and abs(told.sample.time - before.sample.time) <= _TICK_S:
            self._crowded, self._waiting = True, None
        if self._crowded:
            self._waiting = None
            return []
        return [] if before is None else [before]


def _reasons(what: str, cell: str) -> tuple[str, ...] | None:
    """Words of a cell about clocks: a number with bits, or one reason that is active or not."""
    if what == "active":
        try:
            bits = int(cell, 16)
        except ValueError:
            return None
        return tuple(word for bit, word in THROTTLE.items() if bits & bit)
    if what in _REASON_WORDS and cell in ("Active", "Not Active"):
        return (_REASON_WORDS[what],) if cell == "Active" else ()
    return None


# ---------------------------------------------------------------- headers


def dmon_head(text: str, scene: Scene) -> tuple[Prefix, Layout] | None:
    """`# gpu   pwr gtemp …` of dmon or pmon, also with date and time or with commas; None when this is none."""
    found = _DMON_HEAD.search(text[:_MAX_FRONT])
    if found is None:
        return None
    prefix = front(text[: found.start()], scene.mtime)
    columns = tuple(text[found.start() :].replace(",", " ").lstrip("# ").split())
    if prefix is None or not 3 <= len(columns) <= _MAX_COLUMNS:
        return None
    if "pid" in columns:
        return (prefix, Layout("pmon", columns)) if "type" in columns and columns[-1] == "command" else None
    return (prefix, Layout("dmon", columns)) if _DMON.keys() & set(columns) else None


_MAX_FRONT = 200


def csv_head(text: str, scene: Scene) -> tuple[Prefix, Layout] | None:
    """A header of `--format=csv`, or an echoed command line that says what the columns are; None when this is none."""
    if order := _ORDER.search(text):
        columns = tuple(column for column in order[1].split(",") if column)
        if not _worth(columns):
            return None
        left = text[: order.start()].split("nvidia-smi", 1)[0]
        left = left.rstrip("+$># ")  # `set -x`, prompts
        prefix = front(left, scene.mtime)
        return (prefix if prefix is not None else Prefix(), Layout("csv", columns))
    parts = [part.strip() for part in text.split(",", _MAX_COLUMNS)]
    if len(parts) < 2:
        return None
    first = re.search(r"(?:^|(?<=\s))([a-z][a-z0-9_.]{0,60}(?: \[[A-Za-z/%]{1,8}\])?)$", parts[0][-80:])
    if first is None:
        return None
    left = parts[0][: len(parts[0]) - len(first[0])]
    named = [_FIELD.match(part) for part in (first[1], *parts[1:])]
    columns = tuple(one[1] for one in named if one is not None)
    prefix = front(left, scene.mtime)
    if len(columns) != len(parts) or prefix is None or not _worth(columns):
        return None
    return prefix, Layout("csv", columns, tuple(one[2] or "" for one in named if one is not None))


def _worth(columns: Sequence[str]) -> bool:
    return bool(_QUERY.keys() & set(columns)) and len(columns) <= _MAX_COLUMNS
