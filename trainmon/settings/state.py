"""Where trainmon keeps what it writes for itself: crash reports, copied text.

What is written is there as a whole or not at all: a full disk, a kill or a home that does not answer leaves no half
file, and nothing that is in the way of the next one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

from trainmon.patience import within

PATIENCE_S = 0.5
"""So long is waited for a home folder that does not answer."""
_LEFT_S = 3600.0
"""A piece that is older than this (seconds) was left by a process that was killed."""
_TEMPORARY = ("TMPDIR", "TEMP", "TMP")


def state_folder(env: Mapping[str, str] | None = None, temporary: Path | None = None) -> tuple[Path | None, str]:
    """Find a folder that can be written, making it where needed.

    `$XDG_STATE_HOME/trainmon`, else `~/.local/state/trainmon`, else a folder of this user's own beside the temporary
    files. A home that cannot be written, or does not answer, is no error: the sentence says what is used instead.

    Args:
        env: The environment; None: the process's own.
        temporary: Folder of temporary files; None: the system's.

    Returns:
        The folder, or None when nothing can be written anywhere, and a sentence ("" when all is as usual).
    """
    env = os.environ if env is None else env
    usual = _usual(env)
    if usual is not None and _usable(usual):
        return usual, ""
    place = str(usual) if usual is not None else "a home folder (HOME is not set)"
    base = temporary if temporary is not None else _temporary(env)
    if base is None:
        return None, f"{place} cannot be written, nor can the temporary folder: no state is kept"
    spare = base / f"trainmon-{os.getuid()}"
    if _usable(spare, own=True):
        return spare, f"{place} cannot be written: state is kept in {spare}"
    return None, f"{place} cannot be written, nor can {spare}: no state is kept"


def write_whole(path: Path, data: bytes) -> None:
    """Put a file in place, with all of `data` or not at all.

    Raises:
        OSError: It cannot be written; a file that was there before is still there.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with open(os.open(part, flags, 0o600), "wb") as file:
            file.write(data)
        os.replace(part, path)
    except OSError:
        _remove(part)
        raise
    _put_away(path.parent)


def _put_away(folder: Path) -> None:
    """Remove the pieces of those that were killed while they wrote."""
    try:
        for path in folder.glob(".*.part"):
            if time.time() - path.lstat().st_mtime > _LEFT_S:
                _remove(path)
    except OSError:
        pass


def _remove(path: Path) -> None:
    try:
        path.unlink()
    except OSError:
        pass


def _usual(env: Mapping[str, str]) -> Path | None:
    base = env.get("XDG_STATE_HOME", "")
    if base.startswith("/"):
        return Path(base, "trainmon")
    return Path(env["HOME"], ".local", "state", "trainmon") if env.get("HOME") else None


def _temporary(env: Mapping[str, str]) -> Path | None:
    """Where temporary files are; unlike `tempfile` it writes nothing to find out."""
    named = [env[name] for name in _TEMPORARY if env.get(name)]
    return next((Path(place) for place in (*named, "/tmp", "/var/tmp") if os.path.isabs(place)), None)


def _usable(folder: Path, *, own: bool = False) -> bool:
    try:
        return within(PATIENCE_S, lambda: _writable(folder) and (not own or _own(folder)))
    except (OSError, TimeoutError):
        return False


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            # A file without a name: nothing can be left of it.
            os.close(os.open(folder, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600))
            return True
        except (OSError, AttributeError):  # many file systems have no such thing
            pass
        probe = folder / f".probe.{os.getpid()}.part"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError:  # read-only, no permission, a file in the way, a full disk
        return False
    return True


def _own(folder: Path) -> bool:
    """Whether nobody else may write here: a name in a shared temporary folder can be taken by others."""
    found = folder.lstat()
    return found.st_uid == os.getuid() and not found.st_mode & 0o022 and not folder.is_symlink()
