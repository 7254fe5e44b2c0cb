"""Import the turns that agents wrote down themselves: new lines of their transcripts."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from vaultmem.core.sessions.session import Status, map_session_id
from vaultmem.core.sessions.turns import Turn
from vaultmem.core.transcripts.event import Event, Source
from vaultmem.core.transcripts.read import describe_turn, join_source, read_line
from vaultmem.core.transcripts.record import Record, add_event, dump_record, load_record
from vaultmem.errors import NoteNotFoundError, PendingError, RefusedError
from vaultmem.services.sessions.begin import NewSession, start_session
from vaultmem.services.sessions.close import close_session
from vaultmem.services.sessions.edit_session import act_in
from vaultmem.services.sessions.read import get_session
from vaultmem.services.sessions.windows import add_turns
from vaultmem.services.sessions.wishes import propose_said
from vaultmem.services.writing.folder import one_transaction
from vaultmem.vault import Vault

#: A longer line (bytes) is passed over and counted as broken: memory stays bounded.
MAX_LINE = 8 * 1024 * 1024

#: Lines that are looked at for the session's id.
_HEAD = 200


#: Bytes that are read while others have to wait to write.
_BATCH = 2 * 1024 * 1024


@dataclass
class Imported:
    """What came of a transcript: turns added, broken lines passed over, bytes read so far."""

    session: str
    turns: int = 0
    broken: int = 0
    offset: int = 0


def import_turns(vault: Vault, session: str, file: Path) -> Imported:
    """Add to a session what its agent's transcript has that was not imported before.

    What it came to is gathered beside it (`read_record`). A line that is still being written is
    left for the next time. Of a long transcript, others may write in between.

    Raises:
        NoteNotFoundError: there is no such session, or no such file.
    """
    taken, known = Imported(session), read_source(file)
    while _import_batch(vault, file, known, taken):
        pass
    return taken


def read_record(vault: Vault, session: str) -> Record:
    """Return what a session came to, as far as its transcript was imported."""
    return load_record(vault.state.get(_record_key(session)) or "")


def _record_key(session: str) -> str:
    return f"record {session}"


def _import_batch(vault: Vault, file: Path, known: Source, taken: Imported) -> bool:
    """Import the next part of a transcript; tell whether there may be more."""
    key = f"transcript {taken.session} {os.fspath(file)}"
    with vault.lock():
        taken.offset = int(vault.state.get(key) or 0)
        if taken.offset > file.stat().st_size:  # Another file of that name.
            taken.offset = 0
        record, end = read_record(vault, taken.session), taken.offset + _BATCH
        add_turns(vault, taken.session, _read_turns(file, known, taken, record, end))
        with vault.state.transaction():
            vault.state.put(key, str(taken.offset))
            vault.state.put(_record_key(taken.session), dump_record(record))
    return taken.offset >= end


def identify_transcript(file: Path) -> Source:
    """Return session, folder and agent that a transcript names, and whether it is a helper's.

    Raises:
        NoteNotFoundError: there is no such file.
        RefusedError: it is not a transcript of a known form.
    """
    found = read_source(file)
    if not found.agent:
        raise RefusedError(f"{file}: no transcript of Claude Code, Codex or Gemini CLI")
    return found._replace(session=map_session_id(found.session or file.stem))


def read_source(file: Path) -> Source:
    """Return what the head of a transcript tells of it; no agent if it is none."""
    found = Source()
    for number, (data, _) in enumerate(_read_lines(file, 0)):
        for event in read_line(data, found) or ():
            found = join_source(found, event.source)
        if number >= _HEAD or (found.session and found.folder):
            break
    return found


def _read_turns(
    file: Path, known: Source, taken: Imported, record: Record, end: int
) -> Iterator[Turn]:
    for event in _read_events(file, known, taken, end):
        add_event(record, event)
        if turn := describe_turn(event):
            taken.turns += 1
            yield Turn(*turn, event.at)


def _read_events(file: Path, known: Source, taken: Imported, end: int) -> Iterator[Event]:
    """Yield what a transcript tells from one offset to another, each message once."""
    told = set[int]()
    for data, at in _read_lines(file, taken.offset):
        taken.offset = at
        events = read_line(data, known) if data else None
        taken.broken += events is None
        for event in events or ():
            # Gemini CLI tells a message anew whenever there is more of it.
            key = hash(event) if known.agent == "gemini" and event.call else 0
            if key not in told:
                yield event
            if key:
                told.add(key)
        if at >= end:
            return


def _read_lines(file: Path, offset: int) -> Iterator[tuple[bytes, int]]:
    """Yield whole lines and where each ends; of a line that is too long, no bytes."""
    try:
        with open(file, "rb") as stream:
            stream.seek(offset)
            while data := stream.readline(MAX_LINE):
                if data.endswith(b"\n"):
                    yield data, stream.tell()
                    continue
                if len(data) < MAX_LINE:
                    return  # It is still being written.
                while (rest := stream.readline(MAX_LINE)) and not rest.endswith(b"\n"):
                    pass
                if not rest:
                    return
                yield b"", stream.tell()
    except OSError as error:
        raise NoteNotFoundError(f"{file}: {error.strerror}") from None


def find_transcripts(names: Sequence[str]) -> Iterator[Path]:
    """Yield the files that are named, and the .jsonl files in folders, by name.

    Raises:
        NoteNotFoundError: there is no such file or folder.
    """
    for name in names:
        place = Path(name).expanduser()
        if place.is_dir():
            yield from sorted(file for file in place.rglob("*.jsonl") if file.is_file())
        elif place.is_file():
            yield place
        else:
            raise NoteNotFoundError(f"{place}: no such file or folder")


def import_transcript(vault: Vault, file: Path) -> Imported:
    """Take a transcript into its session, which is made and closed if the vault has none of it.

    A session that is open stays so. What was imported before is not imported again. A new session
    is one transaction: it is there whole, with its commit, or not at all.

    Raises:
        NoteNotFoundError, RefusedError: as for `identify_transcript`.
        PendingError: the session is there; its commit has to wait.
    """
    found = identify_transcript(file)
    writer = act_in(vault, "", found.agent)
    try:
        session = get_session(writer, found.session)
    except NoteNotFoundError:
        return _import_new(writer, found, file)
    taken = import_turns(writer, found.session, file)
    if not session.facts.is_open:  # Else its end does it.
        propose_said(act_in(vault, found.session, found.agent), session.facts)
    return taken


def _import_new(writer: Vault, found: Source, file: Path) -> Imported:
    folder = Path(found.folder)
    workspace = folder if found.folder and folder.is_dir() else file.parent
    new = NewSession(found.session, workspace=workspace, pid=os.getpid())
    waiting: PendingError | None = None
    with one_transaction(writer):
        start_session(writer, new, pick_up=False)
        taken = import_turns(writer, found.session, file)
        try:
            close_session(writer, found.session, Status.OK, f"Imported from {file.name}.")
        except PendingError as error:  # The event waits by itself.
            waiting = error
    if waiting is not None:
        raise waiting
    return taken
