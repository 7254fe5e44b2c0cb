"""Remember: check a memory, compare it with known ones, and write it as a note."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from vaultmem.core.commit_message import format_files
from vaultmem.core.lifecycle import CLOSED_STATES, OWNER_KINDS, NoteKind, NoteState
from vaultmem.core.new_memory import Memory
from vaultmem.core.notes.edit_properties import add_quotes, set_property
from vaultmem.core.notes.note import Note, parse_note
from vaultmem.core.notes.problems import IN_DOUBT, NEEDS_QUOTES, RESTRICTED
from vaultmem.core.preferences import PreferenceSentence, SpeakerRole, find_standing
from vaultmem.core.secrets.suspicious import find_suspicious
from vaultmem.core.text.blob import blob_id
from vaultmem.core.text.paths import fold, parse_note_path
from vaultmem.core.validity import find_end, read_day
from vaultmem.errors import NoteNotFoundError, RefusedError
from vaultmem.services.anchors.cite import offer_cites, pin_cites, pin_limit
from vaultmem.services.changes.change import Change
from vaultmem.services.changes.commit_parts import Event
from vaultmem.services.changes.ownership import scan_note_text
from vaultmem.services.changes.write import replace_text, write
from vaultmem.services.lifecycle.supersede import add_supersession
from vaultmem.services.memory.new_note import (
    Links,
    check_characters,
    check_memory,
    choose_title,
    compose_note,
    name_note,
)
from vaultmem.services.projects.project_table import find_project, place_in_project
from vaultmem.services.search.annotations import is_known_wish, list_preferences
from vaultmem.services.search.link_walk import NewLinks
from vaultmem.services.similarity.known import (
    KnownNotes,
    SimilarText,
    absorb,
    ask_memory,
    describe_similar,
    find_contradicted,
    find_known,
    reject_quarantined,
)
from vaultmem.services.views.open_view import find_branch
from vaultmem.services.views.read_notes import read_note, resolve_address
from vaultmem.services.views.texts import read_text
from vaultmem.services.views.update_index import read_note_rules, sync_vault
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from vaultmem.core.similarity.compare import KnownText
    from vaultmem.services.similarity.similar import SimilarNote


# Propose preferences as candidates that wait for the owner's approval.

#: The folder of proposals.
FOLDER = parse_note_path("notes/preferences")

#: Maximum proposals from one memory or session.
_MAX_PROPOSALS = 20


class PreferenceProposal(NamedTuple):
    """A proposed preference: its note, text and topic."""

    path: str
    text: str
    about: str


def propose_wishes(change: Change, text: str, source: str) -> tuple[PreferenceProposal, ...]:
    """Propose the preferences in a memory of the note `source`.

    In an agent's text, only sentences that report a preference of the user count.
    """
    speaker = SpeakerRole.OWNER if change.seen.is_person else SpeakerRole.AGENT
    return propose_standing_preferences(change, find_standing(text, speaker), source)


def propose_standing_preferences(
    change: Change,
    wishes: Iterable[PreferenceSentence],
    source: str,
    state: NoteState = NoteState.CANDIDATE,
) -> tuple[PreferenceProposal, ...]:
    """Add a preference note for each preference that no note of any state contains."""
    wishes = list(wishes)[:_MAX_PROPOSALS]
    if not wishes:
        return ()
    from vaultmem.core.similarity.compare import KnownText

    vault = change.seen
    preferences = [*list_preferences(vault), *_read_proposed(change)]
    names = set(_list_taken(change, FOLDER))
    proposals = []
    for wish in wishes:
        if _is_barred(vault, wish.text, preferences):
            continue
        note = _make_preference(vault, wish, source, state, names)
        change.put(note.path, note.text.encode("utf-8"))
        names.add(fold(note.path.name))
        preferences.append(KnownText(note.visible_body, note.title))
        proposals.append(PreferenceProposal(str(note.path), wish.text, wish.topic))
    return tuple(proposals)


def _make_preference(
    vault: Vault, wish: PreferenceSentence, source: str, state: NoteState, names: set[str]
) -> Note:
    link = NewLinks(vault).in_property(source, f"{FOLDER}/new.md")
    memory = Memory(wish.text, kind=NoteKind.PREFERENCE, cites=(link,), about=wish.topic)
    title = choose_title(memory)
    path = name_note(vault, FOLDER, memory, title, frozenset(names))
    text = compose_note(vault, path, memory, title, state)
    return parse_note(path, text.encode("utf-8"))


def _read_proposed(change: Change) -> Iterator[KnownText]:
    """Yield the texts of the candidates that a change already adds."""
    from vaultmem.core.similarity.compare import KnownText

    for path, step in change.steps.items():
        if step.data is not None and PurePosixPath(path).parent == FOLDER:
            note = parse_note(PurePosixPath(path), step.data)
            yield KnownText(note.visible_body, note.title)


def _is_barred(vault: Vault, text: str, preferences: Iterable[KnownText]) -> bool:
    """Return whether a proposal is known, quarantined, or looks like a credential or an attack."""
    from vaultmem.services.similarity.known import find_quarantined_match
    from vaultmem.services.similarity.similar import SimilarityQuery

    return bool(
        is_known_wish(text, preferences)
        or find_quarantined_match(vault, SimilarityQuery(text))
        or scan_note_text(vault, str(FOLDER), text)
        or find_suspicious(text)
    )


# Propose a session's dead ends as candidates.

_DEAD_ENDS = parse_note_path("notes/dead-ends")

#: Maximum dead ends of one session, including those that its agent wrote.
_MAX_DEAD_ENDS = 3


class DeadEndProposal(NamedTuple):
    """A proposed dead end: its note and text."""

    path: str
    text: str


def propose_dead_ends(
    change: Change, dead_ends: Iterable[tuple[str, str]], source: str, project: str
) -> tuple[DeadEndProposal, ...]:
    """Add a candidate for each dead end (title and text) that no note records.

    `source` is the session's note. A rejected dead end is not proposed again.
    """
    vault, names, proposals = change.seen, set[str](), list[DeadEndProposal]()
    records = vault.view.records(f"d.kind = '{NoteKind.DEAD_END.value}'")
    texts = [read_text(vault, each.path, each.blob) or "" for each in records]
    limit = _MAX_DEAD_ENDS - sum(each.session == vault.author.session for each in records)
    link = NewLinks(vault).in_property(source, f"{_DEAD_ENDS}/new.md")
    for title, text in dead_ends:
        quotes = re.findall("`[^`]+`", text.partition("\n")[0])
        is_known = any(all(part in each for part in quotes) for each in texts)
        if len(proposals) >= limit or is_known or _is_barred(vault, text, ()):
            continue
        memory = Memory(text, title, kind=NoteKind.DEAD_END, cites=(link,), project=project)
        path = name_note(vault, _DEAD_ENDS, memory, title, frozenset(names))
        note = compose_note(vault, path, memory, title, NoteState.CANDIDATE)
        change.put(path, note.encode("utf-8"))
        names.add(fold(path.name))
        texts.append(text)
        proposals.append(DeadEndProposal(str(path), text))
    return tuple(proposals)


__all__ = ["Memory", "RememberOutcome", "RememberResult", "SimilarText", "remember"]


class RememberOutcome(StrEnum):
    """Whether a memory got its own note, or a note with the same statement existed."""

    CREATED = "created"
    KNOWN = "known"


#: Kinds that are global unless a project is given.
_GLOBAL = frozenset({NoteKind.POLICY_RULE, NoteKind.PREFERENCE})

#: Message for a memory that is similar to a quarantined note.
HELD = "It is quarantined until a person has read it: a quarantined note states nearly the same."


class RememberResult(NamedTuple):
    """The note that contains the memory, and similar notes.

    `proposed` are preferences that wait for the owner's approval. `project` is "" for a global
    note. `cited` is what the note cites, with paths as anchors. `offered` are files of the caller's
    repository that the text names but does not cite. `superseded` is the path of the replaced note,
    `unsaid` its content that the new note lacks, and `commit` the commit of both. These three are
    empty if nothing was replaced. `ends` is an end date found in the text, if the caller gave none.
    `also` are the results of the call's other texts.
    """

    path: str
    blob: str
    title: str
    state: str
    outcome: RememberOutcome = RememberOutcome.CREATED
    similar: tuple[SimilarText, ...] = ()
    proposed: tuple[PreferenceProposal, ...] = ()
    project: str = ""
    cited: tuple[str, ...] = ()
    offered: tuple[str, ...] = ()
    superseded: str = ""
    unsaid: tuple[str, ...] = ()
    commit: str = ""
    ends: str = ""
    also: tuple[RememberResult, ...] = ()


def find_replaced(vault: Vault, address: str) -> Note:
    """Return the note that a memory will replace.

    Raises:
        NoteNotFoundError: there is no such note.
        RefusedError: the address names a section.
    """
    try:
        path, heading = resolve_address(vault, address)
    except NoteNotFoundError:
        sync_vault(vault)  # Writing a memory does not update the index first.
        path, heading = resolve_address(vault, address)
    if heading:
        raise RefusedError(f"{address}: a section cannot be replaced; name the note")
    return read_note(vault, path)


def remember(
    vault: Vault,
    memory: Memory,
    *,
    force: bool = False,
    supersedes: str = "",
    also: Sequence[str] = (),
) -> RememberResult:
    """Write a memory as a note. On return it is durable and indexed, but not committed.

    A note with the same statement gets a confirmation instead; similar notes are linked. `force`
    always creates a note. A memory that is similar to a quarantined note is always quarantined. On
    a branch that is not checked out, the write is a commit.

    Policies, skills and preferences written by an agent start as candidates, which have no effect
    until they are promoted. A person's preference is active at once. Preferences in other memories
    are proposed.

    The note that it `supersedes` is replaced in the same write, as one commit. Only the owner and
    promoting agents can replace an active policy, skill or preference; the new note is active.

    Each text in `also` becomes another memory with the same properties, except the title. All are
    written, as one write, or none. They are not compared with each other.

    Raises:
        RefusedError: the memory is empty, too large, looks like a credential or has an unsafe
            name; a quarantined note is the same; or the note may not be replaced.
        PendingError: the notes are written and linked; their commit has to wait.
    """
    replaced_note = find_replaced(vault, supersedes) if supersedes else None
    texts = dict.fromkeys(text for text in also if text.strip() != memory.text.strip())
    others = [memory._replace(text=text, title="", name="") for text in texts]
    drafts = [_draft(vault, memory, replaced_note), *(_draft(vault, each, None) for each in others)]

    def plan(change: Change) -> list[RememberResult]:
        change.leave(Event("write", "", vault.author, intent="observe"))
        return [_write(change, each, force) for each in drafts]

    results, report = write(vault, plan)
    first, *rest = (
        _finish(vault, each, result) for each, result in zip(drafts, results, strict=True)
    )
    return first._replace(also=tuple(rest), commit=report.commit if replaced_note else "")


class _Draft(NamedTuple):
    """A memory to write, and its form for comparison with known notes."""

    memory: Memory
    title: str
    state: NoteState
    new: Memory
    replaced: Note | None


def _draft(vault: Vault, memory: Memory, replaced_note: Note | None) -> _Draft:
    """Return a memory with its title, state and anchors.

    Raises:
        RefusedError: as for `remember`.
    """
    check_characters(memory)
    title = choose_title(memory)
    if memory.kind is NoteKind.PREFERENCE and not memory.about:
        memory = memory._replace(about=_choose_topic(memory, replaced_note))
    state = memory.state or _first_state(vault, memory.kind, replaced_note)
    folder = parse_note_path(f"notes/{memory.context or vault.config.default_context}")
    draft = compose_note(vault, folder / "note.md", memory, title, state)
    check_memory(memory, draft.encode("utf-8"), vault, str(folder))
    if memory.project is None and memory.kind in _GLOBAL:
        memory = memory._replace(project="")
    memory = memory._replace(
        cites=pin_cites(vault, memory.cites, memory.project),
        valid_until=pin_limit(vault, memory.valid_until, memory.project),
    )
    new = memory._replace(project=_find_project_name(vault, memory))
    return _Draft(memory, title, state, new, replaced_note)


def _write(change: Change, draft: _Draft, force: bool) -> RememberResult:
    """Write a memory to a known note or a new one."""
    memory, title, state, new, replaced_note = draft
    known_notes = find_known(change.seen, new, state)
    if quarantined_note := reject_quarantined(
        change.seen, ask_memory(new), known_notes.quarantined
    ):
        if replaced_note:
            raise RefusedError(
                f"{quarantined_note.path}: quarantined, and nearly the same text; write it alone"
            )
        return put_new(change, memory, title, NoteState.QUARANTINED, (quarantined_note,))
    is_held = change.is_foreign and bool(find_suspicious(memory.text))
    if force or is_held:  # No other note gets text that tries to instruct an agent.
        known_notes = KnownNotes(None, (), ())
    known_notes = _without(known_notes, replaced_note) if replaced_note else known_notes
    result = _absorb(change, known_notes, new, state)
    result = result or put_new(change, memory, title, state, known_notes.similar)
    if memory.kind not in OWNER_KINDS and result.state not in CLOSED_STATES:
        result = result._replace(proposed=propose_wishes(change, memory.text, result.path))
    return _supersede(change, replaced_note, result) if replaced_note else result


def _finish(vault: Vault, draft: _Draft, result: RememberResult) -> RememberResult:
    """Record trust in the new note if its author may, and return the complete result."""
    memory = draft.memory
    is_vouched = memory.kind in OWNER_KINDS and _is_in_force(draft.replaced)
    if (is_vouched or memory.kind is NoteKind.PREFERENCE) and (result.outcome, result.state) == (
        RememberOutcome.CREATED,  # Other text of a known note is not trusted.
        NoteState.ACTIVE,
    ):
        _vouch(vault, result)
    offered_cites = offer_cites(vault, memory.text, memory.cites)
    return result._replace(cited=memory.cites, offered=offered_cites, ends=_find_end(vault, memory))


def _choose_topic(memory: Memory, replaced_note: Note | None) -> str:
    """Return a preference's topic, from its text or the note that it replaces."""
    from vaultmem.core.preferences import find_topic

    topic = replaced_note and replaced_note.frontmatter.get("about")
    return find_topic(memory.text) or (str(topic.value) if topic else "")


