"""Keras and `tf.keras`: `Epoch 3/14`, and under it a bar that is redrawn until the epoch has its values."""

from __future__ import annotations

import re

from trainmon.parsing.line import Line, Row

_EPOCH = re.compile(r"Epoch (?P<epoch>\d+)/(?P<total>\d+)\s*$")
_STATE = re.compile(
    r"\s*(?P<n>\d+)/(?P<total>\d+|Unknown)\s"
    r"(?=[^\w]|\d+m?s|.{0,80}?(?:ETA: |step - |epoch - | - \d+s))"
    r".{0,200}?(?P<pairs>(?:\s-\s[A-Za-z_][\w /.-]{0,60}: [-+\w.]+)+)\s*$"
)
_PACE = re.compile(r"(?P<time>[\d.]+)(?P<unit>us|µs|ms|s)/(?:step|sample)")
_BEHIND = re.compile(r"(?:\s-\s[\d.]+(?:us|µs|ms|s)/(?:epoch|step|sample))+\s*$")
_PAIR = re.compile(r" - (?!ETA)([A-Za-z_][\w /.-]{0,60}): ([-+\w.]+)")


class Keras:
    """The epochs of one file."""

    openers: tuple[str, ...] = ("Epoch ", "/step - ", "/epoch - ", "/sample - ", "ETA: ")

    def __init__(self) -> None:
        self.open = False
        self._epoch: dict[str, object] = {}
        self._held: tuple[Row, int] | None = None
        self._idle = 0
        self._told: tuple[object, object] | None = None

    def line(self, line: Line) -> list[Row] | None:
        """See `Group`."""
        text = line.message
        if (match := _EPOCH.match(text)) is not None:
            rows = self.close()
            self._epoch = {"epoch": match["epoch"], "total_epochs": match["total"]}
            self.open, self._idle = True, 0
            return rows
        match = _STATE.match(_BEHIND.sub("", text)) if len(text) < 2000 else None
        if match is None:
            if self.open:
                self._idle += 1
                self.open = self._idle < 400
            return None
        if not self._epoch and "/step" not in text and "/epoch" not in text and "ETA" not in text:
            return None
        self._idle = 0
        n = int(match["n"])
        total = int(match["total"]) if match["total"] != "Unknown" else 0
        if total and n < total:
            return []  # means over a part of the epoch
        pairs: dict[str, object] = dict(self._epoch)
        pairs.update(_PAIR.findall(match["pairs"]))
        if pace := _PACE.search(text):
            pairs["step_time"] = pace["time"] + pace["unit"]
        if total:
            pairs["epoch_step"], pairs["steps_per_epoch"] = n, total
        again = self._told == (line.prefix.rank, pairs.get("epoch")) and self._held is None
        held, self._held = self._held, None
        if again or (held is not None and held[1] != line.number and self._epoch):
            # the epoch has its values: this is `model.evaluate`
            rows = [held[0]] if held is not None else []
            self._told = (line.prefix.rank, pairs.get("epoch"))
            for name in ("epoch_step", "steps_per_epoch", "total_epochs"):
                pairs.pop(name, None)
            return [*rows, Row(pairs, "keras", line.number, line.offset, line.prefix, "eval")]
        self._held = (Row(pairs, "keras", line.number, line.offset, line.prefix, "metrics", first_epoch=1), line.number)
        return [held[0]] if held is not None and held[1] != line.number else []

    def close(self) -> list[Row]:
        """See `Group`."""
        held, self._held = self._held, None
        if held is None:
            return []
        self._told = (held[0].prefix.rank, held[0].pairs.get("epoch"))
        return [held[0]]

    def lost(self) -> None:
        """See `Group`."""
        self._held = None
