"""What the machine itself tells about its accelerators, without any driver: device files, PCI, containers, WSL.

Files only, each of which may be missing. `root` stands for "/" (tests point it elsewhere).
"""

from __future__ import annotations

import os
import sys
from glob import glob

_MAKERS = (
    ("dev/kfd", "an AMD"),
    ("dev/davinci[0-9]*", "a Huawei Ascend"),
    ("dev/neuron[0-9]*", "an AWS Neuron"),
    ("dev/cambricon_dev[0-9]*", "a Cambricon"),
    ("dev/mtgpu.[0-9]*", "a Moore Threads"),
    ("dev/iluvatar[0-9]*", "an Iluvatar"),
    ("dev/mxcd", "a MetaX"),
    ("dev/ipu[0-9]*", "a Graphcore"),
    ("dev/tenstorrent/[0-9]*", "a Tenstorrent"),
)
_ACCEL_VENDORS = {"0x1da3": "an Intel Gaudi", "0x1ae0": "a Google TPU"}
"""Of /sys/class/accel. Intel's 0x8086 there is the small neural unit of a laptop: nothing that trains."""
_NVIDIA = "0x10de"
_CONTAINER_WORDS = ("docker", "kubepods", "containerd", "libpod", "/lxc", "crio", "garden")


def read(path: str, limit: int = 4096) -> str:
    """The start of a small file; "" when it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(limit)
    except (OSError, ValueError):
        return ""


def other_maker(root: str = "/") -> str:
    """ "an AMD", "a Huawei Ascend", ...: whose accelerator is here besides NVIDIA's; "" for none."""
    for pattern, maker in _MAKERS:
        if glob(os.path.join(root, pattern)):
            return maker
    for folder in sorted(glob(os.path.join(root, "sys/class/accel/accel*"))):
        vendor = read(os.path.join(folder, "device/vendor")).strip().lower()
        if vendor in _ACCEL_VENDORS:
            return _ACCEL_VENDORS[vendor]
    if glob(os.path.join(root, "dev/accel[0-9]*")):
        return "a Google TPU"
    if sys.platform == "darwin" and root == "/":
        return "an Apple"
    return ""


def in_container(root: str = "/") -> bool:
    """Whether this process lives in a container, as far as files tell."""
    if any(os.path.exists(os.path.join(root, name)) for name in (".dockerenv", "run/.containerenv", ".singularity.d")):
        return True
    return any(word in read(os.path.join(root, "proc/1/cgroup")) for word in _CONTAINER_WORDS)


def in_wsl(root: str = "/") -> bool:
    """Whether this is Linux inside Windows."""
    return "microsoft" in read(os.path.join(root, "proc/sys/kernel/osrelease")).lower()


def has_nvidia_files(root: str = "/") -> bool:
    """Whether the driver's device files are here."""
    return os.path.exists(os.path.join(root, "dev/nvidiactl"))


def has_nvidia_board(root: str = "/") -> bool:
    """Whether a display or compute controller of NVIDIA's sits on the PCI bus."""
    for folder in glob(os.path.join(root, "sys/bus/pci/devices/*")):
        vendor, kind = (read(os.path.join(folder, name)).strip().lower() for name in ("vendor", "class"))
        if vendor == _NVIDIA and kind.startswith("0x03"):
            return True
    return False


def host_memory_mb(root: str = "/") -> tuple[float, float] | None:
    """(total, available) of the machine in MiB, for GPUs that share it; None when /proc does not tell."""
    found: dict[str, float] = {}
    for line in read(os.path.join(root, "proc/meminfo")).splitlines():
        name, _, rest = line.partition(":")
        if name in ("MemTotal", "MemAvailable"):
            number = rest.split()[:1]
            if number and number[0].isdigit():
                found[name] = int(number[0]) / 1024
    if found.get("MemTotal", 0) <= 0 or "MemAvailable" not in found:
        return None
    return found["MemTotal"], min(found["MemAvailable"], found["MemTotal"])
