"""What the command line understands, and what it says when it does not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import trainmon
from trainmon import cli
from trainmon.cli import main
from trainmon.commands.arguments import PARSERS, SUMMARIES

ROOT = Path(__file__).parents[2]


def test_help_fits_one_screen(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    page = capsys.readouterr().out
    assert main(["help"]) == 0 and capsys.readouterr().out == page
    lines = page.splitlines()
    assert len(lines) <= 24 and max(map(len, lines)) <= 80
    text = "\n".join(lines)
    assert all(f"trainmon {name}" in text for name in PARSERS)
    assert set(SUMMARIES) == set(PARSERS)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"trainmon {trainmon.__version__}\n"


@pytest.mark.parametrize("command", PARSERS)
def test_each_command_has_its_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    out = capsys.readouterr()
    assert f"trainmon {command}" in out.out and out.err == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["tial", "x.log"], 'no command "tial"; did you mean "tail"?'),
        (["parze"], 'did you mean "parse"?'),
        (["qqqq"], "`trainmon tail qqqq` waits for a file of that name"),
        (["tail"], "tail needs a SOURCE"),
        (["tail", "--nonsense", "x"], "unknown: --nonsense (see `trainmon tail --help`)"),
        (["parse"], "missing: SOURCE (see `trainmon parse --help`)"),
        (["parse", "x", "--level", "LOUD"], "LOUD"),
        (["demo", "--speed", "0"], "should lie between 0.05 and 50"),
        (["demo", "--speed", "fast"], "--speed"),
        (["tail", "x", "--poll", "soon"], "--poll soon: should be a duration"),
        (["tail", "x", "--theme", "pink"], "pink"),
        (["completion", "tcsh"], "tcsh"),
        (["tail", "x", "--config", "/does/not/exist.toml"], "/does/not/exist.toml: no such file"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    out = capsys.readouterr()
    assert out.out == ""
    assert out.err.startswith("trainmon: ") and out.err.count("\n") == 1
    assert words in out.err


def test_every_problem_of_the_configuration_has_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "c.toml"
    path.write_text("[screen]\nthem = 'dark'\nflash = 2\n")
    assert main(["tail", "x", "--config", str(path)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_a_source_as_first_word_means_tail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run7").write_text("")
    assert cli._choose(["run7"]) == ("tail", ["run7"])
    for first in ("worker-0.log", "worker-*.log", "-", "logs/", "/var/log/x"):
        assert cli._choose([first, "--exact"]) == ("tail", [first, "--exact"])
    assert cli._choose(["demo", "--speed", "2"]) == ("demo", ["--speed", "2"])
    assert cli._choose(["--plain"]) == ("", ["--plain"])


def test_a_command_wins_over_a_file_of_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo").write_text("")
    assert cli._choose(["demo"])[0] == "demo"


@pytest.mark.parametrize(
    ("error", "code"), [(KeyboardInterrupt(), 130), (BrokenPipeError(), 0), (SystemExit(143), 143)]
)
def test_ends_that_are_no_faults(
    error: BaseException, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_arguments: list[str]) -> int:
        raise error

    monkeypatch.setattr(cli, "_run", fail)
    monkeypatch.setattr(cli.os, "dup2", lambda *_: None)
    assert main([]) == code
    assert capsys.readouterr().err == ""


def test_a_fault_of_ours_leaves_a_file_and_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_arguments: list[str]) -> int:
        raise ZeroDivisionError("of our own")

    monkeypatch.setattr(cli, "_run", fail)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert main([]) == 1
    line = capsys.readouterr().err
    assert line.count("\n") == 1 and "ZeroDivisionError: of our own" in line
    (file,) = (tmp_path / "trainmon").glob("crash-*.txt")
    assert str(file) in line
    assert "Traceback" in file.read_text() and trainmon.__version__ in file.read_text()


def test_every_option_is_in_the_docs() -> None:
    text = (ROOT / "docs" / "cli.md").read_text("utf-8")
    sections = re.split(r"^## ", text, flags=re.M)
    screen = next(part for part in sections if part.startswith("`trainmon tail"))
    for command, make in PARSERS.items():
        own = next(part for part in sections if part.startswith(f"`trainmon {command}"))
        for action in make()._actions:
            for flag in action.option_strings:
                if flag in ("-h", "--help"):
                    continue
                assert f"`{flag}" in own or (command == "demo" and f"`{flag}" in screen), f"{command} {flag}"
            for choice in action.choices or ():
                assert str(choice) in own or str(choice) in screen, f"{command} {action.dest} {choice}"
