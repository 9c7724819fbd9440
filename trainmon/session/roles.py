"""The role of each error of a run in words: the probable cause, what follows it, what stands for itself."""

from __future__ import annotations

from trainmon.catalogue import Catalogue
from trainmon.diagnosis import roles
from trainmon.session.errors import ErrorBook, ErrorGroup

CAUSE = roles.CAUSE


def role_words(book: ErrorBook, catalogue: Catalogue) -> dict[str, str]:
    """Role by the group's key; computed anew only when the book changed.

    Errors after which the run went on explain nothing that came later.
    """
    if book.roles_at != book.shape:
        groups = list(book)
        now = [group for group in groups if not group.over]
        before = [group for group in groups if group.over]
        if any(group.priority == 1 for group in now):
            words = _assign(before, catalogue)
            book.roles = {key: roles.OWN if word == CAUSE else word for key, word in words.items()}
            book.roles |= _assign(now, catalogue)
        else:
            book.roles = _assign(groups, catalogue)
        book.roles_at = book.shape
    return book.roles


def _assign(groups: list[ErrorGroup], catalogue: Catalogue) -> dict[str, str]:
    told = [
        roles.ErrorGroup(
            code=group.code,
            priority=group.priority,
            order=group.order,
            first=group.lead.at,
            is_usually=entry.is_usually if (entry := catalogue.entry(group.code)) is not None else "symptom",
            node=group.lead.node,
            rank=group.lead.rank,
        )
        for group in groups
    ]
    words = roles.assign_roles(told, catalogue.consequences)
    return {group.key: word for group, word in zip(groups, words, strict=True)}
