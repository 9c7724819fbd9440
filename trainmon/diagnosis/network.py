"""Network links: at their rate, down, flapping, or counting errors.

A link at 80 % of its rate for three readings is a bottleneck when it is news (`settle.py`): a run that keeps its links
busy all the time uses them well. A link is down when it was up before; one that was down at the first look is none of
this run's. Errors are the rise while we look: ten a minute, for three minutes of the last ten, or a link that went down
in between.
"""

from __future__ import annotations

from collections.abc import Iterable

from trainmon.diagnosis.level import Level
from trainmon.diagnosis.machine import Host
from trainmon.diagnosis.phase import phase
from trainmon.diagnosis.pulse import Pulse
from trainmon.diagnosis.settle import Settle
from trainmon.diagnosis.thresholds import Thresholds
from trainmon.diagnosis.watch import Watch
from trainmon.model import Incident
from trainmon.samples import LinkSample

READINGS, APART_S = 3, 2.0
OFF = 10.0
UP = frozenset(("up", "active", "linkup"))
DOWN_S = 2.0
ERRORS_PER_MIN = 10.0
ERROR_MINUTES = 3
WINDOW_S = 600.0
MOST = 64
ADVICE_FULL = (
    "is it the training's traffic? nload, sar -n DEV 1 on {node}; a checkpoint or a data copy on the same link?",
    "NCCL_IB_HCA and NCCL_SOCKET_IFNAME: does NCCL use the fast links?",
    "fewer synchronisations: more gradient accumulation, bigger buckets",
)
ADVICE_DOWN = (
    "ip -s link and ibstat on {node}; dmesg -T | grep -i 'link' tells when it went",
    "cable, transceiver and switch port; drain {node} if it flaps",
)


class _Link:
    """What is remembered of one link."""

    __slots__ = ("downs", "errors", "level", "seen_up", "since")

    def __init__(self, mark: float) -> None:
        self.level = Level(mark, mark - OFF, readings=READINGS, apart=APART_S, clear=10.0)
        self.seen_up = False
        self.since: float | None = None  # down since
        self.errors: list[tuple[float, int]] = []  # (start of the minute, errors in it) of the last ten
        self.downs: int | None = None


