"""Ownership: the authors of uncommitted bytes, and the credentials in these bytes.

`parts` makes commits of it. Agents' text in plain git commits is handled in `attribution`.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from functools import cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from vaultmem.core.lifecycle import NoteState
from vaultmem.core.notes.conflict import find_conflict
from vaultmem.core.notes.encoding import decode_text
from vaultmem.core.notes.frontmatter import read_frontmatter
from vaultmem.core.notes.note import Note, parse_readable_note
from vaultmem.core.notes.renames import count_lines, find_renamed
from vaultmem.core.notes.sections import find_fences
from vaultmem.core.secrets.rules import IGNORE_NAME, SETTINGS_NAME
from vaultmem.core.secrets.scan import ALLOW_MARK, SecretFinding, find_secrets, mask_secrets
from vaultmem.core.sessions.session import FOLDER
from vaultmem.core.text.blob import blob_id
from vaultmem.core.text.display import format_names
from vaultmem.core.text.line_diff import match_lines, split_bytes
from vaultmem.core.text.paths import is_note_name
from vaultmem.errors import NoteNotFoundError, RefusedError
from vaultmem.services.views.attribution import find_client_author
from vaultmem.services.views.update_index import sync_vault, update_index_nonblocking
from vaultmem.storage.files import (
    MAX_ATTACHMENT_MIB,
    UnsafeFileError,
    find_max_bytes,
    hash_file,
    read_file_and_mode,
    read_known,
)
from vaultmem.storage.git.checkout import HeadTree
from vaultmem.storage.git.commit_draft import File, TreeEntry
from vaultmem.storage.git.objects import is_refused_name
from vaultmem.storage.git.trees import find_entry
from vaultmem.storage.journal import REMOVED, Author, Owner, Owners
from vaultmem.storage.yaml_file import find_in_texts
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from pathlib import Path

    from vaultmem.config import Config


# The credential check, shared by writing and committing.

#: The remedy for a false alarm, or for a credential that must be there.
HOW_TO_ALLOW = (
    "remove it, or allow it: `gitleaks:allow` on its line, PATH:RULE:LINE in .gitleaksignore, "
    "or the note under allow_secrets in vaultmem.yaml"
)

#: Returns a file's previous bytes, None if it did not exist.
Before = Callable[[str], bytes | None]


def find_note_secrets(
    vault: Vault,
    files: Mapping[str, bytes | None],
    before: Before = lambda _: None,
    mark: str = ALLOW_MARK,
) -> dict[str, list[str]]:
    """Return, by path, the place and kind of each possible credential.

    Text that was there `before`, or in a file that this change removes, is not a new leak.
    """
    return find_leaks_in(vault.root, vault.config, files, before, mark)


def find_leaks_in(
    root: Path,
    config: Config,
    files: Mapping[str, bytes | None],
    before: Before = lambda _: None,
    mark: str = ALLOW_MARK,
) -> dict[str, list[str]]:
    """Run `find_note_secrets` for a folder with these settings."""
    texts = {
        path: decode_text(data).text
        for path, data in files.items()
        if data is not None and not config.allows_secrets(path)
    }

    @cache
    def read_gone() -> str:
        removed_data = (before(path) for path, data in files.items() if data is None)
        return "\n".join(decode_text(data).text for data in removed_data if data is not None)

    places: dict[str, list[str]] = {}
    all_secrets = find_in_texts(root, list(texts.items()), mark)
    for (path, text), secrets in zip(texts.items(), all_secrets, strict=True):
        masked_path = mask_secrets(path)
        if not secrets and masked_path == path:
            continue
        old = before(path)
        if masked_path != path and old is None:
            places.setdefault(path, []).append(f"{masked_path}: its name")
        old_text = "" if old is None else decode_text(old).text
        for each in secrets:
            secret = text[each.start : each.end]
            if not secret or (secret not in old_text and secret not in read_gone()):
                places.setdefault(path, []).append(f"{masked_path}:{each.line}: {each.rule}")
    return places


def make_allowances(leaks: Mapping[str, Iterable[str]]) -> list[str]:
    """Return the .gitleaksignore lines that allow these places; a file's name has none."""
    lines = []
    for path, places in leaks.items():
        for place in places:
            line, mark, rule = place.removeprefix(f"{path}:").partition(": ")
            lines += [f"{path}:{rule}:{line}"] if mark and line.isdecimal() else []
    return lines


