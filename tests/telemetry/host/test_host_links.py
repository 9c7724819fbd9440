"""Network interfaces and InfiniBand ports: what is shown once, what it carries, and what goes wrong."""

from __future__ import annotations

import pytest

from trainmon.telemetry.host.infiniband import InfinibandReader, port_rate
from trainmon.telemetry.host.network import NetworkReader, chosen, netdev, rate
from trainmon.telemetry.host.reading import Tree

HEAD = "Inter-|   Receive                |  Transmit\n face |bytes    packets errs drop|bytes packets\n"
NET = "/sys/class/net"


def _dev(machine, **links: tuple[int, int] | tuple[int, int, int]) -> None:
    lines = []
    for name, (rx, tx, *more) in links.items():
        lines.append(f"{name.replace('_', '.'):>6}:{rx} 1 {more[0] if more else 0} 0 0 0 0 0 {tx} 1 0 0 0 0 0 0\n")
    machine.write("/proc/net/dev", HEAD + "".join(lines))


def _card(machine, name: str, speed: str = "25000", state: str = "up", **more: str) -> None:
    machine.write(f"{NET}/{name}/operstate", f"{state}\n")
    machine.write(f"{NET}/{name}/speed", f"{speed}\n")
    machine.path(f"{NET}/{name}/device").mkdir(exist_ok=True)
    for file, text in more.items():
        machine.write(f"{NET}/{name}/{file}", text)


def _net(machine) -> NetworkReader:
    reader = NetworkReader(Tree(machine.root))
    reader.look()
    return reader


def test_rates_speed_errors_and_falls(machine) -> None:
    _card(machine, "eth0", carrier_down_count="4\n")
    _dev(machine, lo=(5, 5), eth0=(1_000_000, 0, 3))
    reader = _net(machine)
    first = reader.read(0.0)
    assert first is not None and [one.name for one in first] == ["eth0"]
    assert (first[0].rx_mb_s, first[0].rate_mb_s, first[0].errors, first[0].downs) == (None, 3125.0, 0, 0)
    _dev(machine, lo=(5, 5), eth0=(5_000_000, 1_000_000, 7))
    _card(machine, "eth0", carrier_down_count="5\n", state="down")
    second = reader.read(2.0)
    assert second is not None
    assert (second[0].rx_mb_s, second[0].tx_mb_s, second[0].errors, second[0].downs) == (2.0, 0.5, 4, 1)
    assert second[0].state == "down"
    assert reader.read(2.01) is None


def test_counters_that_start_anew_and_wrap() -> None:
    assert rate(10_000_000, 5, 1.0) is None
    assert rate(2**32 - 500_000, 500_000, 1.0) == 1.0, "a counter of 32 bits"
    assert rate(2**40, 5, 1.0) is None


@pytest.mark.parametrize("speed", ["-1", "0", "4294967295", "", "unknown"])
def test_a_speed_that_is_none(machine, speed) -> None:
    _card(machine, "eth0", speed=speed)
    _dev(machine, eth0=(1, 1))
    found = _net(machine).read(0.0)
    assert found is not None and found[0].rate_mb_s is None


def test_bonds_count_once_and_bridges_vlans_and_veths_not_at_all(machine) -> None:
    for name in ("eth0", "eth1", "eth2"):
        _card(machine, name)
    _card(machine, "bond0", speed="50000", uevent="DEVTYPE=bond\n")
    machine.path(f"{NET}/bond0/device").rmdir()
    machine.path(f"{NET}/bond0/bonding").mkdir()
    for member in ("eth0", "eth1"):
        machine.link(f"{NET}/{member}/master", "../../virtual/net/bond0")
    machine.path(f"{NET}/br0/bridge").mkdir(parents=True)
    machine.link(f"{NET}/eth2/master", "../../virtual/net/br0")
    machine.write(f"{NET}/bond0.100/uevent", "DEVTYPE=vlan\nINTERFACE=bond0.100\n")
    names = ["lo", "eth0", "eth1", "eth2", "bond0", "br0", "bond0.100", "veth12ab", "docker0", "br-55", "cali1", "tun0"]
    assert chosen(names, Tree(machine.root)) == ["eth2", "bond0"]
    _dev(machine, bond0=(1, 1), eth2=(1, 1))
    found = _net(machine).read(0.0)
    assert found is not None and {one.name: one.rate_mb_s for one in found} == {"bond0": 6250.0, "eth2": 3125.0}


