"""Boxed tables of two columns, one a step: Stable-Baselines3, and what else prints `| key | value |` between rules."""

from __future__ import annotations

from trainmon.model import RecordKind
from trainmon.parsing.line import Line, Row
from trainmon.parsing.names import Slot, resolve

_RULE = frozenset("-+=─━═┌┐└┘├┤╔╗╚╝╭╮╰╯┬┴ ")
_MAX_ROWS = 200
_MAX_BOXES = 16
_NAMES = {
    "total_timesteps": "step",
    "time_elapsed": "elapsed",
    "ep_rew_mean": "reward",
    "mean_reward": "reward",
    "mean 100 episode reward": "reward",
    "TotalEnvInteracts": "step",
    "AverageEpRet": "reward",
    "LossPi": "policy_loss",
    "LossV": "value_loss",
    "Time": "elapsed",
    "fps": "fps",
    "n_updates": "n_updates",
    "iterations": "iterations",
}


def _resolve(key: str) -> Slot:
    return resolve(_NAMES.get(key, key))


class Boxes:
    """Boxes of one file, by the labels in front of their lines."""

    openers: tuple[str, ...] = ("--------", "────")

    def __init__(self) -> None:
        self.open = False
        self._boxes: dict[tuple[object, ...], tuple[dict[str, object], str]] = {}

    def line(self, line: Line) -> list[Row] | None:
        """See `Group`."""
        text = line.body.strip()
        stream = (line.prefix.rank, line.prefix.local_rank, line.prefix.node)
        if len(text) >= 12 and _RULE.issuperset(text):
            box = self._boxes.pop(stream, None)
            if len(self._boxes) >= _MAX_BOXES:
                self._boxes.pop(next(iter(self._boxes)))
            self._boxes[stream] = ({}, "")
            self.open = True
            # A rule belongs to others, too: it is ours when it ends a box.
            return self._made(box[0], line) if box is not None and box[0] else None
        box = self._boxes.get(stream)
        if box is None:
            return None
        cells = [cell.strip() for cell in text.strip("|│┃║").split("|")] if text[:1] in "|│┃║" and text else []
        if len(cells) == 1 and text[:1] in "│┃║":
            cells = [cell.strip() for cell in text.strip("│┃║").replace("┃", "│").replace("║", "│").split("│")]
        pairs, section = box
        if len(cells) != 2 or len(pairs) > _MAX_ROWS or not cells[0]:
            del self._boxes[stream]
            self.open = bool(self._boxes)
            return None
        key, value = cells
        if not value:
            self._boxes[stream] = (pairs, key.rstrip("/"))
        else:
            pairs[f"eval_{key}" if section == "eval" else key] = value
        return []

    def _made(self, pairs: dict[str, object], line: Line) -> list[Row]:
        names = {_resolve(key).name for key in pairs}
        if "step" not in names or len(pairs) < 2:
            return []
        kind: RecordKind | None = "metrics" if "reward" in names or any("loss" in name for name in names) else None
        return [Row(pairs, "boxed", line.number, line.offset, line.prefix, kind, _resolve)]

    def close(self) -> list[Row]:
        """See `Group`."""
        return []

    def lost(self) -> None:
        """See `Group`."""
        self._boxes.clear()
        self.open = False
