"""How many files this process may have open, as far as the system lets it be raised."""

from __future__ import annotations

import contextlib
import sys

#: What is assumed where the system does not tell: few systems give less.
_ASSUMED = 512


def raise_file_limit(wanted: int) -> int:
    """Let this process have so many files open, or as many as it may have; return how many."""
    if sys.platform == "win32":
        return _ASSUMED
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    if soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
