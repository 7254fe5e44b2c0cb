"""A query, its filters, its weights and its hits.

A section's `strength` is its relevance by words divided by the idf of all query terms. A word that
the vault does not have counts as the rarest. So strength is a mean gain per word, independent of
the length of the query and the size of the vault. `coverage` is the share of that idf that the
section contains. docs/decisions/0012 lists how often evidence was found at each level.
"""

from __future__ import annotations

import contextlib
import fnmatch
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from datetime import date, datetime
from enum import StrEnum
from itertools import chain
from typing import NamedTuple

from vaultmem.core.anchors import AnchorCheck
from vaultmem.core.lifecycle import HIDDEN_STATES, NoteKind, NoteState, is_proposal
from vaultmem.core.notes.conflict import ConflictingText
from vaultmem.core.notes.record import NoteRecord, SectionRecord, has_tag
from vaultmem.core.search.terms import (
    count_terms,
    find_stemmer,
    has_cjk,
    is_stop_term,
    list_compounds,
    list_pieces,
    mark_stop_word,
    split_piece,
    stem_word,
    term_sequence,
    unify_terms,
)
from vaultmem.errors import ArgumentError, RefusedError


class Match(NamedTuple):
    """One query term in a section: its fields, its part of the score, and its weighted idf.

    `word` is the word of the query, if it differs from the term.
    """

    term: str
    fields: tuple[str, ...]
    score: float
    idf: float = 0.0
    word: str = ""

    @property
    def shown(self) -> str:
        """The word to display."""
        return self.word or self.term


#: A note's key across vaults: its vault's name, its path and its blob id.
NoteKey = tuple[str, str, str]


class RelatedSection(NamedTuple):
    """Another section of a hit's note: its heading, the heading's line, its score."""

    heading: str
    line: int
    score: float


class Hit(NamedTuple):
    """A section with its text and score; `text` excludes the heading.

    - `refs`: the refs that contain it, if several are searched together
    - `linked_from`: the note whose link gave it a share of that note's score
    - `replaces`: the notes that its note supersedes
    - `answered_note`: the note with a question that this note, written next, might answer
    - `related_sections`: further sections of its note, if the hit represents the note
    - `caution`: why it must be checked before use, or is invalid
    - `vault`: the name of its vault, if several are searched
    - `conflicting_texts`: the text of another side of a merge, for words of the section
    - `shown_line`: a sentence of the full text or another section, if `text` has no sentence
    - `by_other`: whether it is a turn of one speaker while the query names another
    - `anchors`: the states of the code that its note cites

    score = (sum of the matches + closeness + passage + named + neighbours + recency) *
    state_weight, see `core.search.ranking`. With vectors (`semantic` is their score), the score is
    a blend with the relevance by words. `query_idf` is the weighted idf of all terms of the query.

    If a reranker reordered the best hits, `rerank` is its own score, and `score` is that of the
    hit's new position.
    """

    record: NoteRecord
    section: SectionRecord
    text: str
    score: float
    matches: tuple[Match, ...]
    closeness: float
    state_weight: float
    refs: tuple[str, ...] = ()
    linked_from: str = ""
    passage: float = 0.0
    neighbours: float = 0.0
    recency: float = 0.0
    semantic: float = 0.0
    named: float = 0.0
    replaces: tuple[str, ...] = ()
    query_idf: float = 0.0
    rerank: float | None = None
    answered_note: str = ""
    related_sections: tuple[RelatedSection, ...] = ()
    caution: str = ""
    vault: str = ""
    conflicting_texts: tuple[ConflictingText, ...] = ()
    shown_line: str = ""
    by_other: bool = False
    anchors: tuple[AnchorCheck, ...] = ()

    @property
    def note(self) -> NoteKey:
        """The note's key across vaults; refs can have different blobs of one path."""
        return self.vault, self.record.path, self.record.blob

    @property
    def key(self) -> tuple[NoteKey, int]:
        """The section's key across vaults: its note, and its position in the note."""
        return self.note, self.section.ordinal

    @property
    def local_key(self) -> tuple[int, int]:
        """The section's key within its vault: its document, and its position in the note."""
        return self.record.document, self.section.ordinal

    @property
    def coverage(self) -> float:
        """The share of the query's idf that the section contains."""
        return sum(match.idf for match in self.matches) / (self.query_idf or 1.0)

    @property
    def relevance(self) -> float:
        """The score by words alone, before recency, state and the penalty for its subject."""
        words = sum(match.score for match in self.matches)
        return words + (self.closeness + self.passage + self.named + max(self.neighbours, 0.0))

    @property
    def strength(self) -> float:
        """The relevance by words divided by the query's idf, see the module."""
        return self.relevance / (self.query_idf or 1.0)

    @property
    def address(self) -> str:
        """The section's address: `path#Heading` as in Obsidian, after the vault's name if set."""
        path = f"{self.vault}:{self.record.path}" if self.vault else self.record.path
        return f"{path}#{self.section.heading}" if self.section.heading else path

    @property
    def name(self) -> str:
        """The note's title, and the heading if the title does not contain it."""
        title, heading = self.record.title, self.section.heading
        return title if heading.casefold() in title.casefold() else f"{title} > {heading}"


