"""How many files may be held open."""

from __future__ import annotations

import resource

_WANTED = 16384
_RESERVE = 64


def raise_limit() -> int:
    """Raise the soft limit of descriptors as far as allowed; returns how many files may be held open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _WANTED if hard == resource.RLIM_INFINITY else min(hard, _WANTED)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
        except (OSError, ValueError):
            pass
    return _WANTED if soft == resource.RLIM_INFINITY else max(16, soft - _RESERVE)
