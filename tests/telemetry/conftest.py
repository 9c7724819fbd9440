"""A scripted NVML for tests: the stand-in is compiled once a session and loaded through the real ctypes path."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from trainmon.clock import SystemClock
from trainmon.samples import DriverSample, GpuEvent, GpuProcess, GpuSample, Sample

NVML = Path(__file__).parents[1] / "nvml"
PATIENCE_S = 30.0


@pytest.fixture(scope="session")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """stand_in(driver=580) -> the folder of a `libnvidia-ml.so.1` with the symbols of that driver branch."""
    built: dict[int, Path] = {}

    def build(driver: int = 580) -> Path:
        if driver not in built:
            if shutil.which("cc") is None:
                pytest.skip("needs_cc: no C compiler for the NVML stand-in")
            folder = tmp_path_factory.mktemp(f"nvml-{driver}")
            flags = ["-O1", "-shared", "-fPIC", "-pthread", "-fvisibility=hidden", "-Wl,-soname,libnvidia-ml.so.1"]
            target = folder / "libnvidia-ml.so.1"
            source = NVML / "fake_nvml.c"
            subprocess.run(
                ["cc", *flags, f"-DFAKE_NVML_DRIVER={driver}", "-o", str(target), str(source), "-lm"], check=True
            )
            built[driver] = folder
        return built[driver]

    return build


@pytest.fixture
def scene(stand_in: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Path]:
    """scene(name_or_text, t=0, frozen=False, driver=580): what children that this test starts will find.

    `t` is the scenario's time at the moment of the call. Returns the file that logs each call.
    """

    def choose(name: str, t: float = 0.0, frozen: bool = False, driver: int = 580) -> Path:
        path = NVML / "scenarios" / f"{name}.scn"
        if "\n" in name:
            path = tmp_path / "inline.scn"
            path.write_text(name.replace("INCLUDE", f"include {NVML / 'scenarios'}"), errors="surrogateescape")
        log = tmp_path / "calls.log"
        monkeypatch.setenv("LD_LIBRARY_PATH", f"{stand_in(driver)}:{os.environ.get('LD_LIBRARY_PATH', '')}")
        monkeypatch.setenv("FAKE_NVML_SCENARIO", str(path))
        monkeypatch.setenv("FAKE_NVML_T0", repr(time.time() - t))
        monkeypatch.setenv("FAKE_NVML_LOG", str(log))
        if frozen:
            monkeypatch.setenv("FAKE_NVML_NOW", str(t))
        return log

    return choose


class Seen:
    """What one GPU (or MIG instance) has said so far, merged metric by metric."""

    def __init__(self) -> None:
        self.samples: list[GpuSample] = []
        self.values: dict[str, float] = {}
        self.missing: dict[str, str] = {}
        self.facts: dict[str, str] = {}
        self.events: list[GpuEvent] = []
        self.processes: tuple[GpuProcess, ...] | None = None
        self.throttle: tuple[str, ...] | None = None
        self.name = ""

    def take(self, sample: GpuSample) -> None:
        self.samples.append(sample)
        self.values.update(sample.values)
        for name, why in sample.missing.items():
            if why:
                self.missing[name] = why
                self.values.pop(name, None)
            else:
                self.missing.pop(name, None)
        self.facts.update(sample.facts)
        self.events += sample.events
        self.name = sample.name or self.name
        if sample.processes is not None:
            self.processes = sample.processes
        if sample.throttle is not None:
            self.throttle = sample.throttle

    @property
    def last(self) -> GpuSample:
        return self.samples[-1]


class Listener:
    """A sink that merges samples and lets a test wait for something."""

    def __init__(self) -> None:
        self.gpus: dict[str | int | None, Seen] = {}
        self.drivers: list[DriverSample] = []
        self.batches: list[list[Sample]] = []
        self.threads: set[str] = set()
        self._changed = threading.Condition()

    def __call__(self, samples: list[Sample]) -> None:
        with self._changed:
            self.threads.add(threading.current_thread().name)
            self.batches.append(samples)
            for sample in samples:
                if isinstance(sample, DriverSample):
                    self.drivers.append(sample)
                elif isinstance(sample, GpuSample):
                    self.gpus.setdefault(sample.uuid or sample.index, Seen()).take(sample)
            self._changed.notify_all()

    @property
    def driver(self) -> DriverSample:
        return self.drivers[-1]

    def gpu(self, index: int) -> Seen:
        """A whole GPU by NVML's index."""
        for seen in self.gpus.values():
            if seen.last.index == index and not seen.last.parent:
                return seen
        raise KeyError(index)

    def has(self, index: int) -> bool:
        return any(seen.last.index == index and not seen.last.parent for seen in self.gpus.values())

    def until(self, true: Callable[[Listener], object], seconds: float = PATIENCE_S) -> None:
        """Wait until something holds."""
        end = time.monotonic() + seconds
        with self._changed:
            while not true(self):
                left = end - time.monotonic()
                if left <= 0:
                    states = {key: (seen.last.state, len(seen.samples)) for key, seen in self.gpus.items()}
                    raise AssertionError(f"not within {seconds} s; driver {self.drivers[-1:]}, GPUs {states}")
                self._changed.wait(min(left, 0.1))

    def ready(self, gpus: int = 1) -> Listener:
        """Wait until all GPUs have made their first whole round."""
        self.until(lambda heard: sum("driver" in seen.facts for seen in heard.gpus.values()) >= gpus)
        self.until(lambda heard: sum(_round(seen) for seen in heard.gpus.values()) >= gpus)
        return self


