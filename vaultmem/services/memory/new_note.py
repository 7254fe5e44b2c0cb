"""Compose the note of a memory (title, name and text), and update existing notes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any, NamedTuple

from vaultmem.core.anchors import CITES, parse_change
from vaultmem.core.commit_message import format_files
from vaultmem.core.lifecycle import NoteKind, NoteState, parse_kind
from vaultmem.core.new_memory import Memory
from vaultmem.core.notes.agent_changes import (
    GUARDED,
    Confirmation,
    drop_confirmation,
    find_confirmation,
)
from vaultmem.core.notes.edit_properties import (
    PropertyValue,
    format_note,
    get_title,
    remove_property,
    set_property,
)
from vaultmem.core.notes.link_syntax import read_whole_link
from vaultmem.core.notes.note import Note
from vaultmem.core.notes.sections import derive_title, make_name
from vaultmem.core.project import PROPERTY as PROJECT
from vaultmem.core.validity import read_day
from vaultmem.errors import NoteNotFoundError, RefusedError
from vaultmem.services.changes.change import Change, WriteResult
from vaultmem.services.changes.commit import CommitReport
from vaultmem.services.changes.commit_parts import FORGET, Event
from vaultmem.services.changes.edit_notes import (
    check_rewrite,
    check_tags,
    check_text,
    reject_hidden,
)
from vaultmem.services.changes.ownership import AuthorScope, scan_note_text
from vaultmem.services.changes.write import replace_text, write
from vaultmem.services.lifecycle.supersede import SUPERSEDED_BY, add_supersession
from vaultmem.services.lifecycle.transition import check_reason
from vaultmem.services.search.valid_spans import find_day
from vaultmem.services.views.read_notes import resolve_address
from vaultmem.services.views.resolve_names import choose_style, find_free_name
from vaultmem.storage.files import MAX_FILE_BYTES
from vaultmem.vault import Vault

#: The properties that limit a note's validity.
_LIMITS = ("valid_from", "valid_until")

#: A commit or tag as such a limit.
_REFERENCE = re.compile(r"[\w][\w./+-]{0,99}")

#: A word, or a date in another form: a limit only if a tag has this name already.
_NO_VERSION = re.compile(r"\D+|\d{1,4}[-/]\d{1,2}(?:[-/]\d{1,4})?(?:T.*)?|\d{1,2}\.\d{1,2}\.\d{4}")

#: Wikilinks for list properties, by property name.
Links = Mapping[str, tuple[str, ...]]


def choose_title(memory: Memory) -> str:
    """Return a memory's title, else its first line without markup, 80 characters at most."""
    if memory.title.strip():
        return " ".join(memory.title.split())
    return derive_title(memory.text)


def name_note(
    vault: Vault,
    folder: PurePosixPath,
    memory: Memory,
    title: str,
    besides: frozenset[str] = frozenset(),
) -> PurePosixPath:
    """Return a free path for a memory's note, from its name or its title.

    `besides` are names to avoid. Raises as `find_free_name` does.
    """
    name = memory.name or make_name(title, choose_style(vault))
    return find_free_name(vault, folder, name, besides, is_given=bool(memory.name))


def compose_note(
    vault: Vault,
    path: PurePosixPath,
    memory: Memory,
    title: str,
    state: NoteState,
    links: Links | None = None,
) -> str:
    """Return the text of a new note; `links` are list properties that link other notes.

    Default values are omitted. So is a title that equals the file name or is in the text.
    """
    author = vault.author
    properties: dict[str, PropertyValue | None] = {
        "tags": memory.tags or None,
        "kind": None if memory.kind is NoteKind.SEMANTIC_FACT else memory.kind.value,
        "state": None if state is NoteState.ACTIVE else state.value,
        "pinned": True if memory.pinned else None,
        "created": vault.local_time(),
        "confidence": memory.confidence,
        "agent": None if vault.is_person else author.agent,
        "session": author.session or None,
        PROJECT: memory.project or None,
        CITES: memory.cites or None,
        "about": memory.about or None,
        "valid_from": read_day(memory.valid_from) or memory.valid_from or None,
        "valid_until": read_day(memory.valid_until) or memory.valid_until or None,
        **{name: items or None for name, items in (links or {}).items()},
        **memory.own,
    }
    text = format_note(properties, "\n" + memory.text.strip("\n") + "\n")
    return get_title(text, path, title)


