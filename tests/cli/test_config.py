"""`trainmon config`: a file to begin with, a check with file and line, and what is in force and why."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from trainmon.cli import main
from trainmon.commands.config import template, toml
from trainmon.settings import load
from trainmon.settings.keys import KEYS, TABLES
from trainmon.settings.model import Settings

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)


def test_init_writes_every_key_with_its_default_and_never_over_a_file(capsys: Capture) -> None:
    assert main(["config", "init"]) == 0
    text = Path("trainmon.toml").read_text()
    assert capsys.readouterr().out == "trainmon.toml written: every key with its default\n"
    for key in KEYS:
        assert f"\n{key.name} = " in text or f"\n# {key.name} = " in text, key.name
    for table in TABLES:
        assert f"[{table}]" in text
    assert main(["config", "check"]) == 0
    Path("trainmon.toml").write_text("[screen]\n")
    assert main(["config", "init"]) == 2
    assert "is there already; it is left as it is" in capsys.readouterr().err
    assert Path("trainmon.toml").read_text() == "[screen]\n"


def test_what_init_writes_changes_nothing(tmp_path: Path) -> None:
    for arguments in (["--user"], ["mine.toml"]):
        assert main(["config", "init", *arguments]) == 0
    own = tmp_path / "home" / ".config" / "trainmon" / "config.toml"
    assert own.read_text() == template() == Path("mine.toml").read_text()
    settings = load(own, env={})
    assert settings == Settings(files=(own,))
    with_format = template().replace("\n# [[", "\n[[").replace("\n# name", "\nname").replace("\n# pattern", "\npattern")
    assert [each.name for each in load_text(tmp_path, with_format.replace("\n# units", "\nunits")).formats] == [
        "mytrainer"
    ]


def load_text(tmp_path: Path, text: str) -> Settings:
    path = tmp_path / "some.toml"
    path.write_text(text)
    return load(path, env={})


def test_check_names_file_line_key_and_the_nearest_name(tmp_path: Path, capsys: Capture) -> None:
    Path("trainmon.toml").write_text("[screen]\nthme = 'dark'\n[[format]]\nname = 'x'\npattern = '(?P<loss>'\n")
    assert main(["config", "check"]) == 2
    path = tmp_path / "work" / "trainmon.toml"
    assert capsys.readouterr().err.splitlines() == [
        f'trainmon: {path}, line 2: thme in [screen] is no known key; did you mean "theme"?',
        f'trainmon: {path}, line 5: pattern of format "x" does not compile: missing ) at position 10',
    ]
    assert main(["config", "check", "none.toml"]) == 2
    assert "none.toml: no such file" in capsys.readouterr().err


def test_check_runs_the_samples_and_provokes_the_patterns(capsys: Capture) -> None:
    good = (
        "[[format]]\nname = 'x'\npattern = 'q(?P<step>[0-9]+) (?P<loss>.*)'\n"
        "[[format.sample]]\nline = 'q7 2.5'\ngives = { step = 7, loss = 2.5, kind = 'metrics', format = 'x' }\n"
    )
    Path("trainmon.toml").write_text(good)
    assert main(["config", "check"]) == 0
    assert "good, 1 format" in capsys.readouterr().out
    Path("trainmon.toml").write_text(good.replace("loss = 2.5", "loss = 2.25"))
    assert main(["config", "check"]) == 2
    assert capsys.readouterr().err == 'trainmon: format "x", sample 1: loss is 2.5 and should be 2.25\n'
    Path("trainmon.toml").write_text("[[format]]\nname = 'x'\npattern = 'q(?P<loss>(a|aa)+)$'\n")
    assert main(["config", "check"]) == 2
    assert 'format "x": its pattern may match the same text in so many ways' in capsys.readouterr().err


def test_show_says_what_is_in_force_and_from_where(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("trainmon.toml").write_text(
        '[thresholds]\nstall_after = "10m"\n[tags]\n"w-*.log" = { job_id = "7" }\n'
        "[[format]]\nname = \"x\"\npattern = 'q(?P<step>\\d+)'\n"
    )
    own = tmp_path / "home" / ".config" / "trainmon" / "config.toml"
    own.parent.mkdir(parents=True)
    own.write_text("[screen]\ntheme = 'light'\nbell = false\n")
    monkeypatch.setenv("TRAINMON_THEME", "dark")
    assert main(["config", "show"]) == 0
    out = capsys.readouterr().out
    lines = {line.split(" = ")[0]: line for line in out.splitlines() if " = " in line}
    path = tmp_path / "work" / "trainmon.toml"
    assert lines["stall_after"].split("#")[1].strip() == f"{path}, line 2"
    assert lines["theme"].startswith('theme = "dark"') and lines["theme"].endswith("# TRAINMON_THEME")
    assert lines["bell"].startswith("bell = false") and lines["bell"].endswith(f"# {own}, line 3")
    assert lines["flash"].startswith("flash = true") and lines["flash"].endswith("# default")
    shown = tomllib.loads(out)  # what it prints can be read again
    assert shown["tags"] == {"w-*.log": {"job_id": "7"}} and shown["format"][0]["pattern"] == r"q(?P<step>\d+)"
    assert {key.name for key in KEYS} <= {name for part in shown.values() if isinstance(part, dict) for name in part}


def test_values_are_written_as_toml_reads_them() -> None:
    for value in ("a", 'q"uo\\te', "tab\tnew\nline\x01", r"\d'x", 1, 1.5, True, ["a", 2], {"k k": [True], "é": "ü"}):
        assert tomllib.loads(f"x = {toml(value)}")["x"] == value


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["config"], "missing: action"),
        (["config", "inti"], "inti"),
        (["config", "check", "--user"], "--user goes with init"),
        (["config", "init", "a.toml", "--user"], "name one place"),
        (["config", "show", "a.toml", "--config", "b.toml"], "name one file"),
        (["config", "init", "no/folder/x.toml"], "cannot be written"),
    ],
)
def test_mistakes(arguments: list[str], words: str, capsys: Capture) -> None:
    assert main(arguments) in (1, 2)
    err = capsys.readouterr().err
    assert words in err and err.count("\n") == 1
