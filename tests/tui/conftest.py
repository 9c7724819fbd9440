"""A session that stands still, for the screen's tests."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from trainmon.clock import ManualClock
from trainmon.snapshot import SECTIONS, Snapshot


def _load(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def story() -> ModuleType:
    """The snapshots of one run: healthy, alert, failed, empty."""
    return _load("tui_tests_story", Path(__file__).parents[1] / "story.py")


class StillSession:
    """Shows what it is given, remembers what it is told."""

    def __init__(self, snapshot: Snapshot, now: float, files: dict[int, Path] | None = None) -> None:
        self.snapshot = snapshot
        self.clock = ManualClock(now)
        self.said: list[tuple[str, Any]] = []
        self.files = files or {}
        self._callbacks: list[Callable[[], None]] = []

    def start(self) -> None:
        self.said.append(("start", None))

    def stop(self) -> None:
        self.said.append(("stop", None))

    def subscribe(self, callback: Callable[[], None]) -> None:
        self._callbacks.append(callback)

    def put(self, snapshot: Snapshot) -> None:
        """A new picture, as the engine would give it: versions rise where a section is another one."""
        old = self.snapshot
        versions = {
            name: old.versions.get(name, 1) + (getattr(snapshot, name) != getattr(old, name)) for name in SECTIONS
        }
        if snapshot.calm != old.calm:
            versions["alerts"] += 1
        self.snapshot = replace(snapshot, version=old.version + 1, versions=versions)
        for callback in self._callbacks:
            callback()

    def acknowledge(self, alert: str) -> None:
        self.said.append(("acknowledge", alert))

    def mute(self, alert: str) -> None:
        self.said.append(("mute", alert))

    def unmute(self, alert: str) -> None:
        self.said.append(("unmute", alert))

    def select_node(self, name: str | None) -> None:
        self.said.append(("node", name))

    def select_gpu(self, key: str | None) -> None:
        self.said.append(("gpu", key))

    def release_gpus(self) -> None:
        self.said.append(("release", None))

    def resume_gpus(self) -> None:
        self.said.append(("resume", None))

    def open_log(self, source: int) -> Any:
        from trainmon.errors import SourceError
        from trainmon.sources.rawfile import RawLog

        if source not in self.files:
            raise SourceError(f"there is no source {source}")
        return RawLog(str(self.files[source]))


@pytest.fixture
def still(story: ModuleType) -> Callable[..., StillSession]:
    """Makes a session that shows one of the story's pictures."""

    def make(phase: str = "alert", files: dict[int, Path] | None = None) -> StillSession:
        return StillSession(getattr(story, phase)(), story.NOW[phase], files)

    return make


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies and reports go to the test's folder."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TEXTUAL_ANIMATIONS", "none")