def _without(known_notes: KnownNotes, replaced_note: Note) -> KnownNotes:
    """Return the known notes without the replaced one."""
    similar_notes = tuple(
        each for each in known_notes.similar if each.path != str(replaced_note.path)
    )
    is_other = known_notes.target is not None and known_notes.target.path != str(replaced_note.path)
    return KnownNotes(
        known_notes.target if is_other else None, similar_notes, known_notes.quarantined
    )


def _supersede(change: Change, replaced_note: Note, result: RememberResult) -> RememberResult:
    """Supersede a note by the one that contains the memory."""
    supersession = add_supersession(change, replaced_note.path, PurePosixPath(result.path))
    blob = change.read(PurePosixPath(result.path)).blob
    return result._replace(blob=blob, superseded=supersession.old, unsaid=supersession.unsaid)


def _find_end(vault: Vault, memory: Memory) -> str:
    """Return the end date in a memory's text, or "" if there is none or it is given."""
    end = None if memory.valid_until else find_end(memory.text, vault.local_time().date())
    return end.isoformat() if end else ""


def _vouch(vault: Vault, result: RememberResult) -> None:
    """Record trust in a note, if its author may."""
    from vaultmem.services.lifecycle.transition import record_trust

    if not find_branch(vault):
        record_trust(vault, [read_note(vault, parse_note_path(result.path))])


