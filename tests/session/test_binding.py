"""Which machine is which node, which GPU carries which rank, and whose GPUs they are."""

from __future__ import annotations

from dataclasses import dataclass

from trainmon.samples import GpuProcess
from trainmon.session.binding import Binding, SeatBook, bind, short_name

ME = frozenset(("maria", "1000"))


@dataclass
class FakeCard:
    key: str
    index: int | None
    processes: tuple[GpuProcess, ...] | None = None
    instance: str = ""


def cards(name: str, *runs: tuple[GpuProcess, ...] | None) -> list[FakeCard]:
    return [FakeCard(f"{name}|{i}", i, found) for i, found in enumerate(runs)]


def ranked(rank: int | None, pid: int = 0, user: str = "maria", local: int | None = None) -> tuple[GpuProcess, ...]:
    return (GpuProcess(pid or 1000 + (rank or 0), user=user, rank=rank, local_rank=local),)


def seats(node_ranks: dict[str, range], local: bool = True) -> SeatBook:
    book = SeatBook()
    for i, (node, ranks) in enumerate(node_ranks.items()):
        for rank in ranks:
            book.take(node, i, rank, rank - ranks.start if local else None, None, None)
    return book


def test_names_bind_whatever_their_domain_and_case() -> None:
    machines = {"Worker-2": cards("w", None), "gpu7.cluster.local": cards("g", None), "login": cards("l", None)}
    found = bind(machines, ["worker-1", "worker-2", "gpu7"], SeatBook())
    assert found.node_of == {"Worker-2": "worker-2", "gpu7.cluster.local": "gpu7"}
    assert found.machine_of == {"worker-2": "Worker-2", "gpu7": "gpu7.cluster.local"}
    assert short_name("10.0.0.1") == "10.0.0.1" and short_name("A.b") == "a"


def test_a_name_that_fits_twice_binds_nothing() -> None:
    found = bind({"a.one": cards("x", None), "a.two": cards("y", None)}, ["a", "b"], SeatBook())
    assert found.node_of == {}


def test_ranks_of_processes_tell_the_node() -> None:
    book = seats({"out0": range(8), "out1": range(8, 16)})
    machines = {
        "host-a": cards("a", *(ranked(r) for r in range(8, 16))),
        "host-b": cards("b", *(ranked(r) for r in range(8))),
    }
    found = bind(machines, ["out0", "out1"], book)
    assert found.node_of == {"host-a": "out1", "host-b": "out0"}
    assert found.rank["a|3"] == 11 and found.held["host-a"] == frozenset(f"a|{i}" for i in range(8))


def test_two_machines_that_claim_the_same_ranks_stay_unbound() -> None:
    book = seats({"out0": range(4), "out1": range(4, 8)})
    machines = {name: cards(name, *(ranked(r) for r in range(4))) for name in ("a", "b")}
    found = bind(machines, ["out0", "out1"], book)
    assert found.node_of == {} and found.rank["a|2"] == 2


def test_a_process_that_the_log_names_binds_its_machine_and_no_other_gpu_is_ours() -> None:
    book = SeatBook()
    book.take("train", 0, None, None, None, 4242)
    book.take("other", 1, None, None, None, 7)
    machines = {"box": cards("box", ranked(None, 4242), ranked(None, 5151, "john"), ())}
    found = bind(machines, ["train", "other"], book, here="box")
    assert found.node_of == {"box": "train"} and found.held == {"box": frozenset({"box|0"})}
    assert found.mine("box", "box|0") and not found.mine("box", "box|1")


def test_the_number_inside_a_container_counts_too() -> None:
    book = SeatBook()
    book.take("train", 0, 5, None, None, 17)
    process = (GpuProcess(3_100_001, inner_pid=17),)
    found = bind({"box": cards("box", process)}, ["train", "second"], book)
    assert found.node_of == {"box": "train"} and found.rank == {"box|0": 5}


def test_one_run_and_one_machine_with_a_process_of_this_user() -> None:
    mine = {"box": cards("box", ranked(None, 1), ranked(None, 2, "john"))}
    found = bind(mine, ["train"], SeatBook(), here="box", users=ME)
    assert found.node_of == {"box": "train"} and found.held == {"box": frozenset({"box|0"})}
    theirs = {"box": cards("box", ranked(None, 2, "john"))}
    assert bind(theirs, ["train"], SeatBook(), here="box", users=ME).node_of == {}
    desktop = {"box": cards("box", (GpuProcess(1, user="maria", kind="G"),))}
    assert bind(desktop, ["train"], SeatBook(), here="box", users=ME).node_of == {}
    assert bind(mine, ["train", "second"], SeatBook(), here="box", users=ME).node_of == {}


def test_nodes_that_are_ranks_are_found_gpu_by_gpu() -> None:
    machines = {"box": cards("box", ranked(1), ranked(0))}
    found = bind(machines, ["rank 0", "rank 1"], SeatBook())
    assert found.run_node == {"box|0": "rank 1", "box|1": "rank 0"}
    assert found.machine_of == {"rank 0": "box", "rank 1": "box"} and found.rank == {"box|0": 1, "box|1": 0}


def test_local_ranks_and_told_gpus_tell_the_rank_where_processes_do_not() -> None:
    book = seats({"worker-1": range(8, 12)})
    local = {"worker-1": cards("w", ranked(None, 5, local=3))}
    assert bind(local, ["worker-1"], book).rank == {"w|0": 11}
    blind = {"worker-1": cards("w", None, None)}
    assert bind(blind, ["worker-1"], book).rank == {"w|0": 8, "w|1": 9}
    seen = {"worker-1": cards("w", (), ())}
    assert bind(seen, ["worker-1"], book).rank == {}


def test_while_no_process_is_seen_the_gpus_stay_whose_they_were() -> None:
    book = seats({"worker-1": range(2)})
    first = bind({"worker-1": cards("w", ranked(0), ranked(1), ranked(None, 9, "john"))}, ["worker-1"], book)
    assert first.held == {"worker-1": frozenset({"w|0", "w|1"})}
    gone = bind({"worker-1": cards("w", (), (), ranked(None, 9, "john"))}, ["worker-1"], book, before=first)
    assert not gone.mine("worker-1", "w|2") and gone.mine("worker-1", "w|0")
    assert Binding().mine("any", "gpu")


def test_a_machine_at_others_work_is_no_part_of_the_run() -> None:
    book = seats({"worker-0": range(2)})
    machines = {
        "worker-0": cards("w", ranked(0), ranked(1)),
        "login": cards("l", ranked(None, 9, "john"), ()),
        "worker-1": cards("v", ranked(2, 8, "")),
        "idle": cards("i", (), ()),
    }
    found = bind(machines, ["worker-0"], book)
    assert not found.mine("login", "l|0") and not found.mine("login", "l|1")
    assert found.mine("worker-1", "v|0") and found.mine("idle", "i|0")
    assert bind(machines, ["worker-0", "worker-7"], book).mine("login", "l|0")  # it may be worker-7


def test_a_log_cannot_fill_the_books() -> None:
    book = SeatBook()
    for pid in (True, "7", -1, 1 << 40, 3.5):
        book.take("n", 0, None, None, None, pid)
    assert book.pids == {}
    for rank in range(70_000):
        book.take("n", 0, rank, None, None, rank + 1)
    assert len(book.ranks) == len(book.pids) == 65_536
