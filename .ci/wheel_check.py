"""Is everything in the installed wheel? Run by an interpreter that has the wheel, in a folder without the sources."""

from __future__ import annotations

import importlib
import json
import pkgutil
import subprocess
import sys
from pathlib import Path

import trainmon

home = Path(trainmon.__file__).parent
assert "site-packages" in str(home), f"this is not the wheel: {home}"
assert (home / "py.typed").exists()

names = [module.name for module in pkgutil.walk_packages([str(home)], "trainmon.")]
for name in names:
    if not name.endswith("__main__"):
        importlib.import_module(name)
assert {"trainmon.tui.app", "trainmon.widgets.chart", "trainmon.session.session"} <= set(names), names


def trainmon_run(*arguments: str, data: str = "") -> str:
    """Run the installed command and return its output."""
    command = [str(Path(sys.executable).parent / "trainmon"), *arguments]
    done = subprocess.run(command, input=data, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, (arguments, done.returncode, done.stderr)
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout


assert trainmon.__version__ in trainmon_run("--version")
assert "trainmon tail" in trainmon_run("--help")
assert "CUDA" in trainmon_run("explain", "CUDA_OOM")
trainmon_run("doctor")
line = '{"step": 7, "loss": 1.5, "learning_rate": 0.0001}\n'
record = json.loads(trainmon_run("parse", "-", data=line * 3).splitlines()[0])
assert (record["step"], record["loss"]) == (7, 1.5), record
assert "step 7" in trainmon_run("tail", "-", data=line * 3)

print(f"{len(names)} modules of the wheel import; commands work outside the tree")
