"""`trainmon formats`: the list, and what is made of a file."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainmon.cli import main
from trainmon.parsing.custom import build
from trainmon.parsing.formats import builtin
from trainmon.parsing.suggest import suggest

Capture = pytest.CaptureFixture[str]
LOGS = Path(__file__).parents[1] / "logs"
OWN = "[[format]]\nname = 'mine'\ntitle = 'my own'\npattern = 'q=(?P<step>[0-9]+) r=(?P<loss>.+)'\n"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)


def test_the_list_names_all_of_them_ones_own_first(capsys: Capture) -> None:
    Path("trainmon.toml").write_text(OWN)
    assert main(["formats"]) == 0
    out = capsys.readouterr().out
    assert out.split() and out.startswith("mine") and "user" in out.splitlines()[0] and "my own" in out.splitlines()[0]
    for format_ in builtin():
        assert f"\n{format_.name} " in out
    assert main(["formats", "list", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == len(builtin()) + 1
    assert rows[0] == {"name": "mine", "title": "my own", "engine": "pattern", "origin": "user", "sample": None}
    assert all(row["sample"] and row["origin"] == "built-in" and row["title"] for row in rows[1:])


def test_what_is_made_of_a_file(capsys: Capture) -> None:
    lines = [f"2025-04-05 10:00:{n:02d} INFO step {n} loss: {3 - n / 50:.3f} lr: 1e-4" for n in range(50)]
    lines += [f"2025-04-05 10:01:{n:02d} INFO chatter {'x' * n}" for n in range(10)]
    lines += ["", "ERROR burst", "free prose without a number", "step 60 loss: 1.0 lr: 1e-4"]
    lines += ["iteration 20/ 1000 | elapsed time per iteration (ms): 12 | learning rate: x.y | lm loss: broken |"]
    Path("a.log").write_text("\n".join(lines) + "\n")
    assert main(["formats", "test", "a.log", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["lines"], found["blank"], found["first_step"], found["last_step"]) == (65, 1, 0, 60)
    by = {(each["format"], each["kind"]): each for each in found["formats"]}
    assert sum(each["lines"] for each in by.values() if each["kind"] == "metrics") == 51
    assert by["messages", "log"]["lines"] == 10
    first = next(each["first"] for each in by.values() if each["kind"] == "metrics")
    assert (first["line"], first["text"], first["fields"]["loss"]) == (1, lines[0], 3.0)
    assert found["noise"]["examples"][0]["text"] == "free prose without a number"
    assert found["quarantine"]["lines"] == 1 and found["quarantine"]["examples"][0]["line"] == 65
    total = sum(each["lines"] for each in by.values()) + found["noise"]["lines"] + 1 + found["blank"]
    assert total == 65
    assert main(["formats", "test", "a.log"]) == 0
    page = capsys.readouterr().out
    assert "a.log: 65 lines" in page and "steps 0 to 60" in page and "no number for" in page
    assert "free prose" in page and "loss=3.0" in page


def test_what_it_proposes_can_be_pasted_and_reads_the_lines(capsys: Capture) -> None:
    lines = [
        f"worker{n % 3} zork {n:4d} | blee={n * 1.5:.2f} | memo 12.{n % 7}GiB took {n % 9 + 1}.5 ms" for n in range(60)
    ]
    Path("odd.log").write_text("\n".join(["hello"] * 3 + lines) + "\n")
    assert main(["formats", "test", "odd.log"]) == 0
    page = capsys.readouterr().out
    at = page.index("[[format]]")
    Path("trainmon.toml").write_text(page[at:])
    assert main(["config", "check"]) == 0
    capsys.readouterr()
    assert main(["parse", "odd.log"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(found) == 60 and {each["format"] for each in found} == {"mytrainer"}
    assert found[7]["extra"]["blee"] == 10.5 and found[7]["extra"]["zork"] == 7


def test_proposals_name_what_is_known_and_take_units_along() -> None:
    lines = [f"it {n}/100 closs {2 - n / 50} lr 1e-{n % 7} mem 12.{n % 7}GiB dt {n}ms" for n in range(20)]
    (found,) = suggest(lines)
    assert dict(found.fields) == {
        "step": "0", "total_steps": "100", "loss": "2.0", "learning_rate": "1e-0", "gpu_memory_mb": "12.0",
        "step_time_s": "0",
    }  # fmt: skip
    format_, problems = build(tomllib.loads(found.toml())["format"][0])
    assert format_ is not None and problems == []
    assert dict(format_.units) == {"gpu_memory_mb": "gib", "step_time_s": "ms"}


def test_nothing_is_proposed_for_prose_and_for_numbers_without_names() -> None:
    assert suggest(["In 1815 the duke rode out.", "He was 46 then, and tired.", "Of 12 horses 3 came back."]) == []
    assert suggest(["1 2 3", "4 5 6", "7 8 9", "10 11 12"]) == []
    assert suggest(["config lr: 0.1"] * 10) == []  # what never changes is no measurement


@given(st.lists(st.text(alphabet="ab=:|(){}[]/\\'\"^$.*+? 0123456789-e%", max_size=60), max_size=8))
def test_whatever_is_proposed_is_valid(lines: list[str]) -> None:
    for each in suggest(lines * 4):
        (data,) = tomllib.loads(each.toml())["format"]
        format_, problems = build(data)
        assert format_ is not None, problems
        assert format_.patterns[0].search(each.example) is not None


def test_real_logs_need_no_proposal(capsys: Capture) -> None:
    for name in ("megatron_core_2025.log", "hf_trainer_v5_tqdm.log"):
        assert main(["formats", "test", str(LOGS / name), "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert any(each["kind"] == "metrics" for each in found["formats"])


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["formats", "test"], 2, "needs a FILE"),
        (["formats", "list", "a.log"], 2, "did you mean `trainmon formats test a.log`?"),
        (["formats", "a.log"], 2, "a.log"),
        (["formats", "test", "gone.log"], 3, "gone.log: no such file"),
    ],
)
def test_mistakes(arguments: list[str], code: int, words: str, capsys: Capture) -> None:
    assert main(arguments) == code
    err = capsys.readouterr().err
    assert words in err and err.count("\n") == 1


def test_binary_files_and_long_lines(capsys: Capture) -> None:
    Path("a.bin").write_bytes(b"\x7fELF" + bytes(range(256)) * 40)
    assert main(["formats", "test", "a.bin"]) == 3
    Path("long.log").write_bytes(b"x" * 3_000_000 + b"\nstep 3 loss: 2.0 lr: 1e-4\n")
    assert main(["formats", "test", "long.log"]) == 0
    assert "steps 3 to 3" in capsys.readouterr().out
