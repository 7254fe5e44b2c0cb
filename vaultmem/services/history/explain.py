"""Authors of the lines of many notes at once, and the sources of one fact.

One walk over the history serves all notes, while `blame_note` starts git for each. Lines are
followed through edits and renames, not from one note into another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from vaultmem.core.lifecycle import NoteKind, NoteState
from vaultmem.core.notes.changes import FileChange
from vaultmem.core.notes.note import Note
from vaultmem.core.notes.sections import Section
from vaultmem.core.search.query import Hit, NoteFilter, parse_query
from vaultmem.core.text.blob import blob_id
from vaultmem.core.text.line_diff import match_lines, split_bytes
from vaultmem.core.text.paths import fold
from vaultmem.errors import VaultError
from vaultmem.services.changes.ownership import find_line_authors
from vaultmem.services.history.blame import (
    BlamedLine,
    NoteCommit,
    blame_bytes,
    find_lines,
    read_lines,
)
from vaultmem.services.history.diff import FileOperation
from vaultmem.services.search.recall import recall
from vaultmem.services.views.read_notes import read_bytes, read_note, resolve_address
from vaultmem.storage.git.log import Commit, sort_commits, walk_versions
from vaultmem.storage.git.vault_history import VaultHistory
from vaultmem.storage.link_table import LinkStore
from vaultmem.vault import Vault


class CommitChange(NamedTuple):
    """A commit and its change of a file."""

    commit: Commit
    change: FileChange


class NoteStory(NamedTuple):
    """The commits that changed a note, newest first, and the origin of each present line."""

    versions: tuple[NoteCommit, ...]
    lines: tuple[BlamedLine, ...]


class _Origin(NamedTuple):
    """The origin of a line: a commit, the file there, and the line's number in it."""

    change: CommitChange
    number: int


class _Text(NamedTuple):
    """The lines of a version and their origins; None for an uncommitted line."""

    lines: list[str]
    origins: list[_Origin | None]


def walk_history(vault: Vault, commit: str = "") -> Iterator[tuple[Commit, list[FileChange]]]:
    """Yield the commits from one back (default HEAD), with their changes."""
    start = commit or vault.history.head().commit
    if start:
        yield from walk_versions(vault.history, start)


def group_changes(
    history: Iterator[tuple[Commit, list[FileChange]]], paths: Iterator[str]
) -> dict[str, list[CommitChange]]:
    """Return for each path the commits that changed its file, newest first, through renames."""
    changes_by_path: dict[str, list[CommitChange]] = {path: [] for path in paths}
    present_paths = {path: path for path in changes_by_path}  # Past name to present name.
    for commit, changes in history:
        for change in changes:
            present_path = present_paths.get(change.path)
            if present_path is not None and change.blob:
                changes_by_path[present_path].append(CommitChange(commit, change))
            if present_path is not None and change.previous:
                del present_paths[change.path]
                present_paths[change.previous] = present_path
    return changes_by_path


def describe_stories(
    vault: Vault, changes: Mapping[str, Sequence[CommitChange]], texts: Mapping[str, bytes]
) -> Iterator[tuple[str, NoteStory]]:
    """Yield the stories of some notes; `texts` are their bytes, and all versions are read at once.

    Raises:
        NoteNotFoundError: git lacks a version.
    """
    own = {blob_id(data): data for data in texts.values()}
    file_changes = (
        each.change for path in texts for each in changes[path] if each.change.is_regular
    )
    blobs = list(dict.fromkeys(each.blob for each in file_changes if each.blob not in own))
    objects = vault.history.objects.read_all(blobs) if blobs else ()
    contents = {**own, **{blob: data for blob, (_, data) in zip(blobs, objects, strict=True)}}
    for path, data in texts.items():
        yield path, _describe(vault, path, changes[path], data, contents)


