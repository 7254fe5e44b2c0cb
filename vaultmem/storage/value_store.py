"""Values stored outside the vault: receipts, artifacts and results of jobs.

A value is a text, or a named tuple as JSON, in a file that is replaced as a whole. A folder is
named by the vault's path, and contains the names of the vault's repository: its root commits.
Anyone can copy a commit, so a value that is found only by a name never makes a note trusted.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import re
import shutil
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from vaultmem.core.text.json_values import as_json_object, as_plain, as_typed
from vaultmem.core.text.patterns import compile_later
from vaultmem.errors import NoteNotFoundError, RefusedError, VaultError
from vaultmem.storage.atomic import make_private_folder, naming_failure, write_atomically
from vaultmem.storage.state import StateDatabase

Value = TypeVar("Value")

_MARK = ".vault"


class RepositoryNames(NamedTuple):
    """Functions that find the names of a repository: `find_one` (fast), or `find_all` by git.

    Both are empty without commits, or in a shallow clone without the first.
    """

    find_one: Callable[[], str] = str
    find_all: Callable[[], Sequence[str]] = tuple


#: The names of a vault that is identified only by its path.
NAMELESS = RepositoryNames()


class ValueFolder:
    """The folder of one vault's values, created with the first; `names` are its repository's."""

    def __init__(self, folder: Path, names: RepositoryNames = NAMELESS) -> None:
        self.folder = folder
        self._names = names

    def make(self) -> None:
        """Create the folder, and store the repository's names in it.

        Raises:
            OSError: writing failed.
        """
        make_private_folder(self.folder)
        name = self._names.find_one()
        if name and name not in (stored_names := _read_names(self.folder)):
            content = json.dumps(sorted({*stored_names, *self._names.find_all(), name}))
            write_atomically(self.folder / _MARK, content.encode(), mode=0o600)

    def write(self, name: str, data: bytes) -> Path:
        """Write a private file atomically and durably; return its path.

        Raises:
            SystemFailureError: writing failed.
        """
        file = self.folder / name
        with naming_failure(file):
            self.make()
            write_atomically(file, data, mode=0o600)
        return file

    def write_value(self, name: str, value: Any) -> None:
        """Write a named tuple as JSON (see `write`)."""
        self.write(name, json.dumps(as_json_object(value), indent=1, sort_keys=True).encode())

    def move_from(self, other: ValueFolder) -> None:
        """Move the files of another vault's folder here, except those that exist here.

        Raises:
            OSError: moving failed.
        """
        for file in sorted(other.folder.glob("[!.]*")):
            self.make()
            if not (self.folder / file.name).exists():
                file.rename(self.folder / file.name)

    def find(self, pattern: str) -> dict[str, Path]:
        """Return files by name, of this folder and of others of the same repository.

        Of several with one name, this folder's is returned.
        """
        marked_folders = sorted(each.parent for each in self.folder.parent.glob(f"*/{_MARK}"))
        others = [each for each in marked_folders if each != self.folder]
        names = set(self._names.find_all()) if others else set()
        siblings = [each for each in others if names & set(_read_names(each))]
        files: dict[str, Path] = {}
        for folder in (self.folder, *siblings):
            for file in folder.glob(pattern):
                files.setdefault(file.name, file)
        return files


def read_value(file: Path, kind: type[Value]) -> Value | None:
    """Return the named tuple in a JSON file, None if the file does not exist.

    Raises:
        VaultError: the file cannot be read as this type.
    """
    try:
        value: Value = as_typed(json.loads(file.read_text(encoding="utf-8")), kind)
        return value
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise VaultError(f"{file}: cannot be read ({error}); remove it") from error


def read_value_if_sound(file: Path, kind: type[Value]) -> Value | None:
    """Return the named tuple in a JSON file, None if missing or unreadable."""
    try:
        return read_value(file, kind)
    except VaultError:
        return None


def _read_names(folder: Path) -> list[str]:
    try:
        return [str(name) for name in json.loads((folder / _MARK).read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError):
        return []


_ID = compile_later(r"[0-9A-Za-z-]{1,64}")


class ReceiptStore:
    """The receipts of one vault, including those from its other paths."""

    def __init__(self, folder: Path, names: RepositoryNames = NAMELESS) -> None:
        self._kept = ValueFolder(folder, names)

    def move_from(self, other: ReceiptStore) -> None:
        """Move another vault's receipts here (see `ValueFolder.move_from`)."""
        self._kept.move_from(other._kept)

    def write(self, name: str, text: str) -> Path:
        """Store a receipt under its id, durably; return its path.

        Raises:
            SystemFailureError: writing failed.
        """
        return self._kept.write(f"{name}.json", text.encode("utf-8"))

    def read(self, name: str, *, in_files: bool = True) -> str:
        """Return a receipt by its id or a unique start of it or, with `in_files`, by its path.

        Raises:
            NoteNotFoundError: no receipt matches, or several do.
            VaultError: the file cannot be read.
        """
        file = self._find(name, in_files)
        try:
            return file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise VaultError(f"{file}: cannot be read ({error})") from error

    def files(self) -> Iterator[Path]:
        """Yield the file of each receipt, newest first: an id starts with its time."""
        files_by_name = self._kept.find("[!.]*.json")
        yield from (files_by_name[name] for name in sorted(files_by_name, reverse=True))

    def _find(self, name: str, in_files: bool) -> Path:
        if in_files and (os.sep in name or name.endswith(".json")):
            file = Path(name).expanduser()
            if file.is_file():
                return file
        files: dict[str, Path] = {}
        if _ID.fullmatch(name):
            own = self._kept.folder / f"{name}.json"
            files = {own.name: own} if own.is_file() else self._kept.find(f"{name}*.json")
        if exact := files.get(f"{name}.json"):
            return exact
        if len(files) > 1:
            raise NoteNotFoundError(f"{name}: {len(files)} receipts begin like that; name one")
        if not files:
            raise NoteNotFoundError(f"{name}: there is no such receipt; see `vaultmem receipt`")
        return next(iter(files.values()))


