"""`doctor`: plain lines, and an exit code that says whether all can work."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainmon.cli import main
from trainmon.commands import doctor
from trainmon.commands.doctor import Finding, findings


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)


def by_subject(config: Path | None = None) -> dict[str, Finding]:
    return {finding.subject: finding for finding in findings(config)}


def test_it_says_all_it_looked_at(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    for subject in (
        "python",
        "packages",
        "host",
        "terminal",
        "colours",
        "text",
        "watching",
        "descriptors",
        "NVML",
        "state",
    ):
        assert f" {subject} " in out
    assert all(line[0] in "●▲✗" for line in out.splitlines())


@pytest.mark.parametrize(
    ("variables", "subject", "health", "words"),
    [
        ({"NO_COLOR": "1"}, "colours", "ok", "none"),
        ({"COLORTERM": "truecolor", "NO_COLOR": ""}, "colours", "ok", "16 million"),
        ({"COLORTERM": "", "TERM": "screen-256color", "NO_COLOR": ""}, "colours", "ok", "256"),
        ({"COLORTERM": "", "TERM": "vt100", "NO_COLOR": ""}, "colours", "ok", "16:"),
        ({"COLUMNS": "20", "LINES": "5"}, "size", "warning", "20 × 5"),
        ({"COLUMNS": "40", "LINES": "12"}, "size", "ok", "one column"),
    ],
)
def test_the_terminal(
    variables: dict[str, str], subject: str, health: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    found = by_subject()[subject]
    assert found.health == health and words in found.text


def test_a_wrong_configuration_cannot_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "trainmon.toml").write_text("[screen]\nthem = 'dark'\n")
    assert main(["doctor"]) == 1
    assert "✗ configuration" in capsys.readouterr().out


def test_an_unwritable_home_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    found = by_subject()["state"]
    assert found.health == "warning" and "cannot be written" in found.text


def test_a_check_that_breaks_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise OSError("no /proc here")

    monkeypatch.setattr(doctor, "_size", broken)
    assert any(f.health == "warning" and "no /proc here" in f.text for f in findings())


def test_ascii_where_the_locale_is_not_utf8(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "_speaks_utf8", lambda: False)
    assert main(["doctor"]) == 0
    assert capsys.readouterr().out.isascii()