def asks(text: str) -> bool:
    """Return whether a text ends with a question mark."""
    return text.rstrip().endswith(("?", "？"))


#: The most further sections of a note's best hit, and their minimum share of its score.
_MAX_RELATED_SECTIONS = 3
_SHARE = 0.5


def group_places(notes: Sequence[Hashable], scores: Sequence[float]) -> list[list[int]]:
    """Return the positions of the sections of each note, both best first.

    `notes` and `scores` are those of sections, best first. Sections that score too far below the
    note's first, or exceed the maximum number, are omitted.
    """
    groups: dict[Hashable, list[int]] = {}
    for place, (note, score) in enumerate(zip(notes, scores, strict=True)):
        group = groups.get(note)
        if group is None:
            groups[note] = [place]
        elif len(group) <= _MAX_RELATED_SECTIONS and score >= _SHARE * scores[group[0]]:
            group.append(place)
    return list(groups.values())


def group_hits(hits: Sequence[Hit]) -> list[Hit]:
    """Return each note's best hit, best first, with its `related_sections`."""
    notes = [hit.note for hit in hits]
    if len(set(notes)) == len(notes):
        return list(hits)
    groups = group_places(notes, [hit.score for hit in hits])
    return [_join([hits[place] for place in group]) for group in groups]


def _join(hits: Sequence[Hit]) -> Hit:
    """Return the first hit with the others, and its own further sections, in `related_sections`."""
    best, *others = hits
    names = ((hit.section.heading, hit.section.line, hit.score) for hit in others)
    further = (*best.related_sections, *map(RelatedSection._make, names))
    return best._replace(
        related_sections=tuple({each.line: each for each in further}.values())[
            :_MAX_RELATED_SECTIONS
        ]
    )


#: The minimum strength of a weak and of a strong answer: nine of ten strong answers have evidence
#: among ten notes.
_MIN_WEAK_STRENGTH, _MIN_STRONG_STRENGTH = 0.1, 0.7

#: The hits whose turns are compared by speaker. The second number is the lead in strength of other
#: speakers from which the named one probably never answers.
_MAX_COMPARED_HITS, _MIN_OTHER_SPEAKER_LEAD = 10, 0.3

#: The best sections that decide the match strength.
JUDGED = 3

#: The minimum coverage of a strong answer.
_COVERAGE = 0.5


class MatchStrength(StrEnum):
    """How well the best hits cover the query; `none` means they probably answer nothing."""

    STRONG = "strong"
    WEAK = "weak"
    NONE = "none"


def judge_hits(hits: Sequence[Hit]) -> MatchStrength:
    """Return the match strength of the best hits."""
    first, lead = hits[:JUDGED], _compare_speakers(hits[:_MAX_COMPARED_HITS])
    if lead >= 0 and any(map(is_strong, first)):
        return MatchStrength.STRONG
    if lead > -_MIN_OTHER_SPEAKER_LEAD and any(
        hit.strength >= _MIN_WEAK_STRENGTH or (hit.semantic and not hit.matches) for hit in first
    ):
        return MatchStrength.WEAK
    return MatchStrength.NONE


