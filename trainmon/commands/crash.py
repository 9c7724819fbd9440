"""What is left after a fault of our own: a file that tells, and one line where it is."""

from __future__ import annotations

import os
import platform
import sys
import time
import traceback
from pathlib import Path

from trainmon import __version__
from trainmon.patience import within
from trainmon.settings.state import PATIENCE_S, state_folder, write_whole

MOST = 20
"""Crash reports that are kept."""


def report(folder: Path | None = None) -> str:
    """Write down the exception that is being handled.

    Args:
        folder: Where; None: the state folder.

    Returns:
        One line for standard error: what happened, and where the file is.
    """
    kind, error, _ = sys.exc_info()
    what = f"{kind.__name__ if kind else 'fault'}: {error}".splitlines()[0][:200]
    path = keep(traceback.format_exc(), folder)
    if path is not None:
        return f"this is a fault in trainmon, not in your run ({what}); the details are in {path}"
    where = traceback.extract_tb(error.__traceback__)[-1] if error else None
    place = f" at {Path(where.filename).name}:{where.lineno}" if where else ""
    return f"this is a fault in trainmon, not in your run ({what}{place}); no file could be written"


def keep(details: str, folder: Path | None = None) -> Path | None:
    """Write a traceback to a file. Never waits long, and keeps no more than the newest `MOST` of them.

    Args:
        folder: Where; None: the state folder.

    Returns:
        The file; None when none can be written.
    """
    if folder is None:
        folder, _sentence = state_folder()
    if folder is None:
        return None
    place = folder
    path = place / f"crash-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.txt"
    machine = os.uname()  # `platform.platform()` would start a program to find out
    system = f"{machine.sysname} {machine.release} {machine.machine}"
    head = f"trainmon {__version__}, Python {platform.python_version()}, {system}\n{sys.argv[1:]}\n\n"

    def write() -> None:
        write_whole(path, (head + details).encode("utf-8", "backslashreplace"))
        for old in sorted(place.glob("crash-*.txt"))[:-MOST]:
            old.unlink(missing_ok=True)

    try:
        within(PATIENCE_S, write)
    except (OSError, TimeoutError):
        return None
    return path
