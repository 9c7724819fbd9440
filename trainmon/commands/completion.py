"""`trainmon completion`: scripts made from the parsers themselves, so that they cannot fall behind."""

from __future__ import annotations

import argparse
import sys

from trainmon.commands.arguments import PARSERS, SUMMARIES

_BASH = """\
_trainmon() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" options=""
    case "$before" in
{choices}
    esac
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "{commands} --help --version" -f -- "$word"))
        return
    fi
    case "${{COMP_WORDS[1]}}" in
{options}
    esac
    case "$word" in
        -*) COMPREPLY=($(compgen -W "$options" -- "$word")) ;;
        *) COMPREPLY=($(compgen -f -- "$word")) ;;
    esac
}}
complete -o filenames -F _trainmon trainmon
"""

_ZSH = """\
#compdef trainmon
_trainmon() {{
    local -a commands
    commands=(
{commands}
    )
    if (( CURRENT == 2 )); then
        _describe command commands
        _files
        return
    fi
    case "$words[2]" in
{options}
        *) _files ;;
    esac
}}
if [ "$funcstack[1]" = "_trainmon" ]; then _trainmon "$@"; else compdef _trainmon trainmon; fi
"""


def run(options: argparse.Namespace) -> int:
    """Write the script for the shell that was asked for."""
    make = {"bash": _bash, "zsh": _zsh, "fish": _fish}[options.shell]
    sys.stdout.write(make())
    return 0


def _actions(command: str) -> list[argparse.Action]:
    return [action for action in PARSERS[command]()._actions if action.help != argparse.SUPPRESS]


def _flags(command: str) -> list[str]:
    return [flag for action in _actions(command) for flag in action.option_strings if flag.startswith("--")]


def _bash() -> str:
    choices, options = {}, []
    for command in PARSERS:
        for action in _actions(command):
            if action.choices:
                names = action.option_strings or [command]
                for name in names:
                    choices[name] = " ".join(str(choice) for choice in action.choices)
        options.append(f'        {command}) options="{" ".join(_flags(command))}" ;;')
    lines = [f'        {n}) COMPREPLY=($(compgen -W "{c}" -- "$word")); return ;;' for n, c in choices.items()]
    return _BASH.format(choices="\n".join(lines), commands=" ".join(PARSERS), options="\n".join(options))


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _zsh() -> str:
    options = []
    for command in PARSERS:
        specs = []
        place = 0
        for action in _actions(command):
            help_text = (action.help or "").replace("[", "(").replace("]", ")").replace(":", ",")
            values = f"({' '.join(str(each) for each in action.choices)})" if action.choices else "_files"
            for flag in action.option_strings:
                takes = "" if action.nargs == 0 else f":{action.dest}:{values}"
                specs.append(_quoted(f"{flag}[{help_text}]{takes}"))
            if not action.option_strings:
                place += 1
                which = "*" if action.nargs in ("*", "+") else str(place)
                specs.append(_quoted(f"{which}:{action.dest}:{values}"))
        options.append(f"        {command}) shift words; (( CURRENT-- )); _arguments {' '.join(specs)} ;;")
    commands = [f"        {_quoted(name + ':' + text)}" for name, text in SUMMARIES.items()]
    return _ZSH.format(commands="\n".join(commands), options="\n".join(options))


def _fish() -> str:
    lines = []
    for name, text in SUMMARIES.items():
        lines.append(f"complete -c trainmon -n __fish_use_subcommand -a {name} -d {_quoted(text)}")
    for command in PARSERS:
        seen = f"-n '__fish_seen_subcommand_from {command}'"
        for action in _actions(command):
            values = " ".join(str(each) for each in action.choices) if action.choices else ""
            for flag in (each for each in action.option_strings if each.startswith("--")):
                takes = "" if action.nargs == 0 else f" -r -a {_quoted(values)}" if values else " -r"
                lines.append(f"complete -c trainmon {seen} -l {flag[2:]}{takes} -d {_quoted(action.help or '')}")
            if not action.option_strings and values:
                lines.append(f"complete -c trainmon {seen} -f -a {_quoted(values)}")
    return "\n".join(lines) + "\n"
