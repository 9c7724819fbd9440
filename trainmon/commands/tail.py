"""`trainmon tail`: sources, settings and the right form of output, joined."""

from __future__ import annotations

import argparse
import io
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from trainmon.commands.say import complain
from trainmon.errors import SourceError, TerminalError, UsageError
from trainmon.patience import within

if TYPE_CHECKING:
    from trainmon.samples import Sample
    from trainmon.session.session import Session, StationFactory, StationLike
    from trainmon.settings import Settings

_NAP_S = 1.0
_REST_S = 3.0
DISCOVER_S = 10.0
"""So long a look around the current folder may take, in seconds."""


def run(options: argparse.Namespace) -> int:
    """Follow the sources that were named.

    Raises:
        UsageError: None was named.
    """
    if not options.sources:
        raise UsageError(
            "tail needs a SOURCE: a file, a 'pattern', a folder or -; plain `trainmon` looks for logs in this folder"
        )
    return _guarded(options, options.sources, lambda: follow(options.sources, options, settings_of(options)))


def _guarded(options: argparse.Namespace, specs: list[str], work: Callable[[], int]) -> int:
    """Do it where a file system that hangs cannot keep the prompt from coming back."""
    from trainmon.commands.shield import may_stick, shielded

    homes = [os.environ.get(name, "") for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME")]
    paths = [os.path.expanduser(spec) for spec in (*specs, *homes, options.config or "", ".") if spec not in ("", "-")]
    return shielded(work) if may_stick(paths) else work()


def discover(options: argparse.Namespace) -> int:
    """Follow what looks like training logs in the current folder, and say what was chosen.

    Raises:
        SourceError: Nothing does.
    """
    from trainmon.sources.discover import discover as look

    try:
        found = within(DISCOVER_S, look)
    except TimeoutError:
        raise SourceError(
            "this folder does not answer (a network file system that is down?); name the files to follow"
        ) from None
    if not found.specs:
        raise SourceError(found.sentence)
    complain(found.sentence)
    return _guarded(options, found.specs, lambda: follow(found.specs, options, settings_of(options)))


def settings_of(options: argparse.Namespace) -> Settings:
    """Return the settings with the options over them.

    Raises:
        ConfigError: The configuration is wrong.
        UsageError: An option's value is.
    """
    from trainmon.settings import load
    from trainmon.settings.keys import KEYS

    settings = load(Path(options.config) if options.config else None)
    for path in settings.unread:
        complain(f"{path} does not answer (a network file system that is down?): going on without it")
    if settings.plugins:
        from trainmon.settings.plugins import installed_formats

        for problem in installed_formats()[1]:
            complain(problem)
    changes: dict[str, Any] = {}
    if options.theme:
        changes["theme"] = options.theme
    if options.ascii:
        changes["ascii"] = True
    if options.no_flash:
        changes["flash"] = False
    for name in ("gpu", "host"):
        if getattr(options, f"no_{name}", False):
            changes[name] = False
    if options.poll:
        convert = next(key.convert for key in KEYS if key.name == "poll")
        try:
            changes["poll_s"] = convert(options.poll)
        except ValueError as error:
            raise UsageError(f"--poll {options.poll}: {error}") from None
    return replace(settings, **changes)


def follow(
    specs: list[str],
    options: argparse.Namespace,
    settings: Settings,
    *,
    demo: bool = False,
    over: Callable[[], bool] | None = None,
) -> int:
    """Follow sources on a screen, or as plain lines where no screen can be.

    Args:
        over: Says when plain output has nothing more to come (the demo's writer is done).

    Returns:
        The exit code.
    """
    from trainmon.session.session import Session

    separate = getattr(options, "separate", False)
    screen = not options.plain and _is_terminal(sys.stdout)
    stdin: BinaryIO | None = None
    if screen:
        from trainmon.tui.terminal import check_terminal, take_keyboard

        try:
            check_terminal()
            stdin = take_keyboard() if "-" in specs else None
        except TerminalError as error:
            complain(f"{error}; plain lines follow")
            screen = False
    if "-" in specs and stdin is None:
        stdin = _standard_input()
    session = Session(
        specs,
        settings,
        exact=getattr(options, "exact", False),
        separate=separate,
        demo=demo,
        stdin=stdin,
        station=None if demo else station_of(specs, settings),  # the demo's GPUs are those of its story
    )
    try:
        if not screen:
            return print_plain(session, over=over)
        from trainmon.tui.run import run_screen

        return run_screen(session, settings=settings, separate=separate)
    finally:
        _tell_fault(session)


def station_of(specs: list[str], settings: Settings) -> StationFactory | None:
    """What makes this machine's instruments, as the settings say; None: there are none."""
    if not (settings.gpu or settings.host):
        return None

    def make(sink: Callable[[list[Sample]], object]) -> StationLike:
        from trainmon.clock import SystemClock
        from trainmon.telemetry.names import node_name
        from trainmon.telemetry.station import Station

        folders = list(dict.fromkeys([*(_folder(spec) for spec in specs if spec != "-"), os.getcwd()]))
        return Station(
            sink,
            node=node_name(),
            clock=SystemClock(),
            gpu=settings.gpu,
            gpu_interval_s=settings.gpu_interval_s,
            host=settings.host,
            host_interval_s=settings.host_interval_s,
            folders=lambda: folders,
        )

    return make


def _folder(spec: str) -> str:
    """The folder that a source lies in, as far as its name tells: no look at the file system, which may hang."""
    fixed = spec
    while any(sign in fixed for sign in "*?["):
        fixed = os.path.dirname(fixed)
    return fixed if fixed != spec else os.path.dirname(spec) or "."


def _tell_fault(session: Session) -> None:
    """What went wrong with us while the screen went on: where the details are."""
    if session.fault is None:
        return
    from trainmon.commands.crash import keep

    path = keep(session.fault)
    complain(
        f"something went wrong in trainmon, not in your run: {session.fault.strip().splitlines()[-1][:200]}"
        + (f"; the details are in {path}" if path is not None else "")
    )


def _standard_input() -> BinaryIO:
    """Standard input, unbuffered, through a descriptor of our own."""
    try:
        if sys.stdin is None:  # as it was at the start
            raise OSError
        return open(os.dup(0), "rb", buffering=0)
    except OSError:
        raise UsageError("standard input is closed: there is nothing to read for -") from None


def _is_terminal(stream: object) -> bool:
    try:
        return bool(stream.isatty())  # type: ignore[attr-defined]
    except (AttributeError, ValueError, OSError):
        return False


@contextmanager
def signals_raise() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into SystemExit(128 + n), so that what has to be put away is put away."""

    def leave(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def print_plain(session: Session, over: Callable[[], bool] | None = None) -> int:
    """Print a line for each update until everything has ended or nobody reads any more.

    Returns:
        0. An interrupt is raised on, as everywhere.
    """
    from trainmon.outputs.plain import PlainLines

    lines = PlainLines()
    wake = threading.Event()
    session.subscribe(wake.set)
    with signals_raise():
        session.start()
        rest = _REST_S
        try:
            while rest > 0:
                wake.wait(_NAP_S)
                wake.clear()
                _put(lines.update(session.snapshot, session.clock.monotonic()))
                if nobody_reads():
                    return 0
                if _all_ended(session) or (over is not None and over()):
                    # What was written last still has to be read, judged and printed.
                    rest -= _NAP_S
            return 0
        except BrokenPipeError:
            _silence_stdout()
            return 0
        finally:
            session.stop()


def _put(lines: list[str]) -> None:
    if not lines:
        return
    text = "\n".join(lines) + "\n"
    try:
        sys.stdout.write(text)
    except UnicodeEncodeError:
        encoding = sys.stdout.encoding or "ascii"
        sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
    sys.stdout.flush()


def nobody_reads() -> bool:
    """Whether the other end of a pipe was closed; a write would tell only with the next line."""
    try:
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)
        return any(event & (select.POLLERR | select.POLLNVAL) for _, event in poll.poll(0))
    except (OSError, ValueError, AttributeError, io.UnsupportedOperation):
        return False


def _silence_stdout() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _all_ended(session: Session) -> bool:
    sources = session.snapshot.sources
    return bool(sources) and all(source.word == "ended" for source in sources)
