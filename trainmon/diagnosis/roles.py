"""Which error is the probable cause, which ones follow from it: the simple rule.

The first fatal error that is not "usually a symptom" is the probable cause. What its catalogue entry lists as
consequences, directly or through others, and came after it follows it. The rest stands on its own. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

CAUSE = "probable cause"
OWN = "its own"
WARNING = "warning"

SLACK_S = 60.0
"""Clocks of nodes differ and peers print first: a symptom this many seconds before its cause still follows it."""


@dataclass(frozen=True, slots=True)
class ErrorGroup:
    """One error code, however many lines.

    Attributes:
        code: Its code.
        priority: 1 fatal, 2 blocking, 3 warning.
        order: The place at which it was first met, in reading order; breaks ties and stands in for missing times.
        first: Unix seconds of its first line; None when the log has no times.
        is_usually: "root_cause" or "symptom", from the catalogue.
        node, rank: Where it was first met.
    """

    code: str
    priority: int
    order: int
    first: float | None = None
    is_usually: str = "root_cause"
    node: str | None = None
    rank: int | None = None

    @property
    def is_root(self) -> bool:
        """Whether it can explain others (a warning cannot)."""
        return self.is_usually != "symptom" and self.priority <= 2


def closure(code: str, consequences: Callable[[str], Iterable[str]]) -> frozenset[str]:
    """Every code that can follow `code`, directly or through others; never `code` itself."""
    found: set[str] = set()
    waiting = [code]
    while waiting:
        for following in consequences(waiting.pop()):
            if following not in found and following != code:
                found.add(following)
                waiting.append(following)
    return frozenset(found)


def _times(groups: Sequence[ErrorGroup]) -> list[float | None]:
    """A time for each group: its own, else that of the group met before it (or else after it) on the same node."""
    times: list[float | None] = [None] * len(groups)
    reading = sorted(range(len(groups)), key=lambda place: (groups[place].order, place))
    for direction in (reading, list(reversed(reading))):
        last: dict[str | None, float] = {}
        for place in direction:
            own = groups[place].first if groups[place].first is not None else times[place]
            if own is None:
                own = last.get(groups[place].node)
            if own is not None:
                times[place] = own
                last[groups[place].node] = own
    return times


def assign_roles(groups: Sequence[ErrorGroup], consequences: Callable[[str], Iterable[str]]) -> list[str]:
    """The role of each group, in the words of `ErrorView.role`.

    Args:
        groups: In any order; the answer keeps it.
        consequences: From a code to the codes that its entry lists, e.g. `Catalogue.consequences`.

    Returns:
        "probable cause" for at most one of them, "follows CODE", "its own", or "warning" for level 3.
    """
    times = _times(groups)
    known = [time for time in times if time is not None]
    latest = max(known, default=0.0)
    # Without any time a group counts as the newest: nothing may follow from what cannot be placed before it.
    order = sorted(
        (place for place in range(len(groups)) if groups[place].priority <= 2),
        key=lambda place: (latest if times[place] is None else times[place], groups[place].order, place),
    )
    rank = {place: number for number, place in enumerate(order)}
    reach = {place: closure(groups[place].code, consequences) for place in order if groups[place].is_root}

    def near(early: int, late: int) -> bool:
        one, other = times[early], times[late]
        return one is None or other is None or other - one <= SLACK_S

    def follows(place: int, cause: int) -> bool:
        if groups[place].code not in reach.get(cause, ()):
            return False
        # peers often print before the one that failed
        return rank[place] > rank[cause] or (not groups[place].is_root and near(place, cause))

    cause = _cause(groups, order, follows, near, consequences)
    if cause is not None:
        reach.setdefault(cause, closure(groups[cause].code, consequences))
    roles = []
    for place, group in enumerate(groups):
        if group.priority > 2:
            roles.append(WARNING)
        elif place == cause:
            roles.append(CAUSE)
        elif cause is not None and follows(place, cause):
            roles.append(f"follows {groups[cause].code}")
        else:
            # Another failure with its own symptoms: the last one before it that explains it.
            others = [other for other in order if other != place and other in reach and follows(place, other)]
            roles.append(f"follows {groups[others[-1]].code}" if others else OWN)
    return roles


def _cause(
    groups: Sequence[ErrorGroup],
    order: Sequence[int],
    follows: Callable[[int, int], bool],
    near: Callable[[int, int], bool],
    consequences: Callable[[str], Iterable[str]],
) -> int | None:
    fatal = [place for place in order if groups[place].priority == 1]
    if not fatal:
        return None
    for place in fatal:
        if groups[place].is_root:
            return place
    # Only symptoms are fatal: a blocking error that itself names one of them (an unknown exception, broken data).
    for place in order:
        direct = set(consequences(groups[place].code)) if groups[place].is_root else set()
        if any(groups[symptom].code in direct and follows(symptom, place) for symptom in fatal):
            return place
    # Of symptoms, the one that the others come from: a killed worker, not the peer that lost it.
    best = fatal[0]
    for place in fatal[1:]:
        if groups[best].code in consequences(groups[place].code):
            mutual = groups[place].code in consequences(groups[best].code)
            if not mutual and near(best, place):
                best = place
    return best