_DIGEST = compile_later(r"[0-9a-f]{64}")


class ArtifactStore:
    """Texts by the digest of their bytes; the newest `limit` of each folder are kept."""

    def __init__(self, folder: Path, names: RepositoryNames = NAMELESS, limit: int = 1_000) -> None:
        self._kept = ValueFolder(folder, names)
        self._limit = limit

    def move_from(self, other: ArtifactStore) -> None:
        """Move another vault's texts here (see `ValueFolder.move_from`)."""
        self._kept.move_from(other._kept)

    def keep(self, text: str) -> str:
        """Store a text, and return the SHA-256 digest of its UTF-8 bytes.

        Raises:
            SystemFailureError: writing failed.
        """
        data = text.encode("utf-8")
        digest = hashlib.sha256(data).hexdigest()
        self._kept.write(f"{digest}.md", data)
        self._drop_oldest()
        return digest

    def files(self) -> list[Path]:
        """Return the file of each text of this vault, including those from its other paths."""
        return sorted(self._kept.find("*.md").values())

    def read(self, digest: str) -> str:
        """Return a text by its digest or a unique start of it.

        Raises:
            NoteNotFoundError: no text matches, or several do.
            RefusedError: `digest` is not a digest, or the file was changed.
        """
        if not re.fullmatch(r"[0-9a-f]{6,64}", digest):
            raise RefusedError(f'"{digest}" is not a digest; give 6 to 64 hexadecimal digits')
        files = [*self._kept.find(f"{digest}*.md").values()]
        if len(files) != 1 or not _DIGEST.fullmatch(files[0].stem):
            raise NoteNotFoundError(f"{digest}: no artifact of that digest is kept here")
        data = files[0].read_bytes()
        if hashlib.sha256(data).hexdigest() != files[0].stem:
            raise RefusedError(f"{files[0]}: its bytes are not those of its digest; remove it")
        return data.decode("utf-8")

    def _drop_oldest(self) -> None:
        files = [file for file in self._kept.folder.glob("*.md") if _DIGEST.fullmatch(file.stem)]
        if len(files) <= self._limit:
            return
        aged = []
        for file in files:
            with contextlib.suppress(FileNotFoundError):  # Another process dropped it.
                aged.append((file.stat().st_mtime, file))
        for _, file in sorted(aged, reverse=True)[self._limit :]:
            file.unlink(missing_ok=True)


# The part of the state database that cannot be rebuilt from notes and git, as lines of JSON.

#: The tables and columns that are exported; all others are rebuilt from the notes.
_TABLES = {
    "journal": ("path", "blob", "agent", "session", "tool", "at", "data"),
    "operations": ("event",),
    "candidates": ("path",),
    "calls": ("id", "at", "kind", "query", "agent", "session", "sent", "flat", "found"),
    "signals": ("call", "number", "path", "heading", "score"),
    "accounts": ("agent", "session", "kind", "calls", "sent", "flat", "empty", "first", "last"),
    "surfaced": ("path", "times", "last", "best"),
    "meta": ("key", "value"),
}

