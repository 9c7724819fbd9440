"""`trainmon demo`: the real `tail` on files that a writer appends."""

from __future__ import annotations

import argparse
import fcntl
import os
import shutil
import stat
import tempfile
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from trainmon.commands.say import complain
from trainmon.errors import SourceError

if TYPE_CHECKING:
    from trainmon.demo.writer import Writer

PREFIX = "trainmon-demo-"
YOUNG_S = 60.0


def run(options: argparse.Namespace) -> int:
    """Write the recording to a folder and follow it; the folder goes when the screen does.

    Raises:
        SourceError: The folder cannot be written.
    """
    from trainmon.commands.tail import follow, settings_of, signals_raise

    settings = settings_of(options)
    # A name is what logs like these usually lack; it comes the way that anybody would give it.
    settings = replace(settings, tags={"worker-*.log": {"model_name": "qwen-7b-lora"}})
    folder = Path(options.keep) if options.keep else None
    with signals_raise():
        try:
            folder, writer = _prepared(folder, options.speed)
        except OSError as error:
            place = options.keep or tempfile.gettempdir()
            reason = (error.strerror or "?").lower()
            raise SourceError(f"{place}: the demo cannot write its logs here ({reason})") from None
        try:
            writer.start()
            return follow([str(folder / "worker-*.log")], options, settings, demo=True, over=lambda: writer.finished)
        finally:
            writer.stop()
            if writer.error:
                complain(f"{folder}: the demo could not go on writing its logs ({writer.error.lower()})")
            if not options.keep:
                shutil.rmtree(folder, ignore_errors=True)


def _prepared(folder: Path | None, speed: float) -> tuple[Path, Writer]:
    """A folder with the past of the run in it; what was begun is taken back when it cannot be written.

    Raises:
        OSError: It cannot be written.
    """
    from trainmon.demo.writer import Writer

    own = folder is None
    if folder is None:
        _put_away_orphans(Path(tempfile.gettempdir()))
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        with suppress(OSError):  # a file system without locks: then nobody takes it for an orphan either
            _hold(folder)
    else:
        folder.mkdir(parents=True, exist_ok=True)
    writer = Writer(folder, speed)
    try:
        writer.write_history()
    except BaseException:
        if own:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            for path in writer.paths:
                path.unlink(missing_ok=True)
        raise
    return folder, writer


def _hold(folder: Path) -> int:
    """Lock a folder for as long as this process lives, whatever ends it; -1 where another one holds it.

    Raises:
        OSError: It cannot be opened or locked at all.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return -1
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _put_away_orphans(place: Path) -> None:
    """Remove what demos left that were killed before they could."""
    for folder in place.glob(PREFIX + "*"):
        try:
            seen = folder.lstat()
            if seen.st_uid != os.getuid() or not stat.S_ISDIR(seen.st_mode):
                continue
            # One that is being written to is alive, locked or not.
            newest = max([seen.st_mtime, *(path.lstat().st_mtime for path in folder.iterdir())])
            if time.time() - newest < YOUNG_S:
                continue
            held = _hold(folder)
        except OSError:
            continue
        if held >= 0:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(held)
