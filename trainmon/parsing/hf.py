"""Hugging Face Trainer: dictionaries whose step stands only in the progress bar beside them.

The bar drawn before a dictionary is often stale (tqdm redraws at intervals), the first one drawn after it is right. So
a record is held until the next bar of the training shows, and the epoch is the check and the fallback.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from trainmon.model import Record

_BAR = re.compile(rb"\d{1,3}%\|[^|\r\n]{0,1200}\|\s{0,8}(\d+)/(\d+)\s{0,8}\[[^\]\r\n]{0,600}\]")
_NAMELESS = re.compile(rb"(?:\[[\w.:]+\]:?\s*)*(?:\d{1,5}: )?(?:Train(?:ing)?:?)?\s*$")
PAIRS = re.compile(
    r"'((?:[^'\\]|\\.){1,200})':\s*(?:'((?:[^'\\]|\\.){0,500})'|\"([^\"]{0,500})\"|([^,{}\[\]'\"]{1,100})|(\[[^\[\]]{0,2000}\]))"
)


def pairs(text: str) -> dict[str, str]:
    """Keys and values of a Python dictionary as printed; `nan` and strings in quotes alike."""
    return {match[0]: match[1] or match[2] or match[3].strip() or match[4] for match in PAIRS.findall(text)}


def find_bar(data: bytes, at: int = 0) -> re.Match[bytes] | None:
    """The next whole progress bar at or after `at`: `12%|#  | 5/40 [00:00<00:02, 12.2it/s]`."""
    while (middle := data.find(b"%|", at)) >= 0:
        start = middle
        while start > at and middle - start < 3 and 48 <= data[start - 1] <= 57:
            start -= 1
        if match := _BAR.match(data, start):
            return match
        at = middle + 2
    return None


def bar(data: bytes) -> tuple[int, int, bytes] | None:
    """Counter, total and description of a progress bar; None when there is none."""
    match = find_bar(data)
    if match is None or len(match[1]) > 15 or len(match[2]) > 15:
        return None
    return int(match[1]), int(match[2]), data[max(0, match.start() - 120) : match.start()]


_STEP_BEFORE = re.compile(
    r"(?:^|[\s\]])(?:global[ _])?(?:step|iteration|iter|rollout|perf|update|round)[ :=]+(\d+)", re.IGNORECASE
)


def step_before(text: str) -> int | None:
    """The step in what stands before a dictionary: `model.py:665 - step 271: {...}`."""
    match = _STEP_BEFORE.search(text)
    return int(match[1]) if match and len(match[1]) < 16 else None


def believable(names: frozenset[str]) -> bool:
    """True for a dictionary that is a report of the training and no configuration."""
    return (
        any("loss" in name or name in ("reward", "step") or name.startswith("eval_") for name in names)
        or "train_runtime" in names
    )


@dataclass(slots=True)
class Bars:
    """The training's own progress bar, told apart from evaluation and loading bars, and what waits for it.

    Attributes:
        total: Steps of the training, from a banner or the bar.
        per_epoch: Steps of an epoch, from a banner.
        epochs: Epochs of the training, from a banner; 0 when unknown.
        held: The record that waits for its step, and what came after it.
        hoped: Whether a report has waited for the first bar.
        reached: Counter and total of the training's bar when it was last asked for.
    """

    total: int | None = None
    per_epoch: float | None = None
    epochs: int = 0
    last: bytes = b""
    held: list[Record] = field(default_factory=list)
    seen_since: bool = True
    hoped: bool = False
    reached: tuple[int, int] | None = None

    def progress(self, newest: bytes) -> tuple[int, int] | None:
        """Counter and total that the training's own bar showed last: it goes on between two dictionaries.

        Args:
            newest: The newest line, whole or not: the bar that stands there has no end yet.
        """
        found = bar(newest) or (bar(self.last) if self.last else None)
        if found and _NAMELESS.match(found[2]) and 0 <= found[0] <= found[1]:
            told = self.total or (self.reached[1] if self.reached else 0)
            # Until its length is known, the longest bar without a name is the training's.
            if found[1] == self.total or (self.total is None and found[1] >= max(told, 1)):
                self.reached = found[0], found[1]
        return self.reached if self.total is None or (self.reached and self.reached[1] == self.total) else None

    def draw(self, data: bytes) -> bool:
        """A bar was drawn. True when that gave the held record its step."""
        self.last = data
        self.seen_since = True
        return self.resolve(data) if self.held else False

    def resolve(self, data: bytes) -> bool:
        """Give the held record the step of this bar, when it is the training's."""
        found = bar(data)
        if found is None or found[1] != self.total or not _NAMELESS.match(found[2]):
            return False
        self._settle(found[0])
        return True

    def hold(self, record: Record) -> bool:
        """True when the record should wait for a bar; else its step is what can be told without one."""
        if "step" in record.values:
            return False
        if record.kind == "metrics" and self.total is None and self.last:
            found = bar(self.last)
            if found and _NAMELESS.match(found[2]):
                self.total = found[1]
        hopes, self.hoped = not self.last and not self.hoped, True  # the first bar may come after the first report
        if self.total is None or not (self.last or hopes) or not self.seen_since:
            self._settle_one(record, None)
            return False
        self.seen_since = False
        self.held.append(record)
        return True

    def release(self) -> list[Record]:
        """What is held, its step told without a bar."""
        if self.held:
            self._settle(None)
        return self.take()

    def take(self) -> list[Record]:
        """What is held, as it is."""
        held, self.held = self.held, []
        return held

    def restarted(self) -> None:
        """A training ended here: the next may have another length."""
        self.total = self.per_epoch = self.reached = None
        self.last = b""
        self.seen_since = True

    def _settle(self, n: int | None) -> None:
        self._settle_one(self.held[0], n)

    def _settle_one(self, record: Record, n: int | None) -> None:
        epoch = record.values.get("epoch")
        told = self._from_epoch(float(epoch)) if isinstance(epoch, (int, float)) else None
        step = told if n is None or (told is not None and abs(n - told) > 1) else n
        if step is not None:
            record.values["step"] = step
        if self.total:
            record.values.setdefault("total_steps", self.total)

    def _from_epoch(self, epoch: float) -> int | None:
        """The step at that epoch, when the epoch is printed finely enough to tell one step from the next."""
        if self.per_epoch is None or not 0 <= epoch < 1e6:
            return None
        digits = 4 - len(str(int(epoch))) if epoch >= 1 else 4
        resolution = 10.0 ** -max(digits, 2) if repr(epoch) != f"{epoch:.2f}".rstrip("0") else 0.01
        steps = epoch * self.per_epoch
        slack = 0.5 * resolution * self.per_epoch
        if slack >= 0.5 or abs(steps - round(steps)) > slack + 0.02:
            return None
        return round(steps)


_BANNER = re.compile(
    r"(?:Total optimization steps|Total (?:training )?steps|max_(?:train_)?(?:iters|steps)|train_iters|total steps"
    r"|num_training_steps|Total Generation Batches|总步数)"
    r"(?: \.+)?\s*[:= ]\s*(\d[\d,]{0,17})"
)
_PER_EPOCH = re.compile(r"Num update steps per epoch\s*=\s*(\d[\d,]{0,17})")
_EPOCHS = re.compile(r"Num Epochs = (\d{1,15})")


def banner(text: str) -> tuple[str, int] | None:
    """A total that stands in a banner or a configuration dump: ("total" | "per_epoch" | "epochs", number)."""
    for name, pattern in (("total", _BANNER), ("per_epoch", _PER_EPOCH), ("epochs", _EPOCHS)):
        if match := pattern.search(text):
            number = int(match[1].replace(",", ""))
            return (name, number) if 0 < number < 2**53 else None
    return None
