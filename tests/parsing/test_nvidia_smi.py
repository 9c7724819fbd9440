"""What nvidia-smi and gpustat print into logs: layouts of many drivers, behind labels, interleaved, cut short."""

from __future__ import annotations

import json

import pytest

from trainmon.model import Record
from trainmon.samples import GpuSample

MTIME = 1_762_900_000.0
TABLE = """Tue Nov 11 10:00:00 2025
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 580.95.05              Driver Version: 580.95.05      CUDA Version: 13.0     |
+-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA H200                    On  |   00000000:19:00.0 Off |                    0 |
| N/A   61C    P0            642W /  700W |   71234MiB / 143771MiB |     98%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+
|   1  NVIDIA GB10                    On  |   0000000F:01:00.0 Off |                  N/A |
| N/A   41C    P8              4W /  N/A  | Not Supported          |      0%      Default |
|                                         |                        |                  N/A |
+-----------------------------------------+------------------------+----------------------+

+-----------------------------------------------------------------------------------------+
| Processes:                                                                              |
|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |
|=========================================================================================|
|    0   N/A  N/A           51945      C   python pretrain loss step.py          71220MiB |
|    0    7    0            51946    M+C   python                                    N/A  |
+-----------------------------------------------------------------------------------------+
"""
OLD = """+-----------------------------------------------------------------------------+
| NVIDIA-SMI 387.26                 Driver Version: 387.26                    |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|===============================+======================+======================|
|   3  Tesla M40 24GB      Off  | 00000000:84:00.0 Off |                    0 |
| 30%   56C    P0   175W / 250W |   2657MiB / 22939MiB |     98%      Default |
+-------------------------------+----------------------+----------------------+
|   4  GeForce GTX 108...  Off  | 00000000:85:00.0  On |                  N/A |
|ERR!  ERR! ERR!    ERR! / 250W |   Unknown Error      |   ERR!       Default |
+-------------------------------+----------------------+----------------------+
| Processes:                                                       GPU Memory |
|  GPU       PID   Type   Process name                             Usage      |
|=============================================================================|
|    3      2211      C   python                                     2645MiB |
+-----------------------------------------------------------------------------+
"""


def gpus(records: list[Record]) -> list[GpuSample]:
    samples = [record.sample for record in records if record.kind == "gpu"]
    assert all(isinstance(sample, GpuSample) and sample.origin == "log" for sample in samples)
    return samples  # type: ignore[return-value]


def test_a_table_of_a_new_driver(parse) -> None:
    records = parse(TABLE, source="worker-1.log", mtime=MTIME)
    first, second, people = gpus(records)
    assert (first.index, first.name, first.node, first.time) == (0, "NVIDIA H200", "worker-1", 1762855200.0)
    assert first.values == {
        "gpu_temperature_c": 61.0, "gpu_power_w": 642.0, "power_limit_w": 700.0, "gpu_memory_mb": 71234.0,
        "gpu_memory_total_mb": 143771.0, "gpu_utilization": 98.0, "ecc_uncorrected": 0.0,
    }  # fmt: skip
    assert first.missing == {"fan_percent": "not supported"}
    assert first.facts == {"pci": "00000000:19:00.0", "driver": "580.95.05", "ecc": "on"}
    assert "gpu_memory_mb" not in second.values and second.missing["gpu_memory_mb"] == "not supported"
    assert [(p.pid, p.memory_mb, p.command, p.kind, p.instance) for p in people.processes or ()] == [
        (51945, 71220.0, "python pretrain loss step.py", "C", ""), (51946, None, "python", "M+C", "7/0"),
    ]  # fmt: skip
    assert records[0].line == 10 and records[0].format == "nvidia_smi" and "time_guess" not in records[0].extra


def test_a_table_of_an_old_driver_with_a_sick_gpu(parse) -> None:
    well, sick, people = gpus(parse(OLD, mtime=MTIME))
    assert (well.index, well.name, well.values["fan_percent"], well.time) == (3, "Tesla M40 24GB", 30.0, MTIME)
    assert (sick.state, sick.values) == ("failing", {"power_limit_w": 250.0})
    assert sick.missing["gpu_memory_mb"] == "failing: Unknown Error"
    assert people.index == 3 and people.processes and people.processes[0].pid == 2211