def find_leaks_since(vault: Vault, files: Mapping[str, File], commit: str) -> dict[str, list[str]]:
    """Run `find_note_secrets` for files compared with `commit` ("" for none)."""

    def before(path: str) -> bytes | None:
        entry = find_entry(vault.history, commit, path) if commit else None
        return None if entry is None else vault.history.objects.read(entry.blob)[1]

    return find_note_secrets(
        vault, {path: file and file[1] for path, file in files.items()}, before
    )


def reject_secrets(vault: Vault, files: Mapping[str, bytes | None], before: Before) -> None:
    """Reject files that add a possible credential; an agent's allow mark has no effect.

    Raises:
        RefusedError: a file has one; the text names the place, the rule and the remedy.
    """
    secrets = find_note_secrets(vault, files, before, _choose_mark(vault))
    if places := [place for each in secrets.values() for place in each]:
        remedy = f", or {HOW_TO_ALLOW}" if vault.is_person else ""
        raise RefusedError(
            f"not written, this looks like a credential: {'; '.join(places)}. "
            f"Write where it is kept, not the value{remedy}"
        )


def reject_named_secrets(author: Author, subject: str = "", body: Iterable[str] = ()) -> None:
    """Reject possible credentials in a commit's message or in an author's name.

    Raises:
        RefusedError: there is one.
    """
    if any(map(find_secrets, (author.agent, author.session, author.tool_call))):
        raise RefusedError("the name of the agent or session looks like a credential; rename it")
    for secret in find_secrets("\n".join((subject, *body))):
        raise RefusedError(
            f"nothing was done: the message or reason looks like a credential ({secret.rule}); "
            "reword it"
        )


def scan_note_text(vault: Vault, path: str, text: str) -> list[SecretFinding]:
    """Return possible credentials in the text of a note to be written.

    For callers that know their source better than `reject_secrets`.
    """
    if vault.config.allows_secrets(path):
        return []
    return find_in_texts(vault.root, [(path, text)], _choose_mark(vault))[0]


def _choose_mark(vault: Vault) -> str:
    """Return the mark that allows a line; agents have none, as a text could make them use it."""
    return ALLOW_MARK if vault.is_person else ""


#: Files of a vault that the scan skips because their names are hidden.
HIDDEN_FILES = (".gitignore", ".gitattributes", SETTINGS_NAME, IGNORE_NAME)

#: Events that an edit by hand can be: a promoted candidate, or an ended session.
PROMOTE = "promote"
CLOSE = "session-close"

_TOO_LARGE_PREFIX = "larger than"

#: Values of `status` for an ended session.
_FINAL_STATUSES = frozenset({"ok", "error", "canceled", "interrupted"})

#: More pairs of notes than this are not compared by lines; git has such a limit too.
_MAX_PAIRS = 40_000


class AuthorScope(Enum):
    """Selects uncommitted bytes by author, relative to the present author."""

    OTHERS = 1
    OTHERS_AND_EDITS = 2  # Also hand edits by the present author, a person.
    ANYBODY = 3


