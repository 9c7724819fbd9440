"""`explain`: a code in any spelling, pasted text, near spellings; and the text that it prints."""

import pytest

from trainmon.catalogue import explain, load
from trainmon.catalogue.text import render

CATALOGUE = load()


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ("CUDA_OOM", "CUDA_OOM"),
        ("  cuda_oom\n", "CUDA_OOM"),
        ("cuda oom", "CUDA_OOM"),
        ("xid 79", "XID_79"),
        ("E-COMM-1003", "E_COMM_1003"),
        ("what is E_COMM_1003?", "E_COMM_1003"),
        ("we saw CKPT_CORRUPT again", "CKPT_CORRUPT"),
        ("[rank1]: KeyError: 'warmup_steps'", "KEY_ERROR"),
        ("Traceback (most recent call last):\n  File 'x'\nfoo.OddError: never seen", "GENERIC_TRACEBACK"),
    ],
)
def test_one_entry(asked, code) -> None:
    assert [entry.code for entry in explain(asked)] == [code]


def test_pasted_text_gives_every_error_in_it_once_and_in_order() -> None:
    text = (
        "[rank0]: KeyError: 'a'\n[rank1]: KeyError: 'a'\nnothing here\n"
        "W1 torch/x.py:1] Sending process 3 closing signal SIGTERM\n"
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n"
    )
    codes = [entry.code for entry in CATALOGUE.explain(text)]
    assert codes == ["KEY_ERROR", "SIGTERM_FROM_LAUNCHER", "TORCHRUN_CHILD_FAILED"]


def test_unknown_gives_nothing_and_near_codes_apart() -> None:
    assert CATALOGUE.explain("CUDA_OM") == []
    assert CATALOGUE.nearest("CUDA_OM")[0] == "CUDA_OOM"
    assert CATALOGUE.nearest("xid 7999")[0].startswith("XID_79")
    assert "NCCL_DUPLICATE_GPU" in CATALOGUE.nearest("duplicate")
    assert CATALOGUE.nearest("") == []
    assert len(CATALOGUE.nearest("NCCL")) <= 3


def test_text_has_its_sections_and_titles_of_what_follows() -> None:
    text = render(CATALOGUE.entries["CUDA_OOM"])
    order = [
        text.index(part)
        for part in ("Meaning\n", "Likely causes\n", "What to do\n", "What often follows\n", "Source\n")
    ]
    assert order == sorted(order)
    assert text.startswith("CUDA_OOM: ") and "fatal" in text and text.endswith("\n")
    assert CATALOGUE.entries["TORCHRUN_CHILD_FAILED"].title in text
    assert "  1. " in text and "  2. " in text


def test_text_of_every_entry_fits_and_has_no_control_characters() -> None:
    for entry in CATALOGUE:
        for line in render(entry).split("\n"):
            assert line.isprintable() and line == line.rstrip()
            assert len(line) <= 80 or len(max(line.split(), key=len)) > 40, (entry.code, line)
    narrow = render(CATALOGUE.entries["E_COMM_1001"], width=40)
    assert max(len(line) for line in narrow.split("What often follows")[0].split("\n")) <= 40
    assert "E_COMM_1003" in render(CATALOGUE.entries["NCCL_REMOTE_ERROR"])
