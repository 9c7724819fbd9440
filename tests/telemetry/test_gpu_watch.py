"""The watchdog's own life: start, stop, let go, crash, and a parent that is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from trainmon.clock import ManualClock, SystemClock
from trainmon.telemetry.gpu.leftout import RETRY_MOST_S, RETRY_S, LeftOut
from trainmon.telemetry.gpu.place import BLOCK, IDLE, Marker, Wishes, read_place, write_wishes
from trainmon.telemetry.gpu.verdict import CALL_S, DRIVER_S, START_S, stuck
from trainmon.telemetry.gpu.watch import GpuWatch

WORKER = """
import json, mmap, os, signal, sys, time
from trainmon.telemetry.gpu.place import Marker
options = json.loads(sys.argv[1])
marker = Marker(memoryview(mmap.mmap(options["fd"], 0)))
def say(**line):
    os.write(1, (json.dumps(line) + "\\n").encode())
def sample(index):
    say(**{"trainmon": "gpu/1", "node": "n", "index": index, "uuid": f"GPU-{index}", "time": time.time(), "values": {"gpu_power_w": 1}})
"""


@pytest.fixture
def fake_worker(tmp_path: Path):
    """fake_worker(text) -> a command whose worker does what the text says."""

    def make(text: str) -> tuple[str, ...]:
        path = tmp_path / "worker.py"
        path.write_text(WORKER + textwrap.dedent(text))
        return sys.executable, str(path)

    return make


def gone(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True
    return stat.rpartition(")")[2].split()[0] in "ZX"


def until(true, seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.needs_cc
def test_letting_go_leaves_no_process_and_taking_hold_reads_again(scene, watching) -> None:
    scene("h100x8-exact", t=5)
    watched, heard = watching()
    heard.ready(8)
    worker = watched._worker
    watched.release()
    heard.until(lambda h: h.driver.state == "released")
    until(lambda: gone(worker.pid))
    count = len(heard.batches)
    time.sleep(1.2)
    assert len(heard.batches) == count
    watched.resume()
    heard.until(lambda h: h.driver.state == "ok")
    samples = len(heard.gpu(0).samples)
    heard.until(lambda h: len(h.gpu(0).samples) > samples)


@pytest.mark.needs_cc
def test_stopping_is_quick_and_silent(scene, watching) -> None:
    scene("h100x8-exact", t=5)
    watched, heard = watching()
    heard.ready(8)
    pid = watched._worker.pid
    watched.stop()
    count = len(heard.batches)
    until(lambda: gone(pid))
    assert len(heard.batches) == count
    watched.stop()  # a second time does no harm


@pytest.mark.needs_cc
def test_a_killed_parent_leaves_no_worker(scene, tmp_path: Path) -> None:
    scene("h100x8-exact", t=5)
    pids = tmp_path / "pids"
    parent = subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"""
import time
from pathlib import Path
from trainmon.clock import SystemClock
from trainmon.telemetry.gpu.watch import GpuWatch
heard = []
watch = GpuWatch(heard.extend, node="n", clock=SystemClock(), interval_s=0.5)
watch.start()
while len(heard) < 12:
    time.sleep(0.05)
