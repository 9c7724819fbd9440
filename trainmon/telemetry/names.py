"""What this machine is called in samples."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping

VARIABLES = ("TRAINMON_NODE", "SLURMD_NODENAME")
"""Names that win over the host's own: a container's host name is a number that nobody knows."""


def node_name(env: Mapping[str, str] | None = None) -> str:
    """Return the machine's short name: one word without a domain, "host" where it has none.

    Args:
        env: The environment; None: the process's own.
    """
    env = os.environ if env is None else env
    for variable in VARIABLES:
        name = env.get(variable, "").strip()
        if name:
            return _clean(name)
    try:
        # No look-up: the kernel's own word.
        return _clean(platform.node().partition(".")[0])
    except OSError:
        return "host"


def _clean(name: str) -> str:
    kept = "".join(sign for sign in name if sign.isprintable() and sign not in "/\\ ")
    return kept[:64] or "host"