class PendingFiles(NamedTuple):
    """Files that differ from the commit `parent`, by path, with their owners.

    `skipped` are files that cannot be committed, with the reason. `moved` has the previous paths of
    new files, committed or not.
    """

    parent: str
    files: dict[str, File]
    owners: dict[str, Owner]
    skipped: dict[str, str]
    moved: dict[str, str]

    def of(self, paths: Iterable[str]) -> dict[str, File]:
        """Return the files at these paths."""
        return {path: self.files[path] for path in sorted(paths) if path in self.files}

    def without(self, reasons: Mapping[str, str]) -> PendingFiles:
        """Return a copy without some files, each skipped with its reason."""
        files = {path: file for path, file in self.files.items() if path not in reasons}
        return self._replace(files=files, skipped={**self.skipped, **reasons})

    def find_before(self, path: str) -> str:
        """Return the path in HEAD of a new file that was moved, "" if it was not."""
        while path and (path not in self.files or self.files[path] is not None):
            path = self.moved.get(path, "")
        return path

    def written_by(self, author: Author) -> list[str]:
        """Return the paths that an author wrote in its session, or without a session."""
        owners = sorted(self.owners.items())
        return [path for path, (writer, _) in owners if writer and is_own(writer, author)]

    def by_hand(self) -> set[str]:
        """Return the paths that a person changed or removed without vaultmem."""
        return {path for path in self.files if self.owners[path].author is None}


def is_own(writer: Author, author: Author) -> bool:
    """Return whether `author` wrote it: in the same session, or without a session."""
    return writer.agent == author.agent and writer.session in {"", author.session}


def is_persons(writer: Author | None) -> bool:
    """Return whether a person wrote it, by hand or by a command outside sessions."""
    return writer is None or is_own(writer, Author(""))


def find_pending(vault: Vault) -> PendingFiles:
    """Compare the disk with HEAD; only files that might differ are read."""
    sync_vault(vault)
    return _compare(vault)


def read_pending(vault: Vault) -> PendingFiles:
    """Compare like `find_pending`, for display; during another write, use the last index."""
    update_index_nonblocking(vault)
    return _compare(vault)


def is_pending(vault: Vault, path: str, blob: str, scope: AuthorScope) -> bool:
    """Return, without asking git, whether bytes are uncommitted and by an author in `scope`.

    Text that an agent wrote and a person edited or moved counts as others' for both.
    """
    if vault.manifest.is_committed(path, blob):
        return False
    if scope is AuthorScope.ANYBODY:
        return True
    owners = Owners(vault.journal, lambda path: _find_head(vault, path))
    owner = owners.find(path, blob, lambda: read_known(vault.root, path, blob) or b"")
    if owner.author is None and (owner.draft or scope is AuthorScope.OTHERS_AND_EDITS):
        return True
    return not is_own(owner.author or Author(""), vault.author)


def find_author(vault: Vault, path: str, blob: str) -> Author | None:
    """Return the author of uncommitted bytes, None for a person's hand edit.

    The table of HEAD's files must be up to date.
    """
    return Owners(vault.journal, lambda path: _find_head(vault, path)).find_author(path, blob)


def find_line_authors(vault: Vault, path: str, blob: str, data: bytes) -> list[Author]:
    """Return the author of each line on disk, if it is uncommitted.

    If a person edited an agent's text, the lines that both versions have are the agent's.
    """
    lines = split_bytes(data)
    owner = Owners(vault.journal).find(path, blob, lambda: data)
    authors = [owner.author or Author("")] * len(lines)
    if owner.draft:
        for _, start, length in match_lines(split_bytes(owner.draft.data), lines):
            authors[start : start + length] = [owner.draft.author] * length
    return authors


def _find_head(vault: Vault, path: str) -> str:
    """Return HEAD's blob id of a path, "" for none."""
    entry = HeadTree(vault.state).entries([path]).get(path)
    return entry.blob if entry else ""


