"""What NVML says of this machine, asked once, by a child process that may be given up.

A driver that hangs never returns from its first call, in whatever thread; so `probe` starts `python -m
trainmon.telemetry.probe`, reads one JSON line from it and kills it after the time-out.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass

from trainmon.telemetry.gpu import sentences
from trainmon.telemetry.gpu.device import DriverGone
from trainmon.telemetry.gpu.nvml import Nvml, Refused, own_output
from trainmon.telemetry.gpu.opening import count
from trainmon.telemetry.gpu.place import BLOCK, Marker

TIMEOUT_S = 5.0
"""`nvmlInit` takes up to about a second on a machine of eight GPUs without persistence mode."""


@dataclass(frozen=True, slots=True)
class NvmlReport:
    """The answer.

    Attributes:
        word: "ok", "no driver", "refused" or "hangs".
        sentence: The answer in words, for a person.
        driver: Version of the driver; empty when it did not say.
        gpus: Names of the GPUs in NVML's order.
    """

    word: str
    sentence: str
    driver: str = ""
    gpus: tuple[str, ...] = ()


def probe(timeout_s: float = TIMEOUT_S) -> NvmlReport:
    """Ask NVML which driver and GPUs there are.

    Args:
        timeout_s: Seconds until the driver counts as hung; the child is killed then.
    """
    command = [sys.executable, "-P", "-m", "trainmon.telemetry.probe"]
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        out, _ = child.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        # Not waited for: a process that is stuck inside the driver may not even die.
        child.kill()
        return NvmlReport(
            "hangs", f"the NVIDIA driver does not answer within {timeout_s:g} s: see `dmesg` for Xid lines"
        )
    try:
        word, sentence, driver, gpus = json.loads(out)
    except (ValueError, TypeError):
        return NvmlReport("refused", f"asking the NVIDIA driver ended with exit code {child.returncode}")
    return NvmlReport(word, sentence, driver, tuple(gpus))


def _ask() -> tuple[str, str, str, list[str]]:
    try:
        import pynvml

        if not hasattr(pynvml, "nvmlInitWithFlags"):
            raise ImportError("another package of that name")
    except ImportError:
        return "refused", sentences.NO_BINDING, "", []
    lib = Nvml(pynvml, Marker(memoryview(bytearray(BLOCK))))
    try:
        lib.start()
        gpus = [_name(lib, index) for index in range(count(lib))]
    except (Refused, DriverGone) as error:
        state, sentence = sentences.refusal(error.code)
        return "no driver" if state in ("no driver", "unsupported") else "refused", sentence, "", []
    return "ok", f"driver {lib.driver}, {len(gpus)} GPU{'' if len(gpus) == 1 else 's'}", lib.driver, gpus


def _name(lib: Nvml, index: int) -> str:
    try:
        return lib.text("nvmlDeviceGetName", lib.ask("nvmlDeviceGetHandleByIndex", index))
    except Refused as refused:  # one sick GPU must not hide the others
        return f"GPU {index}: {refused.text}"


if __name__ == "__main__":
    own = own_output()
    os.write(own, json.dumps(_ask()).encode())
    os._exit(0)  # without a farewell, which would call into the driver's library
