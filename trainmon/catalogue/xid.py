"""What to do about an Xid, by NVIDIA's own sorting, and whether the program is to blame.

The actions are the "immediate action" of NVIDIA's public catalogue for Ampere and later
(https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html), in plain words; where it names a whole workflow,
the first step of that. The descriptions are our own. Causes and fixes of the common ones are in `gpu-hardware.toml`,
where `trainmon explain XID_79` finds them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Action = Literal["none", "restart the job", "reset the GPU", "reboot", "check the hardware", "contact support"]


@dataclass(frozen=True, slots=True)
class Xid:
    """One Xid number.

    Attributes:
        what: What happened, in a few words.
        action: What NVIDIA's catalogue asks for first.
        own: As a rule the program's own fault, not the board's.
        echo: It only follows another one (a clean-up): alone it is no news.
    """

    code: int
    what: str
    action: Action
    own: bool = False
    echo: bool = False


def _table() -> dict[int, Xid]:
    none: Action = "none"
    restart: Action = "restart the job"
    reset: Action = "reset the GPU"
    check: Action = "check the hardware"
    support: Action = "contact support"
    rows: tuple[tuple[int, str, Action, str], ...] = (
        (8, "the GPU stopped processing", restart, ""),
        (11, "a broken command stream", restart, "own"),
        (13, "a kernel faulted", restart, "own"),
        (25, "a broken command stream", restart, "own"),
        (31, "the program touched memory that is not mapped", restart, "own"),
        (32, "a broken command stream", restart, ""),
        (37, "a firmware error", none, ""),
        (38, "a firmware error", none, ""),
        (39, "the copy engine faulted", restart, ""),
        (43, "the driver stopped the program's work after its fault", none, "own echo"),
        (44, "a fault while switching between programs", none, ""),
        (45, "a clean-up after a program ended or failed", none, "own echo"),
        (46, "the GPU stopped processing", reset, ""),
        (48, "an uncorrectable memory error", reset, ""),
        (54, "the auxiliary power is not connected", check, ""),
        (60, "the video engine faulted", restart, ""),
        (61, "an internal controller stopped", support, ""),
        (62, "an internal controller halted", reset, ""),
        (63, "a bad memory row will be remapped at the next reset", none, ""),
        (64, "a bad memory row could not be remapped", reset, ""),
        (66, "an illegal access by the driver", none, ""),
        (67, "an illegal access by the driver", none, ""),
        (68, "the video decoder faulted", restart, ""),
        (69, "the graphics engine met a wrong command", restart, "own"),
        (74, "an NVLink failed", reset, ""),
        (78, "vGPU did not start", support, ""),
        (79, "the GPU has fallen off the bus", "reboot", ""),
        (80, "corrupted data was sent to the GPU", restart, ""),
        (92, "many corrected memory errors", none, ""),
        (93, "a wear limit of its configuration memory", none, ""),
        (94, "a memory error that hit this program only", restart, ""),
        (95, "a memory error that may have hit every program", reset, ""),
        (109, "switching between programs timed out", reset, ""),
        (110, "a security fault", reset, ""),
        (119, "the GPU's system processor does not answer", reset, ""),
        (120, "the GPU's system processor failed", reset, ""),
        (121, "corrected errors on the chip-to-chip link", none, ""),
        (136, "an NVLink could not be trained", reset, ""),
        (137, "an NVLink request was refused, as when the peer faulted", none, "echo"),
        (140, "uncorrected memory errors", reset, ""),
        (141, "a fast path of CUDA failed", none, ""),
        (143, "the GPU did not start", reset, ""),
        (144, "an NVLink fault (SAW)", check, ""),
        (145, "an NVLink fault (RLW)", check, ""),
        (146, "an NVLink fault (TLW)", check, ""),
        (147, "an NVLink fault (TREX)", check, ""),
        (148, "an NVLink fault (NVLPW)", check, ""),
        (149, "an NVLink fault (NETIR)", check, ""),
        (150, "an NVLink fault (MSE)", check, ""),
        (151, "a key could not be changed", "reboot", ""),
        (154, "the driver asks for a reset or a reboot", none, "echo"),
        (155, "an NVLink fault told by software", reset, ""),
        (156, "a part of the GPU was retired", reset, ""),
        (157, "a part of the GPU could not be retired", none, ""),
        (158, "a fatal time-out inside the GPU", reset, ""),
        (160, "a channel of its memory was retired", none, ""),
        (161, "a channel of its memory could not be retired", none, ""),
        (167, "a fatal time-out of PCIe", support, ""),
        (168, "a part of its memory is switched off", none, ""),
        (171, "details of an uncorrectable memory error", none, "echo"),
        (172, "details of an uncorrectable memory error", none, "echo"),
    )
    return {n: Xid(n, what, action, "own" in more, "echo" in more) for n, what, action, more in rows}


_KNOWN = _table()


def xid(code: int) -> Xid:
    """What is known of an Xid number; of an unknown one that NVIDIA's catalogue should be asked."""
    found = _KNOWN.get(code)
    return found if found is not None else Xid(code, "a fault that the driver reports", "contact support")
