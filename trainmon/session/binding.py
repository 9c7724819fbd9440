"""Which machine is which node of the run, which GPU carries which rank, and which GPUs belong to the training. Pure.

Machines are known by their host names, nodes by what logs and their files are called. In this order: the same name
(short, whatever its case); a process that the log names by its number; ranks of processes that are the ranks of one
node; and where run and machines are but one each, a process that computes on its GPU. What fits twice binds nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from trainmon.samples import GpuProcess

MAX_SEATS = 65_536
_ADDRESS = re.compile(r"[\d.:]+|[\da-f:]*:[\da-f:]*", re.IGNORECASE)
_RANK_NODE = re.compile(r"rank (\d{1,9})")


class CardLike(Protocol):
    """What is asked of a GPU."""

    @property
    def key(self) -> str: ...
    @property
    def index(self) -> int | None: ...
    @property
    def instance(self) -> str: ...
    @property
    def processes(self) -> tuple[GpuProcess, ...] | None: ...


@dataclass(frozen=True, slots=True)
class Seat:
    """Where the log says that a rank is: its node, local rank and GPU, and the number of its file."""

    node: str
    local_rank: int | None = None
    gpu: int | None = None
    source: int | None = None


class SeatBook:
    """What the run's logs tell of its ranks and processes, bounded."""

    def __init__(self) -> None:
        self.ranks: dict[int, Seat] = {}
        self.pids: dict[int, tuple[str, int | None]] = {}
        """Process number -> node and rank."""
        self.revision = 0

    def take(
        self,
        node: str,
        source: int,
        rank: int | None,
        local_rank: int | None,
        gpu: int | None,
        pid: object,
    ) -> None:
        """A record of a node names a rank or a process."""
        if rank is not None:
            before = self.ranks.get(rank)
            if before is None or before.node != node or (local_rank, gpu) != (before.local_rank, before.gpu):
                if before is not None and before.node == node:
                    local_rank = before.local_rank if local_rank is None else local_rank
                    gpu = before.gpu if gpu is None else gpu
                seat = Seat(node, local_rank, gpu, source)
                if seat != before and (before is not None or len(self.ranks) < MAX_SEATS):
                    self.ranks[rank] = seat
                    self.revision += 1
        known = isinstance(pid, int) and not isinstance(pid, bool) and 0 < pid < 1 << 22
        if known and pid not in self.pids and len(self.pids) < MAX_SEATS:
            assert isinstance(pid, int)
            self.revision += 1
            self.pids[pid] = (node, rank)

    def of(self, process: GpuProcess) -> tuple[str, int | None] | None:
        """Node and rank of a process that the log names by its number, the machine's or its container's own."""
        found = self.pids.get(process.pid)
        return found if found is not None or process.inner_pid is None else self.pids.get(process.inner_pid)


@dataclass(slots=True)
class Binding:
    """What is known.

    Attributes:
        node_of: Machine -> the run's node that it is.
        machine_of: Node of the run -> its machine; several nodes of one machine where each rank is a node.
        run_node: GPU -> the run's node that it is, where ranks are nodes.
        rank: GPU -> rank of the training process on it.
        held: Machine -> its GPUs that the training holds; a machine that is not there: all of them, as far as is known.
    """

    node_of: dict[str, str] = field(default_factory=dict)
    machine_of: dict[str, str] = field(default_factory=dict)
    run_node: dict[str, str] = field(default_factory=dict)
    rank: dict[str, int] = field(default_factory=dict)
    held: dict[str, frozenset[str]] = field(default_factory=dict)

    def mine(self, machine: str, key: str) -> bool:
        """Whether a GPU is the training's; True where nothing tells."""
        held = self.held.get(machine)
        return held is None or key in held


def short_name(name: str) -> str:
    """A host name without its domain, in lower case; an address stays as it is.

    >>> short_name("Worker-3.cluster.local")
    'worker-3'
    """
    if _ADDRESS.fullmatch(name):
        return name
    return name.partition(".")[0].lower()


def bind(
    machines: Mapping[str, Sequence[CardLike]],
    nodes: Iterable[str],
    seats: SeatBook,
    *,
    here: str = "",
    users: frozenset[str] = frozenset(),
    before: Binding | None = None,
) -> Binding:
    """Find out what is bound to what.

    Args:
        machines: Name -> its GPUs.
        nodes: Nodes of the run that are worth a row.
        seats: What logs tell of ranks and processes.
        here: This machine. users: names of the user who watches, as a process list may say them.
        before: The last result: while no process of the training is seen, its GPUs stay its own.
    """
    out = Binding()
    names = list(nodes)
    _by_name(out, machines, names)
    _by_rank_node(out, machines, names)
    bound = set(out.node_of.values())
    free = [name for name in names if name not in bound and name not in out.machine_of]
    if free:
        _by_process(out, machines, set(free), seats)
    if len(names) == 1 and not out.node_of and not out.run_node:
        _by_being_alone(out, machines, names[0], here, users)
    for machine, node in out.node_of.items():
        out.machine_of.setdefault(node, machine)
    for machine, cards in machines.items():
        _ranks(out, machine, cards, seats)
        held = _held(out, machine, cards, seats, users if machine == here else frozenset())
        if held:
            out.held[machine] = held
        elif before is not None and before.held.get(machine):
            out.held[machine] = before.held[machine]
        elif all(name in out.machine_of for name in names) and names and _others(out, machine, cards, users):
            out.held[machine] = frozenset()
    return out


