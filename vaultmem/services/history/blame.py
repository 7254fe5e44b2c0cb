"""Blame a note's lines, and trace a text to its commits.

Blame finds the author of a line, not who moved it.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from vaultmem.core.notes.changes import ChangeOp, FileChange
from vaultmem.core.notes.encoding import CANVAS, decode_text, read_escapes
from vaultmem.core.notes.note import Note, UnreadableNoteError, parse_note
from vaultmem.core.notes.renames import count_property_lines, is_telling
from vaultmem.core.notes.sections import Section
from vaultmem.core.text.blob import blob_id
from vaultmem.core.text.line_diff import diff_lines, match_lines, split_bytes
from vaultmem.core.text.paths import is_note_name, parse_note_path
from vaultmem.errors import NoteNotFoundError, RefusedError
from vaultmem.services.changes.ownership import find_line_authors, read_pending
from vaultmem.services.history.commits import find_commit, locate_note, resolve_commit
from vaultmem.services.history.diff import FileOperation, compare_files, find_present
from vaultmem.services.views.read_notes import resolve_address
from vaultmem.services.views.resolve_names import describe_several
from vaultmem.storage.files import UnsafeFileError, read_file
from vaultmem.storage.git.blame_file import LineOrigin, blame_file
from vaultmem.storage.git.log import (
    Commit,
    Writer,
    find_ends,
    find_past_paths,
    follow_path,
    read_changes,
    read_commits,
)
from vaultmem.storage.git.trees import find_entry
from vaultmem.storage.git.vault_history import VaultHistory
from vaultmem.storage.journal import REMOVED, Author
from vaultmem.vault import Vault

# Trace a note through the commits that changed it, under each of its names.


class NoteCommit(NamedTuple):
    """A commit's change of a note, or an uncommitted change (`commit` None).

    `agent` and `session` are the author's, empty for a person. `claimed_by` is the other machine
    that reports it, "" if this one knows it. `is_end` means that a shallow clone's history ends
    there, so the note can be older.
    """

    commit: Commit | None
    operation: FileOperation
    author: str
    agent: str
    session: str
    claimed_by: str = ""
    is_end: bool = False


class Trace(NamedTuple):
    """A note's path and its versions, newest first."""

    path: str
    versions: tuple[NoteCommit, ...]


def trace_note(
    vault: Vault, address: str, limit: int = 0, commit: str = "", skipped: int = 0
) -> Trace:
    """Return the versions of a note, removed or not, from `commit` back.

    The default is the vault's ref, or the work tree. `limit` 0 means all. The newest `skipped`
    commits are left out, and uncommitted changes with them. The vault must be in sync.

    Raises:
        NoteNotFoundError: no note has or had that name.
        RefusedError: the path is unsafe, or names a section.
    """
    commit = commit or find_commit(vault)
    start = commit or vault.history.head().commit
    path, commits = _find_versions(vault, address, start, is_work_tree=not commit)
    pending = None if commit else _find_uncommitted(vault, path, start)
    if pending is None and not commits:
        raise NoteNotFoundError(f"{path}: no commit changed it")
    ends = find_ends(vault.history)
    commits = commits[skipped : skipped + limit if limit else None]
    operations = compare_files(vault, (change for _, change in commits))
    versions = [
        NoteCommit(
            each,
            operation,
            *each.find_writer(vault.history.prefix + change.path),
            is_end=each.commit in ends,
        )
        for (each, change), operation in zip(commits, operations, strict=True)
    ]
    return Trace(path, tuple([pending, *versions] if pending and not skipped else versions))