def check_characters(memory: Memory) -> None:
    """Reject text that is empty, contains NUL, or is not UTF-8 (lone surrogates)."""
    if not memory.text.strip():
        raise RefusedError("nothing to remember: the text is empty")
    if "\0" in memory.text:
        raise RefusedError("the text has NUL characters, so it is not text; nothing was written")
    for text in (memory.text, memory.title, memory.context, *memory.tags, *memory.cites):
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise RefusedError(
                f"the text is not UTF-8 (character {error.start + 1}); nothing was written"
            ) from None


def check_memory(memory: Memory, data: bytes, vault: Vault, folder: str) -> None:
    """Reject a memory that cannot become a note.

    Raises:
        RefusedError: it is too large, looks like a credential, or has an invalid tag, date or
            confidence.
    """
    if len(data) > MAX_FILE_BYTES:
        raise RefusedError(f"a note holds {MAX_FILE_BYTES:,} bytes at most; divide the text")
    if memory.confidence is not None and not 0 <= memory.confidence <= 1:
        raise RefusedError(f"confidence {memory.confidence:g} is not between 0 and 1")
    for name in _LIMITS:
        _check_limit(vault, name, getattr(memory, name))
    start, end = read_day(memory.valid_from), read_day(memory.valid_until)
    if start and end and start >= end:
        raise RefusedError(f"valid_until {end}: not after valid_from {start}; give a later day")
    check_tags(memory.tags)
    for leak in scan_note_text(vault, folder, memory.text):
        raise RefusedError(
            f"line {leak.line} of the text looks like a credential ({leak.rule}); "
            "remember where it is kept, not the value"
        )
    properties = "\n".join((memory.title, memory.context, *memory.tags, *memory.cites))
    for leak in scan_note_text(vault, folder, properties):
        raise RefusedError(
            f"the title, the context, a tag or a source looks like a credential ({leak.rule}); "
            "remember where it is kept, not the value"
        )


def _check_limit(vault: Vault, name: str, limit: str) -> None:
    if limit and read_day(limit) is None and not _is_limit(vault, limit, name):
        raise RefusedError(
            f'{name} "{limit}": not a date (2026-10-01), a commit or a tag'
            + (', nor "until PATH changes"' if name == "valid_until" else "")
        )


def _is_limit(vault: Vault, text: str, name: str) -> bool:
    if name == "valid_until" and parse_change(text) is not None:
        return True
    if not _REFERENCE.fullmatch(text):
        return False
    return not _NO_VERSION.fullmatch(text) or find_day(vault, text) is not None


# Change a note with the caller's permissions: its properties, one passage, or all text.

_NO_PROPERTIES: Mapping[str, Any] = MappingProxyType({})


class NoteUpdate(NamedTuple):
    """An update of a note: `properties` are JSON values by name, None to remove one.

    `text` replaces all text. `new_text` replaces `old_text`, which must be in the body once.
    `superseded_by` names notes that replace this one, for a `reason`.
    """

    properties: Mapping[str, Any] = _NO_PROPERTIES
    text: str | None = None
    old_text: str = ""
    new_text: str | None = None
    reason: str = ""


def update_note(vault: Vault, path: PurePosixPath, update: NoteUpdate) -> str:
    """Change a note and keep all other bytes; return its new blob id.

    A `superseded_by` property deprecates the note in one commit, with links both ways.

    Raises:
        VersionMismatchError: the note is not the version that the vault expects.
        NoteNotFoundError: there is no such note, or `old_text` is not in it.
        RefusedError: the change is not allowed, or not for an agent.
        PendingError: the note is superseded; the commit has to wait.
    """
    return _write_update(vault, path, update, "").value


def commit_update(vault: Vault, path: PurePosixPath, update: NoteUpdate, verb: str) -> CommitReport:
    """Change a note as `update_note` does, in one commit; `verb` begins its subject.

    A person can replace the whole text of an invalid note.

    Raises:
        PendingError: the note is changed; the commit has to wait.
    """
    return _write_update(vault, path, update, verb).report


