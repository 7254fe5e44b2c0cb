"""New values of what other vaults hold to be so: facts about one thing, held against each other."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vaultmem.core.similarity.facts import Fact, read_sentence
from vaultmem.core.similarity.updates import Update
from vaultmem.services.fleetwork.signs import Sign
from vaultmem.services.fleetwork.statements import Statements
from vaultmem.services.likeness.updates import pair_facts

#: Facts that are held in memory at once, each as often as it has topics: some 300 MB.
_AT_ONCE = 150_000

#: Yields the statements by number with what is told of the first note of each, as often as asked.
ReadAll = Callable[[], Iterator[tuple[int, Sign]]]


class Opposed(NamedTuple):
    """Two statements of which the newer says a new value; `is_told`: and that it is new."""

    older: int
    newer: int
    update: Update
    is_told: bool


def find_opposed(statements: Statements, read_all: ReadAll) -> list[Opposed]:
    """Return which statements say a new value of what older ones of other vaults say.

    Each older one is named once, with the first that came after it. All are read again for each
    part of the topics, so that memory does not grow with them.
    """
    topics, counts = np.unique(_list_topics(read_all), return_counts=True)
    topics, counts = topics[counts > 1], counts[counts > 1]
    parts = max(1, -(-int(counts.sum()) // _AT_ONCE))
    found: dict[int, Opposed] = {}
    for part in range(parts):
        told = list(_read_facts(statements, read_all, topics[topics % parts == part]))
        told.sort(key=lambda each: (statements.written[each[0]], each[0]))
        for older, newer, update, is_new in pair_facts(told):
            if not statements.are_apart(older, newer):
                continue
            known = found.get(older)
            if known is None or statements.written[newer] < statements.written[known.newer]:
                found[older] = Opposed(older, newer, update, is_new)
    return [found[older] for older in sorted(found)]


def _list_topics(read_all: ReadAll) -> NDArray[np.uint32]:
    """Return the topics of all facts, each as often as it is one."""
    listed = array("I")
    for _, sign in read_all():
        for _, said in sign.facts:
            for topics in said:
                listed.extend(topics)
    return np.frombuffer(listed, np.uint32)


def _read_facts(
    statements: Statements, read_all: ReadAll, topics: NDArray[np.uint32]
) -> Iterator[tuple[int, Sequence[tuple[Fact, Sequence[int]]]]]:
    wanted = {*topics.tolist()}
    for number, sign in read_all():
        facts = [
            (fact, own)
            for sentence, said in sign.facts
            if not wanted.isdisjoint(topic for each in said for topic in each)
            for fact, each in zip(read_sentence(sentence), said, strict=False)
            if (own := [topic for topic in each if topic in wanted])
        ]
        if facts:
            yield number, facts