def _describe(
    vault: Vault,
    path: str,
    changes: Sequence[CommitChange],
    data: bytes,
    contents: Mapping[str, bytes],
) -> NoteStory:
    texts: dict[str, _Text] = {}
    counted_changes = []
    for each in reversed(changes):
        blob = each.change.blob
        is_taken = blob in texts and len(each.commit.parents) > 1  # A merge of known text.
        if each.change.is_regular and not is_taken:
            texts[blob] = _derive(each, split_bytes(contents[blob]), texts)
            counted_changes.append(each)
    shown_text = texts.get(blob_id(data))
    if shown_text is None:
        shown_text = _Text(lines := split_bytes(data), [None] * len(lines))
        if counted_changes:
            _inherit_origin(texts[counted_changes[-1].change.blob], shown_text)
    return NoteStory(
        tuple(_make_version(vault, each) for each in reversed(counted_changes)),
        tuple(_format_writers(vault, path, data, shown_text.origins)),
    )


def _derive(commit_change: CommitChange, lines: list[str], texts: dict[str, _Text]) -> _Text:
    """Return a version with its lines' origins: from other versions, or itself.

    A merge takes lines from its first parent's version, and from the latest ones.
    """
    sources = [commit_change.change.old_blob]
    if len(commit_change.commit.parents) > 1:
        sources += reversed(texts)
    text = _Text(lines, [None] * len(lines))
    for source in sources[:3]:
        if source in texts:
            _inherit_origin(texts[source], text)
    own_origins: list[_Origin | None] = [
        origin or _Origin(commit_change, number) for number, origin in enumerate(text.origins, 1)
    ]
    return _Text(lines, own_origins)


def _inherit_origin(old: _Text, new: _Text) -> None:
    """Set the missing origins of lines from another version."""
    for old_start, new_start, length in match_lines(old.lines, new.lines):
        for offset in range(length):
            new.origins[new_start + offset] = (
                new.origins[new_start + offset] or old.origins[old_start + offset]
            )


def _make_version(vault: Vault, commit_change: CommitChange) -> NoteCommit:
    writer = commit_change.commit.find_writer(vault.history.prefix + commit_change.change.path)
    return NoteCommit(commit_change.commit, FileOperation(commit_change.change, None), *writer)


def _format_writers(
    vault: Vault, path: str, data: bytes, origins: Sequence[_Origin | None]
) -> Iterator[BlamedLine]:
    writers = find_line_authors(vault, path, blob_id(data), data) if None in origins else []
    person = vault.history.person().identity.name if None in origins else ""
    for index, (text, origin) in enumerate(zip(read_lines(data), origins, strict=True)):
        if origin is None:
            writer = writers[index]
            names = (writer.agent or person, writer.agent, writer.session)
            yield BlamedLine(index + 1, text, None, *names)
        else:
            commit, change = origin.change
            line_writer = commit.find_writer(vault.history.prefix + change.path, origin.number)
            yield BlamedLine(index + 1, text, commit, *line_writer)


# Explain a text in the vault: who wrote it, when, and what it replaced.

#: Kinds that state or require something; no episodes and no working notes.
_KINDS = frozenset(
    [
        NoteKind.SEMANTIC_FACT,
        NoteKind.DECISION,
        NoteKind.POLICY_RULE,
        NoteKind.PROCEDURAL_SKILL,
        NoteKind.PREFERENCE,
    ]
)
_STATES = frozenset(NoteState) - {NoteState.QUARANTINED}

#: Extra sections to find: some have a title and no text.
_EXTRA_HITS = 8


class ChangeStep(NamedTuple):
    """Lines of a section from one commit; `commit` is None if they are uncommitted.

    `claimed_by` is the other machine that names the agent, "" if this one knows it.
    """

    commit: Commit | None
    author: str
    agent: str
    session: str
    lines: int
    claimed_by: str = ""


class ExplainedLink(NamedTuple):
    """The name in a link to a note, and its path; "" if there is no such note."""

    name: str
    path: str


class ExplainedSection(NamedTuple):
    """A section that matches, its steps of change, oldest first, and its links.

    `ends` are commits of the steps at which a shallow clone's history ends.
    """

    hit: Hit
    steps: tuple[ChangeStep, ...]
    supersedes: tuple[ExplainedLink, ...]
    superseded_by: tuple[ExplainedLink, ...]
    ends: frozenset[str]


