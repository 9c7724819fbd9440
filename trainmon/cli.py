"""The command line: arguments in, one command out, an exit code back.

Everything that takes time to load is imported by the command that needs it, so that `--help` is instant.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from trainmon import __version__
from trainmon.commands.arguments import PARSERS, overview, tail_parser
from trainmon.commands.ending import code_of
from trainmon.errors import TrainmonError, UsageError


def _choose(arguments: list[str]) -> tuple[str, list[str]]:
    """Return the command and its arguments; a source as first argument means `tail`.

    Raises:
        UsageError: The first word is neither a command nor a source.
    """
    if not arguments or (arguments[0].startswith("-") and arguments[0] != "-"):
        return "", arguments
    first = arguments[0]
    if first == "help":
        return "", ["--help"]
    if first in PARSERS:
        return first, arguments[1:]
    if first == "-" or any(sign in first for sign in "/.*?[") or os.path.lexists(first):
        return "tail", arguments
    from difflib import get_close_matches

    near = get_close_matches(first.lower(), list(PARSERS), n=1, cutoff=0.5)
    hint = f'did you mean "{near[0]}"?' if near else f"`trainmon tail {first}` waits for a file of that name"
    raise UsageError(f'no command "{first}"; {hint}')


def _run(arguments: list[str]) -> int:
    command, rest = _choose(arguments)
    if not command:
        if rest[:1] in (["-h"], ["--help"]):
            sys.stdout.write(overview())
            return 0
        if rest[:1] in (["--version"], ["-V"]):
            sys.stdout.write(f"trainmon {__version__}\n")
            return 0
        options = tail_parser("trainmon").parse_args(rest)
        command = "tail" if options.sources else "discover"
    else:
        options = PARSERS[command]().parse_args(rest)
    from importlib import import_module

    module = import_module("trainmon.commands." + ("tail" if command == "discover" else command))
    return int(module.discover(options) if command == "discover" else module.run(options))


def main(argv: Sequence[str] | None = None) -> int:
    """Run trainmon.

    Args:
        argv: Arguments without the program name; None: the process's own.

    Returns:
        The exit code: 0 done, 2 usage or configuration, 3 a source could not be read, 130 interrupted.
    """
    _occupy_closed()
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # a locale without our signs is no reason to fail

    def work() -> int:
        if sys.stdout is None:
            raise TrainmonError("standard output is closed: there is nowhere to write to")
        code = _run(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
        return code

    return code_of(work)


def _occupy_closed() -> None:
    """Descriptors 0 to 2 that were closed at the start: no log that is opened later may get one of these numbers."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest that is free: this one
