"""Search for the nearest words of the vault where it does not have those of a question."""

from __future__ import annotations

from vaultmem.core.finding.query import RecallQuery
from vaultmem.core.finding.spelling import allow_distance, measure_distance
from vaultmem.core.finding.terms import split_words, stem_word
from vaultmem.services.finding.ground import Ground, Near

#: Misspelt words that are looked up, terms that are tried for each, and sections that are read for
#: each of these.
_WORDS = 5
#: Different terms of a question in which one that is not known counts as misspelt, unless all are:
#: in a longer one, it is more often a word that the vault happens not to have.
_FEW = 6
_TRIED = 12
_READ = 4


def respell(ground: Ground, query: RecallQuery) -> RecallQuery:
    """Return the query with similar words for those that no section has which it may find.

    A word among others must be nearer than one alone: it may be right, and the others answer.
    """
    different = [*dict.fromkeys(query.terms)]
    counts = ground.count_terms(different).counts
    known = {term: counts[term] > 0 for term in different}
    is_alone = not any(known.values())
    if all(known.values()) or (
        len(known) > _FEW and (not is_alone or any(ground.count_all(different).values()))
    ):
        return query
    words = dict.fromkeys(split_words(query.text))
    unknown = [word for word in words if not known.get(stem_word(word), True)]
    replaced = _find_words(ground, unknown[:_WORDS], is_alone)
    terms = {stem_word(word): stem_word(other) for word, other in replaced.items()}
    return query._replace(
        terms=tuple(terms.get(term, term) for term in query.terms),
        replaced=tuple(replaced.items()),
        near=frozenset(terms.values()) - frozenset(query.terms),
    )


def _find_words(ground: Ground, words: list[str], is_alone: bool) -> dict[str, str]:
    """Return the nearest word of all vaults, the most frequent of equals, for who has one."""
    most = {word: allow_distance(word, is_alone) for word in words}
    near = ground.find_near({word: far for word, far in most.items() if far}, is_alone)
    tried = {word: sorted(each, key=_order)[:_TRIED] for word, each in near.items()}
    terms = dict.fromkeys(each.term for found in tried.values() for each in found)
    read = ground.read_words([*terms], _READ) if terms else {}
    found = {}
    for word, held in tried.items():
        best = min(
            (
                (measure_distance(word, other, most[word]), -each.sections, other)
                for each in held
                for _, words in read[each.term]
                for other in words
            ),
            default=None,
        )
        if best and best[0] <= most[word]:
            found[word] = best[2]
    return found


def _order(near: Near) -> tuple[int, int, str]:
    return near.distance, -near.sections, near.term
