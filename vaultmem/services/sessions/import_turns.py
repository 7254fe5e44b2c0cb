"""Import turns from the transcripts of agents, and record the files they touched."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vaultmem.core.notes.edit_properties import set_property
from vaultmem.core.notes.frontmatter import read_timestamp
from vaultmem.core.notes.note import parse_note
from vaultmem.core.secrets.suspicious import find_suspicious
from vaultmem.core.sessions.session import (
    FileFate,
    Session,
    TouchedFile,
    Workspace,
    format_touched,
    map_session_id,
)
from vaultmem.core.sessions.session_note import name_session, parse_session, render_told, write_told
from vaultmem.core.sessions.turns import Turn, join_turns
from vaultmem.core.text.blob import blob_id
from vaultmem.core.text.display import one_line, pluralize
from vaultmem.core.transcripts.event import (
    EventKind,
    TranscriptEvent,
    TranscriptRecord,
    TranscriptSource,
    add_event,
    dump_record,
    load_record,
)
from vaultmem.core.transcripts.transcript_formats import describe_turn, join_source, read_line
from vaultmem.errors import NoteNotFoundError, RefusedError, VaultError
from vaultmem.services.changes.ownership import scan_note_text
from vaultmem.services.sessions.edit_session import edit_session
from vaultmem.services.sessions.find_session import (
    EXPECTED,
    find_path,
    find_unsettled,
    get_session,
    open_transcripts,
)
from vaultmem.services.sessions.identify import find_begun_in, find_workspace
from vaultmem.services.sessions.windows import add_turns, replace_turns
from vaultmem.storage.git.repository import (
    FileCommit,
    list_entries,
    list_file_commits,
    open_repository,
)
from vaultmem.storage.session_table import CommandEnd, CommandEnds
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from vaultmem.core.notes.note import Note


#: Maximum bytes of a line. Longer lines are skipped and counted as broken, to bound memory.
MAX_LINE = 8 * 1024 * 1024

#: Lines to read to find the session's id.
_HEAD = 200

#: Bytes to read in one batch, while the vault's lock is held.
_BATCH = 2 * 1024 * 1024


@dataclass
class TurnImport:
    """Result of an import: turns added, broken lines skipped, bytes read so far."""

    session: str
    turns: int = 0
    broken: int = 0
    offset: int = 0
    ended: str = ""


def import_turns(vault: Vault, session: str, file: Path) -> TurnImport:
    """Add the new turns of an agent's transcript to a session.

    The transcript summary (`read_record`) is updated too. An incomplete last line is left for the
    next import. The lock is released between batches, so others can write.

    Raises:
        NoteNotFoundError: there is no such session, or no such file.
    """
    result, source = TurnImport(session), read_source(file)
    while _import_batch(vault, file, source, result):
        pass
    if result.turns:
        with vault.leaving_to_next():
            _store_ends(vault, session)
    return result


def import_again(vault: Vault, session: str, file: Path) -> TurnImport:
    """Replace a session's turns by those of an agent's transcript.

    This adds turns that an earlier version could not read, without duplicates.

    Raises:
        NoteNotFoundError: there is no such session, or no such file.
        RefusedError: the session has turns that are not in this file.
    """
    key, source = _transcript_key(session, file), read_source(file)
    with vault.lock():
        end = int(vault.state.get(key) or 0) or file.stat().st_size
        times = {
            turn.at for turn in _read_turns(file, source, TurnImport(""), TranscriptRecord(), end)
        }
        lines = open_transcripts(vault).read(session)
        others = {n for n, turn in join_turns(lines) if turn.at not in times}
        if others:
            raise RefusedError(
                f"{session}: {pluralize(len(others), 'turn')} of it are not in {file}; "
                "nothing was changed"
            )
        result, record = TurnImport(session), TranscriptRecord()
        replace_turns(vault, session, _read_turns(file, source, result, record, end))
        with vault.state.transaction():
            vault.state.put(key, str(result.offset))
            vault.state.put(_record_key(session), dump_record(record))
    next_result = import_turns(vault, session, file)
    next_result.turns += result.turns
    next_result.broken += result.broken
    next_result.ended = next_result.ended or result.ended
    return next_result


def _store_ends(vault: Vault, session: str) -> None:
    """Store how the commands of a project's session ended, for the hook that runs before a command.

    Failures that look like a credential or an instruction to an agent are left out.
    """
    commands = read_record(vault, session).commands
    project = get_session(vault, session).facts.project if commands else ""
    if not project:
        return
    ends = [
        CommandEnd(name, session, read_timestamp(each.at) or 0.0, each.trouble)
        for name, each in commands.items()
        if not (each.trouble and scan_note_text(vault, "", f"{name}\n{each.trouble}"))
        and not find_suspicious(each.trouble)
    ]
    CommandEnds(vault.state).put(project, ends)


def read_record(vault: Vault, session: str) -> TranscriptRecord:
    """Return the summary of a session's imported transcript."""
    return load_record(vault.state.get(_record_key(session)) or "")


