"""The recipe for a new format, walked as CONTRIBUTING and docs/formats.md tell it."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from trainmon.cli import main
from trainmon.parsing import formats
from trainmon.parsing.custom import build
from trainmon.settings.plugins import _Careful, _format_of

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "formats.md").read_text("utf-8")
Capture = pytest.CaptureFixture[str]


def block(heading: str, language: str, place: int = 0) -> str:
    section = PAGE.split(f"## {heading}")[1].split("\n## ")[0]
    return re.findall(rf"```{language}\n(.*?)```", section, re.S)[place]


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the folder of formats, in which trainmon looks, and a folder to work in."""
    shutil.copytree(ROOT / "trainmon" / "parsing" / "formats", tmp_path / "parsing" / "formats")
    monkeypatch.setattr(formats.resources, "files", lambda _package: tmp_path / "parsing")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    formats.builtin.cache_clear()
    yield tmp_path / "parsing" / "formats"
    formats.builtin.cache_clear()


def test_one_toml_file_and_nothing_else(house: Path, capsys: Capture) -> None:
    text = block("A format for everybody, as a TOML file", "toml")
    lines = [f"zork {n} | cost={3 - n / 10:.2f} | took=1.5" for n in range(3)]
    Path("train.log").write_text("\n".join(lines) + "\n")
    main(["parse", "train.log"])
    before = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert not any(record.get("format") == "zork" for record in before)

    (house / "zork.toml").write_text(text)
    formats.builtin.cache_clear()
    assert main(["formats"]) == 0
    assert "zork" in capsys.readouterr().out
    assert main(["parse", "train.log"]) == 0
    after = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(record["format"], record["step"], record["loss"], record["step_time_s"]) for record in after] == [
        ("zork", 0, 3.0, 0.0015), ("zork", 1, 2.9, 0.0015), ("zork", 2, 2.8, 0.0015),
    ]  # fmt: skip
    # the samples of every file are tests (test_format_files.py); the page's is one, too
    made = next(each for each in formats.builtin() if each.name == "zork")
    Path("sample.log").write_text(made.samples[0]["line"] + "\n")
    assert main(["parse", "sample.log"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert made.samples[0]["gives"].items() <= record.items()


def test_the_format_in_the_configuration_is_the_pages(house: Path, capsys: Capture) -> None:
    Path("trainmon.toml").write_text(block("A format of one's own, in the configuration", "toml"))
    assert main(["config", "check"]) == 0
    Path("odd.log").write_text("zork 7 | cost=2.50 | took 1.5 ms\n")
    capsys.readouterr()
    assert main(["parse", "odd.log"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["format"], record["step"], record["loss"], record["step_time_s"]) == ("mytrainer", 7, 2.5, 0.0015)


def test_the_page_shows_what_formats_test_prints(house: Path, capsys: Capture) -> None:
    Path("odd.log").write_text("".join(f"zork {n} | cost={2.5 + n:.2f} | took {n + 1}.5 ms\n" for n in range(60)))
    assert main(["formats", "test", "odd.log"]) == 0
    page = capsys.readouterr().out
    shown = block("A format of one's own, in the configuration", "console").split("...\n")[1]
    for line in shown.strip().splitlines():
        assert line in page.splitlines(), line


def test_the_package_of_the_page_gives_formats() -> None:
    space: dict = {}
    exec(block("A format from a package", "python"), space)
    table, problems = build({"name": "zork", **space["ZORK"]})
    assert table is not None and problems == []
    reader, problems = _format_of(space["zork"], "zork")
    assert reader is not None and isinstance(reader.read, _Careful) and reader.needs == ("zork!",)
    assert reader.title == "Zork's other lines." and reader.read("zork!3 2.5") == {"step": "3", "loss": "2.5"}


def test_every_format_has_its_row() -> None:
    table = PAGE.split("## What comes with trainmon")[1].split("\n## ")[0]
    for format_ in formats.builtin():
        assert f"| `{format_.name}` |" in table, format_.name


def test_every_key_of_a_format_is_documented() -> None:
    from trainmon.parsing.custom import KEYS

    text = (ROOT / "docs" / "configuration.md").read_text("utf-8").split("## `[[format]]`")[1].split("\n## ")[0]
    for key in KEYS:
        assert f"| `{key}` |" in text, key


def test_the_template_of_config_init_and_the_page_of_the_configuration_agree() -> None:
    page = re.search(r"```toml\n(# every key.*?)```", (ROOT / "docs" / "configuration.md").read_text("utf-8"), re.S)
    assert page
    documented = tomllib.loads(page[1])
    written = tomllib.loads((ROOT / "trainmon" / "settings" / "template.toml").read_text("utf-8"))
    for table, values in written.items():
        if table != "tags":
            assert documented[table] == values, table
