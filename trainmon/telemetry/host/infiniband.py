"""InfiniBand, RoCE and EFA ports out of /sys/class/infiniband (Documentation/ABI/stable/sysfs-class-infiniband).

port_rcv_data and port_xmit_data count octets divided by four, whatever the width of the link: times four is right, and
only that (prometheus/node_exporter#573, #579). The counters are the port's: every job on it, in both directions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from trainmon.samples import LinkSample
from trainmon.telemetry.host.network import rate
from trainmon.telemetry.host.reading import Rises, Tree, Unreadable, usable

FOLDER = "/sys/class/infiniband"
OCTETS = 4
STUCK = 2**32 - 1
"""Counters of old adapters have 32 bits and stop there instead of starting anew."""

_RATE = re.compile(r"^\s*([0-9]{1,5}(?:\.[0-9]{1,3})?)\s*Gb/sec")
ERRORS = (
    "counters/symbol_error", "counters/port_rcv_errors", "counters/local_link_integrity_errors",
    "counters/excessive_buffer_overrun_errors", "hw_counters/out_of_sequence", "hw_counters/packet_seq_err",
    "hw_counters/roce_adp_retrans", "hw_counters/local_ack_timeout_err",
)  # fmt: skip
DOWNS = "counters/link_downed"


@dataclass(frozen=True, slots=True)
class _Port:
    """A port and what changes rarely: its files, kind, rate in MB/s, and bytes in one unit of its counters."""

    name: str
    folder: str
    kind: str
    rate_mb_s: float | None
    received: str = ""
    sent: str = ""
    unit: int = 1


class InfinibandReader:
    """Traffic between two looks. `look` is the slow part (each error counter may ask the adapter's firmware)."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._ports: list[_Port] = []
        self._last: dict[str, tuple[int | None, int | None]] = {}
        self._time = 0.0
        self._errors = Rises()
        self._downs = Rises()
        self._new: dict[str, int] = {}

    @property
    def any(self) -> bool:
        """Ports were found."""
        return bool(self._ports)

    def forget(self) -> None:
        """The next look is a first one."""
        self._last = {}

    def look(self) -> None:
        """Find the ports, their rates and new errors."""
        self._ports = []
        try:
            devices = self._tree.names(FOLDER)
        except Unreadable:
            return
        for device in devices:
            try:
                numbers = self._tree.names(f"{FOLDER}/{device}/ports")
            except Unreadable:
                continue
            for number in numbers:
                name = device if len(numbers) == 1 else f"{device}/{number}"
                port = self._port(name, f"{FOLDER}/{device}/ports/{number}")
                self._ports.append(port)
                rises = [self._rise(f"{port.folder}/{counter}") for counter in ERRORS]
                self._new[name] = self._new.get(name, 0) + sum(rises)
                self._downs.see(name, self._tree.maybe(f"{port.folder}/{DOWNS}") or 0)

    def _rise(self, name: str) -> int:
        count = self._tree.maybe(name)
        return self._errors.see(name, count) if count is not None else 0

    def _port(self, name: str, folder: str) -> _Port:
        rate_mb_s = port_rate(self._tree.word(f"{folder}/rate"))
        kind = "roce" if self._tree.word(f"{folder}/link_layer").lower() == "ethernet" else "infiniband"
        for received, sent, unit in (
            ("counters_ext/port_rcv_data_64", "counters_ext/port_xmit_data_64", OCTETS),
            ("counters/port_rcv_data", "counters/port_xmit_data", OCTETS),
            ("hw_counters/rx_bytes", "hw_counters/tx_bytes", 1),
        ):
            if self._tree.maybe(f"{folder}/{received}") is not None:
                return _Port(name, folder, "efa" if unit == 1 else kind, rate_mb_s, received, sent, unit)
        return _Port(name, folder, kind, rate_mb_s)

    def read(self, now: float) -> tuple[LinkSample, ...] | None:
        """Ports at `now` (monotonic seconds); None when it is too soon."""
        dt = now - self._time
        if self._last and not usable(dt):
            return None
        last, self._last, self._time = self._last, {}, now
        out = []
        for port in self._ports:
            word = self._tree.word(f"{port.folder}/state").rpartition(":")[2].strip().lower()
            if not word:
                continue  # it was taken out
            counts = self._counter(port, port.received), self._counter(port, port.sent)
            self._last[port.name] = counts
            before = last.get(port.name, (None, None))
            flow = [
                rate(old * port.unit, new * port.unit, dt) if old is not None and new is not None else None
                for old, new in zip(before, counts, strict=True)
            ]
            out.append(
                LinkSample(
                    port.name, port.kind, word[:20], port.rate_mb_s, flow[0], flow[1],
                    errors=self._new.pop(port.name, 0), downs=self._downs.total(port.name),
                )
            )  # fmt: skip
        return tuple(out)

    def _counter(self, port: _Port, name: str) -> int | None:
        count = self._tree.maybe(f"{port.folder}/{name}") if name else None
        return count if count is not None and 0 <= count != STUCK else None


def port_rate(text: str) -> float | None:
    """ "400 Gb/sec (4X NDR)" in MB/s; None when it says no such thing."""
    found = _RATE.match(text)
    value = float(found[1]) if found else 0.0
    return value * 1000.0 / 8.0 if value > 0 else None
