"""What is on disk and in no commit yet, and who wrote it."""

from __future__ import annotations

import stat
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from pathlib import PurePosixPath
from typing import NamedTuple

from vaultmem.core.blob import blob_id
from vaultmem.core.notes.conflict import find_conflict
from vaultmem.core.notes.encoding import decode_text
from vaultmem.core.notes.frontmatter import read_frontmatter
from vaultmem.core.notes.sections import find_fences
from vaultmem.core.paths import is_note_name
from vaultmem.core.safe_text import name_some
from vaultmem.core.secrets.rules import IGNORE_NAME, SETTINGS_NAME
from vaultmem.errors import NoteNotFoundError
from vaultmem.services.reading.sync import sync_to_read, sync_vault
from vaultmem.services.writing.leaks import find_leaks
from vaultmem.services.writing.moves import AddedNote, RemovedNote, find_moves
from vaultmem.storage.files import (
    MAX_ATTACHMENT_MIB,
    UnsafeFileError,
    find_max_bytes,
    hash_file,
    read_file_and_mode,
    read_known,
)
from vaultmem.storage.git.commit_draft import File, TreeEntry
from vaultmem.storage.git.head_tree import HeadTree
from vaultmem.storage.git.tree_builder import is_refused_name
from vaultmem.storage.journal import REMOVED, Author, Draft, choose_draft, choose_lost
from vaultmem.vault import Vault

#: Files besides the scan's that belong to a vault, hidden by their names.
HIDDEN_FILES = (".gitignore", ".gitattributes", SETTINGS_NAME, IGNORE_NAME)


_LARGER = "larger than"


class Whose(Enum):
    """Whose uncommitted bytes are meant, seen from the present author."""

    OTHERS = 1
    OTHERS_AND_EDITS = 2  # Also what the present author, a person, edited by hand.
    ANYBODY = 3


class Drafted(NamedTuple):
    """What an agent had written, and where: a person may have moved it since."""

    author: Author
    file: tuple[str, bytes]
    path: str


class Pending(NamedTuple):
    """Files that differ from the commit `parent`, by path, with their authors.

    No author is a person by hand. `skipped` are files that no commit takes, with the reason.
    `drafts` are what agents had written where a person edited it by hand before it was committed.
    `moved` has for new files the paths that they had before, be it in no commit.
    """

    parent: str
    files: dict[str, File]
    authors: dict[str, Author | None]
    skipped: dict[str, str]
    drafts: dict[str, Drafted]
    moved: dict[str, str]

    def of(self, paths: Iterable[str]) -> dict[str, File]:
        """Return those of the files that have these paths."""
        return {path: self.files[path] for path in sorted(paths) if path in self.files}

    def find_before(self, path: str) -> str:
        """Return the path that HEAD has of a new file that was moved, "" if it was not."""
        while path and (path not in self.files or self.files[path] is not None):
            path = self.moved.get(path, "")
        return path

    def written_by(self, author: Author) -> list[str]:
        """Return the paths of what an author wrote in its session, or in none that was named."""
        return sorted(path for path, who in self.authors.items() if who and is_own(who, author))


def tell_left_out(skipped: Mapping[str, str]) -> list[str]:
    """Return a line for each reason why files were left out, with the first of their names."""
    paths: dict[str, list[str]] = {}
    for path, reason in skipped.items():
        paths.setdefault(reason, []).append(path)
    return [f"{name_some(found)}: {reason}" for reason, found in paths.items()]


def find_too_large(skipped: Mapping[str, str]) -> dict[str, str]:
    """Return those of the files left out that are too large to be committed."""
    return {path: why for path, why in skipped.items() if why.startswith(_LARGER)}


def describe_too_large(skipped: Mapping[str, str]) -> list[str]:
    """Return lines with the files that are in no commit because of their size, and the remedy."""
    large = find_too_large(skipped)
    if not large:
        return []
    remedies = ["divide the note"] * any(map(is_note_name, large))
    if not all(map(is_note_name, large)):
        remedies += [
            f"`attachments_max_mib: N` in vaultmem.yaml (N up to {MAX_ATTACHMENT_MIB}) has files "
            "that are not notes committed up to N MiB"
        ]
    reason = "no commit has them, so other machines do not get them"
    return [*tell_left_out(large), f"{reason}; {'; '.join(remedies)}"]


