"""Compaction: shorten a note's text to its main sentences, then to its main words."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from vaultmem.core.lifecycle import NoteState
from vaultmem.core.notes.edit_properties import add_to_list, get_title, set_property, write_state
from vaultmem.core.notes.note import Note, parse_note
from vaultmem.core.notes.sections import format_keywords
from vaultmem.core.search.terms import stem_word, term_sequence
from vaultmem.core.similarity.statement import split_sentences
from vaultmem.core.text.token_count import count_tokens

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


#: Longer texts are documents, not memories, and are not compacted.
MAX_SENTENCES = 400

_RESTART, _TOPIC_RESTART = 0.15, 0.6
_ROUNDS = 60
_WINDOW = 4

#: Most words that are ranked as keywords; the graph is quadratic in their number.
_MAX_WORDS = 2_000

#: Words as written, with joining marks: `api/refunds.py`, `429`, `v1.2`, `retry-after`.
_WORD = re.compile(r"\d{1,3}(?:,\d{3})+(?!\d)|[^\W_](?:\w|[-./:@](?=\w))*%?")


def rank_sentences(sentences: Sequence[str], topic: str = "") -> list[float]:
    """Return the rank of each sentence, for at most `MAX_SENTENCES`; `topic` is their subject.

    For the topic, each word counts as 1 divided by the number of sentences that contain it.
    """
    import numpy as np

    term_sets = [set(term_sequence(sentence)) for sentence in sentences]
    topic_terms = set(term_sequence(topic))
    counts = Counter(term for terms in term_sets for term in terms & topic_terms)
    topic_scores = np.array(
        [sum(1 / counts[term] for term in terms & topic_terms) for terms in term_sets]
    )
    places = {term: n for n, term in enumerate(sorted(set().union(*term_sets)))}
    matrix = np.zeros((len(term_sets), len(places)))
    for row, terms in enumerate(term_sets):
        matrix[row, [places[term] for term in terms]] = 1.0
    shared = matrix @ matrix.T
    np.fill_diagonal(shared, 0.0)
    sizes = np.array([math.log(len(terms)) if terms else 0.0 for terms in term_sets])
    norm = sizes[:, None] + sizes[None, :]
    weights = np.divide(shared, norm, out=np.zeros_like(shared), where=norm > 0)
    if topic_scores.sum() == 0:
        return _rank(weights, np.full(len(term_sets), _RESTART), _RESTART)
    return _rank(
        weights, _TOPIC_RESTART * len(term_sets) * topic_scores / topic_scores.sum(), _TOPIC_RESTART
    )


def find_keywords(text: str, limit: int) -> list[str]:
    """Return the most important words, as written and in order.

    Numbers, names and identifiers come first, because a text rarely repeats them in other words.
    """
    import numpy as np

    words = [word for word in _WORD.findall(text) if _key(word)][:_MAX_WORDS]
    first: dict[str, str] = {}
    for word in words:
        first.setdefault(_key(word), word)
    places = {key: n for n, key in enumerate(first)}
    graph = np.zeros((len(places), len(places)))
    row = [places[_key(word)] for word in words]
    for index, source in enumerate(row):
        for target in row[index + 1 : index + _WINDOW]:
            if source != target:
                graph[source, target] = graph[target, source] = 1.0
    ranks = _rank(graph, np.full(len(places), _RESTART), _RESTART) if places else []
    names = {key for key, word in first.items() if _is_name(word)}
    order = sorted(places, key=lambda key: (key not in names, -ranks[places[key]], places[key]))
    top_keys = set(order[:limit])
    return [word for key, word in first.items() if key in top_keys]


def _rank(weights: NDArray[np.float64], start: NDArray[np.float64], restart: float) -> list[float]:
    """Return the PageRank values of a weighted graph, rounded so that ties stay ties.

    `start` is the initial value of each node, `restart` on average.
    """
    import numpy as np

    out = weights.sum(axis=1, keepdims=True)
    share = np.divide(weights, out, out=np.zeros_like(weights), where=out > 0)
    rank = np.ones(len(weights))
    for _ in range(_ROUNDS):
        rank = start + (1 - restart) * (share.T @ rank)
    return [round(float(value), 6) for value in rank]


def _key(word: str) -> str:
    """Return a key that is equal for equivalent words; "" for stop words."""
    return stem_word(word.lower()) if word.isalpha() else word.lower()


def _is_name(word: str) -> bool:
    return not word.isalpha() or any(mark.isupper() for mark in word[1:])


#: Approximate share of a text's tokens in a summary, and the number of keywords.
SUMMARY_SHARE = 0.2
KEYWORDS = 8

#: Longer texts, in characters, are documents, not memories, and stay.
_MAX_MEMORY_CHARS = 40_000

#: Fewest tokens of a text to compact, and largest share of it that a step can leave.
_MIN_COMPACTION_TOKENS = 48
_MAX_COMPACTED_SHARE = 0.7


class Fidelity(StrEnum):
    """The compaction level of a note's text; `full` without the property."""

    FULL = "full"
    SUMMARY = "summary"
    KEYWORDS = "keywords"


class DecayStep(StrEnum):
    """A step of a note's decay; `archived` keeps the text."""

    SUMMARY = "summary"
    KEYWORDS = "keywords"
    ARCHIVED = "archived"


