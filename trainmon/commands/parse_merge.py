"""`parse --merge`: the records of all sources by time.

Each source is put in order by a bounded buffer first (its writers may interleave a little), then a heap merges them. A
source whose first time is far ahead is opened only when its turn comes, so that a folder of daily logs needs few files
open at once.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from trainmon.errors import SourceError

if TYPE_CHECKING:
    from trainmon.commands.parse_source import Source
    from trainmon.commands.parse_time import Timed
    from trainmon.model import Record

WINDOW = 4096
"""Records of one source that are held to put them in order; with many sources, fewer each."""
_ALL_WINDOWS = 200_000
_BATCH = 500
_EARLY_S = 300.0
"""A source is opened so long (by the times in the logs) before its first line's time: it may not be its earliest."""


def merged(
    names: list[str],
    open_: Callable[[str], Source | None],
    timed: Callable[[Source], Iterable[list[Timed]]],
    failed: Callable[[SourceError], None],
    start_of: Callable[[str], float | None],
) -> Iterator[list[Record]]:
    """The records of all sources in the order of their times; of one time, in the order of the sources and lines.

    Args:
        open_: Opens a source; None: nothing of it is wanted.
        timed: Its records with their times.
        failed: Told of a source that cannot be read (on); the others go on.
        start_of: The first time of a source, None when only reading it tells.
    """
    window = max(64, min(WINDOW, _ALL_WINDOWS // max(1, len(names))))
    streams: dict[int, Iterator[Timed]] = {}
    heap: list[tuple[float, int, Record | None]] = []
    for place, name in enumerate(names):
        streams[place] = _stream(name, open_, timed, failed, window)
        begins = start_of(name)
        if begins is None:
            _next(heap, streams, place)
        else:
            heap.append((begins - _EARLY_S, place, None))
    heapq.heapify(heap)
    out: list[Record] = []
    while heap:
        _, place, record = heapq.heappop(heap)
        if record is not None:
            out.append(record)
            if len(out) >= _BATCH:
                yield out
                out = []
        _next(heap, streams, place)
    yield out


def _next(heap: list[tuple[float, int, Record | None]], streams: dict[int, Iterator[Timed]], place: int) -> None:
    """Put the next record of a source on the heap."""
    item = next(streams[place], None)
    if item is None:
        del streams[place]
    else:
        heapq.heappush(heap, (item[0], place, item[1]))


def _stream(
    name: str,
    open_: Callable[[str], Source | None],
    timed: Callable[[Source], Iterable[list[Timed]]],
    failed: Callable[[SourceError], None],
    window: int,
) -> Iterator[Timed]:
    try:
        source = open_(name)
        if source is None:
            return
        try:
            yield from in_order(timed(source), window)
        finally:
            source.close()
    except SourceError as error:
        failed(error)


def in_order(batches: Iterable[list[Timed]], window: int) -> Iterator[Timed]:
    """Records by time, as far as each stands within `window` records of its place. Equal times keep their order."""
    heap: list[tuple[float, int, Record]] = []
    count = 0
    for batch in batches:
        for when, record in batch:
            count += 1
            item = (when, count, record)
            if len(heap) < window:
                heapq.heappush(heap, item)
            else:
                when, _, record = heapq.heappushpop(heap, item)
                yield when, record
    while heap:
        when, _, record = heapq.heappop(heap)
        yield when, record
