"""Sessions in derived state: facts, command results, transcripts, and logs of hooks."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import stat
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, NamedTuple

from vaultmem.core.sessions.session import SessionFacts, SessionLink, SessionRelation
from vaultmem.core.sessions.turns import (
    MAX_PART,
    TranscriptLine,
    TranscriptPosition,
    decode_line,
    encode_dropped,
    encode_line,
    tally_of,
)
from vaultmem.core.text.json_values import as_json_object
from vaultmem.core.text.paths import TRANSCRIPTS
from vaultmem.errors import ConflictError, NoteNotFoundError, RefusedError
from vaultmem.storage.atomic import naming_failure, write_atomically
from vaultmem.storage.files import create_file
from vaultmem.storage.leases import open_file
from vaultmem.storage.lock import Process, is_gone
from vaultmem.storage.state import StateDatabase
from vaultmem.storage.value_store import ValueFolder, read_value_if_sound
from vaultmem.storage.views import View

#: The condition for paths below `sessions/`: the character after "/" is "0".
_SESSION_PATH_CONDITION = "v.path > 'sessions/' AND v.path < 'sessions0'"


class SessionTable:
    """The state database's table of session facts by document; a view selects those to read."""

    def __init__(self, state: StateDatabase, view: View) -> None:
        self._state = state
        self._documents = f"({view.relation}) v"

    def unknown(self) -> list[tuple[int, str, str]]:
        """Return document, path and blob of the view's session notes without stored facts."""
        rows = self._state.query(
            f"SELECT v.document, v.path, d.blob FROM {self._documents} "
            "JOIN documents d ON d.id = v.document LEFT JOIN session_facts s "
            f"ON s.document = v.document WHERE s.document IS NULL AND {_SESSION_PATH_CONDITION}"
        )
        return [(int(document), str(path), str(blob)) for document, path, blob in rows]

    def put(self, entries: Iterable[tuple[int, SessionFacts]]) -> None:
        """Store facts by document."""
        rows = [
            (document, facts.id, json.dumps(as_json_object(facts))) for document, facts in entries
        ]
        with self._state.transaction():
            self._state.execute_many("INSERT OR REPLACE INTO session_facts VALUES (?, ?, ?)", rows)

    def all(self) -> list[SessionFacts]:
        """Return the stored facts of all session notes in the view."""
        return self._read("")

    def find(self, session: str) -> SessionFacts | None:
        """Return the facts of a session id, None if unknown; of several notes, the first path's."""
        return next(iter(self._read("AND s.id = ? ORDER BY v.path", session)), None)

    def at_path(self, path: str) -> SessionFacts | None:
        """Return the facts of the session note at a path, None if unknown."""
        return next(iter(self._read("AND v.path = ?", path)), None)

    def naming(self, session: str) -> list[SessionFacts]:
        """Return the facts of the sessions with an edge to `session`."""
        sessions = self._read("AND instr(s.facts, ?) > 0", json.dumps(session))
        return [each for each in sessions if session in {edge.session for edge in each.edges}]

    def _read(self, condition: str, *values: str) -> list[SessionFacts]:
        joined = f"FROM {self._documents} JOIN session_facts s ON s.document = v.document"
        rows = self._state.query(
            f"SELECT s.facts {joined} WHERE {_SESSION_PATH_CONDITION} {condition}", values
        )
        return [_decode(facts) for (facts,) in rows]


def _decode(text: str) -> SessionFacts:
    value: dict[str, Any] = json.loads(text)
    edges = (
        SessionLink(SessionRelation(each["relation"]), each["session"]) for each in value["edges"]
    )
    return SessionFacts(**{**value, "edges": tuple(edges)})


# The last result of each command: a table of the state database, for the hook before a command.

#: Most commands that are stored, and most failures that are compared with a call.
_MAX_COMMANDS, _MAX_FAILURES = 5_000, 300


class CommandEnd(NamedTuple):
    """The last result of a command in a project: its session and time (seconds since the epoch).

    `trouble` is the error, "" if none.
    """

    command: str
    session: str
    at: float
    trouble: str


