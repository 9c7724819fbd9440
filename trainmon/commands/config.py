"""`trainmon config`: a file to begin with, a check of what stands in the files, and what is in force and why."""

from __future__ import annotations

import argparse
import os
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainmon.commands.say import complain
from trainmon.errors import ConfigError, TrainmonError, UsageError

if TYPE_CHECKING:
    from trainmon.parsing.custom import OwnFormat
    from trainmon.settings import Settings
    from trainmon.settings.load import Origin

_COMMENT_AT = 36
_SLOW = "may match the same text in so many ways that a line takes seconds: it would be cut short and switched off"


def run(options: argparse.Namespace) -> int:
    """Do what was asked.

    Returns:
        0; of `check` 2 when something is wrong, which is said line by line on standard error.

    Raises:
        ConfigError: A file is wrong (`show`).
        UsageError: Two files were named.
    """
    if options.file and options.config and options.file != options.config:
        raise UsageError(f"{options.file} or {options.config}? name one file")
    name = options.file or options.config
    if options.action == "init":
        return _init(name, options.user)
    if options.user:
        raise UsageError("--user goes with init; check and show read your own file anyway")
    path = Path(name) if name else None
    return _check(path) if options.action == "check" else _show(path)


def template() -> str:
    """The text of a file with every key and its default."""
    from importlib import resources

    return (resources.files("trainmon.settings") / "template.toml").read_text("utf-8")


# ---------------------------------------------------------------- init


def _init(name: str | None, user: bool) -> int:
    from trainmon.settings.load import PROJECT_FILE, user_file

    if name and user:
        raise UsageError("--user and a FILE: name one place")
    text = template()
    if user:
        found = user_file(os.environ)
        if found is None:
            raise UsageError("there is no home folder (HOME is not set); name a FILE")
        path = found
        path.parent.mkdir(parents=True, exist_ok=True)
    else:
        path = Path(name or PROJECT_FILE)
    if not user and path.name == PROJECT_FILE:
        # What a folder's file may not say would be an error in it.
        text = text.replace("\nplugins = true", "\n# plugins = true")
    try:
        # Never over what is there, not even between two looks.
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(
            f"{path} is there already; it is left as it is (another place: trainmon config init FILE)"
        ) from None
    except OSError as error:
        raise TrainmonError(f"{path} cannot be written ({(error.strerror or 'unknown reason').lower()})") from None
    sys.stdout.write(f"{path} written: every key with its default\n")
    return 0


# ---------------------------------------------------------------- check


def _check(path: Path | None) -> int:
    from trainmon.settings.load import explained
    from trainmon.settings.plugins import installed_formats

    settings, _ = explained(path)
    problems = [problem for format_ in settings.formats for problem in format_problems(format_)]
    if settings.plugins:
        found, left_out = installed_formats()
        problems += [*left_out, *(problem for format_ in found for problem in format_problems(format_))]
    for unread in settings.unread:
        complain(f"{unread} does not answer (a network file system that is down?): it was not checked")
    if problems:
        raise ConfigError(problems)
    sys.stdout.write(_summary(settings) + "\n")
    return 0


def _summary(settings: Settings) -> str:
    if not settings.files:
        return "no file: the defaults are in force (`trainmon config init` writes one)"
    parts = [" over ".join(str(path) for path in settings.files) + ": good"]
    for count, word in ((len(settings.tags), "tag pattern"), (len(settings.formats), "format")):
        if count:
            parts.append(f"{count} {word}{'s' if count > 1 else ''}")
    return ", ".join(parts)


def format_problems(format_: OwnFormat) -> Iterator[str]:
    """What is wrong with a format although it can be read: samples that give something else, patterns that run away."""
    from trainmon.parsing.guard import runs_away

    for pattern in format_.patterns:
        if runs_away(pattern):
            yield f'format "{format_.name}": its pattern {_SLOW}'
            return
    for number, sample in enumerate(format_.samples, 1):
        wrong = _sample(format_, sample)
        if wrong:
            yield f'format "{format_.name}", sample {number}: {wrong}'


def _sample(format_: OwnFormat, sample: Mapping[str, Any]) -> str:
    """Why a sample line does not give what it should; "" when it does."""
    import math

    from trainmon.parsing.formats import builtin
    from trainmon.parsing.parser import FileParser

    parser = FileParser("sample", formats=(format_, *builtin()), keep_log=True)
    records = [*parser.feed(sample["line"].encode("utf-8", "replace") + b"\n", 0), *parser.finish()]
    if not records:
        return "the line gives no record"
    record = records[0]
    got: dict[str, Any] = {**record.extra, **record.values, **record.labels}
    for name in ("kind", "node", "rank", "gpu", "level", "time", "code", "message", "reason", "format"):
        got[name] = getattr(record, name)
    gives = sample.get("gives", {})
    for key, want in gives.items() if isinstance(gives, Mapping) else ():
        have = got.get(key)
        if isinstance(want, float) and isinstance(have, int | float):
            same = math.isclose(have, want, rel_tol=1e-6) or (math.isnan(want) and math.isnan(have))
        else:
            same = have == want
        if not same:
            return f"{key} is {have!r} and should be {want!r}"
    return ""


# ---------------------------------------------------------------- show


def _show(path: Path | None) -> int:
    from trainmon.settings.load import explained

    settings, origins = explained(path)
    for unread in settings.unread:
        complain(f"{unread} does not answer (a network file system that is down?): what it says is not shown")
    sys.stdout.write("\n".join(shown(settings, origins)) + "\n")
    return 0


def shown(settings: Settings, origins: Mapping[tuple[str, str], Origin]) -> Iterator[str]:
    """What is in force, as TOML; behind each value where it comes from."""
    from trainmon.settings.keys import KEYS

    defaults = tomllib.loads(template())
    files = " over ".join(str(path) for path in settings.files)
    yield f"# {files} over the defaults" if files else "# no file was read: defaults and variables"
    table = ""
    for key in KEYS:
        if key.table != table:
            table = key.table
            yield ""
            yield f"[{table}]"
        origin = origins.get((key.table, key.name))
        value = defaults[key.table][key.name] if origin is None else origin.value
        line = f"{key.name} = {toml(value)}"
        yield f"{line:<{_COMMENT_AT}}# {'default' if origin is None else _clean(origin.place)}"
    if settings.tags:
        yield ""
        yield "[tags]"
        for pattern, labels in settings.tags.items():
            inner = ", ".join(f"{name} = {toml(value)}" for name, value in labels.items())
            line = f"{toml(pattern)} = {{ {inner} }}"
            yield f"{line:<{_COMMENT_AT}}# {_clean(origins['tags', pattern].place)}"
    for format_ in settings.formats:
        origin = origins["format", format_.name]
        yield ""
        yield f"{'[[format]]':<{_COMMENT_AT}}# {_clean(origin.place)}"
        data = origin.value if isinstance(origin.value, dict) else {}
        yield from (f"{name} = {toml(value)}" for name, value in data.items())


def _clean(text: str) -> str:
    from trainmon.parsing.clean import visible

    return visible(text)


def toml(value: object) -> str:
    """A value as TOML, on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(toml(each) for each in value) + "]"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{toml(str(name))} = {toml(each)}" for name, each in value.items()) + " }"
    text = str(value)
    if "\\" in text and "'" not in text and text.isprintable():
        return f"'{text}'"
    escaped = "".join(
        "\\" + sign if sign in '"\\' else sign if sign.isprintable() else f"\\U{ord(sign):08X}" for sign in text
    )
    return f'"{escaped}"'