def explain_text(vault: Vault, text: str, limit: int = 5) -> list[ExplainedSection]:
    """Return the facts, decisions, policies and skills that mention a text, best first.

    Sections without text of their own are last. Archived and deprecated notes are included, to show
    what was valid before. The vault must be in sync, or a view of a commit (`view_at`).

    Raises:
        RefusedError: the text is too long, or the limit is under 1.
    """
    query = parse_query(text, limit, NoteFilter(kinds=_KINDS, states=_STATES))
    hits = recall(vault, query._replace(limit=limit + _EXTRA_HITS))
    notes = {hit.record.path: read_note(vault, PurePosixPath(hit.record.path)) for hit in hits}
    hits = sorted(hits, key=lambda hit: not _has_text(hit, notes[hit.record.path]))[:limit]
    notes = {hit.record.path: notes[hit.record.path] for hit in hits}
    commit = "" if vault.view.is_work_tree else vault.view.sources[0].commit
    replaced_names = LinkStore(vault.state).targets_in("supersedes")
    successors = _find_successors(vault, notes, replaced_names)
    grounds = []
    for hit in hits:
        older = replaced_names.get(hit.record.document, ())
        newer = successors.get(hit.record.path, ())
        grounds.append(_make_ground(vault, hit, notes[hit.record.path], commit, older, newer))
    return grounds


def _has_text(hit: Hit, note: Note) -> bool:
    """Return whether a section has text of its own, not only a matching title."""
    return bool(note.section_text(_find_section(hit, note)))


def _find_section(hit: Hit, note: Note) -> Section:
    return note.sections[min(hit.section.ordinal, len(note.sections) - 1)]


def _make_ground(
    vault: Vault, hit: Hit, note: Note, commit: str, older: Sequence[str], newer: Sequence[str]
) -> ExplainedSection:
    section = _find_section(hit, note)
    data = read_bytes(vault, note.path) if note.encoding else note.text.encode("utf-8")
    blame = blame_bytes(vault, str(note.path), data, find_lines(note, section), commit)
    steps = _order_steps(vault.history, blame.lines)
    supersedes = tuple(ExplainedLink(name, _resolve(vault, name)) for name in older)
    superseded_by = tuple(ExplainedLink(path, path) for path in newer)
    return ExplainedSection(hit, steps, supersedes, superseded_by, blame.ends)


def _order_steps(history: VaultHistory, lines: Iterable[BlamedLine]) -> tuple[ChangeStep, ...]:
    """Return the distinct origins of lines, oldest first, uncommitted lines last."""
    steps: dict[tuple[str, str, str], list[ChangeStep]] = {}
    for line in lines:
        commit = line.commit.commit if line.commit else ""
        step = ChangeStep(line.commit, line.author, line.agent, line.session, 1, line.claimed_by)
        steps.setdefault((commit, line.agent or line.author, line.session), []).append(step)
    summed_steps = [group[0]._replace(lines=len(group)) for group in steps.values()]
    commits = [step.commit for step in summed_steps if step.commit is not None]
    order = {commit.commit: place for place, commit in enumerate(sort_commits(history, commits))}
    last = len(order)
    return tuple(sorted(summed_steps, key=lambda s: order[s.commit.commit] if s.commit else last))


def _find_successors(
    vault: Vault, notes: Iterable[str], replaced_names: Mapping[int, Sequence[str]]
) -> dict[str, list[str]]:
    """Return, by path, the notes that supersede one of these.

    `replaced_names` are the names in `supersedes` by document.
    """
    folded_paths = {path: _fold(path) for path in notes}
    paths = vault.view.paths() if folded_paths else {}
    paths_by_target: dict[str, set[str]] = {}
    for document, names in replaced_names.items():
        for name in names if document in paths else ():
            # Resolving a name is slow; most links name other notes.
            is_likely = any(folded.endswith(_fold(name)) for folded in folded_paths.values())
            if is_likely and (target := _resolve(vault, name)) in folded_paths:
                paths_by_target.setdefault(target, set()).add(paths[document])
    return {target: sorted(successors) for target, successors in paths_by_target.items()}


def _resolve(vault: Vault, name: str) -> str:
    """Return the path of the note that a link names, "" if there is none or several."""
    try:
        return str(resolve_address(vault, name, by_title=False)[0])
    except VaultError:
        return ""


def _fold(path: str) -> str:
    return fold(f"/{path.partition('#')[0].removesuffix('.md')}")
