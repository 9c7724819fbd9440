"""What a demo leaves that was killed goes with the next one; what another demo uses stays."""

from __future__ import annotations

import os
import time
from pathlib import Path

from trainmon.commands.demo import PREFIX, _hold, _put_away_orphans


def old(folder: Path) -> Path:
    folder.mkdir()
    (folder / "worker-0.log").write_text("x")
    for path in (folder / "worker-0.log", folder):
        os.utime(path, (time.time() - 3600,) * 2)
    return folder


def test_orphans_go_and_nothing_else(tmp_path: Path) -> None:
    orphan, used, other = old(tmp_path / f"{PREFIX}a"), old(tmp_path / f"{PREFIX}b"), old(tmp_path / "mine")
    young = tmp_path / f"{PREFIX}c"
    young.mkdir()
    written = old(tmp_path / f"{PREFIX}e")
    (written / "worker-0.log").write_text("y")
    os.utime(written, (time.time() - 3600,) * 2)
    link = tmp_path / f"{PREFIX}d"
    link.symlink_to(other)
    os.utime(link, (0, 0), follow_symlinks=False)
    held = _hold(used)
    try:
        _put_away_orphans(tmp_path)
        assert (
            not orphan.exists()
            and used.exists()
            and young.exists()
            and written.exists()
            and (other / "worker-0.log").exists()
        )
    finally:
        os.close(held)
    _put_away_orphans(tmp_path)
    assert not used.exists() and link.is_symlink()


def test_a_place_that_cannot_be_looked_into_is_no_trouble(tmp_path: Path) -> None:
    _put_away_orphans(tmp_path / "none")
