"""Tables under a header: CSV, TSV, Markdown, and columns that are set apart by blanks (fastai, spaCy, skorch, YOLO)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from trainmon.parsing.line import Line, Row
from trainmon.parsing.names import FIELDS, resolve, snake
from trainmon.parsing.plan import lossy
from trainmon.parsing.values import MISSING, simple

_NAME = re.compile(r"(?=.*[^\W\d])[\w #%./@()+*^'-]{1,60}$|#$")
_APART = re.compile(r"[^\W\d][\w./@()%#+-]*(?: [^\W\d][\w./@()%#+-]*){0,2}$|#$")
_RULE = re.compile(r"[\s|+:=\-_─━═┃│┡┩╇┏┓┳┗┛┻┌┐└┘├┤┬┴┼╞╡╪╔╗╚╝╠╣╦╩╬]+$")
_BOX = str.maketrans("│┃║", "|||")
_DECIMAL = re.compile(r"\d[.,]\d|\de[-+]?\d")
_BLANKS = re.compile(r"\s{2,}|\t")
_PERCENT = re.compile(r"\s(\d{1,3})%")
_COUNTERS = frozenset(
    ["#", "step", "steps", "epoch", "epochs", "iter", "iteration", "round", "update", "batch", "e", "tree"]
)
_MAX_CELLS = 200
_MAX_TABLES = 16
_PATIENCE = 300
"""Lines that are none of its rows, after which a table among other text is over."""
_FORMATS = {",": "csv", ";": "csv", "\t": "tsv", "|": "markdown", " ": "columns"}


@dataclass(slots=True)
class _Table:
    """One open table."""

    sign: str
    names: list[str]
    counter: int
    absent: set[int] = field(default_factory=set)
    rows: int = 0
    idle: int = 0
    indexed: bool = False
    held: Row | None = None


def _cells(text: str, sign: str) -> list[str]:
    if sign == " ":
        return _BLANKS.split(text.strip())
    if sign == "|":
        text = text.strip().strip("|")
    cells = text.split(sign, _MAX_CELLS)
    return [cell.strip().strip('"') for cell in cells]


def _sign(text: str) -> str | None:
    """What sets the cells of a header apart."""
    if text.startswith("|") and text.count("|") > 2:
        return "|"
    for sign in ("\t", ",", ";"):
        if text.count(sign) >= (1 if sign != "," else 2):
            return sign
    return " " if len(_BLANKS.split(text)) > 2 else None


def header(text: str) -> tuple[str, list[str], int] | None:
    """The sign, the names and the place of the counter of a header; None when the line is none."""
    if "=" in text or _DECIMAL.search(text):  # a line of values, as almost all are
        return None
    text = text.strip()
    if not 8 <= len(text) <= 4000:
        return None
    sign = _sign(text)
    if sign is None:
        return None
    names = _cells(text, sign)
    name_of = _APART if sign == " " else _NAME
    if not 2 <= len(names) <= _MAX_CELLS or any(name and not name_of.match(name) for name in names):
        return None
    if any(simple(name) is not None for name in names) or len(set(names)) < len(names) - names.count(""):
        return None
    slots = [resolve(name).name if name else "" for name in names]
    words = [snake(name) if name not in ("#", "E") else name.lower() for name in names]
    step = next((i for i, slot in enumerate(slots) if slot == "step"), -1)
    if step < 0:
        step = next(
            (
                i
                for i, word in enumerate(words)
                if word in _COUNTERS and slots[i] != "epoch" and not (word == "e" and "#" in words)
            ),
            -1,
        )
    epoch = next((i for i, slot in enumerate(slots) if slot == "epoch"), -1)
    if step >= 0:
        names[step] = "step"
    if epoch < 0 and "e" in words:
        epoch = words.index("e")
        names[epoch] = "epoch"
    counter = step if step >= 0 else epoch
    measured = any(
        i != counter and (lossy(slot) or slot.startswith("eval_") or (slot in FIELDS and slot not in ("epoch", "step")))
        for i, slot in enumerate(slots)
    )
    return (sign, names, counter) if counter >= 0 and measured else None


class Tables:
    """Tables of one file, by the labels in front of their lines."""

    openers: tuple[str, ...] = ("oss", "poch", "tep", "LOSS")

    def __init__(self) -> None:
        self.open = False
        self._tables: dict[tuple[object, ...], _Table] = {}

    def line(self, line: Line) -> list[Row] | None:
        """See `Group`."""
        text = line.body if line.prefix.labels_end else line.text
        if not text.strip():
            return None
        boxed = "│" in text or "┃" in text or "║" in text
        if boxed:
            text = text.translate(_BOX)
        stream = (line.prefix.rank, line.prefix.local_rank, line.prefix.node)
        table = self._tables.get(stream)
        if table is not None:
            rows = self._row(table, text, line)
            if rows is not None:
                table.idle = 0
                return rows
            table.idle += 1
            if table.idle > _PATIENCE:
                del self._tables[stream]
                self.open = bool(self._tables)
                if table.held is not None:
                    return [table.held]
        if (found := header(text if boxed else line.message)) is None:
            return None
        if len(self._tables) >= _MAX_TABLES:
            self._tables.pop(next(iter(self._tables)))
        self._tables[stream] = _Table(*found)
        self._tables[stream].indexed = text[:1] == " "
        self.open = True
        return [table.held] if table is not None and table.held is not None else []

    def _row(self, table: _Table, text: str, line: Line) -> list[Row] | None:
        sign, width = table.sign, len(table.names)
        if sign == " ":
            cells = text.split(None, width)
            if len(cells) < width or len(cells) > width + 1:
                return [] if _RULE.match(text) else None
            if table.indexed and len(cells) > width and simple(cells[0]) is not None:
                cells = cells[1:]  # pandas numbers its rows
            if len(cells) > width and not _trailing(cells[-1]):
                return None
        else:
            cells = _cells(text, sign)
            if len(cells) != width:
                return [] if sign == "|" and _RULE.match(text) else None
        if _RULE.match(text):
            return []
        if cells == table.names or cells[0].lower() == table.names[0].lower():
            return []
        counter = cells[table.counter].rstrip(":")
        pairs: dict[str, object] = {}
        numbers = 0
        for i, (name, cell) in enumerate(zip(table.names, cells, strict=False)):
            cell = cell.rstrip(":") if sign == " " else cell
            if not name or cell.lower() in MISSING:
                continue
            if cell.lower() == "nan":
                if table.rows == 0 or i in table.absent:  # empty from the beginning: not measured here
                    table.absent.add(i)
                    continue
            elif i in table.absent:
                table.absent.discard(i)
                table.absent.add(i)
            if simple(cell) is not None:
                numbers += 1
            pairs[name] = cell
        if "/" in counter and sign == " ":
            counter, _, total = counter.partition("/")
            pairs[table.names[table.counter]] = counter
            if resolve(table.names[table.counter]).name == "epoch":
                pairs["total_epochs"] = total
            else:
                pairs["total_steps"] = total
        if simple(counter) is None or numbers < (1 if sign != " " else 2):
            return None
        table.rows += 1
        row = Row(pairs, _FORMATS[sign], line.number, line.offset, line.prefix)
        return self._redrawn(table, row, text)

    def _redrawn(self, table: _Table, row: Row, text: str) -> list[Row]:
        """A row with a bar behind it is redrawn: its last state counts."""
        held = table.held
        bar = _PERCENT.search(text)
        if bar is None:
            table.held = None
            return [row] if held is None else [held, row]
        table.held = row
        if held is None or held.line == row.line:
            return []
        return [held]

    def close(self) -> list[Row]:
        """See `Group`."""
        held = [table.held for table in self._tables.values() if table.held is not None]
        for table in self._tables.values():
            table.held = None
        return held

    def lost(self) -> None:
        """See `Group`."""
        for table in self._tables.values():
            table.held = None


def _trailing(rest: str) -> bool:
    """What may stand behind the last column: a bar, a rate, a mark."""
    return "%" in rest or "it/s" in rest or rest.strip() in ("+", "*") or simple(rest.strip()) is not None
