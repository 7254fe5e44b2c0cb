"""Replace a note by another: deprecate the old one, and record links and dates in both."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from datetime import date
from pathlib import PurePosixPath
from typing import NamedTuple

from vaultmem.core.clients.auto_memory import INDEX_NAME, find_writer
from vaultmem.core.commit_message import cut, format_file, format_files, format_pair
from vaultmem.core.lifecycle import CLOSED_STATES, OPEN_STATES, OWNER_KINDS, NoteState, StateChanger
from vaultmem.core.notes.edit_properties import (
    add_to_list,
    drop_from_list,
    set_property,
    write_state,
)
from vaultmem.core.notes.link_syntax import LinkNames, link_to
from vaultmem.core.notes.note import Note, parse_note
from vaultmem.core.similarity.compare import KnownText, compare_texts
from vaultmem.core.validity import Span, find_start, read_day
from vaultmem.errors import RefusedError
from vaultmem.services.changes.change import Change
from vaultmem.services.changes.commit import CommitReport
from vaultmem.services.changes.commit_parts import Event
from vaultmem.services.changes.write import Edit, replace_text, write, write_event
from vaultmem.services.lifecycle.transition import acting_party, check_move, check_reason
from vaultmem.services.search.link_walk import NewLinks, list_files
from vaultmem.services.similarity.similar import SimilarityQuery, find_similar
from vaultmem.services.similarity.value_updates import list_untrusted
from vaultmem.services.views.read_notes import find_note, read_note, resolve_address
from vaultmem.storage.journal import Author
from vaultmem.vault import Vault

#: The property with links to the notes that replace a note.
SUPERSEDED_BY = "superseded_by"

#: Maximum columns of the new note's name in a subject.
_NAME = 24


class SupersedeResult(NamedTuple):
    """The replaced note, the note that replaces it (or a part of it), and the commits.

    `unsaid` is the old note's content that the new one lacks.
    """

    old: str
    new: str
    before: NoteState
    report: CommitReport
    unsaid: tuple[str, ...]


def supersede_note(
    vault: Vault,
    old: str,
    new: str,
    reason: str = "",
    *,
    part: bool = False,
) -> SupersedeResult:
    """Deprecate `old` in favour of `new`, with links both ways, in one commit.

    If `new` replaces only a `part`, both are kept and the new one links the old.

    Raises:
        NoteNotFoundError: a note is missing.
        RefusedError: both are the same, the new one is closed, or the old one may not be moved.
        PendingError: the notes are changed; their commit has to wait.
    """
    old_path, new_path = (resolve_address(vault, each)[0] for each in (old, new))

    def plan(change: Change) -> SupersedeResult:
        return add_supersession(change, old_path, new_path, reason, part=part)

    result = write(vault, plan)
    return result.value._replace(report=result.report)


def add_supersession(
    change: Change,
    old: PurePosixPath,
    new: PurePosixPath,
    reason: str = "",
    *,
    part: bool = False,
) -> SupersedeResult:
    """Add the replacement of `old` by `new`, or of a `part`, to a change and its commit.

    The change can already contain the new note.

    Raises:
        NoteNotFoundError, RefusedError: as for `supersede_note`.
    """
    vault, reason = change.seen, check_reason(reason)
    if old == new:
        raise RefusedError(f"{old}: a note cannot replace itself; name two")
    old_note, new_note = _read_counting(change, old), _read_counting(change, new)
    if new_note.state in CLOSED_STATES:
        raise RefusedError(f"{new}: {new_note.state} itself, so it cannot replace another")
    validity = build_validity(old_note, new_note, vault.local_time().date())
    links = NewLinks(vault, LinkNames({*list_files(vault), str(new)}))
    edits = plan_supersession(old_note, new, reason, acting_party(vault), links, validity)
    reasons = (reason,) if reason else ()
    body = (f"{old}: {old_note.state} to deprecated", f"by {new}", *reasons)
    verb = " by "
    if part:
        link = links.in_property(str(old), str(new))
        edits = {new: _inherit_origin(old_note, link, "", validity, "supersedes_part")}
        body, verb = (f"both stay, {new} names the other", *reasons), ", in part, by "
    for path, edit in edits.items():
        replace_text(change, change.read(path), edit)
    subject = format_pair("supersede", str(old), verb, str(new))
    change.commit(Event("supersede", subject, vault.author, body, "refine"))
    unsaid = list_untrusted(old_note, KnownText(new_note.visible_body, new_note.title))
    return SupersedeResult(str(old), str(new), old_note.state, CommitReport(), tuple(unsaid))


def _read_counting(change: Change, path: PurePosixPath) -> Note:
    """Return a note as the change leaves it, else its current version."""
    return change.read(path) if str(path) in change.steps else read_note(change.seen, path)


def supersede_several(
    vault: Vault, olds: Sequence[str], new: str, reason: str = ""
) -> CommitReport:
    """Deprecate notes, in order of time, in favour of the newest, in one commit.

    Each note was valid until the next one. A note with more content than the newest is kept, and
    linked from it as partly replaced.

    Raises:
        NoteNotFoundError: a note is missing.
        RefusedError: the new note is closed, or an old one may not be moved.
        PendingError: the notes are changed; their commit has to wait.
    """
    reason = check_reason(reason)
    with vault.lock():
        old_notes = [read_note(vault, PurePosixPath(each)) for each in olds]
        new_note = read_note(vault, PurePosixPath(new))
        if new_note.state in CLOSED_STATES:
            raise RefusedError(f"{new}: {new_note.state} itself, so it cannot replace another")
        links, mover, today = NewLinks(vault), acting_party(vault, False), vault.local_time().date()
        changes: dict[PurePosixPath, Edit] = {}
        origin_edits: list[Edit] = []
        body = []
        for old, next_note in zip(old_notes, [*old_notes[1:], new_note], strict=True):
            validity = build_validity(old, next_note, today)
            link = links.in_property(str(old.path), new)
            if list_untrusted(old, KnownText(new_note.visible_body, new_note.title)):
                origin_edits.append(_inherit_origin(old, link, "", validity, "supersedes_part"))
                body.append(f"{old.path}: has more, and stays")
                continue
            check_supersession(old, mover)
            origin_edits.append(_inherit_origin(old, link, "", validity))
            changes[old.path] = _deprecate(links.in_property(new, str(old.path)), reason, validity)
            body.append(f"{old.path}: {old.state} to deprecated")
        # The last old note sets `valid_from`.
        changes[new_note.path] = chain_edits(origin_edits[::-1])
        subject = format_files("supersede", olds, f" by {cut(format_file(new), _NAME)}")
        body.extend([f"by {new}", *([reason] if reason else [])])
        event = Event("supersede", subject, vault.author, tuple(body), "refine")
        return write_event(vault, changes, event)


#: Minimum similarity, 0 to 1, for another note to replace a note.
_MIN_STATED_SHARE = 0.95


def replace_repeated(vault: Vault, author: Author) -> tuple[str, ...]:
    """Deprecate a session's notes whose content is also in its client's own memory files.

    The client's file is not changed. Notes of another project than the file's are kept. (A file in
    the shared memory has no project.) Pinned notes, preferences and rules are kept too. The review
    lists kept notes as duplicates. Return the deprecated notes. The index must be up to date.
    """
    mover, links = acting_party(vault, True), NewLinks(vault)
    changes: dict[PurePosixPath, Edit] = {}
    for record in vault.view.records(
        "d.session = ? AND d.agent = ?", (author.session, author.agent)
    ):
        note = None if find_writer(record.path) else find_note(vault, record.path)
        if note is None or not _may_be_replaced(note, mover):
            continue
        query = SimilarityQuery(note.visible_body, note.title, path=record.path)
        similar = find_similar(vault, query)
        files = [each.path for each in similar if _is_stated(note, each.note, each.is_same)]
        if files:
            link = links.in_property(files[0], record.path)
            changes[note.path] = _deprecate(link, "the client's own memory states it", None)
    if not changes:
        return ()

    def plan(change: Change) -> None:
        change.leave(Event("write", "", vault.author, intent="refine"))
        for path, edit in changes.items():
            replace_text(change, change.read(path), edit)

    write(vault, plan)
    return tuple(map(str, changes))


def _may_be_replaced(note: Note, mover: StateChanger) -> bool:
    """Return whether an agent's note can be replaced by a file of its client's memory."""
    if note.state not in OPEN_STATES or note.kind in OWNER_KINDS or note.encoding or note.problem:
        return False
    if str(note.path).startswith(("sessions/", "tasks/")) or note.pinned:
        return False
    with contextlib.suppress(RefusedError):
        check_supersession(note, mover)
        return True
    return False


def _is_stated(note: Note, file: Note, is_same: bool) -> bool:
    """Return whether a file in the memory of the note's agent states all of the note."""
    path = str(file.path)
    if find_writer(path) != note.agent or file.path.name == INDEX_NAME:
        return False
    is_foreign = bool(note.project and file.project) and note.project != file.project
    if is_foreign or file.state not in OPEN_STATES:
        return False
    file_text = KnownText(file.visible_body, file.title)
    return is_same or compare_texts(note.visible_body, file_text).is_said(_MIN_STATED_SHARE)


