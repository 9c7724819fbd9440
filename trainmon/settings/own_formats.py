"""`[[format]]` of a configuration file: formats of one's own, each problem with its file, line and key."""

from __future__ import annotations

import re
from pathlib import Path

from trainmon.parsing.custom import OwnFormat, build
from trainmon.settings.load import Origin

MOST = 100
"""Formats of one file."""
_HEADER = re.compile(r"\s*(\[\[?)\s*format\s*(?:\.\s*([\w-]+)\s*)?\]")
_OTHER = re.compile(r"\s*\[")
_ASSIGNMENT = re.compile(r"\s*([A-Za-z0-9_-]+)\s*[=.]")


def read_formats(
    path: Path,
    content: object,
    text: str,
    formats: dict[str, OwnFormat],
    origins: dict[tuple[str, str], Origin],
    problems: list[str],
) -> None:
    """Read the formats of one file; one of a stronger file replaces one of the same name and is tried first.

    Args:
        path: The file; text: what stands in it.
        content: What its key `format` holds.
        formats: Those of weaker files, by name; the new ones are put in front.
        origins: Told where each stands.
        problems: Told what is wrong.
    """
    if not isinstance(content, list) or not all(isinstance(each, dict) for each in content):
        problems.append(f"{path}: [format] should be written [[format]], one for each format")
        return
    if len(content) > MOST:
        problems.append(f"{path}: more than {MOST} formats")
        return
    places = _places(text)
    found: dict[str, OwnFormat] = {}
    for number, data in enumerate(content):
        lines = places[number] if number < len(places) else {}
        format_, wrong = build(data)
        shown = f'format "{data["name"]}"' if isinstance(data.get("name"), str) else f"format {number + 1}"
        for key, words in wrong:
            line = lines.get(key, lines.get(""))
            problems.append(f"{path}{f', line {line}' if line else ''}: {key} of {shown} {words}")
        if format_ is None:
            continue
        line = lines.get("")
        if format_.name in found:
            problems.append(f"{path}{f', line {line}' if line else ''}: {shown} stands there twice")
        found[format_.name] = format_
        origins["format", format_.name] = Origin(data, f"{path}, line {line}" if line else str(path))
    weaker = {name: format_ for name, format_ in formats.items() if name not in found}
    formats.clear()
    formats.update(found)
    formats.update(weaker)


def _places(text: str) -> list[dict[str, int]]:
    """For each format, where its keys stand, as far as it can be seen without a parser; "" is its head."""
    found: list[dict[str, int]] = []
    inside = False
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            inside = True
            if header[2] is None:
                found.append({"": number})
            elif found:
                found[-1].setdefault(header[2], number)
                inside = False
        elif _OTHER.match(line):
            inside = False
        elif inside and found and (assignment := _ASSIGNMENT.match(line)):
            found[-1].setdefault(assignment[1], number)
    return found
