"""Every byte that stands in a file at a look is given once and in order, whatever happens to the file.

`TRAINMON_SEQUENCES=N` runs N sequences instead of 10,000.
"""

from __future__ import annotations

import os
import random
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from trainmon.clock import ManualClock
from trainmon.model import Data, Replaced
from trainmon.sources.files import FollowedFile

SEQUENCES = int(os.environ.get("TRAINMON_SEQUENCES", "10000"))
RAM = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


@dataclass
class Disk:
    """The file's fate, done to a real file and kept by the test beside it."""

    folder: Path
    rng: random.Random
    count: int = 0
    moved: int = 0
    content: bytearray | None = None
    """What stands at the path; None when nothing does."""
    fresh: bool = True
    """Nothing was written yet to what stands at the path: the follower stays with the one before."""
    held: bytearray | None = None
    """What the follower still holds after a rename or a deletion."""
    held_path: str | None = None
    log: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.path = str(self.folder / "train.log")

    def token(self) -> bytes:
        self.count += 1
        # The number at both ends: the follower's mark is 64 bytes, and no two tokens may end alike.
        return b"<%d:%s%d>\n" % (self.count, b"x" * self.rng.choice((0, 1, 7, 30, 90)), self.count)

    def append(self) -> None:
        if self.content is None:
            self.create()
        data = self.token()
        with open(self.path, "ab") as file:
            file.write(data)
        self.content += data
        self.fresh = False
        self.held = self.held_path = None
        self.log.append(f"append {len(data)}")

    def late(self) -> None:
        """The old writer goes on after the rename, as one that was not told to reopen its log."""
        if self.held_path is not None and self.held is not None and (self.content is None or self.fresh):
            data = self.token()
            with open(self.held_path, "ab") as file:
                file.write(data)
            self.held += data
            self.log.append(f"late {len(data)}")

    def truncate(self, size: int) -> None:
        if self.content is not None:
            os.truncate(self.path, size)
            del self.content[size:]
            self.log.append(f"truncate {size}")

    def rename(self) -> None:
        if self.content is not None:
            self.moved += 1
            new = f"{self.path}.{self.moved}"
            os.rename(self.path, new)
            self._leave(new)

    def delete(self) -> None:
        if self.content is not None:
            os.unlink(self.path)
            self._leave(None)

    def _leave(self, new: str | None) -> None:
        if not self.fresh or self.held is None:
            self.held, self.held_path = self.content, new
        self.content = None
        self.log.append("rename" if new else "delete")

    def create(self) -> None:
        if self.content is None:
            open(self.path, "xb").close()
            self.content, self.fresh = bytearray(), True
            self.log.append("create")


def generations(events: list, into: list[bytearray]) -> None:
    """Check the events' own order and collect the bytes by generation."""
    for event in events:
        if isinstance(event, Replaced):
            assert event.generation == len(into)
            into.append(bytearray())
        elif isinstance(event, Data):
            assert event.generation == len(into) - 1
            assert event.offset == len(into[-1])
            assert event.size >= event.offset + len(event.data)
            into[-1] += event.data


def one_look_an_operation(seed: int, folder: Path) -> None:
    rng = random.Random(seed)
    disk, clock = Disk(folder, rng), ManualClock()
    disk.create()
    follower = FollowedFile(0, disk.path, clock=clock)
    follower.open()
    wanted: list[bytearray] = [bytearray()]
    given: list[bytearray] = [bytearray()]
    for _ in range(rng.randint(4, 9)):
        clock.advance(0.1)
        names = ("append", "late", "truncate", "rename", "delete", "create")
        operation = rng.choices(names, weights=(8, 2, 2, 2, 2, 3))[0]
        content, fresh, follows, count = disk.content, disk.fresh, disk.held is not None, disk.count
        if operation != "truncate":
            getattr(disk, operation)()
        elif content:
            disk.truncate(rng.choice((0, rng.randrange(len(content)))))
            wanted.append(bytearray(content))
        if disk.count > count:
            written = disk.content if operation == "append" else disk.held
            if operation == "append" and follows and (content is None or fresh):
                wanted.append(bytearray())
            wanted[-1] += written[written.rindex(b"<%d:" % disk.count) :]
        events = follower.look()
        generations(events, given)
        replaced = [event for event in events if isinstance(event, Replaced)]
        assert all(event.lost == (event.reason in ("truncated", "rewritten")) for event in replaced), disk.log
    follower.close()
    assert [bytes(g) for g in given if g] == [bytes(g) for g in wanted if g], disk.log


