"""What instruments tell of machines, beside what logs tell of the training: GPUs, hosts, and whose they are."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from trainmon.model import Record
from trainmon.samples import DriverSample, GpuSample, HostSample
from trainmon.session.binding import Binding, SeatBook, bind
from trainmon.session.cards import Card, CardBook
from trainmon.session.freshness import cleaned
from trainmon.session.hosts import HostBook


class Machines:
    """The books of telemetry of one run.

    Attributes:
        cards: GPUs. hosts: everything else of machines.
        seats: What logs tell of ranks and processes. binding: which machine is which node.
        here: This machine, once its instruments have spoken.
    """

    def __init__(self) -> None:
        self.cards = CardBook()
        self.hosts = HostBook()
        self.seats = SeatBook()
        self.binding = Binding()
        self.here = ""
        self._bound_at: object = None
        self._tidied = 0.0

    def take(self, record: Record, arrival: float, live: bool, dirty: set[str]) -> str | None:
        """Take in a record that was made from a sample.

        Args:
            arrival: When it came, Unix seconds. live: it came while we looked.
            dirty: Takes the sections of the snapshot that change.

        Returns:
            The node under which the detectors are to see it; None: they are not. GPUs of others are marked as foreign:
            they raise no alarm.
        """
        if record.sample is not None:
            record.sample = cleaned(record.sample)
            record.node = record.sample.node
        sample = record.sample
        at = arrival if live or record.time is None else min(record.time, arrival)
        node = self.node_of(record.node or "")
        if isinstance(sample, DriverSample):
            self.cards.driver(sample)
            dirty.add("gpus")
        elif isinstance(sample, GpuSample):
            card = self.cards.take(sample, at, live=live)
            dirty.update(("gpus", "gpu"))
            if card is None:
                return None
            if not card.mine:
                record.extra["foreign"] = 1
            return card.run_node or node
        elif isinstance(sample, HostSample):
            self.hosts.take(sample, at, live=live)
            dirty.add("host")
        return node

    def node_of(self, machine: str) -> str:
        """What a machine is called: the run's node that it is, else its own name."""
        return self.binding.node_of.get(machine, machine)

    def machine_of(self, node: str) -> str:
        """The machine that a node of the run is on; its own name where that is not known."""
        return self.binding.machine_of.get(node, node)

    def of(self, node: str) -> list[Card]:
        """The GPUs of a node of the run: those of its machine, or where ranks are nodes its own."""
        cards = self.cards.by_node.get(self.machine_of(node))
        if not cards:
            return []
        own = [card for card in cards.values() if card.run_node == node]
        return own or list(cards.values())

    def tidy(self, now: float) -> None:
        """Let go of what is no longer there; costs something once in ten seconds."""
        if not 0.0 <= now - self._tidied < 10.0:
            self._tidied = now
            self.cards.tidy(now)

    def bind(self, state: object, nodes: Callable[[], Iterable[str]], dirty: set[str]) -> None:
        """Find out which machine is which node, if anything has changed that tells.

        Args:
            state: Changes whenever the run's nodes do.
            nodes: Gives those that are worth a row.
            dirty: Takes the sections of the snapshot that change.
        """
        state = (state, self.cards.seats, len(self.hosts.hosts), self.seats.revision, self.here)
        if state == self._bound_at or not (self.cards.by_node or self.hosts.hosts):
            return
        self._bound_at = state
        machines: dict[str, list[Card]] = {name: [] for name in self.hosts.hosts}
        machines |= {name: list(cards.values()) for name, cards in self.cards.by_node.items()}
        found = bind(machines, nodes(), self.seats, here=self.here, users=this_user(), before=self.binding)
        self.binding = found
        for card in self.cards.cards.values():
            card.rank = found.rank.get(card.key)
            card.run_node = found.run_node.get(card.key, "")
            card.mine = found.mine(card.node, card.key)
        dirty.update(("gpus", "gpu", "host", "nodes", "run"))


def this_user() -> frozenset[str]:
    """How a process list may name the user who watches."""
    uid = os.getuid()
    names = {str(uid)}
    try:
        import pwd

        names.add(pwd.getpwuid(uid).pw_name)
    except (ImportError, KeyError):
        pass
    return frozenset(names)
