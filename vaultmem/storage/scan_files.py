"""Scan a vault's files, move files of the work tree, and read the settings of Obsidian."""

from __future__ import annotations

import contextlib
import hashlib
import marshal
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from vaultmem.core.notes.obsidian import FOLDER, READERS, ObsidianSettings, parse_settings
from vaultmem.core.text.blob import blob_id
from vaultmem.core.text.display import escape_bytes
from vaultmem.core.text.paths import (
    GENERATED,
    NOT_NOTES,
    NOTE_ENDINGS,
    TEMPLATES,
    fold,
    is_hidden,
    is_template_folder,
    is_text,
)
from vaultmem.errors import ConflictError, NoteNotFoundError, RefusedError
from vaultmem.storage.displaced_files import LEFTOVER, is_leftover
from vaultmem.storage.file_replacement import has_to_stay
from vaultmem.storage.files import (
    MAX_FILE_BYTES,
    UnsafeFileError,
    create_file,
    find_max_bytes,
    read_file,
    remove_file,
    replace_file,
    set_executable,
)
from vaultmem.storage.git.commit_draft import REGULAR, TreeEntry

if TYPE_CHECKING:
    from vaultmem.storage.git.commit_draft import Move, Moves


#: A file's size in bytes, modification and change times in ns, and inode number.
Stat = tuple[int, int, int, int]


@dataclass(slots=True)
class SkippedFiles:
    """Paths that are not notes, by reason; a folder ends in `/` and includes its contents.

    `hidden` are hidden by their names (except git's), `ignored` by vaultmem.yaml, `set_aside` are
    root folders without notes. `others` are other markdown files, by reason.
    """

    hidden: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    set_aside: list[str] = field(default_factory=list)
    others: dict[str, list[str]] = field(default_factory=dict)


class Scan(NamedTuple):
    """The result of a scan: notes and other files by path, and skipped paths.

    Paths are relative to the vault, with `/`. `unsafe` are files and folders that must not be
    read, with the reason; `leftovers` are files of interrupted writes.
    """

    notes: dict[str, Stat]
    others: dict[str, Stat]
    unsafe: dict[str, str]
    leftovers: list[str]
    skipped: SkippedFiles

    def signature(self) -> str:
        """Return a text that changes with notes, other files and unsafe files."""
        data = marshal.dumps((self.notes, self.others, self.unsafe), 2)
        return hashlib.sha256(data).hexdigest()


#: Hidden files at the root that are committed.
_COMMITTED = frozenset({".gitignore", ".gitattributes"})

#: A test for ignored paths, and a function that returns why a markdown file is not a note ("" if
#: it is one). None: there are no such paths.
Rules = tuple[Callable[[str], bool] | None, Callable[[str], str] | None]


def scan_vault(root: Path, rules: Rules = (None, None)) -> Scan:
    """Scan the vault by these rules, without following links."""
    scan = Scan({}, {}, {}, [], SkippedFiles())
    pending = [(os.fspath(root), "")]
    while pending:
        folder, prefix = pending.pop()
        try:
            _scan_folder(folder, prefix, rules, scan, pending)
        except OSError as error:
            problem = f"the folder cannot be read: {error.strerror}"
            scan.unsafe[escape_bytes(prefix.rstrip("/") or ".")] = problem
    skipped = scan.skipped
    for paths in (skipped.hidden, skipped.ignored, skipped.set_aside, *skipped.others.values()):
        paths.sort()
    return scan


def _scan_folder(
    folder: str,
    prefix: str,
    rules: Rules,
    scan: Scan,
    pending: list[tuple[str, str]],
) -> None:
    """Add the entries of one folder to the scan; not split, because it runs for each file."""
    ignored, set_aside = rules
    top = prefix.split("/", 1)[0]
    has_notes = top not in NOT_NOTES and not is_template_folder(top)
    with _open_folder(folder) as entries:
        for entry in entries:
            name = entry.name
            path = prefix + name
            is_note = name[-3:] == ".md"
            if name[0] in ".~#" or (not is_note and is_hidden(name)):
                if name.startswith(LEFTOVER) and is_leftover(name):
                    scan.leftovers.append(path)
                if has_notes and name != ".git" and path not in _COMMITTED:
                    scan.skipped.hidden.append(_show(entry, path))
                continue
            if ignored is not None and ignored(path):
                if has_notes:
                    scan.skipped.ignored.append(_show(entry, path))
                continue
            if entry.is_dir(follow_symlinks=False):
                _enter_folder(os.path.join(folder, name), path, scan, pending)
                continue
            is_note = has_notes and (is_note or name.lower().endswith(NOTE_ENDINGS))
            if is_note and set_aside is not None and (reason := set_aside(path)):
                if path not in GENERATED:
                    scan.skipped.others.setdefault(reason, []).append(escape_bytes(path))
                is_note = False
            if not entry.is_file(follow_symlinks=False):
                _reject_entry(entry, path, is_note, scan)
                continue
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue  # It was removed since the folder was listed.
            if not path.isascii() and not is_text(path):
                scan.unsafe[escape_bytes(path)] = "its name is not UTF-8"
                continue
            stat = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
            if is_note and status.st_size <= MAX_FILE_BYTES and path not in GENERATED:
                scan.notes[path] = stat
            elif path not in GENERATED:
                scan.others[path] = stat
                if is_note:
                    limit = MAX_FILE_BYTES // 1024 // 1024
                    scan.unsafe[path] = f"{TOO_LARGE_PREFIX} {limit} MiB"


