"""One word for a failure: the alert of a fatal error names the probable cause, as the list of errors does.

The detector calls a failure by the first fatal line that comes in; the cause may arrive later, in another file.
"""

from __future__ import annotations

from dataclasses import replace

from trainmon import units
from trainmon.catalogue import Catalogue
from trainmon.diagnosis.fatal import kind_of
from trainmon.model import Incident
from trainmon.session.errors import UNKNOWN, ErrorBook, ErrorGroup
from trainmon.session.roles import CAUSE, role_words
from trainmon.session.wording import shortened

_STOPPED = "the run has stopped"


def cause_of(book: ErrorBook, catalogue: Catalogue) -> ErrorGroup | None:
    """The probable cause among the errors, if there is a fatal one."""
    if not len(book):
        return None
    roles = role_words(book, catalogue)
    return next((group for group in book if roles.get(group.key) == CAUSE), None)


def is_failure(incident: Incident) -> bool:
    """Whether this is the incident of a fatal error."""
    return incident.key.startswith("fatal:")


def blamed(incident: Incident, book: ErrorBook, catalogue: Catalogue) -> Incident:
    """The incident of a failure in the name of its probable cause, what follows from that in its outlook.

    Args:
        incident: Any incident; those that are over, or are no failure, come back as they are.
    """
    if not is_failure(incident) or incident.end is not None:
        return incident
    cause = cause_of(book, catalogue)
    if cause is None or cause.over:
        return incident
    place = cause.lead
    same = dict(incident.evidence).get("code") == cause.code
    if same and incident.source == place.name and incident.line == (place.line or None):
        return replace(incident, outlook=_outlook(incident, cause, book, catalogue))
    entry = catalogue.entry(cause.code)
    known = cause.code not in UNKNOWN
    what = entry.title if entry is not None and known else cause.message
    what = what[:1].lower() + what[1:] if what[1:2].islower() else what
    step = f" at step {units.count(incident.start_step)}" if incident.start_step is not None else ""
    alone = place.rank is None or place.node == f"rank {place.rank}"
    return replace(
        incident,
        kind=kind_of(cause.code),
        title=cause.code if known else "FATAL ERROR",
        who=place.node if alone else f"{place.node} rank {place.rank}",
        measured=f"{shortened(what, 160)}{step}",
        outlook=_outlook(incident, cause, book, catalogue),
        advice=tuple(entry.fixes) if entry is not None else (),
        node=place.node,
        rank=place.rank,
        gpu=None,
        start=min(incident.start, place.at) if place.at is not None else incident.start,
        evidence=(("code", cause.code), ("message", shortened(cause.message, 400))),
        source=place.name,
        line=place.line or None,
        offset=place.offset,
    )


def _outlook(incident: Incident, cause: ErrorGroup, book: ErrorBook, catalogue: Catalogue) -> str:
    roles = role_words(book, catalogue)
    after = [g for g in book if roles.get(g.key) == f"follows {cause.code}" and not g.over and g.code not in UNKNOWN]
    after.sort(key=lambda group: (-group.lines, group.order))
    parts = [_STOPPED] if incident.outlook.startswith(_STOPPED) else []
    parts += [f"then {g.code}" + (f" ×{g.lines:,}" if g.lines > 1 else "") for g in after[:2]]
    return "; ".join(parts)