def _find_versions(
    vault: Vault, address: str, start: str, is_work_tree: bool
) -> tuple[str, Sequence[tuple[Commit, FileChange]]]:
    """Return the present or past path of an address, and the commits that changed it."""
    try:
        if is_work_tree:
            note_path, heading = resolve_address(vault, address)
        else:
            name, heading, _ = locate_note(vault, start, address)
            note_path = PurePosixPath(name)
    except NoteNotFoundError as error:
        for name in (address, f"{address}.md"):
            path = str(parse_note_path(name))
            versions = follow_path(vault.history, start, path) if start else []
            if versions:
                return path, versions
        name = str(parse_note_path(address)).removesuffix(".md")
        past_paths = find_past_paths(vault.history, start, name) if start else []
        if len(past_paths) > 1:
            raise NoteNotFoundError(describe_several(vault, address, past_paths)) from None
        if past_paths:
            return past_paths[0], follow_path(vault.history, start, past_paths[0])
        raise error from None
    if heading:
        raise RefusedError(f"{address}: a section; `vaultmem blame` shows where its lines are from")
    return str(note_path), follow_path(vault.history, start, str(note_path)) if start else []


def _find_uncommitted(vault: Vault, path: str, head: str) -> NoteCommit | None:
    """Return a note's change since HEAD, None if it has none."""
    entry = find_entry(vault.history, head, path) if head else None
    try:
        data: bytes | None = read_file(vault.root, PurePosixPath(path))
    except NoteNotFoundError:
        data = None
    except UnsafeFileError:
        return None
    blob = "" if data is None else blob_id(data)
    if blob == (entry.blob if entry else ""):
        return None
    mode = entry.mode if entry else "100644"
    change = FileChange(path, "", blob, "", mode if blob else "")
    if entry is not None:
        change = change._replace(old_blob=entry.blob, old_mode=entry.mode)
    contents = {} if data is None else {blob: data}
    operation = next(compare_files(vault, [change], contents))
    writer = vault.journal.find_author(path, blob or REMOVED) or Author("")
    name = writer.agent or vault.history.person().identity.name
    return NoteCommit(None, operation, name, writer.agent, writer.session)


#: Commits that change more notes than this are not searched for moved lines.
_MAX_CHANGED_NOTES = 200

#: Most moves followed for one line.
_MAX_MOVES = 8


def describe_removal(vault: Vault, address: str) -> str:
    """Return a message on who renamed or removed a note, when, why and how to read it; or ""."""
    try:
        trace = trace_note(vault, address, 1)
    except (NoteNotFoundError, RefusedError):
        return ""
    removal = next((v for v in trace.versions if v.operation.file.op is ChangeOp.REMOVE), None)
    if removal is None or removal.commit is None:
        return ""
    commit, name = removal.commit, removal.commit.commit[:7]
    new_path = find_present(vault, commit.parents[0], trace.path)
    if new_path != trace.path:
        return (
            f"{trace.path}: {removal.author} renamed it on {commit.time[:10]} in {name}; "
            f"its new name is {new_path}"
        )
    lines = commit.prose.splitlines()
    reason = next((w for line in lines if (w := _find_reason(line, trace.path))), "no reason given")
    return (
        f"{trace.path}: {removal.author} removed it on {commit.time[:10]} in {name}: {reason}; "
        f"`vaultmem restore {shlex.quote(trace.path)} --at {name}~` brings it back"
    )


def _find_reason(line: str, path: str) -> str:
    prefix, _, reason = line.partition(f"removed {path}: ")
    return "" if prefix else reason


class BlamedLine(NamedTuple):
    """A line (1-based number) and its origin.

    An uncommitted line has `commit` None. `agent` and `session` are the author's, empty for a
    person. `claimed_by` is the other machine that reports it, "" if this one knows it. `confidence`
    is the note's, if it was written together with the line.
    """

    number: int
    text: str
    commit: Commit | None
    author: str
    agent: str
    session: str
    claimed_by: str = ""
    confidence: str = ""


class Blame(NamedTuple):
    """The lines of a note or section, in the work tree (`commit` is "") or in a commit.

    `ends` are commits of these lines at which a shallow clone's history ends; the lines can be
    older.
    """

    path: str
    blob: str
    commit: str
    lines: tuple[BlamedLine, ...]
    ends: frozenset[str]


