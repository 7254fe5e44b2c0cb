"""Which vaults a pool has, and where each one's truth is: a bare git repository."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from vaultmem.errors import RefusedError, VaultError
from vaultmem.storage.vault_list import is_vault_name


class Source(NamedTuple):
    """A vault of a pool: its name there, its remote (URL or path), its branch, else HEAD's."""

    name: str
    remote: str
    branch: str = ""


def check_sources(sources: Iterable[Source]) -> dict[str, Source]:
    """Return sources by name, in their order.

    Raises:
        RefusedError: a name cannot be one, or two are the same but for capitals; a remote is none.
    """
    found: dict[str, Source] = {}
    known: set[str] = set()
    for each in sources:
        if not is_vault_name(each.name):
            raise RefusedError(
                f'"{each.name}" cannot be a vault\'s name: letters, digits, "-", "." and "_", '
                "40 at most"
            )
        if each.name.casefold() in known:
            raise RefusedError(f"{each.name}: named twice; give each vault a name of its own")
        if not each.remote.strip() or each.remote.startswith("-") or "\n" in each.remote:
            raise RefusedError(f"{each.name}: its remote has to be an address or a folder")
        known.add(each.name.casefold())
        found[each.name] = each
    return found


def read_sources(file: Path) -> list[Source]:
    """Return the sources of a file: `NAME REMOTE [BRANCH]` a line; `#` begins a remark.

    A remote that is a relative path is one from the file's folder. Of a folder, they are the bare
    repositories in it (`NAME.git`).

    Raises:
        RefusedError: a line says something else, or names cannot be used.
        VaultError: the file cannot be read.
    """
    if file.is_dir():
        return _list_repositories(file)
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise RefusedError(f"{file}: not UTF-8; save it so") from None
    except OSError as error:
        why = error.strerror or error
        raise VaultError(f"{file}: {why}; name a file or folder that says which vaults") from None
    found = []
    for number, line in enumerate(lines, 1):
        words = line.partition(" #")[0].split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) not in {2, 3}:
            raise RefusedError(f"{file}, line {number}: write NAME REMOTE, and a branch if need be")
        remote = words[1]
        if remote.startswith((".", "~")):
            remote = str((file.parent / Path(remote).expanduser()).resolve())
        found.append(Source(words[0], remote, *words[2:]))
    return list(check_sources(found).values())


def _list_repositories(folder: Path) -> list[Source]:
    found = sorted(each for each in folder.glob("*.git") if (each / "HEAD").is_file())
    if not found:
        raise RefusedError(f"{folder}: no bare repository (NAME.git) is in this folder")
    return list(check_sources(Source(each.stem, str(each.resolve())) for each in found).values())
