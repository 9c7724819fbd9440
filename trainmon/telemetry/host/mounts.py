"""What is mounted where, out of /proc/self/mountinfo (see proc(5)), without touching a mount itself."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from trainmon.telemetry.host.reading import Tree, Unreadable

_OCTAL = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Mount:
    """A line of mountinfo: the part of the file system that is shown, where, its kind and its own options."""

    inside: str
    point: str
    kind: str
    options: tuple[str, ...] = ()


def mounts(tree: Tree) -> list[Mount]:
    """All mounts, lowest first; one on top of another comes later.

    Raises:
        Unreadable: neither mountinfo nor /proc/self/mounts is there.
    """
    try:
        return [found for line in tree.text("/proc/self/mountinfo").splitlines() if (found := _mount(line))]
    except Unreadable:
        # gVisor and very old kernels: without the part inside the file system, which is "/" nearly always.
        lines = tree.text("/proc/self/mounts").splitlines()
        words = [line.split() for line in lines]
        return [Mount("/", _plain(w[1]), w[2], tuple(w[3].split(","))) for w in words if len(w) >= 4]


def _mount(line: str) -> Mount | None:
    head, dash, tail = line.partition(" - ")
    left, right = head.split(), tail.split()
    if not dash or len(left) < 5 or not right:
        return None
    return Mount(_plain(left[3]), _plain(left[4]), right[0], tuple(right[-1].split(",")))


def _plain(text: str) -> str:
    """mountinfo writes blanks, tabs, line ends and backslashes as octal numbers."""
    return _OCTAL.sub(lambda found: chr(int(found[1], 8)), text) if "\\" in text else text


def mount_of(path: str, among: Sequence[Mount]) -> Mount | None:
    """The mount that an absolute path without links lies in, by its text alone: asking the kernel may hang."""
    best = None
    for one in among:
        point = one.point.rstrip("/")
        below = path == one.point or path.startswith(point + "/")
        if below and (best is None or len(one.point) >= len(best.point)):
            best = one
    return best
