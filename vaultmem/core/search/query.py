"""A query, its filters, its weights and its hits.

A section's `strength` is its relevance by words over the idf of all that was asked, where a word
that the vault does not have counts as the rarest: a mean gain for each word, which neither the
length of the question nor the size of the vault shifts. `coverage` is the share of that idf that
is in the section. docs/decisions/0012 has how often evidence was there at each level.
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
    """One query term in a section: its fields, what it adds to the score, and its weighted idf.

    `word` is what was asked, where that is not the term itself.
    """

    term: str
    fields: tuple[str, ...]
    score: float
    idf: float = 0.0
    word: str = ""

    @property
    def shown(self) -> str:
        """The word that people see."""
        return self.word or self.term


#: A note among those of several vaults: its vault's name, its path and its blob id.
NoteKey = tuple[str, str, str]


class RelatedSection(NamedTuple):
    """Another section of a note that was found: its heading, the heading's line, its score."""

    heading: str
    line: int
    score: float


class Hit(NamedTuple):
    """A section with its text and score; `text` leaves the heading out.

    `refs` names the refs that hold it, where several were looked at together; `linked_from` is the
    note whose link brought it a share of that note's score; `replaces` are the notes that its own
    says it supersedes; `beside` is the note that asks what this one, written next, may answer;
    `also` are further sections of its note, where a hit stands for its note; `caution` says why it
    must be checked before use, or is in doubt; `vault` is the name of its own, where several were
    asked; `otherwise` is what another side of a merge says in place of words of it; `shown_line` is
    the sentence that shows the note where `text` has none, of its full text or another section;
    `by_other` marks a turn of one speaker where the question names another;
    `anchors` are the states of the code that its note cites.

    score = (sum of the matches + closeness + passage + named + neighbours + recency) *
    state_weight, see `core.search.ranking`; where vectors were asked too (`semantic` is their
    score), it is their blend with the words' relevance. `asked` is the weighted idf of all terms
    of the question.

    Where a reranker put the best in its order, `rerank` is its own score, and `score` that of the
    place which the section has now.
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
    asked: float = 0.0
    rerank: float | None = None
    beside: str = ""
    also: tuple[RelatedSection, ...] = ()
    caution: str = ""
    vault: str = ""
    otherwise: tuple[ConflictingText, ...] = ()
    shown_line: str = ""
    by_other: bool = False
    anchors: tuple[AnchorCheck, ...] = ()

    @property
    def note(self) -> NoteKey:
        """The note among all that are searched; refs can have different blobs of one path."""
        return self.vault, self.record.path, self.record.blob

    @property
    def key(self) -> tuple[NoteKey, int]:
        """The section among all that are searched: its note, and its position in that."""
        return self.note, self.section.ordinal

    @property
    def local_key(self) -> tuple[int, int]:
        """The section within its own vault: its document, and its position in that."""
        return self.record.document, self.section.ordinal

    @property
    def coverage(self) -> float:
        """The share of what was asked that the section has."""
        return sum(match.idf for match in self.matches) / (self.asked or 1.0)

    @property
    def relevance(self) -> float:
        """The score by words alone, before recency, state and what it loses by its subject."""
        words = sum(match.score for match in self.matches)
        return words + (self.closeness + self.passage + self.named + max(self.neighbours, 0.0))

    @property
    def strength(self) -> float:
        """The relevance by words over what was asked, see the module."""
        return self.relevance / (self.asked or 1.0)

    @property
    def address(self) -> str:
        """The section's address: `path#Heading` as in Obsidian, behind its vault's name if any."""
        path = f"{self.vault}:{self.record.path}" if self.vault else self.record.path
        return f"{path}#{self.section.heading}" if self.section.heading else path

    @property
    def name(self) -> str:
        """The note's title, and the heading where that says something else."""
        title, heading = self.record.title, self.section.heading
        return title if heading.casefold() in title.casefold() else f"{title} > {heading}"


def asks(text: str) -> bool:
    """Tell whether a text ends with a question."""
    return text.rstrip().endswith(("?", "？"))


#: Further sections that stand under a note's best one at most, and the share of its score that
#: each has at least.
_FURTHER = 3
_SHARE = 0.5


