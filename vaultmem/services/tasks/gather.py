"""Gather what notes and git know of a task, or of the sessions of one lane."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath

from vaultmem.core.lifecycle import HIDDEN_STATES
from vaultmem.core.notes.values import read_timestamp
from vaultmem.core.safe_text import one_line
from vaultmem.core.sessions.session import Session
from vaultmem.core.tasks.task import Task
from vaultmem.core.tasks.view import Entry, ViewPart
from vaultmem.errors import NoteNotFoundError, RefusedError, VaultError
from vaultmem.services.finding.links import list_backlinks
from vaultmem.services.history.commits import CommitFilter, list_commits
from vaultmem.services.reading.look import look_now
from vaultmem.services.reading.read_notes import read_note
from vaultmem.services.sessions.identify import find_place, find_workspace
from vaultmem.services.sessions.read import get_session
from vaultmem.services.sessions.touched_files import trace_files
from vaultmem.storage.git.any_repository import FileCommit, list_recent, open_repository
from vaultmem.vault import Vault

HANDOFFS = "handoffs"

#: How many commits and sessions are looked at, at most.
_COMMITS = 40
_SESSIONS = 60


def gather_task(vault: Vault, task: Task) -> list[Entry]:
    """Return what is known of a task, each with the rank that decides what fits a budget."""
    vault = look_now(vault)
    at = read_timestamp(task.updated or task.created) or 0.0
    stand = f"{task.title}: {task.status}"
    entries = [Entry(ViewPart.STAND, 0, stand, task.path, at)]
    if task.next_step:
        entries.append(Entry(ViewPart.NEXT, 0, task.next_step, task.path, at))
    if task.text:
        entries.append(Entry(ViewPart.TASK, 3, task.text, task.path, at))
    linked = _linking(vault, task.path)
    entries += _handoffs(vault, [path for path in linked if path.startswith(f"{HANDOFFS}/")])
    names = [*task.sessions, *(Path(p).stem for p in linked if p.startswith("sessions/"))]
    sessions = read_sessions(vault, names)
    entries += gather_sessions(vault, sessions)
    return [*entries, *gather_commits(vault, sessions)]


def gather_sessions(vault: Vault, sessions: Sequence[Session]) -> list[Entry]:
    """Return what sessions did, the last first; files with what became of them."""
    entries: list[Entry] = []
    for number, session in enumerate(sessions):
        facts = session.facts
        at = read_timestamp(facts.ended or facts.started) or 0.0
        rank = 1 if number == 0 else 4
        day = (facts.ended or facts.started)[:10]
        label = f"{facts.id} ({', '.join(filter(None, (facts.agent, facts.status, day)))})"
        told = session.summary or facts.goal
        entries.append(Entry(ViewPart.SESSIONS, rank, f"{label}: {told}", facts.path, at))
        for question in session.questions:
            entries.append(Entry(ViewPart.QUESTIONS, rank + 1, question, facts.path, at))
        for decision in session.decisions:
            entries.append(Entry(ViewPart.DECISIONS, rank + 1, decision.text, facts.path, at))
        for detail in session.details:
            entries.append(Entry(ViewPart.SESSIONS, 7, f"{facts.id}: {detail}", facts.path, at))
    entries += _files(vault, sessions)
    return entries


def gather_commits(vault: Vault, sessions: Sequence[Session]) -> list[Entry]:
    """Return the newest commits of the code's repository, and those of the sessions here."""
    entries = []
    for commit in _code_commits(vault):
        text = f"{commit.commit[:7]} {commit.day} {commit.subject} ({commit.author})"
        entries.append(Entry(ViewPart.CODE, 5, one_line(text), commit.commit, commit.at))
    ids = frozenset(session.facts.id for session in sessions)
    if not ids:
        return entries
    try:
        made = list_commits(vault, CommitFilter(sessions=ids), _COMMITS).commits
    except VaultError:  # No git, or no commit yet.
        return entries
    for each in made:
        text = f"{each.commit[:7]} {each.time[:10]} {each.subject} ({each.author})"
        entries.append(Entry(ViewPart.VAULT, 6, one_line(text), each.commit, each.at))
    return entries


def read_sessions(vault: Vault, names: Iterable[str]) -> list[Session]:
    """Return the sessions of these ids that there are and that may be shown, the last first."""
    found = []
    for name in dict.fromkeys(names):
        try:
            session = get_session(vault, name)
        except (NoteNotFoundError, RefusedError):
            continue
        if session.is_shown:
            found.append(session)
    found.sort(key=lambda each: (each.facts.started, each.facts.id), reverse=True)
    return found[:_SESSIONS]


def _linking(vault: Vault, path: str) -> list[str]:
    return sorted({found.source for found in list_backlinks(vault, path)})


def _handoffs(vault: Vault, paths: Sequence[str]) -> Iterator[Entry]:
    """Yield what was handed over, the last first; names begin with their time."""
    for number, path in enumerate(sorted(paths, reverse=True)):
        try:
            note = read_note(vault, PurePosixPath(path))
        except (NoteNotFoundError, RefusedError):
            continue
        if note.state in HIDDEN_STATES:
            continue
        prop = note.matter.get("created")
        made = prop.value if prop is not None and isinstance(prop.value, str) else ""
        at = read_timestamp(made) or 0.0
        text = f"{made[:16]}: {note.visible_body.strip()}"
        yield Entry(ViewPart.HANDOFFS, 1 if number == 0 else 5, text, path, at)


def _files(vault: Vault, sessions: Sequence[Session]) -> Iterator[Entry]:
    if not sessions:
        return
    folder = _code_folder(vault) or find_workspace(vault.here)
    fates = trace_files(sessions, folder, find_place(vault, folder))
    seen: set[str] = set()
    for session in sessions:
        for touched in session.touched:
            if touched.path in seen:
                continue
            seen.add(touched.path)
            fate = fates.get(touched.path)
            told = f": {fate.full}" if fate and fate.full else ""
            at = read_timestamp(session.facts.started) or 0.0
            yield Entry(ViewPart.FILES, 4, f"{touched.path}{told}", session.facts.path, at)


def _code_commits(vault: Vault) -> list[FileCommit]:
    folder = _code_folder(vault)
    if folder is None:
        return []
    try:
        git = open_repository(folder)
        return list_recent(git, _COMMITS) if git is not None else []
    except VaultError:
        return []


def _code_folder(vault: Vault) -> Path | None:
    """Return the folder of the code that vaultmem.yaml names, relative to the vault."""
    if not vault.config.code_repository:
        return None
    folder = Path(vault.config.code_repository).expanduser()
    folder = folder if folder.is_absolute() else vault.root / folder
    return folder.resolve() if folder.is_dir() else None
