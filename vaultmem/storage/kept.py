"""Values kept of a vault outside of it: a folder for each vault in the user's own folders.

A value is a text, or a named tuple as JSON, in a file that is replaced as a whole. A folder is
named by the vault's path, and holds by which names the vault's repository is known wherever it is:
its root commits. A name proves nothing, as anybody can copy a commit. So no value that is found by
name alone lets a note instruct.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from vaultmem.core.json_values import as_named, as_typed
from vaultmem.errors import FaultError, NoteNotFoundError, RefusedError, VaultError
from vaultmem.storage.atomic import make_private_folder, write_atomically

Value = TypeVar("Value")

_MARK = ".vault"


class Names(NamedTuple):
    """How a vault's repository is known: `one` name, quickly told, or `every` one, asked of git.

    Both are empty where there is no commit, or a shallow clone does not have the first.
    """

    one: Callable[[], str] = str
    every: Callable[[], Sequence[str]] = tuple


#: Those of a vault that is known by its path alone.
NAMELESS = Names()


class KeptFolder:
    """The folder of one vault's values; it is made with the first.

    `names` are those of the vault's repository.
    """

    def __init__(self, folder: Path, names: Names = NAMELESS) -> None:
        self.folder = folder
        self._names = names

    def make(self) -> None:
        """Make the folder, and write into it by which names the vault is known.

        Raises:
            OSError: the disk did not take it.
        """
        make_private_folder(self.folder)
        name = self._names.one()
        if name and name not in (known := _read_names(self.folder)):
            content = json.dumps(sorted({*known, *self._names.every(), name}))
            write_atomically(self.folder / _MARK, content.encode(), mode=0o600)

    def write(self, name: str, data: bytes) -> Path:
        """Write a file, whole and private; it is durable when this returns.

        Raises:
            FaultError: the disk did not take it.
        """
        file = self.folder / name
        try:
            self.make()
            write_atomically(file, data, mode=0o600)
        except OSError as error:
            raise FaultError(f"{file}: could not be written: {error.strerror}") from error
        return file

    def write_value(self, name: str, value: Any) -> None:
        """Write a named tuple as JSON, as `write` does."""
        self.write(name, json.dumps(as_named(value), indent=1, sort_keys=True).encode())

    def find(self, pattern: str) -> dict[str, Path]:
        """Return files by name: of this folder, and of those of the same repository elsewhere.

        Of several with one name, this folder's counts.
        """
        marked = sorted(each.parent for each in self.folder.parent.glob(f"*/{_MARK}"))
        others = [each for each in marked if each != self.folder]
        wanted = set(self._names.every()) if others else set()
        same = [each for each in others if wanted & set(_read_names(each))]
        found: dict[str, Path] = {}
        for folder in (self.folder, *same):
            for file in folder.glob(pattern):
                found.setdefault(file.name, file)
        return found


def read_value(file: Path, kind: type[Value]) -> Value | None:
    """Return the named tuple that a file has as JSON, None if there is no file.

    Raises:
        VaultError: it cannot be read as one.
    """
    try:
        value: Value = as_typed(json.loads(file.read_text(encoding="utf-8")), kind)
        return value
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise VaultError(f"{file}: cannot be read ({error}); remove it") from error


def read_value_if_sound(file: Path, kind: type[Value]) -> Value | None:
    """Return the named tuple that a file has as JSON, None if there is none that can be read."""
    try:
        return read_value(file, kind)
    except VaultError:
        return None


def _read_names(folder: Path) -> list[str]:
    try:
        return [str(name) for name in json.loads((folder / _MARK).read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError):
        return []


_ID = re.compile(r"[0-9A-Za-z-]{1,64}")


class ReceiptStore:
    """The receipts of one vault, wherever it was."""

    def __init__(self, folder: Path, names: Names = NAMELESS) -> None:
        self._kept = KeptFolder(folder, names)

    def write(self, name: str, text: str) -> Path:
        """Keep a receipt under its id; it is durable when this returns.

        Raises:
            FaultError: the disk did not take it.
        """
        return self._kept.write(f"{name}.json", text.encode("utf-8"))

    def read(self, name: str, *, in_files: bool = True) -> str:
        """Return the receipt of an id, or of the only one that begins so, or `in_files` of a path.

        Raises:
            NoteNotFoundError: there is none, or several begin like that.
            VaultError: the file cannot be read.
        """
        file = self._find(name, in_files)
        try:
            return file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise VaultError(f"{file}: cannot be read ({error})") from error

    def files(self) -> Iterator[Path]:
        """Yield the file of each receipt, the newest first: an id begins with its time."""
        found = self._kept.find("[!.]*.json")
        yield from (found[name] for name in sorted(found, reverse=True))

    def _find(self, name: str, in_files: bool) -> Path:
        if in_files and (os.sep in name or name.endswith(".json")):
            file = Path(name).expanduser()
            if file.is_file():
                return file
        found: dict[str, Path] = {}
        if _ID.fullmatch(name):
            own = self._kept.folder / f"{name}.json"
            found = {own.name: own} if own.is_file() else self._kept.find(f"{name}*.json")
        if exact := found.get(f"{name}.json"):
            return exact
        if len(found) > 1:
            raise NoteNotFoundError(f"{name}: {len(found)} receipts begin like that; name one")
        if not found:
            raise NoteNotFoundError(f"{name}: there is no such receipt; see `vaultmem replay`")
        return next(iter(found.values()))


_DIGEST = re.compile(r"[0-9a-f]{64}")


class ArtifactStore:
    """Texts by the digest of their bytes; the newest `limit` of each folder are kept."""

    def __init__(self, folder: Path, names: Names = NAMELESS, limit: int = 1_000) -> None:
        self._kept = KeptFolder(folder, names)
        self._limit = limit

    def keep(self, text: str) -> str:
        """Keep a text, and return the SHA-256 digest of its UTF-8 bytes.

        Raises:
            FaultError: the disk did not take it.
        """
        data = text.encode("utf-8")
        digest = hashlib.sha256(data).hexdigest()
        self._kept.write(f"{digest}.md", data)
        self._drop_oldest()
        return digest

    def files(self) -> list[Path]:
        """Return the file of each text of this vault, wherever it was."""
        return sorted(self._kept.find("*.md").values())

    def read(self, digest: str) -> str:
        """Return the text of a digest, or of the only one that begins so.

        Raises:
            NoteNotFoundError: none is kept.
            RefusedError: it is no digest, or the file was changed.
        """
        if not re.fullmatch(r"[0-9a-f]{6,64}", digest):
            raise RefusedError(f'"{digest}" is not a digest; give 6 to 64 hexadecimal digits')
        found = [*self._kept.find(f"{digest}*.md").values()]
        if len(found) != 1 or not _DIGEST.fullmatch(found[0].stem):
            raise NoteNotFoundError(f"{digest}: no artifact of that digest is kept here")
        data = found[0].read_bytes()
        if hashlib.sha256(data).hexdigest() != found[0].stem:
            raise RefusedError(f"{found[0]}: its bytes are not those of its digest; remove it")
        return data.decode("utf-8")

    def _drop_oldest(self) -> None:
        files = [file for file in self._kept.folder.glob("*.md") if _DIGEST.fullmatch(file.stem)]
        if len(files) <= self._limit:
            return
        aged = []
        for file in files:
            with contextlib.suppress(FileNotFoundError):  # Another process drops as well.
                aged.append((file.stat().st_mtime, file))
        for _, file in sorted(aged, reverse=True)[self._limit :]:
            file.unlink(missing_ok=True)
