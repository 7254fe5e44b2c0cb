"""Make a session of a talk that was had elsewhere: its turns, and what it came to."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from vaultmem.core.imports.item import Conversation, read_moment
from vaultmem.core.notes.edit_properties import PropertyValue, set_property
from vaultmem.core.notes.note import parse_note
from vaultmem.core.paths import slugify
from vaultmem.core.projects import PROPERTY as PROJECT
from vaultmem.core.secrets.scan import mask_secrets
from vaultmem.core.sessions.session import (
    SessionFacts,
    Status,
    TouchedFile,
    map_session_id,
    session_path,
)
from vaultmem.core.sessions.session_note import name_session, new_session_text
from vaultmem.core.sessions.turns import Turn
from vaultmem.core.transcripts.event import Event, Source
from vaultmem.core.transcripts.read import describe_turn
from vaultmem.core.transcripts.record import Record, add_event
from vaultmem.errors import NoteNotFoundError, RefusedError
from vaultmem.services.importing.take import PROPERTY, Outcome, Taken, as_local, name_key
from vaultmem.services.projects.projects import place_in_project
from vaultmem.services.sessions.edit_session import act_in, edit_session
from vaultmem.services.sessions.identify import find_workspace
from vaultmem.services.sessions.import_turns import (
    Imported,
    find_first_turn,
    has_more,
    identify_transcript,
    import_turns,
    read_record,
)
from vaultmem.services.sessions.keep_record import write_record
from vaultmem.services.sessions.read import is_kept, read_session
from vaultmem.services.sessions.touched_files import add_touched, name_file
from vaultmem.services.sessions.windows import append_turns, read_tally, write_windows
from vaultmem.services.sessions.wishes import propose_said
from vaultmem.services.writing.change import Change
from vaultmem.services.writing.operation import Operation, operate
from vaultmem.services.writing.parts import Event as VaultEvent
from vaultmem.services.writing.write import write
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from vaultmem.core.notes.note import Note

#: Files that a note lists.
_TOUCHED = 60


class Head(NamedTuple):
    """What is known of a talk before its turns: its session, whose it is, where it was had."""

    session: str
    source: Source
    origin: str
    started: datetime | None = None
    title: str = ""


def take_conversation(
    vault: Vault, kind: str, talk: Conversation, known_talks: dict[str, str], dry_run: bool
) -> Taken:
    """Make a session of a conversation, or add what was said in it since it was last imported.

    Where it took another turn since, it stays as it was. `known_talks` has the sessions that were
    made of conversations, by what their notes say of their origin; it learns of this one.
    """
    origin = f"{kind} {talk.url or talk.origin}"
    key = name_key(vault, kind, map_session_id(f"{kind}-{talk.origin}"))
    session = known_talks.get(origin) or _name_talk(vault, kind, talk)
    title = talk.title or session
    path = str(session_path(session))
    is_there, known = is_kept(vault, session), vault.state.get(key).split()
    count = int(known[0]) if known else read_tally(vault, session).turns
    if known and not is_there:
        return Taken(title, Outcome.KNOWN, "", "imported before")
    if known and _digest(talk.turns[:count]) != known[1]:
        return Taken(
            title, Outcome.KNOWN, path, "it differs from what was imported before; left as it is"
        )
    fresh = [Turn(*turn, each.at) for each in talk.turns[count:] if (turn := describe_turn(each))]
    if is_there and not fresh:
        return Taken(title, Outcome.KNOWN, path, "imported before")
    taken = Taken(title, _name_outcome(is_there), path, "", len(fresh))
    if dry_run:
        return taken
    known_talks[origin] = session
    source = Source(session, agent=vault.author.agent)
    started = talk.started or read_moment(talk.turns[0].at)
    head = Head(session, source, origin, started, mask_secrets(talk.title))
    record = Record()
    for each in talk.turns:
        add_event(record, each)
    append_turns(vault, session, fresh)
    ended = as_local(talk.ended or read_moment(talk.turns[-1].at))
    end = partial(_end, vault, head, record, ended)
    _begin_note(vault, head, end) if not is_there else _edit(vault, head, end)
    with vault.leaving_to_next():
        vault.state.put(key, f"{len(talk.turns)} {_digest(talk.turns)}")
    return taken


def _name_talk(vault: Vault, kind: str, talk: Conversation) -> str:
    """Return the id of a new session: day and title of the conversation, as people read them."""
    by_origin = map_session_id(f"{kind}-{talk.origin}")
    day = as_local(talk.started or read_moment(talk.turns[0].at))
    plain = unicodedata.normalize("NFKD", mask_secrets(talk.title)).encode("ascii", "ignore")
    if day is None or not any(map(str.isalnum, plain.decode())):
        return by_origin
    name = f"{day:%Y-%m-%d}-{slugify(plain.decode())}"
    return f"{name}-{slugify(talk.origin)[-8:]}" if is_kept(vault, name) else name


def take_transcript(vault: Vault, file: Path, dry_run: bool) -> Taken:
    """Make a session of a client's transcript, or add what it has by now.

    One that is open stays open, and its note is its own. What a helper of the agent wrote down is
    left out: the session has what it was asked, and its answer.
    """
    try:
        found = identify_transcript(file)
        first = find_first_turn(file, found)
    except (RefusedError, NoteNotFoundError) as error:
        return Taken(file.name, Outcome.UNREAD, "", str(error))
    session, path = found.session, str(session_path(found.session))
    if found.is_side or first is None:
        why = "a helper's own talk" if found.is_side else "nothing is said in it"
        return Taken(session, Outcome.LEFT_OUT, "", why)
    is_there = is_kept(vault, session)
    taken = Taken(session, _name_outcome(is_there), path)
    if dry_run:
        return taken if has_more(vault, session, file) else taken._replace(outcome=Outcome.KNOWN)
    writer = act_in(vault, "", found.agent)
    title = f"transcripts {file.parent.name}/{file.name}"
    head = Head(session, found, title, read_moment(first.at))

    def add(_: Operation) -> tuple[Imported, SessionFacts, bool]:
        nonlocal head
        if not is_there:
            _begin_note(writer, head)
        done = import_turns(writer, session, file)
        facts = read_session(writer, session_path(session)).facts
        is_more = not facts.is_open and facts.turns < read_tally(writer, session).turns
        if is_more:
            record = read_record(writer, session)
            ended = as_local(read_moment(done.ended))
            head = head._replace(title=record.title)
            _edit(writer, head, partial(_end, writer, head, record, ended))
        return done, facts, is_more

    done, facts, is_more = operate(writer, "nothing was imported", add)
    if is_more:
        with vault.leaving_to_next():
            propose_said(act_in(writer, session, found.agent), facts)
    remark = f"{done.broken} broken lines" if done.broken else ""
    outcome = taken.outcome if done.turns or not is_there else Outcome.KNOWN
    return taken._replace(outcome=outcome, remark=remark, turns=done.turns)


def _name_outcome(is_there: bool) -> Outcome:
    return Outcome.CHANGED if is_there else Outcome.NEW


def _digest(turns: tuple[Event, ...]) -> str:
    digest = hashlib.sha256()
    for each in turns:
        digest.update(f"{each.kind} {len(each.text)} {each.text}".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:12]


def _begin_note(
    vault: Vault, head: Head, end: Callable[[Note], str] = lambda note: note.text
) -> None:
    """Write the note of a session that has ended; what it came to is for `end` to say."""
    path, folder = session_path(head.session), head.source.folder
    place = find_workspace(Path(folder)) if folder and Path(folder).is_dir() else Path(folder)
    started = as_local(head.started) or vault.local_time()
    text = new_session_text(head.session, "", head.source.agent, started, place.name)
    code = place if folder and place.is_dir() else None
    own: dict[str, PropertyValue] = {
        "status": Status.OK.value,
        "ended": started.replace(microsecond=0),
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
        made = set_property(text, PROJECT, project) if project else text
        change.put(path, made.encode("utf-8"))
        change.leave(VaultEvent("write", f"write: {path}", writer.author, intent="observe"))

    write(writer, plan)


def _edit(vault: Vault, head: Head, end: Callable[[Note], str]) -> None:
    edit_session(vault, head.session, end, closed_too=True, agent=vault.author.agent)


def _end(vault: Vault, head: Head, record: Record, ended: datetime | None, note: Note) -> str:
    """Return a session's note with what it came to, and when it ended."""
    base, goal = Path(head.source.folder), mask_secrets(record.goal)
    name = partial(_name_file, base)
    touched = [TouchedFile(name(file)) for file in [*record.files][-_TOUCHED:]]
    text = write_record(vault, note, record, name) or note.text
    if goal and head.title:
        text = name_session(text, "", goal)
    text = name_session(text, head.session, head.title or goal or head.session)
    text = add_touched(parse_note(note.path, text.encode("utf-8")), touched)
    tally = read_tally(vault, head.session)
    text = write_windows(parse_note(note.path, text.encode("utf-8")), tally, begin=False)
    return set_property(text, "ended", ended.replace(microsecond=0)) if ended else text


def _name_file(base: Path, path: str) -> str:
    """Return how a note names a file, wherever that talk was had."""
    return name_file(Path(path), base) if base.parts else path
