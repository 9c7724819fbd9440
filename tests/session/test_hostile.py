"""Values and lines that nobody would write: no fault of ours comes of them, and every picture can be drawn."""

from __future__ import annotations

import json
from random import Random

import pytest

from trainmon.clock import ManualClock
from trainmon.model import Ahead, CaughtUp, Data, Glimpse, Opened, SourceEvent
from trainmon.outputs.plain import PlainLines
from trainmon.session.session import Session
from trainmon.settings import Settings
from trainmon.widgets import alert_strip, chart, error_list, event_list, facts, gpu_table, metrics, node_table, status

START = 1_764_500_000.0
NUMBERS = [
    "0", "-0.0", "1", "-5", "1e308", "-1e308", "1e309", "NaN", "Infinity", "-Infinity", "1e-320", "10" * 9, "9" * 19,
    "9" * 400, "9" * 5000, "0.1", "true", "null", '"nan"', '"-inf"', '"9999999999999999999999"', '"x"', "[1]", '{"a": 1}', '""',
    "9007199254740993", "-9223372036854775809", "18446744073709551616", "1.7976931348623157e308",
]  # fmt: skip
NAMES = [
    "step", "loss", "learning_rate", "lr", "epoch", "grad_norm", "gpu", "rank", "local_rank", "node", "gpu_memory_mb",
    "gpu_memory_total_mb", "gpu_utilization", "gpu_temperature_c", "gpu_power_w", "tokens_per_second", "step_time_s",
    "total_steps", "eval_loss", "timestamp", "level", "message", "mfu", "data_time_s", "loss_scale", "skipped_steps",
    "consumed_tokens", "perplexity", "iteration", "time", "reward", "kl", "gpu_clock_mhz", "world_size", "hostname",
]  # fmt: skip
TIMES = [
    '"1970-01-01T00:00:00Z"', '"2262-04-11T23:47:16Z"', '"9999-12-31T23:59:59Z"', '"0001-01-01T00:00:00Z"', "1e300",
    "-1e18", "0", '"2025-13-45T99:99:99Z"', '"2025-11-30T10:53:20Z"', '"2025-11-30T10:53:21+23:59"', '"garbage"',
]  # fmt: skip
TEXTS = [
    "[INFO] Step {n}: loss = {v}, lr = {v}", "iteration {n}/ {n} | lm loss: {v} | learning rate: {v} |",
    "ERROR \x1b]0;x\x07 RuntimeError: CUDA out of memory. Tried to allocate {v} GiB", "{{'loss': {v}, 'epoch': {v}}}",
    " {n}%|###   | {n}/{n} [00:00<?, {v}it/s]", "Traceback (most recent call last):", "step={n} loss={v} lr={v}",
    "Saving checkpoint at step {n}", "***** Running training *****", "  Num examples = {n}", "RuntimeError: {v}\u202e",
    "2025-11-30 10:00:00,123 ERROR [rank{n}]: NCCL watchdog timeout {v}", "\0\0\0{v}", "\r{n}\r{v}", "{{" * 50,
    "Total optimization steps = {n}", "{{'train_runtime': {v}, 'train_loss': {v}}}", "Epoch {n}/{n}", "WARNING {v}",
]  # fmt: skip


def lines(random: Random, count: int) -> bytes:
    out = []
    for _ in range(count):
        if random.random() < 0.6:
            pairs = {name: random.choice(NUMBERS) for name in random.sample(NAMES, random.randint(1, 8))}
            if random.random() < 0.5:
                pairs["step"] = str(random.choice([random.randrange(50), random.randrange(10**6), 10**18, -1]))
                pairs["loss"] = random.choice(NUMBERS)
            if random.random() < 0.4:
                pairs["timestamp"] = random.choice(TIMES)
            if random.random() < 0.2:
                pairs["node"] = json.dumps(random.choice(["a", "b\x1b[2J", "", "\u202e", "n" * 3000]))
            out.append("{" + ", ".join(f'"{name}": {value}' for name, value in pairs.items()) + "}")
        else:
            number = random.choice(["0", "7", "-3", "9" * 20, "9" * 5000, "0" * 5000, "12", "1,000"])
            out.append(random.choice(TEXTS).format(n=number, v=random.choice(NUMBERS)))
    return ("\n".join(out) + "\n").encode("utf-8", "surrogatepass")


