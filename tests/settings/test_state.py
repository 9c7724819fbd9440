"""The state folder: a home that cannot be written is no reason to stop."""

from __future__ import annotations

from pathlib import Path

from trainmon.settings.state import state_folder


def test_the_usual_folder_is_made(tmp_path: Path) -> None:
    assert state_folder({"XDG_STATE_HOME": str(tmp_path / "s")}) == (tmp_path / "s" / "trainmon", "")
    assert state_folder({"HOME": str(tmp_path)}) == (tmp_path / ".local" / "state" / "trainmon", "")


def test_a_relative_state_home_is_ignored_as_the_standard_says(tmp_path: Path) -> None:
    folder, _ = state_folder({"XDG_STATE_HOME": "here", "HOME": str(tmp_path)})
    assert folder == tmp_path / ".local" / "state" / "trainmon"


def test_an_unwritable_home_gives_a_folder_beside_the_temporary_files(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    folder, sentence = state_folder({"HOME": str(blocked)}, temporary=tmp_path)
    assert folder is not None and folder.parent == tmp_path
    assert folder.stat().st_mode & 0o077 == 0
    assert "cannot be written" in sentence and str(folder) in sentence


def test_no_home_at_all(tmp_path: Path) -> None:
    folder, sentence = state_folder({}, temporary=tmp_path)
    assert folder is not None and "HOME is not set" in sentence


def test_a_spare_folder_that_others_may_write_is_not_used(tmp_path: Path) -> None:
    folder, _ = state_folder({}, temporary=tmp_path)
    assert folder is not None
    folder.chmod(0o777)
    again, sentence = state_folder({}, temporary=tmp_path)
    assert again is None and "no state is kept" in sentence


def test_nothing_can_be_written(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert state_folder({"HOME": str(blocked)}, temporary=blocked)[0] is None
