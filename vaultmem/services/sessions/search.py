"""Find sessions: by what they hold, by what they follow, and counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from vaultmem.core.finding.hit import Hit
from vaultmem.core.finding.query import NoteFilter, parse_query
from vaultmem.core.sessions.session import (
    FOLDER,
    ChainLink,
    Relation,
    SessionFacts,
    Status,
    find_followers,
    plain_id,
    walk_chain,
)
from vaultmem.errors import RefusedError
from vaultmem.services.finding.recall import recall
from vaultmem.services.reading.look import look_now
from vaultmem.services.sessions.elsewhere import name_machines
from vaultmem.services.sessions.read import (
    get_session,
    list_facts,
    open_table,
    open_transcripts,
)
from vaultmem.vault import Vault

#: Sections that are looked at for each session that is wanted.
_SECTIONS = 4

_KNOWN_ENDS = frozenset(Status)


class FoundSession(NamedTuple):
    """A session that answers a question, with the sections of its note that do, best first."""

    facts: SessionFacts
    hits: tuple[Hit, ...]


class SessionChain(NamedTuple):
    """A session, those before it, and those that follow it directly."""

    session: SessionFacts
    earlier: tuple[ChainLink, ...]
    followers: tuple[tuple[Relation, SessionFacts], ...]


class SessionStats(NamedTuple):
    """Sessions counted; `bytes` are those of the transcripts on this machine."""

    sessions: int
    statuses: dict[str, int]
    agents: dict[str, int]
    workspaces: dict[str, int]
    decisions: int
    questions: int
    touched: int
    turns: int
    tokens: int
    bytes: int
    first: str
    last: str


def list_sessions(
    vault: Vault, status: str = "", agent: str = "", limit: int = 0
) -> list[SessionFacts]:
    """Return sessions, the last started first; the vault must be in sync. A limit of 0 is none.

    Raises:
        RefusedError: no session can have that status.
    """
    wanted = status.strip().lower()
    if wanted and wanted not in _KNOWN_ENDS:
        raise RefusedError(f'unknown status "{status}"; use {", ".join(Status)}')
    found = [
        each
        for each in list_facts(vault)
        if wanted in {"", each.status} and agent in {"", each.agent}
    ]
    return name_machines(vault, found[: limit or None])


def search_sessions(vault: Vault, query: str, limit: int = 10) -> list[FoundSession]:
    """Return the sessions that answer a question, best first; the vault must be in sync.

    Raises:
        RefusedError: the query is too long, or the limit under 1.
    """
    wanted = NoteFilter(context=FOLDER)
    by_path: dict[str, list[Hit]] = {}
    for hit in recall(look_now(vault), parse_query(query, limit * _SECTIONS, wanted)):
        by_path.setdefault(hit.record.path, []).append(hit)
    table = open_table(vault)
    found = ((table.at_path(path), tuple(each)) for path, each in [*by_path.items()][:limit])
    return [FoundSession(facts, hits) for facts, hits in found if facts is not None]


def follow_chain(vault: Vault, name: str, depth: int = 10) -> SessionChain:
    """Return the sessions before a session, and those that follow it; the vault must be in sync.

    Raises:
        NoteNotFoundError: there is no such session.
        RefusedError: the depth is under 1.
    """
    if depth < 1:
        raise RefusedError(f"a chain of {depth} sessions cannot be followed; ask for 1 or more")
    table = open_table(vault)
    start = table.find(plain_id(name)) or get_session(vault, name).facts
    followers = find_followers(start.id, table.naming(start.id))
    return SessionChain(start, tuple(walk_chain(start, table.find, depth)), tuple(followers))


def count_sessions(vault: Vault) -> SessionStats:
    """Return the sessions counted; the vault must be in sync."""
    found = list_facts(vault)
    transcripts = open_transcripts(vault)
    started = sorted(each.started for each in found if each.started)
    return SessionStats(
        sessions=len(found),
        statuses=_count([each.status for each in found]),
        agents=_count([each.agent for each in found]),
        workspaces=_count([each.workspace for each in found]),
        decisions=sum(each.decisions for each in found),
        questions=sum(each.questions for each in found),
        touched=sum(each.touched for each in found),
        turns=sum(each.turns for each in found),
        tokens=sum(each.tokens for each in found),
        bytes=sum(transcripts.size(each.id) for each in found),
        first=started[0] if started else "",
        last=started[-1] if started else "",
    )


def _count(values: Sequence[str]) -> dict[str, int]:
    counts = Counter(filter(None, values))
    return dict(sorted(counts.items(), key=lambda each: (-each[1], each[0])))
