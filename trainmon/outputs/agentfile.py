"""The file that an agent writes: whole lines only, a new file beyond a size, and it survives a full disk.

`name` is renamed to `name.1`, that one to `name.2`, and so on, as loggers do it: whoever follows `name` by its
descriptor reads it to the end and goes on with the new one.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from trainmon.errors import SourceError


class AgentFile:
    """Appends lines to a file.

    Args:
        path: The file; its folder must exist.
        max_bytes: A file that is longer is put aside before the next line.
        keep: How many of those stay.

    Raises:
        SourceError: It cannot be opened at the start.
    """

    def __init__(self, path: Path, *, max_bytes: int, keep: int) -> None:
        self.path = path
        self._max = max_bytes
        self._keep = keep
        self._fd = -1
        self._size = 0
        self._torn = False
        self._regular = True
        self.problem = ""
        """Why nothing is written at present, in words; "" while all is well."""
        self.dropped = 0
        """Lines that could not be written since `problem` began."""
        try:
            self._open()
        except OSError as error:
            raise SourceError(f"{path} cannot be written ({(error.strerror or '').lower()})") from None

    def write(self, lines: list[bytes]) -> None:
        """Append lines (without their line breaks). A failure is kept in `problem`; the lines are dropped."""
        if not lines:
            return
        try:
            self._prepare()
            data = b"\n".join(lines) + b"\n"
            if self._torn:  # half a line stands there since the disk was full
                data = b"\n" + data
            done = 0
            while done < len(data):
                wrote = os.write(self._fd, data[done:])
                done += wrote
                self._size += wrote
                self._torn = done < len(data)
            self.problem, self.dropped = "", 0
        except OSError as error:
            self.problem = (error.strerror or str(error)).lower()
            self.dropped += len(lines)

    def close(self) -> None:
        """Let go of the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    # ------------------------------------------------------------

    def _prepare(self) -> None:
        if self._fd >= 0 and self._moved():  # away, deleted, its folder gone
            self.close()
        if self._fd < 0:
            self._open()
        if self._size >= self._max and self._regular:
            self._rotate()

    def _open(self) -> None:
        # Never through a link that somebody else put there: the folder is a shared one.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        fd = os.open(self.path, flags, 0o644)
        try:
            found = os.fstat(fd)
            self._size = found.st_size
            self._regular = stat.S_ISREG(found.st_mode)  # a pipe or /dev/null stays where it is
            self._torn = self._size > 0 and not self._ends_whole()
        except BaseException:
            os.close(fd)
            raise
        self._fd = fd

    def _ends_whole(self) -> bool:
        """Whether the file's last line is complete: an agent that was killed may have left half of one."""
        try:
            with open(self.path, "rb") as file:
                file.seek(-1, os.SEEK_END)
                return file.read(1) == b"\n"
        except OSError:
            return False

    def _moved(self) -> bool:
        try:
            there, mine = os.stat(self.path), os.fstat(self._fd)
        except OSError:
            return True
        return (there.st_dev, there.st_ino) != (mine.st_dev, mine.st_ino)

    def _rotate(self) -> None:
        self.close()
        if self._keep == 0:
            os.unlink(self.path)
        else:
            for number in range(self._keep - 1, 0, -1):
                try:
                    os.replace(self._aside(number), self._aside(number + 1))
                except FileNotFoundError:
                    pass
            os.replace(self.path, self._aside(1))
        self._open()

    def _aside(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}")
