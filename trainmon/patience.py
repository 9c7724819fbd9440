"""Calls that may never come back (a network file system that is down): made aside, and left to themselves."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")

MOST_THREADS = 32
"""Calls that a `LoosePool` makes at once; the others wait."""


def within(seconds: float, work: Callable[[], T]) -> T:
    """Do something that may block for ever, for so long.

    Args:
        seconds: How long to wait for it. It is not ended then, but nobody waits for its thread, not even at exit.

    Raises:
        TimeoutError: It has not come back.
        Exception: What `work` raises.
    """
    result: Future[T] = Future()

    def run() -> None:
        try:
            result.set_result(work())
        except BaseException as error:
            result.set_exception(error)

    threading.Thread(target=run, name="trainmon-aside", daemon=True).start()
    return result.result(seconds)


class LoosePool(ThreadPoolExecutor):
    """An executor whose threads nobody waits for: asyncio and the interpreter join those of an ordinary one at exit.

    It calls itself a ThreadPoolExecutor because asyncio takes nothing else for its default.
    """

    def __init__(self, most: int = MOST_THREADS) -> None:
        super().__init__(max_workers=1)  # never used: its threads are made by its own `submit`
        self._most = most
        self._calls: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._free = threading.Semaphore(0)
        self._idle = self._made = 0
        self._guard = threading.Lock()

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Have a call made by one of the threads."""
        future: Future[T] = Future()
        with self._guard:
            self._calls.append((future, lambda: fn(*args, **kwargs)))
            spawn = self._idle < len(self._calls) and self._made < self._most
            self._made += spawn
        self._free.release()
        if spawn:
            threading.Thread(target=self._work, name="trainmon-file", daemon=True).start()
        return future

    def _work(self) -> None:
        while True:
            with self._guard:
                self._idle += 1
            self._free.acquire()
            with self._guard:
                self._idle -= 1
                if not self._calls:
                    continue  # dropped by `shutdown`
                future, call = self._calls.popleft()
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(call())
            except BaseException as error:
                future.set_exception(error)
            del future, call

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Drop the calls that were not begun, wait for none."""
        with self._guard:
            dropped, self._calls = self._calls, deque()
        for future, _ in dropped:
            future.cancel()
