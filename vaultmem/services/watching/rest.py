"""What a watcher does while nothing happens: embed, dream, compact, sync, have git pack objects."""

from __future__ import annotations

import time
from collections.abc import Iterator

from vaultmem.core.counting import count_things
from vaultmem.services.syncing.unasked import Clock
from vaultmem.services.writing.commit import CommitReport
from vaultmem.vault import Vault

#: Seconds for which notes are embedded before the watcher listens again.
_SLICE = 0.5

#: Seconds between two looks at whether a night has come.
_MINUTE = 60.0

#: `dream_every` and `compact_every` of who wants neither.
_UNASKED = ("never", "never")

#: Seconds between two looks at how git keeps its objects; the first is after so many.
_UPKEEP = 900.0


class Rest:
    """The work of a vault that can wait, done a little at a time."""

    def __init__(self, vault: Vault) -> None:
        self.vault = vault
        self._next_night = 0.0
        self.syncs = Clock(vault)
        self._next_upkeep = time.monotonic() + _UPKEEP

    def embed(self) -> str:
        """Embed some notes if the vault's settings name a model; tell when the last one is done."""
        if self.vault.config.semantic == "off":
            return ""
        from vaultmem.services.embedding.embed import embed_pending

        done = embed_pending(self.vault, _SLICE)
        if done is None or not done.added or done.embedded < done.sections:
            return ""
        return f"{count_things(done.sections, 'section')}, with {done.model}"

    def take_in(self) -> str:
        """Compare some notes that came from elsewhere; tell, after the last, what is to decide."""
        if not self.vault.state.get("arrived"):
            return ""
        from vaultmem.services.upkeep.arrivals import take_in

        found = take_in(self.vault, _SLICE)
        if not found or self.vault.state.get("arrived"):
            return ""
        return f"{len(found):,} to review: `vaultmem review`"

    def keep_small(self) -> Iterator[CommitReport]:
        """Dream and compact as vaultmem.yaml wants once a night has come; yield what is committed.

        Raises:
            VaultError: as for `dream_if_due` and `compact_if_due`.
        """
        now, config = time.monotonic(), self.vault.config
        if now < self._next_night or (config.dream_every, config.compact_every) == _UNASKED:
            return
        self._next_night = now + _MINUTE
        from vaultmem.services.upkeep.compact import compact_if_due
        from vaultmem.services.upkeep.dream import dream_if_due

        if dreamt := dream_if_due(self.vault):
            yield dreamt.report
        if compacted := compact_if_due(self.vault):
            yield from compacted.reports

    def tidy(self) -> str:
        """Have git pack its objects where that is worth it; tell what came of it."""
        now = time.monotonic()
        if now < self._next_upkeep or self.vault.head() is None:
            return ""
        self._next_upkeep = now + _UPKEEP
        from vaultmem.storage.git.upkeep import MANY, may_tidy, measure_objects, tidy_up

        git = self.vault.history.git
        if measure_objects(git).loose < MANY or not may_tidy(git):
            return ""
        return tidy_up(git)