@contextlib.contextmanager
def _open_folder(folder: str) -> Iterator[Iterator[os.DirEntry[str]]]:
    """Open a folder that is not a link; its entries are looked up by name, not by long path."""
    if os.scandir not in os.supports_fd:
        with os.scandir(folder) as entries:
            yield entries
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        with os.scandir(descriptor) as entries:
            yield entries
    finally:
        os.close(descriptor)


def _show(entry: os.DirEntry[str], path: str) -> str:
    """Return the path of an entry for display, with a slash at the end of a folder's."""
    return escape_bytes(path) + ("/" if entry.is_dir(follow_symlinks=False) else "")


def _enter_folder(folder: str, path: str, scan: Scan, pending: list[tuple[str, str]]) -> None:
    if path in NOT_NOTES or ("/" not in path and is_template_folder(path)):
        scan.skipped.set_aside.append(f"{escape_bytes(path)}/")
    if os.path.lexists(os.path.join(folder, ".git")):
        scan.unsafe[escape_bytes(path)] = OWN_REPOSITORY
    elif path not in {"transcripts", "media"}:
        pending.append((folder, path + "/"))


def _reject_entry(entry: os.DirEntry[str], path: str, is_note: bool, scan: Scan) -> None:
    if entry.is_symlink():
        scan.unsafe[escape_bytes(path)] = LINK
    elif is_note:
        scan.unsafe[escape_bytes(path)] = "it is not a regular file"


#: The start of the reason for a note that is too large to read.
TOO_LARGE_PREFIX = "it is larger than"

#: The reasons for folders and files that are never read, and need no repair.
OWN_REPOSITORY, LINK = "it is a git repository of its own", "it is a symbolic link"


def count_folders(root: Path, limit: int) -> int:
    """Return the number of folders including hidden ones, at most `limit`; links are not followed.

    A watcher asks the system to watch each of them.
    """
    count = 0
    for _ in os.walk(root):
        count += 1
        if count >= limit:
            break
    return count


# Files of the work tree change from one tree entry to another, each only if it has the old bytes.
#
# Git's own checkout would run the repository's filters, and overwrite an editor's save.

_EXECUTABLE = "100755"


def move_files(root: Path, moves: Moves, contents: Mapping[str, bytes]) -> None:
    """Change files as `moves` lists; their new bytes are in `contents` by blob id.

    Raises:
        ConflictError: a file has other bytes than expected; earlier files are already changed.
    """
    for path, (before, after), is_in_the_way in order_moves(moves):
        move_file(root, PurePosixPath(path), before, after, contents)
        if is_in_the_way:
            remove_empty_folders(root, PurePosixPath(path).parent)


def order_moves(moves: Moves) -> Iterator[tuple[str, Move, bool]]:
    """Yield the moves in order: removals of blocking files, new files, replacements, removals.

    This order never breaks a link. The last value is whether the old file blocks a new one: a file
    in place of a folder, a file in a folder in place of a file, or the same name in another case.
    """
    new = {path for path, (before, after) in moves.items() if before is None and after is not None}
    parents = {parent for path in new for parent in _parents(path)}
    folded_names = {fold(path) for path in new}

    def rank(path: str) -> int:
        if moves[path][1] is not None:
            return 1 if path in new else 2
        is_in_the_way = (
            path in parents or fold(path) in folded_names or not new.isdisjoint(_parents(path))
        )
        return 0 if is_in_the_way else 3

    for order, path in sorted((rank(path), path) for path in moves):
        yield path, moves[path], order == 0


def move_file(
    root: Path,
    path: PurePosixPath,
    before: TreeEntry | None,
    after: TreeEntry | None,
    contents: Mapping[str, bytes],
) -> None:
    """Create, replace or remove a file; its new bytes are in `contents` by blob id.

    Raises:
        ConflictError: it has other bytes than `before`, or exists although `before` is None.
    """
    if after is None:
        if before is not None:
            remove_file(root, path, before.blob, find_max_bytes(str(path)))
        return
    mode = None if after.mode in REGULAR else int(after.mode[-3:], 8)
    if before is None:
        create_file(root, path, contents[after.blob], mode)
    elif before.blob != after.blob:
        limit = find_max_bytes(str(path))
        replace_file(root, path, before.blob, contents[after.blob], limit)
    if mode is None and (before.mode if before else "100644") != after.mode:
        set_executable(root, path, after.mode == _EXECUTABLE)


