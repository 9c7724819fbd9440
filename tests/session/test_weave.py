"""Pasts of many files side by side: nothing lost, each file in order, nodes at the same step together."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from trainmon.model import CaughtUp, Data, Record, Replaced
from trainmon.session.files import SourceFile
from trainmon.session.weave import Weaver

# One byte a record: digits are steps from the file's own list, "e" is an error without a time, "." says nothing.


class Bench:
    """A weaver over text in which each byte is a record."""

    def __init__(self) -> None:
        self.given: list[tuple[int, str, int | None]] = []
        self.marks: list[tuple[int, int]] = []
        self.weaver = Weaver(self._parse, self._give, self._mark)
        self.steps: dict[int, list[int]] = {}

    def open(self, source: int) -> None:
        self.weaver.open(SourceFile(source, f"f{source}", f"/f{source}", f"n{source}", parser=None))  # type: ignore[arg-type]

    def add(self, source: int, text: bytes, offset: int = 0) -> None:
        self.weaver.add(Data(source, 0, offset, text, offset + len(text), 0.0), 0.0)

    def end(self, source: int) -> None:
        self.weaver.add(CaughtUp(source, 0), 0.0)

    def _parse(self, file: SourceFile, data: bytes, offset: int, size: int) -> list[Record]:
        records = []
        for i, byte in enumerate(data):
            sign = chr(byte)
            if sign == "e":
                records.append(Record("error", file.name, offset=offset + i))
            elif sign != ".":
                last = self.steps.setdefault(file.id, [])
                last.append(int(sign))
                records.append(Record("metrics", file.name, offset=offset + i, values={"step": last[-1]}))
        return records

    def _give(self, file: SourceFile, records: list[Record], arrival: float) -> None:
        for record in records:
            step = record.values.get("step")
            self.given.append((file.id, record.kind, step if isinstance(step, int) else None))

    def _mark(self, event: CaughtUp | Replaced) -> None:
        self.marks.append((event.source, sum(1 for source, _, _ in self.given if source == event.source)))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text("0123456789e.", max_size=60), min_size=1, max_size=6), st.integers(1, 9), st.booleans())
def test_every_record_once_and_in_its_files_order(texts: list[str], size: int, force: bool) -> None:
    bench = Bench()
    for source in range(len(texts)):
        bench.open(source)
    for source, text in enumerate(texts):
        data = text.encode()
        for at in range(0, len(data), size):
            bench.add(source, data[at : at + size], at)
        bench.end(source)
        bench.weaver.work(lambda: False, force=force)
    assert not bench.weaver.work(lambda: False)
    assert len(bench.weaver) == 0 and bench.weaver.waiting_bytes == 0
    for source, text in enumerate(texts):
        said = ["e" if kind == "error" else str(step) for s, kind, step in bench.given if s == source]
        assert "".join(said) == text.replace(".", "")
        assert (source, len(said)) in bench.marks, "the end is told after everything before it"


def test_nodes_come_together_at_each_step() -> None:
    bench = Bench()
    for source in range(4):
        bench.open(source)
    for source in range(4):
        bench.add(source, b"0123456789")
        bench.end(source)
    bench.weaver.work(lambda: False)
    assert [step for _, _, step in bench.given] == [step for step in range(10) for _ in range(4)]


def test_a_resume_of_all_keeps_them_together() -> None:
    bench = Bench()
    for source in range(2):
        bench.open(source)
        bench.add(source, b"0123" + b"23456")
        bench.end(source)
    bench.weaver.work(lambda: False)
    steps = [step for _, _, step in bench.given]
    assert steps == [step for step in (0, 1, 2, 3, 2, 3, 4, 5, 6) for _ in range(2)]


def test_it_waits_for_a_file_of_which_nothing_came_yet_unless_told_not_to() -> None:
    bench = Bench()
    bench.open(1)
    bench.open(2)
    bench.add(1, b"0123")
    assert not bench.weaver.work(lambda: False) and bench.given == []
    bench.weaver.work(lambda: False, force=True)
    assert len(bench.given) == 4
    bench.weaver.close(2)
    bench.add(1, b"45", 4)
    bench.weaver.work(lambda: False)
    assert len(bench.given) == 6


def test_last_words_without_steps_and_times_come_last() -> None:
    bench = Bench()
    for source, text in ((1, b"e"), (2, b"0123")):
        bench.open(source)
        bench.add(source, text)
        bench.end(source)
    bench.weaver.work(lambda: False)
    assert bench.given[-1][1] == "error"
