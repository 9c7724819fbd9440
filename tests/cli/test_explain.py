"""`explain`: by code, by text, and what it says when nothing is known."""

from __future__ import annotations

import io
import sys

import pytest

from trainmon.catalogue import load
from trainmon.cli import main


class Input:
    """Standard input with some bytes in it."""

    def __init__(self, data: bytes) -> None:
        self.buffer = io.BytesIO(data)


def test_a_code_in_any_spelling(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "cuda-oom"]) == 0
    text = capsys.readouterr().out
    entry = load().entry("CUDA_OOM")
    assert entry is not None and "CUDA_OOM" in text
    assert all(fix.split()[0] in text for fix in entry.fixes)


def test_every_code_can_be_explained(capsys: pytest.CaptureFixture[str]) -> None:
    for entry in load():
        assert main(["explain", entry.code]) == 0
        out = capsys.readouterr().out
        lines = [line for line in out.splitlines() if "://" not in line]
        assert entry.code in out and max(map(len, lines)) <= 80


def test_a_line_of_a_log_and_standard_input(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    line = "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.50 GiB"
    assert main(["explain", *line.split()]) == 0
    assert "CUDA_OOM" in capsys.readouterr().out
    monkeypatch.setattr(sys, "stdin", Input(f"nothing\n{line}\nmore \xff".encode("latin-1")))
    assert main(["explain", "-"]) == 0
    assert "CUDA_OOM" in capsys.readouterr().out


def test_what_nothing_knows(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "CUDA_OM"]) == 1
    assert "did you mean CUDA_OOM" in capsys.readouterr().err
    assert main(["explain", "all", "is", "\x1b[31mwell"]) == 1
    err = capsys.readouterr().err
    assert "no entry knows" in err and err.count("\n") == 1 and "\x1b" not in err
    assert main(["explain", " "]) == 2


def test_nothing_lists_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(list(load())) >= 40
    assert lines == sorted(lines)
