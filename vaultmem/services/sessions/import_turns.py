"""Import the turns that agents wrote down themselves: new lines of their transcripts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from vaultmem.core.sessions.session import map_session_id
from vaultmem.core.sessions.turns import Turn
from vaultmem.core.transcripts.event import Event, Source
from vaultmem.core.transcripts.read import describe_turn, join_source, read_line
from vaultmem.core.transcripts.record import Record, add_event, dump_record, load_record
from vaultmem.errors import NoteNotFoundError, RefusedError
from vaultmem.services.sessions.windows import add_turns
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
    ended: str = ""


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


def _transcript_key(session: str, file: Path) -> str:
    return f"transcript {session} {os.fspath(file)}"


def _record_key(session: str) -> str:
    return f"record {session}"


def _import_batch(vault: Vault, file: Path, known: Source, taken: Imported) -> bool:
    """Import the next part of a transcript; tell whether there may be more."""
    key = _transcript_key(taken.session, file)
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
        raise RefusedError(
            f"{file}: no transcript of Claude Code, Codex, Gemini CLI or Copilot CLI"
        )
    return found._replace(session=map_session_id(found.session or file.stem))


def find_first_turn(file: Path, known: Source) -> Event | None:
    """Return what was said first in a transcript's own session, None if nothing was."""
    events = _read_events(file, known, Imported(""), file.stat().st_size)
    return next((each for each in events if describe_turn(each)), None)


def has_more(vault: Vault, session: str, file: Path) -> bool:
    """Tell whether a transcript has bytes that were not imported."""
    return int(vault.state.get(_transcript_key(session, file)) or 0) != file.stat().st_size


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
        taken.ended = event.at or taken.ended
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
