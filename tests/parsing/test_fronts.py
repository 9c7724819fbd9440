"""Fronts of lines: times in every common spelling, hosts, ranks, and what only looks like them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainmon.parsing.prefix import Prefix, peel

NEWYEAR = 1704103200.0  # 2024-01-01 10:00 UTC
BODY = "step 3 loss 2.5"


@pytest.mark.parametrize(
    ("front", "time"),
    [
        ("01/01/2024 10:00:00 - INFO - __main__ - ", NEWYEAR),
        ("01/01/2024 10:00:00 PM ", NEWYEAR + 43200),
        ("01/01/2024 12:30:00 AM ", NEWYEAR - 9.5 * 3600),
        ("31/01/2024 10:00:00 ", NEWYEAR + 30 * 86400),
        ("24/01/01 10:00:00 INFO Executor: ", NEWYEAR),
        ("01/13/24 10:00:00 ", NEWYEAR + 12 * 86400),
        ("24-01-01 10:00:00,250 ", NEWYEAR + 0.25),
        ("20240101 10:00:00 ", NEWYEAR),
        ("20240101-100000 ", NEWYEAR),
        ("[20240101_10:00:00] ", NEWYEAR),
        ("2024年01月01日 10:00:00 ", NEWYEAR),
        ("2024-1-1 10:00:00 ", NEWYEAR),
        ("[2024-01-01 10:00] ", NEWYEAR),
        ("[01-01 10:00:00] ", NEWYEAR),
        ("Mon Jan  1 10:00:00 2024 ", NEWYEAR),
        ("Mon Jan  1 10:00:00 UTC 2024 ", NEWYEAR),
        ("[Mon, 01 Jan 2024 10:00:00] ", NEWYEAR),
        ("01 Jan 2024 10:00:00 ", NEWYEAR),
        ("Jan  1 10:00:00 ", NEWYEAR),
        ("Jan 01 10:00:00 node7 python[12]: ", NEWYEAR),
        ("1704103200.000 ", NEWYEAR),
        ("10:00:00 ", NEWYEAR),
        ("10:00:00.500 [main] INFO  c.f.Bar - ", NEWYEAR + 0.5),
        ("10:00:00 | INFO | ", NEWYEAR),
        ("[2024-01-01T10:00:00.500Z INFO  my_mod::deep] ", NEWYEAR + 0.5),
        ("2024-01-01 10:00:00 PST ", NEWYEAR + 8 * 3600),
        ("2024-01-01 10:00:00 JST ", NEWYEAR - 9 * 3600),
        ("2024-01-01 10:00:00+02:00 ", NEWYEAR - 7200),
        ("[2024-01-01 10:00:00,123][__main__][INFO] - ", NEWYEAR + 0.123),
        ("2024-01-01 10:00:00 [info     ] ", NEWYEAR),
        ("ts=2024-01-01T10:00:00Z level=info ", NEWYEAR),
    ],
)
def test_times(front: str, time: float) -> None:
    text = front + BODY
    prefix = peel(text, NEWYEAR + 1.0)
    assert prefix.time is not None
    assert abs(prefix.time - time) < 1e-6
    assert text[prefix.end :].endswith(BODY)
    if "level=" not in front and "Executor" not in front:
        assert text[prefix.end :] == BODY


@pytest.mark.parametrize(
    ("front", "wanted"),
    [
        ("worker-1: ", {"node": "worker-1"}),
        ("node001: [rank3]: ", {"node": "node001", "rank": 3}),
        ("gpu-node-07: 2024-01-01 10:00:00 INFO ", {"node": "gpu-node-07", "level": "INFO", "time": NEWYEAR}),
        ("10.0.0.5: ", {"node": "10.0.0.5"}),
        ("localhost: ", {"node": "localhost"}),
        ("algo-1-x7f2k | ", {"node": "algo-1-x7f2k"}),
        ("algo-1-x7f2k  | [1,mpirank:0,algo-1]<stdout>:", {"node": "algo-1-x7f2k"}),
        ("worker-0 | ", {"node": "worker-0"}),
        ("ip-10-0-0-1.ec2.internal: ", {"node": "ip-10-0-0-1.ec2.internal"}),
        ("trainer-0 pytorch ", {"node": "trainer-0"}),
        ("mypod-abc-xyz sidecar › ", {"node": "mypod-abc-xyz"}),
        ("2024-01-01 10:00:00 node001: ", {"node": "node001", "time": NEWYEAR}),
        ("<rank 3> ", {"rank": 3}),
        ("rank 3: ", {"rank": 3}),
        ("Rank 0 | ", {"rank": 0}),
        ("(TrainTrainable pid=3) (rank=3) ", {"rank": 3}),
        ("[GPU3] ", {"local_rank": 3}),
        ("[GPU 3] ", {"local_rank": 3}),
        ("[stdout] ", {}),
        ("stderr: ", {}),
    ],
)
def test_labels(front: str, wanted: dict[str, object]) -> None:
    text = front + BODY
    prefix = peel(text, NEWYEAR + 1.0)
    if "mpirank" not in front:
        assert text[prefix.end :] == BODY
    for name in ("node", "rank", "local_rank", "level", "time"):
        assert getattr(prefix, name) == wanted.get(name), name


@pytest.mark.parametrize(
    "text",
    [
        "fold-3: 0.91", "step-100: loss=2.3", "epoch-1: loss 0.3", "loss1: 0.3", "layer-0: norm 3.1", "gpt-2: loading",
        "resnet50: 0.7", "top5: 0.9", "p99: 12 ms", "node-1: 0.5", "worker-1 | 0.5 | 3", "Epoch 3: loss 2", "l1: 2.3",
        "12:00:00 elapsed", "00:12:31 remaining", "12/24 done", "24/03 x", "1.5e9 x", "12:30 lr", "rank 3 of 8",
        "model-v2 loss 0.3", "Monday we train", "Marvel 3", "Ran 3 tests in 2 s", "UTC is used", "step 3 | loss 2",
    ],
)  # fmt: skip
def test_what_only_looks_so(text: str) -> None:
    assert peel(text, NEWYEAR) == Prefix()


@given(st.text(alphabet="0123456789:-/., []<>()JanMonrank|stdouUTCPMgpu年月日", max_size=60))
def test_whatever_stands_there(text: str) -> None:
    prefix = peel(text, NEWYEAR)
    assert 0 <= prefix.labels_end <= prefix.end <= len(text)
