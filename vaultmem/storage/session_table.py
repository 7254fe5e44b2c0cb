"""Sessions in derived state: their rows, their transcripts, and what hooks have shown."""

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
from vaultmem.storage.kept import KeptFolder, read_value_if_sound
from vaultmem.storage.leases import open_file
from vaultmem.storage.lock import Process, is_gone
from vaultmem.storage.state import StateDatabase
from vaultmem.storage.views import View

#: Every path below `sessions/`: "0" comes next to "/".
_INSIDE = "v.path > 'sessions/' AND v.path < 'sessions0'"


class SessionTable:
    """The state database's table of session facts, by document; those of a view are read."""

    def __init__(self, state: StateDatabase, view: View) -> None:
        self._state = state
        self._documents = f"({view.relation}) v"

    def unknown(self) -> list[tuple[int, str, str]]:
        """Return document, path and blob of the view's session notes that were not read yet."""
        rows = self._state.query(
            f"SELECT v.document, v.path, d.blob FROM {self._documents} "
            "JOIN documents d ON d.id = v.document LEFT JOIN session_facts s "
            f"ON s.document = v.document WHERE s.document IS NULL AND {_INSIDE}"
        )
        return [(int(document), str(path), str(blob)) for document, path, blob in rows]

    def put(self, found: Iterable[tuple[int, SessionFacts]]) -> None:
        """Remember facts by document."""
        rows = [
            (document, facts.id, json.dumps(as_json_object(facts))) for document, facts in found
        ]
        with self._state.transaction():
            self._state.execute_many("INSERT OR REPLACE INTO session_facts VALUES (?, ?, ?)", rows)

    def all(self) -> list[SessionFacts]:
        """Return the facts of all session notes of the view that were read."""
        return self._read("")

    def find(self, session: str) -> SessionFacts | None:
        """Return the facts of an id; of two notes with one name, the first path counts."""
        return next(iter(self._read("AND s.id = ? ORDER BY v.path", session)), None)

    def at_path(self, path: str) -> SessionFacts | None:
        """Return the facts of the session note at a path."""
        return next(iter(self._read("AND v.path = ?", path)), None)

    def naming(self, session: str) -> list[SessionFacts]:
        """Return the facts of the sessions that have an edge to one."""
        found = self._read("AND instr(s.facts, ?) > 0", json.dumps(session))
        return [each for each in found if session in {edge.session for edge in each.edges}]

    def _read(self, condition: str, *values: str) -> list[SessionFacts]:
        joined = f"FROM {self._documents} JOIN session_facts s ON s.document = v.document"
        rows = self._state.query(f"SELECT s.facts {joined} WHERE {_INSIDE} {condition}", values)
        return [_decode(facts) for (facts,) in rows]


def _decode(text: str) -> SessionFacts:
    value: dict[str, Any] = json.loads(text)
    edges = (
        SessionLink(SessionRelation(each["relation"]), each["session"]) for each in value["edges"]
    )
    return SessionFacts(**{**value, "edges": tuple(edges)})


# How commands ended last: a table of the state database, for the hook before a command.

#: Commands that are kept, and failures that are compared with a call.
_MOST_ENDS, _MOST_FAILED = 5_000, 300


class CommandEnd(NamedTuple):
    """How a command ended last in a project: in which session, when (seconds since the epoch).

    `trouble` is what went wrong, "" if nothing did.
    """

    command: str
    session: str
    at: float
    trouble: str


class CommandEnds:
    """The table of how commands ended, by project."""

    def __init__(self, state: StateDatabase) -> None:
        self._state = state

    def put(self, project: str, ends: Iterable[CommandEnd]) -> None:
        """Store the ends that are later than those stored, and forget the oldest beyond 5,000."""
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
                f"(SELECT at FROM command_ends ORDER BY at DESC LIMIT 1 OFFSET {_MOST_ENDS})"
            )

    def failed(self, project: str) -> list[CommandEnd]:
        """Return the commands of a project that failed when they last ran, the last first."""
        rows = self._state.query(
            f"SELECT {', '.join(CommandEnd._fields)} FROM command_ends WHERE project = ? "
            f"AND trouble <> '' ORDER BY at DESC LIMIT {_MOST_FAILED}",
            (project,),
        )
        return list(map(CommandEnd._make, rows))


#: Processes that one session may have at once; the oldest are forgotten.
_MAX_PROCESSES = 16