def group_places(notes: Sequence[Hashable], scores: Sequence[float]) -> list[list[int]]:
    """Return the places of the sections of each note that count, both best first.

    `notes` and `scores` are those of sections, best first. What a group leaves out is too weak
    beside its first, or one too many.
    """
    groups: dict[Hashable, list[int]] = {}
    for place, (note, score) in enumerate(zip(notes, scores, strict=True)):
        group = groups.get(note)
        if group is None:
            groups[note] = [place]
        elif len(group) <= _FURTHER and score >= _SHARE * scores[group[0]]:
            group.append(place)
    return list(groups.values())


def group_hits(hits: Sequence[Hit]) -> list[Hit]:
    """Return each note's best hit, best first, with the note's further sections in `also`."""
    notes = [hit.note for hit in hits]
    if len(set(notes)) == len(notes):
        return list(hits)
    groups = group_places(notes, [hit.score for hit in hits])
    return [_join([hits[place] for place in group]) for group in groups]


def _join(hits: Sequence[Hit]) -> Hit:
    """Return the first hit with the others, and what stands under it already, in `also`."""
    best, *others = hits
    names = ((hit.section.heading, hit.section.line, hit.score) for hit in others)
    further = (*best.also, *map(RelatedSection._make, names))
    return best._replace(also=tuple({each.line: each for each in further}.values())[:_FURTHER])


#: Strength from which an answer is no accident, and from which it is strong: nine of ten strong
#: answers have evidence among ten notes.
_WEAK, _STRONG = 0.1, 0.7

#: Notes among which turns of the named speaker and of others are compared, and what the others'
#: best has more of strength where the named one probably never answers.
_COMPARED, _MORE_OF_OTHERS = 10, 0.3

#: Sections, the best, by which an answer is judged.
JUDGED = 3

#: Share of what was asked that a strong answer has, at least.
_COVERAGE = 0.5


class MatchStrength(StrEnum):
    """What an answer is worth: `none` says that what was found probably answers nothing."""

    STRONG = "strong"
    WEAK = "weak"
    NONE = "none"


def judge_hits(hits: Sequence[Hit]) -> MatchStrength:
    """Tell how sure an answer is by its best sections."""
    first, lead = hits[:JUDGED], _compare_speakers(hits[:_COMPARED])
    if lead >= 0 and any(map(is_strong, first)):
        return MatchStrength.STRONG
    if lead > -_MORE_OF_OTHERS and any(
        hit.strength >= _WEAK or (hit.semantic and not hit.matches) for hit in first
    ):
        return MatchStrength.WEAK
    return MatchStrength.NONE


def _compare_speakers(hits: Sequence[Hit]) -> float:
    """Return by how much the best strength is above the best by others, 0 without these."""
    others = [hit.strength for hit in hits if hit.by_other]
    if not others:
        return 0.0
    return max((hit.strength for hit in hits if not hit.by_other), default=0.0) - max(others)


def is_strong(hit: Hit) -> bool:
    """Tell whether a section answers: a single word of several is no answer, however rare.

    Neither are stop words.
    """
    is_alone = len(hit.matches) == 1 and hit.coverage < 1
    if all(is_stop_term(match.term) for match in hit.matches):
        return False
    return hit.strength >= _STRONG and hit.coverage >= _COVERAGE and not is_alone


def describe_corrections(replaced: Mapping[str, str]) -> list[str]:
    """Return what is to be said of words that the vault does not have, a line each."""
    return [
        f'"{word}" is not in this vault; searched for "{other}".'
        for word, other in replaced.items()
    ]


def describe_strength(sureness: MatchStrength | None, elsewhere: str = "") -> list[str]:
    """Return what is to be said of an answer that is not strong, a line each.

    None says that nothing was found, `elsewhere` who has an answer.
    """
    told = "Nothing in this vault answers that." if sureness is None else _TOLD.get(sureness, "")
    return [line for line in (told, elsewhere and f"{elsewhere}.") if line]


_TOLD = {
    MatchStrength.WEAK: "Not sure: this has only a part of what was asked.",
    MatchStrength.NONE: "Probably nothing in this vault answers that; this comes nearest.",
}


# What is asked: plain words, never query syntax, and filters.

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
    otherwise, whatever their own state is. Notes that are not valid `as_of` a day come last.
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
        shown = {NoteState.DEPRECATED} if self.past else set()
        shown |= {NoteState.ARCHIVED} if self.with_archived else set()
        return frozenset(NoteState) - (HIDDEN_STATES - shown)

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
            as_of=self.as_of,
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
    are the terms of these. `recency` is the share of a note's age in its score, None for that of
    vaultmem.yaml. `stemmer` names what else unifies terms, see `find_stemmer`.
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
            ((piece, split_piece(piece)) for piece in list_pieces(text)),
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
    stemmer = find_stemmer(text[:_NAMED_CHARS])
    terms = tuple(unify_terms(term_sequence(text), stemmer))
    compounds = tuple(term for term in list_compounds(text) if term not in terms)
    chosen = note_filter or NoteFilter()
    return RecallQuery(text, terms, limit, chosen, compounds, stemmer=stemmer)


