"""What a question is searched in: one vault's index, or several that count as one.

The words are scored in each by itself; before, all give their figures (`Statistics`), so that the
scores compare. What a part is told and tells for that are plain values: terms, figures, and rows
with their scores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from vaultmem.core.finding.statistics import Statistics, add_statistics
from vaultmem.core.finding.terms import mark_speaker
from vaultmem.vault import Vault

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from vaultmem.core.finding.eligible import EligibleRows
    from vaultmem.core.finding.ranking import Share
    from vaultmem.core.finding.reranking import Reranker
    from vaultmem.storage.index.snapshot import Snapshot

#: Rows of terms whose part is kept for the next question, each 16 bytes.
_KEPT_SHARES = 4_000_000

#: Terms of which is kept how many sections have them.
_KEPT_COUNTS = 8_192


class Scorer(Protocol):
    """Scores sections by meaning."""

    @property
    def weight(self) -> float:
        """The share of the words in the blend, 0 to 1."""

    def __call__(
        self, text: str, eligible: NDArray[np.bool_], snapshot: Snapshot
    ) -> NDArray[np.float32] | None:
        """Return a number for each row, nan where it has no vector; None without an answer."""


class How(NamedTuple):
    """How a question is searched: by meaning too (`dense`), the best read again by a `reranker`.

    Behind those asked for come `beyond` more, which change nothing in them. `by_note` counts notes,
    and finds the best section of each. Where it `corrects`, misspelt words are searched as others.
    """

    dense: Scorer | None = None
    beyond: int = 0
    reranker: Reranker | None = None
    by_note: bool = False
    corrects: bool = False


#: By its words alone, as they are.
AS_IT_IS = How()


class Part(NamedTuple):
    """A vault, its index, and what of it can be found.

    `place` is its place among the vaults that are asked, `first` the number of its first row among
    those of all.
    """

    vault: Vault
    snapshot: Snapshot
    eligible: EligibleRows
    place: int = 0
    first: int = 0

    def count_terms(self, terms: Sequence[str]) -> Statistics:
        """Return this vault's figures for a question."""
        from vaultmem.core.finding.ranking import count_rows

        known = self.eligible.kept.setdefault("counts", {})
        if len(known) > _KEPT_COUNTS:
            known.clear()
        for term in terms:
            if term not in known:
                known[term] = count_rows(self.snapshot.term(term)[0], self.eligible)
        return Statistics(counts={term: known[term] for term in terms})

    def score_terms(
        self, asked: Mapping[str, float], statistics: Statistics, total: NDArray[np.float32]
    ) -> list[Share]:
        """Return what each term gives to which rows, and add it to their `total`.

        The terms are given with what they count for, `statistics` are those of all who are asked.
        """
        from vaultmem.core.finding import ranking as rules

        gains = [
            (rules.measure_idf(statistics.sections, statistics.counts[term]), weight)
            for term, weight in asked.items()
        ]
        if self.is_alone:
            known = zip(asked, gains, strict=True)
            shares = [
                rules.weigh_share(self._score_term(term, idf), weight)
                for term, (idf, weight) in known
            ]
            rules.add_shares(shares, total)
            return shares
        postings = list(map(self.snapshot.term, asked))
        frequencies = _weigh_counts(self.snapshot)
        shares = rules.score_terms(postings, gains, frequencies, self.eligible, total)
        if not self.has_turns:
            return shares
        said = [self.snapshot.term(mark_speaker(term))[0] for term in asked]
        return [each._replace(said=rows) for each, rows in zip(shares, said, strict=True)]

    @property
    def is_alone(self) -> bool:
        """Tell whether no other vault is asked, here or elsewhere."""
        return not (self.place or self.vault.beside or self.vault.apart)

    @property
    def has_turns(self) -> bool:
        """Tell whether a section says who said it; most vaults spare the look-up of each term."""
        return len(self.snapshot.term(mark_speaker(""))[0]) > 0

    def _score_term(self, term: str, idf: float) -> Share:
        """Return a term's part, kept for the next question that has the term."""
        from vaultmem.core.finding.ranking import score_term

        kept = self.eligible.kept.setdefault("terms", {})
        if term not in kept:
            held = self.eligible.kept.setdefault("held", {"rows": 0})
            if held["rows"] > _KEPT_SHARES:
                kept.clear()
                held["rows"] = 0
            said, _ = self.snapshot.term(mark_speaker(term if self.has_turns else ""))
            frequencies = _weigh_counts(self.snapshot)
            postings = self.snapshot.term(term)
            kept[term] = score_term(postings, said, frequencies, self.eligible, idf)
            held["rows"] += len(kept[term].rows)
        found: Share = kept[term]
        return found


class Searched(NamedTuple):
    """What a question is asked: the parts, and all their rows, numbered through.

    `documents` and `ordinals` are those of the rows; a document's number is one among all.
    `recency` is the share of the score that the first vault gives to what is new.
    """

    parts: Sequence[Part]
    eligible: EligibleRows
    documents: NDArray[np.integer[Any]]
    ordinals: NDArray[np.integer[Any]]
    recency: float

    def count_terms(self, terms: Sequence[str]) -> Statistics:
        """Return the figures of all for a question."""
        counted = [part.count_terms(terms) for part in self.parts]
        return add_statistics([self.eligible.statistics, *counted])


def _weigh_counts(snapshot: Snapshot) -> NDArray[np.float32]:
    """Return the weighted frequency for each code of counts, kept for the next term."""
    from vaultmem.core.finding.ranking import weigh_counts
    from vaultmem.core.finding.weights import WEIGHTS

    if "frequencies" not in snapshot.kept:
        snapshot.kept["frequencies"] = weigh_counts(snapshot.counts, WEIGHTS)
    known: NDArray[np.float32] = snapshot.kept["frequencies"]
    return known