#: The tables whose rows are exported in the order of their ids.
_NUMBERED_TABLES = frozenset({"journal", "operations"})

#: Keys of `meta` that are not a cache: this machine's id, arrived notes, positions of imports.
_KEYS = ("machine", "arrived", "arrived_found")
_BEGINNINGS = ("imported ", "record ", "transcript ", "wishes ")

_MAX_LINE = 16 * 1024 * 1024


def dump_state(state: StateDatabase) -> Iterator[bytes]:
    """Yield each row as a JSON line: its table, and its values in the order of `_TABLES`."""
    for table, columns in _TABLES.items():
        order = "id" if table in _NUMBERED_TABLES else ", ".join(columns[:3])
        for row in state.query(f"SELECT {', '.join(columns)} FROM {table} ORDER BY {order}"):
            if table != "meta" or _is_kept(row[0]):
                yield json.dumps([table, *map(_encode, row)]).encode() + b"\n"


def load_state(state: StateDatabase, lines: Iterable[bytes]) -> None:
    """Load the lines of `dump_state` into a new database, all or none.

    Raises:
        RefusedError: a line is invalid.
    """
    with state.transaction():
        for line in lines:
            try:
                table, *values = json.loads(line[:_MAX_LINE])
                columns, row = _TABLES[table], [_decode(value) for value in values]
            except (ValueError, KeyError, TypeError, RecursionError):
                columns, row = (), [""]
            if len(row) != len(columns) or (table == "meta" and not _is_kept(row[0])):
                raise RefusedError("what it keeps of the vault's use cannot be read")
            marks = ", ".join("?" * len(row))
            names = ", ".join(columns)
            state.execute(f"INSERT OR REPLACE INTO {table} ({names}) VALUES ({marks})", row)


def _is_kept(key: object) -> bool:
    return isinstance(key, str) and (key in _KEYS or key.startswith(_BEGINNINGS))


def _encode(value: Any) -> Any:
    return {"base64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value


def _decode(value: Any) -> Any:
    if isinstance(value, dict):
        return base64.b64decode(value["base64"], validate=True)
    if value is not None and not isinstance(value, str | int | float):
        raise TypeError
    return value


# The results of jobs over many vaults, cached so that a new run queries only changed vaults.

_WORK = "work"

#: Seconds after which a stored result is dropped.
_MAX_RESULT_AGE_SECONDS = 30 * 86_400


class JobResultCache:
    """Cached results of jobs (`work`), one file for each job and vault.

    `commit` is the commit that a result was made from; values are JSON values. `now` is the time
    of the job, in seconds since the epoch.
    """

    def __init__(self, folder: Path, now: float) -> None:
        self.now = now
        self._folder = folder / _WORK
        for file in self._folder.glob("*/*"):
            with contextlib.suppress(FileNotFoundError):  # Another process dropped it.
                if file.stat().st_mtime < now - _MAX_RESULT_AGE_SECONDS:
                    file.unlink()

    def list_stands(self, work: str) -> dict[str, str]:
        """Return the commit of each result of a job, by vault."""
        names = (file.name.partition("@") for file in self._find(work))
        return {vault: commit for vault, _, commit in names}

    def read(self, work: str, vault: str) -> Any:
        """Return the result of a job for a vault.

        Raises:
            VaultError: the result is not stored, or damaged.
        """
        for file in self._find(work, vault):
            with contextlib.suppress(OSError, ValueError, zlib.error):
                return json.loads(zlib.decompress(file.read_bytes()))
        raise VaultError(f"{vault}: what was kept of it is gone; run the command with --restart")

    def keep(self, work: str, vault: str, commit: str, value: Any) -> None:
        """Replace the result of a job for a vault.

        Raises:
            SystemFailureError: writing failed.
        """
        data = zlib.compress(json.dumps(as_plain(value), separators=(",", ":")).encode(), 1)
        before, file = self._find(work, vault), self._folder / work / f"{vault}@{commit}"
        with naming_failure(file):
            make_private_folder(file.parent)
            write_atomically(file, data, durable=False)
            os.utime(file, (self.now, self.now))
            for each in before:
                if each != file:
                    each.unlink(missing_ok=True)

    def forget(self, work: str) -> None:
        """Delete all results of a job."""
        shutil.rmtree(self._folder / work, ignore_errors=True)

    def _find(self, work: str, vault: str = "*") -> list[Path]:
        return sorted((self._folder / work).glob(f"{vault}@*"))
