"""Each scenario of the stand-in has a right screen: driver call to drawn row, and docs/gpu.md says so.

Every scenario runs in a worker of its own through the real ctypes path into a session of its own; what the GPU panel
then draws is told in a line. `TRAINMON_WRITE_DOCS=1 pytest THIS_FILE` writes the table of docs/gpu.md anew.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from trainmon.clock import SystemClock
from trainmon.machines import GpuPanel, GpuRow
from trainmon.session.session import Session
from trainmon.telemetry.gpu.watch import GpuWatch
from trainmon.widgets.gpu_table import draw_gpus

pytestmark = pytest.mark.needs_cc

ROOT = Path(__file__).resolve().parents[2]
SCENARIOS = ROOT / "tests" / "nvml" / "scenarios"
DOCS = ROOT / "docs" / "gpu.md"
PATIENCE_S = float(os.environ.get("PATIENCE_S", "60"))


@dataclass(frozen=True)
class Case:
    """A scenario, what it is in words, and what the drawn panel must say (all of it) before it is looked at."""

    scenario: str
    what: str
    says: tuple[str, ...]
    never: tuple[str, ...] = ()
    after_s: float = 3.0
    """Seconds of the scenario that must have passed."""


CASES = (
    Case("h100x8-healthy", "8 × H100, healthy", ("97",), ("✗",)),
    Case("h100x16", "16 GPUs", ("15",), ("✗",)),
    Case("near-oom", "memory of GPU 3 climbs to 99 %", ("✗",), after_s=58),
    Case("util-collapse", "every GPU idle from the 20th to the 32nd second", ("idle",), after_s=27),
    Case("straggler-thermal", "GPU 6 at 89 °C throttles", ("thermal",), after_s=36),
    Case("gpu-lost-xid79", "GPU 5 falls off the bus, Xid 79", ("lost (Xid 79)",), after_s=13),
    Case("xid-nonfatal", "Xid 63, 94 and 13", ("Xid",), after_s=16),
    Case("hung-call", "a call on GPU 1 never returns", ("not responding",), after_s=9),
    Case("hung-driver", "every call hangs", ("not responding", "stale"), after_s=9),
    Case("slow-calls", "slow calls", ("97",), ("✗",)),
    Case("driver-mismatch", "library updated under the running driver", ("reboot",)),
    Case("driver-not-loaded", "driver not loaded", ("not loaded",)),
    Case("driver-reload", "the driver comes after 5 s", ("97",), after_s=11),
    Case("no-permission", "NVML refuses this user", ("permission",)),
    Case("partial-permission", "GPUs 2 and 6 may not be opened", ("permission",)),
    Case("container-lost-devices", "a container loses its devices", ("container", "stale"), after_s=14),
    Case("zero-gpus", "a driver without GPUs", ("no GPU",)),
    Case("a100-mig", "one board in MIG mode", ("MIG",)),
    Case("vgpu", "vGPU guest", ("64", "1,410"), ("°C",)),
    Case("wsl2", "WSL2", (), ("✗",)),
    Case("gb10-unified", "GB10: memory shared with the host", ("unified",)),
    Case("jetson-orin", "Jetson: memory shared with the host", ("unified",)),
    Case("geforce-4090x2", "two GeForce of a workstation", (), ("✗",)),
    Case("gb200-fabric", "fabric of GPU 2 not up, links of GPU 3 down", ("▲",), after_s=6),
    Case("foreign-pids", "PIDs of the host's namespace", (), ("✗",)),
    Case("garbage-samples", "insane samples", (), ("37100",), after_s=24),
    Case("legacy-driver-535", "process records of an early R535", (), ("✗",)),
)  # fmt: skip


class Stage:
    """A session whose instruments are a worker on one scenario."""

    def __init__(self, case: Case, library: Path, begin: float) -> None:
        self.case = case
        self.begin = begin
        self.said = ""
        path = SCENARIOS / f"{case.scenario}.scn"
        command = [
            "env", f"LD_LIBRARY_PATH={library}", f"FAKE_NVML_SCENARIO={path}", f"FAKE_NVML_T0={begin:.3f}",
            sys.executable, "-m", "trainmon.telemetry.gpu.worker",
        ]  # fmt: skip
        self.session = Session(
            ["nothing-of-that-name.log"],
            station=lambda sink: GpuWatch(sink, node="node-1", clock=SystemClock(), interval_s=1.0, command=command),
        )

    def drawn(self) -> list[str]:
        """The GPU panel as text."""
        panel = self.session.snapshot.gpus
        rows = draw_gpus(panel, 118, 24)
        return ["".join(text for text, _ in row).rstrip() for row in rows]

    def look(self) -> str:
        """The panel once it says what it must, or after some patience; `said` is the same moment in a line."""
        time.sleep(max(0.0, self.begin + self.case.after_s - time.time()))
        deadline = time.monotonic() + PATIENCE_S
        while True:
            self.said = statement(self.session.snapshot.gpus)
            text = "\n".join(self.drawn())
            if all(word in text for word in self.case.says) or time.monotonic() > deadline:
                return text
            time.sleep(0.2)


@pytest.fixture(scope="module")
def stages(stand_in: Callable[..., Path]) -> Iterator[dict[str, Stage]]:
    """All scenarios at once: their clocks run beside each other."""
    stand_in(535)
    stand_in(580)
    begin = time.time() + 4.0
    made = {}
    for case in CASES:
        library = stand_in(535 if case.scenario == "legacy-driver-535" else 580)
        made[case.scenario] = Stage(case, library, begin)
    for stage in made.values():
        stage.session.start()
    yield made
    for stage in made.values():
        stage.session.stop()


@pytest.mark.parametrize("case", sorted(CASES, key=lambda case: case.after_s), ids=lambda case: case.scenario)
def test_the_screen_says_what_is_the_matter(case: Case, stages: dict[str, Stage]) -> None:
    stage = stages[case.scenario]
    text = stage.look()
    for word in case.says:
        assert word in text
    for word in case.never:
        assert word not in text
    assert stage.session.fault is None, stage.session.fault


def test_the_table_of_the_documentation_is_what_the_screen_says(stages: dict[str, Stage]) -> None:
    lines = ["| scenario | what happens | the GPU panel says |", "| --- | --- | --- |"]
    for case in sorted(CASES, key=lambda case: case.after_s):
        if not stages[case.scenario].said:  # this test alone
            stages[case.scenario].look()
    for case in CASES:
        lines.append(f"| `{case.scenario}` | {case.what} | {stages[case.scenario].said} |")
    made = "\n".join(lines) + "\n"
    text = DOCS.read_text()
    begin, end = "<!-- scenarios -->\n", "<!-- /scenarios -->"
    before, rest = text.split(begin)
    there, after = rest.split(end)
    if os.environ.get("TRAINMON_WRITE_DOCS"):
        DOCS.write_text(before + begin + made + end + after)
    else:
        assert there == made


def statement(panel: GpuPanel) -> str:
    """The panel in one line: sentence, then the rows that say the same, together. Times and ages are left open."""
    parts = [panel.sentence] if panel.sentence else []
    groups: dict[str, list[str]] = {}
    for row in panel.rows:
        groups.setdefault(_row(row), []).append(row.label or str(row.index))
    for said, labels in groups.items():
        parts.append(f"{_span(labels)}: {said}")
    text = " · ".join(parts)
    text = re.sub(r"\d\d:\d\d:\d\d", "hh:mm:ss", text)
    text = re.sub(r"\(in nvml\w+\)", "(in …)", text)  # whichever call comes first
    text = re.sub(r"\b\d+ (s|m)\b", r"n \1", text).replace("|", "\\|")
    return re.sub(r"stale n [sm]", "stale", text)


def _row(row: GpuRow) -> str:
    sign = {"critical": "✗ ", "warning": "▲ ", "silent": "○ "}.get(row.health, "")
    word = re.sub(r"^\d+ %$", "nn %", row.word)
    if row.note:
        return f"{sign}{word + ', ' if word and word not in row.note else ''}{row.note}"
    shown = {
        "util": row.util_percent, "memory": row.memory_mb, "°C": row.temperature_c, "W": row.power_w, "MHz": row.clock_mhz
    }  # fmt: skip
    have = [name for name, value in shown.items() if value is not None]
    metrics = {"util": "gpu_utilization", "memory": "gpu_memory_mb", "°C": "gpu_temperature_c", "W": "gpu_power_w",
               "MHz": "sm_clock_mhz"}  # fmt: skip
    why = dict(row.missing)
    lack = [f"{name} – ({why.get(metrics[name], 'no reason')})" for name, value in shown.items() if value is None]
    memory = f"memory ({row.memory_note})"
    have = [memory if name == "memory" and row.memory_note else name for name in have]
    return f"{sign}{word}{', ' if word else ''}{', '.join(have + lack)}"


def _span(labels: list[str]) -> str:
    """ "GPU 0-4, 6, 7"."""
    out: list[str] = []
    for label in labels:
        last = out[-1] if out else ""
        tail = last.split("–")[-1]
        if label.isdigit() and tail.isdigit() and int(label) == int(tail) + 1:
            out[-1] = f"{last.split('–')[0]}–{label}"
        else:
            out.append(label)
    return "GPU " + ", ".join(out)
