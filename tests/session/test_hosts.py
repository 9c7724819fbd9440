"""The host panel: one machine's processors, memory, disks and network, from wherever they are told."""

from __future__ import annotations

import math

import pytest

from trainmon.clock import ManualClock
from trainmon.machines import HostFigure, HostPanel
from trainmon.model import Incident, Telemetry
from trainmon.samples import DiskSample, GpuSample, HostSample, LinkSample, VolumeSample
from trainmon.session.hosts import MAX_HOSTS, HostBook
from trainmon.session.hostview import host_panel
from trainmon.session.session import Session
from trainmon.settings import Settings

START = 1_764_500_000.0
GIB = 1024.0
FULL = {
    "cpu_percent": 62.4, "cpus": 32.0, "memory_used_mb": 412.0 * GIB, "memory_total_mb": 504.0 * GIB,
    "shm_used_mb": 12 * GIB, "shm_total_mb": 64 * GIB, "open_files": 812.0, "open_files_limit": 1024.0,
}  # fmt: skip


def host(time: float, node: str = "box", **more: object) -> HostSample:
    given: dict[str, object] = {"values": dict(FULL), "scope": "container"} | more
    return HostSample(node, time, **given)  # type: ignore[arg-type]


def panel_of(book: HostBook, node: str = "box", now: float = START, alerts: tuple[Incident, ...] = ()) -> HostPanel:
    return host_panel(book.get(node), alerts, now, subject=node, here=True, sentence="nothing known")


def figures(panel: HostPanel) -> dict[str, HostFigure]:
    return {figure.title: figure for figure in panel.figures}


def alert(kind: str, **more: object) -> Incident:
    given: dict[str, object] = {"severity": "warning", "node": "box"} | more
    return Incident("k", kind, given.pop("severity"), "T", "box", str(given.pop("measured", "")), **given)  # type: ignore[arg-type]


def test_the_figures_stand_in_their_order() -> None:
    book = HostBook()
    disks = tuple(DiskSample(f"nvme{i}", 20.0 * i, 100.0, 20.0, 0.5, 12.34, float(i)) for i in range(4))
    volumes = (
        VolumeSample("/", "", "ext4", 90.0 * GIB, 100.0 * GIB),
        VolumeSample("/logs", "logs", "nfs4", hangs=True),
    )
    links = (
        LinkSample("eth0", rate_mb_s=1250.0, rx_mb_s=300.0, tx_mb_s=10.0),
        LinkSample("mlx5_0", "infiniband", "active"),
    )
    book.take(host(START, disks=disks, volumes=volumes, links=links), START, live=True)
    panel = panel_of(book)
    assert [figure.title for figure in panel.figures] == [
        "CPU", "memory", "/dev/shm", "/logs", "/", "disk nvme3", "disk nvme2", "network", "open files",
    ]  # fmt: skip
    found = figures(panel)
    assert found["CPU"].text == "62 % of 32 processors, container" and found["CPU"].share == 0.624
    assert found["memory"].text == "412.0 of 504 GiB, container" and found["memory"].health == "ok"
    assert found["/dev/shm"].text == "12.0 GiB of 64.0 GiB" and found["open files"].text == "812 of 1,024"
    assert found["/logs"].health == "critical" and found["/logs"].text == "does not answer"
    assert found["/"].text == "11 GB free of 107 GB" and found["/"].share == 0.9
    assert "await 12.3 ms" in found["disk nvme3"].text and "60 % busy" in found["disk nvme3"].text
    assert found["network"].text == "eth0 300 MB/s of 1.2 GB/s" and found["network"].share == 0.24
    assert panel.sentence == "" and panel.origin == "host" and panel.age_s is None


def test_pressure_quota_and_swap_are_told_where_they_matter() -> None:
    book = HostBook()
    more = {"cpu_throttled_percent": 30.0, "memory_pressure_percent": 12.0, "swap_used_mb": 2048.0, "oom_kills": 1.0}
    book.take(host(START, values=FULL | more), START, live=True)
    found = figures(panel_of(book))
    assert "quota 30 %" in found["CPU"].note and "12 % of the time" in found["memory"].note
    assert "1 killed" in found["memory"].note and found["swap"].text == "2.0 GiB"
    book.take(host(START + 1, values=dict.fromkeys(more, 0.0)), START + 1, live=True)
    found = figures(panel_of(book))
    assert found["CPU"].note == found["memory"].note == "" and "swap" not in found


def test_alerts_colour_what_they_are_about() -> None:
    book = HostBook()
    disks = (DiskSample("sda", 99.0, queue=40.0), DiskSample("sdb", 1.0))
    links = (
        LinkSample("ib0", "infiniband", "active", 100.0, 90.0),
        LinkSample("ib1", "infiniband", "active", 100.0, 1.0),
    )
    book.take(host(START, disks=disks, links=links), START, live=True)
    alerts = (
        alert("disk_saturated", measured="sda 99 % busy"),
        alert("cpu_saturated", severity="critical"),
        alert("network_fault", severity="critical", evidence=(("link", "ib1"),)),
        alert("host_oom", severity="info"),
    )
    panel = panel_of(book, alerts=alerts)
    found = figures(panel)
    assert found["disk sda"].health == "warning" and found["disk sdb"].health == "ok"
    assert found["CPU"].health == "critical" and found["memory"].health == "ok"
    assert [(link.name, link.health) for link in panel.links] == [("ib0", "ok"), ("ib1", "critical")]