def _transcript_key(session: str, file: Path) -> str:
    return f"transcript {session} {os.fspath(file)}"


def _record_key(session: str) -> str:
    return f"record {session}"


def _import_batch(vault: Vault, file: Path, source: TranscriptSource, result: TurnImport) -> bool:
    """Import the next part of a transcript; return whether there may be more."""
    key = _transcript_key(result.session, file)
    with vault.lock():
        result.offset = int(vault.state.get(key) or 0)
        if result.offset > file.stat().st_size:  # The file was replaced.
            result.offset = 0
        record, end = read_record(vault, result.session), result.offset + _BATCH
        add_turns(vault, result.session, _read_turns(file, source, result, record, end))
        with vault.state.transaction():
            vault.state.put(key, str(result.offset))
            vault.state.put(_record_key(result.session), dump_record(record))
    return result.offset >= end


def identify_transcript(file: Path) -> TranscriptSource:
    """Return a transcript's session, folder and agent, and whether it is a subagent's.

    Raises:
        NoteNotFoundError: there is no such file.
        RefusedError: its format is not a known transcript format.
    """
    source = read_source(file)
    if not source.agent:
        raise RefusedError(
            f"{file}: no transcript of Claude Code, Codex, Gemini CLI or Copilot CLI"
        )
    return source._replace(session=map_session_id(source.session or file.stem))


def find_first_turn(file: Path, source: TranscriptSource) -> TranscriptEvent | None:
    """Return the first event of a transcript's own session that is a turn, or None."""
    events = _read_events(file, source, TurnImport(""), file.stat().st_size)
    return next((each for each in events if describe_turn(each)), None)


def has_more(vault: Vault, session: str, file: Path) -> bool:
    """Return whether a transcript has bytes that were not imported."""
    return int(vault.state.get(_transcript_key(session, file)) or 0) != file.stat().st_size


def read_source(file: Path) -> TranscriptSource:
    """Return the source that a transcript's head names; `agent` is "" for an unknown format."""
    source = TranscriptSource()
    for number, (data, _) in enumerate(_read_lines(file, 0)):
        for event in read_line(data, source) or ():
            source = join_source(source, event.source)
        if number >= _HEAD or (source.session and source.folder):
            break
    return source


def _read_turns(
    file: Path, source: TranscriptSource, result: TurnImport, record: TranscriptRecord, end: int
) -> Iterator[Turn]:
    for event, files in _join_files(_read_events(file, source, result, end)):
        add_event(record, event)
        result.ended = event.at or result.ended
        if turn := make_turn(event, files):
            result.turns += 1
            yield turn