def test_the_virtual_function_below_a_clouds_interface_counts_once(machine) -> None:
    _card(machine, "eth0")
    _card(machine, "enP1s1")
    machine.link(f"{NET}/enP1s1/master", "../eth0")
    assert chosen(["eth0", "enP1s1"], Tree(machine.root)) == ["eth0"]


def test_a_container_has_only_virtual_interfaces_whose_speed_is_made_up(machine) -> None:
    machine.write(f"{NET}/eth0/operstate", "up\n")
    machine.write(f"{NET}/eth0/speed", "10000\n")
    _dev(machine, lo=(1, 1), eth0=(1, 1))
    found = _net(machine).read(0.0)
    assert found is not None and [(one.name, one.rate_mb_s) for one in found] == [("eth0", None)]


def test_without_sys_the_traffic_is_still_there(machine) -> None:
    _dev(machine, lo=(1, 1), eth0=(1, 1), docker0=(1, 1))
    found = _net(machine).read(0.0)
    assert found is not None and [(one.name, one.state, one.rate_mb_s) for one in found] == [("eth0", "up", None)]


def test_a_spare_port_is_no_news_until_it_was_up(machine) -> None:
    _card(machine, "eth0")
    _card(machine, "eth1", state="down")
    _dev(machine, eth0=(1, 1), eth1=(0, 0))
    reader = _net(machine)
    assert [one.name for one in reader.read(0.0) or ()] == ["eth0"]
    _card(machine, "eth1", state="up")
    assert [one.name for one in reader.read(2.0) or ()] == ["eth0", "eth1"]
    _card(machine, "eth1", state="lowerlayerdown")
    assert [one.state for one in reader.read(4.0) or ()] == ["up", "down"]


def test_an_interface_that_is_plugged_in_later(machine) -> None:
    _card(machine, "eth0")
    _dev(machine, eth0=(1, 1))
    reader = _net(machine)
    reader.read(0.0)
    _card(machine, "eth1")
    _dev(machine, eth0=(1, 1), eth1=(7_000_000, 1))
    found = reader.read(2.0)
    assert found is not None and [(one.name, one.rx_mb_s) for one in found] == [("eth0", 0.0), ("eth1", None)]


@pytest.mark.parametrize(("carrier", "state"), [("1", "up"), ("0", "down"), ("", "up")])
def test_a_state_that_the_driver_does_not_keep(machine, carrier, state) -> None:
    _card(machine, "eth0", state="unknown", carrier=carrier)
    _dev(machine, eth0=(1, 1))
    assert [one.state for one in _net(machine).read(0.0) or ()] == [state]


def test_no_proc_net_dev(machine) -> None:
    reader = _net(machine)
    assert reader.read(0.0) is None and reader.why == "/proc/net/dev is not there"


def test_an_alias_with_a_colon_in_its_name() -> None:
    assert netdev(HEAD + "eth0:1: 1 1 0 0 0 0 0 0 2 1 0 0 0 0 0 0\n") == {"eth0:1": (1, 2, 0)}


def _port(machine, device: str, number: int = 1, layer: str = "InfiniBand", **counters: str) -> str:
    base = f"/sys/class/infiniband/{device}/ports/{number}"
    machine.write(f"{base}/state", counters.pop("state", "4: ACTIVE\n"))
    machine.write(f"{base}/rate", counters.pop("rate", "400 Gb/sec (4X NDR)\n"))
    machine.write(f"{base}/link_layer", f"{layer}\n")
    for name, text in counters.items():
        machine.write(f"{base}/{name.replace('__', '/')}", text)
    return base


def _ib(machine) -> InfinibandReader:
    reader = InfinibandReader(Tree(machine.root))
    reader.look()
    return reader


def test_octets_come_in_fours(machine) -> None:
    _port(machine, "mlx5_0", counters__port_rcv_data="0\n", counters__port_xmit_data="250000\n")
    reader = _ib(machine)
    reader.read(0.0)
    _port(machine, "mlx5_0", counters__port_rcv_data="500000\n", counters__port_xmit_data="1250000\n")
    found = reader.read(2.0)
    assert found is not None
    (port,) = found
    assert (port.name, port.kind, port.state, port.rate_mb_s) == ("mlx5_0", "infiniband", "active", 50_000.0)
    assert (port.rx_mb_s, port.tx_mb_s) == (1.0, 2.0)


