"""What is asked: plain words, never query syntax, and filters."""

from __future__ import annotations

import contextlib
import fnmatch
import re
from collections.abc import Mapping
from datetime import datetime
from itertools import chain
from typing import NamedTuple

from vaultmem.core.finding.terms import (
    count_terms,
    has_cjk,
    is_stop_term,
    list_compounds,
    list_pieces,
    mark_stop_word,
    name_piece,
    stem_word,
    term_sequence,
)
from vaultmem.core.lifecycle import HIDDEN_STATES, Kind, State, is_proposal
from vaultmem.core.notes.record import NoteRecord, has_tag
from vaultmem.errors import RefusedError

MAX_QUERY_CHARS = 1_000_000

#: Characters of a question that are looked through for the words of its terms.
_NAMED_CHARS = 20_000

#: Different terms that are searched: of a longer question, those that fewest sections have.
MAX_TERMS = 64


class NoteFilter(NamedTuple):
    """Which notes are eligible; an empty filter lets all but hidden states through.

    A preference that waits for the owner's word is no evidence: it has to be asked for by kind or
    state, and what it was found in says the same.
    `paths` are shell patterns on the whole path, or folders; `since` and `until` bound the note's
    own date, else the time of its bytes (seconds since the epoch). `past` lets through what another
    note replaced, too, and `with_archived` archived notes. Of `conflicted` notes others say
    otherwise, whatever their own state is.
    """

    kinds: frozenset[Kind] = frozenset()
    states: frozenset[State] = frozenset()
    tags: tuple[str, ...] = ()
    context: str = ""
    pinned: bool | None = None
    any_state: bool = False
    with_archived: bool = False
    session: str = ""
    agent: str = ""
    paths: tuple[str, ...] = ()
    since: float | None = None
    until: float | None = None
    past: bool = False
    conflicted: bool = False

    @property
    def wanted_states(self) -> frozenset[State]:
        """The states of eligible notes."""
        if self.states or self.any_state:
            return self.states or frozenset(State)
        shown = {State.DEPRECATED} if self.past else set()
        shown |= {State.ARCHIVED} if self.with_archived else set()
        return frozenset(State) - (HIDDEN_STATES - shown)

    @property
    def shows_proposals(self) -> bool:
        """Tell whether preferences that nobody promoted are eligible."""
        return self.any_state or bool(self.states or self.kinds)

    @property
    def is_by_state_alone(self) -> bool:
        """Tell whether nothing but a note's state decides."""
        return self == NoteFilter(
            states=self.states,
            any_state=self.any_state,
            with_archived=self.with_archived,
            past=self.past,
        )

    def admits(self, record: NoteRecord) -> bool:
        """Tell whether a note is eligible."""
        return (
            record.state in self.wanted_states
            and (self.shows_proposals or not is_proposal(record.kind, record.state))
            and (not self.kinds or record.kind in self.kinds)
            and self.pinned in {None, record.pinned}
            and (not self.context or f"{record.context}/".startswith(f"{self.context}/"))
            and all(has_tag(record.tags, tag) for tag in self.tags)
            and self.session in {"", record.session}
            and self.agent in {"", record.agent}
            and (not self.conflicted or bool(record.conflict))
            and (not self.paths or any(_is_inside(record.path, each) for each in self.paths))
            and self._admits_date(record)
        )

    def _admits_date(self, record: NoteRecord) -> bool:
        if self.since is None and self.until is None:
            return True
        at = _read_timestamp(record.updated or record.created, record.changed)
        return (self.since is None or at >= self.since) and (self.until is None or at <= self.until)


def _is_inside(path: str, pattern: str) -> bool:
    """Tell whether a path matches a shell pattern, or lies in a folder of that name."""
    pattern = pattern.rstrip("/")
    return fnmatch.fnmatchcase(path, pattern) or path.startswith(f"{pattern}/")


def _read_timestamp(text: str, otherwise: float) -> float:
    """Return a note's own date in seconds since the epoch, in local time as people give theirs."""
    with contextlib.suppress(ValueError, OverflowError, OSError):
        return datetime.fromisoformat(text).timestamp()
    return otherwise


class RecallQuery(NamedTuple):
    """A question as index terms in their order, with filters and the number of hits wanted.

    `compounds` are the further terms of what the question writes in one piece; of a question of
    stop words alone, they can be its stop words. `replaced` are words
    that the vault does not have, each with the one of the vault that is searched instead; `near`
    are the terms of these.
    """

    text: str
    terms: tuple[str, ...]
    limit: int = 10
    filter: NoteFilter = NoteFilter()
    compounds: tuple[str, ...] = ()
    replaced: tuple[tuple[str, str], ...] = ()
    near: frozenset[str] = frozenset()

    @property
    def is_of_stop_words(self) -> bool:
        """Tell whether the query has no other words than stop words."""
        return bool(self.compounds) and all(map(is_stop_term, (*self.terms, *self.compounds)))

    @property
    def words(self) -> dict[str, str]:
        """The word that was asked, as people are to see it, for each term that is searched."""
        named = {stem_word(other): other for _, other in self.replaced}
        text = self.text[:_NAMED_CHARS]
        words = (word for word in re.findall(r"[^\W_]+", text) if not has_cjk(word))
        for word, terms in chain(
            ((word, count_terms(word)) for word in words),
            ((piece, name_piece(piece)) for piece in list_pieces(text)),
        ):
            for term in terms or filter(None, [mark_stop_word(word.lower())]):
                named.setdefault(term, word)
        return {term: named.get(term, term) for term in (*self.terms, *self.compounds)}


def parse_query(text: str, limit: int = 10, note_filter: NoteFilter | None = None) -> RecallQuery:
    """Return the query that a text asks; operators, wildcards and quotes are plain marks.

    Raises:
        RefusedError: the text is longer than a million characters, or the limit under 1.
    """
    if len(text) > MAX_QUERY_CHARS:
        raise RefusedError(
            f"the query has {len(text):,} characters; ask with {MAX_QUERY_CHARS:,} at most"
        )
    if limit < 1:
        raise RefusedError(f"{limit} sections cannot be found; ask for 1 or more")
    terms = tuple(term_sequence(text))
    compounds = tuple(term for term in list_compounds(text) if term not in terms)
    return RecallQuery(
        text=text, terms=terms, limit=limit, filter=note_filter or NoteFilter(), compounds=compounds
    )


def keep_rarest(query: RecallQuery, counts: Mapping[str, int]) -> RecallQuery:
    """Return a long question with those of its terms alone that fewest sections contain.

    `counts` has the number of sections that contain each term.
    """
    different = dict.fromkeys([*query.terms, *query.compounds])
    if len(different) <= MAX_TERMS:
        return query
    kept = set(sorted(filter(counts.__getitem__, different), key=counts.__getitem__)[:MAX_TERMS])
    return query._replace(
        terms=tuple(term for term in query.terms if term in kept),
        compounds=tuple(term for term in query.compounds if term in kept),
    )
