"""Format what a new context window needs of a session and of those before it."""

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


#: Sessions before the one that is restored, at most, and how far away.
_MAX_EARLIER = 24
_MAX_DEPTH = 12

#: Turns that are looked at, at most.
_MAX_TURNS = 60


def restore_session(
    vault: Vault, name: str, budget: int | None = None, workspace: Path | None = None
) -> Restore:
    """Return what the next context window needs, within a budget of tokens.

    The vault must be in sync. The same notes, transcript, commits and budget give the same bytes.
    Files are looked for in the workspace: where the session was begun, else the current folder's.

    Raises:
        NoteNotFoundError: there is no such session.
        RefusedError: the budget is under 200 tokens.
    """
    tokens = vault.config.budget if budget is None else budget
    return render_restore(collect_material(vault, name, tokens, workspace), tokens)


def collect_material(
    vault: Vault, name: str, budget: int, workspace: Path | None = None
) -> RestoreMaterial:
    """Return all that a restore of a session may tell; no more turns than the budget could hold."""
    vault = current_view(vault)
    session = _with_unlinked(vault, get_session(vault, name))
    earlier = tuple(_find_earlier(vault, session))
    shown = [session, *(each.session for each in earlier if each.session and each.session.is_shown)]
    folder = find_begun_in(vault, session.facts.id, workspace)
    decisions = [decision for each in shown for decision in each.decisions]
    return RestoreMaterial(
        session,
        pack_source(vault),
        earlier,
        _read_decisions(vault, decisions),
        trace_files(shown, folder, find_place(vault, folder)),
        tuple(_read_turns(vault, session.facts.id, budget)),
    )


def _find_earlier(vault: Vault, session: Session) -> Iterable[EarlierSession]:
    table = open_table(vault)
    for link in walk_chain(session.facts, table.find, _MAX_DEPTH)[:_MAX_EARLIER]:
        earlier = None
        if link.facts is not None:
            try:
                earlier = read_session(vault, PurePosixPath(link.facts.path))
                earlier = _with_unlinked(vault, earlier)
            except (NoteNotFoundError, RefusedError):
                earlier = None
        yield EarlierSession(link, earlier)


def _with_unlinked(vault: Vault, session: Session) -> Session:
    """Return a session with the decisions that it wrote, and was interrupted before linking."""
    more = tuple(
        Decision(path.removesuffix(".md"), f"[[{path.removesuffix('.md')}]]: {title}")
        for path, title in find_unlinked(vault, session)
    )
    return session._replace(decisions=(*session.decisions, *more)) if more else session


def _read_decisions(vault: Vault, decisions: Iterable[Decision]) -> dict[str, DecisionNote]:
    found: dict[str, DecisionNote] = {}
    for decision in decisions:
        if not decision.target or decision.target in found:
            continue
        try:
            path, _ = resolve_address(vault, decision.target, by_title=False)
            note = read_note(vault, path)
        except (NoteNotFoundError, RefusedError):
            continue
        found[decision.target] = DecisionNote(
            str(path), note.blob, note.title, note.state.value, note.pinned, _shown_text(note)
        )
    return found


def _shown_text(note: Note) -> str:
    """Return a note's text, without the heading that repeats its title."""
    if note.state in HIDDEN_STATES:
        return ""
    lines = note.visible_body.strip().splitlines()
    if lines and lines[0].lstrip("# ").strip() == note.title:
        lines = lines[1:]
    return "\n".join(lines).strip()


def _read_turns(vault: Vault, session: str, budget: int) -> list[tuple[int, Turn]]:
    """Return the last turns, as many as could be shown."""
    kept: list[tuple[int, Turn]] = []
    left = budget
    for number, turn in reversed(read_last_turns(vault, session, _MAX_TURNS)):
        if left <= 0:
            break
        left -= min(count_tokens(turn.text), 1_500)
        kept.append((number, turn))
    return list(reversed(kept))


# Find the last session in a workspace, and tell what it came to.

#: Sessions that are looked at, and that are told of besides the last one.
_LOOKED_AT, _EARLIER = 12, 2


def describe_last_time(
    vault: Vault, budget: int, workspace: Path | None = None, but: str = ""
) -> str:
    """Return what the last session in a workspace came to, whichever agent's it was; "" if none.

    A workspace is a project wherever its folder is, else a folder. Other sessions that are open in
    it, as in another work tree, are named.

    One in which nothing was done to the work, a question in passing, yields to one before it.
    The session `but` is passed over. The vault must be in sync.
    """
    folder, place = find_workspace(workspace or vault.here), find_place(vault, workspace)
    found = [*islice(_list_here(vault, place, but), _LOOKED_AT)]
    worked = [each for each in found if each.facts.has_work] or found
    if not worked:
        return ""
    last, *others = worked
    still_open = [each for each in others if each.facts.is_open][:_EARLIER]
    earlier = [each for each in others if not each.facts.is_open][:_EARLIER]
    fates = trace_files([last], folder, place)
    return render_last_time(last, fates, earlier, budget, still_open)


def _list_here(vault: Vault, place: Workspace, but: str) -> Iterator[Session]:
    """Yield the sessions of a place that tell anything, the last one first."""
    for facts in list_facts(vault):
        if place.has(facts) and facts.id != but:
            try:
                session = read_session(vault, PurePosixPath(facts.path))
            except (NoteNotFoundError, RefusedError):
                continue
            if session.is_shown and (session.facts.goal or session.summary or session.touched):
                yield session