def _round(seen: Seen) -> bool:
    return seen.processes is not None or "processes" in seen.missing


@pytest.fixture
def watching() -> Iterator[Callable[..., tuple[Any, Listener]]]:
    """watching(**options) -> (a started GpuWatch, its Listener); stopped at the end."""
    from trainmon.telemetry.gpu.watch import GpuWatch

    started: list[GpuWatch] = []

    def start(**options: Any) -> tuple[GpuWatch, Listener]:
        heard = Listener()
        watch = GpuWatch(
            heard, node="node-a", clock=SystemClock(), interval_s=options.pop("interval_s", 0.5), **options
        )
        watch.start()
        started.append(watch)
        return watch, heard

    yield start
    for watch in started:
        watch.stop()


class Fake:
    """Control of a stand-in that is loaded in this process."""

    def __init__(self, lib: Any) -> None:
        self._lib = lib
        lib.fake_nvml_set_time.argtypes = [ctypes.c_double]
        lib.fake_nvml_calls.restype = ctypes.c_ulonglong

    def at(self, t: float) -> None:
        self._lib.fake_nvml_set_time(float(t))

    def line(self, text: str) -> None:
        self._lib.fake_nvml_line(text.encode())

    def calls(self, glob: str = "*") -> int:
        return int(self._lib.fake_nvml_calls(glob.encode()))


@pytest.fixture
def nvml_here(
    stand_in: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., tuple[Any, Fake]]:
    """nvml_here(name_or_text, t=0, driver=580) -> (Nvml that is started, Fake): in this process, time standing still."""
    import pynvml

    from trainmon.telemetry.gpu.nvml import Nvml
    from trainmon.telemetry.gpu.place import BLOCK, Marker

    def load(name: str, t: float = 0.0, driver: int = 580) -> tuple[Any, Fake]:
        own = tmp_path / f"lib-{len(list(tmp_path.iterdir()))}.so"
        shutil.copy(stand_in(driver) / "libnvidia-ml.so.1", own)
        path = NVML / "scenarios" / f"{name}.scn"
        if "\n" in name:
            path = tmp_path / "inline.scn"
            path.write_text(name.replace("INCLUDE", f"include {NVML / 'scenarios'}"))
        monkeypatch.setenv("FAKE_NVML_SCENARIO", str(path))
        lib = ctypes.CDLL(str(own))
        # pynvml loads its library by the name CDLL in its own module, once, and remembers functions.
        monkeypatch.setattr(pynvml, "CDLL", lambda name: lib)
        monkeypatch.setattr(pynvml, "nvmlLib", None)
        monkeypatch.setattr(pynvml, "_nvmlLib_refcount", 0)
        monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
        fake = Fake(lib)
        fake.at(t)
        nvml = Nvml(pynvml, Marker(memoryview(bytearray(BLOCK))))
        nvml.start()
        return nvml, fake

    return load