def put_new(
    change: Change,
    memory: Memory,
    title: str,
    state: NoteState,
    similar_notes: tuple[SimilarNote, ...],
) -> RememberResult:
    """Create a note under the first free name, linked to similar notes."""
    vault = change.seen
    folder = parse_note_path(f"notes/{memory.context or vault.config.default_context}")
    path = name_note(vault, folder, memory, title, _list_taken(change, folder))
    memory = memory._replace(project=place_in_project(change, memory.project, vault.here))
    if reason := read_note_rules(vault).why_not(str(path)):
        raise RefusedError(f"{path}: {reason}, so no query would find it; choose another --context")
    links = _link(vault, similar_notes, str(path))
    data = compose_note(vault, path, memory, title, state, links).encode("utf-8")
    data = change.put(path, data)
    if change.is_foreign and str(path) in change.suspicious:
        state = NoteState.QUARANTINED
    descriptions, project = describe_similar(similar_notes, memory.text), memory.project or ""
    return RememberResult(
        str(path), blob_id(data), title, state, similar=descriptions, project=project
    )


def _list_taken(change: Change, folder: PurePosixPath) -> frozenset[str]:
    """Return the folded file names that a change writes in a folder."""
    paths = map(PurePosixPath, change.steps)
    return frozenset(fold(path.name) for path in paths if path.parent == folder)


