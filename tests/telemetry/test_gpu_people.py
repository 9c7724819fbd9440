"""Who a GPU's process is: rank, user, command, and which of its GPUs is its own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trainmon.telemetry.gpu.people import People, Person, short_command
from trainmon.telemetry.gpu.place import BLOCK, Marker
from trainmon.telemetry.gpu.processes import _parse
from trainmon.telemetry.gpu.ranks import Seat, expected, seat, visible

GPUS = [(f"GPU-{letter * 8}-0000", "H100") for letter in "abcd"]
MIXED = [("GPU-aaaaaaaa", "A100"), ("GPU-bbbbbbbb", "RTX 4090")]


class TestSeat:
    @pytest.mark.parametrize(
        ("environ", "rank", "local"),
        [
            ({"RANK": "11", "LOCAL_RANK": "3", "SLURM_PROCID": "1"}, 11, 3),
            ({"OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_LOCAL_RANK": "1"}, 5, 1),
            ({"PMI_RANK": "7", "MPI_LOCALRANKID": "7"}, 7, 7),
            ({"SLURM_PROCID": "9", "SLURM_LOCALID": "1", "SLURM_NTASKS": "16"}, 9, 1),
            ({"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NTASKS": "1"}, None, None),
            ({"RANK": "-1"}, None, None),
            ({"RANK": "12abc", "LOCAL_RANK": "²"}, None, None),
            ({"RANK": "99999999999999999999"}, None, None),
            ({}, None, None),
        ],
    )
    def test_launchers(self, environ, rank, local) -> None:
        found = seat(environ)
        assert (found.rank, found.local_rank) == (rank, local)

    def test_a_slurm_task_is_marked_as_such(self) -> None:
        assert seat({"SLURM_PROCID": "3", "SLURM_NTASKS": "4"}).by_task
        assert not seat({"RANK": "3", "SLURM_PROCID": "3"}).by_task


class TestVisible:
    @pytest.mark.parametrize(
        ("text", "wanted"),
        [
            (None, "abcd"),
            ("2,0", "ca"),
            ("0,1,-1,2", "ab"),
            ("0,9,1", "a"),
            ("", ""),
            ("NoDevFiles", ""),
            ("GPU-cccc,GPU-a", "ca"),
            ("gpu-dddddddd-0000", "d"),
            ("GPU-", ""),
            ("1,1", ""),
        ],
    )
    def test_indices_and_uuids(self, text, wanted) -> None:
        found = visible(text, "", GPUS)
        assert "".join(uuid[4] for uuid in found) == wanted

    def test_mig(self) -> None:
        assert visible("MIG-1234", "", GPUS) == ["MIG-1234"]

    def test_unlike_boards_have_cuda_s_own_order(self) -> None:
        assert visible("0", "", MIXED) is None
        assert visible("0", "PCI_BUS_ID", MIXED) == ["GPU-aaaaaaaa"]
        assert visible("GPU-bb", "", MIXED) == ["GPU-bbbbbbbb"]

    def test_the_gpu_of_a_local_rank(self) -> None:
        assert expected(Seat(5, 1, visible="3,2"), GPUS) == GPUS[2][0]
        assert expected(Seat(5, 1, visible="3"), GPUS) == GPUS[3][0]  # one GPU each: the local rank does not count
        assert expected(Seat(5, 7, visible="3,2"), GPUS) is None
        assert expected(Seat(5, None, visible="3,2"), GPUS) is None


def people(tmp_path: Path) -> People:
    made = People(Marker(memoryview(bytearray(BLOCK))), str(tmp_path))
    made.gpus = GPUS
    return made


def process(
    root: Path, pid: int, *, environ: dict[str, str], cmdline: list[str], born: int = 100, nspid: str = ""
) -> None:
    folder = root / "proc" / str(pid)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "stat").write_text(f"{pid} (a )( b) S " + " ".join(["0"] * 18) + f" {born} 0 0\n")
    (folder / "cmdline").write_bytes(b"\0".join(word.encode() for word in cmdline) + b"\0")
    (folder / "environ").write_bytes(b"\0".join(f"{k}={v}".encode() for k, v in environ.items()) + b"\0")
    (folder / "status").write_text(f"Name:\tx\nNSpid:\t{nspid or pid}\n")


class TestPeople:
    def test_who_it_is(self, tmp_path: Path) -> None:
        (tmp_path / "etc").mkdir()
        (tmp_path / "etc/passwd").write_text(f"someone:x:{os.getuid()}:0::/:/bin/sh\n")
        process(
            tmp_path,
            4711,
            environ={"RANK": "2", "LOCAL_RANK": "0", "SECRET": "x"},
            cmdline=["/usr/bin/python3", "train.py", "--token=abc"],
            nspid="4711 12",
        )
        found = people(tmp_path).person(4711)
        assert found.here and found.command == "python3 train.py" and found.inner_pid == 12
        assert (found.seat.rank, found.seat.local_rank) == (2, 0)
        assert found.user in ("someone", os.environ.get("USER"), os.environ.get("LOGNAME"))

    def test_no_such_process(self, tmp_path: Path) -> None:
        assert not people(tmp_path).person(4711).here

    def test_a_number_that_another_process_took_over_is_read_anew(self, tmp_path: Path) -> None:
        made = people(tmp_path)
        process(tmp_path, 5, environ={"RANK": "1"}, cmdline=["a"])
        assert made.person(5).seat.rank == 1
        process(tmp_path, 5, environ={"RANK": "8"}, cmdline=["b"], born=200)
        assert made.person(5).seat.rank == 8

    def test_without_leave_nothing_of_its_memory_is_read(self, tmp_path: Path) -> None:
        process(tmp_path, 5, environ={"RANK": "1"}, cmdline=["python", "x.py"])
        (tmp_path / "proc/5/comm").write_text("pt_main_thread\n")
        found = people(tmp_path).person(5, names=False)
        assert found.seat.rank is None and found.command == "pt_main_thread" and found.here

    def test_in_a_container_a_process_that_holds_no_gpu_is_someone_else(self, tmp_path: Path) -> None:
        process(tmp_path, 5, environ={"RANK": "1"}, cmdline=["nginx"])
        (tmp_path / "dev").mkdir()
        (tmp_path / "dev/nvidiactl").touch()
        (tmp_path / "proc/5/fd").mkdir()
        (tmp_path / "proc/self/ns").mkdir(parents=True)
        (tmp_path / "proc/self/ns/pid").symlink_to("pid:[4026532999]")
        assert not people(tmp_path).person(5).here
        (tmp_path / "proc/5/fd/7").symlink_to("/dev/nvidia0")
        assert people(tmp_path).person(5).here

    def test_a_stray_context_on_gpu_0_does_not_take_its_rank(self, tmp_path: Path) -> None:
        made = people(tmp_path)
        person = Person("1", True, seat=Seat(rank=3, local_rank=3))
        made.note(GPUS[0][0], {50: 500.0})
        made.note(GPUS[3][0], {50: 60_000.0})
        assert made.ranks(50, person, GPUS[0][0]) == (None, None)
        assert made.ranks(50, person, GPUS[3][0]) == (3, 3)

    def test_where_cuda_s_list_does_not_tell_the_fullest_gpu_is_its_own(self, tmp_path: Path) -> None:
        made = people(tmp_path)
        person = Person("1", True, seat=Seat(rank=9, local_rank=None))
        made.note(GPUS[0][0], {50: 500.0})
        made.note(GPUS[2][0], {50: 60_000.0})
        assert made.ranks(50, person, GPUS[0][0]) == (None, None)
        assert made.ranks(50, person, GPUS[2][0]) == (9, None)

    def test_what_a_process_uses_counts_more_than_what_it_should_use(self, tmp_path: Path) -> None:
        made = people(tmp_path)
        person = Person("1", True, seat=Seat(rank=3, local_rank=3))
        made.note(GPUS[1][0], {50: 500.0})
        assert made.ranks(50, person, GPUS[1][0]) == (3, 3)

    def test_a_task_number_that_all_children_share_is_no_rank(self, tmp_path: Path) -> None:
        made = people(tmp_path)
        for pid in (50, 51):
            process(tmp_path, pid, environ={"SLURM_PROCID": "0", "SLURM_NTASKS": "2"}, cmdline=["python", "t.py"])
        alone = made.person(50)
        made.note(GPUS[0][0], {50: 1.0})
        assert made.ranks(50, alone, GPUS[0][0]) == (0, None)
        made.person(51)
        made.note(GPUS[1][0], {51: 1.0})
        assert made.ranks(50, alone, GPUS[0][0]) == (None, None)
        made.note(GPUS[1][0], {})  # the other one ended
        assert made.ranks(50, alone, GPUS[0][0]) == (0, None)


@pytest.mark.parametrize(
    ("words", "short"),
    [
        (["/opt/venv/bin/python", "-u", "/home/me/train.py", "--api-key", "hunter2"], "python train.py"),
        (["python", "-m", "torch.distributed.run", "train.py"], "python -m torch.distributed.run"),
        (["python3.12", "-c", "from x import y; secret='a'"], "python3.12"),
        (["torchrun", "--nproc", "8", "train.py"], "torchrun"),
        (["bash", "run.sh", "token"], "bash run.sh"),
        (["ray::Trainer.train() a b"], "ray::Trainer.train() a b"),
        (["\x1b[31mevil\n", "x.py"], "[31mevil x.py"),
        ([], ""),
    ],
)
def test_a_command_is_short_and_holds_no_secrets(words: list[str], short: str) -> None:
    found = short_command("\0".join(words) + "\0")
    assert found == short


def test_records_of_three_widths() -> None:
    import struct

    def record(pid: int, size: int, width: int) -> bytes:
        return struct.pack("<IxxxxQII", pid, size, 0xFFFFFFFF, 0xFFFFFFFF)[:width] + b"\xff" * max(0, width - 24)

    for given, width in ((16, 16), (24, 24), (24, 32)):
        raw = record(1, 100, width) + record(2, 200, width)
        found = _parse(raw + b"\xee" * (32 * 4 - len(raw)), 2, given)
        assert found == [(1, 100, ""), (2, 200, "")], width
