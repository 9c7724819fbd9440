"""A file that appears whole or not at all: written beside its place, renamed when it is complete."""

from __future__ import annotations

import os
import stat
from typing import BinaryIO

from trainmon.errors import SourceError

_MODE = 0o666


class WholeFile:
    """An output file. What lies at its path stays as it is until `commit`.

    A path that is no regular file (`/dev/null`, a named pipe) is written to as it comes.

    Args:
        path: Where it shall be; a link's target is replaced, not the link.

    Attributes:
        file: Where to write.

    Raises:
        SourceError: It cannot be written there.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._goal = os.path.realpath(path)
        self._beside: str | None = None
        try:
            found = os.stat(self._goal)
        except FileNotFoundError:
            found = None
        except OSError as error:
            raise self._refused(error) from None
        try:
            if found is not None and not stat.S_ISREG(found.st_mode):
                self.file: BinaryIO = open(self._goal, "wb")  # noqa: SIM115
                return
            folder, name = os.path.split(self._goal)
            self._beside = os.path.join(folder, f".{name[:200]}.{os.getpid()}.tmp")
            descriptor = os.open(self._beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, _MODE)
            if found is not None:
                try:
                    os.fchmod(descriptor, stat.S_IMODE(found.st_mode))
                except OSError:  # a file system without modes
                    pass
            self.file = open(descriptor, "wb")  # noqa: SIM115
        except OSError as error:
            raise self._refused(error) from None

    def _refused(self, error: OSError) -> SourceError:
        return SourceError(f"{self.path} cannot be written ({(error.strerror or 'unknown reason').lower()})")

    def is_same(self, path: str) -> bool:
        """Whether a path leads to the file that is to be replaced."""
        try:
            return self._beside is not None and os.path.samefile(path, self._goal)
        except OSError:
            return False

    def commit(self) -> None:
        """Let it appear.

        Raises:
            OSError: It cannot be written to its end; nothing has changed then.
        """
        try:
            self.file.flush()
            if self._beside is not None:
                os.fsync(self.file.fileno())
            self.file.close()
            if self._beside is not None:
                os.replace(self._beside, self._goal)
                self._beside = None
        finally:
            self.abort()

    def abort(self) -> None:
        """Leave nothing behind, unless it was committed."""
        try:
            self.file.close()
        except OSError:
            pass
        beside, self._beside = self._beside, None
        if beside is not None:
            try:
                os.unlink(beside)
            except OSError:
                pass