def make_turn(event: TranscriptEvent, files: Sequence[str] = ()) -> Turn | None:
    """Return an event with its files as a turn, or None if the event is not a turn."""
    content = describe_turn(event)
    if content is None:
        return None
    tool = "" if event.kind is not EventKind.CALL else event.tool
    failed = event.kind is EventKind.RESULT and (event.is_error or bool(event.exit))
    return Turn(*content, event.at, tool, tuple(files), event.command, failed)


def _join_files(
    events: Iterator[TranscriptEvent],
) -> Iterator[tuple[TranscriptEvent, Sequence[str]]]:
    """Yield events with the files of their call, which can span several events."""
    group: list[tuple[TranscriptEvent, list[str]]] = []
    for event in events:
        is_call = event.kind is EventKind.CALL
        if group and not (is_call and not event.text and event.call == group[0][0].call):
            yield from group
            group = []
        path = [event.path] if is_call and event.path else []
        if group:
            group[0][1].extend(path)
        group.append((event, path))
    yield from group


def _read_events(
    file: Path, source: TranscriptSource, result: TurnImport, end: int
) -> Iterator[TranscriptEvent]:
    """Yield a transcript's events from `result.offset` to `end`, each message once."""
    keys = set[int]()
    for data, at in _read_lines(file, result.offset):
        result.offset = at
        events = read_line(data, source) if data else None
        result.broken += events is None
        for event in events or ():
            # Gemini CLI repeats a message whenever it grows.
            key = hash(event) if source.agent == "gemini" and event.call else 0
            if key not in keys:
                yield event
            if key:
                keys.add(key)
        if at >= end:
            return


def _read_lines(file: Path, offset: int) -> Iterator[tuple[bytes, int]]:
    """Yield each whole line and its end offset. For a line that is too long, yield no bytes."""
    try:
        with open(file, "rb") as stream:
            stream.seek(offset)
            while data := stream.readline(MAX_LINE):
                if data.endswith(b"\n"):
                    yield data, stream.tell()
                    continue
                if len(data) < MAX_LINE:
                    return  # The client is still writing this line.
                while (rest := stream.readline(MAX_LINE)) and not rest.endswith(b"\n"):
                    pass
                if not rest:
                    return
                yield b"", stream.tell()
    except OSError as error:
        raise NoteNotFoundError(f"{file}: {error.strerror}") from None


# Record the files that sessions touched, and trace their later changes.

#: Maximum files in a note. Many more would make its properties unreadable.
MAX_TOUCHED = 400

#: Larger files are recorded without their blob id.
_MAX_BYTES = 16 * 1024 * 1024

_DIGITS = 7


def touch_files(
    vault: Vault, session: str, files: Sequence[str | Path], workspace: Path | None = None
) -> Session:
    """Record which files a session touched, with their current content.

    `files` are relative to the current folder; a missing file counts as removed. The note lists
    them relative to the workspace: the session's start folder, by default the current folder's.

    Raises:
        RefusedError: there are too many files, or as for `edit_session`.
    """
    path = find_path(vault, session)
    base = find_begun_in(vault, path.stem, workspace)
    folder = vault.here or Path()
    touched_files = [build_touched_file(folder / Path(file).expanduser(), base) for file in files]

    def change(note: Note) -> str:
        entries = _list_paths(note, touched_files)
        if len(entries) > MAX_TOUCHED:
            raise RefusedError(
                f"{path.stem}: it lists {MAX_TOUCHED} files already; name a folder instead"
            )
        return _set_touched(note, entries)

    return edit_session(vault, path.stem, change)


def add_touched(note: Note, touched_files: Sequence[TouchedFile]) -> str:
    """Return a session note's text with more touched files.

    The oldest are dropped beyond the limit.
    """
    return _set_touched(note, _list_paths(note, touched_files)[-MAX_TOUCHED:])


def _list_paths(note: Note, touched_files: Sequence[TouchedFile]) -> list[TouchedFile]:
    files_by_path = {each.path: each for each in parse_session(note).touched}
    for each in touched_files:  # The last touched file goes to the end.
        if files_by_path.get(each.path) != each:
            files_by_path.pop(each.path, None)
            files_by_path[each.path] = each
    return list(files_by_path.values())


