"""NVML through nvidia-ml-py (the module `pynvml`, 12 and later), each call announced before it is made.

Two ways in: `ask` calls a wrapper of the binding; `raw` calls the library's own function where the wrapper makes two
calls of one, or trusts the size of the driver's records.
"""

from __future__ import annotations

import ctypes
import os
import time
from typing import Any

from trainmon.telemetry.gpu.place import NONE, Marker

UNINITIALIZED = 1
INVALID_ARGUMENT = 2
NOT_SUPPORTED = 3
NO_PERMISSION = 4
NOT_FOUND = 6
INSUFFICIENT_SIZE = 7
DRIVER_NOT_LOADED = 9
TIMEOUT = 10
LIBRARY_NOT_FOUND = 12
FUNCTION_NOT_FOUND = 13
GPU_IS_LOST = 15
RESET_REQUIRED = 16
VERSION_MISMATCH = 18
ARGUMENT_VERSION = 25
DEPRECATED = 26
UNKNOWN = 999
NO_CODE = -1
"""The binding failed, not NVML (a name that is no UTF-8, a number that fits nowhere)."""

UNSUPPORTED = frozenset({NOT_SUPPORTED, FUNCTION_NOT_FOUND, ARGUMENT_VERSION, DEPRECATED})
"""Codes that will not change while the driver is loaded."""
DRIVER_WIDE = frozenset({UNINITIALIZED, DRIVER_NOT_LOADED, VERSION_MISMATCH})
"""Codes that speak of the driver, whichever GPU was asked."""

_TEXT = 96
"""Bytes: the longest of NVML's texts (UUIDs, names) is as long."""


class Refused(Exception):
    """NVML, or the binding, did not give what was asked for.

    Attributes:
        code: NVML's return code, or `NO_CODE`.
        text: In NVML's words.
    """

    def __init__(self, code: int, text: str = "") -> None:
        super().__init__(code, text)
        self.code = code
        self.text = text or words(code)


def words(code: int) -> str:
    """NVML's own name of a code."""
    return _WORDS.get(code, f"error {code}")


_WORDS = {
    UNINITIALIZED: "Uninitialized", INVALID_ARGUMENT: "Invalid Argument", NOT_SUPPORTED: "Not Supported",
    NO_PERMISSION: "Insufficient Permissions", NOT_FOUND: "Not Found", INSUFFICIENT_SIZE: "Insufficient Size",
    DRIVER_NOT_LOADED: "Driver Not Loaded", TIMEOUT: "Timeout", LIBRARY_NOT_FOUND: "NVML Shared Library Not Found",
    11: "Interrupt Request Issue", FUNCTION_NOT_FOUND: "Function Not Found", 14: "Corrupted infoROM",
    GPU_IS_LOST: "GPU is lost", RESET_REQUIRED: "GPU requires reset",
    17: "GPU access blocked by the operating system", VERSION_MISMATCH: "Driver/library version mismatch",
    19: "In use by another client", 20: "Insufficient Memory", 21: "No data", 27: "Not ready", 29: "Invalid state",
    ARGUMENT_VERSION: "Argument version mismatch", DEPRECATED: "Deprecated", UNKNOWN: "Unknown Error",
}  # fmt: skip


def code_of(error: Exception) -> int:
    """NVML's code of what a wrapper raised."""
    value = getattr(error, "value", None)
    if isinstance(value, int):
        return value
    # The wrappers of the process lists raise this one, which is no NVMLError, for a symbol that the driver lacks.
    return FUNCTION_NOT_FOUND if type(error).__name__ == "NVMLLibraryMismatchError" else NO_CODE


def own_output() -> int:
    """A descriptor of this process's standard output, for it alone: what the driver's library prints goes nowhere."""
    own, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    return own


class Nvml:
    """The loaded library.

    Args:
        binding: The module `pynvml`.
        marker: Told of each call before it is made.
    """

    def __init__(self, binding: Any, marker: Marker) -> None:
        self.binding = binding
        self.marker = marker
        self.driver = ""
        self._raw: dict[str, Any] = {}

    def start(self) -> None:
        """Initialise.

        Raises:
            Refused: No library, no driver, no permission, ...
        """
        self._raw.clear()
        self.ask("nvmlInit")
        try:
            self.driver = self.text("nvmlSystemGetDriverVersion", None)
        except Refused as refused:
            if refused.code in DRIVER_WIDE or refused.code == UNKNOWN:
                raise
            self.driver = ""

    def stop(self) -> None:
        """Let go of the driver; what goes wrong in that is no matter."""
        try:
            self.ask("nvmlShutdown")
        except Refused:
            pass

    @staticmethod
    def now() -> float:
        """Monotonic seconds."""
        return time.monotonic()

    def has(self, name: str) -> bool:
        """Whether the driver's library exports a function."""
        return self._function(name) is not None

    def _function(self, name: str) -> Any:
        if name not in self._raw:
            self._raw[name] = getattr(self.binding.nvmlLib, name, None)
        return self._raw[name]

    def ask(self, name: str, *args: Any, device: int = NONE, opened: bool = True, **more: Any) -> Any:
        """Call the binding's wrapper.

        Args:
            device: Index of the GPU that is asked, for the watchdog. opened: it has answered before.

        Raises:
            Refused: With NVML's code.
        """
        wrapper = getattr(self.binding, name, None)
        if wrapper is None:
            raise Refused(FUNCTION_NOT_FOUND)
        self.marker.at(name, device, opened)
        try:
            return wrapper(*args, **more)
        except Exception as error:  # not NVMLError alone: see code_of
            code = code_of(error)
            raise Refused(code, words(code) if code != NO_CODE else type(error).__name__) from None

    def raw(self, name: str, *args: Any, device: int = NONE) -> int:
        """Call the library's own function; NVML's code, `FUNCTION_NOT_FOUND` where the driver lacks it."""
        function = self._function(name)
        if function is None:
            return FUNCTION_NOT_FOUND
        self.marker.at(name, device)
        try:
            return int(function(*args))
        except (ctypes.ArgumentError, ValueError, OverflowError):
            return NO_CODE

    def text(self, name: str, handle: Any, device: int = NONE, opened: bool = True) -> str:
        """A text of the library, whatever bytes it is made of.

        Raises:
            Refused: With NVML's code.
        """
        buffer = ctypes.create_string_buffer(_TEXT)
        function = self._function(name)
        if function is None:
            raise Refused(FUNCTION_NOT_FOUND)
        self.marker.at(name, device, opened)
        given = (buffer, ctypes.c_uint(_TEXT))
        code = int(function(*given) if handle is None else function(handle, *given))
        if code:
            raise Refused(code)
        return clean(buffer.value.decode("utf-8", "replace"))


def clean(text: str, limit: int = 120) -> str:
    """Text without control characters, on one line, at most `limit` characters."""
    kept = "".join(c if c.isprintable() else " " for c in text)
    return " ".join(kept.split())[:limit]