def find_pending(vault: Vault) -> Pending:
    """Compare what is on disk with HEAD; only files that may differ are read."""
    sync_vault(vault)
    return _compare(vault)


def read_pending(vault: Vault) -> Pending:
    """Compare as `find_pending` does, to show it; where another process writes, with what was."""
    sync_to_read(vault)
    return _compare(vault)


def _compare(vault: Vault) -> Pending:
    parent = vault.history.head().commit
    head = HeadTree(vault.state)
    head.follow(vault.history, parent)
    changed, gone = head.difference()
    changed += [path for path in HIDDEN_FILES if (vault.root / path).is_file()]
    changed += _find_followed(vault, parent, gone)
    entries = head.entries(changed)
    ignored = vault.history.ignored([path for path in changed if path not in entries])
    files: dict[str, File] = {}
    skipped: dict[str, str] = {}
    for path in changed:
        if path in ignored:
            continue
        found = _read(vault, path, entries.get(path), skipped)
        if found is None:
            continue
        mode, data = found
        if conflict := _find_conflict(path, data):
            skipped[path] = conflict
            continue
        blob = blob_id(data)
        vault.manifest.set_blob(path, blob)
        entry = entries.get(path)
        if entry is None:
            files[path] = (mode, data)
        elif entry.blob != blob:
            files[path] = (entry.mode, data)
    files |= dict.fromkeys(_find_removed(vault, gone))
    authors = {
        path: find_writer(vault, path, REMOVED if file is None else blob_id(file[1]))
        for path, file in files.items()
    }
    by_hand = {path: file for path, file in files.items() if file and authors[path] is None}
    drafts = {
        path: Drafted(draft.author, (file[0], draft.data), path)
        for path, file in by_hand.items()
        if (draft := _find_draft(vault, path, file[1], entries.get(path)))
    }
    added = {path: file for path, file in files.items() if file and path not in entries}
    unknown = added.keys() & by_hand.keys() - drafts.keys()
    lost = _find_lost(vault, {path: added[path] for path in unknown})
    moved = _find_moved(vault, files, authors, drafts | lost, added)
    return Pending(parent, files, authors, skipped, drafts | lost, moved)


def _find_lost(vault: Vault, added: Mapping[str, tuple[str, bytes]]) -> dict[str, Drafted]:
    """Return what agents had written of new files where a person has moved it from."""
    drafts = vault.journal.find_lost() if added else []
    committed = HeadTree(vault.state).entries(each.path for each in drafts)
    changed = [
        each
        for each in drafts
        if not (each.path in committed and committed[each.path].blob == each.draft.blob)
        and not find_leaks(vault, {each.path: each.draft.data})
    ]
    found = choose_lost(changed, {path: data for path, (_, data) in added.items()})
    return {
        path: Drafted(each.draft.author, (added[path][0], each.draft.data), each.path)
        for path, each in found.items()
    }


def _find_moved(
    vault: Vault,
    files: Mapping[str, File],
    authors: Mapping[str, Author | None],
    drafts: Mapping[str, Drafted],
    added: Mapping[str, tuple[str, bytes]],
) -> dict[str, str]:
    """Return which paths new files had before, an agent's draft included."""
    moved = {path: each.path for path, each in drafts.items() if each.path != path}
    gone = HeadTree(vault.state).entries(path for path, file in files.items() if file is None)
    removed = {
        path: RemovedNote(entry.blob, _name_agent(authors[path]))
        for path, entry in gone.items()
        if path not in moved.values()
    }
    new: dict[str, AddedNote] = {}
    for path, (_, data) in added.items() if removed else ():
        if draft := drafts.get(path):
            if draft.path not in gone:
                new[draft.path] = AddedNote(draft.file[1], draft.author.agent)
        else:
            new[path] = AddedNote(data, _name_agent(authors[path]))
    return moved | find_moves(vault, new, removed) if new else moved


def _name_agent(author: Author | None) -> str:
    return author.agent if author else ""