def _write_update(
    vault: Vault, path: PurePosixPath, update: NoteUpdate, verb: str
) -> WriteResult[str]:
    """Change a note. Without a verb, the next event commits it."""
    properties = dict(update.properties)
    names = properties.pop(SUPERSEDED_BY) if properties.get(SUPERSEDED_BY) else []
    names = [names] if isinstance(names, str) else names
    links = [(read_whole_link(str(each)), str(each)) for each in names]
    by = [resolve_address(vault, link.path if link else name)[0] for link, name in links]

    def edit(note: Note) -> str:
        reject_hidden(vault, note)
        text = note.text if update.text is None else _rewrite(vault, note, update.text)
        if update.new_text is not None:
            text = _rewrite(vault, note, _replace(note, update.old_text, update.new_text))
        for name, value in properties.items():
            text = _set(vault, path, text, name, value)
        return text

    repairs = bool(verb) and update.text is not None and vault.is_person
    subject = format_files(verb or "write", [str(path)])
    body = (check_reason(update.reason),) if verb and update.reason else ()

    def plan(change: Change) -> str:
        replace_text(change, change.read(path), edit, repairs=repairs)
        event = Event("write", subject, vault.author, body, "refine")
        (change.commit if verb else change.leave)(event)
        for new in by:
            add_supersession(change, path, new, update.reason)
        return change.read(path).blob

    return write(vault, plan)


def _rewrite(vault: Vault, note: Note, text: str) -> str:
    check_text(note.path, text)
    if not vault.is_person:
        check_rewrite(note.path, note, text)
    return text


def _replace(note: Note, old: str, new: str) -> str:
    """Return a note's text with one passage of its body replaced."""
    head, body = note.text[: note.frontmatter.end], note.text[note.frontmatter.end :]
    count = body.count(old) if old else 0
    if count == 0:
        raise NoteNotFoundError(f"{note.path}: old_text is not in its body; read it again")
    if count > 1:
        raise RefusedError(f"{note.path}: old_text is there {count} times; give more around it")
    return head + body.replace(old, new)


def _set(vault: Vault, path: PurePosixPath, text: str, name: str, value: Any) -> str:
    """Return a text with a property set or removed, if the caller may set it."""
    if name == "state":
        raise RefusedError(f"{path}: a state is changed with its reason, not as a property")
    if name in GUARDED and (name, value) != ("pinned", True):
        vault.require_person(f'{path}: "{name}" stays as it is, and only a person sets it')
    if value is None:
        return remove_property(text, name)
    if name == "kind":
        value = parse_kind(str(value)).value
    if name == "confidence":
        value = _read_share(path, value)
    if name in _LIMITS:
        _check_limit(vault, name, str(value))
    return set_property(text, name, tuple(value) if isinstance(value, list) else value)


def _read_share(path: PurePosixPath, value: Any) -> float:
    """Return a confidence, also from text, which some clients send."""
    try:
        share = float(value) if not isinstance(value, bool) else -1.0
    except (TypeError, ValueError):
        share = -1.0
    if not 0 <= share <= 1:
        raise RefusedError(f"{path}: confidence is a number from 0 to 1")
    return share


# Remove a confirmation of a note; its wording stays in git.


class UnconfirmResult(NamedTuple):
    """A note, the removed confirmation, and the commit."""

    path: str
    confirmation: Confirmation
    report: CommitReport


def forget_confirmation(vault: Vault, address: str, reason: str = "") -> UnconfirmResult:
    """Remove a note's last confirmation, in a commit that contains its wording.

    Raises:
        NoteNotFoundError: there is no such note.
        RefusedError: it has no confirmation, or an agent may not change it because it is pinned.
        PendingError: the note is changed; the commit has to wait.
    """
    path, _ = resolve_address(vault, address)

    def plan(change: Change) -> Confirmation:
        note = change.read(path)
        last = find_confirmation(note)
        if last is None:
            raise RefusedError(f"{path}: it has no confirmation to take back")
        replace_text(change, note, lambda note: drop_confirmation(note, last))
        line = (
            f"{last.author} said: {last.wording}" if last.wording else f"{last.author} confirmed it"
        )
        body = (line, *([reason] if reason else []))
        subject = format_files("forget", [str(path)], ", one confirmation less")
        only = (str(path),)
        change.commit(
            Event(FORGET, subject, vault.author, body, "refine", only=only), AuthorScope.ANYBODY
        )
        return last

    result = write(vault, plan)
    return UnconfirmResult(str(path), result.value, result.report)
