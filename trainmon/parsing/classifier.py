"""What parsing asks of the error catalogue, which it does not know itself."""

from __future__ import annotations

from typing import Protocol


class Hit(Protocol):
    """What a classifier says of an error."""

    @property
    def code(self) -> str: ...
    @property
    def priority(self) -> int: ...


class Classifier(Protocol):
    """Knows errors by their words."""

    def might_match(self, line: bytes, /) -> bool:
        """False when no line of these bytes can be a known error."""
        ...

    def classify(self, text: str, level: str | None, /) -> Hit | None:
        """The error that a line is, or None."""
        ...
