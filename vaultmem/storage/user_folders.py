"""The user's own folders, as platformdirs has them; on Linux without importing it (5 ms)."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

#: Each kind's folder in one's home under Linux, where no `$XDG_..._HOME` names another.
_LINUX = {"state": ".local/state", "config": ".config", "data": ".local/share"}

#: Debian's home of those who have none: it is not there.
_NOBODY = "/nonexistent"


def find_user_folder(kind: str, environment: Mapping[str, str]) -> str:
    """Return the user's folder of vaultmem for "state", "config" or "data".

    What the environment does not say, platformdirs finds out by itself: by the list of users. Who
    is not in it has a folder that cannot be made.
    """
    named = environment.get(f"XDG_{kind.upper()}_HOME", "")
    folder = named or os.path.join(environment.get("HOME", ""), _LINUX[kind])
    if sys.platform == "linux" and os.path.isabs(folder):
        return os.path.join(folder, "vaultmem")
    import platformdirs

    try:
        return str(getattr(platformdirs, f"user_{kind}_dir")("vaultmem", appauthor=False))
    except RuntimeError:  # A user without a home.
        return os.path.join(_NOBODY, _LINUX[kind], "vaultmem")
