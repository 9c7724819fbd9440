"""Formats of one's own: from which files and packages they are taken, and what happens when one is bad."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from trainmon.errors import ConfigError
from trainmon.parsing.formats import builtin
from trainmon.parsing.parser import FileParser
from trainmon.settings import Settings, load
from trainmon.settings import plugins as plugins_module
from trainmon.settings.model import matches
from trainmon.settings.plugins import installed_formats, known_formats

FORMAT = "[[format]]\nname = \"{0}\"\npattern = '{1}'\n"
Q = r"q=(?P<step>\d+) r=(?P<loss>\S+)"


def both(tmp_path: Path, folder: str, own: str) -> Settings:
    home = tmp_path / "config" / "trainmon"
    home.mkdir(parents=True, exist_ok=True)
    (home / "config.toml").write_text(own)
    (tmp_path / "trainmon.toml").write_text(folder)
    return load(cwd=tmp_path, env={"XDG_CONFIG_HOME": str(tmp_path / "config")})


def test_a_folders_formats_come_first_and_replace_those_of_the_same_name(tmp_path: Path) -> None:
    folder = FORMAT.format("a", Q) + FORMAT.format("b", Q)
    own = FORMAT.format("c", Q) + FORMAT.format("b", r"own (?P<loss>\S+)")
    settings = both(tmp_path, folder, own)
    assert [each.name for each in settings.formats] == ["a", "b", "c"]
    assert settings.formats[1].patterns[0].source == Q


def test_each_problem_has_its_file_line_and_key(tmp_path: Path) -> None:
    path = tmp_path / "t.toml"
    path.write_text(
        "# a comment\n[[format]]\nname = 'a'\npattern = '(?P<loss>[z-a])'\n\n"
        "[screen]\nflash = true\n[[format]]\npattern = 'q=(?P<loss>.)'\nkinds = 'eval'\n"
        "[[format]]\nname = 'c'\nkeys = ['a']\n[format.units]\na = 'ms'\n"
        "[[format]]\nname = 'c'\nkeys = ['a']\n[[format]]\nname = 'c'\nkeys = ['a']\n"
    )
    with pytest.raises(ConfigError) as caught:
        load(path, env={})
    assert caught.value.problems == [
        f'{path}, line 4: pattern of format "a" does not compile: bad character range at position 14',
        f'{path}, line 10: kinds of format 2 is no key of a format; did you mean "kind"?',
        f"{path}, line 8: name of format 2 is missing",
        f'{path}, line 14: units of format "c" names "a", which is no field with a unit',
        f'{path}, line 19: format "c" stands there twice',
    ]


@pytest.mark.parametrize("text", ["format = 3", "[format]\nname = 'x'", "format = [1]"])
def test_what_is_no_list_of_formats(tmp_path: Path, text: str) -> None:
    path = tmp_path / "t.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"should be written \[\[format\]\]"):
        load(path, env={})


def test_plugins_are_switched_in_ones_own_file_only(tmp_path: Path) -> None:
    assert not both(tmp_path, "", "[parsing]\nplugins = false\n").plugins
    with pytest.raises(ConfigError, match=r"line 2: plugins in .parsing. is taken from your own file"):
        both(tmp_path, "[parsing]\nplugins = true\n", "[parsing]\nplugins = false\n")
    own = tmp_path / "named.toml"
    own.write_text("[parsing]\nplugins = false\n")
    assert not load(own, env={}).plugins


# ---------------------------------------------------------------- plug-ins


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that counts as a place of installed packages."""
    place = tmp_path / "site-packages"
    place.mkdir()
    monkeypatch.syspath_prepend(str(place))
    usual = plugins_module.sysconfig.get_path
    monkeypatch.setattr(
        plugins_module.sysconfig, "get_path", lambda name: str(place) if name == "purelib" else usual(name)
    )
    installed_formats.cache_clear()
    yield place
    installed_formats.cache_clear()


def install(place: Path, package: str, code: str, points: str) -> None:
    (place / f"{package}.py").write_text(code)
    info = place / f"{package}-1.5.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.5\n")
    (info / "entry_points.txt").write_text(f"[trainmon.formats]\n{points}\n")


def read(text: str, settings: Settings = Settings(), said: list[str] | None = None):  # noqa: B008
    said = [] if said is None else said
    parser = FileParser("x.log", formats=known_formats(settings, said.append))
    return [*parser.feed(text.encode(), 0), *parser.finish()]


def test_tables_texts_and_functions_of_an_installed_package(site: Path) -> None:
    code = (
        "TABLE = {'pattern': r'tt=(?P<step>\\d+) r=(?P<loss>\\S+)'}\n"
        'TEXT = \'\'\'[[format]]\nname = "second"\nkeys = ["kk"]\nnames = { kk = "loss" }\nkind = "metrics"\'\'\'\n'
        "def line(text):\n    '''Reads lines with a bang.'''\n    if text.startswith('!'):\n"
        "        return {'step': int(text[1:]), 'loss': '0.5', 'mine': 'x'}\n"
    )
    install(site, "tm_plug_a", code, "first = tm_plug_a:TABLE\nsecond = tm_plug_a:TEXT\nbang = tm_plug_a:line")
    found = {each.name: each for each in installed_formats()[0]}
    assert set(found) == {"first", "second", "bang"} and found["bang"].title == "Reads lines with a bang."
    assert found["bang"].origin == "plug-in bang"
    records = read('tt=4 r=2.5\n{"kk": 1.5}\n[rank2]: !7\nelse\n')
    assert [(r.format, r.values.get("step"), r.values["loss"]) for r in records] == [
        ("first", 4, 2.5), ("second", None, 1.5), ("bang", 7, 0.5),
    ]  # fmt: skip
    assert records[2].rank == 2 and records[2].extra == {"mine": "x"}


