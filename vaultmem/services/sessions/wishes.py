"""Propose what the user wished for in a session: the standing wishes in its transcript."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from typing import TYPE_CHECKING

from vaultmem.core.sessions.turns import Line, join_turns
from vaultmem.errors import RefusedError
from vaultmem.services.sessions.read import open_transcripts
from vaultmem.services.writing.change import Change
from vaultmem.services.writing.parts import Event
from vaultmem.services.writing.write import write
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from vaultmem.core.preferences.standing import Standing
    from vaultmem.core.sessions.session import SessionFacts
    from vaultmem.services.notes.propose import Proposed


def propose_said(writer: Vault, facts: SessionFacts) -> tuple[Proposed, ...]:
    """Propose the standing wishes in what the user said since this was last done.

    `writer` writes in the session, so its next commit has them. An agent's own turns, and what
    tools returned, are not looked at.
    """
    key = f"wishes {facts.id}"
    tally = open_transcripts(writer).tally(facts.id)
    looked_at = int(writer.state.get(key) or 0)
    if tally.turns <= looked_at:
        return ()
    wishes = list(_find_said(writer, facts.id, looked_at))
    proposed: tuple[Proposed, ...] = ()
    if wishes:
        try:
            proposed = _put(writer, wishes, facts.path)
        except RefusedError:  # A session ends whatever becomes of its proposals.
            return ()
    writer.state.put(key, str(tally.turns))
    return proposed


def _put(writer: Vault, wishes: list[Standing], source: str) -> tuple[Proposed, ...]:
    from vaultmem.services.notes.propose import propose_standing

    def plan(change: Change) -> tuple[Proposed, ...]:
        change.leave(Event("write", "", writer.author, intent="observe"))
        return propose_standing(change, wishes, source)

    return write(writer, plan).value


def _find_said(vault: Vault, session: str, looked_at: int) -> Iterator[Standing]:
    from vaultmem.core.preferences.standing import Speaker, find_standing

    found = open_transcripts(vault).read_back(session)
    fresh = takewhile(lambda line: isinstance(line, Line) and line.number > looked_at, found)
    lines = [line for line in fresh if isinstance(line, Line) and line.role == "user"]
    for _, turn in join_turns(reversed(lines)):
        yield from find_standing(turn.text, Speaker.OWNER)
