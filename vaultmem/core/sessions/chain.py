"""The sessions before a session, along their edges."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from vaultmem.core.sessions.session import Relation, SessionFacts

#: A chain is not followed beyond so many sessions.
MAX_CHAIN = 200


class ChainLink(NamedTuple):
    """A session in a chain: how far away (1 is next), and which session leads to it, and how.

    `facts` is None where there is no such note.
    """

    depth: int
    session: str
    relation: Relation
    by: str
    facts: SessionFacts | None


def walk_chain(
    start: SessionFacts, find: Callable[[str], SessionFacts | None], depth: int
) -> list[ChainLink]:
    """Return the sessions before `start`, nearest first, each once.

    `find` gives a session's facts by its id. A related session is listed, and not followed: it
    came before nothing.
    """
    found: list[ChainLink] = []
    seen = {start.id}
    level = [start]
    for distance in range(1, depth + 1):
        following: list[SessionFacts] = []
        for facts in level:
            for edge in facts.edges:
                if edge.session in seen or len(found) >= MAX_CHAIN:
                    continue
                seen.add(edge.session)
                earlier = find(edge.session)
                link = ChainLink(distance, edge.session, edge.relation, facts.id, earlier)
                found.append(link)
                if earlier is not None and edge.relation is not Relation.RELATED:
                    following.append(earlier)
        level = following
        if not level:
            break
    return found


def find_followers(
    session: str, everything: Iterable[SessionFacts]
) -> list[tuple[Relation, SessionFacts]]:
    """Return the sessions that continue, were forked from, or are related to a session."""
    found = [
        (edge.relation, facts)
        for facts in everything
        for edge in facts.edges
        if edge.session == session
    ]
    return sorted(found, key=lambda each: (each[1].started, each[1].id))
