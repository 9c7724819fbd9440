"""The completion scripts are made from the parsers; bash's is really asked."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from trainmon.cli import main
from trainmon.commands.arguments import PARSERS


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_command_and_option_is_completed(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for command, make in PARSERS.items():
        assert command in script
        for action in make()._actions:
            for flag in action.option_strings:
                if flag.startswith("--"):
                    assert (f"-l {flag[2:]}" if shell == "fish" else flag) in script


def complete(words: list[str], folder: Path) -> list[str]:
    """What bash offers for the last word."""
    quoted = " ".join(f"'{word}'" for word in words)
    script = (
        f'eval "$(cat "{folder}/script")"; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _trainmon; '
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, cwd=folder, check=True)
    return done.stdout.split()


def test_bash_completes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["completion", "bash"])
    (tmp_path / "script").write_text(capsys.readouterr().out)
    (tmp_path / "worker-0.log").write_text("")
    assert complete(["trainmon", "ta"], tmp_path) == ["tail"]
    assert complete(["trainmon", "tail", "--no-f"], tmp_path) == ["--no-flash"]
    assert complete(["trainmon", "tail", "--theme", "an"], tmp_path) == ["ansi16"]
    assert complete(["trainmon", "tail", "wor"], tmp_path) == ["worker-0.log"]
    assert complete(["trainmon", "wor"], tmp_path) == ["worker-0.log"]
    assert complete(["trainmon", "completion", "z"], tmp_path) == ["zsh"]


def test_the_shells_that_are_here_accept_the_syntax(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for shell in filter(shutil.which, ("bash", "zsh", "fish")):
        main(["completion", shell])
        path = tmp_path / shell
        path.write_text(capsys.readouterr().out)
        subprocess.run([shell, "-n", str(path)], check=True)
