"""Standard input as a source, read by a thread of its own since a pipe can be silent for hours."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from typing import BinaryIO

from trainmon.clock import Clock
from trainmon.model import CaughtUp, Data, Opened, SourceEvent, SourceState

_PIECE = 64 * 1024
_MOST = 64


class StdinPump:
    """Carries standard input to the reader in pieces, and waits when the reader is behind.

    Args:
        source: Number that its events carry.
        stream: What to read; its descriptor where it has one.
        wake: Called when there is something to take.
    """

    def __init__(self, source: int, stream: BinaryIO, clock: Clock, wake: Callable[[], None]) -> None:
        self.source = source
        self.ended = False
        self._stream = stream
        self._clock = clock
        self._wake = wake
        self._pieces: deque[bytes] = deque()
        self._room = threading.Semaphore(_MOST)
        self._stop = threading.Event()
        self._offset = 0
        self._caught_up = False
        self._eof = False
        self._problem = ""
        self._thread = threading.Thread(target=self._run, name="trainmon-stdin", daemon=True)

    def start(self) -> list[SourceEvent]:
        """Begin to read; returns the first events."""
        self._thread.start()
        return [
            Opened(self.source, "-", "-", 0, self._clock.now()),
            SourceState("-", self.source, "followed", "Reading standard input."),
        ]

    def stop(self) -> None:
        """Ask the thread to end; it is not waited for, since its read may never return."""
        self._stop.set()
        self._room.release()

    def _run(self) -> None:
        try:
            fd = self._stream.fileno()
        except (OSError, AttributeError, ValueError):
            fd = -1
        while not self._stop.is_set():
            try:
                piece = os.read(fd, _PIECE) if fd >= 0 else self._stream.read(_PIECE)
            except BlockingIOError:
                # Someone set the pipe to non-blocking: ask again soon.
                self._stop.wait(0.05)
                continue
            except (OSError, ValueError) as error:
                self._problem = getattr(error, "strerror", None) or str(error)
                break
            if not piece:
                break
            self._room.acquire()
            self._pieces.append(piece)
            self._wake()
        self._eof = True
        self._wake()

    def take(self, most: int) -> list[SourceEvent]:
        """Up to `most` pieces that have arrived, as events."""
        events: list[SourceEvent] = []
        eof = self._eof  # before looking at the pieces: after it no piece comes
        data = bytearray()
        while self._pieces and most > 0:
            data += self._pieces.popleft()
            self._room.release()
            most -= 1
        if data:
            size = self._offset + len(data)
            events.append(Data(self.source, 0, self._offset, bytes(data), size, self._clock.now()))
            self._offset = size
        if self._pieces or self.ended:
            return events
        if not self._caught_up and (data or eof):
            self._caught_up = True
            events.append(CaughtUp(self.source, 0))
        if eof:
            self.ended = True
            sentence = (
                f"Standard input cannot be read: {self._problem}." if self._problem else "Standard input has ended."
            )
            events.append(SourceState("-", self.source, "ended", sentence, bad=bool(self._problem)))
        return events
