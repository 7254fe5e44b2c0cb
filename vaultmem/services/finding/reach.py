"""Vaults that are asked as one, wherever they are: what a question does with each of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, TypeVar

from vaultmem.core.finding.hit import Hit
from vaultmem.core.finding.query import RecallQuery
from vaultmem.core.notes.record import find_place, place_number
from vaultmem.services.finding.parts import AS_IT_IS, How
from vaultmem.services.reading.handles import name_notes

if TYPE_CHECKING:
    from vaultmem.config import Config
    from vaultmem.vault import Vault

_T = TypeVar("_T")


class Reach(ABC):
    """The vaults that a question is asked; each has its place among them, the first 0.

    A work is what is done with one vault: a function of a module, or a `partial` of one, for the
    vault may be in another process; what it is given and returns can be pickled. A work knows a
    document by its vault's own number, all others by the one among all (`place_number`).
    """

    @property
    @abstractmethod
    def names(self) -> Sequence[str]:
        """What each vault is called, by its place."""

    @property
    @abstractmethod
    def config(self) -> Config:
        """The settings of the first vault, as it is looked at: they hold for all."""

    @abstractmethod
    def now(self) -> float:
        """Return the time, in seconds since the epoch."""

    @abstractmethod
    def run(
        self, work: Callable[Concatenate[Vault, ...], _T], given: Mapping[int, Sequence[Any]]
    ) -> dict[int, _T]:
        """Do a work with the vaults at some places, each with what is given for it.

        What it returns of each is in the order of the places.
        """

    def keep(
        self, work: Callable[Concatenate[Vault, ...], _T], given: Mapping[int, Sequence[Any]]
    ) -> dict[int, _T]:
        """Have some of the vaults keep what was answered, as `run` does a work.

        Where one cannot be asked any more, the answer stands, and nothing is returned of that one.
        """
        return self.run(work, given)

    @abstractmethod
    def find(self, query: RecallQuery, how: How = AS_IT_IS) -> tuple[RecallQuery, list[Hit]]:
        """Return the query as it was searched, and what answers: as `recall_corrected` does."""

    def each(self, work: Callable[[Vault], _T]) -> list[_T]:
        """Return what a work returns of every vault."""
        return [*self.run(work, dict.fromkeys(range(len(self.names)), ())).values()]

    def best(self, work: Callable[[Vault], Sequence[Hit]], limit: int) -> list[Hit]:
        """Return the best of what a work finds in every vault, those of the first where equal."""
        best = choose_best(self._find_each(work, limit), limit)
        return [hit for place, each in best for hit in self.number([each], place)]

    def _find_each(
        self, work: Callable[[Vault], Sequence[Hit]], limit: int
    ) -> Mapping[int, Sequence[Hit]]:
        """Return what a work finds by place, at least the best so many of all."""
        return self.run(work, dict.fromkeys(range(len(self.names)), ()))

    def change(
        self, hits: Sequence[Hit], work: Callable[[Vault, list[Hit]], Sequence[Hit]]
    ) -> list[Hit]:
        """Return hits as a work makes them of those of each vault.

        What it leaves out or brings changes nothing in the order of the others. Without hits of a
        vault, it is not asked.
        """
        order = {hit.key: n for n, hit in enumerate(hits)}
        given = {place: (own,) for place, own in self.divide(hits).items()}
        placed: list[tuple[int, Hit]] = []
        for place, changed in self.run(work, given).items():
            if len(self.names) == 1:
                return [*changed]
            behind = -1
            of_each: list[tuple[int, Hit]] = []
            for hit in self.number(changed, place):
                behind = order.get(hit.key, behind)
                of_each.append((behind, hit))
            for n in range(len(of_each) - 1, 0, -1):  # What moved up stands before what is behind.
                at = min(of_each[n - 1][0], of_each[n][0])
                of_each[n - 1] = (at, of_each[n - 1][1])
            placed += of_each
        return [hit for _, hit in sorted(placed, key=lambda each: each[0])]

    def divide(self, hits: Iterable[Hit]) -> dict[int, list[Hit]]:
        """Return hits as their own vaults know them, by the places of those that have some."""
        found: dict[int, list[Hit]] = {}
        for hit in hits:
            place = find_place(hit.record.document)
            found.setdefault(place, []).append(_place(hit, -place) if place else hit)
        return dict(sorted(found.items()))

    def number(self, hits: Iterable[Hit], place: int) -> list[Hit]:
        """Return a vault's own hits as they are among those of all, with the vault's name."""
        if len(self.names) == 1:
            return [*hits]
        name = self.names[place]
        return [_place(hit, place)._replace(vault=name) for hit in hits]


def choose_best(found: Mapping[int, Sequence[Hit]], limit: int) -> list[tuple[int, Hit]]:
    """Return the best hits with their vaults' places, those of the first vault where equal."""
    placed = [(place, hit) for place in sorted(found) for hit in found[place]]
    return sorted(placed, key=lambda each: -each[1].score)[:limit]


def _place(hit: Hit, place: int) -> Hit:
    """Return a hit whose document has the number that stands so many places further on."""
    document = place_number(hit.record.document, place)
    return hit._replace(
        record=hit.record._replace(document=document),
        section=hit.section._replace(document=document),
    )


def name_hits(reach: Reach, hits: Iterable[Hit]) -> dict[int, str]:
    """Return for each hit's document the handle that its own vault knows it by."""
    given = {place: (own,) for place, own in reach.divide(hits).items()}
    return {
        place_number(document, place): handle
        for place, handles in reach.run(name_notes, given).items()
        for document, handle in handles.items()
    }


class Together(Reach):
    """A vault and those beside it, in this process."""

    def __init__(self, vault: Vault) -> None:
        self.vault = vault

    @property
    def names(self) -> Sequence[str]:
        """What each vault is called."""
        return [each.name for each in self.vault.together]

    @property
    def config(self) -> Config:
        """The vault's settings."""
        return self.vault.config

    def now(self) -> float:
        """Return the time by the vault's clock."""
        return self.vault.now()

    def run(
        self, work: Callable[Concatenate[Vault, ...], _T], given: Mapping[int, Sequence[Any]]
    ) -> dict[int, _T]:
        """Do a work with some of them, one after the other."""
        vaults = self.vault.together
        return {place: work(vaults[place], *given[place]) for place in sorted(given)}

    def find(self, query: RecallQuery, how: How = AS_IT_IS) -> tuple[RecallQuery, list[Hit]]:
        """Return what answers as of one vault."""
        from vaultmem.services.finding.recall import recall_corrected

        return recall_corrected(self.vault, query, how)
