"""Blocks: a line that says which step, and under it one value a line (OLMo, Composer, rsl_rl, Coqui TTS)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from trainmon.model import RecordKind
from trainmon.parsing import pairs as reader
from trainmon.parsing.groups.names import RESOLVERS
from trainmon.parsing.line import Line, Row
from trainmon.parsing.names import resolve

_COUNT = r"(?:\d{1,3}(?:,\d{3})+|\d+)"
_HEADS: tuple[tuple[str, tuple[str, ...], re.Pattern[str]], ...] = (
    # OLMo `[step=2/739328]`, OLMo-core `[step=100/2000,epoch=1,eta=5h11m]`
    (
        "olmo",
        ("[step=",),
        re.compile(
            rf"\[step=(?P<step>{_COUNT})(?:/(?P<total_steps>{_COUNT}|\?+))?(?:,epoch=(?P<epoch>\d+))?[^\]]{{0,80}}\]\s*$"
        ),
    ),
    # Composer `[batch=1/100]:`, `[epoch=0][batch=1/100]:`
    (
        "composer",
        ("[batch=", "[token=", "[sample="),
        re.compile(
            r"(?:\[epoch=(?P<epoch>\d+)(?:/(?P<total_epochs>\d+))?\])?"
            r"\[(?P<unit>batch|token|sample)=(?P<step>[\d,]+)(?:/(?P<total_steps>[\d,]+))?\]:?\s*$"
        ),
    ),
    # rsl_rl, legged_gym
    ("rsl_rl", ("Learning iteration ",), re.compile(r"Learning iteration (?P<step>\d+)/(?P<total_steps>\d+)\s*$")),
    ("nemo_rl", ("= Step ",), re.compile(r"=+ Step (?P<step>\d+)/(?P<total_steps>\d+) =+\s*$")),
    (
        "areal",
        (" Train step ",),
        re.compile(
            r"Epoch (?P<epoch>\d+)/(?P<total_epochs>\d+) Step (?P<epoch_step>\d+)/(?P<steps_per_epoch>\d+) "
            r"Train step (?P<step>\d+)/(?P<total_steps>\d+) done"
        ),
    ),
    # Coqui TTS
    (
        "coqui",
        ("--> STEP: ",),
        re.compile(
            r"--> STEP: (?P<epoch_step>\d+)(?:/(?P<steps_per_epoch>\d+))?(?: -- GLOBAL_STEP: (?P<step>\d+))?\s*$"
        ),
    ),
)
"""(format, what stands on every such line, the line)."""
_STEP = re.compile(
    rf"[\s=*#>~-]*(?:global[ _])?(?:step|iteration|iter|update)\s?[:#=]?\s?(?P<step>{_COUNT})"
    rf"(?:\s?(?:/|of)\s?(?P<total_steps>{_COUNT}))?[\s=*#:~-]*$",
    re.IGNORECASE,
)
"""`Step: 100`, and nothing else on the line."""
_SHORT = 60
_PAIR = re.compile(
    r"^(?:\s*(?:\| > |\* |- |• )?|\t+)(?P<key>[^\W\d_][^=:]{0,80}?)\s*[=:]\s*"
    r"(?P<value>[-+]?(?:[\d.]|nan|inf|<)\S*.{0,60})$"
)
_CELLS = re.compile(r"^\s*[│|┃]\s*(?P<key>[^│|┃]{1,100}?)\s*[│|┃]\s*(?P<value>[-+\dni.][^│|┃]{0,40}?)\s*[│|┃]\s*$")
_COMPOSER = re.compile(r"^(?:Train|Eval)\s+")
_RULES = frozenset("-#=*_ ─━═┌┐└┘├┤╔╗╚╝╭╮╰╯┬┴┼│")
_MAX_PAIRS = 400
_MAX_BLOCKS = 32
_STRAY = 3
_STRAYS = {"nemo_rl": 40, "areal": 40}
"""Lines of somebody else's between two lines of a block; programs that tell of each phase between header and values."""


