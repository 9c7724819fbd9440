"""What pyproject.toml tells setuptools is what stands in the folders."""

from __future__ import annotations

import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import trainmon

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
SETUPTOOLS = PROJECT["tool"]["setuptools"]


def folders() -> dict[str, Path]:
    """Every package by name; the two links inside trainmon/ are counted under their own folders."""
    found = {}
    for package, folder in SETUPTOOLS["package-dir"].items():
        for init in (ROOT / folder).rglob("__init__.py"):
            parts = init.parent.relative_to(ROOT / folder).parts
            if package == "trainmon" and parts[:1] in {("tui",), ("widgets",)}:
                continue
            found[".".join((package, *parts))] = init.parent
    return found


def test_every_package_is_listed_and_every_listed_one_exists() -> None:
    assert sorted(folders()) == SETUPTOOLS["packages"]


def test_every_folder_with_code_is_a_package() -> None:
    known = {folder.resolve() for folder in folders().values()}
    for name in ("trainmon", "tui", "widgets"):
        for file in (ROOT / name).rglob("*.py"):
            assert file.parent.resolve() in known, f"{file.parent} has no __init__.py"


def test_every_data_file_goes_into_the_wheel() -> None:
    known = folders()
    inner = {folder.resolve() for folder in known.values()}
    for package, folder in known.items():
        patterns = SETUPTOOLS["package-data"].get(package, [])
        for file in folder.rglob("*"):
            own = not any(parent.resolve() in inner for parent in file.parents if folder in parent.parents)
            if own and file.is_file() and file.suffix not in {".py", ".pyc"}:
                name = str(file.relative_to(folder))
                assert any(fnmatch(name, pattern) for pattern in patterns), f"{package}: {name}"


def test_the_links_lead_to_the_root_folders() -> None:
    for name in ("tui", "widgets"):
        link = ROOT / "trainmon" / name
        assert link.is_symlink() and link.readlink() == Path("..", name)


def test_every_dependency_says_why_it_is_there() -> None:
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    block = re.search(r"^dependencies = \[\n(.*?)^\]", text, re.S | re.M)
    assert block
    for line in block[1].splitlines():
        assert re.search(r'",\s+# \w', line), line


def test_what_is_imported_is_what_is_declared() -> None:
    """An import of a package that is not declared works here and fails in a clean environment."""
    import sys

    modules = {"nvidia-ml-py": "pynvml"}
    extras = PROJECT["project"]["optional-dependencies"]
    needs = [
        *PROJECT["project"]["dependencies"],
        *extras["parquet"],
        *extras["zstd"],
    ]  # an extra is imported where its absence is told
    names = [re.split(r"[<>=~!]", need)[0] for need in needs]
    declared = {modules.get(name, name) for name in names} | {"rich"}  # rich is Textual's own
    for folder in folders().values():
        for file in folder.glob("*.py"):
            for name in re.findall(r"^\s*(?:from|import) (\w+)", file.read_text("utf-8"), re.M):
                if name in {"trainmon", "__future__"} or name in sys.stdlib_module_names:
                    continue
                assert name in declared, f"{file.relative_to(ROOT)} imports {name}"


def test_the_version_is_that_of_the_changelog() -> None:
    newest = re.search(r"^## (\d+\.\d+\.\d+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.M)
    assert newest and newest[1] == trainmon.__version__


def test_the_readme_gives_the_two_commands() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    first_screen = "\n".join(text.splitlines()[:60])
    assert "python3 -m venv .venv && .venv/bin/pip install . && .venv/bin/trainmon demo" in first_screen
    assert "python3 -m venv .venv && .venv/bin/pip install -e '.[test]' && .venv/bin/python -m pytest" in first_screen
