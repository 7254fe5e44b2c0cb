"""The user's own files: list of vaults, settings folder, and files of this package.

This module is imported at startup, so it imports the standard library's `json` only on demand.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


FILE_NAME = "vaults.json"

#: Most characters of a vault's name in the list.
_MAX_NAME_CHARS = 40

#: Most vaults that an error message lists.
_MAX_LISTED_VAULTS = 5


def is_vault_name(name: str) -> bool:
    """Return whether a name is valid in the list: not a path or an address."""
    rest = name.translate({ord(each): None for each in "_.-"})
    is_plain = rest.isalnum() or not rest
    return name[:1].isalnum() and is_plain and len(name) <= _MAX_NAME_CHARS


def find_named(name: str, config: str | Path) -> str:
    """Return the folder that is listed under a name, or `name` itself.

    An existing folder at the path `name` has precedence over the list.
    """
    if not is_vault_name(name) or os.path.isdir(name):
        return name
    return read_vaults(config, anyway=True).get(name, name)


def find_only(config: str | Path) -> str:
    """Return the folder of the only vault on the list, "" if the list is empty.

    Raises:
        NoVaultError: the list has several vaults, or one that does not exist.
    """
    vaults = read_vaults(config, anyway=True)
    if not vaults:
        return ""
    missing_names = {name for name, path in vaults.items() if not _is_vault(path)}
    if len(vaults) == 1 and not missing_names:
        return next(iter(vaults.values()))
    from vaultmem.core.text.display import escape_bytes, one_line
    from vaultmem.errors import NoVaultError

    descriptions = [
        f"{name} ({one_line(escape_bytes(path))}{', not there' if name in missing_names else ''})"
        for name, path in vaults.items()
    ]
    reason = "no vault is around the current folder"
    if len(vaults) > 1:
        if len(descriptions) > _MAX_LISTED_VAULTS:
            left = len(descriptions) - _MAX_LISTED_VAULTS
            descriptions[_MAX_LISTED_VAULTS:] = [f"and {left} more (`vaultmem vault list`)"]
        raise NoVaultError(
            f"{reason}, and {len(vaults)} are on your list: {', '.join(descriptions)}; "
            "name one with --vault NAME"
        )
    raise NoVaultError(
        f"{reason}, and the one on your list is {descriptions[0]}; name a vault with --vault, or "
        f"run `vaultmem vault remove {next(iter(vaults))}`"
    )


def _is_vault(path: str) -> bool:
    return os.path.isfile(os.path.join(path, "vaultmem.yaml"))


def read_vaults(config: str | Path, anyway: bool = False) -> dict[str, str]:
    """Return the folders of the vaults in the list by name, in the list's order.

    With `anyway`, a list that cannot be read is empty.

    Raises:
        VaultError: the list cannot be read.
    """
    import json

    file = os.path.join(config, FILE_NAME)
    try:
        with open(file, encoding="utf-8", errors="surrogateescape") as stream:
            vaults = json.load(stream)["vaults"]
        if all(isinstance(each, str) for each in vaults.values()):
            return {name: path for name, path in vaults.items() if is_vault_name(name)}
        problem = "a path is not text"
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        problem = str(error)
    if anyway:
        return {}
    from vaultmem.errors import VaultError

    raise VaultError(f"{file}: cannot be read ({problem}); correct or remove it")


def write_vaults(config: Path, vaults: Mapping[str, str]) -> None:
    """Replace the list of vaults.

    Raises:
        SystemFailureError: writing failed.
    """
    import json

    from vaultmem.errors import SystemFailureError
    from vaultmem.storage.atomic import make_private_folder, write_atomically

    file = config / FILE_NAME
    try:
        make_private_folder(config)
        data = json.dumps({"vaults": dict(vaults)}, indent=1, ensure_ascii=False)
        write_atomically(file, data.encode("utf-8", "surrogateescape") + b"\n", mode=0o600)
    except OSError as error:
        raise SystemFailureError(f"{file}: could not be written: {error.strerror}") from error


# The user's own folders, as in platformdirs; on Linux without importing it (5 ms).

#: The default of each kind's `$XDG_..._HOME` on Linux, relative to the home folder.
_LINUX = {"state": ".local/state", "config": ".config", "data": ".local/share"}

#: Debian's home for users without one; it does not exist.
_NONEXISTENT_HOME = "/nonexistent"


def find_user_folder(kind: str, environment: Mapping[str, str]) -> str:
    """Return the user's folder of vaultmem for "state", "config" or "data".

    If the environment does not name it, platformdirs finds it. A user without a home gets a folder
    that cannot be created.
    """
    xdg_folder = environment.get(f"XDG_{kind.upper()}_HOME", "")
    folder = xdg_folder or os.path.join(environment.get("HOME", ""), _LINUX[kind])
    if sys.platform == "linux" and os.path.isabs(folder):
        return os.path.join(folder, "vaultmem")
    import platformdirs

    try:
        return str(getattr(platformdirs, f"user_{kind}_dir")("vaultmem", appauthor=False))
    except RuntimeError:  # A user without a home.
        return os.path.join(_NONEXISTENT_HOME, _LINUX[kind], "vaultmem")


# Folders that are shipped with the package: templates, and the sample vault.


def find_package_folder(name: str) -> Path:
    """Return a folder of shipped files: in the installed package, or next to it in a clone."""
    from pathlib import Path

    package = Path(__file__).parents[1]
    folder = package / name
    return folder if folder.is_dir() else package.parent / name


# The commands to install missing packages into this environment.

#: The package's name on PyPI, where `vaultmem` is another package.
DISTRIBUTION = "vaultmem-notes"


def describe_missing(package: str | None, extra: str) -> str:
    """Return the message that something is not installed, with the command to install its extra."""
    return f"{package} is not installed; {how_to_install(extra)}"


def how_to_install(extra: str) -> str:
    """Return "run `...`" with the command that installs an extra ("mcp", "web") here."""
    import shlex
    from importlib import metadata  # It loads `email` and `zipfile`.

    try:
        extras = metadata.metadata(DISTRIBUTION).get_all("Provides-Extra") or ()
    except metadata.PackageNotFoundError:
        extras = ()
    if extra not in extras:  # It runs from a clone, or its distribution lacks this extra.
        return f"run `pip install '.[{extra}]'`"
    return f"run `{shlex.join([*_installer(), f'{DISTRIBUTION}[{extra}]'])}`"


def _installer() -> list[str]:
    """Return the command that installs into the environment of this process."""
    if os.path.isfile(os.path.join(sys.prefix, "pipx_metadata.json")):
        return ["pipx", "inject", DISTRIBUTION]
    if os.path.isfile(os.path.join(sys.prefix, "uv-receipt.toml")):
        return ["uv", "pip", "install", "--python", sys.executable]
    return ["pip", "install"]
