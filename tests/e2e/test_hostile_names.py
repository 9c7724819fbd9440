"""Names and texts that want to command the terminal, and descriptors that are closed: every command, raw bytes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TRAINMON = [sys.executable, "-m", "trainmon"]
EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e\x7f"
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def said(folder: Path, *arguments: str, text: bytes = b"") -> tuple[int, str]:
    """Exit code, and all that was written."""
    done = subprocess.run(
        [*TRAINMON, *arguments], cwd=folder, input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60,
        env={**os.environ, "HOME": str(folder), "XDG_STATE_HOME": str(folder), "PYTHONUTF8": "1"}, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout.decode("utf-8", "replace")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["parse", f"none{EVIL}.log"], 3),
        (["parse", f"none{EVIL}*.log"], 3),
        (["parse", "--config", f"none{EVIL}", "x"], 2),
        (["parse", f"--{EVIL}"], 2),
        (["no\x1b]0;owned\x07\u202ecommand"], 2),
        (["explain", EVIL + "?"], 1),
        (["doctor", "--config", f"none{EVIL}"], 1),
    ],
)
def test_no_name_commands_the_terminal(arguments: list[str], code: int, tmp_path: Path) -> None:
    found, text = said(tmp_path, *arguments)
    assert found == code, text
    assert text and not OBEYED.search(text), ascii(text)
    assert "fault in trainmon" not in text


def test_a_log_with_an_evil_name_and_evil_text(tmp_path: Path) -> None:
    name = f"w{EVIL}.log"
    (tmp_path / name).write_text(
        json.dumps({"step": 1, "loss": 2.0, EVIL: EVIL, "node": EVIL, "job_id": EVIL}, ensure_ascii=False)
        + f"\nERROR {EVIL} RuntimeError: CUDA out of memory {EVIL}\n"
    )
    code, text = said(tmp_path, "parse", "--all", name)
    assert code == 0 and not OBEYED.search(text), ascii(text)
    assert [json.loads(line)["source"] for line in text.splitlines()] == [name] * 2
    with (tmp_path / name).open("rb") as log:
        done = subprocess.run([*TRAINMON, "explain", "-"], stdin=log, capture_output=True, timeout=60, check=False)
    assert b"CUDA_OOM" in done.stdout and not OBEYED.search(done.stdout.decode())


def test_plain_lines_of_an_evil_name(tmp_path: Path) -> None:
    (tmp_path / f"w{EVIL}.log").write_text(f'{{"step": 7, "loss": 2.0}}\nERROR {EVIL} boom\n')
    process = subprocess.Popen(
        [*TRAINMON, "tail", "--plain", f"w{EVIL}.log", f"later{EVIL}.log"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", errors="replace",
    )  # fmt: skip
    assert process.stdout is not None
    lines = []
    while not (any("boom" in line for line in lines) and any("later" in line for line in lines)):
        lines.append(process.stdout.readline())
        assert lines[-1], "it ended"
    process.terminate()
    text = "".join(lines) + process.stdout.read()
    process.wait(60)
    assert not OBEYED.search(text), ascii(text)


def test_a_name_that_is_no_utf8(tmp_path: Path) -> None:
    path = os.path.join(os.fsencode(tmp_path), b"w\xff\xfe.log")
    try:
        with open(path, "w") as file:
            file.write('{"step": 1, "loss": 2.0}\n')
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    code, text = said(tmp_path, "parse", ".")
    assert code == 0 and json.loads(text)["loss"] == 2.0


@pytest.mark.parametrize(
    ("command", "code", "word"),
    [
        ("--version >&-", 1, "closed"),
        ("parse ok.log >&-", 1, "closed"),
        ("explain >&-", 1, "closed"),
        ("tail ok.log >&-", 1, "closed"),
        ("parse - <&-", 3, "closed"),
        ("explain - <&-", 2, "closed"),
        ("tail - <&-", 2, "closed"),
        ("parse missing 2>&-", 3, ""),
        ("parse ok.log <&- 2>&-", 0, '"step":1'),
    ],
)
def test_descriptors_that_are_closed(command: str, code: int, word: str, tmp_path: Path) -> None:
    (tmp_path / "ok.log").write_text('{"step": 1, "loss": 2.0}\n')
    done = subprocess.run(
        ["sh", "-c", f"exec {sys.executable} -m trainmon {command}"], cwd=tmp_path, capture_output=True, timeout=60,
        env={**os.environ, "XDG_STATE_HOME": str(tmp_path)}, check=False,
    )  # fmt: skip
    text = (done.stdout + done.stderr).decode()
    assert (done.returncode, "fault" in text) == (code, False), text
    assert word in text


def test_a_working_folder_that_is_gone(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    done = subprocess.run(
        ["sh", "-c", f"rmdir ../gone; exec {sys.executable} -m trainmon"],
        cwd=gone, capture_output=True, text=True, timeout=60, env={**os.environ, "XDG_STATE_HOME": str(tmp_path)},
        check=False,
    )  # fmt: skip
    assert done.returncode == 3 and "gone" in done.stderr and "fault" not in done.stderr