def _set_touched(note: Note, touched_files: Sequence[TouchedFile]) -> str:
    if tuple(touched_files) == parse_session(note).touched:
        return note.text
    return set_property(note.text, "touched", tuple(map(format_touched, touched_files)))


def build_touched_file(file: Path, workspace: Path) -> TouchedFile:
    """Return a file as an entry of a session's note; a folder has no blob id.

    Raises:
        RefusedError: its name has line breaks or is not UTF-8.
    """
    place = Path(os.path.abspath(file))
    name = format_file(place, workspace)
    if not name.isprintable():
        raise RefusedError(f"{name!r}: a name that cannot be written in a note; rename the file")
    if place.is_dir():
        return TouchedFile(f"{name}/")
    return TouchedFile(name, short_blob(place))


def format_file(place: Path, workspace: Path) -> str:
    """Return a file's name in a note: relative to the workspace or home (`~/`), else absolute."""
    for base, lead in ((workspace, ""), (Path.home(), "~/")):
        if place.is_relative_to(base) and place != base:
            return lead + place.relative_to(base).as_posix()
    return place.as_posix()


def place_of(path: str, workspace: Path) -> Path:
    """Return the path on this machine of a file recorded in a session's note."""
    return workspace / Path(path).expanduser()


def short_blob(place: Path) -> str:
    """Return the start of a file's git blob id, "gone" if it is missing, "" if unknown."""
    try:
        status = place.lstat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_BYTES:
            return ""
        return blob_id(place.read_bytes())[:_DIGITS]
    except (FileNotFoundError, NotADirectoryError):
        return "gone"
    except OSError:
        return ""


#: Maximum files to look up in git. For more files, only the disk is read.
_MAX_FILES = 1_000


def trace_files(
    sessions: Sequence[Session], workspace: Path, place: Workspace
) -> dict[str, FileFate]:
    """Return the changes of each file since a session first touched it, newest session first.

    Sessions outside the workspace's `place` are skipped, because their files are elsewhere.
    """
    states: dict[str, tuple[str, float]] = {}
    for session in sessions:
        facts = session.facts
        if (facts.workspace or facts.project) and not place.has(facts):
            continue
        since = read_timestamp(facts.started) or 0.0
        for each in reversed(session.touched):
            blob, before = states.get(each.path, (each.blob, since))
            states[each.path] = (blob, min(before, since))
    commits, heads = _ask_git(states, workspace)
    return {
        path: _describe(path, blob, since, workspace, commits.get(path), heads)
        for path, (blob, since) in states.items()
    }


def _ask_git(
    states: Mapping[str, tuple[str, float]], workspace: Path
) -> tuple[dict[str, list[FileCommit]], dict[str, str] | None]:
    """Return the files' commits and their blob ids in HEAD, or None for these without git."""
    paths = [path for path in states if not path.startswith(("/", "~"))][:_MAX_FILES]
    try:
        git = open_repository(workspace)
        if git is None or git.work_tree != workspace or not paths:
            return {}, None
        commits = list_file_commits(git, paths, int(min(at for _, at in states.values())))
        return commits, {path: e.blob for path, e in list_entries(git, paths).items()}
    except VaultError:
        return {}, None


