"""The table that `nvidia-smi` prints, of drivers 387 to 6xx, and the rows of `gpustat`.

A GPU has two rows that matter: name and bus in the first, figures in the second. Newer drivers add a third (MIG mode),
widen the cells and the bus number; MIG instances and processes have tables of their own below. Cells are told by the
bars between them and by what they hold, never by columns.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from trainmon.parsing.cells import Reading, Scene, before, front, number
from trainmon.parsing.clean import safe
from trainmon.parsing.prefix import Prefix
from trainmon.samples import GpuProcess, GpuSample

FORMAT = "nvidia_smi"
MAX_GPUS = 512
_BUS = re.compile(r"(?:[0-9A-Fa-f]{4}|[0-9A-Fa-f]{8}):[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]\b")
_HEAD = re.compile(r"NVIDIA-SMI\s+([\w.]{1,20})\s+(?:Driver|KMD) Version:\s*([\w.]{1,20})")
_TYPES = frozenset(("C", "G", "C+G", "M", "M+C", "C+M"))
_SICK = frozenset(("ERR!", "Unknown Error", "[Unknown Error]"))
_LOST = ("GPU is lost", "[GPU is lost]")
_MAX_PROCESSES = 512


class Table:
    """One table while it is being printed.

    Args:
        driver: Version of the kernel driver.
        time: When it was printed, Unix seconds; None when that is not said.
    """

    def __init__(self, driver: str, time: float | None) -> None:
        self.driver = driver
        self.time = time
        self._first: tuple[int, str, str, str] | None = None
        self._part = "gpus"
        self._running: dict[int, list[GpuProcess]] = {}
        self._place: tuple[Scene, Prefix] | None = None

    def take(self, cells: list[str], scene: Scene, prefix: Prefix) -> list[Reading] | None:
        """A line of it, cut at its bars; None when it is none of its rows."""
        if len(cells) == 3:
            return self._wide(cells[1], scene, prefix)
        if len(cells) < 5:
            return None
        tokens = cells[1].split()
        if self._part == "mig":
            return self._mig(tokens, cells, scene, prefix)
        bus = _BUS.search(cells[2])
        if bus is not None and len(tokens) > 2 and tokens[0].isdecimal() and int(tokens[0][:6]) < MAX_GPUS:
            name = safe(" ".join(tokens[1:-1]))[:80]
            self._first = int(tokens[0][:6]), name, bus[0], cells[3].strip()
            return []
        if self._first is not None and len(tokens) > 2 and "/" in cells[1]:
            index, name, address, ecc = self._first
            self._first = None
            return [self._figures(index, name, address, ecc, cells, scene, prefix)]
        return []

    def _figures(
        self, index: int, name: str, address: str, ecc: str, cells: list[str], scene: Scene, prefix: Prefix
    ) -> Reading:
        fan, temperature, *rest = cells[1].split()
        draw, _, limit = " ".join(rest[1:]).partition(" / ")  # behind the performance state
        used, _, total = cells[2].partition(" / ")
        busy = cells[3].split()[:1]
        under_mig = ecc == "On"
        values: dict[str, float] = {}
        missing: dict[str, str] = {}
        put(values, missing, "fan_percent", fan)
        put(values, missing, "gpu_temperature_c", temperature)
        put(values, missing, "gpu_power_w", draw)
        put(values, missing, "power_limit_w", limit)
        put(values, missing, "gpu_memory_mb", used)
        put(values, missing, "gpu_memory_total_mb", total or used)
        put(values, missing, "gpu_utilization", busy[0] if busy else "")
        if under_mig and missing.get("gpu_utilization") == "not supported":
            missing["gpu_utilization"] = "n/a under MIG"
        if ecc.isdecimal():
            values["ecc_uncorrected"] = float(ecc[:15])
        facts = {"pci": address.upper()}
        if self.driver:
            facts["driver"] = self.driver
        if ecc.isdecimal() or ecc == "N/A":
            facts["ecc"] = "on" if ecc.isdecimal() else "off"
        state, sentence = "ok", ""
        if any(lost in cell for cell in cells[1:4] for lost in _LOST):
            state, sentence = "lost", "nvidia-smi says that the GPU is lost"
        elif sum(reason.startswith("failing") for reason in missing.values()) > 2:
            state, sentence = "failing", "nvidia-smi prints errors in place of its figures"
        return self.reading(
            scene, prefix, index, name=name, values=values, missing=missing, facts=facts, state=state, sentence=sentence
        )

    def _mig(self, tokens: list[str], cells: list[str], scene: Scene, prefix: Prefix) -> list[Reading]:
        if len(tokens) != 4 or not all(token.isdecimal() and len(token) < 4 for token in tokens):
            return []
        values: dict[str, float] = {}
        missing = {"gpu_utilization": "n/a under MIG"}
        used, _, total = cells[2].partition(" / ")
        put(values, missing, "gpu_memory_mb", used)
        put(values, missing, "gpu_memory_total_mb", total)
        if not values:
            return []
        instance = f"{int(tokens[1])}/{int(tokens[2])}"
        return [self.reading(scene, prefix, int(tokens[0]), instance=instance, values=values, missing=missing)]

    def _wide(self, cell: str, scene: Scene, prefix: Prefix) -> list[Reading] | None:
        """A line with one cell: titles of the parts, and processes."""
        words = cell.strip()
        if words.startswith("MIG devices:"):
            self._part, self._first = "mig", None
        elif words.startswith("Processes:"):
            self._part, self._first = "processes", None
        elif self._part == "processes" and (tokens := words.split()) and tokens[0].isdecimal():
            found = _process(tokens)
            if found is not None and sum(map(len, self._running.values())) < _MAX_PROCESSES:
                self._running.setdefault(int(tokens[0][:6]), []).append(found)
                self._place = scene, prefix
        return []

    @property
    def at_processes(self) -> bool:
        """True once rows of processes came: the next rule ends the table."""
        return bool(self._running)

    def close(self) -> list[Reading]:
        """What was held back: the processes, GPU by GPU."""
        running, self._running = self._running, {}
        if self._place is None:
            return []
        scene, prefix = self._place
        return [
            self.reading(scene, prefix, index, processes=tuple(found))
            for index, found in sorted(running.items())
            if index < MAX_GPUS
        ]

    def reading(self, scene: Scene, prefix: Prefix, index: int, **what: object) -> Reading:
        """A sample of the GPU with that number, at the table's time."""
        return reading(scene, prefix, self.time, FORMAT, index, **what)


