"""All formats that are in force: one's own from the configuration, those of installed packages, the built-in ones.

A package offers formats by an entry point in the group `trainmon.formats`. Only packages that are *installed* are
asked: metadata in the working folder, which may be somebody else's, is not looked at, whatever `sys.path` says.
"""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from importlib.metadata import Distribution, EntryPoint, distributions
from pathlib import Path
from typing import Any

from trainmon.parsing.custom import OWN, OwnFormat, build
from trainmon.parsing.formats import Format, builtin
from trainmon.settings.model import Settings

GROUP = "trainmon.formats"
_MOST = 200

Tell = Callable[[str], None]
"""Takes one calm line about something that was left out."""


def known_formats(settings: Settings, tell: Tell = lambda _text: None) -> tuple[Format, ...]:
    """The formats in the order in which they are tried. One of one's own replaces another of the same name.

    Args:
        tell: Told of plug-ins that are left out, now, and of patterns that are switched off, later.
    """
    own: dict[str, OwnFormat] = {format_.name: format_ for format_ in settings.formats}
    found, problems = installed_formats() if settings.plugins else ((), ())
    for problem in problems:
        tell(problem)
    for format_ in found:
        own.setdefault(format_.name, format_)
    for format_ in own.values():
        for pattern in format_.patterns:
            pattern.tell = tell
        if isinstance(format_.read, _Careful):
            format_.read.tell = tell
    return (*own.values(), *(format_ for format_ in builtin() if format_.name not in own))


@lru_cache(maxsize=1)
def installed_formats() -> tuple[tuple[OwnFormat, ...], tuple[str, ...]]:
    """The formats of plug-ins, and a line on each that was left out."""
    found: list[OwnFormat] = []
    problems: list[str] = []
    for point, owner in _points():
        label = f'plug-in "{point.name}" of {owner}'
        try:
            for thing in _things(_loaded(point)):
                format_, wrong = _format_of(thing, point.name)
                if format_ is None:
                    problems += [f"{label} is left out: {key} {text}" for key, text in wrong]
                else:
                    found.append(format_)
        except Exception as error:  # somebody else's code: whatever it does, our work goes on
            reason = str(error).strip().splitlines()[:1]
            problems.append(f"{label} is left out: {type(error).__name__}{': ' + reason[0][:200] if reason else ''}")
        except SystemExit:
            problems.append(f"{label} is left out: it wanted to end the program")
    return tuple(found), tuple(problems)


def _points() -> Iterator[tuple[EntryPoint, str]]:
    count = 0
    for distribution in distributions(path=_installed_places()):
        try:
            points = [point for point in distribution.entry_points if point.group == GROUP]
        except Exception:  # metadata that is broken is none
            continue
        for point in points:
            count += 1
            if count <= _MOST:
                yield point, _name_of(distribution)


def _name_of(distribution: Distribution) -> str:
    try:
        return f"{distribution.metadata['Name']} {distribution.version}"
    except Exception:
        return "a package without a name"


def _installed_places() -> list[str]:
    """Where packages are installed, of what Python imports from: never the working folder."""
    places = {sysconfig.get_path(name) for name in ("purelib", "platlib")}
    places.update(site.getsitepackages())
    if site.ENABLE_USER_SITE:
        places.add(site.getusersitepackages())
    real = {os.path.realpath(place) for place in places if place}
    return [path for path in dict.fromkeys(sys.path) if path and os.path.realpath(path) in real]


def _loaded(point: EntryPoint) -> Any:
    """The object of an entry point, imported without the working folder, where a module of its name may lie."""
    before = list(sys.path)
    here = os.path.realpath(os.curdir)
    sys.path[:] = [path for path in before if path and os.path.realpath(path) != here]
    try:
        return point.load()
    finally:
        sys.path[:] = before


def _things(thing: Any) -> Iterator[Any]:
    """What an entry point gives: a table, the text or the path of a TOML file, a function, or several of these."""
    if isinstance(thing, list | tuple):
        for each in thing:
            yield from _things(each)
    elif isinstance(thing, Path):
        yield from _things(thing.read_text("utf-8"))
    elif isinstance(thing, str):
        import tomllib

        data = tomllib.loads(thing)
        yield from data["format"] if isinstance(data.get("format"), list) else [data]
    else:
        yield thing


def _format_of(thing: Any, name: str) -> tuple[OwnFormat | None, list[tuple[str, str]]]:
    if isinstance(thing, Mapping):
        return build({"name": name, **thing}, origin=f"plug-in {name}")
    if callable(thing):
        title = next(iter((getattr(thing, "__doc__", None) or name).strip().splitlines()), name)
        needs = getattr(thing, "needs", ())
        needs = (needs,) if isinstance(needs, str) else tuple(str(each) for each in needs)
        label = f'plug-in "{name}"'
        return OwnFormat(
            name=name, title=title, engine=OWN, order=-1, origin=f"plug-in {name}", needs=needs,
            read=_Careful(thing, label),
        ), []  # fmt: skip
    return None, [("it", f"gives a {type(thing).__name__}, which is no format")]


class _Careful:
    """A plug-in's function. When it raises, it is left out from then on, and that is said once."""

    def __init__(self, read: Callable[[str], Any], label: str) -> None:
        self._read = read
        self._label = label
        self._off = False
        self.tell: Tell = lambda _text: None

    def __call__(self, line: str) -> Mapping[str, object] | None:
        if self._off:
            return None
        try:
            found = self._read(line)
            if found is None or isinstance(found, Mapping):
                return found
            problem = f"it gave a {type(found).__name__} instead of a dict"
        except Exception as error:
            reason = str(error).strip().splitlines()[:1]
            problem = f"{type(error).__name__}{': ' + reason[0][:200] if reason else ''}"
        self._off = True
        self.tell(f"{self._label} is left out from now on: {problem}")
        return None
