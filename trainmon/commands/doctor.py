"""`trainmon doctor`: can this machine and terminal do it? One line a check, worst sign at its head."""

from __future__ import annotations

import argparse
import locale
import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from trainmon.parsing.clean import visible

Health = Literal["ok", "warning", "failed"]
SIGNS: dict[Health, tuple[str, str]] = {"ok": ("●", "*"), "warning": ("▲", "!"), "failed": ("✗", "x")}
"""Sign and its ASCII form."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found: its subject, its result in words, and what to do where something is wrong."""

    health: Health
    subject: str
    text: str
    advice: str = ""


def run(options: argparse.Namespace) -> int:
    """Print the findings.

    Returns:
        0, or 1 when one of them says that something cannot work.
    """
    plain = not _speaks_utf8()
    failed = False
    for finding in findings(Path(options.config) if options.config else None):
        sign = SIGNS[finding.health][plain]
        tail = f" {'>' if plain else '→'} {finding.advice}" if finding.advice else ""
        line = visible(f"{sign} {finding.subject:<14} {finding.text}{tail}")
        sys.stdout.write((line.encode("ascii", "replace").decode() if plain else line) + "\n")
        failed |= finding.health == "failed"
    return int(failed)


def findings(config: Path | None = None) -> Iterator[Finding]:
    """Run every check, one after the other; a check that breaks is itself a finding."""
    checks: list[Callable[[], Iterator[Finding]]] = [
        _python, _packages, _host, _terminal, _colours, _size, _encoding, _files, _nvml,
        lambda: _configuration(config), _state,
    ]  # fmt: skip
    for check in checks:
        try:
            yield from check()
        except Exception as error:
            name = getattr(check, "__name__", "check").strip("_")
            yield Finding("warning", name, f"could not be checked ({type(error).__name__}: {error})")


def _python() -> Iterator[Finding]:
    yield Finding("ok", "python", f"{platform.python_version()} on {platform.system()} {platform.machine()}")


def _host() -> Iterator[Finding]:
    from trainmon.telemetry.host.summary import host_summary
    from trainmon.units import memory_text

    host = host_summary(os.getcwd())
    free, total = memory_text(host.memory_available_mb), memory_text(host.memory_total_mb)
    text = f"{host.cores} cores, {free} of {total} memory free"
    if host.disk_free_mb is not None:
        text += f", {memory_text(host.disk_free_mb)} free on this folder's disk"
    text += "".join(f", {limit}" for limit in host.limits)
    yield Finding("ok", "host", text)


def _packages() -> Iterator[Finding]:
    from importlib.metadata import PackageNotFoundError, requires, version

    try:
        needed = [line.split(";")[0].strip() for line in requires("trainmon") or [] if "extra ==" not in line]
    except PackageNotFoundError:
        yield Finding("warning", "packages", "trainmon runs from a bare folder; versions cannot be compared")
        return
    found, missing = [], []
    for line in needed:
        name = line.split("<")[0].split(">")[0].split("=")[0].split("~")[0].split("!")[0].strip()
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            missing.append(name)
    if missing:
        yield Finding("failed", "packages", "missing: " + ", ".join(missing), "install trainmon anew with pip")
    yield Finding("ok", "packages", ", ".join(found))


def _terminal() -> Iterator[Finding]:
    term = os.environ.get("TERM", "")
    if not (sys.stdout.isatty() or sys.stderr.isatty()):
        yield Finding("warning", "terminal", "no terminal here: `tail` prints plain lines")
    elif term in ("", "dumb", "unknown"):
        yield Finding(
            "warning", "terminal", f"TERM={term or '(not set)'} can draw no screen", "TERM=xterm-256color, or --plain"
        )
    else:
        inside = " inside tmux" if os.environ.get("TMUX") else ""
        far = " over SSH" if os.environ.get("SSH_CONNECTION") else ""
        yield Finding("ok", "terminal", f"TERM={term}{inside}{far}")


def _colours() -> Iterator[Finding]:
    term, depth = os.environ.get("TERM", ""), os.environ.get("COLORTERM", "").lower()
    if os.environ.get("NO_COLOR"):
        yield Finding("ok", "colours", "none, as NO_COLOR says: weight and signs carry the meaning")
    elif depth in ("truecolor", "24bit") or "direct" in term:
        yield Finding("ok", "colours", "16 million")
    elif "256" in term:
        yield Finding("ok", "colours", "256")
    else:
        yield Finding(
            "ok", "colours", "16: tints are replaced by signs", "TERM=xterm-256color where the terminal can do it"
        )


def _size() -> Iterator[Finding]:
    columns, rows = shutil.get_terminal_size((0, 0))
    if not columns:
        return
    if columns < 30 or rows < 8:
        yield Finding("warning", "size", f"{columns} × {rows}: alert, step and loss only", "30 × 8 or more")
    else:
        yield Finding("ok", "size", f"{columns} × {rows}" + ("" if columns >= 80 else ": one column of facts"))


def _speaks_utf8() -> bool:
    name = getattr(sys.stdout, "encoding", None) or locale.getpreferredencoding(False)
    return name.lower().replace("-", "").replace("_", "") == "utf8"


def _encoding() -> Iterator[Finding]:
    if _speaks_utf8():
        yield Finding("ok", "text", "UTF-8")
    else:
        yield Finding("warning", "text", "the locale is not UTF-8: ASCII signs are drawn", "LANG=C.UTF-8")


def _files() -> Iterator[Finding]:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    reach = hard if hard != resource.RLIM_INFINITY else 1 << 20
    yield Finding("ok", "watching", "by looking at the files every 100 ms: works on network file systems too")
    if reach < 1100:
        advice = f"raise it with `ulimit -n` to follow more than {reach - 60} files"
        yield Finding("warning", "descriptors", f"{soft:,} now, {reach:,} at most", advice)
    else:
        yield Finding("ok", "descriptors", f"{soft:,} now, {reach:,} at most (raised when needed)")


def _nvml() -> Iterator[Finding]:
    from collections import Counter

    from trainmon.telemetry.probe import probe

    report = probe()
    if report.word == "no driver":
        yield Finding("ok", "NVML", f"{report.sentence}: GPU figures come from logs and from agents of other nodes")
    elif report.word == "ok":
        names = ", ".join(f"{count} × {name}" for name, count in Counter(report.gpus).items()) or "no GPU"
        yield Finding("ok", "NVML", f"driver {report.driver}, {names}")
    else:
        yield Finding("warning", "NVML", report.sentence)


def _configuration(path: Path | None) -> Iterator[Finding]:
    from trainmon.errors import ConfigError
    from trainmon.settings import load

    try:
        files = load(path).files
    except ConfigError as error:
        for problem in error.problems:
            yield Finding("failed", "configuration", problem)
        return
    yield Finding("ok", "configuration", " over ".join(map(str, files)) if files else "none: the defaults are in force")


def _state() -> Iterator[Finding]:
    from trainmon.settings.state import state_folder

    folder, sentence = state_folder()
    if folder is None:
        yield Finding("warning", "state", sentence)
    else:
        yield Finding("warning" if sentence else "ok", "state", sentence or str(folder))
