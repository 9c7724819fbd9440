"""Formats and tags of one's own reach the live session, too."""

from __future__ import annotations

from pathlib import Path

from trainmon.catalogue import load as load_catalogue
from trainmon.clock import ManualClock
from trainmon.model import CaughtUp, Data, Opened
from trainmon.session.engine import Engine
from trainmon.session.session import Session
from trainmon.settings import Settings, load

START = 1_764_500_000.0
FORMAT = "[[format]]\nname = 'mine'\npattern = 'qq (?P<step>[0-9]+)/(?P<total_steps>[0-9]+) cost (?P<loss>.+)'\n"
EVIL = "[[format]]\nname = 'evil'\npattern = 'x(?P<loss>(a|aa)+)$'\n"


def settings_of(tmp_path: Path, text: str) -> Settings:
    path = tmp_path / "t.toml"
    path.write_text(text)
    return load(path, env={})


def test_a_format_of_ones_own_is_followed_live(tmp_path: Path) -> None:
    tags = "[tags]\n'logs/*' = { model_name = 'tiny' }\n"
    session = Session(["a.log"], settings_of(tmp_path, FORMAT + tags), clock=ManualClock(START))
    data = b"".join(b"qq %d/50 cost %.2f\n" % (n, 3 - n / 50) for n in range(1, 20))
    shot = session.pump(
        [
            Opened(1, "a.log", "/logs/a.log", len(data), START - 1),
            Data(1, 0, 0, data, len(data), START - 1),
            CaughtUp(1, 0),
        ]
    )
    assert (shot.run.step, shot.run.total_steps) == (19, 50)
    assert next(chart.value for chart in shot.charts if chart.key == "loss") == 2.62


def test_a_pattern_that_is_switched_off_is_an_event(tmp_path: Path) -> None:
    engine = Engine(settings_of(tmp_path, EVIL), ManualClock(START), load_catalogue())
    data = (b"x" + b"a" * 300 + b"!\n") * 12
    engine.handle(Opened(1, "a.log", "a.log", 0, START - 1, joined=True))
    engine.handle(Data(1, 0, 0, data, len(data), START))
    (event,) = [view for view in engine.front.events.views() if view.name == "format"]
    assert event.text.startswith('format "evil" is switched off') and event.health == "warning"