class CommandEnds:
    """The table of commands' last results, by project."""

    def __init__(self, state: StateDatabase) -> None:
        self._state = state

    def put(self, project: str, ends: Iterable[CommandEnd]) -> None:
        """Store results that are newer than the stored ones, and delete the oldest beyond 5,000."""
        rows = [(project, *end) for end in ends]
        with self._state.transaction():
            self._state.execute_many(
                "INSERT INTO command_ends (project, command, session, at, trouble) "
                "VALUES (?, ?, ?, ?, ?) ON CONFLICT (project, command) DO UPDATE SET "
                "session = excluded.session, at = excluded.at, trouble = excluded.trouble "
                "WHERE excluded.at >= at",
                rows,
            )
            self._state.execute(
                "DELETE FROM command_ends WHERE at < "
                f"(SELECT at FROM command_ends ORDER BY at DESC LIMIT 1 OFFSET {_MAX_COMMANDS})"
            )

    def failed(self, project: str) -> list[CommandEnd]:
        """Return a project's commands whose last run failed, newest first (at most 300)."""
        rows = self._state.query(
            f"SELECT {', '.join(CommandEnd._fields)} FROM command_ends WHERE project = ? "
            f"AND trouble <> '' ORDER BY at DESC LIMIT {_MAX_FAILURES}",
            (project,),
        )
        return list(map(CommandEnd._make, rows))


#: Most processes of one session; the oldest are dropped.
_MAX_PROCESSES = 16


class ActiveSession(NamedTuple):
    """A session started on this machine; `at` is its last start or resume (s since the epoch).

    `workspace` is an absolute folder. If `recovered`, its processes had ended and its note was
    closed. `ref` is the branch on which it started, "" if none.
    """

    id: str
    agent: str
    workspace: str
    at: float
    processes: tuple[Process, ...] = ()
    recovered: bool = False
    ref: str = ""

    @property
    def is_gone(self) -> bool:
        """Whether all its processes are known to have ended; False without processes."""
        return bool(self.processes) and all(map(is_gone, self.processes))

    @property
    def is_there(self) -> bool:
        """Whether one of its processes is not known to have ended; False without processes."""
        return bool(self.processes) and not self.is_gone