def blame_note(vault: Vault, address: str, at: str = "") -> Blame:
    """Return the origin of each line of a note or of one section (`path#Heading`).

    `at` is a branch, tag, commit or date. The default is the vault's ref, or the file on disk. The
    vault must be in sync.

    Raises:
        NoteNotFoundError: there is no such note, heading or commit.
        RefusedError: the path is unsafe, or a section is requested of a file that is not text.
    """
    commit = resolve_commit(vault, at) if at else find_commit(vault)
    if commit:
        path, heading, entry = locate_note(vault, commit, address)
        data = vault.history.objects.read(entry.blob)[1]
        return blame_bytes(vault, path, data, _find_span(path, data, heading), commit)
    try:
        note_path, heading = resolve_address(vault, address)
    except NoteNotFoundError as error:
        raise NoteNotFoundError(describe_removal(vault, address) or str(error)) from None
    data = _read_bytes(vault, note_path)
    span = _find_span(str(note_path), data, heading)
    return blame_bytes(vault, str(note_path), data, span)


def blame_bytes(
    vault: Vault,
    path: str,
    data: bytes,
    span: tuple[int, int] | None = None,
    commit: str = "",
) -> Blame:
    """Return the origin of lines (first and last, 1-based) of these bytes of a note.

    The bytes are those of `commit`, or those on disk. On disk, git blames HEAD's version, and lines
    that it lacks are uncommitted.
    """
    history, blob = vault.history, blob_id(data)
    if commit:
        origins: Sequence[LineOrigin | None] = blame_file(history, commit, path)
        return _make_blame(vault, path, blob, commit, data, origins, span)
    head = history.head().commit
    entry = find_entry(history, head, path) if head else None
    old_path = path if entry or not head else read_pending(vault).find_before(path)
    committed_lines = blame_file(history, head, old_path) if head and old_path else []
    origins = committed_lines
    if entry is None or entry.blob != blob:
        lines = split_bytes(data)
        mapped_lines: list[LineOrigin | None] = [None] * len(lines)
        for old, new, length in match_lines([origin.text for origin in committed_lines], lines):
            mapped_lines[new : new + length] = committed_lines[old : old + length]
        origins = mapped_lines
    return _make_blame(vault, path, blob, "", data, origins, span)


def find_lines(note: Note, section: Section) -> tuple[int, int]:
    """Return the first and last line of a section, with its heading, 1-based.

    Surrounding empty lines are excluded. For a canvas, return all lines: its text differs from
    them.
    """
    if note.encoding == CANVAS:
        return 1, sys.maxsize
    first = section.line
    if not section.heading:
        text = note.text[section.start : section.end]
        first += text.count("\n", 0, len(text) - len(text.lstrip()))
    last = note.text[: section.end].rstrip().count("\n") + 1
    return first, max(first, last)


def _find_span(path: str, data: bytes, heading: str) -> tuple[int, int] | None:
    """Return the lines of the section under a heading; None for all."""
    if not heading:
        return None
    try:
        note = parse_note(PurePosixPath(path), data)
    except UnreadableNoteError as error:
        raise RefusedError(f"{path}: {error}") from None
    return find_lines(note, note.require_section(heading))


def _make_blame(
    vault: Vault,
    path: str,
    blob: str,
    commit: str,
    data: bytes,
    origins: Sequence[LineOrigin | None],
    span: tuple[int, int] | None,
) -> Blame:
    first, last = span or (1, len(origins))
    start = max(first - 1, count_property_lines(split_bytes(data)))
    shown_origins = _follow_moves(vault.history, origins[:last], start)[first - 1 :]
    commits = read_commits(vault.history, (o.commit for o in shown_origins if o is not None))
    writers = find_line_authors(vault, path, blob, data) if None in shown_origins else []
    person = vault.history.person().identity.name if None in shown_origins else ""
    confidence, place = _find_confidence(data)
    lines = []
    for number, (text, origin) in enumerate(
        zip(read_lines(data)[first - 1 : last], shown_origins, strict=True), first
    ):
        line_commit = commits[origin.commit] if origin is not None else None
        if origin is None or line_commit is None:
            writer = writers[number - 1]
            line_writer = Writer(writer.agent or person, writer.agent, writer.session)
        else:
            line_writer = line_commit.find_writer(origin.path, origin.number)
        stated_origin = origins[place] if confidence else None
        if stated_origin is not None and origin is not None:
            is_stated = stated_origin.commit == origin.commit
        else:
            is_stated = stated_origin is origin and writers[place] == writers[number - 1]
        lines.append(
            BlamedLine(number, text, line_commit, *line_writer, confidence if is_stated else "")
        )
    ends = find_ends(vault.history) & commits.keys()
    return Blame(path, blob, commit, tuple(lines), frozenset(ends))


