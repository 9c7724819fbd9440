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
from datetime import UTC, datetime
from pathlib import Path
from random import Random

from rich.cells import cell_len

sys.path.insert(0, str(Path(__file__).parent))
from machines import Instrumented, every_state
from recording import START, Recording

from trainmon.clock import ManualClock
from trainmon.model import CaughtUp, Data, Opened, SourceEvent, SourceState
from trainmon.session.session import Session
from trainmon.settings import Settings
from trainmon.tui.app import TrainmonApp

HERE = Path(__file__).parent
LOGS = HERE.parent / "tests" / "logs"
PAPER = {"light": "#fdfdfb", "ansi16": "#000000"}
"""The terminal's own background, which the program never paints; the picture has to assume one."""


@dataclass(frozen=True)
class Shot:
    """One picture.

    Attributes:
        name: File name, the number of its comp in front where there is one.
        moment: "healthy", "alert", "failed", "empty", "starting", the name of a file in tests/logs, "N nodes",
            "instruments" (the alert with all machines' instruments), "one node" (of it), or "states" (of GPUs).
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
    Shot("20-why-alert-light", "alert", (160, 45), ("enter",), palette="light"),
    Shot("21-overview-200x60", "alert", (200, 60)),
    Shot("22-256-nodes", "256 nodes", (200, 60)),
    Shot("23-64-nodes", "64 nodes", (160, 45)),
    Shot("24-starting", "starting", (120, 35)),
    Shot("25-trainer-one-gpu", "hf_trainer_v5_tqdm.log", (120, 35)),
    Shot("26-ascii", "alert", (120, 35), palette="mono", ascii=True),
    Shot("27-overview-60x20", "alert", (60, 20)),
    Shot("28-palette", "failed", (120, 35), (":", "m")),
    Shot("29-log-search", "failed", (120, 35), ("6", "/", "A", "L", "L")),
    Shot("14-gpu", "instruments", (160, 45), ("3", "enter")),
    Shot("30-gpus-of-all-nodes", "instruments", (160, 45), ("3",)),
    Shot("31-gpu-80x24", "instruments", (80, 24), ("3", "enter")),
    Shot("32-gpu-light", "instruments", (160, 45), ("3", "enter"), palette="light"),
    Shot("33-overview-instruments", "instruments", (200, 60)),
    Shot("34-states-of-gpus", "states", (120, 24), ("3",)),
    Shot("35-one-gpu-machine", "one node", (160, 45)),
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
    if moment == "states":
        return every_state()
    if moment in ("instruments", "one node"):
        told = Instrumented(folder, only_here=moment == "one node")
        return told.play(told.step_time(1150) + 0.5)
    if moment == "starting":
        lines = ["loading tokenizer", "loading model weights: 12 of 29 shards", "compiling the step function"]
        return session_of([("train.log", "".join(f"[rank0] {line}\n" for line in lines).encode())], folder)
    if moment.endswith(" nodes"):
        return session_of(many_nodes(int(moment.split()[0])), folder)
    if moment.endswith(".log"):
        return session_of([(moment, (LOGS / moment).read_bytes())], folder)
    recording = Recording(folder)
    until = {"healthy": recording.step_time(842), "alert": recording.step_time(1150), "failed": recording.end}[moment]
    return recording.play(until + 0.5, silence=20 if moment == "failed" else 0)


def session_of(files: Sequence[tuple[str, bytes]], folder: Path) -> Session:
    """A session that is fed whole files, as if they had been written just now, a hundred lines a second."""
    clock = ManualClock(START)
    session = Session([str(folder / "*.log")], Settings(), clock=clock)
    for n, (name, _) in enumerate(files):
        (folder / name).write_bytes(b"")
        session.pump([Opened(n, name, str(folder / name), 0, clock.now()), CaughtUp(n, 0)])
    parts = [data.splitlines(keepends=True) for _, data in files]
    sizes = [0] * len(files)
    for first in range(0, max(map(len, parts)), 5):
        clock.advance(3.0)
        events: list[SourceEvent] = []
        for n, (name, _) in enumerate(files):
            data = b"".join(parts[n][first : first + 5])
            if not data:
                continue
            with (folder / name).open("ab") as file:
                file.write(data)
            offset, sizes[n] = sizes[n], sizes[n] + len(data)
            events.append(Data(n, 0, offset, data, sizes[n], clock.now()))
        session.pump(events)
    return session


def many_nodes(count: int) -> list[tuple[str, bytes]]:
    """Short logs of a large run: one node slow, one silent, one with an error."""
    files = []
    for node in range(count):
        chance = Random(node)
        lines = []
        for step in range(1, 61):
            own = 2.6 + chance.uniform(-0.03, 0.03) + (0.5 if node == count // 3 and step > 20 else 0.0)
            wait = (3.15 if step > 20 else 2.65) - own
            at = datetime.fromtimestamp(START + step * 3, UTC)
            if node == count // 2 and step > 25:
                break
            lines.append(
                f"{at:%Y-%m-%dT%H:%M:%S}.000Z INFO step={step} total_steps=5000 loss={7 * 0.98**step + 2:.4f} "
                f"lr=4.0e-05 grad_norm={chance.uniform(1.1, 1.5):.3f} tokens_per_second={524288 / (own + wait):.0f} "
                f"step_time_s={own + wait:.3f} compute_time_s={own:.3f} comm_time_s={wait:.3f}"
                "\n"
            )
            if step % 20 == 0:
                lines += (
                    f"{at:%Y-%m-%dT%H:%M:%S}.000Z INFO step={step} rank={node * 8 + gpu} gpu={gpu} gpu_utilization=97 "
                    f"gpu_memory_mb={chance.randint(66000, 68000)} gpu_memory_total_mb=81920 gpu_temperature_c=64\n"
                    for gpu in range(8)
                )
            if node == 7 and step == 50:
                lines.append(f"{at:%Y-%m-%dT%H:%M:%S}.000Z WARN NVLink error on link 3, retrying\n")
        files.append((f"worker-{node}.log", "".join(lines).encode()))
    return files


async def draw(shot: Shot, session: Session) -> str:
    """The SVG of one picture."""
    session.start = lambda: None  # type: ignore[method-assign]  # it has been played already
    app = TrainmonApp(session, palette=shot.palette, ascii=shot.ascii, flash=False)
    async with app.run_test(size=shot.size) as pilot:
        await pilot.pause(0.2)
        for key in shot.keys:
            await pilot.press(key)
            session.pump()  # what the key asked of the session: a GPU's page
            await pilot.pause(0.3)
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
                if small := shutil.which("pngquant"):
                    quantised = [
                        small,
                        "--quality",
                        "60-90",
                        "--strip",
                        "--force",
                        "--output",
                        str(target),
                        str(target),
                    ]
                    subprocess.run(quantised, check=False)
            else:
                target.write_text(svg, "utf-8")
            print(target.name)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
