"""Say how to install what an extra needs: each package by its own name, into this environment."""

from __future__ import annotations

import re
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
        needed = _list_needed(extra)
    except metadata.PackageNotFoundError:
        needed = []
    if not needed:  # It runs from its folder alone, or what was installed did not have the extra.
        return f"run `pip install '.[{extra}]'`"
    lacking = [each for each in needed if not _is_installed(each)] or needed
    return f"run `{shlex.join([*_installer(), *lacking])}`"


def _list_needed(extra: str) -> list[str]:
    """Return the requirements of an extra, as pyproject.toml has them."""
    rows = (row.partition(";") for row in metadata.requires(DISTRIBUTION) or ())
    return [each.strip() for each, _, when in rows if re.search(rf"""['"]{extra}['"]""", when)]


def _is_installed(requirement: str) -> bool:
    try:
        metadata.version(re.split(r"[^\w.-]", requirement, maxsplit=1)[0])
    except metadata.PackageNotFoundError:
        return False
    return True


def _installer() -> list[str]:
    """Return what installs into the environment of this process."""
    prefix = Path(sys.prefix)
    if (prefix / "pipx_metadata.json").is_file():
        return ["pipx", "inject", DISTRIBUTION]
    if (prefix / "uv-receipt.toml").is_file():
        return ["uv", "pip", "install", "--python", sys.executable]
    return ["pip", "install"]