def _find_confidence(data: bytes) -> tuple[str, int]:
    """Return the confidence in a note's properties, and its line (0-based); "" if there is none."""
    lines = read_lines(data)
    for number in range(count_property_lines(split_bytes(data))):
        name, _, value = lines[number].partition(":")
        if name == "confidence":
            return value.strip(), number
    return "", 0


def read_lines(data: bytes) -> list[str]:
    """Return the lines as text, which differs from their bytes if these are not UTF-8."""
    lines = split_bytes(data)
    text_lines = decode_text(data).text.split("\n")[: len(lines)]
    return text_lines if len(text_lines) == len(lines) else [read_escapes(line) for line in lines]


def _read_bytes(vault: Vault, path: PurePosixPath) -> bytes:
    try:
        return read_file(vault.root, path)
    except UnsafeFileError as error:
        raise RefusedError(str(error)) from None


class _Place(NamedTuple):
    """A line (1-based) of a file in a commit."""

    commit: str
    path: str
    number: int


def _follow_moves(
    history: VaultHistory, origins: Sequence[LineOrigin | None], first: int
) -> list[LineOrigin | None]:
    """Return the origins of lines, followed through commits that moved them.

    Such a commit removed the same line elsewhere. Lines before `first` (0-based), such as
    properties, stay unchanged.
    """
    new_origins = list(origins)
    moved_lines = {
        index: origin
        for index, origin in enumerate(new_origins)
        if origin is not None and index >= first and is_telling(origin.text)
    }
    for _ in range(_MAX_MOVES):
        places = _find_moved_lines(history, moved_lines)
        blames = {
            (place.commit, place.path): blame_file(history, place.commit, place.path)
            for place in dict.fromkeys(place._replace(number=0) for place in places.values())
        }
        moved_lines = {
            index: blames[place.commit, place.path][place.number - 1]
            for index, place in places.items()
        }
        for index, origin in moved_lines.items():
            new_origins[index] = origin
        if not moved_lines:
            break
    return new_origins


def _find_moved_lines(history: VaultHistory, lines: dict[int, LineOrigin]) -> dict[int, _Place]:
    """Return the previous places of those lines that their commit removed elsewhere."""
    changes = read_changes(history, (origin.commit for origin in lines.values()))
    places: dict[int, _Place] = {}
    for commit, (commit_object, file_changes) in changes.items():
        keys = {
            index: _strip_marks(each.text) for index, each in lines.items() if each.commit == commit
        }
        notes = [each for each in file_changes if is_note_name(each.path) and each.is_regular]
        if not commit_object.parents or len(notes) > _MAX_CHANGED_NOTES:
            continue
        removed_lines: dict[str, _Place] = {}
        for change in notes:
            for key, number in _find_removed(history, change, set(keys.values())):
                removed_lines.setdefault(key, _Place(commit_object.parents[0], change.path, number))
        places |= {index: removed_lines[key] for index, key in keys.items() if key in removed_lines}
    return places


def _find_removed(
    history: VaultHistory, change: FileChange, keys: set[str]
) -> Iterator[tuple[str, int]]:
    old = _read_blob_lines(history, change.old_blob)
    if not keys & {_strip_marks(line) for line in old}:
        return
    new = _read_blob_lines(history, change.blob)
    for hunk in diff_lines(old, new):
        for number in range(hunk.start, hunk.end):
            if (key := _strip_marks(old[number])) in keys:
                yield key, number + 1


def _read_blob_lines(history: VaultHistory, blob: str) -> list[str]:
    return split_bytes(history.objects.read(blob)[1]) if blob else []


def _strip_marks(line: str) -> str:
    """Return a line without indent and marks of lists and quotes."""
    return line.strip().lstrip("-*+> ")