def _compare_speakers(hits: Sequence[Hit]) -> float:
    """Return how much the best strength exceeds the best by other speakers; 0 without these."""
    others = [hit.strength for hit in hits if hit.by_other]
    if not others:
        return 0.0
    return max((hit.strength for hit in hits if not hit.by_other), default=0.0) - max(others)


def is_strong(hit: Hit) -> bool:
    """Return whether a section answers the query.

    A single word of several is never enough, however rare. Neither are stop words.
    """
    is_alone = len(hit.matches) == 1 and hit.coverage < 1
    if all(is_stop_term(match.term) for match in hit.matches):
        return False
    return hit.strength >= _MIN_STRONG_STRENGTH and hit.coverage >= _COVERAGE and not is_alone


def describe_corrections(replaced: Mapping[str, str]) -> list[str]:
    """Return a line for each word that the vault does not have."""
    return [
        f'"{word}" is not in this vault; searched for "{other}".'
        for word, other in replaced.items()
    ]


def describe_strength(strength: MatchStrength | None, suggestion: str = "") -> list[str]:
    """Return the lines to print for an answer that is not strong.

    `strength` can be None: no hits. `suggestion` names another source with an answer.
    """
    text = (
        "Nothing in this vault answers that."
        if strength is None
        else _STRENGTH_TEXTS.get(strength, "")
    )
    return [line for line in (text, suggestion and f"{suggestion}.") if line]


_STRENGTH_TEXTS = {
    MatchStrength.WEAK: "Not sure: this has only a part of what was asked.",
    MatchStrength.NONE: "Probably nothing in this vault answers that; this comes nearest.",
}


# The query: plain words without query syntax, and filters.

MAX_QUERY_CHARS = 1_000_000

#: The characters of a query that are searched for the words of its terms.
_NAMED_CHARS = 20_000

#: The most distinct terms of a search; of a longer query, the rarest ones.
MAX_TERMS = 64


class NoteFilter(NamedTuple):
    """A filter of eligible notes; an empty filter accepts all but hidden states.

    Preferences that the owner has not promoted are no evidence: they need a filter by kind or
    state. `paths` are shell patterns on the whole path, or folders. `since` and `until` limit the
    note's own date, or else the time of its bytes (seconds since the epoch). `past` also accepts
    replaced notes, and `with_archived` archived ones. `conflicted` accepts only notes with a
    conflict. Notes that are not valid `as_of` a day come last.
    """

    kinds: frozenset[NoteKind] = frozenset()
    states: frozenset[NoteState] = frozenset()
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
    as_of: date | None = None

    @property
    def wanted_states(self) -> frozenset[NoteState]:
        """The states of eligible notes."""
        if self.states or self.any_state:
            return self.states or frozenset(NoteState)
        extra_states = {NoteState.DEPRECATED} if self.past else set()
        extra_states |= {NoteState.ARCHIVED} if self.with_archived else set()
        return frozenset(NoteState) - (HIDDEN_STATES - extra_states)

    @property
    def shows_proposals(self) -> bool:
        """Whether preferences that are not promoted are eligible."""
        return self.any_state or bool(self.states or self.kinds)

    @property
    def is_by_state_alone(self) -> bool:
        """Whether only a note's state decides."""
        return self == NoteFilter(
            states=self.states,
            any_state=self.any_state,
            with_archived=self.with_archived,
            past=self.past,
            as_of=self.as_of,
        )

    def admits(self, record: NoteRecord) -> bool:
        """Return whether a note is eligible."""
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
    """Return whether a path matches a shell pattern, or is in a folder of that name."""
    pattern = pattern.rstrip("/")
    return fnmatch.fnmatchcase(path, pattern) or path.startswith(f"{pattern}/")


def _read_timestamp(text: str, fallback: float) -> float:
    """Return a note's own date in seconds since the epoch, read as local time."""
    with contextlib.suppress(ValueError, OverflowError, OSError):
        return datetime.fromisoformat(text).timestamp()
    return fallback


