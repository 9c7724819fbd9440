"""The arguments of each command, and the page that names the commands."""

from __future__ import annotations

import argparse
from typing import NoReturn

from trainmon.errors import UsageError

SUMMARIES = {
    "tail": "watch running or finished training logs live",
    "demo": "the same on a recorded run that goes wrong",
    "agent": "write this machine's GPUs and host as JSON lines",
    "parse": "turn logs into JSON lines, CSV or Parquet",
    "formats": "the log formats, and what is made of a file",
    "config": "write, check or show the configuration",
    "explain": "what an error means, what causes it, what helps",
    "doctor": "check this machine and terminal",
    "completion": "print completion for bash, zsh or fish",
}

OVERVIEW = """\
trainmon: a live monitor for model training that lives in the terminal

usage: trainmon [COMMAND] [OPTION...] [SOURCE...]

  trainmon                      find the logs of this folder and watch them
  trainmon tail 'worker-*.log'  watch these; files that appear later join
{commands}

  -h, --help     this page; `trainmon COMMAND --help` lists a command's options
  --version      print the version

SOURCE is a file, a pattern, a folder, or - for standard input.
In the screen: ? lists the keys, q leaves.
Exit codes: 0 done, 2 usage or configuration, 3 a source could not be read,
130 interrupted.
"""


class _Parser(argparse.ArgumentParser):
    """An argument parser that says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{_calm(message)} (see `{self.prog} --help`)")


def _calm(message: str) -> str:
    """argparse's words in ours."""
    return message.replace("the following arguments are required", "missing").replace(
        "unrecognized arguments", "unknown"
    )


def _screen_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("screen")
    group.add_argument(
        "--theme", choices=("auto", "dark", "light", "ansi16", "mono"), help="colours; auto asks the terminal"
    )
    group.add_argument("--ascii", action="store_true", default=None, help="draw with ASCII signs only")
    group.add_argument("--no-flash", action="store_true", help="never flash a new alert's label")
    group.add_argument("--plain", action="store_true", help="plain lines, as when standard output is no terminal")
    group.add_argument("--config", metavar="FILE", help="read this configuration instead of the usual files")
    group.add_argument("--poll", metavar="TIME", help="time between two looks at the files (100ms)")


def tail_parser(prog: str = "trainmon tail") -> argparse.ArgumentParser:
    """Return the parser of `tail` (and of bare `trainmon`)."""
    parser = _Parser(
        prog=prog,
        description="Watch training logs live. Several files are nodes or ranks of one run.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "sources",
        nargs="*",
        metavar="SOURCE",
        help="file, 'pattern', folder, or - for standard input; what is not there yet is waited for",
    )
    parser.add_argument("--exact", action="store_true", help="only the files named: no later file joins")
    parser.add_argument("--separate", action="store_true", help="each file is a run of its own, overlaid")
    parser.add_argument("--no-gpu", action="store_true", help="do not read this machine's GPUs")
    parser.add_argument("--no-host", action="store_true", help="do not read this machine's processors, memory, disks")
    _screen_options(parser)
    return parser


def demo_parser() -> argparse.ArgumentParser:
    """Return the parser of `demo`."""
    parser = _Parser(
        prog="trainmon demo",
        description="A recorded run of eight workers, written to files and followed live, until it fails.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--speed",
        type=_factor,
        default=1.0,
        metavar="X",
        help="play X times as fast (1: the failure comes after about 75 s)",
    )
    parser.add_argument("--keep", metavar="DIR", help="write the logs to DIR and leave them there")
    _screen_options(parser)
    return parser


def agent_parser() -> argparse.ArgumentParser:
    """Return the parser of `agent`."""
    parser = _Parser(
        prog="trainmon agent",
        description="Write this machine's GPUs and host as JSON lines, so that `trainmon tail` on a shared folder "
        "shows every node's. One agent a node and folder.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--out",
        default=".",
        metavar="PLACE",
        help="folder (the file is trainmon-agent-NODE.jsonl), file, or - for standard output (.)",
    )
    parser.add_argument("--interval", metavar="TIME", help="time between two looks (2s)")
    parser.add_argument(
        "--max-size", type=_bytes, default=64 << 20, metavar="SIZE", help="begin a new file beyond this (64M)"
    )
    parser.add_argument("--keep", type=_keep, default=2, metavar="N", help="older files that are kept (2)")
    parser.add_argument("--once", action="store_true", help="write everything once and end")
    parser.add_argument("--no-gpu", action="store_true", help="leave the GPUs out")
    parser.add_argument("--no-host", action="store_true", help="leave processors, memory, disks and network out")
    parser.add_argument("--config", metavar="FILE", help="read this configuration instead of the usual files")
    return parser


