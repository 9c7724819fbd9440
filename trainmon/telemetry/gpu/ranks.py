"""Which rank a process is, and which GPUs it was given: out of its environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_RANK = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "MV2_COMM_WORLD_RANK", "FLUX_TASK_RANK")
_LOCAL = (
    "LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PALS_LOCAL_RANKID", "MV2_COMM_WORLD_LOCAL_RANK",
)  # fmt: skip
_TASK, _LOCAL_TASK, _TASKS = "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS"
WANTED = frozenset(
    {*_RANK, *_LOCAL, _TASK, _LOCAL_TASK, _TASKS, "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "SLURM_JOB_ID"}
)
"""The only variables that are looked at; everything else of an environment is nobody's business."""
_MOST = 10_000_000


@dataclass(frozen=True, slots=True)
class Seat:
    """What a process's environment says of its place in the training.

    Attributes:
        by_task: The rank is that of a Slurm task. A launcher that starts one task a node and forks there leaves the
            same number with all of its children, so it counts only while it is unique.
        job: Slurm's job.
        visible: `CUDA_VISIBLE_DEVICES`; None: not set. order: `CUDA_DEVICE_ORDER`.
    """

    rank: int | None = None
    local_rank: int | None = None
    by_task: bool = False
    job: str = ""
    visible: str | None = None
    order: str = ""


def seat(environ: Mapping[str, str]) -> Seat:
    """Read the launchers' variables: torchrun and its kin first, then MPI, then Slurm."""
    rank, local = _first(environ, _RANK), _first(environ, _LOCAL)
    by_task = False
    if rank is None and (_number(environ.get(_TASKS)) or 2) > 1:
        rank, by_task = _number(environ.get(_TASK)), True
    if local is None and by_task:
        local = _number(environ.get(_LOCAL_TASK))
    return Seat(
        rank,
        local,
        by_task and rank is not None,
        environ.get("SLURM_JOB_ID", ""),
        environ.get("CUDA_VISIBLE_DEVICES"),
        environ.get("CUDA_DEVICE_ORDER", ""),
    )


def _first(environ: Mapping[str, str], names: Sequence[str]) -> int | None:
    for name in names:
        found = _number(environ.get(name))
        if found is not None:
            return found
    return None


def _number(text: str | None) -> int | None:
    if text is None or not text.isascii() or not text.isdigit() or len(text) > 8:
        return None
    return int(text) if int(text) < _MOST else None


def visible(text: str | None, order: str, gpus: Sequence[tuple[str, str]]) -> list[str] | None:
    """UUIDs of the GPUs that CUDA shows to a process, in CUDA's order; None when that cannot be told.

    Args:
        text: `CUDA_VISIBLE_DEVICES`: indices, whole or shortened UUIDs, MIG UUIDs. CUDA stops at the first bad entry.
        order: `CUDA_DEVICE_ORDER`. Without "PCI_BUS_ID" CUDA puts the fastest first, which is NVML's order only when
            all GPUs are of one model.
        gpus: (UUID, name) of all GPUs in NVML's order.
    """
    ordered = order.strip() == "PCI_BUS_ID" or len({name for _, name in gpus}) <= 1
    if text is None:
        return [uuid for uuid, _ in gpus] if ordered else None
    found: list[str] = []
    for entry in (part.strip() for part in text.split(",")):
        if entry.isascii() and entry.isdigit():
            if not ordered:
                return None
            if int(entry[:6]) >= len(gpus):
                break
            uuid = gpus[int(entry[:6])][0]
        elif entry.startswith("MIG-"):
            uuid = entry
        elif entry.upper().startswith("GPU-"):
            matches = [known for known, _ in gpus if known.upper().startswith(entry.upper())]
            if len(matches) != 1:
                break
            uuid = matches[0]
        else:
            break
        if not uuid or uuid in found:  # a GPU named twice makes the whole list void
            return None if not uuid else []
        found.append(uuid)
    return found


def expected(seat: Seat, gpus: Sequence[tuple[str, str]]) -> str | None:
    """UUID of the GPU that a process would take by its local rank; None when that cannot be told."""
    shown = visible(seat.visible, seat.order, gpus)
    if not shown:
        return None
    if len(shown) == 1:
        return shown[0]
    if seat.local_rank is None or seat.local_rank >= len(shown):
        return None
    return shown[seat.local_rank]