def chain_edits(edits: Sequence[Edit]) -> Edit:
    """Return one edit that applies several edits in order."""

    def change(note: Note) -> str:
        text = note.text
        for edit in edits:
            text = edit(parse_note(note.path, text.encode("utf-8", "surrogateescape")))
        return text

    return change


def build_validity(old: Note, new: Note, today: date) -> Span:
    """Return the dates when an old note was valid, ending on the start date of the new one.

    A note's start is its `valid_from`, else a date in its text, else its creation date. The old
    note's start is dropped if it is later than the end.
    """
    since = _read_start(new, today) or today
    start = _read_start(old, today)
    return Span(start if start and start <= since else None, since)


def _read_start(note: Note, today: date) -> date | None:
    start_property = note.frontmatter.get("valid_from")
    written_day = read_day(note.created or note.updated)
    day = (
        read_day(str(start_property.value))
        if start_property
        else find_start(note.visible_body, written_day or today)
    )
    return day or written_day


def plan_supersession(
    old: Note,
    new: PurePosixPath,
    reason: str,
    mover: StateChanger,
    links: NewLinks,
    validity: Span | None = None,
    alias: str = "",
) -> dict[PurePosixPath, Edit]:
    """Return the edits of both notes. An alias keeps links to the old name working.

    `holds` are the dates to write into both, if the new note has a different value.
    """
    check_supersession(old, mover)
    return {
        old.path: _deprecate(links.in_property(str(new), str(old.path)), reason, validity),
        new: _inherit_origin(old, links.in_property(str(old.path), str(new)), alias, validity),
    }


