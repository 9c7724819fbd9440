"""Where trainmon keeps what it writes for itself: crash reports, copied text."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path


def state_folder(env: Mapping[str, str] | None = None, temporary: Path | None = None) -> tuple[Path | None, str]:
    """Find a folder that can be written, making it where needed.

    `$XDG_STATE_HOME/trainmon`, else `~/.local/state/trainmon`, else a folder of this user's own beside the temporary
    files. A home that cannot be written is no error: the sentence says what is used instead.

    Args:
        env: The environment; None: the process's own.
        temporary: Folder of temporary files; None: the system's.

    Returns:
        The folder, or None when nothing can be written anywhere, and a sentence ("" when all is as usual).
    """
    env = os.environ if env is None else env
    usual = _usual(env)
    if usual is not None and _writable(usual):
        return usual, ""
    place = str(usual) if usual is not None else "a home folder (HOME is not set)"
    try:
        base = temporary if temporary is not None else Path(tempfile.gettempdir())
    except OSError:
        return None, f"{place} cannot be written, nor can the temporary folder: no state is kept"
    spare = base / f"trainmon-{os.getuid()}"
    if _writable(spare) and _own(spare):
        return spare, f"{place} cannot be written: state is kept in {spare}"
    return None, f"{place} cannot be written, nor can {spare}: no state is kept"


def _usual(env: Mapping[str, str]) -> Path | None:
    base = env.get("XDG_STATE_HOME", "")
    if base.startswith("/"):
        return Path(base, "trainmon")
    return Path(env["HOME"], ".local", "state", "trainmon") if env.get("HOME") else None


def _writable(folder: Path) -> bool:
    probe = folder / f".probe-{os.getpid()}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        probe.write_bytes(b"")
        probe.unlink()
    except OSError:  # read-only, no permission, a file in the way, a full disk
        return False
    return True


def _own(folder: Path) -> bool:
    """Whether nobody else may write here: a name in a shared temporary folder can be taken by others."""
    found = folder.lstat()
    return found.st_uid == os.getuid() and not found.st_mode & 0o022 and not folder.is_symlink()
