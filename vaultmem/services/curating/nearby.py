"""Say of notes that are like a text what a caller shows: how much, what, and what differs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from vaultmem.core.similarity.difference import Difference
from vaultmem.services.curating.known import name_contradicted
from vaultmem.services.curating.similar import SimilarNote, says_same
from vaultmem.vault import Vault


class Nearby(NamedTuple):
    """A note that is like a text: how much (0 to 1), what it says, and what it says differently."""

    path: str
    title: str
    state: str
    similarity: float
    says: str
    differences: tuple[Difference, ...]
    is_same: bool
    contradicts: bool


def describe_similar(vault: Vault, found: Sequence[SimilarNote]) -> tuple[Nearby, ...]:
    """Return what is to be shown of each note, in the same order."""
    contradicted = name_contradicted(found)
    return tuple(
        Nearby(
            each.path,
            each.note.title,
            each.note.state.value,
            round(each.likeness.similarity, 3),
            each.likeness.nearest,
            each.likeness.differences,
            says_same(vault, each.likeness),
            each in contradicted,
        )
        for each in found
    )
