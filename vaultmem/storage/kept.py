"""Values stored outside the vault: receipts, artifacts and results of jobs.

A value is a text, or a named tuple as JSON, in a file that is replaced as a whole. A folder is
named by the vault's path, and holds by which names the vault's repository is known wherever it is:
its root commits. A name proves nothing, as anybody can copy a commit. So no value that is found by
name alone lets a note instruct.
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
    """How a vault's repository is known: `one` name, quickly told, or `every` one, asked of git.

    Both are empty where there is no commit, or a shallow clone does not have the first.
    """

    one: Callable[[], str] = str
    every: Callable[[], Sequence[str]] = tuple


#: Those of a vault that is known by its path alone.
NAMELESS = RepositoryNames()


class KeptFolder:
    """The folder of one vault's values; it is made with the first.

    `names` are those of the vault's repository.
    """

    def __init__(self, folder: Path, names: RepositoryNames = NAMELESS) -> None:
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
        with naming_failure(file):
            self.make()
            write_atomically(file, data, mode=0o600)
        return file

    def write_value(self, name: str, value: Any) -> None:
        """Write a named tuple as JSON, as `write` does."""
        self.write(name, json.dumps(as_json_object(value), indent=1, sort_keys=True).encode())

    def move_from(self, other: KeptFolder) -> None:
        """Move the files of another vault's folder here, but for those that are here already.

        Raises:
            OSError: the disk did not accept it.
        """
        for file in sorted(other.folder.glob("[!.]*")):
            self.make()
            if not (self.folder / file.name).exists():
                file.rename(self.folder / file.name)

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


_ID = compile_later(r"[0-9A-Za-z-]{1,64}")


class ReceiptStore:
    """The receipts of one vault, wherever it was."""

    def __init__(self, folder: Path, names: RepositoryNames = NAMELESS) -> None:
        self._kept = KeptFolder(folder, names)

    def move_from(self, other: ReceiptStore) -> None:
        """Move another vault's receipts here, as `KeptFolder.move_from` does."""
        self._kept.move_from(other._kept)

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
            raise NoteNotFoundError(f"{name}: there is no such receipt; see `vaultmem receipt`")
        return next(iter(found.values()))


_DIGEST = compile_later(r"[0-9a-f]{64}")


class ArtifactStore:
    """Texts by the digest of their bytes; the newest `limit` of each folder are kept."""

    def __init__(self, folder: Path, names: RepositoryNames = NAMELESS, limit: int = 1_000) -> None:
        self._kept = KeptFolder(folder, names)
        self._limit = limit

    def move_from(self, other: ArtifactStore) -> None:
        """Move another vault's texts here, as `KeptFolder.move_from` does."""
        self._kept.move_from(other._kept)

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


# What of the state database cannot be made again from notes and git, as lines of JSON.

#: Tables and columns that travel; what else there is, the notes give.
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

#: Of these the rows' order says which came first.
_NUMBERED = frozenset({"journal", "operations"})

#: What of `meta` is no cache: this machine's id, what arrived, and how far was imported what.
_KEYS = ("machine", "arrived", "arrived_found")
_BEGINNINGS = ("imported ", "record ", "transcript ", "wishes ")

_MAX_LINE = 16 * 1024 * 1024


def dump_state(state: StateDatabase) -> Iterator[bytes]:
    """Yield each row as a line: its table, and its values in the order of the table's columns."""
    for table, columns in _TABLES.items():
        order = "id" if table in _NUMBERED else ", ".join(columns[:3])
        for row in state.query(f"SELECT {', '.join(columns)} FROM {table} ORDER BY {order}"):
            if table != "meta" or _is_kept(row[0]):
                yield json.dumps([table, *map(_encode, row)]).encode() + b"\n"


def load_state(state: StateDatabase, lines: Iterable[bytes]) -> None:
    """Put lines into a new database, all or none.

    Raises:
        RefusedError: a line is none of these.
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


# What work over many vaults made of each, so that who asks again asks only what changed.
#
# A cache: without it, all vaults are asked again.

_WORK = "work"

#: Seconds after which what nobody asked for again is dropped.
_KEPT_FOR = 30 * 86_400


class KeptWork:
    """What was made of vaults, a file by work and vault; `stand` is what it was made of, a commit.

    Values are what JSON has. `now` is when the work is done, in seconds since the epoch.
    """

    def __init__(self, folder: Path, now: float) -> None:
        self.now = now
        self._folder = folder / _WORK
        for file in self._folder.glob("*/*"):
            with contextlib.suppress(FileNotFoundError):  # Another process drops as well.
                if file.stat().st_mtime < now - _KEPT_FOR:
                    file.unlink()

    def list_stands(self, work: str) -> dict[str, str]:
        """Return of what a work's results were made, by vault."""
        names = (file.name.partition("@") for file in self._find(work))
        return {vault: stand for vault, _, stand in names}

    def read(self, work: str, vault: str) -> Any:
        """Return what a work made of a vault.

        Raises:
            VaultError: it is not kept.
        """
        for file in self._find(work, vault):
            with contextlib.suppress(OSError, ValueError, zlib.error):
                return json.loads(zlib.decompress(file.read_bytes()))
        raise VaultError(f"{vault}: what was kept of it is gone; run the command with --again")

    def keep(self, work: str, vault: str, stand: str, value: Any) -> None:
        """Keep what a work made of a vault, in the place of what it made before.

        Raises:
            SystemFailureError: the disk did not take it.
        """
        data = zlib.compress(json.dumps(as_plain(value), separators=(",", ":")).encode(), 1)
        before, file = self._find(work, vault), self._folder / work / f"{vault}@{stand}"
        with naming_failure(file):
            make_private_folder(file.parent)
            write_atomically(file, data, durable=False)
            os.utime(file, (self.now, self.now))
            for each in before:
                if each != file:
                    each.unlink(missing_ok=True)

    def forget(self, work: str) -> None:
        """Drop all that a work made."""
        shutil.rmtree(self._folder / work, ignore_errors=True)

    def _find(self, work: str, vault: str = "*") -> list[Path]:
        return sorted((self._folder / work).glob(f"{vault}@*"))
