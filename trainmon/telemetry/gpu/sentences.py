"""One calm sentence for each way in which NVML or a GPU fails, with what to do about it."""

from __future__ import annotations

import time

from trainmon.samples import DriverState, GpuState
from trainmon.telemetry.gpu import nvml, surroundings

LIBRARY = "libnvidia-ml.so.1"
STARTING = "asking the NVIDIA driver"
NO_BINDING = "the Python package nvidia-ml-py is missing or shadowed by another `pynvml`: pip install nvidia-ml-py"
RELEASED = "NVML is let go; `:resume GPUs` reads again (meanwhile GPUs can be reset and MIG changed)"
NO_GPU = "the driver is loaded and counts no GPU here"


def refusal(code: int, root: str = "/", lost: bool = False) -> tuple[DriverState, str]:
    """What a refusal of the whole driver means.

    Args:
        code: NVML's, of its initialisation or of every call at once.
        root: Stands for "/".
        lost: It worked before, in this process.
    """
    if code == nvml.LIBRARY_NOT_FOUND:
        return _no_library(root)
    if code == nvml.DRIVER_NOT_LOADED:
        return "not loaded", "the NVIDIA driver is installed but not loaded: modprobe nvidia"
    if code == nvml.VERSION_MISMATCH:
        return "mismatch", "driver and library differ in version: reboot, or reload the driver; running jobs go on"
    if code == nvml.NO_PERMISSION:
        return (
            "no permission",
            "no permission: this user may not ask the NVIDIA driver; look at the rights of /dev/nvidia*",
        )
    if code == nvml.UNKNOWN and (lost or surroundings.in_container(root)):
        return "no access", (
            "the GPUs were taken away while they were in use (`systemctl daemon-reload` does that to containers): "
            "restart the container; its job may die"
        )
    return "failing", f"the NVIDIA driver refuses: {nvml.words(code)}"


def _no_library(root: str) -> tuple[DriverState, str]:
    maker = surroundings.other_maker(root)
    if maker:
        return "unsupported", f"{maker} accelerator is here; trainmon reads NVIDIA's NVML only so far"
    if surroundings.in_container(root):
        if surroundings.has_nvidia_files(root):
            advice = "start the container with NVIDIA_DRIVER_CAPABILITIES=compute,utility"
        else:
            advice = "start it with `--gpus all` if it is to have GPUs"
        return "no driver", f"no NVIDIA driver library in this container ({LIBRARY}): {advice}"
    if surroundings.has_nvidia_board(root):
        return "no driver", f"an NVIDIA GPU is here but no driver library ({LIBRARY}): install the driver"
    return "no driver", f"no NVIDIA driver here ({LIBRARY} not found)"


def unsupported(maker: str) -> str:
    """No NVIDIA GPU counted, but another maker's accelerator found."""
    return f"{maker} accelerator is here; trainmon reads NVIDIA's NVML only so far"


def silent(call: str, since: float, every_s: float) -> str:
    """NVML as a whole does not answer.

    Args:
        call: The function it is in. since: Unix time.
        every_s: How often it is asked again.
    """
    return (
        f"NVML not responding since {clock_time(since)} (in {call}): the driver may hang, see `dmesg` for Xid lines; "
        f"asked again every {every_s:.0f} s"
    )


def crashed(what: str, call: str, wait_s: float) -> str:
    """The worker ended by itself. what: "signal 11" or "exit code 1"."""
    where = f" in {call}" if call.startswith("nvml") else ""
    return f"the process that reads NVML ended with {what}{where}; started again in {wait_s:.0f} s"


def gpu(state: GpuState, index: int | None, *, code: int = 0, xid: int | None = None) -> str:
    """What a GPU's state means and what to do, the state's own word first: it stands in the GPU's row.

    Args:
        index: NVML's number, for a command that needs it.
        code: NVML's. xid: The GPU's last Xid of the past minutes.
    """
    why = f" (Xid {xid})" if xid is not None else ""
    if state == "lost":
        return f"lost{why}: it fell off the bus; drain the node and power-cycle it"
    if state == "reset needed":
        which = "" if index is None else f" -i {index}"
        return f"reset needed{why}: stop what runs on it, then `nvidia-smi --gpu-reset{which}`"
    if state == "no permission":
        return "no permission: this user or container may not open it; it may belong to another job"
    if state == "failing":
        return f"failing{why}: it answers nothing but {nvml.words(code)}; asked again with growing pauses"
    return ""


def gpu_silent(call: str, since: float, wait_s: float) -> str:
    """A GPU does not answer. since: Unix time."""
    return (
        f"not responding: no answer to {call} since {clock_time(since)}; asked again in {span(wait_s)}; "
        "reset it or reboot if its job hangs too"
    )


def gpu_crash(what: str, call: str, wait_s: float) -> str:
    """Asking a GPU ended the worker, twice. what: "signal 11"."""
    return f"failing: {call} ended the process that reads NVML ({what}); asked again in {span(wait_s)}"


def span(seconds: float) -> str:
    """ "60 s", "2 min"."""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def clock_time(unix: float) -> str:
    """ "14:02:11", local."""
    return time.strftime("%H:%M:%S", time.localtime(unix))
