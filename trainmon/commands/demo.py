"""`trainmon demo`: the real `tail` on files that a writer appends."""

from __future__ import annotations

import argparse
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

from trainmon.errors import SourceError


def run(options: argparse.Namespace) -> int:
    """Write the recording to a folder and follow it; the folder goes when the screen does.

    Raises:
        SourceError: The folder cannot be written.
    """
    from trainmon.commands.tail import follow, settings_of, signals_raise
    from trainmon.demo.writer import Writer

    settings = settings_of(options)
    # A name is what logs like these usually lack; it comes the way that anybody would give it.
    settings = replace(settings, tags={"worker-*.log": {"model_name": "qwen-7b-lora"}})
    folder = Path(options.keep) if options.keep else None
    try:
        if folder is None:
            folder = Path(tempfile.mkdtemp(prefix="trainmon-demo-"))
        else:
            folder.mkdir(parents=True, exist_ok=True)
        writer = Writer(folder, options.speed)
        with signals_raise():
            try:
                writer.write_history()
                writer.start()
                return follow(
                    [str(folder / "worker-*.log")], options, settings, demo=True, over=lambda: writer.finished
                )
            finally:
                writer.stop()
                if not options.keep:
                    shutil.rmtree(folder, ignore_errors=True)
    except OSError as error:
        place = options.keep or tempfile.gettempdir()
        raise SourceError(f"{place}: the demo cannot write its logs here ({(error.strerror or '?').lower()})") from None