def test_links_tell_errors_a_minute_and_flaps() -> None:
    book = HostBook()
    for second in range(0, 100, 10):
        links = (LinkSample("mlx5_4", "infiniband", "active", 50_000.0, 11_800.0, 11_000.0, errors=300, downs=3 if second >= 50 else 2),
                 LinkSample("mlx5_5", "infiniband", "down"))  # fmt: skip
        book.take(host(START + second, links=links), START + second, live=True)
    one, two = panel_of(book, now=START + 90).links
    assert (one.gb_s, one.rate_gb_s, one.flaps, one.last_flap) == (11.8, 50.0, 3, START + 50)
    assert one.errors_per_min == 1800.0 and two.health == "silent" and two.gb_s is None and two.last_flap is None


def test_partial_late_and_double_samples() -> None:
    book = HostBook()
    book.take(host(START), START, live=True)
    book.take(host(START + 2, values={"cpu_percent": 10.0}), START + 2, live=True)
    book.take(host(START + 1, values={"cpu_percent": 99.0}), START + 2.1, live=True)
    found = figures(panel_of(book, now=START + 2))
    assert found["CPU"].text.startswith("10 %") and found["memory"].share == 0.817
    missing = {"cpu_percent": "cannot be read", "nonsense": "x"}
    book.take(host(START + 4, values={}, missing=missing), START + 4, live=True)
    assert "CPU" not in figures(panel_of(book, now=START + 4))


def test_a_short_past_of_means() -> None:
    book = HostBook()
    for second in range(300):
        book.take(host(START + second, values={"cpu_percent": float(second % 2 * 100)}), START + second, live=True)
    spark = figures(panel_of(book, now=START + 299))["CPU"].spark
    assert len(spark) == 24 and all(30.0 <= value <= 70.0 for value in spark)


def test_figures_that_stop_and_clocks_that_jump() -> None:
    book = HostBook()
    for second in range(10):
        book.take(host(START + second), START + second, live=True)
    assert panel_of(book, now=START + 15).age_s is None and panel_of(book, now=START + 70).age_s == 60.0
    for second in range(4):
        back = START - 3600 + second
        book.take(host(back, values={"cpu_percent": 5.0}), back, live=True)
    assert figures(panel_of(book, now=START - 3596))["CPU"].text.startswith("5 %")


def test_hostile_samples_break_nothing() -> None:
    book = HostBook()
    book.take(host(math.nan), START, live=True)
    book.take(host(1e300), START, live=True)
    assert book.get("box") is None
    values = {
        "cpu_percent": math.inf,
        "memory_used_mb": math.nan,
        "cpus": -1e300,
        "junk": 1.0,
        "shm_total_mb": 0.0,
        "shm_used_mb": 1.0,
    }
    parts = {"disks": (DiskSample("\x1b[2J" * 90, math.nan, math.inf),) * 500,
             "volumes": (VolumeSample("\x1b]0;x\x07/" * 90, used_mb=-1.0, total_mb=0.0),) * 500,
             "links": (LinkSample("e\n" * 90, state="\x1b", errors=-5, downs=-7, rx_mb_s=math.nan, rate_mb_s=-1.0),) * 500}  # fmt: skip
    for second in range(3):
        book.take(host(START + second, values=values, **parts), START + second, live=True)
    panel = panel_of(book)
    assert "\\x1b" not in repr(panel) and repr(panel).isprintable() and len(panel.links) <= 64
    for i in range(MAX_HOSTS + 10):
        book.take(host(START, f"n{i}"), START, live=True)
    assert len(book.hosts) == MAX_HOSTS


def test_the_session_shows_the_machine_whose_gpus_are_shown() -> None:
    clock = ManualClock(START)
    session = Session(["*.log"], Settings(), clock=clock)
    assert session.pump().host == HostPanel()
    shot = session.pump(
        [Telemetry((GpuSample("box", 0, "U", START), host(START), host(START, "other", origin="agent")))]
    )
    assert shot.host.subject == "other" or shot.host.subject == "box"
    session.pump([Telemetry((GpuSample("box", 0, "U", START), host(START)))])
    assert session.snapshot.host.subject == "box" and session.snapshot.host.here
    session.select_node("other")
    shot = session.pump()
    assert shot.host.subject == "other" and not shot.host.here and shot.host.origin == "from its agent"
    session.select_node("worker-9")
    shot = session.pump()
    assert shot.host.figures == () and "worker-9" in shot.host.sentence and not session.fault


@pytest.mark.parametrize("node", ["box", "Box.cluster.local"])
def test_an_alert_on_the_runs_node_is_one_of_its_machine(node: str) -> None:
    clock = ManualClock(START)
    session = Session(["*.log"], Settings(), clock=clock)
    session.pump([Telemetry((host(START, node),))])
    assert session.snapshot.host.subject == node
