"""Numbers with the names beside them, in the spellings of the world."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainmon.parsing.pairs import cut, read


@pytest.mark.parametrize(
    ("line", "gives"),
    [
        ("loss: 2.3, lr=1e-05 ppl 9.97", {"loss": "2.3", "lr": "1e-05", "ppl": "9.97"}),
        ("Epoch: [0]  [  20/1504]  closs: 2.08 (2.13)", {"Epoch": "0", "epoch_step": "20", "steps_per_epoch": "1504", "closs": "2.08"}),
        ("Epoch(train) [1][10/64]  lr: 2.6e-04  eta: 0:00:10", {"Epoch(train)": "1", "epoch_step": "10", "steps_per_epoch": "64", "lr": "2.6e-04", "eta": "0:00:10"}),
        ("Train: 3 [  50/10009 (  0%)]  Loss:  6.9 (6.8)", {"epoch": "3", "epoch_step": "50", "steps_per_epoch": "10009", "Loss": "6.9"}),
        ("Train: [0/300][10/1251]\tlr 0.1\tmem 7923MB", {"epoch": "0", "total_epochs": "300", "epoch_step": "10", "steps_per_epoch": "1251", "lr": "0.1", "mem": "7923MB"}),
        ("step 5/100 | 1,234 tok/s | 45.6% bf16 MFU", {"step": "5", "total_steps": "100", "tok/s": "1,234tok/s", "bf16 MFU": "45.6%"}),
        ("critic/lr(1e-4):0.100 - reward/mean@1:-0.01", {"critic/lr(1e-4)": "0.100", "reward/mean@1": "-0.01"}),
        ("loss=tensor(8.2, device='cuda:1') gnorm=tensor([1.5])", {"loss": "8.2", "gnorm": "1.5"}),
        ("lr=[8.9e-06, 8.8e-06], mom=[(0.9, 0.95)]", {"lr": "8.9e-06", "mom": "0.9"}),
        ("第 3/5 轮 步数 9/300 损失：5.7 速度: 12.3k tokens/s", {"epoch": "3", "total_epochs": "5", "步数": "9", "total_steps": "300", "损失": "5.7", "tokens/s": "12.3k"}),
        ("epoch 143:     85 / 282 loss=3.1", {"epoch": "143", "epoch_step": "85", "steps_per_epoch": "282", "loss": "3.1"}),
        ("epoch: 1 step: 100, loss is 2.3", {"epoch": "1", "step": "100", "loss": "2.3"}),
        ("iter 1 | time: 0:01:23 | eta 1 day, 2:03:04 | dt: 12ms", {"iter": "1", "elapsed": "0:01:23", "eta": "1 day, 2:03:04", "dt": "12ms"}),
        ("Train Loss 0.5 Acc 0.9 | Val Loss 0.6 Acc 0.8", {"Train Loss": "0.5", "Acc": "0.9", "Val Loss": "0.6", "val_Acc": "0.8"}),
        ("train_loss=nan, |grad|=1.0, ips: 0.97 samples/s", {"train_loss": "nan", "grad": "1.0", "ips": "0.97samples/s"}),
        ("v1.2.3 at 2026-01-02 uses 3x3 conv2d on 10.0.0.1", {}),
    ],
)  # fmt: skip
def test_spellings(line: str, gives: dict[str, str]) -> None:
    assert read(line) == gives


KEYS = st.sampled_from(["loss", "lr", "grad norm", "my/metric", "actor/kl@2", "acc_1", "T(ms)", "损失"])
NUMBERS = st.one_of(
    st.integers(0, 10**6).map(str),
    st.floats(1e-8, 1e8).map(lambda x: f"{x:.4e}"),
    st.floats(-9, 9).map(lambda x: f"{x:.4f}"),
    st.integers(1000, 10**7).map(lambda n: f"{n:,}"),
    st.sampled_from(["nan", "-inf"]),
)


@given(
    pairs=st.lists(st.tuples(KEYS, NUMBERS), min_size=1, max_size=6, unique_by=lambda pair: pair[0]),
    equals=st.sampled_from([":", "=", ": ", " = ", " : "]),
    between=st.sampled_from([", ", " | ", "  ", "; ", " - ", "\t"]),
)
def test_what_is_written_comes_back(pairs: list[tuple[str, str]], equals: str, between: str) -> None:
    line = between.join(key + equals + value for key, value in pairs)
    assert read(line) == dict(pairs)


@given(st.text(max_size=400))
def test_any_text_is_cut(text: str) -> None:
    shape, values = cut(text)
    assert len(shape) == len(values) + 1
    read(text)


@pytest.mark.parametrize(
    "unit", ["a", "1", "1.", "1,", " 1", "[", "(1", "1 days ", "1e", "x=", "= ", "a b ", "\t", "tensor(", "-"]
)
def test_long_lines_cost_in_proportion(unit: str) -> None:
    import time

    def cost(text: str) -> float:
        began = time.process_time()
        read(text)
        return time.process_time() - began

    small = max(min(cost(unit * 1000 + str(i)) for i in range(3)), 1e-4)
    large = min(cost(unit * 8000 + str(i)) for i in range(3))
    assert large < 24 * small + 0.05  # eight times as long: sixty-four times would be quadratic