def _compare(vault: Vault) -> PendingFiles:
    parent = vault.history.head().commit
    head = HeadTree(vault.state)
    head.follow(vault.history, parent)
    changed_paths, missing_paths = head.difference()
    changed_paths += [path for path in HIDDEN_FILES if (vault.root / path).is_file()]
    changed_paths += _find_followed(vault, parent, missing_paths)
    entries = head.entries(changed_paths)
    ignored_paths = vault.history.ignored([path for path in changed_paths if path not in entries])
    files: dict[str, File] = {}
    skipped: dict[str, str] = {}
    for path in changed_paths:
        entry = entries.get(path)
        content = None if path in ignored_paths else _read(vault, path, entry, skipped)
        if content is None:
            continue
        mode, data = content
        blob = blob_id(data)
        vault.manifest.set_blob(path, blob)
        if entry is None or entry.blob != blob:
            files[path] = (entry.mode if entry else mode, data)
    removed_paths = {path for path in missing_paths if is_gone(vault, path)}
    files |= dict.fromkeys(removed_paths - vault.history.find_skipped(removed_paths))
    owners = _find_owners(vault, files)
    new_paths = [path for path, file in files.items() if file and path not in entries]
    old_paths = _find_moved(vault, files, owners, new_paths)
    return PendingFiles(parent, files, owners, skipped, old_paths)


def _find_followed(vault: Vault, parent: str, missing_paths: Sequence[str]) -> list[str]:
    """Return those files missing from the scan that git tracks, if they differ.

    Files that vaultmem generates by its settings are never committed.
    """
    config = vault.config
    if not config.ignore:
        return []
    ignored_paths = [
        each for each in missing_paths if each not in config.generated and config.is_ignored(each)
    ]
    differing_paths = vault.history.differing(parent) if ignored_paths else set()
    return [each for each in ignored_paths if each in differing_paths]


def _read(
    vault: Vault, path: str, entry: TreeEntry | None, skipped: dict[str, str]
) -> tuple[str, bytes] | None:
    """Return a file's git mode and bytes, or None and a reason in `skipped`.

    A large file that is unchanged from `entry`, HEAD's version, is not reported.
    """
    if is_refused_name(path):
        skipped[path] = "git takes no file of this name"
        return None
    most = find_max_bytes(path, vault.config.attachments_max_mib)
    try:
        data, mode = read_file_and_mode(vault.root, PurePosixPath(path), most)
    except NoteNotFoundError:
        return None
    except UnsafeFileError as error:
        if "larger" in str(error):
            if entry and hash_file(vault.root, PurePosixPath(path)) == entry.blob:
                vault.manifest.set_blob(path, entry.blob)
            else:
                skipped[path] = f"{_TOO_LARGE_PREFIX} {most // 1024 // 1024} MiB"
        return None
    if conflict := _find_conflict(path, data):
        skipped[path] = conflict
        return None
    return ("100755" if mode & 0o100 else "100644"), data


def _find_conflict(path: str, data: bytes) -> str:
    """Return a message on conflict markers in a file, "" if it has none."""
    text = decode_text(data).text
    if not is_note_name(path):
        return find_conflict(text)
    return find_conflict(text, find_fences(text, read_frontmatter(text).body))