def test_roce_efa_and_several_ports(machine) -> None:
    flow = {"counters__port_rcv_data": "1\n", "counters__port_xmit_data": "1\n"}
    _port(machine, "mlx5_0", 1, "Ethernet", rate="100 Gb/sec (4X EDR)", **flow)
    _port(machine, "mlx5_0", 2, state="1: DOWN\n", **flow)
    _port(machine, "rdmap0s6", 1, "Unspecified", hw_counters__rx_bytes="0\n", hw_counters__tx_bytes="0\n")
    reader = _ib(machine)
    reader.read(0.0)
    _port(machine, "rdmap0s6", 1, "Unspecified", hw_counters__rx_bytes="2000000\n", hw_counters__tx_bytes="0\n")
    found = reader.read(1.0)
    assert found is not None
    assert [(one.name, one.kind, one.state) for one in found] == [
        ("mlx5_0/1", "roce", "active"), ("mlx5_0/2", "infiniband", "down"), ("rdmap0s6", "efa", "active"),
    ]  # fmt: skip
    assert (found[0].rate_mb_s, found[2].rx_mb_s) == (12_500.0, 2.0)


def test_a_counter_of_32_bits_that_stopped_says_nothing(machine) -> None:
    _port(machine, "mthca0", counters__port_rcv_data="4294967000\n", counters__port_xmit_data="5\n")
    reader = _ib(machine)
    reader.read(0.0)
    _port(machine, "mthca0", counters__port_rcv_data="4294967295\n", counters__port_xmit_data="5\n")
    for now in (2.0, 4.0):
        found = reader.read(now)
        assert found is not None and (found[0].rx_mb_s, found[0].tx_mb_s) == (None, 0.0)


def test_the_wide_counters_of_old_drivers_are_preferred(machine) -> None:
    _port(
        machine, "mlx4_0", counters__port_rcv_data="4294967295\n", counters__port_xmit_data="4294967295\n",
        counters_ext__port_rcv_data_64="0\n", counters_ext__port_xmit_data_64="0\n",
    )  # fmt: skip
    reader = _ib(machine)
    reader.read(0.0)
    _port(machine, "mlx4_0", counters_ext__port_rcv_data_64="250000\n")
    assert [one.rx_mb_s for one in reader.read(1.0) or ()] == [1.0]


def test_new_errors_are_told_once_and_falls_are_counted(machine) -> None:
    old = {"counters__symbol_error": "900\n", "hw_counters__out_of_sequence": "5\n", "counters__link_downed": "3\n"}
    _port(machine, "mlx5_0", **old)
    reader = _ib(machine)
    assert [(one.errors, one.downs) for one in reader.read(0.0) or ()] == [(0, 0)], "what was before is no news"
    _port(
        machine,
        "mlx5_0",
        counters__symbol_error="910\n",
        hw_counters__out_of_sequence="7\n",
        counters__link_downed="4\n",
    )
    reader.look()
    assert [(one.errors, one.downs) for one in reader.read(2.0) or ()] == [(12, 1)]
    assert [(one.errors, one.downs) for one in reader.read(4.0) or ()] == [(0, 1)]
    _port(machine, "mlx5_0", counters__symbol_error="0\n")  # somebody cleared the counters
    reader.look()
    assert [one.errors for one in reader.read(6.0) or ()] == [0]


def test_a_port_that_is_taken_out_and_a_folder_that_is_empty(machine) -> None:
    base = _port(machine, "mlx5_0")
    machine.path("/sys/class/infiniband/strange").mkdir()
    reader = _ib(machine)
    assert len(reader.read(0.0) or ()) == 1
    machine.remove(f"{base}/state")
    assert reader.read(2.0) == ()


def test_ip_over_infiniband_is_in_its_port_already(machine) -> None:
    _card(machine, "ib0", type="32\n", speed="400000")
    _card(machine, "eth0")
    _dev(machine, ib0=(1, 1), eth0=(1, 1))
    reader = _net(machine)
    assert [(one.name, one.kind) for one in reader.read(0.0) or ()] == [("ib0", "infiniband"), ("eth0", "ethernet")]
    reader.ports = True
    reader.look()
    assert [one.name for one in reader.read(2.0) or ()] == ["eth0"]


@pytest.mark.parametrize(
    ("text", "found"),
    [("400 Gb/sec (4X NDR)", 50_000.0), ("2.5 Gb/sec (1X SDR)", 312.5), ("", None), ("0 Gb/sec", None), ("fast", None)],
)
def test_rates_in_words(text, found) -> None:
    assert port_rate(text) == found