Path({str(pids)!r}).write_text(str(watch._worker.pid))
time.sleep(60)
""",
        ]
    )
    try:
        until(lambda: pids.exists() and pids.read_text())
        worker = int(pids.read_text())
        assert not gone(worker)
        parent.send_signal(signal.SIGKILL)
        until(lambda: gone(worker))
    finally:
        parent.kill()
        parent.wait()


@pytest.mark.needs_cc
def test_the_interval_can_be_changed_under_way(scene, watching) -> None:
    scene("h100x8-exact", t=5)
    watched, heard = watching(interval_s=30.0)
    heard.ready(8)
    count = len(heard.gpu(0).samples)
    watched.set_interval(0.5)
    heard.until(lambda h: len(h.gpu(0).samples) > count + 3)


def test_a_worker_that_crashes_is_started_again_and_said(fake_worker, watching, tmp_path: Path) -> None:
    once = tmp_path / "once"
    text = f"""
    sample(0)
    say(tick=1)
    if not os.path.exists({str(once)!r}):
        open({str(once)!r}, "w").close()
        marker.at("nvmlDeviceGetName", 0)
        os.kill(os.getpid(), signal.SIGSEGV)
    while True:
        marker.at("idle")
        time.sleep(0.2)
        sample(0)
    """
    _, heard = watching(command=fake_worker(text))
    heard.until(lambda h: any(driver.state == "failing" for driver in h.drivers))
    told = next(driver for driver in heard.drivers if driver.state == "failing")
    assert "signal 11 in nvmlDeviceGetName" in told.sentence
    heard.until(lambda h: len(h.gpu(0).samples) > 4)


def test_a_gpu_that_crashes_the_worker_twice_is_left_out(fake_worker, watching) -> None:
    text = """
    sample(0)
    sample(1)
    if marker.wishes().left_out & 2:
        say(tick=1)
        while True:
            marker.at("idle")
            time.sleep(0.2)
            sample(0)
    marker.at("nvmlDeviceGetName", 1)
    os.kill(os.getpid(), signal.SIGSEGV)
    """
    _, heard = watching(command=fake_worker(text))
    heard.until(lambda h: h.has(1) and h.gpu(1).last.state == "failing")
    assert "nvmlDeviceGetName ended the process that reads NVML (signal 11)" in heard.gpu(1).last.sentence
    assert heard.gpu(1).last.uuid == "GPU-1"
    count = len(heard.gpu(0).samples)
    heard.until(lambda h: len(h.gpu(0).samples) > count + 3)


def test_a_hang_in_another_process_s_memory_costs_its_name_only(fake_worker, watching) -> None:
    text = """
    while True:
        marker.at("idle")
        sample(0)
        if marker.wishes().names:
            marker.at("/proc/4711")
            time.sleep(600)
        time.sleep(0.2)
    """
    _, heard = watching(command=fake_worker(text))
    heard.until(lambda h: h.has(0) and len(h.gpu(0).samples) > 5)
    assert heard.gpu(0).last.state == "ok" and {driver.state for driver in heard.drivers} == {"starting"}


def test_nonsense_on_the_pipe_is_passed_over(fake_worker, watching) -> None:
    text = r"""
    os.write(1, b"\xff\xfe not json\n[1, 2]\n{}\n" + b"x" * 3_000_000 + b"\n")
    say(trainmon="gpu/1", node=5)
    while True:
        marker.at("idle")
        sample(0)
        say(tick=1)
        time.sleep(0.2)
    """
    _, heard = watching(command=fake_worker(text))
    heard.until(lambda h: h.has(0) and len(h.gpu(0).samples) > 3)


def test_a_worker_that_cannot_be_started_is_said(watching) -> None:
    _, heard = watching(command=("/nonexistent/python",))
    heard.until(lambda h: h.driver.state == "failing")
    assert "cannot be started" in heard.driver.sentence


def test_a_worker_that_ends_before_it_speaks_makes_up_no_gpu(watching) -> None:
    _, heard = watching(command=(sys.executable, "-c", "raise SystemExit(1)"))
    heard.until(lambda listener: sum("exit code 1" in one.sentence for one in listener.drivers) >= 3)
    assert not heard.has(0)


def test_a_listener_that_fails_does_not_end_the_watch(fake_worker) -> None:
    heard: list[object] = []

    def sink(samples: list[object]) -> None:
        heard.extend(samples)
        raise RuntimeError("the screen is gone")

    watch = GpuWatch(
        sink,
        node="n",
        clock=SystemClock(),
        command=fake_worker(
            "while True:\n    marker.at('idle')\n    sample(0)\n    say(tick=1)\n    time.sleep(0.1)\n"
        ),
    )
    watch.start()
    try:
        until(lambda: len(heard) > 5)
    finally:
        watch.stop()


def test_no_nvml_call_is_made_in_this_process() -> None:
    code = "import sys; import trainmon.telemetry.gpu.watch; print('pynvml' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"


class FakeChild:
    only = None

    def __init__(self, born: float, starved: bool = False) -> None:
        self.block = memoryview(bytearray(BLOCK))
        self.born = born
        self.marker = Marker(self.block)
        self._starved = starved

    def place(self):
        return read_place(self.block)

    def short_of_time(self) -> bool:
        return self._starved


class TestVerdict:
    @pytest.mark.parametrize(
        ("call", "device", "opened", "suspicious", "allowed"),
        [
            ("nvmlDeviceGetPowerUsage", 3, True, False, CALL_S),
            ("nvmlDeviceGetHandleByIndex", 3, False, False, 5.0),
            ("nvmlInit", -1, True, False, START_S),
            ("nvmlInit", -1, True, True, DRIVER_S),
            ("nvmlDeviceGetCount", -1, True, False, DRIVER_S),
            (IDLE, -1, True, False, 3.0),
            ("write", -1, True, False, 10.0),
        ],
    )
    def test_each_place_has_its_patience(self, call, device, opened, suspicious, allowed) -> None:
        child = FakeChild(time.monotonic())
        child.marker.at(call, device, opened)
        now = time.monotonic()
        assert stuck(child, now + allowed - 0.1, suspicious) is None
        place = stuck(child, now + allowed + 0.1, suspicious)
        assert place is not None and (place.call, place.device) == (call, device)

    def test_a_worker_short_of_a_processor_gets_more_time(self) -> None:
        child = FakeChild(time.monotonic(), starved=True)
        child.marker.at("nvmlDeviceGetPowerUsage", 0)
        assert stuck(child, time.monotonic() + 3 * CALL_S, False) is None
        assert stuck(child, time.monotonic() + 5 * CALL_S, False) is not None

    def test_one_that_never_begins_is_stuck_too(self) -> None:
        child = FakeChild(100.0)
        assert stuck(child, 109.0, False) is None
        assert stuck(child, 111.0, False) is not None

    def test_the_others_go_on_within_two_seconds(self) -> None:
        assert CALL_S < 2.0  # the rest is the start of a worker


class TestLeftOut:
    def test_pauses_double_up_to_ten_minutes(self) -> None:
        out = LeftOut("n", ManualClock())
        out.know(1, "GPU-x")
        out.add(1, "nvmlDeviceGetName", 1.5, now=0.0)
        assert out.mask == 2 and 1 in out
        assert out.due(RETRY_S - 1) is None
        now = 0.0
        pauses = []
        for _ in range(6):
            pause = out._gpus[1].pause
            pauses.append(pause)
            now += pause + 1
            assert out.due(now) == 1
            assert out.due(now) is None
            out.in_vain(1, now)
        assert pauses == [60, 120, 240, 480, 600, 600] and pauses[-1] == RETRY_MOST_S

    def test_one_that_hangs_again_and_again_is_asked_more_and_more_seldom(self) -> None:
        out = LeftOut("n", ManualClock())
        out.add(1, "a", 0, now=0.0)
        out.remove(1)
        out.add(1, "a", 0, now=100.0)
        assert out.due(100 + RETRY_S + 1) is None
        assert out.due(100 + 2 * RETRY_S + 1) == 1

    def test_its_sentence_names_call_and_time(self) -> None:
        out = LeftOut("n", ManualClock(1_700_000_000.0))
        out.know(4, "GPU-x")
        out.add(4, "nvmlDeviceGetMemoryInfo", 9.0, now=0.0)
        sample = out.sample(4)
        assert sample.since == 1_699_999_991.0 and sample.uuid == "GPU-x"
        assert "no answer to nvmlDeviceGetMemoryInfo since" in sample.sentence
        assert "asked again in 60 s" in sample.sentence


def test_wishes_and_places_cross_the_shared_block() -> None:
    block = memoryview(bytearray(BLOCK))
    marker = Marker(block)
    write_wishes(block, Wishes(2.5, 0b1010, False))
    assert marker.wishes() == Wishes(2.5, 0b1010, False)
    marker.at("nvmlDeviceGetTemperatureThreshold" + "x" * 60, 7, False)
    place = read_place(block)
    assert (place.device, place.opened) == (7, False) and place.call.startswith("nvmlDeviceGetTemperatureThreshold")
    assert abs(place.since - time.monotonic()) < 5
    assert marker.wishes() == Wishes(2.5, 0b1010, False)


@pytest.mark.parametrize(
    "words",
    [
        "os.write(1, b'[' * 200_000 + b'\\n')",
        "os.write(1, b'\\xff\\0' * 1000 + b'\\n{\"end\": [1]}\\n[]\\n1\\n')",
        "mmap.mmap(options['fd'], 0)[:12] = bytes((1, 0, 0, 0, 0, 0, 0, 0, 0x77, 0x77, 1, 0)); time.sleep(3)",
        "mmap.mmap(options['fd'], 0)[:12] = bytes((1, 0, 0, 0, 0, 0, 0, 0, 0x77, 0xff, 1, 0)); time.sleep(3)",
    ],
)
def test_a_worker_out_of_its_mind_does_not_end_the_watch(fake_worker, watching, tmp_path: Path, words: str) -> None:
    first = tmp_path / "first"
    text = f"if not os.path.exists({str(first)!r}):\n    open({str(first)!r}, 'w').close()\n    {words}\n"
    watched, heard = watching(
        command=fake_worker(text + "while True:\n    sample(0)\n    say(tick=1)\n    time.sleep(0.2)")
    )
    heard.until(lambda h: h.has(0))
    assert watched._thread.is_alive()


def test_a_worker_that_writes_without_end_is_read_in_portions(fake_worker, watching) -> None:
    watched, heard = watching(
        command=fake_worker("sample(0)\nwhile True:\n    os.write(1, b'{\"tick\": 1}\\n' * 5000)\n")
    )
    heard.until(lambda h: h.has(0))
    assert watched._worker is not None and len(watched._worker.lines() or ()) < 400_000


def test_whatever_fails_in_the_watch_it_goes_on(fake_worker, watching, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainmon.telemetry.gpu.watch.TRY_S", 0.1)
    once = iter([ZeroDivisionError()])
    taken = GpuWatch._take

    def take(self, *args) -> None:
        for error in once:
            raise error
        taken(self, *args)

    monkeypatch.setattr(GpuWatch, "_take", take)
    _, heard = watching(command=fake_worker("while True:\n    sample(0)\n    time.sleep(0.2)"))
    heard.until(lambda h: h.driver.state == "failing" and h.has(0))