def parse_recency(text: str) -> float | None:
    """Return the share of age in a score, 0 to 1, that a text asks for; None for the vault's own.

    Raises:
        ArgumentError: it is neither `on`, `off` nor such a number.
    """
    if text in {"", "on"}:
        return None
    with contextlib.suppress(ValueError):
        share = 0.0 if text == "off" else float(text)
        if 0 <= share <= 1:
            return share
    raise ArgumentError(f'recency "{text}" is not on, off or a number from 0 to 1')


def select_rarest(query: RecallQuery, counts: Mapping[str, int]) -> RecallQuery:
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


# The parameters of the ranking, and the figures that a score takes from all sections.
#
# benchmarks/README.md has what each parameter was measured to do. Statistics of several vaults
# are added up, so that a section's score is the one it would have in a single vault of all their
# notes (J. Callan, "Distributed Information Retrieval", 2000: global against local statistics).


class RankingWeights(NamedTuple):
    """The parameters of the score, see `core.search.ranking`.

    `k1` and `b` have the values for vaults whose sections have as many terms in the mean as the
    first of `lengths` or fewer, and as the second or more, with a straight line between them.
    """

    title: float = 2.0
    tags: float = 1.5
    body: float = 1.0
    lengths: tuple[float, float] = (50.0, 150.0)
    k1: tuple[float, float] = (0.9, 1.75)
    b: tuple[float, float] = (0.2, 0.85)
    #: What a weak word counts for among others.
    weak: float = 0.5
    #: What the nearest word counts for where the question's own is not in the vault.
    near: float = 0.7
    #: Of a side-by-side pair of query terms, in shares of the smaller idf.
    pair: float = 0.6
    #: Of a title that is the question's words, in shares of all idf.
    named: float = 1.0
    #: Of a turn whose speaker the question names, in shares of its own score.
    speaker: float = 0.25
    #: What the length part of a section counts times that is links to other notes alone.
    links_alone: float = 4.0
    #: Terms of a passage, and the share of the best one in the score of a longer section.
    passage_terms: int = 80
    passage_share: float = 0.5
    #: What the nearest, the second nearest neighbour and so on give of their scores, before and
    #: after alike, to a note and between turns; the most terms that a note with neighbours has.
    neighbours: tuple[float, ...] = (0.3, 0.1, 0.0, 0.0)
    turns: tuple[float, ...] = (0.4, 0.25, 0.15, 0.1)
    neighbour_terms: int = 120
    #: What the turn before gives more where it asks; the best turns that bring their answer,
    #: whatever its words.
    asking: float = 0.4
    answered: int = 5
    #: Neighbours lift a note in full up to the score that this many have by themselves, and by
    #: this share of the rest beyond it.
    lift_place: int = 5
    lift_share: float = 0.1
    #: What a note with nothing of the question loses, in shares of how far its subject is behind
    #: the best one, from which strength it loses nothing, and of how many of its best notes a
    #: subject has the mean.
    subject: float = 0.6
    sufficient: float = 0.6
    subject_notes: int = 5
    #: Days between neighbours by a tag alone, at most.
    neighbour_days: float = 30.0
    #: Days in which recency falls to a quarter.
    recent_days: float = 20.0
    #: Terms of a question: recency grows with them from the first number to the last, and is that
    #: of vaultmem.yaml at the one between.
    recent_terms: tuple[int, int, int] = (6, 9, 24)
    #: The best sections by words whose neighbours and age count, at least; and of these, those
    #: whose words' order is looked at.
    candidates: int = 96
    read: int = 32


#: One configuration for all vaults.
WEIGHTS = RankingWeights()


class Statistics(NamedTuple):
    """Figures of the sections that a query can find.

    `lengths` are the terms of all titles, tags and bodies, `newest` the date of the newest section
    in seconds since the epoch. `counts` has the number of these sections that contain each term of
    the query, `totals` the number of all sections that do, whether the query can find them or not.
    `near` has, for each misspelt word, words of the vault with a similar spelling, each with the
    number of sections that contain its term.
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
    """Return the figures of several vaults as those of one."""
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
