"""The configuration: which file wins, and every problem named at once."""

from __future__ import annotations

import os
import re
from dataclasses import fields, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainmon.diagnosis.thresholds import Thresholds
from trainmon.errors import ConfigError
from trainmon.settings import Settings, load
from trainmon.settings.keys import KEYS, TABLES, seconds

DOCS = Path(__file__).parents[2] / "docs" / "configuration.md"


def problems(path: Path, text: str, env: dict[str, str] | None = None) -> list[str]:
    path.write_text(text, "utf-8")
    with pytest.raises(ConfigError) as caught:
        load(path, env=env or {})
    assert caught.value.exit_code == 2
    return caught.value.problems


def test_nothing_configured_gives_the_defaults(tmp_path: Path) -> None:
    assert load(cwd=tmp_path, env={"HOME": str(tmp_path)}) == Settings()


def test_folder_over_home_over_defaults_key_by_key(tmp_path: Path) -> None:
    home = tmp_path / "config" / "trainmon"
    home.mkdir(parents=True)
    (home / "config.toml").write_text('[screen]\ntheme = "light"\nflash = false\n[thresholds]\nstall_after = "20m"\n')
    (tmp_path / "trainmon.toml").write_text('[screen]\ntheme = "mono"\n')
    settings = load(cwd=tmp_path, env={"XDG_CONFIG_HOME": str(tmp_path / "config")})
    assert (settings.theme, settings.flash, settings.thresholds.stall_after_s) == ("mono", False, 1200.0)
    assert settings.thresholds.memory_fraction == Thresholds().memory_fraction
    assert settings.files == (tmp_path / "trainmon.toml", home / "config.toml")


def test_an_explicit_file_is_read_instead_and_variables_win(tmp_path: Path) -> None:
    (tmp_path / "trainmon.toml").write_text('[screen]\ntheme = "mono"\nbell = false\n')
    own = tmp_path / "own.toml"
    own.write_text('[screen]\ntheme = "light"\n[sources]\npoll = "250ms"\n')
    settings = load(own, cwd=tmp_path, env={"TRAINMON_THEME": "ansi16", "TRAINMON_STALL_AFTER": "off"})
    assert (settings.theme, settings.bell, settings.poll_s) == ("ansi16", True, 0.25)
    assert settings.thresholds.stall_after_s is None
    assert load(cwd=tmp_path, env={"TRAINMON_CONFIG": str(own)}).theme == "light"


def test_every_problem_is_named_with_its_line_and_the_nearest_name(tmp_path: Path) -> None:
    path = tmp_path / "trainmon.toml"
    text = '[thresholds]\nstal_after = "auto"\nmemory_fraction = 97\n\n[screen]\ntheme = "drak"\n[scren]\nx = 1\n'
    found = problems(path, text, {"TRAINMON_STALL_AFTR": "1m", "TRAINMON_POLL": "never"})
    assert found == [
        f'{path}, line 2: stal_after in [thresholds] is no known key; did you mean "stall_after"?',
        f"{path}, line 3: memory_fraction in [thresholds] should lie between 0.5 and 1",
        f'{path}, line 6: theme in [screen] should be one of auto, dark, light, ansi16, mono; did you mean "dark"?',
        f"{path}, line 7: [scren] is no known table; did you mean [screen]?",
        'TRAINMON_POLL: should be a duration such as "90s", "10m" or "1h30m"',
        "TRAINMON_STALL_AFTR: no known variable; did you mean TRAINMON_STALL_AFTER?",
    ]


def test_a_variable_that_is_near_to_none_of_ours_is_somebody_elses(tmp_path: Path) -> None:
    assert load(cwd=tmp_path, env={"TRAINMON_WANDB_PROJECT": "x"}) == Settings()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[thresholds\n", ", line 1: not valid TOML"),
        ("a = \n", ", line 1: not valid TOML"),
        ("[channels]\nops = 'x'\n", "[channels] is not read by this version"),
        ("stall_after = '1m'\n", "belongs in [thresholds]"),
        ("thresholds = 3\n", "should be a table"),
        ("[thresholds]\nstall_after = 'soon'\n", "should be a duration"),
        ("[thresholds]\nstall_after = 0\n", "more than no time"),
        ("[thresholds]\nmemory_fraction = 'auto'\n", "should be a number or false"),
        ("[thresholds]\nvolume_hang = 3\n", "volume_hang in [thresholds] should be true or false"),
        ("[screen]\nflash = 3\n", "should be true or false"),
        ("[sources]\npoll = '1ms'\n", "20ms"),
        ("[tags]\n'*.log' = 'x'\n", "should be a table such as"),
        ("[tags]\n'*.log' = { jobid = '1' }\n", 'did you mean "job_id"?'),
        ("[tags]\n'*.log' = { job_id = [1] }\n", "no text"),
    ],
)
def test_one_problem_in_words(tmp_path: Path, text: str, words: str) -> None:
    (found,) = problems(tmp_path / "t.toml", text)
    assert words in found
    assert found.startswith(str(tmp_path / "t.toml"))
    assert "\n" not in found