class RecallQuery(NamedTuple):
    """A query as index terms in their order, with filters and the number of hits wanted.

    `compounds` are additional terms of compound words in the query; for a query of stop words
    alone, they can be its stop words. `replaced` pairs words that the vault does not have with the
    words searched instead; `near` has the terms of these. `recency` is the share of a note's age in
    its score, None for the setting in vaultmem.yaml. `stemmer` names the stemmer that unifies
    further terms, see `find_stemmer`.
    """

    text: str
    terms: tuple[str, ...]
    limit: int = 10
    filter: NoteFilter = NoteFilter()
    compounds: tuple[str, ...] = ()
    replaced: tuple[tuple[str, str], ...] = ()
    near: frozenset[str] = frozenset()
    recency: float | None = None
    stemmer: str = ""

    @property
    def is_of_stop_words(self) -> bool:
        """Whether the query consists of stop words."""
        return bool(self.compounds) and all(map(is_stop_term, (*self.terms, *self.compounds)))

    @property
    def words(self) -> dict[str, str]:
        """The word of the query to display, for each term that is searched."""
        words_by_term = {stem_word(other): other for _, other in self.replaced}
        text = self.text[:_NAMED_CHARS]
        words = (word for word in re.findall(r"[^\W_]+", text) if not has_cjk(word))
        for word, terms in chain(
            ((word, count_terms(word)) for word in words),
            ((piece, split_piece(piece)) for piece in list_pieces(text)),
        ):
            for term in terms or filter(None, [mark_stop_word(word.lower())]):
                words_by_term.setdefault(term, word)
        return {term: words_by_term.get(term, term) for term in (*self.terms, *self.compounds)}


def parse_query(text: str, limit: int = 10, note_filter: NoteFilter | None = None) -> RecallQuery:
    """Return the query of a text; operators, wildcards and quotes have no special meaning.

    Raises:
        RefusedError: the text is longer than a million characters, or the limit is under 1.
    """
    if len(text) > MAX_QUERY_CHARS:
        raise RefusedError(
            f"the query has {len(text):,} characters; ask with {MAX_QUERY_CHARS:,} at most"
        )
    if limit < 1:
        raise RefusedError(f"the limit must be at least 1, not {limit}")
    stemmer = find_stemmer(text[:_NAMED_CHARS])
    terms = tuple(unify_terms(term_sequence(text), stemmer))
    compounds = tuple(term for term in list_compounds(text) if term not in terms)
    effective_filter = note_filter or NoteFilter()
    return RecallQuery(text, terms, limit, effective_filter, compounds, stemmer=stemmer)


def parse_recency(text: str) -> float | None:
    """Return the share of age in a score, 0 to 1; None for the vault's own setting.

    Raises:
        ArgumentError: the text is not `on`, `off` or a number from 0 to 1.
    """
    if text in {"", "on"}:
        return None
    with contextlib.suppress(ValueError):
        share = 0.0 if text == "off" else float(text)
        if 0 <= share <= 1:
            return share
    raise ArgumentError(f'recency "{text}" is not on, off or a number from 0 to 1')


def select_rarest(query: RecallQuery, counts: Mapping[str, int]) -> RecallQuery:
    """Return a query with at most `MAX_TERMS` terms: those that the fewest sections contain.

    `counts` has the number of sections that contain each term.
    """
    distinct_terms = dict.fromkeys([*query.terms, *query.compounds])
    if len(distinct_terms) <= MAX_TERMS:
        return query
    rarest_terms = set(
        sorted(filter(counts.__getitem__, distinct_terms), key=counts.__getitem__)[:MAX_TERMS]
    )
    return query._replace(
        terms=tuple(term for term in query.terms if term in rarest_terms),
        compounds=tuple(term for term in query.compounds if term in rarest_terms),
    )


# Parameters of the ranking, and the statistics that scores use.
#
# benchmarks/README.md has the measured effect of each parameter. Statistics of several vaults are
# added up, so that a section's score is the one it would have in a single vault of all their notes
# (J. Callan, "Distributed Information Retrieval", 2000: global against local statistics).