def test_mig_instances_stand_below_their_gpu(parse) -> None:
    text = (
        TABLE.split("\n\n")[0].replace("|                    0 |", "|                   On |").replace("98%", "N/A")
        + """

+-----------------------------------------------------------------------------------------+
| MIG devices:                                                                            |
+------------------+----------------------------------+-----------+-----------------------+
| GPU  GI  CI  MIG |                     Memory-Usage |        Vol|        Shared         |
|      ID  ID  Dev |                       BAR1-Usage | SM     Unc| CE ENC  DEC  OFA  JPG |
|==================+==================================+===========+=======================|
|  0    1   0   0  |           29421MiB / 47616MiB    | 60      0 |  3   0    3    0    3 |
|                  |                 0MiB /     0MiB  |           |                       |
+------------------+----------------------------------+-----------+-----------------------+
|  0    5   0   1  |              30MiB / 23552MiB    | 32      0 |  2   0    2    0    2 |
"""
    )
    parent, _, one, two = gpus(parse(text))
    assert parent.missing["gpu_utilization"] == "n/a under MIG"
    assert [(s.index, s.instance, s.values["gpu_memory_mb"]) for s in (one, two)] == [
        (0, "1/0", 29421.0),
        (0, "5/0", 30.0),
    ]


@pytest.mark.parametrize(
    ("label", "where"),
    [("{}: ", ("rank", None)), ("[rank{}]: ", ("rank", None)), ("[pod/trainer-{}/main] ", ("node", "trainer-{}"))],
)
def test_writers_that_print_at_once_are_told_apart(parse, label, where) -> None:
    lines = TABLE.split("\n")
    text = "".join(f"{label.format(r)}{line}\nstep {i} loss 2.5\n" for i, line in enumerate(lines) for r in (0, 1))
    records = [record for record in parse(text, mtime=MTIME) if record.kind == "gpu"]
    key, name = where
    found = [(getattr(record, key), record.gpu, record.sample.time) for record in records[:4]]
    wanted = [r if name is None else name.format(r) for r in (0, 1)]
    assert found == [(w, gpu, 1762855200.0) for gpu in (0, 1) for w in wanted]
    assert len(records) == 6


def test_times_in_front_of_lines_and_wrapped_lines(parse) -> None:
    stamped = "".join(f"2025-11-11T11:00:{i:02d}Z {line}\r\n" for i, line in enumerate(TABLE.split("\n")))
    assert [sample.time - 1762858800.0 for sample in gpus(parse(stamped))] == [9.0, 13.0, 22.0]
    wrapped = "".join(
        json.dumps({"log": line + "\n", "stream": "stdout", "time": "2025-11-11T12:00:00.5Z"}) + "\n"
        for line in TABLE.split("\n")
    )
    assert [sample.time for sample in gpus(parse(wrapped))] == [1762862400.5] * 3


def test_cut_short_and_silent(parse) -> None:
    lines = TABLE.split("\n")
    assert len(gpus(parse("\n".join(lines[:9])))) == 0
    assert len(gpus(parse("\n".join(lines[:10])))) == 1
    people = gpus(parse("\n".join(lines[:22])))[-1]
    assert people.processes is not None and len(people.processes) == 1


def test_every_table_is_read_and_its_time_is_its_own(parse) -> None:
    second = TABLE.replace("10:00:00", "10:00:05")
    assert [s.time - 1762855200.0 for s in gpus(parse(TABLE + second))] == [0.0] * 3 + [5.0] * 3
    undated = "\n".join(TABLE.split("\n")[1:])
    records = parse(TABLE + "step 3 loss 2.5\n" + undated, mtime=MTIME)
    assert [r.extra.get("time_guess") for r in records if r.kind == "gpu"] == [None] * 3 + [True] * 3


