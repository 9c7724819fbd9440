"""The settings of a session, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from trainmon.diagnosis.thresholds import Thresholds

if TYPE_CHECKING:
    from trainmon.parsing.custom import OwnFormat

THEMES = ("auto", "dark", "light", "ansi16", "mono")
"""What `theme` may be: "auto" asks the terminal."""

TAG_NAMES = ("job_id", "model_name", "trace_id", "module", "thread")
"""What a tag may set: the labels of a record."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that can be configured, after files, variables and options.

    Attributes:
        thresholds: Limits of the detectors.
        tags: Pattern of source names -> labels for every record of a matching source; a later pattern wins.
        theme: One of `THEMES`.
        flash: Whether the label of a new critical alert flashes for 3 s.
        bell: Whether a new critical alert rings the terminal's bell, once.
        ascii: Draw with ASCII signs only; None: as the locale says.
        poll_s: Seconds between two looks at the followed files.
        gpu, gpu_interval_s: Whether this machine's GPUs are read through NVML, and the seconds between two looks.
        host, host_interval_s: The same of its processors, memory, disks and network.
        formats: Formats of one's own, in the order of their files.
        plugins: Whether formats of installed packages are used.
        files: The configuration files that were read, the strongest first.
        unread: Those that were looked for and did not answer: what stands in them is not known.
    """

    thresholds: Thresholds = Thresholds()
    tags: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    theme: str = "auto"
    flash: bool = True
    bell: bool = True
    ascii: bool | None = None
    poll_s: float = 0.1
    gpu: bool = True
    gpu_interval_s: float = 1.0
    host: bool = True
    host_interval_s: float = 2.0
    formats: tuple[OwnFormat, ...] = ()
    plugins: bool = True
    files: tuple[Path, ...] = ()
    unread: tuple[Path, ...] = ()

    def tags_for(self, source: str) -> dict[str, str]:
        """Return the labels for a source.

        Args:
            source: Its name as given; a pattern matches the whole of it or its last part.
        """
        found: dict[str, str] = {}
        for pattern, labels in self.tags.items():
            if matches(source, pattern):
                found.update(labels)
        return found


def matches(source: str, pattern: str) -> bool:
    """Whether a pattern of `[tags]` is meant for a source: for the whole of its name, or for the end of its path.

    `worker-*.log` is meant for `/data/run-7/worker-3.log`, `run-7/*.log` too; `**/` stands for any folders or none.
    """
    source = source.removeprefix("./")
    pattern = pattern.removeprefix("./")
    shapes = {pattern, pattern.replace("**/", "")} if "**/" in pattern else {pattern}
    for shape in shapes:
        if fnmatchcase(source, shape):
            return True
        if not shape.startswith("/"):
            parts = source.split("/")
            depth = shape.count("/") + 1
            if len(parts) > depth and fnmatchcase("/".join(parts[-depth:]), shape):
                return True
    return False