class ActiveSessions:
    """The files of one vault's open sessions."""

    def __init__(self, state_folder: Path) -> None:
        self.folder = state_folder / "sessions"

    def file_of(self, session: str) -> Path:
        """Return the file of a session."""
        name = hashlib.sha256(session.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        return self.folder / f"{name}.json"

    def put(self, record: ActiveSession) -> None:
        """Store a session, and keep its stored processes that still run."""
        existing = self.find(record.id)
        alive = [each for each in existing.processes if not is_gone(each)] if existing else []
        fresh = [each for each in record.processes if each not in alive]
        self._write(record._replace(processes=tuple([*alive, *fresh][-_MAX_PROCESSES:])))

    def mark_recovered(self, session: str) -> None:
        """Store that a session's note was closed because its processes had ended."""
        record = self.find(session)
        if record is not None:
            self._write(record._replace(recovered=True))

    def drop(self, session: str) -> None:
        """Delete the file of a session that has ended."""
        self.file_of(session).unlink(missing_ok=True)

    def find(self, session: str) -> ActiveSession | None:
        """Return a session, None if it is not stored."""
        return read_value_if_sound(self.file_of(session), ActiveSession)

    def all(self) -> list[ActiveSession]:
        """Return all sessions, the last started or resumed first."""
        try:
            files = sorted(self.folder.glob("*.json"))
        except OSError:
            return []
        records = (read_value_if_sound(file, ActiveSession) for file in files)
        sessions = [record for record in records if record is not None]
        return sorted(sessions, key=lambda record: (-record.at, record.id))

    def list_open(self, workspace: str) -> list[ActiveSession]:
        """Return a workspace's open sessions, the last started or resumed first."""
        return [each for each in self.all() if each.workspace == workspace and not each.recovered]

    def _write(self, record: ActiveSession) -> None:
        ValueFolder(self.folder).write_value(self.file_of(record.id).name, record)


# The digests of sections that hooks have shown to a session, so that they are not shown again.
#
# There is a file for each session. Errors are ignored: then a section is shown again.

FOLDER = "had"

#: Most sessions that are stored, and most bytes of a session's file.
_MAX_SESSIONS, _MAX_SESSION_BYTES = 100, 256 * 1024


def read_had(state_folder: Path, session: str) -> frozenset[str]:
    """Return the digests of sections shown to a session; empty for a file that is too large."""
    if not session:
        return frozenset()
    try:
        text = (state_folder / FOLDER / session).read_text("ascii")
    except (OSError, ValueError):
        return frozenset()
    return frozenset(text.split()) if len(text) < _MAX_SESSION_BYTES else frozenset()


def add_had(state_folder: Path, session: str, names: Iterable[str]) -> None:
    """Store digests of sections shown to a session; empty a file of `_MAX_SESSION_BYTES` first."""
    file = state_folder / FOLDER / session
    with contextlib.suppress(OSError):
        if not session:
            return
        file.parent.mkdir(mode=0o700, exist_ok=True)
        flags = (
            os.O_TRUNC
            if file.exists() and file.stat().st_size >= _MAX_SESSION_BYTES
            else os.O_APPEND
        )
        descriptor = open_file(file, os.O_WRONLY | os.O_CREAT | flags)
        try:
            os.write(descriptor, "".join(f"{name}\n" for name in names).encode("ascii"))
        finally:
            os.close(descriptor)


def forget_had(state_folder: Path, session: str) -> None:
    """Delete the file of a session whose context is now empty, and those of the oldest sessions."""
    folder = state_folder / FOLDER
    with contextlib.suppress(OSError):
        if session:
            (folder / session).unlink(missing_ok=True)
        files = sorted(folder.iterdir(), key=lambda each: each.stat().st_mtime)
        for file in files[:-_MAX_SESSIONS]:
            file.unlink(missing_ok=True)


# The errors of hooks: lines of JSON in the state folder.

TROUBLE_FILE = "hook-trouble.jsonl"

#: The size in bytes at which the file is rotated to `.old`.
_MAX_LOG_BYTES = 256 * 1024


def log_error(state_folder: Path, event: str, error: str) -> None:
    """Append a line to the log; failures to write are ignored."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    line = json.dumps({"at": now, "event": event, "error": error[:1_000]}) + "\n"
    file = state_folder / TROUBLE_FILE
    with contextlib.suppress(OSError):
        if file.exists() and file.stat().st_size > _MAX_LOG_BYTES:
            os.replace(file, file.with_suffix(".old"))
        with open(file, "a", encoding="ascii", opener=_open) as out:
            out.write(line)


def _open(path: str, flags: int) -> int:
    return open_file(Path(path), flags)


# Transcripts of sessions: `transcripts/<id>.jsonl`, local, append-only, and limited in size.
#
# An append is one write of whole lines. A crash leaves one broken line, which is skipped. In a
# file that is too large, one line with their digest replaces the oldest lines.

#: Most bytes of a line: six for each escaped character, and its other fields.
_MAX_LINE = MAX_PART * 6 + 32 * 1024

_BLOCK = 256 * 1024

#: Bytes of a transcript's first line that identify it.
_HEAD = 200


def _name_file(file: BinaryIO) -> str:
    """Return a name of an open transcript that changes when the file is replaced."""
    head = hashlib.sha256(file.readline(_HEAD)).hexdigest()[:16]
    return f"{os.fstat(file.fileno()).st_ino} {head}"


class Transcripts:
    """The transcripts of one vault; `limit` is the most bytes of a file."""

    def __init__(self, root: Path, limit: int) -> None:
        self._root = root
        self._limit = max(limit, 4 * _MAX_LINE)

    def exists(self, session: str) -> bool:
        """Return whether a session has a transcript."""
        return self._file(session).is_file()

    def size(self, session: str) -> int:
        """Return the size of a transcript in bytes, 0 if there is none."""
        try:
            return self._file(session).lstat().st_size
        except OSError:
            return 0

    def last_added(self) -> dict[str, float]:
        """Return the modification time of each transcript, in seconds since the epoch."""
        try:
            with os.scandir(self._root / TRANSCRIPTS) as files:
                statuses = {each.name: each.stat(follow_symlinks=False) for each in files}
        except OSError:
            return {}
        return {
            name.removesuffix(".jsonl"): status.st_mtime
            for name, status in statuses.items()
            if name.endswith(".jsonl") and stat.S_ISREG(status.st_mode)
        }

    def append(self, session: str, lines: Iterable[TranscriptLine]) -> None:
        """Append lines durably.

        Raises:
            RefusedError: folder or file is a link, or the file is not a regular file.
            SystemFailureError: writing failed.
        """
        data = b"".join(map(encode_line, lines))
        if not data:
            return
        if not self.exists(session):
            try:
                create_file(self._root, PurePosixPath(TRANSCRIPTS, f"{session}.jsonl"), data)
                return
            except ConflictError:
                pass
        with naming_failure(f"{TRANSCRIPTS}/{session}.jsonl"):
            self._write(session, data)
        if self.size(session) > self._limit:
            self._shorten(session)

    def tally(self, session: str) -> TranscriptPosition:
        """Return the position in a transcript after its last whole line."""
        last = next(self.read_back(session), None)
        return TranscriptPosition() if last is None else tally_of(last)

    def read(self, session: str) -> Iterator[TranscriptLine | TranscriptPosition]:
        """Yield the lines of a transcript from the start; broken ones are skipped."""
        with self._read(session) as file:
            while data := file.readline(_MAX_LINE):
                entry = decode_line(data)
                if entry is not None:
                    yield entry

    def read_from(self, session: str, mark: str) -> Iterator[tuple[int, str, TranscriptLine]]:
        """Yield the turns after a mark: the line's byte offset, the mark after it, and the line.

        A mark of another file, or "", is the start. An unfinished line is left out.
        """
        with self._read(session) as file:
            own, _, end = mark.rpartition(" ")
            head = _name_file(file)
            offset = file.seek(int(end) if own == head else 0)
            while (data := file.readline(_MAX_LINE)).endswith(b"\n"):
                entry = decode_line(data)
                if isinstance(entry, TranscriptLine):
                    yield offset, f"{head} {offset + len(data)}", entry
                offset += len(data)

    def is_current(self, session: str, mark: str) -> bool:
        """Return whether no turn follows a mark; False for an empty mark."""
        return bool(mark) and next(self.read_from(session, mark), None) is None

    def read_at(self, session: str, offset: int) -> TranscriptLine | None:
        """Return the turn's line at a byte offset, None if there is no turn."""
        with self._read(session) as file:
            file.seek(offset)
            entry = decode_line(file.readline(_MAX_LINE))
            return entry if isinstance(entry, TranscriptLine) else None

    def read_back(self, session: str) -> Iterator[TranscriptLine | TranscriptPosition]:
        """Yield the lines of a transcript from the end; broken ones are skipped."""
        with self._read(session) as file:
            offset, rest = file.seek(0, os.SEEK_END), b""
            while offset > 0:
                size = min(_BLOCK, offset)
                offset = file.seek(offset - size)
                lines = (file.read(size) + rest).split(b"\n")
                rest = lines.pop(0)[-_MAX_LINE:]
                for data in reversed(lines):
                    entry = decode_line(data)
                    if entry is not None:
                        yield entry
            entry = decode_line(rest)
            if entry is not None:
                yield entry

    def replace(self, session: str, lines: Iterable[TranscriptLine]) -> None:
        """Replace all lines of a transcript atomically, or create it.

        Raises:
            RefusedError: folder or file is a link, or the file is not a regular file.
            SystemFailureError, OSError: writing failed.
        """
        if not self.exists(session):
            self.append(session, lines)
            return
        os.close(self._open(session, os.O_RDONLY))
        write_atomically(self._file(session), map(encode_line, lines))
        if self.size(session) > self._limit:
            self._shorten(session)

    def _file(self, session: str) -> Path:
        return self._root / TRANSCRIPTS / f"{session}.jsonl"

    def _read(self, session: str) -> BinaryIO:
        """Return an open transcript, an empty file if it does not exist."""
        try:
            return os.fdopen(self._open(session, os.O_RDONLY), "rb")
        except NoteNotFoundError:
            return open(os.devnull, "rb")

    def _open(self, session: str, flags: int) -> int:
        """Open a transcript without following links.

        Raises:
            NoteNotFoundError: the transcript does not exist.
            RefusedError: it is not a regular file in a folder of the vault.
        """
        file = self._file(session)
        try:
            if stat.S_ISLNK(file.parent.lstat().st_mode):
                raise RefusedError(f"{TRANSCRIPTS}: a link, not a folder of the vault; remove it")
            extra = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
            descriptor = os.open(file, flags | extra | getattr(os, "O_NONBLOCK", 0))
        except FileNotFoundError:
            raise NoteNotFoundError(f"{session}: it has no transcript") from None
        except OSError as error:
            raise RefusedError(f"{TRANSCRIPTS}/{file.name}: not used ({error.strerror})") from None
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise RefusedError(f"{TRANSCRIPTS}/{file.name}: it is not a regular file; remove it")
        return descriptor

    def _write(self, session: str, data: bytes) -> None:
        descriptor = self._open(session, os.O_RDWR | os.O_APPEND)
        try:
            if os.lseek(descriptor, 0, os.SEEK_END):
                os.lseek(descriptor, -1, os.SEEK_END)
            if os.read(descriptor, 1) not in {b"", b"\n"}:
                data = b"\n" + data  # A crash truncated the last line.
            while data:
                data = data[os.write(descriptor, data) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _shorten(self, session: str) -> None:
        """Replace the oldest lines by their digest, so that half of the limit is free."""
        file = self._file(session)
        position, offset = self._find_cut(session)
        with naming_failure(f"{TRANSCRIPTS}/{file.name}", "shortened"), open(file, "rb") as old:
            old.seek(offset)
            blocks = iter(lambda: old.read(_BLOCK), b"")
            write_atomically(file, itertools.chain([encode_dropped(position)], blocks))

    def _find_cut(self, session: str) -> tuple[TranscriptPosition, int]:
        """Return the position after the lines to drop, and the byte offset of the next line."""
        position, offset = TranscriptPosition(), 0
        surplus = self.size(session) - self._limit // 2
        with self._read(session) as file:
            while offset < surplus and (data := file.readline(_MAX_LINE)):
                offset += len(data)
                entry = decode_line(data)
                position = position if entry is None else tally_of(entry)
        return position, offset
