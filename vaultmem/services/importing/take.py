"""Take one memory of another program in: it is known already, or becomes a candidate."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from pathlib import PurePosixPath
from typing import NamedTuple

from vaultmem.core.imports.item import MemoryItem, digest_text
from vaultmem.core.lifecycle import OWNER_KINDS, State
from vaultmem.core.notes.edit_properties import PropertyValue, set_property
from vaultmem.core.notes.note import Note
from vaultmem.core.paths import check_new_name, parse_note_path, slugify
from vaultmem.core.preferences.standing import Speaker, find_standing
from vaultmem.core.sessions.session import FOLDER
from vaultmem.errors import RefusedError
from vaultmem.services.likeness.known import name_contradicted, refuse_held
from vaultmem.services.likeness.similar import Asked, find_similar
from vaultmem.services.notes.memory import (
    Memory,
    check_characters,
    check_memory,
    choose_title,
    compose_note,
)
from vaultmem.services.notes.propose import propose_standing
from vaultmem.services.notes.remember import put_new
from vaultmem.services.reading.look import name_branch
from vaultmem.services.reading.read_notes import find_note
from vaultmem.services.writing.change import Change
from vaultmem.services.writing.leaks import look_for_leaks
from vaultmem.services.writing.parts import Event
from vaultmem.services.writing.write import replace_text, write
from vaultmem.storage.files import MAX_FILE_BYTES
from vaultmem.vault import Vault

#: Says in a note where it was imported from: kind, origin, and a digest of what was said there.
PROPERTY = "imported"


class Outcome(StrEnum):
    """What becomes of what is imported."""

    NEW = "new"
    CHANGED = "changed"
    NEAR = "near"
    CONTRADICTS = "contradicts"
    KNOWN = "known"
    QUARANTINED = "quarantined"
    CREDENTIAL = "credential"
    TOO_LARGE = "too large"
    REFUSED = "refused"
    LEFT_OUT = "left out"
    UNREAD = "unread"


class Taken(NamedTuple):
    """What became of an item: its note, or the one that is meant, and what is to be said of it."""

    item: str
    outcome: Outcome
    path: str = ""
    remark: str = ""
    turns: int = 0


class Imported(NamedTuple):
    """Notes of a kind that were imported, by origin, each with the digest of what it said.

    `said` are the digests of this import, `sessions` the notes of sessions of any kind, and `talks`
    the sessions that were made of conversations, by their origin.
    """

    notes: dict[str, dict[str, str]]
    said: set[str]
    sessions: set[str]
    talks: dict[str, str]

    @property
    def paths(self) -> set[str]:
        """All of their paths."""
        return self.sessions.union(*(each.values() for each in self.notes.values()))


def list_imported(vault: Vault, kind: str) -> Imported:
    """Return the notes of a kind that say where they came from."""
    found: dict[str, dict[str, str]] = {}
    sessions: set[str] = set()
    talks: dict[str, str] = {}
    for record in vault.view.records("d.source = 'import' AND d.path NOT GLOB 'primed/*'"):
        if record.path.startswith(f"{FOLDER}/"):
            sessions.add(record.path)
        note = find_note(vault, record.path)
        prop = note.matter.get(PROPERTY) if note else None
        told = prop.value if prop and isinstance(prop.value, str) else ""
        if record.path in sessions:
            talks[told] = PurePosixPath(record.path).stem
            continue
        name, _, rest = told.partition(" ")
        origin, _, digest = rest.rpartition("@")
        if name == kind:
            found.setdefault(origin, {})[digest] = record.path
    return Imported(found, set(), sessions, talks)


def take_memory(vault: Vault, kind: str, item: MemoryItem, known: Imported, dry_run: bool) -> Taken:
    """Make a memory a candidate, unless it was imported before or a note says the same.

    Of one that says something else at its origin by now, the note that nobody touched here since
    follows. `known` learns of what is done. A note that is there already stays as it is.
    """
    memory, title = as_memory(vault, kind, item), item.title or item.origin
    there, key = known.notes.get(item.origin, {}), name_key(vault, kind, item.origin)
    if item.digest in there or item.digest == vault.state.get(key):
        return Taken(title, Outcome.KNOWN, there.get(item.digest, ""), "imported before")
    if item.digest in known.said:
        return Taken(title, Outcome.KNOWN, "", "twice in it")
    if problem := _find_problem(vault, memory):
        return problem._replace(item=title)
    known.said.add(item.digest)
    followed = next(filter(None, (_find_untouched(vault, *each) for each in there.items())), None)

    def plan(change: Change) -> Taken:
        change.leave(Event("write", "", vault.author, intent="observe"))
        if followed is not None:
            replace_text(change, followed, lambda note: _follow(vault, note, memory))
            return Taken(title, Outcome.CHANGED, str(followed.path))
        return _put(change, memory, item)._replace(item=title)

    try:
        taken = plan(Change(vault)) if dry_run else write(vault, plan).value
    except RefusedError as error:
        return Taken(title, Outcome.REFUSED, "", str(error))
    if not dry_run:
        with vault.leaving_to_next():
            vault.state.put(key, item.digest)
        known.notes.setdefault(item.origin, {})[item.digest] = taken.path
    return taken


def name_key(vault: Vault, kind: str, origin: str) -> str:
    """Return under what the state database remembers an import into the branch that is meant."""
    return f"{PROPERTY} {name_branch(vault)} {kind} {origin}"


def as_memory(vault: Vault, kind: str, item: MemoryItem) -> Memory:
    """Return an item as a memory on its way to a note: a candidate, of its day."""
    folders = [slugify(each) for each in item.folders if each.strip()]
    own: dict[str, PropertyValue] = {
        **{k: as_local(v) or v if isinstance(v, datetime) else v for k, v in item.own.items()},
        "created": as_local(item.created) or vault.local_time(),
        PROPERTY: f"{kind} {item.origin}@{item.digest}",
    }
    return Memory(
        item.text,
        title=" ".join(item.title.split()),
        context="/".join(("imported", kind, *folders)),
        kind=item.kind,
        state=item.state,
        tags=item.tags,
        name=item.name if _is_safe(item.name) else "",
        own=own,
        project="",
    )


def as_local(moment: datetime | None) -> datetime | None:
    """Return a time as it was here, without a zone; one without a zone is that already."""
    return moment.astimezone().replace(tzinfo=None) if moment and moment.tzinfo else moment


def _is_safe(name: str) -> bool:
    try:
        check_new_name(PurePosixPath("notes", f"{name}.md"))
    except RefusedError:
        return False
    return bool(name)


def _find_problem(vault: Vault, memory: Memory) -> Taken | None:
    """Return why a memory cannot be a note, as far as its text alone tells."""
    folder = str(parse_note_path(f"notes/{memory.context}"))
    title = choose_title(memory)
    try:
        check_characters(memory)
    except RefusedError as error:
        return Taken("", Outcome.REFUSED, "", str(error))
    draft = compose_note(vault, PurePosixPath(folder, "note.md"), memory, title, State.CANDIDATE)
    data = draft.encode("utf-8")
    for found in look_for_leaks(vault, folder, f"{title}\n{data.decode()}"):
        return Taken("", Outcome.CREDENTIAL, "", f"it looks like one ({found.rule})")
    if len(data) > MAX_FILE_BYTES:
        return Taken("", Outcome.TOO_LARGE, "", f"{len(data):,} bytes; a note has 1 MiB at most")
    try:
        check_memory(memory, data, vault, folder)
    except RefusedError as error:
        return Taken("", Outcome.REFUSED, "", str(error))
    return None


def _put(change: Change, memory: Memory, item: MemoryItem) -> Taken:
    """Put a memory as `remember` does, but leave the note alone that says the same."""
    asked = Asked(memory.text, memory.title)
    similar = find_similar(change.seen, asked)
    for each in similar:
        if each.is_same and each.note.state is not State.QUARANTINED:
            return Taken("", Outcome.KNOWN, each.path, "a note says the same")
    fresh = tuple(each for each in similar if each.note.state is State.QUARANTINED)
    title = choose_title(memory)
    if held := refuse_held(change.seen, asked, fresh):
        done = put_new(change, memory, title, State.QUARANTINED, (held,))
        return Taken("", Outcome.QUARANTINED, done.path, f"{held.path} nearly says it")
    near = tuple(similar[:3])
    against = name_contradicted(near)
    done = put_new(change, memory, title, memory.state or State.CANDIDATE, near)
    if memory.kind not in OWNER_KINDS and done.state == State.CANDIDATE:
        speaker = Speaker.OWNER if item.said_by == "user" else Speaker.AGENT
        propose_standing(change, find_standing(memory.text, speaker), done.path)
    outcome = Outcome.CONTRADICTS if against else Outcome.NEAR if near else Outcome.NEW
    return Taken("", outcome, done.path, ", ".join(each.path for each in against or near))


def _find_untouched(vault: Vault, digest: str, path: str) -> Note | None:
    """Return a note if it is still the candidate that was imported, word for word."""
    note = find_note(vault, path)
    if note is None or note.state is not State.CANDIDATE or note.pinned or note.problem:
        return None
    return note if digest_text(note.body) == digest else None


def _follow(vault: Vault, note: Note, memory: Memory) -> str:
    text = f"{note.text[: note.matter.body].rstrip()}\n\n{memory.text.strip()}\n"
    text = set_property(text, PROPERTY, memory.own[PROPERTY])
    return set_property(text, "updated", memory.own["created"])
