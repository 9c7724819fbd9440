"""Epochs that are told once, above the lines that belong to them: `Epoch 3/24`, `===== Epoch 3 =====`."""

from __future__ import annotations

import re

_HEAD = re.compile(
    r"[\s=*#>~\-—─]*(?:start(?:ing|ed)? |begin(?:ning)? |training )?epoch\s*[:#]?\s*\[?\s*(?P<epoch>\d{1,9})"
    r"(?:\s*(?:/|of)\s*(?P<total>\d{1,9}))?\s*\]?[\s=*#:.~\-—─]*$",
    re.IGNORECASE,
)
_LONGEST = 160
_SECTION = re.compile(r"\W*(?:test|valid\w*|eval\w*)(?: [a-z]{1,20}){0,3}\s?:\s*$", re.IGNORECASE)
"""A line that begins an evaluation: `Test Error: `."""
_BELOW = 2
_FIRST = re.compile(
    r"\W*(?:(?:train|training|valid|validation|val|test|eval|evaluation|dev|avg|average|mean|epoch|running|final|total)"
    r"(?:[ _-]?set)?[\s_:-]*){0,3}"
    r"(?:loss|acc|accuracy|ppl|perplexity|reward|score|error|bpb|bpc|lr|f1|auc|iou|dice|map)",
    re.IGNORECASE,
)


class Epochs:
    """The epoch that a file told last.

    Attributes:
        before: What lines between the epoch and its loss said, by name: `learning rate: 0.01`.
        head: What stands for it in front of the lines below, as a log would write it; "" before the first.
    """

    __slots__ = ("_section", "before", "head")

    def __init__(self) -> None:
        self.head = ""
        self.before: dict[str, str] = {}
        self._section = -_BELOW - 1

    def evaluating(self, line: int) -> bool:
        """Whether a line stands right below one that begins an evaluation."""
        return 0 < line - self._section <= _BELOW

    def told(self, message: str, line: int) -> bool:
        """Whether a message tells the epoch of what follows.

        Args:
            line: Its number in the file.
        """
        if message.rstrip()[-1:] == ":" and _SECTION.match(message):
            self._section = line
            return True
        if len(message) > _LONGEST or (match := _HEAD.match(message)) is None:
            return False
        self.before = {}
        self.head = f"epoch: {match['epoch']}" + (f"/{match['total']} | " if match["total"] else " | ")
        return True

    def belongs(self, message: str) -> bool:
        """Whether a line without a counter tells the values of that epoch: it begins with one."""
        return bool(self.head) and _FIRST.match(message) is not None