def _describe(
    path: str,
    blob: str,
    since: float,
    workspace: Path,
    commits: Sequence[FileCommit] | None,
    heads: Mapping[str, str] | None,
) -> FileFate:
    later_commits = [each for each in commits or () if each.at >= since]
    now = "" if path.endswith("/") else short_blob(place_of(path, workspace))
    words = []
    if now == "gone":
        words.append("removed" if blob == "gone" else "gone since")
    elif blob and now:
        words.append("as left" if now == blob[: len(now)] else "changed since")
    if heads is not None and now and not path.startswith(("/", "~")):
        head_blob = heads.get(path, "")
        if now == "gone":
            words += ["not committed"] if head_blob else []
        elif not head_blob.startswith(now):
            words.append("not committed")
    if later_commits:
        words.append(pluralize(len(later_commits), "commit"))
    label = ", ".join(words)
    if not later_commits:
        return FileFate(label, label)
    last = later_commits[0]
    detail = f'last {last.commit[:7]} {last.day} "{one_line(last.subject)[:80]}" ({last.author})'
    return FileFate(label, f"{label}, {detail}")


# Write the transcript summary into a session's note.

#: Maximum touched files recorded with content. The summary section lists the others.
_MAX_FILES_WITH_CONTENT = 60

#: Maximum bytes of a transcript to import at a session start.
_MAX_TRANSCRIPT_BYTES = 8 * 1024 * 1024

#: Minimum words of a first request that becomes the goal: "hi" is too short.
_MIN_GOAL_WORDS = 3

_REDACTED_LINE = "- (left out: it looks like a credential)"


def store_record(vault: Vault, session: str, workspace: Path | None = None) -> None:
    """Write the transcript summary into a session's note, keeping the text of other authors.

    Raises:
        NoteNotFoundError, RefusedError: as for `edit_session`.
    """
    record = read_record(vault, session)
    base = find_workspace(find_begun_in(vault, session, workspace))
    touched_files = [*_list_touched(record, base)]

    def change(note: Note) -> str:
        text = write_record(vault, note, record, lambda path: format_file(_place(path, base), base))
        if text is None:
            return note.text
        goal = record.goal
        if len(goal.split()) >= _MIN_GOAL_WORDS and not scan_note_text(vault, str(note.path), goal):
            text = name_session(text, session, goal)
        return add_touched(parse_note(note.path, text.encode("utf-8")), touched_files)

    edit_session(vault, session, change, closed_too=True)


def catch_up(vault: Vault) -> None:
    """Import the remaining turns of sessions whose process has ended.

    Unreadable transcripts and those over 8 MiB are skipped.
    """
    for record in find_unsettled(vault):
        file = Path(vault.state.get(f"{EXPECTED} {record.id}") or "")
        with contextlib.suppress(VaultError, OSError):
            if record.is_gone and file.is_file() and file.stat().st_size < _MAX_TRANSCRIPT_BYTES:
                import_turns(vault, record.id, file)
                store_record(vault, record.id, Path(record.workspace))


def _list_touched(record: TranscriptRecord, workspace: Path) -> list[TouchedFile]:
    """Return the workspace's files that a session touched, with their content now."""
    files = []
    for path in [*record.files][-_MAX_FILES_WITH_CONTENT:]:
        place = _place(path, workspace)
        if place.is_relative_to(workspace):
            try:
                files.append(build_touched_file(place, workspace))
            except RefusedError:  # The name cannot be written in a note.
                continue
    return files


def _place(path: str, workspace: Path) -> Path:
    """Return the path of a recorded file, with links resolved in its folder."""
    place = workspace / path
    return Path(os.path.realpath(place.parent), place.name)


def write_record(
    vault: Vault, note: Note, record: TranscriptRecord, name: Callable[[str], str]
) -> str | None:
    """Return a session note's text with the transcript summary, or None if the summary is empty.

    `name` formats a file's path.
    """
    block = render_told(record, name, frozenset(parse_session(note).answered))
    return write_told(note.text, _leave_out_leaks(vault, str(note.path), block)) if block else None


def _leave_out_leaks(vault: Vault, path: str, block: str) -> str:
    """Return a section without lines that look like a credential by the vault's rules."""
    lines = block.split("\n")
    for leak in scan_note_text(vault, path, block):
        if not lines[leak.line - 1].startswith("#"):
            lines[leak.line - 1] = _REDACTED_LINE
    return "\n".join(lines)