def reading(
    scene: Scene, prefix: Prefix, time: float | None, format_: str, index: int | None, **what: object
) -> Reading:
    """A GPU's sample out of text: the line's own time first, else the tool's, else that of its neighbours."""
    own = prefix.time if prefix.time is not None else scene.outer
    when = own if own is not None else time
    guessed = bool(what.pop("guessed", False)) if own is None else prefix.guessed
    what.pop("guessed", None)
    uuid = str(what.pop("uuid", ""))
    sample = GpuSample(
        safe(prefix.node or "")[:80] or scene.node,
        index,
        uuid,
        scene.fallback if when is None else when,
        "log",
        **what,  # type: ignore[arg-type]
    )
    return Reading(sample, format_, scene.line, scene.offset, when is not None and not guessed, prefix)


def head(text: str, scene: Scene) -> tuple[Prefix, Table] | None:
    """The table that this line begins; None when it begins none."""
    found = _HEAD.search(text)
    if found is None:
        return None
    bar = text.find("|")
    if not 0 <= bar < found.start():
        return None
    prefix = front(text[:bar], scene.mtime)
    if prefix is None:
        return None
    time = prefix.time if prefix.time is not None else before(scene, prefix, "ctime")
    return prefix, Table(found[2], time)


def put(values: dict[str, float], missing: dict[str, str], metric: str, cell: str) -> None:
    """A cell as a value, or why there is none."""
    found = number(cell)
    if found is not None:
        value, unit = found
        values[metric] = value * _FACTORS.get(unit.lower(), 1.0)
        return
    words = cell.strip().strip("[]")
    if not words or words in ("-", "Off"):
        return
    missing[metric] = "not supported" if words in ("N/A", "Not Supported") else f"failing: {safe(words)[:60]}"


_FACTORS: Mapping[str, float] = {"gib": 1024.0, "gb": 1024.0, "kib": 1 / 1024, "kw": 1000.0}


def _process(tokens: list[str]) -> GpuProcess | None:
    """`0 N/A N/A 51945 C /usr/bin/python 0MiB`, without the two columns of MIG before driver 450."""
    at = 1
    instance = ""
    if len(tokens) > 5 and tokens[4] in _TYPES:
        at = 3
        if tokens[1].isdecimal() and tokens[2].isdecimal():
            instance = f"{tokens[1][:4]}/{tokens[2][:4]}"
    if len(tokens) < at + 3 or not tokens[at].isdecimal() or len(tokens[at]) > 10 or tokens[at + 1] not in _TYPES:
        return None
    memory = number(tokens[-1])
    named = tokens[at + 2 : -1] if memory or tokens[-1] == "N/A" else tokens[at + 2 :]
    return GpuProcess(
        int(tokens[at]),
        memory[0] if memory else None,
        command=safe(" ".join(named))[:200],
        kind=tokens[at + 1],
        instance=instance,
    )


# ---------------------------------------------------------------- gpustat

_GPUSTAT = re.compile(r"\[(\d{1,3})\] ([^|\[\]]{1,80}?) *$")
_HEAT = re.compile(r" *(\d{1,3})'C, *(?:(\d{1,3}) %, *)?(\d{1,3}|\?\?) %(?:, *(\d{1,4}|\?\?) / *(\d{1,4}|\?\?) W)? *$")
_ROOM = re.compile(r" *(\d{1,7}) / *(\d{1,7}) MB *$")


def gpustat(text: str, scene: Scene) -> Reading | None:
    """A row of gpustat: `[0] NVIDIA A100 | 45'C, 98 % | 70144 / 81920 MB | user(70000M)`; None for all else."""
    cells = text.split("|")
    if len(cells) < 3:
        return None
    which, heat, room = _GPUSTAT.search(cells[0][-120:]), _HEAT.match(cells[1]), _ROOM.match(cells[2])
    if which is None or heat is None or room is None:
        return None
    cut = len(cells[0]) - len(which[0])
    prefix = front(cells[0][:cut], scene.mtime)
    if prefix is None:
        return None
    cells_of = {
        "gpu_temperature_c": heat[1], "fan_percent": heat[2], "gpu_utilization": heat[3], "gpu_power_w": heat[4],
        "power_limit_w": heat[5], "gpu_memory_mb": room[1], "gpu_memory_total_mb": room[2],
    }  # fmt: skip
    values = {metric: float(cell) for metric, cell in cells_of.items() if cell and cell != "??"}
    return reading(scene, prefix, None, "gpustat", int(which[1]), name=safe(which[2])[:80], values=values)
