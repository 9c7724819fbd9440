"""The borders between the layers, and the size of the rooms."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MOST_LINES = 400
SCREEN_LIBRARIES = {"textual", "rich", "plotext"}
LAYERS = (
    "model", "snapshot", "clock", "errors", "units", "settings", "sources", "parsing", "catalogue", "series",
    "diagnosis", "alerts", "session", "outputs", "demo",
)  # fmt: skip

LIGHT = {
    "trainmon", "trainmon.cli", "trainmon.errors", "trainmon.commands", "trainmon.commands.arguments",
    "trainmon.commands.ending", "trainmon.commands.say",
}  # fmt: skip
"""What `--help` may load."""


def modules_of(layer: str) -> list[str]:
    """Names of all modules of a layer."""
    single = ROOT / "trainmon" / f"{layer}.py"
    if single.exists():
        return [f"trainmon.{layer}"]
    found = []
    for file in (ROOT / "trainmon" / layer).rglob("*.py"):
        parts = file.relative_to(ROOT).with_suffix("").parts
        found.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return sorted(found)


def loaded_by(code: str) -> set[str]:
    """The top-level modules and trainmon's own that a fresh interpreter has after `code`."""
    script = f"{code}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    names = json.loads(done.stdout.splitlines()[-1])
    return {name if name.startswith("trainmon") else name.partition(".")[0] for name in names}


@pytest.mark.parametrize("layer", LAYERS)
def test_no_layer_of_the_engine_loads_the_screen(layer: str) -> None:
    names = modules_of(layer)
    assert names, "a layer without a module"
    loaded = loaded_by("\n".join(f"import {name}" for name in names))
    assert not loaded & SCREEN_LIBRARIES
    assert not {name for name in loaded if name.startswith(("trainmon.tui", "trainmon.widgets"))}


def test_the_command_line_loads_nothing_but_itself() -> None:
    loaded = loaded_by("import trainmon.cli")
    assert {name for name in loaded if name.startswith("trainmon")} <= LIGHT
    heavy = {"psutil", "aiofiles", "msgspec", "orjson", "pynvml", "numpy", "asyncio", "tomllib", "dataclasses"}
    assert not loaded & (heavy | SCREEN_LIBRARIES)


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["tail", "--help"]])
def test_help_and_version_stay_light(arguments: list[str]) -> None:
    loaded = loaded_by(f"from trainmon.cli import main\nmain({arguments!r})")
    assert {name for name in loaded if name.startswith("trainmon")} <= LIGHT


@pytest.mark.parametrize("command", ["tail", "demo", "parse", "explain", "doctor", "completion", "crash"])
def test_no_command_loads_the_screen_by_being_imported(command: str) -> None:
    assert not loaded_by(f"import trainmon.commands.{command}") & SCREEN_LIBRARIES


def test_parsing_is_pure() -> None:
    loaded = loaded_by("\n".join(f"import {name}" for name in modules_of("parsing")))
    assert not {
        name for name in loaded if name.startswith(("trainmon.sources", "trainmon.session", "trainmon.settings"))
    }


def test_no_file_is_longer_than_one_can_hold_in_mind() -> None:
    long = []
    for folder in ("trainmon", "tui", "widgets", "benchmarks", "screenshots"):
        for file in (ROOT / folder).rglob("*.py"):
            if "__pycache__" in file.parts or (
                folder == "trainmon" and file.parts[len(ROOT.parts) + 1] in {"tui", "widgets"}
            ):
                continue
            count = len(file.read_text("utf-8").splitlines())
            if count > MOST_LINES:
                long.append(f"{file.relative_to(ROOT)}: {count} lines")
    assert not long, "\n".join(long)


def test_the_import_contracts_hold() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports())"],
        capture_output=True, text=True, cwd=ROOT, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
