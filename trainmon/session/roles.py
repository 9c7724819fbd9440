"""The role of each error of a run in words: the probable cause, what follows it, what stands for itself."""

from __future__ import annotations

from trainmon.catalogue import Catalogue
from trainmon.diagnosis import roles
from trainmon.session.errors import ErrorBook

CAUSE = roles.CAUSE


def role_words(book: ErrorBook, catalogue: Catalogue) -> dict[str, str]:
    """Role by the group's key; computed anew only when the book changed."""
    if book.roles_at != book.revision:
        groups = list(book)
        told = [
            roles.ErrorGroup(
                code=group.code,
                priority=group.priority,
                order=group.order,
                first=group.first.at,
                is_usually=entry.is_usually if (entry := catalogue.entry(group.code)) is not None else "symptom",
                node=group.first.node,
                rank=group.first.rank,
            )
            for group in groups
        ]
        words = roles.assign_roles(told, catalogue.consequences)
        book.roles = {group.key: word for group, word in zip(groups, words, strict=True)}
        book.roles_at = book.revision
    return book.roles