def is_gone(vault: Vault, path: str) -> bool:
    """Return whether a file was removed or replaced by a folder."""
    try:
        return stat.S_ISDIR((vault.root / path).lstat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:  # Unreadable, which is different.
        return False


def _find_owners(vault: Vault, files: Mapping[str, File]) -> dict[str, Owner]:
    """Return the owner of each file; a draft with a credential is not used."""
    owners = Owners(
        vault.journal,
        lambda path: _find_head(vault, path),
        lambda draft: not find_note_secrets(vault, {draft.path: draft.data}),
    )

    def find(path: str, file: File) -> Owner:
        data = file[1] if file else b""
        owner = owners.find(path, blob_id(data) if file else REMOVED, lambda: data)
        if owner.author is None and (client := find_client_author(vault, path, data)):
            return Owner(client)
        return owner

    return {path: find(path, file) for path, file in sorted(files.items())}


def _find_moved(
    vault: Vault, files: Mapping[str, File], owners: Mapping[str, Owner], new_paths: Iterable[str]
) -> dict[str, str]:
    """Return the previous paths of new files, including an agent's draft."""
    drafts = {path: owner.draft for path, owner in owners.items() if owner.draft}
    old_paths = {path: draft.path for path, draft in drafts.items() if draft.path != path}
    removed_entries = HeadTree(vault.state).entries(
        path for path, file in files.items() if file is None
    )
    removed_notes = {
        path: (entry.blob, _format_agent(owners[path]))
        for path, entry in removed_entries.items()
        if path not in old_paths.values()
    }
    added_notes: dict[str, tuple[bytes, str]] = {}
    for path in new_paths if removed_notes else ():
        draft, file = drafts.get(path), files[path]
        if draft is None and file is not None:
            added_notes[path] = (file[1], _format_agent(owners[path]))
        elif draft is not None and draft.path not in removed_entries:
            added_notes[draft.path] = (draft.data, draft.author.agent)
    return old_paths | _match_moves(vault, added_notes, removed_notes) if added_notes else old_paths


def _format_agent(owner: Owner) -> str:
    return owner.author.agent if owner.author else ""


def _match_moves(
    vault: Vault,
    added_notes: Mapping[str, tuple[bytes, str]],
    removed_notes: Mapping[str, tuple[str, str]],
) -> dict[str, str]:
    """Return the previous paths of moved notes, by their new paths.

    New notes have bytes, removed ones a blob id, both an agent ("": a person). An agent's new note
    is never matched with a person's removed one, nor the reverse.
    """
    moves: dict[str, str] = {}
    paths_by_content: dict[tuple[str, str], list[str]] = {}
    for old, content in sorted(removed_notes.items(), reverse=True):
        paths_by_content.setdefault(content, []).append(old)
    for path, (data, agent) in sorted(added_notes.items()):
        paths = paths_by_content.get((blob_id(data), agent))
        if paths and data.strip():
            moves[path] = paths.pop()
    moved_paths = set(moves.values())
    unmatched_notes = {
        old: content for old, content in removed_notes.items() if old not in moved_paths
    }
    if not unmatched_notes or len(unmatched_notes) * (len(added_notes) - len(moves)) > _MAX_PAIRS:
        return moves
    try:
        objects = list(vault.history.objects.read_all(blob for blob, _ in unmatched_notes.values()))
    except NoteNotFoundError:  # A clone can lack them.
        return moves
    lines = {
        path: count_lines(data) for path, (_, data) in zip(unmatched_notes, objects, strict=True)
    }
    for path, (data, agent) in sorted(added_notes.items()):
        if path in moves:
            continue
        candidates = {
            old: lines[old]
            for old, (_, old_agent) in unmatched_notes.items()
            if bool(old_agent) == bool(agent)
        }
        own_paths = {old for old in candidates if unmatched_notes[old][1] == agent}
        if old := find_renamed(candidates, count_lines(data), own_paths):
            moves[path] = old
            del unmatched_notes[old]
    return moves


class HandEdit(NamedTuple):
    """A note on disk, and the event of its edit: PROMOTE, CLOSE, or "" for none."""

    note: Note
    event: str


def read_hand_edits(vault: Vault, blobs: Mapping[str, str]) -> dict[str, HandEdit]:
    """Return, by path, those notes that still have these blob ids and differ from HEAD.

    They are compared with HEAD only, so no earlier index run is needed.
    """
    notes = {
        path: data
        for path, blob in blobs.items()
        if is_note_name(path) and (data := read_known(vault.root, path, blob)) is not None
    }
    HeadTree(vault.state).follow(vault.history, vault.history.head().commit)
    return _read_edits(vault, notes)


def find_hand_events(vault: Vault, pending: PendingFiles, paths: Iterable[str]) -> list[HandEdit]:
    """Return the pending hand edits that are events.

    Before the first commit there is nothing to compare.
    """
    edited_files = pending.of(pending.by_hand().intersection(paths)) if pending.parent else {}
    # Many notes can be new at once; only sessions and known candidates among them can be events.
    known_paths = {*HeadTree(vault.state).entries(edited_files), *vault.journal.candidates()}
    known_paths |= vault.journal.agents_paths()
    notes = {
        path: file[1]
        for path, file in edited_files.items()
        if file and is_note_name(path) and (path in known_paths or path.startswith(f"{FOLDER}/"))
    }
    return [edit for edit in _read_edits(vault, notes).values() if edit.event]


def _read_edits(vault: Vault, notes: Mapping[str, bytes]) -> dict[str, HandEdit]:
    """Return those of the notes that can be read and differ from HEAD."""
    entries = HeadTree(vault.state).entries(notes)
    candidates = vault.journal.candidates() if notes else set()
    edits: dict[str, HandEdit] = {}
    for path, data in notes.items():
        entry = entries.get(path)
        note = None if entry and entry.blob == blob_id(data) else parse_readable_note(path, data)
        if note is None or note.problem:
            continue
        event = _find_event(vault, note, entry, path in candidates)
        if event and find_author(vault, path, note.blob) is not None:
            event = ""  # Commands commit their own writes.
        edits[path] = HandEdit(note, event)
    return edits


def _find_event(vault: Vault, note: Note, entry: TreeEntry | None, was_candidate: bool) -> str:
    """Return the event that changed a note from HEAD's version to this one.

    An uncommitted note was a candidate if it was seen as one, or if vaultmem wrote it as one.
    """
    path = str(note.path)
    was_closed = False
    if note.state != NoteState.ACTIVE and not _is_closed(note):
        return ""  # This state makes no event.
    if entry is not None:
        old_note = _read_committed(vault, path, entry.blob)
        was_candidate = old_note is not None and old_note.state == NoteState.CANDIDATE
        was_closed = old_note is not None and _is_closed(old_note)
    elif not was_candidate:
        drafts = [
            parse_readable_note(path, each.data) for each in vault.journal.find_drafts(path)[:1]
        ]
        was_candidate = any(each and each.state == NoteState.CANDIDATE for each in drafts)
    if _is_closed(note) and not was_closed:
        return CLOSE
    return PROMOTE if was_candidate and note.state == NoteState.ACTIVE else ""


def _is_closed(note: Note) -> bool:
    """Return whether it is the note of an ended session."""
    prop = note.frontmatter.get("status")
    status = prop.value.strip().lower() if prop and isinstance(prop.value, str) else ""
    return note.path.parts[0] == FOLDER and status in _FINAL_STATUSES


def _read_committed(vault: Vault, path: str, blob: str) -> Note | None:
    try:
        return parse_readable_note(path, vault.history.objects.read(blob)[1])
    except NoteNotFoundError:
        return None


def describe_skipped(skipped: Mapping[str, str]) -> list[str]:
    """Return a line for each reason of skipped files, with the first file names."""
    paths: dict[str, list[str]] = {}
    for path, reason in skipped.items():
        paths.setdefault(reason, []).append(path)
    return [f"{format_names(names)}: {reason}" for reason, names in paths.items()]


def find_too_large(skipped: Mapping[str, str]) -> dict[str, str]:
    """Return the skipped files that are too large to commit."""
    return {
        path: reason for path, reason in skipped.items() if reason.startswith(_TOO_LARGE_PREFIX)
    }


def describe_too_large(skipped: Mapping[str, str]) -> list[str]:
    """Return lines on files that are too large to commit, with the remedy."""
    large_files = find_too_large(skipped)
    if not large_files:
        return []
    lines = describe_skipped(large_files)
    if any(map(is_note_name, large_files)):
        lines.append("large notes are in no commit, so other machines do not get them; divide them")
    if not all(map(is_note_name, large_files)):
        lines.append(
            "to commit other large files, set `attachments_max_mib: N` in vaultmem.yaml "
            f"(N up to {MAX_ATTACHMENT_MIB})"
        )
    return lines