def test_files_that_cannot_be_read_are_a_sentence(tmp_path: Path) -> None:
    for path, words in ((tmp_path / "none.toml", "no such file"), (tmp_path, "is a folder")):
        with pytest.raises(ConfigError, match=words):
            load(path, env={})
    (tmp_path / "bad.toml").write_bytes(b"[screen]\n# \xff\n")
    with pytest.raises(ConfigError, match="line 2: not UTF-8"):
        load(tmp_path / "bad.toml", env={})


def test_false_switches_a_threshold_off_and_true_is_the_default(tmp_path: Path) -> None:
    path = tmp_path / "t.toml"
    names = [key.name for key in KEYS if key.table == "thresholds"]
    path.write_text("[thresholds]\n" + "".join(f"{name} = false\n" for name in names))
    off = load(path, env={}).thresholds
    assert all(getattr(off, each.name) is None for each in fields(Thresholds))
    path.write_text("[thresholds]\n" + "".join(f"{name} = true\n" for name in names))
    assert load(path, env={}).thresholds == Thresholds()


def test_tags_match_the_name_or_its_last_part_and_the_later_pattern_wins(tmp_path: Path) -> None:
    path = tmp_path / "t.toml"
    path.write_text('[tags]\n"worker-*.log" = { job_id = 7421, model_name = "a" }\n"logs/*" = { model_name = "b" }\n')
    settings = load(path, env={})
    assert settings.tags_for("logs/worker-1.log") == {"job_id": "7421", "model_name": "b"}
    assert settings.tags_for("worker-1.log") == {"job_id": "7421", "model_name": "a"}
    assert settings.tags_for("other.log") == {}


@given(st.integers(0, 99), st.integers(0, 59), st.integers(1, 59))
def test_durations_add_up(hours: int, minutes: int, rest: int) -> None:
    total = hours * 3600 + minutes * 60 + rest
    assert seconds(f"{hours}h{minutes}m {rest}s") == total
    assert seconds(total) == seconds(f"{total}s") == seconds(f"{total * 1000}ms")


@given(st.text(max_size=12) | st.none() | st.booleans() | st.lists(st.integers(), max_size=2))
def test_whatever_is_no_duration_is_a_value_error(value: object) -> None:
    try:
        assert seconds(value) > 0
    except ValueError as error:
        assert "should be" in str(error)


@given(st.text(max_size=200))
def test_no_text_of_a_file_breaks_the_loader(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.getbasetemp() / "any.toml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        load(path, env={})
    except ConfigError as error:
        assert all(problem and "\n" not in problem for problem in error.problems)


def test_every_key_and_its_default_is_documented() -> None:
    text = DOCS.read_text("utf-8")
    for key in KEYS:
        assert f"`{key.name}`" in text, key.name
    block = re.search(r"```toml\n(# every key.*?)```", text, re.S)
    assert block, "the page shows the whole configuration with its defaults"
    for key in KEYS:
        assert re.search(rf"^{key.name} = ", block[1], re.M), key.name
    for table in TABLES:
        assert f"[{table}]" in block[1]


def test_the_documented_defaults_are_the_defaults(tmp_path: Path) -> None:
    block = re.search(r"```toml\n(# every key.*?)```", DOCS.read_text("utf-8"), re.S)
    assert block
    path = tmp_path / "t.toml"
    path.write_text(block[1], "utf-8")
    settings = load(path, env={})
    assert settings.thresholds == Thresholds()
    assert (settings.theme, settings.flash, settings.bell, settings.ascii, settings.poll_s) == (
        "auto", True, True, None, 0.1,
    )  # fmt: skip


def test_what_is_no_file_makes_nobody_wait(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "trainmon.toml")
    with pytest.raises(ConfigError, match="a pipe"):
        load(cwd=tmp_path, env={})
    (tmp_path / "trainmon.toml").unlink()
    (tmp_path / "trainmon.toml").symlink_to("/dev/zero")
    with pytest.raises(ConfigError, match="a device"):
        load(cwd=tmp_path, env={})
    with pytest.raises(ConfigError, match="longer than 1 MiB"):
        load(Path("/dev/zero"), env={})
    (tmp_path / "trainmon.toml").unlink()
    (tmp_path / "trainmon.toml").mkdir()
    with pytest.raises(ConfigError, match="a folder"):
        load(cwd=tmp_path, env={})
    assert load(Path("/dev/null"), env={}) == replace(Settings(), files=(Path("/dev/null"),))


def test_thousands_of_problems_are_not_listed(tmp_path: Path) -> None:
    found = problems(tmp_path / "c.toml", "[thresholds]\n" + "".join(f"zzz{i} = 1\n" for i in range(5000)))
    assert len(found) == 21 and "4,980 more" in found[-1]
