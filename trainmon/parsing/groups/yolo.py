"""Ultralytics and YOLOv5: the table of an evaluation, `Class Images Instances Box(P R mAP50 mAP50-95)` and its rows."""

from __future__ import annotations

import re

from trainmon.parsing.line import Line, Row

_HEAD = re.compile(
    r"\s*Class\s+Images\s+(?:Instances|Labels|Targets)\s+(?:Box\()?P\s+R\s+(?P<rest>m[A-Za-z0-9@.]+.{0,120})"
)
_ALL = re.compile(r"\s*all\s+\d+\s+\d+\s+(?P<values>[\d.e-]+(?:\s+[\d.e-]+)+)\s*$")
_NAMES = ("eval_precision", "eval_recall", "eval_map50", "eval_map50_95")
_FAR = 20


class Yolo:
    """The evaluations of one file."""

    openers: tuple[str, ...] = ("Images",)

    def __init__(self) -> None:
        self.open = False
        self._left = 0

    def line(self, line: Line) -> list[Row] | None:
        """See `Group`."""
        text = line.message
        if "Class" in text and _HEAD.match(text):
            self.open, self._left = True, _FAR
            return []
        if not self.open:
            return None
        self._left -= 1
        self.open = self._left > 0
        match = _ALL.match(text)
        if match is None:
            return None
        self.open = False
        pairs: dict[str, object] = dict(zip(_NAMES, match["values"].split(), strict=False))
        return [Row(pairs, "yolo", line.number, line.offset, line.prefix, "eval")]

    def close(self) -> list[Row]:
        """See `Group`."""
        return []

    def lost(self) -> None:
        """See `Group`."""
        self.open = False