@dataclass(slots=True)
class _Block:
    format: str
    pairs: dict[str, object]
    line: Line
    found: int = 0
    stray: int = 0
    evaluation: bool = False
    written: set[str] = field(default_factory=set)


class Headed:
    """Blocks of one file, by the labels in front of their lines."""

    openers: tuple[str, ...] = (
        "[step=",
        "[batch=",
        "[token=",
        "[sample=",
        "Learning iteration ",
        "--> STEP: ",
        "= Step ",
        " Train step ",
        "tep",
        "teration",
        "STEP",
        "iter",
        "pdate",
    )

    def __init__(self) -> None:
        self.open = False
        self._blocks: dict[tuple[object, ...], _Block] = {}

    def line(self, line: Line) -> list[Row] | None:
        """See `Group`."""
        stream = (line.prefix.rank, line.prefix.local_rank, line.prefix.node)
        if (head := _head(line)) is not None:
            name, begun = head
            rows = self._end(self._open_for(stream))
            found = {key: value for key, value in begun.groupdict().items() if value and "?" not in value}
            found.pop("unit", None)
            if len(self._blocks) >= _MAX_BLOCKS:
                self._blocks.pop(next(iter(self._blocks)))
            self._blocks[stream] = _Block(name, dict(found), line)
            self.open = True
            return rows
        if not self.open:
            return None
        key = self._open_for(stream)
        block = self._blocks.get(key) if key is not None else None
        if block is None or key is None:
            return None
        text = line.body if line.prefix.labels_end else line.text
        bare = text.strip()
        if not bare or _RULES.issuperset(bare):
            return [] if block.format == "rsl_rl" and not bare else None
        # A line with a time or a level of its own begins something new, but where a launcher puts times everywhere.
        own = line.prefix.level is not None or (line.prefix.time is not None and block.line.prefix.time is None)
        own = own and block.format != "areal"
        match = (_PAIR.match(text) or _CELLS.match(text)) if not own else None
        if match is None or (block.format == "olmo" and not text.startswith((" ", "\t"))):
            block.stray += 1
            return self._end(key) or None if block.stray > _STRAYS.get(block.format, _STRAY) or own else None
        name = match["key"].strip()
        if block.format == "composer":
            block.evaluation = block.evaluation or name.startswith("Eval ")
            name = _COMPOSER.sub("", name)
        value = match["value"].strip()
        if value[:1] != "<" and len(block.pairs) < _MAX_PAIRS:
            inner = reader.read(f"{name}={value}") if " " in value else {}
            block.pairs.setdefault(name, next(iter(inner.values()), value))
            block.found += 1
        block.stray = 0
        return []

    def _open_for(self, stream: tuple[object, ...]) -> tuple[object, ...] | None:
        """The block that lines with these labels go on: their own, else the only one (its head had a label more)."""
        if stream in self._blocks:
            return stream
        return next(iter(self._blocks)) if len(self._blocks) == 1 and stream == (None, None, None) else None

    def _end(self, key: tuple[object, ...] | None) -> list[Row]:
        block = self._blocks.pop(key, None) if key is not None else None
        self.open = bool(self._blocks)
        if block is None or not block.found:
            return []
        at = block.line
        kind: RecordKind | None = "eval" if block.evaluation else "metrics"
        if block.format == "step_block":
            kind = None  # its names tell
        return [
            Row(block.pairs, block.format, at.number, at.offset, at.prefix, kind, RESOLVERS.get(block.format, resolve))
        ]

    def close(self) -> list[Row]:
        """See `Group`."""
        return [row for key in list(self._blocks) for row in self._end(key)]

    def lost(self) -> None:
        """See `Group`."""
        self._blocks.clear()
        self.open = False


def _head(line: Line) -> tuple[str, re.Match[str]] | None:
    """The format and the match of a line that begins a block."""
    text = line.text
    for name, literals, pattern in _HEADS:
        for literal in literals:
            if literal in text:
                match = pattern.search(text)
                if match is not None:
                    return name, match
                break
    start = line.prefix.end
    match = _STEP.match(text, start) if len(text) - start <= _SHORT else None
    return ("step_block", match) if match is not None else None
