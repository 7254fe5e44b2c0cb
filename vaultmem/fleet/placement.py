"""Which shard has which vaults: by hash and weight, so that a change moves no more than it has to.

Each vault ranks all shards by itself (rendezvous hashing). Where one is lost, its vaults alone go
elsewhere, each to the one that it ranks next, so that all others take their share; a new one takes
its own share and nothing else moves. Weights are those of Schindelhauer and Schomaker (Weighted
distributed hash tables, 2005): a score of -w/ln(h), for a hash h between 0 and 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

#: So many vaults are ranked in one go: with 100 shards, this takes some 10 MB.
_AT_ONCE = 4096


class Member(NamedTuple):
    """A shard that can have vaults: on which machine, and how much it takes beside the others."""

    name: str
    node: str
    weight: float = 1.0


def rank_members(vaults: Sequence[str], members: Sequence[Member]) -> NDArray[np.intp]:
    """Return the places of the members as each vault ranks them: a row for each, best first."""
    if not members:
        return np.empty((len(vaults), 0), dtype=np.intp)
    theirs = _hash([each.name for each in members])
    weights = np.array([each.weight for each in members])
    rows = [
        np.argsort(-_score(_hash(vaults[start : start + _AT_ONCE]), theirs, weights), axis=1)
        for start in range(0, len(vaults), _AT_ONCE)
    ]
    return np.concatenate(rows) if rows else np.empty((0, len(members)), dtype=np.intp)


def find_homes(
    vaults: Sequence[str], members: Sequence[Member], copied: Sequence[str] = ()
) -> dict[str, tuple[str, ...]]:
    """Return the members that are to have each vault, by name; its first is where it is written.

    Those that are `copied` have a second, which is on another machine; none where there is none.
    """
    if not members:
        return dict.fromkeys(vaults, ())
    wanted = set(copied)
    homes: dict[str, tuple[str, ...]] = {}
    for vault, row in zip(vaults, rank_members(vaults, members), strict=True):
        first = members[row[0]]
        others = (members[place] for place in row[1:]) if vault in wanted else ()
        second = next((each.name for each in others if each.node != first.node), "")
        homes[vault] = (first.name, second) if second else (first.name,)
    return homes


def group_vaults(
    vaults: Sequence[str], homes: Mapping[str, Sequence[str]], load: Mapping[str, float]
) -> dict[str, list[str]]:
    """Return which member answers for which of the vaults, in their order: as few as can be.

    Of several that have a vault, one that is asked anyway is taken, else the less busy by `load`;
    what nobody has is left out.
    """
    chosen: dict[str, str] = {}
    for vault in vaults:
        if len(have := homes.get(vault, ())) == 1:
            chosen[vault] = have[0]
    asked = set(chosen.values())
    for vault in vaults:
        if len(have := homes.get(vault, ())) > 1:
            anyway = [each for each in have if each in asked] or have
            chosen[vault] = min(anyway, key=lambda each: load.get(each, 0.0))
            asked.add(chosen[vault])
    groups: dict[str, list[str]] = {}
    for vault in vaults:
        if vault in chosen:
            groups.setdefault(chosen[vault], []).append(vault)
    return groups


def _hash(names: Sequence[str]) -> NDArray[np.uint64]:
    digests = (blake2b(each.encode(), digest_size=8).digest() for each in names)
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


def _score(
    vaults: NDArray[np.uint64], members: NDArray[np.uint64], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Mix each pair of hashes by the end of splitmix64, and weigh it."""
    mixed = vaults[:, None] ^ members[None, :]
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    between = (mixed.astype(np.float64) + 0.5) / 2.0**64
    scores: NDArray[np.float64] = -weights / np.log(np.minimum(between, 1 - 2.0**-53))
    return scores