class ActiveSession(NamedTuple):
    """A session that was started here; `at` is when it was last begun or taken up (seconds).

    `workspace` is an absolute folder. `recovered` says that its processes were gone and that its
    note was closed for it. `ref` is the branch that it was begun on, "" if on none.
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
        """Tell whether all its processes are known to have ended; False if it never had any."""
        return bool(self.processes) and all(map(is_gone, self.processes))

    @property
    def is_there(self) -> bool:
        """Tell whether one of its processes is known to be there."""
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
        """Remember a session, with the processes that it had and still has."""
        known = self.find(record.id)
        alive = [each for each in known.processes if not is_gone(each)] if known else []
        fresh = [each for each in record.processes if each not in alive]
        self._write(record._replace(processes=tuple([*alive, *fresh][-_MAX_PROCESSES:])))

    def mark_recovered(self, session: str) -> None:
        """Remember that a session's note was closed because its processes were gone."""
        record = self.find(session)
        if record is not None:
            self._write(record._replace(recovered=True))

    def drop(self, session: str) -> None:
        """Forget a session that has ended."""
        self.file_of(session).unlink(missing_ok=True)

    def find(self, session: str) -> ActiveSession | None:
        """Return what is known of a session, None if nothing is."""
        return read_value_if_sound(self.file_of(session), ActiveSession)

    def all(self) -> list[ActiveSession]:
        """Return all sessions, those last begun or taken up first."""
        try:
            files = sorted(self.folder.glob("*.json"))
        except OSError:
            return []
        read = (read_value_if_sound(file, ActiveSession) for file in files)
        found = [record for record in read if record is not None]
        return sorted(found, key=lambda record: (-record.at, record.id))

    def list_open(self, workspace: str) -> list[ActiveSession]:
        """Return the sessions that are open in a workspace, those last begun or taken up first."""
        return [each for each in self.all() if each.workspace == workspace and not each.recovered]

    def _write(self, record: ActiveSession) -> None:
        KeptFolder(self.folder).write_value(self.file_of(record.id).name, record)


# What hooks have told a session so far, so that it is not told again: a file for each session.
#
# Nothing depends on it: where it cannot be read or written, a session is told once more.

FOLDER = "had"

#: Sessions that are kept, and bytes of one: what is beyond that is told again.
_MOST, _LARGE = 100, 256 * 1024


def read_had(state_folder: Path, session: str) -> frozenset[str]:
    """Return the names of what a session has had."""
    if not session:
        return frozenset()
    try:
        text = (state_folder / FOLDER / session).read_text("ascii")
    except (OSError, ValueError):
        return frozenset()
    return frozenset(text.split()) if len(text) < _LARGE else frozenset()


def add_had(state_folder: Path, session: str, names: Iterable[str]) -> None:
    """Note down what a session was told; one that was told very much begins anew."""
    file = state_folder / FOLDER / session
    with contextlib.suppress(OSError):
        if not session:
            return
        file.parent.mkdir(mode=0o700, exist_ok=True)
        flags = os.O_TRUNC if file.exists() and file.stat().st_size >= _LARGE else os.O_APPEND
        descriptor = open_file(file, os.O_WRONLY | os.O_CREAT | flags)
        try:
            os.write(descriptor, "".join(f"{name}\n" for name in names).encode("ascii"))
        finally:
            os.close(descriptor)


def forget_had(state_folder: Path, session: str) -> None:
    """Forget what a session has had, whose context is empty now; and the oldest sessions."""
    folder = state_folder / FOLDER
    with contextlib.suppress(OSError):
        if session:
            (folder / session).unlink(missing_ok=True)
        files = sorted(folder.iterdir(), key=lambda each: each.stat().st_mtime)
        for file in files[:-_MOST]:
            file.unlink(missing_ok=True)


# Why hooks stayed silent: lines of JSON in the state folder, for whoever asks later.

TROUBLE_FILE = "hook-trouble.jsonl"

#: A file that has grown past this (bytes) begins anew.
_MAX_LOG_BYTES = 256 * 1024


def log_error(state_folder: Path, event: str, error: str) -> None:
    """Add a line; whatever hinders that is nobody's trouble."""
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


# Transcripts of sessions: `transcripts/<id>.jsonl`, local, append-only, and bounded.
#
# An append is one write of whole lines. What a crash cut short is one broken line, which is
# passed over; a file that has grown too large loses its oldest lines, and a line that tells their
# digest takes their place.

#: A line's bytes at most: each character six bytes as an escape, and its other fields.
_MAX_LINE = MAX_PART * 6 + 32 * 1024

_BLOCK = 256 * 1024

#: Bytes of a transcript's first line by which it is known.
_HEAD = 200


def _name_file(file: BinaryIO) -> str:
    """Return a name of an open transcript that it loses when it is written anew."""
    head = hashlib.sha256(file.readline(_HEAD)).hexdigest()[:16]
    return f"{os.fstat(file.fileno()).st_ino} {head}"


