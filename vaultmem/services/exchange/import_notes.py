"""Import memories and conversations of other programs as candidates."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Callable
from datetime import datetime
from enum import StrEnum
from functools import partial
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from vaultmem.core.imports.item import Conversation, MemoryItem, digest_text, parse_export_time
from vaultmem.core.lifecycle import OWNER_KINDS, NoteState
from vaultmem.core.new_memory import Memory
from vaultmem.core.notes.edit_properties import PropertyValue, set_property
from vaultmem.core.notes.note import Note, parse_note
from vaultmem.core.preferences import SpeakerRole, find_standing
from vaultmem.core.project import PROPERTY as PROJECT
from vaultmem.core.secrets.scan import mask_secrets
from vaultmem.core.sessions.session import (
    FOLDER,
    SessionFacts,
    SessionStatus,
    TouchedFile,
    map_session_id,
    session_path,
)
from vaultmem.core.sessions.session_note import name_session, new_session_text
from vaultmem.core.text.display import pluralize
from vaultmem.core.text.paths import check_new_name, parse_note_path, slugify
from vaultmem.core.transcripts.event import (
    TranscriptEvent,
    TranscriptRecord,
    TranscriptSource,
    add_event,
)
from vaultmem.errors import NoteNotFoundError, RefusedError
from vaultmem.services.changes.change import Change
from vaultmem.services.changes.commit_parts import Event
from vaultmem.services.changes.operation import Transaction, operate
from vaultmem.services.changes.ownership import scan_note_text
from vaultmem.services.changes.write import replace_text, write
from vaultmem.services.memory.new_note import (
    check_characters,
    check_memory,
    choose_title,
    compose_note,
)
from vaultmem.services.memory.remember import propose_standing_preferences, put_new
from vaultmem.services.projects.project_table import place_in_project
from vaultmem.services.sessions.edit_session import act_in, edit_session, propose_preferences
from vaultmem.services.sessions.find_session import is_kept, read_session
from vaultmem.services.sessions.identify import find_workspace
from vaultmem.services.sessions.import_turns import (
    TurnImport,
    add_touched,
    find_first_turn,
    format_file,
    has_more,
    identify_transcript,
    import_again,
    import_turns,
    make_turn,
    read_record,
    write_record,
)
from vaultmem.services.sessions.windows import append_turns, read_tally, write_windows
from vaultmem.services.similarity.known import find_contradicted, reject_quarantined
from vaultmem.services.similarity.similar import SimilarityQuery, find_similar
from vaultmem.services.views.open_view import get_branch_name
from vaultmem.services.views.read_notes import find_note
from vaultmem.storage.files import MAX_FILE_BYTES
from vaultmem.vault import Vault

#: Property with a note's origin: the kind, the origin, and a digest of the imported text.
PROPERTY = "imported"


class ImportOutcome(StrEnum):
    """The outcome of an imported item."""

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


class ImportedItem(NamedTuple):
    """An item's outcome: its note or an existing one, and a remark."""

    item: str
    outcome: ImportOutcome
    path: str = ""
    remark: str = ""
    turns: int = 0


class ImportResult(NamedTuple):
    """Imported notes of a kind: by origin and digest, their paths.

    `digests` are those of this import, `sessions` the session notes of any kind. `conversations`
    maps conversations' origins to their sessions.
    """

    notes: dict[str, dict[str, str]]
    digests: set[str]
    sessions: set[str]
    conversations: dict[str, str]

    @property
    def paths(self) -> set[str]:
        """All of their paths."""
        return self.sessions.union(*(each.values() for each in self.notes.values()))


