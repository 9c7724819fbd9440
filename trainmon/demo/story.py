"""The recording of `trainmon demo`: a run that never was, computed line by line from a seed.

`qwen-7b-lora`, eight workers of eight 80 GiB cards each, 5,000 steps of 3.03 s, 524,288 tokens a step. It is healthy;
then gpu 6 of worker-5 throttles and all wait for it; memory of gpu 3 of worker-2 grows until an allocation fails; the
others run into the time-out of their collective. Only log lines are written here: what they mean is for the
detectors to find out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

WORKERS = 8
GPUS = 8
TOTAL_STEPS = 5_000
FIRST_LIVE_STEP = 800
"""Steps before this one stand in the files when the demo begins."""
STEP_S = 3.03
TOKENS_A_STEP = 524_288
PACE = 18.0
"""How many times faster than recorded the run is played at speed 1."""
CARD_MB = 81_920

STRAGGLER, STRAGGLER_GPU, STRAGGLER_FROM, SLOWDOWN = 5, 6, 945, 1.127
LEAK, LEAK_GPU, LEAK_FROM, LEAK_MB_A_STEP = 2, 3, 930, 41.0
FAILS_AT = 1_200
TIMEOUT_AFTER_S = 110.0
"""Recorded seconds from the failed allocation to the others' time-outs (really ten minutes, cut short)."""

CHECKPOINT_EVERY, CHECKPOINT_S = 250, 14.0
EVAL_EVERY, EVAL_S = 500, 20.0
TELEMETRY_EVERY, TELEMETRY_EVERY_BEFORE = 5, 25
"""Steps between two readings of the cards: live, and in the history, which is to open at once."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A line that a worker writes.

    Attributes:
        at: Recorded seconds from the first live step; negative: it is there already.
        worker: 0 to 7.
        level: Of the line; "" for a bare one (a traceback).
        text: The line without time and level.
    """

    at: float
    worker: int
    level: str
    text: str


def learning_rate(step: int) -> float:
    """The schedule: 100 warm-up steps to 5e-05, then a cosine."""
    if step <= 100:
        return 5e-05 * step / 100
    share = (step - 100) / (TOTAL_STEPS - 100)
    return 5e-05 * (0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * share)))


def moments(seed: int = 7) -> Iterator[Moment]:
    """Yield the whole recording in order of time; the same seed gives the same lines."""
    chance = Random(seed)
    at = -_length_of_history()
    for worker in range(WORKERS):
        yield Moment(at, worker, "INFO", f"training started model=qwen-7b-lora world_size=64 node_rank={worker}")
        yield Moment(
            at, worker, "INFO", f"dataset ready shard={worker} samples=412,{930 + worker} total_steps={TOTAL_STEPS}"
        )
    for step in range(1, FAILS_AT):
        at += _step_time(step)
        yield from _step(step, at, chance)
        if step % (TELEMETRY_EVERY if step >= FIRST_LIVE_STEP else TELEMETRY_EVERY_BEFORE) == 0:
            yield from _telemetry(step, at + 0.2, chance)
        if step % CHECKPOINT_EVERY == 0:
            yield Moment(at + 0.3, 0, "INFO", f"saving checkpoint to checkpoints/step-{step}")
            at += CHECKPOINT_S
            yield Moment(at, 0, "INFO", f"checkpoint saved to checkpoints/step-{step} in {CHECKPOINT_S:.1f} s")
        if step % EVAL_EVERY == 0:
            yield Moment(at + 0.3, 0, "INFO", f"starting evaluation at step {step}")
            at += EVAL_S
            yield Moment(at, 0, "INFO", f"step={step} eval_loss={_loss(step) + 0.06:.4f}")
            yield Moment(at, 0, "INFO", f"evaluation finished in {EVAL_S:.1f} s")
        if step % 60 == 17:
            worker = chance.randrange(WORKERS)
            yield Moment(at + 0.4, worker, "INFO", f"data loader: shard {worker} opened file {step // 60:05d}.parquet")
    yield from _failure(at + STEP_S * SLOWDOWN)


def _length_of_history() -> float:
    steps = FIRST_LIVE_STEP - 1
    pauses = steps // CHECKPOINT_EVERY * CHECKPOINT_S + steps // EVAL_EVERY * EVAL_S
    return sum(_step_time(step) for step in range(1, steps + 1)) + pauses + STEP_S / 2


