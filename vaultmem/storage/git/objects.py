"""Read and write git objects, and build trees of them."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from vaultmem.core.text.patterns import compile_later
from vaultmem.errors import NoteNotFoundError, SystemFailureError, VaultError
from vaultmem.storage.git.commit_draft import TreeEntry

if TYPE_CHECKING:
    from vaultmem.storage.git.runner import GitRunner


#: Ids sent before the first result is read; their names fit any pipe's buffer.
_MAX_BATCH_IDS = 500


class ObjectReader:
    """Reads blobs, trees and commits by id, with one `git cat-file --batch` process."""

    def __init__(self, git: GitRunner) -> None:
        self._git = git
        self._process: Any = None

    def read(self, name: str) -> tuple[str, bytes]:
        """Return the kind (blob, tree, commit, tag) and content of one object.

        Raises:
            NoteNotFoundError: the repository lacks the object (a shallow clone, perhaps).
        """
        return next(self.read_all([name]))

    def read_all(self, names: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """Yield kind and content of each object, in order; a name is an id or expression.

        Raises:
            NoteNotFoundError: the repository lacks one of them.
        """
        requested_names = list(names)
        for name, each in zip(requested_names, self._receive_all(requested_names), strict=True):
            if each is None:
                raise NoteNotFoundError(f"{name[:12]}: the repository does not have this object")
            yield each

    def find_all(self, names: Iterable[str]) -> list[tuple[str, bytes] | None]:
        """Return kind and content of each object, in order; None for a missing one."""
        return list(self._receive_all(list(names)))

    def _receive_all(self, names: list[str]) -> Iterator[tuple[str, bytes] | None]:
        if invalid_names := [name for name in names if "\n" in name]:
            raise NoteNotFoundError(
                f"{invalid_names[0]!r}: the repository does not have this object"
            )
        for start in range(0, len(names), _MAX_BATCH_IDS):
            chunk = names[start : start + _MAX_BATCH_IDS]
            pipe = self._open()
            try:
                pipe.stdin.write(os.fsencode("".join(f"{name}\n" for name in chunk)))
                pipe.stdin.flush()
                # A whole chunk is read before any result is yielded: a caller can stop half-way.
                results = [self._receive(pipe) for _ in chunk]
            except (BrokenPipeError, EOFError):
                self.close()
                raise SystemFailureError(
                    "git cat-file ended early; run the command again"
                ) from None
            yield from results

    def close(self) -> None:
        """End the process; the next read starts it again."""
        if self._process is None:
            return
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        with contextlib.suppress(Exception):
            self._process.wait()
        for stream in (self._process.stdout, self._process.stderr):
            stream.close()
        self._process = None

    def _open(self) -> Any:
        if self._process is None:
            self._process = self._git.start("cat-file", "--batch")
        return self._process

    def _receive(self, pipe: Any) -> tuple[str, bytes] | None:
        head = pipe.stdout.readline().decode("utf-8", "replace").split()
        if not head:
            raise EOFError
        if len(head) < 3 or not head[-1].isdigit():  # "... missing"
            return None
        data = pipe.stdout.read(int(head[-1]) + 1)
        if len(data) != int(head[-1]) + 1:
            raise EOFError
        return head[-2], data[:-1]


_KINDS = {"commit": 1, "tree": 2, "blob": 3}

#: From this many objects on, they stay one pack file; git's own limit on receiving.
_UNPACK_LIMIT = 100


class ObjectPack:
    """Blobs, trees and commits to be stored together."""

    def __init__(self) -> None:
        self._objects: dict[str, tuple[str, bytes]] = {}

    def __len__(self) -> int:
        return len(self._objects)

    def add(self, kind: str, data: bytes) -> str:
        """Add a blob, tree or commit and return its id."""
        name = object_id(kind, data)
        self._objects.setdefault(name, (kind, data))
        return name

    def write(self, git: GitRunner) -> None:
        """Store all objects durably; existing objects stay unchanged."""
        if not self._objects:
            return
        is_small = len(self._objects) < _UNPACK_LIMIT
        command = ("unpack-objects", "-q") if is_small else ("index-pack", "--stdin")
        git.run(*command, stdin=self._format())
        self._objects.clear()

    def _format(self) -> bytes:
        parts = [b"PACK", struct.pack(">II", 2, len(self._objects))]
        for kind, data in self._objects.values():
            parts.append(_format_head(_KINDS[kind], len(data)))
            parts.append(zlib.compress(data))
        body = b"".join(parts)
        return body + hashlib.sha1(body, usedforsecurity=False).digest()


def object_id(kind: str, data: bytes) -> str:
    """Return git's name for an object, 40 hex digits."""
    head = b"%s %d\0" % (kind.encode(), len(data))
    return hashlib.sha1(head + data, usedforsecurity=False).hexdigest()


