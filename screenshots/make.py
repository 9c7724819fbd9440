"""Draw every picture of the README and of `compare.md` from the real app on the demo's recording.

    python screenshots/make.py [NAME...]      all of them, or those whose name contains NAME

Writes NAME.png with `rsvg-convert` (librsvg2-bin) and the font Fira Code (fonts-firacode), or NAME.svg with `--svg`.
No hand-made pictures: what is wrong in one is wrong in the program.
"""

from __future__ import annotations

import asyncio
import html
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.cells import cell_len

sys.path.insert(0, str(Path(__file__).parent))
from recording import Recording

from trainmon.clock import ManualClock
from trainmon.model import Opened, SourceState
from trainmon.session.session import Session
from trainmon.settings import Settings
from trainmon.tui.app import TrainmonApp

HERE = Path(__file__).parent
PAPER = {"light": "#fdfdfb", "ansi16": "#000000"}
"""The terminal's own background, which the program never paints; the picture has to assume one."""


@dataclass(frozen=True)
class Shot:
    """One picture.

    Attributes:
        name: File name, the number of its comp in front where there is one.
        moment: "healthy", "alert", "failed" or "empty".
        size: Columns and rows. keys: Pressed before the picture is taken.
    """

    name: str
    moment: str
    size: tuple[int, int]
    keys: Sequence[str] = ()
    palette: str = "dark"
    ascii: bool = False


SHOTS = (
    Shot("01-overview-healthy", "healthy", (160, 45)),
    Shot("02-overview-alert", "alert", (160, 45)),
    Shot("03-overview-failed", "failed", (160, 45), ("tab", "tab", "tab", "tab", "tab")),
    Shot("04-overview-alert-light", "alert", (160, 45), palette="light"),
    Shot("05-overview-failed-16-colours", "failed", (160, 45), palette="ansi16"),
    Shot("06-overview-alert-monochrome", "alert", (160, 45), palette="mono"),
    Shot("07-overview-80x24", "alert", (80, 24)),
    Shot("08-overview-40x12", "alert", (40, 12)),
    Shot("09-overview-30x8", "alert", (30, 8)),
    Shot("10-overview-100x30", "alert", (100, 30)),
    Shot("11-why", "failed", (160, 45), ("enter",)),
    Shot("12-chart", "alert", (160, 45), ("2",)),
    Shot("13-log", "failed", (160, 45), ("enter", "enter")),
    Shot("16-empty", "empty", (100, 30)),
    Shot("17-help", "alert", (100, 32), ("?",)),
)


def session_at(moment: str, folder: Path) -> Session:
    """A session whose clock stands at one moment of the recording."""
    if moment == "empty":
        clock = ManualClock()
        session = Session([], Settings(), clock=clock)
        session.pump(
            [
                SourceState("logs/worker-*.log", None, "no file yet", "joins as soon as one matches"),
                Opened(0, "logs/launcher.log", "/logs/launcher.log", 0, clock.now() - 38),
                SourceState("logs/launcher.log", 0, "empty", "0 B, made 38 s ago; followed"),
                SourceState("/mnt/old/train.log", None, "not readable", "permission denied: chmod g+r it", True),
            ]
        )
        clock.advance(42)
        session.pump()
        return session
    recording = Recording(folder)
    until = {"healthy": recording.step_time(842), "alert": recording.step_time(1150), "failed": recording.end}[moment]
    return recording.play(until + 0.5, silence=20 if moment == "failed" else 0)


async def draw(shot: Shot, session: Session) -> str:
    """The SVG of one picture."""
    session.start = lambda: None  # type: ignore[method-assign]  # it has been played already
    app = TrainmonApp(session, palette=shot.palette, ascii=shot.ascii, flash=False)
    async with app.run_test(size=shot.size) as pilot:
        await pilot.pause(0.2)
        for key in shot.keys:
            await pilot.press(key)
            await pilot.pause(0.2)
        svg = app.export_screenshot(title=f"trainmon tail worker-*.log · {shot.size[0]}×{shot.size[1]}")
    return on_grid(svg.replace("#292929", PAPER.get(shot.palette, "#0e1116")))


def on_grid(svg: str) -> str:
    """Place each character on its own cell: renderers ignore `textLength`, and long runs drift off the grid."""

    def split(run: re.Match[str]) -> str:
        attributes, text = run[1], html.unescape(run[2])
        x = re.search(r' x="([\d.]+)"', attributes)
        length = re.search(r'textLength="([\d.]+)"', attributes)
        if x is None or length is None or not text:
            return run[0]
        step = float(length[1]) / max(1, cell_len(text))
        rest = re.sub(r' (x|textLength)="[\d.]+"', "", attributes)
        out, at = [], float(x[1])
        for character in text:
            if not character.isspace():
                out.append(f'<text{rest} x="{at:.1f}">{html.escape(character, quote=False)}</text>')
            at += step * cell_len(character)
        return "".join(out)

    return re.sub(r"<text([^>]*textLength[^>]*)>([^<]*)</text>", split, svg)


def main(arguments: Sequence[str]) -> int:
    names = [a for a in arguments if a != "--svg"]
    chosen = [s for s in SHOTS if not names or any(n in s.name for n in names)]
    convert = None if "--svg" in arguments else shutil.which("rsvg-convert")
    if convert is None and "--svg" not in arguments:
        print(
            "rsvg-convert is not installed (Debian: librsvg2-bin fonts-firacode); --svg does without", file=sys.stderr
        )
        return 1
    for moment in dict.fromkeys(s.moment for s in chosen):
        for shot in (s for s in chosen if s.moment == moment):
            with tempfile.TemporaryDirectory() as folder:
                svg = asyncio.run(draw(shot, session_at(moment, Path(folder))))
            target = HERE / f"{shot.name}.{'png' if convert else 'svg'}"
            if convert:
                subprocess.run([convert, "-z", "0.7", "-o", str(target)], input=svg.encode(), check=True)
            else:
                target.write_text(svg, "utf-8")
            print(target.name)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