def _by_name(out: Binding, machines: Iterable[str], names: Sequence[str]) -> None:
    shorts: dict[str, list[str]] = {}
    for name in names:
        shorts.setdefault(short_name(name), []).append(name)
    claims: dict[str, list[str]] = {}
    for machine in machines:
        found = shorts.get(short_name(machine), ())
        exact = machine if machine in found else found[0] if len(found) == 1 else None
        if exact is not None:
            claims.setdefault(exact, []).append(machine)
    for node, claimants in claims.items():
        if len(claimants) == 1 or node in claimants:
            out.node_of[claimants[0] if len(claimants) == 1 else node] = node


def _computing(card: CardLike) -> list[GpuProcess]:
    return [one for one in card.processes or () if one.kind != "G"]


def _by_rank_node(out: Binding, machines: Mapping[str, Sequence[CardLike]], names: Sequence[str]) -> None:
    """Nodes that are called "rank 3": each is the GPU of that rank."""
    ranks = {int(found[1]): name for name in names if (found := _RANK_NODE.fullmatch(name))}
    if not ranks:
        return
    claims: dict[int, list[tuple[str, str]]] = {}
    for machine, cards in machines.items():
        for card in cards:
            for rank in {one.rank for one in _computing(card) if one.rank is not None}:
                if rank in ranks:
                    claims.setdefault(rank, []).append((machine, card.key))
    for rank, claimants in claims.items():
        if len({machine for machine, _ in claimants}) == 1:
            out.machine_of[ranks[rank]] = claimants[0][0]
            for _, key in claimants:
                out.run_node.setdefault(key, ranks[rank])


def _by_process(out: Binding, machines: Mapping[str, Sequence[CardLike]], free: set[str], seats: SeatBook) -> None:
    claims: dict[str, list[str]] = {}
    for machine, cards in machines.items():
        if machine in out.node_of:
            continue
        processes = [one for card in cards for one in _computing(card)]
        told = {named[0] for one in processes if (named := seats.of(one)) is not None}
        ranks = {one.rank for one in processes if one.rank is not None}
        if len(told) != 1 and ranks and all(rank in seats.ranks for rank in ranks):
            told = {seats.ranks[rank].node for rank in ranks}
        if len(told) == 1 and (node := told.pop()) in free:
            claims.setdefault(node, []).append(machine)
    for node, claimants in claims.items():
        if len(claimants) == 1:
            out.node_of[claimants[0]] = node


def _by_being_alone(
    out: Binding, machines: Mapping[str, Sequence[CardLike]], node: str, here: str, users: frozenset[str]
) -> None:
    found = []
    for machine, cards in machines.items():
        processes = [one for card in cards for one in _computing(card)]
        if any(machine != here or one.user in users for one in processes):
            found.append(machine)
    if len(found) == 1:
        out.node_of[found[0]] = node


def _ranks(out: Binding, machine: str, cards: Sequence[CardLike], seats: SeatBook) -> None:
    node = out.node_of.get(machine)
    local: dict[int, int] = {}
    index: dict[int, int] = {}
    if node is not None:
        for rank, seat in seats.ranks.items():
            if seat.node == node:
                if seat.local_rank is not None:
                    local.setdefault(seat.local_rank, rank)
                place = seat.gpu if seat.gpu is not None else seat.local_rank
                if place is not None:
                    index.setdefault(place, rank)
    for card in cards:
        processes = _computing(card)
        told = [one.rank for one in processes if one.rank is not None]
        if not told:
            told = [local[one.local_rank] for one in processes if one.local_rank in local]
        if not told:
            named = [seats.of(one) for one in processes]
            told = [who[1] for who in named if who is not None and who[1] is not None]
        if not told and card.processes is None and not card.instance and card.index in index:
            told = [index[card.index]]  # nothing but the log's own numbers tells
        if told:
            out.rank[card.key] = min(told)


def _others(out: Binding, machine: str, cards: Sequence[CardLike], users: frozenset[str]) -> bool:
    """Whether a machine that is none of the run's is plainly at others' work. (Often only the first rank has a log.)"""
    if machine in out.node_of or machine in out.machine_of.values():
        return False
    processes = [one for card in cards for one in _computing(card)]
    return bool(processes) and all(one.rank is None and one.user not in users for one in processes)


def _held(
    out: Binding, machine: str, cards: Sequence[CardLike], seats: SeatBook, users: frozenset[str]
) -> frozenset[str]:
    """GPUs with a process of the training; empty when none can be told from others."""
    if machine not in out.node_of and machine not in out.machine_of.values():
        return frozenset()
    node = out.node_of.get(machine)
    sure: set[str] = set()
    likely: set[str] = set()
    for card in cards:
        for one in _computing(card):
            told = seats.of(one)
            ranked = one.rank is not None and (not seats.ranks or one.rank in seats.ranks)
            if ranked or card.key in out.run_node or (told is not None and told[0] == node):
                sure.add(card.key)
            elif one.user and one.user in users:
                likely.add(card.key)
    return frozenset(sure or likely)