def _format_head(kind: int, size: int) -> bytes:
    head = bytearray()
    byte, size = kind << 4 | size & 0x0F, size >> 4
    while size:
        head.append(byte | 0x80)
        byte, size = size & 0x7F, size >> 7
    head.append(byte)
    return bytes(head)


# Build trees from a commit's: only folders with changes are read or written.
#
# A tree is a sequence of entries "<mode> <name>\0<20 bytes>", sorted by name, with a folder's name
# compared as if it ended in a slash. Source: gitformat-tree; git's base_name_compare().

#: Entries of one folder by name: mode and the 20 bytes of the id.
Folder = dict[bytes, tuple[bytes, bytes]]

_FOLDER = b"40000"
_MODES = frozenset({b"100644", b"100755", b"120000", b"160000", _FOLDER})
_ENTRY = re.compile(rb"([0-7]{1,7}) ([^\0]+)\0(.{20})", re.DOTALL)
_NO_ENTRY = (b"", b"")

# Characters that HFS+ ignores in a name, and names that NTFS treats as `.git`.
_UNSEEN = compile_later("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")
_DOT_GIT = compile_later(r"(?i)(\.git|git~1)[ .]*(:.*)?")


class TreeBuilder:
    """Reads trees from `objects`, once each, and adds new ones to `pack`."""

    def __init__(self, objects: ObjectReader, pack: ObjectPack) -> None:
        self._objects = objects
        self._pack = pack
        self._trees: dict[str, Folder] = {"": {}}

    def root(self, commit: str) -> str:
        """Return the id of a commit's tree, "" for no commit."""
        if not commit:
            return ""
        kind, data = self._objects.read(f"{commit}^{{tree}}")
        name = object_id(kind, data)
        self._trees[name] = _parse_tree(name, data)
        return name

    def entries(self, root: str, paths: Iterable[str]) -> dict[str, TreeEntry]:
        """Return the entries of those paths that are files in the tree `root`."""
        raw_paths = {_encode(path): path for path in paths}
        folders = self._read_folders(root, raw_paths)
        entries: dict[str, TreeEntry] = {}
        for raw, path in raw_paths.items():
            folder, name = _split(raw)
            mode, blob = folders[folder].get(name, _NO_ENTRY)
            if mode and mode != _FOLDER:
                entries[path] = TreeEntry(mode.decode(), blob.hex())
        return entries

    def change(self, root: str, changes: Mapping[str, TreeEntry | None]) -> str:
        """Return the id of the tree `root` with these files set, or removed (None).

        As in git's index, a file replaces a folder and a folder a file. Only files are removed, and
        a folder without files disappears.
        """
        if root and not changes:
            return root
        raw = {_encode(path): entry for path, entry in changes.items()}
        folders = {name: dict(entries) for name, entries in self._read_folders(root, raw).items()}
        for path in (path for path, entry in raw.items() if entry is None):
            folder, name = _split(path)
            if folders[folder].get(name, _NO_ENTRY)[0] != _FOLDER:
                folders[folder].pop(name, None)
        files = {path: entry for path, entry in raw.items() if entry is not None}
        for path, entry in files.items():
            folder, name = _split(path)
            folders[folder][name] = (entry.mode.encode(), bytes.fromhex(entry.blob))
        for path in sorted(folders.keys() - {b""}, key=_depth, reverse=True):
            if path[:-1] in files:
                continue
            parent, name = _split(path[:-1])
            if folders[path]:
                tree_id = self._add_tree(folders[path])
                folders[parent][name] = (_FOLDER, bytes.fromhex(tree_id))
            elif folders[parent].get(name, _NO_ENTRY)[0] == _FOLDER:
                del folders[parent][name]
        return self._add_tree(folders[b""])

    def _read_folders(self, root: str, paths: Iterable[bytes]) -> dict[bytes, Folder]:
        """Return the folders above these paths, by name with a final slash; b"" is the root."""
        levels: dict[int, set[bytes]] = {}
        seen: set[bytes] = set()
        for path in paths:
            end = path.rfind(b"/") + 1
            while end and path[:end] not in seen:
                seen.add(path[:end])
                levels.setdefault(_depth(path[:end]), set()).add(path[:end])
                end = path.rfind(b"/", 0, end - 1) + 1
        self._load([root])
        folders = {b"": self._trees[root]}
        for depth in sorted(levels):
            names: dict[bytes, str] = {}
            for folder in levels[depth]:
                parent, name = _split(folder[:-1])
                mode, tree = folders[parent].get(name, _NO_ENTRY)
                names[folder] = tree.hex() if mode == _FOLDER else ""
            self._load(names.values())
            folders |= {folder: self._trees[name] for folder, name in names.items()}
        return folders

    def _load(self, names: Iterable[str]) -> None:
        unread = sorted(set(names) - self._trees.keys())
        for name, (_, data) in zip(unread, self._objects.read_all(unread), strict=True):
            self._trees[name] = _parse_tree(name, data)

    def _add_tree(self, folder: Folder) -> str:
        name = self._pack.add("tree", _format_tree(folder))
        self._trees[name] = folder
        return name