def several_operations_a_look(seed: int, folder: Path, hold: bool = True) -> tuple[int, int]:
    """Returns how many tokens were lost (all flagged, or this fails) and how many were given.

    Without `hold` the descriptor is closed after each look, as when there are too few.
    """
    rng = random.Random(seed)
    disk, clock = Disk(folder, rng), ManualClock()
    disk.create()
    follower = FollowedFile(0, disk.path, clock=clock)
    follower.open()
    stream: list[object] = []
    unseeable: set[int] = set()
    given: list[bytearray] = [bytearray()]

    def look() -> None:
        clock.advance(2.0)
        disk.log.append("look")
        try:
            events = follower.look()
        except FileNotFoundError:
            assert not hold
            return
        generations(events, given)
        if not hold:
            follower.close()
        for event in events:
            stream.append(event if isinstance(event, Replaced) else event.data)

    for _ in range(rng.randint(2, 4)):
        # What the follower has given of the file that stands at the path now.
        at_look, seen = disk.content, follower.offset if disk.content and not follower.waits_to_switch else 0
        for _ in range(rng.randint(1, 4)):
            operation = rng.choices(("append", "truncate", "rename", "delete", "create"), weights=(6, 2, 2, 2, 3))[0]
            if operation != "truncate":
                getattr(disk, operation)()
            elif disk.content:
                ends = [0] + [i + 1 for i, byte in enumerate(disk.content) if byte == 10]
                size = rng.choice(ends[:-1])
                if size >= (seen if disk.content is at_look else 0):
                    # It repeats all that was given: nothing can tell that more had stood there.
                    unseeable |= set(numbers(bytes(disk.content[size:])))
                elif disk.content is at_look:
                    seen = 0  # flagged from now on, whatever follows before the look
                disk.truncate(size)
        look()
    disk.create()
    disk.append()
    look()
    follower.close()
    return judge(stream, disk, unseeable)


def numbers(data: bytes) -> list[int]:
    return [int(part[1:].split(b":")[0]) for part in data.splitlines()]


def judge(stream: list[object], disk: Disk, unseeable: set[int]) -> tuple[int, int]:
    """Between two given tokens that are not neighbours a gap must be flagged; none comes twice in a generation."""
    newest, flagged, lost, count = 0, False, 0, 0
    of_generation: set[int] = set()
    for part in stream:
        if isinstance(part, Replaced):
            flagged = flagged or part.lost
            of_generation = set()
            continue
        assert isinstance(part, bytes)
        for number in numbers(part):
            assert number not in of_generation, ("doubled", number, disk.log)
            of_generation.add(number)
            if number <= newest:
                assert flagged, ("given again without a gap", number, disk.log)
                continue
            missing = [n for n in range(newest + 1, number) if n not in unseeable]
            assert not missing or flagged, ("lost in silence", missing, disk.log)
            lost += len(missing)
            newest, flagged, count = number, False, count + 1
    assert newest == disk.count, ("the last one is missing", disk.log)
    return lost, count


@pytest.fixture
def ram():
    with tempfile.TemporaryDirectory(dir=RAM) as folder:
        yield Path(folder)


def empty(folder: Path) -> None:
    for entry in os.scandir(folder):
        os.unlink(entry.path)


def test_one_look_an_operation_gives_every_byte_once(ram: Path) -> None:
    for seed in range(SEQUENCES):
        one_look_an_operation(seed, ram)
        empty(ram)


@pytest.mark.parametrize("hold", [True, False])
def test_several_operations_a_look_are_exact_or_flagged(ram: Path, hold: bool) -> None:
    lost = given = 0
    for seed in range(SEQUENCES if hold else SEQUENCES // 5):
        some, more = several_operations_a_look(seed + 1_000_000, ram, hold)
        lost, given = lost + some, given + more
        empty(ram)
    # The driver must reach both: what can be had, and what cannot.
    assert given > SEQUENCES // 5
    assert lost > SEQUENCES // 500
