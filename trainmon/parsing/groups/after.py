"""A value whose step stands on a line before it: evaluations that are announced, and what DeepSpeed-Chat adds."""

from __future__ import annotations

import re

from trainmon.parsing import pairs as reader
from trainmon.parsing.line import Line, Row

_ANNOUNCED = re.compile(
    r"(?:evaluat|validat)\w{0,12}.{0,80}?epoch\s+(?P<epoch>\d+)\s*/\s*(?P<total>\d+)", re.IGNORECASE
)
_ALONE = re.compile(
    r"\s*(?P<key>ppl|perplexity|(?:val|eval|test)?[ _]?(?:loss|accuracy|acc|ppl|perplexity))\s*[:=]\s*"
    r"(?P<value>[-+]?(?:\d[\d.]*(?:e[-+]?\d+)?|nan|inf))(?:\s*,\s*loss: (?P<loss>\S+))?\s*$",
    re.IGNORECASE,
)
_CHAT = re.compile(r"epoch: (?P<epoch>\d+)\s?\|\s?step: (?P<step>\d+)\s?\|\s?ppo_ep: ?\d+\s?\|")
_SCORE = re.compile(r"\s*average reward score: (?P<reward>[-+\w.]+)")
_LATENCY = re.compile(r"\|E2E latency=(?P<e2e>[\d.]+s)")
_SAMPLES = re.compile(r"\|CurSamplesPerSec=(?P<samples>[\d.]+)")
_BEST = re.compile(r"\[\d+\]\t")
"""LightGBM tells the best round once more."""
_FAR = 12
"""Lines between a step and what is said of it."""


class After:
    """What lines say of a step that was named shortly before."""

    openers: tuple[str, ...] = (
        "best iteration is",
        "valuat",
        "alidat",
        "|ppo_ep:",
        "| ppo_ep:",
        "average reward score",
        "|E2E latency",
    )

    def __init__(self) -> None:
        self.open = False
        self._epoch: dict[str, object] = {}
        self._announced = self._best = 0
        self._step: dict[str, object] = {}
        self._at: Line | None = None

    def line(self, line: Line) -> list[Row] | None:
        """See `Group`."""
        text = line.text
        if "best iteration is" in text:
            self._best, self.open = line.number, True
            return None
        if self._best:
            told, self._best = line.number - self._best <= 2, 0
            self.open = self._at is not None or self._announced > 0
            if told and _BEST.match(line.message):
                return []
        if "ppo_ep" in text and _CHAT.search(text):
            rows = self._told()
            self._step, self._at = dict(reader.read(line.message)), line
            self.open = True
            return rows
        if self._at is not None:
            if line.number - self._at.number > _FAR:
                return self._told() or None
            if (found := self._chat(text)) is not None:
                return found
        if match := _ANNOUNCED.search(text[:400]):
            self._epoch = {"epoch": match["epoch"], "total_epochs": match["total"]}
            self._announced, self.open = line.number, True
            return None
        if self.open:
            if line.number - self._announced > _FAR:
                self._announced, self.open = 0, self._at is not None
            elif match := _ALONE.match(line.message):
                key = match["key"].lower()
                name = key if key.startswith(("val", "eval", "test")) else f"eval_{key}"
                pairs: dict[str, object] = {**self._epoch, name: match["value"]}
                if match["loss"]:
                    pairs["eval_loss"] = match["loss"]
                return [Row(pairs, "evaluation", line.number, line.offset, line.prefix, "eval")]
        return None

    def _chat(self, text: str) -> list[Row] | None:
        """What belongs to the step before: None when this line does not; the latency is its last line."""
        if match := _SCORE.match(text):
            self._step["reward"] = match["reward"]
            return []
        if match := _LATENCY.search(text):
            self._step["e2e_latency"] = match["e2e"]
            if match := _SAMPLES.search(text):
                self._step["samples_per_second"] = match["samples"]
            return self._told()
        return None

    def _told(self) -> list[Row]:
        at, self._at = self._at, None
        self.open = self._announced > 0
        if at is None:
            return []
        return [Row(self._step, "deepspeed_chat", at.number, at.offset, at.prefix, "metrics")]

    def close(self) -> list[Row]:
        """See `Group`."""
        return self._told()

    def lost(self) -> None:
        """See `Group`."""
        self._announced, self._at = 0, None
        self.open = False
