"""The host panel: processors, memory, disks and network of one machine, in a fixed order."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from trainmon import units
from trainmon.machines import GpuPanel, HostFigure, HostPanel, LinkRow
from trainmon.model import Incident
from trainmon.samples import DiskSample, LinkSample, VolumeSample
from trainmon.session.hosts import Host
from trainmon.session.run import RunState
from trainmon.session.wording import coarse, natural, shortened
from trainmon.snapshot import Health

ORIGINS = {"host": "host", "NVML": "host", "agent": "from its agent", "log": "from the log"}
DISKS, VOLUMES = 2, 4
"""So many disks, the worst, and volumes are shown."""
FULL_SHARE, SHM_SHARE = 0.95, 0.80
"""Shares of a volume and of /dev/shm from which their line is coloured; alarms have thresholds of their own."""
_SWAP_MB = 64.0
_GIB = 1024.0


def host_of(run: RunState, alerts: Sequence[Incident], selected: str | None, gpus: GpuPanel, now: float) -> HostPanel:
    """The panel of the selected node, else of the machine whose GPUs are shown, else of this one.

    Args:
        alerts: What is firing.
        gpus: The GPU panel of this picture.
    """
    machines = run.machines
    hosts = machines.hosts.hosts
    if not hosts and not machines.here:
        return HostPanel()
    card = machines.cards.cards.get(gpus.rows[0].key) if gpus.rows else None
    shown = card.node if card is not None else ""
    asked = machines.machine_of(selected) if selected is not None else ""
    machine = asked or (shown if shown in hosts else machines.here if machines.here in hosts else "")
    if not machine:
        machine = min(hosts, key=natural, default=machines.here)
    subject = machines.node_of(machine)
    if asked and asked not in hosts:
        subject = selected or subject
    mine = [alert for alert in alerts if alert.node in (subject, machine)]
    return host_panel(
        hosts.get(machine), mine, now, subject=subject, here=machine == machines.here, sentence=_unknown(subject)
    )


def _unknown(subject: str) -> str:
    return f"nothing is known of the machine of {subject}: `trainmon agent` there would tell"


def host_panel(
    host: Host | None, alerts: Iterable[Incident], now: float, *, subject: str, here: bool, sentence: str = ""
) -> HostPanel:
    """The panel of a machine.

    Args:
        alerts: What is firing on its node.
        subject: What the machine is called. here: it is this machine.
        sentence: Said where nothing is known of it.
    """
    if host is None or host.heard == -math.inf:
        return HostPanel(subject=subject, here=here, sentence=sentence)
    firing = list(alerts)
    age = coarse(host.age(now)) if host.stale(now) else 0.0
    figures = [
        one for one in (_cpu(host, firing), _memory(host, firing), _swap(host), _shm(host, firing)) if one is not None
    ]
    figures += _volumes(host.volumes, firing)
    figures += _disks(host, firing)
    network = _network(host.links, firing)
    figures += [one for one in (network, _files(host, firing)) if one is not None]
    return HostPanel(
        subject=subject,
        here=here,
        origin=ORIGINS.get(host.origin, host.origin),
        age_s=age or None,
        figures=tuple(figures),
        links=tuple(_link(one, host, firing) for one in host.links),
    )


def _alarm(alerts: Iterable[Incident], kinds: Sequence[str], word: str = "") -> Health | None:
    """Health by the worst alert of these kinds that names `word`."""
    found: Health | None = None
    for alert in alerts:
        if alert.kind not in kinds or alert.severity == "info":
            continue
        told = " ".join((alert.who, alert.measured, alert.key, *(str(value) for _, value in alert.evidence)))
        if word and word not in told:
            continue
        if alert.severity == "critical":
            return "critical"
        found = "warning"
    return found


def _cpu(host: Host, alerts: Sequence[Incident]) -> HostFigure | None:
    used = host.values.get("cpu_percent")
    if used is None:
        return None
    cpus = host.values.get("cpus")
    words = units.percent(used)
    if cpus is not None:
        words += f" of {cpus:.10g} processor{'s' if cpus != 1 else ''}"
    notes = []
    throttled, wait = host.values.get("cpu_throttled_percent"), host.values.get("iowait_percent")
    if throttled is not None and throttled >= 1.0:
        notes.append(f"held back by its quota {units.percent(throttled)}")
    if wait is not None and wait >= 5.0:
        notes.append(f"waits for disks {units.percent(wait)}")
    return HostFigure(
        "CPU",
        words + _scope(host),
        _alarm(alerts, ("cpu_saturated",)) or "ok",
        share=_share(used, 100.0),
        spark=host.cpu.values(),
        note=" · ".join(notes),
    )


def _scope(host: Host) -> str:
    return ", container" if host.scope == "container" else ""


def _memory(host: Host, alerts: Sequence[Incident]) -> HostFigure | None:
    used, total = host.values.get("memory_used_mb"), host.values.get("memory_total_mb")
    if used is None:
        return None
    notes = []
    pressure, kills = host.values.get("memory_pressure_percent"), host.values.get("oom_kills")
    if pressure is not None and pressure >= 1.0:
        notes.append(f"tasks wait for it {units.percent(pressure)} of the time")
    if kills:
        notes.append(f"{units.count(kills)} killed for memory")
    return HostFigure(
        "memory",
        f"{units.memory(used)} of {units.memory_total(total)} GiB{_scope(host)}" if total else units.memory_text(used),
        _alarm(alerts, ("host_oom",)) or "ok",
        share=_share(used, total),
        spark=host.memory.values(),
        note=" · ".join(notes),
    )


def _swap(host: Host) -> HostFigure | None:
    used = host.values.get("swap_used_mb")
    return None if used is None or used < _SWAP_MB else HostFigure("swap", units.memory_text(used))


def _shm(host: Host, alerts: Sequence[Incident]) -> HostFigure | None:
    used, total = host.values.get("shm_used_mb"), host.values.get("shm_total_mb")
    if used is None or not total:
        return None
    share = _share(used, total) or 0.0
    health: Health = "warning" if share >= SHM_SHARE else "ok"
    return HostFigure(
        "/dev/shm",
        f"{units.memory_text(used)} of {units.memory_text(total)}",
        _alarm(alerts, ("host_oom", "storage_fault", "disk_saturated"), "shm") or health,
        share=share,
    )


def _volumes(volumes: Sequence[VolumeSample], alerts: Sequence[Incident]) -> list[HostFigure]:
    """Volumes that do not answer first, then the fullest."""
    found = [one for one in volumes if one.path != "/dev/shm"]
    found.sort(key=lambda one: (not one.hangs, -(_share(one.used_mb, one.total_mb) or 0.0)))
    out = []
    for one in found[:VOLUMES]:
        title = shortened(one.path, 32)
        alarm = _alarm(alerts, ("storage_fault",), one.path)
        share = _share(one.used_mb, one.total_mb)
        if one.hangs:
            out.append(HostFigure(title, "does not answer", alarm or "critical", note=one.why))
        elif share is not None and one.used_mb is not None and one.total_mb is not None:
            left = units.file_size(max(0.0, one.total_mb - one.used_mb) * 1024.0**2)
            words = f"{left} free of {units.file_size(one.total_mb * 1024.0**2)}"
            health: Health = "warning" if share >= FULL_SHARE else "ok"
            note = " · ".join(word for word in (one.why, one.kind) if word)
            out.append(HostFigure(title, words, alarm or health, share=share, note=note))
    return out


def _disks(host: Host, alerts: Sequence[Incident]) -> list[HostFigure]:
    """The worst two: how long requests take says more than how busy the disk is."""

    def weight(disk: DiskSample) -> tuple[float, float]:
        return -(disk.queue or 0.0) * ((disk.util_percent or 0.0) + 1.0), -(disk.util_percent or 0.0)

    out = []
    for disk in sorted(host.disks, key=weight)[:DISKS]:
        words = []
        waits = [one for one in (disk.read_await_ms, disk.write_await_ms) if one is not None]
        if waits:
            words.append(f"await {units.number(max(waits))} ms")
        if disk.queue is not None:
            words.append(f"queue {units.depth(disk.queue)}")
        if disk.util_percent is not None:
            words.append(f"{units.percent(disk.util_percent)} busy")
        rates = [one for one in (disk.read_mb_s, disk.write_mb_s) if one is not None]
        if rates:
            words.append(units.traffic(sum(rates)))
        past = host.busy.get(disk.name)
        out.append(
            HostFigure(
                f"disk {disk.name}",
                " · ".join(words),
                _alarm(alerts, ("disk_saturated",), disk.name) or "ok",
                share=_share(disk.util_percent, 100.0),
                spark=past.values() if past is not None else (),
            )
        )
    return out


def _busier(link: LinkSample) -> float | None:
    found = [one for one in (link.rx_mb_s, link.tx_mb_s) if one is not None]
    return max(found) if found else None


def _network(links: Sequence[LinkSample], alerts: Sequence[Incident]) -> HostFigure | None:
    """The link that comes nearest to what it can carry, else the busiest."""
    known = [(link, rate) for link in links if (rate := _busier(link)) is not None]
    if not known:
        return None
    link, rate = max(known, key=lambda pair: ((_share(pair[1], pair[0].rate_mb_s) or 0.0), pair[1]))
    words = f"{link.name} {units.traffic(rate)}"
    if link.rate_mb_s:
        words += f" of {units.traffic(link.rate_mb_s)}"
    health = _alarm(alerts, ("network_bottleneck", "network_fault"))
    return HostFigure("network", words, health or "ok", share=_share(rate, link.rate_mb_s))


def _files(host: Host, alerts: Sequence[Incident]) -> HostFigure | None:
    used, limit = host.values.get("open_files"), host.values.get("open_files_limit")
    if used is None:
        used, limit = host.values.get("files_open_system"), host.values.get("files_limit_system")
    if used is None:
        return None
    words = units.count(used) + (f" of {units.count(limit)}" if limit else "")
    share = _share(used, limit)
    health: Health = "warning" if share is not None and share >= FULL_SHARE else "ok"
    return HostFigure("open files", words, health, share=share)


def _link(link: LinkSample, host: Host, alerts: Sequence[Incident]) -> LinkRow:
    seen = host.seen.get(link.name)
    rate = _busier(link)
    alarm = _alarm(alerts, ("network_bottleneck", "network_fault"), link.name)
    down = link.state not in ("up", "active")
    errors = seen.per_minute() if seen is not None and seen.looks > 1 else None
    return LinkRow(
        name=link.name,
        state=link.state,
        health=alarm or ("silent" if down else "ok"),
        gb_s=None if rate is None else _two(rate / 1000.0),
        rate_gb_s=None if link.rate_mb_s is None else link.rate_mb_s / 1000.0,
        errors_per_min=errors,
        flaps=max(0, link.downs),
        last_flap=seen.flapped if seen is not None else None,
    )


def _two(value: float) -> float:
    """Rounded to what a panel shows, so that equal pictures are equal."""
    return round(value, 1) if value >= 1.0 else round(value, 3)


def _share(used: float | None, total: float | None) -> float | None:
    if used is None or not total or total <= 0.0:
        return None
    return round(min(1.0, max(0.0, used / total)), 3)