def _step_time(step: int) -> float:
    return STEP_S * (SLOWDOWN if step >= STRAGGLER_FROM else 1.0)


def _loss(step: int) -> float:
    return 1.78 + 1.82 * math.exp(-step / 95) * 0.62 + 1.82 * 0.38 * math.exp(-step / 950)


def _step(step: int, at: float, chance: Random) -> Iterator[Moment]:
    """One line a worker: what each computes is its own, the rest of the step it waits for the slowest."""
    slow = step >= STRAGGLER_FROM
    whole = _step_time(step) * (1 + chance.gauss(0, 0.004))
    common = chance.gauss(0, 0.012)
    norm = 1.15 + 2.4 * math.exp(-step / 60) + abs(chance.gauss(0, 0.16))
    for worker in range(WORKERS):
        data = 0.018 + abs(chance.gauss(0, 0.004))
        compute = 2.62 * (1 + chance.gauss(0, 0.006))
        if slow and worker == STRAGGLER:
            compute = whole - 0.12 - data
        wait = max(0.05, whole - compute - data)
        loss = _loss(step) + common + chance.gauss(0, 0.016)
        yield Moment(
            at + worker * 0.02,
            worker,
            "INFO",
            f"step={step} total_steps={TOTAL_STEPS} loss={loss:.4f} lr={learning_rate(step):.3e} grad_norm={norm:.3f} "
            f"tokens_per_second={TOKENS_A_STEP / whole:.0f} step_time_s={whole:.3f} compute_time_s={compute:.3f} "
            f"comm_time_s={wait:.3f} data_time_s={data:.3f} mfu={39.6 * STEP_S / whole:.1f}",
        )


def _telemetry(step: int, at: float, chance: Random) -> Iterator[Moment]:
    """One line a card."""
    for worker in range(WORKERS):
        for gpu in range(GPUS):
            memory = 68_900 + 35 * ((worker * 3 + gpu * 5) % 11) + chance.gauss(0, 14)
            heat = 61 + (worker + gpu * 3) % 7 + chance.gauss(0, 0.5)
            load = min(100.0, 97 + chance.gauss(0, 1.0))
            power = 388 + chance.gauss(0, 6)
            if (worker, gpu) == (LEAK, LEAK_GPU):
                memory += max(0, step - LEAK_FROM) * LEAK_MB_A_STEP
            if (worker, gpu) == (STRAGGLER, STRAGGLER_GPU):
                warm = min(1.0, max(0.0, (step - STRAGGLER_FROM + 60) / 60))
                heat += (87 - heat) * warm
                power -= 70 * warm
            elif step >= STRAGGLER_FROM:
                load = min(100.0, load - 8)
            yield Moment(
                at + worker * 0.02,
                worker,
                "INFO",
                f"step={step} rank={worker * GPUS + gpu} gpu={gpu} gpu_memory_mb={memory:.0f} "
                f"gpu_memory_total_mb={CARD_MB} gpu_utilization={load:.0f} "
                f"gpu_temperature_c={heat:.0f} gpu_power_w={power:.0f}",
            )


def _failure(at: float) -> Iterator[Moment]:
    """The allocation that fails, and what the other ranks say once they have waited long enough."""
    rank = LEAK * GPUS + LEAK_GPU
    trace = (
        "Traceback (most recent call last):",
        '  File "train.py", line 214, in <module>',
        "    main()",
        '  File "train.py", line 187, in main',
        "    loss = model(batch).loss",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.50 GiB. GPU 3 has a total capacity "
        "of 80.00 GiB of which 214.00 MiB is free. Including non-PyTorch memory, this process has 79.78 GiB memory "
        "in use. Of the allocated memory 77.91 GiB is allocated by PyTorch, and 1.02 GiB is reserved "
        "by PyTorch but unallocated.",
    )
    for line in trace:
        yield Moment(at, LEAK, "", f"[rank{rank}]: {line}")
    at += TIMEOUT_AFTER_S
    for worker in range(WORKERS):
        for gpu in range(GPUS if worker != LEAK else 0):
            rank = worker * GPUS + gpu
            yield Moment(
                at + worker * 0.6 + gpu * 0.05,
                worker,
                "ERROR",
                f"[Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=48217, OpType=ALLREDUCE, "
                f"NumelIn=262144000, NumelOut=262144000, Timeout(ms)=600000) ran for {600_021 + 7 * rank} "
                "milliseconds before timing out.",
            )
