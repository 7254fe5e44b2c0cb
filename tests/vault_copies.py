"""Vaults that are made once and copied: making one takes git nine processes."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from support import git, write_notes

from vaultmem.services.memory.create_vault import create_vault
from vaultmem.vault import open_vault


class VaultCopies:
    """A folder of committed vaults by their notes, each with its state and its owner's trust.

    A vault that is made under the settings that there are now is as any other.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._asked: set[str] = set()
        self._usual = (_name_settings(), _git_settings())

    def make(
        self,
        root: Path,
        notes: Mapping[str, str | bytes],
        prepare: Callable[[Path], None] | None = None,
    ) -> Path:
        """Make a vault with these notes, all committed; `root` may be there already.

        A function of a module, `prepare`, gets the vault before it is copied for the first time.
        """
        usual = not root.exists() and self.is_usual()
        key = _digest_notes(notes)
        if prepare is not None:
            key += f"-{prepare.__module__}.{prepare.__qualname__}"
        if usual and self._lay(key, root):
            return root
        if not usual or not self._lay(_digest_notes({}), root):
            create_vault(root).vault.close()
            if usual:
                self._keep(_digest_notes({}), root)
        write_notes(root, notes)
        if notes:
            git(root, "add", "--all")
            git(root, "commit", "-q", "-m", "notes")
        if prepare is not None:
            prepare(root)
        if usual and notes and key in self._asked:
            self._keep(key, root)
        self._asked.add(key)
        return root

    def is_usual(self) -> bool:
        """Tell whether no settings but the usual ones are there."""
        names, of_git = self._usual
        return _name_settings() <= names and _git_settings() == of_git

    def _keep(self, key: str, root: Path) -> None:
        for name, place in _places(root).items():
            _copy(place, self._folder / key / name)

    def _lay(self, key: str, root: Path) -> bool:
        if not (self._folder / key).is_dir():
            return False
        _copy(self._folder / key / "root", root)
        # With the same id, it would be a copy of the vault that was made first.
        (root / ".git/vaultmem-id").write_text(f"{os.urandom(16).hex()}\n", "ascii")
        for name, place in _places(root).items():
            if name != "root":
                _copy(self._folder / key / name, place)
        return True


def _name_settings() -> set[str]:
    return {name for name in os.environ if name.startswith(("VAULTMEM_", "GIT_"))}


def _git_settings() -> bytes:
    return (Path(os.environ["HOME"]) / ".gitconfig").read_bytes()


def _digest_notes(notes: Mapping[str, str | bytes]) -> str:
    listed = [
        (path, text.encode() if isinstance(text, str) else text) for path, text in notes.items()
    ]
    return hashlib.sha256(repr(sorted(listed)).encode()).hexdigest()


def _places(root: Path) -> dict[str, Path]:
    """Return where a vault is, and what the user's own folders hold of it."""
    vault = open_vault(root)
    trust = vault.trust._file
    vault.close()
    return {"root": root, "state": vault.state_folder, "trust": trust}


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)
