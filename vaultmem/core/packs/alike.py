"""Which sections of a pack say one thing, so that one is enough."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from vaultmem.core.finding.hit import Hit, NoteKey
from vaultmem.core.finding.terms import count_terms

#: Sections that share fewer of their distinct terms are not looked at more closely: in a short one
#: `3` may stand for `three`.
_SHARE = 0.5


class Shown(NamedTuple):
    """A section as far as others may say the same: its text, and what stands above it."""

    note: NoteKey
    text: str
    name: str

    def says(self, other: Shown) -> bool:
        """Tell whether both state the same, or one with a phrase moved to the other end.

        Nothing else is left out of a pack: one word more or less may be another fact.
        """
        ours, theirs = _find_terms(self.text), _find_terms(other.text)
        if not ours or len(ours & theirs) < _SHARE * len(ours | theirs):
            return False
        from vaultmem.core.similarity.canonical import say_same  # Its tables take time to read.

        return say_same(self.text, other.text, self.name, other.name, may_turn=True)


def show_hit(hit: Hit) -> Shown:
    """Return a section as it is compared with others."""
    return Shown(hit.note, hit.text, f"{hit.record.title} {hit.section.heading}")


@lru_cache(maxsize=256)
def _find_terms(text: str) -> frozenset[str]:
    return frozenset(count_terms(text))
