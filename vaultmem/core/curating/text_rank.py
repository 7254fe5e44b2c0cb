"""TextRank: the sentences and words of a text that the others lead to.

Source: Mihalcea and Tarau, "TextRank: Bringing Order into Texts" (EMNLP 2004). Sentences are joined
by what they share, |words of both| / (ln |a| + ln |b|); words by standing within a window of four.
The rank is PageRank's: the walk starts anew anywhere with 0.15; or, where a topic is given, with
0.6 and at what shares words with it, after Otterbacher, Erkan and Radev, "Using Random Walks for
Question-focused Sentence Retrieval" (HLT/EMNLP 2005). Nothing is random; equal ranks go by place.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from vaultmem.core.finding.terms import stem_word, term_sequence

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: Longer texts are documents, not memories, and stay as they are.
MAX_SENTENCES = 400

_RESTART, _TOPIC_RESTART = 0.15, 0.6
_ROUNDS = 60
_WINDOW = 4

#: Words that are looked at for keywords: the graph has a place for each pair of them.
_MAX_WORDS = 2_000

#: Words as written, with what joins them: `api/refunds.py`, `429`, `v1.2`, `retry-after`.
_WORD = re.compile(r"\d{1,3}(?:,\d{3})+(?!\d)|[^\W_](?:\w|[-./:@](?=\w))*%?")


def rank_sentences(sentences: Sequence[str], topic: str = "") -> list[float]:
    """Return the rank of each sentence, of `MAX_SENTENCES` at most; `topic` is what they are about.

    Only words that set sentences apart count for the topic: each as its share of the others.
    """
    import numpy as np

    found = [set(term_sequence(sentence)) for sentence in sentences]
    wanted = set(term_sequence(topic))
    often = Counter(term for terms in found for term in terms & wanted)
    about = np.array([sum(1 / often[term] for term in terms & wanted) for terms in found])
    places = {term: n for n, term in enumerate(sorted(set().union(*found)))}
    has = np.zeros((len(found), len(places)))
    for row, terms in enumerate(found):
        has[row, [places[term] for term in terms]] = 1.0
    shared = has @ has.T
    np.fill_diagonal(shared, 0.0)
    sizes = np.array([math.log(len(terms)) if terms else 0.0 for terms in found])
    norm = sizes[:, None] + sizes[None, :]
    weights = np.divide(shared, norm, out=np.zeros_like(shared), where=norm > 0)
    if about.sum() == 0:
        return _rank(weights, np.full(len(found), _RESTART), _RESTART)
    return _rank(weights, _TOPIC_RESTART * len(found) * about / about.sum(), _TOPIC_RESTART)


def find_keywords(text: str, limit: int) -> list[str]:
    """Return the words that say most, as written and in their order.

    Numbers, names and identifiers come first: nothing else in a text says them again.
    """
    import numpy as np

    words = [word for word in _WORD.findall(text) if _key(word)][:_MAX_WORDS]
    first: dict[str, str] = {}
    for word in words:
        first.setdefault(_key(word), word)
    places = {key: n for n, key in enumerate(first)}
    near = np.zeros((len(places), len(places)))
    row = [places[_key(word)] for word in words]
    for at, one in enumerate(row):
        for other in row[at + 1 : at + _WINDOW]:
            if one != other:
                near[one, other] = near[other, one] = 1.0
    ranks = _rank(near, np.full(len(places), _RESTART), _RESTART) if places else []
    names = {key for key, word in first.items() if _is_name(word)}
    order = sorted(places, key=lambda key: (key not in names, -ranks[places[key]], places[key]))
    kept = set(order[:limit])
    return [word for key, word in first.items() if key in kept]


def _rank(weights: NDArray[np.float64], start: NDArray[np.float64], restart: float) -> list[float]:
    """Return PageRank's values of a graph with these weights, rounded so that ties are ties.

    `start` is what each node has by itself, `restart` on average.
    """
    import numpy as np

    out = weights.sum(axis=1, keepdims=True)
    share = np.divide(weights, out, out=np.zeros_like(weights), where=out > 0)
    rank = np.ones(len(weights))
    for _ in range(_ROUNDS):
        rank = start + (1 - restart) * (share.T @ rank)
    return [round(float(value), 6) for value in rank]


def _key(word: str) -> str:
    """Return what makes two words the same; empty for little words."""
    return stem_word(word.lower()) if word.isalpha() else word.lower()


def _is_name(word: str) -> bool:
    return not word.isalpha() or any(mark.isupper() for mark in word[1:])