DMON = {
    "new": (
        "# gpu    pwr  gtemp  mtemp     sm    mem    enc    dec    jpg    ofa   mclk   pclk     fb   bar1   ccpm\n"
        "# Idx      W      C      C      %      %      %      %      %      %    MHz    MHz     MB     MB     MB\n"
        "    1    312     61      -     98     55      0      0      0      0   2619   1980  71234     39      0\n",
        {"gpu_power_w": 312.0, "gpu_temperature_c": 61.0, "gpu_utilization": 98.0, "memory_utilization": 55.0,
         "mem_clock_mhz": 2619.0, "sm_clock_mhz": 1980.0, "gpu_memory_mb": 71234.0},
    ),
    "old": (
        "# gpu   pwr  temp    sm   mem   enc   dec  mclk  pclk\n"
        "# Idx     W     C     %     %     %     %   MHz   MHz\n"
        "    1    43    35     7     3     0     0   877  1312\n",
        {"gpu_power_w": 43.0, "gpu_temperature_c": 35.0, "gpu_utilization": 7.0, "memory_utilization": 3.0,
         "mem_clock_mhz": 877.0, "sm_clock_mhz": 1312.0},
    ),
    "csv": ("#gpu, pwr, gtemp, mtemp, sm, mem\n#Idx, W, C, C, %, %\n1, 86, 33, -, 30, 27\n",
            {"gpu_power_w": 86.0, "gpu_temperature_c": 33.0, "gpu_utilization": 30.0, "memory_utilization": 27.0}),
    "pcie and errors": ("# gpu  sbecc  dbecc    pci  rxpci  txpci\n# Idx   errs   errs   errs   MB/s   MB/s\n    1      0      2      5    100     20\n",
            {"ecc_uncorrected_total": 2.0, "pcie_replays": 5.0, "pcie_rx_mb_s": 100.0, "pcie_tx_mb_s": 20.0}),
}  # fmt: skip


@pytest.mark.parametrize("text, values", DMON.values(), ids=list(DMON))
def test_dmon(parse, text, values) -> None:
    (sample,) = gpus(parse(text, mtime=MTIME))
    assert (sample.index, sample.values) == (1, values)


@pytest.mark.parametrize(
    ("head", "row", "time", "guess"),
    [
        ("#Time        gpu", " 10:00:01      0", 1762855201.0, True),
        ("#Date       Time        gpu", " 20251111   10:00:01      0", 1762855201.0, None),
    ],
)
def test_dmon_with_times(parse, head, row, time, guess) -> None:
    (record,) = parse(f"{head}    pwr     sm\n{row}     43      9\n", mtime=MTIME)
    assert record.time == time and record.extra.get("time_guess") is guess


def test_dmon_header_again_and_lines_between(parse) -> None:
    head = "# gpu    pwr     sm\n# Idx      W      %\n"
    text = (
        head
        + "    0     43      9\nstep 3 loss 2.5\n    1     44      8\n"
        + head
        + "    0     45      7\nepoch 1 2 3\n"
    )
    assert [s.values["gpu_power_w"] for s in gpus(parse(text))] == [43.0, 44.0, 45.0]


def test_pmon_tells_of_processes(parse) -> None:
    text = (
        "# gpu         pid   type     sm    mem    enc    dec    jpg    ofa     fb   command \n"
        "# Idx           #    C/G      %      %      %      %      %      %     MB   name \n"
        "    0       2345     C     98     50      -      -      -      -    900   python -m x\n"
        "    0       2346     C     97     50      -      -      -      -    901   python\n"
        "    0       2345     C     96     50      -      -      -      -    902   python -m x\n"
        "    1          -     -      -      -      -      -      -      -      -   -\n"
    )
    first, second = gpus(parse(text))
    assert [(p.pid, p.sm_percent, p.memory_mb, p.command) for p in first.processes or ()] == [
        (2345, 98.0, 900.0, "python -m x"), (2346, 97.0, 901.0, "python"),
    ]  # fmt: skip
    assert [p.sm_percent for p in second.processes or ()] == [96.0]


