"""Read the configuration: files, then variables; every problem at once."""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from trainmon.diagnosis.thresholds import Thresholds
from trainmon.errors import ConfigError
from trainmon.patience import within
from trainmon.settings.keys import KEYS, LATER, TABLES, nearest
from trainmon.settings.model import TAG_NAMES, Settings

if TYPE_CHECKING:
    from trainmon.parsing.custom import OwnFormat

PROJECT_FILE = "trainmon.toml"
PREFIX = "TRAINMON_"
MOST_BYTES = 1 << 20
MOST_PROBLEMS = 20
PATIENCE_S = 1.0
"""So long is waited for a file that merely may lie there; it is left out then."""
NAMED_PATIENCE_S = 5.0
"""The same for one that was named: it may be what another program is still writing."""
_NOT_SETTINGS = ("CONFIG",)
_HEADER = re.compile(r"\s*\[+\s*([^\]#]+?)\s*\]+")
_ASSIGNMENT = re.compile(r"""\s*("[^"]*"|'[^']*'|[A-Za-z0-9_-]+)\s*[=.]""")


_Complain = Callable[[str, str, str], None]
"""Notes a problem: table ("" for the root), key, what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value comes from.

    Attributes:
        value: As it is written there.
        place: "FILE, line N", or the name of a variable.
    """

    value: object
    place: str


@dataclass
class _Found:
    """What was read so far: the strongest file is read last and overwrites."""

    values: dict[tuple[str, str], object] = field(default_factory=dict)
    origins: dict[tuple[str, str], Origin] = field(default_factory=dict)
    tags: dict[str, dict[str, str]] = field(default_factory=dict)
    formats: dict[str, OwnFormat] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    unread: list[Path] = field(default_factory=list)