def list_imported(vault: Vault, kind: str) -> ImportResult:
    """Return the imported notes of a kind, and imported sessions."""
    notes: dict[str, dict[str, str]] = {}
    sessions: set[str] = set()
    session_ids: dict[str, str] = {}
    for record in vault.view.records("d.source = 'import' AND d.path NOT GLOB 'primed/*'"):
        if record.path.startswith(f"{FOLDER}/"):
            sessions.add(record.path)
        note = find_note(vault, record.path)
        prop = note.frontmatter.get(PROPERTY) if note else None
        value = prop.value if prop and isinstance(prop.value, str) else ""
        if record.path in sessions:
            session_ids[value] = PurePosixPath(record.path).stem
            continue
        name, _, rest = value.partition(" ")
        origin, _, digest = rest.rpartition("@")
        if name == kind:
            notes.setdefault(origin, {})[digest] = record.path
    return ImportResult(notes, set(), sessions, session_ids)


def import_memory(
    vault: Vault, kind: str, item: MemoryItem, imports: ImportResult, dry_run: bool
) -> ImportedItem:
    """Import a memory as a candidate, unless it was imported before or a note states the same.

    If its text changed at the origin, a note that is still as imported is updated. Other existing
    notes stay. `imports` is updated.
    """
    memory, title = as_memory(vault, kind, item), item.title or item.origin
    paths, key = imports.notes.get(item.origin, {}), build_key(vault, kind, item.origin)
    if item.digest in paths or item.digest == vault.state.get(key):
        return ImportedItem(
            title, ImportOutcome.KNOWN, paths.get(item.digest, ""), "imported before"
        )
    if item.digest in imports.digests:
        return ImportedItem(title, ImportOutcome.KNOWN, "", "twice in it")
    if problem := _find_problem(vault, memory):
        return problem._replace(item=title)
    imports.digests.add(item.digest)
    existing_note = next(
        filter(None, (_find_untouched(vault, *each) for each in paths.items())), None
    )

    def plan(change: Change) -> ImportedItem:
        change.leave(Event("write", "", vault.author, intent="observe"))
        change.is_foreign = True
        if existing_note is not None:
            replace_text(change, existing_note, lambda note: _follow(vault, note, memory))
            return ImportedItem(title, ImportOutcome.CHANGED, str(existing_note.path))
        return _put(change, memory, item)._replace(item=title)

    try:
        result = plan(Change(vault)) if dry_run else write(vault, plan).value
    except RefusedError as error:
        return ImportedItem(title, ImportOutcome.REFUSED, "", str(error))
    if not dry_run:
        with vault.leaving_to_next():
            vault.state.put(key, item.digest)
        imports.notes.setdefault(item.origin, {})[item.digest] = result.path
    return result


def build_key(vault: Vault, kind: str, origin: str) -> str:
    """Return the state database's key for an import into the target branch."""
    return f"{PROPERTY} {get_branch_name(vault)} {kind} {origin}"


