"""`trainmon formats`: the formats that are known, and what is made of a file."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from trainmon.commands.say import complain
from trainmon.errors import SourceError, UsageError

if TYPE_CHECKING:
    from trainmon.commands.formats_study import Group, Study
    from trainmon.commands.parse_source import Reading
    from trainmon.parsing.formats import Format

_MOST_GROUPS = 12
_WIDEST = 160


def run(options: argparse.Namespace) -> int:
    """List the formats, or say what is made of files.

    Returns:
        0, or 3 when a file could not be read.

    Raises:
        ConfigError: The configuration is wrong.
        UsageError: Files without `test`, or `test` without a file.
    """
    from trainmon.commands.parse import reading_of, settings_of
    from trainmon.commands.parse_wanted import Wanted

    if options.action == "list" and options.files:
        raise UsageError(f"formats list takes no file; did you mean `trainmon formats test {options.files[0]}`?")
    if options.action == "test" and not options.files:
        raise UsageError("formats test needs a FILE, or - for standard input")
    reading = reading_of(settings_of(options), Wanted(everything=True))
    if options.action == "list":
        return _list(reading, options.json)
    return _test(options.files, reading, options.json)


def _print(lines: Iterator[str]) -> None:
    for line in lines:
        sys.stdout.write(line + "\n")


def _width() -> int:
    return min(_WIDEST, shutil.get_terminal_size((100, 24)).columns)


# ---------------------------------------------------------------- list


def _origin(format_: Format) -> str:
    from trainmon.parsing.custom import OwnFormat

    if not isinstance(format_, OwnFormat):
        return "built-in"
    return "user" if format_.origin == "config" else "plug-in"


def _engine(format_: Format) -> str:
    from trainmon.parsing.custom import OWN, OwnFormat

    if format_.engine == OWN and isinstance(format_, OwnFormat):
        return "python" if format_.read is not None else "pattern"
    return format_.engine


def _list(reading: Reading, as_json: bool) -> int:
    rows: list[dict[str, Any]] = [
        {
            "name": format_.name,
            "title": format_.title,
            "engine": _engine(format_),
            "origin": _origin(format_),
            "sample": format_.samples[0]["line"] if format_.samples else None,
        }
        for format_ in reading.formats
    ]
    if as_json:
        sys.stdout.write(json.dumps(rows, ensure_ascii=False, indent=1) + "\n")
        return 0
    _print(_rows(rows))
    return 0


def _rows(rows: list[dict[str, Any]]) -> Iterator[str]:
    from trainmon.parsing.clean import visible

    widths = {key: max(len(str(row[key])) for row in rows) for key in ("name", "origin", "engine")}
    room = _width()
    for row in rows:
        head = "  ".join(f"{row[key]:<{widths[key]}}" for key in widths)
        yield _cut(f"{head}  {visible(row['title'])}", room)
        if row["sample"]:
            yield _cut("    " + visible(" ".join(str(row["sample"]).split())), room)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


# ---------------------------------------------------------------- test


def _test(names: list[str], reading: Reading, as_json: bool) -> int:
    from trainmon.commands.parse_source import expand

    code = 0
    objects: list[dict[str, Any]] = []
    found = list(expand(names))
    for number, name in enumerate(found):
        try:
            result, size = _studied(name, reading)
        except SourceError as error:
            complain(str(error))
            code = error.exit_code
            continue
        if as_json:
            objects.append({**result.as_object(), "size": size})
        else:
            _print(_report(result, size))
            if number + 1 < len(found):
                sys.stdout.write("\n")
    if as_json:
        sys.stdout.write(
            json.dumps(objects[0] if len(found) == 1 and objects else objects, ensure_ascii=False, indent=1)
        )
        sys.stdout.write("\n")
    return code


def _studied(name: str, reading: Reading) -> tuple[Study, int]:
    """Raises SourceError when it cannot be read."""
    from dataclasses import replace

    from trainmon.commands.formats_study import MOST_BYTES, study
    from trainmon.commands.parse_source import open_source
    from trainmon.commands.progress import Progress
    from trainmon.sources.patterns import binary_kind

    with open_source(name) as file:
        seen = os.fstat(file.fileno())
        regular = os.path.isfile(name) if name != "-" else False
        size = seen.st_size if regular else 0
        if regular and (kind := binary_kind(os.pread(file.fileno(), 4096, 0))):
            raise SourceError(f"{name}: {kind}, not a log; unpack it first and give it as - if it is one")
        progress = Progress(min(size, MOST_BYTES))
        try:
            return study(name, file, replace(reading, read=progress.add), seen.st_mtime if regular else None), size
        except OSError as error:
            raise SourceError(f"{name}: reading stopped ({(error.strerror or 'unknown reason').lower()})") from None
        finally:
            progress.clear()


def _report(found: Study, size: int) -> Iterator[str]:
    from trainmon.parsing.clean import visible

    room = _width()
    groups = found.ordered()
    part = f", the first {found.read / 1e6:,.0f} MB of {size / 1e6:,.0f} MB" if 0 < found.read < size else ""
    yield f"{visible(found.source)}: {found.lines:,} lines{part}"
    yield ""
    rows = [(_named(group), group.lines) for group in groups]
    rows += [("no record of their own", found.noise), ("could not be read", found.quarantine), ("blank", found.blank)]
    wide = max(len(name) for name, _ in rows)
    for name, count in rows:
        if count:
            share = "" if name == "blank" else f"{found.share(count):8.1%}"
            yield f"  {name:<{wide}} {count:>11,}{share}"
    if found.first_step is not None:
        total = f" of {found.total_steps:,}" if found.total_steps else ""
        yield f"  steps {found.first_step:,} to {found.last_step:,}{total}"
    for group in groups[:_MOST_GROUPS]:
        yield ""
        yield f"{_named(group)}, first at line {group.line:,}"
        if group.text:
            yield _cut(f"  {group.text}", room)
        yield from _wrapped(group.fields, room)
    if found.quarantine_examples:
        yield ""
        yield "Could not be read, such as"
        for line, reason, text in found.quarantine_examples:
            yield _cut(f"  line {line:,}: {reason}: {text}", room)
    if found.noise_examples:
        yield ""
        yield "No record of their own, such as"
        for line, text in found.noise_examples:
            yield _cut(f"  line {line:,}: {text}", room)
    yield from _proposals(found)


def _named(group: Group) -> str:
    name = {"": "", "messages": "messages"}.get(group.format, group.format)
    return f"{name} {group.kind}".strip() if name != "messages" else "messages"


def _wrapped(fields: dict[str, Any], room: int) -> Iterator[str]:
    line = "   "
    for name, value in fields.items():
        text = f" {name}={json.dumps(value, ensure_ascii=False) if isinstance(value, str) else value}"
        if len(line) + len(text) > room and line.strip():
            yield line
            line = "   "
        line += _cut(text, room)
    if line.strip():
        yield line


def _proposals(found: Study) -> Iterator[str]:
    if not found.suggestions:
        return
    yield ""
    yield "# Lines of one shape that no format knows: what fits goes into trainmon.toml."
    for each in found.suggestions:
        yield ""
        yield f"# {each.count:,} lines such as: {each.example}"
        yield f"# gives {', '.join(f'{name} {value}' for name, value in each.fields.items())}"
        yield each.toml()
