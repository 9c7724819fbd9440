"""The drawings of the design, row by row: what stands in which column at 160×45, 80×24, 40×12 and 30×8."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType

import pytest

from trainmon.widgets.alert_strip import draw_alert_strip
from trainmon.widgets.cells import Row, plain
from trainmon.widgets.chart import draw_chart
from trainmon.widgets.error_list import draw_errors
from trainmon.widgets.event_list import draw_events
from trainmon.widgets.facts import draw_facts
from trainmon.widgets.footer import draw_footer
from trainmon.widgets.gpu_table import draw_gpus
from trainmon.widgets.log_tail import draw_log_tail
from trainmon.widgets.metrics import draw_metrics
from trainmon.widgets.node_table import draw_nodes
from trainmon.widgets.source_list import draw_sources
from trainmon.widgets.status import draw_status


def lines(rows: list[Row]) -> list[str]:
    return [plain(row).rstrip() for row in rows]


def test_status_and_alert_at_160(story: ModuleType) -> None:
    snapshot = story.alert()
    now = story.NOW["alert"]
    assert lines(draw_status(snapshot.run, 160, now=now)) == [
        " trainmon  qwen-7b-lora  8 nodes · 64 GPUs   ● running 11:11:44 UTC                              "
        "step 1,120/5,000  ━━━━━╸────────────────── 22 %   ETA 3 h 40 m"
    ]
    assert lines(draw_alert_strip(snapshot.alerts, snapshot.calm, 160, now=now)) == [
        " ✗ NEAR OOM  worker-2 gpu3  76.8 of 80 GiB (96 %), +4.0 GiB per 100 steps → full in ≈ 4 min"
        "                                       1 of 2 · 1 m   ⏎ why   M mute"
    ]


@pytest.mark.parametrize(
    ("width", "row"),
    [
        (120, " ✗ NEAR OOM  worker-2 gpu3  76.8 of 80 GiB (96 %), +4.0 GiB per 100 steps → full in ≈ 4 min     1 of 2   ⏎ why   M mute"),
        (100, " ✗ NEAR OOM  worker-2 gpu3  76.8 of 80 GiB (96 %) → full in ≈ 4 min         1 of 2   ⏎ why   M mute"),
        (80, " ✗ NEAR OOM  worker-2 gpu3  76.8 of 80 GiB → full in ≈ 4 min      1 of 2  ⏎ why"),
        (60, " ✗ NEAR OOM  worker-2 gpu3  → full in ≈ 4 min           1/2"),
        (40, " ✗ NEAR OOM worker-2 gpu3 ≈ 4 min   1/2"),
        (30, " ✗ NEAR OOM worker-2 gpu3"),
    ],
)  # fmt: skip
def test_the_alert_shortens_from_the_right(story: ModuleType, width: int, row: str) -> None:
    snapshot = story.alert()
    assert lines(draw_alert_strip(snapshot.alerts, snapshot.calm, width)) == [row]


def test_the_quiet_row_says_what_was_not_counted(story: ModuleType) -> None:
    snapshot = story.healthy()
    assert lines(draw_alert_strip((), snapshot.calm, 160)) == [
        " ● healthy for 41 m 12 s  ·  no alerts since the start  ·  one eval and one checkpoint recognised as planned pauses"
    ]


def test_loss_chart_at_160(story: ModuleType) -> None:
    snapshot = story.alert()
    rows = lines(draw_chart(snapshot.charts[0], snapshot.spans, 79, 15))
    assert len(rows) == 15
    assert rows[0] == " loss  1.990  ▼ 0.013 in 100 steps ─────────────── min–max and mean per column"
    assert "▲ 3.60 at step 0" in rows[1]
    assert [row[3:7] for row in rows[2:13:2]] == ["2.8┤", "2.6┤", "2.4┤", "2.2┤", "2.0┤", "1.8┤"]
    assert rows[13] == "      └┬─────────────┬─────────────┬─────────────┬─────────────┬───▲━✗━──────┬"
    assert rows[14] == "       0            250           500           750          1,000       1,250"


def test_rate_chart_at_80(story: ModuleType) -> None:
    snapshot = story.alert()
    rows = lines(draw_chart(snapshot.charts[1], snapshot.spans, 40, 8))
    assert rows[0] == " lr  4.48e-05 ─────────────────────────"
    assert [row[:9] for row in rows[1:6:2]] == [" 5.0e-05┤", " 2.5e-05┤", "       0┤"]
    assert rows[7] == "         0          500        1,000"


def test_metrics_at_each_width(story: ModuleType) -> None:
    metrics = story.alert().metrics
    assert lines(draw_metrics(metrics, 160, 2))[0] == (
        " grad norm  1.91                 tokens/s  154 k  ▼ 11 %         step time  3.41 s  ▲ 13 %       "
        "MFU  35.2 %  ▼ 4.4 pt           data wait  0.06 s"
    )
    assert lines(draw_metrics(metrics, 80, 1)) == [
        " tokens/s 154 k ▼ 11 %   step 3.41 s ▲ 13 %   MFU 35.2 %   grad norm 1.91"
    ]


def test_gpus_at_160_and_80(story: ModuleType) -> None:
    panel = story.alert().gpus
    wide = lines(draw_gpus(panel, 79, 10))
    assert wide[0] == " GPUs  worker-2, this host ─────────────────────────────────────── NVML · live"
    assert wide[1] == " gpu  util %, 10 s        memory GiB of 80          °C     W    MHz"
    assert wide[5] == "  3   ━━━━━━━━━━━━╸  97   ━━━━━━━━━━━━━━━━╸ 76.8    72   391  1,410     ✗ 96 %"
    narrow = lines(draw_gpus(panel, 40, 9))
    assert narrow[0] == " GPUs ─────── util % ──── GiB of 80  °C"
    assert narrow[4] == " ✗ 3 ━━━━━━━━╸  97  ━━━━━━━━━╸ 76.8  72"


def test_only_the_worst_gpus_stay_where_rows_are_few(story: ModuleType) -> None:
    rows = lines(draw_gpus(story.alert().gpus, 40, 3))
    assert [row[:4].split()[-1] for row in rows[1:]] == ["2", "3"]
    assert rows[2].startswith(" ✗ 3")


def test_nodes_at_160_and_80(story: ModuleType) -> None:
    nodes = story.alert().nodes
    wide = lines(draw_nodes(nodes, 80, 10))
    assert wide[0] == " nodes  ■■✗■■▲■■  6 ok · 1 slow · 1 failing ─────────────────────── worst first"
    assert wide[1] == "   node       state         step  own s              vs med wait s    GiB   °C"
    assert wide[2].startswith(" ✗ worker-2   NEAR OOM     1,120   2.65  ")
    assert wide[3].endswith("   +14 %   0.39   66.3   87")
    narrow = lines(draw_nodes(nodes, 40, 9))
    assert narrow[0] == " nodes ■■✗■■▲■■ ───── own s ── GiB ─ °C"
    assert narrow[1] == " ✗ worker-2  NEAR OOM  2.65   76.8   72"


def test_errors_at_160(story: ModuleType) -> None:
    snapshot = story.failed()
    rows = lines(draw_errors(snapshot.errors, snapshot.counts, 160, 9, focused=True))
    assert rows[0].startswith(" errors  1 probable cause · 3 consequences · 1 of its own ━━━")
    assert rows[0].endswith("━ 5 codes · 66 lines · 0 unread")
    assert rows[2] == (
        "▌✗ CUDA_OOM                tried to allocate 512 MiB on GPU 3, 214 MiB free       ×1    worker-2 rank 19"
        "        11:16:17     probable cause"
    )
    assert rows[3].startswith("▌  worker-2.log:1,223  torch.OutOfMemoryError: CUDA out of memory. Tried")
    assert rows[4].startswith("▌  → only this rank grew: look for tensors kept alive on rank 19;")
    assert [row[1] for row in rows[5:]] == ["↳", "↳", "↳", "▲"]


def test_below_120_columns_the_advice_is_behind_enter(story: ModuleType) -> None:
    snapshot = story.failed()
    assert not any("→" in row for row in lines(draw_errors(snapshot.errors, None, 119, 9, focused=True)))
    assert any("→" in row for row in lines(draw_errors(snapshot.errors, None, 120, 9, focused=True)))
    events = story.alert().events
    assert not any("→" in row for row in lines(draw_events(events, (), None, 119, 9)))


def test_with_few_rows_the_advice_stays_and_the_raw_line_goes(story: ModuleType) -> None:
    rows = lines(draw_errors(story.failed().errors, None, 120, 3))
    assert rows[1].startswith(" ✗ CUDA_OOM") and rows[2].startswith("   → only this rank grew")


def test_the_age_gives_way_to_what_follows(story: ModuleType) -> None:
    snapshot = story.failed()
    [row] = lines(draw_alert_strip(snapshot.alerts, "", 120, now=story.NOW["failed"]))
    assert "ran out of GPU memory at step 1,200 → the run has stopped" in row and "10 m" not in row


def test_events_at_160(story: ModuleType) -> None:
    snapshot = story.alert()
    rows = lines(draw_events(snapshot.events, (), snapshot.counts, 160, 9))
    assert rows[0].startswith(" events  no errors · 1 critical · 1 warning ───")
    assert rows[0].endswith(" 9,134 lines · 0 unread")
    assert rows[1].startswith(" 11:10:36  ✗ NEAR OOM     worker-2 gpu3   76.8 of 80 GiB and rising since step 880")
    assert rows[2].startswith(" " * 42 + "→ only rank 19 grows")
    assert rows[5] == " 11:05:14  ● checkpoint                   step 1,000 saved in 8.4 s, in the background"


def test_corner_pane_at_40(story: ModuleType) -> None:
    assert lines(draw_facts(story.alert(), 40, 9)) == [
        " step   1,120/5,000  ━━╸─────────  22 %",
        " ETA    3 h 40 m",
        " loss   1.990 ▼ 0.013       ▇▅▃▃▂▂▂▂▂▂▂",
        " lr     4.48e-05",
        " speed  154 k tok/s ▼ 11 %  ▄▄▄▄▄▄▄▂▂▂▂",
        " GPU    ✗ gpu3 76.8 of 80 GiB      96 %",
        " nodes  ■■✗■■▲■■        ● 6   ▲ 1   ✗ 1",
        " worst  ▲ worker-5 +14 %, 87 °C",
        " error  none",
    ]


def test_floor_at_30(story: ModuleType) -> None:
    snapshot = story.alert()
    strip = lines(draw_alert_strip(snapshot.alerts, snapshot.calm, 30, 2))
    assert strip == [" ✗ NEAR OOM worker-2 gpu3", "   full in ≈ 4 min      ⏎ why"]
    assert lines(draw_facts(snapshot, 30, 5)) == [
        " ━━━━━────────────────── 22 %",
        " step 1,120      ETA 3 h 40 m",
        " loss 1.990       lr 4.48e-05",
        " tok/s 154 k ▼ 11 % no errors",
        " ▲ worker-5 slow +14 % ? help",
    ]
    assert lines(draw_facts(snapshot, 20, 2)) == [" step 1,120", " loss 1.990"]


def test_sources_before_the_first_line(story: ModuleType) -> None:
    assert lines(draw_sources(story.empty().sources, 100, 4)) == [
        " sources ──────────────────────────────────────────────────────────────────────────────────────────",
        " ◌ logs/worker-*.log     no file yet    joins as soon as one matches",
        " ○ logs/launcher.log     empty          0 B, made 38 s ago; followed",
        " ✗ /mnt/old/train.log    not readable   permission denied for user maria: chmod g+r it",
    ]


def test_log_tail_mutes_keys(story: ModuleType) -> None:
    rows = draw_log_tail(story.healthy().tail, 160, 4, name="worker-0.log")
    assert lines(rows)[1].startswith(" 10:57:09  step=840 loss=2.031 lr=4.72e-05")
    tokens = {text.strip(): token for text, token in rows[1]}
    assert tokens["loss="] == "muted" and tokens["2.031"] == "text"


def test_footer_drops_keys_from_the_right_and_keeps_help_and_quit() -> None:
    keys = [("?", "help"), ("/", "search"), ("Tab", "panel"), ("e", "errors"), ("q", "quit")]
    assert lines(draw_footer(keys, 60)) == [" ? help   / search   Tab panel   e errors   q quit"]
    assert lines(draw_footer(keys, 30)) == [" ? help  / search  q quit"]
    assert lines(draw_footer(keys, 12)) == [" ? help"]
    assert lines(draw_footer(keys, 80, hidden=2))[0].endswith("+2 hidden: z")


def test_the_strip_does_not_say_an_xid_twice(story: ModuleType) -> None:
    alert = replace(
        story.alert().alerts[0], title="XID 94", who="node-a gpu4",
        measured="Xid 94: a memory error that hit this program only", outlook="the job on it fails",
    )  # fmt: skip
    assert (
        " XID 94  node-a gpu4  a memory error that hit this program only → "
        in lines(draw_alert_strip([alert], "", 160))[0]
    )