class DecayAges(NamedTuple):
    """Days since the last access after which each step is due."""

    summary: int
    keywords: int
    archive: int


def read_fidelity(note: Note) -> Fidelity:
    """Return the compaction level in a note's properties."""
    prop = note.frontmatter.get("fidelity")
    value = prop.value.strip().lower() if prop and isinstance(prop.value, str) else ""
    return Fidelity(value) if value in set(Fidelity) else Fidelity.FULL


def is_short(note: Note) -> bool:
    """Return whether a note's text is full and too short for compaction."""
    return read_fidelity(note) is Fidelity.FULL and count_tokens(note.body) < _MIN_COMPACTION_TOKENS


def plan_step(
    note: Note,
    idle: float,
    ages: DecayAges,
    queries: Sequence[str] = (),
    original: Note | None = None,
    full_text: str = "",
) -> tuple[DecayStep, str] | None:
    """Return the due decay step of a note and its new text, after `idle` days without access.

    Of several due steps the last is returned; None if no step is due or worth it. `queries` are
    earlier queries that returned the note. `original` is the note before compaction, and
    `full_text` its location (see `core.notes.sections`).
    """
    level = read_fidelity(note)
    if idle >= ages.archive:
        # The commit records the reason.
        return DecayStep.ARCHIVED, write_state(note.text, NoteState.ARCHIVED)
    if idle >= ages.keywords and level is not Fidelity.KEYWORDS:
        text = shorten_note(note, Fidelity.KEYWORDS, queries, original, full_text)
        return (DecayStep.KEYWORDS, text) if text else None
    if ages.summary <= idle < ages.keywords and level is Fidelity.FULL:
        text = shorten_note(note, Fidelity.SUMMARY, queries, None, full_text)
        return (DecayStep.SUMMARY, text) if text else None
    return None


def shorten_note(
    note: Note,
    level: Fidelity,
    queries: Sequence[str] = (),
    original: Note | None = None,
    full_text: str = "",
) -> str:
    """Return a note's text with a shorter body, or "" if it would gain too little.

    Sentences about the title and `queries` are preferred. Keywords come from the `original`, if the
    note was compacted before. A title and tags that were only in the body become properties, so
    they are not lost.
    """
    if is_short(note) or len(note.body) > _MAX_MEMORY_CHARS:
        return ""
    topic = "\n".join((note.title, *queries))
    is_summary = level is Fidelity.SUMMARY
    parts = list(_summarise(note, topic)) if is_summary else [_format_keywords(original or note)]
    eol = "\r\n" if "\r\n" in note.text else "\n"
    body = "\n\n".join(part for part in parts if part)
    if not body or count_tokens(body) > _MAX_COMPACTED_SHARE * count_tokens(
        (original or note).body
    ):
        return ""
    text = f"{note.text[: note.frontmatter.body]}{eol}{body.replace(chr(10), eol)}{eol}"
    text = get_title(text, note.path, note.title)
    new_note = parse_note(note.path, text.encode("utf-8"))
    lost_tags = tuple(tag for tag in note.tags if tag not in new_note.tags)
    text = set_property(add_to_list(text, new_note, "tags", lost_tags), "fidelity", level.value)
    text = set_property(text, "full_text", full_text) if full_text else text
    return text if count_tokens(text) < count_tokens(note.text) else ""


def _summarise(note: Note, topic: str) -> Iterator[str]:
    """Yield the main sentences in order, under their headings."""
    places = list(_list_sentences(note))
    if not places or len(places) > MAX_SENTENCES:
        return
    sentences = [sentence for _, sentence in places]
    costs = [count_tokens(sentence) for sentence in sentences]
    ranks = rank_sentences(sentences, topic)
    budget = SUMMARY_SHARE * sum(costs)
    indexes: set[int] = set()
    for place in sorted(range(len(places)), key=lambda n: (-ranks[n], n)):
        if indexes and costs[place] > budget:
            continue
        indexes.add(place)
        budget -= costs[place]
        if budget <= 0:
            break
    last_heading = ""
    for heading, group in _group((places[place]) for place in sorted(indexes)):
        if heading and heading != last_heading:
            yield heading
        last_heading = heading
        yield group


def _group(places: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield the sentences of a heading as one paragraph, with list items on their own lines."""
    last, parts = "", ""
    for heading, sentence in places:
        if parts and heading == last:
            is_line = sentence.startswith(("- ", "* ", "+ ", "```", "|")) or "\n" in sentence
            parts += ("\n" if is_line else " ") + sentence
            continue
        if parts:
            yield last, parts
        last, parts = heading, sentence
    if parts:
        yield last, parts


def _list_sentences(note: Note) -> Iterator[tuple[str, str]]:
    """Yield each sentence with its heading's line; lines of only tags are skipped."""
    for section in note.sections:
        above = note.text[: section.start].rstrip().rpartition("\n")[2].strip()
        heading = above if section.heading and above.startswith("#") else ""
        for sentence in split_sentences(note.section_text(section)):
            if any(not word.startswith("#") for word in sentence.split()):
                yield heading, sentence


def _format_keywords(note: Note) -> str:
    text = "\n".join(note.section_text(section) for section in note.sections)
    title = set(note.title.casefold().split())
    words = [word for word in find_keywords(text, KEYWORDS) if word.casefold() not in title]
    return format_keywords(words)
