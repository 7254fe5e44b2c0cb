"""Sections put under their notes: a note stands where its best section does."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from vaultmem.core.finding.hit import Further, Hit
from vaultmem.core.notes.record import SectionRecord

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
    further = (*best.also, *(point_at(hit.section, hit.score) for hit in others))
    return best._replace(also=tuple({each.line: each for each in further}.values())[:_FURTHER])


def point_at(section: SectionRecord, score: float) -> Further:
    """Return what names a section of a note that is shown by another."""
    return Further(section.heading, section.line, score)