def _find_project_name(vault: Vault, memory: Memory) -> str:
    """Return a memory's project, or "" if it is global or new."""
    if memory.project is not None:
        return memory.project
    project = find_project(vault, vault.here)
    return project.name if project else ""


def _absorb(
    change: Change, known_notes: KnownNotes, new: Memory, state: NoteState
) -> RememberResult | None:
    """Add a confirmation to the known note; None if there is none or it has changed."""
    target = known_notes.target
    if target is None:
        return None
    try:
        note = change.read(target.note.path)
    except NoteNotFoundError:
        return None
    text = absorb(change.seen, note, new, state)
    if text is None:
        return None
    for name in ("valid_from", "valid_until"):
        if limit := getattr(new, name):
            text = set_property(text, name, read_day(limit) or limit)
    final_text = text
    data = replace_text(change, note, lambda _: final_text)
    return _describe_absorbed(target, blob_id(data), known_notes.similar, new.text)


def _describe_absorbed(
    target: SimilarNote, blob: str, similar_notes: tuple[SimilarNote, ...], text: str
) -> RememberResult:
    note = target.note
    state = (
        NoteState.ACTIVE if note.state is NoteState.STALE and note.frontmatter.body else note.state
    )
    descriptions = describe_similar((target, *similar_notes), text)
    outcome = RememberOutcome.KNOWN
    return RememberResult(
        target.path, blob, note.title, state, outcome, descriptions, project=note.project
    )