def test_one_that_fails_is_named_and_left_out_and_the_others_go_on(site: Path) -> None:
    install(site, "tm_plug_b", "raise RuntimeError('not today\\nmore')\n", "bad = tm_plug_b:X")
    install(site, "tm_plug_c", "raise SystemExit(3)\n", "quits = tm_plug_c:X")
    install(site, "tm_plug_d", "X = {'pattern': '('}\nY = 7\nZ = {'pattern': 'z=(?P<loss>.)'}\n",
            "x = tm_plug_d:X\ny = tm_plug_d:Y\nz = tm_plug_d:Z\ngone = tm_plug_d:GONE")  # fmt: skip
    said: list[str] = []
    names = [each.name for each in known_formats(Settings(), said.append)]
    assert names == ["z", *(each.name for each in builtin())]
    assert sorted(said) == [
        'plug-in "bad" of tm_plug_b 1.5 is left out: RuntimeError: not today',
        "plug-in \"gone\" of tm_plug_d 1.5 is left out: AttributeError: module 'tm_plug_d' has no attribute 'GONE'",
        'plug-in "quits" of tm_plug_c 1.5 is left out: it wanted to end the program',
        'plug-in "x" of tm_plug_d 1.5 is left out: pattern does not compile: missing ) at position 2',
        'plug-in "y" of tm_plug_d 1.5 is left out: it gives a int, which is no format',
    ]
    assert [each.name for each in known_formats(Settings(plugins=False))] == [each.name for each in builtin()]


def test_a_function_that_raises_on_a_line_is_left_out_from_then_on(site: Path) -> None:
    code = "def line(text):\n    if 'boom' in text: raise KeyError('boom')\n    if 'q' in text: return {'loss': 1.0, 'step': 1}\n"
    install(site, "tm_plug_e", code, "fragile = tm_plug_e:line")
    said: list[str] = []
    records = read("q\nboom\nq\nstep 3 loss: 2.0 lr: 1e-4\nboom\n", said=said)
    assert [record.format for record in records] == ["fragile", "generic"]
    assert said == ["plug-in \"fragile\" is left out from now on: KeyError: 'boom'"]


def test_metadata_in_the_working_folder_is_nobodys_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    install(folder, "tm_evil", "open('owned', 'w')\n", "evil = tm_evil:X")
    monkeypatch.chdir(folder)
    for entry in (str(folder), ""):
        monkeypatch.setattr(sys, "path", [entry, *sys.path])
        installed_formats.cache_clear()
        assert installed_formats() == ((), ())
    assert not (folder / "owned").exists()
    installed_formats.cache_clear()


def test_a_module_in_the_working_folder_does_not_stand_in_for_an_installed_one(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(site, "tm_plug_f", "X = {'pattern': 'good=(?P<loss>.)'}\n", "x = tm_plug_f:X")
    folder = tmp_path / "shared"
    folder.mkdir()
    (folder / "tm_plug_f.py").write_text("open('owned', 'w')\n")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", ["", str(folder), *sys.path])
    assert [each.name for each in installed_formats()[0]] == ["x"]
    assert not (folder / "owned").exists()


# ---------------------------------------------------------------- tags


@pytest.mark.parametrize(
    ("source", "pattern", "want"),
    [
        ("worker-3.log", "worker-*.log", True),
        ("/data/run/worker-3.log", "worker-*.log", True),
        ("/data/run-7/worker-3.log", "run-7/*.log", True),
        ("/data/run-7/deep/worker-3.log", "run-7/**/*.log", True),
        ("run-7/worker-3.log", "run-7/**/*.log", True),
        ("./a.log", "a.log", True),
        ("a.log", "./a.log", True),
        ("/data/run-7/a.log", "/data/*/a.log", True),
        ("/data/run-7/a.log", "/run-7/a.log", False),
        ("/data/run-8/worker-3.log", "run-7/*.log", False),
        ("xa.log", "a.log", False),
    ],
)
def test_for_which_sources_a_tag_is_meant(source: str, pattern: str, want: bool) -> None:
    assert matches(source, pattern) is want
    tags = Settings(tags={pattern: {"job_id": "1"}}).tags_for(source)
    assert tags == ({"job_id": "1"} if want else {})


def test_of_two_patterns_the_later_one_wins() -> None:
    settings = Settings(tags={"*.log": {"job_id": "1", "model_name": "m"}, "a*": {"job_id": "2"}})
    assert settings.tags_for("/x/a.log") == {"job_id": "2", "model_name": "m"}