def load(explicit: Path | None = None, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> Settings:
    """Read the configuration.

    `trainmon.toml` of the working folder over `$XDG_CONFIG_HOME/trainmon/config.toml` over the defaults, key by key; an
    explicit file is read instead of both. `TRAINMON_*` variables go over the files.

    Args:
        explicit: The file of `--config` (or of TRAINMON_CONFIG); it must exist.
        cwd: The working folder; None: the process's own.
        env: The environment; None: the process's own.

    Raises:
        ConfigError: One line for each problem, all of them.
    """
    return explained(explicit, cwd, env)[0]


def explained(
    explicit: Path | None = None, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> tuple[Settings, dict[tuple[str, str], Origin]]:
    """The same as `load`, with where each value comes from: (table, key) -> origin; what is not in it is the default.

    Tags have their pattern as key, formats their name.

    Raises:
        ConfigError: One line for each problem, all of them.
    """
    env = os.environ if env is None else env
    found = _Found()
    files: list[Path] = []
    if explicit is None and env.get(PREFIX + "CONFIG"):
        explicit = Path(env[PREFIX + "CONFIG"])
    for path in [explicit] if explicit is not None else _usual_files(cwd, env):
        if _read_file(path, found, must_exist=explicit is not None):
            files.append(path)
    _read_variables(env, found)
    if found.problems:
        more = len(found.problems) - MOST_PROBLEMS
        tail = [f"and {more:,} more of this kind"] if more > 0 else []
        raise ConfigError(found.problems[:MOST_PROBLEMS] + tail)
    settings = Settings(
        tags=found.tags,
        formats=tuple(found.formats.values()),
        files=tuple(reversed(files)),
        unread=tuple(found.unread),
    )
    limits = {key: value for (table, key), value in found.values.items() if table == "thresholds"}
    others = {key: value for (table, key), value in found.values.items() if table != "thresholds"}
    settings = replace(settings, thresholds=replace(Thresholds(), **limits), **others)  # type: ignore[arg-type]
    return settings, found.origins


def user_file(env: Mapping[str, str]) -> Path | None:
    """The user's own file, whether it is there or not; None without a home."""
    base = env.get("XDG_CONFIG_HOME", "")
    if base.startswith("/"):
        return Path(base, "trainmon", "config.toml")
    return Path(env["HOME"], ".config", "trainmon", "config.toml") if env.get("HOME") else None


def _usual_files(cwd: Path | None, env: Mapping[str, str]) -> list[Path]:
    """The files that are looked for, the weakest first."""
    own = user_file(env)
    found = [] if own is None else [own]
    try:
        found.append((Path.cwd() if cwd is None else cwd) / PROJECT_FILE)
    except OSError:  # the working folder was deleted under us
        pass
    return found


class _Unfit(Exception):
    """It is no configuration, whatever stands in it."""


def _bytes_of(path: Path, named: bool) -> bytes:
    """What stands in a file. One that merely lies there never makes anybody wait: it could be a pipe or a device.

    Raises:
        _Unfit: It is no file, or far too long.
        OSError: It cannot be read.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | (0 if named else os.O_NONBLOCK))
    with open(descriptor, "rb") as file:
        kind = os.fstat(descriptor).st_mode
        if not named and not stat.S_ISREG(kind):
            raise _Unfit("is a pipe or a device, not a file")
        raw = file.read(MOST_BYTES + 1)
    if len(raw) > MOST_BYTES:
        raise _Unfit("is longer than 1 MiB: no configuration")
    return raw


def _read_file(path: Path, found: _Found, must_exist: bool) -> bool:
    try:
        # A home on a network file system that is down must not keep anybody from looking at a run.
        raw = within(NAMED_PATIENCE_S if must_exist else PATIENCE_S, lambda: _bytes_of(path, must_exist))
    except TimeoutError:
        if must_exist:
            found.problems.append(f"{path}: does not answer (a network file system that is down?)")
        else:
            found.unread.append(path)
        return False
    except _Unfit as error:
        found.problems.append(f"{path}: {error}")
        return False
    except (FileNotFoundError, NotADirectoryError):
        if must_exist:
            found.problems.append(f"{path}: no such file; check the path given to --config")
        return False
    except OSError as error:
        reason = "is a folder, not a file" if isinstance(error, IsADirectoryError) else "may not be read"
        if must_exist or not isinstance(error, PermissionError):
            found.problems.append(f"{path}: {reason}")
        return False
    try:
        text = raw.decode("utf-8")
        table = tomllib.loads(text)
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        found.problems.append(f"{path}, line {line}: not UTF-8 text")
        return False
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        message = str(error) or "nested too deeply"
        at = re.search(r" \(at line (\d+), column \d+\)$", message)
        where = f", line {at[1]}" if at else ""
        found.problems.append(f"{path}{where}: not valid TOML: {message[: at.start()] if at else message}")
        return False
    _read_table(path, table, text, found, trusted=must_exist or path.name != PROJECT_FILE)
    return True


def _read_table(path: Path, root: dict[str, object], text: str, found: _Found, trusted: bool) -> None:
    lines = _lines(text)

    def place(table: str, name: str) -> str:
        line = lines.get((table, name))
        return f"{path}, line {line}" if line else str(path)

    def complain(table: str, name: str, text: str) -> None:
        shown = f"[{name}]" if not table else f"{name} in [{table}]"
        found.problems.append(f"{place(table, name)}: {shown} {text}")

    for table, content in root.items():
        if table in LATER:
            complain("", table, "is not read by this version; take it out")
        elif table not in TABLES:
            home = next((key.table for key in KEYS if key.name == table), "")
            near = nearest(table, TABLES)
            hint = f"; it belongs in [{home}]" if home else f"; did you mean [{near}]?" if near else ""
            complain("", table, f"is no known table{hint}")
        elif table == "format":
            from trainmon.settings.own_formats import read_formats

            read_formats(path, content, text, found.formats, found.origins, found.problems)
        elif not isinstance(content, dict):
            complain("", table, "should be a table")
        elif table == "tags":
            _read_tags(content, complain, found)
            found.origins.update({("tags", name): Origin(each, place("tags", name)) for name, each in content.items()})
        else:
            known = {key.name: key for key in KEYS if key.table == table}
            for name, value in content.items():
                if name not in known:
                    near = nearest(name, list(known))
                    complain(table, name, "is no known key" + (f'; did you mean "{near}"?' if near else ""))
                    continue
                if known[name].own and not trusted:
                    complain(table, name, "is taken from your own file or --config only, never from a folder's file")
                    continue
                try:
                    found.values[table, known[name].field] = known[name].convert(value)
                    found.origins[table, name] = Origin(value, place(table, name))
                except ValueError as error:
                    complain(table, name, str(error))


def _read_tags(content: dict[str, object], complain: _Complain, found: _Found) -> None:
    for pattern, labels in content.items():
        if not isinstance(labels, dict):
            complain("tags", pattern, 'should be a table such as { job_id = "7421" }')
            continue
        for name, value in labels.items():
            if name not in TAG_NAMES:
                near = nearest(name, TAG_NAMES)
                hint = f'did you mean "{near}"?' if near else "a tag is one of " + ", ".join(TAG_NAMES)
                complain("tags", pattern, f'sets "{name}", which is no tag; {hint}')
            elif isinstance(value, bool) or not isinstance(value, str | int | float):
                complain("tags", pattern, f'sets "{name}" to something that is no text')
            else:
                found.tags.setdefault(pattern, {})[name] = str(value)


def _read_variables(env: Mapping[str, str], found: _Found) -> None:
    known = {key.name.upper(): key for key in KEYS}
    for variable, text in sorted(env.items()):
        name = variable.removeprefix(PREFIX)
        if name == variable or name in _NOT_SETTINGS:
            continue
        key = known.get(name)
        if key is None:
            # A name that is near to none of ours may be somebody else's: only a slip of the pen is an error.
            near = nearest(name, [each.lower() for each in known])
            if near:
                found.problems.append(f"{variable}: no known variable; did you mean {PREFIX}{near.upper()}?")
            continue
        try:
            found.values[key.table, key.field] = key.convert(text)
            found.origins[key.table, key.name] = Origin(text, variable)
        except ValueError as error:
            found.problems.append(f"{variable}: {error}")


def _lines(text: str) -> dict[tuple[str, str], int]:
    """Where each key stands, as far as it can be seen without a parser: (table, key) -> 1-based line."""
    found: dict[tuple[str, str], int] = {}
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        header = _HEADER.match(line)
        if header:
            table = header[1].split(".", 1)[0].strip("\"' ")
            found.setdefault(("", table), number)
            inner = header[1].partition(".")[2].strip("\"' ")
            if inner:
                found.setdefault((table, inner), number)
            continue
        assignment = _ASSIGNMENT.match(line)
        if assignment:
            found.setdefault((table, assignment[1].strip("\"'")), number)
    return found