class Transcripts:
    """The transcripts of one vault; a file may hold `limit` bytes."""

    def __init__(self, root: Path, limit: int) -> None:
        self._root = root
        self._limit = max(limit, 4 * _MAX_LINE)

    def exists(self, session: str) -> bool:
        """Tell whether a session has a transcript."""
        return self._file(session).is_file()

    def size(self, session: str) -> int:
        """Return the bytes of a transcript, 0 if there is none."""
        try:
            return self._file(session).lstat().st_size
        except OSError:
            return 0

    def last_added(self) -> dict[str, float]:
        """Return when something was last added to each transcript, in seconds since the epoch."""
        try:
            with os.scandir(self._root / TRANSCRIPTS) as files:
                found = {each.name: each.stat(follow_symlinks=False) for each in files}
        except OSError:
            return {}
        return {
            name.removesuffix(".jsonl"): known.st_mtime
            for name, known in found.items()
            if name.endswith(".jsonl") and stat.S_ISREG(known.st_mode)
        }

    def append(self, session: str, lines: Iterable[TranscriptLine]) -> None:
        """Add lines; they are durable when this returns.

        Raises:
            RefusedError: folder or file is a link, or no regular file.
            VaultError: the disk did not take them.
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
        """Return the tally of a transcript after its last whole line."""
        last = next(self.read_back(session), None)
        return TranscriptPosition() if last is None else tally_of(last)

    def read(self, session: str) -> Iterator[TranscriptLine | TranscriptPosition]:
        """Yield the lines of a transcript from its beginning; broken ones are passed over."""
        with self._read(session) as file:
            while data := file.readline(_MAX_LINE):
                found = decode_line(data)
                if found is not None:
                    yield found

    def read_from(self, session: str, mark: str) -> Iterator[tuple[int, str, TranscriptLine]]:
        """Yield turns after a mark: where each begins, the mark after it, and the line itself.

        A mark of another file, or "", is its beginning. A line that is being written is left out.
        """
        with self._read(session) as file:
            own, _, end = mark.rpartition(" ")
            head = _name_file(file)
            place = file.seek(int(end) if own == head else 0)
            while (data := file.readline(_MAX_LINE)).endswith(b"\n"):
                found = decode_line(data)
                if isinstance(found, TranscriptLine):
                    yield place, f"{head} {place + len(data)}", found
                place += len(data)

    def is_current(self, session: str, mark: str) -> bool:
        """Tell whether a mark is at the end of a transcript's last whole line."""
        return bool(mark) and next(self.read_from(session, mark), None) is None

    def read_at(self, session: str, place: int) -> TranscriptLine | None:
        """Return the line that begins at a place, None if there is no turn."""
        with self._read(session) as file:
            file.seek(place)
            found = decode_line(file.readline(_MAX_LINE))
            return found if isinstance(found, TranscriptLine) else None

    def read_back(self, session: str) -> Iterator[TranscriptLine | TranscriptPosition]:
        """Yield the lines of a transcript from its end; it may be left at any time."""
        with self._read(session) as file:
            place, rest = file.seek(0, os.SEEK_END), b""
            while place > 0:
                size = min(_BLOCK, place)
                place = file.seek(place - size)
                lines = (file.read(size) + rest).split(b"\n")
                rest = lines.pop(0)[-_MAX_LINE:]
                for data in reversed(lines):
                    found = decode_line(data)
                    if found is not None:
                        yield found
            found = decode_line(rest)
            if found is not None:
                yield found

    def replace(self, session: str, lines: Iterable[TranscriptLine]) -> None:
        """Put lines in place of a transcript, or make a new one of them: all of them, or none.

        Raises:
            RefusedError: folder or file is a link, or no regular file.
            VaultError: the disk did not take them.
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
        """Return an open transcript, an empty one where there is none."""
        try:
            return os.fdopen(self._open(session, os.O_RDONLY), "rb")
        except NoteNotFoundError:
            return open(os.devnull, "rb")

    def _open(self, session: str, flags: int) -> int:
        """Open a transcript; neither it nor its folder may be a link.

        Raises:
            NoteNotFoundError: there is none.
            RefusedError: it is no regular file in a folder of the vault.
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
                data = b"\n" + data  # A crash cut the last line short.
            while data:
                data = data[os.write(descriptor, data) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _shorten(self, session: str) -> None:
        """Drop the oldest lines until half of the limit is free, and keep their digest."""
        file = self._file(session)
        dropped, place = self._find_cut(session)
        with naming_failure(f"{TRANSCRIPTS}/{file.name}", "shortened"), open(file, "rb") as old:
            old.seek(place)
            kept = iter(lambda: old.read(_BLOCK), b"")
            write_atomically(file, itertools.chain([encode_dropped(dropped)], kept))

    def _find_cut(self, session: str) -> tuple[TranscriptPosition, int]:
        """Return what is to be dropped, and where the first line stands that stays."""
        dropped, place = TranscriptPosition(), 0
        surplus = self.size(session) - self._limit // 2
        with self._read(session) as file:
            while place < surplus and (data := file.readline(_MAX_LINE)):
                place += len(data)
                found = decode_line(data)
                dropped = dropped if found is None else tally_of(found)
        return dropped, place