class Network(Watch):
    """The detector; one incident a link and matter."""

    kinds = frozenset(("host",))

    def __init__(self, pulse: Pulse, thresholds: Thresholds) -> None:
        super().__init__(pulse, thresholds)
        self._links: dict[tuple[str, str], _Link] = {}
        self._there: dict[str, frozenset[str]] = {}
        """By machine: its links, as told last."""
        self._settle = Settle(pulse)

    def look_host(self, host: Host, at: float) -> Iterable[Incident]:
        if host.links is None:
            return ()
        out = self._gone(host)
        for link in host.links[:MOST]:
            known = self._links.get((host.node, link.name))
            if known is None:
                mark = self.thresholds.network_percent
                known = self._links[(host.node, link.name)] = _Link(mark if mark is not None else 1e9)
            if self.thresholds.network_percent is not None:
                out += self._busy(host, link, known, at)
            if self.thresholds.network_fault is not None:
                out += self._fault(host, link, known)
        return out

    def _gone(self, host: Host) -> list[Incident]:
        """Interfaces come and go with containers: of those that are gone nothing is kept."""
        names = frozenset(link.name for link in (host.links or ())[:MOST])
        before, self._there[host.node] = self._there.get(host.node, names), names
        out: list[Incident] = []
        for name in before - names:
            self._links.pop((host.node, name), None)
            for kind in ("network_bottleneck", "network_fault"):
                key = f"{kind}:{host.node}:{name}"
                out += self.end(key, host.time, "it is not there any more")
                self._settle.forget(f"{host.node}:{name}")
            out += self.end(f"network_fault:{host.node}:{name}:errors", host.time, "it is not there any more")
        return out

    def _busy(self, host: Host, link: LinkSample, known: _Link, at: float) -> list[Incident]:
        speeds = [s for s in (link.rx_mb_s, link.tx_mb_s) if s is not None]
        if not speeds or not link.rate_mb_s or link.rate_mb_s <= 0.0:
            return []
        percent = 100.0 * max(speeds) / link.rate_mb_s
        if percent > 120.0:
            return []  # counters that jumped: nothing carries more than its rate
        key, level = f"network_bottleneck:{host.node}:{link.name}", known.level
        paused = phase(self.pulse, at) in ("paused", "over")
        changed = level.take(percent, host.time, allowed=not paused and not self._settle.usual(key, percent))
        if level.open and self._settle.settles(key, host, level, percent, at):
            return self.end(key, host.time, "as usual on this machine: steps keep their pace")
        if not changed:
            return []
        told = f"{max(speeds) / 1000.0:.1f} of {link.rate_mb_s / 1000.0:.1f} GB/s ({percent:.0f} %)"
        if not level.open:
            return self.end(key, host.time, told)
        way = "in" if link.rx_mb_s is not None and link.rx_mb_s == max(speeds) else "out"
        return self.begin(
            host,
            key,
            "network_bottleneck",
            "warning",
            "NETWORK FULL",
            f"{link.name} {told} {way}",
            outlook=self._settle.cost(host, at) or "collectives and readers share what is left",
            advice=ADVICE_FULL,
            since=level.since,
            evidence=(
                ("link", link.name),
                ("rx_mb_s", link.rx_mb_s),
                ("tx_mb_s", link.tx_mb_s),
                ("rate_mb_s", link.rate_mb_s),
                ("percent", percent),
                ("bar_percent", self.thresholds.network_percent),
            ),
        )

    # ------------------------------------------------------------ faults

    def _fault(self, host: Host, link: LinkSample, known: _Link) -> list[Incident]:
        out: list[Incident] = []
        key = f"network_fault:{host.node}:{link.name}"
        if link.state in UP:
            known.seen_up = True
            if known.since is not None:
                known.since = None
                out += self.end(key, host.time, "the link is up again")
        elif known.seen_up:
            known.since = host.time if known.since is None else known.since
            if host.time - known.since >= DOWN_S:
                out += self.begin(
                    host,
                    key,
                    "network_fault",
                    "critical" if link.kind != "ethernet" else "warning",
                    "LINK DOWN",
                    f"{link.name} is {link.state}",
                    outlook="collectives over this link time out",
                    advice=ADVICE_DOWN,
                    since=known.since,
                    evidence=(("link", link.name), ("kind", link.kind), ("state", link.state)),
                )
        return out + self._errors(host, link, known)

    def _errors(self, host: Host, link: LinkSample, known: _Link) -> list[Incident]:
        key = f"network_fault:{host.node}:{link.name}:errors"
        errors, now = known.errors, host.time
        flapped = known.downs is not None and link.downs > known.downs and link.state in UP
        known.downs = link.downs
        if link.errors > 0 or flapped:
            minute = now - now % 60.0
            if errors and errors[-1][0] == minute:
                errors[-1] = (minute, errors[-1][1] + max(0, link.errors))
            else:
                errors.append((minute, max(0, link.errors)))
        elif not errors:
            return []
        while errors and not 0.0 <= now - errors[0][0] <= WINDOW_S:
            del errors[0]
        bad = sum(count >= ERRORS_PER_MIN for _, count in errors)
        if not flapped and bad < ERROR_MINUTES:
            if not errors or now - errors[-1][0] > 0.5 * WINDOW_S:
                return self.end(key, now, "no new errors for five minutes")
            return []
        if key in self.open and not flapped:
            return []
        total = sum(count for _, count in errors)
        text = f"{link.name} went down and up" if flapped else f"{link.name}: {total} errors in {len(errors)} min"
        return self.begin(
            host,
            key,
            "network_fault",
            "warning",
            "LINK FLAPS" if flapped else "LINK ERRORS",
            text,
            outlook="what is lost is sent again: all ranks wait for it",
            advice=ADVICE_DOWN,
            evidence=(
                ("link", link.name),
                ("errors", total),
                ("minutes_with_errors", bad),
                ("downs", link.downs),
                ("bar_per_min", ERRORS_PER_MIN),
            ),
        )

    def forgotten(self, key: str) -> None:
        for known in [k for k in self._links if k[0] == key]:
            del self._links[known]
        self._there.pop(key, None)
        self._settle.forget(key)