def as_memory(vault: Vault, kind: str, item: MemoryItem) -> Memory:
    """Return an item as a candidate memory, with its own date."""
    folders = [slugify(each) for each in item.folders if each.strip()]
    own: dict[str, PropertyValue] = {
        **{
            k: as_local(v) or v if isinstance(v, datetime) else v
            for k, v in item.properties.items()
        },
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


def as_local(timestamp: datetime | None) -> datetime | None:
    """Return a timestamp as local time without a zone; one without a zone is local already."""
    return (
        timestamp.astimezone().replace(tzinfo=None) if timestamp and timestamp.tzinfo else timestamp
    )


def _is_safe(name: str) -> bool:
    try:
        check_new_name(PurePosixPath("notes", f"{name}.md"))
    except RefusedError:
        return False
    return bool(name)


def _find_problem(vault: Vault, memory: Memory) -> ImportedItem | None:
    """Return why a memory cannot be a note, judged by its text alone."""
    folder = str(parse_note_path(f"notes/{memory.context}"))
    title = choose_title(memory)
    try:
        check_characters(memory)
    except RefusedError as error:
        return ImportedItem("", ImportOutcome.REFUSED, "", str(error))
    draft = compose_note(
        vault, PurePosixPath(folder, "note.md"), memory, title, NoteState.CANDIDATE
    )
    data = draft.encode("utf-8")
    for leak in scan_note_text(vault, folder, f"{title}\n{data.decode()}"):
        return ImportedItem("", ImportOutcome.CREDENTIAL, "", f"it looks like one ({leak.rule})")
    if len(data) > MAX_FILE_BYTES:
        return ImportedItem(
            "", ImportOutcome.TOO_LARGE, "", f"{len(data):,} bytes; a note has 1 MiB at most"
        )
    try:
        check_memory(memory, data, vault, folder)
    except RefusedError as error:
        return ImportedItem("", ImportOutcome.REFUSED, "", str(error))
    return None


def _put(change: Change, memory: Memory, item: MemoryItem) -> ImportedItem:
    """Create a memory's note as `remember` does, unless a note states the same."""
    query = SimilarityQuery(memory.text, memory.title)
    similar = find_similar(change.seen, query)
    for each in similar:
        if each.is_same and each.note.state is not NoteState.QUARANTINED:
            return ImportedItem("", ImportOutcome.KNOWN, each.path, "a note states the same")
    quarantined_notes = tuple(each for each in similar if each.note.state is NoteState.QUARANTINED)
    title = choose_title(memory)
    if quarantined_note := reject_quarantined(change.seen, query, quarantined_notes):
        result = put_new(change, memory, title, NoteState.QUARANTINED, (quarantined_note,))
        return ImportedItem(
            "", ImportOutcome.QUARANTINED, result.path, f"{quarantined_note.path} nearly states it"
        )
    near_notes = tuple(similar[:3])
    contradictions = find_contradicted(near_notes)
    result = put_new(change, memory, title, memory.state or NoteState.CANDIDATE, near_notes)
    if result.state is NoteState.QUARANTINED:
        return ImportedItem(
            "", ImportOutcome.QUARANTINED, result.path, change.suspicious[result.path]
        )
    if memory.kind not in OWNER_KINDS and result.state == NoteState.CANDIDATE:
        speaker = SpeakerRole.OWNER if item.speaker == "user" else SpeakerRole.AGENT
        propose_standing_preferences(change, find_standing(memory.text, speaker), result.path)
    outcome = (
        ImportOutcome.CONTRADICTS
        if contradictions
        else ImportOutcome.NEAR
        if near_notes
        else ImportOutcome.NEW
    )
    return ImportedItem(
        "", outcome, result.path, ", ".join(each.path for each in contradictions or near_notes)
    )


def _find_untouched(vault: Vault, digest: str, path: str) -> Note | None:
    """Return a note if it is still a candidate with the imported text."""
    note = find_note(vault, path)
    if note is None or note.state is not NoteState.CANDIDATE or note.pinned or note.problem:
        return None
    return note if digest_text(note.body) == digest else None


def _follow(vault: Vault, note: Note, memory: Memory) -> str:
    text = f"{note.text[: note.frontmatter.body].rstrip()}\n\n{memory.text.strip()}\n"
    text = set_property(text, PROPERTY, memory.own[PROPERTY])
    return set_property(text, "updated", memory.own["created"])


# Import a conversation as a session: its turns, and its outcome.

#: Most files that a note lists.
_MAX_LISTED_FILES = 60


class ConversationHead(NamedTuple):
    """The session of a conversation, its agent and origin, known before its turns are read."""

    session: str
    source: TranscriptSource
    origin: str
    started: datetime | None = None
    title: str = ""


def import_conversation(
    vault: Vault, kind: str, conversation: Conversation, session_ids: dict[str, str], dry_run: bool
) -> ImportedItem:
    """Import a conversation as a session, or add its new turns.

    If earlier turns changed, the session stays. `session_ids` maps origins to sessions; it is
    updated.
    """
    origin = f"{kind} {conversation.url or conversation.origin}"
    key = build_key(vault, kind, map_session_id(f"{kind}-{conversation.origin}"))
    session = session_ids.get(origin) or _choose_session_id(vault, kind, conversation)
    title = conversation.title or session
    path = str(session_path(session))
    is_there, fields = is_kept(vault, session), vault.state.get(key).split()
    count = int(fields[0]) if fields else read_tally(vault, session).turns
    if fields and not is_there:
        return ImportedItem(title, ImportOutcome.KNOWN, "", "imported before")
    if fields and _digest(conversation.turns[:count]) != fields[1]:
        return ImportedItem(
            title,
            ImportOutcome.KNOWN,
            path,
            "it differs from what was imported before; left as it is",
        )
    new_turns = [turn for each in conversation.turns[count:] if (turn := make_turn(each))]
    if is_there and not new_turns:
        return ImportedItem(title, ImportOutcome.KNOWN, path, "imported before")
    result = ImportedItem(title, _format_outcome(is_there), path, "", len(new_turns))
    if dry_run:
        return result
    session_ids[origin] = session
    source = TranscriptSource(session, agent=vault.author.agent)
    start_time = conversation.started or parse_export_time(conversation.turns[0].at)
    head = ConversationHead(session, source, origin, start_time, mask_secrets(conversation.title))
    record = TranscriptRecord()
    for each in conversation.turns:
        add_event(record, each)
    append_turns(vault, session, new_turns)
    end_time = as_local(conversation.ended or parse_export_time(conversation.turns[-1].at))
    end = partial(_end, vault, head, record, end_time)
    _begin_note(vault, head, end) if not is_there else _edit(vault, head, end)
    with vault.leaving_to_next():
        vault.state.put(key, f"{len(conversation.turns)} {_digest(conversation.turns)}")
    return result


def _choose_session_id(vault: Vault, kind: str, conversation: Conversation) -> str:
    """Return an id for a new session: the conversation's date and title, for people."""
    by_origin = map_session_id(f"{kind}-{conversation.origin}")
    day = as_local(conversation.started or parse_export_time(conversation.turns[0].at))
    ascii_title = unicodedata.normalize("NFKD", mask_secrets(conversation.title)).encode(
        "ascii", "ignore"
    )
    if day is None or not any(map(str.isalnum, ascii_title.decode())):
        return by_origin
    name = f"{day:%Y-%m-%d}-{slugify(ascii_title.decode())}"
    return f"{name}-{slugify(conversation.origin)[-8:]}" if is_kept(vault, name) else name


def import_transcript(vault: Vault, file: Path, dry_run: bool, again: bool = False) -> ImportedItem:
    """Import a client's transcript as a session, or add new turns; read it all `again` if set.

    An open session stays open, and its note is unchanged. Transcripts of subagents are skipped: the
    session has their task and answer.
    """
    try:
        source = identify_transcript(file)
        first_turn = find_first_turn(file, source)
    except (RefusedError, NoteNotFoundError) as error:
        return ImportedItem(file.name, ImportOutcome.UNREAD, "", str(error))
    session, path = source.session, str(session_path(source.session))
    if source.is_side or first_turn is None:
        reason = "a helper's own conversation" if source.is_side else "it has no turns"
        return ImportedItem(session, ImportOutcome.LEFT_OUT, "", reason)
    is_there = is_kept(vault, session)
    result = ImportedItem(session, _format_outcome(is_there), path)
    if dry_run:
        is_news = again or has_more(vault, session, file)
        return result if is_news else result._replace(outcome=ImportOutcome.KNOWN)
    writer = act_in(vault, "", source.agent)
    title = f"transcripts {file.parent.name}/{file.name}"
    head = ConversationHead(session, source, title, parse_export_time(first_turn.at))

    def add(_: Transaction) -> tuple[TurnImport, SessionFacts, bool]:
        nonlocal head
        if not is_there:
            _begin_note(writer, head)
        importer = import_again if again and is_there else import_turns
        import_result = importer(writer, session, file)
        facts = read_session(writer, session_path(session)).facts
        is_more = not facts.is_open and (again or facts.turns < read_tally(writer, session).turns)
        if is_more:
            record = read_record(writer, session)
            end_time = as_local(parse_export_time(import_result.ended))
            head = head._replace(title=record.title)
            _edit(writer, head, partial(_end, writer, head, record, end_time))
        return import_result, facts, is_more

    try:
        import_result, facts, is_more = operate(writer, "nothing was imported", add)
    except RefusedError as error:
        if not again:
            raise
        return result._replace(outcome=ImportOutcome.REFUSED, remark=str(error))
    if is_more:
        with vault.leaving_to_next():
            propose_preferences(act_in(writer, session, source.agent), facts)
    remark = pluralize(import_result.broken, "broken line") if import_result.broken else ""
    outcome = result.outcome if import_result.turns or not is_there else ImportOutcome.KNOWN
    return result._replace(outcome=outcome, remark=remark, turns=import_result.turns)


def _format_outcome(is_there: bool) -> ImportOutcome:
    return ImportOutcome.CHANGED if is_there else ImportOutcome.NEW


def _digest(turns: tuple[TranscriptEvent, ...]) -> str:
    digest = hashlib.sha256()
    for each in turns:
        digest.update(f"{each.kind} {len(each.text)} {each.text}".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:12]


def _begin_note(
    vault: Vault, head: ConversationHead, end: Callable[[Note], str] = lambda note: note.text
) -> None:
    """Write the note of a session that has ended; `end` adds its outcome."""
    path, folder = session_path(head.session), head.source.folder
    place = find_workspace(Path(folder)) if folder and Path(folder).is_dir() else Path(folder)
    start_time = as_local(head.started) or vault.local_time()
    text = new_session_text(head.session, "", head.source.agent, start_time, place.name)
    code = place if folder and place.is_dir() else None
    own: dict[str, PropertyValue] = {
        "status": SessionStatus.OK.value,
        "ended": start_time.replace(microsecond=0),
        "branch": "" if head.source.branch == "HEAD" else head.source.branch,
        "source": "import",
        PROPERTY: head.origin,
    }
    for name, value in own.items():
        text = set_property(text, name, value) if value else text
    text = end(parse_note(path, text.encode("utf-8")))
    writer = act_in(vault, head.session)

    def plan(change: Change) -> None:
        project = place_in_project(change, None, code, opened=True)
        new_text = set_property(text, PROJECT, project) if project else text
        change.is_foreign = True
        change.put(path, new_text.encode("utf-8"))
        change.leave(Event("write", f"write: {path}", writer.author, intent="observe"))

    write(writer, plan)


def _edit(vault: Vault, head: ConversationHead, end: Callable[[Note], str]) -> None:
    edit_session(vault, head.session, end, closed_too=True, agent=vault.author.agent)


def _end(
    vault: Vault,
    head: ConversationHead,
    record: TranscriptRecord,
    end_time: datetime | None,
    note: Note,
) -> str:
    """Return a session's note with its outcome and end time."""
    base, goal = Path(head.source.folder), mask_secrets(record.goal)
    name = partial(_name_file, base)
    touched_files = [TouchedFile(name(file)) for file in [*record.files][-_MAX_LISTED_FILES:]]
    text = write_record(vault, note, record, name) or note.text
    if goal and head.title:
        text = name_session(text, "", goal)
    text = name_session(text, head.session, head.title or goal or head.session)
    text = add_touched(parse_note(note.path, text.encode("utf-8")), touched_files)
    tally = read_tally(vault, head.session)
    text = write_windows(parse_note(note.path, text.encode("utf-8")), tally, begin=False)
    return set_property(text, "ended", end_time.replace(microsecond=0)) if end_time else text


def _name_file(base: Path, path: str) -> str:
    """Return a file's name in a note: relative to the session's folder, if known."""
    return format_file(Path(path), base) if base.parts else path
