"""Links of a GPU: NVLinks that are down or count errors, an NVLink fabric that is not up, a PCIe link below its size.

Boards differ in how many links are wired, so a link is down when it was up before, or when the same boards beside it
have more. PCIe slows down at rest to save power, so it is judged under load only, and a machine whose boards all sit
in narrow slots is built so. A fabric that is not up leaves every link "active" and training ten to a hundred times
slower, with no error anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable

from trainmon import units
from trainmon.diagnosis.machine import BUSY_PERCENT, Gpu
from trainmon.diagnosis.pulse import Pulse
from trainmon.diagnosis.thresholds import Thresholds
from trainmon.diagnosis.watch import Watch
from trainmon.model import Incident
from trainmon.series.robust import median

ERRORS = 100.0
"""New errors of a GPU's NVLinks within ten minutes: single replays are mended by the link itself."""
ERRORS_S = 600.0
LOAD_S = 10.0
ADVICE_NVLINK = (
    "nvidia-smi nvlink -s and -e on {node}: which link, and which GPU at its other end?",
    "drain {node} and reset the GPUs; comes back: cables, bridge or switch want a look",
)
ADVICE_FABRIC = (
    "nvidia-smi -q on {node}, section Fabric: state Completed and status Success are right",
    "restart the fabric manager (nvidia-fabricmanager, IMEX) and reset the GPU, or drain {node}",
)
ADVICE_PCIE = (
    "nvidia-smi -q -d PCIE -i {index} on {node}; lspci -vv shows the link's state, dmesg its errors (AER)",
    "drain {node} and reseat board or riser",
)