def draw(session: Session) -> None:
    """Everything that the overview shows, in sizes that fit nothing."""
    shot = session.snapshot
    PlainLines().update(shot, 0.0)
    for width, height in ((1, 1), (13, 3), (30, 8), (80, 12), (200, 40)):
        for view in shot.charts[:6]:
            chart.draw_chart(view, shot.spans, width, height)
        metrics.draw_metrics(shot.metrics, width, height)
        gpu_table.draw_gpus(shot.gpus, width, height)
        node_table.draw_nodes(shot.nodes, width, height)
        error_list.draw_errors(shot.errors, shot.counts, width, height)
        event_list.draw_events(shot.events, shot.errors, shot.counts, width, height)
        alert_strip.draw_alert_strip(shot.alerts, shot.calm, width, flash_on=True, now=session.clock.now())
        facts.draw_facts(shot, width, height)
        status.draw_status(shot.run, width, now=session.clock.now())


@pytest.mark.parametrize("seed", range(30))
def test_nothing_that_stands_in_a_log_is_a_fault_of_ours(seed: int) -> None:
    random = Random(seed)
    clock = ManualClock(START)
    session = Session(["*.log"], Settings(), clock=clock, separate=seed % 5 == 4)
    for source in range(3):
        data = lines(random, 150)
        name = f"worker-{source}\x1b[31m.log"
        events: list[SourceEvent] = [Opened(source, name, "/" + name, len(data), random.choice([0.0, START, 1e12]))]
        if random.random() < 0.4:
            end = lines(random, 20)
            events.append(Glimpse(source, 0, data[:4096], data[-4096:], len(data) - 4096, len(data)))
            events.append(Ahead(source, 0, len(data), end, START))
            events.append(Data(source, 0, 0, data + end, len(data) + len(end), START))
            data += end
        else:
            events.append(Data(source, 0, 0, data, len(data), START))
        session.pump([*events, CaughtUp(source, 0)])
        at = len(data)
        for _ in range(4):
            clock.advance(random.choice([0.1, 1.0, 700.0, 1e6]))
            more = lines(random, 20)
            session.pump([Data(source, 0, at, more, at + len(more), clock.now())])
            at += len(more)
        draw(session)
    clock.advance(1e5)
    session.pump()
    draw(session)
    assert session.faults == 0, session.fault


@pytest.mark.parametrize("seed", range(12))
def test_a_run_that_looks_like_one_with_a_mad_number_here_and_there(seed: int) -> None:
    random = Random(seed)
    clock = ManualClock(START)
    session = Session(["*.log"], Settings(), clock=clock)
    sizes = [0, 0, 0]
    mad = [1e308, -1e308, 1e-310, float("nan"), float("inf"), -1.0, 0.0, 2**53, 2**62, 1e18]
    for source in range(3):
        session.pump([Opened(source, f"worker-{source}.log", f"/worker-{source}.log", 0, START), CaughtUp(source, 0)])
    for step in range(200):
        clock.advance(1.0 if random.random() < 0.98 else 1e4)
        for source in range(3):
            values = {
                "step": step, "total_steps": 5000, "loss": 3.0 - step / 1000, "learning_rate": 1e-4, "gpu": source,
                "gpu_memory_mb": 60_000 + step * 60, "gpu_memory_total_mb": 81_920, "gpu_utilization": 97,
                "step_time_s": 1.0 + 0.3 * (source == 1), "own_time_s": 1.0, "grad_norm": 1.0, "epoch": step / 50,
                "data_time_s": 0.1, "tokens_per_second": 1e4,
            }  # fmt: skip
            for name in list(values):
                if random.random() < 0.02:
                    values[name] = random.choice(mad)
            text = (json.dumps(values) + "\n").encode()
            session.pump([Data(source, 0, sizes[source], text, sizes[source] + len(text), clock.now())])
            sizes[source] += len(text)
        if step % 20 == 0:
            draw(session)
    draw(session)
    assert session.faults == 0, session.fault
