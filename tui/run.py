"""Run the screen until the user leaves, and leave the terminal as it was, whatever happens."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING

from trainmon.clock import Clock
from trainmon.patience import LoosePool
from trainmon.settings import Settings
from trainmon.tui.terminal import Keeper, check_terminal, choose_palette, forget_stale_size, wants_ascii

if TYPE_CHECKING:
    from trainmon.tui.app import SessionLike

STOP_S = 0.25
"""Seconds that leaving waits for the session; its threads are daemons."""
SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


def run_screen(
    session: SessionLike,
    *,
    settings: Settings | None = None,
    separate: bool = False,
    clock: Clock | None = None,
) -> int:
    """Start a session and show it until the user quits.

    With `-` as a source call `terminal.take_keyboard()` before the session is made: it hands over the pipe.

    Args:
        session: Not started yet; it is stopped at the end.
        settings: Theme, ASCII signs, flash and bell are taken from here.
        separate: Each file is a run of its own.

    Returns:
        The exit code: 0 after `q`, 130 after Ctrl-C or SIGINT, 128+n after signal n.

    Raises:
        TerminalError: When no screen can be drawn here.
        Exception: A fault of our own, once the terminal is as it was.
    """
    check_terminal()
    chosen = Settings() if settings is None else settings
    session.start()
    if sys.__stdin__ is None:
        # Started without descriptor 0: Textual asks for it before our driver can choose.
        sys.stdin = sys.__stdin__ = open(os.devnull)  # type: ignore[misc]  # noqa: SIM115
    os.environ.setdefault("TEXTUAL_ANIMATIONS", "none")
    if not os.environ.get("NO_COLOR"):
        # Empty means unset; Textual looks only whether it is there.
        os.environ.pop("NO_COLOR", None)
    forget_stale_size()
    # The engine's thread computes: hand over to the screen's sooner than after 5 ms.
    sys.setswitchinterval(0.001)
    keeper = Keeper()
    code = 1
    crash: BaseException | None = None
    try:
        code, crash = _run(session, chosen, separate, clock)
    except KeyboardInterrupt:
        code = 130
    finally:
        keeper.restore()
        _stop(session)
    if crash is not None:
        raise crash
    return code


def _run(
    session: SessionLike, settings: Settings, separate: bool, clock: Clock | None
) -> tuple[int, BaseException | None]:
    from trainmon.tui.app import TrainmonApp
    from trainmon.tui.driver import TtyDriver
    from trainmon.tui.thrift import cut_updates_on_both_sides

    cut_updates_on_both_sides()

    class Quiet(TrainmonApp):
        """A crash is reported in one line, not by a page of traceback over the screen."""

        def _handle_exception(self, error: Exception) -> None:
            if self._exception is None:
                self._exception = error
                self._exception_event.set()
            self._close_messages_no_wait()

        def panic(self, *renderables: object) -> None:
            self._close_messages_no_wait()

    app = Quiet(
        session,
        palette=choose_palette(settings.theme),
        ascii=wants_ascii() if settings.ascii is None else settings.ascii,
        flash=settings.flash,
        bell=settings.bell,
        separate=separate,
        clock=clock,
        driver_class=TtyDriver,
    )

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(LoosePool())  # a read that hangs must not hold up the way out
        hits = 0

        def on_signal(number: int) -> None:
            nonlocal hits
            hits += 1
            if hits > 2:
                # The way out is stuck; do not make anybody wait.
                Keeper().restore()
                os._exit(128 + number)
            app.leave(128 + number)

        for number in SIGNALS:
            loop.add_signal_handler(number, on_signal, number)
        await app.run_async(mouse=False)

    before = {number: signal.getsignal(number) for number in (*SIGNALS, signal.SIGTSTP, signal.SIGCONT)}
    try:
        asyncio.run(main())
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return app.exit_code, app._exception


def _stop(session: SessionLike) -> None:
    """Stop the session, but never wait long for it."""
    worker = threading.Thread(target=_quietly, args=(session,), daemon=True, name="stop")
    worker.start()
    worker.join(STOP_S)


def _quietly(session: SessionLike) -> None:
    try:
        session.stop()
    except Exception:
        return
