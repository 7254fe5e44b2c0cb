"""Trace a line of code: the notes that cite it, and the sessions that wrote its commits."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from vaultmem.core.anchored_text import find_symbol, locate_anchor
from vaultmem.core.anchors import CITE_PROPERTIES, AnchorCheck, AnchorStatus, parse_anchor
from vaultmem.core.lifecycle import HIDDEN_STATES
from vaultmem.core.text.blob import blob_id
from vaultmem.core.text.line_diff import match_lines, split_keys
from vaultmem.core.text.paths import parse_note_path
from vaultmem.errors import NoteNotFoundError, RefusedError
from vaultmem.services.anchors.check import check_documents, find_versions
from vaultmem.services.anchors.cite import CodeFile, find_file
from vaultmem.services.sessions.find_session import list_facts, read_session
from vaultmem.storage.git.code_files import read_versions
from vaultmem.storage.git.repository import FileCommit, list_line_commits, list_path_commits
from vaultmem.storage.link_table import LinkStore

if TYPE_CHECKING:
    from vaultmem.core.notes.record import NoteRecord
    from vaultmem.core.sessions.session import Session
    from vaultmem.storage.git.runner import GitRunner
    from vaultmem.vault import Vault

#: Maximum commits of a line or file to read.
_MAX_COMMITS = 50


class AnchoredNote(NamedTuple):
    """A note that cites the file, and the states of its anchors there."""

    record: NoteRecord
    checks: tuple[AnchorCheck, ...]


class TracedCommit(NamedTuple):
    """A commit of the code, and the sessions that wrote it."""

    commit: FileCommit
    sessions: tuple[Session, ...]


class CodeTrace(NamedTuple):
    """The notes and commits of a file or its lines. `place` is relative to the repository."""

    place: str
    project: str
    notes: tuple[AnchoredNote, ...]
    commits: tuple[TracedCommit, ...]


def names_code(vault: Vault, text: str) -> bool:
    """Return whether a text names a file of the caller's repository, optionally with a line."""
    anchor = parse_anchor(text)
    with contextlib.suppress(NoteNotFoundError, RefusedError):
        return anchor is not None and bool(find_file(vault, anchor.path))
    return False


def trace_code(vault: Vault, place: str) -> CodeTrace:
    """Return the notes and sessions for a file, line or symbol of the caller's repository.

    Raises:
        NoteNotFoundError: there is no such file, line or symbol.
        RefusedError: the place is not a path, or the caller is in no repository.
    """
    anchor = parse_anchor(place)
    if anchor is None:
        raise RefusedError(f"{place}: not a file; give FILE, FILE:LINE or FILE:SYMBOL")
    file = find_file(vault, anchor.path)
    lines = split_keys(file.data.decode("utf-8", "surrogateescape"))
    span: tuple[int, int] | None = None
    if anchor.symbol:
        span = find_symbol(file.path, lines, anchor.symbol)
    elif anchor.first:
        span = anchor.first - 1, min(anchor.last, len(lines))
    if (anchor.first or anchor.symbol) and (span is None or span[0] >= span[1]):
        raise NoteNotFoundError(f"{place}: the file has no such line or symbol")
    git = file.repository.open()
    if git is None:
        raise RefusedError(f"{file.repository.top}: git does not work in it; see `git status`")
    notes = _find_notes(vault, file, span)
    commits = _list_commits(git, file.path, lines, span)
    sessions = _find_sessions(vault, git, file.path, file.project, commits)
    label = anchor._replace(path=file.path).place
    return CodeTrace(label, file.project, tuple(notes), tuple(sessions))


def _find_notes(
    vault: Vault, file: CodeFile, span: tuple[int, int] | None
) -> Iterator[AnchoredNote]:
    """Yield the notes with an anchor in the file now, at these lines."""
    links = LinkStore(vault.state).links_in(CITE_PROPERTIES)
    records = vault.view.of_project(None).records_of(links)
    visible_records = {
        number: record
        for number, record in records.items()
        if record.state not in HIDDEN_STATES and record.project in {"", file.project}
    }
    for number, checks in check_documents(vault, visible_records, links).items():
        file_checks = [each for each in checks if file.path in {each.anchor.path, each.moved_to}]
        if span is not None:
            file_checks = [each for each in file_checks if _is_at(vault, each, file, span)]
        if file_checks:
            yield AnchoredNote(visible_records[number], tuple(file_checks))


def _is_at(vault: Vault, check: AnchorCheck, file: CodeFile, span: tuple[int, int]) -> bool:
    """Return whether an anchored text is at these lines of the file; true if unknown."""
    if check.status is AnchorStatus.UNKNOWN or not check.anchor.is_pinned:
        return True
    versions = find_versions(vault, check.anchor, file.project)
    anchor = check.anchor._replace(path=file.path)
    current_span = locate_anchor(anchor, versions[1], file.data) if versions else None
    return current_span is None or (current_span[0] < span[1] and span[0] < current_span[1])


def _list_commits(
    git: GitRunner, path: str, lines: Sequence[str], span: tuple[int, int] | None
) -> list[FileCommit]:
    """Return the commits that changed a file or these lines, newest first."""
    if span is None:
        return list_path_commits(git, path, _MAX_COMMITS)
    head_data = read_versions(git, [f"HEAD:{path}"]).get(f"HEAD:{path}", b"")
    head_lines = split_keys(head_data.decode("utf-8", "surrogateescape"))
    commits_by_id: dict[str, FileCommit] = {}
    for start, new_start, length in match_lines(head_lines, lines):
        first, last = max(span[0], new_start), min(span[1], new_start + length)
        for line in range(first, min(last, first + _MAX_LINES)):
            number = line - new_start + start + 1
            for commit in list_line_commits(git, path, number, _MAX_COMMITS):
                commits_by_id.setdefault(commit.commit, commit)
    return sorted(commits_by_id.values(), key=lambda each: -each.at)


#: Maximum lines of one matched block whose history is read.
_MAX_LINES = 20


def _find_sessions(
    vault: Vault, git: GitRunner, path: str, project: str, commits: Sequence[FileCommit]
) -> Iterator[TracedCommit]:
    """Yield each commit with the sessions that name it or left this content in the file."""
    sessions = [*_read_sessions(vault, project)]
    names = {f"{each.commit}:{path}": each for each in commits}
    blobs = {names[name].commit: blob_id(data) for name, data in read_versions(git, names).items()}
    for commit in commits:
        blob = blobs.get(commit.commit, "")
        wrote = (each for each in sessions if _has_written(each, commit, path, blob))
        yield TracedCommit(commit, tuple(wrote))


def _read_sessions(vault: Vault, project: str) -> Iterator[Session]:
    for facts in list_facts(vault):
        if facts.has_work or facts.turns:
            session = read_session(vault, parse_note_path(facts.path))
            if session.is_shown and facts.project in {"", project}:
                yield session


def _has_written(session: Session, commit: FileCommit, path: str, blob: str) -> bool:
    """Return whether a session made a commit, by the commit's id, subject or file content."""
    for item in session.told.commits:
        match = re.fullmatch(r"(?:(?P<id>[0-9a-f]{7,40}) )?(?P<subject>.*)", item)
        if match and match["id"] and commit.commit.startswith(match["id"]):
            return True
        if match and not match["id"] and match["subject"] == commit.subject:
            return True
    blobs = (each.blob for each in session.touched if each.path == path and each.blob)
    return bool(blob) and any(blob.startswith(each) for each in blobs)