def check_supersession(old: Note, mover: StateChanger) -> None:
    """Check that a note may be replaced.

    Raises:
        RefusedError: the caller may not replace it.
    """
    if old.state is not NoteState.DEPRECATED:
        check_move(old, NoteState.DEPRECATED, mover)
    elif old.pinned and mover.is_machine:
        raise RefusedError(f"{old.path}: pinned, so only a person replaces it")


def _deprecate(link: str, reason: str, validity: Span | None) -> Edit:
    def change(note: Note) -> str:
        text = write_state(note.text, NoteState.DEPRECATED, reason)
        if validity:
            text = _set_day(text, note, "valid_from", validity.start)
            text = _set_day(text, note, "valid_until", validity.end)
        return add_to_list(text, note, SUPERSEDED_BY, (link,))

    return change


def _set_day(text: str, note: Note, name: str, day: date | None) -> str:
    """Set a date property, unless the note already has it."""
    return text if day is None or note.frontmatter.get(name) else set_property(text, name, day)


def _inherit_origin(
    old: Note, link: str, alias: str, validity: Span | None, name: str = "supersedes"
) -> Edit:
    def change(note: Note) -> str:
        text = _set_day(note.text, note, "valid_from", validity.end if validity else None)
        text = add_to_list(text, note, name, (link,))
        text = drop_from_list(text, note, "contradicts", link, link_to(str(old.path)))
        return add_to_list(text, note, "aliases", (alias,)) if alias else text

    return change
