"""What trainmon makes of a file, line by line: for `formats test`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from trainmon.commands.parse_source import Reading
from trainmon.model import Record
from trainmon.outputs.jsonl import plain, rfc3339
from trainmon.parsing.clean import shown
from trainmon.parsing.suggest import Suggestion, suggest

MOST_BYTES = 64 << 20
"""So much of a file is looked at."""
_BLOCK = 256 << 10
_EXAMPLES = 5
_PROPOSED_FROM = 20_000
_GUESSED = frozenset({"learned"})
"""What was read without any format, by its shape alone: it may deserve one of its own."""
_TEXT = 500
_HELD = 2


@dataclass
class Group:
    """The records of one format and kind.

    Attributes:
        lines: Lines that gave one; records: how many they gave.
        line, text: The first of them.
        fields: What it gave.
    """

    format: str
    kind: str
    lines: int = 0
    records: int = 0
    line: int = 0
    text: str = ""
    fields: dict[str, Any] = field(default_factory=dict)
    last: int = -1


@dataclass
class Study:
    """What a file holds.

    Attributes:
        lines: All lines; blank: those without a word.
        read: Bytes that were looked at.
        groups: Records by format and kind; messages and errors too.
        noise: Lines that gave no record of their own: chatter, banners, parts of what stands in several lines.
        noise_examples: Some of them, with their numbers.
        quarantine: Lines that look like a record and could not be read; with number, reason and text: the first.
        first_step, last_step, total_steps: Of the training records.
        suggestions: Formats for what no format knows.
    """

    source: str
    lines: int = 0
    blank: int = 0
    read: int = 0
    groups: dict[tuple[str, str], Group] = field(default_factory=dict)
    noise: int = 0
    noise_examples: list[tuple[int, str]] = field(default_factory=list)
    quarantine: int = 0
    quarantine_examples: list[tuple[int, str, str]] = field(default_factory=list)
    first_step: int | None = None
    last_step: int | None = None
    total_steps: int | None = None
    suggestions: list[Suggestion] = field(default_factory=list)

    def ordered(self) -> list[Group]:
        """The groups, the most frequent first."""
        return sorted(self.groups.values(), key=lambda group: (-group.lines, group.format, group.kind))

    def share(self, count: int) -> float:
        """Share of the lines that are not blank, 0 to 1."""
        return count / max(1, self.lines - self.blank)

    def as_object(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "source": self.source,
            "lines": self.lines,
            "blank": self.blank,
            "bytes": self.read,
            "formats": [
                {
                    "format": group.format,
                    "kind": group.kind,
                    "lines": group.lines,
                    "records": group.records,
                    "share": round(self.share(group.lines), 4),
                    "first": {"line": group.line, "text": group.text, "fields": group.fields},
                }
                for group in self.ordered()
            ],
            "noise": {
                "lines": self.noise,
                "share": round(self.share(self.noise), 4),
                "examples": [{"line": line, "text": text} for line, text in self.noise_examples],
            },
            "quarantine": {
                "lines": self.quarantine,
                "examples": [
                    {"line": line, "reason": reason, "text": text} for line, reason, text in self.quarantine_examples
                ],
            },
            "first_step": self.first_step,
            "last_step": self.last_step,
            "total_steps": self.total_steps,
            "suggestions": [
                {
                    "name": each.name, "pattern": each.pattern, "kind": each.kind, "units": dict(each.units),
                    "lines": each.count, "example": each.example, "fields": dict(each.fields), "toml": each.toml(),
                }
                for each in self.suggestions
            ],
        }  # fmt: skip


def study(name: str, file: BinaryIO, reading: Reading, mtime: float | None) -> Study:
    """Read a file and note what becomes of each line.

    Raises:
        OSError: Reading broke off.
    """
    parser = reading.parser(name, mtime)
    found = Study(name)
    held: list[dict[int, bytes]] = []  # the lines of the last blocks, whose records may still come
    unknown: list[str] = []
    hit: set[int] = set()
    for block in _blocks(file):
        reading.read(len(block), name)
        lines = block.split(b"\n")
        if not lines[-1]:
            lines.pop()
        held.append({found.lines + i: line for i, line in enumerate(lines, 1)})
        records = parser.feed(block, found.read)
        found.lines += len(lines)
        found.read += len(block)
        _note(found, records, held, hit, unknown)
        if len(held) > _HELD:
            _settle(found, held.pop(0), hit, unknown)
    _note(found, parser.finish(), held, hit, unknown)
    for left in held:
        _settle(found, left, hit, unknown)
    found.total_steps = parser.total_steps
    found.suggestions = suggest(unknown)
    return found


def _blocks(file: BinaryIO) -> Iterator[bytes]:
    """Whole lines, some at a time; a line of megabytes is cut."""
    rest, left = b"", MOST_BYTES
    while left > 0:
        data = file.read(min(_BLOCK, left))
        if not data:
            break
        left -= len(data)
        data = rest + data
        cut = data.rfind(b"\n") + 1 or (len(data) if len(data) > 4 * _BLOCK else 0)
        rest = data[cut:]
        if cut:
            yield data[:cut]
    if rest:
        yield rest


def _note(found: Study, records: list[Record], held: list[dict[int, bytes]], hit: set[int], unknown: list[str]) -> None:
    for record in records:
        hit.add(record.line)
        text = next((shown(lines[record.line], _TEXT) for lines in held if record.line in lines), "")
        if record.kind == "quarantine":
            found.quarantine += 1
            if len(found.quarantine_examples) < _EXAMPLES:
                found.quarantine_examples.append((record.line, record.reason or "", text or record.message or ""))
            continue
        name = record.format or ("messages" if record.kind == "log" else "")
        group = found.groups.get((name, record.kind))
        if group is None:
            group = found.groups[name, record.kind] = Group(name, record.kind)
            group.line, group.text, group.fields = record.line, text, _fields(record)
        group.records += 1
        if record.line != group.last:
            group.lines += 1
            group.last = record.line
        step = record.values.get("step")
        if isinstance(step, int) and record.kind == "metrics":
            found.first_step = step if found.first_step is None else found.first_step
            found.last_step = step
        if record.format in _GUESSED and text and len(unknown) < _PROPOSED_FROM:
            unknown.append(text)


def _settle(found: Study, lines: dict[int, bytes], hit: set[int], unknown: list[str]) -> None:
    """No record of these lines will come any more."""
    for number, line in lines.items():
        if number in hit:
            hit.discard(number)
            continue
        text = shown(line, _TEXT).strip()
        if not text:
            found.blank += 1
            continue
        found.noise += 1
        if len(found.noise_examples) < _EXAMPLES:
            found.noise_examples.append((number, text))
        if len(unknown) < _PROPOSED_FROM:
            unknown.append(text)


def _fields(record: Record) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if record.time is not None:
        fields["time"] = rfc3339(record.time)
    for name in ("node", "rank", "local_rank", "gpu", "level", "code", "message"):
        value = getattr(record, name)
        if value is not None:
            fields[name] = value
    for part in (record.labels, record.values, record.extra):
        fields.update({name: plain(value) for name, value in part.items()})
    return fields
