"""Which logs to open when the user named none: the newest run of the current folder, and why."""

from __future__ import annotations

import glob
import os
import re
import stat
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

from trainmon.sources.patterns import binary_kind, natural

NAMES = ("*.log", "*.out", "*.jsonl")
"""What is looked at, in the folder and one level below: `slurm-7.out` and `trainer_log.jsonl` are among it."""

GROWING_S = 120.0
"""A file changed more recently than this (seconds) is taken to grow."""

TOGETHER_S = 600.0
"""Files of one run were written to within this time (seconds) of each other."""

AGENTS = "trainmon-agent-*.jsonl"
"""What `trainmon agent` writes: joins whatever run is chosen."""
_LOOKED_AT = 200
_END = 16 * 1024
_TRAINING = re.compile(
    rb"\b(loss|lm loss|learning_rate|grad_norm|tokens_per_second|train_runtime)\b.{0,3}[:=\s]\s*\S*\d"
    rb"|\b(global_step|iteration|step|epoch)\b\"?\s*[:=#\[]?\s*\d",
    re.I,
)
_STARTING = re.compile(rb"torchrun|torch\.distributed|NCCL|deepspeed|megatron|transformers|local_rank|world_size", re.I)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A log that was found.

    Attributes:
        path: As it is named from the folder.
        mtime: Its last change, Unix seconds.
        training: Its end speaks of steps or losses. growing: It was written to a moment ago.
    """

    path: str
    size: int
    mtime: float
    training: bool
    growing: bool


@dataclass(frozen=True, slots=True)
class Discovery:
    """What is to be opened.

    Attributes:
        specs: The chosen files; empty when nothing fits.
        sentence: What was chosen and why, or what to do when nothing was.
        candidates: Every log that was looked at, newest first.
    """

    specs: list[str]
    sentence: str
    candidates: list[Candidate] = field(default_factory=list)


def discover(folder: Path | str = ".", now: float | None = None) -> Discovery:
    """Choose the logs of the newest run in a folder and the folders in it.

    Args:
        folder: Where to look; names are relative to it when it is the current folder.
        now: Unix time; None: the host's.
    """
    now = time.time() if now is None else now
    here = Path(folder)
    try:
        base = "" if here.resolve() == Path.cwd() else str(here)
    except OSError:
        return Discovery([], "this folder is gone: it was deleted or moved; change to one that exists", [])
    candidates = [_look(base, found, now) for found in _newest(here)]
    agents = [log for log in candidates if fnmatch(os.path.basename(log.path), AGENTS)]
    logs = [log for log in candidates if log not in agents]
    agents = [log for log in agents if log.growing]
    runs = _runs([log for log in logs if log.training or log.growing])
    if not runs and agents:
        specs = _patterns(agents)
        return Discovery(specs, f"opening {_telemetry(agents)}: no training log here grows yet", candidates)
    if not runs:
        return Discovery([], _nothing(here, logs), candidates)
    best = max(runs, key=lambda run: (any(log.training for log in run), max(log.mtime for log in run)))
    chosen = sorted((log.path for log in best), key=natural)
    sentence = _sentence(best, chosen, logs, now)
    if agents:
        sentence += f"; with {_telemetry(agents)}"
    return Discovery([*chosen, *_patterns(agents)], sentence, candidates)


def _patterns(agents: list[Candidate]) -> list[str]:
    """One pattern a folder, so that agents that begin later join."""
    folders = dict.fromkeys(os.path.dirname(log.path) for log in agents)
    return [os.path.join(glob.escape(folder), AGENTS) for folder in folders]


def _telemetry(agents: list[Candidate]) -> str:
    return "the agent of one node" if len(agents) == 1 else f"the agents of {len(agents)} nodes"


def _newest(folder: Path) -> list[tuple[str, os.stat_result]]:
    """Logs of the folder and those one level below, as names from there, newest first."""
    found: dict[tuple[int, int], tuple[str, os.stat_result]] = {}
    for name, path in _files(folder):
        try:
            seen = os.stat(path)
        except OSError:
            continue
        if stat.S_ISREG(seen.st_mode) and seen.st_size:
            # A link to the newest log is the log itself.
            found.setdefault((seen.st_dev, seen.st_ino), (name, seen))
    return sorted(found.values(), key=lambda item: -item[1].st_mtime)[:_LOOKED_AT]


def _files(folder: Path) -> Iterable[tuple[str, str]]:
    below: list[str] = []
    try:
        with os.scandir(folder) as entries:
            for entry in sorted(entries, key=lambda entry: entry.is_symlink()):
                if entry.name.startswith("."):
                    continue
                if _is_folder(entry):
                    below.append(entry.name)
                elif _named_like_a_log(entry.name):
                    yield entry.name, entry.path
    except OSError:
        return
    for name in sorted(below, key=natural)[:_LOOKED_AT]:
        try:
            with os.scandir(folder / name) as entries:
                for entry in entries:
                    if _named_like_a_log(entry.name) and not _is_folder(entry):
                        yield os.path.join(name, entry.name), entry.path
        except OSError:
            continue


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _named_like_a_log(name: str) -> bool:
    return not name.startswith(".") and any(fnmatch(name, pattern) for pattern in NAMES)


def _look(base: str, found: tuple[str, os.stat_result], now: float) -> Candidate:
    name, seen = found
    path = os.path.join(base, name) if base else name
    end = _end(path, seen.st_size)
    text = bool(end) and binary_kind(end[:4096]) is None
    training = text and (_TRAINING.search(end) is not None or _STARTING.search(end) is not None)
    return Candidate(path, seen.st_size, seen.st_mtime, training, text and now - seen.st_mtime < GROWING_S)


def _end(path: str, size: int) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.pread(fd, _END, max(0, size - _END))
    except OSError:
        return b""
    finally:
        os.close(fd)


def _runs(logs: list[Candidate]) -> list[list[Candidate]]:
    """Group logs whose names differ only in a number, as far as they were written together."""
    families: dict[str, list[Candidate]] = defaultdict(list)
    for log in logs:
        families[_family(log.path)].append(log)
    runs = []
    for members in families.values():
        newest = max(log.mtime for log in members)
        together = [log for log in members if newest - log.mtime <= TOGETHER_S]
        if any(_counts_jobs(log.path) for log in members):
            # Numbers of jobs: each file is a run of its own. Those that grow at the same time may be one.
            together = [log for log in together if log.growing] or [max(members, key=lambda log: log.mtime)]
        runs.append(together)
    return runs


def _family(path: str) -> str:
    """The folder, and the name without its numbers."""
    folder, name = os.path.split(path)
    return folder + os.sep + re.sub(r"\d+", "*", name)


def _counts_jobs(path: str) -> bool:
    """Whether the number in a name is a job's or a date's and not a worker's."""
    name = os.path.basename(path)
    return name.startswith("slurm-") or re.search(r"\d{5,}", name) is not None


