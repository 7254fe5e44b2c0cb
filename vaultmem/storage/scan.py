"""A walk through the vault: which files there are, which changed, and which are not looked at."""

from __future__ import annotations

import contextlib
import hashlib
import marshal
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from vaultmem.core.paths import (
    GENERATED,
    NOT_NOTES,
    NOTE_ENDINGS,
    is_hidden,
    is_template_folder,
    is_text,
)
from vaultmem.core.safe_text import escape_bytes
from vaultmem.storage.asides import LEFTOVER, is_leftover
from vaultmem.storage.files import MAX_FILE_BYTES

#: What the file system says of a file: size in bytes, times in ns, inode number.
Stat = tuple[int, int, int, int]


class Scan(NamedTuple):
    """What a walk found: notes and other files by path, and why anything was passed over.

    Paths are relative to the vault, with `/`. `unsafe` are files that exist but must not be
    read; `leftovers` are those of interrupted writes.
    """

    notes: dict[str, Stat]
    others: dict[str, Stat]
    unsafe: dict[str, str]
    leftovers: list[str]

    def signature(self) -> str:
        """Return a text that differs whenever the walk found something else."""
        found = marshal.dumps((self.notes, self.others, self.unsafe), 2)
        return hashlib.sha256(found).hexdigest()


#: What tells paths to pass over, and what says why a markdown file is no note ("": it is one);
#: None where there is no such path.
Rules = tuple[Callable[[str], bool] | None, Callable[[str], str] | None]


def scan_vault(root: Path, rules: Rules = (None, None)) -> Scan:
    """Walk the vault without following any link, under these rules."""
    scan = Scan({}, {}, {}, [])
    pending = [(os.fspath(root), "")]
    while pending:
        folder, prefix = pending.pop()
        try:
            _scan_folder(folder, prefix, rules, scan, pending)
        except OSError as error:
            problem = f"the folder cannot be read: {error.strerror}"
            scan.unsafe[escape_bytes(prefix.rstrip("/") or ".")] = problem
    return scan


def _scan_folder(
    folder: str,
    prefix: str,
    rules: Rules,
    scan: Scan,
    pending: list[tuple[str, str]],
) -> None:
    """Sort the entries of one folder; written flat, because it runs for each file each time."""
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
                continue
            if ignored is not None and ignored(path):
                continue
            if entry.is_dir(follow_symlinks=False):
                _enter_folder(os.path.join(folder, name), path, scan, pending)
                continue
            is_note = has_notes and (is_note or name.lower().endswith(NOTE_ENDINGS))
            if is_note and set_aside is not None and set_aside(path):
                is_note = False
            if not entry.is_file(follow_symlinks=False):
                _refuse_entry(entry, path, is_note, scan)
                continue
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue  # It went away between listing and looking.
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
                    scan.unsafe[path] = f"{LARGER} {limit} MiB"


@contextlib.contextmanager
def _open_folder(folder: str) -> Iterator[Iterator[os.DirEntry[str]]]:
    """Open a folder that is no link, so that its entries are looked up in it, not by long paths."""
    if os.scandir not in os.supports_fd:
        with os.scandir(folder) as entries:
            yield entries
        return
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        with os.scandir(opened) as entries:
            yield entries
    finally:
        os.close(opened)


def _enter_folder(folder: str, path: str, scan: Scan, pending: list[tuple[str, str]]) -> None:
    if os.path.lexists(os.path.join(folder, ".git")):
        scan.unsafe[escape_bytes(path)] = "it is a git repository of its own"
    elif path not in {"transcripts", "media"}:
        pending.append((folder, path + "/"))


def _refuse_entry(entry: os.DirEntry[str], path: str, is_note: bool, scan: Scan) -> None:
    if entry.is_symlink():
        scan.unsafe[escape_bytes(path)] = "it is a symbolic link"
    elif is_note:
        scan.unsafe[escape_bytes(path)] = "it is not a regular file"


#: How the problem of a note begins that is too large to be read.
LARGER = "it is larger than"

#: Hidden files at the root that are committed all the same.
_COMMITTED = frozenset({".gitignore", ".gitattributes"})


@dataclass(slots=True)
class PassedOver:
    """Paths that are no notes, by reason; a folder means all that is in it and ends in `/`.

    `hidden` are those hidden by their names but for git's own, `ignored` those that vaultmem.yaml
    names, `set_aside` the folders at the root that hold no notes. `others` are markdown files that
    are none by other rules, by the reason.
    """

    hidden: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    set_aside: list[str] = field(default_factory=list)
    others: dict[str, list[str]] = field(default_factory=dict)


def find_passed_over(root: Path, rules: Rules = (None, None)) -> PassedOver:
    """Walk the vault without following any link, under the rules of `scan_vault`."""
    found = PassedOver()
    pending = [(os.fspath(root), "")]
    while pending:
        folder, prefix = pending.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    name = entry.name
                    plain = rules == (None, None) and name[0] not in ".~#" and name.endswith(".md")
                    if plain and not entry.is_dir(follow_symlinks=False):
                        continue  # By far the most are notes, and need no closer look.
                    if _look_at_entry(entry, prefix + name, rules, found):
                        pending.append((entry.path, f"{prefix}{name}/"))
        except OSError:
            continue  # The scan tells of it.
    for paths in (found.hidden, found.ignored, found.set_aside, *found.others.values()):
        paths.sort()
    return found


def count_folders(root: Path, most: int) -> int:
    """Return how many folders there are, links not followed, hidden ones included; `most` at most.

    These are the ones that a watcher asks the system to watch.
    """
    count = 0
    for _ in os.walk(root):
        count += 1
        if count >= most:
            break
    return count


def _look_at_entry(entry: os.DirEntry[str], path: str, rules: Rules, found: PassedOver) -> bool:
    """Sort one entry; tell whether it is a folder to look into."""
    ignored, set_aside = rules
    name = entry.name
    shown = escape_bytes(path)
    is_folder = entry.is_dir(follow_symlinks=False)
    mark = "/" if is_folder else ""
    if is_hidden(name):
        if name != ".git" and path not in _COMMITTED:
            found.hidden.append(shown + mark)
    elif ignored is not None and ignored(path):
        found.ignored.append(shown + mark)
    elif path in GENERATED:
        return False
    elif is_folder and (path in NOT_NOTES or ("/" not in path and is_template_folder(path))):
        found.set_aside.append(shown + mark)
    elif (
        set_aside
        and name.lower().endswith(NOTE_ENDINGS)
        and (why := set_aside(path))
        and not is_folder
    ):
        found.others.setdefault(why, []).append(shown)
    else:
        return is_folder and not os.path.lexists(os.path.join(entry.path, ".git"))
    return False