def _link(vault: Vault, similar_notes: tuple[SimilarNote, ...], source: str) -> Links:
    contradicted_notes = find_contradicted(similar_notes)
    links = NewLinks(vault)
    return {
        "contradicts": tuple(links.in_property(each.path, source) for each in contradicted_notes),
        "related": tuple(
            links.in_property(each.path, source)
            for each in similar_notes
            if each not in contradicted_notes
        ),
    }


def _first_state(vault: Vault, kind: NoteKind, replaced_note: Note | None) -> NoteState:
    """Return the state of a new note. A note that replaces an active one is active if allowed."""
    may_activate = vault.may_activate(vault.author.agent) and _is_in_force(replaced_note)
    is_candidate = not vault.is_person and kind in OWNER_KINDS and not may_activate
    return NoteState.CANDIDATE if is_candidate else NoteState.ACTIVE


def _is_in_force(note: Note | None) -> bool:
    """Return whether a note is an active policy, skill or preference."""
    return note is not None and note.kind in OWNER_KINDS and note.state is NoteState.ACTIVE


# Add quotes to properties of notes that are invalid without them, in one commit.


def quote_properties(vault: Vault) -> tuple[str, ...]:
    """Add quotes to property values that need them, and return the changed notes.

    Notes with other problems, and notes that were hidden before, are not changed.

    Raises:
        RefusedError: the caller is an agent; only a person can make an invalid note valid.
        ConflictError, PendingError: as for `write`.
    """

    def plan(change: Change) -> None:
        for name, problem in vault.manifest.in_doubt():
            if NEEDS_QUOTES not in problem or f"{IN_DOUBT}{RESTRICTED}" in problem:
                continue
            note = change.read(PurePosixPath(name))
            text = note.text if note.encoding else add_quotes(note.text)
            if text != note.text:
                vault.require_person(f"{name}: in doubt, so only a person adds quotes")
                change.replace(note.path, text.encode("utf-8"), note.blob)
        if change.steps:
            subject = format_files("add quotes", change.steps)
            change.commit(Event("write", subject, vault.author, intent="refine"))

    report = write(vault, plan).report
    sync_vault(vault)
    return report.paths
