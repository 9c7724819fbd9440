"""Everything that trainmon raises on purpose.

    TrainmonError              exit code 1: something failed, said in one sentence
    ├── UsageError             exit code 2: the command line is wrong
    ├── ConfigError            exit code 2: a configuration file is wrong
    ├── SourceError            exit code 3: a source could not be read at all
    └── TerminalError          exit code 2: no screen can be drawn here

The message of each is one calm line for standard error: what is wrong, and what to do.
"""

from __future__ import annotations


class TrainmonError(Exception):
    """The base of all; carries the exit code that the command line ends with."""

    exit_code = 1


class UsageError(TrainmonError):
    """A wrong argument or option."""

    exit_code = 2


class ConfigError(TrainmonError):
    """One or more problems in the configuration.

    Args:
        problems: One line each, naming file, key or line, and the nearest right spelling.
    """

    exit_code = 2

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class SourceError(TrainmonError):
    """A source that cannot be read at all."""

    exit_code = 3


class TerminalError(TrainmonError):
    """The terminal cannot show a screen (`TERM=dumb`, or no terminal at all)."""

    exit_code = 2
