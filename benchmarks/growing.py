"""A vault as it was when a question was asked: later notes are there, and count nowhere."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from vaultmem.storage.views import View

if TYPE_CHECKING:
    from vaultmem.core.search.query import NoteFilter
    from vaultmem.vault import Vault


class GrownView(View):
    """The notes of a view whose number is below `asof`; `order` has each by its file's name."""

    def __init__(self, view: View, order: Mapping[str, int], asof: int) -> None:
        self.__dict__.update(copy.copy(view).__dict__)
        self._asof = asof
        self._later = {
            document
            for document, path in view.paths().items()
            if order[PurePosixPath(path).stem] >= asof
        }

    def key(self) -> tuple[object, ...]:
        """Return a value that differs for each moment."""
        return (*super().key(), self._asof)

    def choose(self, note_filter: NoteFilter) -> list[tuple[int, float]]:
        """Return number and time of the documents that were there."""
        return [each for each in super().choose(note_filter) if each[0] not in self._later]


def grow(vault: Vault, order: Mapping[str, int], asof: int | None) -> Vault:
    """Return the vault as it was when it had the notes below `asof`; as it is for None."""
    if asof is None:
        return vault
    return replace(vault, view=GrownView(vault.view, order, asof))
