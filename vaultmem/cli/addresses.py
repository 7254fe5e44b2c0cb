"""Paths from the shell: the caller's folder is tried first, then the vault's root.

A parameter's metavar determines the type of its values. The result is relative to the vault's root,
as for agents and web pages, which have no current folder.
"""

from __future__ import annotations

import contextlib
import glob
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from vaultmem.errors import VaultError

#: Parameters that name notes or folders, by metavar without brackets and dots.
NOTES = frozenset({"PATH", "NOTE", "OLD", "NEW", "TEXT|PATH", "PATTERN", "NOTE|COMMIT"})


def format_values(param: Any) -> str:
    """Return the type of a parameter's values: its metavar without brackets and dots."""
    return str(getattr(param, "metavar", "") or "").strip("[].")


def read_as_shell(command: str, params: Iterable[Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a command's values, with note paths relative to the vault's root.

    A path outside the vault is unchanged and rejected later. A command without `--vault DIR` works
    on vaults without a local folder.
    """
    new_values = dict(values)
    if "vault" not in values:
        return new_values
    note_params = [
        each for each in params if format_values(each) in NOTES and new_values.get(each.name)
    ]
    place = PathResolver.of(values["vault"] or "") if note_params else None
    if place is None:
        return new_values
    for param in note_params:
        value, kind = new_values[param.name], format_values(param)
        if kind == "NEW" and command == "mv":
            new_values[param.name] = place.read_new(value, values.get("path", ""))
        elif isinstance(value, str):
            new_values[param.name] = place.read(value)
        elif kind != "TEXT|PATH" or len(value) == 1:
            read = place.read_pattern if kind == "PATTERN" else place.read
            new_values[param.name] = [read(each) for each in value]
    return new_values


class PathResolver:
    """A resolver for paths from the caller's folder in a vault."""

    def __init__(self, root: Path, folder: str) -> None:
        self._root = str(root)
        self._folder = folder
        inside = os.path.relpath(os.path.realpath(folder), self._root)
        self._is_inside = inside.partition(os.sep)[0] != ".."
        self._is_below = self._is_inside and inside != "."

    @classmethod
    def of(cls, vault: str | list[str]) -> PathResolver | None:
        """Return the resolver for a command, None if no vault is found."""
        from vaultmem.cli.opening import find_named_root
        from vaultmem.environment import current_folder

        with contextlib.suppress(VaultError, OSError):
            return cls(find_named_root(vault), current_folder())
        return None

    def read(self, text: str) -> str:
        """Return an address relative to the vault's root, if its path exists from here."""
        path, mark, heading = text.partition("#")
        for name, rest in ((text, ""), (path, mark + heading)):
            if (address := self.find(name)) is not None:
                return address + rest
        inside = self._relate(path) if self._is_explicit(text) else None
        return text if inside is None else inside + mark + heading

    def read_new(self, text: str, old: str) -> str:
        """Return a note's new path; a bare name stays bare if the old one is.

        A leading `./` marks a bare name that is relative to the vault's root.
        """
        is_bare = "/" not in text and not os.path.isdir(os.path.join(self._folder, text))
        if is_bare and "/" not in old and self.find(old) is None:
            return text
        inside = self._relate(text) if self._is_below or self._is_explicit(text) else text
        if inside is None:
            return text
        return inside if "/" in inside else f"./{inside}"

    def read_pattern(self, text: str) -> str:
        """Return a folder or pattern relative to the root, if it matches something from here."""
        if not glob.has_magic(text):
            return self.read(text)
        is_here = self._is_below and glob.glob(text, root_dir=self._folder, recursive=True)
        inside = self._relate(text) if is_here or self._is_explicit(text) else None
        return text if inside is None else inside

    def find(self, name: str) -> str | None:
        """Return the root-relative path of an existing file or folder from here, or None."""
        is_path = name and (self._is_below or "/" in name) and "\0" not in name
        inside = self._relate(name) if is_path else None
        if inside is None:
            return None
        for each in (inside, f"{inside}.md"):
            if os.path.lexists(os.path.join(self._root, each)):
                return each
        if self._is_below and name.endswith(".md") and not os.path.lexists(f"{self._root}/{name}"):
            return inside if self._is_committed(inside) else None
        return None

    def _is_committed(self, path: str) -> bool:
        """Return whether the last commit has a file that was deleted."""
        from vaultmem.storage.git.repository import list_entries, open_repository

        with contextlib.suppress(VaultError, OSError):
            if git := open_repository(Path(self._root)):
                inside = os.path.relpath(os.path.join(self._root, path), git.work_tree)
                return bool(list_entries(git, [inside]))
        return False

    def _relate(self, name: str) -> str | None:
        """Return a path from here relative to the vault's root, None if it is outside.

        Parent folders are resolved by the system, so links to folders work.
        """
        path = os.path.join(self._folder, name)
        base = os.path.basename(path.rstrip("/"))
        above = path if base in {"", ".", ".."} else os.path.dirname(path.rstrip("/"))
        whole = os.path.realpath(above) if above == path else f"{os.path.realpath(above)}/{base}"
        if whole == self._root:
            return "."
        if not whole.startswith(f"{self._root}/"):
            return None
        return whole[len(self._root) + 1 :] + ("/" if path.endswith("/") else "")

    def _is_explicit(self, text: str) -> bool:
        """Return whether a path is absolute or starts with `./` or `../`, so it names one place."""
        return os.path.isabs(text) or (self._is_inside and text.partition("/")[0] in {".", ".."})
