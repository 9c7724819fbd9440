"""A fault of our own: the screen goes on, and at the end one line says where the details are."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from trainmon.cli import main
from trainmon.commands.crash import MOST, keep
from trainmon.session.engine import Engine


def test_what_went_wrong_while_the_screen_went_on_is_told_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(self: Engine, event: object) -> None:
        raise ZeroDivisionError("on purpose")

    with open("/dev/null") as nothing:
        monkeypatch.setattr("sys.stdin", nothing)
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
        monkeypatch.setattr(Engine, "tick", broken)
        monkeypatch.setattr("trainmon.commands.tail._all_ended", lambda session: session.faults > 0)
        assert main(["tail", "--plain", str(tmp_path / "none.log")]) == 0
    err = capsys.readouterr().err
    (file,) = (tmp_path / "trainmon").glob("crash-*.txt")
    assert "ZeroDivisionError: on purpose" in err and str(file) in err and err.count("\n") == 1
    assert "Traceback" in file.read_text()


def test_a_full_disk_leaves_no_half_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    assert keep("details", tmp_path) is None
    assert not list(tmp_path.iterdir())


def test_reports_do_not_fill_the_folder(tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / f"crash-20250101-0000{number:02}-1.txt").write_text("old")
    newest = keep("details", tmp_path)
    assert newest is not None and "details" in newest.read_text()
    assert len(list(tmp_path.iterdir())) == MOST and newest.exists()
