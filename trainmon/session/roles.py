"""The role of each error of a run in words: the probable cause, what follows it, what stands for itself."""

from __future__ import annotations

from collections.abc import Iterable

from trainmon.catalogue import Catalogue
from trainmon.session.errors import ErrorGroup

CAUSE = "probable cause"


def role_words(groups: Iterable[ErrorGroup], catalogue: Catalogue) -> dict[str, str]:
    """Role by the group's key: the first fatal one is the cause, what its entry lists as consequences follows it."""
    ordered = sorted(groups, key=lambda group: group.sort_key)
    cause = next((group for group in ordered if group.priority == 1), None)
    follows = set(catalogue.consequences(cause.code)) if cause is not None else set()
    roles: dict[str, str] = {}
    for group in ordered:
        if group is cause:
            roles[group.key] = CAUSE
        elif cause is not None and group.code in follows:
            roles[group.key] = f"follows {cause.code}"
        else:
            roles[group.key] = "its own" if group.priority < 3 else "warning"
    return roles
