"""Say how to install what an extra needs, into this environment."""

from __future__ import annotations

import shlex
import sys
from importlib import metadata
from pathlib import Path

#: What the package is called where packages are installed from; another's is called `vaultmem`.
DISTRIBUTION = "vaultmem-notes"


def tell_missing(what: str | None, extra: str) -> str:
    """Say that something is not installed, and how to get what it is part of."""
    return f"{what} is not installed; {how_to_install(extra)}"


def how_to_install(extra: str) -> str:
    """Say which command installs what this environment lacks of an extra ("mcp", "web")."""
    try:
        extras = metadata.metadata(DISTRIBUTION).get_all("Provides-Extra") or ()
    except metadata.PackageNotFoundError:
        extras = ()
    if extra not in extras:  # It runs from its folder alone, or was installed without that extra.
        return f"run `pip install '.[{extra}]'`"
    return f"run `{shlex.join([*_installer(), f'{DISTRIBUTION}[{extra}]'])}`"


def _installer() -> list[str]:
    """Return what installs into the environment of this process."""
    prefix = Path(sys.prefix)
    if (prefix / "pipx_metadata.json").is_file():
        return ["pipx", "inject", DISTRIBUTION]
    if (prefix / "uv-receipt.toml").is_file():
        return ["uv", "pip", "install", "--python", sys.executable]
    return ["pip", "install"]