def _sentence(run: list[Candidate], chosen: list[str], candidates: list[Candidate], now: float) -> str:
    what = chosen[0] if len(chosen) == 1 else f"{_family(chosen[0]).lstrip(os.sep)} ({len(chosen)} files)"
    newest = max(run, key=lambda log: log.mtime)
    if newest.training:
        why = "the newest training log here" if len(chosen) == 1 else "the newest training logs here"
    else:
        why = "it grows" if len(chosen) == 1 else "they grow"
    sentence = f"opening {what}: {why}, last written {_ago(now - newest.mtime)}"
    others = [log.path for log in candidates if log not in run]
    if others:
        more = f" and {len(others) - 2} more" if len(others) > 2 else ""
        sentence += f"; left out: {', '.join(others[:2])}{more} (choose with: trainmon tail FILE...)"
    return sentence


def _nothing(folder: Path, candidates: list[Candidate]) -> str:
    advice = "name a file (trainmon tail FILE), or try: trainmon demo"
    if not candidates:
        return f"no log (*.log, *.out, *.jsonl) in {folder} or in the folders in it; {advice}"
    names = ", ".join(log.path for log in candidates[:3]) + (", ..." if len(candidates) > 3 else "")
    return f"no log in {folder} grows or speaks of steps or losses ({names}); {advice}"


def _ago(seconds: float) -> str:
    if seconds < 10:
        return "just now"
    for limit, size, unit in ((120, 1, "s"), (7200, 60, "m"), (172_800, 3600, "h")):
        if seconds < limit:
            return f"{seconds / size:.0f} {unit} ago"
    return f"{seconds / 86_400:.0f} days ago"