def is_refused_name(path: str) -> bool:
    """Return whether git rejects a file name because some file systems treat it as `.git`."""
    parts = re.split(r"[/\\]", _UNSEEN.sub("", path))
    return any(_DOT_GIT.fullmatch(part) for part in parts)


def _parse_tree(name: str, data: bytes) -> Folder:
    entries: list[tuple[bytes, bytes, bytes]] = _ENTRY.findall(data)
    if sum(len(mode) + len(entry) for mode, entry, _ in entries) + 22 * len(entries) != len(data):
        raise VaultError(f"git tree {name[:12]} is damaged; see `git fsck`")
    return {
        entry: (mode if mode in _MODES else _usual_mode(mode), blob)
        for mode, entry, blob in entries
    }


def _usual_mode(mode: bytes) -> bytes:
    """Return a mode as in git's index; old versions and other tools wrote others."""
    number = int(mode, 8)
    match number & 0o170000:
        case 0o100000:
            return b"100755" if number & 0o100 else b"100644"
        case 0o120000:
            return b"120000"
        case 0o040000:
            return _FOLDER
    return b"160000"


def _format_tree(folder: Folder) -> bytes:
    ordered = sorted(folder.items(), key=_sort_key)
    return b"".join([b"%s %s\0%s" % (mode, name, blob) for name, (mode, blob) in ordered])


def _sort_key(item: tuple[bytes, tuple[bytes, bytes]]) -> bytes:
    name, (mode, _) = item
    return name + b"/" if mode == _FOLDER else name


def _encode(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")


def _split(path: bytes) -> tuple[bytes, bytes]:
    """Return the folder with a final slash (b"" at the top), and the name."""
    at = path.rfind(b"/") + 1
    return path[:at], path[at:]


def _depth(folder: bytes) -> int:
    return folder.count(b"/")
