"""The role of each error of a run in words: the probable cause, what follows it, what stands for itself."""

from __future__ import annotations

from collections.abc import Iterable

from trainmon.session.errors import ErrorGroup


def role_words(groups: Iterable[ErrorGroup]) -> dict[str, str]:
    """Role by the group's key."""
    raise NotImplementedError
