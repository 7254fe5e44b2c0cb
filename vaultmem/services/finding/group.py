"""Vaults of one process that are asked as some of many: what they tell of one question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from vaultmem.services.reading.heal import heals
from vaultmem.vault import Vault

if TYPE_CHECKING:
    from vaultmem.core.finding.query import NoteFilter
    from vaultmem.services.finding.own_ground import OwnGround


class Group:
    """A vault and those beside it, for one question, which is asked of them as they are now.

    `places` are theirs among all vaults that are asked, in ascending order. What changes meanwhile
    is for the next question, so that what is told first and last belongs together.
    """

    def __init__(self, vault: Vault, places: Sequence[int]) -> None:
        vault.apart = True
        self.vaults = dict(zip(places, vault.together, strict=True))
        self._vault = vault
        self._grounds: dict[NoteFilter, OwnGround | None] = {}

    def tell(self, note_filter: NoteFilter, method: str, args: Sequence[Any]) -> Any:
        """Return what a method of `OwnGround` returns; None where there is no note at all.

        Raises:
            DamagedError: what it read before is no more.
        """
        if note_filter not in self._grounds:
            return _begin(self._vault, self, note_filter, method, args)
        return _call(self._grounds[note_filter], method, args)

    def choose(self, note_filter: NoteFilter) -> OwnGround | None:
        """Return what can be found by a filter, as it is from now on for this question."""
        from vaultmem.services.finding.own_ground import OwnGround
        from vaultmem.services.finding.together import choose_parts

        searched = choose_parts(self._vault, note_filter, [*self.vaults])
        found = None if searched is None else OwnGround(searched, as_part=True)
        self._grounds[note_filter] = found
        return found


@heals
def _begin(
    vault: Vault, group: Group, note_filter: NoteFilter, method: str, args: Sequence[Any]
) -> Any:
    return _call(group.choose(note_filter), method, args)


def _call(ground: OwnGround | None, method: str, args: Sequence[Any]) -> Any:
    return None if ground is None else getattr(ground, method)(*args)