def put_back(
    root: Path,
    path: PurePosixPath,
    move: Move,
    earlier: tuple[str, ...],
    contents: Mapping[str, bytes],
) -> None:
    """Undo one file's move if it was made (or half made) and the file is unchanged since.

    `earlier` are blobs that the file had before its last one.
    """
    before, after = move
    # These errors mean that another process changed the file or a folder of its path.
    with contextlib.suppress(ConflictError, RefusedError, UnsafeFileError):
        now = read_blob(root, path)
        if now == (after.blob if after else ""):
            move_file(root, path, after, before, contents)
        elif now in earlier or _is_half_written(root, path, move, contents):
            mode = (after or before or TreeEntry("100644", "")).mode
            move_file(root, path, TreeEntry(mode, now), before, contents)
        if before is None:
            remove_empty_folders(root, path.parent)


def _is_half_written(
    root: Path, path: PurePosixPath, move: Move, contents: Mapping[str, bytes]
) -> bool:
    """Return whether each byte is an old or a new one, as after a killed write in place."""
    old, new = (contents.get(entry.blob) if entry else None for entry in move)
    if old is None or new is None or not has_to_stay(root / path):
        return False
    now = read_file(root, path, find_max_bytes(str(path)))
    longest = max(len(old), len(new))
    is_fitting = min(len(old), len(new)) <= len(now) <= longest
    padded_texts = (each.ljust(longest, b"\0") for each in (old, new))
    return is_fitting and all(byte in pair for byte, *pair in zip(now, *padded_texts, strict=False))


def read_blob(root: Path, path: PurePosixPath) -> str:
    """Return the blob id of a file, empty if it does not exist.

    Raises:
        UnsafeFileError: the file must not be read.
    """
    try:
        return blob_id(read_file(root, path, find_max_bytes(str(path))))
    except NoteNotFoundError:
        return ""


def remove_empty_folders(root: Path, folder: PurePosixPath) -> None:
    """Remove a folder and its parents below `root` while they are empty."""
    with contextlib.suppress(OSError):  # Not empty or already removed, as in git.
        while folder.parts:
            (root / folder).rmdir()
            folder = folder.parent


def _parents(path: str) -> Iterator[str]:
    return (path[:at] for at, mark in enumerate(path) if mark == "/")


# The settings in a vault's `.obsidian` folder, cached until one of its files changes.

_NONE = ObsidianSettings()

_Seen = tuple[tuple[int, ...] | None, ...]


class ObsidianFolder:
    """The settings of one vault, read again when one of their files changes.

    Views of commits use the folder on disk too: settings are the owner's current ones, and are
    seldom committed. Links are not followed.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._stamps: _Seen | None = None
        self._settings = _NONE

    def read(self) -> ObsidianSettings:
        """Return the current settings; files that cannot be read are listed in `problems`."""
        folder = f"{self._root}/{FOLDER}"
        if (folder_stamp := _inspect(folder)) is None:
            return _NONE
        stamps = (folder_stamp[:2], *(_inspect(f"{folder}/{name}") for name in READERS))
        if stamps != self._stamps:
            self._settings = self._read()
            self._stamps = stamps
        return self._settings

    def _read(self) -> ObsidianSettings:
        if not stat.S_ISDIR(os.lstat(self._root / FOLDER).st_mode):
            return _NONE._replace(problems=(f"{FOLDER}: not a folder; links are never followed",))
        files: dict[str, bytes] = {}
        problems: list[str] = []
        for name in READERS:
            try:
                files[name] = read_file(self._root, PurePosixPath(FOLDER, name))
            except NoteNotFoundError:
                continue
            except UnsafeFileError as error:
                problems.append(str(error))
            except OSError as error:
                problems.append(f"{FOLDER}/{name}: cannot be read ({error.strerror})")
        return parse_settings(files, problems)


def read_obsidian(root: Path) -> ObsidianSettings:
    """Return the settings in a vault's `.obsidian`, the defaults if it does not exist."""
    return ObsidianFolder(root).read()


def find_template_folder(root: Path, settings: ObsidianSettings) -> str:
    """Return the path in the vault of its templates folder, which might not exist yet.

    The first of: Obsidian's, Templater's, a root folder with this name, `templates`.
    """
    if settings.template_folders:
        return settings.template_folders[0]
    with contextlib.suppress(OSError), os.scandir(root) as entries:
        folders = (each.name for each in entries if each.is_dir(follow_symlinks=False))
        return min(filter(is_template_folder, folders), default=TEMPLATES)
    return TEMPLATES


def _inspect(path: str) -> tuple[int, ...] | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return (status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
