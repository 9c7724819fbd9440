"""Reading /proc and /sys below a root that can be chosen: a test, or a mounted host, can stand in for the machine.

psutil reads the same files, but takes its root from one global variable, knows no control group and leaves out what
decides here (the eleventh field of /proc/diskstats, InfiniBand, quotas): see docs/decisions/008-host-from-proc.md.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

MIB = 1024.0 * 1024.0
MOST_BYTES = 4 << 20
"""More than any file that is read here has; a file that never ends must not fill the memory."""

MAX_UINT64 = 2**64


@dataclass(slots=True)
class Found:
    """What one round of reading found: metrics of `trainmon.samples.HOST_METRICS`, and why others are missing."""

    values: dict[str, float] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    scope: str = "host"

    def put(self, name: str, value: float | None, digits: int = 2) -> None:
        """Keep a figure unless it is none; rounded, because it goes through JSON."""
        if value is not None and math.isfinite(value):
            self.values[name] = round(value, digits)

    def lack(self, reason: str, *names: str) -> None:
        """Say why `names` cannot be had."""
        for name in names:
            self.missing[name] = reason


class Unreadable(Exception):
    """A file that is not there, may not be read, or does not say what it should. Its text is the reason, in words."""


class Tree:
    """The file system below `root`. Every method raises `Unreadable` and nothing else.

    Args:
        root: "/" for this machine.
    """

    def __init__(self, root: str = "/") -> None:
        self._root = root.rstrip("/")
        self.real = self._root == ""

    def path(self, name: str) -> str:
        """Where `name`, absolute below the root, really is."""
        return self._root + name

    def text(self, name: str, most: int = MOST_BYTES) -> str:
        """The file as text; bytes that are none become replacement characters."""
        try:
            handle = os.open(self._root + name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                # /proc hands out whole records, about a page at a time: only an empty read is the end.
                got = os.read(handle, 65536)
                while len(got) < most and (more := os.read(handle, 65536)):
                    got += more
            finally:
                os.close(handle)
        except (OSError, ValueError) as error:
            raise Unreadable(reason(error, name)) from None
        return got.decode("utf-8", "replace")

    def number(self, name: str) -> int:
        """The only number of a file."""
        text = self.text(name, 4096).strip()
        value = whole(text)
        if value is None:
            raise Unreadable(f"{name} says {text[:20]!r}")
        return value

    def maybe(self, name: str) -> int | None:
        """`number`, or None."""
        try:
            return self.number(name)
        except Unreadable:
            return None

    def word(self, name: str) -> str:
        """First line of a file, or "" when it cannot be read."""
        try:
            return self.text(name, 4096).partition("\n")[0].strip()
        except Unreadable:
            return ""

    def names(self, name: str) -> list[str]:
        """What a folder holds, sorted."""
        try:
            return sorted(os.listdir(self._root + name))
        except (OSError, ValueError) as error:
            raise Unreadable(reason(error, name)) from None

    def count(self, name: str) -> int:
        """How many entries a folder holds."""
        try:
            return len(os.listdir(self._root + name))
        except (OSError, ValueError) as error:
            raise Unreadable(reason(error, name)) from None

    def there(self, name: str) -> bool:
        """Something is at `name`."""
        try:
            return os.path.exists(self._root + name)
        except ValueError:
            return False

    def link(self, name: str) -> str:
        """Where a symbolic link points; "" when it is none."""
        try:
            return os.readlink(self._root + name)
        except (OSError, ValueError):
            return ""


def reason(error: Exception, name: str) -> str:
    """Why a file could not be read, in words."""
    if isinstance(error, FileNotFoundError):
        return f"{name} is not there"
    if isinstance(error, PermissionError):
        return f"no permission to read {name}"
    text = getattr(error, "strerror", None) or type(error).__name__
    return f"{name}: {text}"


def whole(text: str) -> int | None:
    """A counter of the kernel: decimal digits, at most 64 bits, a sign allowed; None when it is no such thing."""
    body = text[1:] if text[:1] == "-" else text
    if not (body.isascii() and body.isdigit()) or len(body) > 20:
        return None
    value = int(text)
    return value if -MAX_UINT64 < value < MAX_UINT64 else None


def decimal(text: str) -> float | None:
    """A finite decimal number, or None."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def wholes(words: Iterable[str]) -> list[int] | None:
    """Every word as a counter; None when one is none."""
    out = []
    for word in words:
        value = whole(word)
        if value is None:
            return None
        out.append(value)
    return out


def pairs(text: str) -> dict[str, int]:
    """Lines "name number", as memory.stat and cpu.stat have them; other lines are passed over."""
    out = {}
    for line in text.splitlines():
        name, _, rest = line.partition(" ")
        value = whole(rest.strip())
        if value is not None:
            out[name] = value
    return out


class Rises:
    """Counts how often things happened since we look, out of counters that may start anew or change their place.

    A counter that is seen for the first time is a starting point, not a rise: what happened before is no news.
    """

    def __init__(self) -> None:
        self._last: dict[str, int] = {}
        self._total: dict[str, int] = {}

    def see(self, name: str, value: int) -> int:
        """The rise of counter `name` since it was last seen."""
        rise = max(0, value - self._last.get(name, value))
        self._last[name] = value
        self._total[name] = self._total.get(name, 0) + rise
        return rise

    def total(self, name: str) -> int:
        """All rises of `name`."""
        return self._total.get(name, 0)

    def keep(self, belongs: Callable[[str], bool]) -> None:
        """Forget the counters that no longer belong to anything."""
        for name in [name for name in self._last if not belongs(name)]:
            del self._last[name]
            self._total.pop(name, None)


SHORTEST_S = 0.1
"""Seconds. Below it a rate is noise: counters of the kernel tick in hundredths of a second."""


def usable(dt: float) -> bool:
    """An interval in seconds over which a rate means something."""
    return dt >= SHORTEST_S
