"""Format what a new context window needs of a session and its earlier sessions."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from vaultmem.core.lifecycle import HIDDEN_STATES
from vaultmem.core.sessions.restore import (
    DecisionNote,
    EarlierSession,
    RestoreMaterial,
    render_last_time,
)
from vaultmem.core.sessions.restore_text import Restore, render_restore
from vaultmem.core.sessions.session import Decision, Session, walk_chain
from vaultmem.core.text.token_count import count_tokens
from vaultmem.errors import NoteNotFoundError, RefusedError
from vaultmem.services.packs.build import pack_source
from vaultmem.services.sessions.edit_session import find_unlinked
from vaultmem.services.sessions.find_session import (
    get_session,
    list_facts,
    open_table,
    read_session,
)
from vaultmem.services.sessions.identify import find_begun_in, find_place, find_workspace
from vaultmem.services.sessions.import_turns import trace_files
from vaultmem.services.sessions.windows import read_last_turns
from vaultmem.services.views.open_view import current_view
from vaultmem.services.views.read_notes import read_note, resolve_address
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vaultmem.core.notes.note import Note
    from vaultmem.core.sessions.session import Workspace
    from vaultmem.core.sessions.turns import Turn


#: Maximum earlier sessions, and maximum depth of their chain.
_MAX_EARLIER = 24
_MAX_DEPTH = 12

#: Maximum turns to read.
_MAX_TURNS = 60


def restore_session(
    vault: Vault, name: str, budget: int | None = None, workspace: Path | None = None
) -> Restore:
    """Return the text for the next context window, within a budget of tokens.

    The same notes, transcript, commits and budget give the same bytes. Files are looked up in the
    workspace: the session's start folder, by default the current folder's. The index must be up to
    date.

    Raises:
        NoteNotFoundError: there is no such session.
        RefusedError: the budget is under 200 tokens.
    """
    tokens = vault.config.budget if budget is None else budget
    return render_restore(collect_material(vault, name, tokens, workspace), tokens)


def collect_material(
    vault: Vault, name: str, budget: int, workspace: Path | None = None
) -> RestoreMaterial:
    """Return everything that a restore can show, with no more turns than the budget can hold."""
    vault = current_view(vault)
    session = _with_unlinked(vault, get_session(vault, name))
    earlier = tuple(_find_earlier(vault, session))
    sessions = [
        session,
        *(each.session for each in earlier if each.session and each.session.is_shown),
    ]
    folder = find_begun_in(vault, session.facts.id, workspace)
    decisions = [decision for each in sessions for decision in each.decisions]
    return RestoreMaterial(
        session,
        pack_source(vault),
        earlier,
        _read_decisions(vault, decisions),
        trace_files(sessions, folder, find_place(vault, folder)),
        tuple(_read_turns(vault, session.facts.id, budget)),
    )


def _find_earlier(vault: Vault, session: Session) -> Iterable[EarlierSession]:
    table = open_table(vault)
    for link in walk_chain(session.facts, table.find, _MAX_DEPTH)[:_MAX_EARLIER]:
        earlier_session = None
        if link.facts is not None:
            try:
                earlier_session = read_session(vault, PurePosixPath(link.facts.path))
                earlier_session = _with_unlinked(vault, earlier_session)
            except (NoteNotFoundError, RefusedError):
                earlier_session = None
        yield EarlierSession(link, earlier_session)


def _with_unlinked(vault: Vault, session: Session) -> Session:
    """Return a session with the decisions that it wrote but did not link before an interruption."""
    new_decisions = tuple(
        Decision(path.removesuffix(".md"), f"[[{path.removesuffix('.md')}]]: {title}")
        for path, title in find_unlinked(vault, session)
    )
    return (
        session._replace(decisions=(*session.decisions, *new_decisions))
        if new_decisions
        else session
    )


def _read_decisions(vault: Vault, decisions: Iterable[Decision]) -> dict[str, DecisionNote]:
    notes: dict[str, DecisionNote] = {}
    for decision in decisions:
        if not decision.target or decision.target in notes:
            continue
        try:
            path, _ = resolve_address(vault, decision.target, by_title=False)
            note = read_note(vault, path)
        except (NoteNotFoundError, RefusedError):
            continue
        notes[decision.target] = DecisionNote(
            str(path), note.blob, note.title, note.state.value, note.pinned, _shown_text(note)
        )
    return notes


def _shown_text(note: Note) -> str:
    """Return a note's text, without the heading that repeats its title."""
    if note.state in HIDDEN_STATES:
        return ""
    lines = note.visible_body.strip().splitlines()
    if lines and lines[0].lstrip("# ").strip() == note.title:
        lines = lines[1:]
    return "\n".join(lines).strip()


def _read_turns(vault: Vault, session: str, budget: int) -> list[tuple[int, Turn]]:
    """Return the last turns that can fit the budget."""
    turns: list[tuple[int, Turn]] = []
    tokens = budget
    for number, turn in reversed(read_last_turns(vault, session, _MAX_TURNS)):
        if tokens <= 0:
            break
        tokens -= min(count_tokens(turn.text), 1_500)
        turns.append((number, turn))
    return list(reversed(turns))


# Describe the last session in a workspace.

#: Maximum sessions to read, and maximum earlier sessions to show.
_MAX_READ_SESSIONS, _MAX_SHOWN_SESSIONS = 12, 2


def describe_last_time(
    vault: Vault, budget: int, workspace: Path | None = None, but: str = ""
) -> str:
    """Return a text about the last session of any agent in a workspace, or "" if there is none.

    A workspace is a project, or a folder without a project. Sessions without work are used only if
    no session has work. Other open sessions in the workspace are listed. The session `but` is
    skipped. The index must be up to date.
    """
    folder, place = find_workspace(workspace or vault.here), find_place(vault, workspace)
    sessions = [*islice(_list_here(vault, place, but), _MAX_READ_SESSIONS)]
    candidates = [each for each in sessions if each.facts.has_work] or sessions
    if not candidates:
        return ""
    last, *others = candidates
    still_open = [each for each in others if each.facts.is_open][:_MAX_SHOWN_SESSIONS]
    earlier = [each for each in others if not each.facts.is_open][:_MAX_SHOWN_SESSIONS]
    fates = trace_files([last], folder, place)
    return render_last_time(last, fates, earlier, budget, still_open)


def _list_here(vault: Vault, place: Workspace, but: str) -> Iterator[Session]:
    """Yield the sessions of a place with a goal, summary or touched files, newest first."""
    for facts in list_facts(vault):
        if place.has(facts) and facts.id != but:
            try:
                session = read_session(vault, PurePosixPath(facts.path))
            except (NoteNotFoundError, RefusedError):
                continue
            if session.is_shown and (session.facts.goal or session.summary or session.touched):
                yield session