def test_query_with_words_for_figures(parse) -> None:
    text = (
        "index, uuid, clocks_event_reasons.active, clocks_event_reasons.sw_power_cap, utilization.gpu [%], power.draw [W], driver_version\n"
        "0, GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77, 0x0000000000000044, Active, 5 %, 99.50 W, 550.54.15\n"
        "1, GPU-c6dc4629-0d2a-8f5b-6b43-3b2c0a0d3c55, 0x0000000000000000, Not Active, [GPU is lost], [GPU is lost], 550.54.15\n"
    )
    well, lost = gpus(parse(text))
    assert well.throttle == ("power cap", "thermal (hardware)") and well.values["gpu_power_w"] == 99.5
    assert well.uuid.startswith("GPU-5d") and well.facts["driver"] == "550.54.15"
    assert (lost.state, lost.throttle, lost.values) == ("lost", (), {})


def test_query_by_an_echoed_command(parse) -> None:
    order = "+ nvidia-smi --query-gpu=index,utilization.gpu,memory.used --format=csv,noheader,nounits -l 5\n"
    assert [(s.index, s.values) for s in gpus(parse(order + "0, 97, 71234\nstep 1 loss 2.5\n1, 12, 512\n"))] == [
        (0, {"gpu_utilization": 97.0, "gpu_memory_mb": 71234.0}), (1, {"gpu_utilization": 12.0, "gpu_memory_mb": 512.0}),
    ]  # fmt: skip
    assert gpus(parse("0, 97, 71234\n1, 12, 512\n")) == []


def test_a_row_that_names_no_gpu_is_believed_only_where_it_is_alone(parse) -> None:
    head = "timestamp, utilization.gpu [%], memory.used [MiB]\n"
    alone = head + "".join(f"2025/11/11 10:00:0{i}.000, {i} %, 100 MiB\n" for i in range(3))
    assert [(s.index, s.values["gpu_utilization"]) for s in gpus(parse(alone))] == [
        (None, 0.0),
        (None, 1.0),
        (None, 2.0),
    ]
    two = head + "".join(f"2025/11/11 10:00:0{i}.00{g}, {i} %, 100 MiB\n" for i in range(3) for g in (0, 4))
    assert gpus(parse(two)) == []
    assert gpus(parse("utilization.gpu [%], memory.used [MiB]\n5 %, 100 MiB\n")) == []


def test_gpustat(parse) -> None:
    text = (
        "gpu07          Tue Nov 11 10:00:00 2025  550.54.15\n"
        "[0] NVIDIA A100-SXM4-80GB | 45'C,  98 % | 70144 / 81920 MB | ross(70000M)\n"
        "[1] NVIDIA GeForce RTX 3090 | 60'C,  30 %,  97 %,  348 / 350 W | 24000 / 24576 MB |\n"
        "[2] Tesla K80 | 60'C,  ?? % | 10 / 11441 MB |\n"
    )
    first, second, third = gpus(parse(text))
    assert first.values == {
        "gpu_temperature_c": 45.0, "gpu_utilization": 98.0, "gpu_memory_mb": 70144.0, "gpu_memory_total_mb": 81920.0
    }  # fmt: skip
    assert (second.values["fan_percent"], second.values["gpu_power_w"]) == (30.0, 348.0)
    assert "gpu_utilization" not in third.values


@pytest.mark.parametrize(
    "line",
    [
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
        "we saw 98 % on gpu 0 and [MiB] of nothing",
        "| step | loss | gpu  util [%] |",
        "Device mapping: %util of gpu is fine",
        "0, 1, 2, 3",
        "loss 1 2 3 4 5",
    ],
)
def test_talk_about_tools_is_no_output(parse, line) -> None:
    assert [record for record in parse(f"{line}\n{line}\n") if record.sample is not None] == []


def test_names_in_tables_are_safe_to_show(parse) -> None:
    text = TABLE.replace("NVIDIA H200 ", "NVIDIA \u202eH2\x07").replace("python pretrain", "py\u2066thon \x1b[31mp")
    for sample in gpus(parse(text)):
        words = sample.name + "".join(p.command for p in sample.processes or ())
        assert not set(words) & set("\u202e\u2066\x07\x1b")
