"""Remove notes by name, or by tag, age, session or query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from vaultmem.core.commit_message import format_files
from vaultmem.core.lifecycle import NoteState
from vaultmem.core.notes.frontmatter import read_timestamp
from vaultmem.core.notes.record import NoteRecord, has_tag
from vaultmem.core.search.query import NoteFilter, parse_query
from vaultmem.errors import RefusedError
from vaultmem.services.changes.change import Change
from vaultmem.services.changes.commit import CommitReport
from vaultmem.services.changes.commit_parts import FORGET, Event
from vaultmem.services.changes.ownership import AuthorScope
from vaultmem.services.changes.write import write
from vaultmem.services.search.recall import recall
from vaultmem.services.views.open_view import find_branch
from vaultmem.services.views.read_notes import resolve_address
from vaultmem.vault import Vault

#: Maximum sections that a query can select.
_MAX_SECTIONS = 1_000


class Selection(NamedTuple):
    """Notes to remove, and pinned notes that matched but are kept."""

    notes: tuple[NoteRecord, ...]
    kept_notes: tuple[str, ...]


class ForgetSelection(NamedTuple):
    """Filters for the notes to remove; all given filters must match.

    `older_than` is in seconds. `session` is the session that wrote the note. Each word of `query`
    must be in the note.
    """

    tag: str = ""
    older_than: float | None = None
    session: str = ""
    query: str = ""

    def __bool__(self) -> bool:
        return bool(self.tag or self.session or self.query) or self.older_than is not None


class ForgetResult(NamedTuple):
    """The removed notes, and the commit with the reason, if one was given."""

    paths: tuple[str, ...]
    report: CommitReport


def select_notes(
    vault: Vault, addresses: Sequence[str], filters: ForgetSelection | None = None
) -> Selection:
    """Return the notes at these addresses, and those that match the filters.

    Pinned notes are selected only by address. The index must be up to date.

    Raises:
        NoteNotFoundError: an address names no note.
        RefusedError: there is no address and no filter, or an address names a section.
    """
    filters = filters or ForgetSelection()
    if not addresses and not filters:
        raise RefusedError(
            "say which notes to forget: a path, --tag, --older-than, --from-session or --query"
        )
    records = {record.path: record for record in vault.view.records()}
    selection: dict[str, NoteRecord] = {}
    for address in addresses:
        note_path, heading = resolve_address(vault, address)
        path = str(note_path)
        if heading:
            raise RefusedError(f"{address}: a section; forget the whole note, or edit it instead")
        if path not in records:
            raise RefusedError(f"{path}: not a note that vaultmem reads; remove it yourself")
        selection[path] = records[path]
    pinned_paths = []
    for record in _find_wanted(vault, records, filters):
        if record.pinned and record.path not in selection:
            pinned_paths.append(record.path)
        else:
            selection[record.path] = record
    return Selection(tuple(selection.values()), tuple(pinned_paths))


def _find_wanted(
    vault: Vault, records: Mapping[str, NoteRecord], filters: ForgetSelection
) -> Iterator[NoteRecord]:
    if not filters:
        return
    matching_paths = _find_asked(vault, filters.query) if filters.query else None
    now = vault.now()
    for path, record in records.items():
        if filters.tag and not has_tag(record.tags, filters.tag):
            continue
        if filters.older_than is not None and now - _last_change(record) < filters.older_than:
            continue
        if filters.session and record.session != filters.session:
            continue
        if matching_paths is None or path in matching_paths:
            yield record


def _find_asked(vault: Vault, query: str) -> set[str]:
    """Return the notes with a section that contains every word of the query."""
    recall_query = parse_query(query, _MAX_SECTIONS, NoteFilter(any_state=True))
    if not recall_query.terms:
        raise RefusedError(f'"{query}" has no word that can be looked for')
    needed_terms = set(recall_query.terms)
    hits = recall(vault, recall_query)
    return {
        hit.record.path for hit in hits if needed_terms <= {match.term for match in hit.matches}
    }


def _reject_protected(vault: Vault, records: Sequence[NoteRecord]) -> None:
    """Reject agents for pinned and quarantined notes.

    Raises:
        RefusedError: the caller is an agent, and there is such a note.
    """
    for record in records:
        for word in ("pinned" if record.pinned else "", record.state):
            if word in ("pinned", NoteState.QUARANTINED):
                vault.require_person(f"{record.path}: {word}, so only a person removes it")


def forget_notes(vault: Vault, records: Sequence[NoteRecord], reason: str = "") -> ForgetResult:
    """Remove notes. With a reason, commit the removal now; else the next event commits it.

    Uncommitted changes are committed first, so that git keeps them.

    Raises:
        ConflictError: a note has changed since it was selected; it is kept.
        RefusedError: the reason looks like a credential or there is no git to keep it, or an agent
            tries to remove a pinned or quarantined note.
        PendingError: the notes are removed; the commit with the reason has to wait.
    """
    _reject_protected(vault, records)
    reason = " ".join(reason.split())
    paths = tuple(record.path for record in records)
    if reason and not find_branch(vault) and vault.head() is None:
        raise RefusedError("a reason is kept by git, and this vault is in no repository")

    def plan(change: Change) -> None:
        for record in records:
            change.remove(PurePosixPath(record.path), record.blob)
        event = _make_event(vault, paths, reason, FORGET if change.is_folder else "write")
        (change.commit if reason else change.leave)(event, AuthorScope.ANYBODY)

    return ForgetResult(paths, write(vault, plan).report)


def _make_event(vault: Vault, paths: tuple[str, ...], reason: str, name: str) -> Event:
    suffix = f": {reason}" if reason else ""
    body = tuple(f"removed {path}{suffix}" for path in paths)
    return Event(name, format_files("forget", paths), vault.author, body, "refine", only=paths)


def _last_change(record: NoteRecord) -> float:
    timestamp = read_timestamp(record.updated or record.created)
    return record.changed if timestamp is None else timestamp
