"""Reports of iostat in logs: columns of sysstat 9 to 12, locales, times, several writers."""

from __future__ import annotations

import pytest

from trainmon.model import Record
from trainmon.samples import HostSample

MTIME = 1_764_600_000.0
CPU = "avg-cpu:  %user   %nice %system %iowait  %steal   %idle\n          12.50    0.00    3.10   21.40    0.00   63.00\n\n"
NEW = (
    "Device            r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz     w/s     wkB/s   wrqm/s  %wrqm w_await wareq-sz"
    "     d/s     dkB/s   drqm/s  %drqm d_await dareq-sz     f/s f_await  aqu-sz  %util\n"
    "sda           100.00  10240.00     1.00  10.00    1.50   102.40   50.00   5120.00     0.50  10.00    3.20   102.40"
    "    0.00      0.00     0.00   0.00    0.00     0.00    1.00    2.00    0.31  42.50\n"
)


def hosts(records: list[Record]) -> list[HostSample]:
    samples = [record.sample for record in records if record.kind == "host"]
    assert all(isinstance(sample, HostSample) and sample.origin == "log" for sample in samples)
    return samples  # type: ignore[return-value]


def test_a_report_is_one_record_with_its_disks(parse) -> None:
    other = NEW.split("\n")[1].replace("sda ", "sdb ").replace("42.50", "142.50")
    (sample,) = hosts(parse(CPU + NEW + other + "\n\nstep 3 loss 2.5\n", source="worker-4.log", mtime=MTIME))
    assert sample.values == {"cpu_percent": 15.6, "iowait_percent": 21.4}
    assert (sample.node, sample.time) == ("worker-4", MTIME)
    first, second = sample.disks or ()
    assert (first.name, first.util_percent, first.queue, first.read_await_ms, first.write_await_ms) == (
        "sda", 42.5, 0.31, 1.5, 3.2,
    )  # fmt: skip
    assert (first.read_mb_s, first.write_mb_s) == (10.486, 5.243)  # kB are 1024 bytes there, MB a million here
    assert (second.name, second.util_percent) == ("sdb", 100.0)


@pytest.mark.parametrize(
    ("head", "row", "wanted"),
    [
        (
            "Device:         rrqm/s   wrqm/s     r/s     w/s    rkB/s    wkB/s avgrq-sz avgqu-sz   await r_await w_await  svctm  %util",
            "sda               0.00     3.00    1.00   20.00  1000.00  2000.00    17.52     0.02    1.10    0.80    1.12   0.30   0.63",
            (0.63, 1.024, 2.048, 0.8, 1.12, 0.02),
        ),
        (
            "Device:         rrqm/s   wrqm/s     r/s     w/s   rsec/s   wsec/s avgrq-sz avgqu-sz   await  svctm  %util",
            "sda               0.00     3.00    0.00   20.00  2000.00  4000.00    17.52     0.02    1.10   0.30   0.63",
            (0.63, 1.024, 2.048, None, 1.1, 0.02),
        ),
        (
            "Device            r/s     w/s     rMB/s     wMB/s   rrqm/s   wrqm/s  %rrqm  %wrqm r_await w_await aqu-sz rareq-sz wareq-sz  svctm  %util",
            "sda             19.31   12.54      3,00      1,00    53,44    21,81  27,70  63,50    9,46    8,86   1,23    22,00    28,60   2,06  31,30",
            (31.3, 3.146, 1.049, 9.46, 8.86, 1.23),
        ),
        (
            "     r/s     w/s     rkB/s     wkB/s   rrqm/s   wrqm/s  %rrqm  %wrqm r_await w_await aqu-sz rareq-sz wareq-sz  svctm  %util Device",
            "  139.31   12.54      3.0M    358.4k    53.44    21.81  27.7%  63.5%    9.46    8.86   1.23    22.0k    28.6k   2.06  31.3% sda",
            (31.3, 3.146, 0.367, 9.46, 8.86, 1.23),
        ),
        (
            "Device             tps    kB_read/s    kB_wrtn/s    kB_dscd/s    kB_read    kB_wrtn    kB_dscd",
            "sda              21.00      1000.00      2000.00         0.00       1200      54000          0",
            (None, 1.024, 2.048, None, None, None),
        ),
        (
            "Device:            tps   Blk_read/s   Blk_wrtn/s   Blk_read   Blk_wrtn",
            "sda              21.00      2000.00      4000.00       1200      54000",
            (None, 1.024, 2.048, None, None, None),
        ),
        (
            "Device             tps      kB/s    rqm/s   await  areq-sz  aqu-sz  %util",
            "sda              76.98   1963.05    15.42    0.22    25.50    0.02   0.39",
            (0.39, None, None, None, None, 0.02),
        ),
    ],
    ids=["10", "9 sectors", "11 MB commas", "11 -h", "12 plain", "9 plain", "12 -s"],
)
def test_columns_of_many_versions(parse, head, row, wanted) -> None:
    (sample,) = hosts(parse(f"{head}\n{row}\n\n"))
    (disk,) = sample.disks or ()
    found = (disk.util_percent, disk.read_mb_s, disk.write_mb_s, disk.read_await_ms, disk.write_await_ms, disk.queue)
    assert (disk.name, found) == ("sda", wanted)


