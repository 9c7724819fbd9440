"""Textual's driver for Unix terminals, with the manners that a monitor needs.

It draws on whichever output is a terminal (Textual: standard error only), reads keys without waking ten times a second,
drops bytes for a terminal that is gone instead of hanging, and comes back from a stop that gave no warning.
"""

from __future__ import annotations

import os
import select
import signal
import termios
import time
from codecs import getincrementaldecoder
from typing import Any

from textual import constants
from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver
from textual.events import Key

from trainmon.tui.terminal import TtyFile, screen_fd

FLOOD = 512
"""Bytes that come at once and are more than anybody types: a paste that the terminal did not mark as one."""
CLOSING_S = 0.3
"""Seconds that leaving waits for a terminal that takes its bytes slowly."""


class TtyDriver(LinuxDriver):
    """See the module. One for each app; the descriptors live as long as the process."""

    def __init__(
        self, app: Any, *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        fd = screen_fd()
        self.tty = TtyFile(2 if fd is None else fd)
        self._file = self.tty  # type: ignore[assignment]
        if not os.isatty(0):
            # Standard input is not the keyboard (a pipe, /dev/null): leave it to whoever reads it.
            self.fileno = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
            self.input_tty = True
        self._live = False
        self._raw: list[Any] | None = None
        self._wake: tuple[int, int] | None = None

    # ------------------------------------------------------------ size and modes

    def _get_terminal_size(self) -> tuple[int, int]:
        return self.tty.size()

    def start_application_mode(self) -> None:
        """Enter the alternate screen, raw keys and the modes Textual wants."""
        self._wake = os.pipe()
        self.tty.deadline = None
        super().start_application_mode()  # type: ignore[no-untyped-call]
        try:
            self._raw = termios.tcgetattr(self.fileno)
        except (termios.error, OSError):
            self._raw = None
        self._live = True

    def disable_input(self) -> None:
        """Stop reading keys, at once."""
        if self._wake is not None and not self.exit_event.is_set():
            os.write(self._wake[1], b"x")
        super().disable_input()

    def stop_application_mode(self) -> None:
        """Leave everything as it was found."""
        if not self._live:
            return
        self._live = False
        self.tty.deadline = time.monotonic() + CLOSING_S
        super().stop_application_mode()
        if self._wake is not None and (self._key_thread is None or not self._key_thread.is_alive()):
            for end in self._wake:
                os.close(end)
            self._wake = None

    def set_mouse(self, on: bool) -> None:
        """Switch the reporting of the mouse."""
        if on:
            self._mouse = True
            self._enable_mouse_support()
        else:
            self._disable_mouse_support()
            self.write("\x1b[?1016l")
            self._mouse = False

    def clear(self) -> None:
        """Wipe the terminal, before everything is drawn anew."""
        if self._live:
            self.write("\x1b[0m\x1b[2J")

    # ------------------------------------------------------------ stop and go on

    def _sigcont_application(self, *_: object) -> None:
        if self._live:
            # Stopped without a word (SIGSTOP): the shell took the terminal, our threads never noticed.
            self._enter_again()
        elif self._auto_restart:
            self.resume_application_mode()
        else:
            return
        self._loop.call_soon_threadsafe(self._app.call_later, self._app.action_redraw)  # type: ignore[attr-defined]

    def _enter_again(self) -> None:
        if self._raw is not None:
            try:
                # In the background this stops us again, until `fg`.
                termios.tcsetattr(self.fileno, termios.TCSANOW, self._raw)
            except (termios.error, OSError):
                return
        self.write("\x1b[?1049h\x1b[2J\x1b[?25l\x1b[?1004h\x1b[?2004h\x1b[?7l")
        if not constants.DISABLE_KITTY_KEY:
            self.write("\x1b[<u\x1b[>25u")
        if self._in_band_window_resize:
            self.write("\x1b[?2048h")
        self._enable_mouse_support()
        os.kill(os.getpid(), signal.SIGWINCH)

    # ------------------------------------------------------------ keys

    def _run_input_thread(self) -> None:
        try:
            self.run_input_thread()
        except OSError:
            self._hung_up()
        except Exception as error:
            self._loop.call_soon_threadsafe(self._app._handle_exception, error)

    def _hung_up(self) -> None:
        self.tty.dead = True
        if not self.exit_event.is_set():
            self._loop.call_soon_threadsafe(self._app.hang_up)  # type: ignore[attr-defined]

    def run_input_thread(self) -> None:
        """Turn what is typed into events; sleeps until there is something."""
        assert self._wake is not None
        stop, keys = self._wake[0], self.fileno
        parser = XTermParser(self._debug)
        decode = getincrementaldecoder("utf-8")("replace").decode
        poll = select.poll()
        poll.register(keys, select.POLLIN)
        poll.register(stop, select.POLLIN)
        pending = pasting = False
        while True:
            ready = dict(poll.poll(100 if pending else None))
            if stop in ready:
                break
            if keys in ready:
                data = os.read(keys, 4096)
                if not data:
                    self._hung_up()
                    return
                begun, ended = data.rfind(b"\x1b[200~"), data.rfind(b"\x1b[201~")
                pasting = begun > ended or (pasting and ended < 0)
                # Acting on a million keys would take minutes, in which even Ctrl-C waits its turn.
                flood = len(data) > FLOOD and not pasting and ended < 0
                if flood and b"\x1b" not in data:
                    data = b"\x03" if b"\x03" in data else b""
                for event in parser.feed(decode(data)) if data else ():
                    if not flood or not isinstance(event, Key) or event.key == "ctrl+c":
                        self.process_message(event)
            for event in parser.tick():
                self.process_message(event)
            # A lone Escape is told from the start of a sequence by the time that passes.
            pending = getattr(parser, "_timeout_time", None) is not None
