"""Give a share of a section's score to the sections that it links to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

K = TypeVar("K")

#: What a linked section gets of the score of the best section that links to it.
LINK_SHARE = 0.3


def share_scores(
    ranked: Sequence[tuple[K, float]], links: Mapping[K, Sequence[K]], share: float = LINK_SHARE
) -> list[tuple[K, float, K | None]]:
    """Return sections with their new scores, best first, and which one each got a share from.

    `ranked` are sections with their own scores, `links` the sections that each of these links to.
    A share is passed on once: it is of a section's own score, never of what it was given. Among
    equal scores, what came first stays first.
    """
    own = dict(ranked)
    given: dict[K, tuple[float, K]] = {}
    for key, score in ranked:
        for target in links.get(key, ()):
            if target != key and score * share > given.get(target, (0.0, key))[0]:
                given[target] = (score * share, key)
    found = [(key, score + given.get(key, (0.0,))[0], given.get(key)) for key, score in ranked]
    found += [(key, gift[0], gift) for key, gift in given.items() if key not in own]
    found.sort(key=lambda each: -round(each[1], 5))
    return [(key, score, gift[1] if gift else None) for key, score, gift in found]