@pytest.mark.parametrize(
    ("stamp", "time"),
    [
        ("12/01/2025 02:40:00 PM", 1764600000.0),
        ("12/01/25 14:40:00", 1764600000.0),
        ("01/12/25 14:40:00", 1764600000.0),
        ("01.12.2025 14:40:00", 1764600000.0),
        ("2025-12-01T15:40:00+0100", 1764600000.0),
        ("12/01/25 25:40:00", None),
    ],
)
def test_times_of_many_places(parse, stamp, time) -> None:
    (record,) = parse(f"\n{stamp}\n{CPU}{NEW}\n", mtime=MTIME + 5)
    assert record.time == (time if time is not None else MTIME + 5)
    assert record.extra.get("time_guess") is (None if time is not None else True)


def test_the_banner_names_the_machine_and_marks_what_may_be_since_boot(parse) -> None:
    banner = "Linux 5.15.0-91-generic (gpu07.example.org) \t11/30/2025 \t_x86_64_\t(64 CPU)\n\n"
    first, second = parse(banner + CPU + NEW + "\n" + CPU + NEW + "\n", source="train.log")
    assert first.node == second.node == "gpu07" and first.sample.values["cpus"] == 64.0
    assert first.extra.get("first_report") == 1 and "first_report" not in second.extra
    (known,) = parse(banner + CPU + NEW, source="worker-2.log")
    assert known.node == "worker-2"


def test_ranks_that_print_at_once(parse) -> None:
    lines = (CPU + NEW + "\n").split("\n")
    text = "".join(f"{rank}: {line}\n" for line in lines for rank in (0, 1))
    assert [(r.rank, len(r.sample.disks or ())) for r in parse(text) if r.kind == "host"] == [(0, 1), (1, 1)]


def test_lines_between_and_an_end_that_never_comes(parse) -> None:
    row = NEW.split("\n")[1]
    text = CPU + NEW.split("\n")[0] + f"\n{row}\nstep 3 loss 2.5\n{row.replace('sda', 'sdb')}\n"
    (sample,) = hosts(parse(text))
    assert [disk.name for disk in sample.disks or ()] == ["sda", "sdb"]
    assert [hosts(parse(CPU))[0].values["iowait_percent"], hosts(parse(CPU))[0].disks] == [21.4, None]


def test_whole_disks_only(parse) -> None:
    head, row = NEW.split("\n")[:2]
    names = ("nvme0n1", "nvme0n1p1", "loop3", "dm-0", "md0", "sda", "sda2", "sr0", "zram0")
    text = "\n".join([head, *(row.replace("sda", name) for name in names)]) + "\n\n"
    assert [disk.name for disk in hosts(parse(text))[0].disks or ()] == ["nvme0n1", "sda"]
    mapped = "\n".join([head, row.replace("sda", "dm-0")]) + "\n\n"
    assert [disk.name for disk in hosts(parse(mapped))[0].disks or ()] == ["dm-0"]


@pytest.mark.parametrize("text", ["avg-cpu: 5\n1 2 3 4 5 6\n", "Device is at 90 %util\nsda 1 2 3\n", "r/s w/s %util\n"])
def test_talk_is_no_report(parse, text) -> None:
    assert hosts(parse(text)) == []
