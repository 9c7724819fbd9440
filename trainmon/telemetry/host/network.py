"""Network interfaces: traffic out of /proc/net/dev, what they can carry and their state out of /sys/class/net.

Shown is what leaves the machine, once: devices with hardware behind them, bonds instead of their members, no bridges,
VLANs or tunnels (their packets pass through a device that is shown). A container has only virtual interfaces: then
those. RDMA never appears here, see infiniband.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from trainmon.samples import LinkSample
from trainmon.telemetry.host.reading import Rises, Tree, Unreadable, usable, wholes

MB = 1e6
NET = "/sys/class/net"
INFINIBAND = 32
"""Hardware type of an IP-over-InfiniBand interface (ARPHRD_INFINIBAND)."""
MOST_MBIT = 10_000_000
"""10 Tbit/s. Above it, and below 1, a speed is a driver's way to say that it does not know."""

_NEVER = re.compile(
    r"^(lo$|veth|docker|br-|virbr|lxc|lxd|cni|flannel|cali|cilium|kube|nodelocal|weave|ovs|ifb|dummy|tunl|sit|gre|erspan"
    r"|ip6tnl|ip_vti|ip6_vti|ip6gre|teql|bonding_masters|tap|tun|wg|tailscale|zt|vnet|vxlan|nlmon|podman)"
)
_KINDS_NEVER = frozenset({"bridge", "vlan", "vxlan", "geneve", "wireguard", "macsec"})


@dataclass(frozen=True, slots=True)
class _Facts:
    """What changes rarely: read with the slow group."""

    kind: str
    rate_mb_s: float | None


class NetworkReader:
    """Traffic between two looks. `look` is the slow part and is called once before the first `read`."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._facts: dict[str, _Facts] = {}
        self._last: dict[str, tuple[int, int]] = {}
        self._time = 0.0
        self._up: set[str] = set()
        self._errors = Rises()
        self._downs = Rises()
        self._seen: frozenset[str] = frozenset()
        self.why = ""
        self.ports = False
        """InfiniBand ports can be read: IP over InfiniBand would be counted twice."""

    def forget(self) -> None:
        """The next look is a first one."""
        self._last = {}

    def look(self) -> None:
        """Choose the interfaces and read their speeds."""
        try:
            names = list(netdev(self._tree.text("/proc/net/dev")))
        except Unreadable:
            names = []
        self._seen = frozenset(names)
        self._facts = {}
        for name in chosen(names, self._tree):
            infiniband = self._tree.maybe(f"{NET}/{name}/type") == INFINIBAND
            if infiniband and self.ports:
                continue
            self._facts[name] = _Facts("infiniband" if infiniband else "ethernet", self._rate(name))

    def _rate(self, name: str) -> float | None:
        """MB/s; a virtual interface makes its speed up (veth says 10 Gbit/s), so only hardware and bonds are asked."""
        if not (self._hardware(name) or self._tree.there(f"{NET}/{name}/bonding")):
            return None
        speed = self._tree.maybe(f"{NET}/{name}/speed")
        return speed / 8.0 if speed is not None and 1 <= speed < MOST_MBIT else None

    def _hardware(self, name: str) -> bool:
        return self._tree.there(f"{NET}/{name}/device")

    def read(self, now: float) -> tuple[LinkSample, ...] | None:
        """Interfaces at `now` (monotonic seconds); None: `why` says why not, or it is too soon."""
        self.why = ""
        try:
            found = netdev(self._tree.text("/proc/net/dev"))
        except Unreadable as error:
            self.why = str(error)
            self._last = {}
            return None
        if found.keys() != self._seen:
            self.look()
        dt = now - self._time
        if self._last and not usable(dt):
            return None
        last, self._last, self._time = self._last, {name: c[:2] for name, c in found.items()}, now
        out = []
        for name, (rx, tx, errors) in found.items():
            facts = self._facts.get(name)
            if facts is None:
                continue
            state = self._state(name)
            if state == "up" or rx:
                self._up.add(name)
            if name not in self._up:
                continue  # a spare port that never was up is no news
            before = last.get(name)
            self._downs.see(name, self._tree.maybe(f"{NET}/{name}/carrier_down_count") or 0)
            out.append(
                LinkSample(
                    name, facts.kind, state, facts.rate_mb_s,
                    rx_mb_s=rate(before[0], rx, dt) if before else None,
                    tx_mb_s=rate(before[1], tx, dt) if before else None,
                    errors=self._errors.see(name, errors), downs=self._downs.total(name),
                )
            )  # fmt: skip
        return tuple(out)

    def _state(self, name: str) -> str:
        word = self._tree.word(f"{NET}/{name}/operstate").lower()
        if word in ("", "unknown"):  # many drivers leave it at that; without /sys nothing speaks against it
            carrier = self._tree.maybe(f"{NET}/{name}/carrier")
            return "down" if carrier == 0 else "up"
        return "down" if word in ("down", "lowerlayerdown", "notpresent") else word[:20]


def rate(before: int, after: int, dt: float, unit: float = MB) -> float | None:
    """Millions of bytes a second; None when the counter started anew. A counter of 32 bits may have wrapped once."""
    grown = after - before
    if grown < 0 and after < 2**32 and 2**31 < before < 2**32:
        grown += 2**32
    return round(grown / dt / unit, 3) if grown >= 0 and dt > 0 else None


def netdev(text: str) -> dict[str, tuple[int, int, int]]:
    """/proc/net/dev as name -> bytes in, bytes out, errors of both; headings and broken lines are passed over."""
    out = {}
    for line in text.splitlines():
        name, colon, rest = line.rpartition(":") if line.count(":") > 1 else line.partition(":")
        counters = wholes(rest.split()) if colon else None
        if counters is not None and len(counters) >= 12 and min(counters) >= 0:
            out[name.strip()] = (counters[0], counters[8], counters[2] + counters[10])
    return out


def chosen(names: list[str], tree: Tree) -> list[str]:
    """The interfaces whose traffic leaves the machine, each counted once."""
    hardware, virtual = [], []
    for name in names:
        folder = f"{NET}/{name}"
        if "/" in name or _NEVER.match(name) or _member(name, tree):
            continue
        real = tree.there(f"{folder}/device")
        if not real and (_kind(name, tree) in _KINDS_NEVER or tree.there(f"{folder}/bridge")):
            continue
        bond = tree.there(f"{folder}/bonding") or _kind(name, tree) in ("bond", "team")
        if bond or (real and not tree.there(f"{folder}/tun_flags")):
            hardware.append(name)
        else:
            virtual.append(name)
    return hardware or virtual


def _kind(name: str, tree: Tree) -> str:
    try:
        text = tree.text(f"{NET}/{name}/uevent")
    except Unreadable:
        return ""
    for line in text.splitlines():
        if line.startswith("DEVTYPE="):
            return line[8:].strip()
    return ""


def _member(name: str, tree: Tree) -> bool:
    """Part of a bond, or of a device that counts its traffic too (the virtual function below a cloud's eth0)."""
    master = tree.link(f"{NET}/{name}/master").rpartition("/")[2]
    if not master:
        return False
    folder = f"{NET}/{master}"
    return tree.there(f"{folder}/bonding") or tree.there(f"{folder}/device") or _kind(master, tree) in ("bond", "team")
