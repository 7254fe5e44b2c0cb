"""Search the turns in this machine's transcripts, and read those of one session, masked."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import dropwhile, islice
from typing import NamedTuple

from vaultmem.core.lifecycle import NoteState
from vaultmem.core.packs.passages import choose_excerpt
from vaultmem.core.search.terms import term_sequence
from vaultmem.core.secrets.scan import SecretFinding
from vaultmem.core.sessions.turns import TranscriptLine, Turn, join_turns
from vaultmem.errors import RefusedError
from vaultmem.services.sessions.find_session import list_facts, open_transcripts
from vaultmem.storage.turn_index import TurnIndex, TurnQuery
from vaultmem.storage.yaml_file import find_in_texts
from vaultmem.vault import Vault

#: Maximum characters of an excerpt.
_MAX_EXCERPT_CHARS = 300


class NumberedTurn(NamedTuple):
    """A turn with credentials masked, its session, and its number in the session."""

    session: str
    number: int
    turn: Turn


def index_turns(vault: Vault, session: str) -> None:
    """Index a session's new transcript lines. If this fails, the next search does it."""
    with vault.leaving_to_next():
        _open_index(vault).update(session)


def search_turns(vault: Vault, query: TurnQuery, limit: int = 10) -> list[NumberedTurn]:
    """Return excerpts of the turns that match, best first; without words, newest first.

    Only sessions in the vault's view count: those of the view's project and global ones.
    Quarantined sessions are excluded. The index must be up to date.

    Raises:
        RefusedError: the query is empty.
    """
    if query == TurnQuery():
        raise RefusedError("session search: nothing to look for; name words, --file or --command")
    index = _open_index(vault)
    index.update_all()
    sessions = [each.id for each in list_facts(vault) if each.state != NoteState.QUARANTINED]
    rows = index.find(query, sessions, limit)
    masked_turns = _mask(vault, [_turn_of(line) for _, _, line in rows])
    terms = frozenset(term_sequence(query.words))
    return [
        NumberedTurn(
            session,
            number,
            turn._replace(text=choose_excerpt(turn.text, terms, _MAX_EXCERPT_CHARS)),
        )
        for (session, number, _), turn in zip(rows, masked_turns, strict=True)
    ]


def read_turns(
    vault: Vault, session: str, first: int = 0, limit: int = 20, failed: bool = False
) -> list[NumberedTurn]:
    """Return turns of a session in order: from number `first` on, by default the last ones.

    With `failed`, return only results of failed calls.
    """
    lines = open_transcripts(vault).read(session)
    turns = (each for each in join_turns(lines) if each[1].failed or not failed)
    later_turns = dropwhile(lambda each: each[0] < first, turns)
    numbered_turns = list(islice(later_turns, limit)) if first else list(deque(turns, limit))
    masked_turns = _mask(vault, [turn for _, turn in numbered_turns])
    return [
        NumberedTurn(session, number, turn)
        for (number, _), turn in zip(numbered_turns, masked_turns, strict=True)
    ]


def _open_index(vault: Vault) -> TurnIndex:
    return TurnIndex(vault.state, open_transcripts(vault))


def _turn_of(line: TranscriptLine) -> Turn:
    call = (line.tool, line.files, line.command, line.failed)
    return Turn(line.role, line.text, line.at, *call)


def _mask(vault: Vault, turns: Sequence[Turn]) -> list[Turn]:
    """Return turns with credentials masked, by the built-in rules and those of the vault."""
    texts = [text for turn in turns for text in (turn.text, turn.command, *turn.files)]
    findings = find_in_texts(vault.root, [("", text) for text in texts], mark="")
    masked_texts = iter([_blank(text, each) for text, each in zip(texts, findings, strict=True)])
    return [
        turn._replace(
            text=next(masked_texts),
            command=next(masked_texts),
            files=tuple(islice(masked_texts, len(turn.files))),
        )
        for turn in turns
    ]


def _blank(text: str, findings: Iterable[SecretFinding]) -> str:
    for finding in sorted(findings, key=lambda finding: finding.start, reverse=True):
        text = f"{text[: finding.start]}***{text[finding.end :]}"
    return text