def parse_parser() -> argparse.ArgumentParser:
    """Return the parser of `parse`."""
    parser = _Parser(
        prog="trainmon parse",
        description="Turn logs into records: one JSON object per line, in file order, or a table.",
        allow_abbrev=False,
    )
    parser.add_argument("sources", nargs="+", metavar="SOURCE", help="file, 'pattern', folder, or - for standard input")
    out = parser.add_argument_group("output")
    out.add_argument("--to", choices=("jsonl", "csv", "parquet"), default="jsonl", help="form of the output (jsonl)")
    out.add_argument("--out", metavar="FILE", help="write FILE, whole or not at all, instead of standard output")
    out.add_argument("--quarantine", metavar="FILE", help="put lines that could not be read there, with the reason")
    out.add_argument("--merge", action="store_true", help="the records of all sources in the order of their times")
    out.add_argument("--follow", action="store_true", help="go on as the sources grow, also when they are rotated")
    choice = parser.add_argument_group("choice")
    choice.add_argument("--since", metavar="TIME", help="records from then on: 1h (ago), 2025-04-05T10:00:00Z, 10:30")
    choice.add_argument("--until", metavar="TIME", help="records up to then")
    choice.add_argument(
        "--level",
        choices=("DEBUG", "INFO", "WARN", "ERROR", "FATAL"),
        type=_level,
        help="messages and errors from this level up; measurements count as INFO",
    )
    choice.add_argument("--kind", metavar="KINDS", help="only these kinds: metrics,eval,error, ...")
    choice.add_argument("--all", action="store_true", help="also lines that carry only a message")
    parser.add_argument("--config", metavar="FILE", help="read this configuration instead of the usual files")
    return parser


def formats_parser() -> argparse.ArgumentParser:
    """Return the parser of `formats`."""
    parser = _Parser(
        prog="trainmon formats",
        description="The log formats that are known, or what trainmon makes of a file.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "action", nargs="?", choices=("list", "test"), default="list", help="list the formats, or test FILE..."
    )
    parser.add_argument("files", nargs="*", metavar="FILE", help="what is tested: a log, or - for standard input")
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.add_argument("--config", metavar="FILE", help="read this configuration instead of the usual files")
    return parser


def config_parser() -> argparse.ArgumentParser:
    """Return the parser of `config`."""
    parser = _Parser(
        prog="trainmon config",
        description="Write a configuration file to begin with, check the files, or show what is in force.",
        allow_abbrev=False,
    )
    parser.add_argument("action", choices=("init", "check", "show"), help="what to do")
    parser.add_argument("file", nargs="?", metavar="FILE", help="the file (init: trainmon.toml; else the usual ones)")
    parser.add_argument("--user", action="store_true", help="init: write your own file in ~/.config/trainmon")
    parser.add_argument("--config", metavar="FILE", help="the same as FILE")
    return parser


def explain_parser() -> argparse.ArgumentParser:
    """Return the parser of `explain`."""
    parser = _Parser(
        prog="trainmon explain",
        description="Explain an error: by its code, by a line of a log, or by the text on standard input.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "text",
        nargs="*",
        metavar="CODE|TEXT|-",
        help="an error's code, a line that holds it, or - for standard input; nothing lists all codes",
    )
    return parser


def doctor_parser() -> argparse.ArgumentParser:
    """Return the parser of `doctor`."""
    parser = _Parser(
        prog="trainmon doctor",
        description="Check whether this machine and terminal can do all of it. Exit code 1: something cannot work.",
        allow_abbrev=False,
    )
    parser.add_argument("--config", metavar="FILE", help="check this configuration instead of the usual files")
    return parser


def completion_parser() -> argparse.ArgumentParser:
    """Return the parser of `completion`."""
    parser = _Parser(
        prog="trainmon completion",
        description='Print completion for a shell. bash: eval "$(trainmon completion bash)"',
        allow_abbrev=False,
    )
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))
    return parser


PARSERS = {
    "tail": tail_parser,
    "demo": demo_parser,
    "agent": agent_parser,
    "parse": parse_parser,
    "formats": formats_parser,
    "config": config_parser,
    "explain": explain_parser,
    "doctor": doctor_parser,
    "completion": completion_parser,
}
"""The parser of each command, made only when it is used."""


def _factor(text: str) -> float:
    value = float(text)
    if not 0.05 <= value <= 50:
        raise argparse.ArgumentTypeError("should lie between 0.05 and 50")
    return value


def _bytes(text: str) -> int:
    """ "64M" -> 67108864."""
    scale = {"k": 10, "m": 20, "g": 30}.get(text[-1:].lower())
    try:
        number = float(text[:-1] if scale else text) * (1 << (scale or 0))
    except ValueError:
        number = 0
    if not 64 << 10 <= number < 1 << 50:
        raise argparse.ArgumentTypeError("should be a size from 64K on, such as 64M or 1G")
    return int(number)


def _keep(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = -1
    if not 0 <= number <= 99:
        raise argparse.ArgumentTypeError("should be a number from 0 to 99")
    return number


def _level(text: str) -> str:
    upper = text.upper()
    return {"WARNING": "WARN", "CRITICAL": "FATAL"}.get(upper, upper)


def overview() -> str:
    """Return the page of `trainmon --help`."""
    rest = (f"  trainmon {name:<20} {text}" for name, text in SUMMARIES.items() if name != "tail")
    return OVERVIEW.format(commands="\n".join(rest))
