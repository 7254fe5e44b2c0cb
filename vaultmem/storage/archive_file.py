"""A whole vault as one archive: a gzipped tar whose first member is a manifest of all others.

Members are sorted by name. Archives that are read are not trusted: each member is written to a new
file, by a checked name of the manifest. `tarfile` does not extract, because its filter is not in
every Python 3.11.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import posixpath
import re
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, NamedTuple

from vaultmem.core.text.json_values import as_typed
from vaultmem.core.text.paths import parse_note_path
from vaultmem.errors import NoteNotFoundError, RefusedError
from vaultmem.storage.atomic import drop_file, sync_folder

FORMAT = 1

#: The first member; the others follow sorted by name.
MANIFEST = "manifest.json"
FILES = "vault/"
HISTORY = "history.bundle"
RECEIPTS = "kept/receipts/"
ARTIFACTS = "kept/artifacts/"
SESSIONS = "kept/sessions/"
STATE = "kept/state.jsonl"
TRUST = "kept/trust.json"

#: Most members, and most bytes of the manifest, in an archive that is read.
MAX_MEMBERS = 1_000_000
MAX_MANIFEST = 256 * 1024 * 1024

_SINGLE = frozenset({HISTORY, STATE, TRUST})
_EXTERNAL_MEMBER = re.compile(
    rf"(?:{RECEIPTS}[0-9A-Za-z-]{{1,64}}\.json|{ARTIFACTS}[0-9a-f]{{64}}\.md"
    rf"|{SESSIONS}[0-9a-f]{{32}}\.json)"
)
_COMMIT = re.compile(r"(?:[0-9a-f]{40})?")
_DIGEST = re.compile(r"[0-9a-f]{64}")


class Member(NamedTuple):
    """A file by its size in bytes and SHA-256 digest, or a symbolic link by its target `link`.

    `at` is the modification time in nanoseconds since the epoch.
    """

    bytes: int
    sha256: str = ""
    at: int = 0
    executable: bool = False
    link: str = ""


class ArchiveManifest(NamedTuple):
    """The manifest of an archive: the vault's name, its `folder` in the repository ("" or "x/").

    `vaultmem` is the version that wrote it, `made` the time (ISO 8601). `branch` and `commit` are
    the checked-out ones, both empty without git.
    """

    vaultmem: str
    made: str
    name: str
    folder: str
    branch: str
    commit: str
    notes: int
    commits: int
    members: dict[str, Member]

    @property
    def size(self) -> int:
        """The total size of all members in bytes."""
        return sum(each.bytes for each in self.members.values())

    def count(self, beginning: str) -> int:
        """Return the number of members whose names start with `beginning`."""
        return sum(name.startswith(beginning) for name in self.members)


def format_manifest(manifest: ArchiveManifest) -> bytes:
    """Return a manifest as JSON, with members sorted by name."""
    members = {
        name: {key: value for key, value in member._asdict().items() if value or key == "bytes"}
        for name, member in sorted(manifest.members.items())
    }
    content = {"format": FORMAT, **manifest._asdict(), "members": members}
    return json.dumps(content, indent=1).encode() + b"\n"


def parse_manifest(data: bytes) -> ArchiveManifest:
    """Return the manifest in a JSON text, fully checked.

    Raises:
        RefusedError: it has another format, is damaged, or lists a member that is not allowed.
    """
    try:
        content = json.loads(data)
        number = int(content["format"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise RefusedError(f"its {MANIFEST} cannot be read") from None
    if number != FORMAT:
        raise RefusedError(
            f"it is of format {number}, made by vaultmem {content.get('vaultmem', '')}, and this "
            f"one reads format {FORMAT}; install that version or a newer one"
        )
    try:
        manifest: ArchiveManifest = as_typed(content, ArchiveManifest)
    except (ValueError, TypeError):
        raise RefusedError(f"its {MANIFEST} is damaged") from None
    _check(manifest)
    return manifest


def _check(manifest: ArchiveManifest) -> None:
    """Raise RefusedError for damaged values, too many members, or names outside the vault."""
    if len(manifest.members) > MAX_MEMBERS:
        raise RefusedError(f"it has {len(manifest.members):,} members; {MAX_MEMBERS:,} are allowed")
    is_sound = _COMMIT.fullmatch(manifest.commit) and all(map(_is_sound, manifest.members.values()))
    if not is_sound or (manifest.folder and not is_safe(manifest.folder.removesuffix("/"))):
        raise RefusedError(f"its {MANIFEST} is damaged")
    links = {name for name, member in manifest.members.items() if member.link}
    for name, member in manifest.members.items():
        path = name.removeprefix(FILES)
        is_valid_name = is_safe(path) if name.startswith(FILES) else is_kept(name)
        if not is_valid_name or (name in links and not stays_inside(path, member.link)):
            raise RefusedError(f"{name!r} leads out of the vault, or is nothing that belongs to it")
        if links and any(f"{FILES}{parent}" in links for parent in _parents(path)):
            raise RefusedError(f"{name!r} is reached through a link")


def _is_sound(member: Member) -> bool:
    if not 0 <= member.at < 2**63:
        return False
    if member.link:
        return not member.bytes
    return member.bytes >= 0 and bool(_DIGEST.fullmatch(member.sha256))


def is_kept(name: str) -> bool:
    """Return whether a name is one of the members that are not files of the vault."""
    return name in _SINGLE or _EXTERNAL_MEMBER.fullmatch(name) is not None


def is_safe(path: str) -> bool:
    """Return whether a path is a normalized one inside a vault, and not in `.git`.

    A backslash is part of a name, except where it separates folders.
    """
    try:
        parse_note_path(path)
    except RefusedError:
        return False
    return posixpath.normpath(path) == path and (os.sep == "/" or os.sep not in path)


def stays_inside(path: str, target: str) -> bool:
    """Return whether a link at a path of the vault points to a path inside the vault."""
    if not target or posixpath.isabs(target):
        return False
    destination = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    return destination == "." or is_safe(destination)


def _parents(path: str) -> list[str]:
    parts = path.split("/")[:-1]
    return ["/".join(parts[: n + 1]) for n in range(len(parts))]


_BLOCK = 1024 * 1024

#: Most bytes that tar adds to a member: its header, that of a long name, and padding.
_MAX_OVERHEAD_BYTES = 8_192


class _Spooled(NamedTuple):
    member: Member
    place: int


class ArchiveWriter:
    """A writer that collects members in a temporary file, because the manifest comes first."""

    def __init__(self, folder: Path) -> None:
        self._spool: IO[bytes] = tempfile.TemporaryFile(dir=folder)
        self._members: dict[str, _Spooled] = {}

    @property
    def members(self) -> dict[str, Member]:
        """The members added so far, by name."""
        return {name: each.member for name, each in self._members.items()}

    def add(
        self, name: str, blocks: Iterable[bytes], at: int = 0, executable: bool = False
    ) -> None:
        """Add a file."""
        offset, digest, size = self._spool.tell(), hashlib.sha256(), 0
        for block in blocks:
            self._spool.write(block)
            digest.update(block)
            size += len(block)
        member = Member(size, digest.hexdigest(), at, executable)
        self._members[name] = _Spooled(member, offset)

    def add_link(self, name: str, target: str) -> None:
        """Add a symbolic link."""
        self._members[name] = _Spooled(Member(0, "", link=target), 0)

    def write(
        self, file: Path, manifest: ArchiveManifest, progress: Callable[[int, int], None]
    ) -> int:
        """Write the archive atomically and durably, private to its owner; return its size in bytes.

        A fixed hidden name is used meanwhile, so that the next export replaces a killed one's file.

        Raises:
            OSError: writing failed; an earlier file is unchanged.
        """
        growing = file.with_name(f".{file.name}.vaultmem-export")
        drop_file(growing)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        try:
            with os.fdopen(os.open(growing, flags, 0o600), "w+b") as output:
                self._pack(output, manifest, progress)
                size = output.tell()
                output.flush()
                os.fsync(output.fileno())
            os.replace(growing, file)
        except BaseException:
            drop_file(growing)
            raise
        sync_folder(file.parent)
        return size

    def _pack(
        self, output: IO[bytes], manifest: ArchiveManifest, progress: Callable[[int, int], None]
    ) -> None:
        with (
            gzip.GzipFile("", "wb", 6, output, mtime=0) as gzip_file,
            tarfile.open(fileobj=gzip_file, mode="w", format=tarfile.PAX_FORMAT) as tar,
        ):
            data = format_manifest(manifest)
            tar.addfile(_describe(MANIFEST, Member(len(data), "")), io.BytesIO(data))
            for number, (name, each) in enumerate(sorted(self._members.items()), 1):
                self._spool.seek(each.place)
                tar.addfile(_describe(name, each.member), self._spool)
                progress(number, len(self._members))

    def close(self) -> None:
        """Remove the temporary file."""
        self._spool.close()


def _describe(name: str, member: Member) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size, info.mtime = member.bytes, member.at // 10**9
    info.mode = 0o755 if member.executable else 0o644
    if member.link:
        info.type, info.linkname = tarfile.SYMTYPE, member.link
    return info


class ArchiveReader:
    """An archive whose manifest was read and checked; its other members are not yet."""

    def __init__(
        self, file: Path, tar: tarfile.TarFile, limit: _Limit, manifest: ArchiveManifest
    ) -> None:
        self._file = file
        self._tar = tar
        self._limit = limit
        self.manifest = manifest

    def unpack(self, place: Callable[[str], Path], progress: Callable[[int, int], None]) -> None:
        """Write each member to the path that `place` returns, which must not exist; not durable.

        Raises:
            RefusedError: a member differs from the manifest, is missing, or is not in it.
        """
        members = dict(self.manifest.members)
        self._limit.most += self.manifest.size + _MAX_OVERHEAD_BYTES * len(members)
        total = len(members)
        with naming_archive(self._file):
            while (info := self._tar.next()) is not None:
                member = members.pop(info.name, None)
                if member is None:
                    raise RefusedError(f"{info.name!r} is not in its {MANIFEST}, or is there twice")
                self._put(place(info.name), info, member)
                progress(total - len(members), total)
            if members:
                reason = f"{min(members)!r} is missing, and {len(members) - 1:,} more"
                raise RefusedError(reason)

    def _put(self, target: Path, info: tarfile.TarInfo, member: Member) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        if member.link and info.issym() and info.linkname == member.link:
            os.symlink(member.link, target)
            return
        source = self._tar.extractfile(info) if info.isreg() and not info.issparse() else None
        if source is None or info.size != member.bytes:
            raise RefusedError(f"{info.name!r} is not what its {MANIFEST} says")
        mode = 0o777 if member.executable else 0o666
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        digest = hashlib.sha256()
        with os.fdopen(os.open(target, flags, mode), "wb") as file:
            while block := source.read(_BLOCK):
                digest.update(block)
                file.write(block)
        if digest.hexdigest() != member.sha256:
            raise RefusedError(f"{info.name!r} has other bytes than its {MANIFEST} says")
        os.utime(target, ns=(member.at, member.at))


@contextmanager
def open_archive(file: Path) -> Iterator[ArchiveReader]:
    """Open an archive and read its manifest.

    Raises:
        NoteNotFoundError: the file does not exist.
        RefusedError: it is not an archive, damaged, or of another format; the message names it.
    """
    if not file.is_file():
        raise NoteNotFoundError(f"{file}: there is no such file")
    with ExitStack() as cleanup:
        with naming_archive(file):
            gzip_file = cleanup.enter_context(gzip.open(file))
            limit = _Limit(gzip_file)
            tar = cleanup.enter_context(tarfile.open(fileobj=limit, mode="r:"))
            first = tar.next()
            source = tar.extractfile(first) if first and first.name == MANIFEST else None
            if first is None or source is None or first.size > MAX_MANIFEST:
                raise RefusedError("it is not an archive of a vault")
            manifest = parse_manifest(source.read())
        yield ArchiveReader(file, tar, limit, manifest)


@contextmanager
def naming_archive(file: Path) -> Iterator[None]:
    """Add the archive's path to a RefusedError, and convert errors of damaged archives to it."""
    try:
        yield
    except RefusedError as error:
        reason = str(error)
    except (gzip.BadGzipFile, tarfile.ReadError):
        reason = "it is not an archive of a vault, or is damaged"
    except (EOFError, tarfile.TarError, zlib.error, ValueError, OverflowError):
        reason = "it is damaged or cut short"
    except (FileExistsError, NotADirectoryError) as error:
        reason = f"two members have one name here: {error.filename}"
    else:
        return
    raise RefusedError(f"{file}: {reason}; nothing was written")


class _Limit(io.RawIOBase):
    """The unpacked bytes of a file, up to a limit: a few packed bytes can unpack to very many."""

    def __init__(self, packed: gzip.GzipFile) -> None:
        self._packed = packed
        self.most = MAX_MANIFEST + _MAX_OVERHEAD_BYTES

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes.

        Raises:
            RefusedError: the limit would be exceeded.
        """
        if not 0 <= size <= self.most - self._packed.tell() + _MAX_OVERHEAD_BYTES:
            raise RefusedError(f"it unpacks to more than its {MANIFEST} says")
        return self._packed.read(size)

    def seek(self, place: int, whence: int = 0) -> int:
        """Go to an offset within the limit."""
        if whence or place > self.most + _MAX_OVERHEAD_BYTES:
            raise RefusedError(f"it unpacks to more than its {MANIFEST} says")
        return self._packed.seek(place)

    def tell(self) -> int:
        """Return the offset."""
        return self._packed.tell()
