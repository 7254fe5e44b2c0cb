"""When each note was last used on any machine, and how often on this one, through renames."""

from __future__ import annotations

from collections.abc import Iterable

from vaultmem.services.reading.renames import follow_renames, read_renames
from vaultmem.storage.machines import Machine, read_machines
from vaultmem.storage.signals import SignalStore, Surfaced
from vaultmem.vault import Vault


def list_machines(vault: Vault, *, with_usage: bool = False) -> list[Machine]:
    """Return what other machines wrote of this vault, none outside of git."""
    if vault.head() is None:
        return []
    return read_machines(vault.history, vault.state, with_usage=with_usage)


def read_usage(vault: Vault) -> dict[str, Surfaced]:
    """Return all notes that ever surfaced, by path; some may be gone.

    The last use is that on any machine; counts and scores are this machine's.
    """
    now = vault.now()
    own = SignalStore(vault.state, vault.state_folder).surfaced().values()
    others = (
        Surfaced(path, 0, min(at, now), 0.0)
        for machine in list_machines(vault, with_usage=True)
        for path, at in machine.usage.items()
    )
    return _add_up(vault, [*own, *others])


def read_last_uses(vault: Vault) -> dict[str, float]:
    """Return when each note that is here was last used on this machine, by path."""
    own = _add_up(vault, SignalStore(vault.state, vault.state_folder).surfaced().values())
    return {path: own[path].last for path in vault.manifest.paths() if path in own}


def _add_up(vault: Vault, rows: Iterable[Surfaced]) -> dict[str, Surfaced]:
    """Return the sums by the paths that notes have now."""
    listed = list(rows)
    here = set(vault.manifest.paths())
    moved = read_renames(vault) if any(each.path not in here for each in listed) else {}
    found: dict[str, Surfaced] = {}
    for each in listed:
        path = follow_renames(each.path, here, moved)
        known = found.get(path, Surfaced(path, 0, 0.0, 0.0))
        best = max(each.best, known.best)
        found[path] = Surfaced(path, each.times + known.times, max(each.last, known.last), best)
    return found