class RankingWeights(NamedTuple):
    """Parameters of the score, see `core.search.ranking`.

    The first values of `k1` and `b` are for vaults with a mean section length up to the first of
    `lengths` (terms). The second values apply from the second length on; values between are
    interpolated.
    """

    title: float = 2.0
    tags: float = 1.5
    body: float = 1.0
    lengths: tuple[float, float] = (50.0, 150.0)
    k1: tuple[float, float] = (0.9, 1.75)
    b: tuple[float, float] = (0.2, 0.85)
    #: Weight of a weak word among others.
    weak: float = 0.5
    #: Weight of a word that replaces one the vault does not have.
    near: float = 0.7
    #: Gain of an adjacent pair of query terms, in shares of the smaller idf.
    pair: float = 0.6
    #: Gain of a title that consists of the query's words, in shares of all idf.
    named: float = 1.0
    #: Gain of a turn whose speaker the query names, in shares of its own score.
    speaker: float = 0.25
    #: Factor of the length part of a section that contains only links to other notes.
    links_alone: float = 4.0
    #: Terms of a passage, and the share of the best passage in the score of a longer section.
    passage_terms: int = 80
    passage_share: float = 0.5
    #: The share of its score that the nearest neighbour gives, the second nearest and so on, before
    #: and after alike: to a note, and between turns. Then the most terms of a note with neighbours.
    neighbours: tuple[float, ...] = (0.3, 0.1, 0.0, 0.0)
    turns: tuple[float, ...] = (0.4, 0.25, 0.15, 0.1)
    neighbour_terms: int = 120
    #: The additional share that the turn before gives if it asks. Then the number of best turns
    #: whose answer is added, whatever its words.
    asking: float = 0.4
    answered: int = 5
    #: Neighbours raise a note in full up to the score of this place, and by this share beyond it.
    lift_place: int = 5
    lift_share: float = 0.1
    #: The penalty of a note without any query word, in shares of its subject's distance to the best
    #: subject. Then the strength from which there is no penalty, and the number of best notes in a
    #: subject's mean.
    subject: float = 0.6
    sufficient: float = 0.6
    subject_notes: int = 5
    #: The most days between neighbours that share only a tag.
    neighbour_days: float = 30.0
    #: Days after which recency is a quarter.
    recent_days: float = 20.0
    #: Query lengths in terms. Recency grows from the first to the last; at the middle one it equals
    #: the setting in vaultmem.yaml.
    recent_terms: tuple[int, int, int] = (6, 9, 24)
    #: The minimum number of best sections by words for which neighbours and age count. Then the
    #: minimum number for which word order counts.
    candidates: int = 96
    read: int = 32


#: The one configuration for all vaults.
WEIGHTS = RankingWeights()


class Statistics(NamedTuple):
    """Statistics of the sections that a query can find.

    `lengths` are the numbers of terms of all titles, tags and bodies. `newest` is the date of the
    newest section in seconds since the epoch. `counts` has the number of eligible sections that
    contain each term of the query; `totals` also counts sections that are not eligible. `near` has
    similar words of the vault for each misspelt word, with the number of sections that contain the
    term of each.
    """

    sections: int = 0
    lengths: tuple[int, int, int] = (0, 0, 0)
    newest: float = 0.0
    counts: Mapping[str, int] = {}
    totals: Mapping[str, int] = {}
    near: Mapping[str, Mapping[str, int]] = {}

    def mean(self) -> float:
        """Return the mean length of a section in weighted terms."""
        title, tags, body = self.lengths
        length = WEIGHTS.title * title + WEIGHTS.tags * tags + WEIGHTS.body * body
        return length / self.sections if self.sections else 1.0


def add_statistics(parts: Iterable[Statistics]) -> Statistics:
    """Return the sum of the statistics of several vaults."""
    sections, newest = 0, 0.0
    title = tags = body = 0
    counts, totals = Counter[str](), Counter[str]()
    near: dict[str, Counter[str]] = {}
    for part in parts:
        sections += part.sections
        title += part.lengths[0]
        tags += part.lengths[1]
        body += part.lengths[2]
        newest = max(newest, part.newest)
        counts.update(part.counts)
        totals.update(part.totals)
        for word, others in part.near.items():
            near.setdefault(word, Counter()).update(others)
    return Statistics(sections, (title, tags, body), newest, counts, totals, near)