def _find_followed(vault: Vault, parent: str, gone: Sequence[str]) -> list[str]:
    """Return those of the files that only HEAD has which no scan looks at, if they differ.

    What vaultmem itself writes by its settings is for no commit.
    """
    config = vault.config
    if not config.ignore:
        return []
    passed = [each for each in gone if each not in config.generated and config.is_ignored(each)]
    differing = vault.history.differing(parent) if passed else set()
    return [each for each in passed if each in differing]


def _find_draft(vault: Vault, path: str, data: bytes, entry: TreeEntry | None) -> Draft | None:
    """Return what an agent had written, of the last the most alike, that a person edited by hand.

    What looks like a credential there, and was taken out, is not brought back.
    """
    drafts = [
        draft
        for draft in vault.journal.find_drafts(path)
        if not (entry and entry.blob == draft.blob) and not find_leaks(vault, {path: draft.data})
    ]
    return choose_draft(drafts, data)


def is_pending(vault: Vault, path: str, blob: str, whose: Whose) -> bool:
    """Tell, without asking git, whether these bytes are in no commit and written by `whose`."""
    if vault.manifest.is_committed(path, blob):
        return False
    written = vault.journal.find_author(path, blob)
    if written is None and whose is Whose.OTHERS_AND_EDITS:
        return True
    if written is None and (vault.journal.find_drafts(path) or _is_lost(vault, path, blob)):
        return True  # A person edited what an agent wrote, or moved it.
    return whose is Whose.ANYBODY or not is_own(written or Author(""), vault.author)


def _is_lost(vault: Vault, path: str, blob: str) -> bool:
    """Tell whether a person has moved to a path, by hand, what an agent wrote elsewhere."""
    lost = vault.journal.find_lost()
    if not lost or HeadTree(vault.state).entries([path]):
        return False
    data = read_known(vault.root, path, blob)
    return data is not None and bool(choose_lost(lost, {path: data}))


def is_own(written: Author, author: Author) -> bool:
    """Tell whether `author` wrote it: in the same session, or in none that was named."""
    return written.agent == author.agent and written.session in {"", author.session}


def is_persons(written: Author | None) -> bool:
    """Tell whether a person wrote it, by hand or by a command outside of sessions."""
    return written is None or is_own(written, Author(""))


def _find_conflict(path: str, data: bytes) -> str:
    """Return what to say of conflict markers in a file, "" if it has none."""
    text = decode_text(data).text
    if not is_note_name(path):
        return find_conflict(text)
    return find_conflict(text, find_fences(text, read_frontmatter(text).body))


def _read(
    vault: Vault, path: str, entry: TreeEntry | None, skipped: dict[str, str]
) -> tuple[str, bytes] | None:
    """Return a file's git mode and bytes, None where no commit takes it; `skipped` gets why.

    A large file that is as `entry`, what HEAD has of it, is nothing to speak of.
    """
    if is_refused_name(path):
        skipped[path] = "git takes no file of this name"
        return None
    most = find_max_bytes(path, vault.config.attachments_max_mib)
    try:
        data, mode = read_file_and_mode(vault.root, PurePosixPath(path), most)
        return ("100755" if mode & 0o100 else "100644"), data
    except NoteNotFoundError:
        return None
    except UnsafeFileError as error:
        if "larger" in str(error):
            if entry and hash_file(vault.root, PurePosixPath(path)) == entry.blob:
                vault.manifest.set_blob(path, entry.blob)
            else:
                skipped[path] = f"{_LARGER} {most // 1024 // 1024} MiB"
        return None


def _find_removed(vault: Vault, gone: Iterable[str]) -> set[str]:
    """Return those of the paths that are on disk no more, and that somebody had there."""
    removed = {path for path in gone if is_gone(vault, path)}
    return removed - vault.history.find_skipped(removed)


def is_gone(vault: Vault, path: str) -> bool:
    """Tell whether there is nothing, or a folder, where a file was."""
    try:
        return stat.S_ISDIR((vault.root / path).lstat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:  # It cannot be looked at, which is not the same.
        return False


def find_writer(vault: Vault, path: str, blob: str) -> Author | None:
    """Return who wrote bytes that no commit has, None for a person by hand.

    It is their agent, too, where somebody moved the file before a commit had it.
    """
    head = HeadTree(vault.state)
    if written := vault.journal.find_author(path, blob):
        return written
    moved = (who for old, who in vault.journal.find_moved(blob) if not head.entries([old]))
    return next(moved, None)
