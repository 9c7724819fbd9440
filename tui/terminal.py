"""The terminal itself: keys when standard input is a pipe, what to draw with, and leaving it as it was.

Textual draws on standard error and reads standard input. Here the screen is drawn on whichever of the two outputs is a
terminal, through a descriptor of its own, so that a redirected standard error stays the user's.
"""

from __future__ import annotations

import codecs
import locale
import os
import select
import termios
import time
from collections.abc import Mapping, MutableMapping
from typing import BinaryIO

from trainmon.errors import TerminalError

LEAVE = (
    b"\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?1016l\x1b[?2004l\x1b[?2048l\x1b[?1004l"
    b"\x1b[<u\x1b[?7h\x1b[?1049l\x1b[?25h\x1b[0m"
)
"""Everything off that a screen may have switched on: mouse, paste, focus, keyboard modes, the alternate screen."""

PALETTES = ("auto", "dark", "light", "ansi16", "mono")


def take_keyboard() -> BinaryIO:
    """Move what is piped into standard input to a descriptor of its own, and put the keyboard in its place.

    Returns:
        The pipe that was standard input.

    Raises:
        TerminalError: When there is no terminal to read keys from.
    """
    try:
        keys = os.open("/dev/tty", os.O_RDWR)
    except OSError as error:
        raise TerminalError("no keyboard: standard input is the log and there is no terminal (/dev/tty)") from error
    pipe = os.dup(0)
    os.dup2(keys, 0)
    os.close(keys)
    return os.fdopen(pipe, "rb", buffering=0)


def check_terminal(environ: Mapping[str, str] | None = None) -> None:
    """Refuse terminals that cannot show a screen.

    Raises:
        TerminalError: With `TERM` missing or "dumb", or when neither output is a terminal.
    """
    term = (os.environ if environ is None else environ).get("TERM", "")
    if term in ("", "dumb", "unknown"):
        named = f"TERM={term}" if term else "TERM is not set"
        raise TerminalError(
            f"{named}: this terminal cannot show a screen; set TERM (xterm-256color fits most), "
            "or pipe the output for plain lines: trainmon tail … | cat"
        )
    if screen_fd() is None:
        raise TerminalError("no terminal to draw on: neither standard output nor standard error is one")


def screen_fd() -> int | None:
    """Descriptor of the output that is a terminal, standard output first; None when neither is."""
    for fd in (1, 2):
        try:
            if os.isatty(fd):
                return fd
        except OSError:
            continue
    return None


def wants_ascii(environ: Mapping[str, str] | None = None) -> bool:
    """True when the locale cannot print the signs: then their ASCII forms are drawn."""
    env = os.environ if environ is None else environ
    name = env.get("LC_ALL") or env.get("LC_CTYPE") or env.get("LANG") or ""
    if name:
        codeset = name.partition(".")[2].partition("@")[0]
        return codeset.lower().replace("-", "") != "utf8"
    try:
        return codecs.lookup(locale.getpreferredencoding(False)).name != "utf-8"
    except LookupError:
        return True


def choose_palette(wanted: str = "auto", environ: Mapping[str, str] | None = None) -> str:
    """Which set of colours fits this terminal.

    Args:
        wanted: One of `PALETTES`.

    Returns:
        "dark", "light", "ansi16" or "mono". `NO_COLOR` wins over everything but an explicit wish.
    """
    if wanted in PALETTES and wanted != "auto":
        return wanted
    env = os.environ if environ is None else environ
    if env.get("NO_COLOR"):
        return "mono"
    term = env.get("TERM", "")
    if env.get("COLORTERM", "").strip().lower() in ("truecolor", "24bit"):
        return "dark"
    if "256color" in term or term in ("xterm-kitty", "alacritty", "foot", "wezterm", "xterm-ghostty"):
        return "dark"
    return "mono" if term.startswith(("vt1", "vt2")) and "color" not in term else "ansi16"


class TtyFile:
    """The terminal as the writer thread sees it: never raises, and knows when the terminal is slow.

    Opened anew where that is possible, so that it can be non-blocking without changing the shell's own descriptors.
    """

    def __init__(self, fd: int) -> None:
        self.fd = self._open(fd)
        self.since: float | None = None
        """Monotonic time at which the write in progress began; None when nothing is being written."""
        self.took = 0.0
        """Seconds that the last write took."""
        self.dead = False
        """The terminal is gone; what is written is dropped."""
        self.deadline: float | None = None
        """Monotonic time after which nobody waits for a terminal that does not take its bytes."""

    @staticmethod
    def _open(fd: int) -> int:
        try:
            return os.open(os.ttyname(fd), os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
        except OSError:
            # No such name here (a container's view of another's terminal): share the descriptor, blocking.
            return os.dup(fd)

    def write(self, text: str) -> None:
        """Write all of the text, waiting for the terminal as long as `deadline` allows."""
        data = memoryview(text.encode("utf-8", "replace"))
        self.since = begun = time.monotonic()
        try:
            while data and not self.dead:
                try:
                    data = data[os.write(self.fd, data[:65536]) :]
                except BlockingIOError:
                    if self.deadline is not None and time.monotonic() > self.deadline:
                        self.dead = True
                    else:
                        select.select([], [self.fd], [], 0.1)
                except InterruptedError:
                    continue
                except OSError:
                    self.dead = True
        finally:
            self.took = time.monotonic() - begun
            self.since = None

    def flush(self) -> None:
        """Nothing is held back."""

    def fileno(self) -> int:
        return self.fd

    def isatty(self) -> bool:
        return True

    def size(self) -> tuple[int, int]:
        """Columns and rows; what the environment says, else 80 by 24, where the terminal does not know."""
        try:
            columns, rows = os.get_terminal_size(self.fd)
        except OSError:
            columns = rows = 0
        if columns <= 0 or rows <= 0:
            columns, rows = (_number(os.environ.get(name)) for name in ("COLUMNS", "LINES"))
            columns, rows = columns or 80, rows or 24
        return columns, rows


def _number(text: str | None) -> int:
    """A count of cells; 0 for what cannot be one."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 4 else 0


def forget_stale_size(environ: MutableMapping[str, str] | None = None) -> None:
    """Take an exported COLUMNS and LINES out, which Textual believes, where the terminal knows its size itself."""
    fd = screen_fd()
    if fd is None:
        return
    try:
        known = os.get_terminal_size(fd)
    except OSError:
        return
    if known.columns > 0 and known.lines > 0:
        for name in ("COLUMNS", "LINES"):
            (os.environ if environ is None else environ).pop(name, None)


class Keeper:
    """Remembers how the terminal was, and brings that back whatever happens.

    The normal way out restores it anyway; doing it twice does no harm.
    """

    def __init__(self) -> None:
        self.fd = screen_fd()
        self.attributes: list[object] | None = None
        for fd in (0, self.fd):
            if fd is not None and os.isatty(fd):
                try:
                    self.attributes = termios.tcgetattr(fd)
                except (termios.error, OSError):
                    continue
                self.keys = fd
                break

    def restore(self) -> None:
        """Leave the alternate screen and every mode, and set the line discipline as it was."""
        if self.fd is not None:
            try:
                # A terminal that takes nothing must not hold us up: one attempt, only when it is ready.
                if select.select([], [self.fd], [], 0.2)[1]:
                    os.write(self.fd, LEAVE)
            except OSError:
                pass
        if self.attributes is not None:
            try:
                termios.tcsetattr(self.keys, termios.TCSANOW, self.attributes)  # type: ignore[arg-type]
            except (termios.error, OSError):
                pass