class GpuLinks(Watch):
    """The detector; one incident a GPU and kind of link."""

    def __init__(self, pulse: Pulse, thresholds: Thresholds) -> None:
        super().__init__(pulse, thresholds)
        self._most: dict[str, float] = {}  # links that were up at most
        self._errors: dict[str, tuple[float, float]] = {}  # (count, time) from which a rise is counted
        self._size: dict[str, tuple[float, float]] = {}  # PCIe (generation, lanes) at most under load

    def look_gpu(self, gpu: Gpu, at: float) -> Iterable[Incident]:
        if self.thresholds.gpu_links is None or gpu.state != "ok":
            return ()
        out: list[Incident] = []
        if gpu.now("nvlinks_up") is not None:
            out += self._nvlink(gpu)
        if gpu.now("nvlink_errors") is not None:
            out += self._nvlink_errors(gpu)
        if gpu.now("fabric_ok") is not None:
            out += self._fabric(gpu)
        if gpu.now("pcie_width") is not None or gpu.now("pcie_gen") is not None:
            out += self._pcie(gpu)
        return out

    def _nvlink(self, gpu: Gpu) -> list[Incident]:
        up = gpu.values["nvlinks_up"]
        key = f"gpu_fault:{gpu.node}:{gpu.label}:nvlink"
        most = self._most[gpu.key] = max(up, self._most.get(gpu.key, 0.0))
        theirs = [o.values["nvlinks_up"] for o in self.fleet.siblings(gpu) if "nvlinks_up" in o.values]
        should = max(most, median(theirs) if len(theirs) > 1 else 0.0)
        if up >= should:
            return self.end(key, gpu.time, f"all {up:.0f} links are up")
        down = should - up
        return self.begin(
            gpu,
            key,
            "gpu_fault",
            "warning",
            "NVLINK DOWN",
            f"{down:.0f} of {should:.0f} NVLinks down",
            slows=f"{gpu.label}: {down:.0f} of {should:.0f} NVLinks down",
            outlook="its traffic with the other GPUs is slower: all wait for it",
            advice=ADVICE_NVLINK,
            evidence=(
                ("nvlinks_up", up),
                ("nvlinks_up_before", most),
                ("others_up", median(theirs) if theirs else None),
                ("nvlink_errors", gpu.values.get("nvlink_errors")),
            ),
        )

    def _nvlink_errors(self, gpu: Gpu) -> list[Incident]:
        count = gpu.values["nvlink_errors"]
        key = f"gpu_fault:{gpu.node}:{gpu.label}:nvlink_errors"
        start = self._errors.get(gpu.key)
        if start is None or count < start[0]:
            self._errors[gpu.key] = (count, gpu.time)
            return []
        rise = count - start[0]
        if gpu.time - start[1] > ERRORS_S:
            self._errors[gpu.key] = (count, gpu.time)
            if rise < ERRORS / 2.0:
                return self.end(key, gpu.time, f"{rise:.0f} new errors in ten minutes")
        if rise < ERRORS:
            return []
        return self.begin(
            gpu,
            key,
            "gpu_fault",
            "warning",
            "NVLINK ERRORS",
            f"{units.count(rise)} new errors on its NVLinks in {units.duration(gpu.time - start[1])}",
            outlook="it mends them by sending again: slower, and a sign that a link fails",
            advice=ADVICE_NVLINK,
            since=start[1],
            evidence=(("new_errors", rise), ("bar", ERRORS), ("within_s", ERRORS_S), ("nvlink_errors", count)),
        )

    def _fabric(self, gpu: Gpu) -> list[Incident]:
        key = f"gpu_fault:{gpu.node}:{gpu.label}:fabric"
        if gpu.values["fabric_ok"] != 0.0:
            return self.end(key, gpu.time, "the fabric is up")
        if not gpu.occupied:
            return []
        return self.begin(
            gpu,
            key,
            "gpu_fault",
            "warning",
            "FABRIC DOWN",
            "its NVLink fabric is not up",
            slows=f"{gpu.label}: its NVLink fabric is not up",
            outlook="traffic goes over PCIe and the network: 10 to 100 times slower, without any error",
            advice=ADVICE_FABRIC,
            evidence=(("fabric_ok", 0), ("fabric", gpu.facts.get("fabric"))),
        )

    def _pcie(self, gpu: Gpu) -> list[Incident]:
        gen, width = gpu.values.get("pcie_gen"), gpu.values.get("pcie_width")
        if gen is None or width is None or "unified" in gpu.facts.get("memory", ""):
            return []
        key = f"gpu_fault:{gpu.node}:{gpu.label}:pcie"
        loaded = [gpu.readings.util[i] for i in gpu.readings.since(gpu.time - LOAD_S)]
        if not loaded or any(not util >= BUSY_PERCENT for util in loaded):
            return []
        before = self._size.get(gpu.key, (0.0, 0.0))
        most = self._size[gpu.key] = (max(gen, before[0]), max(width, before[1]))
        sizes = [self._size[o.key] for o in self.fleet.siblings(gpu) if o.key in self._size]
        should_gen = max(most[0], median([s[0] for s in sizes]) if len(sizes) > 1 else 0.0)
        should_width = max(most[1], median([s[1] for s in sizes]) if len(sizes) > 1 else 0.0)
        limit_gen, limit_width = gpu.values.get("pcie_gen_max", gen), gpu.values.get("pcie_width_max", width)
        if not sizes and before == (0.0, 0.0) and (width * 4.0 <= limit_width or gen + 2.0 <= limit_gen):
            should_gen, should_width = limit_gen, limit_width  # alone, and far below what board and slot can do
            self._size[gpu.key] = (limit_gen, limit_width)
        if gen >= should_gen and width >= should_width:
            return self.end(key, gpu.time, f"gen{gen:.0f} x{width:.0f} again")
        return self.begin(
            gpu,
            key,
            "gpu_fault",
            "warning",
            "PCIE DEGRADED",
            f"gen{gen:.0f} x{width:.0f} under load instead of gen{should_gen:.0f} x{should_width:.0f}",
            slows=f"{gpu.label}: PCIe gen{gen:.0f} x{width:.0f} instead of gen{should_gen:.0f} x{should_width:.0f}",
            outlook="data and offloaded states reach it more slowly",
            advice=ADVICE_PCIE,
            evidence=(
                ("pcie_gen", gen),
                ("pcie_width", width),
                ("expected_gen", should_gen),
                ("expected_width", should_width),
                ("pcie_replays", gpu.values.get("pcie_replays")),
            ),
        )

    def forgotten(self, key: str) -> None:
        self._most.pop(key, None)
        self._errors.pop(key, None)
        self._size.pop(key, None)
