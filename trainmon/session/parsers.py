"""The parsers of a session: each file's with its tags, all with the formats that are in force."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from trainmon.catalogue import Catalogue
from trainmon.clock import Clock
from trainmon.parsing.parser import FileParser
from trainmon.session.run import RunState
from trainmon.settings import Settings
from trainmon.settings.plugins import known_formats


class Parsers:
    """Makes parsers.

    Args:
        runs: The runs that are told, as an event, when a format of one's own has to be left out.
    """

    def __init__(
        self, settings: Settings, catalogue: Catalogue, clock: Clock, runs: Callable[[], Iterable[RunState]]
    ) -> None:
        self._settings = settings
        self._catalogue = catalogue
        self._clock = clock
        self._runs = runs
        self._formats = known_formats(settings, self._tell)

    def __call__(self, name: str, mtime: float, *, numbered: bool = True) -> FileParser:
        """A parser for a file.

        Args:
            name: As the user knows it.
            mtime: Time of its last change, Unix seconds.
            numbered: False when the lines that it is given have no known numbers.
        """
        return FileParser(
            name,
            formats=self._formats,
            tags=self._settings.tags_for(name),
            classify=self._catalogue,
            mtime=mtime,
            numbered=numbered,
        )

    def _tell(self, text: str) -> None:
        for run in self._runs():
            run.events.add("format", text, time=None, now=self._clock.now(), health="warning", mark=text)
            run.dirty.add("events")
