"""What a vault does so that its notes are compared with those of others: it shows some, and asks.

A note that changed since it was told of is passed over; the next run sees it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from vaultmem.core.finding.terms import term_sequence
from vaultmem.core.similarity.compare import KnownText, Likeness
from vaultmem.services.fleetwork.signs import hash_term
from vaultmem.services.likeness.pairs import ask_note, is_nearly_said, may_matter, read_whole
from vaultmem.services.likeness.similar import compare_sections, tell_section, weigh_words
from vaultmem.storage.index.sharing import Sharing
from vaultmem.vault import Vault

#: Characters of a section that are shown; of what is known no more is looked at.
_SHOWN = 20_000

#: Between two notes that say another value of something, and that perhaps say the same.
CONTRADICTION, NEAR = "contradiction", "near"


class Wanted(NamedTuple):
    """A note of which some sections are to be shown, as it was told of (blob id)."""

    path: str
    blob: str
    sections: list[int]


class Asks(NamedTuple):
    """A note that is held against sections of others; `counts` say how frequent its words are.

    They are by hash, of all sections of the vaults that are compared.
    """

    path: str
    blob: str
    counts: Mapping[int, int]
    others: Sequence[Sequence[KnownText]]


class Found(NamedTuple):
    """What came of one note that was held against the one of this number (from 0)."""

    number: int
    kind: str
    similarity: float
    differences: list[list[str]]
    says: str


def read_sections(vault: Vault, wanted: Sequence[Wanted]) -> list[dict[str, KnownText]]:
    """Return, in their order, the texts of notes by section, each with what stands above it."""
    return [_read(vault, each) for each in wanted]


def _read(vault: Vault, wanted: Wanted) -> dict[str, KnownText]:
    note = read_whole(vault, wanted.path)
    if note is None or note.blob != wanted.blob:
        return {}
    sections = [each for each in note.sections if each.ordinal in wanted.sections]
    known = {str(each.ordinal): tell_section(note, each) for each in sections}
    return {key: each._replace(text=each.text[:_SHOWN]) for key, each in known.items()}


def compare_notes(vault: Vault, asked: Sequence[Asks], size: int) -> list[Found]:
    """Return which notes of others contradict those of a vault, or say nearly the same.

    The others are numbered through all that are asked. `size` is of how many sections words are
    counted.
    """
    is_wanted, least = may_matter(vault), vault.config.related_above
    found: list[Found] = []
    number = 0
    for each in asked:
        note = read_whole(vault, each.path)
        if note is not None and note.blob == each.blob:
            text = ask_note(note)
            terms = term_sequence(f"{text.title}\n{text.text}")
            counts = {term: each.counts.get(hash_term(term), 0) for term in terms}
            weigh = weigh_words(Sharing((), (), counts, size).weigh)
            for place, sections in enumerate(each.others, number):
                best = compare_sections(text, sections, weigh, is_wanted)
                if best is not None and best[1].similarity >= least and (kind := _judge(best[1])):
                    found.append(_describe(place, kind, best[1]))
        number += len(each.others)
    return found


def _judge(likeness: Likeness) -> str:
    if likeness.is_contradiction:
        return CONTRADICTION
    return NEAR if is_nearly_said(likeness) else ""


def _describe(number: int, kind: str, likeness: Likeness) -> Found:
    differences = [[e.kind, e.ours, e.theirs] for e in likeness.differences]
    return Found(number, kind, likeness.similarity, differences, likeness.nearest)
